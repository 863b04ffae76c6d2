/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of one setting, in a process of its own.
 *
 *   setup     context, step alone, dataset, loader, warm-up batches with their steps
 *   window    training: next batch, step, next batch, step ...
 *   check     events = delivered + discarded
 */
#include "bench_run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MEET_NS     UINT64_C(30000000000)
#define PROGRESS_NS UINT64_C(100000000)

/* Wait until all ranks are here, or one of them is gone. */
static void meet(const struct bench_run *run, int place)
{
    struct bench_meeting *meeting = run->task->meeting;
    uint64_t until = cli_now_ns() + MEET_NS;
    const struct timespec pause = {.tv_nsec = 1000000};

    atomic_fetch_add(&meeting->arrived[place], 1);
    while (atomic_load(&meeting->arrived[place]) < run->bench->ranks &&
           !atomic_load(&meeting->broken) && !cli_interrupted() && cli_now_ns() < until)
        nanosleep(&pause, NULL);
}

/* In a signal handler. The parent tells of an interrupt; what tells the whole group ends nothing.
 */
void bench_interrupt(void *loader)
{
    signal(SIGTERM, SIG_IGN);
    if (loader)
        stk_loader_cancel(loader);
}

static stk_status fail(struct bench_run *run, stk_status status, const char *text)
{
    stk_error_init(&run->result->error);
    run->result->error.status = status;
    snprintf(run->result->error.text, sizeof run->result->error.text, "%s", text);
    return status;
}

/* ---- Setup ---------------------------------------------------------------------------------- */

static stk_status open_log(struct bench_run *run)
{
    const struct bench_setting *setting = run->task->setting;
    struct bench_result *result = run->result;
    char *more = NULL;
    size_t size;

    if (!run->task->log)
        return STK_OK;
    snprintf(result->log, sizeof result->log, "%s", run->task->log);
    stk_status status = stk_log_open(run->context, run->task->log, &run->log, &result->error);
    if (status != STK_OK)
        return status;
    result->has_log = true;
    FILE *text = open_memstream(&more, &size);
    if (!text)
        return fail(run, STK_ENOMEM, "no memory for the log");
    fputs("\"data_params\": ", text);
    cli_json_string(text, setting->data_params);
    fprintf(text,
            ", \"locals\": %s, \"rank\": %" PRIu64 ", \"world_size\": %" PRIu64
            ", \"repeat\": %" PRIu64 ", %s",
            setting->locals, run->loader_options.rank, run->loader_options.world_size,
            run->task->repeat, setting->identity);
    fclose(text);
    stk_log_event(run->log, "run start", NULL, run->start_ns, STK_NO_DURATION, more);
    free(more);
    if (run->task->summary)
        stk_log_summarize(run->log);
    stk_log_event(run->log, "setup start", NULL, run->setup_ns, STK_NO_DURATION, NULL);
    return STK_OK;
}

static stk_status set_up(struct bench_run *run)
{
    struct bench_result *result = run->result;
    const struct bench_setting *setting = run->task->setting;

    if (cli_context(run->task->cli, setting->which, &run->context) != CLI_GO_ON)
        return fail(run, STK_EINVAL, "no context could be made; the message above says why");
    result->cores.struct_size = sizeof result->cores;
    stk_context_cores(run->context, &result->cores);
    bench_share(run->task, &result->cores, &run->loader_options);
    run->waits = bench_memory_reserve(&run->waits_room);
    if (!run->waits)
        return fail(run, STK_ENOMEM, "no memory for the figures");
    stk_status status = bench_step_make(run->task->cli, run->context, setting,
                                        result->cores.compute, &run->step, &result->error);
    if (status != STK_OK)
        return status;
    meet(run, 0);
    bench_step_calibrate(run->step);
    meet(run, 1);
    if (run->bench->drop_cache && run->task->rank == 0)
        bench_files_drop(setting->dataset);
    result->figures.cached_share = bench_files_cached(setting->dataset);
    run->setup_ns = cli_now_ns();
    status = open_log(run);
    if (status == STK_OK)
        status = stk_counter_open(run->context, &run->counter, &result->error);
    if (status == STK_OK)
        status = bench_ledger_trace(run->context, run->task, &run->trace, &result->error);
    if (status == STK_OK)
        status = stk_dataset_open(run->context, setting->dataset, &run->dataset, &result->error);
    if (status != STK_OK)
        return status;
    meet(run, 2);
    run->memory = bench_memory_start();
    run->asked_ns = cli_now_ns();
    status = stk_loader_create(run->dataset, &run->loader_options, &run->loader, &result->error);
    if (status == STK_OK)
        cli_on_interrupt(bench_interrupt, run->loader);
    return status;
}

/* ---- The loop ------------------------------------------------------------------------------- */

/* The next batch, or STK_EOS at the end of an epoch. A ceiling's is the one that is kept. */
static stk_status take(struct bench_run *run, stk_batch **batch)
{
    if (run->kept) {
        *batch = run->kept;
        return STK_OK;
    }
    stk_status status = stk_loader_next(run->loader, -1, batch, &run->result->error);
    if (status == STK_OK) {
        run->taken++;
        run->delivered += stk_batch_count(*batch);
    }
    return status;
}

static void give_back(struct bench_run *run, stk_batch **batch)
{
    if (*batch != run->kept)
        stk_batch_release(batch);
    *batch = NULL;
}

static void log_epoch(struct bench_run *run, bool start)
{
    char text[48];

    if (!run->log)
        return;
    uint64_t now = cli_now_ns();
    snprintf(text, sizeof text, "\"epoch\": %" PRIu64, run->epoch);
    stk_log_event(run->log, start ? "epoch start" : "epoch end", text, now,
                  start ? STK_NO_DURATION : now - run->epoch_ns, NULL);
    if (start)
        run->epoch_ns = now;
    if (run->loader)
        bench_ledger_epoch(&run->ledger, run->log, run->loader, start, run->epoch, now);
}

static void log_training(struct bench_run *run, const char *name, uint64_t when_ns,
                         uint64_t duration_ns)
{
    stk_loader_stats stats = {.struct_size = sizeof stats};
    char text[48], more[96];

    if (!run->log || run->task->summary)
        return;
    snprintf(text, sizeof text, "\"batch\": %" PRIu64, run->batch);
    int n = snprintf(more, sizeof more, "\"epoch\": %" PRIu64, run->epoch);
    /* Asked within the step: it lengthens no wait. */
    if (run->loader && duration_ns == STK_NO_DURATION) {
        stk_loader_get_stats(run->loader, &stats);
        snprintf(more + n, sizeof more - (size_t)n, ", \"ready\": %" PRIu64, stats.ready);
    }
    stk_log_event(run->log, name, text, when_ns, duration_ns, more);
}

static void show_progress(struct bench_run *run, double share)
{
    uint64_t now = cli_now_ns();

    if (run->task->rank != 0 || run->task->cli->quiet || now - run->progress_ns < PROGRESS_NS)
        return;
    run->progress_ns = now;
    /* Steps are what is counted; how many there will be is an estimate. */
    uint64_t total = share > 0 && share < 1 ? (uint64_t)((double)run->steps / share) : run->steps;
    cli_console_progress(run->task->cli, run->task->setting->label, run->steps, total + 1);
}

/* Whether the window has been long enough. A fixed number of epochs is run through, but for
 * max_seconds; a ceiling has no epochs. */
static bool enough(struct bench_run *run)
{
    const struct bench_options *bench = run->bench;
    double time = bench_seconds(run->end_ns - run->window_ns);
    double share = 0;
    bool done = cli_interrupted() != 0 || (bench->max_seconds > 0 && time >= bench->max_seconds);

    if (bench->num_epochs == 0 || run->kept) {
        double by_time = bench_over(time, bench->min_seconds),
               by_steps = bench_over((double)run->steps, (double)bench->min_batches);
        if (bench->min_seconds <= 0)
            by_time = 1;
        share = by_time < by_steps ? by_time : by_steps;
        done |= time >= bench->min_seconds && run->steps >= bench->min_batches;
    } else {
        double of =
            bench->num_batches ? (double)bench->num_batches : (double)stk_loader_steps(run->loader);
        share = bench_over((double)run->epoch + bench_over((double)run->batch, of),
                           (double)bench->num_epochs);
    }
    if (bench->max_seconds > 0 && time > share * bench->max_seconds)
        share = time / bench->max_seconds;
    show_progress(run, share);
    return done || run->num_waits == run->waits_room;
}

/* One step of the window. `start` is when its batch had come. */
static void measured_step(struct bench_run *run, const stk_batch *batch, uint64_t start)
{
    bool counted = run->in_window;

    if (counted) {
        double wait = bench_seconds(start - run->end_ns);
        run->waits[run->num_waits++] = wait;
        if (run->new_epoch) {
            run->turns += wait;
            run->num_turns++;
        }
        run->samples += stk_batch_count(batch);
    }
    run->new_epoch = false;
    log_training(run, "training start", start, STK_NO_DURATION);
    bench_step_run(run->step, batch);
    run->end_ns = cli_now_ns();
    log_training(run, "training end", run->end_ns, run->end_ns - start);
    run->ledger.step_ns += run->end_ns - start;
    if (batch && !run->kept)
        stk_trace_step(run->trace, stk_batch_epoch(batch), stk_batch_step(batch), start,
                       run->end_ns);
    if (counted) {
        run->step_sum += bench_seconds(run->end_ns - start);
        run->steps++;
    } else {
        bench_window_begin(run, run->end_ns);
    }
    bench_memory_note(run->memory, run->num_waits * sizeof *run->waits, run->epoch);
}

/* Steps of one epoch. STK_EOS: the epoch is over; STK_OK: the run is. */
static stk_status run_epoch(struct bench_run *run)
{
    for (run->batch = 0;; run->batch++) {
        stk_batch *batch;
        if (run->bench->num_batches && !run->kept && run->batch == run->bench->num_batches)
            return STK_EOS;
        stk_status status = take(run, &batch);
        if (status != STK_OK)
            return status;
        uint64_t now = cli_now_ns();
        if (run->result->figures.first_wait <= 0)
            run->result->figures.first_wait = bench_seconds(now - run->asked_ns);
        measured_step(run, batch, now);
        give_back(run, &batch);
        status = bench_step_failure(run->step, &run->result->error);
        if (status != STK_OK || enough(run))
            return status;
    }
}

/* After `num_batches` the rest of the epoch is thrown away. */
static stk_status next_epoch(struct bench_run *run)
{
    run->epoch++;
    run->result->epochs++;
    run->new_epoch = true;
    if (!run->bench->num_batches || run->kept)
        return STK_OK;
    run->resets++;
    return stk_loader_set_epoch(run->loader, run->epoch, &run->result->error);
}

static stk_status train(struct bench_run *run)
{
    stk_status status = STK_OK;

    for (;;) {
        log_epoch(run, true);
        status = run_epoch(run);
        log_epoch(run, false);
        if (status != STK_EOS)
            return status;
        /* An epoch without a batch: the loader's own `epochs` are over. */
        if (run->batch == 0 && run->steps)
            return STK_OK;
        if (run->batch == 0)
            return fail(run, STK_EINVAL,
                        "the loader gave no batch to measure: more epochs, or less warmup");
        if (run->bench->num_epochs && run->epoch + 1 >= run->bench->num_epochs)
            return STK_OK;
        status = next_epoch(run);
        if (status != STK_OK)
            return status;
    }
}

/* Batches before the window, with the end of an epoch that is all warm-up. Where the run is to have
 * exact epochs, it begins anew after them, without steps here. */
static stk_status warm_up(struct bench_run *run)
{
    bool anew = run->bench->num_epochs || run->bench->num_batches, last = false;
    uint64_t ends = 0;

    for (uint64_t i = 0; (i < run->bench->warmup || last) && !cli_interrupted();) {
        stk_batch *batch;
        stk_status status = take(run, &batch);
        if (status == STK_EOS && anew)
            break;
        if (status == STK_EOS) {
            last = false;
            run->epoch++;
            if (++ends > run->bench->warmup)
                return STK_OK;
            continue;
        }
        if (status != STK_OK)
            return status;
        if (i++ == 0)
            run->result->figures.first_wait = bench_seconds(cli_now_ns() - run->asked_ns);
        if (!anew)
            bench_step_run(run->step, batch);
        last = !anew && stk_batch_step(batch) + 1 == stk_loader_steps(run->loader);
        give_back(run, &batch);
    }
    if (!anew || run->bench->warmup == 0)
        return STK_OK;
    run->epoch = 0;
    run->resets++;
    run->result->figures.first_wait = 0;
    run->asked_ns = cli_now_ns();
    return stk_loader_set_epoch(run->loader, 0, &run->result->error);
}

/* One batch is kept; from here on there is no loader. */
static stk_status keep_one(struct bench_run *run)
{
    stk_batch *batch;
    stk_status status = take(run, &batch);

    if (status != STK_OK)
        return status;
    run->kept = batch;
    cli_on_interrupt(bench_interrupt, NULL);
    stk_loader_destroy(&run->loader);
    return STK_OK;
}

/* ---- The run -------------------------------------------------------------------------------- */

static void end_log(struct bench_run *run)
{
    struct bench_result *result = run->result;
    stk_error err;

    if (stk_trace_close(&run->trace, &err) != STK_OK) {
        result->log_failed = true;
        cli_error("%s", err.text);
    }
    if (!run->log)
        return;
    bench_ledger_verdict(run->log, &run->ledger, &result->figures);
    stk_log_event(run->log, "run end", NULL, 0, cli_now_ns() - run->start_ns, NULL);
    if (stk_log_close(&run->log, &err) != STK_OK) {
        result->log_failed = true;
        cli_error("%s", err.text);
    }
}

static stk_status measure(struct bench_run *run)
{
    struct bench_result *result = run->result;
    stk_status status = warm_up(run);

    if (status == STK_OK && run->task->setting->free_data)
        status = keep_one(run);
    meet(run, 3);
    uint64_t now = cli_now_ns();
    result->setup = bench_seconds(now - run->setup_ns);
    stk_log_event(run->log, "setup end", NULL, now, now - run->setup_ns, NULL);
    if (status == STK_OK && !cli_interrupted())
        status = train(run);
    return status;
}

void bench_run(const struct bench_task *task, struct bench_result *result)
{
    struct bench_run run = {
        .task = task,
        .result = result,
        .bench = &task->setting->bench,
        .loader_options = task->setting->loader,
        .start_ns = cli_now_ns(),
    };

    memset(result, 0, sizeof *result);
    stk_error_init(&result->error);
    /* A sleep may be rounded up by the slack, 50 us unless told otherwise. */
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
    signal(SIGINT, SIG_IGN);
    cli_on_interrupt(bench_interrupt, NULL);
    if (run.bench->num_epochs && !run.bench->num_batches)
        run.loader_options.epochs = run.bench->num_epochs;
    result->status = set_up(&run);
    if (result->status == STK_OK)
        result->status = measure(&run);
    if (run.loader || run.kept)
        bench_window_figures(&run);
    cli_on_interrupt(bench_interrupt, NULL);
    stk_batch_release(&run.kept);
    stk_loader_destroy(&run.loader);
    bench_memory_stop(run.memory, &result->figures.peak_bytes,
                      &result->figures.leak_bytes_per_epoch);
    bench_cost_estimate(run.dataset, &result->figures);
    if (run.counter)
        bench_window_check(&run);
    end_log(&run);
    if (result->status == STK_OK && task->hash_fd >= 0 && !task->setting->free_data &&
        !cli_interrupted())
        result->status = bench_hash_pass(run.dataset, &run.loader_options, run.bench, task->hash_fd,
                                         &result->error);
    result->interrupted = cli_interrupted() != 0;
    stk_counter_close(&run.counter);
    stk_dataset_close(&run.dataset);
    bench_step_destroy(run.step);
    if (run.waits)
        munmap(run.waits, run.waits_room * sizeof *run.waits);
}
