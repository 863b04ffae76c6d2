/* SPDX-License-Identifier: Apache-2.0 */
/* One run of one setting, in a process of its own. */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <stoker/collectives.h>

#define MEET_NS UINT64_C(30000000000)

/* Wait until all ranks are here, or one of them is gone. */
static void meet(void *user, int place)
{
    const struct bench_task *task = user;
    struct bench_meeting *meeting = task->meeting;
    uint64_t until = cli_now_ns() + MEET_NS;
    const struct timespec pause = {.tv_nsec = 1000000};

    atomic_fetch_add(&meeting->arrived[place], 1);
    while (atomic_load(&meeting->arrived[place]) < task->setting.bench->ranks &&
           !atomic_load(&meeting->broken) && !cli_interrupted() && cli_now_ns() < until)
        nanosleep(&pause, NULL);
}

static bool keep_hash(void *user, const stk_bench_hash *row)
{
    return fwrite(row, sizeof *row, 1, user) == 1;
}

/* In a signal handler. The parent tells of an interrupt; what tells the whole group ends nothing.
 */
static void interrupt(void *bench)
{
    signal(SIGTERM, SIG_IGN);
    if (bench)
        stk_bench_cancel(bench);
}

void bench_fail(struct bench_result *result, stk_status status, const char *text)
{
    memset(result, 0, sizeof *result);
    result->run.struct_size = sizeof result->run;
    result->figures.struct_size = sizeof result->figures;
    stk_error_init(&result->run.error);
    result->run.status = result->run.error.status = status;
    snprintf(result->run.error.text, sizeof result->run.error.text, "%s", text);
}

/* The hashes are in a file until the ranks are merged. */
static void end_hashes(FILE *hashes, struct bench_result *result)
{
    if (!hashes || (fflush(hashes) == 0 && !ferror(hashes)))
        return;
    result->run.status = result->run.error.status = STK_EIO;
    snprintf(result->run.error.text, sizeof result->run.error.text,
             "could not keep the hashes: %s; the folder for temporary files, /tmp, may be full",
             strerror(errno));
}

/* Meet the other ranks over the MPI that has started them, for what ends each step. */
static stk_status join(struct bench_task *task, stk_context *context, stk_collectives **out,
                       stk_error *err)
{
    stk_collectives_options options;

    if (!task->setting.bench->all_reduce)
        return STK_OK;
    stk_collectives_options_init(&options);
    options.transport = cli_ranks_transport();
    const stk_status status = stk_collectives_open(context, &options, out, err);
    task->joined = status == STK_OK;
    task->setting.strategy = task->joined ? stk_collectives_strategy(*out) : NULL;
    return status;
}

void bench_run(struct bench_task *task, struct bench_result *result)
{
    stk_bench_setting *setting = &task->setting;
    const struct bench_recipe *recipe = bench_recipe_of(task->plan->recipes, setting->which);
    stk_recipe *train = NULL;
    stk_collectives *collectives = NULL;
    stk_context *context;
    stk_bench *bench = NULL;
    stk_status status = STK_OK;
    stk_error err;
    char what[128];

    signal(SIGINT, SIG_IGN);
    cli_on_interrupt(interrupt, NULL);
    bench_fail(result, STK_EINVAL, "it could not begin; the message above says why");
    if (cli_context(task->cli, setting->which, &context) != CLI_GO_ON)
        return;
    snprintf(what, sizeof what, "%.60s, %.60s", setting->dataset ? setting->dataset : "",
             setting->label ? setting->label : "");
    const bool own = setting->bench->ranks > 1; /* else it may be a rank of somebody else's */
    if (cli_live(task->cli, what, own ? setting->rank : task->cli->ranks.rank,
                 own ? setting->bench->ranks : task->cli->ranks.world_size) != CLI_GO_ON)
        return;
    if (bench_recipe_fit(recipe)) {
        bench_fit(task, context, bench_recipe_fit(recipe), result);
        return;
    }
    stk_error_init(&err);
    status = join(task, context, &collectives, &err);
    if (recipe && status == STK_OK)
        status = bench_train_create(task->cli, context, recipe, setting->loader->batch_size, &train,
                                    &setting->step, &err);
    setting->meet = meet;
    setting->meet_user = task;
    setting->hash = task->hashes ? keep_hash : NULL;
    setting->hash_user = task->hashes;
    if (status == STK_OK)
        status = stk_bench_create(context, setting, &bench, &err);
    if (bench) {
        cli_on_interrupt(interrupt, bench);
        (void)stk_bench_run(bench, &result->run, &result->figures, &err);
        cli_on_interrupt(interrupt, NULL);
        end_hashes(task->hashes, result);
    } else {
        bench_fail(result, status, "");
        result->run.error = err;
    }
    stk_bench_destroy(&bench);
    stk_recipe_destroy(&train);
    stk_collectives_close(&collectives);
}
