/* SPDX-License-Identifier: Apache-2.0 */
/* Weights into a model, by name. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "nn/model.h"

#define MOST_NAMED  4  /* differences in an error */
#define MOST_LISTED 32 /* messages about tensors that are left */
#define MOST_PARTS  8  /* of what all names begin with: "model.backbone." has two */

/* A tensor that is offered, and what became of it. */
typedef struct offer {
    const stk_state_tensor *tensor;
    const char *name; /* its own, without what all names of the file begin with */
    bool wanted;      /* the model has a parameter of its name */
} offer;

/* Offers, sorted by name, and what does not fit together. */
typedef struct loading {
    const stk__graph *graph;
    stk_dtype real;     /* of its parameters */
    const char *remedy; /* of a strict load that fails */
    offer *offers;
    size_t num_offers;
    bool strict;
    uint64_t differences;
    stk__text text; /* of an error: the first of them */
} loading;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const offer *)a)->name, ((const offer *)b)->name);
}

static offer *find(const loading *l, const char *name)
{
    const offer key = {.name = name};

    return l->num_offers ? bsearch(&key, l->offers, l->num_offers, sizeof key, by_name) : NULL;
}

/* Something does not fit: of a strict load the first ones are named in its error, else each is a
 * message. */
static void differs(loading *l, const char *what)
{
    stk_context *ctx = l->graph->context;

    l->differences++;
    if (l->strict && l->differences <= MOST_NAMED)
        stk__text_add(&l->text, "%s%s", l->differences > 1 ? "; " : "", what);
    else if (!l->strict && l->differences <= MOST_LISTED)
        stk__message(ctx, STK_MESSAGE_WARNING, "weights: %s", what);
}

/* Why a tensor cannot become a parameter; false: it can. */
static bool unfit(const stk__param *p, stk_dtype real, const stk_state_tensor *t, char *why,
                  size_t size)
{
    stk__text text = {.bytes = why, .room = size};
    const bool integer = p->role == STK__NUM_BATCHES;

    /* A count may come as [1]. */
    bool same = t->rank == p->rank && memcmp(t->shape, p->shape, p->rank * sizeof *p->shape) == 0;
    if (p->role == STK__NUM_BATCHES)
        same = t->bytes == sizeof(int64_t);
    if (!same) {
        stk__text_add(&text, "'%.128s' is ", p->name);
        stk__text_add_shape(&text, t->shape, t->rank, false);
        stk__text_add(&text, ", but the model's is ");
        stk__text_add_shape(&text, p->shape, p->rank, false);
    } else if (integer ? t->dtype != STK_INT64 : !stk__dtype_is_float(t->dtype)) {
        stk__text_add(&text, "'%.128s' is of type %s, not %s", p->name, stk_dtype_name(t->dtype),
                      stk_dtype_name(integer ? STK_INT64 : real));
    } else if (t->bytes != p->count * stk_dtype_size(t->dtype)) {
        stk__text_add(&text, "'%.128s' has %" PRIu64 " bytes, which is not its shape's", p->name,
                      t->bytes);
    }
    return text.length > 0;
}

/* ---- What all names begin with --------------------------------------------------------------- */

static size_t count_wanted(const loading *l)
{
    const stk__graph *g = l->graph;
    size_t count = 0;

    for (uint32_t i = 0; i < g->num_params; i++)
        count += find(l, g->params[i].name) != NULL;
    return count;
}

static void skip(loading *l, size_t bytes)
{
    for (size_t i = 0; i < l->num_offers; i++)
        l->offers[i].name = l->offers[i].tensor->name + bytes;
}

/* Bytes that the first and the last name share, and with them all between. */
static size_t shared(const loading *l)
{
    const char *first = l->offers[0].name, *last = l->offers[l->num_offers - 1].name;
    size_t n = 0;

    while (first[n] && first[n] == last[n])
        n++;
    return n;
}

/* A module of Lightning has its model as an attribute: "model.conv1.weight". Where the model has
 * none of the names, but some without what all begin with, that is taken off. The order by name
 * stays the same. */
static void take_off_prefix(loading *l)
{
    const size_t end = l->num_offers && count_wanted(l) == 0 ? shared(l) : 0;
    const char *name = end ? l->offers[0].tensor->name : NULL;
    size_t best = 0, most = 0, parts = 0;

    for (size_t bytes = 1; bytes <= end && parts < MOST_PARTS; bytes++) {
        if (name[bytes - 1] != '.')
            continue;
        parts++;
        skip(l, bytes);
        const size_t wanted = count_wanted(l);
        if (wanted > most) {
            most = wanted;
            best = bytes;
        }
    }
    if (!end)
        return;
    skip(l, best);
    if (best)
        stk__message(l->graph->context, STK_MESSAGE_INFO,
                     "weights: all names of the file begin with '%.*s', which is taken off",
                     (int)STK_MIN(best, (size_t)128), name);
}

/* Look at what the model has: in `fits` those that can be taken. */
static size_t look(loading *l, const stk_state_tensor **fits)
{
    const stk__graph *g = l->graph;
    char why[512];
    size_t count = 0;

    for (uint32_t i = 0; i < g->num_params; i++) {
        const stk__param *p = &g->params[i];
        stk__text text = {.bytes = why, .room = sizeof why};
        offer *o = find(l, p->name);
        if (o)
            o->wanted = true;
        if (o && !unfit(p, l->real, o->tensor, why, sizeof why)) {
            fits[i] = o->tensor;
            count++;
            continue;
        }
        /* PyTorch takes files without counts of batches, too: those of its first versions. */
        if (!o && p->role == STK__NUM_BATCHES)
            continue;
        if (!o) {
            stk__text_add(&text, "'%.128s' ", p->name);
            stk__text_add_shape(&text, p->shape, p->rank, false);
            stk__text_add(&text, ", which the model has, is not there");
        }
        differs(l, why);
    }
    for (size_t i = 0; i < l->num_offers; i++) {
        const stk_state_tensor *t = l->offers[i].tensor;
        stk__text text = {.bytes = why, .room = sizeof why};
        if (l->offers[i].wanted)
            continue;
        stk__text_add(&text, "'%.128s' ", l->offers[i].name);
        stk__text_add_shape(&text, t->shape, t->rank, false);
        stk__text_add(&text, " is not in the model");
        differs(l, why);
    }
    return count;
}

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the list of weights");
}

/* What a strict load says, and the summary of one that is not. */
static stk_status conclude(const loading *l, size_t count, stk_error *err)
{
    const stk__graph *g = l->graph;
    char more[48] = "";

    if (l->strict && l->differences > MOST_NAMED)
        snprintf(more, sizeof more, "; and %" PRIu64 " more", l->differences - MOST_NAMED);
    if (l->strict && l->differences)
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_TRAIN,
                         "these are the weights of another model: %.360s%s; %s", l->text.bytes,
                         more, l->remedy);
    if (!l->strict && l->differences > MOST_LISTED)
        stk__message(g->context, STK_MESSAGE_WARNING, "weights: %" PRIu64 " more are not listed",
                     l->differences - MOST_LISTED);
    if (!l->strict)
        stk__message(g->context, STK_MESSAGE_INFO,
                     "weights: %zu of the model's %" PRIu32
                     " tensors are taken, the others keep their initial values",
                     count, g->num_params);
    return STK_OK;
}

stk_status stk__weights_match(const stk__graph *graph, stk_dtype real,
                              const stk_state_tensor *tensors, size_t n, bool strict,
                              const char *remedy, const stk_state_tensor **fits, size_t *count,
                              stk_error *err)
{
    stk_context *ctx = graph->context;
    char named[360];
    loading l = {.graph = graph,
                 .real = real,
                 .remedy = remedy,
                 .num_offers = n,
                 .strict = strict,
                 .text = {.bytes = named, .room = sizeof named}};

    l.offers = stk__calloc(ctx, (uint64_t)n + 1, sizeof *l.offers);
    if (!l.offers)
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        l.offers[i] = (offer){.tensor = &tensors[i], .name = tensors[i].name};
    qsort(l.offers, n, sizeof *l.offers, by_name);
    take_off_prefix(&l);
    *count = look(&l, fits);
    const stk_status status = conclude(&l, *count, err);
    stk__free(ctx, l.offers);
    return status;
}

stk_status stk__model_load(stk_model *m, const stk_state_tensor *tensors, size_t n, bool strict,
                           size_t *taken, stk_error *err)
{
    STK_TRY(stk__context_check(m->graph.context, err));
    stk_context *ctx = m->graph.context;
    const stk__graph *g = &m->graph;
    const stk_dtype real = m->backend->itemsize == sizeof(double) ? STK_FLOAT64 : STK_FLOAT32;
    size_t count = 0;

    STK_TRY(stk__model_need(m, false, err));
    const stk_state_tensor **fits = stk__calloc(ctx, (uint64_t)g->num_params + 1, sizeof *fits);
    if (!fits)
        return no_memory(err);
    /* First look at all, then take: a failure leaves the model as it was. */
    const stk_status status = stk__weights_match(
        g, real, tensors, n, strict,
        "take those that fit with weights_strict: false (--no-weights-strict)", fits, &count, err);
    for (uint32_t i = 0; i < g->num_params && status == STK_OK; i++)
        if (fits[i])
            stk__elements_to((char *)m->weights + g->params[i].offset,
                             stk__param_dtype(m, &g->params[i]), fits[i]->data, fits[i]->dtype,
                             g->params[i].count);
    if (taken && status == STK_OK)
        *taken = count;
    stk__free(ctx, fits);
    return status;
}
