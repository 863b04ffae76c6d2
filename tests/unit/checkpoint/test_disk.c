/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints on a disk that fails, is slow, or has leftovers. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/files.h"
#include "state.h"

/* ---- Failures of the disk ---- */

/* The system's calls, of which one kind fails. */
typedef struct disk {
    stk__file_calls calls;
    atomic_int fail_write, fail_fsync, fail_allocate; /* errno; 0: none */
} disk;

static int disk_allocate(void *user, int fd, uint64_t bytes)
{
    int error = atomic_load(&((disk *)user)->fail_allocate);

    if (error) {
        errno = error;
        return -1;
    }
    return stk__file_calls_system.allocate(NULL, fd, bytes);
}

static ssize_t disk_write(void *user, int fd, const void *data, size_t length)
{
    int error = atomic_load(&((disk *)user)->fail_write);

    if (error) {
        errno = error;
        return -1;
    }
    /* Short writes are no failures. */
    return stk__file_calls_system.write(NULL, fd, data, length > 700 ? 700 : length);
}

static int disk_fsync(void *user, int fd)
{
    int error = atomic_load(&((disk *)user)->fail_fsync);

    if (error) {
        errno = error;
        return -1;
    }
    return 0;
}

static size_t entries(const char *folder)
{
    char command[400];
    unsigned n = 0;

    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%u", &n), 1);
    pclose(f);
    return n;
}

/* Have `b` be the same as `a`, with these calls. */
static stk_status copy_on(stk_context *ctx, const stk__file_calls *calls, const char *a,
                          const char *b, stk_error *err)
{
    stk__put_place place = {.context = ctx, .calls = calls};
    stk_status status = stk__url_copy(&place, a, b, err);

    stk__put_place_close(&place);
    return status;
}

static int disk_link(void *user, int from_folder, const char *from, int folder, const char *to)
{
    errno = *(const int *)user;
    return -1;
}

/* The name that a link has at first is removed by somebody else, so many times. */
static int swept_rename(void *user, int folder, const char *from, const char *to, bool keep)
{
    if ((*(int *)user)-- > 0)
        unlinkat(folder, from, 0);
    return stk__file_calls_system.rename(NULL, folder, from, to, keep);
}

/* A run that goes on removes what nobody holds, which that name may be: it is made again. */
static void test_swept_link(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], a[300], b[300];
    stk_error err;
    int times = 3;

    test_folder(folder);
    snprintf(a, sizeof a, "%s/a.ckpt", folder);
    snprintf(b, sizeof b, "%s/b.ckpt", folder);
    test_write(folder, "a.ckpt", "first", 5);
    stk__file_calls calls = stk__file_calls_system;
    calls.user = &times;
    calls.rename = swept_rename;
    assert_ok(copy_on(ctx, &calls, a, b, &err), &err);
    assert_true(exists(b));
    assert_int_equal(entries(folder), 2);
    /* One that is not there is not tried for ever. */
    snprintf(a, sizeof a, "%s/none.ckpt", folder);
    assert_fails(copy_on(ctx, &calls, a, b, &err), STK_ENOENT, &err, b);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Where the file system has no hard links, a name is a copy; other failures are failures. */
static void test_no_links(void **state)
{
    static const int refusals[] = {EPERM, EXDEV, EMLINK, ENOSYS, EOPNOTSUPP};
    stk_context *ctx = test_context();
    char folder[256], a[300], b[300], text[16] = "";
    struct stat first, second;
    stk_error err;
    int error = 0;

    test_folder(folder);
    snprintf(a, sizeof a, "%s/a.ckpt", folder);
    snprintf(b, sizeof b, "%s/b.ckpt", folder);
    test_write(folder, "a.ckpt", "first", 5);
    stk__file_calls calls = stk__file_calls_system;
    calls.user = &error;
    calls.link = disk_link;
    for (size_t i = 0; i < STK_COUNT(refusals); i++) {
        error = refusals[i];
        test_write(folder, "b.ckpt", "before", 6);
        assert_ok(copy_on(ctx, &calls, a, b, &err), &err);
        FILE *f = fopen(b, "rb");
        assert_non_null(f);
        assert_int_equal(fread(text, 1, sizeof text, f), 5);
        assert_memory_equal(text, "first", 5);
        fclose(f);
        assert_true(stat(a, &first) == 0 && stat(b, &second) == 0);
        assert_true(first.st_ino != second.st_ino);
        assert_int_equal(entries(folder), 2);
    }
    error = EACCES;
    assert_fails(copy_on(ctx, &calls, a, b, &err), STK_EACCES, &err, b);
    assert_ok(copy_on(ctx, NULL, a, b, &err), &err);
    assert_true(stat(a, &first) == 0 && stat(b, &second) == 0);
    assert_true(first.st_ino == second.st_ino);
    assert_int_equal(entries(folder), 2);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_disk_fails(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = NULL;
    char folder[256], a[300], b[300];
    stk_error err;
    disk d = {.calls = stk__file_calls_system};

    d.calls.user = &d;
    d.calls.allocate = disk_allocate;
    d.calls.write = disk_write;
    d.calls.fsync = disk_fsync;
    test_folder(folder);
    snprintf(a, sizeof a, "%s/a.ckpt", folder);
    snprintf(b, sizeof b, "%s/b.ckpt", folder);
    assert_ok(stk__checkpoint_writer_create_on(ctx, &d.calls, &writer, &err), &err);
    save(writer, a, 1, NULL, 0);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    atomic_int *const faults[] = {&d.fail_allocate, &d.fail_write, &d.fail_fsync};
    const int errors[] = {ENOSPC, ENOSPC, EIO};
    const stk_status statuses[] = {STK_ENOSPC, STK_ENOSPC, STK_EIO};
    for (size_t i = 0; i < 3; i++) {
        atomic_store(faults[i], errors[i]);
        /* Neither a new one nor one over the old one; and nothing is removed or linked. */
        save(writer, b, 2, (const char *const[]){a}, 1);
        assert_ok(stk__checkpoint_link(writer, b, a, &err), &err);
        assert_fails(stk__checkpoint_flush(writer, &err), statuses[i], &err, b);
        if (errors[i] == ENOSPC)
            assert_non_null(strstr(err.text, "free some space"));
        assert_ok(stk__checkpoint_poll(writer, &err), &err);
        save(writer, a, 3, NULL, 0);
        /* What is there is not what this name was to be of. */
        assert_ok(stk__checkpoint_link(writer, a, b, &err), &err);
        assert_fails(stk__checkpoint_flush(writer, &err), statuses[i], &err, a);
        atomic_store(faults[i], 0);
        assert_false(exists(b));
        check(ctx, a, 1);
        assert_int_equal(entries(folder), 1);
    }
    /* It works again. A failure that nobody asked for is in the log at the end. */
    save(writer, b, 4, (const char *const[]){a}, 1);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    check(ctx, b, 4);
    assert_false(exists(a));
    /* No room is set aside by this file system: that is no failure. */
    atomic_store(&d.fail_allocate, EOPNOTSUPP);
    save(writer, a, 5, NULL, 0);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    check(ctx, a, 5);
    stk__checkpoint_writer_destroy(&writer);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_no_folder(void **state)
{
    messages said = {0};
    stk_context *ctx = context_with(&said);
    stk__checkpoint_writer *writer = NULL;
    char folder[256], path[300];
    stk_error err;

    test_folder(folder);
    test_write(folder, "file", "x", 1);
    snprintf(path, sizeof path, "%s/file/x.ckpt", folder);
    assert_ok(stk__checkpoint_writer_create(ctx, &writer, &err), &err);
    save(writer, path, 1, NULL, 0);
    assert_fails(stk__checkpoint_flush(writer, &err), STK_ENOENT, &err, "a part of the path");
    save(writer, "/proc/nowhere/x.ckpt", 1, NULL, 0);
    assert_true(stk__checkpoint_flush(writer, &err) < 0);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
    save(writer, path, 1, NULL, 0);
    stk__checkpoint_writer_destroy(&writer);
    assert_int_equal(said.count, 1);
    assert_non_null(strstr(said.last, "/file'"));
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- The snapshot is all that a caller waits for ---- */

/* A disk whose writes wait for a gate. */
typedef struct gate {
    stk__file_calls calls;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    int waiting;
} gate;

static ssize_t gated_write(void *user, int fd, const void *data, size_t length)
{
    gate *g = user;

    pthread_mutex_lock(&g->lock);
    g->waiting++;
    pthread_cond_broadcast(&g->changed);
    while (!g->open)
        pthread_cond_wait(&g->changed, &g->lock);
    g->waiting--;
    pthread_mutex_unlock(&g->lock);
    return stk__file_calls_system.write(NULL, fd, data, length);
}

static void *open_gate(void *user)
{
    gate *g = user;

    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

static void test_waits_for_snapshot_only(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = NULL;
    gate g = {.calls = stk__file_calls_system,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .changed = PTHREAD_COND_INITIALIZER};
    char folder[256], a[300], b[300];
    uint64_t waited = 1;
    pthread_t opener;
    stk_error err;
    model m;

    g.calls.user = &g;
    g.calls.write = gated_write;
    g.calls.fsync = no_fsync;
    test_folder(folder);
    snprintf(a, sizeof a, "%s/a.ckpt", folder);
    snprintf(b, sizeof b, "%s/b.ckpt", folder);
    assert_ok(stk__checkpoint_writer_create_on(ctx, &g.calls, &writer, &err), &err);
    fill(&m, 1);
    assert_ok(stk__checkpoint_save(writer, a, m.tensors, 3, m.texts, 2, NULL, 0, &waited, &err),
              &err);
    assert_int_equal(waited, 0);
    /* The write stands still, and the caller is here. */
    pthread_mutex_lock(&g.lock);
    while (!g.waiting)
        pthread_cond_wait(&g.changed, &g.lock);
    pthread_mutex_unlock(&g.lock);
    assert_false(exists(a));
    assert_ok(stk__checkpoint_poll(writer, &err), &err);
    assert_int_equal(pthread_create(&opener, NULL, open_gate, &g), 0);
    fill(&m, 2);
    assert_ok(stk__checkpoint_save(writer, b, m.tensors, 3, m.texts, 2, NULL, 0, &waited, &err),
              &err);
    pthread_join(opener, NULL);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    check(ctx, a, 1);
    check(ctx, b, 2);
    stk__checkpoint_writer_destroy(&writer);
    pthread_cond_destroy(&g.changed);
    pthread_mutex_destroy(&g.lock);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* What a killed process left goes with the first save; what a living one writes stays. */
static void test_sweep(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = quick_writer(ctx);
    char folder[256], path[300], left[300], living[300];

    test_folder(folder);
    snprintf(path, sizeof path, "%s/a.ckpt", folder);
    snprintf(left, sizeof left, "%s/" STK__TEMPORARY "1", folder);
    snprintf(living, sizeof living, "%s/" STK__TEMPORARY "2", folder);
    test_write(folder, STK__TEMPORARY "1", "half", 4);
    test_write(folder, STK__TEMPORARY "2", "half", 4);
    int fd = open(living, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    save(writer, path, 1, NULL, 0);
    stk__checkpoint_writer_destroy(&writer);
    close(fd);
    assert_false(exists(left));
    assert_true(exists(living));
    check(ctx, path, 1);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disk_fails),
        cmocka_unit_test(test_no_links),
        cmocka_unit_test(test_swept_link),
        cmocka_unit_test(test_no_folder),
        cmocka_unit_test(test_waits_for_snapshot_only),
        cmocka_unit_test(test_sweep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
