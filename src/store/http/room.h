/* exchanges -> tries on the wire: the parts of the HTTP client */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_HTTP_ROOM_H
#define STK_SRC_STORE_HTTP_ROOM_H

#include <curl/curl.h>
#include <netinet/in.h>

#include "store/http/head.h"
#include "store/http/http.h"
#include "store/http/retry.h"
#include "store/trend.h"

#define STK__HTTP_JUDGED 65536 /* bytes of the body of a failure that are kept */

typedef struct stk__http_job stk__http_job;
typedef struct stk__http_try stk__http_try;

struct stk__http_headers {
    struct curl_slist *list;
};

#define STK__HTTP_ADDRESSES 4

/* Where connections to a host have come about, newest first: used where its name leads nowhere. */
typedef struct stk__http_names {
    char addresses[STK__HTTP_ADDRESSES][INET6_ADDRSTRLEN]; /* "": none */
    uint64_t until_ns; /* they are used until then; 0: its name is looked up */
} stk__http_names;

/* What all clients of an endpoint share: how it bears up. The thread's own but for `name`, which is
 * constant, and `next`. Hosts stay until the loop ends. */
typedef struct stk__http_host {
    struct stk__http_host *next; /* guarded by the mutex of the loop until it is in its list */
    stk__http_bucket bucket;
    stk__http_window window;
    stk__http_pace pace;
    stk__http_names names;
    uint32_t active;             /* tries under way */
    uint32_t backing_off;        /* jobs */
    stk__http_job *first, *last; /* that wait for their turn */
    char name[];
} stk__http_host;

/* Where a job is. */
typedef enum stk__http_place {
    STK__HTTP_WAITS,   /* for its turn at its host */
    STK__HTTP_HELD,    /* for stk__http_client_wake() */
    STK__HTTP_DELAYED, /* until `due_ns` */
    STK__HTTP_RUNS,
} stk__http_place;

/* The loop's side of an exchange. The thread's own. */
struct stk__http_job {
    stk__http_job *previous, *next; /* of all jobs of the loop; or of the inbox, by `next` */
    stk__http_job *behind;          /* of those that wait at the host */
    stk__http_exchange *exchange;
    stk__http_place place;
    uint64_t due_ns;
    stk__http_try *tries[2]; /* under way: the second is asked for because the first is late */
    stk__http_try *winner;   /* whose bytes are taken; NULL: none came yet */
    uint32_t fruitless;      /* tries since the last that brought bytes */
    uint32_t spent;          /* tokens of its host */
    uint32_t redirects;
    bool backs_off;   /* it is delayed by its own will: the server has not said how long */
    bool reckoned;    /* what may hold for others was learnt from its head: size, identity */
    uint64_t got;     /* bytes in their place: of `data`, or of `text` */
    size_t text_room; /* bytes of `text` of the exchange */
    char *url;        /* where redirects led; NULL: nowhere */
    bool guarded;     /* `url` is not to be one of a private address */
    uint64_t begun_ns, waits_ns; /* since when it is there, and waits for its turn */
    uint64_t turn_ns;            /* that it waited for it */
    uint64_t won_ns[3];          /* of the try that brought it: start, sent, first byte */
    uint64_t bytes_before;       /* on the wire when that began, its own included */
    uint32_t twice, throttled, late, connects;
    uint32_t throttled_at; /* fewest tries under way with one that was throttled; 0: none */
    char *judged;          /* the body of a failure, of judged_length bytes */
    size_t judged_length;
    stk_status status; /* of the last failure, and why */
    stk__http_again again;
    char why[200];
};

/* Where the body of an answer goes. */
typedef enum stk__http_body {
    STK__HTTP_DROP,
    STK__HTTP_DATA,
    STK__HTTP_TEXT,
    STK__HTTP_JUDGE
} stk__http_body;

/* A request on the wire. The thread's own. */
struct stk__http_try {
    stk__http_try *next; /* of those that are free */
    stk__http_client *client;
    stk__http_job *job; /* NULL: it is free */
    CURL *easy;
    struct stk__http_headers headers;
    struct curl_slist *names;             /* what curl is told of addresses */
    uint64_t start_ns, sent_ns, first_ns; /* 0: not yet */
    uint32_t active;                 /* tries under way at its host when it began, it included */
    uint64_t wanted;                 /* bytes asked for */
    uint64_t bytes_before;           /* on the wire when it began, its own included */
    uint64_t moved_ns;               /* when bytes of the answer came last */
    uint64_t rest_ns;                /* the longest time between two pieces of it */
    uint64_t mark_ns, moved, marked; /* bytes moved, of them at `mark_ns` */
    uint64_t uploaded;
    uint64_t body_at; /* of a body that is read: the byte that goes next */
    stk__http_head head;
    uint64_t head_bytes;
    stk__http_body body;
    uint64_t from;     /* byte of the object at which the answer is to begin */
    uint64_t skip;     /* bytes of the body in front of it */
    uint64_t left;     /* bytes of the body that are wanted */
    bool suffix;       /* the last bytes were asked for, wherever they begin */
    bool capped;       /* `left` is all that may come: more is a fault of the server */
    bool judged;       /* the head was looked at */
    bool enough;       /* ended on purpose: all bytes are there */
    bool twice;        /* the second of two */
    bool crowded;      /* there was no descriptor for its connection */
    stk_status status; /* found while it came; STK_OK: nothing */
    stk__http_again again;
    const char *why;
    char told[CURL_ERROR_SIZE];
};

struct stk__http_client {
    stk_context *context;
    struct stk__http_loop *loop;
    stk__http_host *host;
    stk__http_hooks hooks;
    void *user;
    stk__http_options options; /* texts are copies */
    char *ca_file, *proxy;
    uint64_t connect_ns, first_byte_ns, stall_ns;
    long names_kept;     /* seconds for which a name is not looked up again */
    stk__http_try *free; /* the thread's; the closing caller's when there are no jobs left */
    pthread_cond_t idle; /* no job is left */
    uint64_t jobs;       /* guarded by the mutex of the loop, as `closing` and `wake` are */
    bool closing, wake;
    stk__http_client *next; /* of those that want something of the loop */
    bool listed;
    char endpoint[];
};

typedef struct stk__http_loop {
    stk_context *context;
    CURLM *multi;
    stk__thread thread;
    uint32_t clients;          /* guarded by the slot of the context */
    stk__http_job *jobs;       /* the thread's, as all that they lead to */
    uint64_t nearest_ns;       /* nothing is due earlier */
    stk__http_host *known;     /* the head of `hosts` as the thread saw it last */
    uint64_t draws;            /* so far */
    uint32_t throttled_at;     /* as of its jobs */
    uint64_t on_wire;          /* bytes that tries under way ask for */
    stk__trend trend;          /* of the reads: bytes on the wire, time from sending to the end */
    pthread_mutex_t mutex;     /* guards the rest */
    stk_network network;       /* so far */
    stk__http_job *inbox;      /* newest first */
    stk__http_client *wanting; /* clients that close, or have woken */
    stk__http_host *hosts;
    bool cancels, stopping;
} stk__http_loop;

/* ---- loop.c ---- */

stk_status stk__http_loop_get(stk_context *ctx, stk__http_loop **out, stk_error *err);
void stk__http_loop_put(stk__http_loop *loop);
/* The host of an endpoint, made where it is new. NULL: no memory. */
stk__http_host *stk__http_host_get(stk__http_loop *loop, const char *endpoint, uint32_t most);
void stk__http_loop_due(stk__http_loop *loop, uint64_t due_ns);

/* ---- job.c ---- */

/* Take it in; wait for its turn. */
void stk__http_job_begin(stk__http_loop *loop, stk__http_job *job);
void stk__http_job_wait(stk__http_loop *loop, stk__http_job *job);
/* Its turn has come. */
void stk__http_job_run(stk__http_loop *loop, stk__http_job *job);
/* Start a try, or find out that none can be; then the job has ended, but for a second one. */
void stk__http_job_start(stk__http_loop *loop, stk__http_job *job, bool twice);
/* Forget the bytes that are there, unless those to come are of the same object. */
void stk__http_job_rewind(stk__http_job *job);
/* The second try takes the place of the first, which has ended. */
void stk__http_job_promote(stk__http_job *job);
void stk__http_job_set_backs_off(stk__http_job *job, bool does);
/* curl has ended a try. */
void stk__http_job_ended(stk__http_loop *loop, stk__http_try *try_, CURLcode result);
void stk__http_job_end(stk__http_loop *loop, stk__http_job *job, stk_status status);

/* ---- late.c ---- */

/* Look at what of it is due; what is due next goes to stk__http_loop_due(). */
void stk__http_job_look(stk__http_loop *loop, stk__http_job *job, uint64_t now_ns);

/* ---- counts.c ---- */

/* It begins to wait for its turn, and its turn has come. */
void stk__http_count_wait(stk__http_job *job);
void stk__http_count_turn(stk__http_job *job);
/* A try of it is off the wire, however that came. */
void stk__http_count_connects(stk__http_job *job, const stk__http_try *try_);
/* A try of it has ended: as the one that brought it, or in vain. */
void stk__http_count_try(stk__http_job *job, const stk__http_try *try_, bool in_vain);
/* A read has ended, and how. */
void stk__http_count_read(stk__http_loop *loop, const stk__http_job *job, stk_status status);

/* ---- try.c ---- */

/* NULL: no memory. */
stk__http_try *stk__http_try_start(stk__http_loop *loop, stk__http_job *job, bool twice,
                                   stk_status *status, stk_error *err);
/* Take it off the wire and let it go; `result` of one that is still on it is not asked for. */
void stk__http_try_stop(stk__http_loop *loop, stk__http_try *try_);
void stk__http_tries_free(stk__http_client *client);

/* ---- answer.c ---- */

size_t stk__http_on_line(char *line, size_t size, size_t count, void *user);
size_t stk__http_on_body(char *data, size_t size, size_t count, void *user);
/* A failure of the answer itself. */
void stk__http_try_fail(stk__http_try *try_, stk_status status, stk__http_again again,
                        const char *why);

/* ---- names.c ---- */

/* A connection to its host has come about. */
void stk__http_names_note(const stk__http_try *try_, const char *address);
/* Its host's name leads nowhere. */
void stk__http_names_lost(stk__http_job *job);
/* Tell curl where to connect to, if not to where the name leads. False: no memory. */
bool stk__http_names_set(stk__http_try *try_);

/* ---- redirect.c ---- */

/* Follow the redirect of an answer; else the status that it fails with, and why. */
stk_status stk__http_redirect(stk__http_job *job, const stk__http_try *try_, const char **why);
/* Whether an address is one of this machine, its link, or a private network. */
bool stk__http_address_private(const struct sockaddr *address);

#endif
