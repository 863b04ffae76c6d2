/* What the files of the tests' web server share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_HTTP_PARTS_H
#define STK_TESTS_SUPPORT_HTTP_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#include "support/http_server.h"

#define HTTP_ETAG_MAX 48

/* ---- Texts that grow; what memory could not take is missing, and `failed` says so ---- */

typedef struct http_text {
    char *data;
    size_t length;
    size_t size;
    bool failed;
} http_text;

void http_text_add(http_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void http_text_bytes(http_text *text, const void *data, size_t length);
/* What stands in a URL. */
void http_text_decode(http_text *text, const char *from, size_t length);
void http_text_free(http_text *text);
/* The body of a request with a zero behind it, for the caller to free; NULL: no memory. */
char *http_body_text(const http_request *request);

/* ---- Objects ---- */

/* Bytes that answers share with the table. */
typedef struct http_blob {
    atomic_int refs;
    size_t size;
    time_t modified;
    char etag[HTTP_ETAG_MAX]; /* with its quotes */
    unsigned char data[];
} http_blob;

/* An object open for an answer: either bytes or a file. */
typedef struct http_object {
    http_blob *blob;
    int fd; /* -1: none */
    uint64_t size;
    time_t modified;
    char etag[HTTP_ETAG_MAX];
} http_object;

typedef struct http_objects http_objects;

http_objects *http_objects_create(const char *root);
void http_objects_destroy(http_objects *objects);
bool http_objects_open(http_objects *objects, const char *path, http_object *out);
void http_object_close(http_object *object);
/* Up to `length` bytes from `offset` on: how many, 0 at the end or after a failure. */
size_t http_object_read(const http_object *object, uint64_t offset, void *to, size_t length);
/* Takes no ownership. `etag`: instead of the hash of the bytes, where it is not NULL. */
bool http_objects_put(http_objects *objects, const char *path, const void *data, size_t length,
                      const char *etag);
bool http_objects_remove(http_objects *objects, const char *path);

/* As http_server_generate(); before the first request. */
void http_objects_generate(http_objects *objects, const char *folder, uint64_t count, uint64_t each,
                           uint64_t size);

/* The names of the objects below a prefix, as they are now where they are files. */
typedef struct http_names http_names;

typedef struct http_listed {
    char *path; /* the caller's, to free after the last */
    uint64_t size;
    time_t modified;
    char etag[HTTP_ETAG_MAX];
} http_listed;

http_names *http_objects_names(http_objects *objects, const char *prefix);
/* The first behind `after`, in the order of bytes; false: there is none. */
bool http_names_next(http_names *names, const char *prefix, const char *after, http_listed *out);
void http_names_free(http_names *names);

/* ---- Uploads in parts ---- */

typedef struct http_uploads http_uploads;

http_uploads *http_uploads_create(void);
void http_uploads_destroy(http_uploads *uploads);

/* ---- Faults ---- */

/* A fault that owns its texts. */
typedef struct http_faults http_faults;

http_faults *http_faults_create(uint64_t seed);
void http_faults_destroy(http_faults *faults);
int http_faults_add(http_faults *faults, const http_fault *fault);
int http_faults_add_text(http_faults *faults, const char *text);
uint64_t http_faults_struck(http_faults *faults, int number);
void http_faults_clear(http_faults *faults);
/* What strikes this request (NULL: a connection) next to `active` others, with texts of its own in
 * *out, which http_fault_release() frees; false: nothing, and *out is empty. */
bool http_faults_choose(http_faults *faults, const http_request *request, uint64_t active,
                        http_fault *out);
/* Texts of the caller's become the fault's own. False: no memory, and it has none. */
bool http_fault_own(http_fault *fault);
void http_fault_release(http_fault *fault);

/* ---- Answers ---- */

/* What is sent: head, then body, then `extra` bytes. The body is text or a part of an object. */
typedef struct http_answer {
    http_text head;
    http_text text;
    http_text lines; /* of the head, from what answers a request */
    http_object object;
    uint64_t offset; /* of the body in the object */
    uint64_t length; /* of the body */
    uint64_t extra;
    uint64_t sent; /* of all of it */
    uint64_t end;  /* where it ends, or is cut */
    http_cut cut;
    bool last;   /* of its connection */
    bool ranged; /* the body is a range of the object */
    bool bare;   /* the head alone is sent */
    int status;
} http_answer;

/* An answer of an earlier request is released first. */
void http_answer_make(http_server *server, const http_request *request, const http_fault *fault,
                      http_answer *answer);
void http_answer_release(http_answer *answer);
/* An error: S3's code, or NULL for the one that goes with the status. */
void http_answer_error(http_answer *answer, const http_request *request, int status,
                       const char *code);
/* Whether a condition forbids to write this object: the answer is then an error. */
bool http_answer_refuses(http_server *server, const http_request *request, http_answer *answer);
/* The next bytes in memory, at most `size` of them, by way of `buffer` where they are not there. */
size_t http_answer_piece(const http_answer *answer, char *buffer, size_t size, const char **piece);
/* Whether the body is a file's, and may go from there to a socket by the kernel. */
bool http_answer_by_file(const http_answer *answer);

/* Whether a request is for the server itself: it is not counted, and no fault strikes it. */
bool http_control(const http_server *server, const http_request *request);
void http_control_answer(http_server *server, const http_request *request, http_answer *answer);

/* ---- The server ---- */

typedef struct http_shape {
    _Atomic uint32_t latency_ms;
    _Atomic uint64_t bandwidth;
    _Atomic uint64_t bandwidth_all;
} http_shape;

typedef struct http_figures {
    _Atomic uint64_t requests, ranges, heads, changes, lists, failed, struck, bytes_sent,
        bytes_taken, connections, open, most_connections, active, most_requests, rounds;
} http_figures;

#define HTTP_THREADS_MAX 16

typedef struct http_loop http_loop;
typedef struct http_mlflow http_mlflow;

struct http_server {
    http_server_options options;
    http_objects *objects;
    http_uploads *uploads;
    http_mlflow *mlflow; /* NULL: it is none */
    http_faults *faults;
    http_shape shape;
    http_figures figures;
    char url[64];
    int port;
    int keeper; /* of the port, while nothing listens there */
    void *tls;
    atomic_bool stopping;
    atomic_uint drops; /* rises when open connections are to be reset */

    pthread_mutex_t lock; /* guards: listener, token, all_due, changes */
    int listener;         /* -1: none */
    char *token;
    uint64_t all_due;  /* when the bytes that are promised to connections will have been sent */
    uint64_t changing; /* counts changing etags */

    pthread_mutex_t seeing; /* one call of `seen` at a time */
    int n_loops;
    http_loop *loops[HTTP_THREADS_MAX];
};

void http_count_up(_Atomic uint64_t *now, _Atomic uint64_t *most);
uint64_t http_now(void); /* ns */
/* A connection that waits at the listener, or -1. */
int http_server_accept(http_server *server);
bool http_server_token_right(http_server *server, const http_request *request);
/* When `bytes` of an answer may be sent, as all connections share the bandwidth. */
uint64_t http_server_promise(http_server *server, uint64_t bytes, uint64_t now);

/* A thread with its connections. */
http_loop *http_loop_start(http_server *server, int listener);
bool http_loop_listen(http_loop *loop, int listener);
void http_loop_wake(http_loop *loop);
/* Whether what was open when the server's `drops` became that is closed. */
bool http_loop_dropped(http_loop *loop, unsigned drops);
void http_loop_join(http_loop *loop);

/* ---- TLS ---- */

/* NULL: the files cannot be read. */
void *http_tls_create(const char *certificate, const char *key);
void http_tls_destroy(void *tls);
void *http_tls_open(void *tls, int fd);
/* As recv() and send() on a socket that does not block. */
ssize_t http_tls_read(void *session, void *to, size_t length);
ssize_t http_tls_write(void *session, const void *from, size_t length);
/* `orderly`: the other side is told. */
void http_tls_close(void *session, bool orderly);

#endif
