/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a loader that somebody else's loop takes batches from. */
#include "base/sized.h"
#include "bench/bench.h"
#include "measure/measure.h"

struct stk_meter {
    stk_context *ctx;
    const stk_loader *loader;
    stk_loader_options options;
    stk_loader_stats begin;
    stk__usage usage;
    uint64_t begin_ns;
    stk_loader_stats end; /* of a loop that has ended */
    stk__usage end_usage; /* likewise */
    uint64_t end_ns;      /* when; 0: it runs */
};

stk_status stk_meter_open(stk_context *context, const stk_loader *loader,
                          const stk_loader_options *options, stk_meter **out, stk_error *err)
{
    stk_loader_options known;

    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk_loader_options_init(&known);
    STK_TRY(stk__sized_read(&known, sizeof known, options, "stk_loader_options", STK_STAGE_MEASURE,
                            err));
    stk_meter *meter = stk__calloc(context, 1, sizeof *meter);
    if (!meter)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for a meter");
    meter->ctx = stk__context_ref(context);
    meter->loader = loader;
    meter->options = known;
    meter->begin.struct_size = sizeof meter->begin;
    stk__usage_get(&meter->usage);
    stk_loader_get_stats(loader, &meter->begin);
    meter->begin_ns = stk__now_ns();
    *out = meter;
    return STK_OK;
}

/* Workers that are busy are taken to compute: what the step takes of the process is not known.
 * `whole`: the process may use every core of the machine. */
static void usage_figures(const stk_meter *meter, bool whole, stk_figures *f)
{
    stk__usage now = meter->end_usage;

    if (!meter->end_ns)
        stk__usage_get(&now);
    const double own = stk__seconds(now.cpu_ns - meter->usage.cpu_ns),
                 all = stk__seconds(now.machine_busy_ns - meter->usage.machine_busy_ns);
    f->cpu_s = f->prepare_busy;
    f->cpu_s_per_1000 = stk__bench_over(1000 * f->cpu_s, (double)f->samples);
    f->io_threads = now.io_threads;
    if (now.runnable_ns > meter->usage.runnable_ns)
        f->runnable_s = stk__seconds(now.runnable_ns - meter->usage.runnable_ns);
    if (whole && all > own)
        f->other_cores = stk__bench_over(all - own, f->wall);
}

void stk_meter_get(const stk_meter *meter, stk_figures *out)
{
    stk_loader_stats now = {.struct_size = sizeof now};
    stk_figures f = {.struct_size = sizeof f};

    if (stk__context_forked(meter->ctx)) {
        stk__sized_write(out, &f);
        return;
    }
    const bool whole = stk__figures_begin(meter->ctx, &meter->options, &f);
    const uint64_t end_ns = meter->end_ns ? meter->end_ns : stk__now_ns();
    if (meter->end_ns)
        now = meter->end;
    else
        stk_loader_get_stats(meter->loader, &now);
    stk__figures_of_loader(&meter->begin, &now, &f);
    stk__bench_picture_side(meter->loader, &f);
    f.peak_bytes = now.memory_peak;
    stk__waits_subtract(&now.waits, &meter->begin.waits);
    stk__figures_of_waits(&now.waits, now.waits.batches * meter->options.batch_size,
                          stk__seconds(end_ns - meter->begin_ns), &f);
    usage_figures(meter, whole, &f);
    stk__sized_write(out, &f);
}

void stk_meter_stop(stk_meter *meter)
{
    if (meter->end_ns)
        return;
    meter->end.struct_size = sizeof meter->end;
    stk_loader_get_stats(meter->loader, &meter->end);
    stk__usage_get(&meter->end_usage);
    meter->end_ns = stk__now_ns();
}

void stk_meter_go_on(stk_meter *meter)
{
    meter->end_ns = 0;
}

void stk_meter_close(stk_meter **meter)
{
    stk_meter *m = meter ? *meter : NULL;

    if (!m)
        return;
    *meter = NULL;
    if (stk__context_forked(m->ctx))
        return;
    stk_context *ctx = m->ctx;
    stk__free(ctx, m);
    stk__context_unref(ctx);
}
