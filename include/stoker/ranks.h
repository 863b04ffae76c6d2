/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several processes this one is: what mpirun, srun, torchrun and the like tell theirs. */
#ifndef STOKER_RANKS_H
#define STOKER_RANKS_H

#include <stoker/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Who started the processes. */
typedef enum stk_launcher {
    STK_LAUNCHER_NONE = 0, /**< nobody: one process */
    STK_LAUNCHER_GIVEN,    /**< rank and world_size were given */
    STK_LAUNCHER_TORCHRUN, /**< torchrun, or who sets its variables: `stoker launch`, a PyTorchJob
                            */
    STK_LAUNCHER_OPENMPI,  /**< mpirun of Open MPI */
    STK_LAUNCHER_MPICH,    /**< mpiexec of MPICH and its kin: Intel MPI, MVAPICH */
    STK_LAUNCHER_SLURM     /**< srun */
} stk_launcher;

/** "torchrun". Never NULL. Any thread. */
STK_API const char *stk_launcher_name(stk_launcher launcher);

/** What was given in place of what the launcher says: zero is nothing given. */
typedef struct stk_ranks_given {
    uint32_t struct_size;
    uint64_t rank, world_size;             /**< both, where world_size is above 0 */
    uint64_t local_rank, local_world_size; /**< both, where local_world_size is above 0 */
} stk_ranks_given;

/** The place of a process among those that work together. Plain memory. */
typedef struct stk_ranks {
    uint32_t struct_size;
    stk_launcher launcher;
    uint64_t rank, world_size;             /**< of all of them; 0 of 1 by itself */
    uint64_t local_rank, local_world_size; /**< of those of this machine */
    /** The launcher said how many are on this machine. Else it is taken that this one is alone on
     * it, or that all are where main_address is of the machine itself. */
    bool local_known;
    /** The launcher gave each process cores of its own: the affinity mask is a part already. */
    bool bound;
    uint64_t node_rank, num_nodes; /**< of machines, counted as all of them have as many ranks where
                                      the launcher does not say */
    uint64_t restart_count, max_restarts; /**< times that all ranks were begun again; 0 of 0 where
                                             nobody counts */
    char variable[40];                    /**< that the rank is from: "RANK"; empty: none */
    char job_id[128];                     /**< of the scheduler; empty: there is none */
    char main_address[256];               /**< host of rank 0; empty: not known */
    uint32_t main_port;                   /**< there, for those who need one; 0: not known */
    char remark[256]; /**< what the user should know, a sentence; empty: nothing */
} stk_ranks;

/** The value of an environment variable; NULL: it is not set. It lives until the next call. */
typedef const char *stk_lookup_fn(void *user, const char *name);

/**
 * Find the place of this process, in this order: what was given (`given`, may be NULL), RANK and
 * WORLD_SIZE (torchrun, PyTorchJob), OMPI_COMM_WORLD_RANK (Open MPI), PMI_RANK (MPICH),
 * SLURM_PROCID of a step (srun); else it is one process by itself. The library does not read the
 * environment: `lookup` does, for names that it is asked for. An empty variable is not set.
 *
 * Of several launchers the first counts. A torchrun under srun, and an mpirun within a job of
 * Slurm, have ranks of their own: Slurm's are of what starts them. Those of an MPI and of RANK are
 * of the same processes and have to agree. WORLD_SIZE and NODE_RANK without RANK are of Lightning's
 * own launcher, which says nobody's rank: that is left to torch.distributed, with a remark.
 *
 * Errors: STK_EINVAL, the variable in err->key: a value that is no number, a rank that is not below
 * the number of ranks, one of a pair without the other, RANK and an MPI's that differ.
 * Thread: any. Does not block.
 */
STK_API STK_NODISCARD stk_status stk_ranks_detect(const stk_ranks_given *given,
                                                  stk_lookup_fn *lookup, void *user, stk_ranks *out,
                                                  stk_error *err);

/** Ranks among which the cores that this process may use are to be divided: those of the machine,
 * 1 where each was bound to its own or nobody says how many there are. Any thread. */
STK_API uint64_t stk_ranks_sharing(const stk_ranks *ranks);
/** Ranks among which the memory of this machine is to be divided: those of the machine, also where
 * each was bound to cores of its own; 1 where nobody says how many there are. Any thread. */
STK_API uint64_t stk_ranks_sharing_memory(const stk_ranks *ranks);

/** In one line: "rank 1 of 4 (local 1 of 2, machine 0 of 2), by torchrun (RANK)". Returns the
 * length, as snprintf(). */
STK_API int stk_ranks_summary(const stk_ranks *ranks, char *text, size_t size);

/** Host `i` of a Slurm node list ("gpu[001-003,7],login"); false: it has not as many, or is none.
 */
STK_API bool stk_ranks_host(const char *list, uint64_t i, char *host, size_t size);

#ifdef __cplusplus
}
#endif
#endif
