/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine does to a store: few descriptors, forks, a clock that jumps, stores opened and
 * closed with reads under way. The server is a process of its own. */
#include "support/matrix.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/http_server.h"

#define READS 64
#define SIZE  100000u

typedef struct world {
    pid_t server;
    char url[100];
    unsigned char bytes[SIZE];
} world;

static void serve(world *w, int to)
{
    http_server *server = http_server_start(&(http_server_options){.seed = 1});

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!server || !http_server_put(server, "/d/x", w->bytes, SIZE))
        _exit(1);
    http_server_shape(server, 2, 0, 0);
    const size_t length = strlen(http_server_url(server)) + 1;
    if (write(to, http_server_url(server), length) != (ssize_t)length)
        _exit(1);
    for (;;)
        pause();
}

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);
    uint64_t seed = 5;
    int ends[2];

    for (size_t i = 0; i < SIZE; i++)
        w->bytes[i] = (unsigned char)test_random(&seed);
    assert_int_equal(pipe(ends), 0);
    w->server = fork();
    assert_true(w->server >= 0);
    if (w->server == 0)
        serve(w, ends[1]);
    close(ends[1]);
    assert_true(read(ends[0], w->url, sizeof w->url) > 0);
    close(ends[0]);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;

    kill(w->server, SIGKILL);
    assert_int_equal(waitpid(w->server, NULL, 0), w->server);
    free(w);
    return 0;
}

static stk_store *open_store(const world *w, stk_context *context, const char *options)
{
    stk_store *store = NULL;
    char url[300];
    stk_error err;

    snprintf(url, sizeof url, "%s/d/%s", w->url, options);
    assert_ok(stk_store_open(context, url, &store, NULL, 0, &err), &err);
    return store;
}

typedef struct reading {
    stk_read read;
    atomic_int *ended;
    stk_status status;
    stk_error error;
    unsigned char got[1000];
} reading;

static void note_end(stk_read *read, stk_status status)
{
    reading *r = (reading *)read;

    r->status = status;
    atomic_fetch_add(r->ended, 1);
}

static void submit(stk_store *store, reading *r, atomic_int *ended, uint64_t offset)
{
    *r = (reading){.ended = ended,
                   .read = {.struct_size = sizeof(stk_read),
                            .key = "x",
                            .offset = offset,
                            .length = sizeof r->got,
                            .data = r->got,
                            .error = &r->error,
                            .done = note_end}};
    assert_int_equal(store->ops->submit(store, &r->read), STK_OK);
}

static void await(const atomic_int *ended, int wanted)
{
    while (atomic_load(ended) < wanted)
        stk__sleep_until(stk__now_ns() + 1000000, NULL);
}

/* Many reads at once, all of which bring what they should. */
static void read_many(const world *w, stk_store *store)
{
    reading *reads = calloc(READS, sizeof *reads);
    atomic_int ended = 0;

    for (int round = 0; round < 4; round++) {
        atomic_store(&ended, 0);
        for (int i = 0; i < READS; i++)
            submit(store, &reads[i], &ended, (uint64_t)(i * 1500 + round));
        await(&ended, READS);
        for (int i = 0; i < READS; i++) {
            assert_ok(reads[i].status, &reads[i].error);
            assert_memory_equal(reads[i].got, w->bytes + i * 1500 + round, sizeof reads[i].got);
        }
    }
    free(reads);
}

static int open_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* With room for a few connections alone a store does with those. */
static void test_few_descriptors(void **state)
{
    const world *w = *state;
    stk_context *context = test_context();
    stk_store *store = open_store(w, context, "?connections=64&retries=4");
    struct rlimit before, few;
    int kept[1024], n = 0, fd;

    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t)open_descriptors() + 40;
    setrlimit(RLIMIT_NOFILE, &few);
    /* Room for six, at the end. */
    while ((fd = dup(1)) >= 0)
        kept[n++] = fd;
    for (int i = 0; i < 6 && n > 0; i++)
        close(kept[--n]);
    read_many(w, store);
    while (n > 0)
        close(kept[--n]);
    setrlimit(RLIMIT_NOFILE, &before);
    stk_store_close(&store);
    stk_context_destroy(&context);
}

/* Stores that are closed with reads under way: each of those ends, and nothing stays open. */
static void test_many_stores(void **state)
{
    const world *w = *state;
    stk_context *context = test_context();
    reading reads[8];
    const int before = open_descriptors();

    for (int i = 0; i < 200; i++) {
        stk_store *store = open_store(w, context, i % 2 ? "?connections=2" : "");
        atomic_int ended = 0;
        for (int r = 0; r < 8; r++)
            submit(store, &reads[r], &ended, (uint64_t)r);
        if (i % 3 == 0)
            await(&ended, 4);
        stk_store_close(&store);
        assert_int_equal(atomic_load(&ended), 8);
        for (int r = 0; r < 8; r++)
            assert_true(reads[r].status == STK_ECANCELED ||
                        (reads[r].status == STK_OK &&
                         memcmp(reads[r].got, w->bytes + r, sizeof reads[r].got) == 0));
    }
    stk_context_destroy(&context);
    assert_int_equal(open_descriptors(), before);
}

/* Children that are forked while requests run: one that does nothing, one that closes what it
 * inherited, one that has a context of its own. The parent's go on. */
static void test_forks(void **state)
{
    const world *w = *state;
    stk_context *context = test_context();
    stk_store *store = open_store(w, context, "");
    reading *reads = calloc(READS, sizeof *reads);
    const int kinds = TEST_SANITIZED ? 2 : 3; /* TSan ends a child that starts threads */
    atomic_int ended = 0;
    stk_error err;

    for (int child = 0; child < 30; child++) {
        atomic_store(&ended, 0);
        for (int i = 0; i < READS; i++)
            submit(store, &reads[i], &ended, (uint64_t)i);
        await(&ended, child % 8);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            unsigned char got[100];
            int wrong = 0;
            alarm(60);
            if (child % kinds == 1) {
                wrong = stk_store_read(store, "x", 0, 100, got, &err) == STK_OK;
                stk_store_close(&store);
                stk_context_destroy(&context);
            } else if (child % kinds == 2) {
                stk_context *own = NULL;
                stk_store *other = NULL;
                char url[120];
                snprintf(url, sizeof url, "%s/d/", w->url);
                wrong = stk_context_create(NULL, &own, &err) != STK_OK ||
                        stk_store_open(own, url, &other, NULL, 0, &err) != STK_OK ||
                        stk_store_read(other, "x", 7, 100, got, &err) != STK_OK ||
                        memcmp(got, w->bytes + 7, 100) != 0;
                stk_store_close(&other);
                stk_context_destroy(&own);
            }
            _exit(wrong);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        await(&ended, READS);
        for (int i = 0; i < READS; i++) {
            assert_ok(reads[i].status, &reads[i].error);
            assert_memory_equal(reads[i].got, w->bytes + i, sizeof reads[i].got);
        }
    }
    free(reads);
    stk_store_close(&store);
    stk_context_destroy(&context);
}

/* ---- Signals ---- */

static void ignore(int number)
{
    (void)number;
}

static void *interrupt(void *argument)
{
    const atomic_bool *stop = argument;

    while (!atomic_load(stop)) {
        kill(getpid(), SIGUSR1);
        stk__sleep_until(stk__now_ns() + 200000, NULL);
    }
    return NULL;
}

/* Calls that signals interrupt are made again. */
static void test_signals(void **state)
{
    const world *w = *state;
    stk_context *context = test_context();
    stk_store *store = open_store(w, context, "?retries=0");
    struct sigaction act = {.sa_handler = ignore}, before;
    atomic_bool stop = false;
    pthread_t thread;

    sigaction(SIGUSR1, &act, &before);
    assert_int_equal(pthread_create(&thread, NULL, interrupt, &stop), 0);
    for (int i = 0; i < 10; i++)
        read_many(w, store);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    sigaction(SIGUSR1, &before, NULL);
    stk_store_close(&store);
    stk_context_destroy(&context);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_few_descriptors), TEST(test_many_stores),
                                       TEST(test_forks), TEST(test_signals)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
