/* One transform by itself: made from the text of its arguments, planned with chosen words. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRANSFORM_ONE_H
#define STK_TESTS_UNIT_TRANSFORM_ONE_H

#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "transform/operations/arguments.h"
#include "transform/picture.h"

extern const stk_transform_ops stk__transform_color_jitter, stk__transform_random_grayscale,
    stk__transform_gaussian_blur, stk__transform_random_erasing, stk__transform_random_rotation,
    stk__transform_rand_augment;

/* Of all tests of the program. */
static stk_context *ctx;

static inline int context_open(void **state)
{
    ctx = test_context();
    return 0;
}

static inline int context_close(void **state)
{
    stk_context_destroy(&ctx);
    return 0;
}

static inline stk_status try_make(const stk_transform_ops *ops, const char *text,
                                  stk_transform **out, stk_error *err)
{
    stk__items items;
    uint64_t options[32] = {0};
    stk_status status = stk__items_parse(ctx, &stk__transform_items, text, &items, err);

    *out = NULL;
    if (status != STK_OK)
        return status;
    assert_int_equal(items.count, 1);
    assert_string_equal(items.items[0].name, ops->name);
    assert_true(ops->options->struct_size <= sizeof options);
    status = stk__item_options(&items.items[0], ops->options, NULL, options, err);
    if (status == STK_OK)
        status = ops->create(ctx, options, out, err);
    if (status == STK_OK) {
        (*out)->ops = ops;
        (*out)->context = ctx;
    }
    stk__items_release(ctx, &items);
    return status;
}

static inline stk_transform *make_one(const stk_transform_ops *ops, const char *text)
{
    stk_transform *made = NULL;
    stk_error err;

    assert_ok(try_make(ops, text, &made, &err), &err);
    return made;
}

/* Making it from `text` fails, and the message names what `part` names. */
static inline void refuses(const stk_transform_ops *ops, const char *text, const char *part)
{
    stk_transform *made = NULL;
    stk_error err;

    assert_fails(try_make(ops, text, &made, &err), STK_EINVAL, &err, part);
    assert_null(made);
}

static inline stk_transform_header hwc(int64_t height, int64_t width, int64_t channels)
{
    return (stk_transform_header){
        .dtype = STK_UINT8, .rank = 3, .shape = {height, width, channels}, .picture = true};
}

/* What refuses a header says so. */
static inline void refuses_header(const stk_transform *t, stk_transform_header header,
                                  const char *part)
{
    uint32_t words[64] = {0};
    stk_transform_plan plan;
    stk_error err;
    stk_status status = t->ops->plan(t, &header, NULL, &plan, &err);

    assert_true(status == STK_EINVAL || status == STK_ENOTSUP || status == STK_ELIMIT);
    assert_fails(status, status, &err, part);
    assert_fails(status, status, &err, t->ops->name);
    assert_int_equal(t->ops->plan(t, &header, words, &plan, NULL), status);
}

/* The headers that every transform of colours refuses, and those whose sizes vary, that it takes.
 */
static inline void check_headers(const stk_transform *t)
{
    stk_transform_header header = hwc(8, 9, 3);
    stk_transform_plan plan;
    stk_error err;

    for (int k = 0; k < 4; k++) {
        header = hwc(k & 1 ? -1 : 8, k & 2 ? -1 : 9, 3);
        assert_ok(t->ops->plan(t, &header, NULL, &plan, &err), &err);
        assert_true(stk__header_same(&header, &plan.out));
    }
    header = hwc(8, 9, 3);
    header.dtype = STK_FLOAT32;
    refuses_header(t, header, "put it before to_float, normalize and layout");
    header = hwc(3, 8, 9);
    header.chw = true;
    refuses_header(t, header, "put it before to_float, normalize and layout");
    refuses_header(t, hwc(8, 9, 4), "1 or 3 channels");
    refuses_header(t, hwc(0, 9, 3), "out of range");
    header = hwc(8, 9, 3);
    header.picture = false;
    refuses_header(t, header, "takes pictures");
}

/* Plan with these words and do it, in memory that ends where it should; the result is the
 * caller's. */
static inline uint8_t *run_words(const stk_transform *t, const stk_transform_header *header,
                                 const uint32_t *words, const void *src)
{
    stk_transform_plan plan;
    stk_error err;
    uint64_t bytes = 0;

    assert_ok(t->ops->plan(t, header, words, &plan, &err), &err);
    assert_true(stk__header_same(header, &plan.out));
    assert_true(stk__header_bytes(header, &bytes));
    uint8_t *source = malloc(bytes + STK_TAIL), *result = malloc(bytes);
    void *scratch = malloc(plan.scratch ? plan.scratch : 1), *dst = result;
    const void *from = source;

    assert_true(source && result && scratch);
    memcpy(source, src, bytes);
    memset(source + bytes, 0xa5, STK_TAIL);
    memset(result, 0x5a, bytes);
    t->ops->apply(t, header, &plan, 1, &from, &dst, scratch);
    assert_memory_equal(source, src, bytes);
    free(source);
    free(scratch);
    return result;
}

static inline void fill_random(uint8_t *bytes, size_t n, uint64_t *random)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(test_random(random) >> 40);
}

/* The word that stk__unit() makes `x` of, or the next below. */
static inline uint32_t word_at(double x)
{
    return (uint32_t)(x * 4294967296.0);
}

#endif
