/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digits: handwritten-like digits, drawn when they are asked for. Nothing is stored and nothing is
 * read: each one is a pure function of (seed, split, index).
 */
#include "dataset/digits.h"

#include <inttypes.h>
#include <stdio.h>

#include "dataset/view.h"

#define TRAIN_SIZE 60000
#define TEST_SIZE  10000
/* Measured once, -O3 on one core at 2 to 3 GHz; the loader refines it. */
#define COST_NS 7000

typedef struct digits_options {
    uint32_t struct_size;
    int32_t split;
    int64_t size;
    uint64_t seed;
} digits_options;

static const stk_option digits_option_list[] = {
    {"split", STK_OPTION_ENUM, offsetof(digits_options, split), "train", 0, 0, "train|test", NULL,
     "Which of the two sets: 60,000 or 10,000 digits that have none in common."},
    {"size", STK_OPTION_INT, offsetof(digits_options, size), "auto", 1, 0x1p48, "auto", "N",
     "Number of digits; auto: that of the split. More are drawn, not repeated."},
    {"seed", STK_OPTION_UINT, offsetof(digits_options, seed), "0", 0, 0, NULL, "N",
     "Another seed gives other digits."},
};

static const stk_option_table digits_option_table = {"digits", "Handwritten-like digits.",
                                                     sizeof(digits_options), digits_option_list,
                                                     STK_COUNT(digits_option_list)};

typedef struct digits {
    stk_dataset base;
    stk_field fields[2];
    uint32_t split;
    uint64_t seed;
} digits;

static const char *const digit_names[10] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

static int64_t digits_label(const stk_dataset *dataset, uint64_t index)
{
    const digits *d = (const digits *)dataset;
    unsigned char pixels[STK_DIGIT_SIDE * STK_DIGIT_SIDE];

    return stk__digit_draw(d->seed, d->split, index, pixels);
}

static stk_status digits_open(stk_context *ctx, const char *url, const void *options,
                              stk_dataset **out, stk_error *err)
{
    const digits_options *o = options;

    STK_TRY(stk__refuse_query(&digits_option_table, url, err));
    if (*url)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "digits: is built in and takes no path, but got '%.200s'; its options "
                            "are split, size and seed, as digits:?split=test",
                            url);
    digits *d = stk__calloc(ctx, 1, sizeof *d);
    if (!d)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for digits:");
    d->fields[0] = stk__field("image", STK_UINT8,
                              (const int64_t[]){STK_DIGIT_SIDE, STK_DIGIT_SIDE, 1, -1}, true);
    d->fields[1] = stk__field("label", STK_INT64, (const int64_t[]){-1}, false);
    d->split = (uint32_t)o->split;
    d->seed = o->seed;
    uint64_t size = o->split ? TEST_SIZE : TRAIN_SIZE;
    if (o->size != STK_AUTO)
        size = (uint64_t)o->size;
    stk__dataset_init(&d->base, &stk__dataset_digits, ctx, size, d->fields, STK_COUNT(d->fields));
    d->base.fingerprint = stk__fingerprint(d->base.fingerprint, &d->split, sizeof d->split);
    d->base.fingerprint = stk__fingerprint(d->base.fingerprint, &d->seed, sizeof d->seed);
    d->base.cost_ns = COST_NS;
    d->base.label = digits_label;
    d->base.classes = digit_names;
    d->base.num_classes = STK_COUNT(digit_names);
    *out = &d->base;
    return STK_OK;
}

static void digits_close(stk_dataset *dataset)
{
    stk__free(dataset->context, dataset);
}

static void digits_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const digits *d = (const digits *)dataset;

    for (size_t i = 0; i < n; i++) {
        stk_value *image = &samples[i].values[0], *label = &samples[i].values[1];
        int64_t name = stk__digit_draw(d->seed, d->split, samples[i].index, image->out);

        memcpy(label->out, &name, sizeof name);
        image->data = image->out;
        label->data = label->out;
    }
}

static stk_status digits_describe(stk_dataset *dataset,
                                  void (*line)(void *user, const char *name, const char *value),
                                  void *user, stk_error *err)
{
    const digits *d = (const digits *)dataset;
    char text[32];

    (void)err;
    line(user, "split", d->split ? "test" : "train");
    snprintf(text, sizeof text, "%" PRIu64, d->seed);
    line(user, "seed", text);
    return STK_OK;
}

const stk_dataset_ops stk__dataset_digits = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "digits",
    .doc = "Handwritten-like digits in the shapes and sizes of MNIST, drawn and not downloaded.",
    .options = &digits_option_table,
    .open = digits_open,
    .close = digits_close,
    .prepare = digits_prepare,
    .describe = digits_describe,
};
