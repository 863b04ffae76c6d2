/* which checkpoints are kept */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_CALLBACKS_MODEL_CHECKPOINT_H
#define STK_SRC_TRAIN_CALLBACKS_MODEL_CHECKPOINT_H

#include <stoker/store.h>

#include "train/callbacks/callback.h"

typedef struct stk__model_checkpoint_options {
    uint32_t struct_size;
    const char *dirpath, *filename, *monitor;
    bool verbose;
    int32_t save_last; /* false, true, link */
    int64_t save_top_k;
    bool save_on_exception, save_weights_only;
    int32_t mode; /* min, max */
    bool auto_insert_metric_name;
    uint64_t every_n_train_steps;
    const char *train_time_interval;
    uint64_t every_n_epochs;
    int32_t save_on_train_epoch_end; /* stk_switch */
    bool enable_version_counter;
} stk__model_checkpoint_options;

/* Held while the file of a new name is being written, so that no other training takes the name: a
 * put that replaces nothing and is abandoned in the end. */
typedef struct stk__claim {
    stk_put *put;  /* NULL: none */
    uint64_t save; /* number of the save that it was made for */
} stk__claim;

#define STK__CLAIMS 8 /* of saves that may not be on the disk yet */

/* A checkpoint that is kept, with its score. */
typedef struct stk__kept {
    char *path;
    double score;
} stk__kept;

typedef struct stk__model_checkpoint {
    stk_callback base;
    stk_trainer *trainer;
    stk__model_checkpoint_options options; /* texts are its own, or NULL */
    char *dirpath, *filename, *monitor;
    uint64_t interval_ns, every_n_epochs, last_time_ns;
    stk__kept *kept; /* the best ones, in no order */
    size_t num_kept, room;
    char *dir; /* in use */
    char *best, *last, *last_saved;
    bool saving;    /* a checkpoint of its own, not one of another callback */
    bool inherited; /* `best` is of the run that this one goes on with, and stays */
    double best_score, current_score;
    uint64_t last_step_saved;
    stk__claim claims[STK__CLAIMS];
    uint64_t num_saves;
    bool validated; /* within this run */
    char key[256];
} stk__model_checkpoint;

/* Let go of the claims that were made for saves before this one. */
void stk__model_checkpoint_release(stk__model_checkpoint *self, uint64_t before);

/* Saving by the policy (model_checkpoint.c); its options and state (model_checkpoint_state.c). */
extern const stk_option_table stk__model_checkpoint_table;
stk_status stk__model_checkpoint_create(stk_context *ctx, const void *options, stk_callback **out,
                                        stk_error *err);
void stk__model_checkpoint_destroy(stk_callback *callback);
const char *stk__model_checkpoint_key(const stk_callback *callback);
stk_status stk__model_checkpoint_state(stk_callback *callback, stk_saver *to, stk_error *err);
stk_status stk__model_checkpoint_load(stk_callback *callback, const stk_restorer *from,
                                      stk_error *err);
/* Keep one more; takes `path`. */
stk_status stk__model_checkpoint_keep(stk__model_checkpoint *self, char *path, double score,
                                      stk_error *err);
/* What is kept lies in a folder that another run has: it is that run's to replace and to remove. */
void stk__model_checkpoint_disown(stk__model_checkpoint *self);
/* Number of the worst (or best) that is kept; SIZE_MAX: none. */
size_t stk__model_checkpoint_extreme(const stk__model_checkpoint *self, bool worst);
/* Replace a text that is its own. */
stk_status stk__model_checkpoint_set(stk__model_checkpoint *self, char **to, const char *text,
                                     stk_error *err);

#endif
