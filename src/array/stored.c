/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in the store for an array: objects and their bytes, by listing. */
#include "array/room.h"

#include "base/sized.h"

#define MAX_DEPTH   (STK_ARRAY_MAX_RANK + 1) /* of folders: "c", and one for each dimension */
#define MAX_CHUNKS  (UINT64_C(1) << 27)      /* that a format is asked for one by one */
#define MAX_ENTRIES (1u << 24)               /* names that are looked at */

typedef struct folder folder;
struct folder {
    folder *next;
    uint32_t depth;
    char key[];
};

typedef struct counting {
    stk_array *array;
    const folder *in;
    folder *waiting;
    stk_array_stored *out;
    uint32_t entries;
    stk_error *err;
} counting;

/* The chunk of a key below the array: numbers parted by points and slashes, maybe behind a "c".
 * Gives how many numbers there are; -1: it is something else. */
static int parse_key(const char *key, size_t length, int64_t *at)
{
    size_t i = length && key[0] == 'c';
    int count = 0;

    while (i < length) {
        int64_t number = 0;
        if ((i > 0 && key[i] != '.' && key[i] != '/') || count == STK_ARRAY_MAX_RANK)
            return -1;
        size_t begin = i += i > 0;
        for (; i < length && key[i] >= '0' && key[i] <= '9'; i++)
            if (__builtin_mul_overflow(number, 10, &number) ||
                __builtin_add_overflow(number, key[i] - '0', &number))
                return -1;
        if (i == begin)
            return -1;
        at[count++] = number;
    }
    return count;
}

static void add_object(counting *c, const int64_t *at, uint64_t bytes)
{
    const stk_array *a = c->array;
    uint64_t values = a->type.itemsize;

    for (uint32_t d = 0; d < a->rank; d++) {
        if (at[d] >= a->levels[0].count[d])
            return; /* beyond the array: left over from a larger one */
        const int64_t end = stk__level_begin(&a->levels[0], d, at[d] + 1);
        values *=
            (uint64_t)(STK_MIN(end, a->shape[d]) - stk__level_begin(&a->levels[0], d, at[d]));
    }
    c->out->objects++;
    c->out->bytes += bytes;
    c->out->values += values;
}

static stk_status take(void *user, const char *key, const stk_object_info *info)
{
    counting *c = user;
    size_t prefix = strlen(c->array->prefix), end = strlen(key);
    int64_t at[STK_ARRAY_MAX_RANK];

    if (++c->entries > MAX_ENTRIES)
        return stk__fail_at(c->err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "an array has more than %u objects and folders to count (MAX_ENTRIES); "
                            "does a link lead back into it?",
                            MAX_ENTRIES);
    while (end && key[end - 1] == '/')
        end--;
    if (end <= prefix)
        return STK_OK;
    int count = parse_key(key + prefix, end - prefix, at);
    if (count < 0)
        return STK_OK;
    if (!info->is_folder) {
        if (count == (int)c->array->rank || (c->array->rank == 0 && count == 1 && at[0] == 0))
            add_object(c, at, info->size);
        return STK_OK;
    }
    if (c->in->depth == MAX_DEPTH)
        return STK_OK;
    folder *f = stk__calloc(c->array->context, 1, sizeof *f + end + 2);
    if (!f)
        return STK_ENOMEM;
    memcpy(f->key, key, end);
    f->key[end] = '/';
    f->depth = c->in->depth + 1;
    f->next = c->waiting;
    c->waiting = f;
    return STK_OK;
}

static stk_status count_keys(stk_array *a, stk_array_stored *out, stk_error *err)
{
    counting c = {.array = a, .out = out, .err = err};
    stk_status status = STK_OK;
    size_t length = strlen(a->prefix);

    folder *root = stk__calloc(a->context, 1, sizeof *root + length + 1);
    if (!root)
        return stk__array_no_memory(a, err);
    memcpy(root->key, a->prefix, length);
    c.waiting = root;
    while (c.waiting) {
        folder *f = c.waiting;
        c.waiting = f->next;
        c.in = f;
        if (status == STK_OK) {
            status = stk_store_list(stk__array_store(a), f->key, NULL, take, &c, err);
            if (status == STK_ENOMEM)
                stk__array_no_memory(a, err);
        }
        stk__free(a->context, f);
    }
    return status;
}

static stk_status count_stored(stk_array *a, stk_array_stored *out, stk_error *err)
{
    switch (a->manifest) {
    case STK__MANIFEST_KEYS:
        return count_keys(a, out, err);
    case STK__MANIFEST_ONE:
        out->objects = 1;
        out->bytes = STK_MIN(a->object_size - a->object_offset, a->bytes);
        out->values = a->bytes;
        return STK_OK;
    case STK__MANIFEST_READ:
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%s: what is stored of the chunks is known to the format '%.64s' alone",
                            a->metadata_key, a->ops->name);
    default:
        if (a->levels[0].total > MAX_CHUNKS)
            return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                                "%s: it has more chunks than are counted (MAX_CHUNKS)",
                                a->metadata_key);
        for (uint64_t i = 0; i < a->levels[0].total; i++) {
            stk_array_place place = {.struct_size = sizeof place};
            counting c = {.array = a, .out = out};
            int64_t at[STK_ARRAY_MAX_RANK];
            uint64_t rest = i;
            for (uint32_t d = a->rank; d-- > 0; rest /= (uint64_t)a->levels[0].count[d])
                at[d] = (int64_t)(rest % (uint64_t)a->levels[0].count[d]);
            const stk_status status = stk__array_locate(a, i, &place, err);
            if (status == STK_OK)
                add_object(&c, at, place.length);
            else if (status != STK_ENOENT)
                return status;
        }
        return STK_OK;
    }
}

stk_status stk_array_stored_count(stk_array *a, stk_array_stored *out, stk_error *err)
{
    stk_array_stored stored = {.struct_size = sizeof stored};

    if (!a || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_stored_count: an argument is NULL");
    STK_TRY(stk__context_check(a->context, err));
    STK_TRY(stk__sized_check(out, "stk_array_stored", STK_STAGE_ARRAY, err));
    stk_status status = count_stored(a, &stored, err);
    stk__sized_write(out, &stored);
    return status;
}
