/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets one behind the other: order, needs, classes, what is refused. */
#include <string.h>

#include "numbered.h"
#include "samples.h"

typedef struct place {
    stk_context *ctx;
    char folder[256];
    char one[400], two[400]; /* specs: 0 .. 99 and 1000 .. 1049 */
} place;

static void begin(place *p, void **state)
{
    p->ctx = *state;
    test_folder(p->folder);
    numbered_write(p->folder, "one", 0, 100);
    numbered_write(p->folder, "two", 1000, 50);
    numbered_spec(p->folder, "one", p->one, sizeof p->one);
    numbered_spec(p->folder, "two", p->two, sizeof p->two);
}

static stk_dataset *open_two(place *p, const char *options)
{
    char spec[1000];

    snprintf(spec, sizeof spec, "concat:(%s),(%s)%s", p->one, p->two, options);
    return numbered_open(p->ctx, spec);
}

static void check_value(const samples *s, size_t i, int64_t expected)
{
    int64_t value;

    assert_int_equal(s->sample[i].status, STK_OK);
    memcpy(&value, s->data[i], sizeof value);
    assert_int_equal(value, expected);
}

static void test_order(void **state)
{
    place p;
    begin(&p, state);
    stk_dataset *d = open_two(&p, "");

    assert_int_equal(d->size, 150);
    samples *s = samples_range(d, 0, 150);
    assert_int_equal(s->located, 150);
    for (size_t i = 0; i < 150; i++) {
        check_value(s, i, i < 100 ? (int64_t)i : 900 + (int64_t)i);
        assert_int_equal(s->sample[i].index, i);
    }
    samples_free(s);
    /* Any order, as the loader asks for them. */
    uint64_t mixed[150];
    for (uint64_t i = 0; i < 150; i++)
        mixed[i] = i * 77 % 150;
    s = samples_read(d, mixed, 150);
    for (size_t i = 0; i < 150; i++)
        check_value(s, i, (int64_t)(mixed[i] + (mixed[i] < 100 ? 0 : 900)));
    samples_free(s);
    stk_dataset_close(&d);
    /* And of sources that go by the index alone. */
    strcat(p.one, "&memory=true");
    strcat(p.two, "&memory=true");
    d = open_two(&p, "");
    s = samples_read(d, mixed, 150);
    assert_int_equal(s->located, 0);
    for (size_t i = 0; i < 150; i++)
        check_value(s, i, (int64_t)(mixed[i] + (mixed[i] < 100 ? 0 : 900)));
    samples_free(s);
    stk_dataset_close(&d);
    test_folder_remove(p.folder);
}

/* Options of every dataset follow behind the parentheses, those of each stand in them. */
static void test_options(void **state)
{
    place p;
    char spec[1500];
    begin(&p, state);
    stk_dataset *d = open_two(&p, "?subset=99:102");

    samples *s = samples_range(d, 0, 3);
    check_value(s, 0, 99);
    check_value(s, 1, 1000);
    check_value(s, 2, 1001);
    samples_free(s);
    stk_dataset_close(&d);
    snprintf(spec, sizeof spec, "concat:(concat:(%s&subset=98:100),(%s)?subset=1:3),(%s)", p.one,
             p.two, p.one);
    d = numbered_open(p.ctx, spec);
    assert_int_equal(d->size, 102);
    s = samples_range(d, 0, 3);
    check_value(s, 0, 99);
    check_value(s, 1, 1000);
    check_value(s, 2, 0);
    samples_free(s);
    stk_dataset_close(&d);
    test_folder_remove(p.folder);
}

/* The names of objects come from the source that has them, whatever their numbers. */
static void test_one_is_a_sample_of_itself(void **state)
{
    place p;
    char spec[1000];
    begin(&p, state);
    snprintf(spec, sizeof spec, "concat:(%s)", p.one);
    stk_dataset *one = numbered_open(p.ctx, p.one), *d = numbered_open(p.ctx, spec),
                *both = open_two(&p, ""), *again = open_two(&p, "");

    assert_int_equal(d->size, one->size);
    assert_int_equal(d->num_fields, one->num_fields);
    assert_int_not_equal(d->fingerprint, one->fingerprint);
    assert_int_not_equal(d->fingerprint, both->fingerprint);
    assert_int_equal(again->fingerprint, both->fingerprint);
    snprintf(spec, sizeof spec, "concat:(%s),(%s)", p.two, p.one);
    stk_dataset_close(&again);
    again = numbered_open(p.ctx, spec);
    assert_int_not_equal(again->fingerprint, both->fingerprint);
    stk_dataset_close(&one);
    stk_dataset_close(&d);
    stk_dataset_close(&both);
    stk_dataset_close(&again);
    test_folder_remove(p.folder);
}

static void test_refused(void **state)
{
    static const struct {
        const char *spec, *part;
    } bad[] = {
        {"concat:", "no '('"},
        {"concat:digits:", "no '('"},
        {"concat:(digits:", "in pairs"},
        {"concat:(digits:)(digits:)", "no ','"},
        {"concat:(digits:),", "no '('"},
        {"concat:(digits:))", "in pairs"},
        {"concat:2*(digits:)", "no '('"},
        {"concat:()", "empty"},
        {"concat:(digits:)?size=3", "unknown option 'size'"},
        {"concat:(digits:),(synthetic:?shape=28x27x1)", "'image' differs in shape"},
        {"concat:(digits:),(digits:?siz=4)", "'size'"},
        {"concat:(((((((((digits:)))))))))", "in pairs"},
    };
    stk_dataset *d = NULL;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        const stk_status status = stk_dataset_open(*state, bad[i].spec, &d, &err);
        assert_null(d);
        assert_true(status < 0);
        if (!strstr(err.text, bad[i].part))
            fail_msg("%s: %s", bad[i].spec, err.text);
    }
}

/* ---- Classes ---- */

/* Folders of npy files: the folders are the classes, of which the label says the number. */
static void write_classes(const char *folder, const char *top, const char *const *names, int n)
{
    char head[136], path[200];

    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(head + 10, "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }",
           strlen("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }"));
    head[127] = '\n';
    for (int i = 0; i < n; i++) {
        const int64_t value = names[i][0]; /* what the class is, for the test to see */
        memcpy(head + 128, &value, sizeof value);
        snprintf(path, sizeof path, "%s/%s/x.npy", top, names[i]);
        test_write(folder, path, head, sizeof head);
    }
}

static void test_classes(void **state)
{
    static const char *const first[] = {"ant", "cat", "dog"}, *const second[] = {"bee", "cat"},
                             *const third[] = {"ant", "cow", "dog"};
    static const int64_t united[] = {0, 1, 2, 3, 1}, ignored[] = {0, 1, 2, 0, 1};
    char folder[256], spec[1000];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    write_classes(folder, "a", first, 3);
    write_classes(folder, "b", second, 2);
    snprintf(spec, sizeof spec, "concat:(npy:%s/a),(npy:%s/b)", folder, folder);
    assert_fails(stk_dataset_open(*state, spec, &d, &err), STK_EINVAL, &err, "3 classes");
    write_classes(folder, "c", third, 3);
    snprintf(spec, sizeof spec, "concat:(npy:%s/a),(npy:%s/c)", folder, folder);
    assert_fails(stk_dataset_open(*state, spec, &d, &err), STK_EINVAL, &err, "'cow'");
    snprintf(spec, sizeof spec, "concat:(npy:%s/a?subset=0:2),(npy:%s/a)", folder, folder);
    d = numbered_open(*state, spec);
    assert_int_equal(d->num_classes, 3);
    assert_string_equal(d->classes[2], "dog");
    stk_dataset_close(&d);
    for (int ignore = 0; ignore < 2; ignore++) {
        snprintf(spec, sizeof spec, "concat:(npy:%s/a),(npy:%s/b)?classes=%s", folder, folder,
                 ignore ? "ignore" : "unite");
        d = numbered_open(*state, spec);
        assert_int_equal(d->num_classes, ignore ? 0 : 4);
        samples *s = samples_range(d, 0, 5);
        for (int i = 0; i < 5; i++) {
            check_value(s, (size_t)i, i < 3 ? first[i][0] : second[i - 3][0]);
            assert_int_equal(s->label[i], (ignore ? ignored : united)[i]);
            if (!ignore)
                assert_int_equal(d->classes[s->label[i]][0],
                                 i < 3 ? first[i][0] : second[i - 3][0]);
        }
        samples_free(s);
        stk_dataset_close(&d);
    }
    snprintf(spec, sizeof spec, "concat:(synthetic:),(synthetic:)?classes=unite");
    assert_fails(stk_dataset_open(*state, spec, &d, &err), STK_EINVAL, &err, "classes=");
    test_folder_remove(folder);
}

static void add_line(void *user, const char *name, const char *value)
{
    char *text = user;
    size_t used = strlen(text);

    snprintf(text + used, 2000 - used, "%s: %s\n", name, value);
}

static void test_described(void **state)
{
    place p;
    char text[2000] = "";
    stk_error err;
    begin(&p, state);
    stk_dataset *d = open_two(&p, "");

    assert_ok(stk_dataset_describe(d, add_line, text, &err), &err);
    assert_non_null(strstr(text, "dataset: concat\n"));
    assert_non_null(strstr(text, "source 0: tokens, samples 0:100\n"));
    assert_non_null(strstr(text, "source 1: tokens, samples 100:150\n"));
    stk_dataset_close(&d);
    test_folder_remove(p.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_one_is_a_sample_of_itself),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_described),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
