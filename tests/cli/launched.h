/* Ranks that read together and keep what they read, the launcher over them, and what it has to come
 * to: what tests of `stoker launch` share. The program of a test is the rank, too: "RANKS FOLDER".
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_CLI_LAUNCHED_H
#define STK_TESTS_CLI_LAUNCHED_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/support.h"

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
        /* Files go where a network that is cut does not: a collective would not come to its end. */
        while (load(r->folder, "held", name, 1))
            pause_ns(300000);
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
    const long pid = (long)getpid();
    while (getenv("ABSENT") && r.at.rank == 1 && r.at.restart_count == 0) {
        signal(SIGTERM, SIG_IGN);
        keep(folder, "absent", &pid, sizeof pid);
        pause();
    }
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

/* Whether this process is one of them; else it is the test, which knows itself. */
static bool launched_is_rank(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "RANKS") == 0)
        return true;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        exit(1);
    return false;
}

#endif
