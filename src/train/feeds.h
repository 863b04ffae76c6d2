/* sources of batches -> loaders of the phases */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_FEEDS_H
#define STK_SRC_TRAIN_FEEDS_H

#include <stoker/trainer.h>

enum { STK__MAX_SOURCES = 16 /* loaders of one phase */ };

typedef struct stk__feed {
    stk_loader *loader;
    bool own;         /* made by the trainer */
    uint64_t batches; /* of an epoch, after the limits */
} stk__feed;

typedef struct stk__feeds {
    stk__feed feeds[STK__MAX_SOURCES];
    uint32_t n;
    bool open;
} stk__feeds;

/* Make the loaders of a phase. */
stk_status stk__feeds_open(stk_trainer *t, stk_phase phase, stk_error *err);
/* Close them, saying which samples were bad. */
void stk__feeds_close(stk_trainer *t, stk_phase phase);
stk__feeds *stk__feeds_of(stk_trainer *t, stk_phase phase);
/* The next batch, looking at the stop flag ten times a second. STK_ECANCELED when it is set. */
stk_status stk__feed_next(stk_trainer *t, stk__feed *feed, stk_batch **out, stk_error *err);
/* At the beginning of an epoch, where no place has to be found: that the loader of training is as
 * the checkpoint says, as far as on_state_mismatch wants it. */
stk_status stk__feed_compare(stk_trainer *t, stk_error *err);

#endif
