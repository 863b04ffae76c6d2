/* the context -> its parts, for src/base alone */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_CONTEXT_H
#define STK_SRC_BASE_CONTEXT_H

#include "base/base.h"
#include "base/items.h"
#include "base/numa.h"
#include "base/probe.h"
#include "base/slot.h"

#define STK_MAX_PROBES   8
#define STK_MAX_ADDED    64 /* drivers that a caller may add, of each kind */
#define STK_MAX_PLUGINS  64
#define STK__PLUGIN_MOST 4096 /* bytes of a stk_plugin: no later version is larger */
#define STK__SOURCES     32   /* at work in one context that can be asked */

struct stk_context {
    stk_allocator allocator;
    _Alignas(STK_CACHE_LINE) atomic_uint_fast64_t allocations;
    atomic_uint_fast64_t bytes, peak_bytes;
    atomic_uint_fast64_t json_bytes; /* of `bytes`: claimed by json.c */
    atomic_uint references;
    unsigned fork_generation;    /* of the process that made it */
    stk_context_options options; /* `stores` aside */
    stk__items stores;           /* options of stores; constant */
    stk_cores cores;
    stk__place place;          /* the NUMA nodes of its threads and memory; constant */
    stk__cpus unbound;         /* mask before stk_context_bind(), */
    bool entered;              /* where that was called: guarded by its one caller at a time */
    atomic_uint model_threads; /* cores.compute where models chose more */
    uint64_t memory_limit;
    uint64_t memory_ranks; /* processes that share it; at least 1 */
    bool avx2;
    struct {
        atomic_uint_fast64_t reads, bytes, ns;
    } tiers[STK_TIERS];

    atomic_uint num_probes;      /* lets the hot path see that there is none */
    pthread_rwlock_t probe_lock; /* guards probes[] */
    stk__probe probes[STK_MAX_PROBES];

    pthread_rwlock_t source_lock; /* guards sources[] */
    struct {
        stk__source_kind kind;
        const void *object; /* NULL: no more */
    } sources[STK__SOURCES];
    pthread_mutex_t progress_lock; /* guards `progressed` */
    stk__progressed progressed;

    pthread_mutex_t registry_lock; /* guards the next four */
    const void *added[STK_DRIVER_KINDS][STK_MAX_ADDED];
    size_t num_added[STK_DRIVER_KINDS];
    const stk_plugin *plugins[STK_MAX_PLUGINS];
    size_t num_plugins;

    atomic_uint openings;
    pthread_mutex_t slot_lock; /* guards slots */
    stk__slot slots[STK__SLOTS];
};

/* For stk__progress_last() (sources.c). */
void stk__progress_keep(stk_context *ctx, const char *what, uint64_t done, uint64_t total);

stk_context *stk__context_memory_new(const stk_allocator *allocator);
void stk__context_memory_free(stk_context *ctx);
/* Count memory that a library takes past the allocator; negative: that it gave back. */
void stk__memory_note(stk_context *ctx, int64_t bytes);

/* Cores and memory of this process: affinity mask, cgroup v1 and v2 (cores.c). `root` takes the
 * place of
 * "/" in tests. */
void stk__cores_find(const char *root, uint32_t compute, uint32_t ranks, stk_cores *out);
/* Divide cores->usable among `ranks` processes (0: one), and the part of one among its threads.
 * Pure. */
void stk__cores_divide(uint32_t compute, uint32_t ranks, stk_cores *cores);
/* Cores that were found, of all ranks, become those of a place among them. Pure. */
void stk__cores_take(const stk__place *place, uint32_t compute, stk_cores *cores);
/* Find the cores of a context and its place among them, and say where the system refuses something,
 * before it has threads (numa_bind.c). */
void stk__context_place(stk_context *ctx, const char *root);
uint64_t stk__memory_find(const char *root);
/* Bytes that the system has left for this process: what it calls available, and its limits of
 * address space and data (RLIMIT_AS, RLIMIT_DATA). UINT64_MAX where it says nothing. */
uint64_t stk__memory_room(const char *root);
/* The path of a file of the nearest cgroup of this process that has it: `v2` of the unified
 * hierarchy, else `v1` of `controller`; "" where there is none. */
void stk__cgroup_file(const char *root, const char *controller, const char *v2, const char *v1,
                      char *path, size_t size);
/* Read a small file into `text`, ended by a zero; false when it cannot be read. */
bool stk__read_small(const char *path, char *text, size_t size);

#endif
