/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life of several processes, for the one that watches over them. */
#ifndef STOKER_HEARTBEAT_H
#define STOKER_HEARTBEAT_H

#include <stoker/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A sheet of memory with a row for each rank of this machine. Ranks write theirs, the watcher reads
 * all: nothing is sent, no rank waits, and a rank that hangs in a collective, or in the system, is
 * seen by what it does not write. The memory has no name in any file system (memfd_create(2));
 * ranks open it by the path of the watcher's descriptor in /proc, and nothing is left behind
 * however any of them ends.
 */
typedef struct stk_heartbeat stk_heartbeat;

/** What a rank does. */
typedef enum stk_doing {
    STK_DOING_NOTHING = 0, /**< nothing has come yet */
    STK_DOING_DATA,        /**< batches come, or are prepared */
    STK_DOING_COLLECTIVE,  /**< it waits for the other ranks */
    STK_DOING_END          /**< it has come to its end, and beats no more */
} stk_doing;

#define STK_HEARTBEAT_HOST 64 /**< bytes of the name of a machine with its end */

/** A row. Plain memory. */
typedef struct stk_heartbeat_row {
    uint32_t struct_size;
    stk_doing doing;
    uint64_t beats; /**< 0: none yet */
    uint64_t at_ns; /**< of the last, CLOCK_MONOTONIC */
    uint64_t steps; /**< batches that it was given */
    int64_t pid;    /**< as the rank sees itself */
    /** Of a rank of another machine: when it was heard last, CLOCK_MONOTONIC of who watches, as
     * `at_ns` is. 0: it has the sheet itself. */
    uint64_t heard_ns;
    char host[STK_HEARTBEAT_HOST]; /**< its machine, where heard_ns is not 0 */
} stk_heartbeat_row;

/**
 * Make a sheet for `ranks` ranks.
 *
 * Ownership: *out is the caller's, ended by stk_heartbeat_close() before the context is destroyed.
 * Errors: STK_EINVAL (0 ranks, or above 65536), STK_ENOMEM, STK_ESYSTEM, STK_EFORK. Thread: any.
 */
STK_API STK_NODISCARD stk_status stk_heartbeat_create(stk_context *context, uint64_t ranks,
                                                      stk_heartbeat **out, stk_error *err);
/**
 * Let ranks of other machines give signs of life, too: they send their row five times a second, as
 * datagrams (UDP) to a free port of this machine, which they know by `host`. The path has that
 * address behind a comma then, with a token that makes others' datagrams none.
 *
 * Thread: the watcher's. Blocks: no. Errors: STK_EINVAL (`host` is no name, or it listens
 * already), STK_ESYSTEM, STK_ENOMEM, STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_heartbeat_listen(stk_heartbeat *heartbeat, const char *host,
                                                      stk_error *err);
/** Take what has come from other machines into their rows; called before they are read. Does not
 * block. Thread: the watcher's. */
STK_API void stk_heartbeat_receive(stk_heartbeat *heartbeat);
/** The path that ranks open it by, and the address of those that cannot. Returns the length, as
 * snprintf(). */
STK_API int stk_heartbeat_path(const stk_heartbeat *heartbeat, char *text, size_t size);
/** The row of a rank; zeros where there is none. Any thread. */
STK_API void stk_heartbeat_read(const stk_heartbeat *heartbeat, uint64_t rank,
                                stk_heartbeat_row *out);
/** Begin anew: all rows are empty, and what was sent under the path of before counts no more. */
STK_API void stk_heartbeat_clear(stk_heartbeat *heartbeat);

/**
 * Open a sheet that another process made, to write the row of `rank`. What it holds is checked.
 * Where it cannot be opened, as on another machine, and the path has an address, the row is sent
 * there by a thread, also while nothing happens.
 *
 * Whatever happens in the context is a beat: reads, samples, batches, collectives, of all its
 * loaders and trainers. Nothing is written while nothing happens.
 *
 * Ownership: *out is the caller's, ended by stk_heartbeat_close() before the context is destroyed.
 * Blocks: while the name of the other machine is looked up. Errors: STK_ENOENT, STK_EACCES (as on
 * another machine, or in another container, without an address), STK_EIO (no way to the address),
 * STK_ETHREAD, STK_EFORMAT (no sheet), STK_EINVAL (it has no such row), STK_EBUSY (too many
 * listeners of the context), STK_ENOMEM, STK_EFORK. Thread: any.
 */
STK_API STK_NODISCARD stk_status stk_heartbeat_open(stk_context *context, const char *path,
                                                    uint64_t rank, stk_heartbeat **out,
                                                    stk_error *err);
/** Beat, and say what is done from here on. Accepts NULL. Any thread; safe in a signal handler. */
STK_API void stk_heartbeat_beat(stk_heartbeat *heartbeat, stk_doing doing);
/** End it and set *heartbeat to NULL; of a rank its row says STK_DOING_END. Accepts NULL. */
STK_API void stk_heartbeat_close(stk_heartbeat **heartbeat);

#ifdef __cplusplus
}
#endif
#endif
