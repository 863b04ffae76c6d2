/* SPDX-License-Identifier: Apache-2.0 */
/* What a setting comes to: slabs, room ahead, the pool; and what is measured of the model. */
#include "measure/simulate_rank.h"

#include <math.h>

#define TASK_SECONDS 100e-6 /* of work that a task has, about [loader/work.c] */
#define TASK_MOST    512
#define WARM_MOST    64

/* What the budget has room for of what is wanted; without one all of it. What is planned beyond the
 * reads that are kept going brings rows together that share something, which simulate_shared.c
 * knows. */
static void divide(const stk__sim *m, stk__sim_rank *r, uint32_t wanted)
{
    const stk__setting *set = m->setting;
    const bool ahead = m->stages->reads > 0 && set->workers;

    r->slabs = wanted;
    const uint32_t horizon =
        ahead ? (uint32_t)stk__shares_horizon(set->depth, set->batch, 0, set->batch) : 0;
    r->records = wanted + horizon;
    if (!(set->budget > 0))
        return;
    const stk__shares shares = stk__setting_shares(m->stages, set);
    r->slabs = shares.slabs;
    r->records = STK_MIN(shares.steps, shares.slabs + horizon);
    r->pool_limit = STK_MAX((double)shares.pool, 1.0);
}

static stk_status fail_large(const stk__setting *set, const char *what, double has, double most,
                             stk_error *err)
{
    return stk__fail(err, STK_ELIMIT, STK_STAGE_MEASURE,
                     "cannot simulate num_workers %u, prefetch_factor %u, batch_size %u, io_depth "
                     "%u: %.3g %s are more than %.3g",
                     set->workers, set->prefetch, set->batch, set->depth, has, what, most);
}

/* Rooms of a rank; what they come to has to be bounded, as a log is written by anybody. */
static stk_status size_rank(const stk__sim *m, stk__sim_rank *r, stk_error *err)
{
    const stk__setting *set = m->setting;
    const double each = STK_MAX(ceil(m->stages->reads), 1.0);
    const uint32_t slabs = stk__setting_slabs(set);

    if (set->whole_batches) {
        r->records = slabs - 1;
        r->slabs = slabs;
    } else {
        divide(m, r, slabs);
        if (set->workers == 0)
            r->records = 1; /* one step at a time, nothing is ahead */
        r->row_room = (uint64_t)r->records * set->batch;
    }
    const double reads = each * (double)r->row_room * set->ranks;
    if (reads > STK__SIMULATED_RING)
        return fail_large(set, "samples and reads ahead", reads, STK__SIMULATED_RING, err);
    r->read_room = (uint64_t)(each * (double)r->row_room) + 1;
    return STK_OK;
}

static stk_status make_rank(stk__sim *m, stk__sim_rank *r, stk_error *err)
{
    stk_context *ctx = m->clock.ctx;
    const uint32_t workers = m->setting->workers;

    STK_TRY(size_rank(m, r, err));
    r->again = UINT64_MAX;
    r->waiting = true;
    r->limit = m->setting->epoch_steps ? m->setting->epoch_steps : UINT64_MAX;
    /* The first row needs a read in any case; ranks begin at different places of the records. */
    r->wanted = m->stages->reads < 1 ? 1 - m->stages->reads : 0;
    r->samples.at = m->stages->num_prepare * r->number / m->setting->ranks;
    r->bytes.at = m->stages->num_reads * r->number / m->setting->ranks;
    r->step_times.at = m->stages->num_steps * r->number / m->setting->ranks;
    r->steps = stk__calloc(ctx, r->records, sizeof *r->steps);
    r->rows = stk__calloc(ctx, r->row_room + 1, sizeof *r->rows);
    r->ready = stk__calloc(ctx, r->row_room + 1, sizeof *r->ready);
    r->reads = stk__calloc(ctx, r->read_room, sizeof *r->reads);
    r->workers = stk__calloc(ctx, workers + 1, sizeof *r->workers);
    r->idlers = stk__calloc(ctx, workers + 1, sizeof *r->idlers);
    r->task_rows = stk__calloc(ctx, (size_t)(workers + 1) * m->task_rows, sizeof *r->task_rows);
    if (!r->steps || !r->rows || !r->ready || !r->reads || !r->workers || !r->idlers ||
        !r->task_rows)
        return STK_ENOMEM;
    for (uint32_t i = 0; i <= workers; i++)
        r->workers[i].rows = r->task_rows + (size_t)i * m->task_rows;
    for (uint32_t i = 0; i < workers; i++)
        r->idlers[r->idle++] = workers - 1 - i;
    return STK_OK;
}

/* How many steps come before those that are measured, and how many are. */
static stk_status plan_steps(stk__sim *m, stk_error *err)
{
    const stk__setting *set = m->setting;
    const double each = set->batch * STK_MAX(m->stages->reads, 1.0) * set->ranks;
    const uint64_t most = STK__SIMULATED_STEPS / set->ranks, epoch = set->epoch_steps;
    const double by_rows = floor(STK__SIMULATED_ROWS / each);

    m->wanted = STK_MIN((uint64_t)STK_MAX(by_rows, (double)STK__SIMULATED_LEAST), most);
    if (epoch && epoch <= most)
        m->wanted = STK_MIN((m->wanted + epoch - 1) / epoch, most / epoch) * epoch;
    m->warm = 2 + STK_MIN((uint64_t)set->prefetch * set->workers, WARM_MOST);
    const double all = each * (double)(m->warm + m->wanted);
    if (all > (double)STK__SIMULATED_ALL)
        return fail_large(set, "samples and reads", all, (double)STK__SIMULATED_ALL, err);
    return STK_OK;
}

stk_status stk__sim_make(stk__sim *m, stk_error *err)
{
    const stk__setting *set = m->setting;
    const stk__stages *s = m->stages;
    const double rows = TASK_SECONDS / STK_MAX(s->mean_prepare, 1e-9);

    m->clock.ctx = s->ctx;
    m->clock.cores = set->cores;
    m->depth = set->connections ? STK_MIN(set->depth, set->connections) : set->depth;
    m->slab = (double)set->batch * s->sample_bytes;
    m->decoded = s->sharing.once > 0 && s->reads > 0 ? s->decoded_bytes / s->reads : 0;
    m->read_cost = stk__read_of(s->read_bytes) + m->decoded;
    m->task_rows = (uint32_t)STK_MAX(STK_MIN(STK_MIN(rows, TASK_MOST), set->batch), 1.0);
    if ((uint64_t)set->ranks * set->workers > STK__SIMULATED_WORKERS ||
        set->ranks > STK__SIMULATED_RANKS)
        return fail_large(set, "workers of all ranks", (double)set->ranks * set->workers,
                          STK__SIMULATED_WORKERS, err);
    STK_TRY(plan_steps(m, err));
    m->ranks = stk__calloc(s->ctx, set->ranks, sizeof *m->ranks);
    if (!m->ranks)
        return STK_ENOMEM;
    m->running = set->ranks;
    for (uint32_t i = 0; i < set->ranks; i++) {
        m->ranks[i].number = i;
        STK_TRY(make_rank(m, &m->ranks[i], err));
    }
    return STK_OK;
}

void stk__sim_free(stk__sim *m)
{
    stk_context *ctx = m->clock.ctx;

    for (uint32_t i = 0; m->ranks && i < m->setting->ranks; i++) {
        const stk__sim_rank *r = &m->ranks[i];
        stk__free(ctx, r->steps);
        stk__free(ctx, r->rows);
        stk__free(ctx, r->ready);
        stk__free(ctx, r->reads);
        stk__free(ctx, r->workers);
        stk__free(ctx, r->idlers);
        stk__free(ctx, r->task_rows);
    }
    stk__free(ctx, m->ranks);
    stk__sim_release(&m->clock);
}

/* ---- What is measured ---- */

void stk__sim_note_wait(stk__sim *m, stk__sim_rank *r)
{
    if (r->first >= m->warm && r->first < m->warm + m->wanted)
        m->waits[m->num_waits++] = m->clock.now - r->asked;
}

void stk__sim_note_step(stk__sim *m, stk__sim_rank *r)
{
    if (r->ended == m->warm) {
        r->window = m->clock.now;
        if (r->number == 0)
            m->measured_cpu = m->loader_cpu;
    } else if (r->ended > m->warm && r->ended <= m->warm + m->wanted) {
        r->step_sum += m->clock.now - r->began;
        r->alone_sum += r->alone;
    }
    if (r->ended != m->warm + m->wanted)
        return;
    const double window = STK_MAX(m->clock.now - r->window, 1e-9);
    m->rate += (double)m->wanted * m->setting->batch / window;
    m->running--;
    if (r->number == 0) {
        m->window = window;
        m->measured_cpu = m->loader_cpu - m->measured_cpu;
    }
}

void stk__sim_note_own(stk__sim *m, double seconds)
{
    const uint64_t step = m->ranks[0].ended;

    if (m->owns && step > m->warm && step <= m->warm + m->wanted)
        m->owns[m->num_owns++] = seconds;
}

void stk__sim_figures(const stk__sim *m, stk__simulated *out)
{
    double steps = 0, alone = 0, pool = m->setting->cache_bytes * m->setting->ranks;

    for (uint32_t i = 0; i < m->setting->ranks; i++) {
        steps += m->ranks[i].step_sum;
        alone += m->ranks[i].alone_sum;
        pool += STK_MAX(m->ranks[i].pool_most, m->setting->shared_bytes);
    }
    const double measured = (double)m->wanted * m->setting->ranks;
    out->samples_per_s = m->rate;
    out->num_waits = m->num_waits;
    out->num_owns = m->num_owns;
    out->cpu_cores = m->measured_cpu / STK_MAX(m->window, 1e-9);
    out->step_time = steps / measured;
    out->step_stretch = alone > 0 ? steps / alone : 1;
    out->slab_bytes = m->slab * m->ranks[0].slabs * m->setting->ranks;
    out->pool_bytes = pool;
}
