/* SPDX-License-Identifier: Apache-2.0 */
/* Links to other machines, and accelerators, as the drivers in the kernel list them: nothing is
 * opened or woken up. */
#include "measure/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAMES_MOST 256 /* entries of a folder that are looked at */

static bool there(const char *root, const char *folder, const char *name, const char *file)
{
    char path[STK__MACHINE_PATH];

    snprintf(path, sizeof path, "%s%s/%s/%s", root, folder, name, file);
    return access(path, F_OK) == 0;
}

/* ---- Networks -------------------------------------------------------------------------------- */

#define NET        "/sys/class/net"
#define INFINIBAND "/sys/class/infiniband"

static stk_machine_network *add_network(stk_machine *out, const char *name, const char *kind)
{
    static stk_machine_network none; /* what has no place is counted */
    stk_machine_network *n =
        out->num_networks < STK_MACHINE_LIST ? &out->networks[out->num_networks] : &none;

    out->num_networks++;
    if (n != &none) {
        stk__machine_clean(n->name, sizeof n->name, name, strlen(name));
        snprintf(n->kind, sizeof n->kind, "%s", kind);
    }
    return n == &none ? NULL : n;
}

static void take_interface(const char *root, const char *name, stk_machine *out)
{
    char path[160], text[32];

    /* Those without hardware (bridges, tunnels, the loop) are no links of the machine. */
    if (!there(root, NET, name, "device"))
        return;
    stk_machine_network *n =
        add_network(out, name, there(root, NET, name, "wireless") ? "wireless" : "ethernet");
    if (!n)
        return;
    n->up = stk__machine_line(text, sizeof text, root, NET "/%s/operstate", name) &&
            (strcmp(text, "up") == 0 || strcmp(text, "unknown") == 0);
    snprintf(path, sizeof path, NET "/%s/speed", name);
    n->bits_per_s = 1e6 * (double)stk__machine_number(root, path);
}

/* "100 Gb/sec (4X EDR)" of each port. */
static void take_adapter(const char *root, const char *name, stk_machine *out)
{
    stk__machine_name ports[STK_MACHINE_LIST];
    char path[160], text[64];

    snprintf(path, sizeof path, INFINIBAND "/%s/ports", name);
    const size_t n = stk__machine_names(root, path, ports, STK_COUNT(ports));
    for (size_t i = 0; i < n; i++) {
        stk_machine_network *link = add_network(out, name, "infiniband");
        if (!link)
            continue;
        if (stk__machine_line(text, sizeof text, root, "%s/%s/rate", path, ports[i]))
            link->bits_per_s = 1e9 * strtod(text, NULL);
        link->up = stk__machine_line(text, sizeof text, root, "%s/%s/state", path, ports[i]) &&
                   strstr(text, "ACTIVE");
    }
}

void stk__machine_networks(const char *root, stk_machine *out)
{
    stk__machine_name names[NAMES_MOST];
    size_t n = stk__machine_names(root, NET, names, NAMES_MOST);

    for (size_t i = 0; i < n; i++)
        take_interface(root, names[i], out);
    n = stk__machine_names(root, INFINIBAND, names, NAMES_MOST);
    for (size_t i = 0; i < n; i++)
        take_adapter(root, names[i], out);
}

/* ---- Accelerators ---------------------------------------------------------------------------- */

#define NVIDIA "/proc/driver/nvidia"
#define DRM    "/sys/class/drm"

static stk_machine_accelerator *add_accelerator(stk_machine *out)
{
    const uint32_t i = out->num_accelerators++;

    return i < STK_MACHINE_LIST ? &out->accelerators[i] : NULL;
}

/* The NUMA node of the accelerator that was added last, by the folder of its device. */
static void take_node(const char *root, const char *folder, const char *name, const char *more,
                      stk_machine *out)
{
    int32_t *node = &out->accelerator_nodes[out->num_accelerators - 1];
    char text[16];

    *node = -1;
    if (stk__machine_line(text, sizeof text, root, "%s/%s%s/numa_node", folder, name, more) &&
        *text >= '0' && *text <= '9')
        *node = (int32_t)STK_MIN(strtoul(text, NULL, 10), (unsigned long)INT32_MAX);
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu ...": the first word with digits
 * and points alone. */
static void nvidia_version(const char *root, char *out, size_t size)
{
    char text[512], *word = text;

    snprintf(out, size, "nvidia");
    if (!stk__machine_line(text, sizeof text, root, NVIDIA "/version"))
        return;
    while (*word) {
        const size_t n = strcspn(word, " \t");
        if (n > 2 && strspn(word, "0123456789.") == n && memchr(word, '.', n)) {
            snprintf(out, size, "nvidia %.*s", (int)n, word);
            return;
        }
        word += n + strspn(word + n, " \t");
    }
}

static void take_nvidia(const char *root, stk_machine *out)
{
    stk__machine_name names[NAMES_MOST];
    const size_t n = stk__machine_names(root, NVIDIA "/gpus", names, NAMES_MOST);
    char path[STK__MACHINE_PATH], text[2048];

    for (size_t i = 0; i < n; i++) {
        stk_machine_accelerator *a = add_accelerator(out);
        snprintf(path, sizeof path, "%s" NVIDIA "/gpus/%s/information", root, names[i]);
        if (!a)
            continue;
        take_node(root, "/sys/bus/pci/devices", names[i], "", out);
        if (!stk__read_small(path, text, sizeof text))
            continue;
        const char *model = strncmp(text, "Model:", 6) == 0 ? text : strstr(text, "\nModel:");
        if (model) {
            model = strchr(model, ':') + 1;
            stk__machine_clean(a->model, sizeof a->model, model, strcspn(model, "\n"));
        }
        nvidia_version(root, a->driver, sizeof a->driver);
    }
}

/* Cards of amdgpu that have memory of their own. */
static void take_amd(const char *root, stk_machine *out)
{
    stk__machine_name names[NAMES_MOST];
    const size_t n = stk__machine_names(root, DRM, names, NAMES_MOST);
    char path[160], vendor[16];

    for (size_t i = 0; i < n; i++) {
        if (strncmp(names[i], "card", 4) != 0 || strchr(names[i], '-') ||
            !stk__machine_line(vendor, sizeof vendor, root, DRM "/%s/device/vendor", names[i]) ||
            strcmp(vendor, "0x1002") != 0)
            continue;
        snprintf(path, sizeof path, DRM "/%s/device/mem_info_vram_total", names[i]);
        const uint64_t memory = stk__machine_number(root, path);
        stk_machine_accelerator *a = memory ? add_accelerator(out) : NULL;
        if (!a)
            continue;
        a->memory_bytes = memory;
        snprintf(a->driver, sizeof a->driver, "amdgpu");
        take_node(root, DRM, names[i], "/device", out);
        if (!stk__machine_line(a->model, sizeof a->model, root, DRM "/%s/device/product_name",
                               names[i]))
            snprintf(a->model, sizeof a->model, "AMD GPU");
    }
}

void stk__machine_accelerators(const char *root, stk_machine *out)
{
    take_nvidia(root, out);
    take_amd(root, out);
}
