/* SPDX-License-Identifier: Apache-2.0 */
/* A run before and next to its work: what it is asked to be, and the way to end it. */
#include "bench/run.h"

#include <inttypes.h>
#include <sched.h>

#include "base/sized.h"
#include "base/url.h"

void stk__bench_publish(stk_bench *bench, stk_loader *loader)
{
    atomic_store(&bench->loader, loader);
    while (!loader && atomic_load(&bench->cancelling))
        sched_yield();
    if (loader && atomic_load(&bench->cancelled))
        stk_loader_cancel(loader);
}

static stk_status check_feed(const stk_bench *bench, stk_error *err)
{
    const stk_bench_setting *s = &bench->setting;

    if (!s->feed)
        return STK_OK;
    if (!(s->feed->open && s->feed->begin && s->feed->next && s->feed->end && s->feed->look))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the feed lacks a function; set all of stk_bench_feed");
    if (s->step && s->step->run_alone)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "beside a feed a step runs on what it gave: leave run_alone out");
    if (bench->options.ranks > 1 || s->hash || bench->options.trace)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "ranks, hashes and traces are of the library's own loaders");
    return STK_OK;
}

static stk_status check(const stk_bench *bench, stk_error *err)
{
    const stk_bench_setting *s = &bench->setting;
    const stk_loader_options *loader = &bench->loader_options;
    const stk_bench_options *options = &bench->options;

    if (!s->feed && !s->data && !(s->dataset && *s->dataset))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "no dataset: give a spec ('digits:' needs no files) or one that is open");
    if (options->ranks > 1 && (loader->world_size > 1 || loader->rank > 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "bench.ranks: %" PRIu64 " set rank and world_size themselves: leave those "
                         "of the loader out",
                         options->ranks);
    if (options->ranks > 1 && s->log && stk__url_elsewhere(bench->ctx, s->log))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the log '%.200s' is one object, which %" PRIu64
                         " ranks cannot all write; give a local file",
                         s->log, options->ranks);
    if (s->rank >= STK_MAX(options->ranks, 1))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS, "rank %" PRIu64 " of %" PRIu64,
                         s->rank, options->ranks);
    if (options->step && !s->step)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "bench.step: '%.100s' names a step, and none is given with the setting",
                         options->step);
    if (!options->all_reduce != !s->strategy)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_OPTIONS,
            options->all_reduce
                ? "bench.all_reduce: nothing carries it; set stk_bench_setting.strategy"
                : "a strategy does nothing without bytes: set bench.all_reduce");
    if (s->step && !s->step->run)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the step has no function 'run'; set stk_bench_step.run");
    return check_feed(bench, err);
}

static stk_status take_setting(stk_bench *bench, const stk_bench_setting *theirs, stk_error *err)
{
    stk_bench_setting *s = &bench->setting;

    STK_TRY(stk__sized_read(s, sizeof *s, theirs, "stk_bench_setting", STK_STAGE_OPTIONS, err));
    stk_bench_options_init(&bench->options);
    stk_loader_options_init(&bench->loader_options);
    if (s->bench)
        STK_TRY(stk__sized_read(&bench->options, sizeof bench->options, s->bench,
                                "stk_bench_options", STK_STAGE_OPTIONS, err));
    if (s->loader)
        STK_TRY(stk__sized_read(&bench->loader_options, sizeof bench->loader_options, s->loader,
                                "stk_loader_options", STK_STAGE_OPTIONS, err));
    if (s->step) {
        STK_TRY(stk__sized_read(&bench->step, sizeof bench->step, s->step, "stk_bench_step",
                                STK_STAGE_OPTIONS, err));
        s->step = &bench->step;
    }
    if (s->feed) {
        STK_TRY(stk__sized_read(&bench->feed, sizeof bench->feed, s->feed, "stk_bench_feed",
                                STK_STAGE_OPTIONS, err));
        s->feed = &bench->feed;
    }
    if (s->strategy) {
        STK_TRY(stk__sized_read(&bench->strategy, sizeof bench->strategy, s->strategy,
                                "stk_strategy", STK_STAGE_OPTIONS, err));
        s->strategy = &bench->strategy;
    }
    s->repeat = STK_MAX(s->repeat, 1);
    s->number = STK_MAX(s->number, 1);
    return check(bench, err);
}

stk_status stk_bench_create(stk_context *context, const stk_bench_setting *setting, stk_bench **out,
                            stk_error *err)
{
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk_bench *bench = stk__calloc(context, 1, sizeof *bench);
    if (!bench)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for a run");
    stk_status status = take_setting(bench, setting, err);
    if (status != STK_OK) {
        stk__free(context, bench);
        return status;
    }
    bench->ctx = stk__context_ref(context);
    *out = bench;
    return STK_OK;
}

void stk_bench_cancel(stk_bench *bench)
{
    atomic_store(&bench->cancelled, true);
    atomic_fetch_add(&bench->cancelling, 1);
    stk_loader *loader = atomic_load(&bench->loader);
    if (loader)
        stk_loader_cancel(loader);
    atomic_fetch_sub(&bench->cancelling, 1);
}

void stk_bench_destroy(stk_bench **bench)
{
    stk_bench *b = bench ? *bench : NULL;

    if (!b)
        return;
    *bench = NULL;
    if (stk__context_forked(b->ctx))
        return;
    stk_context *ctx = b->ctx;
    stk__free(ctx, b);
    stk__context_unref(ctx);
}
