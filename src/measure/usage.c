/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tells of this process and its threads at one moment. */
#include "measure/measure.h"

#include <dirent.h>
#include <stdio.h>

#include "base/context.h"

#define READER "stk-io\n" /* what the threads that read are called */

static void add_thread(const char *name, stk__usage *usage)
{
    char path[300], text[128];
    unsigned long long delay;

    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", name);
    if (stk__read_small(path, text, sizeof text) && sscanf(text, "%*u %llu", &delay) == 1)
        usage->runnable_ns += delay;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", name);
    if (stk__read_small(path, text, sizeof text))
        usage->io_threads += strcmp(text, READER) == 0;
}

void stk__usage_get(stk__usage *out)
{
    static const stk__system here = {.root = ""};
    stk__usage usage = {.cpu_ns = stk__process_cpu_ns()};

    usage.machine_busy_ns = stk__system_machine_ns(&here);
    usage.memory_bytes = stk__system_process_bytes(&here);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            add_thread(entry->d_name, &usage);
    if (tasks)
        closedir(tasks);
    *out = usage;
}
