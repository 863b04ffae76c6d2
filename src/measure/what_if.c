/* SPDX-License-Identifier: Apache-2.0 */
/* What shall be otherwise than it was recorded: names, ranges, text. */
#include "measure/simulate.h"

#include "base/options.h"
#include "base/sized.h"

#define AT(member) offsetof(stk_what_if, member)

static const stk_option rows[] = {
    {"num_workers", STK_OPTION_INT, AT(num_workers), "auto", 0, STK__WHAT_WORKERS, "auto", "N",
     "Threads that prepare samples."},
    {"io_depth", STK_OPTION_INT, AT(io_depth), "auto", 1, STK__WHAT_DEPTH, "auto", "N",
     "Concurrent reads."},
    {"prefetch_factor", STK_OPTION_INT, AT(prefetch_factor), "auto", 1, STK__WHAT_PREFETCH, "auto",
     "N", "Batches ahead for each worker."},
    {"batch_size", STK_OPTION_UINT, AT(batch_size), "0", 0, STK__WHAT_BATCH, NULL, "N",
     "Samples of a batch; the step stays as long as it was. 0: as recorded."},
    {"memory_budget", STK_OPTION_SIZE, AT(memory_budget), "0", 0, 0, NULL, "SIZE",
     "Bound on all memory of the loader; 0: as recorded."},
    {"train_step_time", STK_OPTION_DURATION, AT(train_step_time), "auto", 0, 3600, "auto",
     "SECONDS", "Mean of a step alone."},
    {"cores", STK_OPTION_DOUBLE, AT(cores), "auto", 0.01, 65536, "auto", "N",
     "Cores that all ranks together may use; a quota may be a fraction."},
    {"latency", STK_OPTION_DURATION, AT(latency), "auto", 0, 3600, "auto", "SECONDS",
     "Mean time of a read without its bytes."},
    {"bandwidth", STK_OPTION_RATE, AT(bandwidth), "auto", 1, 1e15, "auto", "RATE",
     "Bytes a second that storage gives all ranks together."},
    {"connections", STK_OPTION_INT, AT(connections), "auto", 1, STK__WHAT_DEPTH, "auto", "N",
     "Reads that a rank has under way at most, whatever io_depth is."},
    {"ranks", STK_OPTION_INT, AT(ranks), "auto", 1, STK__SIMULATED_RANKS, "auto", "N",
     "Processes on this machine, each with a loader and a step, that begin their steps together "
     "and "
     "take turns where they are more than cores, as those of scale."},
    {"cache", STK_OPTION_ENUM, AT(cache), "auto", 0, 0, "auto|none|encoded|decoded", NULL,
     "Keep what was read, or what came of decoding it, within the budget, from the second epoch "
     "on; "
     "none: as recorded without a cache."},
};

const stk_option_table stk__what_if_option_table = {
    .name = "what_if",
    .doc = "What is predicted: what is not named stays as it was recorded",
    .struct_size = sizeof(stk_what_if),
    .options = rows,
    .count = STK_COUNT(rows),
};

static stk_status set_pair(void *what_if, char *pair, stk_error *err)
{
    char *value = strchr(pair, '=');

    if (!value)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, pair, STK_NO_OFFSET,
                            "what_if: '%.64s' is no name=value, such as num_workers=8", pair);
    *value++ = 0;
    return stk_options_set(&stk__what_if_option_table, what_if, pair, value, err);
}

/* Bytes of the name of a pair; 0: there is none. */
static size_t name_length(const char *pair)
{
    const size_t length = strcspn(pair, "=,");

    return pair[length] == '=' ? length : 0;
}

/* Of two values of one name neither is what was meant. */
static stk_status check_twice(const char *text, stk_error *err)
{
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t length = name_length(at);
        for (const char *before = text; length && before < at; before = strchr(before, ',') + 1)
            if (name_length(before) == length && memcmp(before, at, length) == 0)
                return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, at, STK_NO_OFFSET,
                                    "'%.*s' is given twice: keep one", (int)STK_MIN(length, 64),
                                    at);
    }
    return STK_OK;
}

stk_status stk__asked_each(stk_context *ctx, const char *text,
                           stk_status (*take)(void *user, char *one, stk_error *err), void *user,
                           stk_error *err)
{
    STK_TRY(check_twice(text, err));
    char *copy = stk__strdup(ctx, text), *at = copy;
    stk_status status = STK_OK;

    if (!copy)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for what is asked");
    do {
        char *end = strchr(at, ',');
        if (end)
            *end++ = 0;
        status = take(user, at, err);
        at = end;
    } while (status == STK_OK && at);
    stk__free(ctx, copy);
    return status;
}

stk_status stk_what_if_parse(stk_context *context, const char *text, stk_what_if *what_if,
                             stk_error *err)
{
    stk_what_if known;

    STK_TRY(stk__context_check(context, err));
    stk_what_if_init(&known);
    STK_TRY(stk__sized_read(&known, sizeof known, what_if, "stk_what_if", STK_STAGE_MEASURE, err));
    STK_TRY(stk__asked_each(context, text, set_pair, &known, err));
    stk__sized_write(what_if, &known);
    return STK_OK;
}

int stk_what_if_format(const stk_what_if *what_if, char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};
    stk_what_if known, unset;
    char value[64], initial[64];

    stk_what_if_init(&unset);
    known = unset;
    stk__sized_copy(&known, sizeof known, what_if);
    if (size)
        *text = 0;
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk_options_format(&rows[i], &known, value, sizeof value);
        stk_options_format(&rows[i], &unset, initial, sizeof initial);
        if (strcmp(value, initial) != 0)
            stk__text_add(&out, "%s%s=%s", out.length ? "," : "", rows[i].name, value);
    }
    return (int)out.length;
}
