/* SPDX-License-Identifier: Apache-2.0 */
/* Many ranks as they are asked for: names, ranges, text. */
#include "measure/scale.h"

#include "base/options.h"
#include "base/sized.h"
#include "measure/simulate.h"

#define AT(member) offsetof(stk_scale, member)

static const stk_option rows[] = {
    {"ranks", STK_OPTION_UINT, AT(ranks), "1", 1, (double)STK__RANKS_ASKED_MOST, NULL, "N,...",
     "Processes that train together, on all machines; several numbers are predicted one by one."},
    {"per_machine", STK_OPTION_UINT, AT(per_machine), "8", 1, STK__SIMULATED_RANKS, NULL, "N",
     "Of them on a machine, whose cores and storage they share."},
    {"gradients", STK_OPTION_SIZE, AT(gradients), "0", 0, 1e15, NULL, "SIZE",
     "Bytes of a rank that an all-reduce puts together in each step: 4 of a parameter in float32."},
    {"alpha", STK_OPTION_DURATION, AT(alpha), "0", 0, 60, NULL, "SECONDS",
     "Latency of a message from one rank to another."},
    {"beta", STK_OPTION_RATE, AT(beta), "auto", 1, 1e15, "auto", "RATE",
     "Bytes a second that a rank sends; auto: no limit."},
    {"collective", STK_OPTION_ENUM, AT(collective), "tree", 0, 0, "tree|ring", NULL,
     "How the all-reduce goes: 2 log2(N) messages one after the other, or 2 (N - 1)."},
    {"overlap", STK_OPTION_DOUBLE, AT(overlap), "0", 0, 1, NULL, "SHARE",
     "Of a step, behind which the all-reduce is hidden."},
    {"storage", STK_OPTION_RATE, AT(storage), "auto", 1, 1e15, "auto", "RATE",
     "Bytes a second of a storage that all machines share; auto: each has its own."},
    {"slow_share", STK_OPTION_DOUBLE, AT(slow_share), "0", 0, 1, NULL, "SHARE",
     "Of the steps of a rank, that take slow_factor times as long, at random."},
    {"slow_factor", STK_OPTION_DOUBLE, AT(slow_factor), "1", 1, 1e6, NULL, "N",
     "How many times as long."},
    {"mtbf", STK_OPTION_DURATION, AT(mtbf), "auto", 1, 1e12, "auto", "SECONDS",
     "Mean time between failures of one rank with its accelerator: 50000h is 20 failures in a "
     "million hours; auto: none fails."},
    {"checkpoint", STK_OPTION_DURATION, AT(checkpoint), "0", 0, 1e6, NULL, "SECONDS",
     "That training stands for a checkpoint."},
    {"restart", STK_OPTION_DURATION, AT(restart), "0", 0, 1e6, NULL, "SECONDS",
     "From a failure to the first step after it: noticing, starting, loading."},
    {"contention", STK_OPTION_DOUBLE, AT(contention), "1", 1, 100, NULL, "N",
     "How many times as long a step that computes takes where all cores of its machine do: as "
     "measured of as many ranks as cores."},
};

const stk_option_table stk__scale_option_table = {
    .name = "scale",
    .doc = "Many ranks that are predicted",
    .struct_size = sizeof(stk_scale),
    .options = rows,
    .count = STK_COUNT(rows),
};

/* What is being set. */
typedef struct asked {
    stk_scale scale;
    stk_what_if what_if;
    uint64_t *ranks;
    size_t n;
    bool lists; /* the last name was ranks: a number alone is one more */
} asked;

static stk_status add_ranks(asked *a, const char *value, stk_error *err)
{
    stk_scale one = a->scale;

    STK_TRY(stk_options_set(&stk__scale_option_table, &one, "ranks", value, err));
    if (a->n == STK_SCALE_RANKS)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "scale.ranks: more than %d numbers: ask for fewer at a time",
                         STK_SCALE_RANKS);
    a->ranks[a->n++] = one.ranks;
    a->scale.ranks = a->ranks[0];
    return STK_OK;
}

static stk_status set_pair(void *user, char *pair, stk_error *err)
{
    asked *a = user;
    char *value = strchr(pair, '=');

    if (!value && a->lists)
        return add_ranks(a, pair, err);
    if (!value)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, pair, STK_NO_OFFSET,
                            "scale: '%.64s' is no name=value, such as ranks=8,64", pair);
    *value++ = 0;
    a->lists = strcmp(pair, "ranks") == 0;
    if (a->lists)
        return add_ranks(a, value, err);
    if (!stk_options_find(&stk__scale_option_table, pair) &&
        stk_options_find(&stk__what_if_option_table, pair))
        return stk_options_set(&stk__what_if_option_table, &a->what_if, pair, value, err);
    const stk_status status =
        stk_options_set(&stk__scale_option_table, &a->scale, pair, value, err);
    if (status != STK_OK)
        stk__option_unknown_nearer(&stk__what_if_option_table, err);
    return status;
}

stk_status stk_scale_parse(stk_context *context, const char *text, stk_scale *scale,
                           stk_what_if *what_if, uint64_t *ranks, size_t *n, stk_error *err)
{
    asked a = {.ranks = ranks};

    *n = 0;
    STK_TRY(stk__context_check(context, err));
    stk_scale_init(&a.scale);
    stk_what_if_init(&a.what_if);
    STK_TRY(stk__sized_read(&a.scale, sizeof a.scale, scale, "stk_scale", STK_STAGE_MEASURE, err));
    STK_TRY(stk__sized_read(&a.what_if, sizeof a.what_if, what_if, "stk_what_if", STK_STAGE_MEASURE,
                            err));
    STK_TRY(stk__asked_each(context, text, set_pair, &a, err));
    if (a.n == 0)
        ranks[a.n++] = a.scale.ranks;
    *n = a.n;
    stk__sized_write(scale, &a.scale);
    stk__sized_write(what_if, &a.what_if);
    return STK_OK;
}
