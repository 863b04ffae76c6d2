/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of array/libhdf5 share. */
#ifndef STK_SRC_ARRAY_LIBHDF5_CHILD_H
#define STK_SRC_ARRAY_LIBHDF5_CHILD_H

#include <sys/types.h>

#include "array/libhdf5/libhdf5.h"

#include "base/bytes.h"

struct stk__libhdf5 {
    stk_context *ctx;
    int socket; /* -1: lost */
    pid_t pid;  /* 0: none, or it has been waited for */
    stk__libhdf5_limits limits;
    stk_store *store; /* of the file that is read, and its key */
    char *key;
    uint64_t size;
    stk__bytes made;      /* the payload that is put together */
    unsigned char *piece; /* STK__WIRE_PIECE bytes that WANT is answered from */
    unsigned char *taken; /* payload of the last frame */
    size_t taken_room;
};

/* ---- The process (process.c) ---- */

stk_status stk__libhdf5_spawn(stk__libhdf5 *h, int file, stk_error *err);
/* Wait for it, ended by force where it does not end by itself. Why it ended, into `text`; by
 * which signal, 0: by none. */
int stk__libhdf5_reap(stk__libhdf5 *h, bool by_force, char *text, size_t size);

/* ---- Frames (frames.c) ---- */

/* An empty payload, to be sent by stk__libhdf5_send(). */
stk__wire_out stk__libhdf5_payload(stk__libhdf5 *h);
stk_status stk__libhdf5_send(stk__libhdf5 *h, uint32_t kind, const stk__wire_out *payload,
                             const stk_store_call *call, stk_error *err);
stk_status stk__libhdf5_send_bytes(stk__libhdf5 *h, uint32_t kind, const void *bytes,
                                   uint64_t length, const stk_store_call *call, stk_error *err);
/*
 * The next frame that is no WANT, which is answered. FAIL is returned as its failure. A payload
 * lives until the next call. With `to` the payload of a DATA frame of at most `room` bytes goes
 * there.
 */
stk_status stk__libhdf5_next(stk__libhdf5 *h, const stk_store_call *call, uint32_t *kind,
                             stk__wire_in *payload, void *to, uint64_t room, stk_error *err);
/* The answer is DONE alone. */
stk_status stk__libhdf5_done(stk__libhdf5 *h, const stk_store_call *call, stk_error *err);
/* What it said makes no sense: it is ended. */
stk_status stk__libhdf5_nonsense(stk__libhdf5 *h, stk_error *err);

/* ---- Attributes (json.c) ---- */

/* Add "name": value of an ATTRIBUTE frame to the JSON object that is put together, but for those
 * that hold the format together; *skipped: one that has no values here. False: it makes no sense.
 */
bool stk__libhdf5_attribute(stk__wire_in *in, stk__text *object, bool *skipped);

#endif
