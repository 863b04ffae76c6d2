/* kind, name -> driver */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_REGISTRY_H
#define STK_SRC_BASE_REGISTRY_H

#include "base/base.h"

/* A kind of drivers, as the composition root lists it. */
typedef struct stk__drivers {
    const char *word;           /* "dataset" */
    const void *const *builtin; /* NULL-ended; each begins as a stk_driver_head */
    /* Whether an outsider's table is whole. */
    stk_status (*check)(const void *table, stk_error *err);
} stk__drivers;

/* Defined by the composition root, src/stoker.c. */
const stk__drivers *stk__drivers_of(stk_driver_kind kind);
/* The driver whose name are these `length` bytes, as stk_driver_find() does; NULL: none. */
const void *stk__driver_find(const stk_context *ctx, stk_driver_kind kind, const char *name,
                             size_t length);
bool stk__driver_is_builtin(stk_driver_kind kind, const void *table);
/* The names of a kind with a text between them, cut to what fits. */
void stk__driver_names(const stk_context *ctx, stk_driver_kind kind, const char *between,
                       char *text, size_t size);
/* Add all or none; with `plugin`, which may be NULL, nothing where the context has that already. */
stk_status stk__drivers_add(stk_context *ctx, const stk_plugin *plugin,
                            const stk_plugin_driver *drivers, size_t n, stk_error *err);

#endif
