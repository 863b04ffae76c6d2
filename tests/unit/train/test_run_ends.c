/* SPDX-License-Identifier: Apache-2.0 */
/* How a task ended is told to loggers, whose journal says it. */
#include "unit/train/said.h"

/* The status in the last line of the journal of a run; NULL: there is none. */
static const char *end_of(const char *folder, int version, char text[65536])
{
    static const char *const ends[] = {"FINISHED", "FAILED", "KILLED"};
    char path[600], end[64];

    snprintf(path, sizeof path, "%s/lightning_logs/version_%d/mlflow.jsonl", folder, version);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, 65535, f)] = 0;
    fclose(f);
    for (size_t i = 0; i < STK_COUNT(ends); i++) {
        snprintf(end, sizeof end, "{\"end\": \"%s\"", ends[i]);
        if (strstr(text, end))
            return ends[i];
    }
    return NULL;
}

static void a_run_ends_as_it_did(void **state)
{
    static const struct {
        uint64_t stop_at, fail_at;
        stk_status status;
        const char *end;
    } cases[] = {
        {0, 0, STK_OK, "FINISHED"}, {5, 0, STK_ECANCELED, "KILLED"}, {0, 5, STK_EIO, "FAILED"}};
    static char text[65536];
    stk_trainer *t;
    bench b;
    tiny m;

    (void)state;
    bench_open(&b);
    b.options.logger = "mlflow";
    b.options.max_epochs = 1;
    for (int i = 0; i < (int)STK_COUNT(cases); i++) {
        tiny_init(&m);
        m.stop_at = cases[i].stop_at;
        m.fail_at = cases[i].fail_at ? cases[i].fail_at : m.fail_at;
        assert_int_equal(bench_fit(&b, &m, NULL, &t), cases[i].status);
        stk_trainer_destroy(&t);
        assert_string_equal(end_of(b.folder, i, text), cases[i].end);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_ends_as_it_did)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
