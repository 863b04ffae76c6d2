/* SPDX-License-Identifier: Apache-2.0 */
/* What is read back after a file was written: a disk that gives other bytes, or fewer, is found. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "convert/target.h"
#include "tree.h"

#define BYTES 40000 /* some reads */

enum { SOUND, WRONG_LAST, SHORT, INTERRUPTED };
static atomic_int disk;
static atomic_uint reads;
static atomic_bool
    interrupted; /* is the next close of a regular file, which closes it all the same */

static ssize_t read_at(int fd, void *data, size_t size, off_t at)
{
    const int now = atomic_load(&disk);

    if (now == INTERRUPTED && atomic_fetch_add(&reads, 1) % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    if (now == SHORT && (at >= BYTES / 2 || size > BYTES / 2))
        size = at >= BYTES / 2 ? 0 : BYTES / 2;
    ssize_t n = syscall(SYS_pread64, fd, data, size, at);
    if (now == WRONG_LAST && n > 0 && at + n == BYTES)
        ((char *)data)[n - 1] ^= 1;
    return n;
}

/* They stand before the C library's own: the static library calls these. */
ssize_t pread(int fd, void *data, size_t size, off_t at);
ssize_t pread(int fd, void *data, size_t size, off_t at)
{
    return read_at(fd, data, size, at);
}

ssize_t __pread_chk(int fd, void *data, size_t size, off_t at, size_t room);
ssize_t __pread_chk(int fd, void *data, size_t size, off_t at, size_t room)
{
    assert_true(size <= room);
    return read_at(fd, data, size, at);
}

int close(int fd)
{
    struct stat st;
    const bool now =
        fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && atomic_exchange(&interrupted, false);
    const int result = (int)syscall(SYS_close, fd);

    if (now)
        errno = EINTR;
    return now ? -1 : result;
}

/* A signal between the bytes and the close loses nothing. */
static void test_interrupted_close(void **state)
{
    stk_context *ctx = test_context();
    stk__target *target;
    char folder[256];
    stk_error err;

    test_folder(folder);
    const stk_conversion_job job = tree_job(ctx, folder);
    assert_ok(stk__target_open(&job, "", &target, &err), &err);
    assert_ok(target->ops->begin(target, &err), &err);
    atomic_store(&interrupted, true);
    assert_ok(stk__target_write(target, 0, "whole", "bytes", 5, false, &err), &err);
    assert_false(atomic_load(&interrupted));
    assert_ok(stk__target_name(target, 0, "whole", &err), &err);
    assert_true(stk__target_has(target, "whole", 5));
    stk__target_close(&target);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_read_back(void **state)
{
    static const int faults[] = {SOUND, INTERRUPTED, WRONG_LAST, SHORT};
    stk_context *ctx = test_context();
    stk__target *target;
    char folder[256], data[BYTES];
    stk_error err;

    test_folder(folder);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7 + i / 256);
    const stk_conversion_job job = tree_job(ctx, folder);
    assert_ok(stk__target_open(&job, "", &target, &err), &err);
    assert_ok(target->ops->begin(target, &err), &err);
    for (uint64_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        atomic_store(&disk, faults[i]);
        stk_status status = stk__target_write(target, i, "bad", data, sizeof data, true, &err);
        if (faults[i] == WRONG_LAST || faults[i] == SHORT) {
            assert_fails(status, STK_EIO, &err, "read back");
            /* Nothing of it is left that could get a name. */
            assert_int_not_equal(stk__target_name(target, i, "bad", &err), STK_OK);
            assert_false(stk__target_has(target, "bad", 0));
            assert_false(stk__target_has(target, "bad", sizeof data));
        } else {
            assert_ok(status, &err);
        }
        /* Nobody asks the disk where nothing is checked. */
        assert_ok(stk__target_write(target, 10 + i, "bad", data, sizeof data, false, &err), &err);
    }
    atomic_store(&disk, SOUND);
    stk__target_close(&target);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read_back),
                                       cmocka_unit_test(test_interrupted_close)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
