/* SPDX-License-Identifier: Apache-2.0 */
/* The processor behind the table of devices. */
#include <math.h>

#include "base/registry.h"
#include "device/device.h"
#include "support/support.h"

static void the_table(void **state)
{
    const stk_device_ops *ops = ((const stk_device_ops *)stk_driver_at(NULL, STK_DRIVER_DEVICE, 0));
    stk_context *ctx = test_context();
    stk_device *device;
    stk_stream *stream;
    stk_event *a, *b;
    stk_device_info info;
    stk_error err;
    void *host, *there;
    uint64_t ns;

    assert_non_null(ops);
    assert_null(((const stk_device_ops *)stk_driver_at(NULL, STK_DRIVER_DEVICE, 1)));
    assert_ptr_equal(stk__driver_find(NULL, STK_DRIVER_DEVICE, "cpu", strlen("cpu")), ops);
    assert_null(stk__driver_find(NULL, STK_DRIVER_DEVICE, "cuda", strlen("cuda")));
    assert_int_equal(ops->count(), 1);
    assert_fails(ops->open(ctx, 1, &device, &err), STK_EINVAL, &err, "cpu:1");
    assert_ok(ops->open(ctx, 0, &device, &err), &err);
    ops->info(device, &info);
    assert_true(info.host_memory);
    assert_ok(ops->alloc(device, 100, &there, &err), &err);
    assert_ok(ops->alloc_host(device, 100, &host, &err), &err);
    assert_ok(ops->stream_create(device, &stream, &err), &err);
    assert_ok(ops->event_create(device, &a, &err), &err);
    assert_ok(ops->event_create(device, &b, &err), &err);
    assert_fails(ops->event_elapsed(a, b, &ns, &err), STK_EINVAL, &err, "recorded");
    memset(host, 7, 100);
    assert_ok(ops->event_record(a, stream, &err), &err);
    assert_ok(ops->fill(stream, there, 9, 100, &err), &err);
    assert_ok(ops->copy(stream, there, host, 50, STK_COPY_HOST_TO_DEVICE, &err), &err);
    assert_ok(ops->event_record(b, stream, &err), &err);
    assert_ok(ops->stream_wait(stream, b, &err), &err);
    assert_ok(ops->event_query(b, &err), &err);
    assert_ok(ops->stream_synchronize(stream, &err), &err);
    assert_ok(ops->event_elapsed(a, b, &ns, &err), &err);
    assert_int_equal(((unsigned char *)there)[49], 7);
    assert_int_equal(((unsigned char *)there)[50], 9);
    /* Last, sum and weights, of a value of any type; a mean of no rows adds nothing. */
    double sums[4] = {0};
    const stk_scalar values[] = {{.data = &(float){1.5f}, .dtype = STK_FLOAT32},
                                 {.data = &(int16_t){-4}, &(int16_t){3}, STK_INT16},
                                 {.data = &(double){NAN}, &(double){0}, STK_FLOAT64}};
    assert_ok(ops->fold(stream, sums, &values[0], 2, &err), &err);
    assert_ok(ops->fold(stream, sums, &values[1], 2, &err), &err);
    assert_true(sums[0] == -4 && sums[3] == 3);
    assert_ok(ops->fold(stream, sums, &values[2], 2, &err), &err);
    assert_true(isnan(sums[0]) && sums[1] == 1.5 * 2 - 4 * 3 && sums[2] == 5 && sums[3] == 0);
    ops->event_destroy(a);
    ops->event_destroy(b);
    ops->stream_destroy(stream);
    ops->free(device, there);
    ops->free_host(device, host);
    assert_null(stk_device_self(device));
    stk__device_close(&device);
    assert_null(device);
    stk__device_close(&device);
    stk_context_destroy(&ctx);
}

/* Options of a device would be read by nothing. */
static void a_device_with_options(void **state)
{
    static const stk_option_table table = {.name = "other", .doc = "Of another device."};
    stk_context *ctx = test_context();
    stk_device_ops ops = *(const stk_device_ops *)stk_driver_at(NULL, STK_DRIVER_DEVICE, 0);
    stk_error err;

    (void)state;
    ops.name = "other";
    ops.options = &table;
    assert_fails(stk_driver_add(ctx, STK_DRIVER_DEVICE, &ops, &err), STK_ENOTSUP, &err, "options");
    ops.options = NULL;
    assert_ok(stk_driver_add(ctx, STK_DRIVER_DEVICE, &ops, &err), &err);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table),
        cmocka_unit_test(a_device_with_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
