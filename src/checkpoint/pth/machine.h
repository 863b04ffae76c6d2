/* opcodes -> values */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_PTH_MACHINE_H
#define STK_SRC_CHECKPOINT_PTH_MACHINE_H

#include "checkpoint/pth/pth.h"

#define STK__PTH_REMEDY "; save the weights alone, torch.save(model.state_dict(), FILE)"

typedef enum stk__pth_kind {
    STK__PTH_NONE, /* also truths and numbers with a fraction, which say nothing here */
    STK__PTH_INT,
    STK__PTH_TEXT,
    STK__PTH_TUPLE,
    STK__PTH_LIST,
    STK__PTH_DICT,
    STK__PTH_GLOBAL,
    STK__PTH_STORAGE,
    STK__PTH_TENSOR
} stk__pth_kind;

/* Names that tensors need. */
typedef enum stk__pth_global {
    STK__PTH_ORDERED_DICT,
    STK__PTH_TENSOR_V2,
    STK__PTH_TENSOR_V3,
    STK__PTH_PARAMETER,
    STK__PTH_STORAGE_CLASS, /* of a type of elements, or of none */
    STK__PTH_DTYPE
} stk__pth_global;

/* A value never changes, but for lists and dictionaries, which grow; it is known by its number. */
typedef struct stk__pth_value {
    uint8_t kind, global, dtype;
    union {
        int64_t number;
        stk__pth_text text;
        struct {
            uint32_t first, last, count; /* cells; a dictionary has keys and values in turn */
        } items;
        uint32_t index; /* of a tensor, made by `global`, or a storage: of its tuple */
    };
} stk__pth_value;

typedef struct stk__pth_cell {
    uint32_t value, next;
} stk__pth_cell;

/* Numbers of values begin at 1: 0 is none. */
typedef struct stk__pth_machine {
    stk_context *ctx;
    const uint8_t *begin, *at, *end;
    const char *path;
    stk_error *err;
    stk__pth_value *values;
    stk__pth_cell *cells;
    uint32_t *stack, *marks, *memo;
    uint32_t num_values, num_cells, num_stack, num_marks;
    size_t value_room, cell_room, stack_room, mark_room, memo_room;
} stk__pth_machine;

stk_status stk__pth_fail(stk__pth_machine *m, stk_status status, const char *format, ...)
    STK_PRINTF(3, 4);
/* A new value; *out (may be NULL) is its number. */
stk_status stk__pth_make(stk__pth_machine *m, stk__pth_value value, uint32_t *out);
/* Item `i` of a tuple or list. The first ones only: it walks. NULL: there is none. */
const stk__pth_value *stk__pth_item(const stk__pth_machine *m, const stk__pth_value *of,
                                    uint32_t i);

/* What objects mean (objects.c). The value that a global is; STK_EKIND for any other than those
 * above. */
stk_status stk__pth_find_global(stk__pth_machine *m, stk__pth_text module, stk__pth_text name,
                                stk__pth_value *out);
/* What a global gives for arguments. */
stk_status stk__pth_reduce(stk__pth_machine *m, uint32_t global, uint32_t arguments, uint32_t *out);
/* What a persistent id is: a storage. */
stk_status stk__pth_persistent(stk__pth_machine *m, uint32_t id, uint32_t *out);
/* The tensors of what the pickle is. */
stk_status stk__pth_select(stk__pth_machine *m, uint32_t root, stk__pth_tensors *out);

#endif
