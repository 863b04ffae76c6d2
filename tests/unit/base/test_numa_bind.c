/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and memory of a context on the nodes of its rank: two real cores of this machine, on two
 * nodes that are made up. */
#include "support/support.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/context.h"

#define NODE "sys/devices/system/node"

static char root[256];
static cpu_set_t all;     /* what this process could run on before, */
static unsigned cores[2]; /* and now */

static bool get_mask(stk__cpus *out)
{
    memset(out, 0, sizeof *out);
    return sched_getaffinity(0, sizeof *out, (cpu_set_t *)out->bits) == 0;
}

/* Two cores are left, where there are so many: else these are the same. */
static int setup(void **state)
{
    unsigned n = 0;
    cpu_set_t mask;

    (void)state;
    test_folder(root);
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return -1;
    for (unsigned i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &mask);
            cores[n++] = i;
        }
    if (n < 2)
        cores[1] = cores[0];
    return sched_setaffinity(0, sizeof mask, &mask);
}

static int teardown(void **state)
{
    (void)state;
    test_folder_remove(root);
    return sched_setaffinity(0, sizeof all, &all);
}

static void put(const char *name, const char *text)
{
    char line[256];

    snprintf(line, sizeof line, "%s\n", text);
    test_write(root, name, line, strlen(line));
}

struct told {
    unsigned count;
    char last[512];
};

static void hear(void *user, stk_message_level level, const char *message)
{
    struct told *told = user;

    if (!strstr(message, "mbind"))
        return;
    assert_int_equal(level, STK_MESSAGE_INFO);
    told->count++;
    snprintf(told->last, sizeof told->last, "%s", message);
}

/* A machine of these two cores: one of node 0, the other of node 900, which no machine of the tests
 * has. */
static void put_machine(void)
{
    char text[64];

    snprintf(text, sizeof text, "%u,%u", cores[0], cores[1]);
    put("sys/devices/system/cpu/online", text);
    put(NODE "/online", "0,900");
    snprintf(text, sizeof text, "%u", cores[0]);
    put(NODE "/node0/cpulist", text);
    snprintf(text, sizeof text, "%u", cores[1]);
    put(NODE "/node900/cpulist", text);
}

/* One of two ranks of that machine. */
static stk_context *context_of(struct told *told, uint64_t number, stk_numa numa)
{
    stk_context_options options;
    stk_context *ctx;
    stk_error err;

    stk_context_options_init(&options);
    options.local_ranks = 2;
    options.local_number = number;
    options.numa = numa;
    options.on_message = hear;
    options.on_message_user = told;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    *told = (struct told){0}; /* what is said of this machine */
    stk__context_place(ctx, root);
    return ctx;
}

struct seen {
    stk__cpus cpus;
    int policy;
};

static void look(void *argument)
{
    struct seen *seen = argument;

    assert_true(get_mask(&seen->cpus));
    if (syscall(SYS_get_mempolicy, &seen->policy, NULL, 0ul, NULL, 0ul) != 0)
        seen->policy = -1;
}

static struct seen look_in_thread(stk_context *ctx)
{
    struct seen seen = {.policy = 0};
    stk__thread thread = {0};
    stk_error err;

    assert_ok(stk__thread_start(ctx, &thread, "look", look, &seen, &err), &err);
    stk__thread_join(&thread);
    return seen;
}

static void assert_runs_on(const stk__cpus *cpus, unsigned core)
{
    char text[64], wanted[16];

    stk__list_write(cpus->bits, STK__CPUS, text, sizeof text);
    snprintf(wanted, sizeof wanted, "%u", core);
    assert_string_equal(text, wanted);
}

/* Whether the system lets a process say where memory is to be. */
static bool may_place(void)
{
    const unsigned long node0 = 1;
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool good = syscall(SYS_mbind, page, 4096, 1, &node0, 64ul, 0ul) == 0;

    munmap(page, 4096);
    return good;
}

/* Policy of the memory at an address; 0 is the default, 1 is that one node is preferred. */
static int policy_at(const void *memory)
{
    int policy = -1;

    syscall(SYS_get_mempolicy, &policy, NULL, 0ul, memory, 2ul /* MPOL_F_ADDR */);
    return policy;
}

/* Threads and memory are really there, on the cores of this machine. */
static void threads_and_memory_are_there(void **state)
{
    struct told told = {0};
    stk_cores of = {.struct_size = sizeof of};
    stk__cpus before, now;

    (void)state;
    if (cores[0] == cores[1])
        skip();
    assert_true(get_mask(&before));
    put_machine();
    stk_context *ctx = context_of(&told, 1, STK_NUMA_AUTO);
    stk_context_cores(ctx, &of);
    assert_true(of.bound);
    assert_string_equal(of.node_list, "0");
    assert_int_equal(of.usable, 1);
    assert_int_equal(of.ranks, 1);
    assert_int_equal(of.all_usable, 2);
    assert_int_equal(of.all_ranks, 2);
    assert_int_equal(of.preparation, 1);
    assert_true(stk__context_memory_share(ctx) == stk__context_memory_limit(ctx) / 2);
    struct seen seen = look_in_thread(ctx);
    assert_runs_on(&seen.cpus, cores[0]);
    char *large = stk__alloc_buffer(ctx, 1 << 20);
    assert_non_null(large);
    if (may_place()) {
        assert_int_equal(told.count, 0);
        assert_int_equal(seen.policy, 1);
        if (!TEST_SANITIZED) /* its memory is not ours to place */
            assert_int_equal(policy_at(large + 8192), 1);
    } else {
        assert_int_equal(told.count, 1);
        assert_non_null(strstr(told.last, "NUMA node 0 "));
    }
    stk__free(ctx, large);
    /* The caller's thread is where it was, until it asks. */
    assert_true(get_mask(&now));
    assert_memory_equal(&now, &before, sizeof now);
    stk_context_bind(ctx);
    look(&seen);
    assert_runs_on(&seen.cpus, cores[0]);
    assert_int_equal(seen.policy > 0, may_place());
    stk_context_unbind(ctx);
    look(&seen);
    assert_memory_equal(&seen.cpus, &before, sizeof before);
    assert_true(seen.policy <= 0);
    stk_context_destroy(&ctx);
}

/* What the system refuses is said once, and is no error: threads are on the cores all the same. */
static void refusals_are_said_once(void **state)
{
    struct told told = {0};

    (void)state;
    if (cores[0] == cores[1])
        skip();
    put_machine();
    stk_context *ctx = context_of(&told, 2, STK_NUMA_AUTO);
    assert_int_equal(told.count, 1);
    assert_non_null(strstr(told.last, "NUMA node 900 first (mbind: "));
    for (int i = 0; i < 2; i++) {
        const struct seen seen = look_in_thread(ctx);
        assert_runs_on(&seen.cpus, cores[1]);
        assert_true(seen.policy <= 0);
        void *large = stk__alloc_buffer(ctx, 1 << 20);
        assert_non_null(large);
        stk__free(ctx, large);
    }
    assert_int_equal(told.count, 1);
    stk_context_destroy(&ctx);
    /* Switched off, nothing is placed, and nothing is said. */
    ctx = context_of(&told, 2, STK_NUMA_OFF);
    stk_cores of = {.struct_size = sizeof of};
    stk_context_cores(ctx, &of);
    assert_false(of.bound);
    assert_int_equal(of.ranks, 2);
    const struct seen seen = look_in_thread(ctx);
    assert_int_equal(CPU_COUNT((const cpu_set_t *)&seen.cpus), 2);
    assert_int_equal(told.count, 0);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(threads_and_memory_are_there, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals_are_said_once, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
