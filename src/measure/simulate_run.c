/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of the model. What is a thread, a queue or a limit in the loader is one here:
 *
 *   admit    a free worker plans: rows in order, as far as records of steps and the pool go
 *   read     at most `depth` under way for a rank, in order; one link for all
 *   prepare  workers take tasks of the oldest step that has a slab and ready rows
 *   deliver  in order; the slab comes back when the step has ended
 *   meet     where ranks train together: the last of all machines is waited for
 */
#include "measure/simulate_rank.h"

#include <math.h>

#include "base/random.h"

#define RETRY_FIRST 10e-3 /* s, then twice as long each time [store/fetch.h] */
#define RETRY_MOST  5.0

enum { READ_ENDS, RETRY_DUE, TASK_COMPUTED, TASK_ENDS, STEP_ENDS, MEETING_ENDS, BESIDE_ENDS };

/* ---- Draws ---- */

static double draw(stk__sim *m, stk__sim_rank *r)
{
    uint32_t words[4];

    stk__draw(m->seed, r->number, r->draws++, STK_DRAW_DATA, words, 4);
    return (words[0] + 0.5) * 0x1p-32;
}

/* The next of `n` records: in their order, or in blocks of neighbours that begin anywhere. Samples
 * and their reads begin in the same place of the run. */
static uint64_t next_record(stk__sim *m, stk__sim_rank *r, stk__sim_walk *walk, uint64_t n)
{
    if (m->seed && walk->left == 0) {
        const double place = draw(m, r);
        walk->at = (uint64_t)(place * (double)n);
        walk->left = STK_MIN(STK_MAX(n / 16, 16), 1024);
        if (walk == &r->samples && m->stages->num_reads)
            r->bytes.at = (uint64_t)(place * (double)m->stages->num_reads);
    }
    walk->left -= walk->left > 0;
    return walk->at++ % n;
}

/* ---- Reads ---- */

static stk__sim_read *read_at(stk__sim_rank *r, uint64_t id)
{
    return &r->reads[id % r->read_room];
}

static stk__sim_row *row_at(stk__sim_rank *r, uint64_t row)
{
    return &r->rows[row % r->row_room];
}

static stk__sim_step *step_at(stk__sim_rank *r, uint64_t serial)
{
    return &r->steps[serial % r->records];
}

static void row_ready(stk__sim *m, stk__sim_rank *r, uint64_t row)
{
    const uint32_t batch = m->setting->batch;
    const uint64_t serial = row / batch;
    stk__sim_step *step = step_at(r, serial);

    r->ready[serial % r->records * batch + step->ready_end++] = (uint32_t)(row % batch);
    r->ready_from = STK_MIN(r->ready_from, serial);
}

static stk_status start_read(stk__sim *m, stk__sim_rank *r, uint64_t id)
{
    const stk__stages *s = m->stages;
    const stk__sim_read *read = read_at(r, id);
    double carried = m->clock.now;

    if (isfinite(s->bandwidth)) {
        carried = STK_MAX(carried, m->link_free) + s->bytes[read->record] / s->bandwidth;
        m->link_free = carried;
    }
    r->under_way++;
    return stk__sim_after(&m->clock, carried - m->clock.now + s->latency[read->record], READ_ENDS,
                          r->number, id);
}

/* Send what may be sent: what is tried again first. */
static stk_status send_reads(stk__sim *m, stk__sim_rank *r)
{
    while (r->under_way < m->depth && (r->again != UINT64_MAX || r->sent < r->read_end)) {
        uint64_t id = r->again;
        if (id != UINT64_MAX)
            r->again = read_at(r, id)->next_again;
        else
            id = r->sent++;
        STK_TRY(start_read(m, r, id));
    }
    return STK_OK;
}

/* One row less needs a read; what was read goes with the last. */
static void let_go(stk__sim *m, stk__sim_rank *r, uint64_t id)
{
    stk__sim_read *read = read_at(r, id);

    if (--read->left == 0)
        r->pool_used -= (double)read->held;
    while (r->read_first < r->read_end && read_at(r, r->read_first)->left == 0)
        r->read_first++;
}

static stk_status read_ended(stk__sim *m, stk__sim_rank *r, uint64_t id)
{
    stk__sim_read *read = read_at(r, id);

    r->under_way--;
    if (m->stages->fail_share > 0 && draw(m, r) < m->stages->fail_share) {
        const double wait = STK_MIN(ldexp(RETRY_FIRST, STK_MIN(read->tries, 16)), RETRY_MOST);
        read->tries++;
        STK_TRY(
            stk__sim_after(&m->clock, wait * (0.5 + 0.5 * draw(m, r)), RETRY_DUE, r->number, id));
        return send_reads(m, r);
    }
    read->done = true;
    for (uint64_t row = read->row_first; row <= read->row_last; row++) {
        stk__sim_row *waiting = row_at(r, row);
        const bool its = id >= waiting->read && id < waiting->read + waiting->reads;
        if (its && --waiting->pending == 0)
            row_ready(m, r, row);
    }
    return send_reads(m, r);
}

static stk_status retry_due(stk__sim *m, stk__sim_rank *r, uint64_t id)
{
    read_at(r, id)->next_again = r->again;
    r->again = id;
    return send_reads(m, r);
}

/* ---- Planning ---- */

/* A read for `row`, which stays open for the rows behind it where `open`. */
static void add_read(stk__sim *m, stk__sim_rank *r, uint64_t row, bool open)
{
    const uint64_t record = next_record(m, r, &r->bytes, m->stages->num_reads);
    const float held = (float)(stk__buffer_of(m->stages->bytes[record]) + m->decoded);

    *read_at(r, r->read_end++) = (stk__sim_read){
        .row_first = row, .row_last = row, .left = open ? 2 : 1, .record = record, .held = held};
    r->pool_used += held;
    r->promised += STK_MAX(m->read_cost - held, 0.0);
    r->pool_most = STK_MAX(r->pool_most, r->pool_used);
}

/* The reads that a row is the first to need. */
static void add_reads(stk__sim *m, stk__sim_rank *r, uint64_t number, stk__sim_row *row,
                      uint32_t count)
{
    row->read = r->read_end;
    row->reads = row->pending = count;
    r->open = m->stages->reads < 1;
    for (uint32_t i = 0; i < count; i++)
        add_read(m, r, number, r->open);
}

/* A row that needs what was read for the one before. */
static void join_read(stk__sim_rank *r, uint64_t number, stk__sim_row *row)
{
    stk__sim_read *read = read_at(r, r->read_end - 1);

    row->read = r->read_end - 1;
    row->reads = 1;
    row->pending = !read->done;
    read->left++;
    read->row_last = number;
}

/* Whether the bytes of a row are in the cache: of as many as it holds, evenly spread. */
static bool is_cached(const stk__sim *m, uint64_t row)
{
    return fmod((double)row * 0.6180339887498949, 1.0) < m->setting->hit_share;
}

/* What a worker has to do for a row: less where what it would decode is in the cache. */
static float work_of(stk__sim *m, stk__sim_rank *r, uint64_t row)
{
    const float work = m->stages->prepare[next_record(m, r, &r->samples, m->stages->num_prepare)];

    return is_cached(m, row) ? STK_MAX(work - (float)m->setting->hit_saves, 0.0f) : work;
}

/* The next row in order; false: not now. */
static bool admit_row(stk__sim *m, stk__sim_rank *r)
{
    const uint64_t number = r->admitted;
    const bool reads = m->stages->reads > 0 && !is_cached(m, number);
    const double wanted = reads ? r->wanted + m->stages->reads : r->wanted;
    const uint32_t count = reads ? (uint32_t)(wanted + 1e-9) : 0;

    if (count && r->open) { /* nobody joins the last read any more */
        let_go(m, r, r->read_end - 1);
        r->open = false;
    }
    if (count && r->read_end > r->read_first &&
        ((r->pool_limit > 0 && r->pool_used + r->promised + count * m->read_cost > r->pool_limit) ||
         r->read_end - r->read_first + count > r->read_room))
        return false;
    if (number % m->setting->batch == 0)
        *step_at(r, number / m->setting->batch) = (stk__sim_step){0};
    stk__sim_row *row = row_at(r, number);
    *row = (stk__sim_row){.work = work_of(m, r, number)};
    r->wanted = wanted - count;
    if (count)
        add_reads(m, r, number, row, count);
    else if (reads && r->open)
        join_read(r, number, row);
    r->admitted++;
    if (row->pending == 0)
        row_ready(m, r, number);
    return true;
}

/* Rows in order, as far as there is room for steps and for what they read. */
static stk_status plan(stk__sim *m, stk__sim_rank *r)
{
    const uint64_t batch = m->setting->batch;
    const uint64_t end = STK_MIN(r->first + r->records, r->limit);

    r->promised = 0;
    while (r->admitted < end * batch && admit_row(m, r))
        ;
    return send_reads(m, r);
}

/* ---- Preparing ---- */

static stk_status start_task(stk__sim *m, stk__sim_rank *r, uint32_t number, double work)
{
    stk__sim_worker *worker = &r->workers[number];
    const double computes = work * m->stages->cpu_share;

    worker->sleeps = work - computes;
    m->loader_cpu += computes;
    if (computes > 0)
        return stk__sim_compute(&m->clock, computes, 1, TASK_COMPUTED, r->number, number);
    return stk__sim_after(&m->clock, worker->sleeps, TASK_ENDS, r->number, number);
}

/* The rows of a task for a worker, of the oldest step that has any; their work, or < 0: none. */
static double take_rows(stk__sim *m, stk__sim_rank *r, uint32_t number, uint32_t most)
{
    const uint64_t batch = m->setting->batch;
    const uint64_t end = STK_MIN(r->ended + r->slabs, (r->admitted + batch - 1) / batch);
    stk__sim_worker *worker = &r->workers[number];
    uint64_t serial = STK_MAX(r->ready_from, r->first);
    double work = 0;

    while (serial < end && step_at(r, serial)->ready_first == step_at(r, serial)->ready_end)
        serial++;
    r->ready_from = serial;
    if (serial >= end)
        return -1;
    stk__sim_step *step = step_at(r, serial);
    worker->serial = serial;
    for (worker->n = 0; worker->n < most && step->ready_first < step->ready_end; worker->n++) {
        const uint32_t i = r->ready[serial % r->records * batch + step->ready_first++];
        worker->rows[worker->n] = i;
        work += row_at(r, serial * batch + i)->work;
    }
    return work;
}

/* A batch for a worker that makes it alone: each has its own, in turn, and makes them in order. */
static double take_batch(stk__sim *m, stk__sim_rank *r, uint32_t number)
{
    const uint32_t workers = STK_MAX(m->setting->workers, 1);
    stk__sim_worker *worker = &r->workers[number];
    const uint64_t serial = worker->n ? worker->serial + workers : number;
    double work = 0;

    if (serial >= r->first + r->records || serial >= r->limit)
        return -1;
    worker->n = m->setting->batch;
    worker->serial = serial;
    *step_at(r, serial) = (stk__sim_step){0};
    for (uint32_t i = 0; i < m->setting->batch; i++)
        work += m->stages->prepare[next_record(m, r, &r->samples, m->stages->num_prepare)];
    return work;
}

/* A worker that has nothing to do looks for a task. False: there is none. */
static bool take_task(stk__sim *m, stk__sim_rank *r, uint32_t number, stk_status *status)
{
    const bool own = number == m->setting->workers; /* it is the thread of the step */
    const uint32_t most = own && number ? STK_MAX(m->task_rows / 4, 1) : m->task_rows;
    double work;

    if (m->setting->whole_batches) {
        work = take_batch(m, r, number);
    } else {
        if (!own || number == 0)
            *status = plan(m, r);
        work = take_rows(m, r, number, most);
    }
    if (work < 0 || *status != STK_OK)
        return false;
    *status = start_task(m, r, number, work);
    return true;
}

static stk_status put_to_work(stk__sim *m, stk__sim_rank *r)
{
    const bool own = r->waiting && !r->helping && (m->setting->workers == 0 || m->setting->helps);
    stk_status status = STK_OK;

    /* In whole batches each worker has its own to look for. */
    for (uint32_t i = r->idle; i-- > 0 && status == STK_OK;) {
        const uint32_t number = r->idlers[i];
        if (take_task(m, r, number, &status))
            r->idlers[i] = r->idlers[--r->idle];
        else if (!m->setting->whole_batches)
            break;
    }
    if (own && status == STK_OK)
        r->helping = take_task(m, r, m->setting->workers, &status);
    return status;
}

/* CPU time of other threads, which nobody waits for but which takes cores. */
static stk_status work_beside(stk__sim *m, stk__sim_rank *r, double seconds)
{
    r->beside += seconds;
    if (r->beside_busy || !(r->beside > 0))
        return STK_OK;
    const double now = r->beside;
    r->beside = 0;
    r->beside_busy = true;
    m->loader_cpu += now;
    return stk__sim_compute(&m->clock, now, 1, BESIDE_ENDS, r->number, 0);
}

/* ---- The step ---- */

static stk_status begin_step(stk__sim *m, stk__sim_rank *r)
{
    const stk__stages *s = m->stages;
    const uint32_t threads = m->setting->compute;
    const double alone = s->steps[next_record(m, r, &r->step_times, s->num_steps)];

    stk__sim_note_wait(m, r);
    step_at(r, r->first)->complete = false;
    r->waiting = false;
    r->first++;
    r->began = m->clock.now;
    r->alone = alone;
    if (threads && alone > 0)
        return stk__sim_compute(&m->clock, alone, threads, STEP_ENDS, r->number, 0);
    return stk__sim_after(&m->clock, alone, STEP_ENDS, r->number, 0);
}

/* The step asks for its batch: it is there, or the thread helps to make it, or waits. */
static stk_status ask(stk__sim *m, stk__sim_rank *r)
{
    if (r->waiting && !r->helping && step_at(r, r->first)->complete)
        STK_TRY(begin_step(m, r));
    return put_to_work(m, r);
}

/* The next step, or what comes before it. */
static stk_status go_on(stk__sim *m, stk__sim_rank *r)
{
    r->waiting = true;
    r->asked = m->clock.now;
    if (r->first == r->limit)
        r->limit += m->setting->epoch_steps;
    return ask(m, r);
}

/* How long the slowest of the other machines takes for the step: each draws from what one takes. */
static double slowest_other(stk__sim *m)
{
    const stk__setting *set = m->setting;

    if (set->num_others == 0 || set->machines < 2)
        return 0;
    const double place = pow(draw(m, &m->ranks[0]), 1 / (double)(set->machines - 1));
    return set->others[STK_MIN((uint64_t)(place * (double)set->num_others), set->num_others - 1)];
}

static stk_status meet(stk__sim *m)
{
    const double own = m->clock.now - m->met_at, longer = slowest_other(m) - own;

    stk__sim_note_own(m, own);
    return stk__sim_after(&m->clock, STK_MAX(longer, 0.0) + m->setting->meeting, MEETING_ENDS, 0,
                          0);
}

static stk_status meeting_ended(stk__sim *m)
{
    stk_status status = STK_OK;

    m->met = 0;
    m->met_at = m->clock.now;
    for (uint32_t i = 0; i < m->setting->ranks && status == STK_OK; i++)
        status = go_on(m, &m->ranks[i]);
    return status;
}

static stk_status step_ended(stk__sim *m, stk__sim_rank *r)
{
    r->ended++;
    stk__sim_note_step(m, r);
    if (!m->setting->meets)
        return go_on(m, r);
    if (++m->met == m->setting->ranks)
        STK_TRY(meet(m));
    return put_to_work(m, r);
}

static stk_status task_ended(stk__sim *m, stk__sim_rank *r, uint32_t number)
{
    const stk__sim_worker *worker = &r->workers[number];
    const uint64_t batch = m->setting->batch;
    stk__sim_step *step = step_at(r, worker->serial);

    for (uint32_t i = 0; i < worker->n && !m->setting->whole_batches; i++) {
        const stk__sim_row *row = row_at(r, worker->serial * batch + worker->rows[i]);
        for (uint32_t k = 0; k < row->reads; k++)
            let_go(m, r, row->read + k);
    }
    step->done += worker->n;
    step->complete = step->done == batch;
    STK_TRY(work_beside(m, r, worker->n * m->stages->cpu_beside));
    if (number == m->setting->workers)
        r->helping = false;
    else
        r->idlers[r->idle++] = number;
    return ask(m, r);
}

/* ---- The run ---- */

static stk_status handle(stk__sim *m, const stk__sim_event *event)
{
    stk__sim_rank *r = &m->ranks[event->rank];
    const uint32_t number = (uint32_t)event->number;

    switch (event->what) {
    case READ_ENDS:
        STK_TRY(read_ended(m, r, event->number));
        return put_to_work(m, r);
    case RETRY_DUE:
        return retry_due(m, r, event->number);
    case TASK_COMPUTED:
        if (r->workers[number].sleeps > 0)
            return stk__sim_after(&m->clock, r->workers[number].sleeps, TASK_ENDS, r->number,
                                  number);
        return task_ended(m, r, number);
    case TASK_ENDS:
        return task_ended(m, r, number);
    case STEP_ENDS:
        return step_ended(m, r);
    case MEETING_ENDS:
        return meeting_ended(m);
    case BESIDE_ENDS:
        r->beside_busy = false;
        return work_beside(m, r, 0);
    default:
        return STK_OK;
    }
}

stk_status stk__simulate(const stk__stages *stages, const stk__setting *setting, uint64_t seed,
                         stk__simulated *out, stk_error *err)
{
    stk__sim m = {
        .stages = stages, .setting = setting, .seed = seed, .waits = out->waits, .owns = out->owns};
    stk__sim_event event;
    stk_status status = stk__sim_make(&m, err);

    for (uint32_t i = 0; i < setting->ranks && status == STK_OK; i++)
        status = ask(&m, &m.ranks[i]);
    while (status == STK_OK && m.running && stk__sim_next(&m.clock, &event))
        status = handle(&m, &event);
    if (status == STK_ENOMEM)
        stk__fail(err, status, STK_STAGE_MEASURE, "no memory to simulate");
    else if (status == STK_OK && m.running)
        status = stk__fail(err, STK_EINTERNAL, STK_STAGE_MEASURE,
                           "the simulated loader came to a stand after %.3g s", m.clock.now);
    else if (status == STK_OK)
        stk__sim_figures(&m, out);
    stk__sim_free(&m);
    return status;
}
