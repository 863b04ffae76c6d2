/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a run, and the mark of how far it was sent. Input: a byte, odd: the rest is a
 * mark; else how many bytes of the rest, times 16, are there at first. What must hold: read at
 * once, and read while it grows, the lines are the same, and end where the last '\n' is; what was
 * taken and is made again is taken as it was.
 */
#include "fuzz_support.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "train/remote/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void put(const char *name, const void *data, size_t size)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
}

static void clean(void)
{
    char path[128];

    snprintf(path, sizeof path, "%s/x", folder);
    unlink(path);
    rmdir(folder);
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Made again by those who write, a line of pairs says the same. */
static void make_again(stk_context *ctx, const stk__run_journal_line *line)
{
    const size_t n = json_array_size(line->pairs);
    stk__bytes text = {.ctx = ctx};
    stk__run_journal_line again;
    stk_hparam params[STK__RUN_JOURNAL_PAIRS];
    stk_metric metrics[STK__RUN_JOURNAL_METRICS];
    const char *value;
    double number;
    stk_error err;

    for (size_t i = 0; i < n; i++) {
        const char *name = stk__run_journal_pair(line, i, &value, &number);
        FUZZ_CHECK(name && !value == (line->kind == STK__RUN_JOURNAL_MEASURED));
        if (value)
            params[i] = (stk_hparam){name, value};
        else
            metrics[i] = (stk_metric){name, number};
    }
    if (line->kind == STK__RUN_JOURNAL_MEASURED)
        FUZZ_CHECK(stk__run_journal_add_metrics(&text, "", metrics, n, line->step, line->time));
    else
        FUZZ_CHECK(stk__run_journal_add_params(
            &text, line->kind == STK__RUN_JOURNAL_TAGS ? "tags" : "params", params, n));
    FUZZ_CHECK(text.length > 0 && text.data[text.length - 1] == '\n');
    if (!memchr(text.data, '\n', text.length - 1)) { /* else it was more than a line takes */
        FUZZ_CHECK(stk__run_journal_take(ctx, text.data, text.length - 1, &again, &err) == STK_OK);
        FUZZ_CHECK(again.kind == line->kind && json_array_size(again.pairs) == n);
        FUZZ_CHECK(again.step == line->step && same(again.time, line->time));
        for (size_t i = 0; i < n; i++) {
            const char *name = stk__run_journal_pair(&again, i, &value, &number);
            FUZZ_CHECK(value ? strcmp(value, params[i].value) == 0 && !strcmp(name, params[i].name)
                             : same(number, metrics[i].value) && !strcmp(name, metrics[i].name));
        }
        stk__run_journal_line_release(ctx, &again);
    }
    stk__bytes_release(&text);
}

static void look(stk_context *ctx, const char *text, size_t length)
{
    stk__run_journal_line line;
    stk_error err;

    FUZZ_CHECK(stk__run_journal_take(ctx, text, length, &line, &err) == STK_OK);
    if (line.pairs && line.kind != STK__RUN_JOURNAL_NOTHING)
        make_again(ctx, &line);
    if (line.kind == STK__RUN_JOURNAL_FILE)
        FUZZ_CHECK(line.text[0] != '/' && !strstr(line.text, "../"));
    if (line.kind == STK__RUN_JOURNAL_START)
        FUZZ_CHECK(strlen(line.text) == STK__RUN_JOURNAL_ID - 1 && line.options);
    stk__run_journal_line_release(ctx, &line);
}

/* The lines of the first `end` bytes, from where the reader is; hashed by their lengths. */
static uint64_t read_lines(stk__run_journal_reader *r, uint64_t end, uint64_t hash, bool all)
{
    const char *text;
    size_t length;
    stk_error err;

    while (stk__run_journal_next(r, end, &text, &length, &err) == STK_OK) {
        hash = hash * 31 + length + 1;
        if (all)
            look(r->ctx, text, length);
    }
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stk_context *ctx;
    stk__run_journal_reader whole, parts;
    stk__run_journal_mark mark;
    char path[80];
    stk_error err;

    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/stoker-fuzz-XXXXXX");
        FUZZ_CHECK(mkdtemp(folder));
        atexit(clean);
        ctx = fuzz_context();
    }
    const uint64_t held = fuzz_held(ctx);
    if (size == 0)
        return 0;
    put("x", data + 1, size - 1);
    snprintf(path, sizeof path, "%s/x", folder);
    if (data[0] & 1) {
        FUZZ_CHECK(stk__run_journal_mark_read(ctx, path, &mark, &err) == STK_OK);
        FUZZ_CHECK(mark.id[0] == 0 || strlen(mark.id) == STK__RUN_JOURNAL_ID - 1);
        FUZZ_CHECK(mark.id[0] || mark.offset == 0);
        FUZZ_CHECK(fuzz_held(ctx) == held);
        return 0;
    }
    FUZZ_CHECK(stk__run_journal_open(ctx, path, 0, &whole, &err) == STK_OK);
    FUZZ_CHECK(stk__run_journal_open(ctx, path, 0, &parts, &err) == STK_OK);
    const uint64_t once = read_lines(&whole, size - 1, 0, true);
    const uint64_t first = read_lines(&parts, STK_MIN(size - 1, data[0] * (size_t)8), 0, false);
    FUZZ_CHECK(once == read_lines(&parts, size - 1, first, false));
    FUZZ_CHECK(whole.offset == parts.offset && whole.offset <= size - 1);
    FUZZ_CHECK(whole.offset == 0 || data[whole.offset] == '\n');
    stk__run_journal_close(&whole);
    stk__run_journal_close(&parts);
    FUZZ_CHECK(fuzz_held(ctx) == held);
    return 0;
}
