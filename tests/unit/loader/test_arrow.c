/* SPDX-License-Identifier: Apache-2.0 */
/* Batches as arrays of Arrow: what they say, and how long they hold the batch. */
#include <pthread.h>

#include <stoker/arrow.h>

#include "support/counting.h"
#include "support/support.h"

enum { BATCH = 16 };

static stk_loader *make_loader_of(stk_dataset *dataset, uint64_t batch_size)
{
    stk_loader_options options;
    stk_loader *loader = NULL;
    stk_error err;

    stk_loader_options_init(&options);
    options.batch_size = batch_size;
    options.num_workers = 1;
    options.epochs = 0;
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    return loader;
}

static stk_loader *make_loader(stk_dataset *dataset)
{
    return make_loader_of(dataset, BATCH);
}

typedef struct exported {
    stk_arrow_schema schema;
    stk_arrow_array array;
} exported;

static void export(stk_loader *loader, exported *out, stk_batch **held)
{
    stk_batch *batch = NULL;
    stk_error err;

    stk_status status = stk_loader_next(loader, -1, &batch, &err);
    if (status == STK_EOS)
        status = stk_loader_next(loader, -1, &batch, &err);
    assert_ok(status, &err);
    assert_ok(stk_batch_export_arrow(batch, &out->schema, &out->array, &err), &err);
    if (held)
        *held = batch;
    else
        stk_batch_release(&batch);
}

static void release(exported *e)
{
    if (e->schema.release)
        e->schema.release(&e->schema);
    if (e->array.release)
        e->array.release(&e->array);
    assert_true(!e->schema.release && !e->array.release);
}

/* The child of a name. */
static int64_t child(const exported *e, const char *name)
{
    for (int64_t i = 0; i < e->schema.n_children; i++)
        if (strcmp(e->schema.children[i]->name, name) == 0)
            return i;
    fail_msg("no field %s", name);
    return -1;
}

static void what_they_say(void **state)
{
    const counting_options options = {.size = 64, .ragged = true};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &options);
    stk_loader *loader = make_loader(dataset);
    stk_tensor t = {.struct_size = sizeof t};
    stk_batch *batch = NULL;
    exported e;
    char width[32];

    export(loader, &e, &batch);
    assert_string_equal(e.schema.format, "+s");
    assert_true(e.array.length == BATCH && e.array.n_buffers == 1 && !e.array.buffers[0]);
    assert_int_equal(e.array.n_children, e.schema.n_children);
    assert_int_equal(stk_batch_field(batch, (uint32_t)e.array.n_children, &t), STK_EINVAL);

    assert_int_equal(stk_batch_find(batch, "data", &t), STK_OK);
    int64_t i = child(&e, "data");
    snprintf(width, sizeof width, "+w:%d", COUNTING_BYTES);
    assert_string_equal(e.schema.children[i]->format, width);
    assert_string_equal(e.schema.children[i]->children[0]->format, "C");
    const stk_arrow_array *data = e.array.children[i];
    assert_true(data->length == BATCH && data->n_buffers == 1 && data->n_children == 1);
    assert_int_equal(data->children[0]->length, BATCH * COUNTING_BYTES);
    assert_ptr_equal(data->children[0]->buffers[1], t.data);

    assert_int_equal(stk_batch_find(batch, "label", &t), STK_OK);
    i = child(&e, "label");
    assert_string_equal(e.schema.children[i]->format, "l");
    assert_true(e.array.children[i]->n_buffers == 2 && e.array.children[i]->n_children == 0);
    assert_ptr_equal(e.array.children[i]->buffers[1], t.data);

    assert_int_equal(stk_batch_find(batch, "words", &t), STK_OK);
    i = child(&e, "words");
    assert_string_equal(e.schema.children[i]->format, "+L");
    assert_string_equal(e.schema.children[i]->children[0]->format, "S");
    assert_ptr_equal(e.array.children[i]->buffers[1], t.offsets);
    assert_int_equal(e.array.children[i]->children[0]->length, t.offsets[BATCH]);
    release(&e);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void *release_child(void *array)
{
    ((stk_arrow_array *)array)->release(array);
    return NULL;
}

/* A child that was moved out goes on after its parent, the batch, the loader and the context. The
 * slab has pages of its own, which are gone from the process with it. */
static void longer_than_the_loader(void **state)
{
    enum { LARGE = 16384 };
    const counting_options options = {.size = 4 * LARGE};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &options);
    stk_loader *loader = make_loader_of(dataset, LARGE);
    uint8_t expected[COUNTING_BYTES];
    pthread_t thread;
    exported e, other;

    export(loader, &e, NULL);
    for (int i = 0; i < 12; i++) {
        export(loader, &other, NULL);
        release(&other);
    }
    const int64_t at = child(&e, "data");
    stk_arrow_array moved = *e.array.children[at];
    e.array.children[at]->release = NULL;
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    release(&e);
    for (int r = 0; r < LARGE; r++) {
        counting_data((uint64_t)r, expected);
        assert_memory_equal((const char *)moved.children[0]->buffers[1] + r * COUNTING_BYTES,
                            expected, COUNTING_BYTES);
    }
    assert_int_equal(pthread_create(&thread, NULL, release_child, &moved), 0);
    pthread_join(thread, NULL);
    assert_null(moved.release);
}

/* An array holds its batch as the consumer does. */
static void all_of_them_held(void **state)
{
    const counting_options options = {.size = 640};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &options);
    stk_loader *loader = make_loader(dataset);
    exported kept[64];
    stk_batch *batch = NULL;
    size_t n = 0;
    stk_error err;

    while (n < 64 && stk_loader_next(loader, -1, &batch, &err) == STK_OK) {
        assert_ok(stk_batch_export_arrow(batch, &kept[n].schema, &kept[n].array, &err), &err);
        n++;
        stk_batch_release(&batch);
    }
    assert_int_equal(err.status, STK_EBUSY);
    assert_true(n >= 2 && n < 64);
    for (size_t i = 0; i < n; i++)
        release(&kept[i]);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_they_say),
        cmocka_unit_test(longer_than_the_loader),
        cmocka_unit_test(all_of_them_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
