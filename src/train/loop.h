/* how far the loop is */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_LOOP_H
#define STK_SRC_TRAIN_LOOP_H

#include <stoker/trainer.h>

/* Where in the life of a batch or an epoch a checkpoint was made: what is still to be done. */
enum stk__point {
    STK__POINT_NEXT,    /* the next batch */
    STK__POINT_STEPPED, /* step and hooks of a batch are done; its logging and validation are not */
    STK__POINT_VALIDATED, /* the validation after it is done */
    STK__POINT_EPOCH      /* the epoch's end is done */
};

/* Counters of the loop that a checkpoint holds. */
typedef struct stk__loop {
    uint64_t epoch;
    uint64_t done;       /* batches of this epoch whose step is done */
    uint64_t total_done; /* over all epochs */
    uint64_t global_step;
    uint64_t stepped; /* batches after which the optimizer stepped: the x-axis of the loggers */
    uint64_t accumulate;
    uint64_t val_runs; /* validations done: the epoch of their loaders */
    enum stk__point point;
    bool window_open; /* gradients of this accumulation window are being gathered */
    bool cut;         /* the epoch ended early because the run did: it goes on from here */
} stk__loop;

#endif
