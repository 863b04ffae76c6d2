/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples of several datasets have the same key. Every sample is read once, on some threads;
 * of its key 128 bits are kept (XXH3), which stand for it: that two of 10^9 keys share them has a
 * chance of 2^-69. The keys of a dataset are sorted by these bits and met with those of the first.
 */
#include "dataset/pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/counted.h"
#include "base/text.h"
#include "dataset/lookers.h"
#include "dataset/taken.h"

#define SAMPLES_AT_A_TIME 64 /* neighbours that one thread reads */
#define TEXT_SHOWN        60 /* bytes of a key in a message */

typedef enum key_form { FORM_NUMBER, FORM_TEXT } key_form;

/* A sample and what stands for its key. */
typedef struct entry {
    uint64_t high, low;
    uint64_t index;
} entry;

typedef struct list {
    entry *entries;
    uint64_t count;
    uint64_t doubled; /* samples whose key an earlier one has */
    uint64_t alone;   /* samples without a partner */
} list;

/* ---- The field ---- */

/* A number for each sample, or text: bytes of any or of a fixed number. */
static bool form_of(const stk_field *f, key_form *out)
{
    const uint64_t elements = f->layout == STK_FIXED && stk_dtype_size(f->dtype)
                                  ? stk_field_bytes(f) / stk_dtype_size(f->dtype)
                                  : 0;

    *out = elements == 1 ? FORM_NUMBER : FORM_TEXT;
    return *out == FORM_NUMBER ? f->dtype != STK_BOOL && stk__taken_is_integer(f->dtype)
                               : f->dtype == STK_UINT8 && !f->picture;
}

static stk_status find_key(const stk_dataset *d, uint32_t source, const char *name, uint32_t *field,
                           key_form *out, stk_error *err)
{
    char names[200] = "";
    stk__text text = {.bytes = names, .room = sizeof names};

    for (uint32_t f = 0; f < d->num_fields; f++) {
        stk__text_add(&text, "%s%s", f ? ", " : "", d->fields[f].name);
        if (strcmp(d->fields[f].name, name) != 0)
            continue;
        *field = f;
        if (form_of(&d->fields[f], out))
            return STK_OK;
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "by", STK_NO_OFFSET,
                            "pair: by=%.60s is of %s in its dataset %u; a key is one integer or "
                            "text",
                            name, stk_dtype_name(d->fields[f].dtype), source);
    }
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "by", STK_NO_OFFSET,
                        "pair: its dataset %u has no field '%.60s' to pair by; its fields are "
                        "%.150s: rename=OLD:NEW gives one the name",
                        source, name, names);
}

static entry entry_of(const stk_field *f, key_form form, const stk_value *value, uint64_t index)
{
    int64_t number = 0;
    XXH128_hash_t hash;

    if (form == FORM_NUMBER) {
        const uint64_t beyond = !stk__taken_integer(f->dtype, value->data, &number);
        hash = XXH3_128bits_withSeed(&number, sizeof number, beyond);
    } else {
        hash = XXH3_128bits(value->size ? value->data : "", value->size);
    }
    return (entry){.high = hash.high64, .low = hash.low64, .index = index};
}

/* The key of a sample for a message, read once more. */
static void say_key(stk_dataset *d, uint32_t field, key_form form, uint64_t index, char *out,
                    size_t size)
{
    stk__taken taken;
    int64_t number = 0;

    snprintf(out, size, "of sample %" PRIu64, index);
    if (stk__taken_open(&taken, d, NULL) == STK_OK &&
        stk__taken_read(&taken, index, NULL) == STK_OK) {
        const stk_value *value = &taken.values[field];
        if (form == FORM_NUMBER && stk__taken_integer(d->fields[field].dtype, value->data, &number))
            snprintf(out, size, "%" PRId64, number);
        else if (form == FORM_TEXT)
            snprintf(out, size, "'%.*s'", (int)STK_MIN(value->size, TEXT_SHOWN),
                     (const char *)value->data);
    }
    stk__taken_close(&taken);
}

/* ---- Reading ---- */

/* The reading of one dataset, which several threads share. */
typedef struct reading {
    stk_dataset *dataset;
    uint32_t source, field;
    key_form form;
    entry *entries;
    stk__counted samples;
} reading;

static void read_some(void *argument)
{
    reading *r = argument;
    stk__taken taken;
    uint64_t first, end;
    stk_error error;

    stk_error_init(&error);
    stk_status status = stk__taken_open(&taken, r->dataset, &error);
    if (status != STK_OK)
        stk__counted_fail(&r->samples, 0, status, &error);
    while (stk__counted_take(&r->samples, &first, &end)) {
        for (uint64_t i = first; status == STK_OK && i < end; i++) {
            status = stk__taken_read(&taken, i, &error);
            if (status == STK_OK)
                r->entries[i] =
                    entry_of(&r->dataset->fields[r->field], r->form, &taken.values[r->field], i);
            else
                stk__counted_fail(&r->samples, i, status, &error);
        }
        atomic_fetch_add(&r->samples.done, end - first);
    }
    stk__taken_close(&taken);
}

static stk_status no_room(uint32_t source, uint64_t samples, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                     "pair: no memory for the keys of the %" PRIu64
                     " samples of its dataset %u, %zu bytes each; raise memory_limit",
                     samples, source, sizeof(entry));
}

static stk_status read_keys(reading *r, const char *by, stk_error *err)
{
    stk_context *ctx = r->dataset->context;
    uint64_t bytes = 0;
    stk_error error;

    if (stk__mul_size(r->dataset->size, sizeof *r->entries, &bytes) &&
        bytes <= stk__memory_left(ctx))
        r->entries = stk__alloc(ctx, STK_MAX(bytes, 1));
    if (!r->entries)
        return no_room(r->source, r->dataset->size, err);
    stk__counted_init(&r->samples, r->dataset->size, SAMPLES_AT_A_TIME);
    stk__lookers_run(ctx, stk__lookers(ctx), read_some, r, "reading keys", &r->samples.done,
                     r->dataset->size);
    const stk_status status = stk__counted_end(&r->samples, &error);
    if (status == STK_OK)
        return STK_OK;
    return stk__fail_at(err, status, STK_STAGE_DATASET, error.key, error.offset,
                        "pair: dataset %u can't be read for its keys '%.60s': %.300s", r->source,
                        by, error.text);
}

/* ---- Matching ---- */

static int by_key(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static bool same_key(const entry *a, const entry *b)
{
    return a->high == b->high && a->low == b->low;
}

/* Sort by key; of several samples with one key the first stays. Returns the first sample that is
 * such another; UINT64_MAX: none. */
static uint64_t sort_keys(list *l)
{
    uint64_t kept = 0, first = UINT64_MAX;

    qsort(l->entries, l->count, sizeof *l->entries, by_key);
    for (uint64_t i = 0; i < l->count; i++) {
        if (i && same_key(&l->entries[i], &l->entries[i - 1])) {
            first = STK_MIN(first, l->entries[i].index);
            l->doubled++;
        }
    }
    for (uint64_t i = 0; i < l->count; i++)
        if (!kept || !same_key(&l->entries[i], &l->entries[kept - 1]))
            l->entries[kept++] = l->entries[i];
    l->count = kept;
    return first;
}

/* The keys of one dataset, sorted. */
static stk_status take_keys(stk__join *join, uint32_t s, const stk__pair_by *by, key_form *form_out,
                            uint32_t *field, list *out, stk_error *err)
{
    reading r = {.dataset = join->sources[s], .source = s};
    const key_form first = *form_out;
    char key[TEXT_SHOWN + 40];

    STK_TRY(find_key(r.dataset, s, by->field, &r.field, &r.form, err));
    *field = r.field;
    *form_out = r.form;
    if (s && r.form != first)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "by", STK_NO_OFFSET,
                            "pair: by=%.60s is %s in its dataset 0 and %s in its dataset %u; keys "
                            "have to be alike",
                            by->field, first == FORM_NUMBER ? "an integer" : "text",
                            r.form == FORM_NUMBER ? "an integer" : "text", s);
    const stk_status status = read_keys(&r, by->field, err);
    *out = (list){.entries = r.entries, .count = r.dataset->size};
    STK_TRY(status);
    const uint64_t again = sort_keys(out);
    if (!out->doubled || by->take_first)
        return STK_OK;
    say_key(r.dataset, r.field, r.form, again, key, sizeof key);
    return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                     "pair: the key %s of sample %" PRIu64 " of its dataset %u was there before; "
                     "%" PRIu64 " of its samples repeat a key: duplicates=first takes the first "
                     "of each",
                     key, again, s, out->doubled);
}

/* Of the samples that have no partner, the first of each side; UINT64_MAX: none. */
typedef struct lonely {
    uint64_t first, other;
} lonely;

/* Meet the first dataset with another one, both sorted by key: `rows` has for each sample of the
 * first its partner. */
static lonely meet(list *first, list *other, uint64_t *rows)
{
    lonely l = {UINT64_MAX, UINT64_MAX};
    uint64_t i = 0, k = 0;

    while (i < first->count || k < other->count) {
        const entry *a = &first->entries[i], *b = &other->entries[k];
        if (i < first->count && k < other->count && same_key(a, b)) {
            rows[a->index] = b->index;
            i++;
            k++;
        } else if (k == other->count || (i < first->count && by_key(a, b) < 0)) {
            l.first = STK_MIN(l.first, a->index);
            first->alone++;
            i++;
        } else {
            l.other = STK_MIN(l.other, b->index);
            other->alone++;
            k++;
        }
    }
    return l;
}

/* A matching in the making. */
typedef struct matching {
    stk__join *join;
    const stk__pair_by *by;
    list first; /* the keys of dataset 0 */
    key_form form;
    uint32_t field; /* of dataset 0 */
    uint64_t *rows; /* [source][sample of dataset 0] */
    stk__text *said;
} matching;

static stk_status refuse_missing(const matching *m, uint32_t s, uint32_t field, const list *other,
                                 lonely l, stk_error *err)
{
    const bool in_first = l.first != UINT64_MAX;
    const uint32_t has = in_first ? 0 : s, lacks = in_first ? s : 0;
    const uint64_t index = in_first ? l.first : l.other;
    char key[TEXT_SHOWN + 40];

    say_key(m->join->sources[has], in_first ? m->field : field, m->form, index, key, sizeof key);
    return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                     "pair: no sample of its dataset %u has the key %s of sample %" PRIu64
                     " of its dataset %u; %" PRIu64 " keys of dataset 0 are not in dataset %u, "
                     "and %" PRIu64 " the other way: missing=drop leaves these samples out",
                     lacks, key, index, has, m->first.alone, s, other->alone);
}

/* What describe says is left out of a dataset. */
static void say_left(stk__text *said, uint32_t s, const list *l)
{
    if (l->alone)
        stk__text_add(said, ", dataset %u without partner: %" PRIu64, s, l->alone);
    if (l->doubled)
        stk__text_add(said, ", dataset %u repeated: %" PRIu64, s, l->doubled);
}

static stk_status match_source(matching *m, uint32_t s, stk_error *err)
{
    list other = {0};
    uint32_t field = 0;

    stk_status status = take_keys(m->join, s, m->by, &m->form, &field, &other, err);
    if (status == STK_OK) {
        m->first.alone = 0;
        const lonely l = meet(&m->first, &other, m->rows + s * m->join->sources[0]->size);
        if (!m->by->drop_missing && (l.first != UINT64_MAX || l.other != UINT64_MAX))
            status = refuse_missing(m, s, field, &other, l, err);
        say_left(m->said, s, &other);
    }
    stk__free(m->join->base.context, other.entries);
    return status;
}

/* Keep the samples of the first that have a partner in all, in their order. */
static uint64_t close_up(const matching *m)
{
    const uint64_t all = m->join->sources[0]->size;
    uint64_t n = 0, kept = 0;

    for (uint64_t i = 0; i < all; i++) {
        bool whole = true;
        for (uint32_t s = 0; s < m->join->num; s++)
            whole = whole && m->rows[s * all + i] != UINT64_MAX;
        for (uint32_t s = 0; whole && s < m->join->num; s++)
            m->rows[s * all + n] = m->rows[s * all + i];
        n += whole;
    }
    for (uint32_t s = 0; s < m->join->num; s++, kept += n)
        memmove(m->rows + kept, m->rows + s * all, n * sizeof *m->rows);
    return n;
}

static stk_status match_all(matching *m, stk_error *err)
{
    stk__join *join = m->join;
    const uint64_t all = join->sources[0]->size;
    uint64_t bytes = 0;

    STK_TRY(take_keys(join, 0, m->by, &m->form, &m->field, &m->first, err));
    if (stk__mul_size(all, join->num * sizeof *m->rows, &bytes) &&
        bytes <= stk__memory_left(join->base.context))
        m->rows = join->rows = stk__alloc(join->base.context, bytes);
    if (!m->rows)
        return no_room(0, all, err);
    memset(m->rows, 0xff, bytes);
    for (uint64_t i = 0; i < m->first.count; i++)
        m->rows[m->first.entries[i].index] = m->first.entries[i].index;
    for (uint32_t s = 1; s < join->num; s++)
        STK_TRY(match_source(m, s, err));
    return STK_OK;
}

stk_status stk__pair_match(stk__join *join, const stk__pair_by *by, uint64_t *size, char *left_out,
                           size_t room, stk_error *err)
{
    stk__text said = {.bytes = left_out, .room = room};
    matching m = {.join = join, .by = by, .said = &said};

    left_out[0] = 0;
    stk_status status = match_all(&m, err);
    stk__free(join->base.context, m.first.entries);
    STK_TRY(status);
    *size = close_up(&m);
    m.first.alone = m.first.count - *size;
    say_left(&said, 0, &m.first);
    return *size ? STK_OK
                 : stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "pair: no key '%.60s' is in all %u datasets", by->field, join->num);
}
