/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of files, asked for by several threads. */
#include "base/counted.h"
#include "dataset/images.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK       256u /* files that a thread takes at a time */
#define FEW         64u  /* files that are not worth a thread */
#define SIZE_ABSENT 1u   /* of a file that is not there: reading a byte of it says why */

typedef struct sizes {
    stk__images_table *table;
    stk_store *store;
    int root;
    atomic_uint_fast64_t missing; /* the first file that is not there */
    stk__counted files;
} sizes;

static void note_missing(sizes *s, uint64_t i)
{
    uint_fast64_t least = atomic_load(&s->missing);

    s->table->files[i].size = SIZE_ABSENT;
    while (i < least && !atomic_compare_exchange_weak(&s->missing, &least, i))
        continue;
}

static stk_status look_at_local(sizes *s, int folder, uint64_t i, stk_error *err)
{
    stk__images_file *file = &s->table->files[i];
    char key[STK_MAX_OBJECT_KEY];
    struct stat st;

    stk__images_key(s->table, i, key, sizeof key);
    if (stk__images_look_at(s->store, folder, s->table->text + file->name, key, &st) == 0) {
        if (S_ISREG(st.st_mode))
            file->size = (uint64_t)st.st_size;
        else
            note_missing(s, i);
        return STK_OK;
    }
    int error = errno;
    if (error == ENOENT || error == ENOTDIR || error == ELOOP) {
        note_missing(s, i);
        return STK_OK;
    }
    return stk__images_system_fail(s->store, err, "look at", key, error);
}

static stk_status look_at_stored(sizes *s, uint64_t i, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];

    stk__images_key(s->table, i, key, sizeof key);
    stk_status status = stk_store_stat(s->store, key, NULL, &info, err);
    if (status == STK_ENOENT || status == STK_EKIND || (status == STK_OK && info.is_folder)) {
        note_missing(s, i);
        return STK_OK;
    }
    if (status == STK_OK)
        s->table->files[i].size = info.size;
    return status;
}

static stk_status look_at_chunk(sizes *s, uint64_t first, uint64_t end, stk_error *err)
{
    const stk__images_table *t = s->table;
    stk_status status = STK_OK;
    uint32_t opened = UINT32_MAX;
    int folder = -1;

    for (uint64_t i = first; i < end && status == STK_OK && !atomic_load(&s->files.failed); i++) {
        uint32_t f = t->files[i].folder;
        if (s->root < 0) {
            status = look_at_stored(s, i, err);
            continue;
        }
        if (f != opened) {
            const char *path = t->text + t->folders[f].path;
            if (folder >= 0)
                close(folder);
            folder = stk__file_open_below(s->store, path, O_PATH | O_DIRECTORY);
            opened = f;
            if (folder < 0)
                return stk__images_system_fail(s->store, err, "look into the folder", path, errno);
        }
        status = look_at_local(s, folder, i, err);
    }
    if (folder >= 0)
        close(folder);
    return status;
}

static void sizes_main(void *argument)
{
    sizes *s = argument;
    uint64_t first, end;
    stk_error err;

    stk_error_init(&err);
    while (stk__counted_take(&s->files, &first, &end)) {
        stk_status status = look_at_chunk(s, first, end, &err);
        if (status != STK_OK)
            stk__counted_fail(&s->files, first, status, &err);
        atomic_fetch_add_explicit(&s->files.done, end - first, memory_order_relaxed);
    }
}

stk_status stk__images_find_sizes(stk__images_table *table, stk_store *store, uint32_t threads,
                                  uint64_t *missing, stk_error *err)
{
    sizes s = {.table = table, .store = store, .root = stk__file_root(store)};

    atomic_init(&s.missing, UINT64_MAX);
    if (table->num_files <= FEW)
        threads = 1;
    stk__counted_init(&s.files, table->num_files, CHUNK);
    stk__lookers_run(table->context, threads, sizes_main, &s, "sizes of pictures", &s.files.done,
                     table->num_files);
    if (missing)
        *missing = atomic_load(&s.missing);
    return stk__counted_end(&s.files, err);
}
