/* Files that are written while they are read: they are looked at before that, now and then. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_WATCHED_H
#define STK_SRC_DATASET_WATCHED_H

#include "base/base.h"
#include "store/store.h"

typedef struct stk__watched_file {
    atomic_uint_fast64_t due_ns; /* not looked at before */
    atomic_bool changed;         /* as seen last */
} stk__watched_file;

/*
 * STK_ECHANGED for a file that is another one than `was`. Old places in a new file give bytes of
 * anything. Stores of other machines hold each read to the version that they were told by
 * stk__store_know(); local files are looked at here, every 100 ms at most. Any thread.
 */
stk_status stk__watched_look(stk__watched_file *w, const char *who, const char *noun,
                             stk_store *store, const char *key, const stk_object_info *was,
                             stk_error *err);

#endif
