/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker launch` over ranks that read together, keep what they read, and go on from the last step
 * that all of them have: killed and stopped at random, with as many ranks again or fewer. In the
 * end every global batch is the one of a single rank: no sample lost, none twice.
 *
 * This program is the rank, too: "RANKS FOLDER".
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/support.h"

/* Kills and stops of a run; `./dev kill N` sets STOKER_TEST_KILLS. */
#define KILLS 6
#define STOPS 2

#define RANKS   4
#define SAMPLES 252 /* 21 batches */
#define BATCH   12  /* of all ranks: for 1, 2, 3, 4, 6 and 12 of them */
#define EPOCHS  3
#define PAUSE   UINT64_C(8000000) /* of a step, ns */

static char self[4096];

static void pause_ns(uint64_t ns)
{
    const struct timespec t = {.tv_sec = (time_t)(ns / 1000000000),
                               .tv_nsec = (long)(ns % 1000000000)};

    nanosleep(&t, NULL);
}

/* ---- A rank ---------------------------------------------------------------------------------- */

static const char *look(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

struct rank {
    const char *folder;
    stk_ranks at;
    stk_heartbeat *heartbeat;
    stk_loader *loader;
};

static bool keep(const char *folder, const char *name, const void *bytes, size_t length)
{
    char path[512], temporary[560];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(temporary, "w");
    return file && fwrite(bytes, 1, length, file) == length && fclose(file) == 0 &&
           rename(temporary, path) == 0;
}

static size_t load(const char *folder, const char *name, void *bytes, size_t room)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    const size_t n = file ? fread(bytes, 1, room, file) : 0;
    if (file)
        fclose(file);
    return n;
}

/* What a rank has of a step: its indices. */
static void name_part(char name[64], uint64_t step, uint64_t world, uint64_t rank)
{
    snprintf(name, 64, "part.%" PRIu64 ".%" PRIu64 ".%" PRIu64, step, world, rank);
}

/* The collective: all have their part of the step, and rank 0 says so. */
static void meet(struct rank *r, uint64_t step, const stk_loader_state *state)
{
    char name[64], text[512];
    uint64_t world;

    stk_heartbeat_beat(r->heartbeat, STK_DOING_COLLECTIVE);
    for (uint64_t i = 0; r->at.rank == 0 && i < r->at.world_size; i++) {
        name_part(name, step, r->at.world_size, i);
        while (!load(r->folder, name, text, sizeof text))
            pause_ns(300000);
    }
    snprintf(name, sizeof name, "commit.%" PRIu64, step);
    if (r->at.rank == 0) {
        const int length = stk_loader_state_format(state, text, sizeof text);
        keep(r->folder, name, &r->at.world_size, sizeof r->at.world_size);
        keep(r->folder, "state", text, (size_t)length + 1);
    }
    while (load(r->folder, name, &world, sizeof world) != sizeof world)
        pause_ns(300000);
    stk_heartbeat_beat(r->heartbeat, STK_DOING_DATA);
}

static bool run_steps(struct rank *r, stk_error *err)
{
    const uint64_t steps = stk_loader_steps(r->loader);
    stk_loader_state state;
    stk_batch *batch;
    stk_tensor index = {.struct_size = sizeof index};
    char name[64];
    int ends = 0; /* in a row: one at the end of an epoch, two at that of the run */

    while (ends < 2) {
        const stk_status status = stk_loader_next(r->loader, -1, &batch, err);
        if (status != STK_OK && status != STK_EOS)
            return false;
        ends = status == STK_EOS ? ends + 1 : 0;
        if (ends)
            continue;
        const uint64_t step = stk_batch_epoch(batch) * steps + stk_batch_step(batch);
        if (stk_batch_find(batch, "index", &index) != STK_OK)
            return false;
        name_part(name, step, r->at.world_size, r->at.rank);
        keep(r->folder, name, index.data, stk_batch_count(batch) * sizeof(uint64_t));
        stk_batch_get_state(batch, &state);
        stk_batch_release(&batch);
        pause_ns(PAUSE);
        while (getenv("HANG") && step == 3 && r->at.rank == 1 && r->at.restart_count == 0)
            pause();
        meet(r, step, &state);
    }
    return true;
}

static void loader_options(uint64_t rank, uint64_t world, stk_loader_options *o)
{
    stk_loader_options_init(o);
    o->rank = rank;
    o->world_size = world;
    o->global_batch_size = BATCH;
    o->shuffle = STK_SHUFFLE_FULL;
    o->seed = 5;
    o->epochs = EPOCHS;
}

static int rank_main(const char *folder)
{
    struct rank r = {.folder = folder, .at = {.struct_size = sizeof r.at}};
    const char *beat = getenv("STOKER_HEARTBEAT");
    stk_context *ctx = NULL;
    stk_dataset *dataset = NULL;
    stk_loader_state state;
    stk_loader_options o;
    char text[512], name[64];
    stk_error err;

    stk_status status = stk_ranks_detect(NULL, look, NULL, &r.at, &err);
    if (status == STK_OK)
        status = stk_context_create(NULL, &ctx, &err);
    if (status == STK_OK)
        status = stk_heartbeat_open(ctx, beat ? beat : "", r.at.rank, &r.heartbeat, &err);
    snprintf(text, sizeof text, "digits:?size=%d", SAMPLES);
    if (status == STK_OK)
        status = stk_dataset_open(ctx, text, &dataset, &err);
    loader_options(r.at.rank, r.at.world_size, &o);
    o.num_workers = (int64_t)(r.at.restart_count % 3);
    if (status == STK_OK)
        status = stk_loader_create(dataset, &o, &r.loader, &err);
    if (status == STK_OK && load(folder, "state", text, sizeof text))
        status = stk_loader_state_parse(text, &state, &err) != STK_OK
                     ? STK_EFORMAT
                     : stk_loader_restore(r.loader, &state, &err);
    const long pid = (long)getpid();
    snprintf(name, sizeof name, "pid.%" PRIu64, r.at.rank);
    if (status == STK_OK && keep(folder, name, &pid, sizeof pid) && !run_steps(&r, &err))
        status = err.status;
    if (status != STK_OK)
        fprintf(stderr, "rank: %s\n", err.text);
    stk_loader_destroy(&r.loader);
    stk_dataset_close(&dataset);
    stk_heartbeat_close(&r.heartbeat);
    stk_context_destroy(&ctx);
    return status == STK_OK ? 0 : 1;
}

/* ---- The test -------------------------------------------------------------------------------- */

struct fixture {
    char folder[256], said[320];
    const char *binary, *launcher;
};

static int setup(void **state)
{
    static struct fixture f;

    test_folder(f.folder);
    snprintf(f.said, sizeof f.said, "%s/said", f.folder);
    f.binary = test_binary();
    f.launcher = "local";
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    test_folder_remove(((struct fixture *)*state)->folder);
    return 0;
}

/* `options` are words up to a NULL; the command of the ranks follows. */
static pid_t launch(const struct fixture *f, const char *const *options, const char *const *command)
{
    const char *argv[32] = {f->binary, "launch", "--launcher", f->launcher};
    size_t n = 4;

    for (; *options; options++)
        argv[n++] = *options;
    argv[n++] = "--";
    for (; *command; command++)
        argv[n++] = *command;
    const pid_t pid = fork();
    if (pid == 0) {
        const int said = open(f->said, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        dup2(said, 1);
        dup2(said, 2);
        execv(f->binary, (char **)argv);
        _exit(126);
    }
    return pid;
}

static int code_of(pid_t pid)
{
    int how = 0;

    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static void said(const struct fixture *f, char text[65536])
{
    const size_t n = load(f->folder, "said", text, 65535);

    text[n] = 0;
}

static uint64_t count(const char *text, const char *part)
{
    uint64_t n = 0;

    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

/* Every step was read by all ranks of one attempt, and is that of a single rank. */
static void check_steps(const struct fixture *f)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset;
    stk_loader *loader;
    stk_loader_options o;
    stk_batch *batch;
    stk_tensor index = {.struct_size = sizeof index};
    uint64_t world, part[BATCH], got[BATCH];
    char name[64];
    stk_error err;

    snprintf(name, sizeof name, "digits:?size=%d", SAMPLES);
    assert_ok(stk_dataset_open(ctx, name, &dataset, &err), &err);
    loader_options(0, 1, &o);
    o.num_workers = 0;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    for (uint64_t step = 0; step < SAMPLES / BATCH * EPOCHS;) {
        const stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS)
            continue;
        assert_ok(status, &err);
        snprintf(name, sizeof name, "commit.%" PRIu64, step);
        assert_int_equal(load(f->folder, name, &world, sizeof world), sizeof world);
        assert_in_range(world, 1, RANKS);
        for (uint64_t r = 0; r < world; r++) {
            name_part(name, step, world, r);
            assert_int_equal(load(f->folder, name, part, sizeof part), sizeof part / world);
            for (uint64_t i = 0; i < BATCH / world; i++)
                got[i * world + r] = part[i];
        }
        assert_ok(stk_batch_find(batch, "index", &index), &err);
        assert_memory_equal(got, index.data, sizeof got);
        stk_batch_release(&batch);
        step++;
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Hit a random rank with a signal a moment after it began. False: the run is over. */
static bool hit(const struct fixture *f, pid_t launcher, int signal, unsigned *seed, pid_t *victim)
{
    char name[64];
    long pid;

    pause_ns(UINT64_C(1000000) * (20 + (uint64_t)rand_r(seed) % 100));
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)launcher, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            return false;
        snprintf(name, sizeof name, "pid.%d", rand_r(seed) % RANKS);
        if (load(f->folder, name, &pid, sizeof pid) == sizeof pid && pid > 1 && pid != *victim &&
            kill((pid_t)pid, signal) == 0)
            break;
        pause_ns(1000000);
    }
    *victim = (pid_t)pid;
    return true;
}

static void run_hit(const struct fixture *f, const char *const *options, int signal, int times,
                    const char *words)
{
    const char *const command[] = {self, "RANKS", f->folder, NULL};
    static char text[65536];
    unsigned seed = (unsigned)time(NULL);
    pid_t victim = 0;
    int done = 0;

    print_message("seed %u\n", seed);
    const pid_t launcher = launch(f, options, command);
    while (done < times && hit(f, launcher, signal, &seed, &victim))
        done++;
    const int code = code_of(launcher);
    said(f, text);
    if (code != 0)
        fail_msg("code %d: %s", code, text);
    check_steps(f);
    /* One is named for each that was hit, but where two were before the launcher looked. */
    print_message("%d hits, %" PRIu64 " named, %" PRIu64 " restarts\n", done, count(text, words),
                  count(text, "launch: restart"));
    assert_true(count(text, words) >= 1);
    assert_int_equal(count(text, "launch: restart"), count(text, "the others are stopped"));
}

static int wanted(int otherwise)
{
    const char *kills = getenv("STOKER_TEST_KILLS");

    return kills ? (int)strtol(kills, NULL, 10) : otherwise;
}

static void test_kills(void **state)
{
    static const char *const options[] = {"-n", "4", "--max-restarts", "1000000", NULL};

    if (test_binary())
        run_hit(*state, options, SIGKILL, wanted(KILLS), "ended by SIGKILL");
}

static void test_kills_with_fewer(void **state)
{
    static const char *const options[] = {"-n", "4", "--max-restarts", "1000000", "--min-ranks",
                                          "1",  NULL};

    if (test_binary())
        run_hit(*state, options, SIGKILL, 2, "ended by SIGKILL");
}

static void test_stops(void **state)
{
    static const char *const options[] = {
        "-n", "4", "--max-restarts", "1000000", "--heartbeat-timeout", "0.5", "--grace", "2", NULL};

    if (test_binary())
        run_hit(*state, options, SIGSTOP, wanted(STOPS), "stopped by a signal (SIGSTOP)");
}

/* Ranks that mpirun has started: their ends are seen by their processes. */
static void test_mpirun(void **state)
{
    static const char *const options[] = {"-n", "4", "--max-restarts", "1000000", NULL};
    struct fixture *f = *state;

    if (!f->binary)
        return;
    if (system("command -v mpirun >/dev/null") != 0)
        skip();
    f->launcher = "mpirun";
    run_hit(f, options, SIGKILL, 2, "ended without a word");
}

/* One that is in no collective, and gives no sign of life, is what the others wait for. */
static void test_hang(void **state)
{
    static const char *const options[] = {
        "-n", "3", "--max-restarts", "1", "--heartbeat-timeout", "0.8", "--grace", "1", NULL};
    const struct fixture *f = *state;
    const char *const command[] = {"env", "HANG=1", self, "RANKS", f->folder, NULL};
    static char text[65536];

    if (!f->binary)
        return;
    assert_int_equal(code_of(launch(f, options, command)), 0);
    said(f, text);
    if (!strstr(text, "rank 1 of 3 on ") || !strstr(text, " after 4 steps, in its step") ||
        count(text, "no sign of life for ") != 1)
        fail_msg("%s", text);
    check_steps(f);
}

/* ---- What is said of an end ------------------------------------------------------------------ */

static void expect(const struct fixture *f, const char *const *options, const char *script,
                   int code, const char *words)
{
    const char *const command[] = {"sh", "-c", script, NULL};
    static char text[65536];

    const int got = code_of(launch(f, options, command));
    said(f, text);
    if (got != code || !strstr(text, words))
        fail_msg("code %d, of %d, and no '%s' in: %s", got, code, words, text);
}

static void test_ends(void **state)
{
    static const char *const two[] = {"-n2", "--grace", "1", NULL};
    static const char *const again[] = {"-n2", "--max-restarts", "2", "--grace", "1", NULL};
    static const char *const hung[] = {"-n2", "--heartbeat-timeout", "0.4", "--grace", "0.3", NULL};
    const struct fixture *f = *state;

    if (!f->binary)
        return;
    expect(f, two, "echo $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR", 0, "[1] 1/2 127.0.0.1");
    expect(f, two, "[ $RANK = 0 ] || exit 7; sleep 100", 7, "rank 1 of 2 on ");
    expect(f, two, "[ $RANK = 0 ] || kill -SEGV $$; sleep 100", 139, "ended by SIGSEGV");
    /* What a rank has started ends with it; one that does not hear is killed. */
    expect(f, two, "trap '' TERM; [ $RANK = 0 ] || exit 7; sleep 100 & wait; sleep 100", 7,
           "exit code 7");
    expect(f, again,
           "echo try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; exit $((5 "
           "- TORCHELASTIC_RESTART_COUNT))",
           3, "] try 2 of 2");
    expect(f, again, "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 4", 0, "restart 1 of 2, 2 ranks");
    /* Wrong usage is not tried again. */
    expect(f, again, "exit 2", 2, "exit code 2");
    expect(f, hung, "[ $RANK = 0 ] || kill -STOP $$; sleep 100", 1, "rank 1 of 2 on ");
    expect(f, hung, "[ $RANK = 0 ] || kill -STOP $$; sleep 100", 1,
           "stopped by a signal (SIGSTOP)");
}

/* A signal reaches every rank once, from a terminal's Ctrl-C or from kill. */
static void test_signals(void **state)
{
    static const char *const two[] = {"-n2", NULL};
    static const char *const command[] = {
        "sh", "-c",
        "n=0; trap 'echo usr1' USR1; trap 'echo term; exit 0' TERM; echo ready; "
        "while :; do sleep 0.02; done",
        NULL};
    const struct fixture *f = *state;
    static char text[65536];

    if (!f->binary)
        return;
    const pid_t pid = launch(f, two, command);
    do {
        pause_ns(5000000);
        said(f, text);
    } while (count(text, "] ready") < 2);
    kill(pid, SIGUSR1);
    do {
        pause_ns(5000000);
        said(f, text);
    } while (count(text, "] usr1") < 2);
    kill(pid, SIGTERM);
    assert_int_equal(code_of(pid), 143);
    said(f, text);
    assert_int_equal(count(text, "] usr1"), 2);
    assert_int_equal(count(text, "] term"), 2);
}

/* Whether a process runs: what nobody waits for is none. */
static bool runs(int pid)
{
    char path[64], text[256] = "";

    snprintf(path, sizeof path, "%d/stat", pid);
    load("/proc", path, text, sizeof text - 1);
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] != 'Z';
}

/* Whatever ends the launcher ends the ranks. */
static void test_orphans(void **state)
{
    static const char *const two[] = {"-n2", NULL};
    static const char *const command[] = {"sh", "-c", "echo pid $$ is; exec sleep 1000", NULL};
    const struct fixture *f = *state;
    static char text[65536];
    int pids[2] = {0};

    if (!f->binary)
        return;
    const pid_t pid = launch(f, two, command);
    do {
        pause_ns(5000000);
        said(f, text);
    } while (count(text, " is\n") < 2);
    const char *at = text;
    for (int i = 0; i < 2; i++, at++) {
        at = strstr(at, "] pid ");
        assert_non_null(at);
        pids[i] = (int)strtol(at + 6, NULL, 10);
    }
    kill(pid, SIGKILL);
    code_of(pid);
    for (int i = 0; i < 2; i++)
        while (runs(pids[i])) /* until the limit of the test */
            pause_ns(5000000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orphans, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kills, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kills_with_fewer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stops, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hang, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mpirun, setup, teardown),
    };

    if (argc == 3 && strcmp(argv[1], "RANKS") == 0)
        return rank_main(argv[2]);
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
