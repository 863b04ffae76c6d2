/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a run's window.
 *
 * As published, a wait is the time from the end of a step to the start of the next one. The first
 * step of the window has no wait of its own: N steps give N - 1 waits, and the figures are those of
 * the time between the end of the first step and the end of the last, which is N - 1 waits and N -
 * 1 steps. The first batch of the run is reported by itself.
 */
#include "bench/run.h"

#define DISCARD_SPARE 2 /* batches in work beyond the ring, at most */

/* What a feed has done until now, and all processes. */
static void look(const stk__bench_run *run, stk__usage *usage, stk_bench_feed_stats *stats)
{
    *stats = (stk_bench_feed_stats){.struct_size = sizeof *stats};
    run->feed->look(run->feed->user, stats);
    usage->cpu_ns = stk__bench_tree_cpu_ns();
}

void stk__bench_window_begin(stk__bench_run *run, uint64_t now)
{
    stk_memory_stats memory = {.struct_size = sizeof memory};

    run->in_window = true;
    run->window_ns = now;
    stk__usage_get(&run->usage);
    run->step_cpu_ns = stk__bench_step_cpu_ns(run->step);
    stk_context_memory(run->bench->ctx, &memory);
    run->allocations = memory.allocations;
    run->stats.struct_size = sizeof run->stats;
    stk__counter_get(run->counter, &run->counts);
    if (run->loader)
        stk_loader_get_stats(run->loader, &run->stats);
    if (run->feed)
        look(run, &run->usage, &run->feed_stats);
    run->cpu_ns = run->usage.cpu_ns;
}

/* Whether pictures are handed over as they are stored. */
static bool is_undecoded(const stk_loader *loader)
{
    uint32_t n;
    const stk_field *fields = stk_loader_fields(loader, &n);

    for (uint32_t i = 0; i < n; i++) {
        const stk_field *field = stk_field_at(fields, i);

        if (field->layout == STK_BYTES && strcmp(field->codec, "image") == 0)
            return true;
    }
    return false;
}

static void loader_figures(stk__bench_run *run, stk_figures *f)
{
    stk_loader_stats now = {.struct_size = sizeof now};
    stk__counts counts;
    stk_bad_samples bad = {.struct_size = sizeof bad};
    stk_bench_result *result = run->result;

    stk_loader_get_stats(run->loader, &now);
    stk__counter_get(run->counter, &counts);
    stk__figures_of_loader(&run->stats, &now, f);
    f->requests = counts.reads - run->counts.reads;
    f->read_seconds = stk__seconds(counts.read_ns - run->counts.read_ns);
    f->read_latency = stk__bench_over(f->read_seconds, (double)f->requests);
    f->pin_memory = run->loader_options.pin_memory;
    f->persistent_workers = run->loader_options.persistent_workers;
    f->prefetch = now.workers ? (int64_t)run->loader_options.prefetch_factor : 0;
    stk__bench_picture_side(run->loader, f);
    result->undecoded = is_undecoded(run->loader);
    result->bad_samples = now.bad_samples;
    stk_loader_get_bad_samples(run->loader, &bad);
    stk_bad_samples_format(&bad, result->bad, sizeof result->bad);
    result->discarded_most =
        (now.depth + DISCARD_SPARE) * run->loader_options.batch_size * (run->resets + 1);
}

/* Its workers are not asked what they wait for. */
static void feed_figures(stk__bench_run *run, const stk_bench_feed_stats *now, stk_figures *f)
{
    const double all = (double)now->num_workers * stk__seconds(run->end_ns - run->window_ns);

    f->num_workers = now->num_workers;
    f->prefetch = now->prefetch;
    f->pin_memory = now->pin_memory;
    f->persistent_workers = now->persistent_workers;
    f->budget_bytes = now->budget_bytes;
    f->prepare_busy = now->busy - run->feed_stats.busy;
    f->prepare_wait_out = all > f->prepare_busy ? all - f->prepare_busy : 0;
}

static void time_figures(stk__bench_run *run, stk_figures *f)
{
    const double alone = stk__bench_step_alone(run->step);

    f->steps = run->steps;
    f->samples = run->samples;
    f->wall = stk__seconds(run->end_ns - run->window_ns);
    stk_spread_of(run->waits, run->num_waits, &f->wait);
    f->samples_per_s = stk__bench_over((double)run->samples, f->wall);
    f->step_time = stk__bench_over(run->step_sum, (double)run->steps);
    f->step_share = stk__bench_over(run->step_sum, f->wall);
    const double reduce = stk__bench_over(run->reduce_sum, (double)run->steps);
    f->step_stretch = alone > 0 && run->steps ? (f->step_time - reduce) / alone : 1;
    run->result->all_reduce = run->result->all_reduce_most = reduce;
    f->epoch_turn = stk__bench_over(run->turns, (double)run->num_turns);
}

static void usage_figures(stk__bench_run *run, const stk__usage *now, stk_figures *f)
{
    const uint64_t step = stk__bench_step_cpu_ns(run->step) - run->step_cpu_ns;
    double own = stk__seconds(now->cpu_ns - run->cpu_ns);
    const double all = stk__seconds(now->machine_busy_ns - run->usage.machine_busy_ns);

    f->cpu_s = own - stk__seconds(step);
    own *= (double)run->options->ranks;
    run->result->other_cores = all > own ? stk__bench_over(all - own, f->wall) : 0;
    /* Which cores others keep busy is not known where only some are this process's. */
    if (run->cores.all_usable == run->cores.online)
        f->other_cores = run->result->other_cores;
    if (now->runnable_ns > run->usage.runnable_ns)
        f->runnable_s = stk__seconds(now->runnable_ns - run->usage.runnable_ns);
    f->cpu_s_per_1000 = stk__bench_over(1000 * f->cpu_s, (double)run->samples);
}

void stk__bench_window_figures(stk__bench_run *run)
{
    stk_figures *f = run->figures;
    stk_memory_stats memory = {.struct_size = sizeof memory};
    stk_bench_feed_stats fed;
    stk__usage now;

    stk__usage_get(&now);
    if (run->feed)
        look(run, &now, &fed);
    stk_context_memory(run->bench->ctx, &memory);
    f->batch_size = run->loader_options.batch_size;
    f->usable_cores = run->cores.all_usable;
    f->compute_cores = run->cores.compute;
    f->ranks = (uint32_t)run->options->ranks;
    f->spin = run->options->spin || run->setting->step;
    f->no_step = run->options->train_step_time <= 0 && !run->setting->step;
    f->io_threads = run->loader ? now.io_threads : 0;
    run->result->stoker_peak_bytes = memory.peak_bytes;
    if (run->loader)
        loader_figures(run, f);
    if (run->feed && !run->keeps)
        feed_figures(run, &fed, f);
    if (!run->in_window)
        return;
    time_figures(run, f);
    usage_figures(run, &now, f);
    f->allocations_per_step_times_1000 =
        run->steps ? 1000 * (memory.allocations - run->allocations) / run->steps : 0;
}

void stk__bench_window_check(stk__bench_run *run)
{
    stk_bench_result *result = run->result;
    stk__counts counts;

    stk__counter_get(run->counter, &counts);
    result->events = run->feed ? run->delivered : counts.samples;
    result->delivered = run->delivered;
    if (run->feed)
        return;
    uint64_t tried = run->delivered + result->bad_samples;
    result->check_failed =
        result->status == STK_OK && !run->setting->free_data &&
        (counts.samples < run->delivered || counts.samples > tried + result->discarded_most);
}
