/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on a device's memory over a library that stands for NCCL: what comes out; libraries and
 * devices that are none for it. */
#include "unit/dist/nccl_ranks.h"

/* ---- What comes out -------------------------------------------------------------------------- */

static const stk_dtype types[] = {STK_INT8,   STK_UINT8,   STK_INT32,    STK_UINT32,  STK_INT64,
                                  STK_UINT64, STK_FLOAT16, STK_BFLOAT16, STK_FLOAT32, STK_FLOAT64};

static void sums_body(rank *r)
{
    static const uint64_t counts[] = {0, 1, 3, 64, 1000, NUMBERS};

    for (size_t t = 0; t < STK_COUNT(types); t++)
        for (size_t k = 0; k < STK_COUNT(counts); k++)
            for (int op = 0; op < 4; op++) {
                if (is_whole(types[t]) && op == STK_COMBINE_MEAN)
                    continue;
                fill(r, NUMBERS, types[t]);
                reduce(r, counts[k], types[t], (stk_combine)op);
                finish(r);
                for (uint64_t i = 0; i < counts[k]; i++)
                    if (value(r, i, types[t]) != expected(r->s->world_size, i, (stk_combine)op))
                        fail_msg("%s, element %d", stk_dtype_name(types[t]), (int)i);
                if (counts[k] < NUMBERS)
                    assert_true(value(r, counts[k], types[t]) == number(r->s->rank, counts[k]));
            }
}

/* A run on as many ranks that ends in good order. */
static void run_well(uint64_t size, void (*body)(rank *))
{
    world w;

    set_up(NULL);
    world_begin(&w, size, body);
    world_run(&w);
    assert_int_equal(w.net.wholes, size);
    assert_int_equal(stub->joined, size);
    assert_int_equal(stub->finalized, size);
    assert_int_equal(stub->destroyed, size);
    assert_int_equal(stub->aborted, 0);
    world_end(&w);
}

static void sums(void **state)
{
    for (uint64_t size = 1; size <= RANKS; size++)
        run_well(size, sums_body);
}

/* Parts of `way`: equal, some empty, all of the last, none. */
static uint64_t part_counts(uint64_t size, int way, uint64_t counts[RANKS])
{
    uint64_t sum = 0;

    for (uint64_t r = 0; r < size; r++) {
        counts[r] = way == 0   ? 500
                    : way == 1 ? (r + 1) % 3 * 211
                    : way == 2 ? (r + 1 == size ? 1003 : 0)
                               : 0;
        sum += counts[r];
    }
    return sum;
}

static void parts_body(rank *r)
{
    uint64_t counts[RANKS];

    for (size_t t = 0; t < STK_COUNT(types); t++)
        for (int way = 0; way < 4; way++) {
            const uint64_t count = part_counts(r->s->world_size, way, counts);
            uint64_t own = 0;

            for (uint64_t k = 0; k < r->s->rank; k++)
                own += counts[k];
            fill(r, count, types[t]);
            r->status = r->s->reduce_scatter(r->s->state, r->memory, counts, types[t],
                                             STK_COMBINE_SUM, r->device->stream, &r->err);
            finish(r);
            for (uint64_t i = own; i < own + counts[r->s->rank]; i++)
                assert_true(value(r, i, types[t]) ==
                            expected(r->s->world_size, i, STK_COMBINE_SUM));
            r->status = r->s->all_gather(r->s->state, r->memory, counts, types[t],
                                         r->device->stream, &r->err);
            finish(r);
            for (uint64_t i = 0; i < count; i++)
                assert_true(value(r, i, types[t]) ==
                            expected(r->s->world_size, i, STK_COMBINE_SUM));
        }
}

static void in_parts(void **state)
{
    for (uint64_t size = 1; size <= RANKS; size++)
        run_well(size, parts_body);
}

static void broadcasts_body(rank *r)
{
    static const uint64_t counts[] = {0, 1, 256, 5001};
    const char *bytes = r->memory;

    for (size_t k = 0; k < STK_COUNT(counts); k++) {
        memset(r->memory, 'a' + (int)r->s->rank, 6000);
        r->status = r->s->broadcast(r->s->state, r->memory, counts[k], r->device->stream, &r->err);
        finish(r);
        for (uint64_t i = 0; i < 6000; i++)
            assert_int_equal(bytes[i], i < counts[k] ? 'a' : 'a' + (int)r->s->rank);
    }
}

/* More calls than the device is let to have at once, and calls of the host's memory between them.
 */
static void many_body(rank *r)
{
    double own = (double)r->s->rank;

    fill(r, 10, STK_FLOAT64);
    for (int i = 0; i < 300; i++) {
        reduce(r, 10, STK_FLOAT64, STK_COMBINE_MAX);
        assert_ok(r->status, &r->err);
        if (i % 100 == 0)
            assert_ok(
                r->s->reduce(r->s->state, &own, 1, STK_FLOAT64, STK_COMBINE_MAX, NULL, &r->err),
                &r->err);
    }
    finish(r);
    assert_true(own == (double)(r->s->world_size - 1));
    assert_true(value(r, 3, STK_FLOAT64) == number(r->s->world_size - 1, 3));
}

static void others(void **state)
{
    for (uint64_t size = 1; size <= RANKS; size += 3) {
        run_well(size, broadcasts_body);
        run_well(size, many_body);
        assert_int_equal(stub->calls, 300 * size);
    }
}

static void refused_body(rank *r)
{
    stk_device *again = r->device;

    reduce(r, 4, STK_COMPLEX64, STK_COMBINE_SUM);
    assert_fails(r->status, STK_ENOTSUP, &r->err, "complex64");
    reduce(r, 4, STK_INT32, STK_COMBINE_MEAN);
    assert_fails(r->status, STK_ENOTSUP, &r->err, "int32 by mean");
    assert_fails(r->s->attach(r->s->state, again, &r->err), STK_EINVAL, &r->err, "already");
    r->status = STK_OK;
}

static void kinds_are_refused(void **state)
{
    run_well(2, refused_body);
}

/* ---- Libraries and devices ------------------------------------------------------------------- */

static void libraries(void **state)
{
    char text[32];
    stk_error err;

    assert_ok(stk_nccl_version(LIBRARY, text, sizeof text, &err), &err);
    assert_string_equal(text, "2.28.9");
    assert_fails(stk_nccl_version("/no/such/libnccl.so.2", text, sizeof text, &err), STK_ENOTSUP,
                 &err, "cannot be loaded");
    assert_non_null(strstr(err.text, "install NCCL 2.14 or later"));
    assert_string_equal(text, "");
    assert_fails(stk_nccl_version(STUB_FOLDER "/stub_nccl_without.so", text, sizeof text, &err),
                 STK_ENOTSUP, &err, "lacks ncclGetUniqueId");
    stub->version = 21304;
    assert_fails(stk_nccl_version(LIBRARY, text, sizeof text, &err), STK_ENOTSUP, &err,
                 "is NCCL 2.13.4");
    stub->version = 2804;
    assert_fails(stk_nccl_version(LIBRARY, text, sizeof text, &err), STK_ENOTSUP, &err,
                 "is NCCL 2.8.4");
    stub->version = 21400;
    assert_ok(stk_nccl_version(LIBRARY, text, sizeof text, &err), &err);
    assert_string_equal(text, "2.14.0");
}

static void versions_that_differ(void **state)
{
    world w;

    world_begin(&w, 2, finish);
    stub->odd_one = 2;
    world_run(&w);
    for (uint64_t r = 0; r < 2; r++) {
        assert_fails(w.ranks[r].status, STK_EMISMATCH, &w.ranks[r].err, "rank 1 (");
        assert_non_null(strstr(w.ranks[r].err.text, "2.18.4"));
        assert_non_null(strstr(w.ranks[r].err.text, "2.28.9"));
    }
    assert_int_equal(stub->joined, 0);
    world_end(&w);
}

/* What one rank by itself is told for a wish and a device. */
static stk_status attach_once(const char *wish, const stk_device_ops *ops, stk_error *err)
{
    network net = {.world = 1};
    network_end end = {&net, 0};
    stk_collectives_options options;
    stk_context *ctx = test_context();
    stk_device *device;
    stk_collectives *c;
    double x = 3;

    pthread_mutex_init(&net.lock, NULL);
    network_self = &end;
    stub_ops = ops;
    stk_collectives_options_init(&options);
    options.nccl = wish;
    assert_ok(stk__collectives_join(ctx, &network_ops, &options, &c, err), err);
    assert_ok(stk__device_open(ctx, ops, 0, &device, err), err);
    const stk_strategy *s = stk_collectives_strategy(c);
    const stk_status status = s->attach(s->state, device, err);
    /* Without one a stream is of nothing. */
    stk_error own;
    stk_error_init(&own);
    if (!strchr(wish, '/'))
        assert_fails(s->reduce(s->state, &x, 1, STK_FLOAT64, STK_COMBINE_SUM, device->stream, &own),
                     STK_ENOTSUP, &own, "none is attached");
    assert_ok(s->reduce(s->state, &x, 1, STK_FLOAT64, STK_COMBINE_SUM, NULL, &own), &own);
    s->detach(s->state);
    stk__device_close(&device);
    stk_collectives_close(&c);
    stk_context_destroy(&ctx);
    pthread_mutex_destroy(&net.lock);
    stub_ops = &stub_device;
    return status;
}

static void devices(void **state)
{
    stk_device_ops without = stub_device, before = stub_device;
    stk_error err;

    stk_error_init(&err);
    without.stream_native = NULL;
    before.struct_size = offsetof(stk_device_ops, stream_native);
    assert_ok(attach_once(LIBRARY, &stub_device, &err), &err);
    assert_ok(attach_once("auto", &stk__device_cpu, &err), &err);
    assert_ok(attach_once("never", &stk__device_cpu, &err), &err);
    assert_fails(attach_once("always", &stk__device_cpu, &err), STK_ENOTSUP, &err,
                 "that of 'cpu' is the host's, which threads carries");
    assert_fails(attach_once("never", &stub_device, &err), STK_ENOTSUP, &err,
                 "nothing else carries what lies in the memory of 'stub'");
    assert_fails(attach_once("sometimes", &stub_device, &err), STK_EINVAL, &err, "sometimes");
    assert_fails(attach_once("auto", &without, &err), STK_ENOTSUP, &err, "lacks stream_native");
    assert_fails(attach_once("auto", &before, &err), STK_ENOTSUP, &err, "lacks stream_native");
    assert_fails(attach_once("/no/such/libnccl.so.2", &stub_device, &err), STK_ENOTSUP, &err,
                 "cannot be loaded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sums, set_up),
        cmocka_unit_test_setup(in_parts, set_up),
        cmocka_unit_test_setup(others, set_up),
        cmocka_unit_test_setup(kinds_are_refused, set_up),
        cmocka_unit_test_setup(libraries, set_up),
        cmocka_unit_test_setup(versions_that_differ, set_up),
        cmocka_unit_test_setup(devices, set_up),
    };

    return stub_load() ? cmocka_run_group_tests_name("dist/nccl", tests, NULL, NULL) : 1;
}
