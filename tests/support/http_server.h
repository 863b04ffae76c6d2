/* A web server of the tests: objects in memory or below a folder, and faults at a test's word. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_HTTP_SERVER_H
#define STK_TESTS_SUPPORT_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* It listens on 127.0.0.1 and speaks HTTP/1.1: GET and HEAD with a range (a-b, a-, -n), PUT,
 * DELETE, If-Match and If-None-Match; to whom takes it for a proxy it answers as every server. All
 * functions may be called from any thread; what answers
 * runs on threads of the server, which stop with it. */
typedef struct http_server http_server;

/* A request, for the time of a call. Names and targets are as they came but for `path`. */
typedef struct http_request {
    const char *method;
    const char *target;  /* path and query */
    const char *path;    /* decoded, without the query */
    const char *query;   /* behind the '?'; "" where there is none */
    const char *headers; /* lines that end in "\r\n" */
    const void *body;
    size_t body_length;
    uint64_t number;     /* of the server's requests, from 0 */
    uint64_t connection; /* of its connections, from 0 */
} http_request;

/* The value of a header, whatever the case of its name, in `value`: NULL where there is none. */
const char *http_header(const http_request *request, const char *name, char *value, size_t size);

/* How an answer ends before its time. */
typedef enum http_cut {
    HTTP_UNCUT,
    HTTP_CLOSE, /* the connection ends in order */
    HTTP_RESET, /* by a reset, once what was sent has arrived */
    HTTP_STALL, /* nothing more comes; the connection stays until the client ends it */
} http_cut;

/* Places of a cut in front of the body. */
#define HTTP_BEFORE_HEAD (-1)
#define HTTP_WITHIN_HEAD (-2)

typedef enum http_chunks {
    HTTP_PLAIN,
    HTTP_CHUNKED,         /* as it should be */
    HTTP_CHUNKED_BADLY,   /* the size of the second chunk is no number */
    HTTP_CHUNKED_ENDLESS, /* no last chunk: the connection ends in front of it */
} http_chunks;

/* Which requests are struck, and by what. Zero in a field is "no such thing". */
typedef struct http_fault {
    /* Which: all that match. */
    const char *method;
    const char *path;  /* of the decoded path, a pattern of fnmatch(): '*' matches '/' as well */
    const char *query; /* text that the query contains */
    uint64_t skip;     /* so many that match are left alone first */
    uint64_t count;    /* so many are struck then; 0: all */
    double chance;     /* of being struck, 0 to 1, by the server's seed; 0: for certain */
    uint32_t for_ms;   /* from now on */
    uint64_t above;    /* those that come while so many others are being answered, or more */
    bool at_accept;    /* connections: `latency_ms`, then `cut`; at 0 at once, else at the first
                        * byte that comes; without a cut they go on */
    /* Time. */
    uint32_t latency_ms; /* until the first byte */
    uint64_t bandwidth;  /* bytes of the body a second */
    /* The end. */
    http_cut cut;
    int64_t at;     /* byte of the body, as it is sent; or one of the places above */
    bool in_upload; /* `cut` and `bandwidth` are of the body of the request; one that is cut does
                     * nothing */
    /* The answer instead: with one of these nothing is done. A status below 300 needs a code or a
     * body. */
    int status;
    const char *code;     /* error in XML as S3 has it; alone: status 400 */
    const char *body;     /* with its own Content-Length */
    const char *location; /* redirect; alone: status 302 */
    uint64_t part;        /* bytes of a range that are answered at most */
    bool whole;           /* Range is not looked at: 200 and all of it */
    /* The head. */
    int retry_after;       /* seconds */
    bool retry_after_date; /* as a date */
    const char *header;    /* more lines, each with its "\r\n" */
    const char *etag;      /* "": none */
    bool etag_changes;     /* another for every answer */
    const char *range;     /* Content-Range; "": none */
    int64_t range_off;     /* added to both ends in Content-Range */
    int64_t length_off;    /* added to Content-Length */
    bool no_length;        /* no Content-Length: the body ends with the connection */
    int64_t date_off;      /* seconds added to Date */
    const char *encoding;  /* Content-Encoding of a body that has none */
    const char *before;    /* text in front of the head: others, of status 1xx */
    bool endless_head;     /* header after header, 64 MiB of them, then the end */
    /* The body. */
    http_chunks chunks;
    uint64_t extra; /* bytes behind it that Content-Length does not count */
    uint64_t flip;  /* 1 + place in the body of a byte that is another */
} http_fault;

/* Sees every request when it is complete, one at a time, before it is answered. `fault` is what
 * strikes it, for the callback to change; its texts are copied after the call returns, while no
 * other call runs. */
typedef void http_seen(void *user, const http_request *request, http_fault *fault);

typedef struct http_server_options {
    const char *root;        /* folder of the objects; NULL: in memory */
    int port;                /* 0: any that is free */
    int threads;             /* 0: one */
    uint64_t seed;           /* of chances */
    const char *token;       /* asked for as "Authorization: Bearer TOKEN"; NULL: none is */
    bool s3;                 /* "/BUCKET/KEY": lists, uploads in parts and errors as S3 has them */
    bool mlflow;             /* answers below "/api/2.0/mlflow/" as a tracking server does */
    bool control;            /* answers below "/-/", see tests/cloud/README.md */
    const char *certificate; /* TLS, with `key`: files in PEM */
    const char *key;
    http_seen *seen;
    void *user;
} http_server_options;

/* NULL: could not start, errno says why. */
http_server *http_server_start(const http_server_options *options);
/* Connections that are open are reset. */
void http_server_stop(http_server **server);

/* "http://127.0.0.1:PORT", or https. */
const char *http_server_url(const http_server *server);
int http_server_port(const http_server *server);

/* Objects, by their decoded path: "/folder/name". False: no memory, or the file system's errno. */
bool http_server_put(http_server *server, const char *path, const void *data, size_t length);
bool http_server_remove(http_server *server, const char *path);
/* A copy for the caller to free, with a zero behind it; NULL: no such object. */
void *http_server_get(http_server *server, const char *path, size_t *length);

/* Names of objects that are there for lists alone and take no memory: `count` of them below a
 * folder, "/bucket/train/", in folders of `each` (0: in none): "c000012/i00012345.jpg", of `size`
 * bytes. */
void http_server_generate(http_server *server, const char *folder, uint64_t count, uint64_t each,
                          uint64_t size);

/* Of the faults that match a request the first strikes. The texts are copied. The number of the
 * fault, from 1; 0: no memory. */
int http_server_fault(http_server *server, const http_fault *fault);
/* One from words "path=/a*,count=3,status=503", the names of the fields above with '-' for '_';
 * cut is close, reset or stall, at may be before-head or within-head, chunks is good, badly or
 * endless. 0: not understood. */
int http_server_fault_text(http_server *server, const char *text);
/* How many it has struck. */
uint64_t http_server_struck(http_server *server, int fault);
/* Of a server with `mlflow`: all that it holds, as JSON, for the caller to free; NULL: no memory.
 */
char *http_server_mlflow(http_server *server);
/* No faults from now on. */
void http_server_mend(http_server *server);

/* For all requests, faulty or not: until the first byte; of a connection; of all together. */
void http_server_shape(http_server *server, uint32_t latency_ms, uint64_t bandwidth,
                       uint64_t bandwidth_all);
/* Another token is asked for. */
void http_server_token(http_server *server, const char *token);
/* Whether connections are taken. False: they are refused; those that are open stay. */
bool http_server_listen(http_server *server, bool listening);
/* Reset all open connections; they are when it returns. */
void http_server_drop(http_server *server);

typedef struct http_counters {
    uint64_t requests;    /* complete ones */
    uint64_t ranges;      /* of them with Range */
    uint64_t heads;       /* HEAD */
    uint64_t changes;     /* PUT, POST, DELETE */
    uint64_t lists;       /* of S3 */
    uint64_t failed;      /* answered with a status from 400 on */
    uint64_t struck;      /* by a fault */
    uint64_t bytes_sent;  /* of bodies */
    uint64_t bytes_taken; /* of bodies */
    uint64_t connections;
    uint64_t open;             /* connections now */
    uint64_t most_connections; /* at once */
    uint64_t active;           /* requests now: complete, and not answered to the end */
    uint64_t most_requests;    /* at once */
    uint64_t rounds; /* requests that came one after another was answered, as far as the longest
                      * such chain: with a latency those that depend on each other */
} http_counters;

http_counters http_server_counters(http_server *server);
/* All of them at zero but for what there is now. */
void http_server_reset_counters(http_server *server);

#endif
