/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `stoker chunks` -> what is asked. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chunks.h"

#define AT(member) offsetof(struct chunks_options, member)

static const stk_option rows[] = {
    {"window", STK_OPTION_STRING, AT(window), NULL, 0, 0, NULL, "AxB",
     "Elements of a window on each axis, as 64x64 or 4x64x64."},
    {"chunks", STK_OPTION_STRING, AT(chunks), NULL, 0, 0, NULL, "AxB,...",
     "Chunk shapes to count. Without them: an eighth of the window to sixteen windows, and a "
     "recommendation."},
    {"extent", STK_OPTION_STRING, AT(extent), NULL, 0, 0, NULL, "AxB",
     "Elements of the array; * for an axis whose end does not matter. Default: no axis ends."},
    {"stride", STK_OPTION_STRING, AT(stride), NULL, 0, 0, NULL, "AxB",
     "Windows begin at its multiples. Default: 1 on every axis."},
    {"itemsize", STK_OPTION_UINT, AT(itemsize), "0", 0, 1u << 30, NULL, "BYTES",
     "Bytes of an element; 0: those of dtype, or 1."},
    {"dtype", STK_OPTION_STRING, AT(dtype), NULL, 0, 0, NULL, "NAME",
     "Data type of an element, as float32, in the place of itemsize."},
    {"ratio", STK_OPTION_DOUBLE, AT(ratio), "1", 1e-3, 1e6, NULL, NULL,
     "Codec ratio: decoded bytes / stored bytes. Of an ARRAY, if not given: what is stored."},
    {"access", STK_OPTION_ENUM, AT(access), "random", 0, 0, "random|sequential|block", NULL,
     "Recommend chunks for windows at random, in sequence, or by block shuffle."},
    {"shuffle_buffer", STK_OPTION_UINT, AT(shuffle_buffer), "16", 1, 1u << 20, NULL, "N",
     "access block: blocks mixed at a time."},
    {"memory_budget", STK_OPTION_SIZE, AT(memory_budget), "1GiB", 1, 0x1p60, NULL, "SIZE",
     "Decoded chunks that may be kept in memory."},
    {"store", STK_OPTION_STRING, AT(store), "auto", 0, 0, NULL, "NAME",
     "Recommend chunks for a store: ssd, disk, nfs or s3, with the figures that follow in place of "
     "its own; auto: the one that is like the store of ARRAY, ssd without one."},
    {"latency", STK_OPTION_STRING, AT(latency), NULL, 0, 0, NULL, "TIME[..TIME]",
     "Time until the first byte of a request, or the range it is in: 20ms..200ms."},
    {"bandwidth", STK_OPTION_STRING, AT(bandwidth), NULL, 0, 0, NULL, "RATE[..RATE]",
     "Bytes a second of all requests together: 100MB/s..1GB/s."},
    {"io_depth", STK_OPTION_UINT, AT(io_depth), "0", 0, 65536, NULL, "N",
     "Requests in flight; 0: the store's."},
    {"request_cost", STK_OPTION_DOUBLE, AT(request_cost), "-1", -1, 1e6, NULL, "DOLLARS",
     "Price of a million requests; -1: the store's."},
    {"decode_rate", STK_OPTION_RATE, AT(decode_rate), "0", 0, 0, NULL, "RATE",
     "Decoded bytes a second; 0: 1GB/s where ratio is above 1, else no decoding."},
    {"top", STK_OPTION_UINT, AT(top), "5", 1, STK_CHUNKS_RANKED, NULL, "N",
     "Recommended shapes to show."},
    {"html", STK_OPTION_STRING, AT(html), NULL, 0, 0, NULL, "FILE",
     "Also write a page with charts of bytes and chunks against the chunk size."},
    {"measure", STK_OPTION_BOOL, AT(measure), "false", 0, 0, NULL, NULL,
     "Write a sample of ARRAY again with its own chunks, those of --chunks and those recommended, "
     "and time "
     "windows of it."},
    {"sample", STK_OPTION_SIZE, AT(sample), "64MiB", 1, 0x1p40, NULL, "SIZE",
     "measure: bytes of the sample, decoded."},
};

const stk_option_table *chunks_option_table(void)
{
    static const stk_option_table table = {
        .name = "chunks",
        .doc = "Windows, array, access and store",
        .struct_size = sizeof(struct chunks_options),
        .options = rows,
        .count = sizeof rows / sizeof *rows,
    };

    return &table;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static int fail_shape(const char *option, const char *text, size_t length, const char *why)
{
    cli_error("%s: '%.*s' %s", option, (int)(length < 100 ? length : 100), text, why);
    return CLI_USAGE;
}

/* One side at *text, moved behind it; false when it is none. */
static bool take_side(const char **text, const char *end, bool any, int64_t *side)
{
    const char *p = *text;

    *side = 0;
    if (any && p < end && *p == '*') {
        *text = p + 1;
        return true;
    }
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(*side, 10, side) ||
            __builtin_add_overflow(*side, *p - '0', side))
            return false;
    bool digits = p > *text;
    *text = p;
    return digits;
}

int chunks_parse_shape(const char *option, const char *text, size_t length, bool any,
                       int64_t *sides, uint32_t *rank)
{
    const char *p = text, *end = text + length;
    uint32_t n = 0;

    for (;;) {
        int64_t side;
        if (n == STK_MAX_RANK)
            return fail_shape(option, text, length, "has more than 8 axes, the most there can be");
        bool star = any && p < end && *p == '*';
        if (!take_side(&p, end, any, &side))
            return fail_shape(option, text, length,
                              "is no shape; it takes numbers below 2^63 with x between, as 64x64");
        if (side == 0 && !star)
            return fail_shape(option, text, length, "has a side of 0; it takes 1 or more elements");
        sides[n++] = side;
        if (p == end)
            break;
        /* U+00D7, the sign itself, is what tables have. */
        size_t times = end - p >= 2 && memcmp(p, "\xc3\x97", 2) == 0 ? 2 : *p == 'x' || *p == 'X';
        if (times == 0)
            return fail_shape(option, text, length,
                              "is no shape; it takes numbers below 2^63 with x between, as 64x64");
        p += times;
    }
    *rank = n;
    return CLI_GO_ON;
}

/* A shape that has to have the axes of the window. */
static int take_shape(const char *option, const char *text, size_t length, bool any, uint32_t rank,
                      int64_t *sides)
{
    uint32_t n;
    char why[96];

    int code = chunks_parse_shape(option, text, length, any, sides, &n);
    if (code != CLI_GO_ON || n == rank)
        return code;
    snprintf(why, sizeof why, "has %" PRIu32 " axes and the window has %" PRIu32 "; give as many",
             n, rank);
    return fail_shape(option, text, length, why);
}

static int take_list(struct chunks_task *task, const char *text)
{
    int code = CLI_GO_ON;

    for (const char *p = text; code == CLI_GO_ON; p++) {
        size_t length = strcspn(p, ",");
        while (length && *p == ' ')
            p++, length--;
        if (task->num_shapes == CHUNKS_MAX_SHAPES) {
            cli_error("chunks: more than %d shapes; ask for them in parts", CHUNKS_MAX_SHAPES);
            return CLI_USAGE;
        }
        code = take_shape("chunks", p, length, false, task->question.rank,
                          task->shapes[task->num_shapes++]);
        p += length;
        if (!*p)
            break;
    }
    return code;
}

/* An eighth of the window to sixteen windows, in powers of two, no longer than the array. */
static void make_ladder(struct chunks_task *task)
{
    const stk_chunks_question *q = &task->question;

    for (int step = -3; step <= 4; step++) {
        int64_t *shape = task->shapes[task->num_shapes];
        for (uint32_t i = 0; i < q->rank; i++) {
            shape[i] = step < 0                            ? q->window[i] >> -step
                       : q->window[i] <= INT64_MAX >> step ? q->window[i] << step
                                                           : q->window[i];
            if (q->extent[i] && shape[i] > q->extent[i])
                shape[i] = q->extent[i];
            if (shape[i] < 1)
                shape[i] = 1;
        }
        if (task->num_shapes == 0 || memcmp(shape, shape - STK_MAX_RANK, q->rank * sizeof *shape))
            task->num_shapes++;
    }
}

/* ---- The store ------------------------------------------------------------------------------- */

struct one_value {
    uint32_t struct_size;
    double is;
};

/* "20ms" or "20ms..200ms", of a table with one row. */
static int take_range(const char *text, const stk_option *row, stk_chunks_range *out)
{
    const stk_option_table one = {"chunks", "", sizeof(struct one_value), row, 1};
    const char *dots = strstr(text, "..");
    char low[64], high[64];
    struct one_value value;
    stk_error err;

    int length = dots ? (int)(dots - text) : (int)strlen(text);
    if (length >= (int)sizeof low || (dots && strlen(dots + 2) >= sizeof high)) {
        cli_error("chunks.%s: '%.60s' is too long", row->name, text);
        return CLI_USAGE;
    }
    stk_options_init(&one, &value, sizeof value);
    snprintf(low, sizeof low, "%.*s", length, text);
    snprintf(high, sizeof high, "%s", dots ? dots + 2 : low);
    if (stk_options_set(&one, &value, row->name, low, &err) != STK_OK) {
        cli_error("%s", err.text);
        return CLI_USAGE;
    }
    out->low = value.is;
    if (stk_options_set(&one, &value, row->name, high, &err) != STK_OK) {
        cli_error("%s", err.text);
        return CLI_USAGE;
    }
    out->high = value.is;
    /* In the middle of orders of magnitude. */
    out->typical = out->low < out->high ? sqrt(out->low * out->high) : out->low;
    if (out->low <= out->high)
        return CLI_GO_ON;
    cli_error("chunks.%s: '%.60s' begins above its end; give the lower one first", row->name, text);
    return CLI_USAGE;
}

static int take_store(const struct chunks_options *o, stk_chunks_store *out)
{
    static const stk_option latency = {
        "latency", STK_OPTION_DURATION, offsetof(struct one_value, is), NULL, 0, 3600, NULL, NULL,
        ""};
    static const stk_option bandwidth = {
        "bandwidth", STK_OPTION_RATE, offsetof(struct one_value, is), NULL, 1, 1e15, NULL, NULL,
        ""};
    const stk_chunks_store *preset;
    int code = CLI_GO_ON;
    stk_error err;

    if (strcmp(o->store, "auto") != 0) {
        if (stk_chunks_store_find(o->store, &preset, &err) != STK_OK) {
            cli_error("chunks.store: %s; --latency and --bandwidth are for one's own", err.text);
            return CLI_USAGE;
        }
        *out = *preset;
    }
    if (o->latency)
        code = take_range(o->latency, &latency, &out->latency);
    if (o->bandwidth && code == CLI_GO_ON)
        code = take_range(o->bandwidth, &bandwidth, &out->bandwidth);
    if (o->io_depth)
        out->concurrency = (uint32_t)o->io_depth;
    if (o->request_cost >= 0)
        out->request_cost = o->request_cost;
    if (o->latency && o->bandwidth)
        out->name = "this store";
    return code;
}

/* ---- All ------------------------------------------------------------------------------------- */

static int take_element(const struct chunks_options *o, struct chunks_task *task)
{
    stk_dtype dtype = o->dtype ? stk_dtype_parse(o->dtype) : STK_DTYPE_NONE;
    uint64_t size = stk_dtype_size(dtype);

    if (o->dtype && dtype == STK_DTYPE_NONE) {
        cli_error("chunks.dtype: there is no data type '%.60s'; use NumPy's names, as float32, or "
                  "--itemsize BYTES",
                  o->dtype);
        return CLI_USAGE;
    }
    if (o->dtype && o->itemsize && size != o->itemsize) {
        cli_error("chunks.itemsize: an element of %s has %" PRIu64 " bytes and not %" PRIu64
                  "; leave one of the two out",
                  o->dtype, size, o->itemsize);
        return CLI_USAGE;
    }
    task->question.itemsize = o->itemsize ? o->itemsize : size ? size : 1;
    if (o->dtype)
        snprintf(task->element, sizeof task->element, "%s", stk_dtype_name(dtype));
    else
        snprintf(task->element, sizeof task->element, "%" PRIu64 " byte%s", task->question.itemsize,
                 task->question.itemsize == 1 ? "" : "s");
    return CLI_GO_ON;
}

/* Whether an option of the recommendation was given. */
static bool asks_advice(const struct cli *cli)
{
    static const char *const keys[] = {"access",      "shuffle_buffer", "memory_budget", "store",
                                       "latency",     "bandwidth",      "io_depth",      "top",
                                       "decode_rate", "request_cost"};
    char key[64];

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(key, sizeof key, "chunks.%s", keys[i]);
        if (stk_config_count(cli->config, key))
            return true;
    }
    return false;
}

/* The question of an array that exists, as everybody asks it; its chunks are the first shape. */
static int take_array(const struct cli *cli, const struct chunks_options *o, stk_array *array,
                      struct chunks_task *task)
{
    const stk_array_info *info = stk_array_get_info(array);
    stk_chunks_question *q = &task->question;
    int64_t window[STK_MAX_RANK], stride[STK_MAX_RANK];
    stk_error err;

    if (o->extent || o->dtype || o->itemsize) {
        cli_error("%s is the array's own; leave it out", o->extent  ? "chunks.extent"
                                                         : o->dtype ? "chunks.dtype"
                                                                    : "chunks.itemsize");
        return CLI_USAGE;
    }
    if (info->rank != q->rank && info->rank >= 1 && info->rank <= STK_MAX_RANK) {
        cli_error("window: it has %" PRIu32 " axes and the array has %" PRIu32 "; give as many",
                  q->rank, info->rank);
        return CLI_USAGE;
    }
    memcpy(window, q->window, sizeof window);
    memcpy(stride, q->stride, sizeof stride);
    const stk_status status = stk_chunks_question_of(array, window, stride, NULL, q, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    memcpy(task->shapes[task->num_shapes++], info->chunk_shape,
           info->rank * sizeof *info->chunk_shape);
    task->own = true;
    snprintf(task->element, sizeof task->element, "%s", info->type_name);
    return CLI_GO_ON;
}

int chunks_read(struct cli *cli, stk_array *array, struct chunks_task *task)
{
    stk_chunks_question *q = &task->question;
    struct chunks_options o;

    int code = cli_apply(cli, chunks_option_table(), 0, &o);
    if (code != CLI_GO_ON)
        return code;
    if (!o.window) {
        cli_error("--window is missing: the elements of a window on each axis, as --window 64x64 "
                  "('stoker chunks --help' lists all options)");
        return CLI_USAGE;
    }
    code = chunks_parse_shape("window", o.window, strlen(o.window), false, q->window, &q->rank);
    if (code == CLI_GO_ON && o.extent)
        code = take_shape("extent", o.extent, strlen(o.extent), true, q->rank, q->extent);
    if (code == CLI_GO_ON && o.stride)
        code = take_shape("stride", o.stride, strlen(o.stride), false, q->rank, q->stride);
    if (code == CLI_GO_ON)
        code = array ? take_array(cli, &o, array, task) : take_element(&o, task);
    if (code == CLI_GO_ON)
        code = take_store(&o, &q->store);
    if (code == CLI_GO_ON && o.chunks)
        code = take_list(task, o.chunks);
    if (!array || stk_config_count(cli->config, "chunks.ratio"))
        q->ratio = o.ratio;
    q->access = (stk_chunks_access)o.access;
    q->shuffle_buffer = o.shuffle_buffer;
    q->memory_budget = o.memory_budget;
    q->decode_rate = o.decode_rate;
    task->listed = task->num_shapes > 0;
    task->advise = array || !task->listed || asks_advice(cli);
    task->top = (size_t)o.top;
    task->html = o.html;
    task->measure = o.measure;
    task->sample = o.sample;
    if (code == CLI_GO_ON && o.measure && !array) {
        cli_error("chunks.measure: there is nothing to measure; name an ARRAY");
        return CLI_USAGE;
    }
    if (code == CLI_GO_ON && !task->listed)
        make_ladder(task);
    return code;
}
