/* SPDX-License-Identifier: Apache-2.0 */
/* Names of pictures: of samples, of what they become, and what may not meet. */
#include <stdio.h>
#include <strings.h>

#include "convert/images.h"
#include "dataset/dataset.h"

/* A slot of the table: a hash, and whose name it is of. */
typedef struct slot {
    uint64_t hash;
    uint64_t whose; /* 0: free; else 1 + index */
} slot;

struct stk__images_names {
    slot *slots;
    uint64_t mask;
};

/* ---- Sources --------------------------------------------------------------------------------- */

typedef struct locator {
    stk_locator base;
    stk_need need;
    uint32_t count;
} locator;

static stk_status take_need(stk_locator *self, size_t i, const stk_need *need)
{
    locator *l = (locator *)self;

    l->need = *need;
    l->count++;
    return STK_OK;
}

static void take_cost(stk_locator *self, size_t i, double nanoseconds)
{
}

static void take_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
}

stk_status stk__images_source(stk__images_run *run, uint64_t index, stk_store **store,
                              char key[STK_MAX_OBJECT_KEY], stk_error *err)
{
    locator l = {.base = {sizeof(stk_locator), take_need, take_cost, take_bytes}};
    stk_dataset *dataset = run->dataset;

    STK_TRY(dataset->ops->locate(dataset, &index, 1, &l.base, err));
    if (l.count != 1 || l.need.offset != 0)
        return stk__fail(err, STK_EKIND, STK_STAGE_CONVERT,
                         "sample %llu of %.200s is not one file of its own, so there is nothing to "
                         "pack again",
                         (unsigned long long)index, run->job->source);
    size_t length = dataset->ops->object(dataset, l.need.object, store, key, STK_MAX_OBJECT_KEY);
    if (length >= STK_MAX_OBJECT_KEY)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_CONVERT, key, STK_NO_OFFSET,
                            "a path of %zu bytes is too long; at most %d", length,
                            STK_MAX_OBJECT_KEY - 1);
    return stk__target_check_name(key, err);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* The ending of the last part, with its dot; the end of the key where there is none. */
static const char *ending(const char *key)
{
    const char *slash = strrchr(key, '/'), *name = slash ? slash + 1 : key;
    const char *dot = strrchr(name, '.');

    return dot && dot > name ? dot : key + strlen(key);
}

bool stk__images_has_jpeg_name(const char *key)
{
    const char *end = ending(key);

    return strcasecmp(end, ".jpg") == 0 || strcasecmp(end, ".jpeg") == 0;
}

stk_status stk__images_name(const char *key, bool renamed, char name[STK_MAX_OBJECT_KEY],
                            stk_error *err)
{
    int length = renamed ? (int)(ending(key) - key) : (int)strlen(key);

    if (snprintf(name, STK_MAX_OBJECT_KEY, "%.*s%s", length, key, renamed ? ".jpg" : "") >=
        STK_MAX_OBJECT_KEY)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_CONVERT, key, STK_NO_OFFSET,
                            "the path is too long to end in .jpg; rename '%.300s'", key);
    return STK_OK;
}

/* ---- The table ------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *name)
{
    return stk__fingerprint(0, name, strlen(name));
}

/* The slot of a hash, or a free one. */
static slot *find_slot(const stk__images_names *names, uint64_t hash)
{
    uint64_t at = hash & names->mask;

    while (names->slots[at].whose && names->slots[at].hash != hash)
        at = (at + 1) & names->mask;
    return &names->slots[at];
}

bool stk__images_names_find(stk__images_run *run, const stk__images_names *names, const char *key,
                            uint64_t *index)
{
    char is[STK_MAX_OBJECT_KEY];
    stk_store *store;
    const slot *s = find_slot(names, hash_of(key));

    *index = s->whose - 1;
    return s->whose && stk__images_source(run, *index, &store, is, NULL) == STK_OK &&
           strcmp(is, key) == 0;
}

/* The name that a sample will have, by its header; false where it cannot be told, as it is broken.
 */
static bool future_name(stk__images_run *run, uint64_t index, char name[STK_MAX_OBJECT_KEY],
                        char key[STK_MAX_OBJECT_KEY])
{
    stk_object_info info = {.struct_size = sizeof info};
    const char *reason;
    stk_store *store;
    stk__repack plan;
    uint8_t *data = NULL;
    bool told = false;

    if (stk__images_source(run, index, &store, key, NULL) == STK_OK &&
        stk_store_stat(store, key, NULL, &info, NULL) == STK_OK && info.size <= run->budget &&
        stk__images_load(run, store, key, info.size, &data, NULL) == STK_OK &&
        stk__picture_plan(run->own, run->options, data, info.size, &plan, &reason) == STK_OK) {
        bool renamed = plan.kind == STK__DONE_ENCODED && !stk__images_has_jpeg_name(key);
        told = stk__images_name(key, renamed, name, NULL) == STK_OK;
    }
    stk__free(run->context, data);
    return told;
}

/* Sample `i` may get the name of the slot; so may, or will, another one. */
static stk_status check_pair(stk__images_run *run, uint64_t i, const char *wanted, slot *s,
                             stk_error *err)
{
    struct {
        char name[2][STK_MAX_OBJECT_KEY], key[2][STK_MAX_OBJECT_KEY];
    } *n = stk__alloc(run->context, sizeof *n);
    stk_status status = STK_OK;

    if (!n)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to compare names");
    bool takes = future_name(run, i, n->name[0], n->key[0]) && strcmp(n->name[0], wanted) == 0;
    if (takes && future_name(run, s->whose - 1, n->name[1], n->key[1]) &&
        strcmp(n->name[0], n->name[1]) == 0)
        status = stk__fail_at(err, STK_EINVAL, STK_STAGE_CONVERT, n->key[0], STK_NO_OFFSET,
                              "'%.180s' and '%.180s' would both become '%.180s'; rename one of "
                              "them, or set keep_png where one is a PNG",
                              n->key[1], n->key[0], wanted);
    else if (takes)
        s->whose = i + 1;
    stk__free(run->context, n);
    return status;
}

/* Samples of other names than *.jpg: they may get one. */
static stk_status count_others(stk__images_run *run, uint64_t *others, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;

    for (uint64_t i = 0; i < run->total; i++) {
        STK_TRY(stk__images_source(run, i, &store, key, err));
        *others += !stk__images_has_jpeg_name(key);
    }
    return STK_OK;
}

static stk_status add_keys(stk__images_run *run, stk__images_names *names, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;
    uint64_t other;

    for (uint64_t i = 0; i < run->total; i++) {
        STK_TRY(stk__images_source(run, i, &store, key, err));
        slot *s = find_slot(names, hash_of(key));
        if (!s->whose)
            *s = (slot){hash_of(key), i + 1};
        else if (stk__images_names_find(run, names, key, &other))
            run->done[i].kind = STK__DONE_REPEATED;
        else
            return stk__fail_at(err, STK_EINTERNAL, STK_STAGE_CONVERT, key, STK_NO_OFFSET,
                                "the path '%.300s' has the same hash as another one; rename it",
                                key);
    }
    return STK_OK;
}

/* The names that others than *.jpg may get. */
static stk_status add_results(stk__images_run *run, stk__images_names *names, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY], name[STK_MAX_OBJECT_KEY];
    stk_store *store;

    for (uint64_t i = 0; i < run->total; i++) {
        STK_TRY(stk__images_source(run, i, &store, key, err));
        if (stk__images_has_jpeg_name(key) || run->done[i].kind == STK__DONE_REPEATED)
            continue;
        STK_TRY(stk__images_name(key, true, name, err));
        slot *s = find_slot(names, hash_of(name));
        if (s->whose)
            STK_TRY(check_pair(run, i, name, s, err));
        else
            *s = (slot){hash_of(name), i + 1};
    }
    return STK_OK;
}

/* A table with room for `count` names. */
static stk_status make_slots(stk__images_run *run, stk__images_names *names, uint64_t count,
                             stk_error *err)
{
    uint64_t size = 16;

    while (size < 2 * count)
        size *= 2;
    names->mask = size - 1;
    names->slots = stk__calloc(run->context, size, sizeof *names->slots);
    return names->slots ? STK_OK
                        : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                                    "no memory for the names of %llu pictures",
                                    (unsigned long long)run->total);
}

stk_status stk__images_names_create(stk__images_run *run, stk__images_names **out, stk_error *err)
{
    uint64_t others = 0;

    stk__images_names *names = stk__calloc(run->context, 1, sizeof *names);
    *out = names;
    if (!names)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for names");
    STK_TRY(count_others(run, &others, err));
    STK_TRY(make_slots(run, names, run->total + others, err));
    STK_TRY(add_keys(run, names, err));
    return others ? add_results(run, names, err) : STK_OK;
}

void stk__images_names_destroy(stk__images_run *run, stk__images_names **names)
{
    if (!*names)
        return;
    stk__free(run->context, (*names)->slots);
    stk__free(run->context, *names);
    *names = NULL;
}

bool stk__images_names_taken(stk__images_run *run, const stk__images_names *names, const char *name)
{
    char key[STK_MAX_OBJECT_KEY], is[STK_MAX_OBJECT_KEY];
    stk_store *store;
    uint64_t index;

    const slot *s = find_slot(names, hash_of(name));
    if (!s->whose)
        return false;
    index = s->whose - 1;
    const stk__done *done = &run->done[index];
    return done->kind >= STK__DONE_COPIED && done->kind <= STK__DONE_ENCODED &&
           stk__images_source(run, index, &store, key, NULL) == STK_OK &&
           stk__images_name(key, done->renamed, is, NULL) == STK_OK && strcmp(is, name) == 0;
}
