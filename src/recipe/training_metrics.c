/* SPDX-License-Identifier: Apache-2.0 */
/* A line of metrics, as loggers get it -> an event of the log, with the learning rate at that step.
 */
#include <inttypes.h>
#include <stdio.h>

#include "recipe/recipe.h"

/* A reader keeps so many members of an object; more metrics are counted. */
#define METRICS_MOST 96
#define GROUPS_MOST  8
#define NAME_BYTES   160

static void put(stk__text *line, size_t *n, const char *name, double value)
{
    char number[32];

    stk_number_format(value, number);
    stk__text_add(line, "%s", *n ? ", " : "");
    stk__text_add_json(line, name);
    stk__text_add(line, ": %s", number);
    ++*n;
}

/* "lr", or one for each group of parameters as Lightning's monitor names them: "lr/pg1". */
static void put_rates(stk__text *line, size_t *n, stk_trainer *trainer)
{
    const stk_module_ops *module = stk_trainer_module_ops(trainer);
    const uint32_t groups = stk_trainer_optimizers(trainer)->num_groups;
    char name[24] = "lr";
    double value;

    for (uint32_t i = 0; i < STK_MIN(STK_MAX(groups, 1u), (uint32_t)GROUPS_MOST); i++) {
        if (groups > 1)
            snprintf(name, sizeof name, "lr/pg%" PRIu32, i + 1);
        if (module->get_option &&
            module->get_option(stk_trainer_moment(trainer)->module, i, "lr", &value))
            put(line, n, name, value);
    }
}

void stk__training_events_metrics(stk_event_log *log, stk_trainer *trainer,
                                  const stk__training_line *l)
{
    stk__text line = {.ctx = stk_trainer_context(trainer)};
    const size_t shown = STK_MIN(l->n, (size_t)METRICS_MOST);
    char first[48], number[32];
    size_t n = 0;

    snprintf(first, sizeof first, "\"epoch\": %" PRIu64, l->epoch);
    stk_number_format(l->epochs, number);
    stk__text_add(&line, "\"step\": %" PRId64 ", \"epochs\": %s, \"metrics\": {", l->step, number);
    for (size_t i = 0; i < shown; i++) {
        /* Names are the caller's and may be long: a reader cuts them. */
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%s", l->metrics[i].name);
        if (strcmp(name, "epoch") != 0)
            put(&line, &n, name, l->metrics[i].value);
    }
    if (l->rates)
        put_rates(&line, &n, trainer);
    stk__text_add(&line, "}");
    if (l->n > shown)
        stk__text_add(&line, ", \"left_out\": %zu", l->n - shown);
    if (line.failed)
        stk__message(stk_trainer_context(trainer), STK_MESSAGE_WARNING,
                     "no memory for the metrics of step %" PRId64 ": they are not in the log",
                     l->step);
    else
        stk_event_log_write(log, "metrics", first, 0, STK_NO_DURATION, line.bytes);
    stk__text_release(&line);
}
