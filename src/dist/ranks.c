/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of launchers -> the place of a process among those that they started. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "dist/dist.h"

#define MOST_RANKS (UINT64_C(1) << 20) /* as world_size of loaders */
#define MOST_PORT  65535

const char *stk_launcher_name(stk_launcher launcher)
{
    static const char *const names[] = {
        [STK_LAUNCHER_NONE] = "nobody",       [STK_LAUNCHER_GIVEN] = "options",
        [STK_LAUNCHER_TORCHRUN] = "torchrun", [STK_LAUNCHER_OPENMPI] = "Open MPI",
        [STK_LAUNCHER_MPICH] = "MPICH",       [STK_LAUNCHER_SLURM] = "Slurm",
    };
    return (size_t)launcher < STK_COUNT(names) ? names[launcher] : "an unknown launcher";
}

struct finder {
    stk_lookup_fn *lookup;
    void *user;
    stk_ranks *out;
    stk_error *err;
};

/* A pair of variables that says one place: which rank, and of how many. */
struct pair {
    stk_launcher launcher;
    const char *rank, *size;
};

static const char *look(const struct finder *f, const char *name)
{
    const char *value = f->lookup ? f->lookup(f->user, name) : NULL;

    return value && *value ? value : NULL;
}

static stk_status refuse(const struct finder *f, const char *name, const char *value,
                         const char *why)
{
    return stk__fail_at(f->err, STK_EINVAL, STK_STAGE_OPTIONS, name, STK_NO_OFFSET,
                        "environment: %s='%.60s' %s", name, value, why);
}

/* *there: it is set. Digits alone, as launchers write them. */
static stk_status take(const struct finder *f, const char *name, uint64_t most, uint64_t *out,
                       bool *there)
{
    const char *value = look(f, name);
    char why[80];

    *there = value != NULL;
    if (!value)
        return STK_OK;
    const size_t digits = strspn(value, "0123456789");
    *out = digits && !value[digits] && digits < 20 ? strtoull(value, NULL, 10) : UINT64_MAX;
    if (*out <= most)
        return STK_OK;
    snprintf(why, sizeof why, "is no whole number from 0 to %" PRIu64, most);
    return refuse(f, name, value, why);
}

/* The first of several names that is set, ended by NULL. */
static stk_status take_first(const struct finder *f, const char *const *names, uint64_t most,
                             uint64_t *out, bool *there)
{
    *there = false;
    for (; *names && !*there; names++)
        STK_TRY(take(f, *names, most, out, there));
    return STK_OK;
}

/* *there: both are, and fit each other. `rank` and `size` stay else. */
static stk_status take_pair(const struct finder *f, const struct pair *pair, uint64_t *rank,
                            uint64_t *size, bool *there)
{
    uint64_t r = 0, n = 0;
    bool has_rank, has_size;
    char why[160];

    *there = false;
    STK_TRY(take(f, pair->rank, MOST_RANKS, &r, &has_rank));
    STK_TRY(take(f, pair->size, MOST_RANKS, &n, &has_size));
    if (!has_rank && !has_size)
        return STK_OK;
    if (has_rank != has_size) {
        const char *has = has_rank ? pair->rank : pair->size;
        snprintf(why, sizeof why, "is set and %s is not: a launcher sets both; set it, or unset %s",
                 has_rank ? pair->size : pair->rank, has);
        return refuse(f, has, look(f, has), why);
    }
    if (n == 0)
        return refuse(f, pair->size, look(f, pair->size), "is no number of processes: 1 at least");
    if (r >= n) {
        snprintf(why, sizeof why, "is none of the %" PRIu64 " of %s: ranks count from 0", n,
                 pair->size);
        return refuse(f, pair->rank, look(f, pair->rank), why);
    }
    *rank = r;
    *size = n;
    *there = true;
    return STK_OK;
}

/* ---- This machine ---------------------------------------------------------------------------- */

/* Nothing says who else is here. */
static void guess_local(stk_ranks *out)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "::1"};

    out->local_rank = 0;
    out->local_world_size = 1;
    for (size_t i = 0; i < STK_COUNT(own); i++)
        if (strcmp(out->main_address, own[i]) == 0) {
            out->local_rank = out->rank;
            out->local_world_size = out->world_size;
        }
}

static stk_status take_local(const struct finder *f, const struct pair *pair)
{
    stk_ranks *out = f->out;

    STK_TRY(take_pair(f, pair, &out->local_rank, &out->local_world_size, &out->local_known));
    if (!out->local_known)
        guess_local(out);
    else if (out->local_world_size > out->world_size)
        return refuse(f, pair->size, look(f, pair->size),
                      "is more than there are processes on all machines");
    return STK_OK;
}

/* Machines of as many ranks as this one. */
static void count_nodes(stk_ranks *out)
{
    out->num_nodes = stk__divide_up(out->world_size, out->local_world_size);
    out->node_rank = STK_MIN(out->rank / out->local_world_size, out->num_nodes - 1);
}

/* ---- Launchers ------------------------------------------------------------------------------- */

static stk_status take_main(const struct finder *f)
{
    uint64_t port = 0;
    bool there;

    const char *address = look(f, "MASTER_ADDR");
    snprintf(f->out->main_address, sizeof f->out->main_address, "%s", address ? address : "");
    STK_TRY(take(f, "MASTER_PORT", MOST_PORT, &port, &there));
    f->out->main_port = (uint32_t)port;
    return STK_OK;
}

static stk_status torchrun(const struct finder *f)
{
    static const struct pair local = {STK_LAUNCHER_TORCHRUN, "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
    static const char *const nodes[] = {"GROUP_RANK", "NODE_RANK", NULL};
    bool there;

    STK_TRY(take_local(f, &local));
    count_nodes(f->out);
    return take_first(f, nodes, f->out->num_nodes - 1, &f->out->node_rank, &there);
}

static stk_status openmpi(const struct finder *f)
{
    static const struct pair local = {STK_LAUNCHER_OPENMPI, "OMPI_COMM_WORLD_LOCAL_RANK",
                                      "OMPI_COMM_WORLD_LOCAL_SIZE"};

    STK_TRY(take_local(f, &local));
    count_nodes(f->out);
    return STK_OK;
}

/* Where it says so in a variable. A srun around another launcher has bound what it started: the
 * ranks of that share those cores. */
static void take_bound(const struct finder *f)
{
    const char *bound = look(f, "OMPI_MCA_orte_bound_at_launch");

    f->out->bound = f->out->launcher == STK_LAUNCHER_SLURM ? look(f, "SLURM_CPU_BIND_LIST") != NULL
                                                           : bound && strcmp(bound, "1") == 0;
}

static stk_status mpich(const struct finder *f)
{
    static const struct pair local = {STK_LAUNCHER_MPICH, "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

    STK_TRY(take_local(f, &local));
    count_nodes(f->out);
    return STK_OK;
}

/* The port of a job: others of the same machines have other numbers, most of the time. */
static uint32_t port_of_job(const char *job)
{
    return 15000 + (uint32_t)(strtoull(job, NULL, 10) % 10000);
}

static stk_status slurm(const struct finder *f)
{
    stk_ranks *out = f->out;
    uint64_t node = 0, nodes = 0, local = 0;
    bool has_node, has_nodes, has_local;
    static const char *const counts[] = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", NULL};

    STK_TRY(take(f, "SLURM_NODEID", MOST_RANKS, &node, &has_node));
    STK_TRY(take_first(f, counts, MOST_RANKS, &nodes, &has_nodes));
    STK_TRY(take(f, "SLURM_LOCALID", MOST_RANKS, &local, &has_local));
    const char *tasks = look(f, "SLURM_STEP_TASKS_PER_NODE");
    if (!tasks)
        tasks = look(f, "SLURM_TASKS_PER_NODE");
    const uint64_t here = tasks ? stk__tasks_of_node(tasks, node) : 0;
    out->local_known = has_local && here > 0;
    if (out->local_known && local >= here)
        return refuse(f, "SLURM_LOCALID", look(f, "SLURM_LOCALID"),
                      "is none of the tasks of its node in SLURM_STEP_TASKS_PER_NODE");
    out->local_rank = out->local_known ? local : 0;
    out->local_world_size = out->local_known ? here : 1;
    count_nodes(out);
    if (has_nodes && nodes > 0)
        out->num_nodes = nodes;
    if (has_node && node >= out->num_nodes)
        return refuse(f, "SLURM_NODEID", look(f, "SLURM_NODEID"),
                      "is none of the nodes of SLURM_STEP_NUM_NODES");
    out->node_rank = has_node ? node : STK_MIN(out->node_rank, out->num_nodes - 1);
    const char *list = look(f, "SLURM_STEP_NODELIST");
    if (!list)
        list = look(f, "SLURM_JOB_NODELIST");
    if (!list)
        list = look(f, "SLURM_NODELIST");
    if (!*out->main_address && list)
        stk_ranks_host(list, 0, out->main_address, sizeof out->main_address);
    const char *job = look(f, "SLURM_JOB_ID");
    if (!out->main_port && job)
        out->main_port = port_of_job(job);
    return STK_OK;
}

/* ---- What comes with them -------------------------------------------------------------------- */

static void take_job(const struct finder *f)
{
    stk_ranks *out = f->out;
    const char *job = look(f, "SLURM_JOB_ID");
    char array[64] = "";

    /* Of a job array each task has a number of its own, too; people know it by its place. */
    if (job && look(f, "SLURM_ARRAY_TASK_ID")) {
        const char *whole = look(f, "SLURM_ARRAY_JOB_ID");
        snprintf(array, sizeof array, "%s", whole ? whole : job);
        snprintf(out->job_id, sizeof out->job_id, "%s_%s", array, look(f, "SLURM_ARRAY_TASK_ID"));
        return;
    }
    if (!job)
        job = look(f, "TORCHELASTIC_RUN_ID");
    /* What torchrun says where nobody gave one. */
    if (job && strcmp(job, "none") != 0)
        snprintf(out->job_id, sizeof out->job_id, "%s", job);
}

static stk_status take_restarts(const struct finder *f)
{
    static const char *const counts[] = {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT", NULL};
    bool there;

    STK_TRY(take_first(f, counts, UINT32_MAX, &f->out->restart_count, &there));
    return take(f, "TORCHELASTIC_MAX_RESTARTS", UINT32_MAX, &f->out->max_restarts, &there);
}

/* An MPI's processes are those that RANK counts, where both are set. */
static stk_status check_mpi(const struct finder *f, const struct pair *pair)
{
    uint64_t rank, size;
    bool there;
    char why[200];

    STK_TRY(take_pair(f, pair, &rank, &size, &there));
    if (!there || (rank == f->out->rank && size == f->out->world_size))
        return STK_OK;
    snprintf(why, sizeof why,
             "of %" PRIu64 " (WORLD_SIZE) contradicts %s=%" PRIu64 " of %" PRIu64
             ": unset those of the launcher that does not count",
             f->out->world_size, pair->rank, rank, size);
    return refuse(f, "RANK", look(f, "RANK"), why);
}

static const struct pair pairs[] = {
    {STK_LAUNCHER_TORCHRUN, "RANK", "WORLD_SIZE"},
    {STK_LAUNCHER_OPENMPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {STK_LAUNCHER_MPICH, "PMI_RANK", "PMI_SIZE"},
};

static stk_status found(const struct finder *f, const struct pair *pair)
{
    f->out->launcher = pair->launcher;
    snprintf(f->out->variable, sizeof f->out->variable, "%s", pair->rank);
    STK_TRY(take_main(f));
    STK_TRY(take_restarts(f));
    take_job(f);
    take_bound(f);
    switch (pair->launcher) {
    case STK_LAUNCHER_OPENMPI:
        return openmpi(f);
    case STK_LAUNCHER_MPICH:
        return mpich(f);
    case STK_LAUNCHER_SLURM:
        return slurm(f);
    default:
        break;
    }
    STK_TRY(torchrun(f));
    for (size_t i = 1; i < STK_COUNT(pairs); i++)
        STK_TRY(check_mpi(f, &pairs[i]));
    return STK_OK;
}

/* The script of a batch job has SLURM_PROCID, too, and is no task: srun makes steps of those. */
static stk_status find_slurm(const struct finder *f, bool *there)
{
    struct pair pair = {STK_LAUNCHER_SLURM, "SLURM_PROCID", "SLURM_NTASKS"};
    uint64_t tasks = 0;
    bool has_tasks;

    *there = false;
    if (!look(f, "SLURM_STEP_ID") && !look(f, "SLURM_STEPID")) {
        STK_TRY(take(f, "SLURM_NTASKS", MOST_RANKS, &tasks, &has_tasks));
        if (look(f, "SLURM_JOB_ID") && tasks > 1)
            snprintf(f->out->remark, sizeof f->out->remark,
                     "this is the script of a Slurm job of %" PRIu64
                     " tasks, and none of them: srun starts those",
                     tasks);
        if (look(f, "SLURM_JOB_ID"))
            take_job(f);
        return STK_OK;
    }
    if (look(f, "SLURM_STEP_NUM_TASKS"))
        pair.size = "SLURM_STEP_NUM_TASKS";
    STK_TRY(take_pair(f, &pair, &f->out->rank, &f->out->world_size, there));
    return *there ? found(f, &pair) : STK_OK;
}

/* Lightning starts processes of its own: they have the number of all and their machine's, and the
 * first one nothing, until the training begins [lightning/fabric/strategies/launchers,
 * LightningEnvironment]. Ranks guessed from that would differ from one process to the other. */
static bool by_lightning(const struct finder *f)
{
    if (look(f, "RANK") || !look(f, "WORLD_SIZE") || !look(f, "NODE_RANK"))
        return false;
    snprintf(
        f->out->remark, sizeof f->out->remark,
        "WORLD_SIZE and NODE_RANK without RANK are of a launcher of Lightning, whose ranks are "
        "known by torch.distributed when its training has begun: until then this is one "
        "process by itself");
    return true;
}

static stk_status find(const struct finder *f)
{
    bool there = false;

    for (size_t i = by_lightning(f) ? 1 : 0; i < STK_COUNT(pairs); i++) {
        STK_TRY(take_pair(f, &pairs[i], &f->out->rank, &f->out->world_size, &there));
        if (there)
            return found(f, &pairs[i]);
    }
    return find_slurm(f, &there);
}

/* ---- What was given -------------------------------------------------------------------------- */

static stk_status check_given(const stk_ranks_given *g, stk_error *err)
{
    static const struct {
        const char *rank, *size;
    } words[] = {{"rank", "world_size"}, {"local_rank", "local_world_size"}};
    const uint64_t values[][2] = {{g->rank, g->world_size}, {g->local_rank, g->local_world_size}};

    for (size_t i = 0; i < STK_COUNT(words); i++)
        if (values[i][1] ? values[i][0] >= values[i][1] : values[i][0] > 0)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, words[i].rank, STK_NO_OFFSET,
                                "%s: %" PRIu64 " is none of the %" PRIu64
                                " of %s: ranks count from 0",
                                words[i].rank, values[i][0], values[i][1], words[i].size);
    return STK_OK;
}

static stk_status take_given(const stk_ranks_given *g, stk_ranks *out, stk_error *err)
{
    STK_TRY(check_given(g, err));
    if (g->world_size) {
        out->launcher = STK_LAUNCHER_GIVEN;
        out->rank = g->rank;
        out->world_size = g->world_size;
        guess_local(out);
        count_nodes(out);
    }
    if (g->local_world_size) {
        if (g->local_world_size > out->world_size)
            return stk__fail_at(
                err, STK_EINVAL, STK_STAGE_OPTIONS, "local_world_size", STK_NO_OFFSET,
                "local_world_size: %" PRIu64 " is more than the %" PRIu64 " of world_size",
                g->local_world_size, out->world_size);
        out->local_rank = g->local_rank;
        out->local_world_size = g->local_world_size;
        out->local_known = true;
        count_nodes(out);
    }
    return STK_OK;
}

stk_status stk_ranks_detect(const stk_ranks_given *given, stk_lookup_fn *lookup, void *user,
                            stk_ranks *out, stk_error *err)
{
    stk_ranks_given g = {.struct_size = sizeof g};
    stk_ranks ranks = {
        .struct_size = sizeof ranks, .world_size = 1, .local_world_size = 1, .num_nodes = 1};
    const struct finder f = {lookup, user, &ranks, err};

    stk_error_init(err);
    STK_TRY(stk__sized_check(out, "stk_ranks", STK_STAGE_OPTIONS, err));
    if (given)
        STK_TRY(stk__sized_read(&g, sizeof g, given, "stk_ranks_given", STK_STAGE_OPTIONS, err));
    if (g.world_size)
        take_job(&f);
    else
        STK_TRY(find(&f));
    STK_TRY(take_given(&g, &ranks, err));
    stk__sized_write(out, &ranks);
    return STK_OK;
}

uint64_t stk_ranks_sharing(const stk_ranks *ranks)
{
    stk_ranks r = {.struct_size = sizeof r, .local_world_size = 1};

    stk__sized_copy(&r, sizeof r, ranks);
    /* Cores that the launcher has bound a rank to are its part already. */
    return r.local_known && !r.bound ? r.local_world_size : 1;
}

uint64_t stk_ranks_sharing_memory(const stk_ranks *ranks)
{
    stk_ranks r = {.struct_size = sizeof r, .local_world_size = 1};

    stk__sized_copy(&r, sizeof r, ranks);
    /* A bound rank has cores of its own, and no memory. */
    return r.local_known ? r.local_world_size : 1;
}

int stk_ranks_summary(const stk_ranks *ranks, char *text, size_t size)
{
    stk_ranks r = {.struct_size = sizeof r, .world_size = 1, .local_world_size = 1};

    stk__sized_copy(&r, sizeof r, ranks);
    if (r.launcher == STK_LAUNCHER_NONE)
        return snprintf(text, size, "one process by itself");
    return snprintf(text, size,
                    "rank %" PRIu64 " of %" PRIu64 " (local %" PRIu64 " of %" PRIu64
                    ", machine %" PRIu64 " of %" PRIu64 "), by %s%s%s%s",
                    r.rank, r.world_size, r.local_rank, r.local_world_size, r.node_rank,
                    r.num_nodes, stk_launcher_name(r.launcher), *r.variable ? " (" : "", r.variable,
                    *r.variable ? ")" : "");
}
