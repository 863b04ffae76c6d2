/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of a trainer in a profile: a file each, or a report by itself; batches that end a window.
 */
#include <unistd.h>

#include "unit/train/profiles.h"

/* A fit and a test are two stages with a file each. */
static void stages(void **state)
{
    stk_profile_options o;
    stk_profile_action action;
    stk_trainer *t;
    stk_profile *p;
    char path[300];
    bench b;
    tiny m;

    bench_open(&b);
    profile_options(&o, "simple", b.folder, "perf");
    profile_fit(&b, &m, &o, &t, &p);
    assert_ok(stk_trainer_test(t, &m.base, &b.data, NULL, &b.err), &b.err);
    snprintf(path, sizeof path, "%s/fit-perf-0.txt", b.folder);
    char *text = read_text(path);
    assert_non_null(strstr(text, "training_step"));
    free(text);
    for (size_t i = 0; stk_profile_get_action(p, i, &action); i++)
        assert_null(strstr(action.name, "training_step"));
    assert_ok(stk_profile_close(&p, &b.err), &b.err);
    snprintf(path, sizeof path, "%s/test-perf-0.txt", b.folder);
    text = read_text(path);
    assert_non_null(strstr(text, "TEST Profiler Report"));
    assert_non_null(strstr(text, "test_step"));
    free(text);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* Where batches accumulate, those that end a window are marked: each third, and the last. */
static void windows(void **state)
{
    stk_profile_options o;
    stk_profile_batch batch;
    stk_trainer *t;
    stk_profile *p;
    uint64_t n = 0;
    bench b;
    tiny m;

    bench_open(&b);
    b.options.accumulate_grad_batches = 3;
    profile_options(&o, "simple", NULL, NULL);
    profile_fit(&b, &m, &o, &t, &p);
    for (; stk_profile_get_batch(p, n, &batch); n++)
        assert_int_equal(batch.optimizer_steps, n % 3 == 2 || n == 9);
    assert_int_equal(n, 10);
    assert_ok(stk_profile_close(&p, &b.err), &b.err);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* The warm-up is of steps, whatever windows the end of an epoch cuts. */
static void warm_up(void **state)
{
    stk_profile_options o;
    stk_trainer *t;
    stk_profile *p;
    bench b;
    tiny m;

    for (uint64_t steps = 0; steps < 5; steps++) {
        bench_open(&b);
        b.options.accumulate_grad_batches = 100;
        b.options.max_epochs = 3;
        profile_options(&o, "simple", NULL, NULL);
        o.warmup_steps = steps;
        profile_fit(&b, &m, &o, &t, &p);
        assert_int_equal(m.optimizer_steps, 3);
        assert_int_equal(stk_profile_warmup(p), 10 * STK_MIN(steps, 3u));
        assert_ok(stk_profile_close(&p, &b.err), &b.err);
        stk_trainer_destroy(&t);
        bench_close(&b);
    }
}

/* Each task is reported as it ends, whole or stopped; of one that failed nothing is. */
static void each_task(void **state)
{
    static const struct {
        uint64_t stop_at, fail_at;
        const char *below; /* the folder, below the bench's */
        stk_status status;
        bool reported;
    } cases[] = {{0, 0, "a", STK_OK, true},
                 {5, 0, "b", STK_ECANCELED, true},
                 {0, 5, "c", STK_EIO, false},
                 {0, 0, "file/d", STK_ENOENT, true}};
    stk_profile_options o;
    stk_trainer *t;
    stk_profile *p;
    char dir[300], path[400];
    bench b;
    tiny m;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        bench_open(&b);
        snprintf(path, sizeof path, "%s/file", b.folder);
        assert_ok(stk_put_bytes(b.ctx, path, "x", 1, NULL, &b.err), &b.err);
        snprintf(dir, sizeof dir, "%s/%s", b.folder, cases[i].below);
        profile_options(&o, "simple, trace", dir, NULL);
        o.each_task = true;
        tiny_init(&m);
        m.stop_at = cases[i].stop_at;
        m.fail_at = cases[i].fail_at;
        assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
        listen_to(t);
        assert_ok(stk_profile_create(t, &o, &p, &b.err), &b.err);
        assert_int_equal(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), cases[i].status);
        assert_int_equal(strstr(said, "FIT Profiler Report") != NULL, cases[i].reported);
        assert_int_equal(strstr(said, "A batch takes ") != NULL, cases[i].reported);
        snprintf(path, sizeof path, "%s/layers.csv", dir);
        assert_int_equal(access(path, R_OK) == 0,
                         cases[i].reported && cases[i].status != STK_ENOENT);
        /* Files are named where they are. */
        assert_int_equal(strstr(said, "Profile: timing_summary.yaml, ") != NULL,
                         access(path, R_OK) == 0);
        if (cases[i].status == STK_OK) {
            assert_non_null(strstr(said, stk_profile_file(p, 0)));
            *said = 0;
            assert_ok(stk_trainer_test(t, &m.base, &b.data, NULL, &b.err), &b.err);
            assert_non_null(strstr(said, "TEST Profiler Report"));
            assert_null(strstr(said, "A batch takes "));
        }
        *said = 0;
        assert_ok(stk_profile_close(&p, &b.err), &b.err);
        assert_string_equal(said, "");
        stk_trainer_destroy(&t);
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stages), cmocka_unit_test(windows),
                                       cmocka_unit_test(warm_up), cmocka_unit_test(each_task)};

    return cmocka_run_group_tests_name("train/profiler_tasks", tests, NULL, NULL);
}
