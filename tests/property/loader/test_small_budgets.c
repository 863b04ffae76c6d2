/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small budgets, drawn with all else from a seed: pictures that are put back, samples for which the
 * budget is divided anew, ragged values, damaged ones, batches that are held, a state that is gone
 * on with by others. Which samples come is what their needs say, whatever the rest, and nothing
 * waits for ever.
 */
#include "unit/loader/album.h"

enum { SAMPLES = 24, EPOCHS = 2, MOST_HELD = 3, HANG_MS = 60000 };

/* The resizer's memory counts as a picture's, too. */
#define RESIZER 65536

/* ---- Draws ---- */

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    uint64_t z = seed += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (z ^ z >> 31) % below;
}

/* Most often little, seldom most of it. */
static uint32_t draw_size(uint64_t most)
{
    return (uint32_t)(draw(4) ? draw(most / 64) : draw(most));
}

typedef struct plan {
    sample samples[SAMPLES];
    bool ragged;
    int latency_ms;
    stk_loader_options options; /* what may not change the result is drawn for each run */
} plan;

static void draw_plan(plan *p)
{
    const uint64_t budget = (UINT64_C(3) << 20) + draw(6 << 20);

    p->options = options_of(budget);
    p->options.batch_size = 1 + (int64_t)draw(4);
    p->options.epochs = EPOCHS;
    p->options.on_error = draw(2) ? STK_ON_ERROR_SKIP : STK_ON_ERROR_REPLACE;
    p->options.max_errors = "100000";
    p->ragged = draw(2);
    p->latency_ms = (int)draw(2);
    /* A substitute has the room of the sample that it stands for, so all want the same. */
    const bool alike = p->options.on_error == STK_ON_ERROR_REPLACE;
    const uint32_t same = (uint32_t)draw(budget / 64);
    for (int i = 0; i < SAMPLES; i++)
        p->samples[i] = (sample){.kind = draw(3) ? (int)draw(2) : (int)draw(KINDS),
                                 .reads = draw_size(budget * 3 / 4),
                                 .blob = !p->ragged ? 0
                                         : alike    ? same
                                                    : draw_size(budget / 8),
                                 .cost = draw(2) ? 0 : (float)draw(1000000)};
}

/* ---- Runs ---- */

typedef struct counts {
    uint64_t bad, busy, widened, late;
} counts;

static char about[200]; /* the run at hand */

static stk_loader *open_run(album *a, stk_loader_options *o)
{
    stk_loader *loader;
    stk_error err;
    stk_status status = stk_loader_create(&a->head, o, &loader, &err);

    /* A cache wants room beside the largest sample. */
    if (status == STK_EBUDGET && o->cache != STK_CACHE_NONE) {
        o->cache = STK_CACHE_NONE;
        status = stk_loader_create(&a->head, o, &loader, &err);
    }
    assert_ok(status, &err);
    return loader;
}

/* Take `batches`, or all that are left, and hold some of them. True: all were taken. */
static bool take(stk_loader *loader, const album *a, uint64_t batches, uint32_t holds, run *out,
                 counts *n)
{
    stk_batch *held[MOST_HELD + 1] = {NULL};
    uint32_t num_held = 0, ends = 0;
    stk_error err;

    for (uint64_t taken = 0; taken < batches && ends < EPOCHS;) {
        stk_batch *batch;
        stk_status status = stk_loader_next(loader, HANG_MS, &batch, &err);
        if (status == STK_EOS && ++ends && loader->steps.first / loader->order.steps < EPOCHS)
            continue;
        if (status == STK_EOS)
            break;
        if (status == STK_EBUSY && num_held > 1) {
            n->busy++;
            while (num_held > 1)
                stk_batch_release(&held[--num_held]);
            continue;
        }
        if (status != STK_OK)
            fail_msg("%s, %u held: %s: %s", about, num_held, stk_status_text(status), err.text);
        taken++;
        check_values(batch, a);
        keep(out, batch);
        held[num_held++] = batch;
        if (num_held > holds)
            stk_batch_release(&held[draw(2) ? 0 : --num_held]);
        if (!held[0] && num_held) { /* the first was let go */
            memmove(held, held + 1, MOST_HELD * sizeof *held);
            num_held--;
        }
    }
    while (num_held)
        stk_batch_release(&held[--num_held]);
    return ends == EPOCHS;
}

static void end_run(stk_loader **loader, uint64_t limit, counts *n)
{
    stk_bad_samples bad = {.struct_size = sizeof bad};

    stk_loader_get_bad_samples(*loader, &bad);
    n->bad += bad.samples;
    n->late += (*loader)->planner.late;
    n->widened += (*loader)->ring->pool.limit > limit;
    stk_loader_destroy(loader);
}

/* All of it by `workers`; with `parts` a state is saved on the way and others go on with it. */
static void make_run(stk_context *ctx, const char *folder, const plan *p, stk_loader_options o,
                     uint32_t holds, bool parts, run *out, counts *n)
{
    album *a = open_album(ctx, folder, p->samples, SAMPLES, p->ragged, p->latency_ms);
    stk_dataset *dataset = &a->head;
    stk_loader *loader;
    stk_loader_state at;
    stk_error err;

    a->apart = STORED / (SAMPLES + 4);
    loader = open_run(a, &o);
    uint64_t limit = loader->ring->pool.limit;
    const uint64_t first = parts ? draw(loader->order.steps * EPOCHS) : UINT64_MAX;
    take(loader, a, first, holds, out, n);
    stk_loader_get_state(loader, &at);
    end_run(&loader, limit, n);
    if (parts) {
        o.num_workers = (int64_t)draw(4);
        loader = open_run(a, &o);
        limit = loader->ring->pool.limit;
        assert_ok(stk_loader_restore(loader, &at, &err), &err);
        take(loader, a, UINT64_MAX, holds, out, n);
        end_run(&loader, limit, n);
    }
    stk_dataset_close(&dataset);
}

/* ---- What comes ---- */

typedef enum verdict { BAD, GOOD, CLOSE } verdict;

/* Whether a sample by itself fits what is left of the budget. */
static verdict judge(const plan *p, const stk_loader *loader, uint64_t index)
{
    const sample *s = &p->samples[index];
    const uint64_t reads = s->reads ? s->reads + s->reads / 4 + 320 : 0;
    const uint64_t memory = pictures[s->kind].memory;

    if (s->kind >= DAMAGED || reads > loader->budget.most_row)
        return BAD;
    const uint64_t left = loader->budget.decode_most + loader->budget.most_row - reads;
    return memory > left ? BAD : memory + RESIZER > left ? CLOSE : GOOD;
}

/* The same for all of a batch: ragged values have a part of the budget in common. */
static void judge_batch(const plan *p, const stk_loader *loader, uint64_t first, uint64_t n,
                        verdict *out)
{
    uint64_t total = 0;

    for (uint64_t i = 0; i < n; i++) {
        const uint64_t index = (first + i) % SAMPLES, blob = p->samples[index].blob;
        out[i] = judge(p, loader, index);
        if (!p->ragged)
            continue;
        if (total + blob > loader->budget.most_ragged)
            out[i] = BAD;
        else
            total += (blob + 15) / 16 * 16;
    }
}

/* A run delivers what fits, in order, and what takes the place of the rest fits as well. */
static void check_run(const plan *p, const stk_loader *loader, const run *r)
{
    const uint64_t batch = (uint64_t)p->options.batch_size;
    const bool replaces = p->options.on_error == STK_ON_ERROR_REPLACE;
    size_t at = 0;

    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint64_t first = 0; first < SAMPLES; first += batch) {
            verdict verdicts[4];
            const uint64_t n = STK_MIN(batch, SAMPLES - first);
            judge_batch(p, loader, first, n, verdicts);
            for (uint64_t i = 0; i < n; i++) {
                const row *got = at < r->n ? &r->rows[at] : NULL;
                const bool is = got && got->epoch == epoch && got->position == first + i;
                const bool own = is && got->index == first + i;
                if (verdicts[i] == GOOD && !own)
                    fail_msg("%s: sample %d fits, and does not come", about, (int)(first + i));
                if (verdicts[i] == BAD && own)
                    fail_msg("%s: sample %d does not fit, and comes", about, (int)(first + i));
                if (is && !own && (!replaces || judge(p, loader, got->index) == BAD))
                    fail_msg("%s: sample %d takes a place", about, (int)got->index);
                at += is;
            }
        }
    assert_int_equal(at, r->n);
}

static void same_run(const run *want, const run *got, uint64_t bad_want, uint64_t bad_got)
{
    for (size_t i = 0; i < STK_MIN(want->n, got->n); i++)
        if (memcmp(&want->rows[i], &got->rows[i], sizeof *want->rows) != 0)
            fail_msg("%s: row %d is sample %d, not %d", about, (int)i, (int)got->rows[i].index,
                     (int)want->rows[i].index);
    if (want->n != got->n || bad_want != bad_got)
        fail_msg("%s: %d rows and %d bad, not %d and %d", about, (int)got->n, (int)bad_got,
                 (int)want->n, (int)bad_want);
}

static void one_draw(const char *folder, uint64_t number, counts *all)
{
    stk_context *ctx = test_context();
    run first = {0};
    uint64_t bad = 0;
    plan p;

    seed = number * 1000003 + 17;
    draw_plan(&p);
    for (int i = 0; i < 3; i++) {
        stk_loader_options o = p.options;
        const uint32_t holds = i ? (uint32_t)draw(MOST_HELD + 1) : 0;
        const bool parts = i && draw(2);
        run r = {0};
        counts n = {0};
        o.num_workers = i ? (int64_t)draw(4) : 0;
        o.cache = i ? (int)draw(3) : STK_CACHE_NONE;
        o.io_depth = 1 + (int64_t)draw(32);
        o.prefetch_factor = 1 + (int64_t)draw(4);
        snprintf(about, sizeof about,
                 "draw %d: workers %d, cache %d, io_depth %d, prefetch_factor %d, holds %u, %s",
                 (int)number, (int)o.num_workers, o.cache, (int)o.io_depth, (int)o.prefetch_factor,
                 holds, parts ? "in parts" : "in one");
        make_run(ctx, folder, &p, o, holds, parts, &r, &n);
        if (i == 0) {
            album *a = open_album(ctx, folder, p.samples, SAMPLES, p.ragged, 0);
            stk_dataset *dataset = &a->head;
            stk_loader *loader = open_run(a, &o);
            check_run(&p, loader, &r);
            stk_loader_destroy(&loader);
            stk_dataset_close(&dataset);
            first = r;
            bad = n.bad;
        } else {
            same_run(&first, &r, bad, n.bad);
            free(r.rows);
        }
        all->bad += n.bad;
        all->busy += n.busy;
        all->widened += n.widened;
        all->late += n.late;
    }
    free(first.rows);
    stk_context_destroy(&ctx);
}

static void what_fits_comes(void **state)
{
    const char *given = getenv("STOKER_TEST_DRAWS");
    const uint64_t draws = given ? strtoull(given, NULL, 10) : TEST_SANITIZED ? 10 : 40;
    char folder[256];
    counts all = {0};

    (void)state;
    make_store(folder);
    for (uint64_t i = 0; i < draws; i++)
        one_draw(folder, i, &all);
    /* Two rows are put back while a later one lacks memory: it waited for ever. */
    one_draw(folder, 232, &all);
    /* It was about something. */
    assert_true(all.bad && all.late && all.widened && all.busy);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_fits_comes)};

    return cmocka_run_group_tests(tests, make_pictures, free_pictures);
}
