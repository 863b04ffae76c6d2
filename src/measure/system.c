/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tells of this process, its cgroup and the machine, over time: /proc, cgroup v1
 * and v2. */
#include "measure/measure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/context.h"

#define NS UINT64_C(1000000000)

static bool read_proc(const stk__system *s, const char *name, char *text, size_t size)
{
    char path[512];

    snprintf(path, sizeof path, "%s/proc/%s", s->root, name);
    return stk__read_small(path, text, size);
}

/* The number behind a key at the begin of a line. */
static bool number_after(const char *text, const char *key, uint64_t *out)
{
    size_t length = strlen(key);

    for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at ? 1 : 0)
        if (strncmp(at, key, length) == 0) {
            char *end;
            *out = strtoull(at + length, &end, 10);
            return end != at + length;
        }
    return false;
}

uint64_t stk__system_machine_ns(const stk__system *s)
{
    char text[512];
    unsigned long long t[8] = {0};
    long hz = sysconf(_SC_CLK_TCK);

    if (hz <= 0 || !read_proc(s, "stat", text, sizeof text) ||
        sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
               &t[4], &t[5], &t[6], &t[7]) < 7)
        return 0;
    return (t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) * (NS / (uint64_t)hz);
}

/* CPU time of the cgroup: "usage_usec N" among others in v2, nanoseconds alone in v1. */
static uint64_t cgroup_ns(const stk__system *s)
{
    char text[1024];
    uint64_t value;

    if (!s->cpu_file[0] || !stk__read_small(s->cpu_file, text, sizeof text))
        return 0;
    if (number_after(text, "usage_usec ", &value))
        return value * 1000;
    return strtoull(text, NULL, 10);
}

uint64_t stk__system_process_bytes(const stk__system *s)
{
    char text[4096];
    uint64_t value, sum = 0;

    if (!read_proc(s, "self/status", text, sizeof text))
        return 0;
    sum += number_after(text, "RssAnon:", &value) ? value * 1024 : 0;
    sum += number_after(text, "RssShmem:", &value) ? value * 1024 : 0;
    return sum;
}

static void take(const stk__system *s, stk__system_counts *out)
{
    char text[4096];

    *out = (stk__system_counts){.process_ns = stk__process_cpu_ns()};
    out->machine_ns = stk__system_machine_ns(s);
    out->process_bytes = stk__system_process_bytes(s);
    out->cgroup_ns = cgroup_ns(s);
    if (read_proc(s, "self/io", text, sizeof text)) {
        number_after(text, "rchar: ", &out->asked);
        number_after(text, "read_bytes: ", &out->stored);
        number_after(text, "write_bytes: ", &out->written);
    }
    if (s->memory_file[0] && stk__read_small(s->memory_file, text, sizeof text))
        out->cgroup_bytes = strtoull(text, NULL, 10);
}

void stk__system_open(stk__system *system, const char *root, uint64_t now_ns)
{
    *system = (stk__system){.root = root, .at_ns = now_ns};
    stk__cgroup_file(root, "cpuacct", "cpu.stat", "cpuacct.usage", system->cpu_file,
                     sizeof system->cpu_file);
    stk__cgroup_file(root, "memory", "memory.current", "memory.usage_in_bytes", system->memory_file,
                     sizeof system->memory_file);
    take(system, &system->last);
}

/* ---- Members of the event -------------------------------------------------------------------- */

struct text {
    char *at;
    size_t left;
};

static void put(struct text *t, const char *format, ...) STK_PRINTF(2, 3);

static void put(struct text *t, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int n = vsnprintf(t->at, t->left, format, arguments);
    va_end(arguments);
    if (n > 0 && (size_t)n < t->left) {
        t->at += n;
        t->left -= (size_t)n;
    }
}

/* Growth a second of a counter; what the kernel does not tell stays 0 and is left out. */
static void put_rate(struct text *t, const char *name, uint64_t from, uint64_t to, double scale)
{
    if (to)
        put(t, "%s\"%s\": %.6g", t->at[-1] == '{' ? "" : ", ", name,
            to > from ? (double)(to - from) * scale : 0.0);
}

static void put_bytes(struct text *t, const char *name, uint64_t bytes)
{
    if (bytes)
        put(t, "%s\"%s\": %llu", t->at[-1] == '{' ? "" : ", ", name, (unsigned long long)bytes);
}

void stk__system_members(stk__system *system, uint64_t now_ns, char *out, size_t size)
{
    stk__system_counts now, then = system->last;
    struct text t = {out, size};
    uint64_t since = now_ns - system->at_ns;

    take(system, &now);
    system->last = now;
    system->at_ns = now_ns;
    double second = 1e9 / (double)STK_MAX(since, 1);
    put(&t, "\"cpu\": {");
    put_rate(&t, "process", then.process_ns, now.process_ns, second / 1e9);
    put_rate(&t, "cgroup", then.cgroup_ns, now.cgroup_ns, second / 1e9);
    put_rate(&t, "machine", then.machine_ns, now.machine_ns, second / 1e9);
    put(&t, "}, \"memory\": {");
    put_bytes(&t, "process_bytes", now.process_bytes);
    put_bytes(&t, "cgroup_bytes", now.cgroup_bytes);
    put(&t, "}, \"io\": {");
    put_rate(&t, "asked_bytes_per_s", then.asked, now.asked, second);
    put_rate(&t, "storage_bytes_per_s", then.stored, now.stored, second);
    put_rate(&t, "written_bytes_per_s", then.written, now.written, second);
    put(&t, "}");
}
