/* A connection of the tests' web server: from the bytes of requests to those of answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_HTTP_CONNECTION_H
#define STK_TESTS_SUPPORT_HTTP_CONNECTION_H

#include "support/http_parts.h"

typedef enum http_state {
    HTTP_OPENING, /* a fault at its beginning may wait, or end it */
    HTTP_READING,
    HTTP_WAITING, /* before the first byte of an answer */
    HTTP_SENDING,
    HTTP_STALLED,   /* until the client goes */
    HTTP_RESETTING, /* until what was sent has arrived */
    HTTP_DRAINING,  /* all is sent; what comes now is thrown away */
} http_state;

#define HTTP_NO_TIMER SIZE_MAX

typedef struct http_connection {
    http_server *server;
    int fd;
    void *tls; /* NULL: none */
    uint64_t number;
    http_state state;
    bool readable;
    bool writable;
    bool gone;  /* the client sends no more */
    bool reset; /* it ends by a reset */

    char *in; /* what came and was not answered yet */
    size_t in_length;
    size_t in_size;
    size_t head_length; /* of a request that is taken apart; 0: none yet */
    size_t body_length;
    http_text path;
    http_request request;
    bool last;      /* the client says so of this request */
    bool aside;     /* it is for the server itself */
    bool uncounted; /* and so is the connection */

    http_fault fault;
    http_answer answer;
    bool active;       /* counts as a request that is not answered to the end */
    uint64_t round;    /* its place in a chain of requests that follow each other, from 1 */
    uint64_t granted;  /* bytes of the body that may be sent now */
    uint64_t promised; /* ns: when they may, and until when all before them take */
    uint64_t paced;
    uint64_t turn; /* bytes sent since others had theirs */

    /* Of the loop. */
    uint64_t due; /* ns */
    size_t timer; /* place among the timers */
    struct http_connection *next;
    struct http_connection **link;
} http_connection;

typedef enum http_next {
    HTTP_GO_ON,
    HTTP_WAIT, /* for the socket, or for `due` where `timed` */
    HTTP_WAIT_UNTIL_DUE,
    HTTP_END,
} http_next;

/* NULL: no memory; the descriptor is closed. */
http_connection *http_connection_create(http_server *server, int fd);
/* One step of what can be done now. */
http_next http_connection_step(http_connection *c, uint64_t now);
void http_connection_destroy(http_connection *c);

#endif
