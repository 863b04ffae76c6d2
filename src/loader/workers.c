/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that do what there is to do, planning first, and the consumer's part in it. */
#include <stdio.h>

#include "loader/workers.h"

/* A row this cheap is prepared by a consumer that waits. */
#define HELP_ROW_NS 10e3
/* A task of a later batch that takes longer and keeps the consumer from its own is the last such
 * task for so many times as long: stragglers keep it at most 1 % of the time. */
#define KEPT_NS    1000000u
#define KEPT_TIMES 100u

/* ---- Records ---- */

uint64_t stk__worker_bytes(const stk__workers *w)
{
    return STK__PREPARE_ROWS * (sizeof(stk_sample) + w->dataset->num_fields * sizeof(stk_value) +
                                4 * sizeof(void *)) +
           w->prepare_rows * w->staging_row + w->scratch_bytes + w->now_bytes +
           w->many_rows * (sizeof(stk_status) + sizeof(char *) + sizeof(uint64_t)) +
           w->dataset->worker_bytes + 4096;
}

static stk_status init_worker(stk__worker *worker, stk__workers *team, uint32_t number)
{
    const uint64_t n = STK__PREPARE_ROWS, fields = team->dataset->num_fields;
    stk_context *ctx = team->ctx;

    worker->team = team;
    worker->number = number;
    worker->samples = stk__calloc(ctx, n, sizeof *worker->samples);
    worker->values = stk__calloc(ctx, n * fields, sizeof *worker->values);
    worker->many_fields = stk__calloc(ctx, fields, sizeof *worker->many_fields);
    worker->many_statuses = stk__calloc(ctx, team->many_rows + 1, sizeof *worker->many_statuses);
    worker->many_reasons = stk__calloc(ctx, team->many_rows + 1, sizeof *worker->many_reasons);
    worker->many_lines = stk__calloc(ctx, team->many_rows + 1, sizeof *worker->many_lines);
    worker->sources = stk__calloc(ctx, n, sizeof *worker->sources);
    worker->targets = stk__calloc(ctx, n, sizeof *worker->targets);
    worker->run_positions = stk__calloc(ctx, n, sizeof *worker->run_positions);
    worker->run_epochs = stk__calloc(ctx, n, sizeof *worker->run_epochs);
    worker->blob_head = stk__calloc(ctx, fields, sizeof *worker->blob_head);
    worker->blob = stk__calloc(ctx, fields + 1, sizeof *worker->blob);
    worker->staging = stk__alloc_buffer(ctx, team->prepare_rows * team->staging_row);
    worker->scratch = stk__alloc_buffer(ctx, team->scratch_bytes);
    if (team->now_bytes)
        worker->now.data = stk__alloc_buffer(ctx, team->now_bytes);
    if (team->dataset->ops->worker_open)
        STK_TRY(stk__dataset_failure(team->dataset->ops->worker_open(team->dataset, &worker->state),
                                     &(const char *){NULL}));
    if (team->decodes)
        STK_TRY(stk__decoding_create(ctx, &team->decode_room, &worker->decoding));
    return worker->samples && worker->values && worker->many_fields && worker->many_statuses &&
                   worker->many_reasons && worker->many_lines && worker->sources &&
                   worker->targets && worker->run_positions && worker->run_epochs &&
                   worker->blob_head && worker->blob && worker->staging && worker->scratch &&
                   (worker->now.data || !team->now_bytes)
               ? STK_OK
               : STK_ENOMEM;
}

static void release_worker(stk__worker *worker)
{
    if (!worker->team)
        return;
    stk_context *ctx = worker->team->ctx;
    stk__free(ctx, worker->samples);
    stk__free(ctx, worker->values);
    stk__free(ctx, worker->many_fields);
    stk__free(ctx, worker->many_statuses);
    stk__free(ctx, worker->many_reasons);
    stk__free(ctx, worker->many_lines);
    stk__free(ctx, worker->sources);
    stk__free(ctx, worker->targets);
    stk__free(ctx, worker->run_positions);
    stk__free(ctx, worker->run_epochs);
    stk__free(ctx, worker->blob_head);
    stk__free(ctx, worker->blob);
    stk__free(ctx, worker->staging);
    stk__free(ctx, worker->scratch);
    stk__free(ctx, worker->now.data);
    stk__decoding_destroy(&worker->decoding);
    if (worker->state)
        worker->team->dataset->ops->worker_close(worker->team->dataset, worker->state);
    worker->state = NULL;
}

stk_status stk__workers_init(stk__workers *w, uint32_t num, uint32_t active, uint64_t decode_each,
                             uint64_t decode_most)
{
    stk__cond_init(&w->more);
    w->active = active;
    if (w->decodes)
        STK_TRY(stk__decode_room_init(&w->decode_room, decode_each, decode_most));
    STK_TRY(init_worker(&w->self, w, UINT32_MAX));
    if (num == 0)
        return STK_OK;
    w->each = stk__calloc(w->ctx, num, sizeof *w->each);
    if (!w->each)
        return STK_ENOMEM;
    w->num = num;
    for (uint32_t i = 0; i < num; i++)
        STK_TRY(init_worker(&w->each[i], w, i));
    return STK_OK;
}

void stk__workers_shrink(stk__workers *w, uint32_t num)
{
    for (uint32_t i = num; i < w->num; i++)
        release_worker(&w->each[i]);
    w->num = STK_MIN(w->num, num);
    w->active = STK_MIN(w->active, num);
}

void stk__workers_release(stk__workers *w)
{
    if (!w->ctx)
        return;
    stk__workers_shrink(w, 0);
    release_worker(&w->self);
    stk__free(w->ctx, w->each);
    stk__decode_room_release(&w->decode_room);
    pthread_cond_destroy(&w->more);
}

/* ---- Work ---- */

/* Whether a worker that finds nothing to do lacks room rather than input: every slab is finished.
 * (L) held. */
static bool ring_full_locked(const stk__workers *w)
{
    for (uint64_t serial = w->steps->first; serial < w->steps->slab_end; serial++)
        if (!stk__step_at(w->steps, serial)->complete)
            return false;
    return w->ring->num_free == 0;
}

/* Whether there is a row to take, a unit to decode or a step to plan. (L) held. */
static bool work_left_locked(const stk__workers *w)
{
    return stk__can_plan_locked(w->planner) || stk__decode_left_locked(w->units) ||
           stk__steps_ready_locked(w->steps) != UINT64_MAX;
}

/* Whoever finds work wakes the next if there is more. (L) held. */
static void wake_next_locked(const stk__workers *w)
{
    if (work_left_locked(w))
        pthread_cond_signal(&w->ring->work);
}

/* One of those that are not to be at work sleeps; whoever woke it had work for another. (L) held.
 */
static void sleep_idle_locked(const stk__worker *worker)
{
    stk__workers *w = worker->team;

    if (worker->number < w->active)
        return;
    wake_next_locked(w);
    while (worker->number >= w->active && !w->stopping)
        pthread_cond_wait(&w->more, &w->ring->lock);
}

/* Until there is something to do. (L) held. */
static void wait_locked(stk__workers *w)
{
    const bool full = ring_full_locked(w);
    const uint64_t start = stk__stamp();

    if (!full) {
        w->num_idle++;
        w->idle_begins_ns += start;
    }
    stk__cond_wait_until(&w->ring->work, &w->ring->lock, w->planner->reads->due_ns);
    const uint64_t end = stk__stamp();
    if (full) {
        w->wait_out_ns += end - start;
        return;
    }
    w->num_idle--;
    w->idle_begins_ns -= start;
    w->wait_in_ns += end - start;
    w->idle_ns = end;
}

uint64_t stk__workers_idle_locked(const stk__workers *w, uint64_t now_ns)
{
    const uint64_t sum = w->wait_in_ns + w->num_idle * now_ns - w->idle_begins_ns;

    return sum / STK_MAX(w->active, 1u);
}

static void worker_main(void *argument)
{
    stk__worker *worker = argument;
    stk__workers *w = worker->team;
    pthread_mutex_t *lock = &w->ring->lock;
    stk__unit *unit;

    stk__thread_background();
    pthread_mutex_lock(lock);
    for (bool planned = false; sleep_idle_locked(worker), !w->stopping;) {
        /* Planning comes first: it keeps reads on their way, and it is short. Between two rounds
         * there is a task. */
        if (stk__reads_pump_due_locked(w->planner->reads)) {
            continue;
        } else if (!planned && stk__can_plan_locked(w->planner)) {
            stk__plan_round_locked(w->planner);
            planned = true;
        } else if ((unit = stk__decode_take_locked(w->units))) {
            wake_next_locked(w);
            pthread_mutex_unlock(lock);
            stk__decode_run(unit, worker->number, worker->state, &worker->doing);
            planned = false;
        } else if (!w->steps->draining && stk__task_take_locked(worker)) {
            wake_next_locked(w);
            pthread_mutex_unlock(lock);
            stk__task_run(worker);
            planned = false;
        } else if (planned) {
            planned = false; /* no task between them: plan on */
        } else {
            wait_locked(w);
        }
    }
    w->running--;
    pthread_cond_broadcast(&w->ring->finished);
    pthread_mutex_unlock(lock);
}

/*
 * All of the work where there are no workers, and cheap rows where the consumer would only wait,
 * which costs less than to sleep and be woken. Reads are planned by workers alone: that may block.
 * So may what outsiders wrote, beyond timeout and cancel.
 */
bool stk__consumer_help_locked(stk__workers *w, bool own)
{
    const bool alone = w->num == 0;

    if (!alone && (!own || w->mean_row_ns > HELP_ROW_NS))
        return false;
    if ((alone || !w->dataset->ops->locate || (w->keeping->cache && !w->planner->sends)) &&
        stk__can_plan_locked(w->planner)) {
        stk__plan_round_locked(w->planner);
        wake_next_locked(w);
        return true;
    }
    stk__unit *unit = alone ? stk__decode_take_locked(w->units) : NULL;
    if (unit) {
        pthread_mutex_unlock(&w->ring->lock);
        stk__decode_run(unit, w->self.number, w->self.state, &w->self.doing);
        return true;
    }
    if (w->steps->draining || !stk__task_take_locked(&w->self))
        return false;
    wake_next_locked(w);
    const bool later = !alone && w->self.step->serial != w->steps->first;
    pthread_mutex_unlock(&w->ring->lock);
    const uint64_t start = stk__now_ns();
    stk__task_run(&w->self);
    if (later && stk__step_at(w->steps, w->steps->first)->complete) {
        const uint64_t now = stk__now_ns();
        if (now - start > KEPT_NS)
            w->near_until_ns = now + KEPT_TIMES * (now - start);
    }
    return true;
}

/* ---- Threads ---- */

/* Those of the records up to `num` that have none. (L) free. */
static stk_status start(stk__workers *w, uint32_t num, stk_error *err)
{
    for (; w->started < num; w->started++) {
        stk__worker *worker = &w->each[w->started];
        char name[24];
        snprintf(name, sizeof name, "stk-worker-%u", w->started);
        pthread_mutex_lock(&w->ring->lock);
        w->running++;
        pthread_mutex_unlock(&w->ring->lock);
        const stk_status status =
            stk__thread_start(w->ctx, &worker->thread, name, worker_main, worker, err);
        if (status == STK_OK)
            continue;
        pthread_mutex_lock(&w->ring->lock);
        w->running--;
        pthread_mutex_unlock(&w->ring->lock);
        return status;
    }
    return STK_OK;
}

stk_status stk__workers_start(stk__workers *w, stk_error *err)
{
    return start(w, w->active, err);
}

uint32_t stk__workers_move(stk__workers *w, uint32_t active)
{
    active = STK_MAX(STK_MIN(active, w->num), 1u);
    (void)start(w, active, NULL);
    active = STK_MIN(active, w->started);
    pthread_mutex_lock(&w->ring->lock);
    w->active = active;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->ring->lock);
    return active;
}

void stk__workers_stop_locked(stk__workers *w, bool stop)
{
    w->stopping = stop;
    pthread_cond_broadcast(&w->ring->work);
    pthread_cond_broadcast(&w->more);
}

bool stk__workers_wait_locked(stk__workers *w, uint64_t until)
{
    while (w->running)
        if (!stk__cond_wait_until(&w->ring->finished, &w->ring->lock, until) && w->running)
            return false;
    return true;
}

void stk__workers_join(stk__workers *w)
{
    for (; w->started; w->started--)
        stk__thread_join(&w->each[w->started - 1].thread);
}
