/* JSON -> other JSON: a mutator for targets whose input is a document, or holds one */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A document that is changed byte by byte is no document most of the time, and what lies behind the
 * parser is never reached. Here the tree is changed: values become others (limits, words of the
 * format), members and elements are dropped, doubled, swapped, and moved from place to place.
 *
 * A target defines LLVMFuzzerCustomMutator() with fuzz_json_part(). libFuzzer calls it; so does the
 * ordinary replay of the corpus, with a few fixed seeds a file.
 */
#ifndef STK_FUZZ_JSON_MUTATOR_H
#define STK_FUZZ_JSON_MUTATOR_H

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_JSON_NODES 4096
#define FUZZ_JSON_DEPTH 16

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

/* Values of the format, each JSON by itself. */
typedef struct fuzz_json_words {
    const char *const *texts;
    size_t count;
} fuzz_json_words;

static const char *const fuzz_json_common[] = {"0",
                                               "1",
                                               "2",
                                               "3",
                                               "7",
                                               "-1",
                                               "255",
                                               "65536",
                                               "2147483648",
                                               "4294967296",
                                               "1099511627776",
                                               "9223372036854775807",
                                               "0.5",
                                               "1e308",
                                               "-1e-308",
                                               "null",
                                               "true",
                                               "false",
                                               "\"\"",
                                               "\"a\"",
                                               "\"NaN\"",
                                               "[]",
                                               "{}",
                                               "[0]",
                                               "[[]]",
                                               "[1, 1]"};

typedef struct fuzz_json_place {
    json_t *parent;
    const char *key; /* of an object */
    size_t index;    /* of an array */
} fuzz_json_place;

typedef struct fuzz_json_places {
    fuzz_json_place at[FUZZ_JSON_NODES];
    size_t count;
} fuzz_json_places;

static inline uint32_t fuzz_json_random(uint64_t *state, size_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % (below ? below : 1));
}

static inline void fuzz_json_collect(json_t *value, int depth, fuzz_json_places *places)
{
    const char *key;
    json_t *child;
    size_t i;

    if (depth > FUZZ_JSON_DEPTH)
        return;
    json_object_foreach(value, key, child)
    {
        if (places->count < FUZZ_JSON_NODES)
            places->at[places->count++] = (fuzz_json_place){value, key, 0};
        fuzz_json_collect(child, depth + 1, places);
    }
    json_array_foreach(value, i, child)
    {
        if (places->count < FUZZ_JSON_NODES)
            places->at[places->count++] = (fuzz_json_place){value, NULL, i};
        fuzz_json_collect(child, depth + 1, places);
    }
}

static inline json_t *fuzz_json_get(const fuzz_json_place *p)
{
    return p->key ? json_object_get(p->parent, p->key) : json_array_get(p->parent, p->index);
}

/* Takes over `value`. */
static inline void fuzz_json_set(const fuzz_json_place *p, json_t *value)
{
    if (p->key)
        json_object_set_new(p->parent, p->key, value);
    else
        json_array_set_new(p->parent, p->index, value);
}

static inline json_t *fuzz_json_word(const fuzz_json_words *words, uint64_t *state)
{
    size_t common = sizeof fuzz_json_common / sizeof *fuzz_json_common;
    bool own = words && words->count && fuzz_json_random(state, 3);
    const char *text = own ? words->texts[fuzz_json_random(state, words->count)]
                           : fuzz_json_common[fuzz_json_random(state, common)];
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

    return value ? value : json_null();
}

/* Of numbers: near, double, half; of others a word of the format. */
static inline json_t *fuzz_json_other(const json_t *value, const fuzz_json_words *words,
                                      uint64_t *state)
{
    uint64_t n = (uint64_t)json_integer_value(value);

    if (!json_is_integer(value) || fuzz_json_random(state, 2))
        return fuzz_json_word(words, state);
    switch (fuzz_json_random(state, 5)) {
    case 0:
        return json_integer((json_int_t)(n + 1));
    case 1:
        return json_integer((json_int_t)(n - 1));
    case 2:
        return json_integer((json_int_t)(n * 2));
    case 3:
        return json_integer((json_int_t)(n / 2));
    default:
        return json_integer((json_int_t)(n << fuzz_json_random(state, 62)));
    }
}

static inline void fuzz_json_change(json_t *root, const fuzz_json_words *words, uint64_t *state)
{
    static fuzz_json_places places;

    places.count = 0;
    fuzz_json_collect(root, 0, &places);
    if (!places.count)
        return;
    const fuzz_json_place *p = &places.at[fuzz_json_random(state, places.count)];
    const fuzz_json_place *q = &places.at[fuzz_json_random(state, places.count)];
    json_t *here = fuzz_json_get(p), *there = fuzz_json_get(q);
    switch (fuzz_json_random(state, 8)) {
    case 0: /* dropped */
        if (p->key)
            json_object_del(p->parent, p->key);
        else
            json_array_remove(p->parent, p->index);
        break;
    case 1: /* doubled, or a word beside it */
        if (!p->key)
            json_array_insert_new(p->parent, p->index,
                                  fuzz_json_random(state, 2) ? json_deep_copy(here)
                                                             : fuzz_json_word(words, state));
        else
            fuzz_json_set(p, json_pack("[O, O]", here, here));
        break;
    case 2: /* copied to another place */
        fuzz_json_set(p, json_deep_copy(there));
        break;
    case 3: /* neighbours swapped */
        if (!p->key && p->index + 1 < json_array_size(p->parent)) {
            json_t *next = json_deep_copy(json_array_get(p->parent, p->index + 1));
            json_array_set_new(p->parent, p->index + 1, json_deep_copy(here));
            json_array_set_new(p->parent, p->index, next);
        }
        break;
    case 4: /* put into a list */
        fuzz_json_set(p, json_pack("[o]", json_deep_copy(here)));
        break;
    default:
        fuzz_json_set(p, fuzz_json_other(here, words, state));
    }
}

/* Write a changed document in place of `length` bytes; 0: it is none, or does not fit. */
static inline size_t fuzz_json_mutate(uint8_t *data, size_t length, size_t most,
                                      const fuzz_json_words *words, uint64_t *state)
{
    json_t *root = json_loadb((const char *)data, length, 0, NULL);
    size_t written = 0;

    if (!root)
        return 0;
    for (uint32_t n = 1 + fuzz_json_random(state, 3); n; n--)
        fuzz_json_change(root, words, state);
    char *text = json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text && strlen(text) <= most) {
        written = strlen(text);
        memcpy(data, text, written);
    }
    free(text);
    json_decref(root);
    return written;
}

/*
 * Mutate an input one of whose parts, `length` bytes at `at`, is a document: mostly that, else any
 * byte. `prefix`: its length stands in the two bytes before it.
 */
static inline size_t fuzz_json_part(uint8_t *data, size_t size, size_t most, size_t at,
                                    size_t length, bool prefix, const fuzz_json_words *words,
                                    unsigned seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    size_t rest = size - at - length, room = most > size ? length + (most - size) : length;
    size_t written = 0;

    if (prefix && room > 65535)
        room = 65535;
    uint8_t *copy = fuzz_json_random(&state, 8) ? malloc(room + 1) : NULL;
    if (copy && length <= room) {
        memcpy(copy, data + at, length);
        written = fuzz_json_mutate(copy, length, room, words, &state);
    }
    if (written) {
        memmove(data + at + written, data + at + length, rest);
        memcpy(data + at, copy, written);
        if (prefix) {
            data[at - 2] = (uint8_t)written;
            data[at - 1] = (uint8_t)(written >> 8);
        }
    }
    free(copy);
    return written ? at + written + rest : LLVMFuzzerMutate(data, size, most);
}

/* The place of part number `part` of those with their lengths in front (see fuzz_take()). */
static inline bool fuzz_json_find(const uint8_t *data, size_t size, unsigned part, size_t *at,
                                  size_t *length)
{
    *at = *length = 0;
    for (unsigned i = 0; i <= part; i++) {
        *at += *length;
        if (*at + 2 > size)
            return false;
        *length = (size_t)(data[*at] | data[*at + 1] << 8);
        *at += 2;
        if (*length > size - *at)
            *length = size - *at;
    }
    return true;
}

#endif
