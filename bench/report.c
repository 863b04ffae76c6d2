/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `report`: a log as the published benchmark writes it, of four workers and batches of 16,
 * made here piece by piece and read by the report's reader. Only the reading is timed. With --write
 * FILE the log goes there instead.
 */
#include "bench.h"
#include "measure/read.h"

#include <inttypes.h>
#include <stoker/report.h>

#define PIECE   (1u << 18)
#define STEP    700 /* bytes that a step's events are less than, for each sample */
#define BATCH   16
#define WORKERS 4
#define START   1.7e9 /* Unix time */

struct maker {
    char bytes[PIECE + (BATCH + 2) * STEP];
    size_t used;
    uint64_t events, batch, draw;
    double now;
};

/* A number in [0, 1): xorshift64 [Marsaglia 2003]. */
static double draw(struct maker *m)
{
    m->draw ^= m->draw << 13;
    m->draw ^= m->draw >> 7;
    m->draw ^= m->draw << 17;
    return (double)(m->draw >> 11) * 0x1p-53;
}

#define PUT(m, ...)                                                                                \
    ((m)->used +=                                                                                  \
     (size_t)snprintf((m)->bytes + (m)->used, sizeof(m)->bytes - (m)->used, __VA_ARGS__),          \
     (m)->events++)

static void put_step(struct maker *m)
{
    double took = 0.002 + 0.002 * draw(m), step = 0.01 + 1e-4 * draw(m);
    int pid = 4711 + (int)(m->batch % WORKERS);

    for (int i = 0; i < BATCH; i++) {
        double start = m->now - took * (BATCH - i);
        int idx = (int)(draw(m) * 60000);
        PUT(m, "{\"event\": \"get-batch start\", \"time\": %.7f, \"idx\": %d, \"pid\": %d}\n",
            start, idx, pid);
        PUT(m,
            "{\"event\": \"get-batch end\", \"time\": %.7f, \"idx\": %d, \"pid\": %d, "
            "\"duration\": %.17g}\n",
            start + took, idx, pid, took);
    }
    PUT(m, "{\"event\": \"training start\", \"batch\": %" PRIu64 ", \"time\": %.7f}\n", m->batch,
        m->now);
    m->now += step;
    PUT(m,
        "{\"event\": \"training end\", \"batch\": %" PRIu64 ", \"time\": %.7f, \"duration\": "
        "%.17g}\n",
        m->batch, m->now, step);
    m->now += 0.001 * draw(m) + (draw(m) > 0.99 ? 0.02 : 0);
    m->batch++;
}

static void put_piece(struct maker *m, uint64_t events)
{
    m->used = 0;
    if (m->events == 0) {
        PUT(m,
            "{\"event\": \"run start\", \"time\": %.7f, \"data_params\": \"{}\", \"locals\": "
            "{\"num_epochs\": 1, \"batch_size\": 16, \"num_workers\": 4}}\n",
            m->now);
        PUT(m, "{\"event\": \"epoch start\", \"epoch\": 0, \"time\": %.7f}\n", m->now);
    }
    while (m->used < PIECE && m->events < events)
        put_step(m);
    if (m->events >= events) {
        PUT(m, "{\"event\": \"epoch end\", \"epoch\": 0, \"time\": %.7f, \"duration\": %.7f}\n",
            m->now, m->now - START);
        PUT(m, "{\"event\": \"run end\", \"time\": %.7f, \"duration\": %.7f}\n", m->now,
            m->now - START);
    }
}

static void write_log(struct maker *m, const char *path, uint64_t events)
{
    FILE *out = fopen(path, "w");

    if (!out)
        bench_die("write", "could not be opened");
    while (m->events < events) {
        put_piece(m, events);
        if (fwrite(m->bytes, 1, m->used, out) != m->used)
            bench_die("write", "could not be written");
    }
    if (fclose(out) != 0)
        bench_die("write", "could not be written");
    printf("{\"events\": %" PRIu64 "}\n", m->events);
}

int main(int argc, char **argv)
{
    static struct maker m = {.now = START, .draw = 88172645463325252u};
    stk_context *ctx;
    stk_report *report;
    stk_error err;
    uint64_t bytes = 0;
    double wall = 0, cpu = 0;

    bench_known(argc, argv, "events write");
    uint64_t events = (uint64_t)bench_number(argc, argv, "events", 1e7);
    const char *path = bench_text(argc, argv, "write", NULL);
    if (path) {
        write_log(&m, path, events);
        return 0;
    }
    if (stk_context_create(NULL, &ctx, &err) != STK_OK ||
        stk_report_create(ctx, &report, &err) != STK_OK ||
        stk__report_begin(report, "made", &err) != STK_OK)
        bench_die("report", err.text);
    while (m.events < events) {
        put_piece(&m, events);
        double began = bench_now(), began_cpu = bench_cpu();
        if (stk__report_feed(report, m.bytes, m.used, &err) != STK_OK)
            bench_die("report", err.text);
        wall += bench_now() - began;
        cpu += bench_cpu() - began_cpu;
        bytes += m.used;
    }
    if (stk__report_end(report, &err) != STK_OK)
        bench_die("report", err.text);
    const stk_report_run *run = stk_report_run_at(report, 0);
    if (!run || run->steps != m.batch)
        bench_die("report", "steps are missing");
    printf("{\"workload\": \"report\", \"events\": %" PRIu64 ", \"mb\": %.1f, \"mb_per_s\": %.1f, "
           "\"mb_per_cpu_s\": %.1f, \"ns_per_event\": %.0f, \"peak_rss_mib\": %.1f}\n",
           m.events, (double)bytes / 1e6, (double)bytes / 1e6 / wall, (double)bytes / 1e6 / cpu,
           cpu * 1e9 / (double)m.events, bench_peak_rss_mib());
    stk_report_destroy(&report);
    stk_context_destroy(&ctx);
    return 0;
}
