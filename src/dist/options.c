/* SPDX-License-Identifier: Apache-2.0 */
/* The described options of collectives. */
#include "dist/collectives.h"
#include "dist/dist.h"

#define AT(member) offsetof(stk_collectives_options, member)

static const stk_option options[] = {
    {"transport", STK_OPTION_STRING, AT(transport), "auto", 0, 0, NULL, "NAME|PATH",
     "What carries sums between ranks: openmpi, mpich, or the path of another library for an MPI; "
     "auto: the one whose mpirun has started the ranks; nccl: that one, and NCCL between GPUs."},
    {"collective_timeout", STK_OPTION_DURATION, AT(collective_timeout), "600s", 0.01, 1e7, NULL,
     "TIME", "How long a rank waits for the others in one call before the run fails."},
    {"fault_rank", STK_OPTION_UINT, AT(fault_rank), "0", 0, 1e9, NULL, "N",
     "For tests: the rank that the faults below are of."},
    {"fault_fail_at", STK_OPTION_UINT, AT(fault_fail_at), "0", 0, 1e15, NULL, "N",
     "For tests: the so many'th call of that rank fails; 0: none."},
    {"fault_late_at", STK_OPTION_UINT, AT(fault_late_at), "0", 0, 1e15, NULL, "N",
     "For tests: that rank comes too late to the so many'th call; 0: to none."},
    {"fault_late_by", STK_OPTION_DURATION, AT(fault_late_by), "0", 0, 1e7, NULL, "TIME",
     "For tests: by how much."},
    {"nccl", STK_OPTION_STRING, AT(nccl), "auto", 0, 0, NULL, "auto|always|never|PATH",
     "Whether NCCL carries what lies in a device's memory. auto: where the device is one for it; "
     "always: other devices are refused; PATH of its library, which else is libnccl.so.2."},
};
const stk_option_table stk__collectives_option_table = {.name = "collectives",
                                                        .doc = "How ranks of one training speak",
                                                        .struct_size =
                                                            sizeof(stk_collectives_options),
                                                        .options = options,
                                                        .count = STK_COUNT(options)};
