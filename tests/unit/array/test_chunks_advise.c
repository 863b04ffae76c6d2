/* SPDX-License-Identifier: Apache-2.0 */
/* The recommendation: the model by hand, the choice against every shape there is, the words. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array/chunks_advise.h"

static stk_chunks_question ask(uint32_t rank, const int64_t *window, const int64_t *extent)
{
    stk_chunks_question q;

    stk_chunks_question_init(&q);
    q.rank = rank;
    memcpy(q.window, window, rank * sizeof *window);
    if (extent)
        memcpy(q.extent, extent, rank * sizeof *extent);
    return q;
}

static stk_chunks_store preset(const char *name)
{
    size_t count;
    const stk_chunks_store *stores = stk_chunks_stores(&count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(stores[i].name, name) == 0)
            return stores[i];
    fail_msg("no store %s", name);
    return stores[0];
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

/* Windows of 10 in chunks of 8, 4 bytes, ratio 2: 1 + 9/8 = 2.125 requests of 16 stored bytes. */
static void test_model(void **state)
{
    stk_chunks_question q = ask(1, (int64_t[]){10}, NULL);
    stk_chunks_cost c;
    stk_error err;

    (void)state;
    q.itemsize = 4;
    q.ratio = 2;
    q.decode_rate = 1e6;
    q.store = (stk_chunks_store){4, {0.1, 0.2, 0.4}, {100, 200, 400}, 3, "mine", NULL};
    assert_ok(stk_chunks_predict(&q, (int64_t[]){8}, &c, &err), &err);
    assert_near(c.requests, 2.125);
    assert_near(c.bytes, 34);
    assert_near(c.wait_seconds, 2.125 * 0.2 / 4);
    assert_near(c.transfer_seconds, 34.0 / 200);
    assert_near(c.decode_seconds, 68e-6);
    assert_near(c.copy_seconds, 40 / 8e9);
    double rest = 68e-6 + 40 / 8e9;
    assert_near(c.seconds[STK_CHUNKS_TYPICAL], 2.125 * 0.2 / 4 + 34.0 / 200 + rest);
    assert_near(c.seconds[STK_CHUNKS_FAST], 2.125 * 0.1 / 4 + 34.0 / 400 + rest);
    assert_near(c.seconds[STK_CHUNKS_NARROW], 2.125 * 0.1 / 4 + 34.0 / 100 + rest);
    assert_near(c.seconds[STK_CHUNKS_FAR], 2.125 * 0.4 / 4 + 34.0 / 400 + rest);
    assert_near(c.seconds[STK_CHUNKS_SLOW], 2.125 * 0.4 / 4 + 34.0 / 100 + rest);
    assert_near(c.dollars, 2.125 * 3);
    assert_near(c.memory, 3 * 32); /* a window of 10 touches at most three chunks of 8 */
    assert_true(c.regret == 0);
    q.decode_rate = 0;
    assert_ok(stk_chunks_predict(&q, (int64_t[]){8}, &c, &err), &err);
    assert_near(c.decode_seconds, 68 / 1e9);
    q.ratio = 1;
    assert_ok(stk_chunks_predict(&q, (int64_t[]){8}, &c, &err), &err);
    assert_true(c.decode_seconds == 0);
}

/* Windows that lie on chunks: by block shuffle and in sequence each byte is read once. */
static void test_aligned(void **state)
{
    stk_chunks_question q = ask(3, (int64_t[]){4, 8, 8}, (int64_t[]){64, 64, 64});
    stk_chunks_cost c;
    stk_error err;

    (void)state;
    memcpy(q.stride, q.window, sizeof q.stride);
    for (int access = STK_CHUNKS_RANDOM; access <= STK_CHUNKS_BLOCK; access++) {
        q.access = (stk_chunks_access)access;
        assert_ok(stk_chunks_predict(&q, q.window, &c, &err), &err);
        assert_near(c.requests, 1);
        assert_near(c.bytes, 256);
    }
    /* Chunks of 16 x 8 x 8 hold four windows each. */
    const int64_t four[] = {16, 8, 8};
    assert_ok(stk_chunks_predict(&q, four, &c, &err), &err);
    assert_near(c.requests, 0.25);
    assert_near(c.bytes, 256);
    q.access = STK_CHUNKS_RANDOM;
    assert_ok(stk_chunks_predict(&q, four, &c, &err), &err);
    assert_near(c.requests, 1);
    assert_near(c.bytes, 1024);
}

/* No shape of all that fit into a small array has less regret than the first by more than the step,
 * where the candidates hold them all: a window of 12, extent 24. */
static void test_best_of_all(void **state)
{
    static const char *const names[] = {"disk", "ssd", "nfs", "s3"};
    stk_error err;

    (void)state;
    for (int access = STK_CHUNKS_RANDOM; access <= STK_CHUNKS_BLOCK; access++)
        for (int s = 0; s < 4; s++) {
            stk_chunks_question q = ask(2, (int64_t[]){12, 6}, (int64_t[]){240, 96});
            static stk_chunks_answer answer = {.struct_size = sizeof answer};
            q.access = (stk_chunks_access)access;
            q.store = preset(names[s]);
            q.itemsize = 8;
            assert_ok(stk_chunks_advise(&q, &answer, &err), &err);
            assert_int_equal(answer.struct_size, sizeof answer);
            assert_true(answer.num_ranked > 1);
            for (uint32_t i = 0; i < answer.num_ranked; i++) {
                stk_chunks_cost again, *c = &answer.ranked[i];
                assert_ok(stk_chunks_predict(&q, c->chunk, &again, &err), &err);
                for (int k = 0; k < STK_CHUNKS_CASE_COUNT; k++) {
                    assert_near(c->seconds[k], again.seconds[k]);
                    assert_true(c->seconds[k] >= answer.best_seconds[k]);
                }
                assert_true(c->regret >= 0);
                assert_near(1 + stk_chunks_regret(&answer, c), 1 + c->regret);
                assert_true(c->memory <= (double)q.memory_budget);
                if (i > 0)
                    assert_true(floor(c->regret * 100) >= floor(c[-1].regret * 100));
                for (uint32_t k = 0; k < i; k++)
                    assert_true(memcmp(c->chunk, answer.ranked[k].chunk, sizeof c->chunk) != 0);
            }
            /* Powers of two and divisors miss little of what any pair of sides could give. */
            double least = INFINITY;
            for (int64_t a = 1; a <= 240; a++)
                for (int64_t b = 1; b <= 96; b++) {
                    stk_chunks_cost c;
                    assert_ok(stk_chunks_predict(&q, (int64_t[]){a, b}, &c, &err), &err);
                    bool few =
                        access == STK_CHUNKS_BLOCK && c.blocks < 64 && c.blocks < c.counts.windows;
                    double regret = stk_chunks_regret(&answer, &c);
                    if (!few && regret < least)
                        least = regret;
                }
            assert_true(answer.ranked[0].regret < least + 0.05 + 0.01);
        }
}

/* The extremes: a store that is all latency wants few requests, one that is all bandwidth little
 * beside the window. */
static void test_extremes(void **state)
{
    stk_chunks_question q = ask(2, (int64_t[]){64, 64}, (int64_t[]){4096, 4096});
    static stk_chunks_answer far = {.struct_size = sizeof far}, near = {.struct_size = sizeof near};
    stk_error err;

    (void)state;
    q.store = (stk_chunks_store){1, {1, 1, 1}, {1e12, 1e12, 1e12}, 0, "far", NULL};
    assert_ok(stk_chunks_advise(&q, &far, &err), &err);
    q.store = (stk_chunks_store){1, {0, 0, 0}, {1e6, 1e6, 1e6}, 0, "near", NULL};
    assert_ok(stk_chunks_advise(&q, &near, &err), &err);
    assert_true(far.ranked[0].requests < 1.1);
    assert_int_equal(near.ranked[0].counts.chunk_bytes, 1);
    assert_true(near.ranked[0].bytes == 4096);
    /* Without ranges the first is the best there is. */
    assert_true(far.ranked[0].regret < 0.01 && near.ranked[0].regret < 0.01);
}

static void test_limits(void **state)
{
    stk_chunks_question q = ask(2, (int64_t[]){64, 64}, (int64_t[]){256, 256});
    static stk_chunks_answer answer = {.struct_size = sizeof answer};
    stk_error err;

    (void)state;
    /* Memory bounds the candidates, and is an error that names both numbers. */
    q.store = preset("s3");
    q.memory_budget = 20000;
    assert_ok(stk_chunks_advise(&q, &answer, &err), &err);
    assert_true(answer.beyond_memory > 0);
    for (uint32_t i = 0; i < answer.num_ranked; i++)
        assert_true(answer.ranked[i].memory <= 20000);
    q.memory_budget = 4000;
    assert_fails(stk_chunks_advise(&q, &answer, &err), STK_EBUDGET, &err, "4000");
    assert_non_null(strstr(err.text, "4096"));

    /* Block shuffle keeps four times the blocks of the buffer. */
    q.memory_budget = 1 << 30;
    q.access = STK_CHUNKS_BLOCK;
    q.shuffle_buffer = 9;
    assert_ok(stk_chunks_advise(&q, &answer, &err), &err);
    assert_true(answer.too_few_blocks > 0);
    for (uint32_t i = 0; i < answer.num_ranked; i++)
        assert_true(answer.ranked[i].blocks >= 36);
    /* Fewer windows than that: a block for each. */
    memcpy(q.stride, q.window, sizeof q.stride);
    assert_ok(stk_chunks_advise(&q, &answer, &err), &err);
    assert_true(answer.ranked[0].blocks == 16);

    q.shuffle_buffer = 0;
    assert_fails(stk_chunks_advise(&q, &answer, &err), STK_EINVAL, &err, "shuffle_buffer");
    q = ask(1, (int64_t[]){4}, NULL);
    q.store.concurrency = 0;
    assert_fails(stk_chunks_advise(&q, &answer, &err), STK_EINVAL, &err, "no request");
    q = ask(1, (int64_t[]){4}, NULL);
    q.store.latency.high = 0;
    assert_fails(stk_chunks_advise(&q, &answer, &err), STK_EINVAL, &err, "latency");
    q = ask(1, (int64_t[]){4}, NULL);
    q.store.bandwidth.low = 0;
    assert_fails(stk_chunks_advise(&q, &answer, &err), STK_EINVAL, &err, "bandwidth");
    q = ask(1, (int64_t[]){4}, NULL);
    q.store.request_cost = -1;
    assert_fails(stk_chunks_advise(&q, &answer, &err), STK_EINVAL, &err, "dollars");
    q = ask(1, (int64_t[]){4}, NULL);
    q.decode_rate = -1;
    assert_fails(stk_chunks_advise(&q, &answer, &err), STK_EINVAL, &err, "decode rate");
    q = ask(1, (int64_t[]){4}, NULL);
    q.access = (stk_chunks_access)7;
    assert_fails(stk_chunks_advise(&q, &answer, &err), STK_EINVAL, &err, "access pattern 7");
}

/* Giant and many-axed questions end soon, with an answer or an error. */
static void test_hostile(void **state)
{
    static stk_chunks_answer answer = {.struct_size = sizeof answer};
    stk_chunks_question q;
    stk_error err;

    (void)state;
    for (uint32_t rank = 1; rank <= STK_MAX_RANK; rank++)
        for (int access = STK_CHUNKS_RANDOM; access <= STK_CHUNKS_BLOCK; access++) {
            int64_t window[STK_MAX_RANK], extent[STK_MAX_RANK];
            for (uint32_t i = 0; i < rank; i++) {
                window[i] = 1 + i * 3;
                extent[i] = i % 3 == 0 ? 0 : INT64_MAX - i;
            }
            q = ask(rank, window, extent);
            q.access = (stk_chunks_access)access;
            assert_ok(stk_chunks_advise(&q, &answer, &err), &err);
            assert_true(answer.tried > 0 && strlen(answer.text) > 100);
            assert_true(strlen(answer.text) < sizeof answer.text - 1);
        }
    q = ask(1, (int64_t[]){INT64_MAX}, (int64_t[]){INT64_MAX});
    assert_fails(stk_chunks_advise(&q, &answer, &err), STK_EBUDGET, &err, "memory_budget");
    q.itemsize = INT64_MAX;
    q.window[0] = 1;
    assert_fails(stk_chunks_advise(&q, &answer, &err), STK_ELIMIT, &err, "2 GiB");
}

static void test_words(void **state)
{
    stk_chunks_question q = ask(2, (int64_t[]){64, 64}, (int64_t[]){721, 1440});
    static stk_chunks_answer answer = {.struct_size = sizeof answer};
    char shape[64];
    stk_error err;

    (void)state;
    q.store = preset("s3");
    assert_ok(stk_chunks_advise(&q, &answer, &err), &err);
    for (int i = 0; i < 2; i++) {
        snprintf(shape, sizeof shape, "%lld\xc3\x97%lld", (long long)answer.ranked[i].chunk[0],
                 (long long)answer.ranked[i].chunk[1]);
        assert_non_null(strstr(answer.text, shape));
    }
    assert_non_null(strstr(answer.text, "random windows of 64\xc3\x97"
                                        "64 from s3"));
    assert_non_null(strstr(answer.text, "The runner-up"));
    assert_non_null(strstr(answer.text, "dollars"));
}

static void test_stores(void **state)
{
    static const char *const names[] = {"disk", "ssd", "nfs", "s3"};
    stk_chunks_question q;

    (void)state;
    stk_chunks_question_init(&q);
    assert_string_equal(q.store.name, "ssd");
    for (int i = 0; i < 4; i++) {
        stk_chunks_store s = preset(names[i]);
        assert_true(s.concurrency > 0 && s.basis != NULL);
        assert_true(s.latency.low < s.latency.typical && s.latency.typical < s.latency.high);
        assert_true(s.bandwidth.low < s.bandwidth.typical);
        assert_true(s.bandwidth.typical < s.bandwidth.high);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),       cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_best_of_all), cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_limits),      cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_words),       cmocka_unit_test(test_stores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
