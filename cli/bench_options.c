/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of the command: what arguments and recipes add to a plan. */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is asked of the command and not of the library. Words for who typed it. */
static int check(const struct cli *cli, const stk_bench_setting *setting,
                 const stk_loader_options *loader, const stk_bench_options *bench)
{
    if (!setting->dataset || !setting->dataset[0]) {
        cli_error("no dataset: give --dataset SPEC ('digits:' needs no files) or a path");
        return CLI_USAGE;
    }
    if (bench->ranks > 1 && (loader->world_size > 1 || loader->rank > 0)) {
        cli_error("--ranks %" PRIu64
                  " sets rank and world_size itself: leave out --rank and --world-size",
                  bench->ranks);
        return CLI_USAGE;
    }
    if (bench->all_reduce && bench->ranks < 2) {
        cli_error("--all-reduce is made by several ranks: give --ranks N as well");
        return CLI_USAGE;
    }
    if (bench->all_reduce && stk_config_count(cli->config, "dashboard")) {
        cli_error("--dashboard: ranks with --all-reduce are mpirun's, and have no page: leave out "
                  "one of the two");
        return CLI_USAGE;
    }
    return CLI_GO_ON;
}

static stk_status adjust(void *user, stk_bench_setting *setting, stk_loader_options *loader,
                         stk_bench_options *bench, stk_error *err)
{
    struct bench_plan *plan = user;
    struct cli *cli = plan->cli;
    const char *config;
    const enum bench_step step = bench_step_of(bench->step, &config);

    (void)err;
    setting->dataset = cli_home(setting->dataset);
    plan->code = step == BENCH_SIMULATED || step == BENCH_PYTHON
                     ? bench_recipe_check(cli)
                     : bench_recipe_make(cli, setting, loader, bench, &plan->recipes);
    if (plan->code == CLI_GO_ON)
        plan->code = check(cli, setting, loader, bench);
    /* The launcher says it, unless somebody else does; a whole training asks by itself. */
    if (step != BENCH_FIT && bench->ranks == 1 && !cli_ranks_given(cli)) {
        loader->rank = cli->ranks.rank;
        loader->world_size = cli->ranks.world_size;
    }
    return plan->code == CLI_GO_ON ? STK_OK : STK_EINVAL;
}

int bench_take_path(struct cli *cli)
{
    stk_error err;

    if (!cli->num_args)
        return CLI_GO_ON;
    const stk_status status = stk_config_set(cli->config, "dataset", cli->args[0], false, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

int bench_plan_make(struct cli *cli, struct bench_plan *plan)
{
    const stk_bench_plan_options options = {sizeof options, adjust, plan, getenv("STOKER_PYTHON")};
    stk_error err;

    *plan = (struct bench_plan){.cli = cli, .code = CLI_GO_ON};
    stk_status status =
        stk_bench_plan_create(cli->config_context, cli->config, &options, &plan->settings, &err);
    if (status != STK_OK && plan->code == CLI_GO_ON)
        plan->code = cli_fail(cli, status, &err);
    return plan->code;
}

void bench_plan_free(struct bench_plan *plan)
{
    stk_bench_plan_destroy(&plan->settings);
    bench_recipe_free(plan->recipes);
}

stk_bench_setting bench_setting(const struct bench_plan *plan, size_t i)
{
    stk_bench_setting setting = {.struct_size = sizeof setting};

    stk_bench_plan_get(plan->settings, i, &setting);
    return setting;
}

bool bench_keep(struct bench_plan *plan, size_t i, const stk_bench_setting *setting,
                struct bench_result *results, bool *log_failed)
{
    stk_status status = STK_OK;
    stk_error err;

    results[0].run.interrupted |= cli_interrupted() != 0;
    for (uint64_t r = 0; r < setting->bench->ranks && status == STK_OK; r++) {
        *log_failed |= results[r].run.log_failed;
        status =
            stk_bench_plan_add(plan->settings, i, r, &results[r].run, &results[r].figures, &err);
    }
    if (status != STK_OK)
        cli_error("%s", err.text);
    return status == STK_OK;
}
