/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A secret in every source of credentials, and stores that work and fail with it: no message,
 * error, request or child has it, nor what a core dump of the process would. The process itself
 * never has it in memory that it does not wipe: files of secrets are written by a child.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/s3/s3.h"
#include "support/http_server.h"
#include "support/own_memory.h"

/* Not written in one piece: this program's text would have it. */
static const char halves[2][9] = {"C4nary-", "8b6f3d1"};

typedef struct fixture {
    char folder[256];
    char *canary; /* in memory that dumps leave out */
    http_server *server;
    pthread_mutex_t mutex;
    unsigned leaks;
    pid_t serving;
    char body[512]; /* what services answer: of a server process */
} fixture;

/* ---- The server, a process of its own: it has to know secrets ---- */

static void answer(void *user, const http_request *request, http_fault *fault)
{
    fixture *f = user;

    if (strstr(request->path, "/keys")) {
        snprintf(f->body, sizeof f->body,
                 "{\"AccessKeyId\":\"AKID\",\"SecretAccessKey\":\"%s\",\"Token\":\"t\","
                 "\"Expiration\":\"2100-01-01T00:00:00Z\"}",
                 f->canary);
        fault->status = 200;
        fault->body = f->body;
    } else if (strstr(request->path, "/token")) {
        snprintf(f->body, sizeof f->body, "{\"access_token\":\"%s\",\"expires_in\":3600}",
                 f->canary);
        fault->status = 200;
        fault->body = f->body;
    } else if (strstr(request->path, "/refused")) {
        fault->status = 403;
        fault->body = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
    }
}

/* Its address goes through a pipe; it ends with this process. */
static void serve(fixture *f, char *url, size_t size)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        http_server *server = http_server_start(
            &(http_server_options){.seed = 1, .s3 = true, .seen = answer, .user = f});
        if (!server || !http_server_put(server, "/bucket/x", "0123456789", 10))
            _exit(1);
        dprintf(ends[1], "%s\n", http_server_url(server));
        close(ends[1]);
        for (;;)
            pause();
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    assert_non_null(fgets(url, (int)size, from));
    url[strcspn(url, "\n")] = 0;
    fclose(from);
    f->serving = pid;
}

/* ---- Secrets ---- */

/* A file of the folder with the text, in which '@' is the secret; by a child. */
static void plant(const fixture *f, const char *name, const char *text)
{
    const pid_t pid = fork();

    if (pid == 0) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", f->folder, name);
        FILE *to = fopen(path, "w");
        for (; to && *text; text++)
            *text == '@' ? fputs(f->canary, to) : fputc(*text, to);
        _exit(to && fclose(to) == 0 ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Whether a file of the folder, which is there, has the secret; looked at by a child. */
static bool holds_secret(const fixture *f, const char *name)
{
    const pid_t pid = fork();

    if (pid == 0) {
        char path[512], text[65536];
        snprintf(path, sizeof path, "%s/%s", f->folder, name);
        FILE *from = fopen(path, "r");
        const size_t n = from ? fread(text, 1, sizeof text - 1, from) : 0;
        text[n] = 0;
        _exit(n == 0 ? 2 : strstr(text, f->canary) != NULL);
    }
    int status = 1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return WEXITSTATUS(status) == 1;
}

static void watch(void *user, stk_message_level level, const char *text)
{
    fixture *f = user;

    pthread_mutex_lock(&f->mutex);
    f->leaks += strstr(text, f->canary) != NULL;
    pthread_mutex_unlock(&f->mutex);
}

static void assert_quiet(const fixture *f, const stk_error *err)
{
    assert_null(strstr(err->text, f->canary));
    assert_null(strstr(err->key, f->canary));
}

/* ---- Work ---- */

/* Read, and fail; then look at what there is in memory, with the store still open. */
static void work(fixture *f, const char *stores, const char *scheme)
{
    stk_context_options options;
    stk_context *context = NULL;
    stk_store *store = NULL;
    char data[16] = "", url[64];
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    stk_context_options_init(&options);
    options.stores = stores;
    options.on_message = watch;
    options.on_message_user = f;
    assert_ok(stk_context_create(&options, &context, &err), &err);
    snprintf(url, sizeof url, "%s://bucket", scheme);
    assert_ok(stk_store_open(context, url, &store, NULL, 0, &err), &err);
    assert_ok(stk_store_read(store, "x", 0, 10, data, &err), &err);
    assert_string_equal(data, "0123456789");
    assert_ok(stk_store_put(store, "y", "hello", 5, NULL, &err), &err);
    assert_fails(stk_store_read(store, "refused", 0, 10, data, &err), STK_EACCES, &err, "403");
    assert_quiet(f, &err);
    assert_fails(stk_store_stat(store, "none", NULL, &info, &err), STK_ENOENT, &err, "none");
    assert_quiet(f, &err);
    assert_int_equal(memory_has(f->canary, strlen(f->canary)), 0);
    stk_store_close(&store);
    stk_context_destroy(&context);
    assert_int_equal(memory_has(f->canary, strlen(f->canary)), 0);
    assert_int_equal(f->leaks, 0);
}

static void test_sources(void **state)
{
    fixture *f = *state;
    char server[128], stores[2048], text[1024];

    serve(f, server, sizeof server);
    /* What finds it finds it. */
    char *here = strdup(f->canary);
    assert_true(memory_has(f->canary, strlen(f->canary)) > 0);
    explicit_bzero(here, strlen(here));
    free(here);
    assert_int_equal(memory_has(f->canary, strlen(f->canary)), 0);

    plant(f, "credentials", "[default]\naws_access_key_id = A\naws_secret_access_key = @\n");
    snprintf(stores, sizeof stores,
             "s3(endpoint='%s', metadata_endpoint='', credentials_file='%s/credentials')", server,
             f->folder);
    work(f, stores, "s3");

    plant(f, "keys", "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"@\",\"SessionToken\":\"t\"}");
    /* The process says what it has in its environment. */
    snprintf(text, sizeof text, "env > %s/environment; cat %s/keys\n", f->folder, f->folder);
    plant(f, "program", text);
    snprintf(text, sizeof text, "[default]\ncredential_process = sh %s/program\n", f->folder);
    plant(f, "config", text);
    snprintf(stores, sizeof stores,
             "s3(endpoint='%s', metadata_endpoint='', config_file='%s/config')", server, f->folder);
    work(f, stores, "s3");
    assert_false(holds_secret(f, "environment"));
    assert_true(holds_secret(f, "keys"));

    plant(f, "token", "@");
    snprintf(stores, sizeof stores,
             "s3(endpoint='%s', metadata_endpoint='', container_uri='%s/keys', "
             "container_token_file='%s/token')",
             server, server, f->folder);
    work(f, stores, "s3");

    snprintf(text, sizeof text,
             "{\"type\":\"authorized_user\",\"client_id\":\"i\",\"client_secret\":\"s@\","
             "\"refresh_token\":\"r@\",\"token_uri\":\"%s/token\"}",
             server);
    plant(f, "user.json", text);
    snprintf(stores, sizeof stores,
             "gs(endpoint='%s', metadata_endpoint='', credentials_file='%s/user.json')", server,
             f->folder);
    work(f, stores, "gs");
    kill(f->serving, SIGKILL);
    waitpid(f->serving, NULL, 0);
}

static int set_up(void **state)
{
    /* Children have it, too: they write it. */
    fixture *f =
        mmap(NULL, sizeof *f + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(f != MAP_FAILED);
    assert_int_equal(madvise(f, sizeof *f + 64, MADV_DONTDUMP), 0);
    f->canary = (char *)(f + 1);
    strcpy(f->canary, halves[0]);
    strcat(f->canary, halves[1]);
    pthread_mutex_init(&f->mutex, NULL);
    test_folder(f->folder);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    test_folder_remove(f->folder);
    munmap(f, sizeof *f + 64);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sources, set_up, tear_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
