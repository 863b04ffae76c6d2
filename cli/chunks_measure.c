/* SPDX-License-Identifier: Apache-2.0 */
/* stoker chunks --measure: the present chunks, those given and the best recommended, tried on a
 * sample of the array. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "chunks.h"

/* Note a shape that is to be measured, unless it is noted. */
static void add_shape(uint32_t rank, const char *place, const int64_t *chunk, double model,
                      struct chunks_result *result)
{
    for (size_t i = 0; i < result->num_measured; i++)
        if (memcmp(result->measured[i].chunk, chunk, rank * sizeof *chunk) == 0)
            return;
    if (result->num_measured == CHUNKS_MAX_MEASURED)
        return;
    struct chunks_measured *m = &result->measured[result->num_measured++];
    *m = (struct chunks_measured){.model = model};
    memcpy(m->chunk, chunk, rank * sizeof *chunk);
    snprintf(m->place, sizeof m->place, "%s", place);
}

static void choose_shapes(const struct chunks_task *task, struct chunks_result *result)
{
    const uint32_t rank = task->question.rank;
    char place[16];

    for (size_t i = 0; i < task->num_shapes && task->listed; i++)
        add_shape(rank, i || !task->own ? "given" : "present", task->shapes[i],
                  result->costs[i].seconds[STK_CHUNKS_TYPICAL], result);
    for (uint32_t i = 0; i < result->answer.num_ranked && i < task->top; i++) {
        const stk_chunks_cost *cost = &result->answer.ranked[i];
        snprintf(place, sizeof place, "%" PRIu32, i + 1);
        add_shape(rank, place, cost->chunk, cost->seconds[STK_CHUNKS_TYPICAL], result);
    }
}

static void take(void *user, size_t i, const stk_chunks_measured *figures)
{
    struct chunks_result *result = user;

    result->measured[i].figures = *figures;
}

static void choose(struct chunks_result *result)
{
    double measured[CHUNKS_MAX_MEASURED], model[CHUNKS_MAX_MEASURED];

    for (size_t i = 0; i < result->num_measured; i++) {
        measured[i] = result->measured[i].figures.seconds;
        model[i] = result->measured[i].model;
    }
    result->chosen = stk_chunks_choose(measured, model, result->num_measured);
}

/* "CHUNK took 1.2 ms, 3.4 times as long". */
static size_t say_other(char *text, size_t size, uint32_t rank, const struct chunks_measured *m,
                        const struct chunks_measured *best)
{
    char shape[CHUNKS_SHAPE_TEXT], seconds[32];

    chunks_shape_text(shape, m->chunk, rank, "\xc3\x97");
    if (m->figures.note)
        return (size_t)snprintf(text, size, "%s, were not measured: %s", shape, m->figures.note);
    chunks_seconds_text(seconds, m->figures.seconds);
    return (size_t)snprintf(text, size, "%s, took %s, %.2f times as long", shape, seconds,
                            m->figures.seconds / best->figures.seconds);
}

/* What was measured of a shape; NULL: nothing. */
static const struct chunks_measured *measured_of(const struct chunks_result *result, uint32_t rank,
                                                 const int64_t *chunk)
{
    for (size_t i = 0; i < result->num_measured; i++)
        if (memcmp(result->measured[i].chunk, chunk, rank * sizeof *chunk) == 0)
            return &result->measured[i];
    return NULL;
}

void chunks_conclude(const struct chunks_task *task, const struct chunks_result *result, char *text,
                     size_t size)
{
    const uint32_t rank = task->question.rank;
    const struct chunks_measured *present =
                                     task->own ? measured_of(result, rank, task->shapes[0]) : NULL,
                                 *first = measured_of(result, rank, result->answer.ranked[0].chunk);
    char shape[CHUNKS_SHAPE_TEXT], seconds[32];

    if (result->chosen == result->num_measured) {
        snprintf(text, size, "No shape could be measured; raise --sample.");
        return;
    }
    const struct chunks_measured *best = &result->measured[result->chosen];
    chunks_shape_text(shape, best->chunk, rank, "\xc3\x97");
    chunks_seconds_text(seconds, best->figures.seconds);
    size_t at = (size_t)snprintf(text, size, "Measured, chunks of %s are best: a window takes %s.",
                                 shape, seconds);
    if (present == best) {
        at += (size_t)snprintf(text + at, size - at, " They are those the array has.");
    } else if (present) {
        at += (size_t)snprintf(text + at, size - at, " Those the array has, %s",
                               first == present ? "which the model names, " : "");
        at += say_other(text + at, size - at, rank, present, best);
        at += (size_t)snprintf(text + at, size - at, ".");
    }
    if (first == best) {
        snprintf(text + at, size - at, " The model names them, too.");
    } else if (first && first != present) {
        at += (size_t)snprintf(text + at, size - at, " Those that the model names, ");
        at += say_other(text + at, size - at, rank, first, best);
        snprintf(text + at, size - at, ".");
    }
}

int chunks_measure(struct cli *cli, stk_array *array, const struct chunks_task *task,
                   struct chunks_result *result)
{
    const uint32_t rank = task->question.rank;
    int64_t chunks[CHUNKS_MAX_MEASURED * STK_MAX_RANK];
    stk_error err;

    choose_shapes(task, result);
    for (size_t i = 0; i < result->num_measured; i++)
        memcpy(chunks + i * rank, result->measured[i].chunk, rank * sizeof *chunks);
    const stk_chunks_trial trial = {.struct_size = sizeof trial,
                                    .sample = task->sample,
                                    .count = result->num_measured,
                                    .chunks = chunks,
                                    .measured = take,
                                    .stop = cli_is_interrupted,
                                    .user = result};
    result->sample.struct_size = sizeof result->sample;
    cli_signals_install();
    const stk_status status =
        stk_chunks_measure(cli->context, array, &task->question, &trial, &result->sample, &err);
    if (status == STK_OK)
        choose(result);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}
