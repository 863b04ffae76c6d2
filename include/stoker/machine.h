/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that figures are of: what it is, and what of it this process may use. */
#ifndef STOKER_MACHINE_H
#define STOKER_MACHINE_H

#include <stoker/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STK_MACHINE_LIST 8   /* entries of a list that are kept; others are counted */
#define STK_MACHINE_TEXT 128 /* bytes of a text with its end; longer ones are cut */

typedef struct stk_machine_cache {
    uint32_t level;
    char type[16]; /**< "Data", "Instruction", "Unified" */
    uint64_t bytes;
    uint32_t count; /**< of them in the machine, as far as all cores are like the first */
} stk_machine_cache;

/** What a path lies on. */
typedef struct stk_machine_disk {
    char path[STK_MACHINE_TEXT];   /**< that was asked for, absolute; its end */
    char mount[STK_MACHINE_TEXT];  /**< where the file system begins */
    char filesystem[32];           /**< "ext4", "nfs4", "tmpfs" */
    char device[STK_MACHINE_TEXT]; /**< "nvme0n1", or the server's "host:/export" */
    char model[STK_MACHINE_TEXT];
    /** "nvme", "ssd", "rotating", "network", "memory"; "virtual": the disk of a virtual machine,
     * which does not tell what it lies on; "loop"; "overlay": layers of a container; "host": a
     * folder of the machine that runs this one; empty: unknown. */
    char kind[16];
} stk_machine_disk;

typedef struct stk_machine_network {
    char name[32];
    char kind[16]; /**< "ethernet", "wireless", "infiniband" */
    bool up;
    double bits_per_s; /**< of the link; 0: it does not tell */
} stk_machine_network;

typedef struct stk_machine_accelerator {
    char model[STK_MACHINE_TEXT];
    char driver[STK_MACHINE_TEXT]; /**< "nvidia 550.54" */
    uint64_t memory_bytes;         /**< 0: it does not tell */
} stk_machine_accelerator;

/** A NUMA node: cores that share a memory which is nearer to them than to others. */
typedef struct stk_machine_node {
    uint32_t node, threads; /**< its number; threads may be none */
    uint64_t memory_bytes;  /**< likewise */
} stk_machine_node;

/** 0 and empty texts where the system does not tell. Texts are clean: UTF-8 without controls. */
typedef struct stk_machine {
    uint32_t struct_size;
    char architecture[16]; /**< "x86_64" */
    char cpu[STK_MACHINE_TEXT];
    char instructions[256];                  /**< of vectors and matrices: "avx avx2 fma" */
    char governor[32];                       /**< of the first core's frequency: "performance" */
    uint32_t sockets, cores, threads, nodes; /**< of the whole machine; nodes of memory */
    bool virtual_machine;
    uint32_t num_caches;
    stk_machine_cache caches[STK_MACHINE_LIST];

    uint32_t affinity;    /**< threads that this process may run on, */
    double quota;         /**< what its cgroups let it use of them, in cores; 0: all */
    uint32_t cgroup;      /**< version that says so, or 0 */
    uint32_t usable;      /**< whole cores that follow; of them */
    uint32_t compute;     /**< kept for the training step, and */
    uint32_t preparation; /**< left for workers */
    char container[32];   /**< "docker", "podman", "kubernetes", "apptainer" */

    uint64_t memory_bytes, memory_limit_bytes; /**< of the machine; that this process may use */
    uint64_t memory_free_bytes, swap_bytes;
    stk_machine_disk disk;
    uint32_t num_networks; /**< those that are connected, or have hardware */
    stk_machine_network networks[STK_MACHINE_LIST];
    uint32_t num_accelerators;
    stk_machine_accelerator accelerators[STK_MACHINE_LIST];

    char kernel[STK_MACHINE_TEXT]; /**< "Linux 6.1.0" */
    char libc[32], stoker[32];
    char libraries[512]; /**< that Stoker was built with: "zstd 1.5.4, lz4 1.9.4" */

    stk_machine_node memory_nodes[STK_MACHINE_LIST]; /**< of `nodes` */
    int32_t accelerator_nodes[STK_MACHINE_LIST];     /**< that each is next to; -1: not told */
    char own_nodes[32]; /**< that this process runs on, "1" or "2-3"; empty: all */
    bool bound;         /**< as its part among the ranks of this machine (stk_cores) */
} stk_machine;

/**
 * Look at the machine. `path`, which need not exist, says whose disk is meant; NULL: the working
 * directory. Nothing is measured and no accelerator is woken up. Any thread, also in a child of
 * fork(). Blocks for some milliseconds, longer where a part of `path` lies on a file system that
 * does not answer.
 */
STK_API void stk_machine_get(const stk_context *context, const char *path, stk_machine *out);

/** In one line, of what does not change from run to run: "AMD EPYC, 2 of 2 threads, ...". Returns
 * the length, as snprintf(). */
STK_API int stk_machine_summary(const stk_machine *machine, char *text, size_t size);
/** As members of a JSON object without its braces, with `summary`, for stk_event_log_write().
 * Returns the length, as snprintf(). */
STK_API int stk_machine_format(const stk_machine *machine, char *text, size_t size);
/** Tell `each` the facts in words, a line each; what is not known has none. */
STK_API void stk_machine_describe(const stk_machine *machine,
                                  void (*each)(void *user, const char *name, const char *value),
                                  void *user);

#ifdef __cplusplus
}
#endif
#endif
