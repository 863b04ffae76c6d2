/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/synthetic.h"

#include <math.h>
#include <stdio.h>

#include "samples.h"

static stk_dataset *open_spec(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return d;
}

static void test_head(void **state)
{
    stk_dataset *d = open_spec(*state, "synthetic:");

    assert_int_equal(d->size, 60000);
    assert_int_equal(d->num_fields, 2);
    assert_string_equal(d->fields[0].name, "image");
    assert_true(d->fields[0].picture);
    assert_int_equal(stk_field_bytes(&d->fields[0]), 784);
    assert_string_equal(d->fields[1].name, "label");
    assert_int_equal(d->block_size, 1);
    /* Nothing to locate: the loader may go the short way. */
    assert_null(d->ops->locate);
    stk_dataset_close(&d);

    d = open_spec(*state, "synthetic:?size=7&shape=5x4&dtype=float32&label=false&block_size=3&cpu="
                          "1us&cost_hint=true");
    assert_int_equal(d->size, 7);
    assert_int_equal(d->num_fields, 1);
    assert_string_equal(d->fields[0].name, "data");
    assert_false(d->fields[0].picture);
    assert_int_equal(d->fields[0].rank, 2);
    assert_int_equal(stk_field_bytes(&d->fields[0]), 80);
    assert_int_equal(d->block_size, 3);
    assert_non_null(d->ops->locate);
    assert_true(d->cost_ns >= 1000);
    stk_dataset_close(&d);
}

static void test_pure(void **state)
{
    enum { N = 300 };
    stk_dataset *d = open_spec(*state, "synthetic:"),
                *other = open_spec(*state, "synthetic:?seed=1");
    uint64_t shuffled[N], random = 5;

    for (int i = 0; i < N; i++)
        shuffled[i] = test_random(&random) % N;
    samples *all = samples_range(d, 0, N), *some = samples_read(d, shuffled, N),
            *others = samples_range(other, 0, N);
    for (int i = 0; i < N; i++) {
        assert_memory_equal(some->data[i], all->data[shuffled[i]], 784);
        assert_int_equal(all->label[i], i % 10);
        for (int k = 0; k < N; k++) {
            assert_true(k == i || memcmp(all->data[i], all->data[k], 784) != 0);
            assert_memory_not_equal(all->data[i], others->data[k], 784);
        }
    }
    samples_free(all);
    samples_free(some);
    samples_free(others);
    stk_dataset_close(&d);
    stk_dataset_close(&other);
}

/* Elements are proper values of their type, also in a sample that is shorter than the 8 bytes of
 * its mark. */
static void test_types(void **state)
{
    static const char *const types[] = {
        "bool",  "uint8",   "int8",     "uint16",  "int16",   "uint32",    "int32",     "uint64",
        "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};

    for (size_t t = 0; t < STK_COUNT(types); t++) {
        for (int length = 1; length <= 5; length += 4) {
            char spec[96];
            snprintf(spec, sizeof spec, "synthetic:?size=50&shape=%d&dtype=%s", length, types[t]);
            stk_dataset *d = open_spec(*state, spec);
            samples *s = samples_range(d, 0, 50);
            for (size_t i = 0; i < 50 && d->fields[0].dtype == STK_BOOL; i++)
                for (int k = 0; k < length; k++)
                    assert_in_range(s->data[i][k], 0, 1);
            for (size_t i = 0; i < 50 && d->fields[0].dtype == STK_FLOAT32; i++)
                for (int k = 0; k < length; k++)
                    assert_true(fabsf(((float *)s->data[i])[k]) < 2);
            for (size_t i = 0; i < 50 && d->fields[0].dtype == STK_FLOAT64; i++)
                for (int k = 0; k < length; k++)
                    assert_true(fabs(((double *)s->data[i])[k]) < 2);
            samples_free(s);
            stk_dataset_close(&d);
        }
    }
}

/* ---- Planted work -------------------------------------------------------------------------- */

static void test_failures(void **state)
{
    enum { N = 4000 };
    stk_dataset *d = open_spec(*state, "synthetic:?shape=4&fail=0.1&fail_transient=0.05");
    samples *s = samples_range(d, 0, N), *again = samples_range(d, 0, N);
    int damaged = 0, transient = 0;

    for (int i = 0; i < N; i++) {
        stk_status status = s->sample[i].status;
        assert_int_equal(status, again->sample[i].status);
        damaged += status == STK_EFORMAT;
        transient += status == STK_EIO;
        assert_true(status == STK_OK || s->sample[i].reason != NULL);
        assert_true(status == STK_OK || status == STK_EFORMAT || status == STK_EIO);
    }
    assert_true(stk_status_fault(STK_EFORMAT) == STK_FAULT_SAMPLE &&
                stk_status_fault(STK_EIO) == STK_FAULT_MACHINE);
    /* Six standard deviations of the binomials. */
    assert_in_range(damaged, 400 - 114, 400 + 114);
    assert_in_range(transient, 200 - 83, 200 + 83);
    samples_free(s);
    samples_free(again);
    stk_dataset_close(&d);
}

/* The mean of each distribution is the delay; its share of long draws is what mathematics says. */
static void test_distributions(void **state)
{
    enum { N = 200000 };
    static const struct {
        stk__distribution distribution;
        double slack;  /* of the mean */
        double beyond; /* share of draws beyond 3 means */
    } rows[] = {
        {STK_CONSTANT, 1e-9, 0},
        {STK_EXPONENTIAL, 0.02, 0.049787}, /* exp(-3) */
        {STK_LOGNORMAL, 0.03, 0.054910},   /* 1 - Phi(ln 3 + 1/2) */
        {STK_PARETO, 0.03, 0.017889},      /* (3 * 2.5 / 1.5)^-2.5 */
    };

    for (size_t r = 0; r < STK_COUNT(rows); r++) {
        stk__synthetic_options o = {
            .delay = 2e-3, .distribution = (int32_t)rows[r].distribution, .cpu = 1e-3};
        double sum = 0;
        int beyond = 0;
        for (uint64_t i = 0; i < N; i++) {
            stk__synthetic_work work;
            stk__synthetic_plan(&o, (stk__span){0, 0}, (stk__span){0, 0}, i, &work);
            assert_true(work.delay >= 0 && work.delay <= 0.2);
            assert_true(work.cpu == 1e-3);
            sum += work.delay;
            beyond += work.delay > 6e-3;
        }
        assert_true(fabs(sum / N / 2e-3 - 1) <= rows[r].slack);
        assert_true(fabs((double)beyond / N - rows[r].beyond) < 0.004);
    }
}

static void test_tail(void **state)
{
    stk__synthetic_options o = {.delay = 1e-3, .tail_share = 0.05, .tail_delay = 50e-3};
    int slow = 0;

    for (uint64_t i = 0; i < 20000; i++) {
        stk__synthetic_work work;
        stk__synthetic_plan(&o, (stk__span){0, 0}, (stk__span){0, 0}, i, &work);
        assert_true(work.delay == 1e-3 || work.delay == 50e-3);
        slow += work.delay == 50e-3;
    }
    assert_in_range(slow, 1000 - 185, 1000 + 185);
}

/* No less time than was asked for goes by, on the right clock. */
static void test_spend(void **state)
{
    stk__synthetic_work sleeps = {.delay = 2e-3}, burns = {.cpu = 2e-3};
    uint64_t wall = stk__now_ns();

    stk__synthetic_spend(&sleeps);
    assert_true(stk__now_ns() - wall >= 2000000);
    uint64_t cpu = stk__thread_cpu_ns();
    stk__synthetic_spend(&burns);
    assert_true(stk__thread_cpu_ns() - cpu >= 2000000);
}

/* ---- Location ------------------------------------------------------------------------------ */

typedef struct notes {
    stk_locator base;
    uint64_t added, costs;
    double cost[200];
    uint64_t bytes[200][4];
    stk_need need[200];
} notes;

static stk_status note_add(stk_locator *self, size_t i, const stk_need *need)
{
    ((notes *)self)->added++;
    ((notes *)self)->need[i] = *need;
    return STK_OK;
}

static void note_cost(stk_locator *self, size_t i, double nanoseconds)
{
    ((notes *)self)->costs++;
    ((notes *)self)->cost[i] = nanoseconds;
}

static void note_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    ((notes *)self)->bytes[i][field] = bytes;
}

static void locate(stk_dataset *d, notes *n)
{
    uint64_t indices[200];
    stk_error err;

    *n = (notes){.base = {sizeof(stk_locator), note_add, note_cost, note_bytes}};
    for (uint64_t i = 0; i < 200; i++)
        indices[i] = i;
    assert_ok(d->ops->locate(d, indices, 200, &n->base, &err), &err);
}

static void test_cost_hint(void **state)
{
    stk_dataset *d = open_spec(
        *state, "synthetic:?delay=1ms&tail_share=0.2&tail_delay=50ms&cpu=2ms&cost_hint=true");
    notes n;
    int slow = 0;

    locate(d, &n);
    assert_int_equal(n.added, 0);
    assert_int_equal(n.costs, 200);
    for (int i = 0; i < 200; i++) {
        slow += n.cost[i] > 51e6;
        assert_true((n.cost[i] > 2.9e6 && n.cost[i] < 3.1e6) ||
                    (n.cost[i] > 51.9e6 && n.cost[i] < 52.1e6));
    }
    assert_in_range(slow, 10, 80);
    stk_dataset_close(&d);
}

/* Values of any length: what locate bounds is what prepare gives, within the range, all lengths
 * occurring. */
static void test_varying(void **state)
{
    stk_dataset *d =
        open_spec(*state, "synthetic:?shape=3&ragged=1..5&dtype=int32&value_bytes=0..9");
    uint8_t image[12], room[2][64];
    int64_t label;
    bool seen[6] = {0}, seen_bytes[10] = {0};
    notes n;

    assert_int_equal(d->num_fields, 4);
    assert_int_equal(d->fields[2].layout, STK_RAGGED);
    assert_int_equal(d->fields[2].dtype, STK_INT32);
    assert_int_equal(d->fields[2].shape[0], -1);
    assert_int_equal(d->fields[3].layout, STK_BYTES);
    locate(d, &n);
    assert_int_equal(n.costs, 0);
    for (uint64_t i = 0; i < 200; i++) {
        stk_value values[4] = {{image, 12, NULL, 12},
                               {&label, 8, NULL, 8},
                               {room[0], n.bytes[i][2], NULL, 0},
                               {room[1], n.bytes[i][3], NULL, 0}};
        stk_sample sample = {.index = i, .values = values};
        d->ops->prepare(d, &sample, 1);
        assert_int_equal(sample.status, STK_OK);
        assert_int_equal(values[2].size, n.bytes[i][2]);
        assert_int_equal(values[3].size, n.bytes[i][3]);
        assert_int_equal(values[2].size % 4, 0);
        assert_in_range(values[2].size / 4, 1, 5);
        assert_in_range(values[3].size, 0, 9);
        seen[values[2].size / 4] = seen_bytes[values[3].size] = true;
        assert_int_equal(label, i % 10);
        /* Less room than was asked for is an error and no overflow. */
        values[2].capacity = values[2].size - 1;
        d->ops->prepare(d, &sample, 1);
        assert_int_equal(sample.status, STK_EINTERNAL);
    }
    for (int i = 1; i <= 5; i++)
        assert_true(seen[i]);
    for (int i = 0; i <= 9; i++)
        assert_true(seen_bytes[i]);
    stk_dataset_close(&d);
}

/* Samples read the places of the file in turn; what they read shows in their bytes. */
static void test_reads(void **state)
{
    char folder[256], spec[512];
    uint8_t data[1050];
    uint64_t random = 9;
    notes n;

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)test_random(&random);
    test_folder(folder);
    test_write(folder, "data", data, sizeof data);
    snprintf(spec, sizeof spec, "synthetic:%s/data?size=200&read_bytes=100", folder);
    stk_dataset *d = open_spec(*state, spec);
    locate(d, &n);
    assert_int_equal(n.added, 200);
    for (uint64_t i = 0; i < 200; i++) {
        assert_int_equal(n.need[i].length, 100);
        assert_int_equal(n.need[i].offset, i % 10 * 100);
    }
    samples *before = samples_range(d, 0, 10);
    stk_dataset_close(&d);
    data[123] ^= 1;
    test_write(folder, "data", data, sizeof data);
    d = open_spec(*state, spec);
    samples *after = samples_range(d, 0, 10);
    for (size_t i = 0; i < 10; i++)
        assert_true((memcmp(before->data[i], after->data[i], 784) != 0) == (i == 1));
    samples_free(before);
    samples_free(after);
    stk_dataset_close(&d);

    /* A folder: its files in the order of their names, those that are too short left out. */
    test_write(folder, "another", data, 200);
    test_write(folder, "short", data, 99);
    snprintf(spec, sizeof spec, "synthetic:%s?read_bytes=100", folder);
    d = open_spec(*state, spec);
    locate(d, &n);
    for (uint64_t i = 0; i < 200; i++) {
        char key[16];
        stk_store *store;
        d->ops->object(d, n.need[i].object, &store, key, sizeof key);
        assert_string_equal(key, i % 2 ? "data" : "another");
        assert_int_equal(n.need[i].offset, i % 2 ? i / 2 % 10 * 100 : i / 2 % 2 * 100);
    }
    stk_dataset_close(&d);
    test_folder_remove(folder);
}

/* A mem: store without objects gets one, also behind the shaping store. */
static void test_made_store(void **state)
{
    static const char *const specs[] = {
        "synthetic:mem://room?read_bytes=1KiB&size=64",
        "synthetic:slow+mem://room2?read_bytes=1KiB&size=64&latency=10us"};

    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        stk_dataset *d = open_spec(*state, specs[i]), *again = open_spec(*state, specs[i]);
        samples *s = samples_range(d, 0, 64), *t = samples_range(again, 0, 64);
        assert_int_equal(s->located, 64);
        for (size_t k = 0; k < 64; k++)
            assert_memory_equal(s->data[k], t->data[k], 784);
        assert_int_equal(d->fingerprint, again->fingerprint);
        samples_free(s);
        samples_free(t);
        stk_dataset_close(&d);
        stk_dataset_close(&again);
    }
}

static void test_fingerprints(void **state)
{
    static const char *const specs[] = {"synthetic:",
                                        "synthetic:?seed=1",
                                        "synthetic:?size=10",
                                        "synthetic:?shape=784",
                                        "synthetic:?dtype=int8",
                                        "synthetic:?label=false",
                                        "synthetic:?fail=0.1",
                                        "synthetic:?fail_transient=0.1",
                                        "synthetic:?ragged=1..2",
                                        "synthetic:?ragged=1..3",
                                        "synthetic:?value_bytes=1..3"};
    uint64_t prints[STK_COUNT(specs)];

    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        stk_dataset *d = open_spec(*state, specs[i]);
        prints[i] = d->fingerprint;
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(prints[i], prints[k]);
        stk_dataset_close(&d);
    }
    /* Time changes nothing of what the samples are. */
    stk_dataset *slow = open_spec(*state, "synthetic:?delay=1ms&cpu=1ms&cost_hint=true");
    assert_int_equal(slow->fingerprint, prints[0]);
    stk_dataset_close(&slow);
}

static void test_refused(void **state)
{
    static const struct {
        const char *spec, *part;
    } bad[] = {
        {"synthetic:?size=0", "size"},
        {"synthetic:?size=1e400", "size"},
        {"synthetic:?shape=", "shape"},
        {"synthetic:?shape=0", "shape"},
        {"synthetic:?shape=-1x3", "shape"},
        {"synthetic:?shape=2x", "shape"},
        {"synthetic:?shape=2x3x", "shape"},
        {"synthetic:?shape=1x1x1x1x1x1x1x1x1", "shape"},
        {"synthetic:?shape=99999999999999999999", "shape"},
        {"synthetic:?shape=65536x65536x65536x65536", "shape"},
        {"synthetic:?shape=1073741824x2", "shape"},
        {"synthetic:?shape=28 x28", "shape"},
        {"synthetic:?dtype=object", "dtype"},
        {"synthetic:?dtype=", "dtype"},
        {"synthetic:?ragged=5..1", "ragged"},
        {"synthetic:?ragged=..", "ragged"},
        {"synthetic:?ragged=1..", "ragged"},
        {"synthetic:?ragged=-1..2", "ragged"},
        {"synthetic:?ragged=0..1073741825", "ragged"},
        {"synthetic:?ragged=0..536870912&dtype=float32", "ragged"},
        {"synthetic:?value_bytes=x", "value_bytes"},
        {"synthetic:?delay=-1", "delay"},
        {"synthetic:?delay=1e9h", "delay"},
        {"synthetic:?fail=1.5", "fail"},
        {"synthetic:?fail=nan", "fail"},
        {"synthetic:?fail=0.7&fail_transient=0.7", "sum"},
        {"synthetic:?tail_share=0.5", "tail_delay"},
        {"synthetic:?tail_delay=1ms", "tail_share"},
        {"synthetic:?distribution=pareto", "delay"},
        {"synthetic:?distribution=normal&delay=1", "normal"},
        {"synthetic:?cost_hint=true", "cost_hint"},
        {"synthetic:?read_bytes=5", "store"},
        {"synthetic:/some/file", "read_bytes"},
        {"synthetic:?delya=1", "delay"},
        {"synthetic:?block_size=0", "block_size"},
        {"synthetic:/no/such/file?read_bytes=5", "/no/such"},
        {"synthetic:mem://y?read_bytes=2GiB", "read_bytes"},
    };
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        stk_dataset *d = (stk_dataset *)1;
        stk_error_init(&err);
        if (stk_dataset_open(*state, bad[i].spec, &d, &err) >= 0)
            fail_msg("'%s' was opened", bad[i].spec);
        if (!strstr(err.text, bad[i].part))
            fail_msg("'%s': no \"%s\" in: %s", bad[i].spec, bad[i].part, err.text);
        assert_null(d);
    }
}

/* With and without reads it is a dataset of our own, whose cheap samples a consumer may prepare. */
static void test_own(void **state)
{
    static const char *const specs[] = {"synthetic:?shape=784&label=false", "synthetic:"};

    for (size_t i = 0; i < 2; i++) {
        stk_dataset *d = NULL;
        stk_error err;
        assert_ok(stk_dataset_open(*state, specs[i], &d, &err), &err);
        assert_true(stk__dataset_is_own(d));
        stk_dataset_close(&d);
    }
}

static void see(void *user, const char *name, const char *value)
{
    *(unsigned *)user += (!strcmp(name, "size") && !strcmp(value, "77")) ||
                         (!strcmp(name, "read_bytes") && !strcmp(value, "4KiB"));
}

static void test_describe(void **state)
{
    stk_dataset *d = NULL;
    unsigned right = 0;
    stk_error err;

    assert_ok(stk_dataset_open(*state, "synthetic:mem://d?size=77&read_bytes=4096", &d, &err),
              &err);
    assert_ok(stk_dataset_describe(d, see, &right, &err), &err);
    assert_int_equal(right, 2);
    stk_dataset_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own),          cmocka_unit_test(test_head),
        cmocka_unit_test(test_pure),         cmocka_unit_test(test_types),
        cmocka_unit_test(test_failures),     cmocka_unit_test(test_distributions),
        cmocka_unit_test(test_tail),         cmocka_unit_test(test_spend),
        cmocka_unit_test(test_cost_hint),    cmocka_unit_test(test_varying),
        cmocka_unit_test(test_reads),        cmocka_unit_test(test_made_store),
        cmocka_unit_test(test_fingerprints), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_describe),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
