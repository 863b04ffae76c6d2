/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair: datasets side by side. Sample i has the fields of sample i of each, or of those that have
 * the same key. The needs of a sample are those of the first dataset, then those of the next.
 */
#include "dataset/pair.h"

#include <inttypes.h>
#include <stdio.h>

#include "dataset/view.h"

#define MAX_FIELDS 4096

enum { MISSING_FAIL, MISSING_DROP };
enum { DUPLICATES_FAIL, DUPLICATES_FIRST };

typedef struct pair_options {
    uint32_t struct_size;
    const char *prefixes, *by;
    int32_t missing, duplicates;
} pair_options;

static const stk_option option_list[] = {
    {"prefixes", STK_OPTION_STRING, offsetof(pair_options, prefixes), NULL, 0, 0, NULL, "A,B,...",
     "What stands before the names of fields that several of the datasets have: A_label, B_label. "
     "Else it is a, b, ..."},
    {"by", STK_OPTION_STRING, offsetof(pair_options, by), NULL, 0, 0, NULL, "FIELD",
     "Pair the samples that have the same value of a field, one integer or text, in place of those "
     "at the same place. All samples are read once for it when the datasets are opened."},
    {"missing", STK_OPTION_ENUM, offsetof(pair_options, missing), "fail", 0, 0, "fail|drop", NULL,
     "With by: what becomes of a sample whose key another dataset does not have."},
    {"duplicates", STK_OPTION_ENUM, offsetof(pair_options, duplicates), "fail", 0, 0, "fail|first",
     NULL,
     "With by: what becomes of samples of one dataset with the same key: an error, or the first is "
     "taken."},
};

static const stk_option_table options_table = {
    "pair", "Datasets side by side.", sizeof(pair_options), option_list, STK_COUNT(option_list)};

/* The index that a source has of a sample. */
static uint64_t row_of(const stk__join *join, uint32_t source, uint64_t index)
{
    return join->rows ? join->rows[source * join->base.size + index] : index;
}

/* ---- Needs ---- */

/* The caller's locator for one sample and one source. */
typedef struct paired {
    stk_locator base;
    stk_locator *to;
    const stk__join *join;
    size_t sample;
    uint32_t source;
    double cost; /* of the sample, of all sources so far */
} paired;

static stk_status paired_add(stk_locator *self, size_t i, const stk_need *need)
{
    paired *p = (paired *)self;
    stk_need own = *need;

    (void)i;
    if (!stk__join_object(need->object, p->join->num, p->source, &own.object))
        return STK_ELIMIT;
    if (need->in_place)
        own.field += (uint32_t)p->join->starts[p->source];
    return p->to->add(p->to, p->sample, &own);
}

static void paired_cost(stk_locator *self, size_t i, double nanoseconds)
{
    (void)i;
    ((paired *)self)->cost += nanoseconds;
}

static void paired_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    paired *p = (paired *)self;

    (void)i;
    p->to->bytes(p->to, p->sample, field + (uint32_t)p->join->starts[p->source], bytes);
}

static stk_status pair_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                              stk_locator *to, stk_error *err)
{
    const stk__join *join = (const stk__join *)dataset;
    paired p = {
        .base = {sizeof p.base, paired_add, paired_cost, paired_bytes}, .to = to, .join = join};

    for (p.sample = 0; p.sample < n; p.sample++) {
        p.cost = 0;
        for (p.source = 0; p.source < join->num; p.source++) {
            stk_dataset *source = join->sources[p.source];
            const uint64_t row = row_of(join, p.source, indices[p.sample]);
            if (!source->ops->locate)
                continue;
            const stk_status status = source->ops->locate(source, &row, 1, &p.base, err);
            /* The caller knows the sample by its own index. */
            if (status != STK_OK && err && err->sample == row)
                err->sample = indices[p.sample];
            STK_TRY(status);
        }
        if (p.cost > 0)
            to->cost(to, p.sample, p.cost);
    }
    return STK_OK;
}

static stk_status pair_decode(stk_dataset *dataset, const stk_need *need, const void *data,
                              void *out, void *worker, const char **reason)
{
    const stk__join *join = (const stk__join *)dataset;
    const uint32_t s = (uint32_t)(need->object % join->num);
    stk_need own = *need;

    own.object = need->object / join->num;
    if (need->in_place)
        own.field -= (uint32_t)join->starts[s];
    return join->sources[s]->ops->decode(join->sources[s], &own, data, out,
                                         stk__join_worker(worker, s), reason);
}

/* ---- Samples ---- */

/* Counts the needs of each sample of a call. */
typedef struct counted {
    stk_locator base;
    size_t *counts;
} counted;

static stk_status count_need(stk_locator *self, size_t i, const stk_need *need)
{
    (void)need;
    ((counted *)self)->counts[i]++;
    return STK_OK;
}

/* Prepare one source's fields of some samples; `counts` are the needs of the sources before. */
static void prepare_source(const stk__join *join, uint32_t s, stk_sample *samples,
                           const size_t *counts, size_t n)
{
    stk_dataset *source = join->sources[s];
    stk_sample taken[STK_JOIN_CHUNK];

    for (size_t i = 0; i < n; i++) {
        taken[i] = samples[i];
        taken[i].index = row_of(join, s, samples[i].index);
        taken[i].needs = samples[i].needs ? samples[i].needs + counts[i] : NULL;
        taken[i].values = samples[i].values + join->starts[s];
        taken[i].worker = stk__join_worker(samples[i].worker, s);
        taken[i].status = STK_OK;
    }
    source->ops->prepare(source, taken, n);
    for (size_t i = 0; i < n; i++)
        if (samples[i].status == STK_OK) {
            samples[i].status = taken[i].status;
            samples[i].reason = taken[i].reason;
            /* The object that a message names is that of the first need. */
            samples[i].line = s == 0                      ? taken[i].line
                              : taken[i].status == STK_OK ? samples[i].line
                                                          : 0;
        }
}

static void prepare_some(const stk__join *join, stk_sample *samples, size_t n)
{
    size_t counts[STK_JOIN_CHUNK] = {0};
    uint64_t indices[STK_JOIN_CHUNK];
    counted locator = {stk__locator_of_needs(count_need), counts};

    for (uint32_t s = 0; s < join->num; s++) {
        stk_dataset *source = join->sources[s];
        for (size_t i = 0; i < n; i++)
            indices[i] = row_of(join, s, samples[i].index);
        prepare_source(join, s, samples, counts, n);
        if (s + 1 == join->num || !source->ops->locate)
            continue;
        const stk_status status = source->ops->locate(source, indices, n, &locator.base, NULL);
        for (size_t i = 0; status != STK_OK && i < n; i++)
            samples[i].status = status;
        if (status != STK_OK)
            return;
    }
}

static void pair_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    for (size_t done = 0; done < n; done += STK_JOIN_CHUNK)
        prepare_some((const stk__join *)dataset, samples + done,
                     STK_MIN(n - done, (size_t)STK_JOIN_CHUNK));
}

/* ---- Fields ---- */

/* Whether another dataset has a field of this name. */
static bool collides(const stk__join *join, uint32_t source, const char *name)
{
    for (uint32_t s = 0; s < join->num; s++)
        for (uint32_t f = 0; s != source && f < join->sources[s]->num_fields; f++)
            if (strcmp(join->sources[s]->fields[f].name, name) == 0)
                return true;
    return false;
}

/* What stands before the names of a source: entry `source` of the list, or "a", ... "z", "27", ...
 */
static void prefix_of(const char *list, uint32_t source, char *out, size_t size)
{
    for (uint32_t s = 0; list && s < source; s++) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    if (list && *list && *list != ',')
        snprintf(out, size, "%.*s", (int)STK_MIN(strcspn(list, ","), size - 1), list);
    else if (source < 26)
        snprintf(out, size, "%c", (char)('a' + source));
    else
        snprintf(out, size, "%u", source + 1);
}

static stk_status check_names(const stk_field *fields, uint64_t n, stk_error *err)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < i; k++)
            if (strcmp(fields[i].name, fields[k].name) == 0)
                return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "prefixes", STK_NO_OFFSET,
                                    "pair: two fields are called '%.60s'; give other prefixes, or "
                                    "rename fields of the datasets",
                                    fields[i].name);
    return STK_OK;
}

/* The fields of all, in one block with the names that are made. */
static stk_status join_fields(stk__join *join, const char *prefixes, stk_error *err)
{
    stk_context *ctx = join->base.context;
    uint64_t n = 0, bytes = 0;
    char prefix[40];

    join->starts = stk__calloc(ctx, join->num + UINT64_C(1), sizeof *join->starts);
    for (uint32_t s = 0; join->starts && s < join->num; s++) {
        n += join->sources[s]->num_fields;
        join->starts[s + 1] = n;
        for (uint32_t f = 0; f < join->sources[s]->num_fields; f++)
            bytes += sizeof prefix + 1 + strlen(join->sources[s]->fields[f].name);
    }
    if (n > MAX_FIELDS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "pair: %" PRIu64 " fields; %d are the most", n, MAX_FIELDS);
    stk_field *fields = join->starts ? stk__calloc(ctx, n * sizeof *fields + bytes, 1) : NULL;
    if (!fields)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "pair: no memory for its fields");
    join->room = fields;
    char *name = (char *)(fields + n);
    for (uint32_t s = 0; s < join->num; s++) {
        prefix_of(prefixes, s, prefix, sizeof prefix);
        for (uint32_t f = 0; f < join->sources[s]->num_fields; f++) {
            stk_field *field = &fields[join->starts[s] + f];
            *field = join->sources[s]->fields[f];
            if (!collides(join, s, field->name))
                continue;
            const int length = snprintf(name, sizeof prefix + 1 + strlen(field->name), "%s_%s",
                                        prefix, field->name);
            field->name = name;
            name += length + 1;
        }
    }
    join->base.fields = fields;
    join->base.num_fields = (uint32_t)n;
    return check_names(fields, n, err);
}

static void pair_say(const stk__join *join, uint32_t source, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%.60s:", join->sources[source]->ops->name);

    for (uint64_t f = join->starts[source]; f < join->starts[source + 1] && used < size; f++)
        used += (size_t)snprintf(text + used, size - used, " %.40s", join->base.fields[f].name);
}

/* ---- Opening ---- */

/* Which samples go together is part of what they are: so it is of the fingerprint. */
static stk_status match(stk__join *join, const pair_options *o, stk_error *err)
{
    const stk__pair_by by = {.field = o->by,
                             .drop_missing = o->missing == MISSING_DROP,
                             .take_first = o->duplicates == DUPLICATES_FIRST};
    stk_dataset *d = &join->base;
    char left_out[100];

    STK_TRY(stk__pair_match(join, &by, &d->size, left_out, sizeof left_out, err));
    d->block_size = STK_MIN(d->block_size, d->size);
    d->fingerprint =
        stk__fingerprint(d->fingerprint, join->rows, d->size * join->num * sizeof *join->rows);
    snprintf(join->text, sizeof join->text, "%u datasets side by side by %.40s%.70s", join->num,
             o->by, left_out);
    return STK_OK;
}

/* An option that does nothing without `by`. */
static stk_status check_idle(const pair_options *o, stk_error *err)
{
    const char *idle = o->missing ? "missing" : o->duplicates ? "duplicates" : NULL;

    return o->by || !idle ? STK_OK
                          : stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, idle, STK_NO_OFFSET,
                                         "pair: %s says what becomes of keys, and by=FIELD is not "
                                         "given; give it or leave %s out",
                                         idle, idle);
}

static stk_status lay(stk__join *join, const pair_options *o, stk_error *err)
{
    stk_dataset *d = &join->base;

    d->size = join->sources[0]->size;
    d->cost_ns = 0;
    for (uint32_t s = 0; s < join->num; s++) {
        const stk_dataset *source = join->sources[s];
        if (!o->by && source->size != d->size)
            return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "pair: its dataset 0 has %" PRIu64 " samples, its dataset %u has "
                             "%" PRIu64 "; they have to be as many: take subset=A:B of one, or "
                             "pair them by=FIELD",
                             d->size, s, source->size);
        d->cost_ns += source->cost_ns;
        d->block_size = STK_MAX(d->block_size, source->block_size);
        if (!d->classes && source->num_classes) {
            d->classes = source->classes;
            d->num_classes = source->num_classes;
        }
    }
    STK_TRY(join_fields(join, o->prefixes, err));
    for (uint32_t f = 0; f < d->num_fields; f++)
        d->fingerprint =
            stk__fingerprint(d->fingerprint, d->fields[f].name, strlen(d->fields[f].name) + 1);
    if (o->by)
        STK_TRY(match(join, o, err));
    else
        snprintf(join->text, sizeof join->text, "%u datasets side by side", join->num);
    join->say = pair_say;
    join->ops.locate = join->ops.locate ? pair_locate : NULL;
    join->ops.decode = join->ops.decode ? pair_decode : NULL;
    return STK_OK;
}

static stk_status pair_open(stk_context *ctx, const char *url, const void *options,
                            stk_dataset **out, stk_error *err)
{
    stk__nested nested;
    stk__join *join = NULL;

    STK_TRY(stk__refuse_query(&options_table, url, err));
    STK_TRY(check_idle(options, err));
    STK_TRY(stk__nested_open(ctx, "pair", url, false, &nested, err));
    stk_status status = stk__join_make(&stk__dataset_pair, &nested, &join, err);
    if (status == STK_OK)
        status = lay(join, options, err);
    stk__nested_release(&nested);
    if (status == STK_OK)
        *out = &join->base;
    else if (join)
        stk__join_close(&join->base);
    return status;
}

const stk_dataset_ops stk__dataset_pair = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "pair",
    .doc = "Datasets side by side, with the fields of all, as pair:(SPEC),(SPEC).",
    .options = &options_table,
    .open = pair_open,
    .close = stk__join_close,
    .prepare = pair_prepare,
};
