/* SPDX-License-Identifier: Apache-2.0 */
/* A cache that several processes use, and that some of them do not live to close. */
#include "support/cached.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLS 20 /* STOKER_TEST_KILLS: more */

/* What a child does with a cache of its own, in a context of its own; then it exits. */
static pid_t start(const cached *c, const char *wrapper, const char *options,
                   void (*use)(const cached *c, stk_store *store, uint64_t seed), uint64_t seed)
{
    const pid_t child = fork();
    stk_store *store = NULL;
    stk_error err;

    assert_true(child >= 0);
    if (child)
        return child;
    stk_context *ctx = cached_context();
    if (cached_try(c, ctx, wrapper, options, &store, &err) == STK_OK) {
        use(c, store, seed);
        stk_store_close(&store);
        stk_context_destroy(&ctx);
        _exit(0);
    }
    _exit(1);
}

static void wait_for(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Every block, in a drawn order. */
static void read_blocks(const cached *c, stk_store *store, uint64_t seed)
{
    unsigned order[41];

    for (unsigned i = 0; i < 41; i++)
        order[i] = i;
    for (unsigned i = 41; i > 1; i--) {
        const unsigned k = (unsigned)(test_random(&seed) % i), swap = order[k];
        order[k] = order[i - 1];
        order[i - 1] = swap;
    }
    for (unsigned i = 0; i < 41; i++) {
        const uint64_t at = order[i] * CACHED_BLOCK,
                       length = STK_MIN(2 * CACHED_BLOCK, CACHED_SIZE - at);
        unsigned char got[2 * CACHED_BLOCK];
        stk_error err;
        if (stk_store_read(store, "x", at, length, got, &err) != STK_OK ||
            memcmp(got, c->bytes + at, length) != 0)
            _exit(2);
    }
}

static void processes_read_each_block_once(void **state)
{
    cached *c = *state;
    pid_t children[3];

    for (int round = 0; round < 4; round++) {
        counted_reset();
        counted->block = CACHED_BLOCK;
        for (uint64_t i = 0; i < 3; i++)
            children[i] = start(c, round % 2 ? "slow+" : "", round % 2 ? "&latency=1ms" : "",
                                read_blocks, i + 1 + 10 * (uint64_t)round);
        for (int i = 0; i < 3; i++)
            wait_for(children[i]);
        assert_int_equal(counted->twice, 0);
        assert_int_equal(counted->bytes, CACHED_SIZE);
        test_folder_remove(c->dir);
        assert_int_equal(mkdir(c->dir, 0700), 0);
    }
}

enum { OBJECTS = 48, OBJECT = 65536 };

/* Objects that are more than the cache holds, again and again. */
static void read_objects(const cached *c, stk_store *store, uint64_t seed)
{
    unsigned char got[OBJECT];
    char name[40];
    stk_error err;

    (void)c;
    for (int i = 0; i < 4 * OBJECTS; i++) {
        const unsigned k = (unsigned)(test_random(&seed) % OBJECTS);
        snprintf(name, sizeof name, "o%u", k);
        if (stk_store_read(store, name, 0, OBJECT, got, &err) != STK_OK)
            _exit(2);
        for (unsigned at = 0; at < OBJECT; at++)
            if (got[at] != (unsigned char)(k + at / CACHED_BLOCK))
                _exit(3);
    }
}

/* Over its limit a cache gives the right bytes, to all processes, and takes no more than it may. */
static void processes_stay_within_the_bound(void **state)
{
    cached *c = *state;
    unsigned char bytes[OBJECT];
    pid_t children[3];
    char name[40];

    for (unsigned k = 0; k < OBJECTS; k++) {
        for (unsigned at = 0; at < OBJECT; at++)
            bytes[at] = (unsigned char)(k + at / CACHED_BLOCK);
        snprintf(name, sizeof name, "o%u", k);
        test_write(c->data, name, bytes, OBJECT);
    }
    for (uint64_t i = 0; i < 3; i++)
        children[i] = start(c, "", "&size=1MiB", read_objects, i + 1);
    for (int i = 0; i < 3; i++)
        wait_for(children[i]);
    cached_walk(c);
    assert_true(cached_bytes > 0);
    assert_true(cached_bytes <= 1 << 20);
}

static void read_for_ever(const cached *c, stk_store *store, uint64_t seed)
{
    for (;;) {
        unsigned char got[CACHED_SIZE];
        const uint64_t offset = test_random(&seed) % CACHED_SIZE,
                       length = test_random(&seed) % (CACHED_SIZE - offset + 1);
        stk_error err;
        if (stk_store_read(store, "x", offset, length, got, &err) != STK_OK ||
            memcmp(got, c->bytes + offset, length) != 0)
            _exit(2);
        counted->steps++;
    }
}

/* Whatever moment processes are killed at, what is kept is right, and what they held comes back. */
static void what_is_killed_leaves_nothing_wrong(void **state)
{
    cached *c = *state;
    const char *more = getenv("STOKER_TEST_KILLS");
    const long kills = more ? strtol(more, NULL, 10) : KILLS;
    uint64_t seed = 17;

    for (long i = 0; i < kills; i++) {
        const uint64_t steps = test_random(&seed) % 12;
        pid_t children[2];
        counted_reset();
        for (int k = 0; k < 2; k++)
            children[k] = start(c, "", "", read_for_ever, test_random(&seed));
        while (counted->steps < steps)
            sched_yield();
        for (uint64_t spin = test_random(&seed) % 200000; spin; spin--)
            atomic_signal_fence(memory_order_seq_cst);
        for (int k = 0; k < 2; k++)
            assert_int_equal(kill(children[k], SIGKILL), 0);
        for (int k = 0; k < 2; k++) {
            int status;
            assert_int_equal(waitpid(children[k], &status, 0), children[k]);
            assert_true(WIFSIGNALED(status));
        }
        stk_store *store = cached_open(c, "", "");
        assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
        stk_store_close(&store);
        store = cached_open(c, "", "");
        const uint64_t before = counted->reads;
        assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
        assert_int_equal(counted->reads, before);
        stk_store_close(&store);
        assert_int_equal(cached_warnings, 0);
        if (i % 2) {
            test_folder_remove(c->dir);
            assert_int_equal(mkdir(c->dir, 0700), 0);
        } else {
            assert_int_equal(truncate(cached_walk(c), (off_t)(test_random(&seed) % CACHED_SIZE)),
                             0);
        }
    }
}

typedef struct fate {
    unsigned long kept, not_kept;
} fate;

static void note_kept(void *user, const char *name, const char *value)
{
    fate *f = user;

    if (strcmp(name, "kept") == 0)
        (void)!sscanf(value, "%lu bytes, %lu not", &f->kept, &f->not_kept);
}

/* Keep a block, and end without closing. */
static void keep_and_die(const cached *c, stk_store *store, uint64_t seed)
{
    unsigned char got[CACHED_BLOCK];
    fate f = {0};
    stk_error err;

    (void)c;
    if (stk_store_read(store, "x", seed % 40 * CACHED_BLOCK, sizeof got, got, &err) != STK_OK)
        _exit(2);
    while (!f.kept && !f.not_kept && stk_store_describe(store, "", note_kept, &f, &err) == STK_OK)
        sched_yield();
    if (!f.kept)
        _exit(3);
    kill(getpid(), SIGKILL);
}

/* What those that died were granted comes back, or a small cache would soon keep nothing more. */
static void grants_of_the_dead_come_back(void **state)
{
    cached *c = *state;
    int status;

    for (uint64_t i = 0; i < 80; i++) {
        const pid_t child = start(c, "", "&size=1MiB", keep_and_die, i);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        /* The next one keeps a block, too. */
        assert_int_equal(unlink(cached_walk(c)), 0);
    }
    for (int i = 0; i < 2; i++) {
        counted_reset();
        stk_store *store = cached_open(c, "", "&size=1MiB");
        assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
        stk_store_close(&store);
    }
    assert_int_equal(counted->reads, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(processes_read_each_block_once, cached_set_up,
                                        cached_tear_down),
        cmocka_unit_test_setup_teardown(processes_stay_within_the_bound, cached_set_up,
                                        cached_tear_down),
        cmocka_unit_test_setup_teardown(grants_of_the_dead_come_back, cached_set_up,
                                        cached_tear_down),
        cmocka_unit_test_setup_teardown(what_is_killed_leaves_nothing_wrong, cached_set_up,
                                        cached_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
