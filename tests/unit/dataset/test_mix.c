/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets that alternate by weights: shares, ends, what is refused. */
#include <math.h>
#include <string.h>

#include "numbered.h"
#include "samples.h"

enum { SIZES = 3 };
static const uint64_t sizes[SIZES] = {70, 41, 500};

typedef struct place {
    stk_context *ctx;
    char folder[256], spec[SIZES][400]; /* source s has the numbers from 1000 s on */
} place;

static void begin(place *p, void **state)
{
    p->ctx = *state;
    test_folder(p->folder);
    for (uint64_t s = 0; s < SIZES; s++) {
        char name[16];
        snprintf(name, sizeof name, "%d", (int)s);
        numbered_write(p->folder, name, 1000 * s, sizes[s]);
        numbered_spec(p->folder, name, p->spec[s], sizeof p->spec[s]);
    }
}

static stk_dataset *open_mix(place *p, const char *a, const char *b, const char *c,
                             const char *options)
{
    char spec[2000];

    snprintf(spec, sizeof spec, "mix:%s(%s),%s(%s),%s(%s)%s", a, p->spec[0], b, p->spec[1], c,
             p->spec[2], options);
    return numbered_open(p->ctx, spec);
}

/* In every aligned R samples each source has its share, and it goes through its samples in turn. */
static void check_shares(stk_dataset *d, uint32_t slots, const uint32_t counts[SIZES])
{
    const uint64_t n = STK_MIN(d->size, (uint64_t)SAMPLES_MAX);
    samples *s = samples_range(d, 0, n);
    uint64_t so_far[SIZES] = {0};

    assert_int_equal(d->mixture->slots, slots);
    for (uint64_t i = 0; i < n; i++) {
        int64_t value;
        memcpy(&value, s->data[i], sizeof value);
        const uint64_t source = (uint64_t)value / 1000;
        assert_int_equal((uint64_t)value % 1000, so_far[source]++ % sizes[source]);
        if ((i + 1) % slots == 0)
            for (uint32_t k = 0; k < SIZES; k++)
                assert_int_equal(so_far[k], (i + 1) / slots * counts[k]);
        /* And as evenly as can be between: never a whole slot behind. */
        for (uint32_t k = 0; k < SIZES; k++)
            assert_true(fabs((double)so_far[k] - (double)((i + 1) * counts[k]) / slots) < 2);
    }
    samples_free(s);
}

static void test_shares(void **state)
{
    static const struct {
        const char *weights[SIZES], *options;
        uint32_t slots, counts[SIZES];
        uint64_t size;
    } cases[] = {
        /* 70/5 = 14, 41/3 = 13.7, 500/2 = 250: the second ends first. */
        {{"0.5*", "0.3*", "0.2*"}, "", 10, {5, 3, 2}, 130},
        {{"0.5*", "0.3*", "0.2*"}, "?stop=all", 10, {5, 3, 2}, 2500},
        {{"0.5*", "0.3*", "0.2*"}, "?stop=123", 10, {5, 3, 2}, 123},
        {{"0.5*", "0.2*", "0.3*"}, "?stop=all", 10, {5, 2, 3}, 1670}, /* 500/3 = 166.7 */
        {{"", "", ""}, "", 3, {1, 1, 1}, 123},
        {{"2*", "", "4*"}, "", 7, {2, 1, 4}, 245},
        {{"10*", "20*", "10*"}, "?stop=first", 4, {1, 2, 1}, 80},
        {{"0.5*", "0.3*", "0.2*"}, "?resolution=4", 4, {2, 1, 1}, 140},
        {{"0.5*", "0.3*", "0.2*"}, "?resolution=20", 20, {10, 6, 4}, 120},
        /* No R up to 1000 has them exactly: rounded. */
        {{"0.70001*", "0.2*", "0.09999*"}, "?stop=2000", 1000, {700, 200, 100}, 2000},
        /* One that would get nothing has one slot. */
        {{"1*", "0.0000001*", "1*"}, "?resolution=10&stop=20", 10, {5, 1, 4}, 20},
    };

    place p;
    begin(&p, state);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const char *const *w = cases[i].weights;
        stk_dataset *d = open_mix(&p, w[0], w[1], w[2], cases[i].options);
        uint32_t counts[SIZES];
        memcpy(counts, cases[i].counts, sizeof counts);
        /* Which of two equal ones gets less is no matter. */
        if (cases[i].counts[1] == 1 && cases[i].slots == 10 && d->mixture->counts[0] == 4)
            counts[0] = 4, counts[2] = 5;
        assert_int_equal(d->size, cases[i].size);
        check_shares(d, cases[i].slots, counts);
        stk_dataset_close(&d);
    }
    test_folder_remove(p.folder);
}

/* From an index to a draw and back, also beyond the size. */
static void test_inverse(void **state)
{
    place p;
    begin(&p, state);
    stk_dataset *d = open_mix(&p, "5*", "3*", "9*", "");
    const stk__mixture *m = d->mixture;
    uint64_t next[SIZES] = {0};

    for (uint64_t v = 0; v < 4000; v++) {
        uint32_t source = 99;
        const uint64_t draw = stk__mixture_draw(m, v, &source);
        assert_in_range(source, 0, SIZES - 1);
        assert_int_equal(stk__mixture_draws(m, source, v), next[source]);
        assert_int_equal(draw, next[source]++);
        assert_int_equal(stk__mixture_index(m, source, draw), v);
    }
    stk_dataset_close(&d);
    test_folder_remove(p.folder);
}

static void test_identity(void **state)
{
    static const char *const options[] = {"",          "?stop=all",      "?stop=99",
                                          "?stop=100", "?resolution=20", "?classes=ignore"};
    uint64_t seen[STK_COUNT(options) + 1];
    place p;
    begin(&p, state);

    for (size_t i = 0; i <= STK_COUNT(options); i++) {
        const bool other = i == STK_COUNT(options);
        stk_dataset *d = open_mix(&p, "5*", other ? "2*" : "3*", other ? "3*" : "2*",
                                  other ? "?stop=99" : options[i]);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(seen[k], d->fingerprint);
        seen[i] = d->fingerprint;
        stk_dataset_close(&d);
    }
    test_folder_remove(p.folder);
}

/* Taking a part of it takes samples as they come, and the order knows of no sources. */
static void test_views(void **state)
{
    place p;
    begin(&p, state);
    stk_dataset *d = open_mix(&p, "5*", "3*", "2*", "?subset=10:30"),
                *all = open_mix(&p, "5*", "3*", "2*", "");

    assert_int_equal(d->size, 20);
    assert_null(d->mixture);
    samples *some = samples_range(d, 0, 20), *s = samples_range(all, 10, 20);
    for (int i = 0; i < 20; i++)
        assert_memory_equal(some->data[i], s->data[i], 8);
    samples_free(some);
    samples_free(s);
    stk_dataset_close(&d);
    stk_dataset_close(&all);
    test_folder_remove(p.folder);
}

static void test_refused(void **state)
{
    static const struct {
        const char *spec, *part;
    } bad[] = {
        {"mix:", "no weight"},
        {"mix:0.5(digits:)", "no weight"},
        {"mix:0*(digits:)", "no weight"},
        {"mix:-1*(digits:)", "no weight"},
        {"mix:1e3*(digits:)", "no weight"},
        {"mix:1234567890123456*(digits:)", "no weight"},
        {"mix:0.5*digits:", "no '('"},
        {"mix:0.5*(digits:),0.5*(digits:)?stop=last", "stop=last"},
        {"mix:0.5*(digits:),0.5*(digits:)?stop=0", "stop=0"},
        {"mix:0.5*(digits:),0.5*(digits:)?stop=999999999999999", "2^48"},
        {"mix:0.5*(digits:),0.5*(digits:)?resolution=1", "at least 2"},
        {"mix:0.5*(digits:),0.5*(digits:)?resolution=5000", "4096"},
        {"mix:0.9*(digits:?size=3),0.1*(digits:)", "stop=all"},
        {"mix:0.5*(digits:),0.5*(digits:)?subset=1:2&stopp=all", "'stop'"},
    };
    stk_dataset *d = NULL;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        const stk_status status = stk_dataset_open(*state, bad[i].spec, &d, &err);
        if (d || status >= 0 || !strstr(err.text, bad[i].part))
            fail_msg("%s: %s", bad[i].spec, err.text);
    }
}

/* Whatever a spec is made of, it is opened or refused. */
static void test_any_text(void **state)
{
    static const char *const words[] = {
        "mix:",       "concat:",          "pair:",   "(", ")",      ",", "*",          "0.5",
        "2*",         "(digits:?size=3)", "digits:", "?", "size=3", "&", "subset=0:2", "repeat=2",
        "keep=label", "stop=all",         "((",      "))"};
    uint64_t random = 11, opened = 0;

    for (int i = 0; i < 20000; i++) {
        char spec[300] = "";
        const uint64_t n = test_random(&random) % 9 + 1;
        snprintf(spec, sizeof spec, "%s", words[test_random(&random) % 3]);
        for (uint64_t k = 0; k < n; k++) {
            const size_t used = strlen(spec);
            snprintf(spec + used, sizeof spec - used, "%s",
                     words[test_random(&random) % STK_COUNT(words)]);
        }
        stk_dataset *d = NULL;
        stk_error err;
        const stk_status status = stk_dataset_open(*state, spec, &d, &err);
        assert_true(status == STK_OK ? d && d->size > 0 : !d && *err.text);
        opened += status == STK_OK;
        stk_dataset_close(&d);
    }
    assert_in_range(opened, 50, 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),   cmocka_unit_test(test_inverse),
        cmocka_unit_test(test_identity), cmocka_unit_test(test_views),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_any_text),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
