/* SPDX-License-Identifier: Apache-2.0 */
/* What happens in a context, counted, and what it amounts to: rates of the last seconds, progress,
 * what limits. */
#include <math.h>
#include <stdio.h>

#include <stoker/trainer.h>

#include "base/sized.h"
#include "measure/live.h"

/* ---- Counting -------------------------------------------------------------------------------- */

static void add(atomic_uint_fast64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static void set(atomic_uint_fast64_t *to, uint64_t n)
{
    atomic_store_explicit(to, n, memory_order_relaxed);
}

static uint64_t get(const atomic_uint_fast64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

/* The caller of a loader without workers has the first place. */
static stk__live_slot *slot_of(stk__live_watch *w, uint32_t worker)
{
    const uint32_t i = worker == UINT32_MAX ? 0 : worker;

    return i < STK_LIVE_WORKERS ? &w->counts.slots[i] : NULL;
}

static void count_work(stk__live_watch *w, const stk__event *e)
{
    stk__live_slot *slot = slot_of(w, e->worker);

    if (!slot)
        return;
    add(&slot->busy_ns, e->end_ns - e->start_ns);
    set(&slot->end_ns, e->end_ns);
    if (e->kind == STK__EVENT_SAMPLE) {
        add(&slot->samples, e->count);
        set(&slot->index, e->index);
    }
}

void stk__live_event(stk__live_watch *w, const stk__event *e)
{
    stk__live_counts *c = &w->counts;

    switch (e->kind) {
    case STK__EVENT_SAMPLE:
        add(&c->samples, e->count);
        count_work(w, e);
        break;
    case STK__EVENT_DECODE:
        count_work(w, e);
        break;
    case STK__EVENT_READ:
        add(&c->reads, 1);
        add(&c->read_ns, e->end_ns - e->start_ns);
        add(&c->read_bytes, e->bytes);
        add(&c->read_failures, e->status != STK_OK);
        break;
    case STK__EVENT_DELIVER:
        add(&c->batches, 1);
        /* That of validation begins again and again: the training's is the greatest. */
        if (e->epoch > get(&c->epoch))
            set(&c->epoch, e->epoch);
        break;
    case STK__EVENT_BAD_SAMPLE:
        add(&c->bad, 1);
        break;
    default:
        break;
    }
}

static double rate(uint64_t from, uint64_t to, double seconds)
{
    return to > from && seconds > 0 ? (double)(to - from) / seconds : 0;
}

/* ---- Loaders, and the one that gives batches --------------------------------------------------
 */

struct choice {
    const stk__live_look *last; /* NULL: this is the first */
    stk__live_look *now;
    stk_live_state *state;
    uint64_t most; /* batches since then, of the one chosen; + 1 where it was that one */
};

/* The place of a loader at a look that is no later than `batches` of it; num_loaders: it has none.
 */
static uint32_t place_of(const stk__live_look *look, const void *loader, uint64_t batches)
{
    uint32_t i = 0;

    while (i < look->num_loaders &&
           !(look->loaders[i].loader == loader && look->loaders[i].batches <= batches))
        i++;
    return i;
}

static void show_loader(const stk_loader_stats *stats, stk_live_loader *out)
{
    *out = (stk_live_loader){.samples = stats->samples,
                             .batch_size = stats->batch_size,
                             .batches = stats->waits.batches,
                             .workers = stats->workers,
                             .io_depth = stats->io_depth,
                             .ready = STK_MIN(stats->ready, stats->depth),
                             .depth = stats->depth,
                             .memory_bytes = stats->memory_bytes,
                             .memory_budget = stats->memory_budget};
}

static void look_at_loader(void *user, const void *loader)
{
    stk_loader_stats stats = {.struct_size = sizeof stats};
    struct choice *c = user;
    uint64_t then = 0;

    if (c->now->num_loaders == STK_LIVE_LOADERS)
        return;
    const uint32_t own = c->now->num_loaders++;
    stk_loader_get_stats(loader, &stats);
    show_loader(&stats, &c->state->loaders[own]);
    c->now->loaders[own].loader = loader;
    c->now->loaders[own].batches = stats.waits.batches;
    c->now->loaders[own].wait_ns = stats.waits.total_ns;
    if (c->last) {
        const uint32_t before = place_of(c->last, loader, stats.waits.batches);
        then = before < c->last->num_loaders ? c->last->loaders[before].batches : 0;
    }
    const uint64_t more = 2 * (stats.waits.batches - then) + (c->last && loader == c->last->loader);
    if (c->now->loader && more <= c->most)
        return;
    c->most = more;
    c->now->loader = loader;
    c->now->stats = stats;
}

static void look_at_loaders(stk__live_watch *w, const stk__live_look *last, stk__live_look *now)
{
    struct choice c = {.last = last, .now = now, .state = &w->state};

    stk__sources_each(w->ctx, STK__SOURCE_LOADER, look_at_loader, &c);
    w->state.num_loaders = now->num_loaders;
}

/* What each gave in the window, or since it was made. */
static void take_loaders(stk_live_state *s, const stk__live_look *then, const stk__live_look *now)
{
    const double window = stk__seconds(now->at_ns - then->at_ns);

    for (uint32_t i = 0; i < now->num_loaders; i++) {
        const uint32_t k = place_of(then, now->loaders[i].loader, now->loaders[i].batches);
        const bool was = k < then->num_loaders;
        const uint64_t batches = was ? then->loaders[k].batches : 0,
                       waited = was ? then->loaders[k].wait_ns : 0;
        s->loaders[i].first = now->loaders[i].loader == now->loader;
        s->loaders[i].batches_per_s = rate(batches, now->loaders[i].batches, window);
        s->loaders[i].wait_share = fmin(rate(waited, now->loaders[i].wait_ns, 1e9 * window), 1);
    }
}

/* ---- Progress -------------------------------------------------------------------------------- */

static void look_at_trainer(void *user, const void *trainer)
{
    static const char *const names[] = {"training", "validation", "test", "prediction"};
    static const stk_phase phases[] = {STK_PHASE_TRAIN, STK_PHASE_VALIDATE, STK_PHASE_TEST,
                                       STK_PHASE_PREDICT};
    stk_live_state *s = user;
    uint64_t done = 0, total = 0;
    stk_metric metric;
    size_t p = 0;

    for (; p < STK_COUNT(phases) && !total; p++)
        stk_trainer_get_bar(trainer, phases[p], &done, &total);
    if (!total)
        return;
    s->batch = done;
    s->batches_of_epoch = total;
    s->epochs = p == 1 ? stk_trainer_get_options(trainer)->max_epochs : 1;
    const uint64_t before = p == 1 ? s->epoch : 0;
    snprintf(s->what, sizeof s->what, "%s, in batches", names[p - 1]);
    /* After the last batch of an epoch, `epoch` is still that one. */
    s->total = s->epochs > 0 ? (uint64_t)s->epochs * total : 0;
    s->done = before * total + STK_MIN(done, total);
    s->num_metrics = 0;
    for (size_t i = 0;
         s->num_metrics < STK_LIVE_METRICS && stk_trainer_bar_metric(trainer, i, &metric); i++) {
        stk_live_metric *m = &s->metric[s->num_metrics++];
        snprintf(m->name, sizeof m->name, "%s", metric.name);
        m->value = metric.value;
    }
}

/* What is counted began when it was first heard of; the time left is by the rate since. */
static void take_progress(stk__live_watch *w, uint64_t now_ns)
{
    stk_live_state *s = &w->state;
    stk__progressed last;

    s->what[0] = 0;
    s->done = s->total = s->batch = s->batches_of_epoch = 0;
    s->epochs = -1;
    s->eta = -1;
    stk__sources_each(w->ctx, STK__SOURCE_TRAINER, look_at_trainer, s);
    stk__progress_last(w->ctx, &last);
    if (!*s->what && last.at_ns) {
        snprintf(s->what, sizeof s->what, "%s", last.what);
        s->done = last.done;
        s->total = last.total;
    }
    if (strcmp(w->what, s->what) != 0 || s->done < w->what_first) {
        snprintf(w->what, sizeof w->what, "%s", s->what);
        w->what_ns = now_ns;
        w->what_first = s->done;
    }
    const double took = stk__seconds(now_ns - w->what_ns);
    if (s->total > s->done && s->done > w->what_first && took > 0)
        s->eta = took * (double)(s->total - s->done) / (double)(s->done - w->what_first);
}

/* ---- What it amounts to ---------------------------------------------------------------------- */

static void take_flow(stk__live_watch *w, const stk__live_look *then, const stk__live_look *now)
{
    stk_live_state *s = &w->state;
    const double window = stk__seconds(now->at_ns - then->at_ns);

    s->window = window;
    s->samples = now->samples;
    s->batches = now->batches;
    s->bad_samples = get(&w->counts.bad);
    s->epoch = get(&w->counts.epoch);
    s->samples_per_s = rate(then->samples, now->samples, window);
    s->batches_per_s = rate(then->batches, now->batches, window);
    s->reads = now->reads;
    s->read_bytes = now->read_bytes;
    s->read_failures = get(&w->counts.read_failures);
    s->reads_per_s = rate(then->reads, now->reads, window);
    s->read_bytes_per_s = rate(then->read_bytes, now->read_bytes, window);
    s->read_latency = now->reads > then->reads ? stk__seconds(now->read_ns - then->read_ns) /
                                                     (double)(now->reads - then->reads)
                                               : 0;
    s->process_cores = rate(then->cpu_ns, now->cpu_ns, 1e9 * window);
    s->machine_cores = rate(then->machine_ns, now->machine_ns, 1e9 * window);
}

/* Those that the loaders have now, or that did something in the window: an auto number sinks, too.
 */
static void take_workers(stk__live_watch *w, const stk__live_look *then, const stk__live_look *now)
{
    stk_live_state *s = &w->state;
    uint64_t most = s->num_loaders ? 1 : STK_LIVE_WORKERS; /* the caller of one without workers */

    for (uint32_t i = 0; i < s->num_loaders; i++)
        most = STK_MAX(most, s->loaders[i].workers);
    s->num_workers = 0;
    for (uint32_t i = 0; i < STK_LIVE_WORKERS; i++) {
        const stk__live_slot *slot = &w->counts.slots[i];
        stk_live_worker *worker = &s->worker[i];
        const uint64_t end = get(&slot->end_ns);
        if (!end)
            continue;
        worker->samples = get(&slot->samples);
        worker->index = get(&slot->index);
        worker->busy =
            fmin(rate(then->busy_ns[i], now->busy_ns[i], (double)(now->at_ns - then->at_ns)), 1);
        worker->idle = now->at_ns > end ? stk__seconds(now->at_ns - end) : 0;
        if (i < most || worker->busy > 0)
            s->num_workers = i + 1;
    }
}

/* The verdict on the window, where one loader gave batches all through it. */
static void judge(stk__live_watch *w, const stk__live_look *then, const stk__live_look *now)
{
    const stk_loader_options none = {.struct_size = sizeof none};
    stk_verdict verdict = {.struct_size = sizeof verdict};
    stk_figures f = {.struct_size = sizeof f};
    stk_live_state *s = &w->state;
    stk_waits waits = now->stats.waits;
    const double window = stk__seconds(now->at_ns - then->at_ns);

    s->limit[0] = s->verdict[0] = 0;
    s->wait_share = 0;
    memset(s->wait_shares, 0, sizeof s->wait_shares);
    if (!now->loader || then->loader != now->loader || window <= 0)
        return;
    stk__waits_subtract(&waits, &then->stats.waits);
    s->wait_share = fmin(stk__seconds(waits.total_ns) / window, 1);
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        s->wait_shares[i] = stk__seconds(waits.parts_ns[i]) / window;
    if (!waits.batches)
        return;
    const bool whole = stk__figures_begin(w->ctx, &none, &f);
    stk__figures_of_loader(&then->stats, &now->stats, &f);
    stk__figures_of_waits(&waits, now->samples - then->samples, window, &f);
    f.batch_size = f.samples / f.steps;
    /* Workers that are busy may sleep, and so may the step: what computes is what the process was
     * seen to, the step's part with it. */
    f.cpu_s = s->process_cores * window;
    f.spin = false;
    if (whole)
        f.other_cores = fmax(s->machine_cores - s->process_cores, 0);
    stk_judge(&f, &verdict);
    snprintf(s->limit, sizeof s->limit, "%s", stk_limit_name(verdict.limit));
    snprintf(s->verdict, sizeof s->verdict, "%s", verdict.text);
}

static void take_loader(stk_live_state *s, const stk__live_look *now)
{
    s->loader = now->loader != NULL;
    s->workers = now->stats.workers;
    s->io_depth = now->stats.io_depth;
    /* One more may be finished, which the consumer is about to take. */
    s->ready = STK_MIN(now->stats.ready, now->stats.depth);
    s->depth = now->stats.depth;
    s->memory_bytes = now->stats.memory_bytes;
    s->memory_budget = now->stats.memory_budget;
    s->retries = now->stats.network.retries;
}

void stk__live_watch_look(stk__live_watch *w, uint64_t now_ns)
{
    static const stk__system here = {.root = ""};
    stk__live_look *now = &w->looks[w->num_looks % STK__LIVE_LOOKS];
    const stk__live_look *last =
        w->num_looks ? &w->looks[(w->num_looks - 1) % STK__LIVE_LOOKS] : NULL;
    const stk__live_counts *c = &w->counts;

    *now = (stk__live_look){.at_ns = now_ns,
                            .samples = get(&c->samples),
                            .batches = get(&c->batches),
                            .reads = get(&c->reads),
                            .read_ns = get(&c->read_ns),
                            .read_bytes = get(&c->read_bytes),
                            .cpu_ns = stk__process_cpu_ns(),
                            .machine_ns = stk__system_machine_ns(&here),
                            .stats = {.struct_size = sizeof now->stats}};
    for (size_t i = 0; i < STK_LIVE_WORKERS; i++)
        now->busy_ns[i] = get(&c->slots[i].busy_ns);
    look_at_loaders(w, last, now);
    w->num_looks++;
    const stk__live_look *then =
        w->num_looks > STK__LIVE_LOOKS ? &w->looks[w->num_looks % STK__LIVE_LOOKS] : &w->looks[0];
    w->state.at_ns = now_ns;
    w->state.age = stk__wall_seconds() - w->state.started;
    w->state.process_bytes = stk__system_process_bytes(&here);
    take_flow(w, then, now);
    take_workers(w, then, now);
    take_loader(&w->state, now);
    take_loaders(&w->state, then, now);
    take_progress(w, now_ns);
    judge(w, then, now);
}
