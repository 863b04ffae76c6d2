/* SPDX-License-Identifier: Apache-2.0 */
/* The described options of the loader: names, defaults, ranges. */
#include "loader/loader.h"

#include "base/base.h"

#define AT(member) offsetof(stk_loader_options, member)

static const stk_option options[] = {
    {"batch_size", STK_OPTION_UINT, AT(batch_size), "64", 1, 1u << 24, NULL, "N",
     "Samples of a batch of this rank."},
    {"global_batch_size", STK_OPTION_UINT, AT(global_batch_size), "0", 0, UINT32_MAX, NULL, "N",
     "Samples of a step over all ranks; 0: batch_size times world_size."},
    {"shuffle", STK_OPTION_ENUM, AT(shuffle), "false", 0, 0, "false|true|block", NULL,
     "false: as stored; true: all samples mixed; block: blocks of neighbours mixed, which reads "
     "far less of chunked data."},
    {"drop_last", STK_OPTION_BOOL, AT(drop_last), "false", 0, 0, NULL, NULL,
     "Leave out a short last batch."},
    {"seed", STK_OPTION_UINT, AT(seed), "0", 0, 0, NULL, "N",
     "Of the order and of every random draw."},
    {"block_size", STK_OPTION_UINT, AT(block_size), "0", 0, 0, NULL, "N",
     "shuffle block: neighbouring samples of a block; 0: as the dataset stores them."},
    {"shuffle_buffer", STK_OPTION_UINT, AT(shuffle_buffer), "0", 0, 1u << 20, NULL, "N",
     "shuffle block: blocks mixed at a time in each stream; 0: 16, or fewer where these have more "
     "than 131072 samples."},
    {"streams", STK_OPTION_UINT, AT(streams), "16", 1, 4096, NULL, "N",
     "shuffle block: independent streams of blocks; set it to world_size where that is no power of "
     "two: then each rank reads its own blocks, but for world_size - 1 of an epoch."},
    {"bucket_window", STK_OPTION_UINT, AT(bucket_window), "0", 0, 1u << 20, NULL, "N",
     "Sort the samples of so many batches by length, so that those of a batch are of like length "
     "and little of it is filled up; 50 is a good number. 0: no. Needs a field of varying length."},
    {"rank", STK_OPTION_UINT, AT(rank), "0", 0, 0, NULL, "N", "Of this process, from 0."},
    {"world_size", STK_OPTION_UINT, AT(world_size), "1", 1, 1u << 20, NULL, "N",
     "Processes that share each step."},
    {"epochs", STK_OPTION_UINT, AT(epochs), "0", 0, 0, NULL, "N",
     "Epochs to deliver; 0: without end. Prefetch runs across an epoch's end up to here."},
    {"num_workers", STK_OPTION_INT, AT(num_workers), "auto", 0, 1024, "auto", "N",
     "Threads that prepare samples; 0: the caller's own, without read-ahead; auto: the usable "
     "cores less those of compute at first, then as many as the steps wait for."},
    {"prefetch_factor", STK_OPTION_INT, AT(prefetch_factor), "2", 1, 1024, NULL, "N",
     "Batches ready or in work ahead of the consumer, for each worker."},
    {"persistent_workers", STK_OPTION_BOOL, AT(persistent_workers), "true", 0, 0, NULL, NULL,
     "Keep the workers, and prefetch, from epoch to epoch."},
    {"pin_memory", STK_OPTION_BOOL, AT(pin_memory), "false", 0, 0, NULL, NULL,
     "Lock the batches into memory, for copies to a device."},
    {"io_depth", STK_OPTION_INT, AT(io_depth), "auto", 1, 65536, "auto", "N",
     "Concurrent reads; auto: as many as serve the store well at first, then as many as the steps "
     "wait for."},
    {"memory_budget", STK_OPTION_SIZE, AT(memory_budget), "0", 0, 0, NULL, "SIZE",
     "Bound on all memory of the loader; 0: a quarter of what the process may use, at most 4 GiB."},
    {"cache", STK_OPTION_ENUM, AT(cache), "auto", 0, 0, "none|encoded|decoded|auto", NULL,
     "Keep samples in memory within the budget: as they were read, or as they were decoded; auto: "
     "decoded chunks, where shuffle is true and all of them fit."},
    {"timeout", STK_OPTION_DURATION, AT(timeout), "0", 0, 1e9, NULL, "SECONDS",
     "Give up when a batch takes longer; 0: never. It cannot end a call of a dataset of one's own "
     "in the caller's thread (num_workers 0)."},
    {"watchdog", STK_OPTION_DURATION, AT(watchdog), "30", 0, 1e9, NULL, "SECONDS",
     "Say who is stuck when a batch takes longer; 0: never."},
    {"on_error", STK_OPTION_ENUM, AT(on_error), "fail", 0, 0, "fail|skip|replace", NULL,
     "What becomes of a bad sample: an error, a hole in the batch, or another sample in its "
     "place."},
    {"max_errors", STK_OPTION_STRING, AT(max_errors), "auto", 0, 0, NULL, "N|N%",
     "With on_error skip or replace: more bad samples in an epoch fail the run: a count, or a "
     "share of the epoch's samples (100%: no bound); auto: 1 %, at least batch_size."},
    {"retries", STK_OPTION_INT, AT(retries), "3", 0, 100, NULL, "N",
     "More tries of a read whose failure may pass."},
    {"quarantine", STK_OPTION_STRING, AT(quarantine), NULL, 0, 0, NULL, "FILE",
     "Append one line for each bad sample to this file."},
    {"on_state_mismatch", STK_OPTION_ENUM, AT(on_state_mismatch), "fail", 0, 0, "fail|warn", NULL,
     "What becomes of a state that was saved with other transforms or another on_error."},
    {"transforms", STK_OPTION_STRING, AT(transforms), NULL, 0, 0, NULL, "LIST",
     "What is done to each picture: \"random_crop(28, padding=4), normalize(mnist)\"."},
    {"batch_transforms", STK_OPTION_STRING, AT(batch_transforms), NULL, 0, 0, NULL, "LIST",
     "What is done to each finished batch: \"mixup(0.2)\"."},
};

const stk_option_table stk__loader_option_table = {
    .name = "loader",
    .doc = "How samples become batches.",
    .struct_size = sizeof(stk_loader_options),
    .options = options,
    .count = STK_COUNT(options),
};
