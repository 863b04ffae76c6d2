/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All shards, looked at and scanned by several threads; then one table of them. It does not depend
 * on the number of threads.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/counted.h"
#include "dataset/kept.h"
#include "dataset/lookers.h"
#include "dataset/records/shard.h"

/* What became of a shard: found by a scan, or a shard of the known table. */
typedef struct outcome {
    stk__shard_found found;
    uint64_t known; /* UINT64_MAX: it was scanned */
} outcome;

typedef struct job {
    stk__records *set;
    const void *options;
    const stk__records_table *known;
    uint32_t *known_order; /* its shards in the order of their keys */
    outcome *outcomes;
    uint64_t count;
    atomic_uint_fast64_t scanned;
    atomic_bool told;
    stk__counted shards;
} job;

static const char *name_of(const stk__records *set)
{
    return set->format->ops->name;
}

static stk_status no_memory(const stk__records *set, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                     "%s: no memory for the index of %zu shards; raise memory_limit, or open fewer",
                     name_of(set), set->table.num_shards);
}

void stk__records_table_release(stk__records_table *table)
{
    for (uint32_t i = 0; i < table->num_kinds; i++)
        stk__free(table->context, table->kinds[i]);
    stk__free(table->context, table->text);
    stk__free(table->context, table->shards);
    stk__free(table->context, table->starts);
    stk__free(table->context, table->parts);
    *table = (stk__records_table){.context = table->context};
}

/* ---- One shard ------------------------------------------------------------------------------- */

static stk_status look_at(const job *j, stk__records_shard *shard, uint64_t number, stk_error *err)
{
    const stk__records *set = j->set;
    const char *key = set->table.text + shard->key;
    stk_object_info info = {.struct_size = sizeof info};

    stk_status status = stk_store_stat(set->stores[shard->store].store, key, NULL, &info, err);
    if (status == STK_OK && info.is_folder)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "%s: the shard '%.200s' is a folder; name files", name_of(set), key);
    if (status == STK_ENOENT)
        return stk__fail_at(err, status, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "%s: shard %llu of %llu, '%.300s', is not there; fetch it, or name "
                            "only those that are",
                            name_of(set), (unsigned long long)number + 1,
                            (unsigned long long)j->count, key);
    STK_TRY(status);
    shard->size = info.size;
    shard->identity = info.identity;
    shard->mtime_ns = info.mtime_ns;
    return STK_OK;
}

static int compare_known(const stk__records_table *t, uint32_t a, const char *key, uint32_t store)
{
    const int order = strcmp(t->text + t->shards[a].key, key);

    return order ? order : (t->shards[a].store > store) - (t->shards[a].store < store);
}

/* The known shard that this one is, as it was; UINT64_MAX: none. */
static uint64_t find_known(const job *j, const stk__records_shard *shard)
{
    const char *key = j->set->table.text + shard->key;
    uint64_t low = 0, high = j->known ? j->known->num_shards : 0;

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        const int order = compare_known(j->known, j->known_order[middle], key, shard->store);
        if (order == 0) {
            const stk__records_shard *was = &j->known->shards[j->known_order[middle]];
            int64_t settled = 0;
            const bool old = !shard->mtime_ns ||
                             (!__builtin_sub_overflow(was->scanned_ns, STK__RACY_NS, &settled) &&
                              shard->mtime_ns < settled);
            return shard->identity && was->identity == shard->identity &&
                           was->size == shard->size && was->mtime_ns == shard->mtime_ns && old
                       ? j->known_order[middle]
                       : UINT64_MAX;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return UINT64_MAX;
}

static stk_status scan_shard(job *j, uint64_t number, stk_error *err)
{
    stk__records_shard *s = &j->set->table.shards[number];
    outcome *o = &j->outcomes[number];
    stk__shard shard;

    STK_TRY(look_at(j, s, number, err));
    o->known = find_known(j, s);
    if (o->known != UINT64_MAX) {
        s->scanned_ns = j->known->shards[o->known].scanned_ns;
        return STK_OK;
    }
    s->scanned_ns = (int64_t)(stk__wall_seconds() * 1e9);
    atomic_fetch_add_explicit(&j->scanned, 1, memory_order_relaxed);
    stk_status status = stk__shard_begin(&shard, j->set, number, err);
    shard.told = &j->told;
    if (status == STK_OK)
        status = j->set->format->scan(&shard, j->options, err);
    if (status == STK_OK)
        status = stk__shard_finish(&shard, err);
    stk__shard_end(&shard);
    o->found = shard.found;
    return status;
}

static void scan_main(void *argument)
{
    job *j = argument;
    uint64_t i, end;
    stk_error err;

    while (stk__counted_take(&j->shards, &i, &end)) {
        stk_error_init(&err);
        const stk_status status = scan_shard(j, i, &err);
        if (status != STK_OK)
            stk__counted_fail(&j->shards, i, status, &err);
        atomic_fetch_add_explicit(&j->shards.done, 1, memory_order_relaxed);
    }
}

/* ---- One table ------------------------------------------------------------------------------- */

/* The number of a kind in the table, which gets it where it is new. */
static stk_status take_kind(stk__records *set, const char *name, uint8_t *out, stk_error *err)
{
    stk__records_table *t = &set->table;
    uint32_t kind = 0;

    while (kind < t->num_kinds && strcmp(t->kinds[kind], name) != 0)
        kind++;
    *out = (uint8_t)kind;
    if (kind < t->num_kinds)
        return STK_OK;
    if (kind == STK__RECORDS_MAX_KINDS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "%s: the shards hold more than %u kinds of parts, one of them '%.60s'; "
                         "open shards of one dataset",
                         name_of(set), STK__RECORDS_MAX_KINDS, name);
    t->kinds[kind] = stk__strdup(t->context, name);
    if (!t->kinds[kind])
        return no_memory(set, err);
    t->num_kinds++;
    return STK_OK;
}

/* What a shard adds, from a scan or from the known table. */
typedef struct piece {
    const stk__record_part *parts;
    const uint32_t *starts;
    uint64_t records, num_parts;
    uint64_t print;
    uint32_t base; /* what the first of `starts` is */
} piece;

static piece piece_of(const job *j, const outcome *o)
{
    if (o->known == UINT64_MAX)
        return (piece){.parts = o->found.parts,
                       .starts = o->found.starts,
                       .records = o->found.num_records,
                       .num_parts = o->found.num_parts,
                       .print = o->found.print};
    const stk__records_shard *s = &j->known->shards[o->known];
    return (piece){.parts = j->known->parts + s->first_part,
                   .starts = j->known->starts + s->first_record,
                   .records = s->records,
                   .num_parts = s->parts,
                   .print = s->print,
                   .base = (uint32_t)s->first_part};
}

/* Kinds of a shard in those of the table. */
static stk_status map_kinds(const job *j, const outcome *o, const piece *p,
                            uint8_t map[STK__RECORDS_MAX_KINDS], stk_error *err)
{
    const char *name = o->found.kinds;
    bool seen[STK__RECORDS_MAX_KINDS] = {false};

    for (uint32_t i = 0; o->known == UINT64_MAX && i < o->found.num_kinds; i++) {
        STK_TRY(take_kind(j->set, name, &map[i], err));
        name += strlen(name) + 1;
    }
    for (uint64_t i = 0; o->known != UINT64_MAX && i < p->num_parts; i++) {
        const uint32_t kind = p->parts[i].kind;
        if (!seen[kind])
            STK_TRY(take_kind(j->set, j->known->kinds[kind], &map[kind], err));
        seen[kind] = true;
    }
    return STK_OK;
}

static stk_status take_shard(job *j, uint64_t number, stk_error *err)
{
    stk__records_table *t = &j->set->table;
    stk__records_shard *s = &t->shards[number];
    const piece p = piece_of(j, &j->outcomes[number]);
    uint8_t map[STK__RECORDS_MAX_KINDS] = {0};

    STK_TRY(map_kinds(j, &j->outcomes[number], &p, map, err));
    s->first_record = t->num_records;
    s->first_part = t->num_parts;
    s->records = p.records;
    s->parts = p.num_parts;
    s->print = p.print;
    for (uint64_t i = 0; i < p.records; i++)
        t->starts[t->num_records + i] = (uint32_t)(t->num_parts + (p.starts[i] - p.base));
    for (uint64_t i = 0; i < p.num_parts; i++) {
        stk__record_part part = p.parts[i];
        part.kind = map[part.kind];
        t->parts[t->num_parts + i] = part;
    }
    t->num_records += p.records;
    t->num_parts += p.num_parts;
    return STK_OK;
}

static stk_status make_table(job *j, stk_error *err)
{
    stk__records_table *t = &j->set->table;
    const uint64_t rest = stk__context_memory_limit(t->context) / 2; /* as of the scan */
    uint64_t records = 0, parts = 0, bytes, part_bytes, start_bytes;

    for (uint64_t i = 0; i < j->count; i++) {
        const piece p = piece_of(j, &j->outcomes[i]);
        records += p.records;
        parts += p.num_parts;
    }
    if (parts >= STK__RECORDS_MAX_PARTS)
        return stk__fail(
            err, STK_ELIMIT, STK_STAGE_DATASET,
            "%s: %llu parts of records are too many: less than 2^32; open fewer shards",
            name_of(j->set), (unsigned long long)parts);
    if (!stk__mul_size(parts, sizeof *t->parts, &part_bytes) ||
        !stk__mul_size(records + 1, sizeof *t->starts, &start_bytes) ||
        !stk__add_size(part_bytes, start_bytes, &bytes) || !stk__add_size(bytes, rest, &bytes) ||
        bytes > stk__memory_left(t->context))
        return no_memory(j->set, err);
    t->parts = stk__alloc(t->context, part_bytes);
    t->starts = stk__alloc(t->context, start_bytes);
    if (!t->parts || !t->starts)
        return no_memory(j->set, err);
    for (uint64_t i = 0; i < j->count; i++) {
        STK_TRY(take_shard(j, i, err));
        stk__shard_found_release(t->context, &j->outcomes[i].found);
    }
    t->starts[t->num_records] = (uint32_t)t->num_parts;
    return STK_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* The table whose shards are being sorted. */
static int by_key(const void *a, const void *b, void *user)
{
    const stk__records_table *t = user;
    const stk__records_shard *right = &t->shards[*(const uint32_t *)b];

    return compare_known(t, *(const uint32_t *)a, t->text + right->key, right->store);
}

static stk_status sort_known(job *j, stk_error *err)
{
    if (!j->known)
        return STK_OK;
    j->known_order = stk__calloc(j->set->base.context, j->known->num_shards, sizeof(uint32_t));
    if (!j->known_order)
        return no_memory(j->set, err);
    for (uint64_t i = 0; i < j->known->num_shards; i++)
        j->known_order[i] = (uint32_t)i;
    qsort_r(j->known_order, j->known->num_shards, sizeof(uint32_t), by_key, (void *)j->known);
    return STK_OK;
}

/* Threads: as many as wait, within memory for their windows. */
static uint32_t threads_for(const stk__records *set)
{
    stk_store *store = set->stores[0].store;
    uint64_t threads =
        stk__file_root(store) >= 0 ? stk__lookers(set->base.context) : STK__LOOKERS_FAR;

    threads = STK_MIN(threads, set->table.num_shards);
    const uint64_t fit = stk__memory_left(set->base.context) / 4 / stk__shard_window(store);
    return (uint32_t)STK_MAX(STK_MIN(threads, fit), 1);
}

stk_status stk__records_scan(stk__records *set, const void *options,
                             const stk__records_table *known, stk_error *err)
{
    stk_context *ctx = set->base.context;
    char what[64];
    job j = {.set = set, .options = options, .known = known, .count = set->table.num_shards};

    j.outcomes = stk__calloc(ctx, j.count, sizeof *j.outcomes);
    stk_status status = j.outcomes ? sort_known(&j, err) : no_memory(set, err);
    if (status == STK_OK) {
        snprintf(what, sizeof what, "shards of %s", name_of(set));
        stk__counted_init(&j.shards, j.count, 1);
        stk__lookers_run(ctx, threads_for(set), scan_main, &j, what, &j.shards.done, j.count);
        status = stk__counted_end(&j.shards, err);
    }
    if (status == STK_OK)
        status = make_table(&j, err);
    set->scanned = atomic_load(&j.scanned);
    for (uint64_t i = 0; j.outcomes && i < j.count; i++)
        stk__shard_found_release(ctx, &j.outcomes[i].found);
    stk__free(ctx, j.outcomes);
    stk__free(ctx, j.known_order);
    return status;
}
