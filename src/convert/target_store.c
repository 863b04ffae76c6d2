/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of any store that is written: each file is put under its name, whole and safe at once,
 * by the worker that made it. Nothing locks it.
 */
#include <stdio.h>

#include "base/files.h"
#include "base/url.h"
#include "convert/target.h"

#define CHECK_BYTES ((uint64_t)1 << 20) /* of one read */

typedef struct store_target {
    stk__target base;
    stk_store *store;
    bool begun;                      /* a journal without anything in it may be ours */
    char prefix[STK_MAX_OBJECT_KEY]; /* of its keys; empty, or with '/' at its end */
} store_target;

static store_target *of(stk__target *target)
{
    return (store_target *)target;
}

/* What is wished of a put of so many bytes. */
static stk_store_call call_of(const store_target *t, uint64_t length)
{
    return (stk_store_call){.struct_size = sizeof(stk_store_call),
                            .deadline_ns = stk__store_put_deadline(length),
                            .canceled = stk__convert_canceled,
                            .user = (void *)t->base.job};
}

/* ---- Files ----------------------------------------------------------------------------------- */

static stk_status store_begin(stk__target *target, stk_error *err)
{
    (void)err;
    of(target)->begun = true;
    return STK_OK;
}

static stk_status nothing(stk__target *target, stk_error *err)
{
    (void)target, (void)err;
    return STK_OK;
}

static stk_status compare(const store_target *t, const char *key, const uint8_t *data,
                          uint64_t size, uint8_t *back, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    STK_TRY(stk_store_stat(t->store, key, NULL, &info, err));
    bool same = info.size == size;
    for (uint64_t at = 0; same && at < size; at += CHECK_BYTES) {
        const uint64_t n = STK_MIN(size - at, CHECK_BYTES);
        STK_TRY(stk_store_read(t->store, key, at, n, back, err));
        same = memcmp(back, data + at, (size_t)n) == 0;
    }
    return same ? STK_OK : stk__target_fail_check(&t->base, err);
}

/* Whether the object holds exactly these bytes; if not it goes. */
static stk_status check_object(const store_target *t, const char *key, const void *data,
                               uint64_t size, stk_error *err)
{
    stk_context *ctx = t->base.job->context;
    uint8_t *back = stk__alloc(ctx, STK_MIN(STK_MAX(size, 1), CHECK_BYTES));

    const stk_status status = back ? compare(t, key, data, size, back, err)
                                   : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                                               "no memory to read '%.200s' back", key);
    stk__free(ctx, back);
    if (status != STK_OK)
        (void)stk__store_remove(t->store, key, NULL);
    return status;
}

static stk_status store_write(stk__target *target, uint64_t number, const char *name,
                              const void *data, uint64_t size, bool check, stk_error *err)
{
    store_target *t = of(target);
    char key[STK_MAX_OBJECT_KEY];

    (void)number;
    STK_TRY(stk__key_below(t->prefix, name, key, err));
    const stk_store_call call = call_of(t, size);
    STK_TRY(stk_store_put(t->store, key, data, size, &call, err));
    /* What is there is found again by its journal. */
    atomic_store(&target->kept, true);
    return check ? check_object(t, key, data, size, err) : STK_OK;
}

/* It has its name already. */
static stk_status store_name(stk__target *target, uint64_t number, const char *name, stk_error *err)
{
    (void)target, (void)number, (void)name, (void)err;
    return STK_OK;
}

static void store_drop(stk__target *target, uint64_t number)
{
    (void)target, (void)number;
}

static stk_status store_size(stk__target *target, const char *name, uint64_t *size, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];

    STK_TRY(stk__key_below(of(target)->prefix, name, key, err));
    STK_TRY(stk_store_stat(of(target)->store, key, NULL, &info, err));
    *size = info.size;
    return info.is_folder ? STK_ENOENT : STK_OK;
}

static stk_status store_remove(stk__target *target, const char *name, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];

    STK_TRY(stk__key_below(of(target)->prefix, name, key, err));
    return stk__store_remove(of(target)->store, key, err);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void store_close(stk__target *target)
{
    store_target *t = of(target);

    if (t->begun && !target->has_journal && !atomic_load(&target->kept))
        (void)store_remove(target, target->journal, NULL);
    stk_store_close(&t->store);
    stk__free(target->job->context, t);
}

static stk_status note_other(void *user, const char *key, const stk_object_info *info)
{
    store_target *t = user;
    const char *name = key + strlen(t->prefix);

    (void)info;
    if (strncmp(name, STK__TARGET_PART, strlen(STK__TARGET_PART)) == 0)
        t->base.has_parts = true;
    return strncmp(name, STK__TARGET_OWN, strlen(STK__TARGET_OWN)) == 0 || stk__is_temporary(name)
               ? STK_OK
               : STK_EOS;
}

/* Whether there is something that is not ours; asked for where it matters alone. */
static stk_status look(store_target *t, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk__presence journal;
    stk_error own;

    STK_TRY(stk__key_below(t->prefix, t->base.journal, key, err));
    STK_TRY(stk__store_look(t->store, key, &journal, err));
    t->base.has_journal = journal == STK__IS_OBJECT;
    if (t->base.has_journal || t->base.job->options->overwrite)
        return STK_OK;
    snprintf(key, sizeof key, "%.*s", (int)STK_MAX(strlen(t->prefix), (size_t)1) - 1, t->prefix);
    const stk_status status = stk_store_list(t->store, key, NULL, note_other, t, &own);
    t->base.has_others = status == STK_EOS;
    if (status == STK_OK || status == STK_EOS || status == STK_ENOENT)
        return STK_OK;
    if (status == STK_ENOTSUP)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_OPTIONS,
                         "whether the target %.200s is empty cannot be told: %.200s; set overwrite "
                         "where nothing there is worth keeping",
                         t->base.job->target, own.text);
    if (err)
        *err = own;
    return status;
}

static const stk__target_ops store_ops = {
    .begin = store_begin,
    .write = store_write,
    .name = store_name,
    .drop = store_drop,
    .sync = nothing,
    .size = store_size,
    .remove = store_remove,
    .close = store_close,
};

stk_status stk__target_store_open(const stk_conversion_job *job, const char *suffix,
                                  stk__target **out, stk_error *err)
{
    store_target *t = stk__calloc(job->context, 1, sizeof *t);

    if (!t)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the target");
    stk__target_init(&t->base, &store_ops, job, suffix);
    *out = &t->base;
    STK_TRY(stk__put_folder_open(job->context, job->target, &t->store, t->prefix, err));
    return look(t, err);
}
