/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a folder over I/O engines and system calls that fail. */
#include "support/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"

/* ---- Calls as the tests want them, in place of the C library's ---- */

static bool interrupting; /* EINTR first; then, of a write, half of it */
static unsigned writes, syncs;

#pragma GCC visibility push(default)

ssize_t write(int fd, const void *data, size_t size)
{
    const unsigned turn = interrupting ? writes++ % 3 : 2;

    if (turn == 0) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_write, fd, data, turn == 1 ? (size + 1) / 2 : size);
}

int fsync(int fd)
{
    if (interrupting && syncs++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

#pragma GCC visibility pop

/* Exit code 0: all as it should be. */
static int child_without_uring(const char *folder, stk_io_engine engine, int error)
{
    stk_context_options options;
    stk_context *context = NULL;
    stk_store *store = NULL;
    stk_error err;
    char byte;

    if (!test_deny_call(SYS_io_uring_setup, error))
        return 77;
    stk_context_options_init(&options);
    options.io_engine = engine;
    if (stk_context_create(&options, &context, &err) != STK_OK)
        return 1;
    stk_status status = stk_store_open(context, folder, &store, NULL, 0, &err);
    if (engine == STK_IO_URING)
        return status != STK_ENOTSUP || store || !strstr(err.text, "io_engine `uring`") ||
                       !strstr(err.text, "`auto` or `threads`")
                   ? 2
                   : 0;
    if (status != STK_OK)
        return 3;
    const stk_status got = stk_store_read(store, "big", 0, 1, &byte, &err);
    stk_store_close(&store);
    return got == STK_OK ? 0 : 4;
}

/* An engine that was asked for by name and is refused fails where the store is opened, and is no
 * failure of what is read. */
static void test_refused_engine(void **state)
{
    char folder[256];
    const struct {
        stk_io_engine engine;
        int error;
    } cases[] = {{STK_IO_URING, EPERM},  {STK_IO_URING, ENOSYS}, {STK_IO_URING, ENOMEM},
                 {STK_IO_URING, EMFILE}, {STK_IO_AUTO, EPERM},   {STK_IO_THREADS, ENOSYS}};

    (void)state;
    test_folder(folder);
    test_write(folder, "big", "bytes", 5);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        int status = 0;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(child_without_uring(folder, cases[i].engine, cases[i].error));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
            print_message("skipped: no seccomp filters here\n");
            skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    test_folder_remove(folder);
}

typedef struct writer {
    pid_t pid;
    int told, go; /* its word that it writes; ours that it may end */
} writer;

/* A child in the middle of a put; it commits when told to. */
static void start_writer(writer *w, const char *folder, const char *key)
{
    int told[2], go[2];
    char byte = 0;

    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    w->pid = fork();
    assert_true(w->pid >= 0);
    if (w->pid == 0) {
        stk_context *context = NULL;
        stk_store *store = NULL;
        stk_put *put = NULL;
        stk_error err;
        close(go[1]);
        if (stk_context_create(NULL, &context, &err) != STK_OK ||
            stk_store_open(context, folder, &store, NULL, 0, &err) != STK_OK ||
            store->ops->put(store, key, &put, &err) != STK_OK ||
            put->ops->write(put, "half", 4, &err) != STK_OK || write(told[1], "", 1) != 1 ||
            read(go[0], &byte, 1) != 1)
            _exit(1);
        _exit(put->ops->commit(put, &err) == STK_OK ? 0 : 2);
    }
    close(told[1]);
    close(go[0]);
    w->told = told[0];
    w->go = go[1];
    assert_int_equal(read(w->told, &byte, 1), 1);
}

static int end_of(writer *w)
{
    int status = 0;

    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    close(w->told);
    close(w->go);
    return status;
}

static unsigned temporaries_in(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        n += stk__is_temporary(entry->d_name);
    closedir(folder);
    return n;
}

static void put_one(stk_store *store, const char *key)
{
    stk_put *put = NULL;
    stk_error err;

    assert_ok(store->ops->put(store, key, &put, &err), &err);
    assert_ok(put->ops->write(put, "whole", 5, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
}

/* What a killed writer left goes with the next put in its folder; a living one's stays. */
static void test_left_by_a_kill(void **state)
{
    stk_context *context = test_context();
    stk_store *store = NULL;
    stk_object_info info;
    char folder[256], sub[300];
    stk_error err;
    writer dead, living;

    (void)state;
    test_folder(folder);
    test_write(folder, "sub/file", "x", 1);
    snprintf(sub, sizeof sub, "%s/sub", folder);
    start_writer(&living, folder, "sub/living");
    start_writer(&dead, folder, "sub/dead");
    assert_int_equal(temporaries_in(sub), 2);
    assert_int_equal(kill(dead.pid, SIGKILL), 0);
    assert_true(WIFSIGNALED(end_of(&dead)));
    assert_int_equal(temporaries_in(sub), 2);
    assert_ok(stk_store_open(context, folder, &store, NULL, 0, &err), &err);
    put_one(store, "elsewhere");
    assert_int_equal(temporaries_in(sub), 2);
    put_one(store, "sub/next");
    assert_int_equal(temporaries_in(sub), 1);
    assert_int_equal(write(living.go, "", 1), 1);
    assert_int_equal(end_of(&living), 0);
    assert_int_equal(temporaries_in(sub), 0);
    assert_ok(stk_store_stat(store, "sub/living", &info, &err), &err);
    assert_int_equal(info.size, 4);
    assert_fails(stk_store_stat(store, "sub/dead", &info, &err), STK_ENOENT, &err, "sub/dead");
    stk_store_close(&store);
    test_folder_remove(folder);
    stk_context_destroy(&context);
}

/* Signals come in the middle of every call. */
static void test_interrupted_put(void **state)
{
    stk_context *context = test_context();
    stk_store *store = NULL;
    char folder[256], bytes[5];
    stk_error err;

    (void)state;
    test_folder(folder);
    assert_ok(stk_store_open(context, folder, &store, NULL, 0, &err), &err);
    interrupting = true;
    put_one(store, "a/b");
    interrupting = false;
    assert_true(writes >= 3 && syncs >= 4);
    assert_ok(stk_store_read(store, "a/b", 0, 5, bytes, &err), &err);
    assert_memory_equal(bytes, "whole", 5);
    stk_store_close(&store);
    test_folder_remove(folder);
    stk_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_engine),
        cmocka_unit_test(test_left_by_a_kill),
        cmocka_unit_test(test_interrupted_put),
    };

    return cmocka_run_group_tests_name("file_engine", tests, NULL, NULL);
}
