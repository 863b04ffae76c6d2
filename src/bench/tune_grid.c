/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked for, and the values to look among. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/config.h"
#include "base/options.h"
#include "base/sized.h"
#include "bench/tune.h"

#define AT(member) offsetof(stk_tune_options, member)

static const stk_option rows[] = {
    {"objective", STK_OPTION_ENUM, AT(objective), "wait", 0, 0, "wait|speed|cost", NULL,
     "wait: the fewest workers and the least memory with which the step waits no more than "
     "max_wait; speed: the most samples a second; cost: the least money for a sample."},
    {"max_wait", STK_OPTION_DOUBLE, AT(max_wait), "0.02", 0, 1, NULL, "SHARE",
     "objective wait: the share of the time that the step may wait for data."},
    {"max_memory", STK_OPTION_SIZE, AT(max_memory), "0", 0, 0, NULL, "SIZE",
     "No setting that takes more memory than this beyond what the process has without a loader; "
     "memory_budget is kept below it. 0: no limit."},
    {"max_cores", STK_OPTION_INT, AT(max_cores), "auto", 0, 1024, "auto", "N",
     "No setting with more workers; auto: what the grid has."},
    {"core_price", STK_OPTION_DOUBLE, AT(core_price), "0.04", 0, 1e6, NULL, "MONEY",
     "objective cost: of one core for an hour; each worker takes one, and so do the threads of the "
     "step."},
    {"gpu_price", STK_OPTION_DOUBLE, AT(gpu_price), "2", 0, 1e6, NULL, "MONEY",
     "objective cost: of the accelerator for an hour; 0: there is none."},
    {"verify", STK_OPTION_UINT, AT(verify), "10", 1, STK_BENCH_MAX_SETTINGS, NULL, "N",
     "Run at most so many of the settings that are predicted to be good."},
    {"rounds", STK_OPTION_UINT, AT(rounds), "4", 0, 1000, NULL, "N",
     "Run the best ones at most so many times more, in turn, until it is certain which is best."},
    {"max_time", STK_OPTION_DURATION, AT(max_time), "auto", 0, 1e6, "auto", "SECONDS",
     "Begin no run that would end later, but for the first; what is best until then is chosen. "
     "auto: a third of min_seconds for each setting of the grid, so a tenth of what it would take "
     "to run each of them for 10 s, where runs are of 3 s; and at least ten times min_seconds, and "
     "20 s."},
};

const stk_option_table stk__tune_option_table = {
    .name = "tune",
    .doc = "What is looked for",
    .struct_size = sizeof(stk_tune_options),
    .options = rows,
    .count = STK_COUNT(rows),
};

/* ---- The grid ---------------------------------------------------------------------------------
 */

#define LIST          256 /* bytes of the values of an option */
#define WORKERS       8   /* the grid goes at least so far */
#define SHORT_SECONDS "3" /* of a run, where nothing is said */
#define SHORT_BATCHES "20"
#define SLOW          2                   /* times min_seconds: the longest run */
#define BESIDE        (UINT64_C(2) << 20) /* bytes that a process takes beside the budget: once, */
#define BESIDE_WORKER (UINT64_C(3) << 18) /* and for each worker, as measured of small reads; */
#define BESIDE_SHARE  3                   /* at most so much of the limit is kept for them */

const char *const stk__tune_keys[STK__TUNE_OWN] = {"loader.num_workers", "loader.io_depth",
                                                   "loader.prefetch_factor"};

const char stk__tune_short[] = "tune", stk__tune_limit[] = "tune.max_memory";

/* Whether a list "a,b" has a value. */
static bool has(const char *list, const char *value)
{
    const size_t length = strlen(value);

    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, value, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
    }
    return false;
}

static void add(char list[LIST], const char *value)
{
    const size_t used = strlen(list);

    if (!has(list, value))
        snprintf(list + used, LIST - used, "%s%s", used ? "," : "", value);
}

/* 0, 1, 2, 4, ... up to the cores there are, or those that there may be. */
static void add_workers(const stk_config *config, const stk_tune_options *options, char list[LIST])
{
    stk_cores cores = {.struct_size = sizeof cores};
    char text[24];

    stk_context_cores(config->context, &cores);
    const int64_t most = options->max_cores == STK_AUTO
                             ? (int64_t)STK_MAX(cores.usable, (uint32_t)WORKERS)
                             : options->max_cores;
    add(list, "0");
    for (int64_t n = 1; n < most; n *= 2) {
        snprintf(text, sizeof text, "%" PRId64, n);
        add(list, text);
    }
    snprintf(text, sizeof text, "%" PRId64, most);
    add(list, text);
}

/* Options of a bench that say nothing to a tuner, and what does what they would. */
static const struct {
    const char *name, *instead;
} refused[] = {
    {"ladder", "'stoker bench --ladder' adds one measure after the other"},
    {"repeat", "rounds says how often the best settings run again"},
    {"ceiling", "'stoker bench --ceiling' of what was found measures it"},
    {"hash", "'stoker bench --hash FILE' of what was found writes them"},
};

static stk_status refuse_of_bench(stk_config *config, stk_error *err)
{
    const stk_option_table *table = &stk__bench_option_table;
    char key[64], text[STK_OPTION_NAME], usual[STK_OPTION_NAME];
    stk_bench_options given, initial;

    stk_bench_options_init(&initial);
    given = initial;
    STK_TRY(stk_config_apply(config, table, 0, &given, err));
    for (size_t i = 0; i < STK_COUNT(refused); i++) {
        const stk_option *option = stk_options_find(table, refused[i].name);
        stk_options_format(option, &given, text, sizeof text);
        stk_options_format(option, &initial, usual, sizeof usual);
        snprintf(key, sizeof key, "bench.%s", refused[i].name);
        if (strcmp(text, usual) != 0)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, key, STK_NO_OFFSET,
                                "%s: it has no effect on a tuning; leave it out: %s", key,
                                refused[i].instead);
    }
    return STK_OK;
}

/* What only a plan of a tuner has several values of. */
static stk_status check(stk_config *config, stk_error *err)
{
    const char *step = stk_config_get(config, "bench.step", 0);

    if (step && strncmp(step, "fit", 3) == 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "bench.step", STK_NO_OFFSET,
                            "bench.step: '%.100s' is a whole training, which takes too long to be "
                            "tried with many settings; train:CONFIG.yaml takes its steps alone",
                            step);
    for (size_t i = 0; i < config->count; i++) {
        const stk__entry *entry = &config->entries[i];
        bool own = false;
        for (size_t k = 0; k < STK__TUNE_OWN; k++)
            own |= strcmp(entry->key, stk__tune_keys[k]) == 0;
        if (!own && stk__config_choices(entry) > 1)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, entry->key, STK_NO_OFFSET,
                                "%s has %zu values: num_workers, io_depth and prefetch_factor are "
                                "looked for with all else as it is; give one value, or compare "
                                "them by 'stoker bench'",
                                entry->key, entry->count);
    }
    return refuse_of_bench(config, err);
}

/* Whether a value is to stay: one that does not come from a file, or several, which are a grid. */
static bool is_kept(const stk_config *config, const char *key)
{
    const stk__entry *entry = stk__config_find(config, key);

    return entry && entry->count && (entry->count > 1 || !entry->values[0].place.source);
}

/* The values of option `k`: as given, by default, and the grid. */
static void list_of(const stk_config *config, const stk_tune_options *options, size_t k,
                    char list[LIST])
{
    static const char *const depths[] = {"1", "4", "16", "64"}, *const ahead[] = {"1", "2", "4"};
    const char *given = stk_config_get(config, stk__tune_keys[k], 0);

    *list = 0;
    if (given && strlen(given) < 32)
        add(list, given);
    /* What the loader takes where nothing is said. */
    add(list, stk_options_find(stk_option_table_find("loader"), stk__tune_name(k))->initial);
    if (k == 0)
        add_workers(config, options, list);
    for (size_t i = 0; k == 1 && i < STK_COUNT(depths); i++)
        add(list, depths[i]);
    for (size_t i = 0; k == 2 && i < STK_COUNT(ahead); i++)
        add(list, ahead[i]);
}

/* A value that is known by its source. */
static stk_status put(stk_config *config, const char *key, const char *text, const char *source,
                      stk_error *err)
{
    stk__config_value value = {.place = {.source = source}};

    value.text = stk__config_copy(config, text, strlen(text));
    if (!value.text)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for %s", key);
    return stk__config_put(config, key, &value.place, &value, 1, 0, err);
}

/* An option without a value gets one. */
static stk_status give(stk_config *config, const char *key, const char *text, stk_error *err)
{
    return stk_config_count(config, key) ? STK_OK : put(config, key, text, stk__tune_short, err);
}

/* Runs are short. What is so slow that it comes to few batches shows it by these. */
static stk_status bound_runs(stk_config *config, stk_error *err)
{
    const bool asked = stk_config_count(config, "bench.min_batches") ||
                       stk_config_count(config, "bench.num_epochs");
    stk_bench_options bench;
    char text[32];

    STK_TRY(give(config, "bench.min_seconds", SHORT_SECONDS, err));
    STK_TRY(give(config, "bench.min_batches", SHORT_BATCHES, err));
    stk_bench_options_init(&bench);
    STK_TRY(stk_config_apply(config, stk_option_table_find("bench"), 0, &bench, err));
    if (asked || !(bench.min_seconds > 0))
        return STK_OK;
    snprintf(text, sizeof text, "%.6f", SLOW * bench.min_seconds);
    return give(config, "bench.max_seconds", text, err);
}

/* ---- The table of a bench as a tuner takes it ------------------------------------------------ */

#define MOST_OPTIONS 32 /* of a bench */

static stk_option tuned_rows[MOST_OPTIONS];
static stk_option_table tuned_table;

static bool is_refused(const char *name)
{
    for (size_t i = 0; i < STK_COUNT(refused); i++)
        if (strcmp(name, refused[i].name) == 0)
            return true;
    return false;
}

static void make_table(void)
{
    const stk_option_table *table = &stk__bench_option_table;
    size_t n = 0;

    for (size_t i = 0; i < table->count && n < MOST_OPTIONS; i++) {
        stk_option *row = &tuned_rows[n];
        *row = table->options[i];
        n += !is_refused(row->name);
        if (strcmp(row->name, "min_seconds") == 0)
            row->initial = SHORT_SECONDS;
        if (strcmp(row->name, "min_batches") == 0)
            row->initial = SHORT_BATCHES;
        if (strcmp(row->name, "max_seconds") == 0) {
            row->initial = NULL;
            row->doc = "End the measurement of a setting after so long, whatever it has reached; "
                       "0: never. Where nothing is said: twice min_seconds; with min_batches or "
                       "num_epochs as of a bench.";
        }
    }
    tuned_table = *table;
    tuned_table.options = tuned_rows;
    tuned_table.count = n;
}

const stk_option_table *stk_tune_bench_table(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_table);
    return &tuned_table;
}

/* ---- Bounds -----------------------------------------------------------------------------------
 */

/* The most workers of the grid. */
static uint64_t most_workers(const stk_config *config)
{
    uint64_t most = WORKERS; /* what auto may come to is as many at least */

    for (size_t i = 0; i < stk_config_count(config, stk__tune_keys[0]); i++) {
        const char *value = stk_config_get(config, stk__tune_keys[0], i);
        most = STK_MAX(most, strtoull(value, NULL, 10)); /* auto: 0 */
    }
    return most;
}

/* The budget is the one bound that holds while a loader runs. What it does not count is left out of
 * it: stacks, the store's own, and what the allocator keeps for each thread. */
static stk_status bound_memory(stk_config *config, uint64_t most, stk_error *err)
{
    const uint64_t beside = BESIDE + most_workers(config) * BESIDE_WORKER,
                   budget = most - STK_MIN(beside, most / BESIDE_SHARE);
    stk_loader_options loader;
    char text[32];

    if (!most)
        return STK_OK;
    stk_loader_options_init(&loader);
    STK_TRY(stk_config_apply(config, stk_option_table_find("loader"), 0, &loader, err));
    if (loader.memory_budget && loader.memory_budget <= budget)
        return STK_OK;
    snprintf(text, sizeof text, "%" PRIu64, budget);
    return put(config, "loader.memory_budget", text, stk__tune_limit, err);
}

stk_status stk_tune_grid(stk_config *config, const stk_tune_options *options, stk_error *err)
{
    const char *dataset = stk_config_get(config, "dataset", 0);
    const bool python = dataset && strncmp(dataset, "python:", 7) == 0;
    stk_tune_options known;
    char list[LIST];

    stk_tune_options_init(&known);
    if (options)
        STK_TRY(stk__sized_read(&known, sizeof known, options, "stk_tune_options",
                                STK_STAGE_OPTIONS, err));
    STK_TRY(check(config, err));
    for (size_t k = 0; k < STK__TUNE_OWN; k++) {
        /* Loaders of Python read as their dataset does. */
        if (is_kept(config, stk__tune_keys[k]) || (k == 1 && python))
            continue;
        list_of(config, &known, k, list);
        STK_TRY(stk_config_set(config, stk__tune_keys[k], list, true, err));
    }
    STK_TRY(bound_runs(config, err));
    return python ? STK_OK : bound_memory(config, known.max_memory, err);
}
