/* collectives -> a network: what stands between Stoker and one MPI */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DIST_TRANSPORT_H
#define STK_SRC_DIST_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An MPI is spoken with by a library of its own (mpi/shim.c), since no two MPIs have the same
 * binary interface. It has this header of Stoker and nothing else, moves bytes and waits for
 * nothing: sums, deadlines and what ranks have to agree on are above it.
 */

#define STK__TRANSPORT_VERSION 1
#define STK__TRANSPORT_ENTRY   "stk_transport_entry"

enum { STK__TRANSPORT_TEXT = 256 };

/* A call that fails says why, and returns false; nothing is pending then. */
typedef struct stk__transport_ops {
    uint32_t struct_size, version;
    const char *name; /* "Open MPI"; of what it was built with */
    /* Once in a process. It may wait for the other ranks. */
    bool (*open)(void **out, uint64_t *rank, uint64_t *world_size, char why[STK__TRANSPORT_TEXT]);
    /* With `whole` all ranks are here and well, and leave together; else they are left as they
     * are, as waiting for them could take for ever. */
    void (*close)(void *transport, bool whole);

    /* Each begins a call that all ranks begin in the same order, with the same sizes; one at a time
     * is pending, until test() says that it is done, and its buffers are its own until then. */

    /* `bytes` of each rank, in the order of ranks. */
    bool (*all_gather)(void *transport, const void *own, void *all, size_t bytes, char *why);
    /* Rank r has sizes[r] bytes at their place in `all`, and gets those of the others. */
    bool (*all_gather_parts)(void *transport, void *all, const size_t *sizes, char *why);
    /* sizes[r] bytes of `from` go to rank r; `to` gets this rank's part of each, in order. */
    bool (*all_to_all)(void *transport, const void *from, const size_t *sizes, void *to, char *why);
    /* What rank 0 has. */
    bool (*broadcast)(void *transport, void *data, size_t bytes, char *why);
    bool (*test)(void *transport, bool *done, char *why);

    /* Beside the pending call: tell all others a number, and the last that `rank` has told; 0: none
     * yet. Neither waits. */
    bool (*tell)(void *transport, uint64_t number, char *why);
    bool (*told)(void *transport, uint64_t rank, uint64_t *number, char *why);
} stk__transport_ops;

#endif
