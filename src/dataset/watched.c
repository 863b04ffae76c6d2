/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/watched.h"

#define EVERY_NS UINT64_C(100000000) /* from look to look at one file */

/* One that is gone is no other one: reads say what fails. */
static stk_status look(stk__watched_file *w, const char *who, const char *noun, stk_store *store,
                       const char *key, const stk_object_info *was, stk_error *err)
{
    const stk_store_call call = {.struct_size = sizeof call, .bare = true};
    stk_object_info is = {.struct_size = sizeof is};

    if (stk_store_stat(store, key, &call, &is, NULL) != STK_OK || is.is_folder)
        return STK_OK;
    const bool changed = stk__store_is_other(was, &is, false);
    atomic_store(&w->changed, changed);
    if (!changed)
        return STK_OK;
    return stk__fail_at(err, STK_ECHANGED, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                        "%s: the %s %.200s has changed since the dataset was opened (%llu bytes "
                        "then, %llu now); open it again when no program writes it",
                        who, noun, key, (unsigned long long)was->size, (unsigned long long)is.size);
}

stk_status stk__watched_look(stk__watched_file *w, const char *who, const char *noun,
                             stk_store *store, const char *key, const stk_object_info *was,
                             stk_error *err)
{
    const uint64_t now = stk__now_ns();
    uint_fast64_t due = atomic_load_explicit(&w->due_ns, memory_order_relaxed);

    if (stk__file_root(store) < 0)
        return STK_OK;
    if (!atomic_load_explicit(&w->changed, memory_order_relaxed) &&
        (now < due || !atomic_compare_exchange_strong(&w->due_ns, &due, now + EVERY_NS)))
        return STK_OK;
    return look(w, who, noun, store, key, was, err);
}
