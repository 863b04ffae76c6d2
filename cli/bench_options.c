/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The published benchmark's values, where --published is given and the option is not. */
#define PUBLISHED_EPOCHS  2
#define PUBLISHED_BATCHES 3
#define PUBLISHED_SIZE    16
#define PUBLISHED_STEP    0.1
#define PUBLISHED_WARMUP  1

const stk_option_table *bench_source_table(void)
{
    static const stk_option rows[] = {
        {"dataset", STK_OPTION_STRING, offsetof(struct bench_source, dataset), NULL, 0, 0, NULL,
         "SPEC",
         "What to read: 'digits:', 'mnist:DIR', 'npy:FILE', ...; a PATH where what lies there is "
         "unambiguous."},
    };
    static const stk_option_table table = {
        .name = "",
        .doc = "The data",
        .struct_size = sizeof(struct bench_source),
        .options = rows,
        .count = 1,
    };

    return &table;
}

/* ---- What the log says of a setting --------------------------------------------------------- */

/* A value as Python writes it. */
static void put_python(FILE *out, const stk_option *option, const void *options)
{
    char text[1024];
    const char *string = NULL;

    if (option->type == STK_OPTION_STRING)
        memcpy(&string, (const char *)options + option->offset, sizeof string);
    if (string) {
        fprintf(out, "'%s'", string);
        return;
    }
    stk_options_format_json(option, options, text, sizeof text);
    if (option->type == STK_OPTION_BOOL)
        fputs(text[0] == 't' ? "True" : "False", out);
    else if (text[0] == '"')
        fprintf(out, "'%.*s'", (int)strlen(text) - 2, text + 1);
    else
        fputs(strcmp(text, "null") == 0 ? "None" : text, out);
}

/* What tells this run from the others of its log. */
static char *identify(const struct bench_setting *setting)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    fprintf(out, "\"setting\": %" PRIu64 ", \"label\": ", setting->number);
    cli_json_string(out, setting->label);
    if (setting->rung) {
        fprintf(out, ", \"rung\": %" PRIu64 ", \"measure\": ", setting->rung);
        cli_json_string(out, setting->measure);
    }
    fclose(out);
    return text;
}

static bool was_given(struct cli *cli, const stk_option_table *table, const char *name)
{
    char key[128];

    snprintf(key, sizeof key, "%s.%s", table->name, name);
    return stk_config_count(cli->config, key) > 0;
}

static void put_table(FILE *out, struct cli *cli, const stk_option_table *table,
                      const void *options, bool given, bool *first)
{
    for (size_t i = 0; i < table->count; i++) {
        const stk_option *option = &table->options[i];
        if (given && !was_given(cli, table, option->name))
            continue;
        fputs(*first ? "" : ", ", out);
        fprintf(out, given ? "'%s': " : "\"%s\": ", option->name);
        if (given)
            put_python(out, option, options);
        else
            cli_json_option(out, option, options);
        *first = false;
    }
}

/* `locals`: all options as a JSON object; `data_params`: those given, as the text of a Python dict.
 */
static char *describe(struct cli *cli, const struct bench_setting *setting, bool given)
{
    char *text = NULL;
    size_t size;
    bool first = true;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    fputc('{', out);
    if (!given) {
        fputs("\"dataset\": ", out);
        cli_json_string(out, setting->dataset);
        first = false;
        put_table(out, cli, stk_bench_option_table(), &setting->bench, given, &first);
    }
    put_table(out, cli, stk_loader_option_table(), &setting->loader, given, &first);
    fputc('}', out);
    fclose(out);
    return text;
}

/* ---- Settings ------------------------------------------------------------------------------- */

static void apply_published(struct cli *cli, struct bench_setting *setting)
{
    const stk_option_table *bench = stk_bench_option_table(), *loader = stk_loader_option_table();

    if (!was_given(cli, bench, "num_epochs"))
        setting->bench.num_epochs = PUBLISHED_EPOCHS;
    if (!was_given(cli, bench, "num_batches"))
        setting->bench.num_batches = PUBLISHED_BATCHES;
    if (!was_given(cli, bench, "train_step_time"))
        setting->bench.train_step_time = PUBLISHED_STEP;
    if (!was_given(cli, bench, "warmup"))
        setting->bench.warmup = PUBLISHED_WARMUP;
    if (!was_given(cli, loader, "batch_size"))
        setting->loader.batch_size = PUBLISHED_SIZE;
}

static int check(const struct bench_setting *setting)
{
    if (!setting->dataset || !setting->dataset[0]) {
        cli_error("no dataset: give --dataset SPEC ('digits:' needs no files) or a path");
        return CLI_USAGE;
    }
    if (setting->bench.ranks > 1 && (setting->loader.world_size > 1 || setting->loader.rank > 0)) {
        cli_error("--ranks %" PRIu64
                  " sets rank and world_size itself: leave out --rank and --world-size",
                  setting->bench.ranks);
        return CLI_USAGE;
    }
    return CLI_GO_ON;
}

/* In a sweep over on_error a bound on bad samples is for the settings that pass them; where none
 * does, the loader refuses it. */
static void drop_idle_bound(struct cli *cli, struct bench_setting *setting)
{
    if (stk_config_count(cli->config, "loader.on_error") > 1 &&
        setting->loader.on_error == STK_ON_ERROR_FAIL)
        setting->loader.max_errors = "auto";
}

static int setting_make(struct cli *cli, uint64_t which, struct bench_setting *setting)
{
    struct bench_source source;
    size_t used = 0;

    setting->which = which;
    int code = cli_apply(cli, bench_source_table(), which, &source);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, stk_bench_option_table(), which, &setting->bench);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, stk_loader_option_table(), which, &setting->loader);
    if (code != CLI_GO_ON)
        return code;
    drop_idle_bound(cli, setting);
    setting->dataset = cli_home(cli->num_args ? cli->args[0] : source.dataset);
    if (setting->bench.step)
        code = bench_recipe_make(cli, setting);
    if (code != CLI_GO_ON)
        return code;
    if (setting->bench.published)
        apply_published(cli, setting);
    code = check(setting);
    if (code != CLI_GO_ON)
        return code;
    used = cli_label(cli, bench_source_table(), &source, setting->label, BENCH_LABEL, used);
    used = cli_label(cli, stk_loader_option_table(), &setting->loader, setting->label, BENCH_LABEL,
                     used);
    used = cli_label(cli, stk_bench_option_table(), &setting->bench, setting->label, BENCH_LABEL,
                     used);
    cli_label(cli, stk_context_option_table(), NULL, setting->label, BENCH_LABEL, used);
    if (!setting->label[0])
        snprintf(setting->label, BENCH_LABEL, "as given");
    setting->locals = describe(cli, setting, false);
    setting->data_params = describe(cli, setting, true);
    if (!setting->locals || !setting->data_params) {
        cli_error("no memory for the settings");
        return CLI_FAILED;
    }
    return CLI_GO_ON;
}

/* For each batch size there is one ceiling, taken from the first setting that has it. */
static bool needs_ceiling(const struct bench_plan *plan, size_t i)
{
    const struct bench_setting *setting = &plan->settings[i];

    for (size_t k = 0; k < i; k++)
        if (plan->settings[k].loader.batch_size == setting->loader.batch_size &&
            plan->settings[k].bench.ceiling)
            return false;
    return setting->bench.ceiling;
}

static int add_ceilings(struct bench_plan *plan)
{
    size_t settings = plan->count;

    for (size_t i = 0; i < settings; i++) {
        if (!needs_ceiling(plan, i))
            continue;
        struct bench_setting *setting = &plan->settings[plan->count];
        *setting = plan->settings[i];
        setting->free_data = true;
        setting->rung = 0;
        setting->locals = strdup(setting->locals);
        setting->data_params = strdup(setting->data_params);
        plan->count++;
        if (!setting->locals || !setting->data_params) {
            cli_error("no memory for the settings");
            return CLI_FAILED;
        }
        snprintf(setting->label, BENCH_LABEL, "ceiling: data free (batch_size %" PRIu64 ")",
                 setting->loader.batch_size);
    }
    return CLI_GO_ON;
}

/* What each rung of a ladder adds to the one before; with its number that is name enough. */
static void name_rungs(struct cli *cli, struct bench_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct bench_setting *setting = &plan->settings[i];
        setting->rung = i + 1;
        snprintf(setting->measure, BENCH_LABEL, "at first");
        if (i > 0)
            cli_changed(cli, setting[-1].which, setting->which, setting->measure, BENCH_LABEL);
        snprintf(setting->label, BENCH_LABEL, "%" PRIu64 ". %.*s", setting->rung, BENCH_LABEL - 24,
                 setting->measure);
    }
}

static int number_settings(struct bench_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        plan->settings[i].number = i + 1;
        plan->settings[i].identity = identify(&plan->settings[i]);
        if (!plan->settings[i].identity) {
            cli_error("no memory for the settings");
            return CLI_FAILED;
        }
    }
    return CLI_GO_ON;
}

int bench_plan_make(struct cli *cli, struct bench_plan *plan)
{
    stk_bench_options first;
    int code = cli_apply(cli, stk_bench_option_table(), 0, &first);
    const bool ladder = code == CLI_GO_ON && first.ladder;
    uint64_t n = ladder ? stk_config_rungs(cli->config) : stk_config_combinations(cli->config);

    if (code != CLI_GO_ON)
        return code;
    *plan = (struct bench_plan){0};
    if (n > BENCH_MAX_SETTINGS) {
        cli_error("%" PRIu64 " settings: %d at most; give fewer values", n, BENCH_MAX_SETTINGS);
        return CLI_USAGE;
    }
    plan->settings = calloc(2 * n, sizeof *plan->settings);
    if (!plan->settings) {
        cli_error("no memory for %" PRIu64 " settings", n);
        return CLI_FAILED;
    }
    for (uint64_t i = 0; i < n && code == CLI_GO_ON; i++)
        code = setting_make(cli, ladder ? stk_config_rung(cli->config, i) : i,
                            &plan->settings[plan->count++]);
    if (code == CLI_GO_ON && ladder)
        name_rungs(cli, plan);
    if (code == CLI_GO_ON)
        code = add_ceilings(plan);
    return code == CLI_GO_ON ? number_settings(plan) : code;
}

void bench_plan_free(struct bench_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        free(plan->settings[i].locals);
        free(plan->settings[i].data_params);
        free(plan->settings[i].identity);
        /* A ceiling has that of its setting. */
        if (!plan->settings[i].free_data)
            bench_recipe_free(plan->settings[i].recipe);
    }
    free(plan->settings);
    *plan = (struct bench_plan){0};
}
