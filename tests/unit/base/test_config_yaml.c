/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

static void test_maps_become_dotted_keys(void **state)
{
    fixture *f = *state;

    loads(f, "# a run\n"
             "bench:\n"
             "  num_epochs: 3\n"
             "  dataset: 'mnist:slow+file://DIR?latency=5ms'\n"
             "loader:\n"
             "  batch-size: 64   # per rank\n"
             "  num_workers: [0, 1, auto]\n"
             "  shuffle:\n"
             "    - none\n"
             "    - \"full\"\n"
             "a: {b: {c: d, e: f}, g: h}\n"
             "dotted.key: x\n");
    holds(f, "bench.num_epochs", "3");
    holds(f, "bench.dataset", "mnist:slow+file://DIR?latency=5ms");
    holds(f, "loader.batch_size", "64");
    holds(f, "loader.batch-size", "64");
    holds(f, "a.b.c", "d");
    holds(f, "a.b.e", "f");
    holds(f, "a.g", "h");
    holds(f, "dotted.key", "x");
    assert_int_equal(stk_config_count(f->config, "loader.num_workers"), 3);
    assert_string_equal(stk_config_get(f->config, "loader.num_workers", 2), "auto");
    assert_string_equal(stk_config_get(f->config, "loader.shuffle", 1), "full");
    assert_int_equal(stk_config_count(f->config, "loader"), 0);
    assert_null(stk_config_get(f->config, "nothing", 0));
    assert_int_equal(stk_config_combinations(f->config), 6);
}

static void test_empty_texts(void **state)
{
    fixture *f = *state;
    loader_options o;

    loads(f, "");
    loads(f, "# only a comment\n");
    loads(f, "---\n...\n");
    loads(f, "~");
    loads(f, "{}");
    loads(f, "\xef\xbb\xbfloader:\n  batch_size: 4\n");
    loads(f, "loader:\n  num_workers:\n  drop_last: ~\n  transforms: null\nother: {}\nbench:\n");
    assert_int_equal(stk_config_count(f->config, "loader.num_workers"), 0);
    assert_int_equal(stk_config_combinations(f->config), 1);
    stk_options_init(&loader_table, &o, sizeof o);
    assert_ok(stk_config_apply(f->config, &loader_table, 0, &o, &f->err), &f->err);
    assert_int_equal(o.num_workers, STK_AUTO);
    assert_int_equal(o.batch_size, 4);
    assert_null(o.transforms);
    /* A section without keys gives nothing, whoever has it. */
    assert_ok(stk_config_finish(f->config, &f->err), &f->err);
    /* Quoted, it is a text. */
    loads(f, "loader: {transforms: 'null'}");
    holds(f, "loader.transforms", "null");
    loads(f, "loader: {transforms: ''}");
    holds(f, "loader.transforms", "");
}

static void test_hostile_texts(void **state)
{
    fixture *f = *state;

    refuses(f, "a: 1\nb: [1, [2]]\n", "run.yaml:2:8: b: a list holds plain values only");
    refuses(f, "a: 1\nb:\n  - c: 2\n", "run.yaml:3:5: b: a map in a list is {class_path");
    refuses(f, "a: []\n", "run.yaml:1:5: a: the list is empty");
    refuses(f, "a: [1, ]\nb: [1,, 2]\n", "run.yaml:2:7");
    refuses(f, "a: [1, ~]\n", "a value of the list is empty");
    refuses(f, "- a\n- b\n", "run.yaml:1:1: a configuration begins with a map");
    refuses(f, "hello", "a configuration begins with a map");
    refuses(f, "a: 1\na: 2\n", "run.yaml:2:1: a: the key is there twice, first in line 1");
    refuses(f, "a: {b: 1}\na: {c: 2}\n",
            "run.yaml:2:1: a: the key is there twice, first in line 1");
    refuses(f, "a: {b: 1}\na.b: 2\n", "a.b: the key is there twice");
    refuses(f, "a-b: 1\na_b: 2\n", "a_b: the key is there twice");
    refuses(f, "a: 1\na: {b: 1}\n", "there twice");
    refuses(f, "a: {b: 1}\na: 1\n", "there twice");
    refuses(f, "a: &x 1\nb: *x\n", "run.yaml:2:4: b: an alias");
    refuses(f, "a: &x [1]\nb: [*x]\n", "an alias");
    refuses(f, "a: &x {b: 1}\n<<: *x\n", "run.yaml:2:5: <<: an alias");
    refuses(f, "a: &x 1\n*x : 2\n", "an alias");
    refuses(f, "a: !!python/object:os.system ls\n", "run.yaml:1:4: a: a tag");
    refuses(f, "a: !x [1]\n", "a: a tag");
    refuses(f, "a: !x {b: 1}\n", "a: a tag");
    refuses(f, "!x {b: 1}\n", "a tag");
    refuses(f, "!x b: 1\n", "a tag");
    refuses(f, "? [a, b]\n: 1\n", "a key is a plain word");
    refuses(f, "? {a: b}\n: 1\n", "a key is a plain word");
    refuses(f, "'': 1\n", "a key is empty");
    refuses(f, ": 1\n", "run.yaml:1:1: did not find expected key");
    refuses(f, "{: 1}\n", "run.yaml:1:2: did not find expected node");
    refuses(f, ".a: 1\n", "an empty part around a '.'");
    refuses(f, "a.: 1\n", "an empty part around a '.'");
    refuses(f, "a..b: 1\n", "an empty part around a '.'");
    refuses(f, "\"a\\nb\": 1\n", "a control character");
    refuses(f, "a: 1\n---\nb: 2\n", "run.yaml:2:1: a second document");
    refuses(f, "a:\n\tb: 1\n", "run.yaml:2:1: found character that cannot start any token");
    refuses(f, "a:\n\tb: 1\n", "tabs cannot indent YAML, use spaces");
    refuses(f, "\t", "tabs cannot indent");
    refuses(f, "a: \"unclosed\n", "run.yaml:2:1: found unexpected end of stream");
    refuses(f, "a: {b: 1\n", "run.yaml:2:1: did not find expected ',' or '}'");
    refuses(f, "a: 1\n b: 2\n", "run.yaml:2:");
    refuses(f, "a: @x\n", "run.yaml:1:4");
    refuses(f, "%YAML 9.9\n---\na: 1\n", "incompatible YAML document");
    refuses_bytes(f, "a: \"x\\0y\"\n", 10, STK_EFORMAT, "a value has a zero byte");
    refuses_bytes(f, "a: x\0y\n", 7, STK_EFORMAT, "run.yaml:1:5: not UTF-8 text");
    refuses_bytes(f, "a: 1\nb: \xff\xfe\n", 11, STK_EFORMAT, "run.yaml:2:4: not UTF-8 text");
    refuses_bytes(f, "b: \xc3\xa9\xe2\x82\n", 8, STK_EFORMAT, "run.yaml:1:6: not UTF-8 text");
    refuses_bytes(f,
                  "\xff\xfe"
                  "a\0:\0 \0b\0",
                  10, STK_EFORMAT, "not UTF-8 text");
    refuses_bytes(f, "\x89PNG\r\n\x1a\n", 8, STK_EFORMAT, "not UTF-8 text");
    refuses_bytes(f, "b: \xed\xa0\x80\n", 7, STK_EFORMAT, "not UTF-8 text");
    refuses_bytes(f, "b: \xc0\xaf\n", 6, STK_EFORMAT, "not UTF-8 text");
    refuses_bytes(f, "\x1b[31m: 1\n", 9, STK_EFORMAT, "not UTF-8 text");
    assert_int_equal(stk_config_load_text(f->config, "x", "a: [", 4, NULL), STK_EFORMAT);
}

/* Repeat `piece` until `size` bytes, between `head` and `tail`. */
static char *repeated(const char *head, const char *piece, size_t times, const char *tail,
                      size_t *length)
{
    size_t head_length = strlen(head), piece_length = strlen(piece), tail_length = strlen(tail);
    char *text = malloc(head_length + piece_length * times + tail_length + 1);

    memcpy(text, head, head_length);
    for (size_t i = 0; i < times; i++)
        memcpy(text + head_length + i * piece_length, piece, piece_length);
    memcpy(text + head_length + times * piece_length, tail, tail_length + 1);
    *length = head_length + piece_length * times + tail_length;
    return text;
}

static void test_huge_texts(void **state)
{
    fixture *f = *state;
    size_t n;
    char *text;

    text = repeated("", "{a: ", 16, "1}}}}}}}}}}}}}}}}", &n);
    assert_ok(stk_config_load_text(f->config, "run.yaml", text, n, &f->err), &f->err);
    holds(f, "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a", "1");
    free(text);
    static const struct {
        const char *piece, *part;
        size_t times;
    } deep[] = {{"{a: ", "maps nest deeper than 16", 17},
                {"{a: ", "maps nest deeper than 16", 1000000},
                {"[", "begins with a map", 4000000},
                {"{", "a key is a plain word", 4000000},
                {"? ", "", 1000000},
                {"- ", "begins with a map", 2000000},
                {"a: [", "a map in a list is", 1000000},
                {"&x ", "", 1000000},
                {"\"", "", 4000000},
                {"#", NULL, 4000000},
                {"\n", NULL, 4000000},
                {"%", "", 4000000}};
    for (size_t i = 0; i < STK_COUNT(deep); i++) {
        text = repeated("", deep[i].piece, deep[i].times, "", &n);
        stk_status status = stk_config_load_text(f->config, "run.yaml", text, n, &f->err);
        if (!deep[i].part)
            assert_ok(status, &f->err);
        else
            assert_true(status == STK_EFORMAT || status == STK_ELIMIT);
        if (deep[i].part && !strstr(f->err.text, deep[i].part))
            fail_msg("%s", f->err.text);
        free(text);
    }
    /* One scalar of 4 MiB is a text like others; a byte more of file is refused. */
    text = repeated("big: ", "x", STK_CONFIG_MAX_FILE - 5, "", &n);
    assert_ok(stk_config_load_text(f->config, "run.yaml", text, n, &f->err), &f->err);
    assert_int_equal(strlen(stk_config_get(f->config, "big", 0)), STK_CONFIG_MAX_FILE - 5);
    free(text);
    text = repeated("big: ", "x", STK_CONFIG_MAX_FILE - 4, "", &n);
    refuses_bytes(f, text, n, STK_ELIMIT, "larger than 4 MiB");
    free(text);
    text = repeated("", "k", 256, ": 1", &n);
    refuses_bytes(f, text, n, STK_EFORMAT, "a key is longer than 255 bytes");
    free(text);
    text = repeated("a: [", "1,", 65537, "1]", &n);
    refuses_bytes(f, text, n, STK_ELIMIT, "more than 65536 values");
    free(text);
}

static void test_many_keys(void **state)
{
    fixture *f = *state;
    size_t size = 4097 * 32, used = 0;
    char *text = malloc(size);

    for (int i = 0; i < 4096; i++)
        used += (size_t)snprintf(text + used, size - used, "k%d: [1, 2]\n", i);
    assert_ok(stk_config_load_text(f->config, "run.yaml", text, used, &f->err), &f->err);
    /* 2^4096 combinations: nobody can count so far, and the last ones still have their values. */
    assert_true(stk_config_combinations(f->config) == UINT64_MAX);
    assert_fails(stk_config_set(f->config, "one_more", "1", false, &f->err), STK_ELIMIT, &f->err,
                 "more than 4096");
    assert_ok(stk_config_set(f->config, "k17", "5", false, &f->err), &f->err);
    holds(f, "k17", "5");
    free(text);
    used = 0;
    text = malloc(size);
    for (int i = 0; i < 4097; i++)
        used += (size_t)snprintf(text + used, size - used, "m%d: {}\n", i);
    refuses_bytes(f, text, used, STK_ELIMIT, "more than 4096 maps");
    free(text);
}

static void test_files(void **state)
{
    fixture *f = *state;
    char folder[256], path[300];

    test_folder(folder);
    test_write(folder, "a.yaml", "loader:\n  batch_size: 4\n", 24);
    snprintf(path, sizeof path, "%s/a.yaml", folder);
    assert_ok(stk_config_load(f->config, path, &f->err), &f->err);
    holds(f, "loader.batch_size", "4");
    snprintf(path, sizeof path, "%s/b.yaml", folder);
    assert_fails(stk_config_load(f->config, path, &f->err), STK_ENOENT, &f->err,
                 "b.yaml: No such file");
    assert_int_equal(stk_config_load(f->config, folder, &f->err), STK_EINVAL);
    assert_non_null(strstr(f->err.text, "directory"));
    char *big = calloc(1, STK_CONFIG_MAX_FILE + 10);
    test_write(folder, "big.yaml", big, STK_CONFIG_MAX_FILE + 10);
    snprintf(path, sizeof path, "%s/big.yaml", folder);
    assert_fails(stk_config_load(f->config, path, &f->err), STK_ELIMIT, &f->err,
                 "larger than 4 MiB");
    free(big);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_maps_become_dotted_keys),
        TEST(test_empty_texts),
        TEST(test_hostile_texts),
        TEST(test_huge_texts),
        TEST(test_many_keys),
        TEST(test_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
