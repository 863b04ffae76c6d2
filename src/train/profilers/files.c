/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile found as files: a summary, a row for each batch, a row for each layer. */
#include <inttypes.h>

#include <stoker/store.h>

#include "base/sized.h"
#include "base/url.h"
#include "train/profilers/profiler.h"

static void put_spread(stk__text *out, const stk_spread *spread, double share)
{
    const struct {
        const char *name;
        double value;
    } figures[] = {{"mean", spread->mean}, {"min", spread->min}, {"p50", spread->p50},
                   {"p95", spread->p95},   {"p99", spread->p99}, {"max", spread->max},
                   {"sum", spread->sum}};

    for (size_t i = 0; i < STK_COUNT(figures); i++) {
        stk__text_add(out, "  %s: ", figures[i].name);
        stk__text_add_fixed(out, figures[i].value, 9);
        stk__text_add(out, "\n");
    }
    stk__text_add(out, "  share: ");
    stk__text_add_fixed(out, share, 6);
    stk__text_add(out, "\n");
}

static void put_summary(const stk_profile *profile, const stk_profile_summary *s, stk__text *out)
{
    stk__text_add(out,
                  "# Where the time of a training batch goes, in seconds.\n"
                  "batches: %" PRIu64 "\nwarmup_batches: %" PRIu64 "\nbatch_size: %" PRIu64
                  "\nsamples_per_s: ",
                  s->batches, s->warmup, s->batch_size);
    stk__text_add_fixed(out, s->samples_per_s, 3);
    stk__text_add(out, "\n");
    for (int i = 0; i < STK_PROFILE_PARTS; i++) {
        stk__text_add(out, "%s:\n", stk_profile_part_name((stk_profile_part)i));
        put_spread(out, &s->parts[i], s->share[i]);
    }
}

/* A cell of a row that has one before it. */
static void put_cell(stk__text *out, double value, int decimals)
{
    stk__text_put(out, ",", 1);
    stk__text_add_fixed(out, value, decimals);
}

static void put_batches(const stk_profile *profile, const stk_profile_summary *s, stk__text *out)
{
    stk_profile_batch b;

    stk__text_add(out, "epoch,batch,samples,warmup,data_s,forward_s,backward_s,other_s,total_s,"
                       "optimizer_steps\n");
    for (uint64_t i = 0; stk_profile_get_batch(profile, i, &b); i++) {
        stk__text_add(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%d", b.epoch, b.batch_idx,
                      b.samples, i < s->warmup);
        for (int part = 0; part < STK_PROFILE_PARTS; part++)
            put_cell(out, stk_profile_part_seconds(&b, (stk_profile_part)part), 9);
        stk__text_add(out, ",%" PRIu64 "\n", b.optimizer_steps);
    }
}

static void put_pass(const stk_profile_pass *pass, stk__text *out)
{
    const double ns = pass->ns ? (double)pass->ns : 1;

    stk__text_add(out, ",%" PRIu64, pass->calls);
    put_cell(out, (double)pass->ns * 1e-9, 9);
    put_cell(out, (double)pass->flops / ns, 3);
    put_cell(out, (double)pass->bytes / ns, 3);
}

static void put_roof(const stk_profile_roof *roof, stk__text *out)
{
    stk__text_add(out, ",%s", stk_profile_bound_name(roof->bound));
    put_cell(out, roof->of_peak, 4);
}

static void put_layers(const stk_profile *profile, const stk_profile_summary *s, stk__text *out)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};

    stk__text_add(
        out, "name,type,forward_calls,forward_s,forward_gflop_per_s,forward_gb_per_s,"
             "backward_calls,backward_s,backward_gflop_per_s,backward_gb_per_s,forward_left_out,"
             "backward_left_out,forward_median_s,backward_median_s,share,forward_bound,"
             "forward_of_peak,backward_bound,backward_of_peak\n");
    for (size_t i = 0; stk_profile_get_layer(profile, i, &layer); i++) {
        stk__text_add_csv(out, layer.name);
        stk__text_put(out, ",", 1);
        stk__text_add_csv(out, layer.kind);
        put_pass(&layer.forward, out);
        put_pass(&layer.backward, out);
        stk__text_add(out, ",%" PRIu64 ",%" PRIu64, layer.forward_left_out,
                      layer.backward_left_out);
        put_cell(out, (double)layer.forward_median_ns * 1e-9, 9);
        put_cell(out, (double)layer.backward_median_ns * 1e-9, 9);
        put_cell(out, layer.share, 6);
        put_roof(&layer.forward_roof, out);
        put_roof(&layer.backward_roof, out);
        stk__text_add(out, "\n");
    }
}

static const struct {
    const char *name;
    void (*put)(const stk_profile *profile, const stk_profile_summary *summary, stk__text *out);
} results[STK_PROFILE_RESULTS] = {
    [STK_PROFILE_TIMING_SUMMARY] = {"timing_summary.yaml", put_summary},
    [STK_PROFILE_TIMING_RESULTS] = {"timing_results.csv", put_batches},
    [STK_PROFILE_LAYERS] = {"layers.csv", put_layers},
};

int stk_profile_format(const stk_profile *profile, const stk_profile_summary *summary,
                       stk_profile_result which, char *text, size_t size)
{
    stk_profile_summary own = {.struct_size = sizeof own};
    stk__text out = {.bytes = text, .room = size};

    if (which < 0 || which >= STK_PROFILE_RESULTS)
        return -1;
    stk__sized_copy(&own, sizeof own, summary);
    results[which].put(profile, &own, &out);
    return out.failed || out.length > INT32_MAX ? -1 : (int)out.length;
}

static stk_status write_one(const stk_profile *profile, const stk_profile_summary *summary,
                            stk_profile_result which, const char *folder, stk_error *err)
{
    stk__text text = {.ctx = profile->ctx};
    char *path = stk__url_below(profile->ctx, folder, results[which].name);

    results[which].put(profile, summary, &text);
    stk_status status =
        path && !text.failed
            ? stk_put_bytes(profile->ctx, path, text.bytes, text.length, NULL, err)
            : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to write '%.200s/%s'", folder,
                        results[which].name);
    stk__text_release(&text);
    stk__free(profile->ctx, path);
    return status;
}

stk_status stk_profile_write_files(const stk_profile *profile, const stk_profile_summary *summary,
                                   const char *folder, stk_error *err)
{
    stk_profile_summary own = {.struct_size = sizeof own};

    STK_TRY(stk__context_check(profile->ctx, err));
    STK_TRY(
        stk__sized_read(&own, sizeof own, summary, "stk_profile_summary", STK_STAGE_TRAIN, err));
    for (int i = 0; i < STK_PROFILE_RESULTS; i++)
        STK_TRY(write_one(profile, &own, (stk_profile_result)i, folder, err));
    return STK_OK;
}
