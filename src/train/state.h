/* names and layout of what the trainer keeps in a checkpoint */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_STATE_H
#define STK_SRC_TRAIN_STATE_H

#include "train/train.h"

#define STK__STATE_VERSION   1
#define STK__STATE_LOOPS     STK__CHECKPOINT_OWN "loops"
#define STK__STATE_LOADER    STK__CHECKPOINT_OWN "loader"
#define STK__STATE_OPTIMIZER STK__CHECKPOINT_OWN "optimizer."
#define STK__STATE_GRADIENT  STK__CHECKPOINT_OWN "gradient."
#define STK__STATE_CALLBACK  STK__CHECKPOINT_OWN "callback."
#define STK__STATE_MODULE    STK__CHECKPOINT_OWN "module."

struct stk_saver {
    stk_context *ctx;
    const char *prefix; /* of the names that are put in now */
    stk_state_tensor *tensors;
    stk__checkpoint_text *texts;
    size_t num_tensors, tensor_room, num_texts, text_room;
};

struct stk_restorer {
    const stk__checkpoint *checkpoint;
    const char *prefix;
};

enum { STK__PROGRESS_NAMES = 6 };

typedef struct stk__progress_name {
    const char *name;
    size_t offset;
} stk__progress_name;

extern const stk__progress_name stk__progress_names[STK__PROGRESS_NAMES];

/* Read the text of the loops: where the run stood, and its metrics. `threads`: of compute, then. */
stk_status stk__loops_read(stk_trainer *t, const char *text, uint64_t *threads, stk_error *err);

/* What the names of a callback (NULL: of the module) begin with. */
const char *stk__state_prefix(const stk_trainer *t, const stk_callback *callback, char *prefix,
                              size_t size);

#endif
