/* SPDX-License-Identifier: Apache-2.0 */
/* The file store where there are more files than descriptors. */
#include "support/support.h"

#include <dirent.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"

#define NUM_FILES 100
#define LARGE     70000u /* beyond what is read within submit */
#define HELD      16     /* as many as the pool has threads */
#define BUSY      24     /* reads of different files while the engine is held */

typedef struct fixture {
    stk_context *context;
    char folder[256];
} fixture;

typedef struct job {
    stk_read read;
    char key[32];
    unsigned char *data;
    sem_t *ended, *hold; /* posted by done(); waited for by it (NULL: not) */
    atomic_int calls;
    stk_status status;
} job;

static void on_done(stk_read *read, stk_status status)
{
    job *j = (job *)read;
    sem_t *ended = j->ended, *hold = j->hold;

    j->status = status;
    atomic_fetch_add(&j->calls, 1);
    sem_post(ended);
    if (hold)
        while (sem_wait(hold) != 0)
            ;
}

static void fill(job *j, int file, uint64_t length, sem_t *ended)
{
    memset(j, 0, sizeof *j);
    snprintf(j->key, sizeof j->key, "f%03d", file);
    j->data = malloc(length);
    j->ended = ended;
    j->read = (stk_read){.struct_size = sizeof j->read,
                         .key = j->key,
                         .offset = 8,
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

/* File N holds "content-N" and zeros. */
static int set_up_engine(void **state, stk_io_engine engine)
{
    static char content[LARGE + 8];
    fixture *f = calloc(1, sizeof *f);
    stk_context_options options;
    char name[32], text[32];
    stk_error err;

    stk_context_options_init(&options);
    options.io_engine = engine;
    assert_ok(stk_context_create(&options, &f->context, &err), &err);
    test_folder(f->folder);
    for (int i = 0; i < NUM_FILES; i++) {
        snprintf(name, sizeof name, "f%03d", i);
        snprintf(text, sizeof text, "content-%03d", i);
        memcpy(content, text, 11);
        test_write(f->folder, name, content, sizeof content);
    }
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

    test_folder_remove(f->folder);
    stk_context_destroy(&f->context);
    free(f);
    return 0;
}

static bool is_right(const job *j)
{
    return j->status == STK_OK && j->calls == 1 && memcmp(j->data, j->key + 1, 3) == 0;
}

static unsigned files_in(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);

    if (!folder)
        return 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

/* All files at once, in a child that may have few descriptors: 0 when every read was right. */
static int read_all_files(const fixture *f, rlim_t before_open, rlim_t after_open)
{
    struct rlimit limit = {before_open, 4096};
    stk_context *context = NULL;
    stk_store *store = NULL;
    job *jobs = calloc(2 * NUM_FILES, sizeof *jobs);
    sem_t ended;

    sem_init(&ended, 0, 0);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 77;
    if (stk_context_create(NULL, &context, NULL) ||
        stk_store_open(context, f->folder, &store, NULL, 0, NULL))
        return 1;
    limit.rlim_cur = after_open;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 77;
    for (int i = 0; i < 2 * NUM_FILES; i++) {
        /* Every other one is too large to be read within submit: those hold descriptors a while. */
        fill(&jobs[i], i % NUM_FILES, i % 2 ? 3 : LARGE, &ended);
        if (store->ops->submit(store, &jobs[i].read) != STK_OK)
            return 2;
    }
    for (int i = 0; i < 2 * NUM_FILES; i++)
        if (sem_wait(&ended) != 0)
            return 3;
    for (int i = 0; i < 2 * NUM_FILES; i++) {
        if (!is_right(&jobs[i]))
            return 4;
        free(jobs[i].data);
    }
    if (files_in(f->folder) != NUM_FILES) /* a descriptor can still be had */
        return 5;
    stk_store_close(&store);
    stk_context_destroy(&context);
    free(jobs);
    return 0;
}

static void in_child(const fixture *f, rlim_t before_open, rlim_t after_open)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        exit(read_all_files(f, before_open, after_open));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: the limit of descriptors cannot be set\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_few_descriptors(void **state)
{
    fixture *f = *state;

    in_child(f, 32, 32);   /* known when the store is opened */
    in_child(f, 1024, 20); /* found out by EMFILE */
}

/*
 * A store that may open 8 files, with its engine held and BUSY reads of different files behind: 7
 * or 8 of them have a descriptor and the rest waits for one.
 */
static stk_store *open_held(fixture *f, job *held, job *busy, sem_t *ended, sem_t *hold)
{
    struct rlimit before, few;
    stk_store *store = NULL;
    stk_error err;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){32, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    stk_status status = stk_store_open(f->context, f->folder, &store, NULL, 0, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_ok(status, &err);
    for (int i = 0; i < HELD; i++) {
        fill(&held[i], 0, LARGE, ended);
        held[i].hold = hold;
        assert_int_equal(store->ops->submit(store, &held[i].read), STK_OK);
    }
    /* One thread reaps for io_uring; of the pool every thread is held. */
    wait_for(ended, stk__context_io_engine(f->context) == STK_IO_THREADS ? HELD : 1);
    for (int i = 0; i < BUSY; i++) {
        fill(&busy[i], 1 + i, LARGE, ended);
        if (i == 15)
            busy[i].read.deadline_ns = 1; /* past, but found out only when its turn comes */
        assert_int_equal(store->ops->submit(store, &busy[i].read), STK_OK);
    }
    return store;
}

static void let_go(sem_t *hold)
{
    for (int i = 0; i < HELD; i++)
        sem_post(hold);
}

static void test_cancel_of_waiting(void **state)
{
    fixture *f = *state;
    const int canceled[] = {23, 12, 13, 10, 18};
    job held[HELD], busy[BUSY];
    sem_t ended, hold;

    sem_init(&ended, 0, 0);
    sem_init(&hold, 0, 0);
    stk_store *store = open_held(f, held, busy, &ended, &hold);
    for (size_t i = 0; i < STK_COUNT(canceled); i++) {
        store->ops->cancel(store, &busy[canceled[i]].read);
        assert_int_equal(busy[canceled[i]].calls, 1);
        assert_int_equal(busy[canceled[i]].status, STK_ECANCELED);
    }
    store->ops->cancel(store, &busy[23].read);
    assert_int_equal(busy[23].calls, 1);
    let_go(&hold);
    for (int i = 0; i < BUSY; i++)
        while (atomic_load(&busy[i].calls) == 0)
            wait_for(&ended, 1);
    stk_store_close(&store);
    for (int i = 0; i < HELD; i++) {
        assert_int_equal(held[i].calls, 1);
        free(held[i].data);
    }
    for (int i = 0; i < BUSY; i++) {
        bool was_canceled = i == 23 || i == 12 || i == 13 || i == 10 || i == 18;
        assert_int_equal(busy[i].calls, 1);
        if (i == 15)
            assert_int_equal(busy[i].status, STK_ETIMEDOUT);
        else
            assert_true(was_canceled || is_right(&busy[i]));
        free(busy[i].data);
    }
}

typedef struct closer {
    pthread_t thread;
    stk_store *store;
} closer;

static void *close_store(void *argument)
{
    closer *c = argument;

    stk_store_close(&c->store);
    return NULL;
}

static void test_close_with_waiting(void **state)
{
    fixture *f = *state;
    job held[HELD], busy[BUSY];
    sem_t ended, hold;
    closer c;

    sem_init(&ended, 0, 0);
    sem_init(&hold, 0, 0);
    c.store = open_held(f, held, busy, &ended, &hold);
    assert_int_equal(pthread_create(&c.thread, NULL, close_store, &c), 0);
    /* What waits ends although the engine is stuck. */
    for (int i = 8; i < BUSY; i++)
        while (atomic_load(&busy[i].calls) == 0)
            wait_for(&ended, 1);
    let_go(&hold);
    pthread_join(c.thread, NULL);
    for (int i = 0; i < HELD; i++) {
        assert_int_equal(held[i].calls, 1);
        free(held[i].data);
    }
    for (int i = 0; i < BUSY; i++) {
        assert_int_equal(busy[i].calls, 1);
        assert_true(i < 8 || busy[i].status == STK_ECANCELED);
        free(busy[i].data);
    }
}

#define BOTH(name)                                                                                 \
    {#name, name, set_up, tear_down, NULL},                                                        \
    {                                                                                              \
        "threads: " #name, name, set_up_threads, tear_down, NULL                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_few_descriptors, set_up, tear_down),
        BOTH(test_cancel_of_waiting),
        BOTH(test_close_with_waiting),
    };

    return cmocka_run_group_tests_name("file_descriptors", tests, NULL, NULL);
}
