/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures whose pixels say where they lie, with masks whose classes are a function of that place,
 * through a loader with random chains of transforms that move pixels: every pixel of a mask has the
 * class of its picture's pixel, and what comes from outside of the one comes from outside of the
 * other.
 */
#include "unit/transform/png.h"

enum { PAIRS = 6, ROUNDS = 300, OUTSIDE = 255 };

static uint64_t seed = 20261123;

static int pick(int low, int high)
{
    return low + (int)(test_random(&seed) % (uint64_t)(high - low + 1));
}

static unsigned char class_at(uint32_t x, uint32_t y)
{
    return (unsigned char)((x * 5 + y * 11) % 251);
}

static void put(stk_context *ctx, const char *folder, int i, picture *p)
{
    char url[64], key[16];
    stk_store *store;
    stk_error err;

    snprintf(url, sizeof url, "mem://%s", folder);
    snprintf(key, sizeof key, "%d.png", i);
    assert_ok(stk_store_open(ctx, url, &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, key, p->file, p->size, NULL, &err), &err);
    stk_store_close(&store);
    unload(p);
}

static void make_pairs(stk_context *ctx)
{
    for (int n = 0; n < PAIRS; n++) {
        const uint32_t width = (uint32_t)pick(20, 70), height = (uint32_t)pick(20, 70);
        unsigned char places[70 * 70 * 3], classes[70 * 70];
        for (uint32_t i = 0; i < width * height; i++) {
            places[3 * i] = (unsigned char)(i % width);
            places[3 * i + 1] = (unsigned char)(i / width);
            places[3 * i + 2] = 1;
            classes[i] = class_at(i % width, i / width);
        }
        picture image = make_png(width, height, 2, places);
        picture mask = make_png(width, height, pick(0, 1) * 3, classes);
        put(ctx, "pictures", n, &image);
        put(ctx, "masks", n, &mask);
    }
}

/* A transform of those that move pixels, with random arguments. */
static void add_transform(char *text, size_t size)
{
    const size_t used = strlen(text);
    char *at = text + used;
    const size_t room = size - used;

    switch (pick(0, 7)) {
    case 0:
        snprintf(at, room, "horizontal_flip(%d), ", pick(0, 1));
        break;
    case 1:
        snprintf(at, room, "vertical_flip, ");
        break;
    case 2:
        snprintf(at, room, "resize(%dx%d, interpolation=nearest), ", pick(15, 60), pick(15, 60));
        break;
    case 3:
        snprintf(at, room, "random_resized_crop(%dx%d, interpolation=nearest), ", pick(15, 60),
                 pick(15, 60));
        break;
    case 4:
        snprintf(at, room, "random_rotation(%d, fill=255, mask_fill=255, interpolation=nearest), ",
                 pick(1, 90));
        break;
    case 5:
        snprintf(at, room, "pad(%d, fill=255), ", pick(1, 9));
        break;
    case 6:
        snprintf(at, room, "random_crop(%dx%d, padding=40, fill=255), ", pick(15, 60),
                 pick(15, 60));
        break;
    default:
        snprintf(at, room, "resize(%d, interpolation=nearest), ", pick(15, 40));
    }
}

static uint64_t check_batch(const stk_batch *batch, const char *transforms)
{
    stk_tensor image = {.struct_size = sizeof image}, mask = {.struct_size = sizeof mask};
    stk_error err;
    uint64_t inside = 0;

    assert_ok(stk_batch_find(batch, "image", &image), &err);
    assert_ok(stk_batch_find(batch, "mask", &mask), &err);
    const uint8_t *place = image.data, *class = mask.data;
    const uint64_t pixels =
        (uint64_t)(mask.shape[0] * mask.shape[1] * mask.shape[2] * mask.shape[3]);
    assert_int_equal(mask.shape[1], image.shape[1]);
    assert_int_equal(mask.shape[2], image.shape[2]);
    for (uint64_t i = 0; i < pixels; i++) {
        const uint8_t *from = place + 3 * i;
        const int wanted = from[2] == 1 ? class_at(from[0], from[1]) : OUTSIDE;
        if (class[i] != wanted)
            fail_msg("%s: pixel %d is of class %d, not %d", transforms, (int)i, class[i], wanted);
        inside += from[2] == 1;
    }
    return inside;
}

static void masks_follow(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset;
    uint64_t inside = 0;
    int ran = 0;
    stk_error err;

    (void)state;
    make_pairs(ctx);
    assert_ok(stk_dataset_open(ctx, "images:mem://pictures?masks=mem://masks", &dataset, &err),
              &err);
    for (int round = 0; round < ROUNDS; round++) {
        char transforms[800] = "";
        stk_loader_options o;
        stk_loader *loader;
        stk_batch *batch;
        stk_status status;
        for (int k = pick(0, 4); k > 0; k--)
            add_transform(transforms, sizeof transforms);
        const size_t used = strlen(transforms);
        snprintf(transforms + used, sizeof transforms - used, "center_crop(%dx%d, fill=255)",
                 pick(10, 60), pick(10, 60));
        stk_loader_options_init(&o);
        o.batch_size = (uint64_t)pick(1, PAIRS);
        o.shuffle = pick(0, 1) ? STK_SHUFFLE_FULL : STK_SHUFFLE_NONE;
        o.seed = test_random(&seed);
        o.num_workers = pick(0, 2);
        o.transforms = transforms;
        /* Some orders are none: a flip before a resize to sides that vary. */
        status = stk_loader_create(dataset, &o, &loader, &err);
        if (status == STK_ENOTSUP)
            continue;
        assert_ok(status, &err);
        ran++;
        while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK) {
            inside += check_batch(batch, transforms);
            stk_batch_release(&batch);
        }
        assert_ok(status == STK_EOS ? STK_OK : status, &err);
        stk_loader_destroy(&loader);
    }
    assert_true(ran > ROUNDS / 3 && inside > 100000);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_follow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
