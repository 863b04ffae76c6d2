/* SPDX-License-Identifier: Apache-2.0 */
/* What to know of the logs themselves, in words. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "measure/read.h"

#define RUNS_TOLD 20 /* of each log */

static void tell_reading(const stk_report_file *f, void (*each)(void *, const char *), void *user)
{
    char line[256];

    if (f->dropped_bytes) {
        snprintf(line, sizeof line,
                 "%" PRIu64 " bytes in %" PRIu64 " place%s are no JSON object and were left out%s.",
                 f->dropped_bytes, f->dropped_pieces, f->dropped_pieces == 1 ? "" : "s",
                 f->truncated ? "; the log ends inside an object" : "");
        each(user, line);
    }
    if (f->notebook_lost) {
        snprintf(line, sizeof line,
                 "%" PRIu64 " events share a line with others: all were read here; a reader of one "
                 "object a line loses them.",
                 f->notebook_lost);
        each(user, line);
    }
    if (f->foreign) {
        snprintf(line, sizeof line, "%" PRIu64 " JSON objects have no \"event\".", f->foreign);
        each(user, line);
    }
    if (f->bad_times) {
        snprintf(line, sizeof line, "%" PRIu64 " events have no usable time.", f->bad_times);
        each(user, line);
    }
    if (f->clock_steps) {
        snprintf(line, sizeof line,
                 "The clock went back %" PRIu64
                 " time%s, by %.6g s in all: what follows was moved, "
                 "and the waits across are not counted.",
                 f->clock_steps, f->clock_steps == 1 ? "" : "s", f->clock_back);
        each(user, line);
    }
    if (f->runs_left_out) {
        snprintf(line, sizeof line, "%" PRIu64 " runs beyond the first 1,000 were left out.",
                 f->runs_left_out);
        each(user, line);
    }
    if (f->grid_left_out) {
        snprintf(line, sizeof line,
                 "%" PRIu64 " settings of a grid beyond the first 16,384 were left out.",
                 f->grid_left_out);
        each(user, line);
    }
}

/* Whether it is one of several ranks, of which no other has a log here. */
static bool is_alone(const stk_report_comparison *all, uint64_t i, const stk_report_run *run)
{
    if (!all || run->world_size < 2 || run->rank < 0 || run->rank >= run->world_size)
        return false;
    for (uint64_t k = 0; k < all->num_worlds; k++)
        for (uint64_t r = 0; r < all->worlds[k]->num_ranks; r++)
            if (all->worlds[k]->ranks[r]->run == i)
                return false;
    return true;
}

static void tell_run(const stk_report *report, uint64_t i, void (*each)(void *, const char *),
                     void *user)
{
    const stk_report_run *run = stk_report_run_at(report, i);
    const stk_report_comparison *all = stk__comparison_shown(report->comparison);
    const char *name = all ? all->names[i] : run->label;
    char line[512];

    if (run->headless) {
        snprintf(line, sizeof line, "%s lacks its \"run start\": time begins with its first event.",
                 name);
        each(user, line);
    }
    const stk_report_run *first = stk_report_run_at(report, 0);
    if (*run->machine_summary && *first->machine_summary &&
        strcmp(run->machine_summary, first->machine_summary) != 0) {
        snprintf(line, sizeof line,
                 "%s ran on another machine, or on another state of it, than the first: %.300s.",
                 name, run->machine_summary);
        each(user, line);
    }
    if (is_alone(all, i, run)) {
        snprintf(line, sizeof line,
                 "%s is rank %" PRId64 " of %" PRId64
                 ", alone: give the logs of the others, too, to see who is waited for.",
                 name, run->rank, run->world_size);
        each(user, line);
    }
    if (!run->ended) {
        snprintf(line, sizeof line,
                 "%s lacks its \"run end\": it was interrupted, or the log is not complete.", name);
        each(user, line);
    }
    if (isfinite(run->expected_starts) && run->get_starts &&
        run->expected_starts != (double)run->get_starts) {
        snprintf(line, sizeof line,
                 "%s has %" PRIu64 " samples where the program asks for %.0f: the data ended "
                 "early, or events are missing.",
                 name, run->get_starts, run->expected_starts);
        each(user, line);
    }
    if (run->epochs_left_out || run->series_left_out) {
        snprintf(line, sizeof line,
                 "%s has more epochs or series than are kept; totals count them all.", name);
        each(user, line);
    }
    if (run->curves_left_out) {
        snprintf(line, sizeof line,
                 "%s logs more metrics than are kept: %" PRIu64 " values of the later ones are "
                 "left out.",
                 name, run->curves_left_out);
        each(user, line);
    }
}

void stk_report_notes(const stk_report *report, uint64_t i,
                      void (*each)(void *user, const char *line), void *user)
{
    const stk_report_file *f = stk_report_file_at(report, i);

    if (!f)
        return;
    tell_reading(f, each, user);
    for (uint64_t k = 0; k < f->runs && k < RUNS_TOLD; k++)
        tell_run(report, f->first_run + k, each, user);
}
