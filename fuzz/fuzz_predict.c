/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a log claims of what samples share, and a setting that is asked for. Input: the setting, in
 * three bytes; then figures, each in two: which, and the value, one of a table of sizes. What must
 * hold: the stages of the setting are numbers within bounds, or it is refused with a text; what is
 * found is a share; nothing is left behind.
 */
#include "fuzz_support.h"
#include "measure/simulate.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint64_t sizes[] = {0,
                                 1,
                                 2,
                                 7,
                                 64,
                                 1000,
                                 4096,
                                 16384,
                                 16385,
                                 65536,
                                 1000000,
                                 UINT64_C(1) << 31,
                                 UINT32_MAX,
                                 (UINT64_C(1) << 32) + 1,
                                 UINT64_C(1000000000000),
                                 UINT64_C(1) << 53,
                                 UINT64_C(1) << 61,
                                 UINT64_C(1) << 62};
static const double seconds[] = {0, 1e-12, 1e-6, 1e-3, 1, 1e6, 1e15};

#define PICK(list, byte) (list)[(byte) % STK_COUNT(list)]

/* A run whose samples are cut from chunks, or whose rows need pages. */
static stk_figures recorded(void)
{
    return (stk_figures){.struct_size = sizeof(stk_figures),
                         .samples_per_s = 4000,
                         .ranks = 1,
                         .step_stretch = 1,
                         .step_time = 0.002,
                         .wall = 1,
                         .cpu_s = 0.5,
                         .samples = 4096,
                         .steps = 128,
                         .batch_size = 32,
                         .num_workers = 2,
                         .io_depth = 16,
                         .prefetch = 2,
                         .usable_cores = 4,
                         .compute_cores = 1,
                         .requests = 5000,
                         .read_latency = 0.002,
                         .read_seconds = 1,
                         .bytes_read = 50000000,
                         .bytes_needed = 100000000,
                         .bytes_decoded = 100000000,
                         .bytes_taken = 4000000,
                         .chunks_needed = 20000,
                         .chunks_decoded = 5000,
                         .chunk_seconds = 0.4,
                         .prepare_busy = 1,
                         .budget_bytes = 100000000,
                         .peak_bytes = 100000000,
                         .claims = {.slab = 100000,
                                    .step = 4096,
                                    .worker = 100000,
                                    .fixed = 100000,
                                    .most_read = 100000,
                                    .shared = 10000000,
                                    .mixed = 10000,
                                    .streams = 4,
                                    .samples = 100000,
                                    .reads = true}};
}

static void set_figure(stk_figures *f, uint8_t which, uint8_t value)
{
    stk_claims *c = &f->claims;
    uint64_t *const counts[] = {
        &c->slab,       &c->step,          &c->worker,        &c->fixed,          &c->most_read,
        &c->shared,     &c->block,         &c->mixed_blocks,  &c->mixed,          &c->streams,
        &c->samples,    &f->bytes_decoded, &f->chunks_needed, &f->chunks_decoded, &f->budget_bytes,
        &f->batch_size, &f->samples,       &f->bytes_read,    &f->requests,       &f->bytes_taken};
    double *const times[] = {&f->chunk_seconds, &f->prepare_busy, &f->read_latency,
                             &f->read_seconds,  &f->wall,         &f->cpu_s,
                             &f->samples_per_s};
    bool *const switches[] = {&c->scattered, &c->reads, &c->ragged, &c->caches, &c->whole};
    const size_t n = STK_COUNT(counts), k = STK_COUNT(times);

    if (which < 4 * STK_CLAIM_KINDS) {
        stk_claim_kind *kind = &c->kinds[which / 4];
        uint64_t *const of[] = {&kind->rows, &kind->needs, &kind->read, &kind->decoded};
        *of[which % 4] = PICK(sizes, value);
        return;
    }
    which = (uint8_t)(which - 4 * STK_CLAIM_KINDS);
    if (which < n)
        *counts[which] = PICK(sizes, value);
    else if (which < n + k)
        *times[which - n] = PICK(seconds, value);
    else
        *PICK(switches, which) = value & 1;
}

static bool is_number(double value, double most)
{
    return value >= 0 && value <= most;
}

static void look_at(const stk__stages *s, const stk__setting *set)
{
    FUZZ_CHECK(is_number(s->mean_prepare, 1e30) && is_number(s->beside, 1e30));
    FUZZ_CHECK(is_number(s->cpu, 1e30) && is_number(s->cpu_share, 1));
    FUZZ_CHECK(is_number(s->reads, 1e60) && is_number(s->decoded_bytes, 1e60));
    FUZZ_CHECK(is_number(s->unsure, 1e30) && is_number(s->unsure_reads, 1e30));
    FUZZ_CHECK(is_number(set->shared_bytes, 1e30));
    for (uint64_t i = 0; i < s->num_prepare; i++)
        FUZZ_CHECK(is_number(s->prepare[i], 1e30));
    for (uint64_t i = 0; i < s->num_reads; i++)
        FUZZ_CHECK(is_number(s->latency[i], 1e30) && is_number(s->bytes[i], 1e30));
}

static void ask(stk_context *ctx, const stk_figures *f, const uint8_t setting[3])
{
    const stk_recording recording = {.struct_size = sizeof recording, .figures = f};
    stk__stages stages;
    stk__setting set;
    stk_what_if what;
    stk_error err;

    stk_what_if_init(&what);
    what.memory_budget = PICK(sizes, setting[0]);
    what.num_workers = setting[1] & 1 ? setting[1] >> 1 : STK_AUTO;
    what.batch_size = setting[2] & 1 ? PICK(sizes, setting[2] >> 1) : 0;
    stk_status status = stk__stages_of(ctx, &recording, &stages, &err);
    if (status == STK_OK) {
        stk__setting_of(&recording, &stages, &set);
        look_at(&stages, &set);
        FUZZ_CHECK(is_number(stages.sharing.found, 1) && is_number(stages.sharing.stay, 1e30));
        status = stk__setting_change(&what, &recording, &stages, &set, &err);
    }
    if (status == STK_OK)
        look_at(&stages, &set);
    FUZZ_CHECK(status == STK_OK || err.text[0]);
    stk__stages_release(&stages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    stk_context *ctx = fuzz_context();
    const uint64_t held = fuzz_held(ctx);
    stk_figures f = recorded();
    for (size_t i = 3; i + 1 < size; i += 2)
        set_figure(&f, data[i], data[i + 1]);
    ask(ctx, &f, data);
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    return 0;
}
