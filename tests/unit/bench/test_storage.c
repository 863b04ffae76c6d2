/* SPDX-License-Identifier: Apache-2.0 */
/* What a store gives, and chunk shapes that are tried on a sample. */
#include <math.h>
#include <string.h>

#include "support/support.h"

#include <stoker/bench.h>
#include <stoker/store.h>

static stk_context *make_context(void)
{
    stk_context *ctx = NULL;
    stk_error err;

    assert_ok(stk_context_create(NULL, &ctx, &err), &err);
    return ctx;
}

/* ---- Storage --------------------------------------------------------------------------------- */

typedef struct told {
    size_t tests, stop_after;
    uint64_t failures;
    double slowest;
} told;

static void tell(void *user, const stk_storage_test *test)
{
    told *t = user;

    assert_true(test->reads_per_s > 0 && test->bytes_per_s > 0);
    assert_true(test->latency_p95 >= test->latency);
    t->tests++;
    t->failures += test->failures;
    t->slowest = fmax(t->slowest, test->latency);
}

static bool stop(void *user)
{
    const told *t = user;

    return t->stop_after && t->tests >= t->stop_after;
}

static stk_store *keep_objects(stk_context *ctx)
{
    stk_store *store = NULL;
    stk_error err;
    char key[64], bytes[9000];

    memset(bytes, 7, sizeof bytes);
    assert_ok(stk_store_open(ctx, "mem://objects", &store, key, sizeof key, &err), &err);
    assert_ok(stk_store_put(store, "a", bytes, sizeof bytes, NULL, &err), &err);
    assert_ok(stk_store_put(store, "folder/b", bytes, 10, NULL, &err), &err);
    assert_ok(stk_store_put(store, "folder/empty", bytes, 0, NULL, &err), &err);
    return store;
}

static void test_storage(void **state)
{
    stk_context *ctx = make_context();
    stk_store *store = keep_objects(ctx);
    told t = {0};
    const stk_storage_measure_options options = {
        .struct_size = sizeof options, .test = tell, .stop = stop, .user = &t};
    stk_storage_figures figures = {.struct_size = sizeof figures};
    stk_storage_answer answer = {.struct_size = sizeof answer};
    stk_error err;

    assert_ok(stk_storage_measure(ctx, "mem://objects", &options, &figures, &err), &err);
    assert_int_equal(t.tests, 5);
    assert_int_equal(t.failures, 0);
    assert_int_equal(figures.num_steps, 0);
    assert_int_equal(figures.objects, 2);
    assert_int_equal(figures.bytes, 9010);
    /* Its latency is that of the slow store, whatever the machine does. */
    assert_ok(stk_storage_measure(ctx, "slow+mem://objects?latency=60ms", NULL, &figures, &err),
              &err);
    assert_true(figures.latency >= 0.06 && figures.latency_p95 >= figures.latency);
    /* It is far: more at once were asked for as long as they gave more. */
    assert_in_range(figures.num_steps, 2, STK_STORAGE_STEPS);
    for (uint32_t i = 0; i < figures.num_steps; i++) {
        assert_int_equal(figures.steps[i].depth, 1u << i);
        assert_true(figures.steps[i].latency >= 0.06 && figures.steps[i].bytes_per_s > 0);
    }
    assert_int_equal(figures.network.reads, 0);
    stk_storage_judge(&figures, &answer);
    assert_int_equal(answer.storage, STK_STORAGE_OBJECTS);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void test_storage_refused(void **state)
{
    stk_context *ctx = make_context();
    stk_store *store = keep_objects(ctx);
    told t = {.stop_after = 2};
    const stk_storage_measure_options options = {
        .struct_size = sizeof options, .test = tell, .stop = stop, .user = &t};
    stk_storage_figures figures = {.struct_size = sizeof figures};
    stk_error err;

    assert_int_equal(stk_storage_measure(ctx, "mem://objects", &options, &figures, &err),
                     STK_ECANCELED);
    assert_int_equal(t.tests, 2);
    assert_int_equal(stk_storage_measure(ctx, "mem://nothing", NULL, &figures, &err), STK_ENOENT);
    assert_non_null(strstr(err.text, "there is nothing to read"));
    figures.struct_size = 0;
    assert_int_equal(stk_storage_measure(ctx, "mem://objects", NULL, &figures, &err), STK_EINVAL);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

enum { SIDE = 64, SHAPES = 3 };

static const int64_t shape[] = {SIDE, SIDE};
static const int64_t chunks[SHAPES * 2] = {8, 8, 32, 32, 16, SIDE + 16};

static stk_array *make_array(stk_context *ctx)
{
    static float values[SIDE * SIDE];
    const int64_t chunk[] = {16, 16};
    stk_array_writer_options options;
    stk_array_writer *writer = NULL;
    stk_array *array = NULL;
    stk_error err;

    for (size_t i = 0; i < SIDE * SIDE; i++)
        values[i] = (float)i;
    stk_array_writer_options_init(&options);
    options.dtype = STK_FLOAT32;
    options.rank = 2;
    options.shape = shape;
    options.chunk_shape = chunk;
    options.codec = "gzip";
    assert_ok(stk_array_writer_create(ctx, "mem://arrays/a", &options, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, NULL, NULL, values, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
    assert_ok(stk_array_open(ctx, "mem://arrays/a", NULL, &array, &err), &err);
    return array;
}

static stk_chunks_question ask(void)
{
    stk_chunks_question q;

    stk_chunks_question_init(&q);
    q.rank = 2;
    q.itemsize = sizeof(float);
    for (uint32_t d = 0; d < q.rank; d++) {
        q.window[d] = 16;
        q.extent[d] = shape[d];
    }
    return q;
}

static void take(void *user, size_t i, const stk_chunks_measured *m)
{
    ((stk_chunks_measured *)user)[i] = *m;
}

static void test_chunks(void **state)
{
    stk_context *ctx = make_context();
    stk_array *array = make_array(ctx);
    stk_chunks_measured m[SHAPES] = {{0}};
    stk_chunks_question q = ask();
    stk_chunks_trial trial = {.struct_size = sizeof trial,
                              .sample = SIDE * SIDE * sizeof(float) / 2,
                              .count = SHAPES,
                              .chunks = chunks,
                              .measured = take,
                              .user = m};
    stk_chunks_sample sample = {.struct_size = sizeof sample};
    stk_error err;

    q.store.latency.typical = 1e-3;
    assert_ok(stk_chunks_measure(ctx, array, &q, &trial, &sample, &err), &err);
    assert_int_equal(sample.bytes, trial.sample);
    assert_int_equal(sample.shape[0] * sample.shape[1], SIDE * SIDE / 2);
    assert_string_equal(sample.codec, "gzip");
    for (size_t i = 0; i < 2; i++) {
        assert_null(m[i].note);
        assert_true(m[i].windows >= 5 && m[i].ratio > 0);
        /* No window comes before the store's latency is over. */
        assert_true(m[i].seconds >= 1e-3);
    }
    /* All of the array's width lies in the sample: a chunk that is wider is whole in it. */
    assert_true((sample.shape[1] == SIDE) == (m[2].note == NULL));
    stk_array_close(&array);
    stk_context_destroy(&ctx);
}

static void test_chunks_refused(void **state)
{
    stk_context *ctx = make_context();
    stk_array *array = make_array(ctx);
    stk_chunks_measured m[SHAPES] = {{0}};
    const stk_chunks_trial whole = {.struct_size = sizeof whole,
                                    .sample = 1 << 20,
                                    .count = SHAPES,
                                    .chunks = chunks,
                                    .measured = take,
                                    .user = m};
    stk_chunks_trial trial = whole;
    stk_chunks_sample sample = {.struct_size = sizeof sample};
    stk_chunks_question q = ask();
    stk_error err;

    trial.sample = 100;
    assert_int_equal(stk_chunks_measure(ctx, array, &q, &trial, &sample, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "does not hold one window"));
    q.access = STK_CHUNKS_SEQUENTIAL;
    assert_int_equal(stk_chunks_measure(ctx, array, &q, &whole, &sample, &err), STK_EINVAL);
    q = ask();
    q.extent[1]++;
    assert_int_equal(stk_chunks_measure(ctx, array, &q, &whole, &sample, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "not of this array"));
    trial = whole;
    trial.chunks = (const int64_t[]){8, 0};
    trial.count = 1;
    q = ask();
    assert_int_equal(stk_chunks_measure(ctx, array, &q, &trial, &sample, &err), STK_EINVAL);
    stk_array_close(&array);
    stk_context_destroy(&ctx);
}

/* The fastest; the model decides among those that are not told apart. */
static void test_choice(void **state)
{
    static const double model[] = {5, 4, 3, 2};
    static const struct {
        double measured[4];
        size_t chosen;
    } cases[] = {
        {{1, 2, 3, 4}, 0},       {{1, 1.05, 3, 4}, 1},      {{1, 1.05, 1.09, 1.2}, 2},
        {{NAN, 9, NAN, NAN}, 1}, {{NAN, NAN, NAN, NAN}, 4}, {{4, 3, 2, 1}, 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(stk_chunks_choose(cases[i].measured, model, 4), cases[i].chosen);
    assert_int_equal(stk_chunks_choose(model, model, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storage), cmocka_unit_test(test_storage_refused),
        cmocka_unit_test(test_chunks),  cmocka_unit_test(test_chunks_refused),
        cmocka_unit_test(test_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
