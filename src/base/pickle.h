/* opcodes -> plain values */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's pickle of protocol 2 or 3 [Lib/pickletools.py], read by a machine that makes integers,
 * texts and plain containers. It looks up no name and calls nothing: what the few names of a
 * caller's table mean, and what becomes of them, is said by functions of the caller.
 */
#ifndef STK_SRC_BASE_PICKLE_H
#define STK_SRC_BASE_PICKLE_H

#include "base/base.h"

#define STK__PICKLE_MAX_STACK (1u << 20) /* objects and marks on the stack */
#define STK__PICKLE_MAX_NAME  256        /* bytes of a module, of a name in it */
#define STK__PICKLE_NEAR      1024       /* of a source: longer texts are left where they are */
#define STK__PICKLE_SHOWN     100        /* bytes of a name in a message, and its end */

/* A text within the pickle. */
typedef struct stk__pickle_text {
    const char *at; /* not ended by 0 */
    uint32_t length;
} stk__pickle_text;

typedef enum stk__pickle_kind {
    STK__PICKLE_NONE, /* also truths, whose number is 0 or 1, and numbers with a fraction */
    STK__PICKLE_INT,
    STK__PICKLE_TEXT,
    STK__PICKLE_FAR, /* a long text, which was not read */
    STK__PICKLE_TUPLE,
    STK__PICKLE_LIST,
    STK__PICKLE_DICT,
    STK__PICKLE_GLOBAL,
    STK__PICKLE_OWN /* the first kind of a caller's own */
} stk__pickle_kind;

/* A value never changes, but for lists and dictionaries, which grow, and a caller's own; it is
 * known by its number. */
typedef struct stk__pickle_value {
    uint8_t kind, global, dtype;
    union {
        int64_t number;
        stk__pickle_text text;
        struct {
            uint64_t offset;
            uint32_t length;
        } far;
        struct {
            uint32_t first, last, count; /* cells; a dictionary has keys and values in turn */
        } items;
        struct {
            uint32_t index, state; /* of a caller's own: values that it was made of */
        };
    };
} stk__pickle_value;

typedef struct stk__pickle_cell {
    uint32_t value, next;
} stk__pickle_cell;

typedef struct stk__pickle stk__pickle;

/* A name that a caller knows. */
typedef struct stk__pickle_name {
    const char *module, *name;
    uint8_t global, dtype; /* of the value that it is */
} stk__pickle_name;

/* What a caller knows of the objects. */
typedef struct stk__pickle_meaning {
    stk_stage stage;
    uint32_t max_values;  /* objects, items of containers, places of the memo */
    uint32_t max_bytes;   /* that are read of a source */
    const char *more;     /* of what it does not know, as "holds more than tensors" */
    const char *remedy;   /* what to do then, behind a ';' */
    const char *protocol; /* the same of other protocols, behind a ':' */
    const char *again;    /* and of damage, behind a ';' */
    const stk__pickle_name *names;
    size_t num_names;
    /* What a global gives for arguments. */
    stk_status (*reduce)(stk__pickle *m, uint32_t global, uint32_t arguments, uint32_t *out);
    /* (optional) An object is given its state; NULL: only dictionaries are, which say nothing. */
    stk_status (*build)(stk__pickle *m, uint32_t object, uint32_t state);
    /* (optional) What a persistent id is; NULL: there are none. */
    stk_status (*persistent)(stk__pickle *m, uint32_t id, uint32_t *out);
} stk__pickle_meaning;

/* Where the bytes of a pickle are that is not in memory. */
typedef struct stk__pickle_source {
    stk_status (*read)(void *user, uint64_t offset, uint64_t length, void *to, stk_error *err);
    void *user;
    uint64_t length;
} stk__pickle_source;

/* Numbers of values begin at 1: 0 is none. The caller sets the first members, and either `begin`,
 * `at` and `end` or `source`; texts lie in those bytes, or in blocks of the machine. */
struct stk__pickle {
    stk_context *ctx;
    const stk__pickle_meaning *of;
    const char *path;
    stk_error *err;
    const uint8_t *begin, *at, *end;
    const stk__pickle_source *source;
    uint64_t base; /* where `begin` lies in the pickle */
    stk__pickle_value *values;
    stk__pickle_cell *cells;
    uint32_t *stack, *marks, *memo;
    uint8_t **blocks;
    uint32_t num_values, num_cells, num_stack, num_marks, num_blocks;
    size_t value_room, cell_room, stack_room, mark_room, memo_room, block_room;
    uint64_t block_bytes;
};

/* Run all of it; *root is the value that it is. Errors: STK_EKIND naming what it does not know;
 * STK_EFORMAT, STK_ELIMIT, STK_ENOMEM, and those of the source. */
stk_status stk__pickle_run(stk__pickle *m, uint32_t *root);
void stk__pickle_release(stk__pickle *m);

stk_status stk__pickle_fail(stk__pickle *m, stk_status status, const char *format, ...)
    STK_PRINTF(3, 4);
/* A place of the pickle, for a message: behind the opcode that is run. */
uint64_t stk__pickle_offset(const stk__pickle *m);
/* A new value; *out (may be NULL) is its number. */
stk_status stk__pickle_make(stk__pickle *m, stk__pickle_value value, uint32_t *out);
/* Item `i` of a tuple or list where it is of a kind. The first ones only: it walks. NULL: there is
 * none. */
const stk__pickle_value *stk__pickle_item(const stk__pickle *m, const stk__pickle_value *of,
                                          uint32_t i, unsigned kind);
/* The same of any kind. */
const stk__pickle_value *stk__pickle_any_item(const stk__pickle *m, const stk__pickle_value *of,
                                              uint32_t i);
/* The value of a key of a dictionary; NULL: there is none. */
const stk__pickle_value *stk__pickle_find(const stk__pickle *m, const stk__pickle_value *dict,
                                          const char *key);
bool stk__pickle_is(stk__pickle_text text, const char *word);
/* A text of the file in a message: what is not ASCII becomes '?'. */
const char *stk__pickle_show(stk__pickle_text text, char out[STK__PICKLE_SHOWN]);

#endif
