/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a wait for a batch went. Of each step only the way of the row that completed it is kept, as
 * stamps of its last read and of its task. When the batch is handed out the wait is laid over that
 * way, and each stretch of it is a part; so the parts add up to the wait whatever the stamps are.
 *
 *   planned .. [memory] .. queued .. [slot] .. sent .. [retry, latency, transfer] .. arrived ..
 *   [worker] .. [decode of what rows share] .. [worker] ..
 *   start .. [transfer, decode, transform, collate] .. end .. [collate] .. complete .. got
 *
 * As long as workers had nothing to do since the last batch, more of them or less work would have
 * made nothing sooner: reads would. So by so much the reads are laid over the wait as if they were
 * later, and what comes after them is covered.
 *
 * From the moment that a later batch was complete the wait is ordering's, but for tries of a read
 * in vain. What the first batch after a start or a jump waits for is the start itself; what one
 * waits for that the budget was divided anew for is memory.
 */
#include "loader/stall.h"

#include "loader/units.h"

#define LATE 0.1 /* of what is done after a read: a worker that began so long after it was late */

/* ---- What happens meanwhile ---- */

void stk__stall_round_locked(stk__stalls *s)
{
    s->starving = false;
}

void stk__stall_starve_locked(stk__stalls *s)
{
    s->starving = true;
    if (s->starve_end_ns == UINT64_MAX)
        return;
    s->starve_begin_ns = stk__now_ns();
    s->starve_end_ns = UINT64_MAX;
}

static void end_starving(stk__stalls *s, uint64_t now_ns)
{
    if (s->starve_end_ns != UINT64_MAX)
        return;
    s->starve_end_ns = now_ns;
    s->starved_ns += now_ns - STK_MIN(s->starve_begin_ns, now_ns);
}

void stk__stall_feed_locked(stk__stalls *s, uint64_t now_ns)
{
    if (!s->starving)
        end_starving(s, now_ns);
}

bool stk__stall_starves_locked(const stk__stalls *s)
{
    return s->starve_end_ns == UINT64_MAX;
}

void stk__stall_cold_locked(stk__stalls *s)
{
    s->cold = s->waits.batches ? STK_WAIT_EPOCH_TURN : STK_WAIT_STARTUP;
    if (s->starve_end_ns == UINT64_MAX)
        end_starving(s, stk__now_ns());
}

void stk__stall_widened_locked(stk__stalls *s)
{
    if (s->waits.batches)
        s->cold = STK_WAIT_MEMORY_BUDGET;
}

void stk__stall_task_locked(stk__path *path, const stk__unit *unit,
                            const double work[STK__WORK_PARTS], uint64_t idle_ns, uint64_t start_ns,
                            uint64_t end_ns)
{
    *path = (stk__path){.idle_ns = idle_ns, .start_ns = start_ns, .end_ns = end_ns};
    memcpy(path->work, work, sizeof path->work);
    if (!unit)
        return;
    const stk__transfer *read = &unit->bundle->range.transfer;
    path->decode_ns = unit->decode_ns;
    path->decoded_ns = unit->decoded_ns;
    path->queued_ns = read->added_ns;
    path->first_ns = read->first_ns;
    path->sent_ns = read->sent_ns;
    path->arrived_ns = read->ended_ns;
    path->transfer = read->transfer_share;
}

void stk__stall_helped_locked(stk__stalls *s, uint64_t end_ns)
{
    s->helped_ns = end_ns;
}

/* ---- Dividing ---- */

/* A wait that is handed out from its beginning on. */
typedef struct walk {
    uint64_t *parts, at, end;
} walk;

/* All up to `until` was spent on `part`. */
static uint64_t pass(walk *w, stk_wait part, uint64_t until)
{
    const uint64_t to = STK_MIN(STK_MAX(until, w->at), w->end), ns = to - w->at;

    w->parts[part] += ns;
    w->at = to;
    return ns;
}

/* Likewise on several, in proportion. */
static void pass_work(walk *w, const double work[STK__WORK_PARTS], uint64_t until)
{
    const double sum = work[0] + work[1] + work[2] + work[3];
    const uint64_t from = w->at, ns = STK_MIN(STK_MAX(until, from), w->end) - from;

    if (sum > 0) {
        pass(w, STK_WAIT_STORAGE_TRANSFER,
             from + (uint64_t)((double)ns * (work[STK__WORK_READ] / sum)));
        pass(w, STK_WAIT_DECODE, w->at + (uint64_t)((double)ns * (work[STK__WORK_DECODE] / sum)));
        pass(w, STK_WAIT_TRANSFORM,
             w->at + (uint64_t)((double)ns * (work[STK__WORK_TRANSFORM] / sum)));
    }
    pass(w, STK_WAIT_COLLATE, from + ns);
}

/* When a batch behind the first was complete; UINT64_MAX: none is. (L) held. */
static uint64_t overtaken_locked(const stk__steps *steps, const stk__step *first)
{
    uint64_t earliest = UINT64_MAX;

    for (uint64_t serial = first->serial + 1; serial < steps->slab_end; serial++) {
        const stk__step *step = stk__step_at(steps, serial);
        if (step->complete)
            earliest = STK_MIN(earliest, step->complete_ns);
    }
    return earliest;
}

/* How much sooner all would have been done, had it been read sooner: as long as workers had nothing
 * to do meanwhile, but no more than what is done after a read, nor than it was on its way before
 * the wait, which is from `from` on. Where a worker was late, what lay there needed no read. */
static uint64_t too_late(const stk__path *path, uint64_t idle_ns, uint64_t planned, uint64_t from)
{
    const uint64_t ready = STK_MAX(path->arrived_ns, path->decoded_ns),
                   after = path->end_ns - STK_MIN(path->arrived_ns, path->end_ns);

    if (planned > from || (double)path->idle_ns > (double)ready + LATE * (double)after)
        return 0;
    return STK_MIN(idle_ns, STK_MIN(after, from - planned));
}

static void pass_reading(walk *w, const stk__path *path, uint64_t later)
{
    pass(w, STK_WAIT_READ_SLOT, path->first_ns + later);
    pass(w, STK_WAIT_RETRY, path->sent_ns + later);
    const uint64_t ns = STK_MIN(STK_MAX(path->arrived_ns + later, w->at), w->end) - w->at;
    const uint64_t transfer = (uint64_t)((double)ns * path->transfer);
    pass(w, STK_WAIT_STORAGE_LATENCY, w->at + ns - transfer);
    pass(w, STK_WAIT_STORAGE_TRANSFER, w->at + transfer);
}

void stk__stall_settle_locked(stk__stalls *s, const stk__steps *steps, const stk__step *step,
                              uint64_t idle_sum_ns, uint64_t asked_ns, uint64_t got_ns)
{
    const uint64_t idle_ns = idle_sum_ns - STK_MIN(s->idle_sum_ns, idle_sum_ns);
    const stk__path *path = &step->path;
    const uint64_t waited = got_ns - asked_ns + s->pending_ns, from = got_ns - waited;
    walk w = {.parts = s->waits.parts_ns, .at = from, .end = got_ns};

    s->idle_sum_ns = idle_sum_ns;
    s->pending_ns = 0;
    s->waits.batches++;
    s->waits.total_ns += waited;
    if (s->cold != STK_WAIT_PARTS) {
        pass(&w, s->cold, got_ns);
        s->cold = STK_WAIT_PARTS;
        return;
    }
    if (step->complete_ns > from) {
        const uint64_t overtaken = overtaken_locked(steps, step);
        const uint64_t in =
            path->queued_ns ? path->queued_ns : STK_MAX(step->room_ns, step->planned_ns);
        const uint64_t in_vain_end = path->sent_ns > path->first_ns ? path->sent_ns : 0;
        w.end = STK_MIN(got_ns, STK_MAX(STK_MAX(overtaken, in_vain_end), from));
        if (s->starve_end_ns > from && s->starve_begin_ns < in) {
            pass(&w, STK_WAIT_WORKER, s->starve_begin_ns);
            pass(&w, STK_WAIT_MEMORY_BUDGET, STK_MIN(s->starve_end_ns, in));
        }
        pass(&w, STK_WAIT_WORKER, in);
        if (path->queued_ns)
            pass_reading(&w, path, too_late(path, idle_ns, in, from));
        if (path->decoded_ns) {
            pass(&w, STK_WAIT_WORKER, path->decode_ns);
            pass(&w, STK_WAIT_DECODE, path->decoded_ns);
        }
        /* The thread that waits is the worker: it was busy with the rows before. */
        if (s->alone)
            pass_work(&w, path->work, path->end_ns);
        pass(&w, STK_WAIT_WORKER, path->start_ns);
        pass_work(&w, path->work, path->end_ns);
        pass(&w, STK_WAIT_COLLATE, step->complete_ns);
        w.end = got_ns;
        if (overtaken < step->complete_ns)
            pass(&w, STK_WAIT_ORDERING, step->complete_ns);
        /* A consumer that helps may have met a straggler of another batch itself. */
        if (!s->alone)
            pass(&w, STK_WAIT_ORDERING, s->helped_ns);
    }
    pass(&w, STK_WAIT_OTHER, got_ns);
}

void stk__stall_in_vain_locked(stk__stalls *s, uint64_t asked_ns, bool turn)
{
    const uint64_t ns = stk__now_ns() - asked_ns;

    if (turn) {
        s->waits.total_ns += ns;
        s->waits.parts_ns[STK_WAIT_EPOCH_TURN] += ns;
    } else {
        s->pending_ns += ns;
    }
}
