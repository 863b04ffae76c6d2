/* SPDX-License-Identifier: Apache-2.0 */
/* Labels equally often, samples by weights: counted. */
#include <math.h>
#include <string.h>

#include "numbered.h"
#include "samples.h"

enum { SIZE = 200, LABELS = 4 };
static const int counts[LABELS] = {120, 17, 0, 63}; /* of the labels, mixed in the file */

typedef struct place {
    stk_context *ctx;
    char folder[256], spec[400];
    int label[SIZE];
} place;

/* An npy file of one row. */
static void write_row(const char *folder, const char *name, const char *descr, const void *data,
                      size_t n)
{
    char *file = malloc(128 + n * 8), text[119];

    memset(file, ' ', 128);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int length =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }",
                 descr, (int)n);
    memcpy(file + 10, text, (size_t)length);
    file[127] = '\n';
    memcpy(file + 128, data, n * 8);
    test_write(folder, name, file, 128 + n * 8);
    free(file);
}

static void begin(place *p, void **state)
{
    char text[SIZE * 3 + 1];
    int64_t numbers[SIZE];
    size_t used = 0;

    p->ctx = *state;
    numbered_write(test_folder(p->folder), "numbers", 0, SIZE);
    numbered_spec(p->folder, "numbers", p->spec, sizeof p->spec);
    for (int i = 0, left[LABELS] = {120, 17, 0, 63}; i < SIZE; i++) {
        int label = i * 7 % LABELS;
        while (left[label] == 0)
            label = (label + 1) % LABELS;
        left[label]--;
        p->label[i] = label;
        numbers[i] = label;
        used += (size_t)snprintf(text + used, sizeof text - used, "%d\n", label);
    }
    test_write(p->folder, "labels.txt", text, used);
    write_row(p->folder, "labels.npy", "<i8", numbers, SIZE);
}

static stk_dataset *open_with(place *p, const char *option, const char *file, const char *rest)
{
    char spec[1000];

    snprintf(spec, sizeof spec, "%s&%s=%s/%s%s", p->spec, option, p->folder, file, rest);
    return numbered_open(p->ctx, spec);
}

/* Deliver some epochs and count the samples of each. */
static void count_samples(stk_dataset *d, int shuffle, uint64_t epochs, int times[][SIZE])
{
    stk_loader_options o;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;

    stk_loader_options_init(&o);
    o.shuffle = shuffle;
    o.batch_size = 16;
    o.epochs = epochs;
    o.num_workers = 0;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    for (uint64_t ends = 0; ends < epochs;) {
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
    stk_loader_destroy(&loader);
}

static void test_labels_equally_often(void **state)
{
    static const char *const files[] = {"labels.txt", "labels.npy"}, *const repeats[] = {
                                                                         "", "&repeat=3"};
    place p;
    begin(&p, state);

    for (int k = 0; k < 4; k++)
        for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
            stk_dataset *d = open_with(&p, "balance", files[k % 2], repeats[k / 2]);
            int times[3][SIZE] = {{0}};
            const int each = k / 2 ? 200 : 67; /* three labels have samples */
            assert_int_equal(d->size, 3 * each);
            count_samples(d, shuffle, 3, times);
            for (int e = 0; e < 3; e++) {
                int of[LABELS] = {0};
                for (int i = 0; i < SIZE; i++) {
                    const int n = counts[p.label[i]];
                    of[p.label[i]] += times[e][i];
                    assert_in_range(times[e][i], each / n, each / n + (each % n != 0));
                }
                for (int l = 0; l < LABELS; l++)
                    assert_int_equal(of[l], counts[l] ? each : 0);
            }
            /* What an epoch left out of the largest comes in another. */
            int unseen = 0;
            for (int i = 0; i < SIZE; i++)
                unseen += times[0][i] + times[1][i] + times[2][i] == 0;
            if (shuffle == STK_SHUFFLE_FULL && k < 2)
                assert_in_range(unseen, 0, 50);
            stk_dataset_close(&d);
        }
    test_folder_remove(p.folder);
}

/* Every round of as many samples as there are labels has each once. */
static void test_rounds(void **state)
{
    place p;
    begin(&p, state);
    stk_dataset *d = open_with(&p, "balance", "labels.npy", "");
    samples *s = samples_range(d, 0, d->size);

    for (uint64_t i = 0; i < d->size; i += 3) {
        int seen[LABELS] = {0};
        for (uint64_t k = i; k < i + 3; k++) {
            int64_t value;
            memcpy(&value, s->data[k], sizeof value);
            seen[p.label[value]]++;
        }
        assert_int_equal(seen[0] * 100 + seen[1] * 10 + seen[3], 111);
    }
    samples_free(s);
    stk_dataset_close(&d);
    test_folder_remove(p.folder);
}

/* Labels that the dataset tells: the same as those it delivers. */
static void test_labels_that_are_known(void **state)
{
    static const char *const specs[] = {
        "digits:?size=300&balance=label", "digits:?size=300&subset=20:250&balance=label",
        "mix:2*(digits:?size=300),(digits:?size=300&seed=4)?stop=all&balance=label",
        "concat:(digits:?size=100&kfold=3&part=val),(digits:?size=30)?balance=label"};
    stk_dataset *d = NULL;
    stk_error err;

    for (size_t k = 0; k < STK_COUNT(specs); k++) {
        d = numbered_open(*state, specs[k]);
        samples *s = samples_range(d, 0, d->size);
        int of[10] = {0};
        for (uint64_t i = 0; i < d->size; i++)
            of[s->label[i]]++;
        for (int l = 0; l < 10; l++)
            assert_int_equal(of[l], d->size / 10);
        samples_free(s);
        stk_dataset_close(&d);
    }
    assert_fails(stk_dataset_open(*state, "synthetic:?balance=label", &d, &err), STK_ENOTSUP, &err,
                 "labels.npy");
}

static void test_weights(void **state)
{
    double weights[SIZE], sum = 0;
    place p;
    begin(&p, state);

    for (int i = 0; i < SIZE; i++) {
        weights[i] = i == 0 || i == SIZE - 1 ? 0 : i % 10 == 3 ? 0 : 1 + i % 7;
        sum += weights[i];
    }
    write_row(p.folder, "weights.npy", "<f8", weights, SIZE);
    for (int k = 0; k < 2; k++) {
        stk_dataset *d = open_with(&p, "weights", "weights.npy", k ? "&repeat=10" : "");
        int times[1][SIZE] = {{0}}, total = 0;
        assert_int_equal(d->size, k ? 10 * SIZE : SIZE);
        count_samples(d, STK_SHUFFLE_FULL, 1, times);
        for (int i = 0; i < SIZE; i++) {
            const double share = weights[i] / sum * (double)d->size;
            assert_true(fabs(times[0][i] - share) <= 1);
            if (weights[i] == 0)
                assert_int_equal(times[0][i], 0);
            total += times[0][i];
        }
        assert_int_equal(total, d->size);
        stk_dataset_close(&d);
    }
    test_folder_remove(p.folder);
}

static void test_refused(void **state)
{
    double weights[SIZE] = {0}, negative[SIZE] = {[7] = -1, [8] = 3};
    static const struct {
        const char *options, *part;
    } bad[] = {
        {"balance=none.txt", "does not exist"},     {"balance=short.txt", "has 2 numbers"},
        {"balance=words.txt", "is no label"},       {"balance=far.txt", "label 99999999"},
        {"weights=zeros.npy", "all are 0"},         {"weights=negative.npy", "sample 7"},
        {"weights=labels.npy", "floats"},           {"weights=labels.txt", "labels.txt"},
        {"weights=few.npy", "has 3 numbers"},       {"weights=few.npy&balance=label", "give one"},
        {"weights=few.npy&stages=0:1", "give one"}, {"balance=labels.txt&repeat=0", "repeat=0"},
    };
    place p;
    stk_dataset *d = NULL;
    stk_error err;
    char spec[1500], text[SIZE * 9];
    begin(&p, state);

    test_write(p.folder, "short.txt", "1\n2\n", 4);
    test_write(p.folder, "words.txt", "1\ncat\n", 6);
    for (int i = 0; i < SIZE; i++)
        memcpy(text + 9 * i, "99999999\n", 9);
    test_write(p.folder, "far.txt", text, sizeof text);
    write_row(p.folder, "zeros.npy", "<f8", weights, SIZE);
    write_row(p.folder, "negative.npy", "<f8", negative, SIZE);
    write_row(p.folder, "few.npy", "<f8", negative, 3);
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        const char *equals = strchr(bad[i].options, '=');
        snprintf(spec, sizeof spec, "%s&%.*s=%s/%s", p.spec, (int)(equals - bad[i].options),
                 bad[i].options, p.folder, equals + 1);
        const stk_status status = stk_dataset_open(p.ctx, spec, &d, &err);
        if (status >= 0 || d || !strstr(err.text, bad[i].part))
            fail_msg("%s: %s", bad[i].options, err.text);
    }
    test_folder_remove(p.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_equally_often),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_labels_that_are_known),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
