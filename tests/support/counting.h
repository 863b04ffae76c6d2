/* A dataset whose samples are a known function of their index, from memory or through a store. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_COUNTING_H
#define STK_TESTS_COUNTING_H

#include "support/support.h"

enum { COUNTING_BYTES = 24, COUNTING_LONGEST = 40 };

typedef struct counting_options {
    uint64_t size;
    const char
        *url;    /* of a store that gets the object "data" (mem:// in some form); NULL: no reads */
    bool ragged; /* also a field "words" of 0 to COUNTING_LONGEST uint16, and "blob" of bytes */
    uint64_t fail_every; /* samples whose index is a multiple are bad; 0: none */
    stk_status fail_with;
    uint64_t lost_every; /* samples whose bytes lie beyond the object's end; 0: none */
    uint64_t parts; /* sample i needs 1 + i % parts ranges, and reads the first; of those lost with
                       several all but the first lie beyond the end; 0: 1 */
    uint64_t
        shared; /* this many neighbours need the same range, and find their bytes in it; 0: 1 */
    double cost_ns;
} counting_options;

/* Asserts that it works. `calls` (may be NULL) counts the samples prepared. */
stk_dataset *counting_open(stk_context *ctx, const counting_options *options);
/* The same, but says what happened: for torture. */
stk_status counting_try_open(stk_context *ctx, const counting_options *options, stk_dataset **out,
                             stk_error *err);
uint64_t counting_prepared(const stk_dataset *dataset);
/* The bytes of field "data" of a sample. */
void counting_data(uint64_t index, uint8_t out[COUNTING_BYTES]);
uint64_t counting_words(uint64_t index);
/* Check all rows of a batch against the definition, and positions against the step. */
void counting_check(const stk_batch *batch, bool ragged);

/* Where the range of a sample lies that it fails by: one that is lost, or else its first. */
uint64_t counting_bad_offset(const counting_options *options, uint64_t index);

#endif
