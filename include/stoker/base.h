/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, errors, the context, data types: what every other header of Stoker needs. */
#ifndef STOKER_BASE_H
#define STOKER_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define STK_API
#else
#define STK_API __attribute__((visibility("default")))
#endif
#if defined(__GNUC__)
#define STK_NODISCARD           __attribute__((warn_unused_result))
#define STK_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define STK_NODISCARD
#define STK_PRINTF(text, first)
#endif

#define STK_VERSION_MAJOR 0
#define STK_VERSION_MINOR 1
#define STK_VERSION_PATCH 0

/*
 * Structs of the interface. One that begins with `uint32_t struct_size` may get members at its end
 * in later versions: who allocates it sets struct_size to its size before a call (an init
 * function does, or `stk_cores cores = {.struct_size = sizeof cores}`), and the library reads and
 * writes no more of it than that. A struct without it never changes.
 */

/** Version of the library that runs, as "0.1.0". Never NULL. Any thread. */
STK_API const char *stk_version(void);

/*
 * Whose fault a failure is. It decides, and nothing else does, what becomes of it: a sample's is
 * what `on_error` skips or replaces; the machine's may pass, so it is tried again and then fails
 * the run by name; the others fail at once. So no outcome depends on timing, and a refused
 * configuration never passes for bad data.
 */
typedef enum stk_fault {
    STK_FAULT_NONE = 0, /**< no failure: an answer */
    STK_FAULT_SAMPLE,   /**< of the data: trying again gives the same */
    STK_FAULT_MACHINE,  /**< of memory, system or storage: it may pass */
    STK_FAULT_CALLER,   /**< of a call, an option, or of what this machine or build cannot do */
    STK_FAULT_STOKER    /**< a defect of the library */
} stk_fault;

/* The one list of statuses: X(name, value, fault, text). 0 is good, positives are answers,
 * negatives are failures. */
#define STK_STATUS_LIST(X)                                                                         \
    X(STK_OK, 0, NONE, "good")                                                                     \
    X(STK_EOS, 1, NONE, "end of the epoch")                                                        \
    X(STK_EAGAIN, 2, NONE, "nothing yet, the time given has passed")                               \
    /* The caller's doing. */                                                                      \
    X(STK_EINVAL, -1, CALLER, "invalid argument")                                                  \
    /* By this machine, this build or this driver; data of a kind that is not read is STK_EKIND.   \
     */                                                                                            \
    X(STK_ENOTSUP, -2, CALLER, "not supported")                                                    \
    X(STK_EMISMATCH, -3, CALLER, "state or data of something else")                                \
    X(STK_EBUSY, -4, CALLER, "all of it is in use")                                                \
    X(STK_EFORK, -5, CALLER, "handle used after fork")                                             \
    X(STK_ECANCELED, -6, CALLER, "canceled")                                                       \
    X(STK_EEXIST, -7, CALLER, "exists already")                                                    \
    /* Resources. */                                                                               \
    X(STK_ENOMEM, -20, MACHINE, "out of memory")                                                   \
    /* Of a sample: too large for the budget whatever else is at work. */                          \
    X(STK_EBUDGET, -21, SAMPLE, "does not fit the memory budget")                                  \
    X(STK_ETHREAD, -22, MACHINE, "could not start a thread")                                       \
    X(STK_ESYSTEM, -23, MACHINE, "a system call failed")                                           \
    /* Storage. */                                                                                 \
    X(STK_EIO, -40, MACHINE, "input/output error")                                                 \
    X(STK_ENOENT, -41, SAMPLE, "not found")                                                        \
    X(STK_EACCES, -42, SAMPLE, "permission denied")                                                \
    X(STK_ETRUNCATED, -43, SAMPLE, "ends too early")                                               \
    X(STK_ETIMEDOUT, -44, MACHINE, "timed out")                                                    \
    X(STK_ECHANGED, -45, SAMPLE, "changed while it was read")                                      \
    X(STK_ENOSPC, -46, MACHINE, "no space left")                                                   \
    /* Data. */                                                                                    \
    X(STK_EFORMAT, -60, SAMPLE, "damaged or not of this format")                                   \
    X(STK_ELIMIT, -61, SAMPLE, "beyond a limit")                                                   \
    X(STK_ECHECKSUM, -62, SAMPLE, "checksum does not match")                                       \
    X(STK_EBADSAMPLES, -63, SAMPLE, "more bad samples than max_errors allows")                     \
    X(STK_EKIND, -64, SAMPLE, "of a kind that is not supported")                                   \
    X(STK_EINTERNAL, -99, STOKER, "defect in stoker")

typedef enum stk_status {
#define STK_STATUS_ENUM(name, value, fault, text) name = value,
    STK_STATUS_LIST(STK_STATUS_ENUM)
#undef STK_STATUS_ENUM
} stk_status;

/** Name of a status, as "STK_EIO". Never NULL. Any thread. */
STK_API const char *stk_status_name(stk_status status);
/** One plain phrase for a status. Never NULL. Any thread. */
STK_API const char *stk_status_text(stk_status status);
/** Whose fault a status is; STK_FAULT_CALLER for a negative number that is none of the list, as the
 * caller's own code may return. Any thread. */
STK_API stk_fault stk_status_fault(stk_status status);

/*
 * What a wait for a batch was for, along the way of the sample that completed it: X(NAME, name,
 * text). The parts of a wait add up to it.
 */
#define STK_WAIT_LIST(X)                                                                           \
    X(READ_SLOT, read_slot, "a free read slot")                                                    \
    X(STORAGE_LATENCY, storage_latency, "storage latency")                                         \
    X(STORAGE_TRANSFER, storage_transfer, "storage transfer")                                      \
    X(RETRY, retry, "reads tried again")                                                           \
    X(WORKER, worker, "a free worker")                                                             \
    X(DECODE_ENTROPY, decode_entropy, "entropy decoding")                                          \
    X(DECODE, decode, "decoding")                                                                  \
    X(TRANSFORM, transform, "transforms")                                                          \
    X(COLLATE, collate, "collating")                                                               \
    X(MEMORY_BUDGET, memory_budget, "room in the memory budget")                                   \
    X(ORDERING, ordering, "a straggler before finished batches")                                   \
    X(STARTUP, startup, "the start")                                                               \
    X(EPOCH_TURN, epoch_turn, "the turn of the epoch")                                             \
    X(OTHER, other, "everything else")

typedef enum stk_wait {
#define STK_WAIT_ENUM(NAME, name, text) STK_WAIT_##NAME,
    STK_WAIT_LIST(STK_WAIT_ENUM)
#undef STK_WAIT_ENUM
        STK_WAIT_PARTS,
    STK_WAIT_ROOM = 24 /* of arrays by part: parts may be added */
} stk_wait;

/** A part in plain words. Never NULL. Any thread. */
STK_API const char *stk_wait_text(stk_wait part);

/** Waits of a consumer: nanoseconds that add up to `total_ns`. */
typedef struct stk_waits {
    uint64_t batches;  /**< handed out */
    uint64_t total_ns; /**< spent in asking for them */
    uint64_t parts_ns[STK_WAIT_ROOM];
} stk_waits;

/** Where bytes that samples asked for were found, from near to far. */
typedef enum stk_tier_kind {
    STK_TIER_MEMORY, /**< the option `cache` of a loader */
    STK_TIER_DISK,   /**< the folder of a store cache+URL */
    STK_TIER_REMOTE, /**< the store that it wraps */
    STK_TIERS
} stk_tier_kind;

typedef struct stk_tier {
    uint64_t reads; /**< samples or ranges of memory, reads of the others */
    uint64_t bytes;
    uint64_t ns; /**< that the reads took, a sum over all */
} stk_tier;

/** Counts that only grow, by stk_tier_kind. What no cache+URL read is not counted but in memory. */
typedef struct stk_tiers {
    stk_tier of[STK_TIERS];
} stk_tiers;

/** What the tiers gave and what they saved, as one sentence; "" where no store cache+URL was read.
 * Returns the length, as snprintf(). Any thread. */
STK_API int stk_tiers_format(const stk_tiers *tiers, char *text, size_t size);

#define STK_CLAIM_KINDS 3

/** Ranges of which about as many samples need one, as pages of a table; all 0: there are none. */
typedef struct stk_claim_kind {
    uint64_t rows;          /**< samples that need the same range, about */
    uint64_t needs;         /**< such ranges that a sample needs, */
    uint64_t read, decoded; /**< and their bytes, all of them together */
} stk_claim_kind;

/** What a loader's memory_budget is divided among, and what its samples share: with these another
 * budget can be foretold. Bytes, where nothing else is said; all 0: not known. */
typedef struct stk_claims {
    uint64_t slab, step;    /**< of a batch; of the record of one that is planned */
    uint64_t worker, fixed; /**< of a worker; of what is there once */
    uint64_t most_read;     /**< that the reads of one sample take, the most of some */
    uint64_t shared;        /**< decoded, of all ranges that samples share; 0: unknown, or none */
    uint64_t block;         /**< of a block, where it may be read as a whole */
    uint64_t mixed_blocks;  /**< at hand at a time, where samples are mixed by blocks, */
    uint64_t mixed;         /**< and the samples of this rank in them; 0: they are not */
    uint64_t streams;       /**< of this rank, that take turns, each with its part of these */
    uint64_t samples;       /**< of all ranks */
    bool scattered;         /**< the order is one permutation of all samples */
    bool reads, ragged;     /**< samples read; have values that vary in length */
    bool caches;            /**< some of it is a cache's */
    bool whole;             /**< blocks are read as a whole */
    stk_claim_kind kinds[STK_CLAIM_KINDS]; /**< where it is known, what samples need where they
                                                are not; the most samples first */
} stk_claims;

/**
 * What reads over the network (http, s3, gs) took, of all stores of a context: counts, and times
 * that are sums over the reads that came. A read is a range that was asked for; it takes one
 * request, or more where some fail or are late. Zeros where nothing is read over the network.
 */
typedef struct stk_network {
    uint64_t reads, bytes; /**< that came, and their bytes */
    uint64_t requests;     /**< that were sent for them */
    uint64_t retries;      /**< of the requests: again, after one that failed */
    uint64_t twice;        /**< of the requests: next to one that was late */
    uint64_t throttled;    /**< answers that the server is asked for too much (429, 503) */
    uint64_t late;         /**< requests given up as no answer, or no more of it, came in time */
    uint64_t connects;     /**< connections that were made */
    uint64_t turn_ns;      /**< before a request was sent: all connections were in use */
    uint64_t throttled_ns; /**< in tries in vain and waits after them, where one was throttled */
    uint64_t again_ns;     /**< the same where none was: other failures, and late answers */
    uint64_t connect_ns;   /**< of the request that brought it: until there was a connection */
    uint64_t first_ns;     /**< from there to the first byte of the answer */
    uint64_t body_ns;      /**< from there to the last */
    uint64_t connections;  /**< the option: requests under way at a host at most */
    uint64_t window;       /**< how many may be now: fewer where the server throttles */
    double transfer_share; /**< of the time from sending to the last byte, the part that grows with
                                the bytes under way, an estimate */
} stk_network;

/** The room in which something happened: the folders of the source tree, in the order of a sample's
 * way. */
typedef enum stk_stage {
    STK_STAGE_NONE = 0,
    STK_STAGE_OPTIONS,
    STK_STAGE_STORE,
    STK_STAGE_CODEC,
    STK_STAGE_ARRAY,
    STK_STAGE_DATASET,
    STK_STAGE_TRANSFORM,
    STK_STAGE_LOADER,
    STK_STAGE_DEVICE,
    STK_STAGE_TRAIN,
    STK_STAGE_CONVERT,
    STK_STAGE_MEASURE
} stk_stage;

#define STK_NO_SAMPLE  UINT64_MAX
#define STK_NO_OFFSET  UINT64_MAX
#define STK_ERROR_KEY  256
#define STK_ERROR_TEXT 640

/** What went wrong, to what, and what to do. Filled by the failing call; plain memory, copied
 * freely. */
typedef struct stk_error {
    stk_status status;
    stk_stage stage;
    uint64_t sample;           /**< index in the dataset, or STK_NO_SAMPLE */
    uint64_t offset;           /**< byte offset in `key`, or STK_NO_OFFSET */
    char key[STK_ERROR_KEY];   /**< object, file or option; may be empty; cut with "..." in front */
    char text[STK_ERROR_TEXT]; /**< one message: what happened, to what, and the remedy */
} stk_error;

/** Make an error empty. Every call that takes one accepts NULL in its place. */
STK_API void stk_error_init(stk_error *err);

/** Types of elements. The sizes are those of the names; BOOL is one byte. Little endian in memory.
 */
typedef enum stk_dtype {
    STK_DTYPE_NONE = 0,
    STK_BOOL,
    STK_UINT8,
    STK_INT8,
    STK_UINT16,
    STK_INT16,
    STK_UINT32,
    STK_INT32,
    STK_UINT64,
    STK_INT64,
    STK_FLOAT16,
    STK_BFLOAT16,
    STK_FLOAT32,
    STK_FLOAT64,
    STK_COMPLEX64,
    STK_COMPLEX128,
    STK_DTYPE_COUNT
} stk_dtype;

/** Bytes of one element; 0 for an unknown type. */
STK_API size_t stk_dtype_size(stk_dtype dtype);
/** NumPy's name of the type ("uint8", "float32", "bfloat16"). Never NULL. */
STK_API const char *stk_dtype_name(stk_dtype dtype);
/** The type of a NumPy name; STK_DTYPE_NONE when it is none. */
STK_API stk_dtype stk_dtype_parse(const char *name);

#define STK_MAX_RANK 8

/** Bytes in memory. */
typedef struct stk_slice {
    const void *data;
    uint64_t size;
} stk_slice;

/* ---- Context ---- */

typedef struct stk_context stk_context;

typedef enum stk_message_level {
    STK_MESSAGE_DEBUG = 0,
    STK_MESSAGE_INFO,
    STK_MESSAGE_WARNING,
    STK_MESSAGE_ERROR
} stk_message_level;

/** Takes one message without a line end. Called from any thread, with no lock of Stoker's held. */
typedef void stk_message_fn(void *user, stk_message_level level, const char *message);

/** Progress of long work: `done` of `total` (0: unknown) of `what`. Called from one thread at a
 * time. */
typedef void stk_progress_fn(void *user, const char *what, uint64_t done, uint64_t total);

/** The caller's allocator. `alloc` returns memory aligned to `align` (a power of two) or NULL. Any
 * thread. */
typedef struct stk_allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *memory, size_t size);
    void *user;
} stk_allocator;

typedef enum stk_io_engine { STK_IO_AUTO = 0, STK_IO_URING, STK_IO_THREADS } stk_io_engine;

/** Which instruction sets kernels may use; the results are the same. */
typedef enum stk_instructions {
    STK_INSTRUCTIONS_ALL = 0, /**< all that this machine has */
    STK_INSTRUCTIONS_PLAIN    /**< plain C only */
} stk_instructions;

/** Where the ranks of a machine with several NUMA nodes run. */
typedef enum stk_numa {
    STK_NUMA_AUTO = 0, /**< on nodes of their own, with the memory of these, where ranks and nodes
                          divide evenly */
    STK_NUMA_OFF       /**< anywhere */
} stk_numa;

/** The table "context" (stk_option_table_find()) has the first four, `stores`, `local_ranks` and
 * `numa`; the others are the program's. */
typedef struct stk_context_options {
    uint32_t struct_size;
    stk_io_engine io_engine; /**< AUTO: io_uring, or threads where it is refused */
    /** Threads of the training step, whose cores are kept for it. 0: a model takes as many as it
     * has work for, and one core is kept. */
    uint64_t compute_threads;
    uint64_t memory_limit; /**< bytes the process may use; 0: found out (cgroup, physical memory) */
    stk_instructions instructions;
    stk_allocator allocator;    /**< all NULL: the C library's */
    stk_message_fn *on_message; /**< NULL: messages are dropped */
    void *on_message_user;
    stk_progress_fn *progress; /**< NULL: none is shown */
    void *progress_user;
    /** Options of stores: "PREFIX(option=value), PREFIX(option=value)", as
     * "acme://data(timeout=5s, token=env:ACME_TOKEN)". A prefix is the name of a store, or how its
     * URLs begin; where several match, later ones prevail, and the query of the URL over all. Is
     * copied. NULL: none */
    const char *stores;
    /** Processes like this one that share its cores and its memory, as the ranks of one machine do:
     * each takes its part. 0: one. stk_ranks_sharing() has it. */
    uint64_t local_ranks;
    /** Processes like this one that share the machine's memory: more than share its cores where
     * each is bound to cores of its own. 0: as many as local_ranks. stk_ranks_sharing_memory() has
     * it. */
    uint64_t memory_ranks;
    /** Which of local_ranks this one is, from 1: its threads are put on the NUMA nodes that are its
     * part, which are those of stk_cores then. 0: not known, and they run anywhere. */
    uint64_t local_number;
    stk_numa numa;
} stk_context_options;

static inline void stk_context_options_init(stk_context_options *options)
{
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
}

/**
 * Make a context: allocator, sinks, and the division of the usable cores. Two contexts in one
 * process do not meet.
 *
 * `options` may be NULL for the defaults. Ownership: *out is the caller's, ended with
 * stk_context_destroy(); what was made from it keeps it alive. Thread: any. Does not block. Errors:
 * STK_EINVAL, STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_context_create(const stk_context_options *options,
                                                    stk_context **out, stk_error *err);

/**
 * A context, and all that was made from it, belongs to the process that made it. In a child of
 * fork() every call with such a handle that has a status answers STK_EFORK, but those that only
 * read or set plain memory; calls without one return at once with nothing done (NULL, 0, false),
 * and what ends a handle sets it to NULL and frees nothing. A child makes its own.
 */

/** Give up the caller's share of the context and set *context to NULL. Accepts NULL. Any thread. */
STK_API void stk_context_destroy(stk_context **context);

/** How the usable cores (affinity mask and cgroup quota, v1 and v2) are divided: first among
 * processes that share them, then within each. */
typedef struct stk_cores {
    uint32_t struct_size;
    uint32_t online;      /**< cores of the machine */
    uint32_t affinity;    /**< cores in the affinity mask */
    double quota;         /**< cores of the cgroup quota; 0: none */
    uint32_t usable;      /**< whole cores this process can keep busy; at least 1 */
    uint32_t compute;     /**< that the training step computes on */
    uint32_t preparation; /**< left for workers: what num_workers `auto` takes; at least 1 */
    uint32_t io;          /**< threads of the I/O engine, which mostly sleep */
    uint32_t ranks; /**< processes that share `usable`; compute, preparation and io are of one */
    uint32_t nodes; /**< NUMA nodes with cores for this process and others like it; 0: not told */
    uint32_t own_nodes; /**< of these, those that it runs on */
    char node_list[32]; /**< their numbers, "1" or "2-3"; empty where they are all */
    bool bound; /**< ranks were divided among the nodes: affinity, usable and ranks are those of its
                   own, and the threads of the context run there */
    uint32_t all_usable, all_ranks; /**< cores and processes of all nodes */
} stk_cores;

STK_API void stk_context_cores(const stk_context *context, stk_cores *out);

/**
 * Put the calling thread on the context's part of the machine: it, and threads and processes that
 * it starts from then on, run on the cores of its NUMA nodes and take memory there first. Nothing
 * where no part was found (stk_cores), and nothing of what the system refuses. The threads of the
 * library are there already. stk_context_unbind() gives the thread back the mask that it had.
 * Thread: one caller at a time. Does not block.
 */
STK_API void stk_context_bind(stk_context *context);
STK_API void stk_context_unbind(stk_context *context);

/** What Stoker itself has allocated through this context. Counters only grow. */
typedef struct stk_memory_stats {
    uint32_t struct_size;
    uint64_t allocations; /**< calls of the allocator */
    uint64_t bytes;       /**< bytes held now */
    uint64_t peak_bytes;  /**< most bytes ever held */
} stk_memory_stats;

STK_API void stk_context_memory(const stk_context *context, stk_memory_stats *out);

#ifdef __cplusplus
}
#endif
#endif
