/* SPDX-License-Identifier: Apache-2.0 */
/* Logs of several ranks, in which one is slower for a reason that was planted. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "measure/ranks.h"

static stk_context *ctx;
static stk_report *report;
static stk_error err;

static int set_up(void **state)
{
    ctx = test_context();
    return stk_report_create(ctx, &report, &err) == STK_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    stk_report_destroy(&report);
    stk_context_destroy(&ctx);
    return 0;
}

/* ---- Made logs ---- */

#define RANKS 4
#define STEPS 200
#define UNIX  1.7e9

enum {
    PLANT_NONE,
    PLANT_DISK,
    PLANT_WORK,
    PLANT_DATA,
    PLANT_BULK,
    PLANT_HEAVY,
    PLANT_STEP,
    PLANT_QUOTA
};

/* What is made. Seconds. */
typedef struct made {
    int plant;
    int slow;  /* the rank that has it */
    int ranks; /* of which logs are made */
    int world;
    int steps;
    int first_batch;  /* of which numbers begin */
    bool silent;      /* nothing of collectives */
    bool apart;       /* no rank waits for another */
    bool once;        /* one step alone is slow, by far */
    bool rare;        /* one step in ten alone is slow */
    double offset[8]; /* of the clocks */
    double drift[8];
    double late;  /* ends are noted up to so much too late, s */
    double begin; /* of the run */
    const char *label;
    bool figures;
} made;

static double draw(uint64_t rank, uint64_t step, uint64_t what)
{
    uint32_t words[4];

    stk__draw(7 + what, rank, step, STK_DRAW_DATA, words, 4);
    return (words[0] + 0.5) * 0x1p-32;
}

typedef struct times {
    double wait, compute;
} times;

static times times_of(const made *m, int rank, int step)
{
    const bool slow = rank == m->slow && (m->once ? step == 50 : !m->rare || step % 10 == 3);
    const double by = m->once ? 200 : m->rare ? 10 : 1;
    times t = {2e-3 + 1e-3 * draw((uint64_t)rank, (uint64_t)step, 0),
               20e-3 + 2e-3 * draw((uint64_t)rank, (uint64_t)step, 1)};

    if (slow && (m->plant == PLANT_STEP || m->plant == PLANT_HEAVY || m->plant == PLANT_QUOTA))
        t.compute += 8e-3 * by;
    else if (slow && m->plant != PLANT_NONE)
        t.wait += 10e-3 * by;
    return t;
}

static void put_head(FILE *out, const made *m, int rank, const char *event, double t)
{
    fprintf(out, "{\"event\": \"%s\", \"time\": %.7f", event,
            UNIX + m->begin + t + m->offset[rank] + m->drift[rank] * t);
}

/* The monotonic clock of a machine has an origin of its own. */
static void put_tail(FILE *out, const made *m, int rank, double t)
{
    fprintf(out, ", \"time_ns\": %lld, \"pid\": %d}\n",
            (long long)llround(1e9 * (1000 + 77 * rank + m->begin + t + m->drift[rank] * t)),
            100 + rank);
}

static void put_samples(FILE *out, const made *m, int rank, double t)
{
    const bool slow = rank == m->slow;

    put_head(out, m, rank, "read", t);
    fprintf(out, ", \"duration\": %g, \"bytes\": %d, \"status\": \"STK_OK\"",
            slow && m->plant == PLANT_DISK   ? 6e-3
            : slow && m->plant == PLANT_BULK ? 3e-3
                                             : 1e-3,
            slow && m->plant >= PLANT_DATA && m->plant <= PLANT_HEAVY ? 300000 : 100000);
    put_tail(out, m, rank, t);
    put_head(out, m, rank, "get-batch end", t);
    fprintf(out, ", \"duration\": %g, \"idx\": 1",
            slow && (m->plant == PLANT_WORK || m->plant == PLANT_DATA) ? 6e-3 : 2e-3);
    put_tail(out, m, rank, t);
}

static void put_end(FILE *out, const made *m, int rank, double t, double waited)
{
    put_head(out, m, rank, "ledger", t);
    fprintf(
        out, ", \"epoch\": 0, \"parts\": {\"step\": %g, \"data_wait\": %g}, \"wait\": {\"%s\": %g}",
        t - waited, waited,
        m->plant == PLANT_DISK || m->plant == PLANT_BULK ? "storage_latency" : "decode", waited);
    put_tail(out, m, rank, t);
    if (m->figures) {
        put_head(out, m, rank, "figures", t);
        fprintf(out, ", \"samples\": 1600, \"steps\": 200, \"wall\": %g, \"usable_cores\": %d", t,
                rank == m->slow && m->plant == PLANT_QUOTA ? 2 : 8);
        put_tail(out, m, rank, t);
    }
    put_head(out, m, rank, "run end", t);
    put_tail(out, m, rank, t);
}

static void put_step(FILE *out, const made *m, int rank, int step, const times *t, double begin,
                     double end)
{
    const double ready = begin + t->wait + t->compute;

    put_head(out, m, rank, "training start", begin + t->wait);
    fprintf(out, ", \"batch\": %d, \"epoch\": 0, \"wait\": %.9f", step + m->first_batch, t->wait);
    put_tail(out, m, rank, begin + t->wait);
    put_head(out, m, rank, "training end", end);
    fprintf(out, ", \"duration\": %.9f, \"batch\": %d, \"epoch\": 0", end - begin - t->wait,
            step + m->first_batch);
    if (!m->silent)
        fprintf(out, ", \"comm\": %.9f, \"comm_wait\": %.9f", end - ready + 2e-3, end - ready);
    put_tail(out, m, rank, end);
    put_samples(out, m, rank, begin);
}

/* One log for each rank, the last first, as a shell may list them in any order. */
static void read_made(const made *m)
{
    char *texts[8] = {0};
    size_t lengths[8];
    FILE *out[8];
    double at[8], waited[8] = {0};

    for (int r = 0; r < m->ranks; r++) {
        out[r] = open_memstream(&texts[r], &lengths[r]);
        assert_non_null(out[r]);
        put_head(out[r], m, r, "run start", 0);
        fprintf(out[r],
                ", \"label\": \"%s\", \"rank\": %d, \"world_size\": %d, \"locals\": "
                "{\"batch_size\": 8}",
                m->label ? m->label : "train", r, m->world ? m->world : m->ranks);
        put_tail(out[r], m, r, 0);
        at[r] = 0.2;
    }
    for (int k = 0; k < m->steps; k++) {
        times t[8];
        double last = 0;
        for (int r = 0; r < m->ranks; r++) {
            t[r] = times_of(m, r, k);
            last = fmax(last, at[r] + t[r].wait + t[r].compute);
        }
        for (int r = 0; r < m->ranks; r++) {
            const double own = at[r] + t[r].wait + t[r].compute,
                         end = (m->apart ? own : last) + 3e-3;
            const double noted = end + m->late * draw((uint64_t)r, (uint64_t)k, 2);
            put_step(out[r], m, r, k, &t[r], at[r], noted);
            waited[r] += t[r].wait;
            at[r] = m->apart ? noted : end;
        }
    }
    for (int r = m->ranks; r-- > 0;) {
        char name[32];
        put_end(out[r], m, r, at[r], waited[r]);
        assert_int_equal(fclose(out[r]), 0);
        snprintf(name, sizeof name, "run/rank-%d.jsonl", r);
        assert_ok(stk__report_begin(report, name, &err), &err);
        assert_ok(stk__report_feed(report, texts[r], lengths[r], &err), &err);
        assert_ok(stk__report_end(report, &err), &err);
        free(texts[r]);
    }
}

static const stk_report_comparison *compare(void)
{
    const stk_report_comparison *all;

    assert_ok(stk_report_compare(report, &all, &err), &err);
    return all;
}

static const stk_report_world *world_of(const made *m)
{
    read_made(m);
    const stk_report_comparison *all = compare();
    assert_int_equal(all->num_worlds, 1);
    return all->worlds[0];
}

static void assert_close(double value, double wanted, double most)
{
    if (!(fabs(value - wanted) <= most))
        fail_msg("%.9g is not within %.3g of %.9g", value, most, wanted);
}

/* ---- Who, and why ---- */

static const made plain = {.slow = 2, .ranks = RANKS, .steps = STEPS};

static void assert_straggler(int plant, bool figures, stk_straggling cause, const char *says)
{
    made m = plain;

    m.plant = plant;
    m.figures = figures;
    tear_down(NULL);
    assert_int_equal(set_up(NULL), 0);
    const stk_report_world *w = world_of(&m);
    assert_int_equal(w->straggler, 2);
    assert_string_equal(stk_straggling_name(w->cause), stk_straggling_name(cause));
    if (!strstr(w->text, says) || !strstr(w->text, "Rank 2 is behind"))
        fail_msg("'%s' is not in: %s", says, w->text);
}

static void test_causes(void **state)
{
    (void)state;
    assert_straggler(PLANT_DISK, false, STK_STRAGGLING_DISK, "a read takes 6 ms, the others' 1 ms");
    assert_straggler(PLANT_WORK, false, STK_STRAGGLING_CORES, "a worker takes 6 ms for a sample");
    assert_straggler(PLANT_DATA, false, STK_STRAGGLING_DATA, "3 times as large");
    assert_straggler(PLANT_BULK, false, STK_STRAGGLING_DATA, "3 times as large");
    assert_straggler(PLANT_HEAVY, false, STK_STRAGGLING_DATA, "3 times as large");
    assert_straggler(PLANT_STEP, false, STK_STRAGGLING_STEP, "it takes 29 ms without collectives");
    assert_straggler(PLANT_QUOTA, true, STK_STRAGGLING_CORES, "it may use 2, the others 8");
}

/* What is planted is what is found, to the microsecond. */
static void test_numbers(void **state)
{
    made m = plain;
    double behind = 0, lost = 0, cycle = 0;

    (void)state;
    m.plant = PLANT_STEP;
    const stk_report_world *w = world_of(&m);
    for (int k = 1; k < STEPS; k++) { /* how long the first was waited for is not known */
        double own[RANKS], last = 0, first = INFINITY, second = INFINITY;
        for (int r = 0; r < RANKS; r++) {
            const times t = times_of(&m, r, k);
            own[r] = t.wait + t.compute;
            last = fmax(last, own[r]);
            second = fmin(second, fmax(first, own[r])); /* of four the lower of the middle */
            first = fmin(first, own[r]);
        }
        assert_true(last == own[2]);
        behind += own[2] / (STEPS - 1);
        cycle += (last + 3e-3) / (STEPS - 1);
        lost += (last - second) / (STEPS - 1);
    }
    assert_int_equal(w->num_ranks, RANKS);
    assert_int_equal(w->steps, STEPS - 1);
    assert_true(w->meets);
    assert_close(w->cycle, cycle, 2e-6);
    assert_close(w->ranks[2]->own, behind, 2e-6);
    assert_close(w->ranks[2]->last_share, 1, 1e-12);
    assert_close(w->ranks[2]->cost, lost, 2e-6);
    assert_close(w->lost_share, lost / cycle, 1e-3);
    /* It waits for nobody: what is left of the collectives is their own. */
    assert_close(w->comm_alone, 3e-3, 2e-6);
    assert_close(w->ranks[2]->comm, 5e-3, 2e-6);
    assert_close(w->comm_overlap * w->comm_share * w->cycle, 2e-3, 5e-6);
}

/* One step in ten that takes long is a straggler, too; a fair draw is none. */
static void test_rare_and_none(void **state)
{
    made m = plain;

    (void)state;
    m.plant = PLANT_DISK;
    m.rare = true;
    const stk_report_world *w = world_of(&m);
    assert_int_equal(w->straggler, 2);
    assert_true(w->ranks[2]->last_share > 0.1 && w->ranks[2]->last_share < 0.5);
    /* One step of 200 costs more, and says nothing of the rank. */
    tear_down(NULL);
    assert_int_equal(set_up(NULL), 0);
    m.rare = false;
    m.once = true;
    w = world_of(&m);
    assert_true(w->ranks[2]->behind > 0.2 * w->cycle);
    assert_int_equal(w->slowest, 2);
    assert_int_equal(w->straggler, -1);
    m.once = false;
    tear_down(NULL);
    assert_int_equal(set_up(NULL), 0);
    m.plant = PLANT_NONE;
    w = world_of(&m);
    assert_int_equal(w->straggler, -1);
    assert_string_equal(stk_straggling_name(w->cause), "none");
    assert_non_null(strstr(w->text, "No rank is behind"));
    assert_true(w->lost_share > 0 && w->lost_share < 0.06);
}

/* Logs that say nothing of collectives tell of late batches still. */
static void test_silent(void **state)
{
    made m = plain;

    (void)state;
    m.plant = PLANT_DISK;
    m.silent = true;
    const stk_report_world *w = world_of(&m);
    assert_int_equal(w->straggler, 2);
    assert_int_equal(w->cause, STK_STRAGGLING_DISK);
    assert_true(isnan(w->comm_share) && isnan(w->comm_alone));
    assert_non_null(strstr(w->text, "the logs do not say"));
}

/* ---- Clocks ---- */

static void test_clocks(void **state)
{
    made m = plain;

    (void)state;
    m.plant = PLANT_DISK;
    m.offset[1] = 0.5;
    m.offset[2] = -0.2;
    m.offset[3] = 3600;
    m.steps = 3000; /* more than are kept */
    m.drift[3] = 100e-6;
    const stk_report_world *w = world_of(&m);
    assert_true(w->meets);
    assert_true(w->steps > 500 && w->steps <= STK__MARKS_MAX);
    assert_true(w->ranks[0]->offset == 0);
    assert_close(w->ranks[1]->offset, 0.5, 20e-6);
    assert_close(w->ranks[2]->offset, -0.2, 20e-6);
    assert_close(w->ranks[3]->offset, 3600, 200e-6);
    assert_close(w->ranks[3]->drift, 100e-6, 2e-6);
    assert_close(w->ranks[1]->drift, 0, 1e-6);
    assert_true(w->ranks[3]->scatter < 100e-6);
    assert_non_null(strstr(w->clocks, "rank 1 +500 ms"));
    assert_non_null(strstr(w->clocks, "+100 ppm"));
    /* On one clock all ranks end a step together, and batches are asked for when it is over. */
    assert_int_equal(w->num_lined, STK_REPORT_LINED * RANKS);
    for (uint64_t i = 0; i < w->num_lined; i++) {
        const stk_report_lined *l = &w->lined[i], *first = &w->lined[i - i % RANKS];
        assert_int_equal(l->rank, i % RANKS);
        assert_int_equal(l->batch, first->batch);
        assert_close(l->end, first->end, 200e-6);
        assert_close(l->asked, first->asked, 200e-6);
        assert_true(l->asked < l->begin && l->begin < l->end);
    }
}

/* Ranks that wait for nobody have no ends in common; the slower one is seen all the same. */
static void test_apart(void **state)
{
    made m = plain;

    (void)state;
    m.plant = PLANT_STEP;
    m.apart = true;
    m.offset[1] = 5;
    const stk_report_world *w = world_of(&m);
    assert_false(w->meets);
    assert_true(isnan(w->ranks[1]->offset));
    assert_int_equal(w->num_lined, 0);
    assert_int_equal(w->straggler, 2);
    assert_non_null(strstr(w->clocks, "do not end their"));
}

/* Where threads are late by half a step, ranks that meet are told from those that do not. */
static void test_late_ends(void **state)
{
    made m = plain;

    (void)state;
    m.late = 12e-3;
    m.offset[1] = 5;
    const stk_report_world *w = world_of(&m);
    assert_true(w->meets);
    assert_true(w->ranks[1]->scatter > STK__MEETS_NEAR * w->cycle);
    assert_close(w->ranks[1]->offset, 5, 3e-3);
    tear_down(NULL);
    assert_int_equal(set_up(NULL), 0);
    m.apart = true;
    assert_false(world_of(&m)->meets);
}

static void test_few(void **state)
{
    made m = plain;

    (void)state;
    m.plant = PLANT_DISK;
    m.steps = 6;
    const stk_report_world *w = world_of(&m);
    assert_int_equal(w->steps, 5);
    assert_false(w->meets);
    assert_int_equal(w->slowest, 2);
    assert_int_equal(w->straggler, -1); /* so few may be chance */
    assert_non_null(strstr(w->clocks, "too few"));
}

/* ---- Which belong together ---- */

static void test_worlds(void **state)
{
    made m = plain;

    (void)state;
    m.ranks = 3;
    m.world = 4; /* one log is missing */
    read_made(&m);
    m.begin = 7200; /* the same again, later */
    read_made(&m);
    m.label = "other";
    read_made(&m);
    const stk_report_comparison *all = compare();
    assert_int_equal(all->num_worlds, 3);
    for (uint64_t i = 0; i < 3; i++) {
        const stk_report_world *w = all->worlds[i];
        assert_int_equal(w->world_size, 4);
        assert_int_equal(w->num_ranks, 3);
        for (uint64_t k = 0; k < 3; k++) {
            assert_int_equal(w->ranks[k]->rank, k);
            assert_int_equal(w->ranks[k]->run / 3, i);
        }
        assert_non_null(strstr(w->text, "The logs of 1 of 4 ranks are missing (3). "));
    }
}

/* Of two runs of one name a late rank belongs to the one that began when it did. */
static void test_nearest(void **state)
{
    made m = plain;

    (void)state;
    m.ranks = 1;
    m.world = 2;
    read_made(&m);
    m.begin = 7200;
    read_made(&m);
    m.begin = 10;
    m.ranks = 2; /* rank 1 is read first */
    read_made(&m);
    const stk_report_comparison *all = compare();
    assert_int_equal(all->num_worlds, 1);
    assert_int_equal(all->worlds[0]->ranks[0]->run, 0);
    assert_int_equal(all->worlds[0]->ranks[1]->run, 2);
}

/* A rank that goes on elsewhere has no step in common with the others. */
static void test_nothing_common(void **state)
{
    made m = plain;

    (void)state;
    m.ranks = 1;
    m.world = 2;
    m.steps = 20;
    read_made(&m);
    const char *other =
        "{\"event\": \"run start\", \"time\": 1700000000.0, \"label\": \"train\", \"rank\": 1, "
        "\"world_size\": 2}\n{\"event\": \"training end\", \"time\": 1700000001.0, \"duration\": "
        "0.5, \"batch\": 99, \"epoch\": 3}\n";
    assert_ok(stk__report_begin(report, "other", &err), &err);
    assert_ok(stk__report_feed(report, other, strlen(other), &err), &err);
    assert_ok(stk__report_end(report, &err), &err);
    const stk_report_comparison *all = compare();
    assert_int_equal(all->num_worlds, 1);
    assert_int_equal(all->worlds[0]->steps, 0);
    assert_int_equal(all->worlds[0]->slowest, -1);
    assert_non_null(strstr(all->worlds[0]->text, "nothing to compare"));
}

/* Numbers of hostile logs bring no two steps of one number, no rank outside its world. */
static void test_hostile(void **state)
{
    char text[8192];
    size_t n = 0;

    (void)state;
    for (int r = 0; r < 4; r++) {
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"event\": \"run start\", \"time\": %s, \"rank\": %d, "
                              "\"world_size\": %d, \"pid\": %d}\n",
                              r == 1 ? "1e300" : "1.0", r == 3 ? 9 : r, r == 2 ? -4 : 3, r + 1);
        for (int k = 0; k < 12; k++)
            n +=
                (size_t)snprintf(text + n, sizeof text - n,
                                 "{\"event\": \"training end\", \"time\": %d.5, \"duration\": 1e9, "
                                 "\"batch\": 5, \"epoch\": 0, \"comm\": -3, \"pid\": %d}\n",
                                 2 + k, r + 1);
    }
    assert_true(n < sizeof text);
    assert_ok(stk__report_begin(report, "log", &err), &err);
    assert_ok(stk__report_feed(report, text, n, &err), &err);
    assert_ok(stk__report_end(report, &err), &err);
    const stk_report_comparison *all = compare();
    for (uint64_t i = 0; i < all->num_worlds; i++) {
        assert_true(all->worlds[i]->steps <= 1);
        assert_true(all->worlds[i]->num_ranks <= 2);
        assert_true(strlen(all->worlds[i]->text) > 20);
    }
}

/* A step whose wait one rank does not know, as its log begins there, is compared with none. */
static void test_unknown_wait(void **state)
{
    stk__mark marks[2][3];
    stk__marks of[2] = {{.marks = marks[0], .n = 3}, {.marks = marks[1], .n = 3}};
    const stk__rank_steps steps[2] = {{&of[0], 0}, {&of[1], 0}};
    stk_report_rank ranks[2];

    (void)state;
    for (int unknown = 0; unknown < 2; unknown++) {
        stk_report_world out = {0};
        for (int r = 0; r < 2; r++)
            for (int k = 0; k < 3; k++)
                marks[r][k] = (stk__mark){.batch = k,
                                          .begin = k + 0.25,
                                          .end = k + 0.75,
                                          .wait = r == unknown && k == 0 ? NAN : 0.25F,
                                          .comm = NAN,
                                          .comm_wait = NAN};
        assert_ok(stk__ranks_compare(ctx, steps, 2, ranks, &out), &err);
        assert_int_equal(out.steps, 2);
        assert_close(out.cycle, 0.75, 1e-12);
        assert_close(ranks[unknown].wait, 0.25, 1e-12);
        stk__free(ctx, (stk_report_lined *)out.lined);
    }
}

/* A rank that waits longer, of which a ledger shows no more for anything, and one without a ledger.
 */
static void test_unexplained(void **state)
{
    stk__rank_parts parts[3];
    char text[512];

    (void)state;
    for (int known = 0; known < 2; known++) {
        for (size_t i = 0; i < 3 * sizeof *parts / sizeof(double); i++)
            ((double *)parts)[i] = 1e-3;
        parts[1].wait = 5e-3;
        for (int r = 0; r < 3 && !known; r++)
            parts[r].storage = parts[r].work = NAN;
        assert_int_equal(stk__rank_cause(parts, 3, 1, (double[3]){0}, text, sizeof text),
                         STK_STRAGGLING_UNKNOWN);
        assert_true((strstr(text, "nothing that its log knows of differs") != NULL) == known);
        assert_true((strstr(text, "record a ledger") != NULL) == !known);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_causes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rare_and_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_silent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_clocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_few, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_worlds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nearest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_common, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_wait, set_up, tear_down),
        cmocka_unit_test(test_unexplained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
