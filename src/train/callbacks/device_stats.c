/* SPDX-License-Identifier: Apache-2.0 */
/* DeviceStatsMonitor: how busy the machine is, from /proc. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "train/callbacks/callback.h"

typedef struct device_stats_options {
    uint32_t struct_size;
    bool cpu_stats;
} device_stats_options;

typedef struct device_stats {
    stk_callback base;
    bool cpu_stats;
    uint64_t busy, total; /* of /proc/stat when it was last looked at */
} device_stats;

static const stk_option options[] = {
    {"cpu_stats", STK_OPTION_BOOL, offsetof(device_stats_options, cpu_stats), "true", 0, 0, NULL,
     NULL, "Log the processor's load and the memory in use."},
};

static const stk_option_table table = {.name = "device_stats",
                                       .doc = "Logs how busy the machine is.",
                                       .struct_size = sizeof(device_stats_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    const device_stats_options *o = given;

    if (!o->cpu_stats)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "cpu_stats", STK_NO_OFFSET,
                            "device_stats.cpu_stats: false leaves nothing to log on a cpu");
    device_stats *self = stk__callback_new(ctx, &stk__callback_device_stats, sizeof *self);
    if (!self)
        return stk__callback_no_memory("device_stats", err);
    self->cpu_stats = o->cpu_stats;
    *out = &self->base;
    return STK_OK;
}

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, callback);
}

/* The beginning of a file as text; false: it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    const ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Busy share since the last look [proc(5): user nice system idle iowait irq softirq steal]. */
static double cpu_percent(device_stats *self)
{
    char text[512], *at = text + 4;
    uint64_t total = 0, idle = 0;

    if (!read_text("/proc/stat", text, sizeof text) || strncmp(text, "cpu ", 4))
        return 0;
    for (int i = 0; i < 8; i++) {
        const uint64_t value = strtoull(at, &at, 10);
        total += value;
        idle += i == 3 || i == 4 ? value : 0;
    }
    const uint64_t busy = total - idle, spent = total - self->total;
    const double percent = spent ? 100 * (double)(busy - self->busy) / (double)spent : 0;
    self->busy = busy;
    self->total = total;
    return percent;
}

static double kib_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? (double)strtoull(at + strlen(name), NULL, 10) : 0;
}

static stk_status log_now(device_stats *self, stk_trainer *t, const stk_moment *at,
                          const char *const line_names[3], stk_error *err)
{
    char text[4096];

    if (!stk__callback_logs(t, at) || !stk__callback_info(t).logs)
        return STK_OK;
    if (!read_text("/proc/meminfo", text, sizeof text))
        *text = 0;
    const double total = kib_of(text, "MemTotal:"), there = kib_of(text, "MemAvailable:");
    const double swap = kib_of(text, "SwapTotal:"), swap_free = kib_of(text, "SwapFree:");
    const stk_metric line[3] = {
        {line_names[0], cpu_percent(self)},
        {line_names[1], total > 0 ? 100 * (total - there) / total : 0},
        {line_names[2], swap > 0 ? 100 * (swap - swap_free) / swap : 0},
    };
    return stk_trainer_log_metrics(t, line, 3, err);
}

static const char *const names[6] = {"DeviceStatsMonitor.on_train_batch_start/cpu_percent",
                                     "DeviceStatsMonitor.on_train_batch_start/cpu_vm_percent",
                                     "DeviceStatsMonitor.on_train_batch_start/cpu_swap_percent",
                                     "DeviceStatsMonitor.on_train_batch_end/cpu_percent",
                                     "DeviceStatsMonitor.on_train_batch_end/cpu_vm_percent",
                                     "DeviceStatsMonitor.on_train_batch_end/cpu_swap_percent"};

static stk_status on_train_batch_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    return log_now((device_stats *)callback, t, at, names, err);
}

static stk_status on_train_batch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    return at->steps ? log_now((device_stats *)callback, t, at, names + 3, err) : STK_OK;
}

static const char *logs(stk_callback *callback, stk_trainer *t, size_t i)
{
    return i < STK_COUNT(names) ? names[i] : NULL;
}

const stk_callback_ops stk__callback_device_stats = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "device_stats",
    .doc = "logs how busy the machine is",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .on_train_batch_start = on_train_batch_start,
    .on_train_batch_end = on_train_batch_end,
    .logs = logs,
};
