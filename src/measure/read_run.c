/* SPDX-License-Identifier: Apache-2.0 */
/* Events of one run -> its sums, epochs, bars and series. */
#include "measure/read.h"

#include <math.h>

#define PLACE_WIDTH 0.01 /* seconds at first */

static const char *const known[] = {
    "get-batch start", "get-batch end", "training start", "training end",
    "epoch start",     "epoch end",     "setup start",    "setup end",
    "run start",       "run end",       "read",           "batch ready",
    "bad sample",      "thinned",       "ledger",         "verdict",
    "figures",         "trained",       "training epoch", "metrics",
    "prediction",      "grid setting"};

enum {
    GET_START,
    GET_END,
    TRAIN_START,
    TRAIN_END,
    EPOCH_START,
    EPOCH_END,
    SETUP_START,
    SETUP_END,
    RUN_START,
    RUN_END,
    READ,
    BATCH_READY,
    BAD_SAMPLE,
    THINNED,
    LEDGER,
    VERDICT,
    FIGURES,
    TRAINED,
    TRAINING_EPOCH,
    METRICS,
    PREDICTION,
    GRID_SETTING,
    OTHER
};

enum { ROW_SETUP, ROW_GET, ROW_TRAIN, ROW_EPOCH, ROW_READ, ROW_FREE };
static const char *const rows[ROW_FREE] = {"setup", "get-batch", "train", "epoch", "read"};

static int event_of(const char *name)
{
    int i = 0;

    while (i < OTHER && strcmp(name, known[i]) != 0)
        i++;
    return i;
}

/* ---- Making a run ---------------------------------------------------------------------------- */

static void set_origin(stk__run *run, const stk__log_line *line)
{
    run->monotonic = line->time_ns >= 0;
    run->origin_ns = line->time_ns;
    run->origin = isnan(line->time) ? 0 : line->time;
    run->out.unix_time = line->time;
    run->out.published = !run->monotonic;
    run->main_last = run->any_last = -INFINITY;
}

stk_status stk__run_create(stk_report *report, const stk__log_line *start, stk__run **out)
{
    stk_context *ctx = report->ctx;

    stk__run *run = stk__calloc(ctx, 1, sizeof *run);
    *out = run;
    if (!run)
        return STK_ENOMEM;
    run->heap = stk__calloc(ctx, STK__REORDER, sizeof *run->heap);
    run->counts = stk__calloc(ctx, STK__COUNTS_MAX, sizeof *run->counts);
    run->row_names = stk__calloc(ctx, STK_REPORT_ROWS, sizeof *run->row_names);
    run->out.struct_size = sizeof run->out;
    run->out.rank = run->out.world_size = run->out.setting = run->out.repeat = run->out.rung = -1;
    run->out.pid = start->pid;
    run->out.headless = event_of(start->name) != RUN_START;
    run->out.batch_size = run->out.num_workers = NAN;
    run->out.first_wait = run->out.setup = run->out.total = NAN;
    run->out.training_seconds = run->out.training_loss = NAN;
    run->out.accuracy = run->out.evaluated_loss = run->out.peak_bytes = NAN;
    run->notebook_end = run->end = run->step_began = run->epoch_start = run->waited = NAN;
    run->steps.width = run->waits.width = run->gets.width = PLACE_WIDTH;
    run->figures.struct_size = sizeof run->figures;
    run->verdict.struct_size = sizeof run->verdict;
    run->out.verdict = &run->verdict;
    run->out.tiers = run->tiers;
    run->out.machine_summary = "";
    run->first = INFINITY;
    run->last = -INFINITY;
    set_origin(run, start);
    if (!run->heap || !run->counts || !run->row_names)
        return STK_ENOMEM;
    for (int i = 0; i < ROW_FREE; i++)
        memcpy(run->row_names[i], rows[i], strlen(rows[i]) + 1);
    return run->out.headless ? STK_OK : stk__run_settings(report, run, start);
}

void stk__run_free(stk_report *report, stk__run *run)
{
    stk_context *ctx = report->ctx;

    if (!run)
        return;
    stk__values_release(ctx, &run->wait, &report->exact_left);
    stk__values_release(ctx, &run->notebook, &report->exact_left);
    stk__values_release(ctx, &run->get, &report->exact_left);
    stk__recorded_release(ctx, &run->records, &report->records_left);
    stk__free(ctx, run->marks.marks);
    for (uint64_t i = 0; i < run->out.num_series; i++)
        stk__free(ctx, run->series[i]);
    report->series_left += run->out.num_series;
    stk__free(ctx, run->series);
    stk__free(ctx, run->series_out);
    stk__curves_free(report, run);
    stk__settings_free(report, run);
    stk__free(ctx, run->epochs);
    stk__free(ctx, run->losses);
    stk__free(ctx, run->counts);
    stk__free(ctx, run->row_names);
    stk__free(ctx, run->heap);
    stk__free(ctx, run);
}

/* ---- Values of lines ------------------------------------------------------------------------- */

static uint64_t count_of(const stk__log_line *line, const char *key)
{
    const stk__json_member *m = stk__line_find(line, key);
    double value = 0;

    return m && stk__json_member_real(m, STK__RANGE_COUNT, &value) ? (uint64_t)value : 0;
}

/* Seconds from the start of the run. The clock that does not step is taken where the log has it. */
static double time_of(const stk__run *run, const stk__log_line *line)
{
    if (run->monotonic && line->time_ns >= 0)
        return (double)(line->time_ns - run->origin_ns) * 1e-9;
    return line->time - run->origin + run->shift;
}

/* ---- Bars ------------------------------------------------------------------------------------ */

static uint16_t lane_of(stk__run *run, const stk__log_line *line)
{
    uint64_t key = (uint64_t)line->pid << 20 ^ (uint64_t)(line->worker + 2);

    for (uint32_t i = 0; i < run->num_lanes; i++)
        if (run->lanes[i] == key)
            return (uint16_t)i;
    if (run->num_lanes == STK__LANES_MAX)
        return STK__LANES_MAX - 1;
    run->lanes[run->num_lanes] = key;
    return (uint16_t)run->num_lanes++;
}

static stk_status add_bar(stk_report *report, stk__run *run, int row, uint16_t lane, double end,
                          double duration)
{
    if (isnan(duration))
        return STK_OK;
    stk_report_bar bar = {.start = end - duration,
                          .length = (float)duration,
                          .busy = (float)duration,
                          .count = 1,
                          .row = (uint16_t)row,
                          .lane = lane,
                          .run = run->number};
    return stk__bars_add(report->ctx, &report->bars, &bar);
}

/* The row of an event that is not known: "validation end" is a bar of "validation". */
static int row_named(stk__run *run, const char *name)
{
    size_t length = strlen(name);
    int i = ROW_FREE;

    if (length > 4 && strcmp(name + length - 4, " end") == 0)
        length -= 4;
    for (; i < STK_REPORT_ROWS && run->row_names[i][0]; i++)
        if (strlen(run->row_names[i]) == length && memcmp(run->row_names[i], name, length) == 0)
            return i;
    if (i == STK_REPORT_ROWS)
        return -1;
    memcpy(run->row_names[i], name, length);
    return i;
}

/* ---- The training thread, in the order of time ---------------------------------------------- */

static stk_report_epoch *epoch_now(stk__run *run)
{
    return run->out.num_epochs && run->out.epochs_left_out == 0
               ? &run->epochs[run->out.num_epochs - 1]
               : NULL;
}

static stk_status begin_epoch(stk_report *report, stk__run *run, const stk__main *e)
{
    run->epoch_fresh = true;
    run->epoch_start = e->time;
    if (run->out.num_epochs == STK__EPOCHS_MAX) {
        run->out.epochs_left_out++;
        return STK_OK;
    }
    stk_report_epoch *epochs = stk__grow(report->ctx, run->epochs, &run->epochs_room,
                                         run->out.num_epochs + 1, sizeof *epochs);
    if (!epochs)
        return STK_ENOMEM;
    run->epochs = epochs;
    run->epochs[run->out.num_epochs++] =
        (stk_report_epoch){.number = e->number, .start = e->time, .duration = -1, .first_wait = -1};
    return STK_OK;
}

static void end_epoch(stk__run *run, const stk__main *e)
{
    stk_report_epoch *epoch = epoch_now(run);

    if (!epoch || epoch->duration >= 0)
        return;
    epoch->duration = isnan(e->duration) ? e->time - epoch->start : e->duration;
}

/* What an event says it took, which is no longer than its stamps are apart. */
static double within(double said, double apart)
{
    return said > apart + STK__CLOCK_STEP ? STK_MAX(0.0, apart) : said;
}

static stk_status begin_step(stk_report *report, stk__run *run, const stk__main *e)
{
    stk_report_epoch *epoch = epoch_now(run);
    /* A trainer does other things between two steps, and says how long it waited: no longer than
     * they are apart. */
    double wait = isnan(run->end) ? NAN : e->time - run->end;

    if (!isnan(wait) && !isnan(e->wait))
        wait = within(e->wait, wait);

    run->step_began = e->time;
    run->waited = wait;
    if (isnan(wait)) {
        run->first_step = e->time;
        double from = isnan(run->epoch_start) ? run->out.setup : run->epoch_start;
        run->out.first_wait = e->time - from;
        if (epoch && epoch->first_wait < 0)
            epoch->first_wait = run->out.first_wait;
    } else {
        if (epoch) {
            epoch->wait += wait;
            if (run->epoch_fresh)
                epoch->first_wait = wait;
        }
        if (run->epoch_fresh) {
            run->turns++;
            run->turn_sum += wait;
        }
        stk__places_add(&run->waits, e->time, wait);
        STK_TRY(stk__values_add(report->ctx, &run->wait, wait, &report->exact_left));
    }
    run->epoch_fresh = false;
    return STK_OK;
}

static stk_status end_step(stk_report *report, stk__run *run, const stk__main *e)
{
    stk_report_epoch *epoch = epoch_now(run);
    double duration = e->duration;

    if (isnan(duration))
        duration = isnan(run->step_began) ? 0 : STK_MAX(0.0, e->time - run->step_began);
    else if (!isnan(run->step_began))
        duration = within(duration, e->time - run->step_began);
    run->out.steps++;
    run->step_sum += duration;
    if (epoch) {
        epoch->steps++;
        epoch->step += duration;
    }
    stk__places_add(&run->steps, e->time, duration);
    if (!isnan(run->end))
        stk__blocks_add(&run->blocks, e->time - run->end);
    run->end = e->time;
    if (run->out.world_size > 1)
        STK_TRY(
            stk__marks_add(report->ctx, &run->marks,
                           &(stk__mark){.epoch = e->epoch,
                                        .batch = e->number,
                                        .begin = e->time - duration,
                                        .end = e->time,
                                        .wait = (float)run->waited,
                                        .comm_wait = (float)(isnan(e->wait) ? e->comm : e->wait),
                                        .comm = (float)e->comm}));
    return stk__recorded_step(report->ctx, &run->records, duration, &report->records_left);
}

static stk_status work_off(stk_report *report, stk__run *run, const stk__main *e)
{
    switch (e->kind) {
    case STK__MAIN_EPOCH_START:
        return begin_epoch(report, run, e);
    case STK__MAIN_EPOCH_END:
        end_epoch(run, e);
        return STK_OK;
    case STK__MAIN_TRAIN_START:
        return begin_step(report, run, e);
    case STK__MAIN_TRAIN_END:
        return end_step(report, run, e);
    }
    return STK_OK;
}

static bool before(const stk__main *a, const stk__main *b)
{
    return a->time < b->time || (a->time == b->time && a->sequence < b->sequence);
}

/* A heap with the earliest on top. */
static stk__main pop(stk__run *run)
{
    stk__main top = run->heap[0], last = run->heap[--run->heap_n];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < run->heap_n && before(&run->heap[child + 1], &run->heap[child]))
            child++;
        if (child >= run->heap_n || !before(&run->heap[child], &last))
            break;
        run->heap[i] = run->heap[child];
        i = child;
    }
    run->heap[i] = last;
    return top;
}

static void push(stk__run *run, const stk__main *e)
{
    size_t i = run->heap_n++;

    for (; i > 0 && before(e, &run->heap[(i - 1) / 2]); i = (i - 1) / 2)
        run->heap[i] = run->heap[(i - 1) / 2];
    run->heap[i] = *e;
}

stk_status stk__run_drain(stk_report *report, stk__run *run, size_t keep)
{
    while (run->heap_n > keep) {
        stk__main e = pop(run);
        STK_TRY(work_off(report, run, &e));
    }
    return STK_OK;
}

static stk_status add_main(stk_report *report, stk__run *run, stk__main_kind kind,
                           const stk__log_line *line, double time)
{
    const bool starts = kind == STK__MAIN_TRAIN_START, ends = kind == STK__MAIN_TRAIN_END;
    stk__main e = {.time = time,
                   .duration = line->duration,
                   .wait = starts ? stk__line_seconds(line, "wait")
                           : ends ? stk__line_seconds(line, "comm_wait")
                                  : NAN,
                   .comm = ends ? stk__line_seconds(line, "comm") : NAN,
                   .number = kind <= STK__MAIN_EPOCH_END ? line->epoch : line->batch,
                   .epoch = line->epoch,
                   .sequence = run->sequence++,
                   .kind = kind};

    /* After its end no event of the run is waited for. */
    if (!run->heap)
        return work_off(report, run, &e);
    STK_TRY(stk__run_drain(report, run, STK__REORDER - 1));
    push(run, &e);
    return STK_OK;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void count_event(stk__run *run, const char *name, bool is_known)
{
    uint64_t i = 0;

    while (i < run->out.num_counts && strcmp(run->counts[i].name, name) != 0)
        i++;
    if (i == STK__COUNTS_MAX) {
        run->out.other_events++;
        return;
    }
    if (i == run->out.num_counts) {
        memcpy(run->counts[i].name, name, strlen(name) + 1);
        run->counts[i].known = is_known;
        run->out.num_counts++;
    }
    run->counts[i].count++;
}

/* The published notebook's wait: what it reads of the log, in the order of the file. */
static stk_status notebook(stk_report *report, stk__run *run, int event, const stk__log_line *line)
{
    if (event == TRAIN_END)
        run->notebook_end = line->time;
    if (event != TRAIN_START || isnan(run->notebook_end))
        return STK_OK;
    return stk__values_add(report->ctx, &run->notebook, line->time - run->notebook_end,
                           &report->exact_left);
}

/* The wall clock of the training thread was set back: go on from where it was. */
static stk_status mend_clock(stk_report *report, stk__run *run, double *time)
{
    stk_report_file *file = &report->files[run->out.file];

    if (*time >= run->main_last - STK__CLOCK_STEP) {
        run->main_last = STK_MAX(run->main_last, *time);
        return STK_OK;
    }
    STK_TRY(stk__run_drain(report, run, 0));
    double back = run->main_last - *time;
    file->clock_steps++;
    file->clock_back += back;
    run->shift += back;
    *time += back;
    /* How long the step or wait was that the change is in is not known. */
    run->end = NAN;
    return STK_OK;
}

static stk_status get_batch(stk_report *report, stk__run *run, const stk__log_line *line,
                            double time)
{
    if (isnan(line->duration))
        return STK_OK;
    run->out.get_busy += line->duration / (double)line->task;
    stk__places_add(&run->gets, time, line->duration / (double)line->task);
    STK_TRY(stk__values_add(report->ctx, &run->get, line->duration, &(uint64_t){0}));
    STK_TRY(stk__recorded_prepare(report->ctx, &run->records, line->duration / (double)line->task,
                                  line->task, &report->records_left));
    return add_bar(report, run, ROW_GET, lane_of(run, line), time, line->duration);
}

static stk_status other_event(stk_report *report, stk__run *run, const stk__log_line *line,
                              double time)
{
    size_t length = strlen(line->name);

    if (!isnan(line->duration)) {
        int row = row_named(run, line->name);
        return row < 0 ? STK_OK : add_bar(report, run, row, 0, time, line->duration);
    }
    /* The end tells it all. */
    if (length > 6 && strcmp(line->name + length - 6, " start") == 0)
        return STK_OK;
    return stk__run_series(report, run, line, line->name, time, false);
}

/* Epochs of a whole training end in their order. */
static stk_status add_loss(stk_report *report, stk__run *run, const stk__log_line *line,
                           double time)
{
    const stk__json_member *m = stk__line_find(line, "loss");
    const stk_report_point at = {.step = NAN, .epoch = (double)run->num_losses + 1, .time = time};

    if (run->num_losses == STK__EPOCHS_MAX)
        return STK_OK;
    double *losses =
        stk__grow(report->ctx, run->losses, &run->losses_room, run->num_losses + 1, sizeof *losses);
    if (!losses)
        return STK_ENOMEM;
    run->losses = losses;
    losses[run->num_losses] = NAN;
    if (m)
        (void)stk__json_member_real(m, STK__RANGE_ANY, &losses[run->num_losses]);
    run->num_losses++;
    return stk__run_curve(report, run, "train_loss (epoch)", m, &at);
}

static stk_status read_ended(stk_report *report, stk__run *run, const stk__log_line *line,
                             double time)
{
    const double bytes = (double)count_of(line, "bytes");
    char text[32] = "";

    run->out.reads++;
    run->out.read_bytes += (uint64_t)bytes;
    const stk__json_member *m = stk__line_find(line, "status");
    if (m)
        stk__json_member_text(m, text, sizeof text);
    run->out.read_failures += text[0] && strcmp(text, "STK_OK") != 0;
    if (isnan(line->duration))
        return STK_OK;
    run->out.read_seconds += line->duration;
    STK_TRY(stk__recorded_read(report->ctx, &run->records, time - line->duration, line->duration,
                               bytes, &report->records_left));
    return add_bar(report, run, ROW_READ, 0, time, line->duration);
}

static stk_status side_event(stk_report *report, stk__run *run, int event,
                             const stk__log_line *line, double time)
{
    const stk__json_member *m;
    char text[32] = "";

    switch (event) {
    case READ:
        return read_ended(report, run, line, time);
    case BAD_SAMPLE:
        run->out.bad_samples++;
        return STK_OK;
    case THINNED:
        if ((m = stk__line_find(line, "of")))
            stk__json_member_text(m, text, sizeof text);
        if (strcmp(text, "get-batch") == 0)
            run->out.get_dropped += count_of(line, "dropped");
        return STK_OK;
    case LEDGER:
        /* Without an epoch it is that of the whole run, which is none more. */
        return stk__run_series(report, run, line, line->epoch < 0 ? "ledger total" : "ledger",
                               (double)STK_MAX(line->epoch, 0), true);
    case VERDICT:
    case FIGURES:
    case TRAINED:
    case PREDICTION:
        stk__run_logged(run, line);
        return STK_OK;
    case TRAINING_EPOCH:
        return add_loss(report, run, line, time);
    case METRICS:
        return stk__run_metrics(report, run, line, time);
    case GRID_SETTING:
        return stk__report_grid_add(report, line);
    case OTHER:
        return other_event(report, run, line, time);
    default:
        return STK_OK;
    }
}

static stk_status main_event(stk_report *report, stk__run *run, int event,
                             const stk__log_line *line, double time)
{
    if (!run->monotonic)
        STK_TRY(mend_clock(report, run, &time));
    run->last = STK_MAX(run->last, time);
    switch (event) {
    case TRAIN_START:
        STK_TRY(stk__run_value(report, run, "queue", "ready", line, time));
        return add_main(report, run, STK__MAIN_TRAIN_START, line, time);
    case TRAIN_END:
        STK_TRY(add_main(report, run, STK__MAIN_TRAIN_END, line, time));
        return add_bar(report, run, ROW_TRAIN, 0, time, line->duration);
    case EPOCH_START:
        return add_main(report, run, STK__MAIN_EPOCH_START, line, time);
    case EPOCH_END:
        STK_TRY(add_main(report, run, STK__MAIN_EPOCH_END, line, time));
        return add_bar(report, run, ROW_EPOCH, 0, time, line->duration);
    case SETUP_END:
        run->out.setup = isnan(line->duration) ? time : line->duration;
        return add_bar(report, run, ROW_SETUP, 0, time, line->duration);
    case RUN_END:
        run->out.ended = true;
        run->out.total = isnan(line->duration) ? time : line->duration;
        return STK_OK;
    default:
        return STK_OK;
    }
}

stk_status stk__run_event(stk_report *report, stk__run *run, const stk__log_line *line)
{
    stk_report_file *file = &report->files[run->out.file];
    int event = event_of(line->name);

    count_event(run, line->name, event != OTHER);
    run->out.get_batches += event == GET_END;
    run->out.get_starts += event == GET_START;
    double time = time_of(run, line);
    if (isnan(time) || fabs(time) > STK__TIME_MAX) {
        file->bad_times += event < VERDICT || event == OTHER;
        if (event == VERDICT || event == FIGURES)
            stk__run_logged(run, line);
        return STK_OK;
    }
    file->unordered += time < run->any_last;
    run->any_last = time;
    if (line->alone && !isnan(line->time))
        STK_TRY(notebook(report, run, event, line));
    if (event == GET_END)
        return get_batch(report, run, line, time);
    if (event >= TRAIN_START && event <= RUN_END)
        return main_event(report, run, event, line, time);
    return event == GET_START ? STK_OK : side_event(report, run, event, line, time);
}
