/* a list of codecs as JSON -> the steps of a chain. Inside src/codec only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_COMPILE_H
#define STK_SRC_CODEC_COMPILE_H

#include "codec/step.h"

struct stk__chain {
    stk_context *context;
    uint32_t count;
    bool has_prefix, varies;
    stk__codec_step steps[STK__CHAIN_MAX_STEPS]; /* in the order of encoding */
    uint8_t target[STK__CHAIN_MAX_STEPS];        /* where decode writes: 0 out, 1 + scratch */
    uint64_t size;                               /* decoded */
    uint64_t scratch[2];                         /* bytes of decode and encode together */
    uint64_t block;                              /* most bytes of STK__SCRATCH_BLOCK */
    uint64_t library;                            /* that libraries hold for one thread, to decode */
};

/*
 * A promise that the steps of a chain make to each other. Where a fuzz target finds it broken the
 * program ends there; elsewhere the caller makes it a status.
 */
static inline bool stk__chain_holds(bool promise)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    if (!promise)
        __builtin_trap();
#endif
    return promise;
}

/* What is known of the elements while a list is read. As long as `fixed`, before and after every
 * step: size == shape[0] * ... * item, numbers are of `item` bytes, and swap_size divides it. */
typedef struct stk__builder {
    const stk__chain_spec *spec;
    stk__chain *chain;
    stk_error *err;
    const char *codec;  /* name of the one being read */
    stk__number number; /* the present elements */
    uint32_t item, swap_size;
    uint32_t rank;
    uint64_t shape[STK__CHAIN_MAX_RANK];
    uint64_t size;
    bool fixed;
} stk__builder;

/* A dtype as filters see it. (chain_parse.c) */
stk__number stk__number_of(stk_dtype dtype);
/* Read the spec's codecs into the builder's chain (chain_parse.c). */
stk_status stk__chain_parse(stk__builder *b);
/* Append a step, with its sizes. */
stk_status stk__chain_push(stk__builder *b, const stk__codec_step *step);
/* See the elements as numbers of `item` bytes. Where theirs are of another size they are in a row
 * from here on (v2, as NumPy's view), or are refused (v3, whose codecs keep the shape). */
stk_status stk__chain_view(stk__builder *b, uint32_t item);
/* What follows sees bytes in a row. */
void stk__chain_to_bytes(stk__builder *b);
stk_status stk__chain_refuse(stk__builder *b, stk_status status, const char *what);

/* One codec, by the name that `number` of v2 or v3 gives it (codecs.c). */
struct json_t;
stk_status stk__codec_parse(stk__builder *b, bool v3, const char *name,
                            const struct json_t *configuration, stk__codec_kind *kind);

/* Whether the codec of that id writes elements of varying length. */
bool stk__codec_varies(const char *id);

#endif
