/* SPDX-License-Identifier: Apache-2.0 */
#include "train/loggers/event_file.h"

#include "base/crc32c.h"
#include "base/options.h"

/* ---- Records ---- */

static uint32_t masked(const void *data, size_t length)
{
    return stk__crc32c_masked(stk__crc32c(0, data, length));
}

static void little_endian(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

bool stk__event_record(stk__bytes *to, const void *message, size_t length)
{
    uint8_t head[12], tail[4];

    little_endian(head, length, 8);
    little_endian(head + 8, masked(head, 8), 4);
    little_endian(tail, masked(message, length), 4);
    return stk__bytes_put(to, head, sizeof head) && stk__bytes_put(to, message, length) &&
           stk__bytes_put(to, tail, sizeof tail);
}

/* ---- Event, Summary ---- */

enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRING = 8, SHAPE_DIM = 2, DIM_SIZE = 1 };
enum { DTYPE_STRING = 7 };
enum { HPARAMS_SESSION_START = 3, SESSION_HPARAMS = 1, SESSION_START_TIME = 5 };
enum { MAP_KEY = 1, MAP_VALUE = 2, PROTO_NUMBER = 2, PROTO_STRING = 3 };

bool stk__event_begin(stk__bytes *to, double wall_time, int64_t step)
{
    return stk__proto_double(to, EVENT_WALL_TIME, wall_time) &&
           (step == 0 || stk__proto_number(to, EVENT_STEP, (uint64_t)step));
}

bool stk__event_scalar(stk__bytes *to, const char *tag, double value)
{
    size_t v = stk__proto_begin(to, SUMMARY_VALUE);

    return v && stk__proto_text(to, VALUE_TAG, tag) &&
           stk__proto_float(to, VALUE_SIMPLE, (float)value) && stk__proto_end(to, v);
}

/* The plug-in that shows a value; `content` is begun and left open for the caller to fill. */
static bool begin_plugin(stk__bytes *to, const char *name, size_t *metadata, size_t *plugin)
{
    *metadata = stk__proto_begin(to, VALUE_METADATA);
    *plugin = *metadata ? stk__proto_begin(to, METADATA_PLUGIN) : 0;
    return *plugin && stk__proto_text(to, PLUGIN_NAME, name);
}

static bool end_plugin(stk__bytes *to, size_t metadata, size_t plugin)
{
    return stk__proto_end(to, plugin) && stk__proto_end(to, metadata);
}

/* A cell of a table in Markdown: a bar would end it. */
static bool put_cell(stk__bytes *to, const char *text)
{
    size_t from = to->length;
    bool good = stk__bytes_clean(to, text);

    for (size_t i = from; i < to->length && good; i++) {
        if ((unsigned char)to->data[i] < 0x20)
            to->data[i] = ' ';
        if (to->data[i] != '|')
            continue;
        good = stk__bytes_reserve(to, 1);
        if (!good)
            break;
        memmove(to->data + i + 1, to->data + i, to->length++ - i);
        to->data[i++] = '\\';
    }
    return good;
}

static bool put_table(stk__bytes *to, const stk_hparam *params, size_t n)
{
    bool good = stk__bytes_text(to, "| name | value |\n| --- | --- |\n");

    for (size_t i = 0; i < n && good; i++)
        good = stk__bytes_text(to, "| ") && put_cell(to, params[i].name) &&
               stk__bytes_text(to, " | ") && put_cell(to, params[i].value) &&
               stk__bytes_text(to, " |\n");
    return good;
}

bool stk__event_hparams_table(stk__bytes *to, const stk_hparam *params, size_t n)
{
    size_t metadata, plugin, tensor, shape, dim, text;

    size_t summary = stk__proto_begin(to, STK__EVENT_SUMMARY);
    size_t value = summary ? stk__proto_begin(to, SUMMARY_VALUE) : 0;
    if (!value || !stk__proto_text(to, VALUE_TAG, "hparams/text_summary") ||
        !begin_plugin(to, "text", &metadata, &plugin) || !end_plugin(to, metadata, plugin))
        return false;
    tensor = stk__proto_begin(to, VALUE_TENSOR);
    if (!tensor || !stk__proto_number(to, TENSOR_DTYPE, DTYPE_STRING))
        return false;
    shape = stk__proto_begin(to, TENSOR_SHAPE);
    dim = shape ? stk__proto_begin(to, SHAPE_DIM) : 0;
    if (!dim || !stk__proto_number(to, DIM_SIZE, 1) || !stk__proto_end(to, dim) ||
        !stk__proto_end(to, shape))
        return false;
    text = stk__proto_begin(to, TENSOR_STRING);
    return text && put_table(to, params, n) && stk__proto_end(to, text) &&
           stk__proto_end(to, tensor) && stk__proto_end(to, value) && stk__proto_end(to, summary);
}

static bool put_hparam(stk__bytes *to, const stk_hparam *param)
{
    const char *end;
    double number;

    size_t entry = stk__proto_begin(to, SESSION_HPARAMS);
    if (!entry || !stk__proto_text(to, MAP_KEY, param->name))
        return false;
    size_t value = stk__proto_begin(to, MAP_VALUE);
    if (!value || !(stk__option_number(param->value, &number, &end) && !*end
                        ? stk__proto_double(to, PROTO_NUMBER, number)
                        : stk__proto_text(to, PROTO_STRING, param->value)))
        return false;
    return stk__proto_end(to, value) && stk__proto_end(to, entry);
}

bool stk__event_hparams_session(stk__bytes *to, const stk_hparam *params, size_t n,
                                double start_time)
{
    size_t metadata, plugin;
    bool good = true;

    size_t summary = stk__proto_begin(to, STK__EVENT_SUMMARY);
    size_t value = summary ? stk__proto_begin(to, SUMMARY_VALUE) : 0;
    if (!value || !stk__proto_text(to, VALUE_TAG, "_hparams_/session_start_info") ||
        !begin_plugin(to, "hparams", &metadata, &plugin))
        return false;
    size_t content = stk__proto_begin(to, PLUGIN_CONTENT);
    size_t session = content ? stk__proto_begin(to, HPARAMS_SESSION_START) : 0;
    if (!session)
        return false;
    for (size_t i = 0; i < n && good; i++)
        good = put_hparam(to, &params[i]);
    return good && stk__proto_double(to, SESSION_START_TIME, start_time) &&
           stk__proto_end(to, session) && stk__proto_end(to, content) &&
           end_plugin(to, metadata, plugin) && stk__proto_end(to, value) &&
           stk__proto_end(to, summary);
}
