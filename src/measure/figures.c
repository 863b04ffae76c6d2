/* SPDX-License-Identifier: Apache-2.0 */
/* Figures and verdicts as members of a JSON object. */
#include "measure/figures.h"

#include <inttypes.h>

#include "base/sized.h"
#include "base/text.h"

const stk__figure stk__figures[] = {
#define FIGURE(name, member, kind)                                                                 \
    {                                                                                              \
        name, offsetof(stk_figures, member), KIND_##kind                                           \
    }
/* What they may be in a log: limits of sense, far from what is measured. */
#define KIND_SECONDS STK__FIGURE_REAL, 0, 1e10
#define KIND_RATE    STK__FIGURE_REAL, 0, 1e15
#define KIND_SHARE   STK__FIGURE_REAL, 0, 1.01 /* sums of times that were rounded */
#define KIND_KNOWN   STK__FIGURE_REAL, -1, 1   /* a share; < 0: unknown */
#define KIND_FACTOR  STK__FIGURE_REAL, 0, 1e6
#define KIND_BYTES   STK__FIGURE_REAL, 0, 1e18
#define KIND_COUNT   STK__FIGURE_COUNT, 0, 0x1p62
#define KIND_WHOLE   STK__FIGURE_WHOLE, 0, 0x1p31
#define KIND_CORES   STK__FIGURE_CORES, 0, 0x1p20
#define KIND_SWITCH  STK__FIGURE_SWITCH, 0, 0
#define KIND_TEXT    STK__FIGURE_TEXT, 0, 0
    FIGURE("samples_per_s", samples_per_s, RATE),
    FIGURE("ceiling_samples_per_s", ceiling_samples_per_s, RATE),
    FIGURE("wait_mean", wait.mean, SECONDS),
    FIGURE("wait_p50", wait.p50, SECONDS),
    FIGURE("wait_p95", wait.p95, SECONDS),
    FIGURE("wait_p99", wait.p99, SECONDS),
    FIGURE("wait_max", wait.max, SECONDS),
    FIGURE("first_wait", first_wait, SECONDS),
    FIGURE("epoch_turn", epoch_turn, SECONDS),
    FIGURE("step_share", step_share, SHARE),
    FIGURE("step_stretch", step_stretch, FACTOR),
    FIGURE("step_time", step_time, SECONDS),
    FIGURE("wall", wall, SECONDS),
    FIGURE("cpu_s", cpu_s, SECONDS),
    FIGURE("cpu_s_per_1000", cpu_s_per_1000, SECONDS),
    FIGURE("leak_bytes_per_epoch", leak_bytes_per_epoch, BYTES),
    FIGURE("prepare_busy", prepare_busy, SECONDS),
    FIGURE("prepare_wait_in", prepare_wait_in, SECONDS),
    FIGURE("prepare_wait_out", prepare_wait_out, SECONDS),
    FIGURE("decode_seconds", decode_seconds, SECONDS),
    FIGURE("resize_seconds", resize_seconds, SECONDS),
    FIGURE("entropy_share", entropy_share, SHARE),
    FIGURE("read_latency", read_latency, SECONDS),
    FIGURE("read_seconds", read_seconds, SECONDS),
    FIGURE("cached_share", cached_share, KNOWN),
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
    FIGURE("other_cores", other_cores, FACTOR),
    FIGURE("runnable_s", runnable_s, SECONDS),
    FIGURE("budget_wait", budget_wait, SECONDS),
    FIGURE("read_transfer_share", read_transfer_share, SHARE),
    FIGURE("read_floor", read_floor, SECONDS),
    FIGURE("bytes_needed", bytes_needed, COUNT),
    FIGURE("bytes_decoded", bytes_decoded, COUNT),
    FIGURE("bytes_taken", bytes_taken, COUNT),
    FIGURE("pin_memory", pin_memory, SWITCH),
    FIGURE("persistent_workers", persistent_workers, SWITCH),
    FIGURE("device", device, SWITCH),
    FIGURE("transfer_s", transfer_s, SECONDS),
    FIGURE("validation_s", validation_s, SECONDS),
    FIGURE("callbacks_s", callbacks_s, SECONDS),
    FIGURE("logging_s", logging_s, SECONDS),
    FIGURE("checkpoint_s", checkpoint_s, SECONDS),
    FIGURE("val_every", val_every, COUNT),
    FIGURE("log_every", log_every, COUNT),
    FIGURE("optimizer_steps", optimizer_steps, COUNT),
    FIGURE("optimizer_time", optimizer_time, SECONDS),
    FIGURE("io_threads", io_threads, CORES),
    FIGURE("chunks", chunks, TEXT),
    FIGURE("bad_samples", bad_samples, COUNT),
    FIGURE("picture_pixels", picture_pixels, COUNT),
    FIGURE("picture_side", picture_side, COUNT),
    FIGURE("max_epochs", max_epochs, COUNT),
    FIGURE("memory_hits", tiers.of[STK_TIER_MEMORY].reads, COUNT),
    FIGURE("memory_hit_bytes", tiers.of[STK_TIER_MEMORY].bytes, COUNT),
    FIGURE("disk_reads", tiers.of[STK_TIER_DISK].reads, COUNT),
    FIGURE("disk_read_bytes", tiers.of[STK_TIER_DISK].bytes, COUNT),
    FIGURE("disk_read_ns", tiers.of[STK_TIER_DISK].ns, COUNT),
    FIGURE("remote_reads", tiers.of[STK_TIER_REMOTE].reads, COUNT),
    FIGURE("remote_read_bytes", tiers.of[STK_TIER_REMOTE].bytes, COUNT),
    FIGURE("remote_read_ns", tiers.of[STK_TIER_REMOTE].ns, COUNT),
    FIGURE("net_reads", network.reads, COUNT),
    FIGURE("net_bytes", network.bytes, COUNT),
    FIGURE("net_requests", network.requests, COUNT),
    FIGURE("net_retries", network.retries, COUNT),
    FIGURE("net_twice", network.twice, COUNT),
    FIGURE("net_throttled", network.throttled, COUNT),
    FIGURE("net_late", network.late, COUNT),
    FIGURE("net_connects", network.connects, COUNT),
    FIGURE("net_turn_ns", network.turn_ns, COUNT),
    FIGURE("net_throttled_ns", network.throttled_ns, COUNT),
    FIGURE("net_again_ns", network.again_ns, COUNT),
    FIGURE("net_connect_ns", network.connect_ns, COUNT),
    FIGURE("net_first_ns", network.first_ns, COUNT),
    FIGURE("net_body_ns", network.body_ns, COUNT),
    FIGURE("net_connections", network.connections, COUNT),
    FIGURE("net_window", network.window, COUNT),
    FIGURE("net_transfer_share", network.transfer_share, SHARE),
    FIGURE("claim_slab", claims.slab, COUNT),
    FIGURE("claim_step", claims.step, COUNT),
    FIGURE("claim_worker", claims.worker, COUNT),
    FIGURE("claim_fixed", claims.fixed, COUNT),
    FIGURE("claim_most_read", claims.most_read, COUNT),
    FIGURE("claim_shared", claims.shared, COUNT),
    FIGURE("claim_block", claims.block, COUNT),
    FIGURE("claim_mixed_blocks", claims.mixed_blocks, COUNT),
    FIGURE("claim_mixed", claims.mixed, COUNT),
    FIGURE("claim_streams", claims.streams, COUNT),
    FIGURE("claim_samples", claims.samples, COUNT),
    FIGURE("claim_scattered", claims.scattered, SWITCH),
    FIGURE("claim_reads", claims.reads, SWITCH),
    FIGURE("claim_ragged", claims.ragged, SWITCH),
    FIGURE("claim_caches", claims.caches, SWITCH),
    FIGURE("claim_whole", claims.whole, SWITCH),
#define KIND(i)                                                                                    \
    FIGURE("claim_kind" #i "_rows", claims.kinds[i].rows, COUNT),                                  \
        FIGURE("claim_kind" #i "_needs", claims.kinds[i].needs, COUNT),                            \
        FIGURE("claim_kind" #i "_read", claims.kinds[i].read, COUNT),                              \
        FIGURE("claim_kind" #i "_decoded", claims.kinds[i].decoded, COUNT)
    KIND(0),
    KIND(1),
    KIND(2),
#undef KIND
    FIGURE("chunks_needed", chunks_needed, COUNT),
    FIGURE("chunks_decoded", chunks_decoded, COUNT),
    FIGURE("chunk_seconds", chunk_seconds, SECONDS),
#define WAIT(NAME, name, text) FIGURE("wait_" #name, waits[STK_WAIT_##NAME], SECONDS),
    STK_WAIT_LIST(WAIT)
#undef WAIT
#undef FIGURE
};

const size_t stk__num_figures = STK_COUNT(stk__figures);

static void put_key(stk__text *out, const char *name)
{
    stk__text_add(out, "%s\"%s\": ", out->length ? ", " : "", name);
}

static void put_real(stk__text *out, const char *name, double value)
{
    char number[32];

    stk_number_format(value, number);
    put_key(out, name);
    stk__text_add(out, "%s", number);
}

static void put_string(stk__text *out, const char *name, const char *text)
{
    put_key(out, name);
    stk__text_add_json(out, text);
}

int stk__figures_format(const stk_figures *figures, char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};
    stk_figures known = {0};

    stk__sized_copy(&known, sizeof known, figures);
    for (size_t i = 0; i < stk__num_figures; i++) {
        const stk__figure *row = &stk__figures[i];
        const char *at = (const char *)&known + row->offset;
        if (row->kind == STK__FIGURE_REAL) {
            put_real(&out, row->name, *(const double *)at);
            continue;
        }
        if (row->kind == STK__FIGURE_TEXT) {
            put_string(&out, row->name, at);
            continue;
        }
        put_key(&out, row->name);
        if (row->kind == STK__FIGURE_COUNT)
            stk__text_add(&out, "%" PRIu64, *(const uint64_t *)at);
        else if (row->kind == STK__FIGURE_WHOLE)
            stk__text_add(&out, "%" PRId64, *(const int64_t *)at);
        else if (row->kind == STK__FIGURE_CORES)
            stk__text_add(&out, "%" PRIu32, *(const uint32_t *)at);
        else
            stk__text_add(&out, "%s", *(const bool *)at ? "true" : "false");
    }
    return (int)out.length;
}

int stk_verdict_format(const stk_verdict *verdict, char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};
    stk_verdict known = {0}, *v = &known;

    stk__sized_copy(&known, sizeof known, verdict);
    put_string(&out, "limit", stk_limit_name(v->limit));
    put_real(&out, "lost_share", v->lost_share);
    put_real(&out, "limit_share", v->limit_share);
    if (v->second != STK_LIMIT_UNKNOWN)
        put_string(&out, "second", stk_limit_name(v->second));
    put_string(&out, "knob", v->knob);
    put_string(&out, "value", v->value);
    put_real(&out, "gain", v->gain);
    if (v->gain_high > 0) {
        put_real(&out, "gain_low", v->gain_low);
        put_real(&out, "gain_high", v->gain_high);
    }
    put_string(&out, "text", v->text);
    return (int)out.length;
}

int stk_prediction_format(const stk_prediction *prediction, char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};
    stk_prediction p = {0};

    stk__sized_copy(&p, sizeof p, prediction);
    put_real(&out, "samples_per_s", p.samples_per_s);
    put_real(&out, "low", p.low);
    put_real(&out, "high", p.high);
    put_real(&out, "base_samples_per_s", p.base_samples_per_s);
    put_real(&out, "wait_mean", p.wait.mean);
    put_real(&out, "wait_p50", p.wait.p50);
    put_real(&out, "wait_p95", p.wait.p95);
    put_real(&out, "wait_p99", p.wait.p99);
    put_real(&out, "cpu_cores", p.cpu_cores);
    put_real(&out, "peak_bytes", p.peak_bytes);
    put_real(&out, "step_time", p.step_time);
    put_real(&out, "step_stretch", p.step_stretch);
    put_key(&out, "recorded");
    stk__text_add(&out, "%s", p.recorded ? "true" : "false");
    return (int)out.length;
}

int stk_waits_format(const stk_waits *waits, char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};

    for (int i = 0; i < STK_WAIT_PARTS; i++)
        put_real(&out, stk__wait_name((stk_wait)i), (double)waits->parts_ns[i] * 1e-9);
    return (int)out.length;
}

void stk__waits_subtract(stk_waits *waits, const stk_waits *earlier)
{
    waits->batches -= earlier->batches;
    waits->total_ns -= earlier->total_ns;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        waits->parts_ns[i] -= earlier->parts_ns[i];
}

void stk__network_subtract(stk_network *network, const stk_network *earlier)
{
    uint64_t *const counts[] = {
        &network->reads,    &network->bytes,        &network->requests, &network->retries,
        &network->twice,    &network->throttled,    &network->late,     &network->connects,
        &network->turn_ns,  &network->throttled_ns, &network->again_ns, &network->connect_ns,
        &network->first_ns, &network->body_ns,
    };

    for (size_t i = 0; i < STK_COUNT(counts); i++) {
        const uint64_t then =
            *(const uint64_t *)((const char *)earlier + ((char *)counts[i] - (char *)network));
        *counts[i] -= STK_MIN(then, *counts[i]); /* the stores may have been closed in between */
    }
}
