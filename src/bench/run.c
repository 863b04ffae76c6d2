/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of one setting.
 *
 *   setup     step alone, dataset, loader, warm-up batches with their steps
 *   window    training: next batch, step, next batch, step ...
 *   check     events = delivered + discarded
 */
#include "bench/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/sized.h"
#include "measure/measure.h"

#define PROGRESS_NS UINT64_C(100000000)
#define TRACE_PATH  4096

static bool cancelled(const stk__bench_run *run)
{
    return atomic_load(&run->bench->cancelled);
}

/* Wait until all ranks are here. */
static void meet(const stk__bench_run *run, int place)
{
    if (run->setting->meet && run->options->ranks > 1)
        run->setting->meet(run->setting->meet_user, place);
}

static stk_status fail(stk__bench_run *run, stk_status status, const char *text)
{
    return stk__fail(&run->result->error, status, STK_STAGE_MEASURE, "%s", text);
}

/* ---- Setup ---------------------------------------------------------------------------------- */

/* The trace of the first rank, in its first run; further settings have files of their own. */
static stk_status open_trace(stk__bench_run *run)
{
    const stk_bench_setting *setting = run->setting;
    char path[TRACE_PATH];

    if (!run->options->trace || setting->rank != 0 || setting->repeat > 1)
        return STK_OK;
    if (setting->number > 1)
        snprintf(path, sizeof path, "%s.%" PRIu64, run->options->trace, setting->number);
    else
        snprintf(path, sizeof path, "%s", run->options->trace);
    return stk__event_trace_open(run->bench->ctx, path, run->options->trace_every, &run->trace,
                                 &run->result->error);
}

static stk_status open_data(stk__bench_run *run)
{
    if (run->feed)
        return run->feed->open(run->feed->user, &run->result->error);
    run->dataset = run->setting->data;
    if (run->dataset)
        return STK_OK;
    stk_status status =
        stk_dataset_open(run->bench->ctx, run->setting->dataset, &run->opened, &run->result->error);
    run->dataset = run->opened;
    return status;
}

/* What a rank takes of the samples and, unless it is given, of the cores. */
static void share(stk__bench_run *run)
{
    stk_loader_options *options = &run->loader_options;
    const uint64_t ranks = run->options->ranks;

    if (run->options->num_epochs && !run->options->num_batches)
        options->epochs = run->options->num_epochs;
    if (ranks < 2)
        return;
    options->rank = run->setting->rank;
    options->world_size = ranks;
    if (options->num_workers == STK_AUTO)
        options->num_workers =
            stk__cores_workers(run->cores.all_usable, run->cores.compute, (uint32_t)ranks);
}

/* The step, and how long it takes alone. */
static stk_status prepare_step(stk__bench_run *run)
{
    const stk_bench_step *own = run->setting->step;

    STK_TRY(stk__bench_step_create(run->bench->ctx, own, run->options->train_step_time,
                                   run->options->spin, run->cores.compute, &run->bench->cancelled,
                                   &run->step, &run->result->error));
    if (own && own->threads > 1)
        snprintf(run->result->environment, sizeof run->result->environment, "%s",
                 STK__COMPUTE_ENVIRONMENT);
    meet(run, 0);
    stk__bench_step_calibrate(run->step);
    meet(run, 1);
    return stk__bench_step_failure(run->step, &run->result->error);
}

static stk_status set_up(stk__bench_run *run)
{
    stk_context *ctx = run->bench->ctx;
    stk_error *err = &run->result->error;
    const char *spec = run->feed ? NULL : run->setting->dataset;

    STK_TRY(stk__context_check(ctx, err));
    run->cores.struct_size = sizeof run->cores;
    stk_context_cores(ctx, &run->cores);
    run->result->cores_online = run->cores.online;
    run->result->cores_preparation = run->cores.preparation;
    share(run);
    run->waits = stk__bench_memory_reserve(&run->waits_room);
    if (!run->waits)
        return fail(run, STK_ENOMEM, "no memory for the figures");
    STK_TRY(prepare_step(run));
    STK_TRY(stk__bench_all_reduce_create(ctx, run->setting->strategy, run->options->all_reduce,
                                         &run->reduce, err));
    if (spec && run->options->drop_cache && run->setting->rank == 0)
        stk__bench_files_drop(spec);
    run->figures->cached_share = spec ? stk__bench_files_cached(ctx, spec) : -1;
    run->setup_ns = stk__now_ns();
    STK_TRY(stk__bench_run_log_open(run));
    STK_TRY(stk__counter_open(ctx, &run->counter, err));
    STK_TRY(open_trace(run));
    STK_TRY(open_data(run));
    meet(run, 2);
    run->memory = stk__bench_memory_start(ctx, run->feed != NULL);
    run->asked_ns = stk__now_ns();
    if (run->feed)
        return STK_OK;
    STK_TRY(stk_loader_create(run->dataset, &run->loader_options, &run->loader, err));
    stk__bench_publish(run->bench, run->loader);
    return STK_OK;
}

/* ---- The loop ------------------------------------------------------------------------------- */

static stk_status take_fed(stk__bench_run *run)
{
    const stk_bench_feed *feed = run->feed;
    stk_error *err = &run->result->error;
    const uint64_t start = stk__now_ns();

    if (!run->feeding) {
        STK_TRY(feed->begin(feed->user, run->epoch, err));
        run->fed = 0;
    }
    stk_status status = feed->next(feed->user, &run->count, err);
    run->feeding = status != STK_EOS;
    if (status != STK_OK)
        return status;
    run->fed++;
    run->delivered += run->count;
    run->fed_waits.batches++;
    run->fed_waits.total_ns += stk__now_ns() - start;
    return STK_OK;
}

/* The next batch, or STK_EOS at the end of an epoch. A ceiling's is the one that is kept. Those of
 * a feed are NULL. */
static stk_status take(stk__bench_run *run, stk_batch **batch)
{
    *batch = run->kept;
    if (run->keeps)
        return STK_OK;
    if (run->feed)
        return take_fed(run);
    stk_status status = stk_loader_next(run->loader, -1, batch, &run->result->error);
    if (status == STK_OK) {
        run->count = stk_batch_count(*batch);
        run->delivered += run->count;
    }
    return status;
}

/* Batches of an epoch; 0: not known. */
static uint64_t steps_of(const stk__bench_run *run)
{
    stk_bench_feed_stats fed = {.struct_size = sizeof fed};

    if (!run->feed)
        return stk_loader_steps(run->loader);
    run->feed->look(run->feed->user, &fed);
    return fed.steps;
}

/* Whether the batch that was taken is the last of its epoch. */
static bool is_last(const stk__bench_run *run, const stk_batch *batch)
{
    return (run->feed ? run->fed : stk_batch_step(batch) + 1) == steps_of(run);
}

/* Throw away what is left of an epoch: the next batch is the first of `run->epoch`. */
static stk_status restart(stk__bench_run *run)
{
    run->resets++;
    run->feeding = false;
    return run->feed ? STK_OK : stk_loader_set_epoch(run->loader, run->epoch, &run->result->error);
}

static void give_back(stk__bench_run *run, stk_batch **batch)
{
    if (!run->keeps)
        stk_batch_release(batch);
    *batch = NULL;
}

static void show_progress(stk__bench_run *run, double share)
{
    uint64_t now = stk__now_ns();

    if (run->setting->rank != 0 || now - run->progress_ns < PROGRESS_NS)
        return;
    run->progress_ns = now;
    /* Steps are what is counted; how many there will be is an estimate. */
    uint64_t total = share > 0 && share < 1 ? (uint64_t)((double)run->steps / share) : run->steps;
    stk__progress(run->bench->ctx, run->setting->label ? run->setting->label : "steps", run->steps,
                  total + 1);
}

/* Whether the window has been long enough. A fixed number of epochs is run through, but for
 * max_seconds; a ceiling has no epochs. */
static bool enough(stk__bench_run *run)
{
    const stk_bench_options *options = run->options;
    double time = stk__seconds(run->end_ns - run->window_ns);
    double share = 0;
    bool done = cancelled(run) || (options->max_seconds > 0 && time >= options->max_seconds);

    if (options->num_epochs == 0 || run->keeps) {
        double by_time = stk__bench_over(time, options->min_seconds),
               by_steps = stk__bench_over((double)run->steps, (double)options->min_batches);
        if (options->min_seconds <= 0)
            by_time = 1;
        share = by_time < by_steps ? by_time : by_steps;
        done |= time >= options->min_seconds && run->steps >= options->min_batches;
    } else {
        double of = options->num_batches ? (double)options->num_batches : (double)steps_of(run);
        share = stk__bench_over((double)run->epoch + stk__bench_over((double)run->batch, of),
                                (double)options->num_epochs);
    }
    if (options->max_seconds > 0 && time > share * options->max_seconds)
        share = time / options->max_seconds;
    show_progress(run, share);
    return done || run->num_waits == run->waits_room;
}

/* What the ranks do together at the end of a step; seconds of it. */
static double reduce(stk__bench_run *run)
{
    const uint64_t start = stk__now_ns();

    if (!run->reduce || run->reduced != STK_OK)
        return 0;
    run->reduced =
        stk__bench_all_reduce_run(run->reduce, run->enough, cancelled(run), &run->result->error);
    const uint64_t took = stk__now_ns() - start;
    run->ledger.reduce_ns += took;
    return stk__seconds(took);
}

/* One step of the window. `start` is when its batch had come. */
static void measured_step(stk__bench_run *run, const stk_batch *batch, uint64_t start)
{
    bool counted = run->in_window;

    if (counted) {
        double wait = stk__seconds(start - run->end_ns);
        if (run->num_waits < run->waits_room)
            run->waits[run->num_waits++] = wait;
        if (run->new_epoch) {
            run->turns += wait;
            run->num_turns++;
        }
        run->samples += run->count;
    }
    run->new_epoch = false;
    stk__bench_run_log_step(run, "training start", start, STK_NO_DURATION, 0);
    stk__bench_step_run(run->step, batch);
    run->ledger.step_ns += stk__now_ns() - start;
    const double reduced = reduce(run);
    run->end_ns = stk__now_ns();
    stk__bench_run_log_step(run, "training end", run->end_ns, run->end_ns - start, reduced);
    if (!run->keeps && !run->feed)
        stk__event_trace_step(run->trace, stk_batch_epoch(batch), stk_batch_step(batch), start,
                              run->end_ns);
    if (counted) {
        run->step_sum += stk__seconds(run->end_ns - start);
        run->reduce_sum += reduced;
        run->steps++;
    } else {
        stk__bench_window_begin(run, run->end_ns);
    }
    stk__bench_memory_note(run->memory, run->num_waits * sizeof *run->waits, run->epoch);
}

/* Steps of one epoch. STK_EOS: the epoch is over; STK_OK: the run is. */
static stk_status run_epoch(stk__bench_run *run)
{
    for (run->batch = 0;; run->batch++) {
        stk_batch *batch;
        if (run->options->num_batches && !run->keeps && run->batch == run->options->num_batches)
            return STK_EOS;
        stk_status status = take(run, &batch);
        if (status != STK_OK)
            return status;
        uint64_t now = stk__now_ns();
        if (run->figures->first_wait <= 0)
            run->figures->first_wait = stk__seconds(now - run->asked_ns);
        measured_step(run, batch, now);
        give_back(run, &batch);
        status = stk__bench_step_failure(run->step, &run->result->error);
        if (status == STK_OK)
            status = run->reduced;
        run->enough = enough(run);
        if (status != STK_OK ||
            (run->reduce ? stk__bench_all_reduce_over(run->reduce) : run->enough))
            return status;
    }
}

/* After `num_batches` the rest of the epoch is thrown away. */
static stk_status next_epoch(stk__bench_run *run)
{
    run->epoch++;
    run->result->epochs++;
    run->new_epoch = true;
    return !run->options->num_batches || run->keeps ? STK_OK : restart(run);
}

static stk_status train(stk__bench_run *run)
{
    stk_status status = STK_OK;

    for (;;) {
        stk__bench_run_log_epoch(run, true);
        status = run_epoch(run);
        stk__bench_run_log_epoch(run, false);
        if (status != STK_EOS)
            return status;
        /* An epoch without a batch: the loader's own `epochs` are over. */
        if (run->batch == 0 && run->steps)
            return STK_OK;
        if (run->batch == 0)
            return fail(run, STK_EINVAL,
                        "the loader gave no batch to measure: more epochs, or less warmup");
        if (run->options->num_epochs && run->epoch + 1 >= run->options->num_epochs)
            return STK_OK;
        status = next_epoch(run);
        if (status != STK_OK)
            return status;
    }
}

/* Batches before the window, with the end of an epoch that is all warm-up. Where the run is to have
 * exact epochs, it begins again after them, without steps here. */
static stk_status warm_up(stk__bench_run *run)
{
    bool anew = run->options->num_epochs || run->options->num_batches, last = false;
    uint64_t ends = 0;

    for (uint64_t i = 0; (i < run->options->warmup || last) && !cancelled(run);) {
        stk_batch *batch;
        stk_status status = take(run, &batch);
        if (status == STK_EOS && anew)
            break;
        if (status == STK_EOS) {
            last = false;
            run->epoch++;
            if (++ends > run->options->warmup)
                return STK_OK;
            continue;
        }
        if (status != STK_OK)
            return status;
        if (i++ == 0)
            run->figures->first_wait = stk__seconds(stk__now_ns() - run->asked_ns);
        if (!anew) {
            stk__bench_step_run(run->step, batch);
            reduce(run);
        }
        last = !anew && is_last(run, batch);
        give_back(run, &batch);
        if (run->reduced != STK_OK)
            return run->reduced;
    }
    if (!anew || run->options->warmup == 0)
        return STK_OK;
    run->epoch = 0;
    run->figures->first_wait = 0;
    run->asked_ns = stk__now_ns();
    return restart(run);
}

/* One batch is kept; from here on there is no loader, and no worker of a feed. */
static stk_status keep_one(stk__bench_run *run)
{
    stk_batch *batch;
    stk_status status = take(run, &batch);

    if (status != STK_OK)
        return status;
    run->kept = batch;
    run->keeps = true;
    if (run->feed)
        return run->feed->end(run->feed->user, &run->result->error);
    stk__bench_publish(run->bench, NULL);
    stk_loader_destroy(&run->loader);
    return STK_OK;
}

/* ---- The run -------------------------------------------------------------------------------- */

/* Read the same again, untimed. */
static stk_status hash_pass(stk__bench_run *run)
{
    stk_loader_options again = run->loader_options;
    stk_error *err = &run->result->error;

    again.epochs = run->options->num_epochs ? run->options->num_epochs : 1;
    STK_TRY(stk_loader_create(run->dataset, &again, &run->loader, err));
    stk__bench_publish(run->bench, run->loader);
    return stk__bench_hash_epochs(run->bench->ctx, run->loader, again.epochs,
                                  run->options->num_batches, run->setting, err);
}

static stk_status measure(stk__bench_run *run)
{
    stk_status status = warm_up(run);

    if (status == STK_OK && run->setting->free_data)
        status = keep_one(run);
    meet(run, 3);
    uint64_t now = stk__now_ns();
    run->result->setup = stk__seconds(now - run->setup_ns);
    stk_event_log_write(run->log, "setup end", NULL, now, now - run->setup_ns, NULL);
    if (status == STK_OK && !cancelled(run))
        status = train(run);
    if (status == STK_OK && !cancelled(run) && run->steps == 0)
        return fail(run, STK_EINVAL,
                    "the run was one batch, and what is measured begins after the first: more "
                    "batches or epochs, a smaller batch_size, or a longer max_seconds");
    return status;
}

static void end_loader(stk__bench_run *run)
{
    stk__bench_publish(run->bench, NULL);
    stk_batch_release(&run->kept);
    stk_loader_destroy(&run->loader);
}

/* What is found out once the window is over, and the log with it. */
static void conclude(stk__bench_run *run)
{
    stk_bench_result *result = run->result;
    stk_figures *f = run->figures;

    if (run->loader || run->feed || run->keeps)
        stk__bench_window_figures(run);
    end_loader(run);
    stk__bench_memory_stop(run->memory, &f->peak_bytes, &f->leak_bytes_per_epoch);
    if (run->dataset)
        stk__figures_advise_chunks(run->dataset, f);
    if (run->dataset && !cancelled(run))
        stk__bench_estimate_entropy(run->dataset, f);
    if (run->counter)
        stk__bench_window_check(run);
    stk__bench_run_log_end(run);
    if (result->status == STK_OK && run->setting->hash && !run->setting->free_data &&
        !cancelled(run))
        result->status = hash_pass(run);
    end_loader(run);
}

stk_status stk_bench_run(stk_bench *bench, stk_bench_result *out, stk_figures *figures,
                         stk_error *err)
{
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures f = {.struct_size = sizeof f};
    stk__bench_run run = {.bench = bench,
                          .setting = &bench->setting,
                          .options = &bench->options,
                          .feed = bench->setting.feed,
                          .loader_options = bench->loader_options,
                          .result = &result,
                          .figures = &f,
                          .start_ns = stk__now_ns()};

    STK_TRY(stk__context_check(bench->ctx, err));
    STK_TRY(stk__sized_check(out, "stk_bench_result", STK_STAGE_MEASURE, err));
    STK_TRY(stk__sized_check(figures, "stk_figures", STK_STAGE_MEASURE, err));
    stk_error_init(&result.error);
    /* A sleep may be rounded up by the slack, 50 us unless told otherwise. */
    const int slack = prctl(PR_GET_TIMERSLACK, 0ul, 0ul, 0ul, 0ul);
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
    result.status = set_up(&run);
    if (result.status == STK_OK)
        result.status = measure(&run);
    conclude(&run);
    result.interrupted = cancelled(&run);
    stk__counter_close(&run.counter);
    stk_dataset_close(&run.opened);
    stk__bench_step_destroy(run.step);
    stk__bench_all_reduce_destroy(run.reduce);
    if (run.waits)
        munmap(run.waits, run.waits_room * sizeof *run.waits);
    prctl(PR_SET_TIMERSLACK, slack > 0 ? (unsigned long)slack : 0ul, 0ul, 0ul, 0ul);
    if (result.status != STK_OK && err)
        *err = result.error;
    stk__sized_write(out, &result);
    stk__sized_write(figures, &f);
    return result.status;
}
