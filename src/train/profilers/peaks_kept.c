/* SPDX-License-Identifier: Apache-2.0 */
/* Peaks of a machine, kept in a folder: one small text for each kind of machine and of training. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <stoker/store.h>

#include "base/context.h"
#include "base/crc32c.h"
#include "base/durable.h"
#include "base/lines.h"
#include "base/text.h"
#include "base/url.h"
#include "train/profilers/peaks.h"

#define HOLD_NS  UINT64_C(20000000000) /* the longest wait for another that measures */
#define TRIED_NS UINT64_C(10000000)    /* how often it is looked at meanwhile */

/* The rest of the first line that begins with `key`, behind its colon; false: there is none. */
static bool value_of(const char *text, const char *key, char *out, size_t size)
{
    const size_t length = strlen(key);

    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, key, length) != 0)
            continue;
        const char *value = strchr(line, ':');
        if (!value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
        return *out != 0;
    }
    return false;
}

/* What the kernel calls the processor. */
static void name_cpu(char *out, size_t size)
{
    char text[4096], part[32];
    struct utsname system;

    if (stk__read_small("/proc/cpuinfo", text, sizeof text)) {
        if (value_of(text, "model name", out, size))
            return;
        if (value_of(text, "CPU implementer", out, size / 2) &&
            value_of(text, "CPU part", part, sizeof part)) {
            const size_t used = strlen(out);
            snprintf(out + used, size - used, " %s", part);
            return;
        }
    }
    snprintf(out, size, "%s", uname(&system) == 0 ? system.machine : "unknown");
}

void stk__peaks_key_of(stk_context *ctx, const char *precision, stk__peaks_key *out)
{
    stk_cores cores = {.struct_size = sizeof cores};
    char cpu[96];

    stk_context_cores(ctx, &cores);
    name_cpu(cpu, sizeof cpu);
    *out = (stk__peaks_key){.version = stk_version(),
                            .precision = stk_precision_name(stk_precision_of(precision)),
                            .threads = STK_MAX(cores.compute, 1u)};
    snprintf(out->cpu, sizeof out->cpu, "%s, %u cores", cpu, cores.usable);
    for (char *c = out->cpu; *c; c++)
        if ((unsigned char)*c < 0x20)
            *c = ' ';
}

/* ---- The text -------------------------------------------------------------------------------- */

static bool sound(double rate)
{
    return isfinite(rate) && rate > 0;
}

bool stk__peaks_parse(stk_context *ctx, const char *text, size_t length, const stk__peaks_key *key,
                      stk__peaks *out)
{
    char *version = NULL, *cpu = NULL, *precision = NULL, *copy = stk__alloc(ctx, length + 1);
    stk__peaks found = {0};
    uint64_t threads = 0;
    const stk__line lines[] = {{"version", STK__LINE_TEXT, &version, 0, NULL},
                               {"cpu", STK__LINE_TEXT, &cpu, 0, NULL},
                               {"precision", STK__LINE_TEXT, &precision, 0, NULL},
                               {"threads", STK__LINE_UINT, &threads, UINT32_MAX, NULL},
                               {"flops_per_s", STK__LINE_DOUBLE, &found.flops_per_s, 0, NULL},
                               {"bytes_per_s", STK__LINE_DOUBLE, &found.bytes_per_s, 0, NULL}};
    stk_error err;
    bool good = copy != NULL;

    if (good) {
        memcpy(copy, text, length);
        copy[length] = 0;
        good = strlen(copy) == length &&
               stk__lines_read(ctx, "peaks", copy, lines, STK_COUNT(lines), &err) == STK_OK;
    }
    good = good && strcmp(version, key->version) == 0 && strcmp(cpu, key->cpu) == 0 &&
           strcmp(precision, key->precision) == 0 && threads == key->threads &&
           sound(found.flops_per_s) && sound(found.bytes_per_s);
    if (good)
        *out = found;
    stk__free(ctx, version);
    stk__free(ctx, cpu);
    stk__free(ctx, precision);
    stk__free(ctx, copy);
    return good;
}

/* The name tells machines that share a folder apart. */
char *stk__peaks_path(stk_context *ctx, const char *folder, const stk__peaks_key *key)
{
    const uint32_t cpu = stk__crc32c(0, (const uint8_t *)key->cpu, strlen(key->cpu));
    char name[128];

    snprintf(name, sizeof name, "peaks-%08" PRIx32 "-%.60s-%" PRIu32, cpu, key->precision,
             key->threads);
    return stk__url_below(ctx, folder, name);
}

void stk__peaks_keep(stk_context *ctx, const char *folder, const stk__peaks_key *key,
                     const stk__peaks *peaks)
{
    char *path = stk__peaks_path(ctx, folder, key);
    stk__text text = {.ctx = ctx};
    stk_error err;

    if (!sound(peaks->flops_per_s) || !sound(peaks->bytes_per_s)) {
        stk__free(ctx, path);
        return;
    }
    stk__text_add(&text, "version %s\ncpu %s\nprecision %s\nthreads %u\n", key->version, key->cpu,
                  key->precision, key->threads);
    stk__text_add_double(&text, "flops_per_s", peaks->flops_per_s);
    stk__text_add_double(&text, "bytes_per_s", peaks->bytes_per_s);
    if (path && !text.failed &&
        stk_put_bytes(ctx, path, text.bytes, text.length, NULL, &err) != STK_OK)
        stk_error_init(&err);
    stk__text_release(&text);
    stk__free(ctx, path);
}

/* ---- One at a time --------------------------------------------------------------------------- */

int stk__peaks_hold(stk_context *ctx, const char *folder, const stk__peaks_key *key)
{
    const uint64_t until = stk__now_ns() + HOLD_NS;
    char *local = NULL, *path = NULL;
    stk_error err;
    int fd = -1;

    if (!stk__url_elsewhere(ctx, folder) && stk__url_local(ctx, folder, &local, &err) == STK_OK &&
        stk__durable_path(ctx, NULL, local, &err) == STK_OK)
        path = stk__peaks_path(ctx, local, key);
    if (path)
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || stk__now_ns() >= until) {
            close(fd);
            fd = -1;
        } else {
            stk__sleep_until(stk__now_ns() + TRIED_NS, NULL);
        }
    }
    stk__free(ctx, local);
    stk__free(ctx, path);
    return fd;
}

void stk__peaks_let_go(int fd)
{
    if (fd >= 0)
        close(fd);
}
