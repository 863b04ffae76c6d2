/* Running one sample through a pipeline, in memory that ends where it should. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRANSFORM_SAMPLE_H
#define STK_TESTS_UNIT_TRANSFORM_SAMPLE_H

#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "transform/pipeline/pipeline.h"

#define GUARD 0x5a

static inline stk__pipeline *make(stk_context *ctx, const char *text,
                                  const stk_transform_header *in)
{
    stk__pipeline *pipeline = NULL;
    stk_error err;

    assert_ok(stk__pipeline_create(ctx, text, in, &pipeline, &err), &err);
    return pipeline;
}

static inline uint64_t bytes_of(const stk_transform_header *header)
{
    uint64_t bytes = 0;

    assert_true(stk__header_bytes(header, &bytes));
    return bytes;
}

/* Memory that ends with its last byte, or with a readable tail. */
static inline unsigned char *exact(uint64_t bytes)
{
    unsigned char *memory = malloc(bytes ? bytes : 1);

    assert_non_null(memory);
    memset(memory, GUARD, bytes);
    return memory;
}

/* One sample through the whole pipeline; the result is the caller's. */
static inline unsigned char *run_one(const stk__pipeline *p, uint64_t seed, uint64_t epoch,
                                     uint64_t position, const stk_transform_header *header,
                                     const void *src)
{
    stk_transform_header out;
    stk_status status = STK_OK;
    unsigned char *scratch = exact(stk__pipeline_scratch(p));

    stk__pipeline_header(p, &out);
    unsigned char *result = exact(bytes_of(&out));
    void *dst = result;
    stk__pipeline_run(p, seed, 1, &epoch, &position, header, &src, &dst, &status, scratch);
    assert_int_equal(status, STK_OK);
    free(scratch);
    return result;
}

static inline unsigned char *random_sample(const stk_transform_header *in, uint64_t *random)
{
    uint64_t bytes = bytes_of(in);
    unsigned char *src = exact(bytes + STK_TAIL);

    for (uint64_t i = 0; i < bytes; i += in->dtype == STK_FLOAT32 ? 4 : 1) {
        float x = (float)(int)(test_random(random) % 2001) / 500.0f - 2.0f;

        if (in->dtype == STK_FLOAT32)
            memcpy(src + i, &x, sizeof x);
        else
            src[i] = (unsigned char)(test_random(random) >> 30);
    }
    return src;
}

#endif
