/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"

#define NUM_FILES 100
#define BIG       3000000u

typedef struct fixture {
    stk_context *context;
    char folder[256];
    stk_store *store;
    unsigned char *bytes; /* of "big" */
} fixture;

static int set_up_engine(void **state, stk_io_engine engine)
{
    fixture *f = calloc(1, sizeof *f);
    stk_context_options options;
    stk_error err;
    uint64_t seed = 3;

    stk_context_options_init(&options);
    options.io_engine = engine;
    assert_ok(stk_context_create(&options, &f->context, &err), &err);
    test_folder(f->folder);
    f->bytes = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        f->bytes[i] = (unsigned char)test_random(&seed);
    test_write(f->folder, "big", f->bytes, BIG);
    assert_ok(stk_store_open(f->context, f->folder, &f->store, NULL, 0, &err), &err);
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return set_up_engine(state, STK_IO_AUTO);
}

static int set_up_threads(void **state)
{
    return set_up_engine(state, STK_IO_THREADS);
}

static int tear_down(void **state)
{
    fixture *f = *state;

    stk_store_close(&f->store);
    test_folder_remove(f->folder);
    stk_context_destroy(&f->context);
    free(f->bytes);
    free(f);
    return 0;
}

static const char *path_in(const fixture *f, const char *name, char path[400])
{
    snprintf(path, 400, "%s/%s", f->folder, name);
    return path;
}

typedef struct job {
    stk_read read;
    char key[32];
    unsigned char *data;
    sem_t *ended;
    atomic_int calls;
    stk_status status;
} job;

static void on_done(stk_read *read, stk_status status)
{
    job *j = (job *)read;
    sem_t *ended = j->ended;

    j->status = status;
    atomic_fetch_add(&j->calls, 1);
    sem_post(ended);
}

static void fill(job *j, const char *key, uint64_t offset, uint64_t length, sem_t *ended)
{
    memset(j, 0, sizeof *j);
    snprintf(j->key, sizeof j->key, "%s", key);
    j->data = malloc(length ? length : 1);
    j->ended = ended;
    j->read = (stk_read){.struct_size = sizeof j->read,
                         .key = j->key,
                         .offset = offset,
                         .length = length,
                         .data = j->data,
                         .done = on_done};
}

static void wait_for(sem_t *ended, size_t n)
{
    for (size_t i = 0; i < n; i++)
        while (sem_wait(ended) != 0)
            assert_int_equal(errno, EINTR);
}

/* From the page cache and, after dropping it, from the disk; small ones inline and large ones by
 * the engine. */
static void test_random_reads(void **state)
{
    fixture *f = *state;
    job *jobs = calloc(200, sizeof *jobs);
    uint64_t seed = 17;
    char path[400];
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (int cold = 0; cold < 2; cold++) {
        int fd = open(path_in(f, "big", path), O_RDONLY);
        fsync(fd);
        if (cold)
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
        for (int i = 0; i < 200; i++) {
            uint64_t offset = test_random(&seed) % BIG;
            uint64_t most = i % 4 ? 5000 : 400000;
            uint64_t length = test_random(&seed) % STK_MIN(most, BIG - offset);
            fill(&jobs[i], "big", offset, length, &ended);
            assert_int_equal(f->store->ops->submit(f->store, &jobs[i].read), STK_OK);
        }
        wait_for(&ended, 200);
        for (int i = 0; i < 200; i++) {
            assert_int_equal(jobs[i].status, STK_OK);
            assert_int_equal(jobs[i].calls, 1);
            assert_memory_equal(jobs[i].data, f->bytes + jobs[i].read.offset, jobs[i].read.length);
            free(jobs[i].data);
        }
    }
    free(jobs);
}

static void test_failures(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    char path[400], data[16];
    stk_error err;

    assert_fails(stk_store_read(f->store, "none", 0, 1, data, &err), STK_ENOENT, &err, "none");
    assert_int_equal(err.stage, STK_STAGE_STORE);
    assert_fails(stk_store_stat(f->store, "none", NULL, &info, &err), STK_ENOENT, &err, "none");
    assert_fails(stk_store_read(f->store, "big", BIG - 1, 2, data, &err), STK_ETRUNCATED, &err,
                 "holds 3000000 bytes");
    assert_int_equal(err.offset, BIG - 1);
    assert_string_equal(err.key, "big");
    assert_fails(stk_store_read(f->store, "big", UINT64_MAX - 1, 2, data, &err), STK_EINVAL, &err,
                 "big");
    assert_fails(stk_store_read(f->store, "", 0, 1, data, &err), STK_EINVAL, &err, "");
    test_write(f->folder, "sub/file", "x", 1);
    assert_fails(stk_store_read(f->store, "sub", 0, 1, data, &err), STK_EKIND, &err,
                 "Is a directory");
    assert_fails(stk_store_read(f->store, "big/x", 0, 1, data, &err), STK_ENOENT, &err, "big/x");
    assert_ok(stk_store_stat(f->store, "sub", NULL, &info, &err), &err);
    assert_true(info.is_folder);

    /* Nobody writes to the FIFO: opening it must not wait. */
    assert_int_equal(mkfifo(path_in(f, "fifo", path), 0666), 0);
    assert_fails(stk_store_read(f->store, "fifo", 0, 1, data, &err), STK_EKIND, &err,
                 "not a regular file");
    assert_fails(stk_store_stat(f->store, "fifo", NULL, &info, &err), STK_EKIND, &err,
                 "neither a file nor");
    assert_int_equal(symlink("/dev/null", path_in(f, "device", path)), 0);
    assert_fails(stk_store_read(f->store, "device", 0, 1, data, &err), STK_EACCES, &err,
                 "link 'device' leads out");
    assert_int_equal(symlink("loop", path_in(f, "loop", path)), 0);
    assert_fails(stk_store_read(f->store, "loop", 0, 1, data, &err), STK_ELIMIT, &err,
                 "symbolic links");
    assert_ok(stk_store_read(f->store, "big", 0, 4, data, &err), &err);
}

static void test_unreadable(void **state)
{
    fixture *f = *state;
    char path[400], data[4];
    stk_error err;

    test_write(f->folder, "secret", "x", 1);
    assert_int_equal(chmod(path_in(f, "secret", path), 0), 0);
    test_bind_by_permissions(true);
    assert_fails(stk_store_read(f->store, "secret", 0, 1, data, &err), STK_EACCES, &err,
                 "Permission denied");
    test_bind_by_permissions(false);
}

static void test_truncated_while_read(void **state)
{
    fixture *f = *state;
    char path[400];
    unsigned char *data = malloc(BIG);
    stk_error err;

    assert_ok(stk_store_read(f->store, "big", 0, BIG, data, &err), &err);
    assert_int_equal(truncate(path_in(f, "big", path), 5000), 0);
    assert_fails(stk_store_read(f->store, "big", 0, BIG, data, &err), STK_ETRUNCATED, &err,
                 "holds 5000 bytes");
    assert_fails(stk_store_read(f->store, "big", 4990, 20, data, &err), STK_ETRUNCATED, &err,
                 "'big'");
    assert_ok(stk_store_read(f->store, "big", 4990, 10, data, &err), &err);
    free(data);
}

static void test_identity(void **state)
{
    fixture *f = *state;
    stk_object_info first = {.struct_size = sizeof first}, second = {.struct_size = sizeof second},
                    third = {.struct_size = sizeof third};
    char path[400], other[400], data[8] = "";
    stk_error err;

    test_write(f->folder, "x", "12345", 5);
    assert_ok(stk_store_stat(f->store, "x", NULL, &first, &err), &err);
    assert_ok(stk_store_stat(f->store, "x", NULL, &second, &err), &err);
    assert_int_equal(first.size, 5);
    assert_int_equal(first.identity, second.identity);
    assert_true(first.mtime_ns > INT64_C(1000000000) * 1000000000);
    assert_ok(stk_store_read(f->store, "x", 0, 5, data, &err), &err);
    /* Another file under the same name: same size, and the same time to the nanosecond. */
    test_write(f->folder, "y", "abcde", 5);
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = first.mtime_ns / 1000000000, .tv_nsec = first.mtime_ns % 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path_in(f, "y", other), times, 0), 0);
    assert_int_equal(rename(other, path_in(f, "x", path)), 0);
    assert_ok(stk_store_stat(f->store, "x", NULL, &third, &err), &err);
    assert_int_equal(third.mtime_ns, first.mtime_ns);
    assert_true(third.identity != first.identity);
    assert_ok(stk_store_read(f->store, "x", 0, 5, data, &err), &err);
    assert_string_equal(data, "abcde");
}

static stk_status count_entries(void *user, const char *key, const stk_object_info *info)
{
    unsigned *counts = user;

    counts[info->is_folder ? 1 : 0]++;
    if (strcmp(key, "sub/deep") == 0)
        counts[2]++;
    if (strcmp(key, "sub/file") == 0 && info->size == 4)
        counts[3]++;
    return STK_OK;
}

static void test_list(void **state)
{
    fixture *f = *state;
    unsigned top[4] = {0}, sub[4] = {0};
    char path[400];
    stk_error err;

    test_write(f->folder, "sub/file", "four", 4);
    test_write(f->folder, "sub/deep/file", "x", 1);
    test_write(f->folder, ".stoker-put-0123", "unfinished", 10);
    assert_int_equal(symlink("nowhere", path_in(f, "dangling", path)), 0);
    assert_int_equal(mkfifo(path_in(f, "fifo", path), 0666), 0);
    assert_ok(stk_store_list(f->store, "", NULL, count_entries, top, &err), &err);
    assert_int_equal(top[0], 1);
    assert_int_equal(top[1], 1);
    assert_ok(stk_store_list(f->store, "sub/", NULL, count_entries, sub, &err), &err);
    assert_int_equal(sub[0], 1);
    assert_int_equal(sub[1], 1);
    assert_int_equal(sub[2], 1);
    assert_int_equal(sub[3], 1);
    assert_fails(stk_store_list(f->store, "none", NULL, count_entries, sub, &err), STK_ENOENT, &err,
                 "none");
    assert_fails(stk_store_list(f->store, "big", NULL, count_entries, sub, &err), STK_ENOENT, &err,
                 "big");
}

static unsigned files_in(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(folder);
    return n;
}

static void test_put(void **state)
{
    fixture *f = *state;
    char path[400], data[16] = "";
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;
    stk_put *put;

    assert_int_equal(files_in(f->folder), 1);
    assert_ok(f->store->ops->put(f->store, "new", &stk__store_call_none, &put, &err), &err);
    assert_ok(put->ops->write(put, "hel", 3, &err), &err);
    assert_fails(stk_store_stat(f->store, "new", NULL, &info, &err), STK_ENOENT, &err, "new");
    assert_ok(put->ops->write(put, "lo", 2, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
    assert_ok(stk_store_read(f->store, "new", 0, 5, data, &err), &err);
    assert_string_equal(data, "hello");
    assert_int_equal(files_in(f->folder), 2);
    /* Abandoned: the old object stays and nothing else is left. */
    assert_ok(f->store->ops->put(f->store, "new", &stk__store_call_none, &put, &err), &err);
    assert_ok(put->ops->write(put, "x", 1, &err), &err);
    put->ops->abandon(put);
    assert_int_equal(files_in(f->folder), 2);
    assert_ok(stk_store_stat(f->store, "new", NULL, &info, &err), &err);
    assert_int_equal(info.size, 5);
    /* Committed: it is replaced, also for reads that had the old one open. */
    assert_ok(f->store->ops->put(f->store, "new", &stk__store_call_none, &put, &err), &err);
    assert_ok(put->ops->write(put, "JELLO", 5, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
    assert_ok(stk_store_read(f->store, "new", 0, 5, data, &err), &err);
    assert_string_equal(data, "JELLO");
    /* Folders are made; a folder in the way fails and leaves nothing. */
    assert_ok(f->store->ops->put(f->store, "a/b/c", &stk__store_call_none, &put, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
    assert_ok(stk_store_stat(f->store, "a/b/c", NULL, &info, &err), &err);
    assert_int_equal(info.size, 0);
    assert_ok(f->store->ops->put(f->store, "a/b", &stk__store_call_none, &put, &err), &err);
    assert_fails(put->ops->commit(put, &err), STK_EKIND, &err, "a/b");
    assert_int_equal(files_in(path_in(f, "a", path)), 1);
    assert_fails(f->store->ops->put(f->store, "big/x", &stk__store_call_none, &put, &err),
                 STK_ENOENT, &err, "big/x");
    assert_fails(f->store->ops->put(f->store, "../x", &stk__store_call_none, &put, &err),
                 STK_EINVAL, &err, "..");
    assert_fails(f->store->ops->put(f->store, "a/", &stk__store_call_none, &put, &err), STK_EINVAL,
                 &err, "names no object");
    assert_fails(f->store->ops->put(f->store, "", &stk__store_call_none, &put, &err), STK_EINVAL,
                 &err, "names no object");
    assert_ok(f->store->ops->remove(f->store, "a/b/c", &stk__store_call_none, &err), &err);
    assert_fails(f->store->ops->remove(f->store, "a/b/c", &stk__store_call_none, &err), STK_ENOENT,
                 &err, "a/b/c");
    assert_fails(stk_store_read(f->store, "a/b/c", 0, 0, data, &err), STK_ENOENT, &err, "a/b/c");
}

/* A write that fails half way, by the limit of file sizes: commit refuses and the old object stays.
 */
static void test_put_without_space(void **state)
{
    fixture *f = *state;
    char *megabyte = calloc(1, 1 << 20);
    int status = 0;

    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit limit = {100000, 100000};
        stk_context *context = NULL;
        stk_store *store = NULL;
        stk_put *put;
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
            _exit(1);
        if (stk_context_create(NULL, &context, NULL) ||
            stk_store_open(context, f->folder, &store, NULL, 0, NULL))
            _exit(2);
        if (store->ops->put(store, "big", &stk__store_call_none, &put, NULL))
            _exit(3);
        if (put->ops->write(put, megabyte, 1 << 20, NULL) == STK_OK)
            _exit(4);
        if (put->ops->commit(put, NULL) == STK_OK)
            _exit(5);
        _exit(files_in(f->folder) == 1 ? 0 : 6);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    free(megabyte);
    megabyte = malloc(BIG);
    assert_int_equal(stk_store_read(f->store, "big", 0, BIG, megabyte, NULL), STK_OK);
    assert_memory_equal(megabyte, f->bytes, BIG);
    free(megabyte);
}

static void test_map(void **state)
{
    fixture *f = *state;
    const size_t sizes[] = {0, 1, 4032, 4033, 4095, 4096, 4097};
    const void *data = NULL, *again = NULL;
    stk_store *mapped = NULL;
    uint64_t size = 0;
    char url[400], name[16];
    stk_error err;

    assert_int_equal(f->store->ops->map(f->store, "big", &data, &size), STK_ENOTSUP);
    snprintf(url, sizeof url, "file://%s?mmap=true", f->folder);
    assert_ok(stk_store_open(f->context, url, &mapped, NULL, 0, &err), &err);
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        unsigned sum = 0;
        snprintf(name, sizeof name, "s%zu", sizes[i]);
        test_write(f->folder, name, f->bytes, sizes[i]);
        assert_int_equal(mapped->ops->map(mapped, name, &data, &size), STK_OK);
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(data, f->bytes, size);
        for (size_t k = 0; k < 64; k++) /* readable, and zero, beyond the end */
            sum += ((const unsigned char *)data)[size + k];
        assert_int_equal(sum, 0);
        assert_int_equal(mapped->ops->map(mapped, name, &again, &size), STK_OK);
        assert_ptr_equal(data, again);
    }
    assert_int_equal(mapped->ops->map(mapped, "none", &data, &size), STK_ENOENT);
    assert_int_equal(mapped->ops->map(mapped, "../x", &data, &size), STK_EINVAL);
    stk_store_close(&mapped);
}

static void make_files(const fixture *f)
{
    char name[32], text[32];

    for (int i = 0; i < NUM_FILES; i++) {
        snprintf(name, sizeof name, "f%03d", i);
        snprintf(text, sizeof text, "content-%03d", i);
        test_write(f->folder, name, text, 11);
    }
}

/* Reads of many files that all go through the engine at once, more files than may be open, some of
 * them canceled. */
static void test_many_files_in_flight(void **state)
{
    fixture *f = *state;
    enum { N = 400 };
    unsigned char *content = malloc(100000);
    job *jobs = calloc(N, sizeof *jobs);
    char name[32];
    sem_t ended;

    sem_init(&ended, 0, 0);
    memcpy(content, f->bytes, 100000);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "m%03d", i);
        content[0] = (unsigned char)i;
        content[99999] = (unsigned char)(i >> 8);
        test_write(f->folder, name, content, 100000);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            snprintf(name, sizeof name, "m%03d", i);
            fill(&jobs[i], name, 0, 100000, &ended);
            if (i % 50 == 7)
                jobs[i].read.deadline_ns = stk__now_ns() + UINT64_C(60000000000);
            assert_int_equal(f->store->ops->submit(f->store, &jobs[i].read), STK_OK);
            if (round && i % 5 == 0)
                f->store->ops->cancel(f->store, &jobs[i / 2].read);
            if (round == 2 && i % 7 == 0)
                f->store->ops->cancel(f->store, &jobs[i].read);
        }
        wait_for(&ended, N);
        for (int i = 0; i < N; i++) {
            assert_int_equal(jobs[i].calls, 1);
            assert_true(jobs[i].status == STK_OK || (round && jobs[i].status == STK_ECANCELED));
            if (jobs[i].status == STK_OK) {
                assert_int_equal(jobs[i].data[0], (unsigned char)i);
                assert_int_equal(jobs[i].data[99999], (unsigned char)(i >> 8));
                assert_memory_equal(jobs[i].data + 1, f->bytes + 1, 99998);
            }
            free(jobs[i].data);
        }
    }
    free(jobs);
    free(content);
}

/* Closing with reads under way: each ends exactly once. */
static void test_close_with_reads_in_flight(void **state)
{
    fixture *f = *state;
    job jobs[30];
    stk_error err;
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (int round = 0; round < 10; round++) {
        stk_store *store = NULL;
        assert_ok(stk_store_open(f->context, f->folder, &store, NULL, 0, &err), &err);
        for (int i = 0; i < 30; i++) {
            fill(&jobs[i], "big", (uint64_t)i * 1000, 1000000, &ended);
            assert_int_equal(store->ops->submit(store, &jobs[i].read), STK_OK);
        }
        stk_store_close(&store);
        for (int i = 0; i < 30; i++) {
            assert_int_equal(jobs[i].calls, 1);
            assert_true(jobs[i].status == STK_OK || jobs[i].status == STK_ECANCELED);
            free(jobs[i].data);
        }
    }
}

typedef struct reader {
    pthread_t thread;
    fixture *f;
    uint64_t seed;
    unsigned wrong;
} reader;

static void *read_often(void *argument)
{
    reader *r = argument;
    char name[32], data[16];

    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "f%03d", (int)(test_random(&r->seed) % NUM_FILES));
        if (stk_store_read(r->f->store, name, 8, 3, data, NULL) != STK_OK ||
            memcmp(data, name + 1, 3) != 0)
            r->wrong++;
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    fixture *f = *state;
    reader readers[4];

    make_files(f);
    for (int i = 0; i < 4; i++) {
        readers[i] = (reader){.f = f, .seed = 5u + (unsigned)i};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_often, &readers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(readers[i].wrong, 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define BOTH(name)                                                                                 \
    {#name, name, set_up, tear_down, NULL},                                                        \
    {                                                                                              \
        "threads: " #name, name, set_up_threads, tear_down, NULL                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_random_reads),
        TEST(test_failures),
        TEST(test_unreadable),
        BOTH(test_truncated_while_read),
        TEST(test_identity),
        TEST(test_list),
        TEST(test_put),
        TEST(test_put_without_space),
        TEST(test_map),
        BOTH(test_many_files_in_flight),
        BOTH(test_close_with_reads_in_flight),
        TEST(test_many_threads),
    };

    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
