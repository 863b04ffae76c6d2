/* options, bucket, region -> the host that is asked, and how the bucket is named there */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_ENDPOINT_H
#define STK_SRC_STORE_S3_ENDPOINT_H

#include "base/text.h"

#define STK__S3_BUCKET 64  /* bytes of the name of a bucket, with its end */
#define STK__S3_HOST   320 /* bytes of a host with its port */

/* What is wished. */
typedef struct stk__s3_where {
    const char *endpoint; /* "https://HOST[:PORT]"; NULL: that of `google`, or of the region */
    const char *region;
    int32_t style; /* STK__S3_AUTO: by name of host on Amazon's, where the bucket's name can be
                      part of one; else in the path */
    bool google;
    bool allow_http; /* credentials may go over plain HTTP to another machine */
    bool anonymous;
} stk__s3_where;

enum { STK__S3_AUTO, STK__S3_VIRTUAL, STK__S3_PATH };

typedef struct stk__s3_endpoint {
    char url[STK__S3_HOST + 8]; /* scheme, host, port */
    char host[STK__S3_HOST];    /* as the header Host has it */
    char bucket[STK__S3_BUCKET];
    bool in_path;
} stk__s3_endpoint;

/*
 * Errors: STK_EINVAL for a bucket, a region or an endpoint whose name is none, and for plain http
 * to another machine with credentials.
 */
stk_status stk__s3_endpoint_make(const stk__s3_where *where, const char *bucket,
                                 stk__s3_endpoint *out, stk_error *err);

/* Append the path of a key, "/bucket/key", escaped. */
void stk__s3_endpoint_path(const stk__s3_endpoint *endpoint, const char *key, stk__text *out);

/* Take "//BUCKET/PREFIX" apart. `prefix` is "" or ends in '/', of STK_MAX_OBJECT_KEY bytes. */
stk_status stk__s3_url_take(const char *path, size_t length, char bucket[STK__S3_BUCKET],
                            char *prefix, stk_error *err);

/* Whether the host of "http://HOST..." is this machine. */
bool stk__s3_loopback(const char *url);
/* What ends the hosts of Amazon in a region: "" or ".cn". */
const char *stk__s3_host_end(const char *region);

#endif
