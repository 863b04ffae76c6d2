/* A loader as an endless stream of batches, for the benchmark programs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BENCH_STREAM_H
#define STK_BENCH_STREAM_H

#include <stoker/stoker.h>

#include "bench.h"

static inline void bench_check(stk_status status, const stk_error *err)
{
    if (status < 0)
        bench_die(stk_status_name(status), err->text);
}

struct bench_stream {
    stk_context *context;
    stk_dataset *dataset;
    stk_loader *loader;
    double created; /* when stk_loader_create() was called */
};

/* Set loader options from the flags of the same names, where given. */
static inline void bench_loader_options(int argc, char **argv, stk_loader_options *options)
{
    const stk_option_table *table = stk_option_table_find("loader");
    stk_error err;

    for (size_t i = 0; i < table->count; i++) {
        const char *text = bench_text(argc, argv, table->options[i].name, NULL);
        if (text)
            bench_check(stk_options_set(table, options, table->options[i].name, text, &err), &err);
    }
}

static inline void bench_stream_open(struct bench_stream *s, const char *spec,
                                     const stk_loader_options *options)
{
    stk_error err;

    bench_check(stk_context_create(NULL, &s->context, &err), &err);
    bench_check(stk_dataset_open(s->context, spec, &s->dataset, &err), &err);
    s->created = bench_now();
    bench_check(stk_loader_create(s->dataset, options, &s->loader, &err), &err);
}

static inline void bench_stream_close(struct bench_stream *s)
{
    stk_loader_destroy(&s->loader);
    stk_dataset_close(&s->dataset);
    stk_context_destroy(&s->context);
}

/* The next batch, over the ends of epochs. */
static inline stk_batch *bench_stream_next(struct bench_stream *s)
{
    stk_batch *batch = NULL;
    stk_status status = STK_EOS;
    stk_error err;

    while (status == STK_EOS)
        status = stk_loader_next(s->loader, -1, &batch, &err);
    bench_check(status, &err);
    return batch;
}

/* Consume one batch by doing nothing. Returns its samples. */
static inline uint64_t bench_stream_skip(struct bench_stream *s)
{
    stk_batch *batch = bench_stream_next(s);
    uint64_t count = stk_batch_count(batch);

    stk_batch_release(&batch);
    return count;
}

#define MOST_GAPS 65536

/* What the peers' common.py measures. */
struct bench_window {
    double samples_per_s, cpu_s_per_1000, first_batch_s, cpu_s, wall;
    double gap_p99_ms; /* between two batches, of the last MOST_GAPS */
    uint64_t samples, batches, allocations;
};

/* The window opens after `warm` samples and closes with the first batch past `seconds`. */
static inline void bench_measure(struct bench_stream *s, double seconds, uint64_t warm,
                                 struct bench_window *w)
{
    static double gaps[MOST_GAPS];
    stk_memory_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};

    memset(w, 0, sizeof *w);
    uint64_t seen = bench_stream_skip(s);
    w->first_batch_s = bench_now() - s->created;
    while (seen < warm)
        seen += bench_stream_skip(s);

    before.struct_size = after.struct_size = sizeof before;
    stk_context_memory(s->context, &before);
    double cpu = bench_cpu(), opened = bench_now(), now = opened;
    while (now - opened < seconds) {
        const double last = now;
        w->samples += bench_stream_skip(s);
        now = bench_now();
        gaps[w->batches++ % MOST_GAPS] = (now - last) * 1e3;
    }
    w->cpu_s = bench_cpu() - cpu;
    w->wall = now - opened;
    stk_context_memory(s->context, &after);
    w->allocations = after.allocations - before.allocations;
    w->samples_per_s = (double)w->samples / w->wall;
    w->cpu_s_per_1000 = w->cpu_s / (double)w->samples * 1000;
    const size_t known = w->batches < MOST_GAPS ? (size_t)w->batches : MOST_GAPS;
    w->gap_p99_ms = bench_percentile(gaps, known, 99);
}

/* The peers' line without its closing brace. */
static inline void bench_print(const char *workload, const stk_loader_options *options,
                               const struct bench_window *w)
{
    printf("{\"workload\": \"%s\", \"peer\": \"stoker\", \"version\": \"stoker %s\", "
           "\"config\": {\"workers\": %lld, \"batch\": %llu}, \"samples_per_s\": %.2f, "
           "\"cpu_s_per_1000\": %.6f, \"first_batch_s\": %.6f, \"peak_rss_mib\": %.0f, "
           "\"n_samples\": %llu",
           workload, stk_version(), (long long)options->num_workers,
           (unsigned long long)options->batch_size, w->samples_per_s, w->cpu_s_per_1000,
           w->first_batch_s, bench_peak_rss_mib(), (unsigned long long)w->samples);
}

#endif
