/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caches that were damaged, planted or cannot be used: what is read is right all the same, nothing
 * outside is touched, and there is one warning where something is to be done.
 */
#include "support/cached.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/cache/cache.h"
#include "support/faults.h"
#include "support/mounts.h"

/* ---- Calls on files of a cache that fail ---- */

static faults write_faults = {.left = FAULTS_NONE}, read_faults = {.left = FAULTS_NONE};
static int fault_error = EIO;

static bool is_cached(int fd)
{
    char link[40], path[600];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return strstr(path, "/" STK__CACHE_OWN "/") != NULL;
}

/* They stand before the C library's own: the static library calls these. */
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    if (is_cached(fd) && fault_strikes(&write_faults)) {
        errno = fault_error;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, data, size, offset);
}

int ftruncate(int fd, off_t length)
{
    if (is_cached(fd) && fault_strikes(&write_faults)) {
        errno = fault_error;
        return -1;
    }
    return (int)syscall(SYS_ftruncate, fd, length);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    if (is_cached(fd) && fault_strikes(&read_faults)) {
        errno = fault_error;
        return -1;
    }
    return syscall(SYS_pread64, fd, data, size, offset);
}

ssize_t preadv2(int fd, const struct iovec *parts, int n, off_t offset, int flags)
{
    (void)flags;
    return n == 1 ? pread(fd, parts->iov_base, parts->iov_len, offset) : -1;
}

/* ---- Damage ---- */

/* A cache with all of the object in it, closed; its file. */
static const char *fill(const cached *c)
{
    stk_store *store = cached_open(c, "", "");

    assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
    stk_store_close(&store);
    const char *path = cached_walk(c);
    assert_int_equal(cached_files, 1);
    return path;
}

/* Open anew and read: it is right, and right the next time without the store below. */
static void read_and_mend(const cached *c)
{
    for (int again = 0; again < 2; again++) {
        stk_store *store = cached_open(c, "", "");
        const uint64_t before = counted->reads;
        assert_int_equal(cached_read(c, store, 7, CACHED_SIZE - 9), STK_OK);
        assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
        if (again)
            assert_int_equal(counted->reads, before);
        stk_store_close(&store);
    }
    assert_int_equal(cached_warnings, 0);
}

static void flip(const char *path, off_t at, unsigned char bits)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    unsigned char byte = 0;

    assert_true(fd >= 0);
    assert_int_equal(syscall(SYS_pread64, fd, &byte, 1, at), 1);
    byte ^= bits;
    assert_int_equal(syscall(SYS_pwrite64, fd, &byte, 1, at), 1);
    close(fd);
}

/* Every byte of head and table, and some of every block. */
static void no_flipped_bit_is_read(void **state)
{
    cached *c = *state;
    char path[700];
    uint64_t seed = 3;

    snprintf(path, sizeof path, "%s", fill(c));
    for (off_t at = 0; at < STK__CACHE_HEAD + 41 * 8; at++) {
        flip(path, at, (unsigned char)(1 << at % 8));
        read_and_mend(c);
        if (at == 16)
            at = STK__CACHE_HEAD - 8; /* of the head's sum on */
    }
    for (off_t block = 0; block < 41; block++) {
        const off_t bytes = block == 40 ? 100 : CACHED_BLOCK;
        for (int i = 0; i < 3; i++)
            flip(path,
                 STK__CACHE_ALIGN + block * CACHED_BLOCK + (off_t)(test_random(&seed) % bytes),
                 (unsigned char)(1 << test_random(&seed) % 8));
        if (block % 4 == 0)
            read_and_mend(c);
    }
    read_and_mend(c);
}

/* A block with its own sum in another's place is not that one. */
static void no_moved_block_is_read(void **state)
{
    cached *c = *state;
    unsigned char block[CACHED_BLOCK];
    uint64_t sum;

    const char *path = fill(c);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(syscall(SYS_pread64, fd, block, sizeof block, STK__CACHE_ALIGN), sizeof block);
    assert_int_equal(syscall(SYS_pread64, fd, &sum, 8, STK__CACHE_HEAD), 8);
    assert_int_equal(
        syscall(SYS_pwrite64, fd, block, sizeof block, STK__CACHE_ALIGN + 9 * CACHED_BLOCK),
        sizeof block);
    assert_int_equal(syscall(SYS_pwrite64, fd, &sum, 8, STK__CACHE_HEAD + 9 * 8), 8);
    close(fd);
    read_and_mend(c);
}

static void no_length_of_a_file_is_believed(void **state)
{
    cached *c = *state;
    uint64_t seed = 9;
    char path[700];

    snprintf(path, sizeof path, "%s", fill(c));
    for (int i = 0; i < 12; i++) {
        const off_t length = i < 3 ? i * 40 : (off_t)(test_random(&seed) % (CACHED_SIZE * 2));
        assert_int_equal(truncate(path, length), 0);
        read_and_mend(c);
    }
}

static void read_all_anew(const cached *c, uint64_t seed)
{
    stk_store *store = cached_open(c, "", "");

    cached_read_all(c, store, seed);
    stk_store_close(&store);
}

/* What was planted in the place of a file is neither followed nor written. */
static void what_was_planted_is_left_alone(void **state)
{
    cached *c = *state;
    char path[700], precious[300];

    snprintf(path, sizeof path, "%s", fill(c));
    snprintf(precious, sizeof precious, "%s/precious", c->data);
    test_write(c->data, "precious", "untouched", 9);
    for (int how = 0; how < 4; how++) {
        unsigned char got[10] = {0};
        assert_int_equal(unlink(path), 0);
        assert_int_equal(how == 0   ? symlink(precious, path)
                         : how == 1 ? link(precious, path)
                         : how == 2 ? mkfifo(path, 0600)
                                    : symlink(path, path),
                         0);
        read_all_anew(c, 1);
        int fd = open(precious, O_RDONLY | O_CLOEXEC);
        assert_int_equal(read(fd, got, sizeof got), 9);
        close(fd);
        assert_memory_equal(got, "untouched", 9);
        assert_int_equal(cached_warnings, 1);
        cached_warnings = 0;
    }
}

static int count_files(const char *path)
{
    DIR *folder = opendir(path);
    int n = 0;

    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n - 2;
}

/* Nor is a folder of the cache that is a link, or that others may write. */
static void folders_of_others_are_not_used(void **state)
{
    cached *c = *state;
    char path[700], moved[700], evil[300];

    snprintf(evil, sizeof evil, "%s/evil", c->data);
    assert_int_equal(mkdir(evil, 0700), 0);
    for (int up = 1; up < 4; up++) {
        snprintf(path, sizeof path, "%s", fill(c));
        for (int i = 0; i < up; i++)
            *strrchr(path, '/') = 0;
        snprintf(moved, sizeof moved, "%.200s/moved", c->data);
        assert_int_equal(rename(path, moved), 0);
        assert_int_equal(symlink(evil, path), 0);
        read_all_anew(c, 2);
        assert_int_equal(count_files(evil), 0);
        assert_int_equal(cached_warnings, 1);
        assert_int_equal(unlink(path), 0);
        test_folder_remove(moved);
        cached_warnings = 0;
    }
    fill(c);
    snprintf(path, sizeof path, "%s/" STK__CACHE_OWN, c->dir);
    assert_int_equal(chmod(path, 0755), 0);
    const uint64_t before = counted->bytes;
    read_all_anew(c, 3);
    assert_true(counted->bytes - before >= CACHED_SIZE);
    assert_int_equal(cached_warnings, 1);
}

/* ---- What cannot be used ---- */

static void without_rights_it_passes_through(void **state)
{
    cached *c = *state;
    char path[700];

    fill(c);
    test_bind_by_permissions(true);
    /* What is there is read, and nothing more kept. */
    snprintf(path, sizeof path, "%s/" STK__CACHE_OWN "/state", c->dir);
    assert_int_equal(chmod(path, 0400), 0);
    const uint64_t before = counted->reads;
    read_all_anew(c, 1);
    assert_int_equal(counted->reads, before);
    assert_int_equal(cached_warnings, 1);
    *strrchr(path, '/') = 0;
    assert_int_equal(chmod(path, 0), 0);
    read_all_anew(c, 2);
    assert_int_equal(cached_warnings, 2);
    assert_int_equal(chmod(path, 0700), 0);
    test_folder_remove(path);
    assert_int_equal(chmod(c->dir, 0500), 0);
    read_all_anew(c, 3);
    assert_int_equal(cached_warnings, 3);
    assert_int_equal(chmod(c->dir, 0700), 0);
    test_bind_by_permissions(false);
    cached other = *c;
    snprintf(other.dir, sizeof other.dir, "%.200s/x", c->data);
    read_all_anew(&other, 4);
    assert_int_equal(cached_warnings, 4);
}

/* Each write fails in turn, and all from one on: the bytes are right, and said once. */
static void no_write_has_to_work(void **state)
{
    static const int errors[] = {ENOSPC, EIO, EDQUOT};
    cached *c = *state;

    for (int k = 0; k < 6; k++) {
        bool all = false;
        for (int64_t n = 0; !all; n++) {
            fault_error = errors[k / 2];
            write_faults.for_good = k % 2;
            write_faults.left = n;
            read_all_anew(c, (uint64_t)n);
            all = !fault_struck(&write_faults);
            write_faults.left = FAULTS_NONE;
            assert_in_range(cached_warnings, 0, 1);
            cached_warnings = 0;
            if (n % 2)
                read_all_anew(c, 1);
            test_folder_remove(c->dir);
            assert_int_equal(mkdir(c->dir, 0700), 0);
            assert_true(n < 200);
        }
    }
}

/* So it is with reads of what is kept. */
static void no_read_of_the_cache_has_to_work(void **state)
{
    cached *c = *state;
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    fill(c);
    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    counted_add(ctx);
    for (int for_good = 0; for_good < 2; for_good++) {
        bool all = false;
        for (int64_t n = 0; !all; n++) {
            stk_store *store = NULL;
            fault_error = EIO;
            read_faults.for_good = for_good;
            read_faults.left = n;
            assert_ok(cached_try(c, ctx, "", "", &store, &err), &err);
            cached_read_all(c, store, 3);
            stk_store_close(&store);
            all = !fault_struck(&read_faults);
            read_faults.left = FAULTS_NONE;
            assert_true(n < 1000);
        }
    }
    stk_context_destroy(&ctx);
}

static void use_small_disk(cached *c)
{
    if (!test_mount_small(c->dir, "100k"))
        _exit(77);
    c->context = cached_context();
    for (uint64_t i = 0; i < 3; i++)
        read_all_anew(c, i);
    stk_context_destroy(&c->context);
    _exit(cached_warnings >= 1 && cached_warnings <= 3 ? 0 : 1);
}

static void a_full_disk_passes_through(void **state)
{
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0)
        use_small_disk(*state);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no file system may be mounted here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A state that says anything costs a count of the files and nothing else. */
static void no_state_is_believed(void **state)
{
    cached *c = *state;
    uint64_t seed = 4;
    char path[700];

    fill(c);
    snprintf(path, sizeof path, "%s/" STK__CACHE_OWN "/state", c->dir);
    for (int i = 0; i < 32; i++) {
        flip(path, i, (unsigned char)(1 + test_random(&seed) % 255));
        read_and_mend(c);
    }
    assert_int_equal(truncate(path, 3), 0);
    read_and_mend(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cached_set_up, cached_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_flipped_bit_is_read),
        TEST(no_moved_block_is_read),
        TEST(no_length_of_a_file_is_believed),
        TEST(what_was_planted_is_left_alone),
        TEST(folders_of_others_are_not_used),
        TEST(without_rights_it_passes_through),
        TEST(no_write_has_to_work),
        TEST(no_read_of_the_cache_has_to_work),
        TEST(a_full_disk_passes_through),
        TEST(no_state_is_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
