/* lines of a head -> what they say of the object */
/* SPDX-License-Identifier: Apache-2.0 */
/* Pure: no clock, no lock, no memory. What is said wrongly is as if it was not said. */
#ifndef STK_SRC_STORE_HTTP_HEAD_H
#define STK_SRC_STORE_HTTP_HEAD_H

#include "base/base.h"

#define STK__HTTP_UNSAID UINT64_MAX

typedef struct stk__http_head {
    int32_t code;
    bool complete;          /* the empty line came: what follows are trailers */
    bool has_range;         /* Content-Range was there and understood */
    bool wrong_range;       /* it was there and not */
    bool encoded;           /* Content-Encoding other than identity */
    bool framed;            /* the end of the body is told, whether its length is or not */
    uint64_t first, last;   /* of `has_range`; STK__HTTP_UNSAID: "*" */
    uint64_t total;         /* of the whole object, by Content-Range */
    uint64_t length;        /* of the body */
    int64_t mtime_ns;       /* 0: not said */
    uint64_t retry_after_s; /* STK__HTTP_UNSAID: not said as a number */
    int64_t retry_at_ns;    /* Unix time; 0: not said as a date */
    int64_t date_ns;        /* of the server; 0: not said */
    char etag[128], region[32], content_type[64], location[2048];
} stk__http_head;

void stk__http_head_init(stk__http_head *head);
/* A line as it came, with its end; the status line begins anew. */
void stk__http_head_line(stk__http_head *head, const char *line, size_t length);
/* Of ETag, else of size and Last-Modified; never 0 but where nothing was said. */
uint64_t stk__http_identity(const char *etag, uint64_t size, int64_t mtime_ns);
/* An ETag that holds byte for byte, as If-Match wants it [RFC 9110, 8.8.3]. */
bool stk__http_etag_strong(const char *etag);
/* How long Retry-After asks to wait, an hour at most; 0: it was not said. */
uint64_t stk__http_retry_after(const stk__http_head *head, int64_t wall_ns);

#endif
