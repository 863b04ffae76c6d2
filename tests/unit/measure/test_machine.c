/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of a machine, from a /proc and /sys of the test's own, and from the real ones. */
#include "support/support.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measure/machine.h"

static const char *root;
static char folder[256];
static const stk_cores cores = {.struct_size = sizeof cores,
                                .online = 8,
                                .affinity = 6,
                                .quota = 2.5,
                                .usable = 2,
                                .compute = 1,
                                .preparation = 1};

static void place(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0777);
    }
}

static void put(const char *name, const char *text)
{
    char path[512];

    place(name, path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void point(const char *name, const char *to)
{
    char path[512];

    place(name, path);
    assert_int_equal(symlink(to, path), 0);
}

static int setup(void **state)
{
    root = test_folder(folder);
    return 0;
}

static int teardown(void **state)
{
    test_folder_remove(root);
    return 0;
}

static void find(const char *path, stk_machine *out)
{
    stk__machine_find(root, path, &cores, UINT64_C(4) << 30, out);
}

static void keep(void *user, const char *name, const char *value)
{
    char(*lines)[4096] = user;
    const size_t n = strlen(*lines);

    snprintf(*lines + n, sizeof *lines - n, "%s=%s\n", name, value);
}

static void put_cpu(void)
{
    put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n"
                        "flags\t\t: fpu sse4_2 avx avx2 avx512fake fma hypervisor\n\n"
                        "processor\t: 1\nmodel name\t: Another\n");
    put("sys/devices/system/cpu/online", "0-7\n");
    put("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0,4\n");
    put("sys/devices/system/cpu/cpu0/topology/package_cpus_list", "0-1,4-5\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0,4\n");
    put("sys/devices/system/cpu/cpu0/cache/index1/size", "32M\n");
    put("sys/devices/system/cpu/cpu0/cache/index1/level", "3\n");
    put("sys/devices/system/cpu/cpu0/cache/index1/type", "Unified\n");
    put("sys/devices/system/cpu/cpu0/cache/index1/shared_cpu_list", "0-7\n");
    put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    put("sys/devices/system/node/online", "0-1\n");
}

static void test_processor(void **state)
{
    stk_machine m;

    put_cpu();
    find("/", &m);
    assert_string_equal(m.cpu, "Some CPU @ 2.0GHz");
    assert_string_equal(m.instructions, "sse4_2 avx fma avx2");
    assert_true(m.virtual_machine);
    assert_int_equal(m.threads, 8);
    assert_int_equal(m.cores, 4);
    assert_int_equal(m.sockets, 2);
    assert_int_equal(m.nodes, 2);
    assert_int_equal(m.num_caches, 2);
    assert_int_equal(m.caches[0].bytes, 48 << 10);
    assert_int_equal(m.caches[0].count, 4);
    assert_int_equal(m.caches[1].bytes, 32 << 20);
    assert_int_equal(m.caches[1].count, 1);
    assert_string_equal(m.governor, "powersave");
}

/* Nodes with cores and memory, with memory alone, and accelerators beside them. */
static void test_nodes(void **state)
{
    static const stk_cores bound = {.struct_size = sizeof bound,
                                    .online = 8,
                                    .affinity = 4,
                                    .usable = 4,
                                    .nodes = 2,
                                    .own_nodes = 1,
                                    .node_list = "1",
                                    .bound = true};
    char lines[4096] = "", text[STK__MACHINE_JSON], object[STK__MACHINE_JSON + 2];
    stk_machine m;

    put_cpu();
    put("sys/devices/system/node/online", "0-1,4\n");
    put("sys/devices/system/node/node0/cpulist", "0-3\n");
    put("sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal:       2097152 kB\nNode 0 MemFree: 1 kB\n");
    put("sys/devices/system/node/node1/cpulist", "4-7\n");
    put("sys/devices/system/node/node4/cpulist", "\n");
    put("sys/devices/system/node/node4/meminfo", "\nNode 4 MemTotal: 1048576 kB\n");
    put("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: X100\n");
    put("proc/driver/nvidia/gpus/0000:02:00.0/information", "Model: X100\n");
    put("sys/bus/pci/devices/0000:01:00.0/numa_node", "1\n");
    put("sys/bus/pci/devices/0000:02:00.0/numa_node", "-1\n");
    put("sys/class/drm/card0/device/vendor", "0x1002\n");
    put("sys/class/drm/card0/device/mem_info_vram_total", "1073741824\n");
    put("sys/class/drm/card0/device/numa_node", "0\n");
    stk__machine_find(root, "/", &bound, UINT64_C(4) << 30, &m);
    assert_int_equal(m.nodes, 3);
    assert_int_equal(m.memory_nodes[0].threads, 4);
    assert_true(m.memory_nodes[0].memory_bytes == UINT64_C(2) << 30);
    assert_int_equal(m.memory_nodes[1].memory_bytes, 0);
    assert_int_equal(m.memory_nodes[2].node, 4);
    assert_int_equal(m.memory_nodes[2].threads, 0);
    assert_true(m.memory_nodes[2].memory_bytes == UINT64_C(1) << 30);
    assert_int_equal(m.accelerator_nodes[0], 1);
    assert_int_equal(m.accelerator_nodes[1], -1);
    assert_int_equal(m.accelerator_nodes[2], 0);
    stk_machine_describe(&m, keep, &lines);
    assert_non_null(strstr(lines, "memory nodes=0: 4 threads, 2 GiB; 1: 4 threads, 0 bytes; 4: 0 "
                                  "threads, 1 GiB\n"));
    assert_non_null(strstr(lines, "4 of 8 threads, 4 by affinity, of memory node 1; "));
    assert_non_null(strstr(lines, "accelerator=X100 (nvidia), at memory node 1\n"));
    assert_non_null(strstr(lines, "accelerator=X100 (nvidia)\n"));
    stk_machine_format(&m, text, sizeof text);
    snprintf(object, sizeof object, "{%s}", text);
    json_t *json = json_loads(object, 0, NULL);
    assert_non_null(json);
    json_t *process = json_object_get(json, "process");
    assert_string_equal(json_string_value(json_object_get(process, "nodes")), "1");
    assert_true(json_is_true(json_object_get(process, "bound")));
    json_t *nodes = json_object_get(json_object_get(json, "memory"), "nodes");
    assert_int_equal(json_array_size(nodes), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(nodes, 2), "bytes")),
                     1 << 30);
    json_decref(json);
}

/* Names that older kernels and other processors have. */
static void test_other_names(void **state)
{
    stk_machine m;

    put("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd sve2x bf16\nModel\t\t: Board 4\n");
    put("sys/devices/system/cpu/online", "0-3\n");
    put("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0\n");
    put("sys/devices/system/cpu/cpu0/topology/core_siblings_list", "0-3\n");
    find("/", &m);
    assert_string_equal(m.cpu, "Board 4");
    assert_string_equal(m.instructions, "asimd bf16");
    assert_false(m.virtual_machine);
    assert_int_equal(m.cores, 4);
    assert_int_equal(m.sockets, 1);
}

static void test_use(void **state)
{
    stk_machine m;

    put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n"
                        "SwapTotal: 1024 kB\n");
    put("proc/self/cgroup", "0::/job\n");
    put("sys/fs/cgroup/job/cpu.max", "250000 100000\n");
    put(".dockerenv", "");
    find("/", &m);
    assert_true(m.memory_bytes == UINT64_C(16) << 30);
    assert_true(m.memory_free_bytes == UINT64_C(8) << 30);
    assert_true(m.memory_limit_bytes == UINT64_C(4) << 30);
    assert_int_equal(m.swap_bytes, 1 << 20);
    assert_int_equal(m.cgroup, 2);
    assert_int_equal(m.affinity, 6);
    assert_int_equal(m.usable, 2);
    assert_string_equal(m.container, "docker");
    put("proc/self/cgroup", "4:cpu,cpuacct:/job\n");
    put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "250000\n");
    put("run/.containerenv", "");
    find("/", &m);
    assert_int_equal(m.cgroup, 1);
    assert_string_equal(m.container, "podman");
}

/* A partition of a disk below a crypt below a volume; a mount over a mount; blanks in a name. */
static void put_disks(void)
{
    static const char *const names[] = {"sda", "sdb", "nvme0n1", "vda", "dm-0", "dm-1"};

    put("proc/self/mountinfo", "1 0 253:0 / / rw shared:1 - ext4 /dev/mapper/root rw\n"
                               "2 1 259:2 / /data rw - xfs /dev/nvme0n1p2 rw\n"
                               "3 1 0:50 / /data/my\\040set rw - nfs4 server:/export rw\n"
                               "4 1 0:51 / /old rw - tmpfs tmpfs rw\n"
                               "5 1 8:16 / /old rw - ext4 /dev/sdb rw\n"
                               "6 1 0:52 / /many rw - btrfs /dev/sdb rw\n"
                               "7 1 0:53 / /shm rw - tmpfs tmpfs rw\n"
                               "8 1 254:0 / /vm rw - ext4 /dev/vda rw\n"
                               "nonsense\n9 1 x:y / /bad rw - ext4 none rw\n");
    put("sys/devices/sda/queue/rotational", "0\n");
    put("sys/devices/sda/device/model", "  FLASH 100  \n");
    put("sys/devices/sda/sda1/partition", "1\n");
    put("sys/devices/sdb/queue/rotational", "1\n");
    put("sys/devices/nvme0n1/queue/rotational", "0\n");
    put("sys/devices/nvme0n1/nvme0n1p2/partition", "2\n");
    put("sys/devices/vda/queue/rotational", "1\n");
    put("sys/devices/dm-0/queue/rotational", "0\n");
    point("sys/devices/dm-0/slaves/dm-1", "../../dm-1");
    point("sys/devices/dm-1/slaves/sda1", "../../sda/sda1");
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        char name[64], to[64];
        snprintf(name, sizeof name, "sys/class/block/%s", names[i]);
        snprintf(to, sizeof to, "../../devices/%s", names[i]);
        point(name, to);
    }
    point("sys/class/block/sda1", "../../devices/sda/sda1");
    point("sys/class/block/nvme0n1p2", "../../devices/nvme0n1/nvme0n1p2");
    point("sys/dev/block/253:0", "../../devices/dm-0");
    point("sys/dev/block/259:2", "../../devices/nvme0n1/nvme0n1p2");
    point("sys/dev/block/8:16", "../../devices/sdb");
    point("sys/dev/block/254:0", "../../devices/vda");
}

static void check_disk(const char *path, const char *kind, const char *device, const char *mount)
{
    stk_machine_disk d = {0};

    stk__machine_disk(root, path, &d);
    assert_string_equal(d.kind, kind);
    assert_string_equal(d.device, device);
    assert_string_equal(d.mount, mount);
}

static void test_disks(void **state)
{
    stk_machine_disk d = {0};

    put_disks();
    check_disk("/srv/x", "ssd", "sda", "/");
    check_disk("/data/x", "nvme", "nvme0n1", "/data");
    check_disk("/database", "ssd", "sda", "/");
    check_disk("/data/my set/x", "network", "server:/export", "/data/my set");
    check_disk("/old", "rotating", "sdb", "/old");
    check_disk("/many/x", "rotating", "sdb", "/many");
    check_disk("/shm/x", "memory", "tmpfs", "/shm");
    check_disk("/vm", "virtual", "vda", "/vm");
    stk__machine_disk(root, "/", &d);
    assert_string_equal(d.model, "FLASH 100");
    assert_string_equal(d.filesystem, "ext4");
}

/* Devices that are made of each other end the search. */
static void test_circle(void **state)
{
    stk_machine_disk d = {0};

    put("proc/self/mountinfo", "1 0 9:0 / / rw - ext4 /dev/md0 rw\n");
    put("sys/devices/md0/slaves/md1", "");
    put("sys/devices/md1/slaves/md0", "");
    point("sys/class/block/md0", "../../devices/md0");
    point("sys/class/block/md1", "../../devices/md1");
    point("sys/dev/block/9:0", "../../devices/md0");
    stk__machine_disk(root, "/", &d);
    assert_string_equal(d.kind, "");
    assert_string_equal(d.filesystem, "ext4");
}

static void test_devices(void **state)
{
    stk_machine m;

    put("sys/class/net/lo/operstate", "unknown\n");
    put("sys/class/net/br0/operstate", "up\n");
    put("sys/class/net/eth0/operstate", "up\n");
    put("sys/class/net/eth0/speed", "25000\n");
    put("sys/class/net/eth0/device/x", "");
    put("sys/class/net/wl0/operstate", "down\n");
    put("sys/class/net/wl0/speed", "-1\n");
    put("sys/class/net/wl0/wireless/x", "");
    put("sys/class/net/wl0/device/x", "");
    put("sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
    put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22\nGCC version: 12\n");
    put("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA X100\nIRQ: 5\n");
    put("proc/driver/nvidia/gpus/0000:02:00.0/information", "IRQ: 5\nModel: \t\t NVIDIA X100\n");
    put("sys/class/drm/card0/device/vendor", "0x1002\n");
    put("sys/class/drm/card0/device/mem_info_vram_total", "1073741824\n");
    put("sys/class/drm/card0-HDMI/device/vendor", "0x1002\n");
    put("sys/class/drm/card1/device/vendor", "0x8086\n");
    find("/", &m);
    assert_int_equal(m.num_networks, 3);
    assert_string_equal(m.networks[0].name, "eth0");
    assert_true(m.networks[0].up && m.networks[0].bits_per_s == 25e9);
    assert_string_equal(m.networks[1].kind, "wireless");
    assert_true(!m.networks[1].up && m.networks[1].bits_per_s == 0);
    assert_string_equal(m.networks[2].kind, "infiniband");
    assert_true(m.networks[2].up && m.networks[2].bits_per_s == 100e9);
    assert_int_equal(m.num_accelerators, 3);
    assert_string_equal(m.accelerators[0].model, "NVIDIA X100");
    assert_string_equal(m.accelerators[1].model, "NVIDIA X100");
    assert_string_equal(m.accelerators[0].driver, "nvidia 550.54.14");
    assert_int_equal(m.accelerators[2].memory_bytes, 1 << 30);
}

/* What stands in those files is anybody's: nothing steers a terminal, and all of it is JSON. */
static void test_hostile(void **state)
{
    char text[STK__MACHINE_JSON], object[STK__MACHINE_JSON + 2], many[6000];
    stk_machine m;

    put("proc/cpuinfo", "model name: x\033[2J\"evil\\\302\233\377 \xc3\xa4\nflags: avx\n");
    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = 0;
    put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", many);
    put("sys/devices/system/cpu/online", "0-99999999999999999999999\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/size", "99999999999999999999M\n");
    put("proc/self/mountinfo", "1 0 8:0 / / rw - ext4\033[31m /dev/../../x rw\n");
    put("proc/meminfo", "MemTotal: -5 kB\nMemAvailable: zz\n");
    for (int i = 0; i < 20; i++) {
        char name[80];
        snprintf(name, sizeof name, "proc/driver/nvidia/gpus/%d/information", i);
        put(name, "Model: x\n");
    }
    find("/a/\n\033", &m);
    assert_string_equal(m.cpu, "x?[2J\"evil\\?? \xc3\xa4");
    assert_int_equal(strlen(m.governor), sizeof m.governor - 1);
    assert_int_equal(m.num_accelerators, 20);
    assert_string_equal(m.disk.filesystem, "ext4?[31m");
    const int n = stk_machine_format(&m, text, sizeof text);
    assert_true(n > 0 && n < (int)sizeof text);
    snprintf(object, sizeof object, "{%s}", text);
    json_t *json = json_loads(object, 0, NULL);
    assert_non_null(json);
    json_t *cpu = json_object_get(json, "cpu");
    assert_string_equal(json_string_value(json_object_get(cpu, "model")), m.cpu);
    assert_int_equal(json_array_size(json_object_get(json, "accelerators")), STK_MACHINE_LIST);
    json_decref(json);
}

static void test_words(void **state)
{
    char lines[4096] = "", text[512];
    stk_machine m;

    put_cpu();
    put_disks();
    put("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 1572864 kB\n");
    put("proc/sys/kernel/osrelease", "6.1.0-test\n");
    find("/data", &m);
    assert_true(stk_machine_summary(&m, text, sizeof text) == (int)strlen(text));
    assert_non_null(strstr(text, "Some CPU @ 2.0GHz, 2 of 8 threads (a quota of 2.50), 4 GiB, xfs "
                                 "on nvme nvme0n1, Linux 6.1.0-test, stoker "));
    stk_machine_describe(&m, keep, &lines);
    assert_non_null(strstr(lines, "of it=2 sockets, 4 cores, 8 threads, 2 memory nodes\n"));
    assert_non_null(strstr(lines, "caches=L1d 4 x 48 KiB, L3 1 x 32 MiB\n"));
    assert_non_null(strstr(lines, "memory=16 GiB, of which this process may use 4 GiB; free 1.5 "
                                  "GiB\n"));
    assert_non_null(strstr(lines, "disk=/data: xfs on nvme nvme0n1, mounted at /data\n"));
    assert_null(strstr(lines, "accelerator="));
    /* Room that is too small cuts, and is told. */
    char small[16];
    assert_true(stk_machine_summary(&m, small, sizeof small) > 15);
    assert_int_equal(strlen(small), 15);
}

/* Nothing there: nothing claimed, and still JSON. */
static void test_nothing(void **state)
{
    char text[STK__MACHINE_JSON], object[STK__MACHINE_JSON + 2];
    stk_machine m;

    stk__machine_find("/nowhere", "/", &cores, 1 << 20, &m);
    assert_string_equal(m.cpu, "");
    assert_int_equal(m.num_networks + m.num_accelerators + m.num_caches, 0);
    assert_string_equal(m.disk.kind, "");
    stk_machine_format(&m, text, sizeof text);
    snprintf(object, sizeof object, "{%s}", text);
    json_t *json = json_loads(object, 0, NULL);
    assert_non_null(json);
    assert_true(json_is_null(json_object_get(json_object_get(json, "cpu"), "model")));
    json_decref(json);
}

/* This machine: the path is absolute, also where it does not exist. */
static void test_here(void **state)
{
    stk_context *context = test_context();
    stk_cores here = {.struct_size = sizeof here};
    stk_machine m = {.struct_size = sizeof m};
    char path[300];

    stk_context_cores(context, &here);
    snprintf(path, sizeof path, "%s/not/there", root);
    stk_machine_get(context, path, &m);
    assert_int_equal(m.usable, here.usable);
    assert_true(m.threads > 0 && m.memory_bytes > 0 && m.memory_limit_bytes > 0);
    assert_string_equal(m.disk.path, root);
    assert_true(*m.disk.filesystem && *m.disk.mount == '/');
    assert_non_null(strstr(m.libraries, "zstd 1."));
    assert_string_equal(m.stoker, stk_version());
    stk_context_destroy(&context);
}

int main(void)
{
#define PLANTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        PLANTED(test_processor),   PLANTED(test_nodes),
        PLANTED(test_other_names), PLANTED(test_use),
        PLANTED(test_disks),       PLANTED(test_circle),
        PLANTED(test_devices),     PLANTED(test_hostile),
        PLANTED(test_words),       cmocka_unit_test(test_nothing),
        PLANTED(test_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
