/* SPDX-License-Identifier: Apache-2.0 */
/* The paths of a container: adding, sorting, finding. */
#include "store/container.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define WORD       32                  /* bits of a word of `checked` */
#define MOST_NAMES (UINT64_C(1) << 47) /* bytes of all paths: what an entry can point to */

stk_status stk__container_fail(const stk__container *c, stk_error *err, stk_status status,
                               uint64_t offset, const char *format, ...)
{
    char text[STK_ERROR_TEXT];
    va_list arguments;

    if (!err)
        return status;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return stk__fail_at(err, status, STK_STAGE_STORE, c->url, offset, "the %s '%.200s' %s",
                        c->format->word, c->url, text);
}

static stk_status no_memory(const stk__container *c, stk_error *err)
{
    return stk__container_fail(c, err, STK_ENOMEM, STK_NO_OFFSET,
                               "names more files than there is memory for");
}

const char *stk__container_path(const stk__container *c, const stk__container_entry *entry)
{
    return c->names + entry->name;
}

stk_status stk__container_hold(stk__container *c, uint64_t count, uint64_t size, stk_error *err)
{
    const uint64_t most = stk__context_memory_limit(c->context) / STK__CONTAINER_PART;
    uint64_t bytes;

    if (!stk__mul_size(count, size, &bytes) || bytes > most - STK_MIN(most, c->held))
        return stk__container_fail(c, err, STK_ELIMIT, STK_NO_OFFSET,
                                   "names so many files that what is kept of them takes more than "
                                   "%llu bytes of memory, a quarter of memory_limit; raise it",
                                   (unsigned long long)most);
    c->held += bytes;
    return STK_OK;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* Why a path is none that a store may have; NULL: it may. */
static const char *wrong_path(const char *path, size_t length)
{
    if (length >= STK_MAX_OBJECT_KEY)
        return "is too long";
    if (memchr(path, 0, length))
        return "holds a zero byte";
    if (length && path[0] == '/')
        return "is absolute";
    for (size_t at = 0, next; at < length; at = next + 1) {
        const char *slash = memchr(path + at, '/', length - at);
        next = slash ? (size_t)(slash - path) : length;
        if (next == at || next + 1 == length)
            return "has an empty part";
        if (next - at <= 2 && path[at] == '.' && (next - at == 1 || path[at + 1] == '.'))
            return "has a part '.' or '..'";
    }
    return NULL;
}

stk_status stk__container_add(stk__container *c, const char *path, size_t length,
                              const stk__container_entry *entry, stk_error *err)
{
    const char *const wrong = wrong_path(path, length);
    const size_t room = c->room, names_room = c->names_room;

    if (wrong)
        return stk__container_fail(c, err, STK_EFORMAT, STK_NO_OFFSET,
                                   "names '%.*s', which %s: it leads elsewhere or nowhere; write "
                                   "the archive anew with names relative to a folder",
                                   (int)STK_MIN(length, 200u), path, wrong);
    stk__container_entry *entries =
        stk__grow(c->context, c->entries, &c->room, (uint64_t)c->count + 1, sizeof *entries);
    if (!entries)
        return no_memory(c, err);
    c->entries = entries;
    STK_TRY(stk__container_hold(c, c->room - room, sizeof *entries, err));
    char *names = stk__grow(c->context, c->names, &c->names_room, c->names_length + length + 1, 1);
    if (!names || c->names_length > MOST_NAMES)
        return no_memory(c, err);
    c->names = names;
    STK_TRY(stk__container_hold(c, c->names_room - names_room, 1, err));
    memcpy(names + c->names_length, path, length);
    names[c->names_length + length] = 0;
    entries[c->count] = *entry;
    entries[c->count++].name = c->names_length;
    c->names_length += length + 1;
    return STK_OK;
}

/* ---- Sorting --------------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b, void *names)
{
    const stk__container_entry *x = a, *y = b;

    return strcmp((const char *)names + x->name, (const char *)names + y->name);
}

static int compare(const stk__container *c, size_t a, size_t b)
{
    return by_path(&c->entries[a], &c->entries[b], c->names);
}

/* Archives are in order most of the time. */
static void sort(stk__container *c)
{
    bool sorted = true;

    for (size_t i = 1; i < c->count && sorted; i++)
        sorted = compare(c, i - 1, i) < 0;
    if (!sorted)
        qsort_r(c->entries, c->count, sizeof *c->entries, by_path, c->names);
}

/* Whether some path lies below entry `i`. */
static bool has_below(const stk__container *c, size_t i)
{
    const char *path = c->names + c->entries[i].name;
    const size_t length = strlen(path);
    char below[STK_MAX_OBJECT_KEY + 1];

    if (i + 1 == c->count || strncmp(c->names + c->entries[i + 1].name, path, length) != 0)
        return false;
    memcpy(below, path, length);
    memcpy(below + length, "/", 2);
    const size_t at = stk__container_place(c, below);
    return at < c->count && strncmp(c->names + c->entries[at].name, below, length + 1) == 0;
}

bool stk__container_sum_right(const stk__container *c, const stk__container_entry *file,
                              const stk__container_run *run, const void *data)
{
    const size_t at = (size_t)(file - c->entries);
    const unsigned bit = 1u << at % WORD;

    if (!run->has_sum || atomic_load_explicit(&c->checked[at / WORD], memory_order_relaxed) & bit)
        return true;
    if (stk__crc32(data, run->decoded) != run->sum)
        return false;
    atomic_fetch_or_explicit(&c->checked[at / WORD], bit, memory_order_relaxed);
    return true;
}

stk_status stk__container_finish(stk__container *c, stk_error *err)
{
    STK_TRY(stk__container_hold(c, c->count / WORD + 1, sizeof *c->checked, err));
    c->checked = stk__calloc(c->context, c->count / WORD + 1, sizeof *c->checked);
    if (!c->checked)
        return no_memory(c, err);
    sort(c);
    for (size_t i = 0; i < c->count; i++) {
        if (i && compare(c, i - 1, i) == 0)
            return stk__container_fail(c, err, STK_EFORMAT, STK_NO_OFFSET,
                                       "names '%.200s' twice, so that nobody can say which is "
                                       "meant; write it anew",
                                       c->names + c->entries[i].name);
        if (c->entries[i].is != STK__CONTAINED_FOLDER && has_below(c, i))
            return stk__container_fail(c, err, STK_EFORMAT, STK_NO_OFFSET,
                                       "names '%.200s' as a file and as a folder; write it anew",
                                       c->names + c->entries[i].name);
    }
    return STK_OK;
}

/* ---- Finding --------------------------------------------------------------------------------- */

size_t stk__container_place(const stk__container *c, const char *path)
{
    size_t low = 0, high = c->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(c->names + c->entries[middle].name, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const stk__container_entry *stk__container_find(const stk__container *c, const char *key)
{
    const size_t at = stk__container_place(c, key);

    if (at == c->count || strcmp(c->names + c->entries[at].name, key) != 0)
        return NULL;
    return &c->entries[at];
}

bool stk__container_is_folder(const stk__container *c, const char *key)
{
    const stk__container_entry *entry = stk__container_find(c, key);
    char below[STK_MAX_OBJECT_KEY + 1];
    const size_t length = strlen(key);

    if (!length)
        return true;
    if (entry)
        return entry->is == STK__CONTAINED_FOLDER;
    memcpy(below, key, length);
    memcpy(below + length, "/", 2);
    const size_t at = stk__container_place(c, below);
    return at < c->count && strncmp(c->names + c->entries[at].name, below, length + 1) == 0;
}
