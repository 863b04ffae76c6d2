/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes -> configuration, options, specs. The input is a YAML text; what is behind a line of "%%%"
 * is settings of a command line, one "key=value" a line. Whatever they hold: no crash, no leak, and
 * what was taken reads back the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/spec.h"
#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct fuzz_options {
    uint32_t struct_size;
    bool drop_last;
    int64_t num_workers;
    uint64_t seed;
    double share;
    uint64_t memory_budget;
    double bandwidth;
    double step_time;
    int32_t shuffle;
    const char *transforms;
} fuzz_options;

#define AT(member) offsetof(fuzz_options, member)

static const stk_option rows[] = {
    {"drop_last", STK_OPTION_BOOL, AT(drop_last), "false", 0, 0, NULL, NULL, "doc"},
    {"num_workers", STK_OPTION_INT, AT(num_workers), "auto", -5, 1024, "auto", NULL, "doc"},
    {"seed", STK_OPTION_UINT, AT(seed), "0", 0, 0, NULL, NULL, "doc"},
    {"share", STK_OPTION_DOUBLE, AT(share), "0.5", 0, 0, NULL, NULL, "doc"},
    {"memory_budget", STK_OPTION_SIZE, AT(memory_budget), "64MiB", 0, 0, NULL, NULL, "doc"},
    {"bandwidth", STK_OPTION_RATE, AT(bandwidth), NULL, 0, 0, NULL, NULL, "doc"},
    {"step_time", STK_OPTION_DURATION, AT(step_time), "5ms", 0, 0, NULL, NULL, "doc"},
    {"shuffle", STK_OPTION_ENUM, AT(shuffle), "none", 0, 0, "none|full|block", NULL, "doc"},
    {"transforms", STK_OPTION_STRING, AT(transforms), NULL, 0, 0, NULL, NULL, "doc"},
};
static const stk_option_table loader = {"loader", "doc", sizeof(fuzz_options), rows,
                                        STK_COUNT(rows)};
static const stk_option_table top = {"", "doc", sizeof(fuzz_options), rows, STK_COUNT(rows)};

/* A value that was taken is written as a text that gives it again. */
static void check_round_trip(const fuzz_options *options)
{
    fuzz_options again;
    char text[128], other[128];

    stk_options_init(&loader, &again, sizeof again);
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        if (rows[i].type == STK_OPTION_STRING)
            continue;
        FUZZ_CHECK(stk_options_format(&rows[i], options, text, sizeof text) < (int)sizeof text);
        FUZZ_CHECK(stk_options_set(&loader, &again, rows[i].name, text, NULL) == STK_OK);
        stk_options_format(&rows[i], &again, other, sizeof other);
        FUZZ_CHECK(strcmp(text, other) == 0);
    }
    FUZZ_CHECK(memcmp(&options->step_time, &again.step_time, sizeof again.step_time) == 0);
    FUZZ_CHECK(memcmp(&options->bandwidth, &again.bandwidth, sizeof again.bandwidth) == 0);
    FUZZ_CHECK(options->memory_budget == again.memory_budget &&
               options->num_workers == again.num_workers);
}

static void check_error(stk_status status, const stk_error *err)
{
    FUZZ_CHECK(status <= 0);
    FUZZ_CHECK(status == STK_OK ||
               (err->status == status && *err->text && strlen(err->text) < sizeof err->text));
}

/* A line as a setting, as an option and as a spec. */
static void use_line(stk_context *context, stk_config *config, char *line)
{
    char *equals = strchr(line, '=');
    fuzz_options options;
    char *texts;
    stk_error err;

    stk_options_init(&loader, &options, sizeof options);
    if (equals) {
        *equals = 0;
        check_error(stk_config_set(config, line, equals + 1, true, &err), &err);
        stk_status status = stk_options_set(&loader, &options, line, equals + 1, &err);
        check_error(status, &err);
        if (status == STK_OK)
            check_round_trip(&options);
        *equals = '=';
    }
    size_t before = strlen(line);
    stk_status status = stk__spec_take(context, line, &loader, &options, &texts, &err);
    check_error(status, &err);
    FUZZ_CHECK(strlen(line) <= before && (status == STK_OK || !texts));
    stk__free(context, texts);
}

static void use_config(stk_config *config)
{
    uint64_t n = stk_config_combinations(config);
    fuzz_options options;
    stk_error err;

    FUZZ_CHECK(n > 0);
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t which = i < 2 ? i : n - i + 1; /* the first and the last ones */
        stk_options_init(&loader, &options, sizeof options);
        stk_status status = stk_config_apply(config, &loader, which, &options, &err);
        check_error(status, &err);
        FUZZ_CHECK(which < n || status == STK_EINVAL);
        if (status == STK_OK)
            check_round_trip(&options);
        stk_options_init(&top, &options, sizeof options);
        check_error(stk_config_apply(config, &top, which, &options, &err), &err);
    }
    check_error(stk_config_finish(config, &err), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stk_context *context;
    stk_config *config;
    stk_error err;

    if (!context)
        FUZZ_CHECK(stk_context_create(NULL, &context, &err) == STK_OK);
    FUZZ_CHECK(stk_config_create(context, &config, &err) == STK_OK);
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    char *lines = memmem(text, size, "\n%%%\n", 5);
    size_t length = lines ? (size_t)(lines - text) + 1 : size;
    check_error(stk_config_load_text(config, "fuzz.yaml", (const char *)data, length, &err), &err);
    for (char *line = lines ? lines + 5 : NULL; line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        use_line(context, config, line);
        line = end ? end + 1 : NULL;
    }
    use_config(config);
    stk_config_destroy(&config);
    free(text);
    stk_memory_stats stats = {.struct_size = sizeof stats};
    stk_context_memory(context, &stats);
    FUZZ_CHECK(stats.bytes == 0);
    return 0;
}
