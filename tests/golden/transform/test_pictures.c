/* SPDX-License-Identifier: Apache-2.0 */
/* Encoded pictures through decode, crop and resize, against what Pillow and torchvision make of
 * them (scripts/make_picture_golden.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "support/text.h"
#include "transform/pipeline/decode.h"

struct picture_case {
    char name[32], text[96];
    int32_t x, y, width, height, out_width, out_height, filter, unused;
};

struct box_case {
    uint32_t draws[22];
    int32_t width, height, top, left, box_height, box_width;
};

static unsigned char *read_file(const char *folder, const char *name, size_t *size)
{
    char path[512];

    snprintf(path, sizeof path, "%s/golden/%s/%s", TESTS_DIR, folder, name);
    unsigned char *data = test_load(path, size);
    assert_non_null(data);
    return data;
}

/* What a pipeline over encoded pictures runs with. */
struct kit {
    stk_context *context;
    stk__pipeline *pipeline;
    stk__decode_room room;
    stk__decoding *decoding;
    void *scratch;
};

static void open_kit(struct kit *kit, stk_context *context, const char *text)
{
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {-1, -1, 3}, .picture = true, .encoded = true};
    stk_error err;

    kit->context = context;
    assert_ok(stk__pipeline_create(context, text, &in, &kit->pipeline, &err), &err);
    assert_int_equal(stk__decode_room_init(&kit->room, 1 << 20, 64 << 20), STK_OK);
    assert_int_equal(stk__decoding_create(context, &kit->room, &kit->decoding), STK_OK);
    kit->scratch = aligned_alloc(64, stk__round_up(stk__pipeline_scratch(kit->pipeline), 64) + 64);
    assert_non_null(kit->scratch);
}

static void close_kit(struct kit *kit)
{
    free(kit->scratch);
    stk__decoding_destroy(&kit->decoding);
    stk__decode_room_release(&kit->room);
    stk__pipeline_destroy(&kit->pipeline);
}

static void decode(struct kit *kit, const unsigned char *data, size_t size, uint64_t position,
                   void *out)
{
    const stk_slice slice = {.data = data, .size = size};
    const uint64_t epoch = 0;
    stk_status status = STK_OK;
    const char *reason = NULL;
    uint64_t wanted = 0;

    stk__pipeline_decode(kit->pipeline, 1, 1, &epoch, &position, &slice, &out, &status, &reason,
                         &wanted, kit->scratch, kit->decoding);
    if (status != STK_OK)
        fail_msg("%s: %s", stk_status_name(status), reason ? reason : "");
}

/* A given box, without the draws that would choose it. */
static void decode_box(struct kit *kit, const unsigned char *data, size_t size,
                       const struct picture_case *c, void *out)
{
    static const stk__filter filters[] = {STK__FILTER_BILINEAR, STK__FILTER_BICUBIC,
                                          STK__FILTER_AREA, STK__FILTER_NEAREST};
    stk_transform_header header;
    stk__scene scene = {.pipeline = kit->pipeline,
                        .group = &kit->pipeline->groups[0],
                        .decoding = kit->decoding,
                        .encoded = {.data = data, .size = size},
                        .resamples = true,
                        .what = {.left = c->x,
                                 .top = c->y,
                                 .width = c->width,
                                 .height = c->height,
                                 .out_width = c->out_width,
                                 .out_height = c->out_height,
                                 .filter = filters[c->filter]},
                        .scratch = kit->scratch};

    assert_int_equal(stk__scene_peek(&scene, &header), STK_OK);
    stk__path_init(&scene.path, c->out_height, c->out_width);
    assert_int_equal(stk__scene_run(&scene, out), STK_OK);
}

static void compare(const struct picture_case *c, const unsigned char *out,
                    const unsigned char *want, int bound)
{
    const size_t n = (size_t)c->out_width * (size_t)c->out_height * 3;

    for (size_t i = 0; i < n; i++)
        if (abs(out[i] - want[i]) > bound)
            fail_msg("%s %s [%d %d %d %d] -> %d x %d filter %d: byte %zu is %d, Pillow has %d",
                     c->name, c->text, c->x, c->y, c->width, c->height, c->out_width, c->out_height,
                     c->filter, i, out[i], want[i]);
}

static void test_pictures(void **state)
{
    stk_context *context = test_context();
    size_t size, length, cases = 0;
    unsigned char *all = read_file("transform", "pictures.bin", &size), *out = malloc(1 << 16);

    (void)state;
    for (size_t at = 0; at < size; cases++) {
        struct picture_case c;
        struct kit kit;

        memcpy(&c, all + at, sizeof c);
        at += sizeof c;
        const size_t bytes = (size_t)c.out_width * (size_t)c.out_height * 3;
        unsigned char *data = read_file("images", c.name, &length);
        open_kit(&kit, context, c.text[0] ? c.text : "decode(dct_scaling=off), resize(14x14)");
        if (c.text[0])
            decode(&kit, data, length, 0, out);
        else
            decode_box(&kit, data, length, &c, out);
        /* A turned picture is resampled before it is turned: rows and columns change places. */
        compare(&c, out, all + at, c.filter == 3 ? 0 : strstr(c.text, "exif") ? 2 : 1);
        at += bytes;
        close_kit(&kit);
        free(data);
    }
    assert_true(cases > 200);
    free(out);
    free(all);
    stk_context_destroy(&context);
}

static void test_boxes(void **state)
{
    stk_context *context = test_context();
    size_t size;
    unsigned char *all = read_file("transform", "boxes.bin", &size);
    struct kit kit;

    (void)state;
    open_kit(&kit, context, "random_resized_crop(16)");
    const stk__transform_step *step = &kit.pipeline->steps[1];
    assert_int_equal(size % sizeof(struct box_case), 0);
    for (size_t at = 0; at < size; at += sizeof(struct box_case)) {
        struct box_case c;
        stk_transform_header header = {.dtype = STK_UINT8, .rank = 3, .picture = true};
        stk_transform_plan plan;
        stk__resample box;
        stk_error err;

        memcpy(&c, all + at, sizeof c);
        header.shape[0] = c.height;
        header.shape[1] = c.width;
        header.shape[2] = 3;
        assert_ok(step->ops->plan(step->transform, &header, c.draws, &plan, &err), &err);
        stk__resample_of_plan(&plan, &box);
        if (box.top != c.top || box.left != c.left || box.height != c.box_height ||
            box.width != c.box_width)
            fail_msg("%d x %d: box %lld %lld %lld %lld, torchvision has %d %d %d %d", c.width,
                     c.height, (long long)box.top, (long long)box.left, (long long)box.height,
                     (long long)box.width, c.top, c.left, c.box_height, c.box_width);
    }
    close_kit(&kit);
    free(all);
    stk_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_pictures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
