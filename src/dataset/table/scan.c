/* SPDX-License-Identifier: Apache-2.0 */
/* All files of a spec, looked at and scanned by several threads. */
#include <stdio.h>

#include "base/counted.h"
#include "dataset/lookers.h"
#include "dataset/table/formats.h"
#include "dataset/table/inside.h"

stk_status stk__table_no_memory(const stk__table *t, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                     "%s: no memory to open %zu files; raise memory_limit, or open fewer",
                     stk__table_name(t), t->num_files);
}

/* ---- The list -------------------------------------------------------------------------------- */

static bool is_file(const void *user, const char *name)
{
    const stk__table *t = user;

    return stk__table_is_named(t->format, name, strlen(name));
}

static stk_status add_store(void *user, const char *folder, bool whole, uint32_t *store,
                            stk_store **out, stk_error *err)
{
    stk__table *t = user;

    (void)whole;
    STK_TRY(stk__listed_store(&t->stores, stk__table_name(t), "file", folder, store, err));
    *out = t->stores.items[*store].store;
    return STK_OK;
}

static stk_status add_file(void *user, uint32_t store, const char *key, stk_error *err)
{
    stk__table *t = user;
    stk_context *ctx = t->base.context;
    const size_t length = strlen(key) + 1;

    if (t->num_files == STK__TABLE_MAX_FILES)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET, "%s: more than %llu files; name fewer",
                         stk__table_name(t), (unsigned long long)STK__TABLE_MAX_FILES);
    char *text = stk__grow(ctx, t->text, &t->text_room, (uint64_t)t->text_bytes + length, 1);
    if (!text)
        return stk__table_no_memory(t, err);
    t->text = text;
    stk__table_kept *files =
        stk__grow(ctx, t->files, &t->files_room, (uint64_t)t->num_files + 1, sizeof *files);
    if (!files)
        return stk__table_no_memory(t, err);
    t->files = files;
    t->files[t->num_files++] = (stk__table_kept){.key = t->text_bytes, .store = store};
    memcpy(t->text + t->text_bytes, key, length);
    t->text_bytes += length;
    return STK_OK;
}

stk_status stk__table_list(stk__table *t, const char *url, stk_error *err)
{
    const stk__listing to = {.context = t->base.context,
                             .who = stk__table_name(t),
                             .noun = "file",
                             .suffix = t->format->suffixes[0],
                             .deep = true,
                             .user = t,
                             .is_file = is_file,
                             .add_store = add_store,
                             .add_file = add_file};

    return stk__listing_read(&to, url, err);
}

/* ---- Scanning -------------------------------------------------------------------------------- */

typedef struct job {
    stk__table *table;
    const void *options;
    stk__counted files;
} job;

static stk_status look_at(const stk__table_file *file, stk_error *err)
{
    const stk__table *t = file->table;
    stk__table_kept *k = file->kept;
    stk_object_info info = {.struct_size = sizeof info};

    stk_status status = stk_store_stat(file->store, file->key, NULL, &info, err);
    if (status == STK_OK && info.is_folder)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_DATASET, file->key, STK_NO_OFFSET,
                            "%s: '%.200s' is a folder; name files", stk__table_name(t), file->key);
    if (status == STK_ENOENT)
        return stk__fail_at(err, status, STK_STAGE_DATASET, file->key, STK_NO_OFFSET,
                            "%s: file %llu of %zu, '%.300s', is not there; fetch it, or name only "
                            "those that are",
                            stk__table_name(t), (unsigned long long)file->number + 1, t->num_files,
                            file->key);
    STK_TRY(status);
    k->size = info.size;
    k->identity = info.identity;
    k->mtime_ns = info.mtime_ns;
    if (stk__file_root(file->store) < 0 && info.identity)
        stk__store_know(file->store, file->key, &info);
    return STK_OK;
}

static stk_status scan_file(job *j, uint64_t number, stk_error *err)
{
    stk__table *t = j->table;
    stk__table_kept *k = &t->files[number];
    stk__table_file file = {.table = t,
                            .number = number,
                            .kept = k,
                            .key = t->text + k->key,
                            .store = t->stores.items[k->store].store};

    k->layout = stk__calloc(t->base.context, 1, sizeof *k->layout);
    if (!k->layout)
        return stk__table_no_memory(t, err);
    k->owns_layout = true;
    STK_TRY(look_at(&file, err));
    STK_TRY(t->format->scan(&file, j->options, err));
    return stk__table_file_finish(&file, err);
}

static void scan_main(void *argument)
{
    job *j = argument;
    uint64_t i, end;
    stk_error err;

    while (stk__counted_take(&j->files, &i, &end)) {
        stk_error_init(&err);
        const stk_status status = scan_file(j, i, &err);
        if (status != STK_OK)
            stk__counted_fail(&j->files, i, status, &err);
        atomic_fetch_add_explicit(&j->files.done, 1, memory_order_relaxed);
    }
}

/* Files that are alike share a layout; rows are counted through. */
static stk_status tie_files(stk__table *t, stk_error *err)
{
    for (size_t i = 0; i < t->num_files; i++) {
        stk__table_kept *k = &t->files[i];
        k->first_row = t->num_rows;
        t->num_rows += k->rows; /* 2^20 files of 2^48 rows at most */
        if (t->num_rows > UINT64_C(1) << 48)
            return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                             "%s: there are more than 2^48 rows; name fewer files",
                             stk__table_name(t));
        if (i && stk__table_layout_same(k->layout, t->files[i - 1].layout)) {
            stk__table_kept none = {.layout = k->layout, .owns_layout = true};
            stk__table_kept_release(t->base.context, &none);
            k->layout = t->files[i - 1].layout;
            k->owns_layout = false;
        }
    }
    return STK_OK;
}

/* Whether it says nothing, as one of no bytes. */
static bool is_void(const stk__table_kept *k)
{
    return !k->rows && !k->layout->num_columns;
}

static void pass_over_void(stk__table *t)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->num_files; i++)
        if (is_void(&t->files[i]))
            stk__table_kept_release(t->base.context, &t->files[i]);
        else
            stk__table_keys_move(t, i, kept++);
    t->num_files = kept;
}

stk_status stk__table_scan(stk__table *t, const void *options, stk_error *err)
{
    stk_context *ctx = t->base.context;
    char what[64];
    job j = {.table = t, .options = options};
    const bool local = stk__file_root(t->stores.items[t->files[0].store].store) >= 0;

    /* What the first one with columns learns holds for the others. */
    stk_status status = scan_file(&j, 0, err);
    while (status == STK_OK && is_void(&t->files[t->learnt_from]) &&
           t->learnt_from + 1 < t->num_files)
        status = scan_file(&j, ++t->learnt_from, err);
    const uint64_t begun = t->learnt_from + 1,
                   threads =
                       STK_MIN(local ? stk__lookers(ctx) : STK__LOOKERS_FAR, t->num_files - begun);
    if (status == STK_OK && threads) {
        stk__counted_init(&j.files, t->num_files, 1);
        atomic_store(&j.files.next, begun);
        atomic_store(&j.files.done, begun);
        snprintf(what, sizeof what, "files of %s", stk__table_name(t));
        stk__lookers_run(ctx, (uint32_t)threads, scan_main, &j, what, &j.files.done, t->num_files);
        status = stk__counted_end(&j.files, err);
    }
    STK_TRY(status);
    if (!is_void(&t->files[t->learnt_from])) /* else all are, and are counted */
        pass_over_void(t);
    return tie_files(t, err);
}
