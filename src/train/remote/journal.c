/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a journal: made, and taken apart. */
#include "train/remote/journal.h"

#include <math.h>

#include "base/text.h"

/* ---- Making ---------------------------------------------------------------------------------- */

/* Hand the lines over; false: no memory for one of them. */
static bool hand_over(stk__bytes *to, stk__text *text)
{
    const bool good = !text->failed && stk__bytes_put(to, text->bytes, text->length);

    stk__text_release(text);
    return good;
}

bool stk__run_journal_add_params(stk__bytes *to, const char *kind, const stk_hparam *params,
                                 size_t n)
{
    stk__text text = {.ctx = to->ctx};
    size_t pairs = 0, from = 0;

    for (size_t i = 0; i < n; i++) {
        if (pairs == 0) {
            from = text.length;
            stk__text_add(&text, "{\"%s\": [", kind);
        }
        stk__text_add(&text, "%s[", pairs++ ? ", " : "");
        stk__text_add_json(&text, params[i].name);
        stk__text_add(&text, ", ");
        stk__text_add_json(&text, params[i].value);
        stk__text_add(&text, "]");
        if (i + 1 == n || pairs == STK__RUN_JOURNAL_PAIRS ||
            text.length - from > STK__RUN_JOURNAL_BYTES) {
            stk__text_add(&text, "]}\n");
            pairs = 0;
        }
    }
    return n == 0 || hand_over(to, &text);
}

bool stk__run_journal_add_metrics(stk__bytes *to, const char *prefix, const stk_metric *metrics,
                                  size_t n, int64_t step, double time)
{
    stk__text text = {.ctx = to->ctx}, name = {.ctx = to->ctx};
    size_t pairs = 0, from = 0;

    for (size_t i = 0; i < n; i++) {
        if (pairs == 0) {
            from = text.length;
            stk__text_add(&text, "{\"metrics\": [");
        }
        name.length = 0;
        stk__text_add(&name, "%s%s", prefix, metrics[i].name);
        stk__text_add(&text, "%s[", pairs++ ? ", " : "");
        stk__text_add_json(&text, name.bytes ? name.bytes : "");
        stk__text_add(&text, ", ");
        stk__text_add_real(&text, metrics[i].value);
        stk__text_add(&text, "]");
        if (i + 1 == n || pairs == STK__RUN_JOURNAL_METRICS ||
            text.length - from > STK__RUN_JOURNAL_BYTES) {
            stk__text_add(&text, "], \"step\": %lld, \"time\": ", (long long)step);
            stk__text_add_real(&text, time);
            stk__text_add(&text, "}\n");
            pairs = 0;
        }
    }
    text.failed |= name.failed;
    stk__text_release(&name);
    return n == 0 || hand_over(to, &text);
}

bool stk__run_journal_add_file(stk__bytes *to, const char *name)
{
    stk__text text = {.ctx = to->ctx};

    stk__text_add(&text, "{\"file\": ");
    stk__text_add_json(&text, name);
    stk__text_add(&text, "}\n");
    return hand_over(to, &text);
}

bool stk__run_journal_add_end(stk__bytes *to, const char *how, double time)
{
    stk__text text = {.ctx = to->ctx};

    stk__text_add(&text, "{\"end\": ");
    stk__text_add_json(&text, how);
    stk__text_add(&text, ", \"time\": ");
    stk__text_add_real(&text, time);
    stk__text_add(&text, "}\n");
    return hand_over(to, &text);
}

/* ---- Taking apart ---------------------------------------------------------------------------- */

static bool take_number(const json_t *value, double *out)
{
    const char *word = value ? stk__json_special(value) : NULL;

    if (word)
        *out = strcmp(word, "NaN") == 0         ? (double)NAN
               : strcmp(word, "Infinity") == 0  ? (double)INFINITY
               : strcmp(word, "-Infinity") == 0 ? -(double)INFINITY
                                                : 0;
    else if (json_is_number(value))
        *out = json_number_value(value);
    return json_is_number(value) || (word && (*word == 'N' || *word == 'I' || word[1] == 'I'));
}

static bool is_text(const json_t *value)
{
    return json_is_string(value) && !stk__json_special(value) &&
           strlen(json_string_value(value)) == json_string_length(value);
}

static bool pairs_are_good(const json_t *pairs, bool numbers, size_t most)
{
    const size_t n = json_array_size(pairs);
    double value;

    if (!json_is_array(pairs) || n == 0 || n > most)
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(pairs, i), *second = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !is_text(json_array_get(pair, 0)) ||
            !(numbers ? take_number(second, &value) : is_text(second)))
            return false;
    }
    return true;
}

/* Seconds that are milliseconds in an int64. */
static bool take_time(const json_t *object, double *out)
{
    return take_number(json_object_get(object, "time"), out) && *out >= 0 && *out <= 1e12;
}

static bool take_start(const json_t *object, stk__run_journal_line *out)
{
    const json_t *id = json_object_get(object, "id");
    const json_t *options = json_object_get(object, "options");
    const char *key;
    json_t *value;

    if (json_integer_value(json_object_get(object, "journal")) != 1 || !is_text(id) ||
        json_string_length(id) != STK__RUN_JOURNAL_ID - 1 || !json_is_object(options) ||
        strspn(json_string_value(id), "0123456789abcdef") != STK__RUN_JOURNAL_ID - 1)
        return false;
    json_object_foreach((json_t *)options, key, value) if (!is_text(value)) return false;
    out->text = json_string_value(id);
    out->options = options;
    return take_time(object, &out->time);
}

/* The name of a file below the run's folder, and of none above it. */
static bool is_below(const char *name)
{
    size_t length;

    for (const char *at = name;; at += length + 1) {
        length = strcspn(at, "/");
        if (length == 0 || (length <= 2 && strncmp(at, "..", length) == 0))
            return false;
        if (!at[length])
            return true;
    }
}

static stk__run_journal_kind take_kind(const json_t *object, stk__run_journal_line *out)
{
    const json_t *value;

    if (json_object_get(object, "journal"))
        return take_start(object, out) ? STK__RUN_JOURNAL_START : STK__RUN_JOURNAL_NOTHING;
    if ((value = json_object_get(object, "metrics"))) {
        const json_t *step = json_object_get(object, "step");
        out->pairs = value;
        out->step = json_integer_value(step);
        return json_is_integer(step) && take_time(object, &out->time) &&
                       pairs_are_good(value, true, STK__RUN_JOURNAL_METRICS)
                   ? STK__RUN_JOURNAL_MEASURED
                   : STK__RUN_JOURNAL_NOTHING;
    }
    for (int tags = 0; tags < 2; tags++)
        if ((value = json_object_get(object, tags ? "tags" : "params"))) {
            out->pairs = value;
            return !pairs_are_good(value, false, STK__RUN_JOURNAL_PAIRS) ? STK__RUN_JOURNAL_NOTHING
                   : tags                                                ? STK__RUN_JOURNAL_TAGS
                                                                         : STK__RUN_JOURNAL_PARAMS;
        }
    value = json_object_get(object, "file");
    if (is_text(value) && is_below(json_string_value(value))) {
        out->text = json_string_value(value);
        return STK__RUN_JOURNAL_FILE;
    }
    value = json_object_get(object, "end");
    if (!is_text(value) || !take_time(object, &out->time))
        return STK__RUN_JOURNAL_NOTHING;
    out->text = json_string_value(value);
    return STK__RUN_JOURNAL_END;
}

stk_status stk__run_journal_take(stk_context *ctx, const char *text, size_t length,
                                 stk__run_journal_line *out, stk_error *err)
{
    *out = (stk__run_journal_line){.kind = STK__RUN_JOURNAL_NOTHING};
    const stk_status status = stk__json_parse(ctx, text, length, "journal", &out->json, err);
    if (status == STK_ENOMEM)
        return status;
    if (status == STK_OK && json_is_object(out->json.value))
        out->kind = take_kind(out->json.value, out);
    return STK_OK;
}

void stk__run_journal_line_release(stk_context *ctx, stk__run_journal_line *line)
{
    stk__json_drop(ctx, &line->json);
    *line = (stk__run_journal_line){.kind = STK__RUN_JOURNAL_NOTHING};
}

const char *stk__run_journal_pair(const stk__run_journal_line *line, size_t i, const char **text,
                                  double *value)
{
    const json_t *pair = json_array_get(line->pairs, i), *second = json_array_get(pair, 1);
    const bool measured = line->kind == STK__RUN_JOURNAL_MEASURED;

    *value = NAN;
    if (measured)
        take_number(second, value);
    *text = measured ? NULL : json_string_value(second);
    return json_string_value(json_array_get(pair, 0));
}
