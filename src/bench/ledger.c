/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a run goes: the parts of each epoch, for its log. */
#include "bench/bench.h"

#include <inttypes.h>
#include <stdio.h>

/* One "ledger" event; what is neither step nor wait is other. */
static void write_ledger(stk_event_log *log, const char *first, uint64_t now_ns, uint64_t wall_ns,
                         uint64_t step_ns, const stk_waits *waited)
{
    char waits[1024], line[2048], step[32], wait[32], other[32];
    const uint64_t known = step_ns + waited->total_ns;

    stk_number_format(stk__seconds(step_ns), step);
    stk_number_format(stk__seconds(waited->total_ns), wait);
    stk_number_format(wall_ns > known ? stk__seconds(wall_ns - known) : 0, other);
    stk_waits_format(waited, waits, sizeof waits);
    snprintf(line, sizeof line,
             "\"parts\": {\"step\": %s, \"data_wait\": %s, \"other\": %s}, \"wait\": {%s}", step,
             wait, other, waits);
    stk_event_log_write(log, "ledger", first, now_ns, wall_ns, line);
}

static void add_waits(stk_waits *to, const stk_waits *more)
{
    to->batches += more->batches;
    to->total_ns += more->total_ns;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        to->parts_ns[i] += more->parts_ns[i];
}

void stk__bench_ledger_epoch(stk__bench_ledger *ledger, stk_event_log *log, const stk_waits *waits,
                             bool start, uint64_t epoch, uint64_t now_ns)
{
    stk_waits waited = *waits;
    char first[48];

    if (start) {
        ledger->begin_ns = now_ns;
        ledger->step_ns = 0;
        ledger->waits = *waits;
        return;
    }
    stk__waits_subtract(&waited, &ledger->waits);
    const uint64_t wall_ns = now_ns - ledger->begin_ns;
    snprintf(first, sizeof first, "\"epoch\": %" PRIu64, epoch);
    write_ledger(log, first, now_ns, wall_ns, ledger->step_ns, &waited);
    ledger->all.wall_ns += wall_ns;
    ledger->all.step_ns += ledger->step_ns;
    add_waits(&ledger->all.waits, &waited);
}

void stk__bench_ledger_end(const stk__bench_ledger *ledger, stk_event_log *log)
{
    if (ledger->all.wall_ns)
        write_ledger(log, NULL, 0, ledger->all.wall_ns, ledger->all.step_ns, &ledger->all.waits);
}
