/* a spec of braces, lists and folders -> the files that it names */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_LISTING_H
#define STK_SRC_DATASET_LISTING_H

#include "base/base.h"

#define STK__LISTING_MAX (UINT64_C(1) << 20) /* files of one folder, of one pair of braces */

/* ---- Folders with their stores ---- */

typedef struct stk__listed_place {
    struct stk_store *store;
    char *folder; /* URL or path of it */
} stk__listed_place;

typedef struct stk__listed_stores {
    stk_context *context;
    stk__listed_place *items;
    size_t count, room;
} stk__listed_stores;

/* Open the store of a folder, or find it among those that are open. Messages begin with `who` and
 * call its files `noun`. Blocks. */
stk_status stk__listed_store(stk__listed_stores *list, const char *who, const char *noun,
                             const char *folder, uint32_t *store, stk_error *err);
void stk__listed_stores_release(stk__listed_stores *list);

/* ---- Files ---- */

/* Who asks for files, and where they go. */
typedef struct stk__listing {
    stk_context *context;
    const char *who;    /* the kind of dataset */
    const char *noun;   /* "shard", "file" */
    const char *suffix; /* as of most of them, for messages: ".tar" */
    bool deep;          /* folders within a folder are read, too, but those of names with '_' */
    void *user;
    /* Whether a name, without its folders, is that of such a file. */
    bool (*is_file)(const void *user, const char *name);
    /* The next files lie in this folder; `whole`: all of them, as the spec names it alone. */
    stk_status (*add_store)(void *user, const char *folder, bool whole, uint32_t *store,
                            struct stk_store **out, stk_error *err);
    stk_status (*add_file)(void *user, uint32_t store, const char *key, stk_error *err);
} stk__listing;

/* The files of a spec, in its order. Blocks. */
stk_status stk__listing_read(const stk__listing *to, const char *url, stk_error *err);

#endif
