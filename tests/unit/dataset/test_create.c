/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets and devices that a program makes, with the public headers alone. */
#include <stddef.h>
#include <stdlib.h>

#include "support/support.h"

typedef struct own {
    uint64_t factor;
    int *closed;
} own;

static void own_close(stk_dataset *dataset)
{
    own *self = stk_dataset_self(dataset);

    ++*self->closed;
    free(self);
}

static void own_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const own *self = stk_dataset_self(dataset);

    for (size_t i = 0; i < n; i++) {
        const stk_sample *sample = stk_sample_at(samples, i);
        const uint64_t number = sample->index * self->factor;
        stk_value *x = stk_sample_value(sample, 0);

        memcpy(x->out, &number, sizeof number);
        x->data = x->out;
    }
}

static const stk_dataset_ops own_ops = {
    .struct_size = sizeof own_ops, .name = "own", .close = own_close, .prepare = own_prepare};

/* All that the description points to is gone when this returns. */
static stk_dataset *make(stk_context *ctx, int *closed)
{
    char x[] = "x";
    stk_field field = {.struct_size = sizeof field, .name = x, .dtype = STK_UINT64};
    char left[] = "left", right[] = "right";
    const char *classes[] = {left, right};
    const stk_dataset_info info = {.struct_size = sizeof info,
                                   .num_fields = 1,
                                   .fields = &field,
                                   .size = 40,
                                   .fingerprint = 77,
                                   .cost_ns = 5,
                                   .worker_bytes = 6,
                                   .held_bytes = 7,
                                   .classes = classes,
                                   .num_classes = 2};
    own *self = malloc(sizeof *self);
    stk_dataset *dataset = NULL;
    stk_error err;

    assert_non_null(self);
    *self = (own){.factor = 3, .closed = closed};
    assert_ok(stk_dataset_create(ctx, &own_ops, self, &info, &dataset, &err), &err);
    memset(&field, 0, sizeof field);
    x[0] = left[0] = right[0] = '?';
    assert_ptr_equal(stk_dataset_self(dataset), self);
    return dataset;
}

static void check_batches(stk_dataset *dataset, uint64_t first, uint64_t count)
{
    stk_loader_options options;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_tensor x = {.struct_size = sizeof x};
    stk_error err;

    stk_loader_options_init(&options);
    options.batch_size = count;
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    assert_int_equal(stk_batch_find(batch, "x", &x), STK_OK);
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(((const uint64_t *)x.data)[i], 3 * (first + i));
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
}

static void a_copy_of_what_was_said(void **state)
{
    stk_dataset_info info = {.struct_size = sizeof info};
    stk_context *ctx = test_context();
    int closed = 0;
    stk_dataset *dataset = make(ctx, &closed);

    stk_context_destroy(&ctx); /* the dataset keeps it */
    stk_dataset_get_info(dataset, &info);
    assert_int_equal(info.struct_size, sizeof info);
    assert_int_equal(info.size, 40);
    assert_int_equal(info.fingerprint, 77);
    assert_int_equal(info.block_size, 1);
    assert_true(info.cost_ns == 5 && info.worker_bytes == 6 && info.held_bytes == 7);
    assert_int_equal(info.num_fields, 1);
    assert_string_equal(stk_field_at(info.fields, 0)->name, "x");
    assert_int_equal(info.num_classes, 2);
    assert_string_equal(info.classes[0], "left");
    assert_string_equal(info.classes[1], "right");
    check_batches(dataset, 0, 40);
    stk_dataset_close(&dataset);
    assert_null(dataset);
    assert_int_equal(closed, 1);
}

/* The view goes with the dataset, and that with the context, whose last holders they are. */
static void below_a_view(void **state)
{
    stk_dataset_info info = {.struct_size = sizeof info};
    stk_context *ctx = test_context();
    int closed = 0;
    stk_dataset *dataset = make(ctx, &closed);
    stk_error err;

    stk_context_destroy(&ctx);
    assert_ok(stk_dataset_range(&dataset, 10, 30, &err), &err);
    stk_dataset_get_info(dataset, &info);
    assert_int_equal(info.size, 20);
    assert_true(info.fingerprint != 77);
    assert_string_equal(info.classes[1], "right");
    check_batches(dataset, 10, 20);
    stk_dataset_close(&dataset);
    assert_int_equal(closed, 1);
}

/* ---- Needs of another version ---- */

enum { NEEDING = 30 };

static void keep_open(stk_dataset *dataset)
{
    (void)dataset;
}

static size_t object_in_memory(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                               size_t size)
{
    (void)object;
    *store = stk_dataset_self(dataset);
    return (size_t)snprintf(key, size, "bytes");
}

/* What follows the members of an earlier version is the caller's own; a later one sets nothing that
 * this does not know. */
static stk_status add_need(stk_locator *to, size_t i, uint64_t index, uint32_t struct_size)
{
    struct {
        stk_need need;
        uint64_t more[2];
    } theirs;

    memset(&theirs, 0x5a, sizeof theirs);
    theirs.need.struct_size = struct_size;
    theirs.need.field = 0;
    theirs.need.object = 0;
    theirs.need.offset = index;
    theirs.need.length = 1;
    if (struct_size > sizeof theirs.need) {
        memset(theirs.more, 0, sizeof theirs.more);
        theirs.need.decoded = theirs.need.wanted = theirs.need.at = 0;
        theirs.need.optional = theirs.need.in_place = theirs.need.up_to = false;
    }
    return to->add(to, i, &theirs.need);
}

static stk_status locate_shorter(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                 stk_locator *to, stk_error *err)
{
    stk_status status = STK_OK;

    (void)dataset;
    (void)err;
    for (size_t i = 0; i < n && status == STK_OK; i++)
        status = add_need(to, i, indices[i], offsetof(stk_need, decoded));
    return status;
}

static stk_status locate_longer(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                stk_locator *to, stk_error *err)
{
    stk_status status = STK_OK;

    (void)dataset;
    (void)err;
    for (size_t i = 0; i < n && status == STK_OK; i++)
        status = add_need(to, i, indices[i], sizeof(stk_need) + 2 * sizeof(uint64_t));
    return status;
}

static void prepare_needs(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++) {
        const stk_sample *sample = stk_sample_at(samples, i);

        stk_sample_value(sample, 0)->data = sample->needs[0].data;
    }
}

/* Of a need the library takes the members that the caller's struct_size covers, and no others. */
static void needs_of_another_version(void **state)
{
    const stk_field field = {.struct_size = sizeof field, .name = "x", .dtype = STK_UINT8};
    const stk_dataset_info info = {
        .struct_size = sizeof info, .fields = &field, .num_fields = 1, .size = NEEDING};
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    uint8_t bytes[NEEDING];
    stk_error err;

    (void)state;
    for (uint8_t i = 0; i < NEEDING; i++)
        bytes[i] = (uint8_t)(3 * i + 1);
    assert_ok(stk_store_open(ctx, "mem://needs", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, "bytes", bytes, sizeof bytes, NULL, &err), &err);
    for (int longer = 0; longer < 2; longer++) {
        const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                     .name = "needing",
                                     .close = keep_open,
                                     .locate = longer ? locate_longer : locate_shorter,
                                     .object = object_in_memory,
                                     .prepare = prepare_needs};
        stk_tensor x = {.struct_size = sizeof x};
        stk_dataset *dataset = NULL;
        stk_loader_options options;
        stk_loader *loader = NULL;
        stk_batch *batch = NULL;

        stk_loader_options_init(&options);
        options.batch_size = NEEDING;
        assert_ok(stk_dataset_create(ctx, &ops, store, &info, &dataset, &err), &err);
        assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        assert_int_equal(stk_batch_find(batch, "x", &x), STK_OK);
        assert_memory_equal(x.data, bytes, sizeof bytes);
        stk_batch_release(&batch);
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void what_is_not_whole_is_refused(void **state)
{
    const stk_field field = {.struct_size = sizeof field, .name = "x", .dtype = STK_UINT64};
    const stk_dataset_info good = {
        .struct_size = sizeof good, .num_fields = 1, .fields = &field, .size = 1};
    stk_dataset_info bad = good;
    stk_dataset_ops lacking = own_ops;
    stk_context *ctx = test_context();
    stk_dataset *dataset = (stk_dataset *)&bad;
    stk_error err;

    assert_fails(stk_dataset_create(NULL, &own_ops, NULL, &good, &dataset, &err), STK_EINVAL, &err,
                 "no context");
    assert_fails(stk_dataset_create(ctx, &own_ops, NULL, NULL, &dataset, &err), STK_EINVAL, &err,
                 "no description");
    bad.struct_size = 0;
    assert_fails(stk_dataset_create(ctx, &own_ops, NULL, &bad, &dataset, &err), STK_EINVAL, &err,
                 "stk_dataset_info has struct_size 0");
    assert_null(dataset);
    bad = good;
    bad.num_fields = 0;
    assert_fails(stk_dataset_create(ctx, &own_ops, NULL, &bad, &dataset, &err), STK_EINVAL, &err,
                 "has no fields");
    stk_field unset = field;
    unset.struct_size = 0;
    bad = good;
    bad.fields = &unset;
    assert_fails(stk_dataset_create(ctx, &own_ops, NULL, &bad, &dataset, &err), STK_EINVAL, &err,
                 "stk_field has struct_size 0");
    unset = field;
    unset.name = NULL;
    assert_fails(stk_dataset_create(ctx, &own_ops, NULL, &bad, &dataset, &err), STK_EINVAL, &err,
                 "without a proper name");
    bad = good;
    bad.cost_ns = -1;
    assert_fails(stk_dataset_create(ctx, &own_ops, NULL, &bad, &dataset, &err), STK_EINVAL, &err,
                 "cost_ns");
    lacking.prepare = NULL;
    assert_fails(stk_dataset_create(ctx, &lacking, NULL, &good, &dataset, &err), STK_EINVAL, &err,
                 "'own' lacks prepare");
    assert_fails(stk_device_create(ctx, NULL, NULL, NULL, &err), STK_EINVAL, &err, "no place");
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_of_what_was_said),
        cmocka_unit_test(below_a_view),
        cmocka_unit_test(needs_of_another_version),
        cmocka_unit_test(what_is_not_whole_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
