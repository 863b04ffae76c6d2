/* SPDX-License-Identifier: Apache-2.0 */
/* The load of the machine, from a /proc and /sys of the test's own, and from the real ones. */
#include "support/support.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measure/measure.h"

static const char *root;

static void put(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0777);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static json_t *members(stk__system *system, uint64_t now_ns)
{
    char text[STK__SYSTEM_MEMBERS], object[STK__SYSTEM_MEMBERS + 8];

    stk__system_members(system, now_ns, text, sizeof text);
    snprintf(object, sizeof object, "{%s}", text);
    json_t *out = json_loads(object, 0, NULL);
    assert_non_null(out);
    return out;
}

static double value(json_t *from, const char *group, const char *name)
{
    json_t *v = json_object_get(json_object_get(from, group), name);

    return json_is_number(v) ? json_number_value(v) : NAN;
}

static void set_counts(uint64_t ticks, uint64_t usage_us, uint64_t asked)
{
    char text[256];

    snprintf(text, sizeof text, "cpu  %llu 0 0 777 5 0 0 0 0 0\ncpu0 1 2 3\n",
             (unsigned long long)ticks);
    put("proc/stat", text);
    snprintf(text, sizeof text, "usage_usec %llu\nuser_usec 1\n", (unsigned long long)usage_us);
    put("sys/fs/cgroup/a/cpu.stat", text);
    snprintf(text, sizeof text, "rchar: %llu\nwchar: 5\nread_bytes: 4096\nwrite_bytes: 0\n",
             (unsigned long long)asked);
    put("proc/self/io", text);
}

/* Two looks half a second apart: cores, bytes held, bytes a second. What is not told is left out.
 */
static void test_rates(void **state)
{
    stk__system system;
    long hz = sysconf(_SC_CLK_TCK);

    char folder[256];
    root = test_folder(folder);
    put("proc/self/cgroup", "0::/a/b\n");
    put("proc/self/status",
        "Name:\tx\nVmRSS:\t 900 kB\nRssAnon:\t     100 kB\nRssShmem:\t 28 kB\n");
    put("sys/fs/cgroup/a/memory.current", "1048576\n");
    set_counts(1000, 5000000, 10000);
    stk__system_open(&system, root, 1000000000);
    set_counts(1000 + (uint64_t)hz * 3 / 4, 5250000, 60000);
    json_t *m = members(&system, 1500000000);
    assert_true(fabs(value(m, "cpu", "machine") - 1.5) < 1e-9);
    assert_true(fabs(value(m, "cpu", "cgroup") - 0.5) < 1e-9);
    assert_true(value(m, "cpu", "process") >= 0);
    assert_true(value(m, "memory", "process_bytes") == 128 * 1024);
    assert_true(value(m, "memory", "cgroup_bytes") == 1 << 20);
    assert_true(value(m, "io", "asked_bytes_per_s") == 100000);
    assert_true(value(m, "io", "storage_bytes_per_s") == 0);
    assert_true(isnan(value(m, "io", "written_bytes_per_s")));
    json_decref(m);
    /* A counter that went back is no rate. */
    set_counts(10, 10, 10);
    m = members(&system, 2000000000);
    assert_true(value(m, "cpu", "machine") == 0 && value(m, "io", "asked_bytes_per_s") == 0);
    json_decref(m);
    test_folder_remove(root);
}

/* Nothing there: empty objects, not a word more. */
static void test_nothing(void **state)
{
    stk__system system;
    char text[STK__SYSTEM_MEMBERS];

    stk__system_open(&system, "/nowhere", 1);
    stk__system_members(&system, 1000, text, sizeof text);
    assert_non_null(strstr(text, "\"memory\": {}, \"io\": {}"));
    assert_null(strstr(text, "machine"));
}

/* While a run goes on, and only then, the log has the event four times a second. */
static void test_log(void **state)
{
    char path[] = "/tmp/stk_system_log_XXXXXX", line[4096];
    stk_context *ctx = test_context();
    int fd = mkstemp(path), found = 0, before = 0;
    bool run = false, over = false;
    stk_event_log *log;
    stk_error err;

    assert_true(fd >= 0);
    close(fd);
    assert_ok(stk_event_log_open(ctx, path, &log, &err), &err);
    stk_event_log_write(log, "run start", NULL, 0, STK_NO_DURATION, NULL);
    for (uint64_t until = stk__now_ns() + 10000000000u; !found && stk__now_ns() < until;) {
        stk__sleep_until(stk__now_ns() + 50000000, NULL);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f))
            found += strstr(line, "{\"event\": \"system\"") != NULL;
        fclose(f);
    }
    stk_event_log_write(log, "run end", NULL, 0, 0, NULL);
    stk__sleep_until(stk__now_ns() + 600000000, NULL);
    assert_ok(stk_event_log_close(&log, &err), &err);
    FILE *f = fopen(path, "r");
    for (found = 0; fgets(line, sizeof line, f);) {
        json_t *event = json_loads(line, 0, NULL);
        assert_non_null(event);
        const char *name = json_string_value(json_object_get(event, "event"));
        run |= strcmp(name, "run start") == 0;
        over |= strcmp(name, "run end") == 0;
        if (strcmp(name, "system") == 0) {
            found++;
            before += !run || over;
            assert_true(value(event, "memory", "process_bytes") > 0);
        }
        json_decref(event);
    }
    fclose(f);
    unlink(path);
    assert_true(found > 0);
    assert_int_equal(before, 0);
    stk_context_destroy(&ctx);
}

#define HELD ((size_t)64 << 20)

static uint64_t turn(void)
{
    uint64_t x = 1;

    for (int i = 0; i < 20000000; i++)
        x = x * UINT64_C(6364136223846793005) + 1;
    return x;
}

static void test_usage(void **state)
{
    stk__usage before, after;

    stk__usage_get(&before);
    uint64_t x = turn();
    char *held = malloc(HELD);
    assert_non_null(held);
    for (size_t i = 0; i < HELD; i += 4096)
        ((volatile char *)held)[i] = (char)x;
    stk__usage_get(&after);
    assert_true(after.cpu_ns > before.cpu_ns && after.machine_busy_ns >= before.machine_busy_ns);
    assert_true(after.memory_bytes >= before.memory_bytes + HELD / 2);
    assert_true(after.runnable_ns >= before.runnable_ns);
    assert_int_equal(after.io_threads, 0);
    free(held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_usage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
