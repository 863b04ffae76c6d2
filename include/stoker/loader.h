/* SPDX-License-Identifier: Apache-2.0 */
/* The loader: samples -> ready batches, in an order that depends on nothing but its options. */
#ifndef STOKER_LOADER_H
#define STOKER_LOADER_H

#include <stoker/dataset.h>
#include <stoker/transform.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_loader stk_loader;
typedef struct stk_batch stk_batch;

typedef enum stk_shuffle { STK_SHUFFLE_NONE = 0, STK_SHUFFLE_FULL, STK_SHUFFLE_BLOCK } stk_shuffle;
typedef enum stk_on_error {
    STK_ON_ERROR_FAIL = 0,
    STK_ON_ERROR_SKIP,
    STK_ON_ERROR_REPLACE
} stk_on_error;
/** What becomes of a state that was saved with other transforms or another on_error. */
typedef enum stk_loader_state_mismatch {
    STK_MISMATCH_FAIL = 0,
    STK_MISMATCH_WARN
} stk_loader_state_mismatch;
typedef enum stk_cache_mode {
    STK_CACHE_NONE = 0,
    STK_CACHE_ENCODED,
    STK_CACHE_DECODED,
    STK_CACHE_AUTO /**< decoded where samples come back at random to ranges that are decoded, and
                      all of these fit; else none */
} stk_cache_mode;

/** The table of stk_loader_options: names, defaults and ranges are written there
 * (src/loader/options.c). */
typedef struct stk_loader_options {
    uint32_t struct_size;
    /* Order: these, the seed and the size of the dataset decide which sample is where. */
    uint64_t batch_size;        /**< samples of a batch of this rank */
    uint64_t global_batch_size; /**< samples of a step over all ranks; 0: batch_size x world_size */
    int32_t shuffle;            /**< stk_shuffle */
    bool drop_last;             /**< leave out a short last batch */
    uint64_t seed;
    uint64_t block_size;     /**< shuffle block: samples of a block; 0: the dataset's */
    uint64_t shuffle_buffer; /**< shuffle block: blocks mixed at a time; 0: 16 or fewer */
    uint64_t streams;        /**< shuffle block: canonical streams */
    uint64_t rank, world_size;
    uint64_t epochs; /**< 0: without end; prefetch runs across an epoch's end up to this many */
    /* Speed: these change nothing but time and memory. */
    int64_t num_workers;     /**< threads that prepare samples; 0: the caller's, without read-ahead;
                                STK_AUTO */
    int64_t prefetch_factor; /**< batches ready or in work ahead of the consumer, for each worker */
    bool persistent_workers; /**< keep the workers from epoch to epoch */
    bool pin_memory;         /**< lock the slabs into memory */
    int64_t io_depth;        /**< concurrent reads; STK_AUTO: what the store says */
    uint64_t memory_budget;  /**< bytes, a bound on all the loader holds; 0: a quarter of what the
                                process may use, at most 4 GiB */
    int32_t cache;           /**< stk_cache_mode */
    double timeout;  /**< seconds until stk_loader_next() gives up with STK_ETIMEDOUT, of calls in
                        a row that gave STK_EAGAIN from the first on; 0: never. A
                        call of a dataset of one's own in the caller's thread (num_workers 0)
                        cannot be ended: the log names it after `watchdog` */
    double watchdog; /**< seconds after which the log says who is stuck; 0: never */
    /* Bad samples. */
    int32_t on_error;          /**< stk_on_error */
    const char *max_errors;    /**< more bad samples in an epoch than this fail the run: a count, a
                                  share of the epoch's samples ("0.5%"; "100%": no bound), or "auto",
                                  which NULL is too: 1 %, at least batch_size */
    int64_t retries;           /**< more tries of a read that failed for a while */
    const char *quarantine;    /**< file that gets one line for each bad sample; NULL: none */
    int32_t on_state_mismatch; /**< stk_loader_state_mismatch */
    /* Transforms. */
    const char *transforms;       /**< "random_crop(28, padding=4), normalize(mnist)"; NULL: none */
    const char *batch_transforms; /**< "mixup(0.2)"; NULL: none */
    struct stk_device *device;    /**< batches are in host memory of this device (alloc_host), which
                                     outlives loader and batches; NULL: in plain memory */
    /* Order, as the first ones. */
    uint64_t bucket_window; /**< batches whose samples are sorted by length; 0: they are not */
} stk_loader_options;

static inline void stk_loader_options_init(stk_loader_options *options)
{
    stk_options_init(stk_option_table_find("loader"), options, sizeof *options);
}

/**
 * Make a loader over a dataset and start its threads.
 *
 * Ownership: *out is the caller's, ended with stk_loader_destroy(). The dataset must outlive the
 * loader and its batches. `options` is copied. Thread: any. Blocks: no longer than starting threads
 * takes. Errors: STK_EINVAL (an option, named), STK_EBUDGET (what is needed and what there is),
 * STK_ENOMEM, STK_ETHREAD.
 */
STK_API STK_NODISCARD stk_status stk_loader_create(stk_dataset *dataset,
                                                   const stk_loader_options *options,
                                                   stk_loader **out, stk_error *err);

/** What a loader would deliver. */
typedef struct stk_loader_description {
    uint32_t struct_size;
    uint32_t num_fields;    /**< of a batch */
    uint64_t steps;         /**< of an epoch: batches of this rank */
    uint64_t rows;          /**< of a full batch of this rank */
    uint64_t memory_budget; /**< bytes that the option comes to */
    uint64_t memory_bytes;  /**< that it holds at most of them, or needs at least where they are too
                                 few, with what the dataset keeps in memory */
    double padding;         /**< with bucket_window: the share of a batch, filled up to its longest
                                 sample, that is filling, of the first window of epoch 0, by the bytes
                                 that the dataset says; else 0 */
    double padding_without; /**< the same if samples were not sorted */
} stk_loader_description;

/**
 * What a loader of these options would deliver, without threads, reads or the memory of batches.
 * The first `room` fields of a batch are written to `fields`, whose first entry says the
 * struct_size of all; their names live as long as the dataset. `fields` may be NULL when `room` is
 * 0.
 *
 * Thread: any. Does not wait for storage. Errors: those of stk_loader_create() that have to do with
 * an option, a field or a transform.
 */
STK_API STK_NODISCARD stk_status stk_loader_describe(stk_dataset *dataset,
                                                     const stk_loader_options *options,
                                                     stk_loader_description *out, stk_field *fields,
                                                     uint32_t room, stk_error *err);

/** Stop and join all threads, free all but batches still held, set *loader to NULL. Accepts NULL;
 * any time. */
STK_API void stk_loader_destroy(stk_loader **loader);

/** Make this and every later wait of the loader end with STK_ECANCELED. Safe in a signal handler.
 * Any thread. */
STK_API void stk_loader_cancel(stk_loader *loader);

/**
 * Take the next finished batch.
 *
 * @return STK_OK and a batch; STK_EOS once at the end of each epoch (the next call begins the next
 * one) and for ever after the last; STK_EAGAIN when `timeout_ms` passed first; STK_EBUSY when the
 * caller holds every batch, or more than one where a sample wants their memory; any other status is
 * a failure, named in `err`; after a failed sample
 * the loader can still be used.
 *
 * Ownership: on STK_OK the caller owns *out, until stk_batch_release(); on anything else *out is
 * NULL. STK_EINVAL from within a function of the loader's own dataset or transforms.
 * Thread:    one caller at a time.  Blocks: up to `timeout_ms` (-1 = no limit but the option
 * `timeout`).
 */
STK_API STK_NODISCARD stk_status stk_loader_next(stk_loader *loader, int64_t timeout_ms,
                                                 stk_batch **out, stk_error *err);

/** Go to the start of an epoch, from 0. Prefetched batches of another epoch are discarded. Thread:
 * the consumer's. */
STK_API STK_NODISCARD stk_status stk_loader_set_epoch(stk_loader *loader, uint64_t epoch,
                                                      stk_error *err);

/** Steps of one epoch, the same on every rank. */
STK_API uint64_t stk_loader_steps(const stk_loader *loader);
/** Fields of a batch, after the transforms: those of the dataset, then `index`; see stk_field_at().
 * They live as long as the loader. */
STK_API const stk_field *stk_loader_fields(const stk_loader *loader, uint32_t *num_fields);

/* ---- Batches ---- */

/**
 * A field of a batch. FIXED: `data` holds [count, shape...] in C order. RAGGED and BYTES: `offsets`
 * holds count + 1 element offsets into `data`. A field that is filled up (`padding` of the dataset)
 * is RAGGED or BYTES in stk_loader_fields() and FIXED here, [count, L, shape...], L that of the
 * batch. Valid until the batch is released.
 */
typedef struct stk_tensor {
    uint32_t struct_size;
    stk_dtype dtype;
    const char *name;
    stk_layout layout;
    uint32_t rank;
    int64_t shape[STK_MAX_RANK + 1]; /**< shape[0] = count */
    void *data;              /**< 64 bytes aligned; may be written while the batch is held */
    const uint64_t *offsets; /**< NULL for FIXED */
} stk_tensor;

/** Real rows: less than the batch size in a short last batch and where bad samples were skipped;
 * may be 0. */
STK_API uint64_t stk_batch_count(const stk_batch *batch);
STK_API uint64_t stk_batch_epoch(const stk_batch *batch);
/** Step within the epoch, from 0. */
STK_API uint64_t stk_batch_step(const stk_batch *batch);
/** Position in the epoch's order of each real row; `count` values. */
STK_API const uint64_t *stk_batch_positions(const stk_batch *batch);
/** Field `i`, or STK_EINVAL past the last. */
STK_API STK_NODISCARD stk_status stk_batch_field(const stk_batch *batch, uint32_t i,
                                                 stk_tensor *out);
/** Field of a name ("image", "label", "index"), or STK_EINVAL. */
STK_API STK_NODISCARD stk_status stk_batch_find(const stk_batch *batch, const char *name,
                                                stk_tensor *out);
/** Give the batch back and set *batch to NULL. Accepts NULL. Any thread, also after the loader is
 * gone; does nothing in a child. One that is not held is left alone, and an error in the log says
 * so. */
STK_API void stk_batch_release(stk_batch **batch);

/**
 * Let the caller keep a batch without keeping it from the loader: its memory becomes its own, and
 * the loader gets as much anew, beyond memory_budget. For a consumer that keeps many, when
 * stk_loader_next() is STK_EBUSY. *batch is another handle for the same values at the same places.
 *
 * Thread: any, the batch's one user. Errors: STK_ENOMEM, and STK_EBUSY while DLPack tensors hold
 * the batch; *batch is as it was then.
 */
STK_API STK_NODISCARD stk_status stk_batch_detach(stk_batch **batch, stk_error *err);

/* ---- State ---- */

/** "Everything up to and including this batch was consumed." Plain numbers; the same for every
 * rank. */
typedef struct stk_loader_state {
    uint64_t version;
    uint64_t epoch, step; /**< the next step to deliver */
    uint64_t fingerprint; /**< of the dataset */
    uint64_t size;        /**< of the dataset */
    uint64_t seed;
    uint64_t global_batch_size;
    uint64_t block_size, shuffle_buffer, streams; /**< of shuffle: block; else 0 */
    uint64_t transforms;                          /**< a hash of both lists */
    uint64_t on_error;                            /**< stk_on_error */
    uint64_t bucket_window;                       /**< batches; 0: none */
    uint32_t shuffle;
    uint32_t drop_last;
    uint64_t reserved[7]; /**< 0 */
} stk_loader_state;

STK_API void stk_batch_get_state(const stk_batch *batch, stk_loader_state *out);
/** The state before the next batch to be delivered. */
STK_API void stk_loader_get_state(const stk_loader *loader, stk_loader_state *out);
/**
 * Go on after a state, in O(1), with any number of workers and ranks. Thread: the consumer's.
 * Errors: STK_EMISMATCH naming what differs, both values, and the remedy; of transforms and
 * on_error unless `on_state_mismatch` is to warn.
 */
STK_API STK_NODISCARD stk_status stk_loader_restore(stk_loader *loader,
                                                    const stk_loader_state *state, stk_error *err);
/**
 * Whether a state is one of this loader's order and values, at whatever step it is: for one that
 * begins an epoch after it. Errors: STK_EMISMATCH naming what differs; where `on_state_mismatch` is
 * to warn that is a message, and the answer STK_OK. Thread: any.
 */
STK_API STK_NODISCARD stk_status stk_loader_compare(const stk_loader *loader,
                                                    const stk_loader_state *state, stk_error *err);
/** A state as one line of text (no line end), less than 500 bytes. Returns the length, as
 * snprintf(). */
STK_API int stk_loader_state_format(const stk_loader_state *state, char *text, size_t size);
/** And back; a line end is passed over. Errors: STK_EFORMAT; STK_EKIND, of another version;
 * STK_ECHECKSUM, changed since it was written. */
STK_API STK_NODISCARD stk_status stk_loader_state_parse(const char *text, stk_loader_state *out,
                                                        stk_error *err);

/* ---- Figures ---- */

/** The stages of a loader, in the order of a sample's way. */
typedef enum stk_loader_stage {
    STK_LOADER_ORDER = 0,
    STK_LOADER_READ,
    STK_LOADER_PREPARE,
    STK_LOADER_DELIVER,
    STK_LOADER_STAGES
} stk_loader_stage;

/** One stage of the loader since it was made. Counters only grow. Times are sums over threads. */
typedef struct stk_stage_stats {
    const char *name; /**< "order", "read", "prepare", "deliver" */
    uint64_t items;   /**< samples; of "read" requests; of "deliver" batches */
    uint64_t bytes;
    uint64_t failures;
    uint64_t busy_ns;
    uint64_t wait_in_ns;  /**< idle for want of input */
    uint64_t wait_out_ns; /**< idle for want of room */
} stk_stage_stats;

typedef struct stk_loader_stats {
    uint32_t struct_size;
    stk_stage_stats stages[STK_LOADER_STAGES]; /**< by stk_loader_stage */
    uint64_t workers;                          /**< threads, 0 where the caller prepares */
    uint64_t depth;                            /**< batches of the ring */
    uint64_t ready; /**< finished batches that wait to be taken: one more than `depth` at most */
    uint64_t io_depth;
    uint64_t memory_budget;
    uint64_t memory_bytes; /**< held now under the budget */
    uint64_t memory_peak;
    uint64_t slab_bytes;              /**< memory of one batch */
    uint64_t requests, request_bytes; /**< reads sent to the store, and their bytes */
    uint64_t needed_bytes;            /**< bytes the samples asked for */
    uint64_t cache_hits, cache_misses, cache_bytes;
    uint64_t bad_samples;         /**< see stk_loader_get_bad_samples() */
    uint64_t empty_batches;       /**< handed out without a row, as all of theirs were bad */
    uint64_t positions_evaluated; /**< places of the order that were computed */
    /* Of encoded pictures, parts of "prepare": sums over threads. */
    uint64_t pictures;       /**< decoded */
    uint64_t picture_pixels; /**< decoded in them: those of the boxes, at the scale of the decode */
    uint64_t decode_ns;      /**< reading JPEG or PNG */
    uint64_t resize_ns;      /**< resizing, cropping, flipping, converting and writing them */
    /* Of a dataset that decodes what samples share (chunks of an array). */
    uint64_t chunks_needed;  /**< chunks that the samples asked for, one by one */
    uint64_t chunks_decoded; /**< of them; the others were there already, or are fill value */
    uint64_t
        chunk_bytes_decoded;  /**< bytes that came out; beyond those of the samples: over-read */
    uint64_t chunk_decode_ns; /**< sum over threads */
    stk_waits waits; /**< of stk_loader_next(); entropy decoding is in `decode`: see stk_survey */
    uint64_t budget_wait_ns; /**< that planning waited for room in memory_budget */
    /* Of a read, fitted over all of them: latency_ns + bytes under way * ns_per_byte. */
    double read_latency_ns, read_ns_per_byte;
    double read_transfer_share; /**< of a mean read, the part that grows with the bytes */
    stk_tiers tiers; /**< memory: of this loader, as kept; the others: of all that the context read
                          through stores cache+URL */
    stk_network network; /**< of all reads of the context, of other loaders as well */
    uint64_t held;    /**< batches of the ring, of `depth` and one more, that the consumer holds, or
                         tensors and arrays of other libraries */
    uint64_t samples; /**< of its order: those of the dataset */
    uint64_t batch_size; /**< rows of a batch of this rank */
    stk_claims claims;   /**< of memory_budget */
    uint64_t pool_bytes; /**< that reads may hold, with what comes of them */
} stk_loader_stats;

/** Zeros in a child. Any thread. */
STK_API void stk_loader_get_stats(const stk_loader *loader, stk_loader_stats *out);

#define STK_BAD_REASONS 4

/** Bad samples of one kind. */
typedef struct stk_bad_reason {
    uint64_t samples;
    stk_error first; /**< what is wrong with the first of them */
} stk_bad_reason;

/** The bad samples of a loader since it was made, in the batches that were taken. */
typedef struct stk_bad_samples {
    uint32_t struct_size;
    uint64_t samples;           /**< bad; the next three add up to it */
    uint64_t skipped, replaced; /**< in batches that were handed out */
    uint64_t failed;            /**< in batches that failed on account of some of them */
    uint64_t empty_batches;     /**< handed out without a row, as all of theirs were bad */
    uint32_t num_reasons;
    stk_bad_reason reasons[STK_BAD_REASONS]; /**< the first that were met */
    char quarantine[STK_ERROR_KEY];          /**< the file that lists them; "": there is none */
} stk_bad_samples;

/** What a command ends with; zeros in a child. Any thread. */
STK_API void stk_loader_get_bad_samples(const stk_loader *loader, stk_bad_samples *out);
/** The same in one line of words, without a line end; empty where none is bad. Returns the length,
 * as snprintf(). */
STK_API int stk_bad_samples_format(const stk_bad_samples *bad, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
