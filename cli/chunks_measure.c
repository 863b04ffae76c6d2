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
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}
