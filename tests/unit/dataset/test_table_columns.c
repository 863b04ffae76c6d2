/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: texts as numbers of names, columns of the names of folders, the lines of bad values. */
#include "table_rows.h"

#include "dataset/taken.h"

static void put_text(test_room *r, const char *key, const char *text)
{
    test_put(r->store, key, text, strlen(text));
}

static stk_dataset *open_good(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return d;
}

static void check_integer(stk_dataset *d, uint64_t index, const char *name, int64_t wanted)
{
    row *r = row_take(d, index);

    row_is_integer(r, name, wanted);
    row_free(r);
}

static void check_text(stk_dataset *d, uint64_t index, const char *name, const char *wanted)
{
    row *r = row_take(d, index);

    row_is_text(r, name, wanted);
    row_free(r);
}

static bool has_field(const stk_dataset *d, const char *name)
{
    for (uint32_t f = 0; f < d->num_fields; f++)
        if (strcmp(d->fields[f].name, name) == 0)
            return true;
    return false;
}

typedef struct wanted {
    const char *name;
    char value[300];
} wanted;

static void find_line(void *user, const char *name, const char *value)
{
    wanted *w = user;

    if (strcmp(name, w->name) == 0)
        snprintf(w->value, sizeof w->value, "%s", value);
}

static void check_line(stk_dataset *d, const char *name, const char *part)
{
    wanted w = {.name = name};
    stk_error err;

    assert_ok(stk_dataset_describe(d, find_line, &w, &err), &err);
    if (!strstr(w.value, part))
        fail_msg("%s: '%s' is not in '%s'", name, part, w.value);
}

/* ---- Categories ------------------------------------------------------------------------------ */

#define ANIMALS "target,size,x\ndog,small,1\ncat,large,2\ndog,,3\nbee,small,4\n"

static void test_learnt(void **state)
{
    test_room r = test_room_open("mem://k");

    (void)state;
    put_text(&r, "a.csv", ANIMALS);
    put_text(&r, "b.csv", "size,target,x\nhuge,ant,5\n");
    stk_dataset *d = open_good(
        r.ctx, "csv:mem://k?categories=target,size:small|large|huge&nulls=mask&where=x > 1");
    assert_int_equal(d->size, 4);
    /* One that is called as labels are is the label, of the classes that its names are, also those
     * of rows that are not taken. */
    assert_int_equal(d->num_classes, 4);
    assert_string_equal(d->classes[0], "ant");
    assert_string_equal(d->classes[3], "dog");
    check_integer(d, 0, "label", 2);
    check_integer(d, 1, "label", 3);
    check_integer(d, 3, "label", 0);
    check_integer(d, 0, "size", 1);
    check_integer(d, 2, "size", 0);
    check_integer(d, 3, "size", 2);
    row *none = row_take(d, 1);
    row_is(none, "size_mask", "\0", 1);
    row_is_integer(none, "size", 0);
    row_free(none);
    check_line(d, "categories of target", "4: ant bee cat dog");
    check_line(d, "categories of size", "3: small large huge");
    stk_dataset_close(&d);
    test_room_close(&r);
}

static void test_given(void **state)
{
    test_room r = test_room_open("mem://k");

    (void)state;
    put_text(&r, "a.csv", ANIMALS);
    stk_dataset *d = open_good(r.ctx, "csv:mem://k/a.csv?categories=target:cat|dog&columns=target");
    check_integer(d, 0, "label", 1);
    row_is_bad(d, 3, "'target' is none of the names");
    const uint64_t print = d->fingerprint;
    stk_dataset_close(&d);
    d = open_good(r.ctx, "csv:mem://k/a.csv?categories=target:dog|cat&columns=target");
    assert_true(print != d->fingerprint);
    stk_dataset_close(&d);
    table_refused(r.ctx, "csv:mem://k/a.csv?categories=colour", STK_EINVAL, "is not read");
    table_refused(r.ctx, "csv:mem://k/a.csv?categories=x", STK_EINVAL, "is no text");
    table_refused(r.ctx, "csv:mem://k/a.csv?categories=target,target", STK_EINVAL, "named twice");
    table_refused(r.ctx, "csv:mem://k/a.csv?categories=target:a|a", STK_EINVAL, "given twice");
    table_refused(r.ctx, "csv:mem://k/a.csv?categories=target:a|", STK_EINVAL, "empty");
    test_room_close(&r);
}

#define DICTIONARY                                                                                 \
    "parquet:" TESTS_DIR "/golden/parquet/dictionary_snappy.parquet?nulls=zero&columns=word"

/* Codes of a dictionary become numbers in the order of the texts, without holes. */
static void test_dictionary(void **state)
{
    enum { MOST = 512 };
    stk_context *ctx = test_context();
    stk_dataset *texts = open_good(ctx, DICTIONARY);
    stk_dataset *d = open_good(ctx, DICTIONARY "&categories=word");
    char(*seen)[64] = calloc(MOST, sizeof *seen);
    int64_t code, most = -1;

    (void)state;
    assert_non_null(seen);
    for (uint64_t i = 0; i < d->size; i++) {
        row *text = row_take(texts, i), *number = row_take(d, i);
        const stk_value *word = row_value(text, "word");
        memcpy(&code, row_value(number, "word")->data, sizeof code);
        assert_true(code >= 0 && code < MOST && word->size < 64);
        if (word->size && seen[code][0]) {
            assert_int_equal(strlen(seen[code]), word->size);
            assert_memory_equal(seen[code], word->data, word->size);
        } else if (word->size) {
            memcpy(seen[code], word->data, word->size);
            most = STK_MAX(most, code);
        }
        row_free(text);
        row_free(number);
    }
    assert_true(most > 1);
    for (int64_t k = 1; k <= most; k++)
        assert_true(seen[k][0] && strcmp(seen[k - 1], seen[k]) < 0);
    free(seen);
    stk_dataset_close(&d);
    stk_dataset_close(&texts);
    stk_context_destroy(&ctx);
}

/* ---- Names of folders ------------------------------------------------------------------------ */

static test_room hive(void)
{
    test_room r = test_room_open("mem://h");

    put_text(&r, "t/split=test/year=2023/a.csv", "x\n1\n2\n");
    put_text(&r, "t/split=train/year=2023/a.csv", "x\n3\n4\n5\n");
    put_text(&r, "t/split=train/year=2024/a.csv", "x\n6\n");
    return r;
}

static void test_folders(void **state)
{
    test_room r = hive();
    stk_dataset *d = open_good(r.ctx, "csv:mem://h/t");

    (void)state;
    assert_int_equal(d->size, 6);
    assert_int_equal(d->num_fields, 3);
    check_integer(d, 0, "x", 1);
    check_text(d, 0, "split", "test");
    check_integer(d, 0, "year", 2023);
    check_integer(d, 5, "x", 6);
    check_text(d, 5, "split", "train");
    check_integer(d, 5, "year", 2024);
    check_line(d, "column year", "int64, of the names of folders");
    stk_dataset_close(&d);
    d = open_good(r.ctx, "csv:mem://h/t?columns=x,year");
    assert_false(has_field(d, "split"));
    check_integer(d, 5, "year", 2024);
    const uint64_t print = d->fingerprint;
    stk_dataset_close(&d);
    test_room other = test_room_open("mem://h2");
    put_text(&other, "t/split=test/year=2023/a.csv", "x\n1\n2\n");
    put_text(&other, "t/split=train/year=2023/a.csv", "x\n3\n4\n5\n");
    put_text(&other, "t/split=train/year=2025/a.csv", "x\n6\n");
    d = open_good(other.ctx, "csv:mem://h2/t?columns=x,year");
    assert_true(print != d->fingerprint);
    stk_dataset_close(&d);
    test_room_close(&other);
    table_refused(r.ctx, "csv:mem://h/t?columns=year", STK_EINVAL, "add a column of the files");
    table_refused(r.ctx, "csv:mem://h/t?columns=x,month", STK_EINVAL, "x,split,year");
    test_room_close(&r);
}

/* What the names of folders decide is decided before a file is opened: one that is left out may be
 * no table at all. */
static void test_folders_where(void **state)
{
    test_room r = hive();
    stk_dataset *d;

    (void)state;
    put_text(&r, "t/split=test/year=2023/a.csv", "a,b\n\"open");
    d = open_good(r.ctx, "csv:mem://h/t?where=split == 'train'");
    assert_int_equal(d->size, 4);
    check_integer(d, 3, "x", 6);
    check_integer(d, 3, "year", 2024);
    check_line(d, "files left out", "1");
    stk_dataset_close(&d);
    d = open_good(r.ctx, "csv:mem://h/t?where=not split == 'test' and (x > 3 and year < 2024)");
    assert_int_equal(d->size, 2);
    check_integer(d, 0, "x", 4);
    stk_dataset_close(&d);
    d = open_good(r.ctx, "csv:mem://h/t?where=split == 'train' and (x == 3 or year == 2024)");
    assert_int_equal(d->size, 2);
    check_integer(d, 0, "x", 3);
    check_integer(d, 1, "x", 6);
    stk_dataset_close(&d);
    table_refused(r.ctx, "csv:mem://h/t?where=year == 1999", STK_EINVAL, "of 3 files none is left");
    table_refused(r.ctx, "csv:mem://h/t?where=year == '2023'", STK_EINVAL, "numbers");
    test_room_close(&r);
}

/* Texts of folders as numbers of names, those of all files, whichever are opened. */
static void test_folders_categories(void **state)
{
    test_room r = test_room_open("mem://h");

    (void)state;
    put_text(&r, "t/split=train/target=cat/a.csv", "x\n1\n2\n");
    put_text(&r, "t/split=train/target=ant/a.csv", "x\n3\n");
    put_text(&r, "t/split=test/target=bee/a.csv", "x\n4\n");
    stk_dataset *d = open_good(r.ctx, "csv:mem://h/t?categories=target&where=split == 'train'");
    assert_int_equal(d->size, 3);
    assert_int_equal(d->num_classes, 3);
    assert_string_equal(d->classes[1], "bee");
    check_text(d, 0, "split", "train");
    check_integer(d, 0, "x", 3);
    check_integer(d, 0, "label", 0);
    check_integer(d, 2, "label", 2);
    check_line(d, "categories of target", "3: ant bee cat");
    const uint64_t print = d->fingerprint;
    stk_dataset_close(&d);
    d = open_good(r.ctx, "csv:mem://h/t?categories=target:cat|ant|bee&where=split == 'train'");
    check_integer(d, 0, "label", 1);
    assert_true(print != d->fingerprint);
    stk_dataset_close(&d);
    /* Many rows at a time, and one: they are bad alike. */
    d = open_good(r.ctx, "csv:mem://h/t?categories=split,target:cat|bee");
    check_integer(d, 0, "split", 0);
    check_integer(d, 0, "label", 1);
    row_is_bad(d, 1, "the text of its folder 'target=' is none of the names");
    check_integer(d, 3, "split", 1);
    stk_dataset_close(&d);
    table_refused(r.ctx, "csv:mem://h/t?categories=target,target", STK_EINVAL, "named twice");
    test_room_close(&r);
    r = hive();
    table_refused(r.ctx, "csv:mem://h/t?categories=year", STK_EINVAL, "is no text");
    test_room_close(&r);
}

static void test_folders_odd(void **state)
{
    test_room r = test_room_open("mem://o");
    stk_dataset *d;

    (void)state;
    put_text(&r, "t/k=01/y=a%20b/c=1/a.csv", "c,x\n7,1\n");
    put_text(&r, "t/k=__HIVE_DEFAULT_PARTITION__/y=5/z=1/a.csv", "c,x\n8,2\n");
    d = open_good(r.ctx, "csv:mem://o/t?nulls=mask");
    /* `c` and `z` are not in all paths; the files' own column stays. */
    assert_false(has_field(d, "z"));
    check_integer(d, 0, "c", 7);
    check_integer(d, 0, "k", 1);
    check_text(d, 0, "y", "a b");
    check_text(d, 1, "y", "5");
    row *none = row_take(d, 1);
    row_is_integer(none, "k", 0);
    row_is(none, "k_mask", "\0", 1);
    row_free(none);
    stk_dataset_close(&d);
    d = open_good(r.ctx, "csv:mem://o/t");
    row_is_bad(d, 1, "'k=' has no value");
    stk_dataset_close(&d);
    d = open_good(r.ctx, "csv:mem://o/t?nulls=drop");
    assert_int_equal(d->size, 1);
    stk_dataset_close(&d);
    /* One that is not read does not drop anything. */
    d = open_good(r.ctx, "csv:mem://o/t?nulls=drop&columns=x");
    assert_int_equal(d->size, 2);
    stk_dataset_close(&d);
    /* A null is neither equal nor different. */
    table_refused(r.ctx, "csv:mem://o/t?where=k != 1", STK_EINVAL, "none is left");
    d = open_good(r.ctx, "csv:mem://o/t?where=k is null&nulls=zero");
    assert_int_equal(d->size, 1);
    check_integer(d, 0, "x", 2);
    stk_dataset_close(&d);
    /* The folder takes the place of a column. */
    put_text(&r, "u/x=9/a.csv", "c,x\n7,1\n");
    d = open_good(r.ctx, "csv:mem://o/u");
    check_integer(d, 0, "x", 9);
    check_line(d, "no fields", "x: a folder says");
    stk_dataset_close(&d);
    test_room_close(&r);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static void check_lines(test_room *r, const char *spec, const uint64_t *lines, uint64_t n)
{
    stk_dataset *d = open_good(r->ctx, spec);

    assert_int_equal(d->size, n);
    for (uint64_t i = 0; i < n; i++) {
        row *one = row_take(d, i);
        if (one->sample.line != lines[i])
            fail_msg("sample %d: line %d, not %d", (int)i, (int)one->sample.line, (int)lines[i]);
        row_free(one);
    }
    stk_dataset_close(&d);
}

static void test_lines(void **state)
{
    static const uint64_t csv[] = {3, 5, 8, 9}, jsonl[] = {1, 4};
    test_room r = test_room_open("mem://l");
    stk_dataset *d;
    stk__taken taken;
    stk_error err;

    (void)state;
    put_text(&r, "a.csv", "\nx,t\n1,a\n\n2,\"b\nc\nd\"\n3,e\r\n4,f");
    check_lines(&r, "csv:mem://l/a.csv", csv, 4);
    put_text(&r, "a.jsonl", "{\"x\": 1}\n\n  \n{\"x\": 2}\n");
    check_lines(&r, "jsonl:mem://l/a.jsonl", jsonl, 2);
    put_text(&r, "b.csv", "x\n1\n2\nthree\n");
    d = open_good(r.ctx, "csv:mem://l/b.csv?learn=2");
    stk_error_init(&err);
    assert_ok(stk__taken_open(&taken, d, &err), &err);
    assert_int_equal(stk__taken_read(&taken, 2, &err), STK_EFORMAT);
    assert_non_null(strstr(err.text, "b.csv:4: "));
    stk__taken_close(&taken);
    stk_dataset_close(&d);
    test_room_close(&r);
}

/* Lines are counted over the pieces that a file is read in. */
static void test_many_lines(void **state)
{
    enum { LINES = 30000 };
    test_room r = test_room_open("mem://m");
    char *text = malloc(LINES * 16);
    static const uint64_t some[] = {0, 1, 7777, 12345, LINES - 1};
    size_t used = (size_t)sprintf(text, "x\n");

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < LINES; i++)
        used += (size_t)sprintf(text + used, "%s%d\n", i % 10 == 5 ? "\n" : "", i);
    test_put(r.store, "a.csv", text, used);
    stk_dataset *d = open_good(r.ctx, "csv:mem://m/a.csv");
    for (size_t i = 0; i < STK_COUNT(some); i++) {
        row *one = row_take(d, some[i]);
        row_is_integer(one, "x", (int64_t)some[i]);
        assert_int_equal(one->sample.line, 2 + some[i] + (some[i] + 5) / 10);
        row_free(one);
    }
    stk_dataset_close(&d);
    used = 0;
    for (int i = 0; i < LINES; i++)
        used += (size_t)sprintf(text + used, "%s{\"x\":%d}\n", i % 10 == 5 ? "\n" : "", i);
    test_put(r.store, "a.jsonl", text, used);
    d = open_good(r.ctx, "jsonl:mem://m/a.jsonl");
    for (size_t i = 0; i < STK_COUNT(some); i++) {
        row *one = row_take(d, some[i]);
        assert_int_equal(one->sample.line, 1 + some[i] + (some[i] + 5) / 10);
        row_free(one);
    }
    stk_dataset_close(&d);
    free(text);
    test_room_close(&r);
}

/* ---- Names of columns ------------------------------------------------------------------------ */

static void test_names(void **state)
{
    test_room r = test_room_open("mem://k");
    char text[1100];

    (void)state;
    put_text(&r, "a.csv", "id,caf\xe9\n1,x\n");
    table_refused(r.ctx, "csv:mem://k/a.csv", STK_EFORMAT,
                  "a.csv: the name of column 2 is not UTF-8: 'caf?'; name the wanted columns by "
                  "columns=COLUMN,..., or write the file with names in UTF-8");
    table_refused(r.ctx, "csv:mem://k/a.csv?columns=id,caf\xe9", STK_EFORMAT, "is not UTF-8");
    stk_dataset *d = open_good(r.ctx, "csv:mem://k/a.csv?columns=id");
    assert_int_equal(d->num_fields, 1);
    stk_dataset_close(&d);
    put_text(&r, "a.jsonl", "{\"caf\xe9\":null,\"id\":2}\n"); /* of no type, too */
    table_refused(r.ctx, "jsonl:mem://k/a.jsonl", STK_EFORMAT, "the name of column 1 is not UTF-8");
    d = open_good(r.ctx, "jsonl:mem://k/a.jsonl?columns=id");
    stk_dataset_close(&d);
    put_text(&r, "b.csv", "caf\xc3\xa9\n1\n");
    d = open_good(r.ctx, "csv:mem://k/b.csv");
    assert_string_equal(d->fields[0].name, "caf\xc3\xa9");
    stk_dataset_close(&d);
    /* One that is too long is cut between characters. */
    snprintf(text, sizeof text, "%01023d\xc3\xa9,b\n1,2\n", 0);
    put_text(&r, "c.csv", text);
    d = open_good(r.ctx, "csv:mem://k/c.csv?header=true");
    assert_int_equal(strlen(d->fields[0].name), 1023);
    stk_dataset_close(&d);
    test_room_close(&r);
}

/* A name with a comma, or a colon, is in backticks, as where= has it. */
static void test_backticks(void **state)
{
    static const char *const wrong[] = {"`a,b", "`a,b`c", "`a,b`,`id`xc:d", "id,`", "`a,b`:"};
    test_room r = test_room_open("mem://k");

    (void)state;
    put_text(&r, "a.csv", "\"a,b\",id,\"c:d\"\n1,2,cat\n3,4,dog\n");
    stk_dataset *d = open_good(r.ctx, "csv:mem://k/a.csv?columns=`a,b`,`c:d`");
    assert_int_equal(d->num_fields, 2);
    check_integer(d, 1, "a,b", 3);
    check_text(d, 0, "c:d", "cat");
    stk_dataset_close(&d);
    d = open_good(r.ctx, "csv:mem://k/a.csv?columns=id,`a,b`&types=`a,b`:text&where=`a,b` == '3'");
    assert_int_equal(d->size, 1);
    check_integer(d, 0, "id", 4);
    check_text(d, 0, "a,b", "3");
    stk_dataset_close(&d);
    d = open_good(r.ctx, "csv:mem://k/a.csv?columns=`id`,`c:d`&types=id:int64&"
                         "categories=`c:d`:dog|cat");
    check_integer(d, 0, "c:d", 1);
    check_integer(d, 1, "c:d", 0);
    stk_dataset_close(&d);
    /* A name with a colon and none of the signs that part columns. */
    d = open_good(r.ctx, "csv:mem://k/a.csv?columns=c:d&types=c:d:bytes");
    assert_int_equal(d->num_fields, 1);
    stk_dataset_close(&d);
    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        char spec[100];
        snprintf(spec, sizeof spec, "csv:mem://k/a.csv?columns=%s", wrong[i]);
        table_refused(r.ctx, spec, STK_EINVAL, "half of two backticks");
    }
    table_refused(r.ctx, "csv:mem://k/a.csv?columns=``", STK_EINVAL, "has an empty name");
    table_refused(r.ctx, "csv:mem://k/a.csv?columns=a,b", STK_EINVAL, "no column 'a'");
    table_refused(r.ctx, "csv:mem://k/a.csv?categories=`c:d", STK_EINVAL, "in backticks");
    test_room_close(&r);
}

/* ---- Files of nothing ------------------------------------------------------------------------ */

/* Of empty files nothing is learnt, wherever they are, and the folders of the others stay theirs.
 */
static void test_empty_files(void **state)
{
    test_room r = test_room_open("mem://k");

    (void)state;
    put_text(&r, "d/s=x/1.csv", "");
    put_text(&r, "d/s=x/2.csv", "\xef\xbb\xbf\n\n");
    put_text(&r, "d/s=y/1.csv", "a,b\n1.5,7\n");
    put_text(&r, "d/s=y/2.csv", "");
    put_text(&r, "d/s=z/1.csv", "b,a\n8,2\n"); /* by itself `a` were an integer */
    put_text(&r, "d/s=z/2.csv", "");
    stk_dataset *d = open_good(r.ctx, "csv:mem://k/d");
    assert_int_equal(d->size, 2);
    row *a = row_take(d, 1);
    row_is_real(a, "a", 2);
    row_is_integer(a, "b", 8);
    row_is_text(a, "s", "z");
    row_free(a);
    check_text(d, 0, "s", "y");
    check_integer(d, 0, "b", 7);
    check_line(d, "files", "2, ");
    stk_dataset_close(&d);
    put_text(&r, "l/1.jsonl", "\n");
    put_text(&r, "l/2.jsonl", "{\"a\":1.5}\n");
    put_text(&r, "l/3.jsonl", "");
    put_text(&r, "l/4.jsonl", "{\"a\":2}\n");
    d = open_good(r.ctx, "jsonl:mem://k/l");
    assert_int_equal(d->size, 2);
    a = row_take(d, 1);
    row_is_real(a, "a", 2);
    row_free(a);
    stk_dataset_close(&d);
    table_refused(r.ctx, "csv:mem://k/d/s=x", STK_EFORMAT,
                  "has 2 files without a row; name files with rows");
    put_text(&r, "l/5.jsonl", "{}\n"); /* a row, though of nothing */
    table_refused(r.ctx, "jsonl:mem://k/l", STK_EFORMAT, "no line with a key");
    test_room_close(&r);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learnt),
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_dictionary),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_folders_where),
        cmocka_unit_test(test_folders_odd),
        cmocka_unit_test(test_folders_categories),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_backticks),
        cmocka_unit_test(test_empty_files),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_many_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
