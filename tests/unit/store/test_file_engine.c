/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a folder over I/O engines and system calls that fail. */
#include "base/durable.h"
#include "support/support.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "store/store.h"

/* ---- Calls as the tests want them, in place of the C library's ---- */

static bool interrupting; /* EINTR first; then, of bytes, half of them */
static atomic_uint writes, syncs, opens, closes, reads, direct_reads;
static atomic_uint closed_twice;
static bool plain;                  /* a file system that knows no RWF_NOWAIT */
static _Atomic pid_t reader;        /* the thread of the last pread() */
static bool cold;                   /* nothing is in the page cache */
static _Atomic uint64_t not_before; /* pread() ends with one byte, and not before this time */

static bool interrupts(atomic_uint *calls)
{
    return interrupting && atomic_fetch_add(calls, 1) % 2 == 0;
}

#pragma GCC visibility push(default)

/* openat2() has no other way. */
long syscall(long number, ...)
{
    long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    va_list arguments;
    long a[6];

    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_openat2 && interrupts(&opens)) {
        errno = EINTR;
        return -1;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int open(const char *path, int flags, ...)
{
    if (interrupts(&opens)) {
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0666);
}

int openat(int at, const char *path, int flags, ...)
{
    if (interrupts(&opens)) {
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_openat, at, path, flags, 0666);
}

/* The descriptor is gone, signal or not. */
int close(int fd)
{
    const long result = syscall(SYS_close, fd);

    closed_twice += result < 0;
    if (result == 0 && interrupting) {
        closes++;
        errno = EINTR;
        return -1;
    }
    return (int)result;
}

ssize_t preadv2(int fd, const struct iovec *parts, int n, off_t offset, int flags)
{
    const unsigned turn = interrupting ? direct_reads++ % 3 : 2;

    if (plain)
        direct_reads++;
    if (turn == 0 || cold || plain) {
        errno = plain ? EOPNOTSUPP : cold ? EAGAIN : EINTR;
        return -1;
    }
    return syscall(SYS_pread64, fd, parts->iov_base,
                   turn == 1 ? (parts->iov_len + 1) / 2 : parts->iov_len, offset);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    const unsigned turn = interrupting ? reads++ % 3 : 2;

    if (turn == 0) {
        errno = EINTR;
        return -1;
    }
    reader = gettid();
    if (not_before)
        stk__sleep_until(not_before, NULL);
    return syscall(SYS_pread64, fd, data,
                   not_before  ? 1
                   : turn == 1 ? (size + 1) / 2
                               : size,
                   offset);
}

ssize_t pread64(int fd, void *data, size_t size, off_t offset)
{
    return pread(fd, data, size, offset);
}

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
    if (interrupts(&syncs)) {
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
            store->ops->put(store, key, &stk__store_call_none, &put, &err) != STK_OK ||
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

    assert_ok(store->ops->put(store, key, &stk__store_call_none, &put, &err), &err);
    assert_ok(put->ops->write(put, "whole", 5, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
}

/* What a killed writer left goes with the next put in its folder; a living one's stays. */
static void test_left_by_a_kill(void **state)
{
    stk_context *context = test_context();
    stk_store *store = NULL;
    stk_object_info info = {.struct_size = sizeof info};
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
    assert_ok(stk_store_stat(store, "sub/living", NULL, &info, &err), &err);
    assert_int_equal(info.size, 4);
    assert_fails(stk_store_stat(store, "sub/dead", NULL, &info, &err), STK_ENOENT, &err,
                 "sub/dead");
    stk_store_close(&store);
    test_folder_remove(folder);
    stk_context_destroy(&context);
}

/* Signals come in the middle of every call. */
static void test_interrupted_put(void **state)
{
    static const char *const keys[] = {"a/b", "c", "a/c", "d/e/f", "g", "d/e/g", "h", "a/b"};
    stk_context *context = test_context();
    stk_store *store = NULL;
    char folder[256], bytes[5];
    stk_error err;

    (void)state;
    test_folder(folder);
    assert_ok(stk_store_open(context, folder, &store, NULL, 0, &err), &err);
    interrupting = true;
    /* Every other open is interrupted: which ones differs from put to put. */
    for (size_t i = 0; i < STK_COUNT(keys); i++)
        put_one(store, keys[i]);
    interrupting = false;
    assert_true(writes >= 3 && syncs >= 4 && opens >= 4 && closes >= 4);
    assert_int_equal(closed_twice, 0);
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        assert_ok(stk_store_read(store, keys[i], 0, 5, bytes, &err), &err);
        assert_memory_equal(bytes, "whole", 5);
    }
    stk_store_close(&store);
    test_folder_remove(folder);
    stk_context_destroy(&context);
}

/* Half of these are small and read where they are submitted, if they can be; more than may be open
 * at once. */
static void test_interrupted_reads(void **state)
{
    enum { FILES = 60, SMALL = 5000, LARGE = 200000 };
    static unsigned char bytes[LARGE], found[LARGE];
    stk_context_options options;
    stk_context *context;
    stk_store *store = NULL;
    stk_object_info info = {.struct_size = sizeof info};
    char folder[256], key[40];
    stk_error err;

    (void)state;
    test_folder(folder);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    for (int i = 0; i < FILES; i++) {
        snprintf(key, sizeof key, "%d/%d", i % 3, i);
        test_write(folder, key, bytes + i, i % 2 ? SMALL : LARGE - (size_t)i);
    }
    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    assert_ok(stk_context_create(&options, &context, &err), &err);
    opens = closes = reads = direct_reads = closed_twice = 0;
    interrupting = true;
    assert_ok(stk_store_open(context, folder, &store, NULL, 0, &err), &err);
    for (int i = 0; i < FILES; i++) {
        const size_t size = i % 2 ? SMALL : LARGE - (size_t)i;
        snprintf(key, sizeof key, "%d/%d", i % 3, i);
        assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
        assert_int_equal(info.size, size);
        assert_ok(stk_store_read(store, key, 0, size, found, &err), &err);
        assert_memory_equal(found, bytes + i, size);
    }
    stk_store_close(&store);
    interrupting = false;
    assert_true(opens > FILES && closes > FILES && reads > FILES / 2 && direct_reads > FILES / 4);
    assert_int_equal(closed_twice, 0);
    test_folder_remove(folder);
    stk_context_destroy(&context);
}

typedef struct job {
    stk_read read;
    stk_status status;
    sem_t ended;
} job;

static void on_done(stk_read *read, stk_status status)
{
    job *j = (job *)read;

    j->status = status;
    sem_post(&j->ended);
}

/* A read that the kernel has not ended when its time is over, and then in part. */
static void test_deadline_of_running(void **state)
{
    stk_context_options options;
    stk_context *context;
    stk_store *store = NULL;
    char folder[256], bytes[100] = "";
    stk_error err;
    job j = {.status = STK_OK};

    (void)state;
    sem_init(&j.ended, 0, 0);
    test_folder(folder);
    test_write(folder, "key", bytes, sizeof bytes);
    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    assert_ok(stk_context_create(&options, &context, &err), &err);
    assert_ok(stk_store_open(context, folder, &store, NULL, 0, &err), &err);
    cold = true;
    j.read = (stk_read){.struct_size = sizeof j.read,
                        .key = "key",
                        .length = sizeof bytes,
                        .data = bytes,
                        .deadline_ns = stk__now_ns() + UINT64_C(200000000),
                        .done = on_done};
    not_before = j.read.deadline_ns;
    assert_int_equal(store->ops->submit(store, &j.read), STK_OK);
    while (sem_wait(&j.ended) != 0)
        assert_int_equal(errno, EINTR);
    not_before = 0;
    cold = false;
    assert_int_equal(j.status, STK_ETIMEDOUT);
    stk_store_close(&store);
    test_folder_remove(folder);
    stk_context_destroy(&context);
}

/* Where nobody can say whether a read would wait: memory is read at once, all else by the engine,
 * and it is asked once. */
static void test_without_nowait(void **state)
{
    static const char *const roots[] = {"/dev/shm", NULL};
    const char *before = getenv("TMPDIR");
    stk_context_options options;
    stk_context *context;
    stk_error err;

    (void)state;
    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    assert_ok(stk_context_create(&options, &context, &err), &err);
    for (size_t i = 0; i < STK_COUNT(roots); i++) {
        stk_store *store = NULL;
        struct statfs fs;
        char folder[256], found[5];
        if (roots[i] && access(roots[i], W_OK) == 0)
            setenv("TMPDIR", roots[i], 1);
        test_folder(folder);
        if (before)
            setenv("TMPDIR", before, 1);
        else
            unsetenv("TMPDIR");
        test_write(folder, "key", "whole", 5);
        assert_int_equal(statfs(folder, &fs), 0);
        const bool memory = fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
        assert_ok(stk_store_open(context, folder, &store, NULL, 0, &err), &err);
        plain = true;
        direct_reads = 0;
        for (int k = 0; k < 4; k++) {
            memset(found, 0, sizeof found);
            assert_ok(stk_store_read(store, "key", 0, 5, found, &err), &err);
            assert_memory_equal(found, "whole", 5);
            if (k > 0)
                assert_true((reader == gettid()) == memory);
        }
        plain = false;
        assert_int_equal(direct_reads, 1);
        stk_store_close(&store);
        test_folder_remove(folder);
    }
    stk_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_engine),      cmocka_unit_test(test_left_by_a_kill),
        cmocka_unit_test(test_interrupted_put),     cmocka_unit_test(test_interrupted_reads),
        cmocka_unit_test(test_deadline_of_running), cmocka_unit_test(test_without_nowait),
    };

    return cmocka_run_group_tests_name("file_engine", tests, NULL, NULL);
}
