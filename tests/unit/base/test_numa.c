/* SPDX-License-Identifier: Apache-2.0 */
/* NUMA nodes divided among ranks, on machines that never were. */
#include "support/support.h"

#include <stdlib.h>

#include "base/context.h"

#define MOST 8 /* nodes of a machine of these tests */
#define NODE "sys/devices/system/node"

static char root[256];

static int setup(void **state)
{
    (void)state;
    test_folder(root);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_folder_remove(root);
    return 0;
}

static void put(const char *name, const char *text)
{
    char line[256];

    snprintf(line, sizeof line, "%s\n", text);
    test_write(root, name, line, strlen(line));
}

/* Lists of the cores of nodes, up to NULL; "-": there is no such node. */
static void put_nodes(const char *const *lists)
{
    char online[64] = "", name[64];

    for (int i = 0; lists[i]; i++) {
        if (strcmp(lists[i], "-") == 0)
            continue;
        snprintf(online + strlen(online), sizeof online - strlen(online), "%s%d",
                 *online ? "," : "", i);
        snprintf(name, sizeof name, NODE "/node%d/cpulist", i);
        put(name, lists[i]);
    }
    put(NODE "/online", online);
}

static stk__cpus cpus_of(const char *list)
{
    stk__cpus set = {{0}};
    uint64_t from, to;

    while (stk__list_next(&list, &from, &to))
        for (; from <= to; from++)
            set.bits[from / STK__LONG_BITS] |= 1ul << from % STK__LONG_BITS;
    return set;
}

/* The place of the rank with this number, whose mask has these cores. */
static stk__place place_of(const char *affinity, uint64_t ranks, uint64_t number)
{
    const stk__place_wish wish = {.ranks = ranks, .machine_ranks = ranks, .number = number};
    const stk__cpus mask = cpus_of(affinity);
    stk__place place;

    stk__numa_place(root, &mask, &wish, &place);
    return place;
}

static void assert_cpus(const stk__place *place, const char *list)
{
    char text[256];

    stk__list_write(place->cpus.bits, STK__CPUS, text, sizeof text);
    assert_string_equal(text, list);
}

static void assert_memory(const stk__place *place, const char *list)
{
    char text[256];

    assert_int_equal(place->prefers, *list != 0);
    stk__list_write(place->memory.bits, STK__NODES, text, sizeof text);
    assert_string_equal(text, list);
}

/* ---- Who gets what --------------------------------------------------------------------------- */

/* The guides' 20, 60 and 160 cores among them: 18 workers for each accelerator, bound or not. */
static void test_even(void **state)
{
    static const struct {
        const char *nodes[MOST + 1], *all;
        uint64_t ranks, number; /* from 1 */
        const char *list, *cpus;
        uint32_t sharing, workers; /* ranks on those cores; workers of each */
    } cases[] = {
        {{"0-19", NULL}, "0-19", 1, 1, "", "0-19", 1, 18},
        {{"0-19", NULL}, "0-19", 4, 2, "", "0-19", 4, 4},
        {{"0-9", "10-19", NULL}, "0-19", 1, 1, "", "0-19", 1, 18},
        {{"0-19", "20-39", "40-59", NULL}, "0-59", 3, 1, "0", "0-19", 1, 18},
        {{"0-19", "20-39", "40-59", NULL}, "0-59", 3, 3, "2", "40-59", 1, 18},
        {{"0-29", "30-59", NULL}, "0-59", 3, 2, "", "0-59", 3, 18},
        {{"0-79", "80-159", NULL}, "0-159", 8, 4, "0", "0-79", 4, 18},
        {{"0-79", "80-159", NULL}, "0-159", 8, 5, "1", "80-159", 4, 18},
        /* Threads of a core have numbers that are far apart. */
        {{"0-39,80-119", "40-79,120-159", NULL}, "0-159", 8, 8, "1", "40-79,120-159", 4, 18},
        {{"0-15", "16-31", "32-47", "48-63", NULL}, "0-63", 2, 2, "2-3", "32-63", 1, 30},
        {{"0-7", "8-15", "16-23", "24-31", "32-39", "40-47", "48-55", "56-63", NULL},
         "0-63",
         8,
         6,
         "5",
         "40-47",
         1,
         7},
        {{"0-7", "8-15", "16-23", "24-31", "32-39", "40-47", "48-55", "56-63", NULL},
         "0-63",
         4,
         2,
         "2-3",
         "16-31",
         1,
         14},
        /* Three parts of 3, 2 and 3 nodes are not equal, nor are 2 and 1 ranks on a node. */
        {{"0-7", "8-15", "16-23", "24-31", "32-39", "40-47", "48-55", "56-63", NULL},
         "0-63",
         3,
         1,
         "",
         "0-63",
         3,
         19},
        /* Nodes of two sizes, and their ranks. */
        {{"0-15", "16-23", NULL}, "0-23", 3, 2, "0", "0-15", 2, 7},
        {{"0-15", "16-23", NULL}, "0-23", 3, 3, "1", "16-23", 1, 7},
        {{"0-14", "15-31", NULL}, "0-31", 2, 2, "1", "15-31", 1, 15},
        {{"0-7", "8-13", NULL}, "0-13", 2, 1, "", "0-13", 2, 6},
        /* Which rank this is nobody knows; nor is there such a one. */
        {{"0-9", "10-19", NULL}, "0-19", 2, 0, "", "0-19", 2, 9},
        {{"0-9", "10-19", NULL}, "0-19", 2, 3, "", "0-19", 2, 9},
    };

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        put_nodes(cases[i].nodes);
        put("sys/devices/system/cpu/online", cases[i].all);
        const stk__place place = place_of(cases[i].all, cases[i].ranks, cases[i].number);
        assert_int_equal(place.bound, *cases[i].list != 0);
        assert_string_equal(place.list, cases[i].list);
        assert_cpus(&place, cases[i].cpus);
        assert_memory(&place, cases[i].list);
        assert_int_equal(place.ranks, cases[i].sharing);
        assert_int_equal(stk__cores_workers(place.cores, 1, place.ranks), cases[i].workers);
    }
}

/* Cores that are off, nodes without cores or memory, and those that a control group leaves. */
static void test_uneven(void **state)
{
    static const char *const two[] = {"0-7", "8-15", NULL},
                             *const four[] = {"0-3", "4-7", "8-11", "12-15", NULL},
                             *const far[] = {"0-7", "", "-", "8-15", NULL};
    stk__place place;

    (void)state;
    put_nodes(two);
    put("sys/devices/system/cpu/online", "0-14");
    place = place_of("0-14", 2, 2);
    assert_cpus(&place, "8-14");
    put("sys/devices/system/cpu/online", "0-12");
    place = place_of("0-12", 2, 2);
    assert_false(place.bound);
    /* A node of memory alone is nobody's; one without is no place for memory. */
    put_nodes(far);
    put("sys/devices/system/cpu/online", "0-15");
    put(NODE "/has_memory", "0-1");
    place = place_of("0-15", 2, 1);
    assert_int_equal(place.nodes, 2);
    assert_cpus(&place, "0-7");
    assert_memory(&place, "0");
    place = place_of("0-15", 2, 2);
    assert_string_equal(place.list, "3");
    assert_cpus(&place, "8-15");
    assert_memory(&place, "");
    /* Memory that this process may not have. */
    put(NODE "/has_memory", "0-3");
    put("proc/self/status", "Name:\tx\nMems_allowed:\t1\nMems_allowed_list:\t0-2\nx:\t1");
    place = place_of("0-15", 2, 2);
    assert_true(place.bound);
    assert_memory(&place, "");
    /* A container with the cores of two nodes. */
    put_nodes(four);
    put("proc/self/status", "Name:\tx\nMems_allowed_list:\t0-3");
    put("proc/self/cgroup", "0::/pod/task");
    put("sys/fs/cgroup/pod/cpuset.cpus.effective", "4-11");
    place = place_of("4-11", 2, 2);
    assert_int_equal(place.nodes, 2);
    assert_string_equal(place.list, "2");
    assert_cpus(&place, "8-11");
    assert_int_equal(place.all, 8);
    put("proc/self/cgroup", "5:cpuset:/old");
    put("sys/fs/cgroup/cpuset/old/cpuset.effective_cpus", "0-3,12-15");
    place = place_of("0-3,12-15", 2, 2);
    assert_string_equal(place.list, "3");
}

/* A mask that a launcher, numactl or taskset has narrowed stays; its memory is near. */
static void test_narrowed(void **state)
{
    static const char *const two[] = {"0-9", "10-19", NULL};
    stk__place place;

    (void)state;
    put_nodes(two);
    put("sys/devices/system/cpu/online", "0-19");
    place = place_of("10-15", 4, 1);
    assert_false(place.bound);
    assert_cpus(&place, "10-15");
    assert_string_equal(place.list, "1");
    assert_memory(&place, "1");
    assert_int_equal(place.ranks, 4);
    place = place_of("5-14", 2, 1);
    assert_false(place.bound);
    assert_memory(&place, "");
    assert_cpus(&place, "5-14");
    /* A process that the rank has started is where the rank is, and shares with as many. */
    place = place_of("10-19", 4, 3);
    assert_true(place.bound);
    assert_int_equal(place.ranks, 2);
    place = place_of("10-19", 4, 1);
    assert_false(place.bound);
}

/* Ranks that their launcher has bound to a socket are on it together; those bound to cores not. */
static void test_bound_together(void **state)
{
    static const struct {
        const char *affinity;
        uint64_t ranks;
        bool anywhere;
        uint32_t sharing;
    } cases[] = {{"0-9", 8, false, 4}, {"10-19", 8, true, 4}, {"0", 8, false, 1},
                 {"0-9", 2, false, 1}, {"0-9", 3, false, 2},  {"0-19", 8, false, 1}};
    static const char *const two[] = {"0-9", "10-19", NULL};

    (void)state;
    put_nodes(two);
    put("sys/devices/system/cpu/online", "0-19");
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk__place_wish wish = {
            .ranks = 1, .machine_ranks = cases[i].ranks, .anywhere = cases[i].anywhere};
        const stk__cpus mask = cpus_of(cases[i].affinity);
        stk__place place;
        stk__numa_place(root, &mask, &wish, &place);
        assert_int_equal(place.ranks, cases[i].sharing);
        assert_int_equal(place.prefers, !cases[i].anywhere && strcmp(cases[i].affinity, "0-19"));
        assert_false(place.bound);
    }
}

/* What is no list, or contradicts itself, is as if the system told nothing. */
static void test_hostile(void **state)
{
    static const char *const lists[][2] = {{"0-99999999999999999999", "8-15"},
                                           {"0-7", "7-15"},
                                           {"0-7,x", "8-15"},
                                           {"0-7", "8-14"},
                                           {"7-0", "8-15"},
                                           {"0-8192", "8-15"},
                                           {"-", "8-15"}};
    char *many = malloc(40000);

    (void)state;
    assert_non_null(many);
    for (size_t i = 0; i <= STK_COUNT(lists); i++) {
        put(NODE "/online", "0-1");
        put("sys/devices/system/cpu/online", "0-15");
        if (i < STK_COUNT(lists)) {
            put(NODE "/node0/cpulist", lists[i][0]);
            put(NODE "/node1/cpulist", lists[i][1]);
        } else { /* longer than is read */
            memset(many, 0, 40000);
            for (size_t at = 0; at < 39990; at += 4)
                memcpy(many + at, "0-7,", 4);
            test_write(root, NODE "/node0/cpulist", many, strlen(many));
        }
        const stk__place place = place_of("0-15", 2, 1);
        assert_false(place.bound || place.prefers);
        assert_int_equal(place.nodes, 0);
        assert_cpus(&place, "0-15");
    }
    put(NODE "/node0/cpulist", "0-7");
    put(NODE "/node1/cpulist", "8-15");
    assert_true(place_of("0-15", 2, 1).bound);
    put(NODE "/online", "0-1024");
    assert_false(place_of("0-15", 2, 1).bound);
    test_folder_remove(root);
    test_folder(root);
    assert_int_equal(place_of("0-15", 2, 1).nodes, 0);
    free(many);
}

/* All ranks are bound or none is; together they are on all cores, each with nine tenths of an equal
 * part at least, and each knows with how many it shares its nodes. */
static void check_all(const uint32_t *sizes, uint32_t num, uint64_t ranks)
{
    char lists[MOST][32], all[32];
    const char *of[MOST + 1] = {NULL};
    uint32_t total = 0, bound = 0;
    uint64_t on[MOST * 64] = {0};

    for (uint32_t k = 0; k < num; k++) {
        snprintf(lists[k], sizeof lists[k], "%u-%u", total, total + sizes[k] - 1);
        of[k] = lists[k];
        total += sizes[k];
    }
    snprintf(all, sizeof all, "0-%u", total - 1);
    put_nodes(of);
    put("sys/devices/system/cpu/online", all);
    for (uint64_t r = 1; r <= ranks; r++) {
        const stk__place place = place_of(all, ranks, r);
        bound += place.bound;
        if (!place.bound)
            continue;
        assert_true(10 * (uint64_t)place.cores * ranks >= 9 * (uint64_t)total * place.ranks);
        for (uint32_t c = 0; c < total; c++)
            on[c] += place.cpus.bits[c / STK__LONG_BITS] >> c % STK__LONG_BITS & 1;
    }
    assert_true(bound == 0 || bound == ranks);
    for (uint64_t r = 1; r <= ranks && bound; r++) {
        const stk__place place = place_of(all, ranks, r);
        for (uint32_t c = 0; c < total; c++)
            if (place.cpus.bits[c / STK__LONG_BITS] >> c % STK__LONG_BITS & 1)
                assert_int_equal(on[c], place.ranks);
    }
    /* Where they divide evenly they are bound. */
    bool equal = true;
    for (uint32_t k = 1; k < num; k++)
        equal &= sizes[k] == sizes[0];
    if (equal && num > 1 && ranks > 1 && (ranks % num == 0 || num % ranks == 0))
        assert_int_equal(bound, ranks);
}

static void test_all_or_none(void **state)
{
    static const uint32_t sizes[][MOST] = {{8, 8},    {8, 7},          {16, 8},
                                           {8, 8, 8}, {4, 5, 4, 5},    {8, 8, 8, 8},
                                           {9, 1, 8}, {2, 2, 2, 2, 2}, {8, 8, 8, 8, 8, 8, 8, 8}};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        uint32_t num = 0;
        while (num < MOST && sizes[i][num])
            num++;
        for (uint64_t ranks = 1; ranks <= 12; ranks++)
            check_all(sizes[i], num, ranks);
    }
}

/* A quota is of all ranks: those of a node have as much of it as there are of them. */
static void quotas_are_shared(void **state)
{
    static const struct {
        double quota;
        uint32_t usable, preparation, all;
    } cases[] = {{0, 16, 7, 32}, {8, 4, 1, 8}, {64, 16, 7, 32}, {1, 1, 1, 1}};
    const stk__place place = {
        .bound = true, .all = 32, .cores = 16, .ranks = 2, .nodes = 2, .own = 1};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_cores cores = {.usable = 32, .affinity = 32, .quota = cases[i].quota, .ranks = 4};
        stk__cores_take(&place, 1, &cores);
        assert_int_equal(cores.usable, cases[i].usable);
        assert_int_equal(cores.preparation, cases[i].preparation);
        assert_int_equal(cores.affinity, 16);
        assert_int_equal(cores.ranks, 2);
        assert_int_equal(cores.all_usable, cases[i].all);
        assert_int_equal(cores.all_ranks, 4);
    }
}

int main(void)
{
#define PLANTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        PLANTED(test_even),
        PLANTED(test_uneven),
        PLANTED(test_narrowed),
        PLANTED(test_bound_together),
        PLANTED(test_hostile),
        PLANTED(test_all_or_none),
        cmocka_unit_test(quotas_are_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
