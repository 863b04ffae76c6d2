/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What datasets made of several have in common. Objects are numbered so that one tells its source:
 * number * sources + source. All else is passed on, to one source at a time.
 */
#include "dataset/join.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Threads ---- */

static void close_workers(stk__join *join, void **workers, uint32_t n)
{
    for (uint32_t s = 0; s < n; s++)
        if (workers[s])
            join->sources[s]->ops->worker_close(join->sources[s], workers[s]);
    stk__free(join->base.context, workers);
}

static stk_status join_worker_open(stk_dataset *dataset, void **worker)
{
    stk__join *join = (stk__join *)dataset;
    void **workers = stk__calloc(dataset->context, join->num, sizeof *workers);

    if (!workers)
        return STK_ENOMEM;
    for (uint32_t s = 0; s < join->num; s++) {
        stk_dataset *source = join->sources[s];
        const stk_status status =
            source->ops->worker_open ? source->ops->worker_open(source, &workers[s]) : STK_OK;
        if (status != STK_OK) {
            workers[s] = NULL;
            close_workers(join, workers, s);
            return status;
        }
    }
    *worker = workers;
    return STK_OK;
}

static void join_worker_close(stk_dataset *dataset, void *worker)
{
    stk__join *join = (stk__join *)dataset;

    close_workers(join, worker, join->num);
}

void *stk__join_worker(void *worker, uint32_t source)
{
    return worker ? ((void **)worker)[source] : NULL;
}

/* ---- Needs ---- */

/* The caller's locator for some samples of one source, of which the first is its sample `shift`. */
typedef struct joined {
    stk_locator base;
    stk_locator *to;
    size_t shift;
    uint32_t num, source;
} joined;

bool stk__join_object(uint64_t object, uint32_t num, uint32_t source, uint64_t *out)
{
    return stk__mul_size(object, num, out) && stk__add_size(*out, source, out);
}

static stk_status joined_add(stk_locator *self, size_t i, const stk_need *need)
{
    joined *j = (joined *)self;
    stk_need own = *need;

    if (!stk__join_object(need->object, j->num, j->source, &own.object))
        return STK_ELIMIT;
    return j->to->add(j->to, j->shift + i, &own);
}

static void joined_cost(stk_locator *self, size_t i, double nanoseconds)
{
    joined *j = (joined *)self;

    j->to->cost(j->to, j->shift + i, nanoseconds);
}

static void joined_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    joined *j = (joined *)self;

    j->to->bytes(j->to, j->shift + i, field, bytes);
}

static bool joined_same(stk_locator *self, size_t i, size_t like)
{
    joined *j = (joined *)self;

    return j->to->same(j->to, j->shift + i, j->shift + like);
}

/* Samples `first` up to `end` of a chunk, all of one source. */
static stk_status locate_run(const stk__join *join, const uint64_t *outer, const uint64_t *inner,
                             size_t n, joined *to, stk_error *err)
{
    stk_dataset *source = join->sources[to->source];

    if (!source->ops->locate)
        return STK_OK;
    const stk_status status = source->ops->locate(source, inner, n, &to->base, err);
    /* The caller knows the sample by its outer index. */
    for (size_t i = 0; status != STK_OK && err && i < n; i++)
        if (inner[i] == err->sample) {
            err->sample = outer[i];
            break;
        }
    return status;
}

static stk_status join_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                              stk_locator *to, stk_error *err)
{
    const stk__join *join = (const stk__join *)dataset;
    joined locator = {.base = {sizeof locator.base, joined_add, joined_cost, joined_bytes,
                               to->same ? joined_same : NULL},
                      .to = to,
                      .num = join->num};
    uint32_t source[STK_JOIN_CHUNK];
    uint64_t mapped[STK_JOIN_CHUNK];

    for (size_t done = 0; done < n; done += STK_JOIN_CHUNK) {
        const size_t count = STK_MIN(n - done, (size_t)STK_JOIN_CHUNK);
        join->map(join, indices + done, source, mapped, count);
        for (size_t i = 0, end; i < count; i = end) {
            for (end = i + 1; end < count && source[end] == source[i];)
                end++;
            locator.shift = done + i;
            locator.source = source[i];
            STK_TRY(locate_run(join, indices + done + i, mapped + i, end - i, &locator, err));
        }
    }
    return STK_OK;
}

static size_t join_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                          size_t size)
{
    const stk__join *join = (const stk__join *)dataset;
    uint32_t s = (uint32_t)(object % join->num);

    /* Who asks for object 0 wants to know of a store, of which the first source may have none. */
    while (!join->sources[s]->ops->object)
        s = (s + 1) % join->num;
    stk_dataset *source = join->sources[s];
    return source->ops->object(source, object / join->num, store, key, size);
}

static stk_status join_decode(stk_dataset *dataset, const stk_need *need, const void *data,
                              void *out, void *worker, const char **reason)
{
    const stk__join *join = (const stk__join *)dataset;
    const uint32_t s = (uint32_t)(need->object % join->num);
    stk_need own = *need;

    own.object = need->object / join->num;
    return join->sources[s]->ops->decode(join->sources[s], &own, data, out,
                                         stk__join_worker(worker, s), reason);
}

/* ---- Samples ---- */

/* The label of a prepared sample as the united classes number it. */
static void renumber(const stk__join *join, uint32_t source, stk_sample *sample)
{
    stk_value *value = &sample->values[join->label];
    int64_t label = -1;

    if (sample->status != STK_OK)
        return;
    memcpy(&label, value->data, sizeof label);
    if (label < 0 || label >= join->sources[source]->num_classes) {
        sample->status = STK_EFORMAT;
        sample->reason = "its label is none of the classes of its dataset";
        return;
    }
    label = join->renumber[(size_t)source * join->base.num_classes + (size_t)label];
    memcpy(value->out, &label, sizeof label);
    value->data = value->out;
}

/* Those of `n` samples, at most STK_JOIN_CHUNK, that are of the source of the first not done. */
static void prepare_source(const stk__join *join, stk_sample *samples, const uint32_t *source,
                           const uint64_t *mapped, size_t n, size_t first, bool *done)
{
    stk_dataset *inner = join->sources[source[first]];
    stk_sample taken[STK_JOIN_CHUNK];
    size_t at[STK_JOIN_CHUNK], count = 0;

    for (size_t i = first; i < n; i++) {
        if (source[i] != source[first])
            continue;
        at[count] = i;
        taken[count] = samples[i];
        taken[count].index = mapped[i];
        taken[count++].worker = stk__join_worker(samples[i].worker, source[i]);
        done[i] = true;
    }
    inner->ops->prepare(inner, taken, count);
    for (size_t i = 0; i < count; i++) {
        if (join->renumber)
            renumber(join, source[first], &taken[i]);
        samples[at[i]].status = taken[i].status;
        samples[at[i]].reason = taken[i].reason;
        samples[at[i]].line = taken[i].line;
    }
}

void stk__join_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk__join *join = (const stk__join *)dataset;
    uint64_t outer[STK_JOIN_CHUNK], mapped[STK_JOIN_CHUNK];
    uint32_t source[STK_JOIN_CHUNK];

    for (size_t begin = 0; begin < n; begin += STK_JOIN_CHUNK) {
        const size_t count = STK_MIN(n - begin, (size_t)STK_JOIN_CHUNK);
        bool done[STK_JOIN_CHUNK] = {false};

        for (size_t i = 0; i < count; i++)
            outer[i] = samples[begin + i].index;
        join->map(join, outer, source, mapped, count);
        for (size_t i = 0; i < count; i++)
            if (!done[i])
                prepare_source(join, samples + begin, source, mapped, count, i, done);
    }
}

/* ---- What it is ---- */

bool stk__is_join(const stk_dataset *dataset)
{
    return dataset->ops->close == stk__join_close;
}

bool stk__join_is_own(const stk__join *join)
{
    bool own = true;

    for (uint32_t s = 0; s < join->num; s++)
        own = own && stk__dataset_is_own(join->sources[s]);
    return own;
}

static stk_status join_describe(stk_dataset *dataset,
                                void (*line)(void *user, const char *name, const char *value),
                                void *user, stk_error *err)
{
    const stk__join *join = (const stk__join *)dataset;
    char name[32], text[200];

    (void)err;
    line(user, dataset->ops->name, join->text);
    for (uint32_t s = 0; s < join->num; s++) {
        snprintf(name, sizeof name, "source %u", s);
        join->say(join, s, text, sizeof text);
        line(user, name, text);
    }
    return STK_OK;
}

void stk__join_close(stk_dataset *dataset)
{
    stk__join *join = (stk__join *)dataset;
    stk_context *ctx = dataset->context;
    stk_dataset **sources = join->sources;
    const uint32_t num = join->num;

    stk__free(ctx, join->starts);
    stk__free(ctx, join->room);
    stk__free(ctx, join->rows);
    stk__free(ctx, join->names);
    stk__free(ctx, join->renumber);
    stk__free(ctx, join);
    /* Each holds the context: the list goes before the last of them. */
    for (uint32_t s = 0; s + 1 < num; s++)
        stk_dataset_close(&sources[s]);
    stk_dataset *last = sources[num - 1];
    stk__free(ctx, sources);
    stk_dataset_close(&last);
}

/* ---- Classes ---- */

static stk_status same_classes(const stk_dataset *first, const stk_dataset *other, uint32_t number,
                               const char *kind, stk_error *err)
{
    if (first->num_classes != other->num_classes)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "%s: its dataset 0 has names of %u classes, its dataset %u of %u; "
                         "classes=unite numbers labels by name, classes=ignore leaves names out",
                         kind, first->num_classes, number, other->num_classes);
    for (uint32_t c = 0; c < first->num_classes; c++)
        if (strcmp(first->classes[c], other->classes[c]) != 0)
            return stk__fail(
                err, STK_EINVAL, STK_STAGE_DATASET,
                "%s: label %u is '%.40s' in its dataset 0 and '%.40s' in its dataset %u; "
                "classes=unite numbers labels by name, classes=ignore leaves names out",
                kind, c, first->classes[c], other->classes[c], number);
    return STK_OK;
}

/* The number of a name among those so far; a new one goes to the end. */
static int64_t number_of(stk__join *join, const char *name)
{
    for (uint32_t c = 0; c < join->base.num_classes; c++)
        if (strcmp(join->names[c], name) == 0)
            return c;
    join->names[join->base.num_classes] = name;
    return join->base.num_classes++;
}

static stk_status find_label(stk__join *join, const char *kind, stk_error *err)
{
    for (uint32_t f = 0; f < join->base.num_fields; f++) {
        const stk_field *field = &join->base.fields[f];
        if (strcmp(field->name, "label") == 0 && field->dtype == STK_INT64 && field->rank == 0 &&
            field->layout == STK_FIXED) {
            join->label = f;
            return STK_OK;
        }
    }
    return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                     "%s: classes=unite numbers the field 'label', int64 of one value, which the "
                     "datasets do not have; leave it out",
                     kind);
}

static stk_status unite_classes(stk__join *join, const char *kind, stk_error *err)
{
    stk_context *ctx = join->base.context;
    uint64_t most = 0;

    STK_TRY(find_label(join, kind, err));
    for (uint32_t s = 0; s < join->num; s++) {
        if (!join->sources[s]->num_classes)
            return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "%s: its dataset %u has no names of classes, by which classes=unite "
                             "numbers labels; take classes=ignore",
                             kind, s);
        most += join->sources[s]->num_classes;
    }
    join->names = stk__calloc(ctx, most, sizeof *join->names);
    int64_t *numbers = stk__calloc(ctx, most, sizeof *numbers);
    if (join->names && numbers) {
        uint64_t at = 0;
        for (uint32_t s = 0; s < join->num; s++)
            for (uint32_t c = 0; c < join->sources[s]->num_classes; c++)
                numbers[at++] = number_of(join, join->sources[s]->classes[c]);
        join->renumber =
            stk__calloc(ctx, (uint64_t)join->num * join->base.num_classes, sizeof *numbers);
    }
    for (uint64_t s = 0, at = 0; join->renumber && s < join->num; s++)
        for (uint32_t c = 0; c < join->sources[s]->num_classes; c++)
            join->renumber[s * join->base.num_classes + c] = numbers[at++];
    stk__free(ctx, numbers);
    if (!join->renumber)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for %" PRIu64 " labels",
                         kind, most);
    join->base.classes = join->names;
    return STK_OK;
}

static stk_status set_classes(stk__join *join, stk__join_classes classes, const char *kind,
                              stk_error *err)
{
    stk_dataset *first = join->sources[0];

    if (classes == STK_JOIN_UNITE)
        return unite_classes(join, kind, err);
    if (classes == STK_JOIN_IGNORE)
        return STK_OK;
    for (uint32_t s = 1; s < join->num; s++)
        STK_TRY(same_classes(first, join->sources[s], s, kind, err));
    join->base.classes = first->classes;
    join->base.num_classes = first->num_classes;
    return STK_OK;
}

/* The label of a sample as it is delivered. */
static int64_t join_label(const stk_dataset *dataset, uint64_t index)
{
    const stk__join *join = (const stk__join *)dataset;
    uint32_t source;
    uint64_t inner;

    join->map(join, &index, &source, &inner, 1);
    const int64_t label = join->sources[source]->label(join->sources[source], inner);
    return join->renumber && label >= 0 && label < join->sources[source]->num_classes
               ? join->renumber[(size_t)source * join->base.num_classes + (size_t)label]
               : label;
}

/* ---- Making ---- */

/* What the loader is told of all of them together. */
static void add_up(stk__join *join)
{
    stk_dataset *d = &join->base;
    bool located = false, decodes = false, worker = false, known = true;
    double samples = 0;

    for (uint32_t s = 0; s < join->num; s++) {
        const stk_dataset *source = join->sources[s];
        located |= source->ops->locate != NULL;
        decodes |= source->ops->locate && source->ops->decode;
        worker |= source->ops->worker_open != NULL;
        known &= !source->ops->decode || source->decoded_bytes;
        d->decoded_bytes += STK_MIN(source->decoded_bytes, UINT64_MAX - d->decoded_bytes);
        d->held_bytes += STK_MIN(source->held_bytes, UINT64_MAX - d->held_bytes);
        d->worker_bytes += STK_MIN(source->worker_bytes, UINT64_MAX - d->worker_bytes);
        d->cost_ns += source->cost_ns * (double)source->size;
        samples += (double)source->size;
        d->fingerprint =
            stk__fingerprint(d->fingerprint, &source->fingerprint, sizeof source->fingerprint);
    }
    d->worker_bytes += worker ? join->num * sizeof(void *) : 0;
    d->cost_ns = samples > 0 ? d->cost_ns / samples : 0;
    d->decoded_bytes = known ? d->decoded_bytes : 0;
    join->ops.locate = located ? join_locate : NULL;
    join->ops.object = located ? join_object : NULL;
    join->ops.decode = decodes ? join_decode : NULL;
    join->ops.worker_open = worker ? join_worker_open : NULL;
    join->ops.worker_close = worker ? join_worker_close : NULL;
    join->ops.describe = join_describe;
}

stk_status stk__join_make(const stk_dataset_ops *kind, stk__nested *nested, stk__join **out,
                          stk_error *err)
{
    stk_dataset *first = nested->datasets[0];
    stk__join *join = NULL;

    for (uint32_t s = 0; s < nested->count; s++)
        if (nested->datasets[s]->pads)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "padding", STK_NO_OFFSET,
                                "padding is an option of the whole, as a batch is of all: give it "
                                "behind the last parenthesis and not to dataset %u",
                                s);
    join = stk__calloc(nested->ctx, 1, sizeof *join);
    if (!join)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for a dataset of datasets");
    join->ops = *kind;
    stk__dataset_init(&join->base, &join->ops, nested->ctx, 0, first->fields, first->num_fields);
    join->num = nested->count;
    join->sources = nested->datasets;
    add_up(join);
    nested->datasets = NULL;
    nested->count = 0;
    *out = join;
    return STK_OK;
}

stk_status stk__join_create(const stk_dataset_ops *kind, stk__nested *nested,
                            stk__join_classes classes, stk__join **out, stk_error *err)
{
    const int32_t mode = classes;
    stk__join *join = NULL;

    STK_TRY(stk__nested_same_fields(nested, kind->name, err));
    STK_TRY(stk__join_make(kind, nested, &join, err));
    join->base.label = join_label;
    for (uint32_t s = 0; s < join->num; s++)
        if (!join->sources[s]->label)
            join->base.label = NULL;
    const stk_status status = set_classes(join, classes, kind->name, err);
    if (status != STK_OK) {
        stk__join_close(&join->base);
        return status;
    }
    join->base.fingerprint = stk__fingerprint(join->base.fingerprint, &mode, sizeof mode);
    *out = join;
    return STK_OK;
}
