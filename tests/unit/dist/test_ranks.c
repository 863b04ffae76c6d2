/* SPDX-License-Identifier: Apache-2.0 */
/* Who a process is, by what launchers say: environments as they were seen, and broken ones. */
#include "dist/dist.h"
#include "support/support.h"
#include "unit/dist/environment.h"

typedef const char *const environment[16];

static stk_status detect(environment e, const stk_ranks_given *given, stk_ranks *out,
                         stk_error *err)
{
    *out = (stk_ranks){.struct_size = sizeof *out};
    return stk_ranks_detect(given, environment_look, (void *)e, out, err);
}

static const struct {
    const char *what;
    environment e;
    stk_launcher launcher;
    uint64_t rank, world, local, locals, node, nodes;
    bool known;
    const char *job, *host;
    uint32_t port;
} launched[] = {
    {"nobody", {NULL}, STK_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1, false, "", "", 0},
    {"empty variables",
     {"RANK=", "WORLD_SIZE="},
     STK_LAUNCHER_NONE,
     0,
     1,
     0,
     1,
     0,
     1,
     false,
     "",
     "",
     0},
    {"torchrun, 2 machines of 2",
     {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
      "MASTER_ADDR=10.0.0.7", "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=none"},
     STK_LAUNCHER_TORCHRUN,
     3,
     4,
     1,
     2,
     1,
     2,
     true,
     "",
     "10.0.0.7",
     29500},
    {"a PyTorchJob: one rank a pod",
     {"RANK=2", "WORLD_SIZE=3", "MASTER_ADDR=train-master-0", "MASTER_PORT=23456"},
     STK_LAUNCHER_TORCHRUN,
     2,
     3,
     0,
     1,
     2,
     3,
     false,
     "",
     "train-master-0",
     23456},
    {"by hand, on one machine",
     {"RANK=2", "WORLD_SIZE=3", "MASTER_ADDR=localhost"},
     STK_LAUNCHER_TORCHRUN,
     2,
     3,
     2,
     3,
     0,
     1,
     false,
     "",
     "localhost",
     0},
    {"Open MPI",
     {"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=6", "OMPI_COMM_WORLD_LOCAL_RANK=1",
      "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_RANK=5", "OMPI_MCA_orte_bound_at_launch=1"},
     STK_LAUNCHER_OPENMPI,
     5,
     6,
     1,
     2,
     2,
     3,
     true,
     "",
     "",
     0},
    {"MPICH",
     {"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2"},
     STK_LAUNCHER_MPICH,
     1,
     2,
     1,
     2,
     0,
     1,
     true,
     "",
     "",
     0},
    {"a process of Lightning's own launcher, which is told no rank",
     {"WORLD_SIZE=4", "NODE_RANK=1", "LOCAL_RANK=1", "MASTER_ADDR=10.0.0.7"},
     STK_LAUNCHER_NONE,
     0,
     1,
     0,
     1,
     0,
     1,
     false,
     "",
     "",
     0},
    {"srun",
     {"SLURM_PROCID=6", "SLURM_NTASKS=7", "SLURM_STEP_NUM_TASKS=7", "SLURM_LOCALID=0",
      "SLURM_NODEID=3", "SLURM_STEP_NUM_NODES=4", "SLURM_STEP_TASKS_PER_NODE=2(x3),1",
      "SLURM_STEP_NODELIST=gpu[003-005,9]", "SLURM_JOB_ID=123456", "SLURM_STEP_ID=0"},
     STK_LAUNCHER_SLURM,
     6,
     7,
     0,
     1,
     3,
     4,
     true,
     "123456",
     "gpu003",
     18456},
    {"srun of a job array",
     {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=1", "SLURM_JOB_ID=77",
      "SLURM_ARRAY_JOB_ID=70", "SLURM_ARRAY_TASK_ID=7", "SLURM_NODELIST=a"},
     STK_LAUNCHER_SLURM,
     0,
     2,
     0,
     1,
     0,
     2,
     false,
     "70_7",
     "a",
     15077},
    {"the script of a Slurm job is no task",
     {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0", "SLURM_JOB_ID=5"},
     STK_LAUNCHER_NONE,
     0,
     1,
     0,
     1,
     0,
     1,
     false,
     "5",
     "",
     0},
    {"a torchrun that srun started on each of two nodes",
     {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
      "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_ID=0", "SLURM_JOB_ID=9"},
     STK_LAUNCHER_TORCHRUN,
     3,
     4,
     1,
     2,
     1,
     2,
     true,
     "9",
     "",
     0},
    {"mpirun within a job of Slurm",
     {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
      "OMPI_COMM_WORLD_LOCAL_SIZE=2", "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=0"},
     STK_LAUNCHER_OPENMPI,
     1,
     2,
     1,
     2,
     0,
     1,
     true,
     "",
     "",
     0},
    {"a script that makes RANK of an MPI's",
     {"RANK=1", "WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"},
     STK_LAUNCHER_TORCHRUN,
     1,
     2,
     0,
     1,
     1,
     2,
     false,
     "",
     "",
     0},
};

static void test_launchers(void **state)
{
    stk_ranks r;
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(launched); i++) {
        print_message("%s\n", launched[i].what);
        assert_ok(detect(launched[i].e, NULL, &r, &err), &err);
        assert_int_equal(r.launcher, launched[i].launcher);
        assert_int_equal(r.rank, launched[i].rank);
        assert_int_equal(r.world_size, launched[i].world);
        assert_int_equal(r.local_rank, launched[i].local);
        assert_int_equal(r.local_world_size, launched[i].locals);
        assert_int_equal(r.local_known, launched[i].known);
        assert_int_equal(r.node_rank, launched[i].node);
        assert_int_equal(r.num_nodes, launched[i].nodes);
        assert_string_equal(r.job_id, launched[i].job);
        assert_string_equal(r.main_address, launched[i].host);
        assert_int_equal(r.main_port, launched[i].port);
    }
}

static void test_refused(void **state)
{
    static const struct {
        environment e;
        const char *key, *text;
    } cases[] = {
        {{"RANK=4", "WORLD_SIZE=4"}, "RANK", "is none of the 4 of WORLD_SIZE"},
        {{"RANK=0"}, "RANK", "WORLD_SIZE is not"},
        {{"WORLD_SIZE=2"}, "WORLD_SIZE", "RANK is not"},
        {{"RANK=0", "WORLD_SIZE=0"}, "WORLD_SIZE", "1 at least"},
        {{"RANK=one", "WORLD_SIZE=2"}, "RANK", "is no whole number"},
        {{"RANK=-1", "WORLD_SIZE=2"}, "RANK", "is no whole number"},
        {{"RANK= 1", "WORLD_SIZE=2"}, "RANK", "is no whole number"},
        {{"RANK=0", "WORLD_SIZE=18446744073709551617"}, "WORLD_SIZE", "is no whole number"},
        {{"RANK=0", "WORLD_SIZE=1048577"}, "WORLD_SIZE", "from 0 to 1048576"},
        {{"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"},
         "LOCAL_RANK",
         "LOCAL_WORLD_SIZE"},
        {{"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=3"},
         "LOCAL_WORLD_SIZE",
         "more than there are processes"},
        {{"RANK=0", "WORLD_SIZE=2", "MASTER_PORT=70000"}, "MASTER_PORT", "65535"},
        {{"RANK=0", "WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"},
         "RANK",
         "contradicts OMPI_COMM_WORLD_RANK=1 of 2"},
        {{"RANK=1", "WORLD_SIZE=4", "PMI_RANK=1", "PMI_SIZE=2"},
         "RANK",
         "contradicts PMI_RANK=1 of 2"},
        {{"OMPI_COMM_WORLD_RANK=0"}, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE is not"},
        {{"SLURM_PROCID=2", "SLURM_NTASKS=2", "SLURM_STEP_ID=0"}, "SLURM_PROCID", "SLURM_NTASKS"},
        {{"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=0", "SLURM_LOCALID=2",
          "SLURM_STEP_TASKS_PER_NODE=2"},
         "SLURM_LOCALID",
         "SLURM_STEP_TASKS_PER_NODE"},
        {{"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=0", "SLURM_NODEID=2",
          "SLURM_STEP_NUM_NODES=2"},
         "SLURM_NODEID",
         "SLURM_STEP_NUM_NODES"},
    };
    stk_ranks r;
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        assert_int_equal(detect(cases[i].e, NULL, &r, &err), STK_EINVAL);
        assert_string_equal(err.key, cases[i].key);
        if (!strstr(err.text, cases[i].text) || !strstr(err.text, cases[i].key))
            fail_msg("case %zu: %s", i, err.text);
    }
}

static void test_given(void **state)
{
    static const environment e = {"RANK=7", "WORLD_SIZE=2"};
    stk_ranks_given given = {.struct_size = sizeof given, .rank = 1, .world_size = 4};
    stk_ranks r;
    stk_error err;

    (void)state;
    /* What was given wins, whatever the environment says. */
    assert_ok(detect(e, &given, &r, &err), &err);
    assert_int_equal(r.launcher, STK_LAUNCHER_GIVEN);
    assert_int_equal(r.rank, 1);
    assert_int_equal(r.world_size, 4);
    assert_int_equal(r.local_world_size, 1);
    given.local_rank = 1;
    given.local_world_size = 2;
    assert_ok(detect(e, &given, &r, &err), &err);
    assert_int_equal(r.local_rank, 1);
    assert_true(r.local_known);
    assert_int_equal(r.num_nodes, 2);
    given.rank = 4;
    assert_int_equal(detect(e, &given, &r, &err), STK_EINVAL);
    assert_string_equal(err.key, "rank");
    given = (stk_ranks_given){.struct_size = sizeof given, .local_rank = 0, .local_world_size = 2};
    assert_int_equal(detect((environment){NULL}, &given, &r, &err), STK_EINVAL);
    assert_string_equal(err.key, "local_world_size");
}

/* Cores are a rank's own where its own launcher has bound it, not one around that. */
static void test_bound(void **state)
{
    static const struct {
        environment e;
        bool bound;
        uint64_t sharing; /* its cores */
        uint64_t memory;  /* and those who share that */
    } cases[] = {
        {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0",
          "OMPI_COMM_WORLD_LOCAL_SIZE=2", "OMPI_MCA_orte_bound_at_launch=1"},
         true,
         1,
         2},
        {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0",
          "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
         false,
         2,
         2},
        /* Nobody says how many are here. */
        {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"}, false, 1, 1},
        {{"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=0", "SLURM_CPU_BIND_LIST=0x3"},
         true,
         1,
         1},
        {{"SLURM_PROCID=5", "SLURM_NTASKS=12", "SLURM_STEP_ID=0", "SLURM_CPU_BIND_LIST=0x3",
          "SLURM_NODEID=1", "SLURM_LOCALID=1", "SLURM_STEP_TASKS_PER_NODE=4(x3)"},
         true,
         1,
         4},
        {{"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=0"}, false, 1, 1},
        {{"RANK=1", "WORLD_SIZE=2", "SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_STEP_ID=0",
          "SLURM_CPU_BIND_LIST=0x3"},
         false,
         1,
         1},
    };
    stk_ranks r;
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        assert_ok(detect(cases[i].e, NULL, &r, &err), &err);
        assert_int_equal(r.bound, cases[i].bound);
        assert_int_equal(stk_ranks_sharing(&r), cases[i].sharing);
        assert_int_equal(stk_ranks_sharing_memory(&r), cases[i].memory);
    }
}

static void test_texts(void **state)
{
    static const environment e = {"RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2"};
    static const environment script = {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=5"};
    char text[256];
    stk_ranks r;
    stk_error err;

    (void)state;
    assert_ok(detect(e, NULL, &r, &err), &err);
    stk_ranks_summary(&r, text, sizeof text);
    assert_string_equal(text, "rank 1 of 4 (local 1 of 2, machine 0 of 2), by torchrun (RANK)");
    assert_ok(detect(script, NULL, &r, &err), &err);
    assert_string_equal(r.remark, "this is the script of a Slurm job of 4 tasks, and none of them: "
                                  "srun starts those");
    stk_ranks_summary(&r, text, sizeof text);
    assert_string_equal(text, "one process by itself");
}

static void test_restarts(void **state)
{
    static const environment e = {"RANK=0", "WORLD_SIZE=1", "TORCHELASTIC_RESTART_COUNT=2",
                                  "TORCHELASTIC_MAX_RESTARTS=3", "TORCHELASTIC_RUN_ID=mine"};
    stk_ranks r;
    stk_error err;

    (void)state;
    assert_ok(detect(e, NULL, &r, &err), &err);
    assert_int_equal(r.restart_count, 2);
    assert_int_equal(r.max_restarts, 3);
    assert_string_equal(r.job_id, "mine");
}

static void test_hosts(void **state)
{
    static const struct {
        const char *list;
        const char *hosts[6];
    } cases[] = {
        {"a", {"a"}},
        {"a,b-1,c", {"a", "b-1", "c"}},
        {"gpu[001-003,7],login", {"gpu001", "gpu002", "gpu003", "gpu7", "login"}},
        {"n[8-11].x", {"n8.x", "n9.x", "n10.x", "n11.x"}},
    };
    static const char *const broken[] = {"",       ",a",    "n[",    "n[]",  "n[1",
                                         "n[3-1]", "n[1-]", "n[;2]", "n[a]", "r[1-2]n[1-4]"};
    char host[32];

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++)
        for (size_t k = 0; k < STK_COUNT(cases[i].hosts); k++) {
            const bool has = stk_ranks_host(cases[i].list, k, host, sizeof host);
            assert_int_equal(has, cases[i].hosts[k] != NULL);
            assert_string_equal(host, has ? cases[i].hosts[k] : "");
        }
    for (size_t i = 0; i < STK_COUNT(broken); i++)
        assert_false(stk_ranks_host(broken[i], 0, host, sizeof host));
    assert_false(stk_ranks_host("a-long-name", 0, host, 5));
    assert_int_equal(stk__tasks_of_node("2(x3),1", 2), 2);
    assert_int_equal(stk__tasks_of_node("2(x3),1", 3), 1);
    assert_int_equal(stk__tasks_of_node("2(x3),1", 4), 0);
    assert_int_equal(stk__tasks_of_node("2(x3", 0), 0);
    assert_int_equal(stk__tasks_of_node("x", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launchers), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_given),     cmocka_unit_test(test_texts),
        cmocka_unit_test(test_bound),     cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
