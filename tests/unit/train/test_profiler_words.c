/* SPDX-License-Identifier: Apache-2.0 */
/* What a diagnosis says of times that are planted: what limits, and what is left to change. */
#include "unit/train/profiles.h"

typedef struct recorded {
    bench b;
    stk_trainer *t;
    stk_module *module;
    stk_model_builder *builder;
    stk_profile *p;
} recorded;

/* A fit of ten batches, of whose layers nothing is known yet; peaks of 1000 operations and 100
 * bytes a nanosecond. */
static void record(recorded *r)
{
    static const int64_t shape[] = {1, 28, 28};
    stk_profile_options o;
    bench *b = &r->b;

    bench_open(b);
    stk_dataset_close(&b->dataset);
    assert_ok(stk_dataset_open(b->ctx, "digits:?split=test&subset=0:200", &b->dataset, &b->err),
              &b->err);
    b->train.dataset = b->val.dataset = b->dataset;
    b->loader.batch_size = 20;
    b->loader.transforms = "layout(chw), to_float";
    b->options.limit_val_batches = "0";
    assert_ok(stk_model_builder_create(b->ctx, shape, 3, &r->builder, &b->err), &b->err);
    assert_ok(stk_model_builder_add(
                  r->builder, "flatten, first=linear(32), second=linear(30), linear(10)", &b->err),
              &b->err);
    const stk_model_parts recipe = {.struct_size = sizeof recipe, .builder = r->builder};
    assert_ok(stk_model_module_create(b->ctx, &recipe, &r->module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &r->t, &b->err), &b->err);
    listen_to(r->t);
    profile_options(&o, "simple", NULL, NULL);
    o.machine_dir = b->folder;
    assert_ok(stk_profile_create(r->t, &o, &r->p, &b->err), &b->err);
    assert_ok(stk_trainer_fit(r->t, r->module, &b->data, NULL, &b->err), &b->err);
    assert_int_equal(r->p->num_batches, 10);
    r->p->sought_peaks = true;
    r->p->peaks = (stk__peaks){.flops_per_s = 1e12, .bytes_per_s = 1e11};
    for (size_t i = 0; i < r->p->num_layers; i++)
        memset(r->p->layers[i].passes, 0, sizeof r->p->layers[i].passes);
}

static void end(recorded *r)
{
    assert_ok(stk_profile_close(&r->p, &r->b.err), &r->b.err);
    stk_trainer_destroy(&r->t);
    stk_module_destroy(&r->module);
    stk_model_builder_destroy(&r->builder);
    bench_close(&r->b);
}

static void plant_batches(stk_profile *p, uint64_t data, uint64_t forward, uint64_t backward,
                          uint64_t other)
{
    for (size_t i = 0; i < p->num_batches; i++)
        p->batches[i] = (stk_profile_batch){.samples = 20,
                                            .data = 1000 * data,
                                            .forward = 1000 * forward,
                                            .backward = 1000 * backward,
                                            .other = 1000 * other};
}

/* Forward calls of a layer: `median` ns but one that was disturbed, of `ns` in all. */
static void plant_layer(stk_profile *p, size_t i, uint64_t calls, uint64_t median, uint64_t ns,
                        uint64_t flops, uint64_t bytes)
{
    stk__profile_counts *c = &p->layers[i].passes[0];

    *c = (stk__profile_counts){
        .pass = {.calls = calls, .ns = ns, .flops = calls * flops, .bytes = calls * bytes}};
    for (uint64_t k = 0; k < calls; k++)
        c->recent[k] = median;
}

static stk_profile_summary summary_of(recorded *r)
{
    stk_profile_summary s = {.struct_size = sizeof s};

    assert_ok(stk_profile_summarize(r->p, 0, NULL, &s, &r->b.err), &r->b.err);
    return s;
}

static void assert_said(const stk_profile_summary *s, const char *part, bool there)
{
    if ((strstr(s->text, part) != NULL) != there)
        fail_msg("'%s' is%s said:\n%s", part, there ? " not" : "", s->text);
}

/* Data limits where it has the largest share; the rest comes before the model. */
static void parts(void **state)
{
    static const char data[] = "data limits", model[] = "The model limits",
                      rest[] = "The model is not the limit", waits[] = "without waiting for data",
                      nothing[] = "next to nothing to gain from the loader";
    static const struct {
        uint64_t data, forward, backward, other;
        const char *first;
        bool waits, nothing;
    } cases[] = {
        {40, 20, 20, 20, data, false, false}, {9, 10, 9, 72, rest, true, false},
        {10, 9, 9, 72, rest, true, false},    {30, 35, 25, 10, model, true, false},
        {1, 50, 40, 9, model, false, true},   {34, 33, 33, 0, data, false, false},
    };
    recorded r;

    record(&r);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        plant_batches(r.p, cases[i].data, cases[i].forward, cases[i].backward, cases[i].other);
        const stk_profile_summary s = summary_of(&r);
        assert_said(&s, data, cases[i].first == data);
        assert_said(&s, rest, cases[i].first == rest);
        assert_said(&s, model, cases[i].first == model);
        assert_said(&s, waits, cases[i].waits);
        assert_said(&s, nothing, cases[i].nothing);
    }
    end(&r);
}

/* What takes the rest is within the steps, and is most of it above the half. */
static void rest(void **state)
{
    stk_profile_action action;
    recorded r;

    record(&r);
    plant_batches(r.p, 1, 10, 10, 100);
    for (uint32_t i = 1; i < r.p->num_calls; i++) {
        stk__profile_call *call = &r.p->calls[i];
        assert_true(stk_profile_get_action(r.p, call->entry, &action));
        call->total_ns = call->inner_ns = 0;
        /* Of setup and of the passes nothing is the rest's. */
        if (strstr(action.name, "setup") || strstr(action.name, ".training_step"))
            call->total_ns = 100000000;
        if (strstr(action.name, ".optimizer_step") && call->calls == 10)
            call->total_ns = 640000;
    }
    stk_profile_summary s = summary_of(&r);
    assert_said(&s,
                "most of the rest (64 %) is [Strategy]SingleDeviceStrategy.optimizer_step, 64.0 us "
                "a call.",
                true);
    plant_batches(r.p, 1, 10, 10, 160);
    s = summary_of(&r);
    assert_said(&s, "of the rest the largest part (40 %) is [Strategy]", true);
    end(&r);
}

/* What is had already is no advice. */
static void taken(void **state)
{
    stk_cores cores = {.struct_size = sizeof cores};
    recorded r;

    record(&r);
    stk_context_cores(r.b.ctx, &cores);
    plant_batches(r.p, 1, 50, 40, 9);
    plant_layer(r.p, 1, 10, 1000, 10000, 900000, 8);
    for (int threads = 0; threads < 2; threads++)
        for (int half = 0; half < 2; half++) {
            r.p->peaks_key.threads = threads ? cores.usable : 0;
            r.p->peaks_key.precision = half ? "bf16-mixed" : "32-true";
            const stk_profile_summary s = summary_of(&r);
            assert_said(&s, "that is what the machine can", true);
            assert_said(&s, "more compute_threads", !threads);
            assert_said(&s, "precision bf16-mixed", !half);
        }
    end(&r);
}

/* The bands of what layers reach are those of the page. */
static void bands(void **state)
{
    static const char numbers[] = "that 16 divides", usual[] = "usual for layers of medium size";
    static const struct {
        size_t layer;
        uint64_t flops, bytes; /* of a call of 1 us */
        const char *said, *not_said;
    } cases[] = {
        {1, 320000, 8, usual, numbers},
        {1, 320000, 8, "bound by compute, 32 % of the machine's peak", numbers},
        {2, 320000, 8, usual, "does not suit"},
        {2, 320000, 8, numbers, "fewer groups"},
        {1, 50000, 8, "its shape does not suit the machine: more rows", numbers},
        {1, 900000, 8, "that is what the machine can", usual},
        {1, 8, 213000, "its bytes come from a cache: there is nothing to gain", "batch_size uses"},
        {1, 8, 90000, "that is as fast as its bytes come", "cache"},
        {1, 8, 30000, usual, "as fast as"},
        {1, 8, 5000, "it waits for neither products nor memory", usual},
    };
    recorded r;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        record(&r);
        plant_batches(r.p, 1, 50, 40, 9);
        plant_layer(r.p, cases[i].layer, 10, 1000, 10000, cases[i].flops, cases[i].bytes);
        const stk_profile_summary s = summary_of(&r);
        assert_said(&s, cases[i].said, true);
        assert_said(&s, cases[i].not_said, false);
        end(&r);
    }
}

/* A few calls that were disturbed change nothing: times, rates and shares are of medians. */
static void medians(void **state)
{
    recorded r;

    record(&r);
    plant_batches(r.p, 1, 50, 40, 9);
    plant_layer(r.p, 1, 10, 2000, 10000000, 1800000, 8);
    plant_layer(r.p, 2, 10, 1500, 10000000, 450, 8);
    const stk_profile_summary s = summary_of(&r);
    assert_said(&s, "'first' (linear) takes most: 57 % of their time, 900.0 GFLOP/s", true);
    assert_said(&s, "90 % of the machine's peak", true);
    assert_said(&s,
                "'second' (linear) loses most: it reaches 0.03 % of the peak, and takes 1.5 us a "
                "batch instead of 0.00045.",
                true);
    assert_said(&s, "samples/s over all)", true);
    end(&r);
}

/* Another layer than that of the most time is named where it loses half as much again. */
static void loses_more(void **state)
{
    static const struct {
        uint64_t median;
        bool named;
    } cases[] = {{900, false}, {1400, false}, {1700, true}};
    recorded r;

    record(&r);
    plant_batches(r.p, 1, 50, 40, 9);
    plant_layer(r.p, 1, 10, 2000, 20000, 1000000, 8);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        plant_layer(r.p, 2, 10, cases[i].median, 10 * cases[i].median, 100000, 8);
        const stk_profile_summary s = summary_of(&r);
        assert_said(&s, "'first' (linear) takes most", true);
        assert_said(&s, "'second' (linear) loses most", cases[i].named);
    }
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts),   cmocka_unit_test(rest),
                                       cmocka_unit_test(taken),   cmocka_unit_test(bands),
                                       cmocka_unit_test(medians), cmocka_unit_test(loses_more)};

    return cmocka_run_group_tests_name("train/profiler_words", tests, NULL, NULL);
}
