/* SPDX-License-Identifier: Apache-2.0 */
#include "array/watch.h"

#include <stdio.h>
#include <time.h>

#define NEAR_EVERY   UINT64_C(100000000)  /* from look to look at one object */
#define FAR_EVERY    UINT64_C(1000000000) /* from look to look at any */
#define PATIENCE     UINT64_C(5000000000) /* a look that takes longer is none */
#define MOST_AT_ONCE 4096 /* objects looked at while opening; of more each at its first read */

void stk__watch_before(stk_store *store, const char *key, stk_object_info *out)
{
    *out = (stk_object_info){.struct_size = sizeof *out};
    if (*key && (stk_store_stat(store, key, NULL, out, NULL) != STK_OK || out->is_folder))
        out->identity = 0;
}

/* Places of a key rule follow from no object, and a format that reads chunks sees for itself what
 * it reads. Of raw elements nothing was read: the caller says where they lie. */
static bool is_watched(const stk_array *a)
{
    return (a->manifest == STK__MANIFEST_ONE || a->manifest == STK__MANIFEST_PLACES) &&
           a->ops != &stk__array_raw;
}

static stk_status create(stk_array *a, stk_error *err)
{
    const uint64_t count = STK_MAX(a->num_objects, 1);
    stk_store_limits limits;
    uint64_t bytes;

    if (!stk__mul_size(count, sizeof *a->watch->objects, &bytes) ||
        !stk__add_size(bytes, sizeof *a->watch, &bytes) ||
        !(a->watch = stk__calloc(a->context, 1, bytes)))
        return stk__array_no_memory(a, err);
    pthread_mutex_init(&a->watch->mutex, NULL);
    stk__store_limits(stk__array_store(a), &limits);
    a->watch->far = limits.coalesce_gap >= STK__ARRAY_FAR_GAP;
    a->watch->every_ns = a->watch->far ? FAR_EVERY : NEAR_EVERY;
    a->watch->count = count;
    if (a->watch->far) /* it was seen a moment ago */
        atomic_init(&a->watch->due_ns, stk__now_ns() + FAR_EVERY);
    return STK_OK;
}

static void note(stk__watched *o, const stk_object_info *info)
{
    o->identity = info->identity;
    o->size = info->size;
    o->mtime_ns = info->mtime_ns;
}

stk_status stk__watch_begin(stk_array *a, const stk_object_info *opened, stk_error *err)
{
    stk_object_info info;

    if (!is_watched(a))
        return STK_OK;
    STK_TRY(create(a, err));
    const bool all = !a->watch->far && a->watch->count <= MOST_AT_ONCE;
    for (uint64_t i = 0; i < a->watch->count; i++) {
        const char *key = a->objects ? a->objects[i] : a->object_key;
        if (strcmp(key, a->metadata_key) == 0) {
            note(&a->watch->objects[i], opened);
        } else if (all) {
            stk__watch_before(stk__array_store(a), key, &info);
            note(&a->watch->objects[i], &info);
        }
    }
    return STK_OK;
}

stk_status stk__watch_join(stk_array *a, stk_array *const *files, stk_error *err)
{
    STK_TRY(create(a, err));
    for (uint64_t i = 0; i < a->watch->count; i++) {
        if (!files[i]->watch)
            continue;
        const stk__watched *from = &files[i]->watch->objects[0];
        stk__watched *to = &a->watch->objects[i];
        to->identity = from->identity;
        to->size = from->size;
        to->mtime_ns = from->mtime_ns;
    }
    return STK_OK;
}

void stk__watch_end(stk_array *a)
{
    if (!a->watch)
        return;
    pthread_mutex_destroy(&a->watch->mutex);
    stk__free(a->context, a->watch);
    a->watch = NULL;
}

/* ---- Looking ---- */

static bool differs(const stk__array_watch *w, const stk__watched *was, const stk_object_info *is)
{
    const stk_object_info before = {.struct_size = sizeof before,
                                    .identity = was->identity,
                                    .size = was->size,
                                    .mtime_ns = was->mtime_ns};

    return stk__store_is_other(&before, is, w->far);
}

/* "5120 bytes of 2026-01-31T12:00:00.000000000Z" */
static void write_version(char *text, size_t size, uint64_t bytes, int64_t mtime_ns)
{
    const int64_t ns = (mtime_ns % 1000000000 + 1000000000) % 1000000000;
    const time_t seconds = (mtime_ns - ns) / 1000000000;
    char when[40] = "";
    struct tm tm;

    if (mtime_ns && gmtime_r(&seconds, &tm))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
    if (*when)
        snprintf(text, size, "%llu bytes of %s.%09lldZ", (unsigned long long)bytes, when,
                 (long long)ns);
    else
        snprintf(text, size, "%llu bytes", (unsigned long long)bytes);
}

static stk_status has_changed(const stk__watched *was, const stk_object_info *is, const char *key,
                              stk_error *err)
{
    char before[96], now[96];

    write_version(before, sizeof before, was->size, was->mtime_ns);
    write_version(now, sizeof now, is->size, is->mtime_ns);
    return stk__fail_at(err, STK_ECHANGED, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "%.200s has changed since it was opened, so that what was read of it is "
                        "not to be used: it had %s and has %s; open it again, which makes an index "
                        "kept beside it anew, when no program writes it",
                        key, before, now);
}

static stk_status look(const stk_array *a, uint64_t object, stk_error *err)
{
    const stk_store_call call = {
        .struct_size = sizeof call, .deadline_ns = stk__now_ns() + PATIENCE, .bare = true};
    stk_object_info is = {.struct_size = sizeof is};
    stk__array_watch *w = a->watch;
    stk__watched *o = &w->objects[object];
    char key[STK_MAX_OBJECT_KEY];
    stk_status status = STK_OK;

    stk__array_key(a, object, key, sizeof key);
    /* One that is gone, or cannot be asked for, is no other one: reads say what fails. */
    if (stk_store_stat(stk__array_store(a), key, &call, &is, NULL) != STK_OK || !is.identity ||
        is.is_folder)
        return STK_OK;
    pthread_mutex_lock(&w->mutex);
    if (!o->identity)
        note(o, &is);
    const bool changed = differs(w, o, &is);
    if (changed)
        status = has_changed(o, &is, key, err);
    pthread_mutex_unlock(&w->mutex);
    atomic_store(&o->changed, changed);
    return status;
}

stk_status stk__array_unchanged(const stk_array *a, uint64_t object, bool now, stk_error *err)
{
    stk__array_watch *w = a->watch;

    if (!w || object >= w->count)
        return STK_OK;
    stk__watched *o = &w->objects[object];
    atomic_uint_fast64_t *due = w->far ? &w->due_ns : &o->due_ns;
    const uint64_t at = stk__now_ns();
    uint64_t when = atomic_load(due);
    if (!now && !atomic_load(&o->changed) &&
        (at < when || !atomic_compare_exchange_strong(due, &when, at + w->every_ns)))
        return STK_OK;
    return look(a, object, err);
}
