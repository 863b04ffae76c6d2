/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation fails in turn, the context's and, where no sanitizer owns malloc(), libjpeg's:
 * the status is right, nothing leaks, and the decoder can be used again. What is held stays within
 * what the header said.
 */
#include "pictures.h"

#include <errno.h>
#include <malloc.h>

#include "support/faults.h"

/* ---- The allocator of the context ------------------------------------------------------------ */

static faults fault = {.left = FAULTS_NONE};

/* ---- malloc() itself ------------------------------------------------------------------------- */

#if !TEST_SANITIZED
void *__libc_malloc(size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *memory);

static bool armed;             /* calls count and may fail */
static size_t held, most_held; /* bytes taken while armed */

static void *counted(void *memory)
{
    if (armed && memory) {
        held += malloc_usable_size(memory);
        most_held = STK_MAX(most_held, held);
    }
    return memory;
}

/* Visible, so that shared libraries find these and not the C library's. */
#define VISIBLE __attribute__((visibility("default")))

VISIBLE void *malloc(size_t size)
{
    return armed && fault_strikes(&fault) ? NULL : counted(__libc_malloc(size));
}

VISIBLE int posix_memalign(void **memory, size_t align, size_t size)
{
    *memory = armed && fault_strikes(&fault) ? NULL : counted(__libc_memalign(align, size));
    return *memory ? 0 : ENOMEM;
}

VISIBLE void free(void *memory)
{
    if (armed && memory)
        held -= malloc_usable_size(memory);
    __libc_free(memory);
}
#endif

/* ---- Decoding ----------------------------------------------------------------------------------
 */

static const char *const names[] = {
    "base_420.jpg", "progressive_444.jpg", "cmyk_progressive.jpg",
    "grey.jpg",     "rgb_8.png",           "rgb_8_interlaced.png",
    "grey_16.png",  "palette_4.png",       "grey_16_interlaced.png"};

/* A picture from begin to end, without an allocation of this test's own. */
static stk_status run(stk__image_decoder *decoder, const bytes *b, const char **reason)
{
    static const stk__image_box box = {2, 3, 25, 17};
    stk__image_region region;
    stk__image_rows rows;

    stk_status status =
        stk__image_decoder_begin(decoder, b->data, b->size, &box, 1, &region, reason);
    while (status == STK_OK)
        status = stk__image_decoder_rows(decoder, 0, &rows, reason);
    return status == STK_EOS ? STK_OK : status;
}

static stk_context *counting_context(void)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &fault};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    return ctx;
}

/* Fail the n-th of the calls that making a decoder and decoding one picture takes, for every n. */
static void torture(const char *name, stk_context *ctx, const bytes *b, bool arm)
{
    const char *reason;
    stk_error err;
    long n = 0;

    for (;; n++) {
        stk__image_decoder *decoder = NULL;
        const int64_t before = fault.held;
#if !TEST_SANITIZED
        armed = arm;
#endif
        fault.left = n;
        stk_status status = stk__image_decoder_create(ctx, NULL, 3, &decoder, &err);
        if (status == STK_OK)
            status = run(decoder, b, &reason);
        const bool struck = fault_struck(&fault);
        fault.left = FAULTS_NONE;
        /* libjpeg asks for less when it does not get what it would like: STK_OK is well there. */
        if (status != (struck ? STK_ENOMEM : STK_OK) && !(arm && status == STK_OK))
            fail_msg("%s: call %ld: %s", name, n, stk_status_name(status));
        /* What failed has ended, and the next one works. */
        if (decoder && run(decoder, b, &reason) != STK_OK)
            fail_msg("%s after call %ld: %s", name, n, reason);
        stk__image_decoder_destroy(&decoder);
#if !TEST_SANITIZED
        armed = false;
#endif
        assert_int_equal(fault.held, before);
        if (!struck)
            break;
    }
    assert_true(n > 2);
}

static void test_allocations(void **state)
{
    stk_context *ctx = counting_context();

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        bytes b = load_golden(names[i]);
        torture(names[i], ctx, &b, false);
        free(b.data);
    }
    stk_context_destroy(&ctx);
    assert_int_equal(fault.held, 0);
}

/* libjpeg's own allocations as well, through the C library's malloc(). */
static void test_libjpeg_allocations(void **state)
{
#if TEST_SANITIZED
    skip();
#else
    stk_context *ctx = test_context();

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        bytes b = load_golden(names[i]);
        torture(names[i], ctx, &b, true);
        assert_int_equal(held, 0);
        free(b.data);
    }
    stk_context_destroy(&ctx);
#endif
}

/* The bytes held while pictures of all kinds are decoded are no more than the header told. */
static void test_memory_is_told(void **state)
{
#if TEST_SANITIZED
    skip();
#else
    static const recipe recipes[] = {
        {1500, 1100, .sampling = "2x2,1x1,1x1"},
        {1500, 1100, .sampling = "1x1,1x1,1x1"},
        {1500, 700, .sampling = "1x4,1x1,1x1"},
        {1500, 700, .sampling = "4x1,1x1,1x1"},
        {9000, 40, .sampling = "2x2,1x1,1x1"},
        {700, 900, .sampling = "2x2,1x1,1x1", .progressive = true},
        {700, 900, .sampling = "1x1,1x1,1x1,1x1", .progressive = true},
        {700, 900, .sampling = "2x1,1x1,1x1", .separate = true},
        {16, 16, .sampling = "1x1"},
    };
    stk_context *ctx = test_context();
    stk__image_decoder *decoder = NULL;
    stk__image_region region;
    stk__image_rows rows;
    stk__image_info info;
    const char *reason;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(recipes) + STK_COUNT(names); i++) {
        bytes b = i < STK_COUNT(recipes) ? make_jpeg(&recipes[i], i)
                                         : load_golden(names[i - STK_COUNT(recipes)]);
        assert_int_equal(stk__image_peek(b.data, b.size, NULL, &info, &reason), STK_OK);
        for (uint32_t scale = 1; scale <= 8; scale *= 2) {
            most_held = 0;
            armed = true;
            assert_ok(stk__image_decoder_create(ctx, NULL, 4, &decoder, &err), &err);
            assert_int_equal(
                stk__image_decoder_begin(decoder, b.data, b.size, NULL, scale, &region, &reason),
                STK_OK);
            while (stk__image_decoder_rows(decoder, 0, &rows, &reason) == STK_OK)
                continue;
            stk__image_decoder_destroy(&decoder);
            armed = false;
            assert_int_equal(held, 0);
            if (most_held > info.memory)
                fail_msg("picture %zu at 1/%u: %zu bytes held, %llu told", i, scale, most_held,
                         (unsigned long long)info.memory);
            /* And not wildly fewer, where the picture and not what is fixed takes them. */
            if (info.memory > (4u << 20) && scale == 1)
                assert_true(most_held > info.memory / 3);
        }
        free(b.data);
    }
    stk_context_destroy(&ctx);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_libjpeg_allocations),
        cmocka_unit_test(test_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
