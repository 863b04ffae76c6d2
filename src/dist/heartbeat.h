/* beats of a rank -> the sheet of who watches: what heartbeat.c and heartbeat_remote.c share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DIST_HEARTBEAT_H
#define STK_SRC_DIST_HEARTBEAT_H

#include <stoker/heartbeat.h>

#include "base/base.h"
#include "base/probe.h"

/* One writer each, on a line of its own. */
typedef struct stk__beat_row {
    _Alignas(STK_CACHE_LINE) atomic_uint_fast64_t beats;
    atomic_uint_fast64_t at_ns, steps;
    atomic_int_fast64_t pid;
    atomic_uint_fast32_t doing;
} stk__beat_row;

typedef struct stk__beat_sheet {
    char magic[8];
    uint32_t version, ranks;
    stk__beat_row rows[];
} stk__beat_sheet;

typedef struct stk__beat_listener stk__beat_listener;
typedef struct stk__beat_sender stk__beat_sender;

struct stk_heartbeat {
    stk_context *ctx;
    stk__probe probe; /* of a rank */
    int fd;
    long pid; /* of the process that made it */
    uint64_t bytes, ranks;
    stk__beat_sheet *sheet;
    stk__beat_row *own;           /* of a rank; NULL: it watches */
    stk__beat_listener *listener; /* of who watches: for ranks of other machines; NULL: none */
    stk__beat_sender *sender; /* of a rank of another machine; NULL: the sheet is the watcher's */
};

static inline uint64_t stk__beat_bytes(uint64_t ranks)
{
    return sizeof(stk__beat_sheet) + ranks * sizeof(stk__beat_row);
}

/* ---- heartbeat_remote.c ---- */

/* Where in what ranks open a sheet by the part for other machines begins; NULL: it has none. */
const char *stk__beat_url(const char *path);
/* The part for other machines, "udp://HOST:PORT/TOKEN"; its length, as snprintf(). */
int stk__beat_url_write(const stk_heartbeat *h, char *text, size_t size);
/* What is known of rank `rank` from what it sent; nothing is written of others. */
void stk__beat_heard(const stk_heartbeat *h, uint64_t rank, stk_heartbeat_row *out);
/* What was sent before counts no more. */
void stk__beat_forget(stk_heartbeat *h);
void stk__beat_listener_close(stk_heartbeat *h);
/* Send what h->own holds to who made `url`, from a thread of its own, until it is closed. */
stk_status stk__beat_sender_open(stk_heartbeat *h, const char *url, uint64_t rank, stk_error *err);
void stk__beat_sender_close(stk_heartbeat *h);

#endif
