/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/support.h"

typedef struct sample_options {
    uint32_t struct_size;
    bool drop_last;
    int64_t num_workers;
    int64_t max_errors;
    uint64_t seed;
    double rate_of_decay;
    uint64_t memory_budget;
    double bandwidth;
    double step_time;
    int32_t shuffle;
    int32_t on_error;
    int32_t mixed;
    const char *transforms;
} sample_options;

#define AT(member) offsetof(sample_options, member)

static const stk_option options[] = {
    {"drop_last", STK_OPTION_BOOL, AT(drop_last), "false", 0, 0, NULL, NULL,
     "Leave out a short last batch."},
    {"num_workers", STK_OPTION_INT, AT(num_workers), "auto", 0, 1024, "auto", NULL,
     "Threads that prepare samples."},
    {"max_errors", STK_OPTION_INT, AT(max_errors), "-1", -1, 1e18, NULL, NULL,
     "Bad samples allowed; -1: any number."},
    {"seed", STK_OPTION_UINT, AT(seed), "0", 0, 0, NULL, NULL, "Seed of the order."},
    {"rate_of_decay", STK_OPTION_DOUBLE, AT(rate_of_decay), "0.5", 0, 1, NULL, NULL, "A share."},
    {"memory_budget", STK_OPTION_SIZE, AT(memory_budget), "64MiB", 1 << 20, 1e15, NULL, NULL,
     "Memory bound, bytes."},
    {"bandwidth", STK_OPTION_RATE, AT(bandwidth), NULL, 0, 0, NULL, NULL, "Bytes per second."},
    {"step_time", STK_OPTION_DURATION, AT(step_time), "5ms", 0, 3600, NULL, NULL, "Seconds."},
    {"shuffle", STK_OPTION_ENUM, AT(shuffle), "none", 0, 0, "none|full|block", NULL,
     "Order of the samples."},
    {"on_error", STK_OPTION_ENUM, AT(on_error), "fail", 0, 0, "fail|skip|replace", NULL,
     "What a bad sample does."},
    {"mixed", STK_OPTION_ENUM, AT(mixed), "false", 0, 0, "false|true|block", NULL,
     "Mixed samples."},
    {"transforms", STK_OPTION_STRING, AT(transforms), NULL, 0, 0, NULL, "CHAIN",
     "Transforms in their order."},
};

static const stk_option_table table = {"loader", "The loader.", sizeof(sample_options), options,
                                       STK_COUNT(options)};

static sample_options fresh(void)
{
    sample_options o;

    memset(&o, 0xff, sizeof o);
    stk_options_init(&table, &o, sizeof o);
    return o;
}

static void sets(sample_options *o, const char *name, const char *text)
{
    stk_error err;

    assert_ok(stk_options_set(&table, o, name, text, &err), &err);
}

/* Refused with a message that holds `part`, and nothing changed. */
static void refuses(const char *name, const char *text, const char *part)
{
    sample_options o = fresh(), before = o;
    stk_error err;

    assert_fails(stk_options_set(&table, &o, name, text, &err), STK_EINVAL, &err, part);
    assert_int_equal(err.stage, STK_STAGE_OPTIONS);
    assert_memory_equal(&o, &before, sizeof o);
}

static void test_defaults(void **state)
{
    sample_options o = fresh();

    (void)state;
    assert_int_equal(o.struct_size, sizeof o);
    assert_false(o.drop_last);
    assert_int_equal(o.num_workers, STK_AUTO);
    assert_int_equal(o.max_errors, -1);
    assert_int_equal(o.memory_budget, 64 << 20);
    assert_true(o.step_time == 0.005);
    assert_true(o.bandwidth == 0);
    assert_null(o.transforms);
}

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"65536000", 65536000},
        {"1024KiB", 1 << 20},
        {"1.5 MiB", 3 << 19},
        {"2GB", 2000000000},
        {"2 gb", 2000000000},
        {"2g", 2000000000},
        {"3Gi", UINT64_C(3) << 30},
        {"2.3GiB", 2469606195},
        {"  4MiB ", 4 << 20},
        {"1048576B", 1 << 20},
        {"1.000001 TB", UINT64_C(1000001000000)},
        {"0.0009765625TiB", 1 << 30},
        {"1.99999999999999999999999999MB", 1999999},
    };
    sample_options o = fresh();

    (void)state;
    for (size_t i = 0; i < STK_COUNT(good); i++) {
        sets(&o, "memory_budget", good[i].text);
        assert_int_equal(o.memory_budget, good[i].bytes);
    }
    static const char *const bad[] = {
        "",     " ",     "-1MB",        "+5MB",     "1.5",  "1.5B",   "MiB",
        "1e9",  "1MBB",  "1 M B",       "0x100000", ".5GB", "1..5MB", "99999999999999999999",
        "9e99", "1,5MB", "20000000TiB", "nan",      "inf"};
    for (size_t i = 0; i < STK_COUNT(bad); i++)
        refuses("memory_budget", bad[i], "loader.memory_budget: '");
    refuses("memory_budget", "64KiB", "out of range; it takes 1MiB..1000TB");
    refuses("memory_budget", "lots", "a size such as 64KiB, 1.5MiB or 2GB, 1MiB..1000TB");
}

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        double seconds;
    } good[] = {{"0.005", 0.005}, {"5ms", 0.005},   {"20us", 2e-5}, {"20 \xc2\xb5s", 2e-5},
                {"1m", 60},       {"1min", 60},     {"0.5h", 1800}, {"3s", 3},
                {"7ns", 7e-9},    {"1e-3", 0.001},  {".5", 0.5},    {"1.5e1ms", 0.015},
                {"0", 0},         {"0.3ms", 0.0003}};
    sample_options o = fresh();

    (void)state;
    for (size_t i = 0; i < STK_COUNT(good); i++) {
        sets(&o, "step_time", good[i].text);
        assert_true(o.step_time == good[i].seconds);
    }
    static const char *const bad[] = {"",      "ms",     "5 m s", "inf", "nan", "0x10",
                                      "1e999", "1e400h", "5msx",  "--5", "1,5s"};
    for (size_t i = 0; i < STK_COUNT(bad); i++)
        refuses("step_time", bad[i], "a duration such as");
    refuses("step_time", "2h", "it takes 0..3600s");
    refuses("step_time", "-1ms", "out of range");
}

static void test_rates_and_numbers(void **state)
{
    sample_options o = fresh();

    (void)state;
    sets(&o, "bandwidth", "100MB/s");
    assert_true(o.bandwidth == 1e8);
    sets(&o, "bandwidth", "1.5GiB");
    assert_true(o.bandwidth == 1.5 * (1 << 30));
    sets(&o, "bandwidth", "1e6/s");
    assert_true(o.bandwidth == 1e6);
    refuses("bandwidth", "100Mbit/s", "a rate such as 100MB/s");
    refuses("bandwidth", "/s", "a rate");
    sets(&o, "seed", "18446744073709551615");
    assert_int_equal(o.seed, UINT64_MAX);
    sets(&o, "seed", "0xDEADbeef");
    assert_int_equal(o.seed, 0xdeadbeef);
    refuses("seed", "18446744073709551616", "a whole number from 0");
    refuses("seed", "-1", "a whole number");
    refuses("seed", "0x", "a whole number");
    sets(&o, "max_errors", "+12");
    assert_int_equal(o.max_errors, 12);
    refuses("max_errors", "-2", "out of range");
    refuses("max_errors", "9223372036854775808", "not allowed");
    refuses("max_errors", "-", "not allowed");
    refuses("rate_of_decay", "1.0000001", "it takes 0..1");
    refuses("rate_of_decay", "1.0.0", "a number, 0..1");
    sets(&o, "num-workers", "AUTO");
    assert_int_equal(o.num_workers, STK_AUTO);
    refuses("num_workers", "-1", "it takes auto or 0..1024");
    refuses("num_workers", "many",
            "loader.num_workers: 'many' is not allowed; it takes auto or a whole number, 0..1024");
    refuses("max_errors", "auto", "not allowed");
}

static void test_words(void **state)
{
    sample_options o = fresh();
    const char *text = " to_float ";

    (void)state;
    static const char *const yes[] = {"true", "yes", "On", "1", "TRUE"};
    static const char *const no[] = {"false", "No", "off", "0"};
    for (size_t i = 0; i < STK_COUNT(yes); i++) {
        o.drop_last = false;
        sets(&o, "drop-last", yes[i]);
        assert_true(o.drop_last);
    }
    for (size_t i = 0; i < STK_COUNT(no); i++) {
        o.drop_last = true;
        sets(&o, "drop_last", no[i]);
        assert_false(o.drop_last);
    }
    refuses("drop_last", "2", "true or false");
    refuses("drop_last", "", "true or false");
    sets(&o, "shuffle", "Block");
    assert_int_equal(o.shuffle, 2);
    sets(&o, "shuffle", "true");
    assert_int_equal(o.shuffle, 1);
    sets(&o, "shuffle", "false");
    assert_int_equal(o.shuffle, 0);
    sets(&o, "mixed", "on");
    assert_int_equal(o.mixed, 1);
    sets(&o, "mixed", "no");
    assert_int_equal(o.mixed, 0);
    sets(&o, "mixed", "block");
    assert_int_equal(o.mixed, 2);
    refuses("shuffle", "ful", "none | full | block");
    refuses("shuffle", "none|full", "none | full | block");
    refuses("shuffle", "", "none | full | block");
    refuses("on_error", "true", "fail | skip | replace");
    sets(&o, "transforms", text);
    assert_ptr_equal(o.transforms, text);
}

static void test_unknown_names(void **state)
{
    (void)state;
    refuses("num_wrokers", "1",
            "loader: unknown option 'num_wrokers'; did you mean 'num_workers'?");
    refuses("--num-wrokers", "1", "did you mean '--num-workers'?");
    refuses("numworkers", "1", "did you mean 'num_workers'?");
    refuses("shufle", "1", "did you mean 'shuffle'?");
    refuses("memory", "1", "did you mean 'memory_budget'?");
    refuses("zzzzzzzzzzzz", "1", "none is like it");
    refuses("", "1", "none is like it");
    refuses("seed\x1b[31m\n", "1", "'seed?[31m?'");
    char huge[5000];
    memset(huge, 'n', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    refuses(huge, "1", "nnn...'");
    refuses("seed", huge, "nnn...'");
    stk_error err;
    sample_options o = fresh();
    assert_fails(stk_options_set(&table, &o, "seed", "x\xff\xc3y\xc3\xa9", &err), STK_EINVAL, &err,
                 "'x??y\xc3\xa9'");
    assert_int_equal(stk_options_set(&table, &o, "seed", "x", NULL), STK_EINVAL);
    assert_ptr_equal(stk_options_find(&table, "Drop-Last"), &options[0]);
    assert_null(stk_options_find(&table, "drop_las"));
}

/* What is formatted reads back as the same bytes, for random values of every type. */
static void test_round_trip(void **state)
{
    /* No ranges: every value can be read back. */
    stk_option open_options[STK_COUNT(options)];
    uint64_t seed = 42;
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(options); i++) {
        open_options[i] = options[i];
        open_options[i].min = open_options[i].max = 0;
    }
    const stk_option_table open = {"open", "No ranges.", sizeof(sample_options), open_options,
                                   STK_COUNT(options)};
    static const double scales[] = {1, 1e-3, 1e-6, 1e-9, 60, 1e6, 1e9, 1 << 20};
    for (int n = 0; n < 20000; n++) {
        sample_options a = fresh(), b = fresh();
        uint64_t bits = test_random(&seed);
        a.drop_last = bits & 1;
        a.num_workers = (int64_t)(test_random(&seed) >> (bits & 63));
        a.max_errors = (int64_t)test_random(&seed);
        a.seed = test_random(&seed) >> (bits & 63);
        a.memory_budget = (test_random(&seed) >> (bits & 63)) * (n & 1 ? 1 : 1000);
        a.step_time = (double)(int64_t)(test_random(&seed) >> (20 + (bits & 31))) * scales[n % 8];
        a.bandwidth = (double)(test_random(&seed) % 1000) * scales[n % 8];
        uint64_t raw = test_random(&seed);
        memcpy(&a.rate_of_decay, &raw, sizeof raw);
        if (!isfinite(a.rate_of_decay))
            a.rate_of_decay = DBL_MAX;
        a.shuffle = (int32_t)(bits % 3);
        a.on_error = (int32_t)(bits / 7 % 3);
        a.transforms = "x, y";
        if (n % 3 == 0)
            a.num_workers = STK_AUTO;
        for (size_t i = 0; i < open.count; i++) {
            char text[400];
            int length = stk_options_format(&open.options[i], &a, text, sizeof text);
            assert_int_equal(length, strlen(text));
            if (open.options[i].type == STK_OPTION_STRING) {
                assert_string_equal(text, a.transforms);
                continue;
            }
            assert_ok(stk_options_set(&open, &b, open.options[i].name, text, &err), &err);
            assert_memory_equal((char *)&a + open.options[i].offset,
                                (char *)&b + open.options[i].offset,
                                open.options[i].type == STK_OPTION_BOOL   ? 1
                                : open.options[i].type == STK_OPTION_ENUM ? 4
                                                                          : 8);
        }
    }
}

static void formats(const char *name, const char *text, const char *expected)
{
    sample_options o = fresh();
    char out[64];

    sets(&o, name, text);
    stk_options_format(stk_options_find(&table, name), &o, out, sizeof out);
    assert_string_equal(out, expected);
}

static void formats_json(const char *name, const char *text, const char *expected)
{
    sample_options o = fresh();
    char back[64];

    if (text)
        assert_int_equal(stk_options_set(&table, &o, name, text, NULL), STK_OK);
    const int n = stk_options_format_json(stk_options_find(&table, name), &o, back, sizeof back);
    assert_string_equal(back, expected);
    assert_int_equal(n, strlen(expected));
}

static void test_format_json(void **state)
{
    char small[4];
    sample_options o = fresh();

    (void)state;
    formats_json("memory_budget", "1.5MiB", "1572864");
    formats_json("step_time", "5ms", "0.005");
    formats_json("bandwidth", "100MB/s", "100000000");
    formats_json("num_workers", "auto", "\"auto\"");
    formats_json("num_workers", "7", "7");
    formats_json("shuffle", "full", "\"full\"");
    formats_json("transforms", "say \"x\"", "\"say \\\"x\\\"\"");
    formats_json("transforms", NULL, "null");
    /* As snprintf(). */
    assert_int_equal(stk_options_format_json(stk_options_find(&table, "shuffle"), &o, NULL, 0), 6);
    assert_int_equal(
        stk_options_format_json(stk_options_find(&table, "shuffle"), &o, small, sizeof small), 6);
    assert_string_equal(small, "\"no");
    /* A member that the caller's struct does not have. */
    o.struct_size = sizeof o.struct_size;
    assert_int_equal(
        stk_options_format_json(stk_options_find(&table, "shuffle"), &o, small, sizeof small), 4);
}

static void test_format(void **state)
{
    char small[4];
    sample_options o = fresh();

    (void)state;
    formats("memory_budget", "1048576", "1MiB");
    formats("memory_budget", "1.5MiB", "1536KiB");
    formats("memory_budget", "2000000", "2MB");
    formats("memory_budget", "1048577", "1048577");
    formats("step_time", "0.005", "5ms");
    formats("step_time", "0.00002", "20us");
    formats("step_time", "1m", "60s");
    formats("step_time", "0", "0s");
    formats("bandwidth", "100000000", "100MB/s");
    formats("num_workers", "auto", "auto");
    formats("num_workers", "7", "7");
    formats("shuffle", "full", "full");
    formats("rate_of_decay", "0.1", "0.1");
    formats("transforms", "", "");
    /* Cut as snprintf() cuts, with the length there would be. */
    assert_int_equal(
        stk_options_format(stk_options_find(&table, "memory_budget"), &o, small, sizeof small), 5);
    assert_string_equal(small, "64M");
    assert_int_equal(stk_options_format(stk_options_find(&table, "memory_budget"), &o, NULL, 0), 5);
}

static void test_other_locale(void **state)
{
    (void)state;
    /* A locale that writes a comma; skipped quietly where the machine has none. */
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "de_DE"))
        return;
    formats("rate_of_decay", "0.25", "0.25");
    formats("step_time", "1.5ms", "1.5ms");
    setlocale(LC_NUMERIC, "C");
}

static void test_help(void **state)
{
    char text[2048], cut[100];

    (void)state;
    static const char expected[] =
        "  --[no-]drop-last       Leave out a short last batch. (default: false)\n"
        "  --num-workers N        Threads that prepare samples. (default: auto; auto or 0..1024)\n"
        "  --max-errors N         Bad samples allowed; -1: any number. (default: -1; at least -1)\n"
        "  --seed N               Seed of the order. (default: 0)\n"
        "  --rate-of-decay X      A share. (default: 0.5; 0..1)\n"
        "  --memory-budget SIZE   Memory bound, bytes. (default: 64MiB; 1MiB..1000TB)\n"
        "  --bandwidth RATE       Bytes per second.\n"
        "  --step-time TIME       Seconds. (default: 5ms; 0..3600s)\n"
        "  --shuffle WORD         Order of the samples. (default: none; none | full | block)\n"
        "  --on-error WORD        What a bad sample does. (default: fail; fail | skip | replace)\n"
        "  --mixed WORD           Mixed samples. (default: false; false | true | block)\n"
        "  --transforms CHAIN     Transforms in their order.\n";
    assert_int_equal(stk_options_help(&table, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
    /* As snprintf(): what does not fit is counted. */
    assert_int_equal(stk_options_help(&table, NULL, 0), strlen(expected));
    assert_int_equal(stk_options_help(&table, cut, sizeof cut), strlen(expected));
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, expected, sizeof cut - 1);
    const stk_option_table none = {.name = "none"};
    assert_int_equal(stk_options_help(&none, cut, sizeof cut), 0);
    assert_string_equal(cut, "");
}

/* A long doc is broken at words, before column 100, below itself. */
static void test_help_wraps(void **state)
{
    static const stk_option long_option = {"a_name_that_is_far_longer_than_the_column_of_docs",
                                           STK_OPTION_INT,
                                           8,
                                           NULL,
                                           0,
                                           0,
                                           NULL,
                                           "THREADS",
                                           "The quick brown fox jumps over the lazy dog, and the "
                                           "lazy dog looks up and wonders what that was about."};
    const stk_option_table one = {"t", "doc", 16, &long_option, 1};
    char text[512];

    (void)state;
    stk_options_help(&one, text, sizeof text);
    assert_string_equal(text,
                        "  --a-name-that-is-far-longer-than-the-column-of-docs THREADS\n"
                        "                                "
                        "The quick brown fox jumps over the lazy dog, and the lazy dog looks\n"
                        "                                up and wonders what that was about.\n");
}

static void test_check_finds_defects(void **state)
{
    stk_option one;
    stk_option_table t = {"t", "doc", sizeof(sample_options), &one, 1};
    stk_error err;

    (void)state;
    assert_ok(stk__options_check(&table, &err), &err);
#define DEFECT(change, part)                                                                       \
    do {                                                                                           \
        one = options[1];                                                                          \
        change;                                                                                    \
        assert_fails(stk__options_check(&t, &err), STK_EINTERNAL, &err, part);                     \
    } while (0)
    DEFECT(one.name = "NumWorkers", "snake_case");
    DEFECT(one.name = "", "snake_case");
    DEFECT(one.offset = 0, "not in the struct");
    DEFECT(one.offset = sizeof(sample_options) - 4, "not in the struct");
    DEFECT(one.initial = "2000", "default");
    DEFECT(one.initial = "x", "default");
    DEFECT(one.min = 5; one.max = 4, "range");
    DEFECT(one.doc = NULL, "doc");
    DEFECT(one.choices = "a|b", "choices");
    DEFECT(one.type = STK_OPTION_ENUM; one.choices = NULL, "choices");
    stk_option two[2] = {options[1], options[1]};
    t.options = two;
    t.count = 2;
    assert_fails(stk__options_check(&t, &err), STK_EINTERNAL, &err, "twice");
    two[1].name = "other";
    assert_fails(stk__options_check(&t, &err), STK_EINTERNAL, &err, "another option's too");
}

/* Every table of the library is sound. */
static void test_all_tables(void **state)
{
    const stk_dataset_ops *dataset;
    const stk_transform_ops *transform;
    const stk_layer_ops *layer;
    const stk_option_table *one;
    stk_error err;
    const char *name, *before;
    size_t seen = 0;

    (void)state;
    for (size_t i = 0; (one = stk_option_table_at(i, &name)); i++, seen++) {
        assert_ok(stk__options_check(one, &err), &err);
        assert_ptr_equal(stk_option_table_find(name), one);
        for (size_t k = 0; k < i; k++) {
            stk_option_table_at(k, &before);
            assert_string_not_equal(name, before);
        }
    }
    assert_int_equal(seen, 33);
    assert_null(stk_option_table_find("load"));
    for (size_t i = 0; (dataset = (const void *)stk_driver_at(NULL, STK_DRIVER_DATASET, i)); i++)
        assert_ok(dataset->options ? stk__options_check(dataset->options, &err) : STK_OK, &err);
    for (size_t i = 0; (transform = (const void *)stk_driver_at(NULL, STK_DRIVER_TRANSFORM, i));
         i++)
        assert_ok(transform->options ? stk__options_check(transform->options, &err) : STK_OK, &err);
    for (size_t i = 0; (layer = (const void *)stk_driver_at(NULL, STK_DRIVER_LAYER, i)); i++)
        assert_ok(layer->options ? stk__options_check(layer->options, &err) : STK_OK, &err);
}

static void test_nearest_name(void **state)
{
    static const char *const names[] = {"train", "bench", "convert", "info"};

    (void)state;
    assert_string_equal(stk_nearest_name("trian", names, 4), "train");
    assert_ptr_equal(stk_nearest_name("CONVRT", names, 4), names[2]);
    assert_string_equal(stk_nearest_name("ben", names, 4), "bench");
    assert_null(stk_nearest_name("quantise", names, 4));
    assert_null(stk_nearest_name("train", names, 0));
    /* Every separator is like the others, and of a short word one letter is wrong at most. */
    static const char *const longer[] = {"loader.num_workers", "num_workers", "cat"};
    assert_string_equal(stk_nearest_name("num.workers", longer, 3), "num_workers");
    assert_string_equal(stk_nearest_name("loader-num-workers", longer, 3), "loader.num_workers");
    static const char *const close[] = {"numworkers", "loadernum_workers", "num_workers",
                                        "loader.num_workers"};
    assert_string_equal(stk_nearest_name("num.workers", close, 4), "num_workers");
    assert_string_equal(stk_nearest_name("loader_num-workers", close, 4), "loader.num_workers");
    assert_string_equal(stk_nearest_name("ct", longer, 3), "cat");
    assert_null(stk_nearest_name("xxt", longer, 3));
    assert_null(stk_nearest_name(NULL, names, 4));
}

static void test_nearest_path(void **state)
{
    char root[] = "/tmp/stk_nearest_XXXXXX", path[64], found[64] = "as it was", nothing[64];

    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof path, "%s/data", root);
    assert_int_equal(mkdir(path, 0700), 0);
    /* Hidden names and such as a terminal would obey are not proposed. */
    snprintf(nothing, sizeof nothing, "%s/dat\033", root);
    assert_int_equal(mkdir(nothing, 0700), 0);
    assert_false(stk_nearest_path(path, found, sizeof found));
    assert_string_equal(found, "as it was");
    snprintf(nothing, sizeof nothing, "%s/quite-another", root);
    assert_false(stk_nearest_path(nothing, found, sizeof found));
    snprintf(nothing, sizeof nothing, "%s//dat", root);
    assert_true(stk_nearest_path(nothing, found, sizeof found));
    snprintf(nothing, sizeof nothing, "%s//data", root);
    assert_string_equal(found, nothing);
    snprintf(nothing, sizeof nothing, "%s/daat", root);
    assert_true(stk_nearest_path(nothing, found, strlen(path) + 1));
    assert_string_equal(found, path);
    assert_false(stk_nearest_path(nothing, found, strlen(path)));
    assert_false(stk_nearest_path(NULL, found, sizeof found));
    snprintf(nothing, sizeof nothing, "%s/dat\033", root);
    assert_int_equal(rmdir(path) | rmdir(nothing) | rmdir(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_rates_and_numbers),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_other_locale),
        cmocka_unit_test(test_format_json),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_help_wraps),
        cmocka_unit_test(test_check_finds_defects),
        cmocka_unit_test(test_all_tables),
        cmocka_unit_test(test_nearest_name),
        cmocka_unit_test(test_nearest_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
