/* SPDX-License-Identifier: Apache-2.0 */
/* stoker train with its run in an object store, which the environment says how to reach. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/http_server.h"
#include "support/support.h"

#define CHECKPOINTS "/bucket/run/lightning_logs/version_%d/checkpoints/%s.safetensors.complete"

typedef struct world {
    http_server *server;
    char dir[256];
    atomic_int child;         /* gets SIGTERM; 0: none does */
    atomic_uint not_signed;   /* requests */
    const char *_Atomic ends; /* when an object of this name is put */
} world;

static void see(void *user, const http_request *request, http_fault *fault)
{
    world *w = user;
    char value[600];
    const char *ends = atomic_load(&w->ends);

    (void)fault;
    const char *is = http_header(request, "Authorization", value, sizeof value);
    if (!is || !strstr(value, "AKIDEXAMPLE") || strstr(request->headers, "C4nary"))
        atomic_fetch_add(&w->not_signed, 1);
    if (!ends || strcmp(request->method, "PUT") != 0 || !strstr(request->path, ends))
        return;
    /* A second one would end it at once. */
    const int child = atomic_exchange(&w->child, 0);
    if (child)
        kill(child, SIGTERM);
}

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);

    *state = w;
    test_folder(w->dir);
    w->server =
        http_server_start(&(http_server_options){.seed = 1, .s3 = true, .seen = see, .user = w});
    assert_non_null(w->server);
    setenv("AWS_ENDPOINT_URL", http_server_url(w->server), 1);
    setenv("AWS_REGION", "eu-north-1", 1);
    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "C4nary", 1);
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;

    http_server_stop(&w->server);
    test_folder_remove(w->dir);
    free(w);
    return 0;
}

/* Its exit status. What it says goes into `said`, below the folder of the test. */
static int train(world *w, const char *binary)
{
    char *const line[] = {"stoker",
                          "train",
                          "--dataset",
                          "digits:?size=640",
                          "--test",
                          "digits:?split=test&size=64",
                          "--layers",
                          "flatten, linear(10)",
                          "--transforms",
                          "to_float",
                          "--batch-size",
                          "64",
                          "--max-epochs",
                          "1000000",
                          "--default-root-dir",
                          "s3://bucket/run",
                          "--ckpt-path",
                          "s3://bucket/run/last",
                          "--trainer.upload-dir",
                          w->dir,
                          "--trainer.upload-deadline",
                          "100s",
                          NULL};
    char said[300];
    int status;

    snprintf(said, sizeof said, "%s/said", w->dir);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
            _exit(99);
        execv(binary, line);
        _exit(98);
    }
    atomic_store(&w->child, child);
    assert_int_equal(waitpid(child, &status, 0), child);
    atomic_store(&w->child, 0);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool has(world *w, int version, const char *name)
{
    char path[256];
    size_t length;

    snprintf(path, sizeof path, CHECKPOINTS, version, name);
    void *bytes = http_server_get(w->server, path, &length);
    free(bytes);
    return bytes != NULL;
}

/* The same line again and again: it begins, is told to end, and goes on from where it was. */
static void the_same_line(void **state)
{
    world *w = *state;
    const char *binary = test_binary();
    static char text[1 << 18];
    char said[300];

    if (!binary)
        return;
    atomic_store(&w->ends, "/version_0/checkpoints/epoch=");
    assert_int_equal(train(w, binary), 143);
    assert_true(has(w, 0, "interrupted"));
    atomic_store(&w->ends, "/version_1/checkpoints/epoch=");
    assert_int_equal(train(w, binary), 143);
    assert_true(has(w, 1, "interrupted"));
    snprintf(said, sizeof said, "%s/said", w->dir);
    FILE *f = fopen(said, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    /* One of an epoch's end may be of the same step as the one of the interruption. */
    assert_non_null(strstr(text, "path at s3://bucket/run/lightning_logs/version_0/checkpoints/"));
    assert_null(strstr(text, "C4nary"));
    assert_int_equal(atomic_load(&w->not_signed), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_line, set_up, tear_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
