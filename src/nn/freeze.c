/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters learn: patterns of names, gradients for those that do. */
#include "nn/model.h"

/* '*' is any text; at most the pattern's length of steps back for each character. */
static bool glob(const char *pattern, size_t length, const char *text)
{
    const char *end = pattern + length, *star = NULL, *again = NULL;

    while (*text) {
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            again = text;
        } else if (pattern < end && *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++again;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}

/* The next pattern of a list and its length; 0 at the end. */
static size_t next_pattern(const char **list, const char **pattern)
{
    *list += strspn(*list, ", \t");
    *pattern = *list;
    size_t length = strcspn(*list, ", \t");
    *list += length;
    return length;
}

bool stk__pattern_match(const char *patterns, const char *name)
{
    const char *pattern;
    size_t length;

    while (patterns && (length = next_pattern(&patterns, &pattern)))
        if (glob(pattern, length, name))
            return true;
    return false;
}

static bool is_norm(const struct stk_model *m, const stk__param *p)
{
    return m->graph.nodes[p->node].kind == STK__BATCH_NORM2D;
}

/* What a pattern list does to each that it matches. */
typedef struct change {
    bool frozen; /* for good */
    bool learns; /* else */
    bool norms;  /* batch norms as well */
} change;

static void apply(const struct stk_model *m, stk__param *p, const change *c)
{
    const bool kept = c->frozen || (!c->norms && is_norm(m, p));

    if (p->frozen)
        return;
    p->frozen = kept;
    if (p->role > STK__BIAS) {
        p->fixed = kept || !c->learns;
        return;
    }
    p->trainable = c->learns && !kept;
}

static stk_status change_all(struct stk_model *m, const char *patterns, const char *option,
                             const change *c, stk_error *err)
{
    const char *list = patterns, *pattern;
    size_t length;

    while (list && (length = next_pattern(&list, &pattern))) {
        bool found = false;
        for (uint32_t i = 0; i < m->graph.num_params; i++) {
            if (!glob(pattern, length, m->graph.params[i].name))
                continue;
            found = true;
            apply(m, &m->graph.params[i], c);
        }
        if (!found)
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "%s: no parameter matches \"%.*s\"; names are as '%s'", option,
                             (int)length, pattern,
                             m->graph.num_params ? m->graph.params[0].name : "(none)");
    }
    return STK_OK;
}

stk_status stk__model_freeze(struct stk_model *m, const char *patterns, stk_error *err)
{
    return change_all(m, patterns, "freeze", &(change){.frozen = true}, err);
}

/* Those that had a place keep it, so that an optimizer's memory stays where it is. */
void stk__gradients_place(struct stk_model *m)
{
    m->summary.trainable = 0;
    for (uint32_t i = 0; i < m->graph.num_params; i++) {
        stk__param *p = &m->graph.params[i];
        if (!p->trainable)
            continue;
        m->summary.trainable += p->count;
        if (p->gradient != STK__NO_GRADIENT)
            continue;
        p->gradient = m->gradient_bytes;
        m->gradient_bytes += stk__round_up(p->count * m->backend->itemsize, STK_CACHE_LINE);
    }
}

/* What a change of what learns may alter: one that fails alters nothing. */
typedef struct kept {
    stk__param *params;
    stk__plan *plans[STK__MAX_PLANS];
    stk_model_plan summary;
    void *gradients;
    uint64_t gradient_bytes;
} kept;

/* Put it aside; the model has no plans from now on. */
static stk_status keep(struct stk_model *m, kept *k, stk_error *err)
{
    const stk__graph *g = &m->graph;

    *k = (kept){
        .summary = m->summary, .gradients = m->gradients, .gradient_bytes = m->gradient_bytes};
    k->params = stk__calloc(g->context, (uint64_t)g->num_params + 1, sizeof *k->params);
    if (!k->params)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for what learns");
    memcpy(k->params, g->params, g->num_params * sizeof *k->params);
    memcpy(k->plans, m->plans, sizeof k->plans);
    memset(m->plans, 0, sizeof m->plans);
    return STK_OK;
}

/* Of the two states the one that is not the model's any more ends. */
static void end(struct stk_model *m, kept *k)
{
    for (size_t i = 0; i < STK__MAX_PLANS; i++)
        stk__plan_destroy(&k->plans[i]);
    if (k->gradients != m->gradients)
        stk__free(m->graph.context, k->gradients);
    stk__free(m->graph.context, k->params);
}

static void put_back(struct stk_model *m, kept *k)
{
    const stk__graph *g = &m->graph;
    kept failed = {.gradients = m->gradients, .params = k->params};

    memcpy(failed.plans, m->plans, sizeof failed.plans);
    memcpy(g->params, k->params, g->num_params * sizeof *k->params);
    memcpy(m->plans, k->plans, sizeof m->plans);
    m->summary = k->summary;
    m->gradients = k->gradients;
    m->gradient_bytes = k->gradient_bytes;
    *k = failed;
}

/* More memory of gradients; what is there stays, and is the caller's. */
static stk_status grow(struct stk_model *m, uint64_t before, stk_error *err)
{
    if (!m->gradients || m->gradient_bytes == before)
        return STK_OK;
    char *grown = stk__alloc_buffer(m->graph.context, m->gradient_bytes);
    if (!grown)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for gradients");
    memcpy(grown, m->gradients, before);
    memset(grown + before, 0, m->gradient_bytes - before);
    m->gradients = grown;
    return STK_OK;
}

static stk_status set_learning(struct stk_model *m, const char *patterns, const change *c,
                               stk_error *err)
{
    const uint64_t before = m->gradient_bytes;

    STK_TRY(change_all(m, patterns, "pattern", c, err));
    /* Nobody has seen the places yet: those that do not learn are given none. */
    if (!c->learns && !m->gradients) {
        m->gradient_bytes = 0;
        for (uint32_t i = 0; i < m->graph.num_params; i++)
            m->graph.params[i].gradient = STK__NO_GRADIENT;
    }
    stk__gradients_place(m);
    STK_TRY(grow(m, before, err));
    return stk__model_plans(m, err);
}

stk_status stk__model_set_learning(stk_model *m, const char *patterns, bool learns, bool norms,
                                   stk_error *err)
{
    kept other;

    STK_TRY(stk__context_check(m->graph.context, err));
    STK_TRY(keep(m, &other, err));
    /* The memory of a step may be another one's from now on. */
    m->current = NULL;
    m->awaits_backward = false;
    const stk_status status =
        set_learning(m, patterns, &(change){.learns = learns, .norms = norms}, err);
    if (status != STK_OK)
        put_back(m, &other);
    end(m, &other);
    return status;
}

bool stk__model_may_learn(const stk_model *m, size_t i)
{
    const stk__param *p = i < m->graph.num_params ? &m->graph.params[i] : NULL;

    return p && p->role <= STK__BIAS && !p->frozen;
}
