/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets and steps of Python: an interpreter measures them, its package calls stk_bench_run(). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "bench/plan.h"

#define AT(member) offsetof(stk_bench_python_options, member)
#define PREFIX     "python:"

/* What the interpreter runs; one without the package says what to do. */
static const char program[] =
    "import sys\n"
    "try:\n"
    "    from stoker._bench import main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'stoker: {sys.executable} has no package stoker ({error}): '\n"
    "             'install it there, or name another interpreter (--python)')\n"
    "main()\n";

enum { STOKER, TORCH }; /* python.loader */

static const stk_option rows[] = {
    {"loader", STK_OPTION_ENUM, AT(loader), "stoker", 0, 0, "stoker|torch", NULL,
     "Who loads a dataset of Python: the DataLoader of stoker.torch, or PyTorch's own."},
    {"dataset_args", STK_OPTION_STRING, AT(dataset_args), NULL, 0, 0, NULL, "JSON",
     "What python:MODULE:NAME is called with: an object of keywords, or a list."},
    {"python", STK_OPTION_STRING, AT(python), "python3", 0, 0, NULL, "PATH",
     "The interpreter that has the dataset's packages, and stoker."},
    {"multiprocessing_context", STK_OPTION_ENUM, AT(multiprocessing_context), "auto", 0, 0,
     "auto|fork|forkserver|spawn", NULL, "How workers start; auto: as the interpreter does."},
    {"in_order", STK_OPTION_BOOL, AT(in_order), "true", 0, 0, NULL, NULL,
     "Batches come in their order; false: as they are finished."},
    {"native", STK_OPTION_ENUM, AT(native), "auto", 0, 0, "auto|true|false", NULL,
     "Whether stoker.torch runs known datasets in C."},
    {"rng", STK_OPTION_ENUM, AT(rng), "torch", 0, 0, "torch|stoker", NULL,
     "Whose order and random numbers stoker.torch has."},
    {"dask", STK_OPTION_STRING, AT(dask), NULL, 0, 0, NULL, "MODE",
     "How a dataset that computes with Dask does so in a worker: off, single-threaded, threads:N, "
     "cluster:ADDRESS, local-cluster; left out: as it is."},
    {"dask_shared", STK_OPTION_BOOL, AT(dask_shared), "false", 0, 0, NULL, NULL,
     "One local cluster for all workers, instead of one for each."},
    {"dask_threads", STK_OPTION_UINT, AT(dask_threads), "0", 0, 65536, NULL, NULL,
     "Threads of each worker of a local cluster; 0: one."},
    {"dask_workers", STK_OPTION_UINT, AT(dask_workers), "0", 0, 65536, NULL, NULL,
     "Workers of a local cluster; 0: one."},
    {"dask_memory_limit", STK_OPTION_STRING, AT(dask_memory_limit), NULL, 0, 0, NULL, "SIZE",
     "Memory of each worker of a local cluster, as Dask writes it ('4GB')."},
    {"dask_dashboard_port", STK_OPTION_UINT, AT(dask_dashboard_port), "0", 0, 65535, NULL, NULL,
     "Port of a local cluster's dashboard; 0: any that is free."},
};

const stk_option_table stk__bench_python_option_table = {
    .name = "python",
    .doc = "Datasets of Python",
    .struct_size = sizeof(stk_bench_python_options),
    .options = rows,
    .count = STK_COUNT(rows),
};

/* Options of the loader that PyTorch's have, too; those of the bench that need the library's own
 * are named, and so are all of the context. */
static const char *const loader_has[] = {
    "batch_size",         "shuffle",    "drop_last", "seed", "num_workers", "prefetch_factor",
    "persistent_workers", "pin_memory", "timeout"};
static const char *const bench_lacks[] = {"ranks", "trace", "trace_every", "drop_cache", "hash"};

static bool is_among(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_python(const char *text)
{
    return text && strncmp(text, PREFIX, strlen(PREFIX)) == 0;
}

/* Refuse options of a table that are given, but for (`has`) or only (not `has`) the `n` named. */
static stk_status refuse(const stk_bench_plan *plan, const char *table_name, bool has,
                         const char *const *names, size_t n, const char *why, stk_error *err)
{
    const stk_option_table *table = stk_option_table_find(table_name);

    for (size_t i = 0; i < table->count; i++) {
        const char *name = table->options[i].name;
        if (is_among(name, names, n) != has && stk__bench_given(plan, table, name))
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "%s.%s: it has no effect on %s; leave it out", table->name, name, why);
    }
    return STK_OK;
}

/* What is said of the loader of a dataset of Python. */
static stk_status check_loader(const stk_bench_plan *plan, const stk__bench_planned *s,
                               stk_error *err)
{
    static const char *const ours[] = {"native", "rng"};
    char key[64];

    STK_TRY(refuse(plan, "loader", true, loader_has, STK_COUNT(loader_has), "a dataset of Python",
                   err));
    if (s->python.loader != TORCH)
        return STK_OK;
    /* Beside PyTorch's loader one value is of the other; several would measure PyTorch's again. */
    const bool beside = stk_config_count(plan->config, "python.loader") > 1;
    for (size_t i = 0; i < STK_COUNT(ours); i++) {
        snprintf(key, sizeof key, "python.%s", ours[i]);
        if (!beside || (stk_config_count(plan->config, key) > 1 && !s->bench.ladder))
            STK_TRY(refuse(plan, "python", false, &ours[i], 1,
                           "PyTorch's loader (python.loader: torch)", err));
    }
    return STK_OK;
}

stk_status stk__bench_take_python(const stk_bench_plan *plan, const stk_bench_plan_options *how,
                                  stk__bench_planned *s, stk_error *err)
{
    static const char *const of_a_step[] = {"python"};
    const stk_option_table *table = &stk__bench_python_option_table;
    const bool step = is_python(s->bench.step), data = is_python(s->setting.dataset);

    stk_options_init(table, &s->python, sizeof s->python);
    if (how->python)
        s->python.python = how->python;
    STK_TRY(stk_config_apply(plan->config, table, s->setting.which, &s->python, err));
    if (!data)
        STK_TRY(refuse(plan, "python", true, of_a_step, step,
                       "a dataset of the library; python:MODULE:NAME is one of Python", err));
    if (!step && !data)
        return STK_OK;
    if (data)
        STK_TRY(check_loader(plan, s, err));
    STK_TRY(refuse(plan, "context", true, NULL, 0, "what an interpreter measures", err));
    STK_TRY(refuse(plan, "bench", false, bench_lacks, STK_COUNT(bench_lacks),
                   "what an interpreter measures", err));
    if (step) {
        static const char *const simulated[] = {"spin", "train_step_time"};
        STK_TRY(refuse(plan, "bench", false, simulated, STK_COUNT(simulated),
                       "a real step (bench.step)", err));
        s->bench.spin = true;
        s->bench.train_step_time = 0;
    }
    s->setting.python = &s->python;
    return STK_OK;
}

/* What the interpreter is to know, as one JSON object. */
static char *describe(const stk_bench_setting *s, char *room, size_t size)
{
    stk__text out = {.bytes = room, .room = size};

    stk__text_add(
        &out,
        "{\"version\": \"%s\", \"result_bytes\": %zu, \"figures_bytes\": %zu, \"number\": "
        "%" PRIu64 ", \"repeat\": %" PRIu64 ", \"free_data\": %s, \"log_summary\": %s, "
        "\"options\": %s, \"about\": ",
        stk_version(), sizeof(stk_bench_result), sizeof(stk_figures), s->number, s->repeat,
        s->free_data ? "true" : "false", s->log_summary ? "true" : "false", s->options_json);
    stk__text_add_json(&out, s->about ? s->about : "");
    stk__text_add(&out, ", \"label\": ");
    stk__text_add_json(&out, s->label ? s->label : "");
    stk__text_add(&out, ", \"log\": ");
    stk__text_add_json(&out, s->log ? s->log : "");
    stk__text_add(&out, "}");
    return out.failed || out.length + 1 >= size ? NULL : room;
}

stk_status stk_bench_exec(const stk_bench_setting *setting, int fd, stk_error *err)
{
    enum { TEXT = 65536 };
    static char text[TEXT]; /* of this process, which is about to be another program */
    char number[16];
    const char *python = setting->python ? setting->python->python : NULL;

    stk_error_init(err);
    if (!python || !setting->options_json)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "only a setting of a plan with `python` is an interpreter's to measure");
    snprintf(number, sizeof number, "%d", fd);
    char *const arguments[] = {
        (char *)python, "-c", (char *)program, number, describe(setting, text, sizeof text), NULL};
    if (!arguments[4])
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS, "the setting is too long a text");
    if (fcntl(fd, F_SETFD, 0) == 0)
        execvp(python, arguments);
    return stk__fail(err, errno == ENOENT ? STK_ENOENT : STK_ESYSTEM, STK_STAGE_OPTIONS,
                     "could not start the interpreter '%s' (python.python): %s", python,
                     strerror(errno));
}
