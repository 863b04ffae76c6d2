/* SPDX-License-Identifier: Apache-2.0 */
/* The chunk advisor: what windows cut out of a chunked array cost, and which chunks cost least.
 * Pure arithmetic but for stk_chunks_question_of(): nothing is read, allocated or kept. */
#ifndef STOKER_CHUNKS_H
#define STOKER_CHUNKS_H

#include <stoker/array.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How windows follow each other. */
typedef enum stk_chunks_access {
    /** Each window by itself, nothing kept between them. */
    STK_CHUNKS_RANDOM = 0,
    /** All windows in C order; a chunk is kept until the sweep has left it, as far as the memory
     * allows. */
    STK_CHUNKS_SEQUENTIAL,
    /** Blocks in random order, mixed in a shuffle buffer. A block is the windows that begin in one
     * chunk; its chunks are read once. */
    STK_CHUNKS_BLOCK
} stk_chunks_access;

/** A figure that is known as a range: 0 < low <= typical <= high. */
typedef struct stk_chunks_range {
    double low, typical, high;
} stk_chunks_range;

/** What a store does. */
typedef struct stk_chunks_store {
    uint32_t concurrency;       /**< requests in flight; at least 1 */
    stk_chunks_range latency;   /**< of a request until its first byte, s; 0 is allowed */
    stk_chunks_range bandwidth; /**< of all requests together, bytes/s */
    double request_cost;        /**< of a million requests, US dollars; 0: free */
    const char *name;           /**< "s3"; of a preset static, else the caller's */
    const char *basis;          /**< where the figures come from, one sentence; may be NULL */
} stk_chunks_store;

/** The presets, the default first: ssd, disk, nfs, s3. Each is an assumption to be replaced by
 * figures of one's own; `basis` says which of them have a source. *count receives their number. */
STK_API const stk_chunks_store *stk_chunks_stores(size_t *count);
/** The preset of a name. Errors: STK_EINVAL lists the names. */
STK_API STK_NODISCARD stk_status stk_chunks_store_find(const char *name,
                                                       const stk_chunks_store **out,
                                                       stk_error *err);

/** Windows, array, access and store. Everything but rank, window and itemsize may stay as
 * stk_chunks_question_init() sets it. */
typedef struct stk_chunks_question {
    uint32_t struct_size;
    uint32_t rank;                /**< 1..STK_MAX_RANK */
    int64_t window[STK_MAX_RANK]; /**< elements, at least 1 */
    int64_t extent[STK_MAX_RANK]; /**< of the array; 0: without an end (the published table) */
    int64_t stride[STK_MAX_RANK]; /**< windows begin at its multiples; 1 */
    uint64_t itemsize;            /**< bytes of an element */
    double ratio;                 /**< decoded bytes / stored bytes; 1 */
    stk_chunks_store store;       /**< the first preset, ssd */
    stk_chunks_access access;
    uint64_t shuffle_buffer; /**< BLOCK: blocks mixed at a time; 16 */
    uint64_t memory_budget;  /**< bytes of decoded chunks that may be kept; 1 GiB */
    double decode_rate;      /**< decoded bytes/s; 0: 1e9 where ratio > 1, else no decoding */
} stk_chunks_question;

static inline void stk_chunks_question_init(stk_chunks_question *question)
{
    size_t count;

    memset(question, 0, sizeof *question);
    question->struct_size = sizeof *question;
    for (int i = 0; i < STK_MAX_RANK; i++)
        question->stride[i] = 1;
    question->itemsize = 1;
    question->ratio = 1;
    question->shuffle_buffer = 16;
    question->memory_budget = (uint64_t)1 << 30;
    question->store = stk_chunks_stores(&count)[0];
}

/** Objects of an array that are listed to learn its codec ratio, at most: seconds, in a store that
 * lists a thousand at a time. The ratio of an array that may have more is taken for 1. */
#define STK_CHUNKS_LISTED 100000

/**
 * Ask about windows of an array that is there: extent, elements and codec ratio are its own.
 *
 * Everything that names a chunk shape for an array (`stoker info`, `stoker chunks`, `stoker
 * convert`, the verdict) asks by this function, so that one question has one answer. `window` has a
 * side for each dimension; `stride` NULL: 1 on each. `store` NULL: the preset that is like the store
 * the array lies in, s3 where requests are worth saving, else ssd. Blocks: lists what is stored.
 * Errors: STK_EINVAL, STK_EKIND: a rank of 0 or above STK_MAX_RANK, no elements, a window that does
 * not fit.
 */
STK_API STK_NODISCARD stk_status stk_chunks_question_of(stk_array *array, const int64_t *window,
                                                        const int64_t *stride,
                                                        const stk_chunks_store *store,
                                                        stk_chunks_question *out, stk_error *err);

/** What one window touches, over all places where a window can begin, each as likely as the others.
 * Bytes are those fetched: whole chunks, also at the edges of the array, divided by `ratio`. */
typedef struct stk_chunks_counts {
    uint64_t least_chunks, most_chunks;
    double expected_chunks;
    uint64_t least_bytes, most_bytes; /**< rounded up */
    double expected_bytes;
    uint64_t chunk_bytes;  /**< of one chunk, decoded */
    uint64_t window_bytes; /**< what a window needs, decoded */
    double windows;        /**< places where one can begin; 0: without an end */
    double chunks;         /**< of the array; 0: without an end */
} stk_chunks_counts;

/**
 * Count the chunks and bytes of a window for one chunk shape of `question->rank` sides.
 *
 * Exact: chunks and bytes as integers, expected values to the precision of double. Heeds window,
 * extent, stride, itemsize and ratio alone. Pure; any thread; O(rank x log of the sides).
 * Errors: STK_EINVAL (a side below 1, a window larger than the array, ...), STK_ELIMIT (more bytes
 * than 2^63 - 1), naming the axis and the numbers.
 */
STK_API STK_NODISCARD stk_status stk_chunks_count(const stk_chunks_question *question,
                                                  const int64_t *chunk, stk_chunks_counts *out,
                                                  stk_error *err);

/** The corners of the store's ranges, after its typical figures. */
typedef enum stk_chunks_case {
    STK_CHUNKS_TYPICAL = 0,
    STK_CHUNKS_FAST,   /**< least latency, most bandwidth */
    STK_CHUNKS_NARROW, /**< least latency, least bandwidth */
    STK_CHUNKS_FAR,    /**< most latency, most bandwidth */
    STK_CHUNKS_SLOW,   /**< most latency, least bandwidth */
    STK_CHUNKS_CASE_COUNT
} stk_chunks_case;

/** What one chunk shape costs under an access pattern, for each window on average. */
typedef struct stk_chunks_cost {
    int64_t chunk[STK_MAX_RANK];
    stk_chunks_counts counts;
    double requests;                       /**< chunks fetched */
    double bytes;                          /**< fetched */
    double seconds[STK_CHUNKS_CASE_COUNT]; /**< the sum of the next four, for each case */
    double wait_seconds, transfer_seconds, decode_seconds, copy_seconds; /**< typical */
    double dollars; /**< for the requests of a million windows */
    double memory;  /**< decoded bytes kept at a time: shuffle buffer, front of the sweep, or the
                       chunks of a window */
    double blocks;  /**< of an epoch by block shuffle; infinite without an end */
    /** Greatest loss over the cases against the best candidate of each, as a share: 0.1 is 10 %
     * slower. Set by stk_chunks_advise(); else 0. */
    double regret;
} stk_chunks_cost;

/**
 * Predict the cost of one chunk shape: for each window
 * requests x latency / concurrency + bytes / bandwidth + decoded bytes / decode rate + the copy of
 * the window to its batch, which is the same for every shape.
 * Pure; any thread. Errors: as stk_chunks_count(), and STK_EINVAL for the figures of the store.
 */
STK_API STK_NODISCARD stk_status stk_chunks_predict(const stk_chunks_question *question,
                                                    const int64_t *chunk, stk_chunks_cost *out,
                                                    stk_error *err);

#define STK_CHUNKS_RANKED 8
#define STK_CHUNKS_TEXT   2048

/** The recommendation. */
typedef struct stk_chunks_answer {
    uint32_t struct_size;
    uint32_t num_ranked; /**< at least 1 */
    /** The best first: by least regret in steps of 1 %, which is more than the model can tell; then
     * less memory, then fewer typical seconds, then the smaller. */
    stk_chunks_cost ranked[STK_CHUNKS_RANKED];
    double best_seconds[STK_CHUNKS_CASE_COUNT]; /**< the least of any candidate, for each case */
    uint64_t tried;                             /**< candidates compared */
    uint64_t beyond_memory;                     /**< left out: they need more than memory_budget */
    uint64_t too_few_blocks;                    /**< left out: the buffer would hold too much */
    char text[STK_CHUNKS_TEXT];                 /**< why, and what the runner-up trades */
} stk_chunks_answer;

/**
 * Find the chunk shape to store an array with.
 *
 * Tries powers of two, divisors and multiples of the window, the stride, and divisors of the
 * extent, on every axis (at most 2^18 combinations), within the memory. BLOCK: only those with four
 * times the blocks of the shuffle buffer, or a block for each window; with fewer it would not be
 * random. Pure; any thread; at most some tens of milliseconds. Errors: as stk_chunks_predict();
 * STK_EBUDGET when no candidate fits the memory, STK_EINVAL when none leaves enough blocks.
 */
STK_API STK_NODISCARD stk_status stk_chunks_advise(const stk_chunks_question *question,
                                                   stk_chunks_answer *out, stk_error *err);

/** The regret of a shape against the candidates of an answer to the same question: negative where
 * it is better than all of them in every case. */
STK_API double stk_chunks_regret(const stk_chunks_answer *answer, const stk_chunks_cost *cost);

#ifdef __cplusplus
}
#endif
#endif
