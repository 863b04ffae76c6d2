/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a run's window.
 *
 * As published, a wait is the time from the end of a step to the start of the next one. The first
 * step of the window has no wait of its own: N steps give N - 1 waits, and the figures are those of
 * the time between the end of the first step and the end of the last, which is N - 1 waits and N -
 * 1 steps. The first batch of the run is told apart.
 */
#include "bench_run.h"

#include <string.h>

#define DISCARD_SPARE 2 /* batches in work beyond the ring, at most */

void bench_window_begin(struct bench_run *run, uint64_t now)
{
    stk_memory_stats memory = {.struct_size = sizeof memory};

    run->in_window = true;
    run->window_ns = now;
    run->cpu_ns = bench_process_cpu_ns();
    run->runnable_ns = bench_runnable_ns();
    run->machine_ns = bench_machine_busy_ns();
    run->step_cpu_ns = bench_step_cpu_ns(run->step);
    stk_context_memory(run->context, &memory);
    run->allocations = memory.allocations;
    run->counts.struct_size = sizeof run->counts;
    run->stats.struct_size = sizeof run->stats;
    stk_counter_get(run->counter, &run->counts);
    if (run->loader)
        stk_loader_get_stats(run->loader, &run->stats);
}

/* Whether pictures are handed over as they are stored. */
static bool is_undecoded(const stk_loader *loader)
{
    uint32_t n;
    const stk_field *fields = stk_loader_fields(loader, &n);

    for (uint32_t i = 0; i < n; i++)
        if (fields[i].layout == STK_BYTES && strcmp(fields[i].codec, "image") == 0)
            return true;
    return false;
}

static void loader_figures(struct bench_run *run, stk_figures *f)
{
    stk_loader_stats now = {.struct_size = sizeof now}, *then = &run->stats;
    stk_counts counts = {.struct_size = sizeof counts};

    stk_loader_get_stats(run->loader, &now);
    stk_counter_get(run->counter, &counts);
    bench_ledger_figures(then, &now, f);
    f->requests = counts.reads - run->counts.reads;
    f->read_seconds = bench_seconds(counts.read_ns - run->counts.read_ns);
    f->read_latency = bench_over(f->read_seconds, (double)f->requests);
    f->pin_memory = run->loader_options.pin_memory;
    f->persistent_workers = run->loader_options.persistent_workers;
    bench_cost_figures(then, &now, f);
    bench_cost_side(run->loader, f);
    f->io_threads = bench_io_threads();
    f->prefetch = now.workers ? (int64_t)run->loader_options.prefetch_factor : 0;
    run->result->undecoded = is_undecoded(run->loader);
    run->result->bad_samples = now.bad_samples;
    stk_bad_samples bad = {.struct_size = sizeof bad};
    stk_loader_get_bad_samples(run->loader, &bad);
    stk_bad_samples_format(&bad, run->result->bad, sizeof run->result->bad);
    run->result->discarded_most =
        (now.depth + DISCARD_SPARE) * run->loader_options.batch_size * (run->resets + 1);
}

void bench_window_figures(struct bench_run *run)
{
    stk_figures *f = &run->result->figures;
    stk_memory_stats memory = {.struct_size = sizeof memory};
    double alone = bench_step_alone(run->step);

    stk_context_memory(run->context, &memory);
    f->struct_size = sizeof *f;
    f->batch_size = run->loader_options.batch_size;
    f->usable_cores = run->result->cores.usable;
    f->compute_cores = run->result->cores.compute;
    f->ranks = (uint32_t)run->bench->ranks;
    f->spin = run->bench->spin || run->task->setting->recipe;
    f->no_step = run->bench->train_step_time <= 0 && !run->task->setting->recipe;
    run->result->stoker_peak_bytes = memory.peak_bytes;
    if (run->loader)
        loader_figures(run, f);
    if (!run->in_window)
        return;
    f->steps = run->steps;
    f->samples = run->samples;
    f->wall = bench_seconds(run->end_ns - run->window_ns);
    stk_spread_of(run->waits, run->num_waits, &f->wait);
    f->samples_per_s = bench_over((double)run->samples, f->wall);
    f->step_time = bench_over(run->step_sum, (double)run->steps);
    f->step_share = bench_over(run->step_sum, f->wall);
    f->step_stretch = alone > 0 && run->steps ? f->step_time / alone : 1;
    f->epoch_turn = bench_over(run->turns, (double)run->num_turns);
    double own = bench_seconds(bench_process_cpu_ns() - run->cpu_ns);
    double all = bench_seconds(bench_machine_busy_ns() - run->machine_ns);
    f->cpu_s = own - bench_seconds(bench_step_cpu_ns(run->step) - run->step_cpu_ns);
    own *= (double)run->bench->ranks;
    run->result->other_cores = all > own ? bench_over(all - own, f->wall) : 0;
    /* Which cores others keep busy is not known where only some are this process's. */
    if (run->result->cores.usable == run->result->cores.online)
        f->other_cores = run->result->other_cores;
    f->runnable_s = bench_seconds(bench_runnable_ns() - run->runnable_ns);
    f->cpu_s_per_1000 = bench_over(1000 * f->cpu_s, (double)run->samples);
    f->allocations_per_step_times_1000 =
        run->steps ? 1000 * (memory.allocations - run->allocations) / run->steps : 0;
}

void bench_window_check(struct bench_run *run)
{
    struct bench_result *result = run->result;
    stk_counts counts = {.struct_size = sizeof counts};

    stk_counter_get(run->counter, &counts);
    result->events = counts.samples;
    result->delivered = run->delivered;
    uint64_t tried = run->delivered + result->bad_samples;
    result->check_failed =
        result->status == STK_OK && !run->task->setting->free_data &&
        (counts.samples < run->delivered || counts.samples > tried + result->discarded_most);
}
