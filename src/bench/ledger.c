/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a run goes: the parts of each epoch, for its log. */
#include "bench/bench.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/tiers.h"

/* One "ledger" event; what is no part that is known is other. */
static void write_ledger(stk_event_log *log, const char *first, uint64_t now_ns, uint64_t wall_ns,
                         uint64_t step_ns, uint64_t reduce_ns, const stk_waits *waited,
                         const stk_tiers *tiers)
{
    char waits[1024], found[160], line[2048], step[32], wait[32], other[32];
    char communication[64] = "";
    const uint64_t known = step_ns + reduce_ns + waited->total_ns;

    stk_number_format(stk__seconds(step_ns), step);
    if (reduce_ns) {
        stk_number_format(stk__seconds(reduce_ns), other);
        snprintf(communication, sizeof communication, "\"communication\": %s, ", other);
    }
    stk_number_format(stk__seconds(waited->total_ns), wait);
    stk_number_format(wall_ns > known ? stk__seconds(wall_ns - known) : 0, other);
    stk_waits_format(waited, waits, sizeof waits);
    stk__tiers_members(tiers, found, sizeof found);
    snprintf(line, sizeof line,
             "\"parts\": {\"step\": %s, \"data_wait\": %s, %s\"other\": %s}, \"wait\": {%s}%s",
             step, wait, communication, other, waits, found);
    stk_event_log_write(log, "ledger", first, now_ns, wall_ns, line);
}

static void add_waits(stk_waits *to, const stk_waits *more)
{
    to->batches += more->batches;
    to->total_ns += more->total_ns;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        to->parts_ns[i] += more->parts_ns[i];
}

static void add_tiers(stk_tiers *to, const stk_tiers *more)
{
    for (int i = 0; i < STK_TIERS; i++) {
        to->of[i].reads += more->of[i].reads;
        to->of[i].bytes += more->of[i].bytes;
    }
}

void stk__bench_ledger_epoch(stk__bench_ledger *ledger, stk_event_log *log,
                             const stk_loader_stats *now, bool start, uint64_t epoch,
                             uint64_t now_ns)
{
    stk_waits waited = now->waits;
    stk_tiers tiers = now->tiers;
    char first[48];

    if (start) {
        ledger->begin_ns = now_ns;
        ledger->step_ns = ledger->reduce_ns = 0;
        ledger->waits = now->waits;
        ledger->tiers = now->tiers;
        return;
    }
    stk__waits_subtract(&waited, &ledger->waits);
    stk__tiers_subtract(&tiers, &ledger->tiers);
    const uint64_t wall_ns = now_ns - ledger->begin_ns;
    snprintf(first, sizeof first, "\"epoch\": %" PRIu64, epoch);
    write_ledger(log, first, now_ns, wall_ns, ledger->step_ns, ledger->reduce_ns, &waited, &tiers);
    ledger->all.wall_ns += wall_ns;
    ledger->all.step_ns += ledger->step_ns;
    ledger->all.reduce_ns += ledger->reduce_ns;
    add_waits(&ledger->all.waits, &waited);
    add_tiers(&ledger->all.tiers, &tiers);
}

void stk__bench_ledger_end(const stk__bench_ledger *ledger, stk_event_log *log)
{
    if (ledger->all.wall_ns)
        write_ledger(log, NULL, 0, ledger->all.wall_ns, ledger->all.step_ns, ledger->all.reduce_ns,
                     &ledger->all.waits, &ledger->all.tiers);
}
