/* what happens -> those who listen */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_PROBE_H
#define STK_SRC_BASE_PROBE_H

#include "base/base.h"

/* Whom the context tells what happens. All events of all rooms go through `event`; it must not
 * block. */
typedef struct stk__event stk__event;
typedef struct stk__probe {
    void (*event)(void *user, const stk__event *event);
    void *user;
} stk__probe;

typedef enum stk__event_kind {
    STK__EVENT_SAMPLE,  /* samples were prepared: epoch, position and index of the first, count,
                           worker, start, end */
    STK__EVENT_READ,    /* a read ended: bytes, start (submitted), end, status, count = samples it
                           serves */
    STK__EVENT_BATCH,   /* a batch became ready: epoch, step, count, start (planned), end */
    STK__EVENT_DELIVER, /* a batch was handed out: epoch, step, start (asked), end */
    STK__EVENT_BAD_SAMPLE, /* index, position, status */
    STK__EVENT_PLAN,       /* samples were located: count, start, end */
    STK__EVENT_PACE,       /* what moves while a loader runs was looked at: pace, end */
    STK__EVENT_MEET,  /* a collective of several ranks begins: whoever comes waits for the others;
                         count = elements, start */
    STK__EVENT_MET,   /* it ended: count, end, status */
    STK__EVENT_DECODE /* what several samples may share was decoded: bytes (that came out),
                         count = samples waiting for it, worker, start, end, status */
} stk__event_kind;

struct stk__event {
    stk__event_kind kind;
    stk_status status;
    uint32_t worker; /* number of the worker; UINT32_MAX: the caller's thread */
    uint64_t start_ns, end_ns;
    uint64_t epoch, step, position, index, count, bytes;
    const void *loader;      /* tells loaders apart, only ever compared; NULL: of none */
    const uint64_t *indices; /* of SAMPLE: `count` of them, valid during the call; else NULL */
    const struct stk__pace_note *pace; /* of PACE; likewise */
};

/* Install or remove (NULL) a probe; at most 4 at a time, else STK_EBUSY. Waits until no thread is
 * in a removed one. */
stk_status stk__probe_add(stk_context *ctx, const stk__probe *probe);
void stk__probe_remove(stk_context *ctx, const stk__probe *probe);
/* Whether anybody listens: lets the hot path skip its stamps. */
bool stk__probed(const stk_context *ctx);
void stk__emit(stk_context *ctx, const stk__event *event);

/* ---- What is at work and can be asked (sources.c) -------------------------------------------- */

typedef enum stk__source_kind {
    STK__SOURCE_LOADER, /* a stk_loader */
    STK__SOURCE_TRAINER /* a stk_trainer */
} stk__source_kind;

/* `object` can be asked by any thread from here on; of more than there is room for the first ones
 * are. */
void stk__source_add(stk_context *ctx, stk__source_kind kind, const void *object);
/* Not any more: when this returns nobody asks. Of one that was not added nothing is done. */
void stk__source_remove(stk_context *ctx, stk__source_kind kind, const void *object);
/* Call `each` with those of a kind, in the order in which they were added. It neither adds nor
 * removes any. */
void stk__sources_each(stk_context *ctx, stk__source_kind kind,
                       void (*each)(void *user, const void *object), void *user);

/* What stk__progress() was told last, of the whole context. `what` is cut; at_ns 0: nothing yet. */
typedef struct stk__progressed {
    char what[64];
    uint64_t done, total, at_ns;
} stk__progressed;

void stk__progress_last(stk_context *ctx, stk__progressed *out);

#endif
