/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines: fused as step by step, pure, safe at their edges, open to transforms of others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/faults.h"
#include "unit/transform/sample.h"

static stk_context *context, *plain_context;

static int setup(void **state)
{
    stk_context_options options;
    stk_error err;

    context = test_context();
    stk_context_options_init(&options);
    options.instructions = STK_INSTRUCTIONS_PLAIN;
    assert_ok(stk_context_create(&options, &plain_context, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    stk_context_destroy(&context);
    stk_context_destroy(&plain_context);
    return 0;
}

/* The same by each transform alone, with the draws of its number in the text. */
static unsigned char *run_steps(const stk__pipeline *p, uint64_t seed, uint64_t epoch,
                                uint64_t position, const void *src)
{
    stk_transform_header header = p->in;
    unsigned char *now = exact(bytes_of(&header) + STK_TAIL);

    memcpy(now, src, bytes_of(&header));
    for (uint32_t k = 0; k < p->num_steps; k++) {
        const stk__transform_step *step = &p->steps[k];
        uint32_t words[STK__MAX_DRAWS];
        stk_transform_plan plan;
        stk_error err;

        stk__draw(seed, (uint32_t)epoch, position, STK_DRAW_TRANSFORM + k, words, STK__MAX_DRAWS);
        assert_ok(step->ops->plan(step->transform, &header, words, &plan, &err), &err);
        unsigned char *next = exact(bytes_of(&plan.out) + STK_TAIL), *scratch = exact(plan.scratch);
        const void *from = now;
        void *to = next;
        step->ops->apply(step->transform, &header, &plan, 1, &from, &to, scratch);
        header = plan.out;
        free(scratch);
        free(now);
        now = next;
    }
    return now;
}

/* A text of up to six transforms that suit the header. */
static void random_text(char *text, size_t size, const stk_transform_header *in, uint64_t *random)
{
    int64_t height = in->shape[in->chw ? 1 : 0], width = in->shape[in->chw ? 2 : 1];
    int count = 1 + (int)(test_random(random) % 6);
    size_t at = 0;

    for (int i = 0; i < count; i++) {
        int64_t pad = (int64_t)(test_random(random) % 4), fill = test_random(random) % 3 ? 0 : 7;
        char one[96] = "to_float";

        switch (test_random(random) % 7) {
        case 0:
            snprintf(one, sizeof one, "pad([%d, %d, 0, 1], fill=%d)", (int)pad, (int)(pad + i) % 3,
                     (int)fill);
            width += pad;
            height += (pad + i) % 3 + 1;
            break;
        case 1:
            height = 1 + (int64_t)(test_random(random) % (uint64_t)(height + 2 * pad));
            width = 1 + (int64_t)(test_random(random) % (uint64_t)(width + 2 * pad));
            snprintf(one, sizeof one, "random_crop(%dx%d, padding=%d, fill=%d)", (int)height,
                     (int)width, (int)pad, (int)fill);
            break;
        case 2:
            snprintf(one, sizeof one, "horizontal_flip(%g)", (double)(test_random(random) % 3) / 2);
            break;
        case 3:
            snprintf(one, sizeof one, "layout(%s)", test_random(random) % 2 ? "chw" : "hwc");
            break;
        case 4:
            snprintf(one, sizeof one, "normalize(0.1307, 0.3081)");
            break;
        case 5:
            snprintf(one, sizeof one,
                     in->shape[in->chw ? 0 : 2] == 3 ? "normalize(cifar10)" : "normalize(-2, 7)");
            break;
        default:
            break;
        }
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", one);
    }
}

static stk_transform_header random_header(uint64_t *random)
{
    static const int64_t few[] = {1, 2, 3, 3, 3, 4, 5, 17};
    int64_t channels = few[test_random(random) % STK_COUNT(few)];
    int64_t side = test_random(random) % 8 ? 20 : 90;
    stk_transform_header in = {
        .dtype = test_random(random) % 2 ? STK_UINT8 : STK_FLOAT32, .rank = 3, .picture = true};

    in.chw = test_random(random) % 3 == 0;
    stk__extent extent = {.height = 1 + (int64_t)(test_random(random) % (uint64_t)side),
                          .width = 1 + (int64_t)(test_random(random) % (uint64_t)side),
                          .channels = channels};
    stk__picture_set_extent(&in, &extent);
    return in;
}

static void test_fused_is_step_by_step(void **state)
{
    uint64_t random = 0xf00d, fused = 0;
    char text[1024];

    for (int round = 0; round < 1500; round++) {
        stk_transform_header in = random_header(&random), out;
        unsigned char *src = random_sample(&in, &random);
        uint64_t seed = test_random(&random), epoch = test_random(&random) % 9,
                 position = test_random(&random) >> 20;

        random_text(text, sizeof text, &in, &random);
        stk__pipeline *p = make(context, text, &in), *q = make(plain_context, text, &in);
        unsigned char *a = run_one(p, seed, epoch, position, NULL, src);
        unsigned char *b = run_steps(p, seed, epoch, position, src);
        unsigned char *c = run_one(q, seed, epoch, position, NULL, src);
        unsigned char *d = run_one(p, seed, epoch, position, &in, src);
        stk__pipeline_header(p, &out);
        if (memcmp(a, b, bytes_of(&out)) || memcmp(a, c, bytes_of(&out)) ||
            memcmp(a, d, bytes_of(&out)))
            fail_msg("\"%s\" on %lldx%lldx%lld differs", text, (long long)in.shape[0],
                     (long long)in.shape[1], (long long)in.shape[2]);
        fused += p->num_groups < p->num_steps;
        free(a);
        free(b);
        free(c);
        free(d);
        free(src);
        stk__pipeline_destroy(&p);
        stk__pipeline_destroy(&q);
    }
    assert_true(fused > 500);
}

/* Moving pixels against the plain definition, pixel by pixel. */
static void test_frames(void **state)
{
    uint64_t random = 0xbeef;

    for (int round = 0; round < 400; round++) {
        stk_transform_header in = random_header(&random), out;
        char text[200];
        uint64_t epoch = 0, position = (uint64_t)round;
        uint32_t words[4], flip;
        stk__extent e, o;

        assert_int_equal(stk__picture_extent(&in, "", &e, NULL), STK_OK);
        int64_t height = 1 + (int64_t)(test_random(&random) % (uint64_t)(e.height + 5));
        int64_t width = 1 + (int64_t)(test_random(&random) % (uint64_t)(e.width + 9));
        snprintf(text, sizeof text,
                 "random_crop(%dx%d, padding=[2, 1, 7, 4], fill=9), horizontal_flip", (int)height,
                 (int)width);
        unsigned char *src = random_sample(&in, &random);
        stk__pipeline *p = make(context, text, &in);
        unsigned char *result = run_one(p, 3, epoch, position, NULL, src);
        stk__pipeline_header(p, &out);
        assert_int_equal(stk__picture_extent(&out, "", &o, NULL), STK_OK);
        stk__draw(3, 0, position, STK_DRAW_TRANSFORM, words, 4);
        stk__draw(3, 0, position, STK_DRAW_TRANSFORM + 1, &flip, 1);
        int64_t top =
            (int64_t)(((uint64_t)words[0] * (uint64_t)(e.height + 5 - height + 1)) >> 32) - 1;
        int64_t left =
            (int64_t)(((uint64_t)words[1] * (uint64_t)(e.width + 9 - width + 1)) >> 32) - 2;
        size_t item = stk_dtype_size(in.dtype);
        float nine = 9.0f;
        unsigned char fill[4] = {9};
        if (in.dtype == STK_FLOAT32)
            memcpy(fill, &nine, 4);
        for (int64_t y = 0; y < height; y++) {
            for (int64_t x = 0; x < width; x++) {
                int64_t sy = top + y, sx = left + (flip < UINT32_C(1) << 31 ? width - 1 - x : x);
                bool inside = sy >= 0 && sy < e.height && sx >= 0 && sx < e.width;

                for (int64_t c = 0; c < e.channels; c++) {
                    int64_t to =
                        in.chw ? (c * height + y) * width + x : (y * width + x) * e.channels + c;
                    int64_t from = in.chw ? (c * e.height + sy) * e.width + sx
                                          : (sy * e.width + sx) * e.channels + c;
                    assert_memory_equal(result + (size_t)to * item,
                                        inside ? src + (size_t)from * item : fill, item);
                }
            }
        }
        free(result);
        free(src);
        stk__pipeline_destroy(&p);
    }
}

/* Any grouping and any order of the samples gives the same bytes. */
static void test_purity(void **state)
{
    enum { SAMPLES = 60 };
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {9, 10, 3}, .picture = true};
    stk__pipeline *p =
        make(context, "random_crop(8, padding=2), horizontal_flip, normalize(cifar10), layout(chw)",
             &in);
    const size_t bytes = 8 * 8 * 3 * 4;
    uint64_t random = 11, epochs[SAMPLES], positions[SAMPLES];
    unsigned char *src[SAMPLES], *want[SAMPLES], *scratch = exact(stk__pipeline_scratch(p));

    for (size_t i = 0; i < SAMPLES; i++) {
        epochs[i] = i % 3;
        positions[i] = 1000 + i / 2;
        src[i] = random_sample(&in, &random);
        want[i] = run_one(p, 5, epochs[i], positions[i], NULL, src[i]);
    }
    for (int round = 0; round < 30; round++) {
        unsigned char *slab = exact(bytes * SAMPLES);

        for (size_t done = 0; done < SAMPLES;) {
            size_t n = 1 + test_random(&random) % 13, order[16];
            uint64_t e[16], at[16];
            const void *from[16];
            void *to[16];
            stk_status statuses[16] = {STK_OK};

            n = STK_MIN(n, SAMPLES - done);
            for (size_t i = 0; i < n; i++) {
                order[i] = SAMPLES - 1 - done - i;
                e[i] = epochs[order[i]];
                at[i] = positions[order[i]];
                from[i] = src[order[i]];
                to[i] = slab + order[i] * bytes;
            }
            stk__pipeline_run(p, 5, n, e, at, NULL, from, to, statuses, scratch);
            done += n;
        }
        for (size_t i = 0; i < SAMPLES; i++)
            assert_memory_equal(slab + i * bytes, want[i], bytes);
        free(slab);
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        free(src[i]);
        free(want[i]);
    }
    free(scratch);
    stk__pipeline_destroy(&p);
}

static void test_samples_of_many_sizes(void **state)
{
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {-1, -1, 3}, .picture = true};
    stk_transform_header out, headers[4], one;
    stk__pipeline *p =
        make(context, "random_crop(4x5, padding=1), normalize(imagenet), layout", &in);
    uint64_t random = 8, epochs[4] = {0}, positions[4] = {0, 1, 2, 3};
    stk_status statuses[4] = {STK_OK, STK_OK, STK_OK, STK_OK};
    const void *src[4];
    void *dst[4];

    stk__pipeline_header(p, &out);
    assert_true(out.chw && out.dtype == STK_FLOAT32 && out.shape[0] == 3 && out.shape[1] == 4 &&
                out.shape[2] == 5);
    unsigned char *scratch = exact(stk__pipeline_scratch(p));
    for (size_t i = 0; i < 4; i++) {
        headers[i] = in;
        headers[i].shape[0] = 3 + 7 * (int64_t)i;
        headers[i].shape[1] = 9 + (int64_t)i;
        src[i] = random_sample(&headers[i], &random);
        dst[i] = exact(bytes_of(&out));
    }
    one = headers[3];
    headers[3].shape[1] = 2; /* with its padding still too small */
    stk__pipeline_run(p, 2, 4, epochs, positions, headers, src, dst, statuses, scratch);
    for (size_t i = 0; i < 3; i++) {
        stk__pipeline *fixed = make(
            plain_context, "random_crop(4x5, padding=1), normalize(imagenet), layout", &headers[i]);
        unsigned char *want = run_one(fixed, 2, 0, i, NULL, src[i]);

        assert_int_equal(statuses[i], STK_OK);
        assert_memory_equal(dst[i], want, bytes_of(&out));
        free(want);
        stk__pipeline_destroy(&fixed);
    }
    assert_int_equal(statuses[3], STK_EKIND);
    /* Headers that are not what the field said. */
    for (int k = 0; k < 4; k++) {
        headers[3] = one;
        statuses[3] = STK_OK;
        if (k == 0)
            headers[3].dtype = STK_FLOAT32;
        else if (k == 1)
            headers[3].shape[2] = 4;
        else if (k == 2)
            headers[3].rank = 2;
        else
            headers[3].shape[0] = -1;
        stk__pipeline_run(p, 2, 1, epochs, positions, headers + 3, src + 3, dst + 3, statuses + 3,
                          scratch);
        assert_int_equal(statuses[3], STK_EFORMAT);
    }
    for (size_t i = 0; i < 4; i++) {
        free((void *)(uintptr_t)src[i]);
        free(dst[i]);
    }
    free(scratch);
    stk__pipeline_destroy(&p);
}

static void test_what_is_fused(void **state)
{
    static const struct {
        const char *text;
        uint32_t groups;
    } rows[] = {
        {"normalize(mnist)", 1},
        {"to_float, normalize(mnist), layout", 1},
        {"random_crop(4, padding=4), horizontal_flip, normalize(cifar10), layout(chw)", 1},
        {"pad(2), random_crop(4, padding=1), horizontal_flip, horizontal_flip", 1},
        {"pad(2, fill=3), random_crop(4, padding=1)", 2},
        {"pad(2, fill=3), random_crop(4)", 1},
        {"normalize(mnist), normalize(mnist)", 2},
        {"normalize(mnist), horizontal_flip", 2},
        {"layout, layout(hwc), to_float, to_float", 1},
    };
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {8, 8, 3}, .picture = true};

    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk__pipeline *p = make(context, rows[i].text, &in);

        assert_int_equal(p->num_groups, rows[i].groups);
        stk__pipeline_destroy(&p);
    }
}

static void test_spelling_and_empty(void **state)
{
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {8, 8, 3}, .picture = true};
    stk__pipeline *none = make(context, NULL, &in), *empty = make(context, "", &in);
    stk__pipeline *tight = make(context, "pad(1, fill=9)", &in);
    stk__pipeline *spaced = make(context, "pad( padding=1 ,fill = 9.0 )", &in);
    stk_transform_header out;
    uint64_t random = 4;

    assert_true(stk__pipeline_empty(none) && stk__pipeline_empty(empty));
    assert_false(stk__pipeline_empty(tight));
    unsigned char *src = random_sample(&in, &random), *copy = run_one(none, 0, 0, 0, NULL, src);
    assert_memory_equal(src, copy, bytes_of(&in));
    unsigned char *a = run_one(tight, 0, 0, 0, NULL, src), *b = run_one(spaced, 0, 0, 0, NULL, src);
    stk__pipeline_header(tight, &out);
    assert_int_equal(bytes_of(&out), 10 * 10 * 3);
    assert_memory_equal(a, b, bytes_of(&out));
    assert_int_equal(a[0], 9);
    assert_int_equal(a[(10 + 1) * 3], src[0]);
    free(a);
    free(b);
    free(src);
    free(copy);
    stk__pipeline_destroy(&none);
    stk__pipeline_destroy(&empty);
    stk__pipeline_destroy(&tight);
    stk__pipeline_destroy(&spaced);
}

/* ---- The n-th allocation fails ---- */

static void test_every_allocation_fails(void **state)
{
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {8, 8, 3}, .picture = true};
    faults f = {.left = FAULTS_NONE};
    stk_context_options options;
    stk_context *own = NULL;
    stk_memory_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    stk_error err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    assert_ok(stk_context_create(&options, &own, &err), &err);
    stk_context_memory(own, &before);
    for (int64_t n = 0;; n++) {
        stk__pipeline *p = NULL;
        stk__batch_pipeline *b = NULL;

        f.left = n;
        stk_status status = stk__pipeline_create(
            own, "pad(1), random_crop(4), horizontal_flip, to_float, normalize(cifar10), layout",
            &in, &p, &err);
        if (status == STK_OK)
            status = stk__batch_pipeline_create(own, "mixup(0.2), cutmix", &b, &err);
        stk__pipeline_destroy(&p);
        stk__batch_pipeline_destroy(&b);
        stk_context_memory(own, &after);
        assert_int_equal(before.bytes, after.bytes);
        if (status == STK_OK) {
            assert_true(n > 15);
            break;
        }
        assert_int_equal(status, STK_ENOMEM);
        assert_int_equal(err.status, STK_ENOMEM);
        assert_true(err.text[0] != '\0');
    }
    f.left = FAULTS_NONE;
    stk_context_destroy(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused_is_step_by_step),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_purity),
        cmocka_unit_test(test_samples_of_many_sizes),
        cmocka_unit_test(test_what_is_fused),
        cmocka_unit_test(test_spelling_and_empty),
        cmocka_unit_test(test_every_allocation_fails),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
