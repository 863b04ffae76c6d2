/* SPDX-License-Identifier: Apache-2.0 */
/* A whole training as one run, in a process of its own. */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>

#include "train.h"

/* The table says what came of it, not each line of the trainer. */
static void no_line(void *user, const char *text)
{
    (void)user, (void)text;
}

static void progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    const struct bench_task *task = user;
    char text[STK_BENCH_LABEL + 64];

    snprintf(text, sizeof text, "%s: %s", task->setting.label, what);
    cli_console_progress(task->cli, text, done, total);
}

/* What the log says of the setting and of the run; NULL: there is no log, or no memory. */
static char *about_of(const stk_bench_setting *setting)
{
    char *text = NULL;

    if (!setting->log ||
        asprintf(&text, "%s, \"repeat\": %" PRIu64, setting->about, setting->repeat) < 0)
        return NULL;
    return text;
}

void bench_fit(struct bench_task *task, stk_context *context, stk_config *config,
               struct bench_result *result)
{
    const stk_console console = {
        .struct_size = sizeof console, .line = no_line, .progress = progress, .user = task};
    char *about = about_of(&task->setting);
    const stk_recipe_options options = {.struct_size = sizeof options,
                                        .tasks = STK_RECIPE_FIT | STK_RECIPE_TEST,
                                        .console = &console,
                                        .log = about ? task->setting.log : NULL,
                                        .log_about = about,
                                        .begin_ns = cli_now_ns(),
                                        .home = cli_home_folder()};
    stk_recipe_parts parts = {.struct_size = sizeof parts};
    stk_recipe *recipe = NULL;
    stk_error err;

    bench_fail(result, STK_OK, "");
    stk_error_init(&err);
    stk_status status = cli_plugins(task->cli, context, config, &err);
    if (status == STK_OK)
        status = stk_recipe_create(context, config, &options, &recipe, &err);
    if (status == STK_OK) {
        stk_recipe_get_parts(recipe, &parts);
        train_on_interrupt(parts.trainer);
        (void)stk_recipe_measure(recipe, &result->run, &result->figures, &err);
        cli_on_interrupt(NULL, NULL);
    } else {
        bench_fail(result, status, "");
        result->run.error = err;
    }
    stk_recipe_destroy(&recipe);
    free(about);
}
