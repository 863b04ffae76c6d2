/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a task goes: the parts add up to the whole, because each mark takes all the
 * time since the last. */
#include <stdio.h>

#include "base/sized.h"
#include "base/tiers.h"
#include "train/ledger.h"
#include "train/trainer.h"

void stk__ledger_begin(stk__ledger *ledger)
{
    *ledger = (stk__ledger){0};
    ledger->begin_ns = ledger->last_ns = stk__now_ns();
    ledger->loader_begin.struct_size = ledger->loader_end.struct_size = sizeof ledger->loader_end;
}

void stk__ledger_look(const stk_trainer *t, stk_loader_stats *out)
{
    if (t->train.n)
        stk_loader_get_stats(t->train.feeds[0].loader, out);
}

/* Counts that only grow, so that differences modulo 2^64 are right also below 0. */
static void carry_counts(stk_loader_stats *begin, const stk_loader_stats *old)
{
    uint64_t *const counts[] = {&begin->requests,        &begin->request_bytes,
                                &begin->needed_bytes,    &begin->cache_hits,
                                &begin->cache_misses,    &begin->bad_samples,
                                &begin->pictures,        &begin->picture_pixels,
                                &begin->decode_ns,       &begin->resize_ns,
                                &begin->chunks_needed,   &begin->chunks_decoded,
                                &begin->chunk_decode_ns, &begin->chunk_bytes_decoded,
                                &begin->budget_wait_ns,  &begin->positions_evaluated,
                                &begin->waits.batches,   &begin->waits.total_ns};
    const char *const from = (const char *)old;

    for (size_t i = 0; i < STK_COUNT(counts); i++) {
        uint64_t counted;
        memcpy(&counted, from + ((const char *)counts[i] - (const char *)begin), sizeof counted);
        *counts[i] -= counted;
    }
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        begin->waits.parts_ns[i] -= old->waits.parts_ns[i];
    /* The context counts the others, whichever loader there is. */
    begin->tiers.of[STK_TIER_MEMORY].reads -= old->tiers.of[STK_TIER_MEMORY].reads;
    begin->tiers.of[STK_TIER_MEMORY].bytes -= old->tiers.of[STK_TIER_MEMORY].bytes;
    for (int i = 0; i < STK_LOADER_STAGES; i++) {
        stk_stage_stats *to = &begin->stages[i];
        const stk_stage_stats *of = &old->stages[i];
        to->items -= of->items;
        to->bytes -= of->bytes;
        to->failures -= of->failures;
        to->busy_ns -= of->busy_ns;
        to->wait_in_ns -= of->wait_in_ns;
        to->wait_out_ns -= of->wait_out_ns;
    }
}

void stk__ledger_carry(stk_trainer *t)
{
    stk_loader_stats old = {.struct_size = sizeof old};

    stk__ledger_look(t, &old);
    carry_counts(&t->ledger.loader_begin, &old);
}

void stk_trainer_get_loader_stats(const stk_trainer *t, stk_loader_stats *begin,
                                  stk_loader_stats *end)
{
    stk_loader_stats from = t->ledger.loader_begin, to = t->ledger.loader_end;

    from.struct_size = to.struct_size = sizeof to;
    if (t->running)
        stk__ledger_look(t, &to);
    stk__sized_write(begin, &from);
    stk__sized_write(end, &to);
}

/* What the loader knows of its waits, and the turns to an epoch, which it does not count; the rest
 * of the time that the trainer saw is `other`. */
static void divide_waits(const stk__ledger *ledger, const stk_waits *now, uint64_t waited_ns,
                         stk_waits *out)
{
    const stk_waits *then = &ledger->loader_begin.waits;
    uint64_t left = waited_ns;

    *out = (stk_waits){.batches = now->batches - then->batches, .total_ns = waited_ns};
    for (int i = 0; i < STK_WAIT_PARTS; i++) {
        const uint64_t turn = i == STK_WAIT_EPOCH_TURN ? ledger->turn_ns : 0;
        out->parts_ns[i] = STK_MIN(now->parts_ns[i] - then->parts_ns[i] + turn, left);
        left -= out->parts_ns[i];
    }
    out->parts_ns[STK_WAIT_OTHER] += left;
}

void stk_trainer_get_times(const stk_trainer *t, stk_trainer_times *out)
{
    const uint64_t *parts = t->ledger.parts;
    stk_loader_stats begin = {.struct_size = sizeof begin}, end = {.struct_size = sizeof end};

    stk_trainer_get_loader_stats(t, &begin, &end);
    stk_trainer_times times = {.struct_size = sizeof times,
                               .data_wait = parts[STK__PART_DATA_WAIT],
                               .transfer = parts[STK__PART_TRANSFER],
                               .step = parts[STK__PART_STEP],
                               .validation = parts[STK__PART_VALIDATION],
                               .callbacks = parts[STK__PART_CALLBACKS],
                               .logging = parts[STK__PART_LOGGING],
                               .checkpoint = parts[STK__PART_CHECKPOINT],
                               .other = parts[STK__PART_OTHER],
                               .steps = t->ledger.steps,
                               .samples = t->ledger.samples,
                               .begin = t->ledger.begin_ns,
                               .optimizer_steps = t->ledger.optimizer_steps,
                               .optimizer = t->ledger.optimizer_ns,
                               .comm = t->ledger.comm_ns,
                               .comm_hidden = t->ledger.comm_hidden_ns};
    for (size_t i = 0; i < STK__PARTS; i++)
        times.wall += parts[i];
    divide_waits(&t->ledger, &end.waits, times.data_wait, &times.waits);
    times.tiers = end.tiers;
    stk__tiers_subtract(&times.tiers, &begin.tiers);
    stk__sized_write(out, &times);
}

/* Waits below this share of the time are not worth a sentence. */
#define SAY_WAITS 0.01

static void say_waits(const stk_trainer_times *times, char *text, size_t size)
{
    const stk_waits *w = &times->waits;
    size_t used = 0;

    *text = 0;
    if (w->batches == 0 || (double)w->total_ns < SAY_WAITS * (double)times->wall)
        return;
    for (int i = 0; i < STK_WAIT_PARTS; i++) {
        const double share = 100 * (double)w->parts_ns[i] / (double)w->total_ns;
        if (share < 0.5)
            continue;
        used += (size_t)snprintf(
            text + used, size - used, "%s%s %.1f %%",
            used ? ", " : " Data was waited for because of: ", stk_wait_text((stk_wait)i), share);
        used = STK_MIN(used, size - 2);
    }
    if (used)
        snprintf(text + used, size - used, ".");
}

int stk__trainer_times_format(const stk_trainer_times *given, char *text, size_t size)
{
    stk_trainer_times known = {0}, *times = &known;

    stk__sized_copy(&known, sizeof known, given);
    const struct {
        const char *name;
        uint64_t ns;
    } parts[] = {{"the step", times->step},          {"waiting for data", times->data_wait},
                 {"transfer", times->transfer},      {"validation", times->validation},
                 {"callbacks", times->callbacks},    {"logging", times->logging},
                 {"checkpoints", times->checkpoint}, {"everything else", times->other}};
    const double wall = STK_MAX((double)times->wall, 1.0), seconds = wall * 1e-9;
    char list[512] = "", waits[600], windows[64] = "", tiers[400] = " ";
    size_t used = 0;

    for (size_t i = 0; i < STK_COUNT(parts); i++) {
        double share = 100 * (double)parts[i].ns / wall;
        if (share < 0.05)
            continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s %.1f %%", used ? ", " : "",
                                 parts[i].name, share);
        used = STK_MIN(used, sizeof list - 1);
    }
    say_waits(times, waits, sizeof waits);
    if (stk_tiers_format(&times->tiers, tiers + 1, sizeof tiers - 1) == 0)
        *tiers = 0;
    if (times->optimizer_steps)
        snprintf(windows, sizeof windows, ", %llu steps of the optimizer",
                 (unsigned long long)times->optimizer_steps);
    if (times->steps == 0)
        return snprintf(text, size, "Of %.2f s: %s.", seconds, list);
    return snprintf(
        text, size,
        "%.2f s for %llu training batches%s (%.0f samples/s over all, %.1f us a batch in "
        "the step). Of the time: %s.%s%s",
        seconds, (unsigned long long)times->steps, windows, (double)times->samples / seconds,
        (double)times->step * 1e-3 / (double)times->steps, list, waits, tiers);
}
