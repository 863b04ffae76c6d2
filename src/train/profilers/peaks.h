/* a machine -> the rates that it reaches at best */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_PROFILERS_PEAKS_H
#define STK_SRC_TRAIN_PROFILERS_PEAKS_H

#include <stoker/trainer.h>

#include "base/base.h"

enum { STK__PEAKS_CPU = 128, STK__PEAKS_FILE = 1024 /* bytes of a kept file at most */ };

/* What peaks depend on: they are believed where all of it is the same. */
typedef struct stk__peaks_key {
    char cpu[STK__PEAKS_CPU]; /* as the kernel names it, with the usable cores */
    const char *version;      /* of this library, whose kernels they were measured with */
    const char *precision;    /* "32-true" */
    uint32_t threads;
} stk__peaks_key;

/* Of all threads together; 0: unknown. */
typedef struct stk__peaks {
    double flops_per_s; /* of products, a multiply-add as two */
    double bytes_per_s; /* to and from memory */
} stk__peaks;

void stk__peaks_key_of(stk_context *ctx, const char *precision, stk__peaks_key *out);
/*
 * Take those that are kept in `folder`, or measure them (some tenths of a second) and keep them
 * there. Where they cannot be kept nothing is lost: they are measured again. The calling thread
 * computes; nothing else of the process should. Of several processes that share the folder one
 * measures, and the others wait for what it finds.
 */
stk_status stk__peaks_find(stk_context *ctx, const char *folder, const stk__peaks_key *key,
                           stk__peaks *out, stk_error *err);

/* Where they are kept (peaks_kept.c). NULL: no memory. */
char *stk__peaks_path(stk_context *ctx, const char *folder, const stk__peaks_key *key);
void stk__peaks_keep(stk_context *ctx, const char *folder, const stk__peaks_key *key,
                     const stk__peaks *peaks);
/* Hold the file that peaks are kept in, also where it is yet to be made, so that no two measure
 * each other; waits for who holds it. -1: it cannot be held, as in another store. */
int stk__peaks_hold(stk_context *ctx, const char *folder, const stk__peaks_key *key);
void stk__peaks_let_go(int fd);
/* The text of a kept file -> peaks; false where it is not of this key, or not whole. */
bool stk__peaks_parse(stk_context *ctx, const char *text, size_t length, const stk__peaks_key *key,
                      stk__peaks *out);

#endif
