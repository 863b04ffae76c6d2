/* SPDX-License-Identifier: Apache-2.0 */
/* Figures and verdicts as members of a JSON object. */
#include "measure/figures.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

const stk__figure stk__figures[] = {
#define FIGURE(name, member, kind)                                                                 \
    {                                                                                              \
        name, offsetof(stk_figures, member), STK__FIGURE_##kind                                    \
    }
    FIGURE("samples_per_s", samples_per_s, REAL),
    FIGURE("ceiling_samples_per_s", ceiling_samples_per_s, REAL),
    FIGURE("wait_mean", wait.mean, REAL),
    FIGURE("wait_p50", wait.p50, REAL),
    FIGURE("wait_p95", wait.p95, REAL),
    FIGURE("wait_p99", wait.p99, REAL),
    FIGURE("wait_max", wait.max, REAL),
    FIGURE("first_wait", first_wait, REAL),
    FIGURE("epoch_turn", epoch_turn, REAL),
    FIGURE("step_share", step_share, REAL),
    FIGURE("step_stretch", step_stretch, REAL),
    FIGURE("step_time", step_time, REAL),
    FIGURE("wall", wall, REAL),
    FIGURE("cpu_s", cpu_s, REAL),
    FIGURE("cpu_s_per_1000", cpu_s_per_1000, REAL),
    FIGURE("leak_bytes_per_epoch", leak_bytes_per_epoch, REAL),
    FIGURE("prepare_busy", prepare_busy, REAL),
    FIGURE("prepare_wait_in", prepare_wait_in, REAL),
    FIGURE("prepare_wait_out", prepare_wait_out, REAL),
    FIGURE("decode_seconds", decode_seconds, REAL),
    FIGURE("resize_seconds", resize_seconds, REAL),
    FIGURE("entropy_share", entropy_share, REAL),
    FIGURE("read_latency", read_latency, REAL),
    FIGURE("read_seconds", read_seconds, REAL),
    FIGURE("cached_share", cached_share, REAL),
    FIGURE("peak_bytes", peak_bytes, COUNT),
    FIGURE("budget_bytes", budget_bytes, COUNT),
    FIGURE("bytes_read", bytes_read, COUNT),
    FIGURE("requests", requests, COUNT),
    FIGURE("read_failures", read_failures, COUNT),
    FIGURE("samples", samples, COUNT),
    FIGURE("steps", steps, COUNT),
    FIGURE("batch_size", batch_size, COUNT),
    FIGURE("pictures", pictures, COUNT),
    FIGURE("num_workers", num_workers, WHOLE),
    FIGURE("io_depth", io_depth, WHOLE),
    FIGURE("prefetch", prefetch, WHOLE),
    FIGURE("usable_cores", usable_cores, CORES),
    FIGURE("compute_cores", compute_cores, CORES),
    FIGURE("ranks", ranks, CORES),
    FIGURE("spin", spin, SWITCH),
    FIGURE("no_step", no_step, SWITCH),
    FIGURE("other_cores", other_cores, REAL),
    FIGURE("runnable_s", runnable_s, REAL),
    FIGURE("budget_wait", budget_wait, REAL),
    FIGURE("read_transfer_share", read_transfer_share, REAL),
    FIGURE("read_floor", read_floor, REAL),
    FIGURE("bytes_needed", bytes_needed, COUNT),
    FIGURE("bytes_decoded", bytes_decoded, COUNT),
    FIGURE("bytes_taken", bytes_taken, COUNT),
    FIGURE("pin_memory", pin_memory, SWITCH),
    FIGURE("persistent_workers", persistent_workers, SWITCH),
    FIGURE("device", device, SWITCH),
#define WAIT(NAME, name, text) FIGURE("wait_" #name, waits[STK_WAIT_##NAME], REAL),
    STK_WAIT_LIST(WAIT)
#undef WAIT
#undef FIGURE
};

const size_t stk__num_figures = STK_COUNT(stk__figures);

/* Text that is counted also where it does not fit. */
typedef struct writer {
    char *text;
    size_t size, length;
} writer;

static void put(writer *w, const char *format, ...) STK_PRINTF(2, 3);

static void put(writer *w, const char *format, ...)
{
    const bool fits = w->length < w->size;
    va_list arguments;

    va_start(arguments, format);
    const int n = vsnprintf(fits ? w->text + w->length : NULL, fits ? w->size - w->length : 0,
                            format, arguments);
    va_end(arguments);
    w->length += n > 0 ? (size_t)n : 0;
}

static void put_key(writer *w, const char *name)
{
    put(w, "%s\"%s\": ", w->length ? ", " : "", name);
}

static void put_real(writer *w, const char *name, double value)
{
    char number[32];

    stk_number_format(value, number);
    put_key(w, name);
    put(w, "%s", number);
}

static void put_string(writer *w, const char *name, const char *text)
{
    put_key(w, name);
    put(w, "\"");
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            put(w, "\\%c", *text);
        else
            put(w, (unsigned char)*text < 0x20 ? "\\u%04x" : "%c", (unsigned char)*text);
    put(w, "\"");
}

int stk_figures_format(const stk_figures *f, char *text, size_t size)
{
    writer w = {.text = text, .size = size};

    for (size_t i = 0; i < stk__num_figures; i++) {
        const stk__figure *row = &stk__figures[i];
        const char *at = (const char *)f + row->offset;
        if (row->kind == STK__FIGURE_REAL) {
            put_real(&w, row->name, *(const double *)at);
            continue;
        }
        put_key(&w, row->name);
        if (row->kind == STK__FIGURE_COUNT)
            put(&w, "%" PRIu64, *(const uint64_t *)at);
        else if (row->kind == STK__FIGURE_WHOLE)
            put(&w, "%" PRId64, *(const int64_t *)at);
        else if (row->kind == STK__FIGURE_CORES)
            put(&w, "%" PRIu32, *(const uint32_t *)at);
        else
            put(&w, "%s", *(const bool *)at ? "true" : "false");
    }
    return (int)w.length;
}

int stk_verdict_format(const stk_verdict *v, char *text, size_t size)
{
    writer w = {.text = text, .size = size};

    put_string(&w, "limit", stk_limit_name(v->limit));
    put_real(&w, "lost_share", v->lost_share);
    put_real(&w, "limit_share", v->limit_share);
    if (v->second != STK_LIMIT_UNKNOWN)
        put_string(&w, "second", stk_limit_name(v->second));
    put_string(&w, "knob", v->knob);
    put_string(&w, "value", v->value);
    put_real(&w, "gain", v->gain);
    put_string(&w, "text", v->text);
    return (int)w.length;
}

int stk_waits_format(const stk_waits *waits, char *text, size_t size)
{
    writer w = {.text = text, .size = size};

    for (int i = 0; i < STK_WAIT_PARTS; i++)
        put_real(&w, stk_wait_name((stk_wait)i), (double)waits->parts_ns[i] * 1e-9);
    return (int)w.length;
}
