/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured, and for how long. */
#include "bench/bench.h"

#define AT(member)   offsetof(stk_bench_options, member)
#define MOST_REDUCED 1e12 /* bytes */

static const stk_option rows[] = {
    {"step", STK_OPTION_STRING, AT(step), NULL, 0, 0, NULL, "KIND:CONFIG",
     "train: the real training step of this configuration instead of a simulated one; fit: its "
     "whole training, with epochs, losses and accuracy. What the setting does not say is the "
     "configuration's; 'fit' alone: all of it is in the setting."},
    {"train_step_time", STK_OPTION_DURATION, AT(train_step_time), "0.01", 0, 3600, NULL, NULL,
     "Length of the simulated training step, in seconds; 0: none."},
    {"spin", STK_OPTION_BOOL, AT(spin), "false", 0, 0, NULL, NULL,
     "The step computes on all cores kept for it (--compute-threads) instead of sleeping."},
    {"min_seconds", STK_OPTION_DURATION, AT(min_seconds), "5", 0, 86400, NULL, NULL,
     "Measure a setting for at least so long, ..."},
    {"min_batches", STK_OPTION_UINT, AT(min_batches), "200", 1, 1e12, NULL, NULL,
     "... and at least so many batches, unless num_epochs ends it before."},
    {"max_seconds", STK_OPTION_DURATION, AT(max_seconds), "60", 0, 1e6, NULL, NULL,
     "End the measurement of a setting after so long, whatever it has reached; 0: never."},
    {"num_epochs", STK_OPTION_UINT, AT(num_epochs), "0", 0, 1e9, NULL, NULL,
     "Epochs of a run; 0: as many as min_seconds and min_batches ask for."},
    {"num_batches", STK_OPTION_UINT, AT(num_batches), "0", 0, 1e12, NULL, NULL,
     "Batches of an epoch, after which the next begins; 0: all of them."},
    {"warmup", STK_OPTION_UINT, AT(warmup), "5", 0, 1e9, NULL, NULL,
     "Batches taken before the measured window; where num_epochs or num_batches is given, the run "
     "begins again after them."},
    {"repeat", STK_OPTION_UINT, AT(repeat), "1", 1, 1000, NULL, NULL,
     "Measure every setting so many times, in turn; rows show the run of the median rate."},
    {"ranks", STK_OPTION_UINT, AT(ranks), "1", 1, STK_BENCH_MAX_RANKS, NULL, NULL,
     "Processes that share each global batch on this machine, measured together."},
    {"all_reduce", STK_OPTION_SIZE, AT(all_reduce), "0", 0, MOST_REDUCED, NULL, NULL,
     "Bytes that all ranks combine at the end of each step, as gradients are: its ranks are then "
     "started by mpirun, whose MPI carries them. With ranks; 0: none."},
    {"ceiling", STK_OPTION_BOOL, AT(ceiling), "false", 0, 0, NULL, NULL,
     "Add a row that serves one batch again and again: what if data were free."},
    {"published", STK_OPTION_BOOL, AT(published), "false", 0, 0, NULL, NULL,
     "The defaults of the published benchmark: num_epochs 2, num_batches 3, batch_size 16, "
     "train_step_time 0.1."},
    {"ladder", STK_OPTION_BOOL, AT(ladder), "false", 0, 0, NULL, NULL,
     "Of several values do not measure all combinations: add one measure after the other, in the "
     "order given, and say what share each has in the speed-up."},
    {"trace", STK_OPTION_STRING, AT(trace), NULL, 0, 0, NULL, "FILE",
     "Write a trace of workers, reads, batches and steps for ui.perfetto.dev; a further setting's "
     "goes to FILE.2, ..."},
    {"trace_every", STK_OPTION_UINT, AT(trace_every), "1", 1, 1e9, NULL, "N",
     "Keep every N-th batch of the trace."},
    {"drop_cache", STK_OPTION_BOOL, AT(drop_cache), "false", 0, 0, NULL, NULL,
     "Ask the kernel to forget the dataset's files before each run (posix_fadvise)."},
    {"hash", STK_OPTION_STRING, AT(hash), NULL, 0, 0, NULL, "FILE",
     "Read the same batches once more, untimed, and write a line for each row: epoch, step, "
     "position, index, hash of its bytes; '-': standard output."},
};

const stk_option_table stk__bench_option_table = {
    .name = "bench",
    .doc = "What to measure, and for how long",
    .struct_size = sizeof(stk_bench_options),
    .options = rows,
    .count = STK_COUNT(rows),
};
