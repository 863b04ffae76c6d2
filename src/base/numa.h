/* /sys, an affinity mask -> the cores and the memory of one of several ranks */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_NUMA_H
#define STK_SRC_BASE_NUMA_H

#include "base/base.h"

#define STK__CPUS      8192 /* numbers of cores */
#define STK__NODES     1024 /* numbers of NUMA nodes, as the kernel has at most */
#define STK__LONG_BITS (8 * sizeof(unsigned long))

/* Sets, as the kernel takes them. */
typedef struct stk__cpus {
    unsigned long bits[STK__CPUS / STK__LONG_BITS];
} stk__cpus;
typedef struct stk__nodes {
    unsigned long bits[STK__NODES / STK__LONG_BITS];
} stk__nodes;

/* Where a process belongs. */
typedef struct stk__place {
    bool bound;     /* its threads belong on `cpus`, those of its nodes */
    bool prefers;   /* its memory comes from `memory` as long as that has room */
    stk__cpus cpus; /* that it may run on */
    stk__nodes memory;
    uint32_t all;   /* cores that all ranks together may run on, */
    uint32_t cores; /* those of `cpus`, and */
    uint32_t ranks; /* how many ranks share these */
    uint32_t nodes; /* NUMA nodes of `all`; 0: the system does not tell */
    uint32_t own;   /* and of `cpus` */
    char list[32];  /* their numbers, "1" or "2-3"; empty where they are all */
} stk__place;

/* What is asked for: `ranks` share the cores, `machine_ranks` the machine; `number` is which of
 * `ranks` this one is, from 1, 0: not known. `anywhere`: nodes are left alone. */
typedef struct stk__place_wish {
    uint64_t ranks, machine_ranks, number;
    bool anywhere;
} stk__place_wish;

/*
 * The place of a rank by the files below `root` ("" but in tests) and the mask that it was started
 * with. Ranks follow each other along the cores of the nodes: each has whole nodes, or is on one
 * with others, and no part is less than nine tenths of an equal one; else none is bound. A mask
 * that somebody has narrowed is left as it is: then only memory is chosen. Pure, but for the files.
 */
void stk__numa_place(const char *root, const stk__cpus *affinity, const stk__place_wish *wish,
                     stk__place *out);

/* The next range of a list of the kernel, "0-3,8"; false at its end, or where it is none. */
bool stk__list_next(const char **text, uint64_t *from, uint64_t *to);
/* Such a list of what is in a set of `most` bits; what does not fit is cut. */
void stk__list_write(const unsigned long *bits, uint32_t most, char *text, size_t size);

/* ---- Being there (numa_bind.c) ---- */

/* The calling thread goes there. */
void stk__place_thread(const stk_context *ctx);
/* Whole pages that nobody has written yet. */
void stk__place_memory(const stk_context *ctx, void *memory, size_t size);

#endif
