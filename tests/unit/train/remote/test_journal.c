/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of a run: lines made and taken apart, hostile ones, torn ones, its mark, its lock. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "support/support.h"
#include "support/text.h"
#include "train/remote/remote.h"

#define ID "0123456789abcdef0123456789abcdef"

static stk__run_journal_kind kind_of(stk_context *ctx, const char *text)
{
    stk__run_journal_line line;
    stk_error err;

    assert_ok(stk__run_journal_take(ctx, text, strlen(text), &line, &err), &err);
    const stk__run_journal_kind kind = line.kind;
    stk__run_journal_line_release(ctx, &line);
    return kind;
}

static void lines(void **state)
{
    static const struct {
        const char *text;
        stk__run_journal_kind kind;
    } rows[] = {
        {"{\"journal\": 1, \"id\": \"" ID "\", \"time\": 1, \"options\": {\"a\": \"b\"}}",
         STK__RUN_JOURNAL_START},
        {"{\"journal\": 2, \"id\": \"" ID "\", \"time\": 1, \"options\": {}}", 0},
        {"{\"journal\": 1, \"id\": \"" ID "0\", \"time\": 1, \"options\": {}}", 0},
        {"{\"journal\": 1, \"id\": \"0123456789abcdef0123456789abcde'\", \"time\": 1, "
         "\"options\": {}}",
         0},
        {"{\"journal\": 1, \"id\": \"" ID "\", \"time\": 1, \"options\": {\"a\": 1}}", 0},
        {"{\"journal\": 1, \"id\": \"" ID "\", \"time\": 1e13, \"options\": {}}", 0},
        {"{\"metrics\": [[\"a\", 1]], \"step\": 1, \"time\": 1}", STK__RUN_JOURNAL_MEASURED},
        {"{\"metrics\": [[\"a\", NaN], [\"b\", -Infinity]], \"step\": -1, \"time\": 0}",
         STK__RUN_JOURNAL_MEASURED},
        {"{\"metrics\": [[\"a\", \"NaN\"]], \"step\": 1, \"time\": 1}", 0},
        {"{\"metrics\": [[\"a\", 1, 2]], \"step\": 1, \"time\": 1}", 0},
        {"{\"metrics\": [[1, 1]], \"step\": 1, \"time\": 1}", 0},
        {"{\"metrics\": [], \"step\": 1, \"time\": 1}", 0},
        {"{\"metrics\": {\"a\": 1}, \"step\": 1, \"time\": 1}", 0},
        {"{\"metrics\": [[\"a\", 1]], \"step\": 1.5, \"time\": 1}", 0},
        {"{\"metrics\": [[\"a\", 1]], \"step\": 1, \"time\": NaN}", 0},
        {"{\"metrics\": [[\"a\", 1]], \"step\": 1}", 0},
        {"{\"metrics\": [[\"a\", 1]], \"step\": 99999999999999999999, \"time\": 1}", 0},
        {"{\"params\": [[\"a\", \"b\"], [\"c\", \"\"]]}", STK__RUN_JOURNAL_PARAMS},
        {"{\"tags\": [[\"a\", \"b\"]]}", STK__RUN_JOURNAL_TAGS},
        {"{\"params\": [[\"a\", 1]]}", 0},
        {"{\"params\": [[\"a\", \"b\\u0000c\"]]}", 0},
        {"{\"file\": \"checkpoints/a\"}", STK__RUN_JOURNAL_FILE},
        {"{\"file\": \"a..b\"}", STK__RUN_JOURNAL_FILE},
        {"{\"file\": \"../a\"}", 0},
        {"{\"file\": \"a/..\"}", 0},
        {"{\"file\": \"/a\"}", 0},
        {"{\"file\": \"a//b\"}", 0},
        {"{\"file\": \".\"}", 0},
        {"{\"file\": \"\"}", 0},
        {"{\"end\": \"FINISHED\", \"time\": 1}", STK__RUN_JOURNAL_END},
        {"{\"end\": \"FINISHED\"}", 0},
        {"{\"other\": 1}", 0},
        {"[1]", 0},
        {"", 0},
        {"{\"metrics\": [[\"a\", 1]], \"st", 0},
    };
    stk_context *ctx = *state;

    for (size_t i = 0; i < STK_COUNT(rows); i++)
        if (kind_of(ctx, rows[i].text) != rows[i].kind)
            fail_msg("%s: %d", rows[i].text, kind_of(ctx, rows[i].text));
}

/* What is more than a line takes is parted, and nothing is lost. */
static void parted(void **state)
{
    enum { MANY = 2 * STK__RUN_JOURNAL_METRICS + 1 };
    stk_context *ctx = *state;
    stk__bytes text = {.ctx = ctx};
    stk_metric metrics[MANY];
    char names[MANY][16], *name = malloc(200001);
    size_t n = 0, count = 0;
    stk__run_journal_line line;
    const char *value;
    double number;
    stk_error err;

    memset(name, 'n', 200000);
    name[200000] = 0;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "m%zu", i);
        metrics[i] = (stk_metric){names[i], (double)i};
    }
    metrics[3].name = name; /* longer than all a line holds otherwise */
    assert_true(stk__run_journal_add_metrics(&text, "p-", metrics, MANY, 7, 1.5));
    for (const char *at = text.data, *end; at < text.data + text.length; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text.data + text.length - at));
        assert_non_null(end);
        assert_ok(stk__run_journal_take(ctx, at, (size_t)(end - at), &line, &err), &err);
        assert_int_equal(line.kind, STK__RUN_JOURNAL_MEASURED);
        assert_int_equal(line.step, 7);
        assert_true(line.time == 1.5);
        for (size_t i = 0; i < json_array_size(line.pairs); i++, n++) {
            const char *got = stk__run_journal_pair(&line, i, &value, &number);
            assert_memory_equal(got, "p-", 2);
            assert_string_equal(got + 2, metrics[n].name);
            assert_true(number == (double)n && !value);
        }
        stk__run_journal_line_release(ctx, &line);
        count++;
    }
    assert_int_equal(n, MANY);
    assert_int_equal(count, 3);
    stk__bytes_release(&text);
    free(name);
}

/* ---- Files ---- */

static void read_while_it_grows(void **state)
{
    stk_context *ctx = *state;
    stk__run_journal_reader reader;
    char folder[256], path[300];
    const char *line;
    size_t length;
    stk_error err;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/j", folder);
    test_write(folder, "j", "one\ntwo\nthr", 11);
    assert_ok(stk__run_journal_open(ctx, path, 0, &reader, &err), &err);
    assert_int_equal(stk__run_journal_next(&reader, 3, &line, &length, &err), STK_EOS);
    assert_ok(stk__run_journal_next(&reader, 4, &line, &length, &err), &err);
    assert_int_equal(length, 3);
    assert_memory_equal(line, "one", 3);
    assert_int_equal(stk__run_journal_next(&reader, 4, &line, &length, &err), STK_EOS);
    assert_ok(stk__run_journal_next(&reader, UINT64_MAX, &line, &length, &err), &err);
    assert_memory_equal(line, "two", 3);
    assert_int_equal(stk__run_journal_next(&reader, UINT64_MAX, &line, &length, &err), STK_EOS);
    assert_int_equal(reader.offset, 8);
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    fputs("ee\n", f);
    fclose(f);
    assert_ok(stk__run_journal_next(&reader, UINT64_MAX, &line, &length, &err), &err);
    assert_int_equal(length, 5);
    assert_memory_equal(line, "three", 5);
    stk__run_journal_seek(&reader, 4);
    assert_ok(stk__run_journal_next(&reader, UINT64_MAX, &line, &length, &err), &err);
    assert_memory_equal(line, "two", 3);
    stk__run_journal_close(&reader);
    test_folder_remove(folder);
}

static void marks(void **state)
{
    static const char *const damaged[] = {
        "", "journal " ID "\n", "journal 12\noffset 3\nserver \nrun \nexperiment \nartifacts \n",
        "journal " ID "\noffset -3\nserver \nrun \nexperiment \nartifacts \n"};
    stk__run_journal_mark mark = {.id = ID, .offset = 77, .uri = "http://h", .run = "r"}, got;
    stk_context *ctx = *state;
    char folder[256], path[300];
    stk_error err;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/m", folder);
    assert_ok(stk__run_journal_mark_read(ctx, path, &got, &err), &err);
    assert_string_equal(got.id, "");
    assert_ok(stk__run_journal_mark_write(ctx, path, &mark, &err), &err);
    assert_ok(stk__run_journal_mark_read(ctx, path, &got, &err), &err);
    assert_int_equal(got.offset, 77);
    assert_string_equal(got.id, ID);
    assert_string_equal(got.uri, "http://h");
    assert_string_equal(got.run, "r");
    for (size_t i = 0; i < STK_COUNT(damaged); i++) {
        test_write(folder, "m", damaged[i], strlen(damaged[i]));
        assert_ok(stk__run_journal_mark_read(ctx, path, &got, &err), &err);
        assert_string_equal(got.id, "");
        assert_int_equal(got.offset, 0);
    }
    test_folder_remove(folder);
}

/* One process writes a journal; a tag that is none is refused; nobody has to be asked. */
static void loggers(void **state)
{
    const stk_logger_ops *const ops = &stk__logger_wandb;
    stk_context *ctx = *state;
    char folder[256], path[600];
    void *options = malloc(ops->options->struct_size);
    stk_logger *logger, *second;
    stk_error err;

    test_folder(folder);
    stk_options_init(ops->options, options, ops->options->struct_size);
    assert_ok(stk__options_check(ops->options, &err), &err);
    assert_ok(stk__options_check(stk__logger_mlflow.options, &err), &err);
    assert_ok(stk_options_set(ops->options, options, "version", "0", &err), &err);
    assert_ok(stk_options_set(ops->options, options, "prefix", "p", &err), &err);
    assert_ok(stk_options_set(ops->options, options, "project", "a \"b\"", &err), &err);
    assert_ok(ops->open(ctx, options, folder, &logger, &err), &err);
    assert_fails(ops->open(ctx, options, folder, &second, &err), STK_EBUSY, &err,
                 "is in use by another process");
    const stk_metric metric = {"x", NAN};
    assert_ok(ops->log_metrics(logger, &metric, 1, 3, 2, &err), &err);
    assert_ok(ops->finalize(logger, &err), &err);
    snprintf(path, sizeof path, "%s/wandb.jsonl", logger->log_dir);
    ops->close(logger);
    char *text = test_load(path, NULL);
    assert_non_null(strstr(text, "\"options\": {\"project\": \"a \\\"b\\\"\"}}\n"
                                 "{\"metrics\": [[\"p-x\", NaN]], \"step\": 3, \"time\": 2.0}\n"
                                 "{\"end\": \"FINISHED\""));
    free(text);
    assert_ok(stk_options_set(ops->options, options, "version", "1", &err), &err);
    assert_ok(stk_options_set(ops->options, options, "tags", "a=b, c", &err), &err);
    assert_fails(ops->open(ctx, options, folder, &second, &err), STK_EINVAL, &err,
                 "tags: 'c' is no tag; write 'name=value, name=value'");
    free(options);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines), cmocka_unit_test(parted),  cmocka_unit_test(read_while_it_grows),
        cmocka_unit_test(marks), cmocka_unit_test(loggers),
    };

    return cmocka_run_group_tests_name("journal", tests, test_context_open, test_context_close);
}
