/* SPDX-License-Identifier: Apache-2.0 */
/* What a container holds, and what a read of it costs, in lines. */
#include <inttypes.h>
#include <stdio.h>

#include "store/container_store.h"

#define MOST_LOOKED (UINT64_C(1) << 22) /* runs: many names may be of one file of many */

typedef struct sums {
    uint64_t files, folders, others, packed;
    uint64_t length, stored;               /* bytes of all files */
    uint64_t looked;                       /* runs, up to MOST_LOOKED */
    uint64_t packed_runs;                  /* of packed files */
    uint64_t run_stored, run_length, most; /* of these runs: all bytes; the largest, unpacked */
} sums;

/* Add the runs of a file. */
static stk_status add_file(const stk__container *c, const stk__container_entry *file, sums *s,
                           stk_error *err)
{
    bool packed = false;
    stk__container_run run;

    s->files++;
    s->length += file->length;
    for (uint64_t at = 0; at < file->length && s->looked < MOST_LOOKED; at += run.length) {
        s->looked++;
        if (stk__container_find_run(c, file, at, &run) != STK_OK)
            return stk__container_fail(c, err, STK_EFORMAT, STK_NO_OFFSET,
                                       "has lost '%.200s': its tables are damaged; copy or "
                                       "download it again",
                                       stk__container_path(c, file));
        if (run.raw || !run.stored) {
            s->stored += run.stored ? run.length : 0;
            continue;
        }
        /* Of a run that files share, a file has its part. */
        s->stored += (uint64_t)((double)run.stored * (double)run.length / (double)run.decoded);
        s->packed_runs++;
        s->run_stored += run.stored;
        s->run_length += run.decoded;
        s->most = STK_MAX(s->most, run.decoded);
        packed = true;
    }
    s->packed += packed;
    return STK_OK;
}

/* Folders that paths go through and nothing names, of those that entry `i` is the first to go
 * through; below the first `length` bytes of its path. */
static uint64_t unnamed_folders(const stk__container *c, size_t i, size_t length)
{
    const char *const name = stk__container_path(c, &c->entries[i]);
    const char *const before = i ? stk__container_path(c, &c->entries[i - 1]) : "";
    char folder[STK_MAX_OBJECT_KEY];
    uint64_t count = 0;

    for (size_t at = length + 1; name[at]; at++) {
        if (name[at] != '/' || strncmp(name, before, at + 1) == 0)
            continue;
        memcpy(folder, name, at);
        folder[at] = 0;
        count += !stk__container_find(c, folder);
    }
    return count;
}

/* Add what lies below a folder, or the file itself. */
static stk_status add_all(const stk__container *c, const char *path, sums *s, stk_error *err)
{
    const stk__container_entry *entry = stk__container_find(c, path);
    const size_t length = strlen(path);

    if (entry && entry->is == STK__CONTAINED_FILE)
        return add_file(c, entry, s, err);
    for (size_t i = stk__container_place(c, path); i < c->count; i++) {
        const char *name = stk__container_path(c, &c->entries[i]);
        if (strncmp(name, path, length) != 0)
            break;
        if ((length && name[length] != '/') || !*name)
            continue;
        s->folders += (c->entries[i].is == STK__CONTAINED_FOLDER) + unnamed_folders(c, i, length);
        s->others += c->entries[i].is == STK__CONTAINED_OTHER;
        if (c->entries[i].is == STK__CONTAINED_FILE)
            STK_TRY(add_file(c, &c->entries[i], s, err));
    }
    return STK_OK;
}

/* What a read of some of a file costs. */
static void say_reads(const stk__container_store *store, const sums *s, char text[300])
{
    const uint64_t most = store->options.unpacked_cache;
    const uint64_t runs = STK_MAX(s->packed_runs, 1);

    if (!s->packed) {
        snprintf(text, 300, "the bytes asked for and no more");
        return;
    }
    snprintf(text, 300,
             "of a packed file %" PRIu64 " bytes are read and %" PRIu64
             " unpacked for any part of them, in the mean, at most %" PRIu64 "%s%s",
             s->run_stored / runs, s->run_length / runs, s->most,
             s->most > most ? ", which is more than unpacked_cache: as a whole alone" : "",
             s->packed < s->files ? "; of the others the bytes asked for" : "");
}

stk_status stk__container_describe(stk_store *base, const char *key,
                                   void (*line)(void *user, const char *name, const char *value),
                                   void *user, stk_error *err)
{
    const stk__container_store *store = (stk__container_store *)base;
    const stk__container *c = store->container;
    char path[STK_MAX_OBJECT_KEY], text[STK_ERROR_TEXT];
    stk_object_info info = {.struct_size = sizeof info};
    sums s = {0};

    STK_TRY(stk_store_stat(base, key, NULL, &info, err));
    STK_TRY(stk__container_path_of(store, key, path, err));
    STK_TRY(add_all(c, path, &s, err));
    snprintf(text, sizeof text, "%s %.400s, %" PRIu64 " bytes", c->format->word, c->url, c->size);
    line(user, "container", text);
    snprintf(text, sizeof text, "%.500s", *path ? path : "all of it");
    line(user, "in it", text);
    snprintf(text, sizeof text, "%" PRIu64, s.files);
    line(user, "files", text);
    snprintf(text, sizeof text, "%" PRIu64, s.folders);
    line(user, "folders", text);
    if (s.others) {
        snprintf(text, sizeof text, "%" PRIu64 " links and devices, which are not followed",
                 s.others);
        line(user, "others", text);
    }
    snprintf(text, sizeof text, "%" PRIu64 " bytes", s.length);
    line(user, "unpacked", text);
    if (s.looked < MOST_LOOKED)
        snprintf(text, sizeof text, "%" PRIu64 " bytes, %.3g %% of unpacked", s.stored,
                 s.length ? 100.0 * (double)s.stored / (double)s.length : 100.0);
    else
        snprintf(text, sizeof text, "%" PRIu64 " bytes of those that were looked at", s.stored);
    line(user, "stored", text);
    snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64, s.packed, s.files);
    line(user, "packed files", text);
    say_reads(store, &s, text);
    line(user, "a random read", text);
    return STK_OK;
}
