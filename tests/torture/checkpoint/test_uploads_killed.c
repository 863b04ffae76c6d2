/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints are uploaded in parts by a process that is killed again and again, at any request.
 * What is marked is whole, the newest is found, and it is never older than one that was found.
 */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/upload_send.h"
#include "support/http_server.h"
#include "support/support.h"

#define KILLS   10 /* STOKER_TEST_KILLS: more */
#define SERVES  20 /* kills; a server keeps the parts of all uploads that nobody ends */
#define NUMBERS ((9 << 20) / 4)

typedef struct world {
    char objects[256], dir[256]; /* of the store, and of what is not uploaded */
    http_server *server;
    atomic_ulong requests;
} world;

static void count(void *user, const http_request *request, http_fault *fault)
{
    (void)request, (void)fault;
    atomic_fetch_add(&((world *)user)->requests, 1);
}

static void serve(world *w)
{
    http_server_stop(&w->server);
    w->server = http_server_start(&(http_server_options){
        .seed = 1, .s3 = true, .root = w->objects, .seen = count, .user = w});
    assert_non_null(w->server);
}

static stk_context *open_context(const char *server)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    char stores[300];
    stk_error err;

    snprintf(stores, sizeof stores, "s3(endpoint='%s', anonymous=true, region=eu-north-1)", server);
    stk_context_options_init(&options);
    options.stores = stores;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    return ctx;
}

/* The step of the newest checkpoint; 0: there is none. Its numbers are those of the step. */
static unsigned long newest(stk_context *ctx, char *path, size_t size)
{
    const stk__newest_where where = {.runs = "s3://bucket/run"};
    stk__checkpoint *checkpoint = NULL;
    stk_error err;

    const stk_status status = stk__checkpoint_newest(ctx, &where, path, size, &err);
    if (status == STK_ENOENT)
        return 0;
    assert_ok(status, &err);
    assert_ok(stk__checkpoint_open(ctx, path, &checkpoint, &err), &err);
    const unsigned long step =
        strtoul(stk__checkpoint_find_text(checkpoint, STK__CHECKPOINT_STEP), NULL, 10);
    const float *numbers = stk__checkpoint_find(checkpoint, "w")->data;
    for (size_t i = 0; i < NUMBERS; i += 4099)
        assert_true(numbers[i] == (float)step);
    stk__checkpoint_close(&checkpoint);
    return step;
}

/* Go on from the newest, one save after the other, until somebody ends it. */
static void save_for_ever(const char *server, const char *dir)
{
    static float numbers[NUMBERS];
    stk_state_tensor tensor = {.name = "w",
                               .dtype = STK_FLOAT32,
                               .rank = 1,
                               .shape = {NUMBERS},
                               .data = numbers,
                               .bytes = sizeof numbers};
    const stk__upload_options upload = {.dir = dir, .deadline_ns = UINT64_C(60000000000)};
    stk_context *ctx = open_context(server);
    stk__checkpoint_writer *writer = NULL;
    char path[512], before[512], text[32];
    stk_error err;

    unsigned long step = newest(ctx, before, sizeof before);
    assert_ok(stk__checkpoint_writer_create(ctx, &writer, &err), &err);
    assert_ok(stk__checkpoint_upload_by(writer, &upload, &err), &err);
    assert_ok(stk__checkpoint_upload_left(writer, "s3://bucket/run", &err), &err);
    for (;;) {
        const char *replaces = step ? before : NULL;
        step++;
        for (size_t i = 0; i < NUMBERS; i++)
            numbers[i] = (float)step;
        snprintf(text, sizeof text, "%lu", step);
        snprintf(path, sizeof path, "s3://bucket/run/version_0/%lu.safetensors", step);
        const stk__checkpoint_text step_text = {STK__CHECKPOINT_STEP, text};
        assert_ok(stk__checkpoint_save(writer, path, &tensor, 1, &step_text, 1, &replaces,
                                       replaces ? 1 : 0, NULL, &err),
                  &err);
        assert_ok(
            stk__checkpoint_link(writer, path, "s3://bucket/run/version_0/last.safetensors", &err),
            &err);
        snprintf(before, sizeof before, "%s", path);
    }
}

static void what_is_marked_is_whole(const world *w, stk_context *ctx)
{
    char folder[300], url[400];
    stk_error err;

    snprintf(folder, sizeof folder, "%s/bucket/run/version_0", w->objects);
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char *mark = strstr(entry->d_name, STK__UPLOAD_MARK);
        if (!mark || mark[strlen(STK__UPLOAD_MARK)])
            continue;
        *mark = 0;
        snprintf(url, sizeof url, "s3://bucket/run/version_0/%s", entry->d_name);
        assert_ok(stk__checkpoint_verify(ctx, url, &err), &err);
    }
    closedir(dir);
}

static void kill_at(world *w, unsigned long requests, uint64_t spin)
{
    atomic_store(&w->requests, 0);
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) { /* a program of its own: the server's threads are not in it */
        execl("/proc/self/exe", "uploads_killed", http_server_url(w->server), w->dir, NULL);
        _exit(1);
    }
    while (atomic_load(&w->requests) < requests) {
        assert_int_equal(waitpid(child, &status, WNOHANG), 0);
        sched_yield();
    }
    for (; spin; spin--)
        atomic_signal_fence(memory_order_seq_cst);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void killed_at_any_request(void **state)
{
    const char *more = getenv("STOKER_TEST_KILLS");
    const long kills = more ? strtol(more, NULL, 10) : KILLS;
    unsigned long found = 0;
    uint64_t seed = 23;
    char path[512];
    world w = {.server = NULL};

    (void)state;
    test_folder(w.objects);
    test_folder(w.dir);
    for (long i = 0; i < kills; i++) {
        if (i % SERVES == 0)
            serve(&w);
        kill_at(&w, 1 + test_random(&seed) % 40, test_random(&seed) % 4000000);
        stk_context *ctx = open_context(http_server_url(w.server));
        what_is_marked_is_whole(&w, ctx);
        const unsigned long step = newest(ctx, path, sizeof path);
        assert_true(step >= found);
        found = step;
        stk_context_destroy(&ctx);
        test_folder_remove(w.dir);
        assert_int_equal(mkdir(w.dir, 0700), 0);
    }
    assert_true(found > 0);
    http_server_stop(&w.server);
    test_folder_remove(w.objects);
    test_folder_remove(w.dir);
}

/* SERVER DIR: what is killed */
int main(int argc, char **argv)
{
    if (argc == 3)
        save_for_ever(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_at_any_request)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
