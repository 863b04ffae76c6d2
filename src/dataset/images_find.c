/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of a table of files, found by their path or their name. */
#include <xxhash.h>

#include "dataset/images.h"

#define NONE UINT32_MAX

void stk__images_path_split(const char *path, size_t length, stk__images_path *out)
{
    const char *name = memrchr(path, '/', length);

    *out = (stk__images_path){.folder = path, .folder_length = name ? (size_t)(name - path) : 0};
    out->name = name ? name + 1 : path;
    out->name_length = out->stem_length = length - (size_t)(out->name - path);
    const char *dot = memrchr(out->name, '.', out->name_length);
    if (dot && stk__images_kind(out->name, out->name_length) >= STK__IMAGES_UNREAD)
        out->stem_length = (size_t)(dot - out->name);
}

void stk__images_path_of(const stk__images_table *t, uint64_t i, stk__images_path *out)
{
    stk__images_path_split(t->text + t->files[i].name, strlen(t->text + t->files[i].name), out);
    out->folder = t->text + t->folders[t->files[i].folder].path;
    out->folder_length = strlen(out->folder);
}

static uint64_t hash_of(const stk__images_finder *f, const stk__images_path *p)
{
    const uint64_t seed = f->by_name ? 0 : XXH3_64bits(p->folder, p->folder_length);

    return XXH3_64bits_withSeed(p->name, p->stem_length, seed) % f->num_slots;
}

static bool is_same(const stk__images_finder *f, const stk__images_path *wanted,
                    const stk__images_path *is)
{
    const bool whole = wanted->name_length != wanted->stem_length && !f->any_end;
    const size_t length = whole ? wanted->name_length : wanted->stem_length;

    return length == (whole ? is->name_length : is->stem_length) &&
           memcmp(wanted->name, is->name, length) == 0 &&
           (f->by_name || (wanted->folder_length == is->folder_length &&
                           memcmp(wanted->folder, is->folder, is->folder_length) == 0));
}

uint32_t stk__images_find(const stk__images_finder *f, const stk__images_path *path,
                          uint32_t found[2])
{
    stk__images_path is;
    uint32_t count = 0;

    for (uint64_t at = hash_of(f, path); f->slots[at] != NONE && count < 2;
         at = at + 1 == f->num_slots ? 0 : at + 1) {
        stk__images_path_of(f->table, f->slots[at], &is);
        if (is_same(f, path, &is))
            found[count++] = f->slots[at];
    }
    return count;
}

stk_status stk__images_finder_make(stk__images_finder *f, const stk__images_table *table)
{
    stk__images_path path;

    f->table = table;
    f->num_slots = 2 * table->num_files + 1;
    f->slots = stk__alloc(table->context, f->num_slots * sizeof *f->slots);
    if (!f->slots)
        return STK_ENOMEM;
    memset(f->slots, 0xff, f->num_slots * sizeof *f->slots);
    for (uint64_t i = 0; i < table->num_files; i++) {
        stk__images_path_of(table, i, &path);
        uint64_t at = hash_of(f, &path);
        while (f->slots[at] != NONE)
            at = at + 1 == f->num_slots ? 0 : at + 1;
        f->slots[at] = (uint32_t)i;
    }
    return STK_OK;
}

void stk__images_finder_release(stk__images_finder *f)
{
    if (f->table)
        stk__free(f->table->context, f->slots);
    *f = (stk__images_finder){0};
}
