/* SPDX-License-Identifier: Apache-2.0 */
/* References -> places of chunks, and keys of the objects that they lie in. */
#include <stdio.h>
#include <stdlib.h>

#include "array/kerchunk/kerchunk.h"

#include "base/url.h"

#define PLACES_PART 8  /* of memory_limit: what places, and names of their objects, may take */
#define NAME_BYTES  64 /* that a name takes besides its own */

typedef struct finding {
    const stk_array *array;
    const stk__kerchunk *k;
    size_t prefix;
    stk__kerchunk_places *places;
} finding;

static stk_status no_memory(const char *key, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "no memory for the references of %s", key);
}

/* Whether the list of places and the names of objects have so many bytes of room. */
static stk_status check_room(const stk__kerchunk_places *p, uint64_t list, uint64_t names,
                             const char *key, stk_error *err)
{
    const uint64_t most = stk__context_memory_limit(p->context) / PLACES_PART;

    if (list <= most && names <= most - list)
        return STK_OK;
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "%s: the references of an array take more than %llu bytes, an eighth of "
                        "memory_limit; raise it",
                        key, (unsigned long long)most);
}

static stk_status add_object(stk__kerchunk_places *p, const char *url, const char *key,
                             uint32_t *number, stk_error *err)
{
    const json_t *known = json_object_get(p->numbers, url);

    if (known) {
        *number = (uint32_t)json_integer_value(known);
        return STK_OK;
    }
    /* It is held twice, here and among those that are known. */
    p->names += 2 * (strlen(url) + NAME_BYTES);
    STK_TRY(check_room(p, 2 * p->count * sizeof *p->list, p->names, key, err));
    char **grown =
        stk__grow(p->context, p->objects, &p->room_objects, p->num_objects + 1, sizeof *grown);
    if (!grown)
        return no_memory(key, err);
    p->objects = grown;
    char *copy = stk__strdup(p->context, url);
    if (!copy)
        return no_memory(key, err);
    *number = (uint32_t)p->num_objects;
    p->objects[p->num_objects++] = copy;
    return json_object_set_new_nocheck(p->numbers, url, json_integer(*number)) == 0
               ? STK_OK
               : no_memory(key, err);
}

static stk_status add_place(stk__kerchunk_places *p, const stk__kerchunk_place *place,
                            const char *key, stk_error *err)
{
    STK_TRY(check_room(p, 2 * (p->count + 1) * sizeof *p->list, p->names, key, err));
    stk__kerchunk_place *grown =
        stk__grow(p->context, p->list, &p->room, p->count + 1, sizeof *grown);
    if (!grown)
        return no_memory(key, err);
    p->list = grown;
    p->list[p->count++] = *place;
    return STK_OK;
}

static stk_status take(void *user, const stk__reference *r, stk_error *err)
{
    finding *f = user;
    stk__kerchunk_places *p = f->places;
    stk__kerchunk_place place = {.offset = r->offset, .length = r->length};
    int64_t at[STK_ARRAY_MAX_RANK];

    if (!stk__array_key_parse(f->array, r->key + f->prefix, at, &place.chunk))
        return STK_OK;
    if (r->url) {
        if (r->whole)
            place.length = STK__ARRAY_UNKNOWN;
        STK_TRY(add_object(p, r->url, f->k->key, &place.object, err));
    } else {
        place.offset = p->inlined.length;
        STK_TRY(stk__kerchunk_inline(p->context, r->value, f->k->key, &p->inlined, err));
        place.length = p->inlined.length - place.offset;
    }
    return add_place(p, &place, f->k->key, err);
}

static int by_chunk(const void *a, const void *b)
{
    const uint64_t one = ((const stk__kerchunk_place *)a)->chunk,
                   two = ((const stk__kerchunk_place *)b)->chunk;

    return (one > two) - (one < two);
}

stk_status stk__kerchunk_find(const stk_array *a, const stk__kerchunk *k, const char *prefix,
                              stk__kerchunk_places *out, stk_error *err)
{
    finding f = {.array = a, .k = k, .prefix = strlen(prefix), .places = out};
    uint32_t number;

    *out = (stk__kerchunk_places){.context = a->context, .inlined.ctx = a->context};
    out->numbers = json_object();
    if (!out->numbers)
        return no_memory(k->key, err);
    STK_TRY(add_object(out, "", k->key, &number, err)); /* what the document holds itself, */
    json_object_clear(out->numbers);                    /* which no URL names */
    STK_TRY(stk__kerchunk_each(a->context, k, prefix, take, &f, err));
    if (out->count)
        qsort(out->list, out->count, sizeof *out->list, by_chunk);
    for (size_t i = 1; i < out->count; i++)
        if (out->list[i].chunk == out->list[i - 1].chunk)
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, k->key, STK_NO_OFFSET,
                                "%s: chunk %llu of '%.200s' has two references; write them again",
                                k->key, (unsigned long long)out->list[i].chunk, prefix);
    return STK_OK;
}

void stk__kerchunk_places_release(stk__kerchunk_places *p)
{
    for (size_t i = 0; i < p->num_objects; i++)
        stk__free(p->context, p->objects[i]);
    stk__free(p->context, p->objects);
    stk__free(p->context, p->list);
    stk__text_release(&p->inlined);
    json_decref(p->numbers);
    *p = (stk__kerchunk_places){.context = p->context};
}

/* ---- URLs -> keys ---- */

/* Whether it names another store, or a path from the root. */
static bool is_foreign(const char *url)
{
    size_t n = 0;

    while ((url[n] >= 'a' && url[n] <= 'z') || (url[n] >= 'A' && url[n] <= 'Z') ||
           (n && url[n] && strchr("0123456789+-.", url[n])))
        n++;
    return url[0] == '/' || (n && url[n] == ':');
}

static stk_status refuse(const char *key, const char *url, const char *why, stk_error *err)
{
    return stk__fail_at(err, STK_EACCES, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "%s refers to '%.200s', which %s", key, url, why);
}

/* A relative URL as a key: what lies beside the document, or below. */
static stk_status key_beside(const char *url, const char *document, char *to, stk_error *err)
{
    const char *slash = strrchr(document, '/');
    const int folder = slash ? (int)(slash - document) + 1 : 0;

    while (strncmp(url, "./", 2) == 0)
        url += 2;
    const int n = snprintf(to, STK_MAX_OBJECT_KEY, "%.*s%s", folder, document, url);
    if (!*url || n >= STK_MAX_OBJECT_KEY || stk__key_check(to, NULL) != STK_OK)
        return refuse(document, url,
                      "is no path below its folder; references to other folders are absolute, and "
                      "are followed with allow_foreign=true",
                      err);
    return STK_OK;
}

/* Bytes of the folder that all URLs but the first lie in, with its slash; 0: there is none. */
static size_t common_folder(const stk__kerchunk_places *p)
{
    const char *first = p->objects[1];
    const char *name = strrchr(first, '/');
    size_t n = name ? (size_t)(name - first) + 1 : 0;

    for (size_t i = 2; i < p->num_objects; i++) {
        size_t same = 0;
        while (same < n && first[same] == p->objects[i][same])
            same++;
        while (same && first[same - 1] != '/')
            same--;
        n = same;
    }
    const char *machine = strstr(first, "://");
    return machine && n < (size_t)(machine - first) + 4 ? 0 : n;
}

static stk_status open_foreign(stk__kerchunk_places *p, const char *document, stk_store **store,
                               stk_error *err)
{
    const size_t n = common_folder(p);
    char key[STK_MAX_OBJECT_KEY];

    if (!n)
        return refuse(document, p->objects[1],
                      "lies in another store than others of the array; split the references", err);
    const bool plain = p->objects[1][0] == '/';
    char *folder = stk__format(p->context, "%.*s", (int)n, p->objects[1]);
    if (!folder)
        return no_memory(document, err);
    const stk_status status = stk_store_open(p->context, folder, store, key, sizeof key, err);
    stk__free(p->context, folder);
    STK_TRY(status);
    for (size_t i = 1; i < p->num_objects; i++) {
        char *rest = p->objects[i] + n;
        const size_t length = strlen(rest);
        if (plain)
            memmove(p->objects[i], rest, length + 1);
        else
            STK_TRY(stk__url_decode(rest, length, p->objects[i], length + 1, err));
        STK_TRY(stk__key_check(p->objects[i], err));
    }
    return STK_OK;
}

stk_status stk__kerchunk_resolve(stk__kerchunk_places *p, const char *document, bool foreign,
                                 stk_store **store, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    size_t abroad = 0;

    *store = NULL;
    for (size_t i = 1; i < p->num_objects; i++)
        abroad += is_foreign(p->objects[i]);
    for (size_t i = 1; i < p->num_objects; i++) {
        if (is_foreign(p->objects[i]) && !foreign)
            return refuse(document, p->objects[i],
                          "is another store or an absolute path; where the references are to be "
                          "trusted allow_foreign=true follows them",
                          err);
        if (is_foreign(p->objects[i]) != (abroad > 0))
            return refuse(document, p->objects[i],
                          "lies in another store than others of the array; split the references",
                          err);
        if (abroad)
            continue;
        STK_TRY(key_beside(p->objects[i], document, key, err));
        char *copy = stk__strdup(p->context, key);
        if (!copy)
            return no_memory(document, err);
        stk__free(p->context, p->objects[i]);
        p->objects[i] = copy;
    }
    return abroad ? open_foreign(p, document, store, err) : STK_OK;
}
