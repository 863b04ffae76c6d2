/* a request -> its answer, over HTTP */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_HTTP_HTTP_H
#define STK_SRC_STORE_HTTP_HTTP_H

#include <xxhash.h>

#include "store/store.h"

/*
 * One thread of a context, "stk-http", carries the exchanges of all its clients; nothing waits on
 * it. A *client* is that of one store: its endpoint and its options. An *exchange* is one request
 * that is tried until it is answered: what failed for a reason that may pass is tried again here,
 * and nowhere else, from the bucket of its host; a body that was cut goes on from its offset; what
 * is late is asked for a second time.
 *
 * Invariants: an exchange that was sent ends exactly once, by done(), with no lock held; nothing of
 * it is touched afterwards; no byte is in `data` that another version of the object than
 * `identity` had, where it ends with STK_OK.
 */
typedef struct stk__http_client stk__http_client;
typedef struct stk__http_exchange stk__http_exchange;

/* Headers of one try: appended by the owner of a client. */
typedef struct stk__http_headers stk__http_headers;
/* Errors: STK_ENOMEM; STK_EINVAL for a line end within. */
stk_status stk__http_headers_add(stk__http_headers *headers, const char *name, const char *value,
                                 stk_error *err);

/* What the owner of a client may add to plain HTTP, on the thread of all clients: nothing in it may
 * wait. Members may be NULL. A client with `authorize` never follows a redirect. */
typedef struct stk__http_hooks {
    /* Before each try: sign it. STK_EAGAIN: not now, stk__http_client_wake() says when to ask
     * again. Range, If-Match and If-None-Match are the client's own and come on top. */
    stk_status (*authorize)(void *user, const stk__http_exchange *exchange,
                            stk__http_headers *headers, stk_error *err);
    /* Of an answer that is not 2xx, with the first 64 KiB of its body, or of one with `look` of the
     * exchange, with all of it. STK_OK: the usual judgement of the code. STK_EAGAIN: to be tried
     * again, after authorize(). Else the status that it fails with, and the text of the error. */
    stk_status (*judge)(void *user, stk__http_exchange *exchange, const char *body, size_t length,
                        stk_error *err);
} stk__http_hooks;

/* Zero bytes in what is not named. */
struct stk__http_exchange {
    /* Set by the caller; stays until done() has run. */
    const char *method;      /* GET HEAD PUT POST DELETE */
    const char *target;      /* path and query as they go on the wire: "/bucket/key?list-type=2" */
    uint64_t offset, length; /* of a GET with `data`: bytes wanted, at least one */
    void *data;              /* `length` bytes; NULL: the body goes into `text` */
    bool up_to;              /* the object may end within the range, or before it */
    bool from_end;           /* the last `length` bytes; `offset` is then found out */
    bool secret;             /* the answer is one: it is wiped where curl had it */
    bool look;               /* judge() looks at a 2xx as well: it may hold an error */
    const void *body;        /* PUT, POST */
    /* PUT: the body in place of `body`, any part of it and again; on the thread of all clients. */
    bool (*read_body)(void *user, uint64_t at, void *to, size_t length);
    void *body_user;
    uint64_t body_length;
    const char *body_type;   /* Content-Type; NULL: none */
    const char *body_sha256; /* hex, for those who sign; NULL: unknown */
    uint64_t most;           /* bytes of `text` at most; more fails with STK_ELIMIT */
    const char *if_match;    /* ETag that has to hold, as it came; NULL: none */
    bool if_none_match;      /* PUT: STK_EEXIST where the object is there */
    uint64_t pinned;         /* identity that has to hold, else STK_ECHANGED; 0: any */
    uint64_t deadline_ns;    /* monotonic, waits and retries included; 0: none */
    void (*done)(stk__http_exchange *exchange, stk_status status); /* may not wait; may send */
    void *user;
    /* Filled in when it has ended. */
    int32_t code;      /* of the last answer; 0: there was none */
    uint32_t tries;    /* requests */
    uint64_t got;      /* bytes in `data`, or in `text` */
    char *text;        /* ends with a zero byte; NULL: none. stk__http_exchange_release() */
    uint64_t size;     /* of the whole object; UINT64_MAX: not said */
    uint64_t identity; /* of ETag, else of size and Last-Modified; 0: nothing was said */
    int64_t mtime_ns;  /* Last-Modified; 0: not said */
    bool is_folder;    /* it was led to the same path with a '/' behind it: STK_EKIND */
    char etag[128];    /* as it came; "": none, or longer */
    int64_t date_ns;   /* Date: the server's clock; 0: not said */
    char region[32];   /* x-amz-bucket-region */
    char content_type[64];
    char location[256]; /* of a redirect that was not followed; "": none, or longer */
    stk_error error;    /* where it failed: what, to what, the remedy; stage and key, too */
    /* The client's own. */
    struct stk__http_job *job;
    stk__http_client *client;
    atomic_bool canceled;
};

/* Options that drivers on HTTP have in common: members of their struct, rows of their table. */
typedef struct stk__http_options {
    const char *ca_file, *proxy;
    bool http2;
    double connect_timeout, first_byte_timeout, stall_timeout; /* seconds */
    uint64_t connections, retries;
} stk__http_options;

#define STK__HTTP_OPTIONS(owner, at)                                                               \
    {.name = "ca_file",                                                                            \
     .offset = offsetof(owner, at.ca_file),                                                        \
     .type = STK_OPTION_STRING,                                                                    \
     .metavar = "FILE",                                                                            \
     .doc = "Certificates (PEM) that a server is verified by, instead of the system's."},          \
        {.name = "proxy",                                                                          \
         .offset = offsetof(owner, at.proxy),                                                      \
         .type = STK_OPTION_STRING,                                                                \
         .metavar = "URL",                                                                         \
         .doc = "Proxy of all requests; the environment is not looked at."},                       \
        {.name = "http2",                                                                          \
         .offset = offsetof(owner, at.http2),                                                      \
         .type = STK_OPTION_BOOL,                                                                  \
         .initial = "false",                                                                       \
         .doc = "Offer HTTP/2, whose requests share one connection; HTTP/1.1 with many "           \
                "connections is faster for large reads."},                                         \
        {.name = "connect_timeout",                                                                \
         .offset = offsetof(owner, at.connect_timeout),                                            \
         .type = STK_OPTION_DURATION,                                                              \
         .initial = "3s",                                                                          \
         .min = 0.01,                                                                              \
         .max = 3600,                                                                              \
         .doc = "For name, connection and TLS; then it is tried again."},                          \
        {.name = "first_byte_timeout",                                                             \
         .offset = offsetof(owner, at.first_byte_timeout),                                         \
         .type = STK_OPTION_DURATION,                                                              \
         .initial = "5s",                                                                          \
         .min = 0.01,                                                                              \
         .max = 3600,                                                                              \
         .doc = "From the request to the first byte of its answer; then it is tried again."},      \
        {.name = "stall_timeout",                                                                  \
         .offset = offsetof(owner, at.stall_timeout),                                              \
         .type = STK_OPTION_DURATION,                                                              \
         .initial = "10s",                                                                         \
         .min = 0.01,                                                                              \
         .max = 3600,                                                                              \
         .doc = "Time in which less than 1 KiB of a body comes; then it goes on over another "     \
                "connection."},                                                                    \
        {.name = "connections",                                                                    \
         .offset = offsetof(owner, at.connections),                                                \
         .type = STK_OPTION_UINT,                                                                  \
         .initial = "64",                                                                          \
         .min = 1,                                                                                 \
         .max = 1024,                                                                              \
         .doc = "Requests under way at a host at most; fewer while it says that it is busy."},     \
    {                                                                                              \
        .name = "retries", .offset = offsetof(owner, at.retries), .type = STK_OPTION_UINT,         \
        .initial = "8", .max = 100, .doc = "More tries of a request whose failure may pass."       \
    }

/*
 * `endpoint` is "http://HOST[:PORT]" or "https://HOST[:PORT]". `hooks` may be NULL; what it points
 * to is copied. Errors: STK_EINVAL, STK_ENOTSUP (built without libcurl), STK_ENOMEM, STK_ETHREAD.
 */
stk_status stk__http_client_open(stk_context *ctx, const char *endpoint,
                                 const stk__http_options *options, const stk__http_hooks *hooks,
                                 void *user, stk__http_client **out, stk_error *err);
/* Cancels what is under way, waits for it, and sets *client to NULL. Accepts NULL. Not on the
 * client's thread. */
void stk__http_client_close(stk__http_client **client);

/* Any thread; does not wait. Where it is not STK_OK done() is not called. */
stk_status stk__http_send(stk__http_client *client, stk__http_exchange *exchange);
/* Ask for an early end with STK_ECANCELED. The exchange stays valid until both done() and this
 * have returned. Any thread. */
void stk__http_cancel(stk__http_client *client, stk__http_exchange *exchange);
/* Send it and wait for it; `done`, `user` and `deadline_ns` are set here. Not on the client's
 * thread. The caller releases the exchange in any case. */
stk_status stk__http_call(stk__http_client *client, stk__http_exchange *exchange,
                          const stk_store_call *call, stk_error *err);
/* The same of two at once: *second_ended is the status of the second one (NULL: there is none). */
stk_status stk__http_call_both(stk__http_client *client, stk__http_exchange *first,
                               stk__http_exchange *second, const stk_store_call *call,
                               stk_status *second_ended, stk_error *err);
/*
 * What lies at the target of `x` (look.c), of which nothing else is set. While something is opened
 * (store/opening.h) it is asked for once, and its first bytes come along, and its last ones with
 * `end`; else it is HEAD.
 */
stk_status stk__http_look(stk__http_client *client, stk__http_exchange *x, bool end,
                          const stk_store_call *call, stk_error *err);
/* Keep what an exchange that has ended saw, while something is opened. */
void stk__http_note(const stk__http_client *client, const stk__http_exchange *x, stk_status status);
/* Whether the same could not be asked for before, in the same opening: then `error` says why. */
bool stk__http_failed(const stk__http_client *client, stk__http_exchange *x);
/* The name under which it is kept. */
XXH128_hash_t stk__http_name(const stk__http_client *client, const char *target);
/* Ask authorize() again of what it put off. Any thread. */
void stk__http_client_wake(stk__http_client *client);
/* Free `text`. */
void stk__http_exchange_release(stk__http_client *client, stk__http_exchange *exchange);

/* ---- service.c: a server that is asked to do things, and answers in JSON ---- */

typedef struct stk__http_service stk__http_service;

typedef struct stk__http_service_options {
    const char *url;   /* "http[s]://HOST[:PORT][/PREFIX]" */
    const char *token; /* goes as "Authorization: Bearer"; NULL: none. Copied to secret memory */
    const char *user, *password; /* where there is no token: as "Authorization: Basic"; likewise */
    const char *ca_file, *proxy;
    bool allow_http; /* the token or password may go over plain HTTP to another machine */
} stk__http_service_options;

/* Nothing is tried again here: whether a request that may have been done is done once more, its
 * caller knows. A build without libcurl has open() alone, which says so. */
typedef struct stk__http_service_ops {
    /* Errors: as stk__http_client_open(). */
    stk_status (*open)(stk_context *ctx, const stk__http_service_options *options,
                       stk__http_service **out, stk_error *err);
    void (*close)(stk__http_service *service);
    /* As stk__http_call(), of a target below the prefix. What the server says of an error ends the
     * text of `err`. */
    stk_status (*call)(stk__http_service *service, stk__http_exchange *exchange,
                       const stk_store_call *call, stk_error *err);
    void (*release)(stk__http_service *service, stk__http_exchange *exchange);
} stk__http_service_ops;

extern const stk__http_service_ops stk__http_services;

#endif
