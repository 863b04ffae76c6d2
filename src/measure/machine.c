/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tells of the machine and of this process's place in it. */
#include "measure/machine.h"

#include <dirent.h>
#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/sized.h"
#include "base/text.h"

#define CPU       "/sys/devices/system/cpu/cpu0"
#define NODE      "/sys/devices/system/node"
#define LIST_TEXT 1024 /* bytes of a list of cores, "0-15,32-47" */

/* ---- Small files ----------------------------------------------------------------------------- */

void stk__machine_clean(char *out, size_t size, const char *text, size_t length)
{
    size_t at = 0;

    while (length && (unsigned char)*text <= ' ')
        text++, length--;
    while (length && (unsigned char)text[length - 1] <= ' ')
        length--;
    while (length) {
        const size_t n = stk__utf8_character(text, length);
        const bool plain = n > 1 ? (unsigned char)*text != 0xc2 || (unsigned char)text[1] >= 0xa0
                                 : n && (unsigned char)*text >= ' ' && *text != 0x7f;
        const size_t step = STK_MAX(n, (size_t)1), wanted = plain ? n : 1;
        if (at + wanted + 1 > size)
            break;
        memcpy(out + at, plain ? text : "?", wanted);
        at += wanted;
        text += step;
        length -= step;
    }
    out[at] = 0;
}

bool stk__machine_line(char *out, size_t size, const char *root, const char *format, ...)
{
    char path[STK__MACHINE_PATH], text[LIST_TEXT];
    const int n = snprintf(path, sizeof path, "%s", root);
    va_list arguments;

    *out = 0;
    if (n < 0 || (size_t)n >= sizeof path)
        return false;
    va_start(arguments, format);
    const int more = vsnprintf(path + n, sizeof path - (size_t)n, format, arguments);
    va_end(arguments);
    if (more < 0 || (size_t)(n + more) >= sizeof path || !stk__read_small(path, text, sizeof text))
        return false;
    stk__machine_clean(out, size, text, strcspn(text, "\n"));
    return *out;
}

uint64_t stk__machine_number(const char *root, const char *path)
{
    char text[32];
    const uint64_t value = stk__machine_line(text, sizeof text, root, "%s", path) && *text != '-'
                               ? strtoull(text, NULL, 10)
                               : 0;
    return value <= INT64_MAX ? value : 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

size_t stk__machine_names(const char *root, const char *folder, stk__machine_name *out, size_t most)
{
    char path[STK__MACHINE_PATH];
    size_t n = 0;

    snprintf(path, sizeof path, "%s%s", root, folder);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && n < most && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < sizeof *out)
            snprintf(out[n++], sizeof *out, "%s", entry->d_name);
    if (dir)
        closedir(dir);
    qsort(out, n, sizeof *out, compare_names);
    return n;
}

/* How many numbers a list of the kernel has: "0-3,8" has five. */
static uint32_t count_list(const char *text)
{
    uint64_t n = 0, from, to;

    while (stk__list_next(&text, &from, &to))
        n += STK_MIN(to - from, (uint64_t)UINT32_MAX) + 1;
    return n > UINT32_MAX ? 0 : (uint32_t)n;
}

static uint32_t count_of(const char *root, const char *path)
{
    char text[LIST_TEXT];

    return stk__machine_line(text, sizeof text, root, "%s", path) ? count_list(text) : 0;
}

/* What follows "KEY<blanks>:" or "KEY:" at the begin of a line, up to the line's end. */
static const char *value_of(const char *text, const char *key, size_t *length)
{
    const size_t n = strlen(key);

    for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at ? 1 : 0) {
        if (strncmp(at, key, n) != 0)
            continue;
        at += n + strspn(at + n, " \t");
        if (*at != ':')
            continue;
        *length = strcspn(at + 1, "\n");
        return at + 1;
    }
    return NULL;
}

/* ---- The processor --------------------------------------------------------------------------- */

/* Instruction sets that matter to what computes with vectors and matrices. */
static const char *const sets[] = {
    "sse4_2",      "avx",      "f16c",     "fma",      "avx2",        "avx_vnni",
    "avx512f",     "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd",       "asimddp",
    "asimdhp",     "bf16",     "i8mm",     "sve",      "sve2",
};

static bool has_word(const char *text, size_t length, const char *word)
{
    const size_t n = strlen(word);

    for (size_t at = 0; at + n <= length; at++)
        if (memcmp(text + at, word, n) == 0 && (at == 0 || text[at - 1] == ' ') &&
            (at + n == length || text[at + n] == ' '))
            return true;
    return false;
}

static void take_cpu(const char *root, stk_machine *out)
{
    char path[STK__MACHINE_PATH], text[8192];
    stk__text found = {.bytes = out->instructions, .room = sizeof out->instructions};
    size_t length;

    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    /* The first core's part alone: with all of them the kernel takes long. */
    const bool there = stk__read_small(path, text, sizeof text);
    const char *value = there ? value_of(text, "model name", &length) : NULL;
    if (!value && there)
        value = value_of(text, "Model", &length);
    if (value)
        stk__machine_clean(out->cpu, sizeof out->cpu, value, length);
    else
        stk__machine_line(out->cpu, sizeof out->cpu, root, "/sys/firmware/devicetree/base/model");
    value = there ? value_of(text, "flags", &length) : NULL;
    if (!value && there)
        value = value_of(text, "Features", &length);
    for (size_t i = 0; value && i < STK_COUNT(sets); i++)
        if (has_word(value, length, sets[i]))
            stk__text_add(&found, found.length ? " %s" : "%s", sets[i]);
    out->virtual_machine = value && has_word(value, length, "hypervisor");
    stk__machine_line(out->governor, sizeof out->governor, root, CPU "/cpufreq/scaling_governor");
}

static uint32_t share(uint32_t all, uint32_t part)
{
    return part ? STK_MAX(all / part, 1u) : 0;
}

static void take_topology(const char *root, uint32_t online, stk_machine *out)
{
    uint32_t siblings = count_of(root, CPU "/topology/core_cpus_list"),
             package = count_of(root, CPU "/topology/package_cpus_list");

    if (!siblings) /* names before Linux 5.3 */
        siblings = count_of(root, CPU "/topology/thread_siblings_list");
    if (!package)
        package = count_of(root, CPU "/topology/core_siblings_list");
    out->threads = count_of(root, "/sys/devices/system/cpu/online");
    if (!out->threads)
        out->threads = online;
    out->cores = share(out->threads, siblings);
    out->sockets = share(out->threads, package);
}

static uint64_t kib_of(const char *text, const char *key)
{
    size_t length;
    const char *value = value_of(text, key, &length);
    const uint64_t kib = value ? strtoull(value, NULL, 10) : 0;

    return kib <= INT64_MAX / 1024 ? kib * 1024 : 0;
}

static void take_nodes(const char *root, stk_machine *out)
{
    char list[LIST_TEXT], path[STK__MACHINE_PATH], text[4096], key[40];
    const char *at = list;
    uint64_t from, to;
    uint32_t n = 0;

    if (!stk__machine_line(list, sizeof list, root, NODE "/online"))
        return;
    out->nodes = count_list(list);
    while (stk__list_next(&at, &from, &to))
        for (; from <= to && n < STK_MACHINE_LIST; from++) {
            stk_machine_node *node = &out->memory_nodes[n++];
            node->node = (uint32_t)from;
            snprintf(path, sizeof path, NODE "/node%u/cpulist", node->node);
            node->threads = count_of(root, path);
            snprintf(path, sizeof path, "%s" NODE "/node%u/meminfo", root, node->node);
            snprintf(key, sizeof key, "Node %u MemTotal", node->node);
            if (stk__read_small(path, text, sizeof text))
                node->memory_bytes = kib_of(text, key);
        }
}

static void take_caches(const char *root, stk_machine *out)
{
    char text[LIST_TEXT], path[128];

    for (uint32_t i = 0; i < STK_MACHINE_LIST; i++) {
        stk_machine_cache *c = &out->caches[out->num_caches];
        char *unit;

        if (!stk__machine_line(text, sizeof text, root, CPU "/cache/index%u/size", i))
            break;
        c->bytes = strtoull(text, &unit, 10);
        if (!stk__mul_size(c->bytes,
                           *unit == 'K'   ? 1u << 10
                           : *unit == 'M' ? 1u << 20
                                          : 1,
                           &c->bytes) ||
            !c->bytes || c->bytes > INT64_MAX)
            continue;
        snprintf(path, sizeof path, CPU "/cache/index%u/level", i);
        c->level = (uint32_t)stk__machine_number(root, path);
        stk__machine_line(c->type, sizeof c->type, root, CPU "/cache/index%u/type", i);
        snprintf(path, sizeof path, CPU "/cache/index%u/shared_cpu_list", i);
        c->count = share(out->threads, count_of(root, path));
        out->num_caches++;
    }
}

/* ---- What this process may use --------------------------------------------------------------- */

static void take_container(const char *root, stk_machine *out)
{
    static const struct {
        const char *path, *name;
    } signs[] = {
        {"/run/secrets/kubernetes.io", "kubernetes"},
        {"/var/run/secrets/kubernetes.io", "kubernetes"},
        {"/run/.containerenv", "podman"},
        {"/.dockerenv", "docker"},
        {"/.singularity.d", "apptainer"},
    };
    char path[STK__MACHINE_PATH];

    for (size_t i = 0; i < STK_COUNT(signs) && !*out->container; i++) {
        snprintf(path, sizeof path, "%s%s", root, signs[i].path);
        if (access(path, F_OK) == 0)
            snprintf(out->container, sizeof out->container, "%s", signs[i].name);
    }
}

static void take_cores(const char *root, const stk_cores *cores, stk_machine *out)
{
    char path[512];

    out->affinity = cores->affinity;
    out->quota = cores->quota;
    out->usable = cores->usable;
    out->compute = cores->compute;
    out->preparation = cores->preparation;
    out->bound = cores->bound;
    snprintf(out->own_nodes, sizeof out->own_nodes, "%s", cores->node_list);
    if (cores->quota > 0) {
        stk__cgroup_file(root, "cpu", "cpu.max", "cpu.cfs_quota_us", path, sizeof path);
        out->cgroup = stk__ends_with(path, strlen(path), "/cpu.max") ? 2 : *path ? 1 : 0;
    }
}

static void take_memory(const char *root, uint64_t limit, stk_machine *out)
{
    char path[STK__MACHINE_PATH], text[4096];

    out->memory_limit_bytes = limit;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (!stk__read_small(path, text, sizeof text))
        return;
    out->memory_bytes = kib_of(text, "MemTotal");
    out->memory_free_bytes = kib_of(text, "MemAvailable");
    out->swap_bytes = kib_of(text, "SwapTotal");
}

/* ---- Versions -------------------------------------------------------------------------------- */

static void take_versions(const char *root, stk_machine *out)
{
    struct utsname name;
    char release[STK_MACHINE_TEXT - sizeof "Linux "];

    if (uname(&name) == 0)
        stk__machine_clean(out->architecture, sizeof out->architecture, name.machine,
                           strlen(name.machine));
    if (stk__machine_line(release, sizeof release, root, "/proc/sys/kernel/osrelease"))
        snprintf(out->kernel, sizeof out->kernel, "Linux %s", release);
    snprintf(out->libc, sizeof out->libc, "glibc %s", gnu_get_libc_version());
    snprintf(out->stoker, sizeof out->stoker, "%s", stk_version());
    snprintf(out->libraries, sizeof out->libraries, "%s", STK_BUILT_WITH);
}

/* ---- All ------------------------------------------------------------------------------------- */

void stk__machine_find(const char *root, const char *path, const stk_cores *cores, uint64_t limit,
                       stk_machine *out)
{
    *out = (stk_machine){.struct_size = sizeof *out};
    take_cpu(root, out);
    take_topology(root, cores->online, out);
    take_nodes(root, out);
    take_caches(root, out);
    take_cores(root, cores, out);
    take_container(root, out);
    take_memory(root, limit, out);
    stk__machine_disk(root, path, &out->disk);
    stk__machine_networks(root, out);
    stk__machine_accelerators(root, out);
    take_versions(root, out);
}

/* `path` without links and "..", or as far as it exists; else as it is. */
static void absolute(const char *path, char out[STK__MACHINE_PATH])
{
    char part[STK__MACHINE_PATH];

    snprintf(part, sizeof part, "%s", path ? path : ".");
    for (;;) {
        char *real = realpath(part, out);
        if (real)
            return;
        char *slash = strrchr(part, '/');
        if (!slash || slash == part)
            break;
        *slash = 0;
    }
    snprintf(out, STK__MACHINE_PATH, "%s", path && *path == '/' ? "/" : "");
    if (!*out && !realpath(".", out))
        snprintf(out, STK__MACHINE_PATH, "/");
}

void stk_machine_get(const stk_context *context, const char *path, stk_machine *out)
{
    stk_cores cores = {.struct_size = sizeof cores};
    char whole[STK__MACHINE_PATH];
    stk_machine machine;

    stk_context_cores(context, &cores);
    absolute(path, whole);
    stk__machine_find("", whole, &cores, stk__context_memory_limit(context), &machine);
    stk__sized_write(out, &machine);
}
