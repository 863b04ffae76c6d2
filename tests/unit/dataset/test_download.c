/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads from mirrors of made-up files: what is there is not fetched, an interruption at every
 * read, two at a time, wrong bytes, a full disk.
 */
#include "downloads.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/wait.h>

/* ---- Fetching ---------------------------------------------------------------------------------
 */

/* From where it is published and from mirrors of other stores; what is there is not asked for. */
static void test_fetch(void **state)
{
    char path[400];
    stk_error err;
    room r;

    room_open(&r);
    assert_ok(fetch(&r, NULL, &err), &err);
    assert_whole(&r);
    assert_int_equal(mirror.reads, PIECES);
    assert_ok(fetch(&r, "", &err), &err);
    assert_int_equal(mirror.reads, PIECES);
    /* Whatever it holds. */
    path_of(&r, "f", path);
    assert_int_equal(truncate(path, 3), 0);
    assert_ok(fetch(&r, NULL, &err), &err);
    assert_int_equal(size_of(&r, "f"), 3);
    assert_int_equal(mirror.reads, PIECES);

    room_clear(&r);
    assert_ok(fetch(&r, "mem://published", &err), &err);
    assert_whole(&r);
    assert_int_equal(mirror.reads, 0);

    char from[400], also[400];
    snprintf(from, sizeof from, "%s/below/raw", r.url);
    snprintf(also, sizeof also, "file://%s/below/raw/", r.url);
    char folder[256];
    memcpy(folder, r.folder, sizeof folder);
    test_folder(r.folder);
    snprintf(r.url, sizeof r.url, "file://%s/a", r.folder);
    assert_ok(fetch(&r, from, &err), &err);
    snprintf(r.url, sizeof r.url, "slow+file://%s/b?latency=0", r.folder);
    assert_ok(fetch(&r, also, &err), &err);
    snprintf(r.url, sizeof r.url, "%s/a", r.folder);
    assert_whole(&r);
    snprintf(r.url, sizeof r.url, "%s/b", r.folder);
    assert_whole(&r);
    test_folder_remove(folder);
    room_close(&r);
}

/* After an interruption at each read it goes on from there, and no byte is fetched twice. */
static void test_resume(void **state)
{
    stk_error err;
    room r;

    room_open(&r);
    for (uint32_t n = 0; n < PIECES; n++) {
        room_clear(&r);
        mirror.fail_at = n;
        assert_fails(fetch(&r, NULL, &err), STK_EACCES, &err, "cannot download");
        assert_non_null(strstr(err.text, "by hand"));
        assert_int_equal(strstr(err.text, "goes on from there") != NULL, n > 0);
        assert_int_equal(size_of(&r, "f"), -1);
        assert_int_equal(size_of(&r, "f.part"), n * STK__DOWNLOAD_ROOM);
        mirror_reset();
        assert_ok(fetch(&r, NULL, &err), &err);
        assert_whole(&r);
        assert_int_equal(mirror.reads, PIECES - n);
        assert_int_equal(mirror.least, n * STK__DOWNLOAD_ROOM);
        assert_int_equal(mirror.bytes, BYTES - n * STK__DOWNLOAD_ROOM);
    }
    /* Also of a part that ends anywhere. */
    room_clear(&r);
    mirror.fail_at = 2;
    assert_fails(fetch(&r, NULL, &err), STK_EACCES, &err, "");
    char path[400];
    path_of(&r, "f.part", path);
    assert_int_equal(truncate(path, 1234567), 0);
    mirror_reset();
    assert_ok(fetch(&r, NULL, &err), &err);
    assert_whole(&r);
    assert_int_equal(mirror.least, 1234567);
    room_close(&r);
}

/* A process that is killed at any read leaves what the next one goes on with. */
static void test_killed(void **state)
{
    stk_error err;
    room r;

    room_open(&r);
    for (uint32_t n = 0; n < PIECES; n++) {
        room_clear(&r);
        pid_t child = fork();
        if (child == 0) {
            room own;
            char url[300];
            memcpy(url, r.url, sizeof url);
            room_open(&own);
            memcpy(own.url, url, sizeof url);
            test_folder_remove(own.folder);
            mirror.fail_at = n;
            mirror.kill = true;
            (void)!fetch(&own, NULL, &err);
            _exit(1);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(size_of(&r, "f.part"), n * STK__DOWNLOAD_ROOM);
        assert_ok(fetch(&r, NULL, &err), &err);
        assert_whole(&r);
        assert_int_equal(mirror.bytes, BYTES - n * STK__DOWNLOAD_ROOM);
    }
    room_close(&r);
}

/* What is not what is published leaves nothing, also where it was gone on with; then the next place
 * is asked. */
static void test_wrong(void **state)
{
    char path[400], wanted[128];
    stk_error err;
    room r;

    room_open(&r);
    r.data[BYTES / 2] ^= 1;
    put(&r, "other/f", r.data, BYTES);
    sum_of(r.data, BYTES, wanted);
    assert_fails(fetch(&r, "mem://published/other", &err), STK_ECHECKSUM, &err, r.sum);
    assert_non_null(strstr(err.text, wanted));
    assert_non_null(strstr(err.text, "have been removed"));
    assert_int_equal(size_of(&r, "f"), -1);
    assert_int_equal(size_of(&r, "f.part"), -1);
    r.data[BYTES / 2] ^= 1;

    mirror.fail_at = 1;
    assert_fails(fetch(&r, NULL, &err), STK_EACCES, &err, "");
    path_of(&r, "f.part", path);
    FILE *f = fopen(path, "r+b");
    assert_true(f && fputc(r.data[0] ^ 1, f) != EOF && fclose(f) == 0);
    mirror_reset();
    assert_fails(fetch(&r, NULL, &err), STK_ECHECKSUM, &err, "download it again");
    assert_int_equal(size_of(&r, "f.part"), -1);
    assert_ok(fetch(&r, NULL, &err), &err);
    assert_whole(&r);

    room_clear(&r);
    r.of.mirrors[0] = "mem://published/other";
    r.of.mirrors[1] = "shaky://published";
    assert_ok(fetch(&r, NULL, &err), &err);
    assert_whole(&r);
    room_close(&r);
}

/* A part that is longer than the file is of another one. */
static void test_longer_part(void **state)
{
    char path[400];
    stk_error err;
    room r;

    room_open(&r);
    mirror.fail_at = 1;
    assert_fails(fetch(&r, NULL, &err), STK_EACCES, &err, "");
    path_of(&r, "f.part", path);
    assert_int_equal(truncate(path, BYTES + 1), 0);
    mirror_reset();
    assert_ok(fetch(&r, NULL, &err), &err);
    assert_whole(&r);
    assert_int_equal(mirror.least, 0);
    room_close(&r);
}

/* Places that do not answer: the second is tried and goes on; of two failures the first is told,
 * with what to do. */
static void test_places(void **state)
{
    stk_error err;
    room r;

    room_open(&r);
    r.of.mirrors[0] = "ftp://example.org/data/";
    assert_fails(fetch(&r, NULL, &err), STK_ENOTSUP, &err, "made_up: cannot download");
    assert_non_null(strstr(err.text, "ftp://example.org/data/f"));
    assert_non_null(strstr(err.text, "/new/below/raw by hand"));
    assert_non_null(strstr(err.text, "mirror="));
    r.of.mirrors[1] = "mem://published/none";
    assert_fails(fetch(&r, NULL, &err), STK_ENOTSUP, &err, "ftp://example.org/data/f");
    r.of.mirrors[1] = "mem://published";
    assert_ok(fetch(&r, NULL, &err), &err);
    assert_whole(&r);

    room_clear(&r);
    r.of.mirrors[0] = "shaky://published";
    mirror.fail_at = 2;
    assert_ok(fetch(&r, NULL, &err), &err);
    assert_whole(&r);

    room_clear(&r);
    assert_fails(fetch(&r, "mem://published/none", &err), STK_ENOENT, &err, "mem://published/none");
    put(&r, "empty/f", "", 0);
    assert_fails(fetch(&r, "mem://published/empty", &err), STK_EKIND, &err, "has not between 1");
    put(&r, "folder/f/g", "x", 1);
    assert_fails(fetch(&r, "mem://published/folder", &err), STK_ENOENT, &err, "or is a folder");
    assert_int_equal(size_of(&r, "f.part"), -1);
    room_close(&r);
}

/* ---- The disk ---------------------------------------------------------------------------------
 */

/* A full disk says so, before anything is fetched where that can be known; what was fetched is gone
 * on with. */
static void test_full_disk(void **state)
{
    const stk__file_calls calls = disk_calls();
    stk__download d = {.calls = &calls};
    stk_error err;
    room r;

    room_open(&r);
    r.of.mirrors[1] = r.of.mirrors[0];
    disk.allocate = ENOSPC;
    assert_fails(fetch_with(&r, &d, &err), STK_ENOSPC, &err, "free some space");
    assert_int_equal(mirror.reads, 0);
    assert_int_equal(size_of(&r, "f.part"), 0);
    disk.allocate = EOPNOTSUPP;
    disk.room = STK__DOWNLOAD_ROOM + 777;
    assert_fails(fetch_with(&r, &d, &err), STK_ENOSPC, &err, "below/raw/f");
    assert_int_equal(size_of(&r, "f.part"), STK__DOWNLOAD_ROOM + 777);
    /* It was the disk, and no other place can help. */
    assert_int_equal(mirror.reads, 2);
    disk.room = UINT64_MAX;
    mirror_reset();
    assert_ok(fetch_with(&r, &d, &err), &err);
    assert_whole(&r);
    assert_int_equal(mirror.least, STK__DOWNLOAD_ROOM + 777);
    room_close(&r);
}

/* What may not be on the disk gets no name, and is not gone on with. */
static void test_not_durable(void **state)
{
    const stk__file_calls calls = disk_calls();
    stk__download d = {.calls = &calls};
    stk_error err;
    room r;

    room_open(&r);
    /* Its folders are there already. */
    mirror.fail_at = 0;
    assert_fails(fetch_with(&r, &d, &err), STK_EACCES, &err, "");
    mirror_reset();
    for (int which = 0; which < 2; which++) {
        disk.fsync = which ? 0 : EIO;
        disk.rename = which ? EIO : 0;
        assert_fails(fetch_with(&r, &d, &err), STK_EIO, &err, "below/raw/f");
        assert_int_equal(size_of(&r, "f"), -1);
        assert_int_equal(size_of(&r, "f.part"), -1);
    }
    disk.fsync = disk.rename = 0;
    assert_ok(fetch_with(&r, &d, &err), &err);
    assert_whole(&r);
    room_close(&r);
}

/* What a part may be instead of a file, put there by somebody else: none is written through. */
static void test_strange_parts(void **state)
{
    char path[400], target[300];
    stk_error err;
    room r;

    room_open(&r);
    mirror.fail_at = 0;
    assert_fails(fetch(&r, NULL, &err), STK_EACCES, &err, "");
    mirror_reset();
    path_of(&r, "f.part", path);
    snprintf(target, sizeof target, "%s/target", r.folder);
    test_write(r.folder, "target", "old", 3);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_int_not_equal(fetch(&r, NULL, &err), STK_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_not_equal(fetch(&r, NULL, &err), STK_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_not_equal(fetch(&r, NULL, &err), STK_OK);
    assert_int_equal(rmdir(path), 0);
    struct stat st;
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_size, 3);
    assert_ok(fetch(&r, NULL, &err), &err);
    assert_whole(&r);
    room_close(&r);
}

/* ---- Two at a time ----------------------------------------------------------------------------
 */

enum { THREADS = 4 };

static void *fetch_thread(void *argument)
{
    stk_error err;

    return (void *)(intptr_t)fetch(argument, NULL, &err);
}

/* Of many one fetches, whoever comes first, and all of them have it. */
static void test_together(void **state)
{
    pthread_t threads[THREADS];
    room r;

    room_open(&r);
    for (int round = 0; round < 5; round++) {
        room_clear(&r);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, fetch_thread, &r), 0);
        for (int i = 0; i < THREADS; i++) {
            void *status = NULL;
            assert_int_equal(pthread_join(threads[i], &status), 0);
            assert_int_equal((intptr_t)status, STK_OK);
        }
        assert_whole(&r);
        assert_int_equal(mirror.bytes, BYTES);
    }
    room_close(&r);
}

/* A part that another process holds is left alone; one that does nothing is named. */
static void test_held(void **state)
{
    char path[400];
    stk__download d = {.patience_ns = 1};
    stk_error err;
    room r;

    room_open(&r);
    mirror.fail_at = 1;
    assert_fails(fetch(&r, NULL, &err), STK_EACCES, &err, "");
    mirror_reset();
    path_of(&r, "f.part", path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_fails(fetch_with(&r, &d, &err), STK_EBUSY, &err, "f.part' and has done nothing");
    assert_int_equal(mirror.reads, 0);
    assert_int_equal(size_of(&r, "f.part"), STK__DOWNLOAD_ROOM);
    close(fd);
    assert_ok(fetch_with(&r, &d, &err), &err);
    assert_whole(&r);
    room_close(&r);
}

/* Whoever does something is waited for, however long it takes. */
static void test_patience(void **state)
{
    uint64_t seen = 0, since = 0;
    stk_error err;
    room r;

    room_open(&r);
    stk__download d = {.context = r.ctx, .of = &r.of, .path = r.url, .patience_ns = 1};
    for (uint64_t now = 0; now < 50; now++) {
        assert_ok(stk__download_wait(&d, "f", now, &seen, &since, &err), &err);
        assert_int_equal(seen, now);
    }
    assert_fails(stk__download_wait(&d, "f", 49, &seen, &since, &err), STK_EBUSY, &err, "/f'");
    room_close(&r);
}

/* What came there meanwhile is not replaced. */
static void test_no_replace(void **state)
{
    stk__durable part;
    uint64_t length;
    stk_error err;
    room r;

    room_open(&r);
    stk__download d = {.context = r.ctx, .of = &r.of};
    assert_ok(stk__download_open(&d, r.url, &err), &err);
    assert_int_equal(stk__durable_resume(&part, NULL, d.folder, "f.part", "f", 5, &length), 0);
    assert_int_equal(length, 0);
    assert_int_equal(stk__durable_write(&part, "other", 5), 0);
    char folder[400];
    path_of(&r, "", folder);
    test_write(folder, "f", "by hand", 7);
    assert_int_equal(stk__durable_commit(&part, "f"), EEXIST);
    assert_int_equal(size_of(&r, "f"), 7);
    assert_int_equal(size_of(&r, "f.part"), -1);
    assert_int_equal(stk__durable_resume(&part, NULL, d.folder, "f.part", "f", 5, &length), EEXIST);
    stk__download_close(&d);
    room_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fetch),         cmocka_unit_test(test_resume),
        cmocka_unit_test(test_killed),        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_longer_part),   cmocka_unit_test(test_places),
        cmocka_unit_test(test_full_disk),     cmocka_unit_test(test_not_durable),
        cmocka_unit_test(test_strange_parts), cmocka_unit_test(test_together),
        cmocka_unit_test(test_held),          cmocka_unit_test(test_patience),
        cmocka_unit_test(test_no_replace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
