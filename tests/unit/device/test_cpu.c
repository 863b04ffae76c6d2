/* SPDX-License-Identifier: Apache-2.0 */
/* The processor behind the table of devices. */
#include <math.h>

#include "base/registry.h"
#include "device/device.h"
#include "support/support.h"

static void far_info(const stk_device *device, stk_device_info *out)
{
    *out = (stk_device_info){.struct_size = sizeof *out, .name = "far"};
}

static stk_status far_copy(stk_stream *stream, void *to, const void *from, uint64_t bytes,
                           stk_copy_kind kind, stk_error *err)
{
    return STK_EIO;
}

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

/* Those that ranks ask for. */
static void numbers(void **state)
{
    const stk_device_ops *ops = (const stk_device_ops *)stk_driver_at(NULL, STK_DRIVER_DEVICE, 0);
    float x[19], back[19];
    double y[3] = {-3, NAN, 0.5}, sum = 1, want = 1;
    uint16_t narrow[19];
    stk_error err;

    for (int i = 0; i < 19; i++) {
        x[i] = (float)(i - 9) + 0x1p-8f * (float)(i % 3); /* of which 8 bits stay */
        want += (double)x[i] * (double)x[i];
    }
    assert_ok(ops->squares(NULL, &sum, x, STK_FLOAT32, 19, &err), &err);
    assert_true(fabs(sum - want) < 1e-12 * want);
    sum = 0;
    assert_ok(ops->squares(NULL, &sum, y, STK_FLOAT64, 1, &err), &err);
    assert_true(sum == 9);
    assert_ok(ops->convert(NULL, narrow, STK_BFLOAT16, x, STK_FLOAT32, 19, &err), &err);
    assert_ok(ops->convert(NULL, back, STK_FLOAT32, narrow, STK_BFLOAT16, 19, &err), &err);
    for (int i = 0; i < 19; i++)
        assert_true(fabsf(back[i] - x[i]) <= fabsf(x[i]) * 0x1p-8f && (i % 3 || back[i] == x[i]));
    assert_ok(ops->scale(NULL, x, STK_FLOAT32, 19, 2, 4, &err), &err);
    assert_true(x[0] == -4 && x[18] == 4 && x[9] == 0 && x[10] == 2 * (1 + 0x1p-8f));
    assert_ok(ops->scale(NULL, y, STK_FLOAT64, 3, 0.5, INFINITY, &err), &err);
    assert_true(y[0] == -1.5 && isnan(y[1]) && y[2] == 0.25);
    assert_fails(ops->squares(NULL, &sum, x, STK_BFLOAT16, 1, &err), STK_ENOTSUP, &err, "bfloat16");
    assert_fails(ops->scale(NULL, x, STK_INT32, 1, 1, 1, &err), STK_ENOTSUP, &err, "int32");
    assert_fails(ops->convert(NULL, narrow, STK_FLOAT16, x, STK_FLOAT32, 1, &err), STK_ENOTSUP,
                 &err, "float16");
}

/* What works on memory is the processor's where that is the host's; else what a table lacks at its
 * end is none. */
static void functions(void **state)
{
    const stk_device_ops *cpu = (const stk_device_ops *)stk_driver_at(NULL, STK_DRIVER_DEVICE, 0);
    stk_context *ctx = test_context();
    stk_device_ops ops = *cpu, full;
    stk_device *device;
    stk_error err;

    ops.struct_size = offsetof(stk_device_ops, convert);
    ops.copy = far_copy;
    assert_ok(stk_device_create(ctx, &ops, NULL, &device, &err), &err);
    stk__device_functions(device, &full);
    assert_true(full.convert == cpu->convert && full.squares == cpu->squares &&
                full.scale == cpu->scale && full.give_back == cpu->give_back &&
                full.take_back == cpu->take_back && full.alloc == cpu->alloc &&
                full.copy == cpu->copy && full.fill == cpu->fill);
    assert_int_equal(full.struct_size, sizeof full);
    assert_false(stk__device_has_native(device));
    ops.info = far_info;
    stk__device_functions(device, &full);
    assert_true(!full.convert && !full.squares && !full.scale && !full.give_back &&
                !full.take_back && full.alloc == cpu->alloc && full.copy == far_copy);
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
        cmocka_unit_test(numbers),
        cmocka_unit_test(functions),
        cmocka_unit_test(a_device_with_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
