/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random logs with every defect of the published ones (several objects a line, empty lines, lines
 * that overtake each other, events behind the end) and torn pieces between, in pieces of any
 * length: every event is recovered, and the waits are those of the definition.
 */
#include "support/support.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/report.h>

#include "base/base.h"
#include "measure/read.h"

enum { ROUNDS = 300, MOST_EVENTS = 400, EVENT_BYTES = 160, NEAR = 20 };

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    return test_random(&seed) % below;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct log {
    char events[MOST_EVENTS][EVENT_BYTES];
    uint64_t n, steps, gets, waits;
    double wait, step, now;
    /* As written. */
    char text[MOST_EVENTS * (EVENT_BYTES + 32)];
    size_t length;
    uint64_t shared, junk;
};

static void emit(struct log *l, const char *name, double when, const char *rest)
{
    snprintf(l->events[l->n++], EVENT_BYTES, "{\"event\": \"%s\", \"time\": %.6f%s}", name, when,
             rest);
}

/* Steps that wait up to 50 ms, each after a few samples. */
static void make(struct log *l)
{
    uint64_t steps = 2 + draw(40);
    char rest[96];

    *l = (struct log){.now = 1.7e9};
    emit(l, "run start", l->now, ", \"locals\": {\"batch_size\": 4}");
    for (uint64_t i = 0; i < steps; i++) {
        double wait = (double)draw(50000) * 1e-6, step = 0.01 + (double)draw(1000) * 1e-6;
        for (uint64_t k = draw(5); k > 0; k--, l->gets++) {
            snprintf(rest, sizeof rest, ", \"idx\": %" PRIu64 ", \"pid\": 7, \"duration\": 0.001",
                     draw(1000));
            emit(l, "get-batch end", l->now + wait * 0.9, rest);
        }
        l->now += wait;
        emit(l, "training start", l->now, ", \"batch\": 1");
        l->now += step;
        snprintf(rest, sizeof rest, ", \"batch\": 1, \"duration\": %.6f", step);
        emit(l, "training end", l->now, rest);
        l->wait += i ? wait : 0;
        l->waits += i > 0;
        l->step += step;
        l->steps++;
    }
    emit(l, "run end", l->now, ", \"duration\": 1.5");
    emit(l, "get-batch end", l->now + 0.1, ", \"idx\": 1, \"pid\": 7, \"duration\": 0.001");
    l->gets++;
}

static void swap(struct log *l, uint64_t i, uint64_t k)
{
    char other[EVENT_BYTES];

    memcpy(other, l->events[i], EVENT_BYTES);
    memcpy(l->events[i], l->events[k], EVENT_BYTES);
    memcpy(l->events[k], other, EVENT_BYTES);
}

static void put(struct log *l, const char *text)
{
    size_t n = strlen(text);

    memcpy(l->text + l->length, text, n);
    l->length += n;
}

/* What stands alone on its line is what a reader of one object a line sees. */
static void write_log(struct log *l)
{
    static const char *const torn[] = {"{\"event\": \"train\n", "garbage\n", "{\"event\n", "]]}\n"};

    for (uint64_t k = draw(8); k > 0; k--) {
        uint64_t i = 1 + draw(l->n - 1), near = 1 + draw(NEAR);
        if (i + near < l->n)
            swap(l, i, i + near);
    }
    for (uint64_t i = 0; i < l->n;) {
        uint64_t together = draw(10) ? 1 : least(2 + draw(2), l->n - i);
        l->shared += together > 1 ? together : 0;
        for (uint64_t k = 0; k < together; k++)
            put(l, l->events[i++]);
        put(l, draw(3) ? "\n" : " \r\n\n");
        if (draw(25) == 0) {
            const char *piece = torn[draw(STK_COUNT(torn))];
            put(l, piece);
            l->junk += strlen(piece) - 1;
        }
    }
}

static void check(const struct log *l, stk_report *report)
{
    const stk_report_file *f = stk_report_file_at(report, 0);
    const stk_report_run *run = stk_report_run_at(report, 0);

    assert_int_equal(f->bytes, l->length);
    assert_int_equal(f->objects, l->n);
    assert_int_equal(f->notebook_lost, l->shared);
    assert_int_equal(f->dropped_bytes, l->junk);
    assert_int_equal(f->foreign + f->bad_times + f->clock_steps, 0);
    assert_int_equal(stk_report_runs(report), 1);
    assert_int_equal(run->get_batches, l->gets);
    assert_int_equal(run->steps, l->steps);
    assert_int_equal(run->wait.n, l->waits);
    assert_true(fabs(run->wait.sum - l->wait) < 1e-5);
    assert_true(fabs(run->step_sum - l->step) < 1e-5);
}

static void test_defects(void **state)
{
    struct log *l = malloc(sizeof *l);

    assert_non_null(l);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        stk_context *ctx = test_context();
        stk_report *report;
        stk_error err;
        seed = round;
        make(l);
        write_log(l);
        assert_ok(stk_report_create(ctx, &report, &err), &err);
        assert_ok(stk__report_begin(report, "log", &err), &err);
        for (size_t at = 0, n; at < l->length; at += n) {
            n = least(1 + draw(draw(2) ? 30 : 3000), l->length - at);
            assert_ok(stk__report_feed(report, l->text + at, n, &err), &err);
        }
        assert_ok(stk__report_end(report, &err), &err);
        check(l, report);
        stk_report_destroy(&report);
        stk_context_destroy(&ctx);
    }
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
