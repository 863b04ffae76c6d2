/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"
#include "config_fixture.h"
#include "support/faults.h"
#include "support/text.h"

static void set_values(fixture *f, const char *text, size_t count, const char *const *expected)
{
    assert_ok(stk_config_set(f->config, "k", text, true, &f->err), &f->err);
    assert_int_equal(stk_config_count(f->config, "k"), count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(stk_config_get(f->config, "k", i), expected[i]);
}

static void test_command_line(void **state)
{
    fixture *f = *state;

    set_values(f, "0,1,2,auto", 4, (const char *[]){"0", "1", "2", "auto"});
    set_values(f, "7", 1, (const char *[]){"7"});
    set_values(f, "", 1, (const char *[]){""});
    set_values(f, " 1 ,  2", 2, (const char *[]){"1", "2"});
    set_values(f, "[0, 1]", 2, (const char *[]){"0", "1"});
    set_values(f, "[a],[b,c]", 2, (const char *[]){"[a]", "[b,c]"});
    set_values(f, "crop(28, padding=4),pad({1,2},[3,4])", 2,
               (const char *[]){"crop(28, padding=4)", "pad({1,2},[3,4])"});
    set_values(f, "'a,b',\"c,d\",e'f,g'h", 3, (const char *[]){"a,b", "c,d", "e'f,g'h"});
    set_values(f, "'a'b'c'", 1, (const char *[]){"'a'b'c'"});
    static const char *const bad[][2] = {
        {"1,,2", "a value between the commas is empty"},
        {",", "empty"},
        {"1,", "empty"},
        {"crop(1,2", "a bracket is not closed"},
        {"1)", "no opening one"},
        {"(1]", "no opening one"},
        {"'a,b", "a quote is not closed"},
        {"[1,2],,", "empty"},
        {"((((((((((((((((((((((((((((((((((1", "nest deeper than 32"}};
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        assert_fails(stk_config_set(f->config, "k", bad[i][0], true, &f->err), STK_EINVAL, &f->err,
                     bad[i][1]);
        assert_fails(stk_config_set(f->config, "k", bad[i][0], true, &f->err), STK_EINVAL, &f->err,
                     bad[i][0]);
    }
    /* What failed has changed nothing; without a sweep a text is a text. */
    assert_string_equal(stk_config_get(f->config, "k", 0), "'a'b'c'");
    assert_ok(stk_config_set(f->config, "K-x", "1,2,(", false, &f->err), &f->err);
    holds(f, "K_x", "1,2,(");
    assert_fails(stk_config_set(f->config, "", "1", false, &f->err), STK_EINVAL, &f->err,
                 "a key is empty");
    assert_fails(stk_config_set(f->config, "a..b", "1", true, &f->err), STK_EINVAL, &f->err,
                 "empty part");
}

static void test_later_settings_replace(void **state)
{
    fixture *f = *state;

    loads(f, "loader: {batch_size: 4, num_workers: [1, 2]}\n");
    const char *first = stk_config_get(f->config, "loader.batch_size", 0);
    loads(f, "loader: {batch_size: 8}\n");
    assert_ok(stk_config_set(f->config, "loader.num-workers", "0", true, &f->err), &f->err);
    holds(f, "loader.batch_size", "8");
    holds(f, "loader.num_workers", "0");
    /* The old text is still there for whoever holds it. */
    assert_string_equal(first, "4");
}

/* The value of a key in a combination, where `below` combinations are of the keys after it. */
static const char *chosen(fixture *f, const char *key, uint64_t which, uint64_t below, uint64_t n)
{
    return stk_config_get(f->config, key, (size_t)(which / below % n));
}

/* A ladder goes from the first value of every key to the last, one key after the other. */
static void test_rungs(void **state)
{
    static const struct {
        const char *workers, *shuffle, *size;
    } rungs[] = {{"0", "none", "8"},
                 {"1", "none", "8"},
                 {"2", "none", "8"},
                 {"2", "full", "8"},
                 {"2", "full", "16"}};
    fixture *f = *state;

    loads(f, "loader: {seed: 3}\n");
    assert_int_equal(stk__config_rungs(f->config), 1);
    assert_int_equal(stk__config_rung(f->config, 0), 0);
    loads(f, "loader:\n  num_workers: [0, 1, 2]\n  shuffle: [none, full]\n  batch_size: [8, 16]\n");
    assert_int_equal(stk__config_rungs(f->config), 5);
    for (uint64_t i = 0; i < 5; i++) {
        const uint64_t which = stk__config_rung(f->config, i);
        char text[80], wanted[80];
        snprintf(wanted, sizeof wanted, "%s %s %s", rungs[i].workers, rungs[i].shuffle,
                 rungs[i].size);
        snprintf(text, sizeof text, "%s %s %s", chosen(f, "loader.num_workers", which, 4, 3),
                 chosen(f, "loader.shuffle", which, 2, 2),
                 chosen(f, "loader.batch_size", which, 1, 2));
        assert_string_equal(text, wanted);
    }
    /* Beyond the last rung it stays there. */
    assert_int_equal(stk__config_rung(f->config, 5), stk_config_combinations(f->config) - 1);
    assert_int_equal(stk__config_rung(f->config, UINT64_MAX),
                     stk_config_combinations(f->config) - 1);
}

static void test_combinations(void **state)
{
    fixture *f = *state;
    loader_options o;
    size_t n = 0;

    loads(f, "loader:\n  shuffle: [none, full]\n  batch_size: 32\n  num_workers: [0, 1, auto]\n");
    assert_ok(stk_config_set(f->config, "loader.drop_last", "no,yes", true, &f->err), &f->err);
    assert_int_equal(stk_config_combinations(f->config), 12);
    /* Keys in the order given, the last fastest. */
    static const int64_t workers[] = {0, 1, STK_AUTO};
    for (int shuffle = 0; shuffle < 2; shuffle++)
        for (int w = 0; w < 3; w++)
            for (int drop = 0; drop < 2; drop++) {
                stk_options_init(&loader_table, &o, sizeof o);
                assert_ok(stk_config_apply(f->config, &loader_table, n++, &o, &f->err), &f->err);
                assert_int_equal(o.shuffle, shuffle);
                assert_int_equal(o.num_workers, workers[w]);
                assert_int_equal(o.drop_last, drop);
                assert_int_equal(o.batch_size, 32);
            }
    assert_fails(stk_config_apply(f->config, &loader_table, 12, &o, &f->err), STK_EINVAL, &f->err,
                 "combination 12 of a configuration that has 12");
    assert_ok(stk_config_finish(f->config, &f->err), &f->err);
}

static void test_apply_errors(void **state)
{
    fixture *f = *state;
    loader_options o;

    stk_options_init(&loader_table, &o, sizeof o);
    loads(f, "loader:\n  batch_size: 32\n  num_workers: [0, 1, many]\n");
    /* Also the value of a combination that comes later is looked at. */
    assert_fails(stk_config_apply(f->config, &loader_table, 0, &o, &f->err), STK_EINVAL, &f->err,
                 "run.yaml:3:23: loader.num_workers: 'many' is not allowed; it takes auto or a "
                 "whole number, 0..1024");
    assert_string_equal(f->err.key, "num_workers");
    loads(f, "loader:\n  num_wrokers: 1\n");
    assert_ok(stk_config_set(f->config, "loader.num_workers", "1", true, &f->err), &f->err);
    assert_fails(stk_config_apply(f->config, &loader_table, 0, &o, &f->err), STK_EINVAL, &f->err,
                 "run.yaml:2:3: loader: unknown option 'num_wrokers'; did you mean 'num_workers'?");
    assert_int_equal(stk_config_apply(f->config, &loader_table, 0, &o, NULL), STK_EINVAL);
    assert_fails(stk_config_set(f->config, "loader.num_workers", "1,,", true, &f->err), STK_EINVAL,
                 &f->err, "empty");
}

/* What is set in one configuration wins in the other; all else stays, with its sweep. */
static void test_merge(void **state)
{
    fixture *f = *state;
    stk_config *into;
    loader_options o;

    assert_ok(stk_config_create(f->context, &into, &f->err), &f->err);
    assert_ok(stk_config_set(into, "loader.batch_size", "7", false, &f->err), &f->err);
    assert_ok(stk_config_set(into, "loader.shuffle", "block", false, &f->err), &f->err);
    assert_ok(stk_config_set(into, "bench.dataset", "x", false, &f->err), &f->err);
    loads(f, "loader:\n  batch_size: [32, 64]\n  transforms: 'a, b'\n  drop_last:\n"
             "bench:\n  dataset: y\n");
    assert_ok(stk_config_merge(into, f->config, &loader_table, 1, NULL, &f->err), &f->err);
    assert_int_equal(stk_config_count(into, "loader.batch_size"), 1);
    assert_string_equal(stk_config_get(into, "loader.batch_size", 0), "64");
    assert_string_equal(stk_config_get(into, "loader.transforms", 0), "a, b");
    assert_string_equal(stk_config_get(into, "loader.shuffle", 0), "block");
    assert_int_equal(stk_config_count(into, "loader.drop_last"), 0);
    assert_int_equal(stk_config_count(into, "loader.num_workers"), 0);
    assert_string_equal(stk_config_get(into, "bench.dataset", 0), "x");
    /* Values of a struct, for what is set. */
    stk_options_init(&loader_table, &o, sizeof o);
    o.batch_size = 5;
    o.num_workers = 3;
    o.transforms = "c";
    assert_ok(stk_config_merge(into, f->config, &loader_table, 0, &o, &f->err), &f->err);
    assert_string_equal(stk_config_get(into, "loader.batch_size", 0), "5");
    assert_string_equal(stk_config_get(into, "loader.transforms", 0), "c");
    assert_int_equal(stk_config_count(into, "loader.num_workers"), 0);
    /* Any value of the sweep that is wrong is said, with its place. */
    loads(f, "loader:\n  batch_size: [32, many]\n");
    assert_fails(stk_config_merge(into, f->config, &loader_table, 0, NULL, &f->err), STK_EINVAL,
                 &f->err, "run.yaml:2:20: loader.batch_size: 'many'");
    assert_string_equal(stk_config_get(into, "loader.batch_size", 0), "5");
    stk_config_destroy(&into);
}

static void test_null_of_unknown_option(void **state)
{
    static const stk_option rows[] = {{.name = "max_epochs", .offset = sizeof(uint64_t)}};
    static const stk_option_table trainer = {"trainer", "", 2 * sizeof(uint64_t), rows, 1};
    fixture *f = *state;
    loader_options o;
    uint64_t room[2] = {sizeof room};

    stk_options_init(&loader_table, &o, sizeof o);
    /* Lightning's own that is not given, as in a file that it saved. */
    loads(f, "trainer:\n  plugins:\n  model_registry: null\nweights_only: ~\nbench:\n");
    assert_ok(stk_config_apply(f->config, &loader_table, 0, &o, &f->err), &f->err);
    assert_ok(stk_config_apply(f->config, &trainer, 0, room, &f->err), &f->err);
    assert_ok(stk_config_finish(f->config, &f->err), &f->err);
    loads(f, "trainer: {max_epoch: null}\n");
    assert_fails(stk_config_apply(f->config, &trainer, 0, room, &f->err), STK_EINVAL, &f->err,
                 "run.yaml:1:11: trainer: unknown option 'max_epoch'; did you mean 'max_epochs'?");
    /* Of another section, and of none. */
    loads(f, "loadr:\n  shuffle: null\n");
    assert_fails(stk_config_finish(f->config, &f->err), STK_EINVAL, &f->err,
                 "unknown key 'loadr.shuffle'; did you mean 'loader.shuffle'?");
}

static void test_null_of_a_key(void **state)
{
    fixture *f = *state;
    loader_options o;

    stk_options_init(&loader_table, &o, sizeof o);
    loads(f, "shuffle: null\n");
    assert_ok(stk_config_apply(f->config, &loader_table, 0, &o, &f->err), &f->err);
    assert_fails(stk_config_finish(f->config, &f->err), STK_EINVAL, &f->err,
                 "unknown key 'shuffle'; did you mean 'loader.shuffle'?");
    stk_config_destroy(&f->config);
    assert_ok(stk_config_create(f->context, &f->config, &f->err), &f->err);
    loads(f, "loader:\n  shufle: ''\n");
    assert_fails(stk_config_apply(f->config, &loader_table, 0, &o, &f->err), STK_EINVAL, &f->err,
                 "did you mean 'shuffle'?");
}

static void test_command_line_has_no_place(void **state)
{
    fixture *f = *state;
    loader_options o;

    stk_options_init(&loader_table, &o, sizeof o);
    assert_ok(stk_config_set(f->config, "loader.batch-size", "0", true, &f->err), &f->err);
    assert_fails(stk_config_apply(f->config, &loader_table, 0, &o, &f->err), STK_EINVAL, &f->err,
                 "loader.batch_size: '0' is out of range; it takes 1..1000000000");
    assert_memory_equal(f->err.text, "loader", 6);
}

static void test_finish_names_what_nobody_took(void **state)
{
    fixture *f = *state;
    loader_options o;
    bench_options b;

    stk_options_init(&loader_table, &o, sizeof o);
    stk_options_init(&bench_table, &b, sizeof b);
    loads(f, "bench:\n  dataset: 'digits:'\nloadr:\n  batch_size: 32\n");
    assert_ok(stk_config_apply(f->config, &loader_table, 0, &o, &f->err), &f->err);
    assert_ok(stk_config_apply(f->config, &bench_table, 0, &b, &f->err), &f->err);
    assert_fails(stk_config_finish(f->config, &f->err), STK_EINVAL, &f->err,
                 "run.yaml:4:3: unknown key 'loadr.batch_size'; did you mean 'loader.batch_size'?");
    assert_non_null(stk_config_get(f->config, "loadr.batch_size", 0)); /* taken by hand */
    assert_ok(stk_config_finish(f->config, &f->err), &f->err);
    assert_ok(stk_config_set(f->config, "dataset", "x", false, &f->err), &f->err);
    assert_fails(stk_config_finish(f->config, &f->err), STK_EINVAL, &f->err,
                 "unknown key 'dataset'; did you mean 'bench.dataset'?");
    assert_string_equal(b.dataset, "digits:");
}

/* A table without a name has the keys at the top. */
static void test_top_table(void **state)
{
    static const stk_option option = {
        "dataset", STK_OPTION_STRING, offsetof(bench_options, dataset), NULL, 0, 0, NULL, NULL,
        "Spec."};
    static const stk_option size = {
        "size", STK_OPTION_UINT, offsetof(bench_options, num_epochs), NULL, 0, 0, NULL,
        NULL,   "Size."};
    const stk_option top_options[] = {option, size};
    const stk_option_table top = {"", "Top.", sizeof(bench_options), top_options, 2};
    fixture *f = *state;
    loader_options o;
    bench_options b;

    stk_options_init(&top, &b, sizeof b);
    stk_options_init(&loader_table, &o, sizeof o);
    loads(f, "loader:\ndataset: 'digits:'\nsizes: 3\n");
    assert_ok(stk_config_apply(f->config, &top, 0, &b, &f->err), &f->err);
    assert_ok(stk_config_apply(f->config, &loader_table, 0, &o, &f->err), &f->err);
    assert_string_equal(b.dataset, "digits:");
    assert_fails(stk_config_finish(f->config, &f->err), STK_EINVAL, &f->err,
                 "run.yaml:3:1: unknown key 'sizes'; did you mean 'size'?");
    loads(f, "size: big");
    assert_fails(stk_config_apply(f->config, &top, 0, &b, &f->err), STK_EINVAL, &f->err,
                 "run.yaml:1:7: size: 'big' is not allowed");
}

/* ---- Each allocation fails in turn ----------------------------------------------------------- */

static stk_status whole_life(stk_context *context, stk_error *err)
{
    static const char text[] =
        "bench: {dataset: x}\nloader:\n  batch_size: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]\n";
    stk_config *config;
    loader_options o;
    bench_options b;
    stk_status status = stk_config_create(context, &config, err);

    stk_options_init(&loader_table, &o, sizeof o);
    stk_options_init(&bench_table, &b, sizeof b);
    if (status == STK_OK)
        status = stk_config_load_text(config, "run.yaml", text, sizeof text - 1, err);
    if (status == STK_OK)
        status = stk_config_set(config, "loader.num_workers", "0,1,2", true, err);
    if (status == STK_OK)
        status = stk_config_apply(config, &loader_table, 5, &o, err);
    if (status == STK_OK)
        status = stk_config_apply(config, &bench_table, 5, &b, err);
    if (status == STK_OK)
        status = stk_config_finish(config, err);
    char written[2048] = "";
    if (status == STK_OK)
        status = stk_config_write(config, test_keep_line, written, err);
    if (status == STK_OK)
        status = stk_config_merge(config, config, &loader_table, 5, NULL, err);
    stk_config_destroy(&config);
    return status;
}

/* Bytes that are no characters would be others when they are read again. */
static void test_written_bytes(void **state)
{
    fixture *f = *state;
    bench_options b;
    char text[2048] = "";

    assert_ok(stk_config_set(f->config, "bench.dataset", "r\xff", false, &f->err), &f->err);
    stk_options_init(&bench_table, &b, sizeof b);
    assert_ok(stk_config_apply(f->config, &bench_table, 0, &b, &f->err), &f->err);
    assert_fails(stk_config_write(f->config, test_keep_line, text, &f->err), STK_EFORMAT, &f->err,
                 "bench.dataset: 'r?' is not UTF-8 text");
    assert_string_equal(text, "");
    assert_ok(stk_config_set(f->config, "bench.dataset", "r\xc3\xa4", false, &f->err), &f->err);
    assert_ok(stk_config_write(f->config, test_keep_line, text, &f->err), &f->err);
    assert_non_null(strstr(text, "r\xc3\xa4"));
}

/* Values in one form, sections in the order of the tables; read again it is the same text. */
static void test_written(void **state)
{
    static const char expected[] = "stoker_version: 0.1.0\n"
                                   "plugins:\n"
                                   "  - a.so\n"
                                   "  - \"b c.so\"\n"
                                   "loader:\n"
                                   "  num_workers:\n"
                                   "    - 0\n"
                                   "    - auto\n"
                                   "  batch_size: 4\n"
                                   "  transforms: \"null\"\n"
                                   "bench:\n"
                                   "  dataset: \"a: \\\"x\\\" #\"\n";
    fixture *f = *state;
    loader_options o;
    bench_options b;
    char text[2048] = "", again[2048] = "";

    loads(f, "bench: {dataset: 'a: \"x\" #'}\nplugins: [a.so, b c.so]\n"
             "loader: {num_workers: [00, Auto], batch_size: 04, shuffle: ~, Transforms: 'null'}\n");
    for (int i = 0; i < 2; i++) {
        stk_options_init(&loader_table, &o, sizeof o);
        stk_options_init(&bench_table, &b, sizeof b);
        assert_ok(stk_config_apply(f->config, &loader_table, 0, &o, &f->err), &f->err);
        assert_ok(stk_config_apply(f->config, &bench_table, 0, &b, &f->err), &f->err);
        assert_ok(stk_config_write(f->config, test_keep_line, i ? again : text, &f->err), &f->err);
        if (i)
            break;
        assert_string_equal(text, expected);
        stk_config_destroy(&f->config);
        assert_ok(stk_config_create(f->context, &f->config, &f->err), &f->err);
        loads(f, text);
    }
    assert_string_equal(text, again);
}

static void test_version(void **state)
{
    static const char *const texts[][2] = {
        {"stoker_version: 0.1.1", "run.yaml:1:17: stoker_version: the configuration was written"},
        {"stoker_version: 1.0.0", "written by stoker 1.0.0"},
        {"stoker_version: 0.1", "'0.1' is no version"},
        {"stoker_version: 0.1.0.0", "no version"},
        {"stoker_version: [0.1.0, 0.1.0]", "no version"},
        {"stoker_version: 0.1.-1", "no version"},
        {"stoker_version: 0.1.", "no version"},
        {"stoker_version: 0.100000.0", "no version"}};
    fixture *f = *state;

    for (size_t i = 0; i < STK_COUNT(texts); i++)
        assert_fails(
            stk_config_load_text(f->config, "run.yaml", texts[i][0], strlen(texts[i][0]), &f->err),
            i < 2 ? STK_ENOTSUP : STK_EINVAL, &f->err, texts[i][1]);
    loads(f, "stoker_version: 0.1.0\n");
    assert_ok(stk_config_finish(f->config, &f->err), &f->err);
    loads(f, "stoker_version: 0.0.99999\n");
    loads(f, "stoker_version: ~\n");
}

static void test_failing_memory(void **state)
{
    stk_status status = STK_ENOMEM;
    stk_error err;
    int n;

    (void)state;
    for (n = 0; status != STK_OK && n < 1000; n++) {
        faults f = {.left = FAULTS_NONE};
        stk_context_options options;
        stk_context *context;
        stk_context_options_init(&options);
        options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
        assert_ok(stk_context_create(&options, &context, &err), &err);
        f.left = n;
        status = whole_life(context, &err);
        if (status != STK_OK)
            assert_fails(status, STK_ENOMEM, &err, "no memory for");
        stk_memory_stats stats = {.struct_size = sizeof stats};
        stk_context_memory(context, &stats);
        assert_int_equal(stats.bytes, 0);
        f.left = FAULTS_NONE;
        stk_context_destroy(&context);
    }
    assert_int_equal(status, STK_OK);
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_command_line),
        TEST(test_later_settings_replace),
        TEST(test_combinations),
        TEST(test_rungs),
        TEST(test_apply_errors),
        TEST(test_merge),
        TEST(test_null_of_unknown_option),
        TEST(test_null_of_a_key),
        TEST(test_command_line_has_no_place),
        TEST(test_finish_names_what_nobody_took),
        TEST(test_top_table),
        TEST(test_written),
        TEST(test_written_bytes),
        TEST(test_version),
        cmocka_unit_test(test_failing_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
