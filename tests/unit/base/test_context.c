/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/aio.h"
#include "base/context.h"
#include "base/probe.h"
#include "support/support.h"

static void contexts_do_not_meet(void **state)
{
    stk_context *a = test_context(), *b = test_context();
    stk_memory_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};

    stk_context_memory(b, &before);
    void *memory = stk__alloc(a, 1000);
    assert_non_null(memory);
    stk_context_memory(b, &after);
    assert_int_equal(before.bytes, after.bytes);
    stk_context_memory(a, &after);
    assert_true(after.bytes >= 1000);
    stk__free(a, memory);
    stk_context_memory(a, &after);
    assert_int_equal(after.bytes, 0);
    assert_true(after.peak_bytes >= 1000);
    stk_context_destroy(&a);
    assert_null(a);
    stk_context_destroy(&a);
    stk_context_destroy(&b);
}

static void memory_is_aligned_and_has_a_tail(void **state)
{
    stk_context *ctx = test_context();

    for (size_t size = 0; size < 300; size += 7) {
        char *small = stk__alloc(ctx, size), *buffer = stk__alloc_buffer(ctx, size);
        assert_int_equal((uintptr_t)small % 16, 0);
        assert_int_equal((uintptr_t)buffer % STK_CACHE_LINE, 0);
        for (size_t i = 0; i < STK_TAIL; i++)
            assert_int_equal(buffer[size + i], 0);
        memset(small, 1, size);
        memset(buffer, 2, size);
        small = stk__realloc(ctx, small, size + 1000);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(small[i], 1);
        stk__free(ctx, small);
        stk__free(ctx, buffer);
    }
    assert_null(stk__calloc(ctx, SIZE_MAX / 2, 4));
    assert_null(stk__alloc(ctx, SIZE_MAX - 8));
    stk_context_destroy(&ctx);
}

static void sizes_are_checked(void **state)
{
    uint64_t out;

    assert_true(stk__mul_size(UINT32_MAX, UINT32_MAX, &out));
    assert_false(stk__mul_size(UINT64_MAX, 2, &out));
    assert_false(stk__add_size(UINT64_MAX, 1, &out));
    const int64_t good[] = {3, 4, 5}, negative[] = {3, -1}, huge[] = {INT64_MAX, 2},
                  empty[] = {5, 0, 9};
    assert_true(stk__shape_bytes(good, 3, 4, &out));
    assert_int_equal(out, 240);
    assert_false(stk__shape_bytes(negative, 2, 4, &out));
    assert_false(stk__shape_bytes(huge, 2, 4, &out));
    assert_true(stk__shape_bytes(empty, 3, 1, &out));
    assert_int_equal(out, 0);
}

/* A list that grows keeps what it has, doubles, and stays as it was where there is no room. */
static void lists_grow(void **state)
{
    const stk_context_options options = {.struct_size = sizeof options, .memory_limit = 1 << 20};
    stk_context *limited;
    stk_error err;
    size_t room = 0;

    assert_ok(stk_context_create(&options, &limited, &err), &err);
    uint32_t *list = stk__grow(limited, NULL, &room, 0, sizeof *list);
    assert_non_null(list);
    assert_true(room > 0);
    for (uint32_t i = 0; i < 1000; i++) {
        const size_t before = room;
        list = stk__grow(limited, list, &room, (uint64_t)i + 1, sizeof *list);
        assert_non_null(list);
        assert_true(room == before || room >= 2 * before);
        list[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(list[i], i);
    const size_t before = room;
    assert_null(stk__grow(limited, list, &room, 1 << 20, sizeof *list));
    assert_null(stk__grow(limited, list, &room, UINT64_MAX, sizeof *list));
    assert_null(stk__grow(limited, list, &room, UINT64_MAX / 2, 4));
    assert_int_equal(room, before);
    assert_int_equal(list[999], 999);
    stk__free(limited, list);
    stk_context_destroy(&limited);
}

static void errors_say_what_they_are(void **state)
{
    stk_error err;
    char long_key[600];

    memset(long_key, 'a', sizeof long_key);
    memcpy(long_key + sizeof long_key - 5, "/end", 5);
    assert_int_equal(stk__fail_at(&err, STK_EFORMAT, STK_STAGE_DATASET, long_key, 77, "bad %d", 5),
                     STK_EFORMAT);
    assert_int_equal(err.status, STK_EFORMAT);
    assert_int_equal(err.offset, 77);
    assert_string_equal(err.text, "bad 5");
    assert_int_equal(strncmp(err.key, "...", 3), 0);
    assert_string_equal(err.key + strlen(err.key) - 4, "/end");
    /* The key of the error itself may be passed on. */
    stk__fail_at(&err, STK_EIO, STK_STAGE_STORE, err.key, STK_NO_OFFSET, "again");
    assert_string_equal(err.key + strlen(err.key) - 4, "/end");
    assert_int_equal(stk__fail(NULL, STK_EIO, STK_STAGE_NONE, "nobody listens"), STK_EIO);
    assert_string_equal(stk_status_name(STK_ETRUNCATED), "STK_ETRUNCATED");
    assert_string_equal(stk_status_name((stk_status)-1234), "STK_UNKNOWN");
}

/* The table of faults, written down a second time: who changes one changes what runs survive. */
static void each_status_has_one_fault(void **state)
{
    static const struct {
        stk_status status;
        stk_fault fault;
    } table[] = {
        {STK_OK, STK_FAULT_NONE},
        {STK_EOS, STK_FAULT_NONE},
        {STK_EAGAIN, STK_FAULT_NONE},
        {STK_EINVAL, STK_FAULT_CALLER},
        {STK_ENOTSUP, STK_FAULT_CALLER},
        {STK_EMISMATCH, STK_FAULT_CALLER},
        {STK_EBUSY, STK_FAULT_CALLER},
        {STK_EFORK, STK_FAULT_CALLER},
        {STK_ECANCELED, STK_FAULT_CALLER},
        {STK_EEXIST, STK_FAULT_CALLER},
        {STK_ENOMEM, STK_FAULT_MACHINE},
        {STK_EBUDGET, STK_FAULT_SAMPLE},
        {STK_ETHREAD, STK_FAULT_MACHINE},
        {STK_ESYSTEM, STK_FAULT_MACHINE},
        {STK_EIO, STK_FAULT_MACHINE},
        {STK_ENOENT, STK_FAULT_SAMPLE},
        {STK_EACCES, STK_FAULT_SAMPLE},
        {STK_ETRUNCATED, STK_FAULT_SAMPLE},
        {STK_ETIMEDOUT, STK_FAULT_MACHINE},
        {STK_ECHANGED, STK_FAULT_SAMPLE},
        {STK_ENOSPC, STK_FAULT_MACHINE},
        {STK_EFORMAT, STK_FAULT_SAMPLE},
        {STK_ELIMIT, STK_FAULT_SAMPLE},
        {STK_ECHECKSUM, STK_FAULT_SAMPLE},
        {STK_EBADSAMPLES, STK_FAULT_SAMPLE},
        {STK_EKIND, STK_FAULT_SAMPLE},
        {STK_EINTERNAL, STK_FAULT_STOKER},
        {(stk_status)-1234, STK_FAULT_CALLER},
    };
#define ONE(name, value, fault, text) +1
    assert_int_equal(sizeof table / sizeof *table, 0 STK_STATUS_LIST(ONE) + 1);
#undef ONE
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (stk_status_fault(table[i].status) != table[i].fault)
            fail_msg("%s", stk_status_name(table[i].status));
    /* What the system says: out of descriptors is the machine's, a folder in place of a file the
     * sample's. */
    assert_int_equal(stk_status_fault(stk__status_of_errno(EMFILE)), STK_FAULT_MACHINE);
    assert_int_equal(stk_status_fault(stk__status_of_errno(ENFILE)), STK_FAULT_MACHINE);
    assert_non_null(strstr(stk__remedy_of_errno(EMFILE), "ulimit -n"));
    assert_int_equal(stk_status_fault(stk__status_of_errno(ENOMEM)), STK_FAULT_MACHINE);
    assert_int_equal(stk_status_fault(stk__status_of_errno(EIO)), STK_FAULT_MACHINE);
    assert_int_equal(stk_status_fault(stk__status_of_errno(ENOSYS)), STK_FAULT_CALLER);
    assert_int_equal(stk_status_fault(stk__aio_status(EISDIR)), STK_FAULT_SAMPLE);
    assert_int_equal(stk_status_fault(stk__aio_status(ELOOP)), STK_FAULT_SAMPLE);
    assert_int_equal(stk_status_fault(stk__aio_status(ENAMETOOLONG)), STK_FAULT_SAMPLE);
}

/* A made-up machine: cgroup files below a folder of our own. */
static void cores_and_memory_of_cgroups(void **state)
{
    char root[256];
    stk_cores cores = {.struct_size = sizeof cores};

    test_folder(root);
    stk__cores_find(root, 0, 0, &cores);
    assert_true(cores.usable >= 1 && cores.quota == 0);
    test_write(root, "proc/self/cgroup", "0::/job/task\n", 13);
    test_write(root, "sys/fs/cgroup/job/cpu.max", "50000 100000\n", 13);
    test_write(root, "sys/fs/cgroup/job/task/cpu.max", "max 100000\n", 11);
    test_write(root, "sys/fs/cgroup/job/task/memory.max", "1048576\n", 8);
    stk__cores_find(root, 0, 0, &cores);
    assert_true(cores.quota == 0.5);
    assert_int_equal(cores.usable, 1);
    assert_int_equal(cores.compute, 1);
    assert_int_equal(cores.preparation, 1);
    assert_int_equal(stk__memory_find(root), 1048576);
    test_write(root, "proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/c\n", 29);
    test_write(root, "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "150000\n", 7);
    test_write(root, "sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n", 7);
    test_write(root, "sys/fs/cgroup/memory/m/memory.limit_in_bytes", "2097152\n", 8);
    stk__cores_find(root, 0, 0, &cores);
    assert_true(cores.quota == 1.5);
    assert_int_equal(cores.usable, 1);
    assert_int_equal(stk__memory_find(root), 2097152);
    test_folder_remove(root);
}

/* The examples of the guides: 20, 60 and 160 cores of 1, 3 and 8 accelerators; and too few. */
static void cores_are_divided_among_ranks(void **state)
{
    static const struct {
        uint32_t usable, ranks, compute, of_step, workers;
    } cases[] = {{20, 1, 0, 1, 18},   {60, 3, 0, 1, 18}, {160, 8, 0, 1, 18}, {160, 8, 4, 4, 16},
                 {160, 8, 64, 20, 1}, {8, 2, 0, 1, 3},   {2, 4, 0, 1, 1},    {2, 4, 2, 1, 1},
                 {1, 1, 0, 1, 1},     {7, 0, 0, 1, 6}};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_cores cores = {.struct_size = sizeof cores, .usable = cases[i].usable};
        stk__cores_divide(cases[i].compute, cases[i].ranks, &cores);
        assert_int_equal(cores.ranks, STK_MAX(cases[i].ranks, 1));
        assert_int_equal(cores.compute, cases[i].of_step);
        assert_int_equal(cores.preparation, cases[i].workers);
        /* Together no more threads than cores, but where each has less than two. */
        assert_true(cores.usable < 2 * cores.ranks ||
                    (cores.compute + cores.preparation) * cores.ranks <= cores.usable ||
                    cores.preparation == 1);
    }
}

/* Processes that share a machine each take a part of its cores and of its memory. */
static void a_context_takes_its_part(void **state)
{
    stk_context_options options;
    stk_context *alone = test_context(), *one;
    stk_cores all = {.struct_size = sizeof all}, part = all;
    stk_error err;
    bool chosen;

    (void)state;
    stk_context_options_init(&options);
    options.local_ranks = 64;
    assert_ok(stk_context_create(&options, &one, &err), &err);
    stk_context_cores(alone, &all);
    stk_context_cores(one, &part);
    assert_int_equal(all.ranks, 1);
    assert_int_equal(part.ranks, 64);
    assert_int_equal(part.usable, all.usable);
    assert_int_equal(part.preparation, stk__cores_workers(all.usable, 1, 64));
    assert_int_equal(stk__context_model_threads(one, 1000, &chosen), STK_MAX(all.usable / 64, 1));
    assert_true(stk__context_memory_share(one) == stk__context_memory_limit(one) / 64);
    stk_context_destroy(&one);
    /* Where each is bound to cores of its own, they share the memory all the same. */
    options.local_ranks = 1;
    options.memory_ranks = 8;
    assert_ok(stk_context_create(&options, &one, &err), &err);
    stk_context_cores(one, &part);
    assert_true(part.ranks == 1 || part.affinity < part.online);
    assert_true(part.preparation == all.preparation || part.affinity < part.online);
    assert_true(stk__context_memory_share(one) == stk__context_memory_limit(one) / 8);
    stk_context_destroy(&one);
    stk_context_destroy(&alone);
}

/* What the system has left, and the limits of this process. */
static void room_of_memory(void **state)
{
    static const char text[] = "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:    2048 kB\n";
    struct rlimit before, less;
    char root[256];

    test_folder(root);
    assert_true(stk__memory_room(root) == UINT64_MAX);
    test_write(root, "proc/meminfo", text, sizeof text - 1);
    assert_true(stk__memory_room(root) == 2048 * 1024);
    test_write(root, "proc/self/statm", "3000 20 30 4 0 1000 0\n", 22);
    assert_true(stk__memory_room(root) == 2048 * 1024);
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    less = before;
    less.rlim_cur = 1100 * page;
    assert_int_equal(setrlimit(RLIMIT_DATA, &less), 0);
    const uint64_t room = stk__memory_room(root);
    test_write(root, "proc/self/statm", "3000 20 30 4 0 1200 0\n", 22);
    const uint64_t none = stk__memory_room(root);
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
    assert_true(room == 100 * page);
    assert_true(none == 0);
    test_folder_remove(root);
    /* A context takes seven eighths of it, and no more than its own limit leaves. */
    stk_context *ctx = test_context();
    assert_true(stk__context_memory_room(ctx) <= stk__memory_left(ctx));
    assert_true(stk__context_memory_room(ctx) > 0);
    stk_context_destroy(&ctx);
}

/* What the groups above allow bounds those below, in either direction, and in v1 as in v2. */
static void nested_groups_bound_each_other(void **state)
{
    const struct {
        const char *outer, *inner; /* cpu.max of v2: quota in microseconds, or "max" */
        double quota;
    } cases[] = {{"150000", "400000", 1.5},
                 {"400000", "150000", 1.5},
                 {"250000", "max", 2.5},
                 {"max", "250000", 2.5},
                 {"max", "max", 0}};
    char root[256], text[64];
    stk_cores cores = {.struct_size = sizeof cores};

    (void)state;
    for (int v = 1; v <= 2; v++)
        for (size_t i = 0; i < STK_COUNT(cases); i++) {
            const char *const quotas[] = {cases[i].outer, cases[i].inner};
            const char *const groups[] = {"a", "a/b/c"}; /* a/b says nothing */
            test_folder(root);
            snprintf(text, sizeof text,
                     v == 2 ? "0::/a/b/c\n" : "7:cpuset:/\n3:cpuacct,cpu:/a/b/c\n");
            test_write(root, "proc/self/cgroup", text, strlen(text));
            for (int g = 0; g < 2; g++) {
                char name[128];
                const bool none = strcmp(quotas[g], "max") == 0;
                if (v == 2) {
                    snprintf(name, sizeof name, "sys/fs/cgroup/%s/cpu.max", groups[g]);
                    snprintf(text, sizeof text, "%s 100000\n", quotas[g]);
                    test_write(root, name, text, strlen(text));
                    continue;
                }
                snprintf(name, sizeof name, "sys/fs/cgroup/cpu/%s/cpu.cfs_quota_us", groups[g]);
                snprintf(text, sizeof text, "%s\n", none ? "-1" : quotas[g]);
                test_write(root, name, text, strlen(text));
                snprintf(name, sizeof name, "sys/fs/cgroup/cpu/%s/cpu.cfs_period_us", groups[g]);
                test_write(root, name, "100000\n", 7);
            }
            stk__cores_find(root, 0, 0, &cores);
            assert_true(cores.quota == cases[i].quota);
            assert_true(cores.usable >= 1 && (!cores.quota || cores.usable <= cores.quota));
            test_folder_remove(root);
        }
}

/* The same of memory, with `high` below `max` and groups of their own. */
static void nested_memory_bounds(void **state)
{
    const struct {
        const char *outer, *inner;
        uint64_t least;
    } cases[] = {{"2097152\n", "8388608\n", 2097152},
                 {"8388608\n", "2097152\n", 2097152},
                 {"4194304\n", "max\n", 4194304}};
    char root[256];

    (void)state;
    for (int v = 1; v <= 2; v++)
        for (size_t i = 0; i < STK_COUNT(cases); i++) {
            const char *inner =
                v == 1 && *cases[i].inner == 'm' ? "9223372036854771712\n" : cases[i].inner;
            test_folder(root);
            const char *line = v == 2 ? "0::/a/b\n" : "4:memory:/a/b\n";
            test_write(root, "proc/self/cgroup", line, strlen(line));
            test_write(root,
                       v == 2 ? "sys/fs/cgroup/a/memory.high"
                              : "sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                       cases[i].outer, strlen(cases[i].outer));
            test_write(root,
                       v == 2 ? "sys/fs/cgroup/a/b/memory.max"
                              : "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                       inner, strlen(inner));
            assert_int_equal(stk__memory_find(root), cases[i].least);
            test_folder_remove(root);
        }
}

static void fork_is_noticed(void **state)
{
    stk_context *ctx = test_context();
    stk_error err;

    assert_ok(stk__context_check(ctx, &err), &err);
    pid_t child = fork();
    if (child == 0)
        _exit(stk__context_check(ctx, NULL) == STK_EFORK ? 0 : 1);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_ok(stk__context_check(ctx, &err), &err);
    stk_context_destroy(&ctx);
}

static void count_event(void *user, const stk__event *event)
{
    *(uint64_t *)user += event->count;
}

static void probes_hear_events(void **state)
{
    stk_context *ctx = test_context();
    uint64_t heard[2] = {0, 0};
    const stk__probe probes[2] = {{count_event, &heard[0]}, {count_event, &heard[1]}};
    const stk__event event = {.kind = STK__EVENT_SAMPLE, .count = 3};

    assert_false(stk__probed(ctx));
    stk__emit(ctx, &event);
    assert_int_equal(stk__probe_add(ctx, &probes[0]), STK_OK);
    assert_int_equal(stk__probe_add(ctx, &probes[1]), STK_OK);
    stk__emit(ctx, &event);
    stk__probe_remove(ctx, &probes[0]);
    stk__emit(ctx, &event);
    stk__probe_remove(ctx, &probes[1]);
    assert_false(stk__probed(ctx));
    assert_int_equal(heard[0], 3);
    assert_int_equal(heard[1], 6);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_do_not_meet),
        cmocka_unit_test(memory_is_aligned_and_has_a_tail),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(lists_grow),
        cmocka_unit_test(errors_say_what_they_are),
        cmocka_unit_test(each_status_has_one_fault),
        cmocka_unit_test(room_of_memory),
        cmocka_unit_test(cores_and_memory_of_cgroups),
        cmocka_unit_test(cores_are_divided_among_ranks),
        cmocka_unit_test(a_context_takes_its_part),
        cmocka_unit_test(nested_groups_bound_each_other),
        cmocka_unit_test(nested_memory_bounds),
        cmocka_unit_test(fork_is_noticed),
        cmocka_unit_test(probes_hear_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
