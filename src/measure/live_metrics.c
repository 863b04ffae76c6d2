/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a run as metrics of Prometheus [exposition formats, version 0.0.4]. */
#include <inttypes.h>
#include <math.h>

#include "base/decimal.h"
#include "base/text.h"
#include "measure/live.h"

/* A value of a label: backslash, quote and line end are escaped, other controls are left out. */
static void put_label(stk__text *text, const char *value)
{
    size_t left = strlen(value);

    stk__text_put(text, "\"", 1);
    while (left) {
        size_t n = stk__utf8_character(value, left);
        if (*value == '\\' || *value == '"')
            stk__text_add(text, "\\%c", *value);
        else if (*value == '\n')
            stk__text_add(text, "\\n");
        else if (n && (unsigned char)*value >= ' ')
            stk__text_put(text, value, n);
        n = n ? n : 1;
        value += n;
        left -= n;
    }
    stk__text_put(text, "\"", 1);
}

static void put_value(stk__text *text, double value)
{
    char number[STK__DECIMAL];

    if (isfinite(value)) {
        stk__decimal(value, number);
        stk__text_add(text, " %s\n", number);
    } else {
        stk__text_add(text, isnan(value) ? " NaN\n" : value < 0 ? " -Inf\n" : " +Inf\n");
    }
}

static void head(stk__text *text, const char *name, const char *type, const char *help)
{
    stk__text_add(text, "# HELP stoker_%s %s\n# TYPE stoker_%s %s\n", name, help, name, type);
}

static void metric(stk__text *text, const char *name, const char *type, const char *help,
                   double value)
{
    head(text, name, type, help);
    stk__text_add(text, "stoker_%s", name);
    put_value(text, value);
}

static void put_counters(stk__text *text, const stk_live_state *s)
{
    metric(text, "samples_total", "counter", "Samples prepared.", (double)s->samples);
    metric(text, "batches_total", "counter", "Batches handed out.", (double)s->batches);
    metric(text, "bad_samples_total", "counter", "Samples that were bad.", (double)s->bad_samples);
    metric(text, "reads_total", "counter", "Reads of storage that ended.", (double)s->reads);
    metric(text, "read_bytes_total", "counter", "Bytes of these reads.", (double)s->read_bytes);
    metric(text, "read_failures_total", "counter", "Reads that failed.", (double)s->read_failures);
    metric(text, "retries_total", "counter", "Requests over the network that were sent again.",
           (double)s->retries);
    metric(text, "read_latency_seconds", "gauge", "Mean duration of a read, of the last seconds.",
           s->read_latency);
}

static void put_gauges(stk__text *text, const stk_live_state *s)
{
    metric(text, "workers", "gauge", "Workers of the loader.", (double)s->workers);
    metric(text, "ready_batches", "gauge", "Finished batches that wait for the step.",
           (double)s->ready);
    metric(text, "depth_batches", "gauge", "Batches that may be finished ahead.", (double)s->depth);
    metric(text, "memory_bytes", "gauge", "Memory that the loader holds.", (double)s->memory_bytes);
    metric(text, "memory_budget_bytes", "gauge", "Memory that the loader may hold.",
           (double)s->memory_budget);
    metric(text, "process_memory_bytes", "gauge", "Anonymous and shared memory of the process.",
           (double)s->process_bytes);
    metric(text, "process_cores", "gauge", "Cores that the process keeps busy.", s->process_cores);
    metric(text, "machine_cores", "gauge", "Cores that all programs keep busy.", s->machine_cores);
    metric(text, "usable_cores", "gauge", "Cores that the process may use.",
           (double)s->usable_cores);
    metric(text, "epoch", "gauge", "Epoch of the last batch, from 0.", (double)s->epoch);
    metric(text, "progress_ratio", "gauge", "Share of the run that is done; NaN: unknown.",
           s->total ? (double)s->done / (double)s->total : NAN);
    metric(text, "eta_seconds", "gauge", "Time left; NaN: unknown.", s->eta >= 0 ? s->eta : NAN);
    metric(text, "start_time_seconds", "gauge", "Unix time of the start.", s->started);
    metric(text, "wait_ratio", "gauge", "Share of the time that the step waited for data.",
           s->wait_share);
}

/* Of each loader by its number; what has no such label is of the one that gave a batch last. */
static void put_loaders(stk__text *text, const stk_live_state *s)
{
    static const struct {
        const char *name, *type, *help;
        size_t at;
        bool real;
    } rows[] = {
        {"loader_batches_total", "counter", "Batches that a loader handed out.",
         offsetof(stk_live_loader, batches), false},
        {"loader_wait_ratio", "gauge", "Share of the time that its consumer waited for data.",
         offsetof(stk_live_loader, wait_share), true},
        {"loader_ready_batches", "gauge", "Finished batches that wait for its consumer.",
         offsetof(stk_live_loader, ready), false},
        {"loader_memory_bytes", "gauge", "Memory that it holds.",
         offsetof(stk_live_loader, memory_bytes), false},
    };

    for (size_t k = 0; k < STK_COUNT(rows); k++) {
        head(text, rows[k].name, rows[k].type, rows[k].help);
        for (uint32_t i = 0; i < s->num_loaders; i++) {
            const char *at = (const char *)&s->loaders[i] + rows[k].at;
            stk__text_add(text, "stoker_%s{loader=\"%u\"}", rows[k].name, i);
            put_value(text, rows[k].real ? *(const double *)at : (double)*(const uint64_t *)at);
        }
    }
}

int stk_live_metrics(const stk_live_state *state, char *bytes, size_t size)
{
    stk__text text = {.bytes = bytes, .room = size};
    stk_live_state s;

    stk__live_take(&s, state);
    head(&text, "run_info", "gauge", "What runs; always 1.");
    stk__text_add(&text, "stoker_run_info{version=");
    put_label(&text, s.stoker);
    stk__text_add(&text, ",command=");
    put_label(&text, s.command);
    stk__text_add(&text, ",label=");
    put_label(&text, s.label);
    stk__text_add(&text, ",machine=");
    put_label(&text, s.machine);
    stk__text_add(&text, "} 1\n");
    put_counters(&text, &s);
    put_gauges(&text, &s);
    head(&text, "wait_cause_ratio", "gauge", "The same by what was waited for.");
    for (int i = 0; i < STK_WAIT_PARTS; i++) {
        stk__text_add(&text, "stoker_wait_cause_ratio{cause=\"%s\"}", stk__wait_name((stk_wait)i));
        put_value(&text, s.wait_shares[i]);
    }
    head(&text, "worker_busy_ratio", "gauge", "Share of the last seconds that a worker worked.");
    for (uint32_t i = 0; i < s.num_workers; i++) {
        stk__text_add(&text, "stoker_worker_busy_ratio{worker=\"%u\"}", i);
        put_value(&text, s.worker[i].busy);
    }
    put_loaders(&text, &s);
    head(&text, "training_metric", "gauge", "Metrics of a training, by name.");
    for (uint32_t i = 0; i < s.num_metrics; i++) {
        stk__text_add(&text, "stoker_training_metric{name=");
        put_label(&text, s.metric[i].name);
        stk__text_add(&text, "}");
        put_value(&text, s.metric[i].value);
    }
    return (int)text.length;
}
