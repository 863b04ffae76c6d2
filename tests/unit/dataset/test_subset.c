/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, index lists and random splits, over a dataset whose samples say which they are. */
#include <math.h>

#include "dataset/dataset.h"
#include "samples.h"

/* ---- A dataset whose sample i has the value 7 i + 1 and needs byte i of object i / 10 ------ */

typedef struct tally {
    stk_dataset base;
    stk_field field;
    uint64_t bad; /* this sample is damaged, and locating it fails */
    bool *closed;
} tally;

static void tally_close(stk_dataset *dataset)
{
    *((tally *)dataset)->closed = true;
    free(dataset);
}

static stk_status tally_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                               stk_locator *to, stk_error *err)
{
    for (size_t i = 0; i < n; i++) {
        stk_need need = {.object = indices[i] / 10, .offset = indices[i], .length = 1};
        if (indices[i] == ((tally *)dataset)->bad) {
            err->sample = indices[i];
            return STK_EFORMAT;
        }
        STK_TRY(to->add(to, i, &need));
        to->cost(to, i, (double)indices[i]);
        to->bytes(to, i, 0, indices[i]);
    }
    return STK_OK;
}

static size_t tally_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                           size_t size)
{
    *store = NULL;
    return (size_t)snprintf(key, size, "object %d", (int)object);
}

static void tally_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t value = (int64_t)(7 * samples[i].index + 1);
        assert_true(samples[i].index < dataset->size);
        if (samples[i].index == ((tally *)dataset)->bad)
            samples[i].status = STK_EFORMAT;
        memcpy(samples[i].values->out, &value, sizeof value);
        samples[i].values->data = samples[i].values->out;
    }
}

static stk_status tally_describe(stk_dataset *dataset,
                                 void (*line)(void *, const char *, const char *), void *user,
                                 stk_error *err)
{
    line(user, "tally", "yes");
    return STK_OK;
}

static const stk_dataset_ops tally_ops = {.struct_size = sizeof tally_ops,
                                          .name = "tally",
                                          .doc = "",
                                          .close = tally_close,
                                          .prepare = tally_prepare,
                                          .describe = tally_describe};
static const stk_dataset_ops located_ops = {.struct_size = sizeof located_ops,
                                            .name = "tally",
                                            .doc = "",
                                            .close = tally_close,
                                            .locate = tally_locate,
                                            .object = tally_object,
                                            .prepare = tally_prepare};

static stk_dataset *make(stk_context *ctx, uint64_t size, const stk_dataset_ops *ops, bool *closed)
{
    tally *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t->field = stk__field("value", STK_INT64, (const int64_t[]){-1}, false);
    t->bad = UINT64_MAX;
    t->closed = closed;
    *closed = false;
    stk__dataset_init(&t->base, ops, ctx, size, &t->field, 1);
    return &t->base;
}

/* Which samples of the tally the dataset has, in its order. Checks that `index` is given back as it
 * was. */
static void read_all(stk_dataset *d, uint64_t *out)
{
    samples *s = samples_range(d, 0, d->size);

    for (uint64_t i = 0; i < d->size; i++) {
        int64_t value;
        memcpy(&value, s->data[i], sizeof value);
        assert_int_equal(value % 7, 1);
        out[i] = (uint64_t)value / 7;
        assert_int_equal(s->sample[i].index, i);
    }
    samples_free(s);
}

/* ---- Tests --------------------------------------------------------------------------------- */

static void test_range(void **state)
{
    bool closed;
    stk_dataset *d = make(*state, 1000, &tally_ops, &closed);
    uint64_t got[1000];
    stk_error err;

    assert_ok(stk_dataset_range(&d, 100, 900, &err), &err);
    assert_int_equal(d->size, 800);
    assert_null(d->ops->locate);
    read_all(d, got);
    for (uint64_t i = 0; i < 800; i++)
        assert_int_equal(got[i], 100 + i);
    assert_false(closed);
    stk_dataset_close(&d);
    assert_true(closed);
}

static void test_range_refused(void **state)
{
    static const uint64_t bad[][2] = {{0, 11},  {5, 5},          {6, 5},
                                      {10, 11}, {UINT64_MAX, 1}, {0, UINT64_MAX}};
    bool closed;
    stk_dataset *d = make(*state, 10, &tally_ops, &closed), *same = d, *none = NULL;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        assert_fails(stk_dataset_range(&d, bad[i][0], bad[i][1], &err), STK_EINVAL, &err, "10");
        assert_ptr_equal(d, same);
    }
    assert_fails(stk_dataset_range(&none, 0, 1, &err), STK_EINVAL, &err, "no dataset");
    assert_fails(stk_dataset_range(NULL, 0, 1, NULL), STK_EINVAL, NULL, NULL);
    stk_dataset_close(&d);
}

/* A block of the range never straddles two of the inner dataset; whole ones stay whole. */
static void test_range_blocks(void **state)
{
    static const uint64_t rows[][3] = {{0, 64, 64},  {128, 64, 64}, {32, 64, 32},
                                       {100, 64, 4}, {1, 64, 1},    {7, 1, 1}};
    bool closed;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk_dataset *d = make(*state, 1000, &tally_ops, &closed);
        d->block_size = rows[i][1];
        assert_ok(stk_dataset_range(&d, rows[i][0], 999, &err), &err);
        assert_int_equal(d->block_size, rows[i][2]);
        stk_dataset_close(&d);
    }
}

static void test_subset(void **state)
{
    bool closed;
    stk_dataset *d = make(*state, 1000, &tally_ops, &closed);
    uint64_t list[700], got[700], random = 3;
    stk_error err;

    d->block_size = 10;
    for (int i = 0; i < 700; i++)
        list[i] = test_random(&random) % 1000;
    uint64_t kept[700];
    memcpy(kept, list, sizeof list);
    assert_ok(stk_dataset_subset(&d, list, 700, &err), &err);
    memset(list, 0xFF, sizeof list);
    assert_int_equal(d->size, 700);
    assert_int_equal(d->block_size, 1);
    read_all(d, got);
    assert_memory_equal(got, kept, sizeof got);
    stk_dataset_close(&d);
    assert_true(closed);
}

static void test_subset_refused(void **state)
{
    bool closed;
    stk_dataset *d = make(*state, 10, &tally_ops, &closed), *same = d;
    stk_error err;

    assert_fails(stk_dataset_subset(&d, (const uint64_t[]){1, 10}, 2, &err), STK_EINVAL, &err,
                 "entry 1");
    assert_fails(stk_dataset_subset(&d, (const uint64_t[]){1}, 0, &err), STK_EINVAL, &err,
                 "without");
    assert_fails(stk_dataset_subset(&d, NULL, 3, &err), STK_EINVAL, &err, "without");
    assert_ptr_equal(d, same);
    stk_dataset_close(&d);
}

/* The parts of a split cover what the fractions say, each sample once, for many sizes. */
static void test_split_partitions(void **state)
{
    static const double thirds[] = {0.6, 0.3, 0.1};
    stk_error err;

    for (uint64_t size = 10; size < 1200; size = size * 3 / 2 + 1) {
        uint8_t seen[1200] = {0};
        uint64_t total = 0, moved = 0;
        for (uint32_t part = 0; part < 3; part++) {
            bool closed;
            uint64_t got[1200];
            stk_dataset *d = make(*state, size, &tally_ops, &closed);
            assert_ok(stk_dataset_random_split(&d, thirds, 3, part, 11, &err), &err);
            /* PyTorch's rule: whole samples each; what is left, one each from the first part on. */
            assert_true(fabs((double)d->size - (double)size * thirds[part]) <= 1);
            read_all(d, got);
            for (uint64_t i = 0; i < d->size; i++) {
                assert_int_equal(seen[got[i]]++, 0);
                moved += got[i] != total + i;
            }
            total += d->size;
            stk_dataset_close(&d);
        }
        assert_int_equal(total, size);
        assert_true(moved > size / 2);
    }
}

static void test_split_partial(void **state)
{
    bool closed;
    stk_error err;
    stk_dataset *d = make(*state, 1000, &tally_ops, &closed);

    assert_ok(stk_dataset_random_split(&d, (const double[]){0.2, 0.3}, 2, 1, 0, &err), &err);
    assert_int_equal(d->size, 300);
    stk_dataset_close(&d);
}

static void test_split_seed(void **state)
{
    bool closed;
    stk_error err;
    uint64_t got[3][500];
    int same = 0;

    for (uint64_t k = 0; k < 3; k++) {
        stk_dataset *d = make(*state, 1000, &tally_ops, &closed);
        assert_ok(stk_dataset_random_split(&d, (const double[]){0.5, 0.5}, 2, 0, k / 2, &err),
                  &err);
        read_all(d, got[k]);
        stk_dataset_close(&d);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    for (int i = 0; i < 500; i++)
        same += got[0][i] == got[2][i];
    assert_true(same < 20);
}

static void test_split_refused(void **state)
{
    bool closed;
    stk_dataset *d = make(*state, 10, &tally_ops, &closed), *same = d;
    stk_error err;

    assert_fails(stk_dataset_random_split(&d, (const double[]){0.5, 0.6}, 2, 0, 0, &err),
                 STK_EINVAL, &err, "1.1");
    assert_fails(stk_dataset_random_split(&d, (const double[]){-0.5, 0.6}, 2, 0, 0, &err),
                 STK_EINVAL, &err, "-0.5");
    assert_fails(stk_dataset_random_split(&d, (const double[]){NAN, 0.6}, 2, 1, 0, &err),
                 STK_EINVAL, &err, "nan");
    assert_fails(stk_dataset_random_split(&d, (const double[]){INFINITY}, 1, 0, 0, &err),
                 STK_EINVAL, &err, "inf");
    assert_fails(stk_dataset_random_split(&d, (const double[]){0.5, 0.5}, 2, 2, 0, &err),
                 STK_EINVAL, &err, "part 2");
    /* Whole samples of 0.95, 0.04 and 0.01 of 10 are 9, 0 and 0; the one that is left goes to the
     * first. */
    assert_fails(stk_dataset_random_split(&d, (const double[]){0.95, 0.04, 0.01}, 3, 1, 0, &err),
                 STK_EINVAL, &err, "empty");
    assert_ptr_equal(d, same);
    stk_dataset_close(&d);
}

static void test_fingerprints(void **state)
{
    static const uint64_t list[] = {0, 1, 2, 3, 4};
    uint64_t prints[9];
    bool closed;
    stk_error err;

    for (int k = 0; k < 9; k++) {
        stk_dataset *d = make(*state, 10, &tally_ops, &closed);
        prints[k] = d->fingerprint;
        switch (k) {
        case 0:
            break;
        case 1:
            assert_ok(stk_dataset_range(&d, 0, 5, &err), &err);
            break;
        case 2:
            assert_ok(stk_dataset_range(&d, 1, 6, &err), &err);
            break;
        case 3:
            assert_ok(stk_dataset_subset(&d, list, 5, &err), &err);
            break;
        case 4:
            assert_ok(stk_dataset_subset(&d, list, 4, &err), &err);
            break;
        case 5:
            assert_ok(stk_dataset_random_split(&d, (const double[]){.5, .5}, 2, 0, 0, &err), &err);
            break;
        case 6:
            assert_ok(stk_dataset_random_split(&d, (const double[]){.5, .5}, 2, 1, 0, &err), &err);
            break;
        case 7:
            assert_ok(stk_dataset_random_split(&d, (const double[]){.5, .5}, 2, 0, 1, &err), &err);
            break;
        case 8:
            assert_ok(stk_dataset_range(&d, 0, 5, &err), &err);
            assert_ok(stk_dataset_range(&d, 0, 5, &err), &err);
            break;
        }
        prints[k] = d->fingerprint;
        for (int i = 0; i < k; i++)
            assert_int_not_equal(prints[i], prints[k]);
        stk_dataset_close(&d);
    }
}

/* ---- Passing on ---------------------------------------------------------------------------- */

/* Notes what a call of locate answers; more samples than one piece of a view. */
#define MANY 1000

typedef struct notes {
    stk_locator base;
    size_t count;
    uint64_t object[MANY], offset[MANY], bytes[MANY];
    double cost[MANY];
} notes;

static stk_status note_add(stk_locator *self, size_t i, const stk_need *need)
{
    notes *n = (notes *)self;

    assert_int_equal(i, n->count);
    n->object[i] = need->object;
    n->offset[i] = need->offset;
    n->count++;
    return n->count == 900 ? STK_EBUDGET : STK_OK;
}

static void note_cost(stk_locator *self, size_t i, double nanoseconds)
{
    ((notes *)self)->cost[i] = nanoseconds;
}

static void note_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    ((notes *)self)->bytes[i] = bytes;
}

/* Views of views of views: locate, object and prepare reach the innermost dataset with its own
 * indices. */
static void test_nested(void **state)
{
    bool closed;
    stk_dataset *d = make(*state, 4000, &located_ops, &closed);
    uint64_t list[2000], indices[800], got[MANY], expected[MANY];
    notes n = {.base = {sizeof(stk_locator), note_add, note_cost, note_bytes}};
    stk_store *store;
    char key[32];
    stk_error err;

    for (uint64_t i = 0; i < 2000; i++)
        list[i] = 3999 - 2 * i;
    stk_error_init(&err);
    assert_ok(stk_dataset_subset(&d, list, 2000, &err), &err);
    assert_ok(stk_dataset_range(&d, 500, 1500, &err), &err);
    assert_ok(stk_dataset_random_split(&d, (const double[]){0.8, 0.2}, 2, 0, 5, &err), &err);
    assert_int_equal(d->size, 800);
    for (uint64_t i = 0; i < 800; i++)
        indices[i] = i;
    assert_ok(d->ops->locate(d, indices, 800, &n.base, &err), &err);
    assert_int_equal(n.count, 800);

    stk_sample samples[800] = {0};
    stk_value values[800];
    for (int i = 0; i < 800; i++) {
        values[i] = (stk_value){&got[i], 8, NULL, 8};
        samples[i] = (stk_sample){.index = (uint64_t)i, .values = &values[i]};
    }
    d->ops->prepare(d, samples, 800);
    uint8_t seen[4000] = {0};
    for (int i = 0; i < 800; i++) {
        expected[i] = (got[i] - 1) / 7;
        assert_int_equal(samples[i].index, i);
        assert_int_equal(n.offset[i], expected[i]);
        assert_int_equal(n.object[i], expected[i] / 10);
        assert_int_equal(n.bytes[i], expected[i]);
        assert_true(n.cost[i] == (double)expected[i]);
        /* Entries 500 to 1499 of the list are the odd numbers from 2999 down to 1001. */
        assert_true(expected[i] % 2 == 1 && expected[i] >= 1001 && expected[i] <= 2999);
        assert_int_equal(seen[expected[i]]++, 0);
    }
    assert_int_equal(d->ops->object(d, 12, &store, key, sizeof key), 9);
    assert_string_equal(key, "object 12");
    stk_dataset_close(&d);
    assert_true(closed);
}

/* A refusal of the locator and a bad sample come through, with the outer index. */
static void test_failures_pass(void **state)
{
    bool closed;
    stk_dataset *d = make(*state, 2000, &located_ops, &closed);
    tally *t = (tally *)d;
    uint64_t indices[MANY], value[2];
    notes n = {.base = {sizeof(stk_locator), note_add, note_cost, note_bytes}};
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_dataset_range(&d, 1000, 2000, &err), &err);
    for (uint64_t i = 0; i < MANY; i++)
        indices[i] = i;
    assert_int_equal(d->ops->locate(d, indices, MANY, &n.base, &err), STK_EBUDGET);
    assert_int_equal(n.count, 900);
    t->bad = 1600;
    n.count = 0;
    assert_int_equal(d->ops->locate(d, indices, MANY, &n.base, &err), STK_EFORMAT);
    assert_int_equal(err.sample, 600);
    stk_value values[2] = {{&value[0], 8, NULL, 8}, {&value[1], 8, NULL, 8}};
    stk_sample samples[2] = {{.index = 600, .values = &values[0]},
                             {.index = 601, .values = &values[1]}};
    d->ops->prepare(d, samples, 2);
    assert_int_equal(samples[0].status, STK_EFORMAT);
    assert_int_equal(samples[1].status, STK_OK);
    assert_int_equal(samples[0].index, 600);
    stk_dataset_close(&d);
}

/* Two views of one dataset, which ends with the last. */
static void test_shares(void **state)
{
    bool closed;
    stk_dataset *d = make(*state, 100, &tally_ops, &closed), *other = stk_dataset_ref(d);
    uint64_t got[100];
    stk_error err;

    assert_ptr_equal(d, other);
    assert_ok(stk_dataset_range(&d, 10, 20, &err), &err);
    assert_ok(stk_dataset_range(&other, 90, 100, &err), &err);
    stk_dataset *view = stk_dataset_ref(d);
    stk_dataset_close(&d);
    assert_null(d);
    read_all(view, got);
    assert_int_equal(got[9], 19);
    stk_dataset_close(&view);
    assert_false(closed);
    read_all(other, got);
    assert_int_equal(got[9], 99);
    stk_dataset_close(&other);
    assert_true(closed);
}

static void collect(void *user, const char *name, const char *value)
{
    strcat(user, name);
    strcat(user, "=");
    strcat(user, value);
    strcat(user, "\n");
}

static void test_describe(void **state)
{
    bool closed;
    stk_dataset *d = make(*state, 100, &tally_ops, &closed);
    char text[2048] = "";
    stk_error err;

    assert_ok(stk_dataset_range(&d, 10, 60, &err), &err);
    assert_ok(stk_dataset_random_split(&d, (const double[]){0.5}, 1, 0, 9, &err), &err);
    assert_ok(stk_dataset_describe(d, collect, text, &err), &err);
    assert_non_null(strstr(text, "dataset=tally\n"));
    assert_non_null(strstr(text, "samples=25\n"));
    assert_non_null(strstr(text, "bytes per sample=8\n"));
    assert_non_null(strstr(text, "random_split=part 0, 25 of 50, seed 9\n"));
    assert_non_null(strstr(text, "range=10:60 of 100\n"));
    assert_non_null(strstr(text, "tally=yes\n"));
    stk_dataset_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range),          cmocka_unit_test(test_range_refused),
        cmocka_unit_test(test_range_blocks),   cmocka_unit_test(test_subset),
        cmocka_unit_test(test_subset_refused), cmocka_unit_test(test_split_partitions),
        cmocka_unit_test(test_split_partial),  cmocka_unit_test(test_split_seed),
        cmocka_unit_test(test_split_refused),  cmocka_unit_test(test_fingerprints),
        cmocka_unit_test(test_nested),         cmocka_unit_test(test_failures_pass),
        cmocka_unit_test(test_describe),       cmocka_unit_test(test_shares),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
