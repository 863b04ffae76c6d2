/* SPDX-License-Identifier: Apache-2.0 */
/* Folds for cross-validation, and repeats. */
#include <string.h>

#include "numbered.h"
#include "samples.h"

enum { SIZE = 103 };

typedef struct place {
    stk_context *ctx;
    char folder[256], spec[400];
} place;

static void begin(place *p, void **state)
{
    p->ctx = *state;
    numbered_write(test_folder(p->folder), "numbers", 0, SIZE);
    numbered_spec(p->folder, "numbers", p->spec, sizeof p->spec);
}

static stk_dataset *open_with(place *p, const char *options)
{
    char spec[600];

    snprintf(spec, sizeof spec, "%s%s", p->spec, options);
    return numbered_open(p->ctx, spec);
}

/* Count each number of a dataset; gives its size. */
static uint64_t count_numbers(stk_dataset *d, int *times)
{
    samples *s = samples_range(d, 0, d->size);
    const uint64_t size = d->size;

    for (uint64_t i = 0; i < size; i++) {
        int64_t value;
        memcpy(&value, s->data[i], sizeof value);
        assert_in_range(value, 0, SIZE - 1);
        times[value]++;
    }
    samples_free(s);
    stk_dataset_close(&d);
    return size;
}

/* Each sample is in one fold, and in the training part of all others. */
static void test_folds(void **state)
{
    static const int folds[] = {2, 3, 7, 10, 102, 103};
    place p;
    begin(&p, state);

    for (size_t k = 0; k < STK_COUNT(folds); k++) {
        int kept[SIZE] = {0};
        uint64_t total = 0;
        for (int fold = 0; fold < folds[k]; fold++) {
            int val[SIZE] = {0}, train[SIZE] = {0};
            char text[100];
            snprintf(text, sizeof text, "&kfold=%d&fold=%d&part=val", folds[k], fold);
            const uint64_t n = count_numbers(open_with(&p, text), val);
            assert_in_range(n, SIZE / folds[k], SIZE / folds[k] + (SIZE % folds[k] != 0));
            snprintf(text, sizeof text, "&kfold=%d&fold=%d&part=train", folds[k], fold);
            assert_int_equal(count_numbers(open_with(&p, text), train), SIZE - n);
            for (int i = 0; i < SIZE; i++) {
                assert_int_equal(val[i] + train[i], 1);
                kept[i] += val[i];
            }
            total += n;
        }
        assert_int_equal(total, SIZE);
        for (int i = 0; i < SIZE; i++)
            assert_int_equal(kept[i], 1);
    }
    test_folder_remove(p.folder);
}

/* Folds are no ranges, and other seeds have others; the same in every run. */
static void test_seeds(void **state)
{
    int one[SIZE] = {0}, same[SIZE] = {0}, other[SIZE] = {0}, in_a_row = 0;
    place p;
    begin(&p, state);

    count_numbers(open_with(&p, "&kfold=4&fold=1&part=val"), one);
    count_numbers(open_with(&p, "&kfold=4&fold=1&part=val&split_seed=0"), same);
    count_numbers(open_with(&p, "&kfold=4&fold=1&part=val&split_seed=1"), other);
    assert_memory_equal(one, same, sizeof one);
    assert_memory_not_equal(one, other, sizeof one);
    for (int i = 1; i < SIZE; i++)
        in_a_row += one[i] && one[i - 1];
    assert_in_range(in_a_row, 0, 15);
    stk_dataset *a = open_with(&p, "&kfold=4&fold=1&part=val"),
                *b = open_with(&p, "&kfold=4&fold=1&part=train"),
                *c = open_with(&p, "&kfold=4&fold=2&part=val");
    assert_int_not_equal(a->fingerprint, b->fingerprint);
    assert_int_not_equal(a->fingerprint, c->fingerprint);
    stk_dataset_close(&a);
    stk_dataset_close(&b);
    stk_dataset_close(&c);
    test_folder_remove(p.folder);
}

static void test_repeat(void **state)
{
    static const struct {
        const char *option;
        uint64_t size;
    } cases[] = {{"&repeat=3", 309},
                 {"&repeat=0.25", 26},
                 {"&repeat=2.5", 258},
                 {"&repeat=1", 103},
                 {"&subset=0:10&repeat=2", 20}};
    place p;
    begin(&p, state);

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        int times[SIZE] = {0};
        const uint64_t most = i == 4 ? 10 : SIZE, size = cases[i].size;
        assert_int_equal(count_numbers(open_with(&p, cases[i].option), times), size);
        for (uint64_t k = 0; k < SIZE; k++)
            assert_int_equal(times[k], k < most ? size / most + (k < size % most) : 0);
    }
    test_folder_remove(p.folder);
}

/* Shuffled, an epoch of a quarter goes on where the last ended; one of two and a half has each two
 * or three times. */
static void test_repeat_in_the_loader(void **state)
{
    place p;
    begin(&p, state);

    for (int more = 0; more < 2; more++) {
        stk_dataset *d =
            open_with(&p, more ? "&subset=0:100&repeat=2.5" : "&subset=0:100&repeat=0.25");
        stk_loader_options o;
        stk_loader *loader;
        stk_batch *batch;
        stk_error err;
        int times[SIZE] = {0};
        stk_status status;
        stk_loader_options_init(&o);
        o.shuffle = STK_SHUFFLE_FULL;
        o.batch_size = 25;
        o.epochs = more ? 1 : 4;
        o.num_workers = 0;
        assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
        for (uint64_t ends = 0; ends < o.epochs;) {
            status = stk_loader_next(loader, -1, &batch, &err);
            ends += status == STK_EOS;
            if (status == STK_EOS)
                continue;
            assert_ok(status, &err);
            stk_tensor tokens = {.struct_size = sizeof tokens};
            assert_int_equal(stk_batch_find(batch, "tokens", &tokens), STK_OK);
            for (uint64_t r = 0; r < stk_batch_count(batch); r++)
                times[((int64_t *)tokens.data)[r]]++;
            stk_batch_release(&batch);
        }
        for (int i = 0; i < 100; i++)
            assert_in_range(times[i], more ? 2 : 1, more ? 3 : 1);
        stk_loader_destroy(&loader);
        stk_dataset_close(&d);
    }
    test_folder_remove(p.folder);
}

/* From an epoch on more of the samples; epochs are as long as ever. */
static void test_stages(void **state)
{
    static const int wanted[6] = {25, 25, 50, 50, 100, 100}; /* of stages 0, 2 and 4 */
    place p;
    begin(&p, state);

    for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
        stk_dataset *d = open_with(&p, "&subset=0:100&stages=0:0.25,2:0.5,4:1&repeat=1.1");
        stk_loader_options o;
        stk_loader *loader;
        stk_batch *batch;
        stk_error err;
        int times[6][SIZE] = {{0}};
        assert_int_equal(d->size, 110);
        stk_loader_options_init(&o);
        o.shuffle = shuffle;
        o.batch_size = 25;
        o.epochs = 6;
        o.num_workers = 0;
        assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
        for (int ends = 0; ends < 6;) {
            const stk_status status = stk_loader_next(loader, -1, &batch, &err);
            ends += status == STK_EOS;
            if (status == STK_EOS)
                continue;
            assert_ok(status, &err);
            stk_tensor tokens = {.struct_size = sizeof tokens};
            assert_int_equal(stk_batch_find(batch, "tokens", &tokens), STK_OK);
            for (uint64_t r = 0; r < stk_batch_count(batch); r++)
                times[stk_batch_epoch(batch)][((int64_t *)tokens.data)[r]]++;
            stk_batch_release(&batch);
        }
        for (int e = 0; e < 6; e++)
            for (int i = 0; i < SIZE; i++) {
                const int least = i < wanted[e] ? 110 / wanted[e] : 0;
                assert_in_range(times[e][i], least, least + (i < wanted[e]));
            }
        stk_loader_destroy(&loader);
        stk_dataset_close(&d);
    }
    test_folder_remove(p.folder);
}

static void test_refused(void **state)
{
    static const struct {
        const char *options, *part;
    } bad[] = {
        {"&kfold=1&part=val", "from 2"},
        {"&kfold=104&part=val", "103 samples"},
        {"&kfold=4&fold=4&part=val", "folds 0 to 3"},
        {"&kfold=4", "part=train"},
        {"&kfold=4&part=test", "part=test"},
        {"&kfold=4&part=val&random_split=0.5,0.5", "one of them"},
        {"&fold=2", "kfold=5"},
        {"&part=val", "random_split"},
        {"&random_split=0.5,0.5&part=val", "parts 0 to 1"},
        {"&random_split=0.5,0.5&part=2", "parts 0 to 1"},
        {"&split_seed=3", "random_split"},
        {"&repeat=0", "repeat=0"},
        {"&repeat=0.001", "none"},
        {"&repeat=-1", "repeat"},
        {"&stages=1:0.5", "from 0"},
        {"&stages=0:0.5,0:1", "growing epochs"},
        {"&stages=0:0", "above 0"},
        {"&stages=0:1.5", "up to 1"},
        {"&stages=0:0.5,", "EPOCH:SHARE"},
        {"&stages=:0.5", "EPOCH:SHARE"},
        {"&stages=0:0.5 ", "EPOCH:SHARE"},
    };
    place p;
    char spec[600];
    stk_dataset *d = NULL;
    stk_error err;
    begin(&p, state);

    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        snprintf(spec, sizeof spec, "%s%s", p.spec, bad[i].options);
        if (stk_dataset_open(p.ctx, spec, &d, &err) != STK_EINVAL || d ||
            !strstr(err.text, bad[i].part))
            fail_msg("%s: %s", bad[i].options, err.text);
    }
    test_folder_remove(p.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folds),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_repeat),
        cmocka_unit_test(test_repeat_in_the_loader),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
