/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "store/http/retry.h"

#define SECOND UINT64_C(1000000000)
#define MS     UINT64_C(1000000)

static void test_verdicts(void **state)
{
    static const struct {
        int32_t code;
        stk_status status;
        stk__http_again again;
    } wanted[] = {
        {200, STK_OK, STK__HTTP_FINAL},         {206, STK_OK, STK__HTTP_FINAL},
        {302, STK_ENOTSUP, STK__HTTP_FINAL},    {400, STK_ENOTSUP, STK__HTTP_FINAL},
        {401, STK_EACCES, STK__HTTP_FINAL},     {403, STK_EACCES, STK__HTTP_FINAL},
        {404, STK_ENOENT, STK__HTTP_FINAL},     {408, STK_ETIMEDOUT, STK__HTTP_TRANSIENT},
        {410, STK_ENOENT, STK__HTTP_FINAL},     {412, STK_ECHANGED, STK__HTTP_FINAL},
        {416, STK_ETRUNCATED, STK__HTTP_FINAL}, {429, STK_EIO, STK__HTTP_THROTTLED},
        {500, STK_EIO, STK__HTTP_TRANSIENT},    {502, STK_EIO, STK__HTTP_TRANSIENT},
        {503, STK_EIO, STK__HTTP_THROTTLED},    {504, STK_EIO, STK__HTTP_TRANSIENT},
        {507, STK_ENOSPC, STK__HTTP_FINAL},
    };

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const stk__http_verdict is = stk__http_judge(wanted[i].code);
        assert_int_equal(is.status, wanted[i].status);
        assert_int_equal(is.again, wanted[i].again);
        assert_non_null(is.remedy);
    }
    /* Nothing but 404 and 410 proves that an object is not there. */
    for (int32_t code = 0; code < 1000; code++)
        assert_int_equal(stk__http_judge(code).status == STK_ENOENT, code == 404 || code == 410);
}

static void test_backoff(void **state)
{
    assert_int_equal(stk__http_backoff(STK__HTTP_TRANSIENT, 1, 0), 0);
    assert_int_equal(stk__http_backoff(STK__HTTP_TRANSIENT, 1, UINT32_C(1) << 31), 25 * MS);
    assert_int_equal(stk__http_backoff(STK__HTTP_TRANSIENT, 3, UINT32_C(1) << 31), 100 * MS);
    assert_int_equal(stk__http_backoff(STK__HTTP_THROTTLED, 1, UINT32_C(1) << 31), 500 * MS);
    for (uint32_t tries = 1; tries < 100; tries++)
        assert_true(stk__http_backoff(STK__HTTP_THROTTLED, tries, UINT32_MAX) <= 10 * SECOND);
}

static void test_bucket(void **state)
{
    stk__http_bucket bucket;
    uint32_t taken = 0;

    stk__http_bucket_init(&bucket);
    while (stk__http_bucket_take(&bucket, STK__HTTP_TRANSIENT))
        taken++;
    assert_int_equal(taken, 50);
    assert_int_equal(stk__http_bucket_take(&bucket, STK__HTTP_THROTTLED), 0);
    /* One token for an answer at the first try, and what it has cost for a later one. */
    for (int i = 0; i < 5; i++)
        stk__http_bucket_refund(&bucket, 0);
    assert_int_equal(stk__http_bucket_take(&bucket, STK__HTTP_TRANSIENT), 0);
    assert_int_equal(stk__http_bucket_take(&bucket, STK__HTTP_THROTTLED), 5);
    stk__http_bucket_refund(&bucket, 20);
    assert_int_equal(bucket.tokens, 20);
    stk__http_bucket_refund(&bucket, 1000);
    assert_int_equal(bucket.tokens, STK__HTTP_BUCKET);
}

static void test_window(void **state)
{
    stk__http_window window;

    stk__http_window_init(&window, 64);
    stk__http_window_lower(&window, 10 * SECOND);
    assert_true(window.limit > 44 && window.limit < 45);
    /* A storm of refusals within a second is one. */
    stk__http_window_lower(&window, 10 * SECOND + 900 * MS);
    assert_true(window.limit > 44);
    for (uint64_t now = 11; now < 60; now++)
        stk__http_window_lower(&window, now * SECOND + 1);
    assert_true(window.limit == 1);
    /* Never more than twice as many for one answer, nor beyond the most. */
    stk__http_window_raise(&window);
    assert_true(window.limit == 2);
    for (int i = 0; i < 10000; i++)
        stk__http_window_raise(&window);
    assert_true(window.limit == 64);
}

/* From one request at once to nine tenths of the most within 25 answers one after the other: 5 s
 * where each takes 200 ms. Where there are few they rise by one. */
static void test_window_recovers(void **state)
{
    static const uint32_t most[] = {2, 8, 64, 1024};

    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        stk__http_window window;
        int rounds = 0;
        stk__http_window_init(&window, most[i]);
        for (uint64_t now = 1; now < 60; now++)
            stk__http_window_lower(&window, now * SECOND);
        assert_true(window.limit == 1);
        for (; window.limit < 0.9 * most[i]; rounds++)
            for (int answers = (int)window.limit; answers > 0; answers--)
                stk__http_window_raise(&window);
        assert_in_range(rounds, 1, 25);
    }
    stk__http_window window = {.limit = 8, .most = 10};
    for (int answers = 8; answers > 0; answers--)
        stk__http_window_raise(&window);
    assert_true(window.limit > 8.9 && window.limit < 9.1);
}

static void test_pace(void **state)
{
    stk__http_pace pace = {0};

    assert_true(stk__http_pace_late(&pace) == UINT64_MAX);
    assert_true(stk__http_pace_quiet(&pace) == UINT64_MAX);
    for (uint64_t i = 0; i < 19; i++)
        stk__http_pace_came(&pace, 30 * MS);
    assert_true(stk__http_pace_late(&pace) == UINT64_MAX);
    for (uint64_t i = 0; i < STK__HTTP_SAMPLES; i++)
        stk__http_pace_came(&pace, (i + 1) * MS);
    for (uint64_t i = 0; i < STK__HTTP_SAMPLES; i++)
        stk__http_pace_came(&pace, (i + 1) * MS);
    /* The 95th percentile of 1 to 128 ms is 122. */
    assert_in_range(stk__http_pace_late(&pace), 121 * MS * 5 / 4, 123 * MS * 5 / 4);
    /* What is said of one kind of times says nothing of the other. */
    assert_true(stk__http_pace_quiet(&pace) == UINT64_MAX);
    for (uint64_t i = 0; i < STK__HTTP_SAMPLES; i++)
        stk__http_pace_rested(&pace, (2 * i + 2) * MS);
    assert_in_range(stk__http_pace_quiet(&pace), 242 * MS * 5 / 4, 246 * MS * 5 / 4);
    assert_in_range(stk__http_pace_late(&pace), 121 * MS * 5 / 4, 123 * MS * 5 / 4);
    /* Old answers are forgotten; 20 ms are never late. */
    for (uint64_t i = 0; i < 2 * STK__HTTP_SAMPLES; i++)
        stk__http_pace_came(&pace, 1000);
    assert_int_equal(stk__http_pace_late(&pace), 20 * MS);
    for (uint64_t i = 0; i < 2 * STK__HTTP_SAMPLES; i++)
        stk__http_pace_rested(&pace, 1000);
    assert_int_equal(stk__http_pace_quiet(&pace), 10 * MS);
}

static void test_share_asked_twice(void **state)
{
    stk__http_pace pace = {0};
    int twice = 0;

    assert_false(stk__http_pace_twice(&pace));
    for (int i = 0; i < 1000; i++) {
        stk__http_pace_sent(&pace);
        twice += stk__http_pace_twice(&pace);
    }
    assert_in_range(twice, 48, 50);
    /* What was not used in an hour is no reserve for a storm. */
    for (int i = 0; i < 1000; i++)
        stk__http_pace_sent(&pace);
    for (twice = 0; stk__http_pace_twice(&pace);)
        twice++;
    assert_int_equal(twice, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_backoff),
        cmocka_unit_test(test_bucket),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_window_recovers),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_share_asked_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
