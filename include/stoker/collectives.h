/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and broadcasts of several processes over an MPI, and between GPUs over NCCL: what makes them
 * ranks of one training. */
#ifndef STOKER_COLLECTIVES_H
#define STOKER_COLLECTIVES_H

#include <stoker/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The table of stk_collectives_options: names, defaults and ranges are written there
 * (src/dist/options.c). */
typedef struct stk_collectives_options {
    uint32_t struct_size;
    /** "openmpi", "mpich": the one whose mpirun has started this process. Else the path, which has
     * a slash in it, of another library of the kind. */
    const char *transport;
    double collective_timeout; /**< seconds that one call waits for the other ranks */
    uint64_t fault_rank;       /**< which rank the faults are of; they are for tests */
    uint64_t fault_fail_at;    /**< its so many'th call fails, from 1; 0: none */
    uint64_t fault_late_at;    /**< it comes too late to the so many'th; 0: to none */
    double fault_late_by;      /**< seconds */
    /** Whether NCCL carries what lies in the memory of a device: "auto" where the device is one for
     * it; "always", and another device is refused; "never"; else "always" by the library at this
     * path, which has a slash in it. */
    const char *nccl;
} stk_collectives_options;

static inline void stk_collectives_options_init(stk_collectives_options *options)
{
    stk_options_init(stk_option_table_find("collectives"), options, sizeof *options);
}

typedef struct stk_collectives stk_collectives;

/**
 * Join the other ranks that the same mpirun has started. The library for its MPI,
 * libstoker_openmpi.so or libstoker_mpich.so, is loaded from beside Stoker.
 *
 * Sums are made in the order of ranks, element by element: they have the same bits on all ranks,
 * and in all runs. A rank that calls another function than the others, or the same with another
 * size, is named, and so is one that has not come when the time is over; from then on every call
 * fails.
 *
 * What lies in the memory of a device (attach() of the strategy) goes over NCCL, whose library is
 * loaded then, on the device's stream: sums of every type of number, in NCCL's order. The MPI
 * begins it and stands before each of its calls, so the above holds for those, too. Work that has
 * not ended on the device `collective_timeout` after what was before it is aborted, and check()
 * says so.
 *
 * Ownership: *out is the caller's, ended with stk_collectives_close(). Once in a process. Thread:
 * the calls come from one thread at a time. Blocks until all ranks are here.
 * Errors: STK_EINVAL (an option), STK_ENOTSUP (this build has no such library), STK_EIO (what MPI
 * says), STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_collectives_open(stk_context *context,
                                                      const stk_collectives_options *options,
                                                      stk_collectives **out, stk_error *err);
/** For stk_trainer_set_strategy(); lives as long as `collectives`. */
STK_API const stk_strategy *stk_collectives_strategy(const stk_collectives *collectives);
/** "Open MPI". */
STK_API const char *stk_collectives_name(const stk_collectives *collectives);
/** Leave, when all ranks do; those that go on are told that this one has left. After the trainer
 * that uses it. Blocks for at most `collective_timeout`. Sets *collectives to NULL; accepts NULL.
 */
STK_API void stk_collectives_close(stk_collectives **collectives);
/**
 * The version of NCCL that ranks would use, "2.28.9". `library`: the path of another one than
 * libnccl.so.2 as the loader of the system finds it, or NULL. It stays loaded. `text`: `size`
 * bytes. Thread: any. Errors: STK_ENOTSUP (there is none, or it is too old; says which and what to
 * do).
 */
STK_API STK_NODISCARD stk_status stk_nccl_version(const char *library, char *text, size_t size,
                                                  stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
