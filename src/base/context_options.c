/* SPDX-License-Identifier: Apache-2.0 */
/* What a file or a command line may say of a context. */
#include "base/options.h"

#define AT(member) offsetof(stk_context_options, member)

static const stk_option rows[] = {
    {"compute_threads", STK_OPTION_UINT, AT(compute_threads), "0", 0, 65536, NULL, NULL,
     "Threads of the training step, whose cores the workers leave free; 0: as many as its model "
     "has "
     "work for, on cores shared with the workers."},
    {"memory_limit", STK_OPTION_SIZE, AT(memory_limit), "0", 0, 0, NULL, NULL,
     "Memory the process may use; 0: what the machine and its control group allow."},
    {"io_engine", STK_OPTION_ENUM, AT(io_engine), "auto", 0, 0, "auto|uring|threads", NULL,
     "How files are read: io_uring or threads; auto: io_uring where it works."},
    {"instructions", STK_OPTION_ENUM, AT(instructions), "all", 0, 0, "all|plain", NULL,
     "Instruction sets used: all this machine has, or plain C only. The results are the same."},
    {"local_ranks", STK_OPTION_UINT, AT(local_ranks), "0", 0, 65536, NULL, "N",
     "Processes like this one that share the machine's cores and memory; 0: as many as the "
     "launcher (mpirun, srun, torchrun, stoker launch) says."},
    {"numa", STK_OPTION_ENUM, AT(numa), "auto", 0, 0, "auto|off", NULL,
     "Ranks of a machine with several NUMA nodes: on cores and memory of nodes of their own, where "
     "ranks and nodes divide evenly, or anywhere."},
    {"stores", STK_OPTION_STRING, AT(stores), NULL, 0, 0, NULL, "LIST",
     "Options of stores, as 'acme://data(timeout=5s, token=env:ACME_TOKEN)': the name of a store, "
     "or "
     "how its URLs begin; secrets as the name of an environment variable."},
};

const stk_option_table stk__context_option_table = {
    "context", "The process", sizeof(stk_context_options), rows, STK_COUNT(rows)};
