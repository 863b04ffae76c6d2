/* SPDX-License-Identifier: Apache-2.0 */
/* What this process and all below it take: workers of a loader in Python are processes. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "base/context.h"
#include "bench/bench.h"

#define TREE_DEPTH 16   /* a fork server, its workers, a cluster of each */
#define LIST_BYTES 8192 /* of the children of a thread: a thousand */

typedef uint64_t tree_count(const char *pid);

static uint64_t count_tree(const char *pid, unsigned depth, tree_count *count)
{
    char path[64], list[LIST_BYTES];
    uint64_t sum = count(pid);

    if (depth == TREE_DEPTH)
        return sum;
    snprintf(path, sizeof path, "/proc/%.20s/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/children", pid, task->d_name);
        if (task->d_name[0] == '.' || !stk__read_small(path, list, sizeof list))
            continue;
        char *rest = list;
        for (const char *child; (child = strtok_r(rest, " ", &rest));)
            sum += count_tree(child, depth + 1, count);
    }
    if (tasks)
        closedir(tasks);
    return sum;
}

static uint64_t cpu_ns(const char *pid)
{
    char path[64], text[1024];
    unsigned long long user, system;
    long long user_ended, system_ended;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    /* The name of the command may hold anything; what is behind it is numbers. */
    const char *behind = stk__read_small(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    if (!behind ||
        sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld", &user,
               &system, &user_ended, &system_ended) != 4)
        return 0;
    return (user + system + (uint64_t)(user_ended + system_ended)) *
           (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

static uint64_t held_bytes(const char *pid)
{
    static const char *const names[] = {"\nPss_Anon:", "\nPss_Shmem:"};
    char path[64], text[4096];
    uint64_t sum = 0;

    snprintf(path, sizeof path, "/proc/%.20s/smaps_rollup", pid);
    if (!stk__read_small(path, text, sizeof text))
        return 0;
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        const char *at = strstr(text, names[i]);
        sum += at ? strtoull(at + strlen(names[i]), NULL, 10) * 1024 : 0;
    }
    return sum;
}

uint64_t stk__bench_tree_cpu_ns(void)
{
    return count_tree("self", 0, cpu_ns);
}

uint64_t stk__bench_tree_bytes(void)
{
    return count_tree("self", 0, held_bytes);
}
