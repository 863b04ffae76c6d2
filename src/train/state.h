/* a run -> tensors and texts of a checkpoint, and back */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_STATE_H
#define STK_SRC_TRAIN_STATE_H

#include <stoker/trainer.h>

#include "checkpoint/checkpoint.h"

#define STK__STATE_VERSION   1
#define STK__STATE_LOOPS     STK__CHECKPOINT_OWN "loops"
#define STK__STATE_LOADER    STK__CHECKPOINT_OWN "loader"
#define STK__STATE_OPTIMIZER STK__CHECKPOINT_OWN "optimizer."
#define STK__STATE_GRADIENT  STK__CHECKPOINT_OWN "gradient."
#define STK__STATE_CALLBACK  STK__CHECKPOINT_OWN "callback."
#define STK__STATE_MODULE    STK__CHECKPOINT_OWN "module."
#define STK__STATE_LAYERS    STK__STATE_MODULE "layers"      /* text of a model's layers */
#define STK__STATE_INPUT     STK__STATE_MODULE "input_shape" /* of a sample: "3x224x224" */
#define STK__STATE_BEST      STK__CHECKPOINT_OWN "best"      /* where the best one is: best.h */

struct stk_saver {
    stk_context *ctx;
    stk_trainer *trainer;
    const char *prefix; /* of the names that are put in now */
    stk_state_tensor *tensors;
    stk__checkpoint_text *texts;
    stk__checkpoint_part part; /* count 0: what ranks have parts of is put in as a whole */
    bool gives;    /* of another rank than 0: takes what that rank has parts of, and nothing else */
    bool alone;    /* now only rank 0 is here */
    void **copies; /* of tensors that the host cannot read; their number is `num_copies` */
    size_t num_tensors, tensor_room, num_texts, text_room, num_copies, copy_room;
};

struct stk_restorer {
    stk_context *ctx;
    const stk__checkpoint *checkpoint;
    const char *prefix;
    stk_trainer *trainer; /* NULL: no task is at hand */
};

enum { STK__PROGRESS_NAMES = 6 };

typedef struct stk__progress_name {
    const char *name;
    size_t offset;
} stk__progress_name;

extern const stk__progress_name stk__progress_names[STK__PROGRESS_NAMES];

/* Read the text of the loops: where the run stood, and its metrics. `threads`: of compute, then. */
stk_status stk__loops_read(stk_trainer *t, const char *text, uint64_t *threads, stk_error *err);

/* What the names of a module's tensors of a kind begin with. */
static inline const char *stk__state_kind_prefix(stk_state_kind kind)
{
    return kind == STK_STATE_OPTIMIZER  ? STK__STATE_OPTIMIZER
           : kind == STK_STATE_GRADIENT ? STK__STATE_GRADIENT
                                        : "";
}

/* What the names of a callback (NULL: of the module) begin with. */
const char *stk__state_prefix(const stk_trainer *t, const stk_callback *callback, char *prefix,
                              size_t size);

/* A file that has the weights as they were when so many training batches had begun: no step and no
 * running statistics are without one. */
typedef struct stk__saved {
    char *path; /* NULL: none */
    uint64_t batches;
} stk__saved;

/* The weights of this moment are in the file at `path`; NULL: in none. */
stk_status stk__state_note(stk_trainer *t, const char *path, stk_error *err);

/* What a callback has asked for of it: bytes of a tensor. */
typedef struct stk__state_copy {
    char *name;
    stk_state_tensor like; /* type and shape that it has there; its name is not kept */
    uint64_t from, bytes;
    void *data; /* the callback's */
} stk__state_copy;

/* The checkpoint that the task at hand goes on from. */
typedef struct stk__restart {
    stk__checkpoint *checkpoint; /* while it is taken in */
    stk__state_copy *copies;     /* likewise */
    size_t num_copies, copy_room;
    char *path;
    bool together;     /* rank 0 looks for it, and the others verify what it finds */
    bool restarted;    /* the run goes on with it, not with its weights alone */
    bool within_epoch; /* and that in the middle of an epoch */
} stk__restart;

/* Save a checkpoint of this moment. `together`: all ranks are here, and what each has of its own
 * (half-done means, gradients of an open window) is put together; else it is rank 0's. */
stk_status stk__state_save(stk_trainer *t, const char *path, bool weights_only, bool together,
                           const char *replaces, stk_error *err);
/*
 * Of ranks that share the training out: whether each writes its part of the checkpoint that rank 0
 * names, *part, or rank 0 all of it, where `count` stays 0. In `first`, of STK_MAX_OBJECT_KEY
 * bytes, the path. All ranks. (state_parts.c)
 */
stk_status stk__state_parts(stk_trainer *t, const char *path, stk__checkpoint_part *part,
                            char *first, stk_error *err);
/* Whether they do, as far as is known before the first save: where all ranks see one
 * folder or store. */
bool stk__state_in_parts(const stk_trainer *t);
/* Wait for uploads, `together` with all ranks that put parts of their own: then all hear whether
 * one of them has failed. (state_parts.c) */
void stk__state_upload(stk_trainer *t, bool together);
/* Have the memory of the checkpoints to come taken in the background: the first of them blocks no
 * longer than the others. */
stk_status stk__state_reserve(stk_trainer *t, stk_error *err);
/* Open `ckpt_path` ("last", "best", a file) for the task. */
stk_status stk__state_open(stk_trainer *t, const char *ckpt_path, stk_error *err);
/* The hooks; the callbacks' part, behind the beginning of shards; then the module's tensors; then
 * the loop. */
stk_status stk__state_load_hooks(stk_trainer *t, stk_error *err);
stk_status stk__state_load_callbacks(stk_trainer *t, stk_error *err);
stk_status stk__state_load_module(stk_trainer *t, bool weights_only, stk_error *err);
stk_status stk__state_load_loop(stk_trainer *t, stk_error *err);
void stk__state_close(stk_trainer *t);
/* With the module: what callbacks have asked for (restore_copies.c). */
stk_status stk__state_load_copies(stk_trainer *t, stk_error *err);
void stk__state_forget_copies(stk_trainer *t);
bool stk__state_same_shape(const stk_state_tensor *a, const stk_state_tensor *b);
/* While rank 0 looks for a checkpoint: all ranks verify it, each some of its parts; for
 * stk__newest_where. (restore_parts.c) */
stk_status stk__state_verify(void *trainer, const char *path, stk_error *err);
/* All ranks, rank 0 behind its search: the path that it has found. The others verify meanwhile. */
stk_status stk__state_share_path(stk_trainer *t, char *path, size_t size, stk_error *err);
/* Have the checkpoint hold what this rank has of tensors of these kinds, where it lies in parts.
 * All ranks. (restore_parts.c) */
stk_status stk__state_bring(stk_trainer *t, uint32_t kinds, stk_error *err);

#endif
