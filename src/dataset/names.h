/* texts -> numbers of names, in the order of their bytes */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of names that labels and categories are numbers of. Names are added as they are met;
 * when all are known they are sorted, and numbers given before are renumbered.
 */
#ifndef STK_SRC_DATASET_NAMES_H
#define STK_SRC_DATASET_NAMES_H

#include "base/base.h"

#define STK__NAMES_MOST (UINT32_C(1) << 24)

typedef struct stk__names {
    stk_context *context;
    const char **list; /* [count], each ended by a zero, once they are sorted or kept as they are */
    uint32_t count;
    char *text; /* all names, each ended by a zero */
    size_t text_bytes, text_room;
    uint64_t *places; /* where the names begin in `text`, by number */
    size_t places_room;
    uint32_t *slots; /* numbers by hash; UINT32_MAX: empty */
    uint64_t num_slots;
} stk__names;

/* The number of a name, which is added where it is new. STK_ENOMEM; STK_ELIMIT: there are too many;
 * STK_EFORMAT: a zero byte is in it. */
stk_status stk__names_add(stk__names *names, const char *text, size_t length, uint32_t *number);
/* The number of a name that is there; false: it is not. */
bool stk__names_find(const stk__names *names, const char *text, size_t length, uint32_t *number);
/* Sort them by their bytes and set `list`. `renumber` (may be NULL) receives, in new memory, the
 * new number of each. No more are added then. */
stk_status stk__names_sort(stk__names *names, uint32_t **renumber);
/* Set `list` in the order in which they were added. */
stk_status stk__names_list(stk__names *names);
/* A fingerprint of all, after another. */
uint64_t stk__names_print(const stk__names *names, uint64_t print);
void stk__names_release(stk__names *names);

#endif
