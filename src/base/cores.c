/* SPDX-License-Identifier: Apache-2.0 */
/* What this process may use: affinity mask, cgroup quota and limits, physical memory. */
#include "base/context.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOST_CPUS 8192

bool stk__read_small(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    /* The kernel gives files of many lines in pieces. */
    size_t length = 0;
    ssize_t got = 0;
    while (length < size - 1 && (got = read(fd, text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    const bool good = got >= 0 || length > 0;
    close(fd);
    text[good ? length : 0] = 0;
    return good;
}

/* The path of this process in a hierarchy: "" means v2, else the controller's name of v1. */
static bool cgroup_path(const char *root, const char *controller, char *path, size_t size)
{
    char file[512], text[4096], *line = text;

    snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
    if (!stk__read_small(file, text, sizeof text))
        return false;
    for (char *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *names = strchr(line, ':'), *where = names ? strchr(names + 1, ':') : NULL;
        if (!where)
            continue;
        *where++ = 0;
        names++;
        size_t length = strlen(controller);
        bool here = *controller == 0 ? *names == 0 : false;
        for (const char *p = names; *controller && p && !here;
             p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
            here = !strncmp(p, controller, length) && (p[length] == 0 || p[length] == ',');
        if (here) {
            snprintf(path, size, "%s", where);
            return true;
        }
    }
    return false;
}

/* Call `visit` with the folder of each cgroup from this process's up to the root of the hierarchy.
 */
static void each_cgroup(const char *root, const char *mount, char *path,
                        void (*visit)(const char *, void *), void *user)
{
    char folder[1024];

    for (;;) {
        snprintf(folder, sizeof folder, "%s%s%s", root, mount, strcmp(path, "/") ? path : "");
        visit(folder, user);
        char *slash = strrchr(path, '/');
        if (!slash || !*path || !strcmp(path, "/"))
            return;
        slash[slash == path] = 0;
    }
}

static void quota_v2(const char *folder, void *user)
{
    char file[1100], text[128];
    double quota, period, *least = user;

    snprintf(file, sizeof file, "%s/cpu.max", folder);
    if (stk__read_small(file, text, sizeof text) && sscanf(text, "%lf %lf", &quota, &period) == 2 &&
        period > 0 && quota > 0 && (*least == 0 || quota / period < *least))
        *least = quota / period;
}

static void quota_v1(const char *folder, void *user)
{
    char file[1100], text[64];
    double quota, period, *least = user;

    snprintf(file, sizeof file, "%s/cpu.cfs_quota_us", folder);
    if (!stk__read_small(file, text, sizeof text) || sscanf(text, "%lf", &quota) != 1 || quota <= 0)
        return;
    snprintf(file, sizeof file, "%s/cpu.cfs_period_us", folder);
    if (stk__read_small(file, text, sizeof text) && sscanf(text, "%lf", &period) == 1 &&
        period > 0 && (*least == 0 || quota / period < *least))
        *least = quota / period;
}

static void read_limit(const char *folder, const char *name, uint64_t *least)
{
    char file[1100], text[64], *end;

    snprintf(file, sizeof file, "%s/%s", folder, name);
    if (!stk__read_small(file, text, sizeof text))
        return;
    uint64_t limit = strtoull(text, &end, 10);
    if (end != text && limit > 0)
        *least = STK_MIN(*least, limit);
}

static void memory_v2(const char *folder, void *user)
{
    read_limit(folder, "memory.max", user);
    read_limit(folder, "memory.high", user);
}

static void memory_v1(const char *folder, void *user)
{
    read_limit(folder, "memory.limit_in_bytes", user);
}

/* From so many cores on a second one stays free. */
#define SECOND_FREE 16

uint32_t stk__cores_workers(uint32_t usable, uint32_t compute, uint32_t ranks)
{
    const uint32_t share = usable / STK_MAX(ranks, 1u);
    const uint32_t kept = STK_MAX(compute, share >= SECOND_FREE ? 2u : 1u);

    return share > kept ? share - kept : 1;
}

void stk__cores_divide(uint32_t compute, uint32_t ranks, stk_cores *cores)
{
    cores->ranks = STK_MAX(ranks, 1u);
    cores->compute = STK_MIN(compute ? compute : 1, STK_MAX(cores->usable / cores->ranks, 1u));
    cores->preparation = stk__cores_workers(cores->usable, cores->compute, cores->ranks);
    cores->io = 1;
}

/* A part of a core is of no use to a thread that wants a whole one. */
static uint32_t whole_cores(uint32_t cores, double quota)
{
    cores = STK_MAX(cores, 1);
    return quota > 0 && quota < cores ? STK_MAX((uint32_t)(quota + 0.01), 1) : cores;
}

void stk__cores_find(const char *root, uint32_t compute, uint32_t ranks, stk_cores *out)
{
    char path[512];
    cpu_set_t *set = CPU_ALLOC(MOST_CPUS);
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    *out = (stk_cores){.struct_size = sizeof *out, .online = online > 0 ? (uint32_t)online : 1};
    out->affinity = out->online;
    if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(MOST_CPUS), set) == 0)
        out->affinity = (uint32_t)CPU_COUNT_S(CPU_ALLOC_SIZE(MOST_CPUS), set);
    CPU_FREE(set);
    if (cgroup_path(root, "", path, sizeof path)) {
        each_cgroup(root, "/sys/fs/cgroup", path, quota_v2, &out->quota);
    }
    if (cgroup_path(root, "cpu", path, sizeof path))
        each_cgroup(root, "/sys/fs/cgroup/cpu", path, quota_v1, &out->quota);
    out->usable = whole_cores(out->affinity, out->quota);
    stk__cores_divide(compute, ranks, out);
}

void stk__cores_take(const stk__place *place, uint32_t compute, stk_cores *cores)
{
    /* A process that is on its nodes already sees no more than these. */
    cores->all_usable = place->bound ? whole_cores(place->all, cores->quota) : cores->usable;
    cores->all_ranks = cores->ranks;
    cores->nodes = place->nodes;
    cores->own_nodes = place->own;
    cores->bound = place->bound;
    snprintf(cores->node_list, sizeof cores->node_list, "%s", place->list);
    if (place->bound) {
        cores->affinity = place->cores;
        cores->usable = whole_cores(place->cores, cores->quota * place->ranks / cores->ranks);
    }
    stk__cores_divide(compute, place->ranks, cores);
}

struct wanted {
    const char *name;
    char *path;
    size_t size;
};

static void find_file(const char *folder, void *user)
{
    const struct wanted *w = user;

    if (w->path[0])
        return;
    int n = snprintf(w->path, w->size, "%s/%s", folder, w->name);
    if (n < 0 || (size_t)n >= w->size || access(w->path, R_OK) != 0)
        w->path[0] = 0;
}

void stk__cgroup_file(const char *root, const char *controller, const char *v2, const char *v1,
                      char *path, size_t size)
{
    char group[512], mount[64];
    struct wanted wanted = {v2, path, size};

    path[0] = 0;
    if (cgroup_path(root, "", group, sizeof group))
        each_cgroup(root, "/sys/fs/cgroup", group, find_file, &wanted);
    wanted.name = v1;
    snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", controller);
    if (!path[0] && cgroup_path(root, controller, group, sizeof group))
        each_cgroup(root, mount, group, find_file, &wanted);
}

uint64_t stk__memory_find(const char *root)
{
    char path[512];
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t least = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_C(1) << 32;

    if (cgroup_path(root, "", path, sizeof path))
        each_cgroup(root, "/sys/fs/cgroup", path, memory_v2, &least);
    if (cgroup_path(root, "memory", path, sizeof path))
        each_cgroup(root, "/sys/fs/cgroup/memory", path, memory_v1, &least);
    return least;
}

static void take_less(int resource, uint64_t used, uint64_t *least)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        *least = STK_MIN(*least, limit.rlim_cur > used ? limit.rlim_cur - used : 0);
}

uint64_t stk__memory_room(const char *root)
{
    char path[512], text[4096];
    const uint64_t page = (uint64_t)STK_MAX(sysconf(_SC_PAGESIZE), 1);
    unsigned long long total = 0, data = 0;
    uint64_t least = UINT64_MAX;

    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    const char *line =
        stk__read_small(path, text, sizeof text) ? strstr(text, "MemAvailable:") : NULL;
    if (line)
        least = strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024;
    snprintf(path, sizeof path, "%s/proc/self/statm", root);
    if (stk__read_small(path, text, sizeof text) &&
        sscanf(text, "%llu %*u %*u %*u %*u %llu", &total, &data) == 2) {
        take_less(RLIMIT_AS, total * page, &least);
        take_less(RLIMIT_DATA, data * page, &least);
    }
    return least;
}
