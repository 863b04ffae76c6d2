/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in the order of ranks, calls that do not fit each other, ranks that are late or gone. */
#include <math.h>
#include <stdlib.h>

#include "base/probe.h"
#include "unit/dist/network.h"

/* ---- Ranks ----------------------------------------------------------------------------------- */

typedef struct rank {
    network_end end;
    stk_context *ctx;
    stk_collectives_options options;
    stk_collectives *c;
    const stk_strategy *s;
    void (*body)(struct rank *);
    stk_status status;
    stk_error err;
    void *data; /* of the body */
    uint64_t count;
    stk_dtype dtype;
    stk_combine op;
} rank;

static void *run_rank(void *argument)
{
    rank *r = argument;

    network_self = &r->end;
    stk_error_init(&r->err);
    r->status = stk__collectives_join(r->ctx, &network_ops, &r->options, &r->c, &r->err);
    if (r->status != STK_OK)
        return NULL;
    r->s = stk_collectives_strategy(r->c);
    r->body(r);
    if (r->status != STK_OK)
        r->s->abort(r->s->state);
    stk_collectives_close(&r->c);
    return NULL;
}

typedef struct world {
    network net;
    rank ranks[NETWORK_RANKS];
    stk_context *ctx;
} world;

static void world_begin(world *w, uint64_t size, void (*body)(rank *))
{
    *w = (world){.net.world = size, .ctx = test_context()};
    pthread_mutex_init(&w->net.lock, NULL);
    for (uint64_t r = 0; r < size; r++) {
        w->ranks[r] = (rank){.end = {&w->net, r}, .ctx = w->ctx, .body = body};
        stk_collectives_options_init(&w->ranks[r].options);
    }
}

static void world_run(world *w)
{
    pthread_t threads[NETWORK_RANKS];

    for (uint64_t r = 0; r < w->net.world; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &w->ranks[r]), 0);
    for (uint64_t r = 0; r < w->net.world; r++)
        pthread_join(threads[r], NULL);
    assert_false(w->net.torn);
}

static void world_end(world *w)
{
    pthread_mutex_destroy(&w->net.lock);
    for (uint64_t r = 0; r < w->net.world; r++)
        free(w->ranks[r].data);
    stk_context_destroy(&w->ctx);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Numbers whose sum depends on its order. */
static float number(uint64_t rank, uint64_t i)
{
    const uint32_t x = (uint32_t)(i * 2654435761u + rank * 40503u + 17);

    return (float)((double)(x >> 8) / 16777216.0 - 0.5) * (rank % 2 ? 1000.0f : 1.0f);
}

static void fill(void *data, uint64_t rank, uint64_t count, stk_dtype dtype)
{
    for (uint64_t i = 0; i < count; i++) {
        const float x = number(rank, i);
        if (dtype == STK_FLOAT64)
            ((double *)data)[i] = (double)x * 1.1;
        else if (dtype == STK_FLOAT32)
            ((float *)data)[i] = x;
        else
            stk__float_bytes(dtype, (double)x, (char *)data + 2 * i);
    }
}

/* Element `i` as it is to be, in a type that has it. */
static double expected(uint64_t world, uint64_t i, stk_dtype dtype, stk_combine op)
{
    char element[8];
    double d = 0;
    float f = 0;

    for (uint64_t r = 0; r < world; r++) {
        stk__float_bytes(dtype,
                         dtype == STK_FLOAT64 ? (double)number(r, i) * 1.1 : (double)number(r, i),
                         element);
        const double x = stk__element_as_double(element, dtype);
        if (r == 0)
            d = x, f = (float)x;
        else if (op == STK_COMBINE_MIN)
            d = fmin(d, x), f = fminf(f, (float)x);
        else if (op == STK_COMBINE_MAX)
            d = fmax(d, x), f = fmaxf(f, (float)x);
        else
            d += x, f += (float)x;
    }
    if (op == STK_COMBINE_MEAN)
        d /= (double)world, f /= (float)world;
    if (dtype == STK_FLOAT64)
        return d;
    stk__float_bytes(dtype, (double)f, element);
    return stk__element_as_double(element, dtype);
}

static void reduce_body(rank *r)
{
    r->status = r->s->reduce(r->s->state, r->data, r->count, r->dtype, r->op, NULL, &r->err);
}

static void sum_once(uint64_t size, uint64_t count, stk_dtype dtype, stk_combine op)
{
    world w;

    world_begin(&w, size, reduce_body);
    for (uint64_t r = 0; r < size; r++) {
        rank *one = &w.ranks[r];
        one->data = malloc(count * 8 + 8);
        one->count = count;
        one->dtype = dtype;
        one->op = op;
        fill(one->data, r, count, dtype);
    }
    world_run(&w);
    for (uint64_t r = 0; r < size; r++) {
        assert_ok(w.ranks[r].status, &w.ranks[r].err);
        assert_memory_equal(w.ranks[r].data, w.ranks[0].data, count * stk_dtype_size(dtype));
    }
    for (uint64_t i = 0; i < count; i++)
        assert_true(stk__element_as_double((char *)w.ranks[0].data + i * stk_dtype_size(dtype),
                                           dtype) == expected(size, i, dtype, op));
    assert_int_equal(w.net.wholes, size);
    world_end(&w);
}

static void sums(void **state)
{
    /* Along in the frames, just beyond, less than there are ranks, and more than a piece. */
    static const uint64_t counts[] = {0, 1, 3, 32, 33, 64, 65, 128, 129, 1000, 2100000};
    static const stk_dtype types[] = {STK_FLOAT32, STK_FLOAT64, STK_BFLOAT16};

    for (uint64_t size = 1; size <= NETWORK_RANKS; size++)
        for (size_t i = 0; i < STK_COUNT(counts) - (size != 3); i++)
            for (size_t t = 0; t < STK_COUNT(types); t++) {
                const stk_combine op = (stk_combine)((i + t + size) % 4);
                sum_once(size, counts[i], types[t], op);
            }
    for (int op = 0; op < 4; op++)
        sum_once(4, 500, STK_FLOAT32, (stk_combine)op);
}

/* ---- In parts -------------------------------------------------------------------------------- */

/* Parts of `count` elements: equal ones, or all but a few of them the last rank's. */
static void part_counts(uint64_t size, uint64_t count, bool uneven, uint64_t *counts)
{
    for (uint64_t r = 0; r < size; r++)
        counts[r] = uneven ? (r == 0 ? STK_MIN(count, (uint64_t)2) : 0)
                           : stk__part_from(count, size, r + 1) - stk__part_from(count, size, r);
    if (uneven)
        counts[size - 1] = count - (size > 1 ? counts[0] : 0);
}

typedef struct halves {
    uint64_t counts[NETWORK_RANKS];
    bool gathers; /* both halves, which are the whole */
    _Alignas(double) char bytes[];
} halves;

static void halves_body(rank *r)
{
    halves *h = r->data;

    r->status =
        r->s->reduce_scatter(r->s->state, h->bytes, h->counts, r->dtype, r->op, NULL, &r->err);
    if (r->status == STK_OK && h->gathers)
        r->status = r->s->all_gather(r->s->state, h->bytes, h->counts, r->dtype, NULL, &r->err);
}

/* Elements from `from` on of rank `rank`'s buffer are the sums; the others are not looked at. */
static void assert_sums(const rank *r, uint64_t size, uint64_t from, uint64_t n)
{
    const halves *h = r->data;

    for (uint64_t i = from; i < from + n; i++)
        if (stk__element_as_double(h->bytes + i * stk_dtype_size(r->dtype), r->dtype) !=
            expected(size, i, r->dtype, r->op))
            fail_msg("element %d of rank %d of %d", (int)i, (int)r->end.rank, (int)size);
}

static void halve_once(uint64_t size, uint64_t count, bool uneven, bool gathers, stk_dtype dtype)
{
    world w;
    uint64_t from = 0;

    world_begin(&w, size, halves_body);
    for (uint64_t r = 0; r < size; r++) {
        rank *one = &w.ranks[r];
        halves *h = one->data = malloc(sizeof *h + count * 8 + 8);
        part_counts(size, count, uneven, h->counts);
        h->gathers = gathers;
        one->count = count;
        one->dtype = dtype;
        one->op = STK_COMBINE_MEAN;
        fill(h->bytes, r, count, dtype);
    }
    world_run(&w);
    for (uint64_t r = 0; r < size; r++) {
        const halves *h = w.ranks[r].data;
        assert_ok(w.ranks[r].status, &w.ranks[r].err);
        assert_sums(&w.ranks[r], size, gathers ? 0 : from, gathers ? count : h->counts[r]);
        from += h->counts[r];
    }
    assert_int_equal(w.net.wholes, size);
    world_end(&w);
}

/* Each half, and both as reduce(): sums of the same bits. */
static void in_parts(void **state)
{
    static const uint64_t counts[] = {0, 1, 3, 64, 65, 1000, 2100001};
    static const stk_dtype types[] = {STK_FLOAT32, STK_FLOAT64, STK_BFLOAT16};

    for (uint64_t size = 1; size <= NETWORK_RANKS; size++)
        for (size_t i = 0; i < STK_COUNT(counts) - (size != 3 && size != 4); i++)
            for (int uneven = 0; uneven < 2; uneven++)
                for (int gathers = 0; gathers < 2; gathers++)
                    halve_once(size, counts[i], uneven, gathers, types[(i + size) % 3]);
}

static void broadcast_body(rank *r)
{
    r->status = r->s->broadcast(r->s->state, r->data, r->count, NULL, &r->err);
    if (r->status == STK_OK)
        r->status = r->s->barrier(r->s->state, &r->err);
}

static void broadcasts(void **state)
{
    static const uint64_t counts[] = {0, 1, 256, 257, 5000000};
    world w;

    for (size_t i = 0; i < STK_COUNT(counts); i++) {
        world_begin(&w, 3, broadcast_body);
        for (uint64_t r = 0; r < 3; r++) {
            w.ranks[r].count = counts[i];
            w.ranks[r].data = malloc(counts[i] + 1);
            memset(w.ranks[r].data, 'a' + (int)r, counts[i] + 1);
        }
        world_run(&w);
        for (uint64_t r = 0; r < 3; r++) {
            const char *data = w.ranks[r].data;
            assert_ok(w.ranks[r].status, &w.ranks[r].err);
            for (uint64_t k = 0; k < counts[i]; k++)
                assert_int_equal(data[k], 'a');
            assert_int_equal(data[counts[i]], 'a' + (int)r);
        }
        world_end(&w);
    }
}

/* ---- Calls that do not fit ------------------------------------------------------------------- */

static void body_differs(rank *r)
{
    double numbers[40] = {0};
    const uint64_t own = r->s->rank == 1;

    switch (r->count) {
    case 0:
        r->status = r->s->reduce(r->s->state, numbers, 3 + own, STK_FLOAT64, STK_COMBINE_SUM, NULL,
                                 &r->err);
        break;
    case 1:
        r->status = r->s->reduce(r->s->state, numbers, 40, own ? STK_FLOAT32 : STK_FLOAT64,
                                 STK_COMBINE_SUM, NULL, &r->err);
        break;
    case 2:
        r->status = r->s->reduce(r->s->state, numbers, 3, STK_FLOAT64,
                                 own ? STK_COMBINE_MAX : STK_COMBINE_SUM, NULL, &r->err);
        break;
    default:
        r->status = own ? r->s->barrier(r->s->state, &r->err)
                        : r->s->broadcast(r->s->state, numbers, sizeof numbers, NULL, &r->err);
    }
    /* It is over, and all know: nobody waits in a later call. */
    if (r->status != STK_OK)
        assert_int_equal(r->s->barrier(r->s->state, NULL), STK_EIO);
}

static void differences_are_named(void **state)
{
    static const char *const theirs[] = {"reduce 4 float64 by sum", "reduce 40 float32 by sum",
                                         "reduce 3 float64 by max", "barrier"};
    world w;

    for (uint64_t i = 0; i < STK_COUNT(theirs); i++) {
        world_begin(&w, 3, body_differs);
        for (uint64_t r = 0; r < 3; r++)
            w.ranks[r].count = i;
        world_run(&w);
        for (uint64_t r = 0; r < 3; r++) {
            assert_int_equal(w.ranks[r].status, STK_EMISMATCH);
            assert_non_null(strstr(w.ranks[r].err.text, theirs[i]));
            assert_non_null(strstr(w.ranks[r].err.text, "rank 1"));
        }
        assert_int_equal(w.net.wholes, 3);
        world_end(&w);
    }
}

/* ---- Ranks that are late, gone or cut off ---------------------------------------------------- */

static void three_barriers(rank *r)
{
    for (int i = 0; i < 3 && r->status == STK_OK; i++)
        r->status = r->s->barrier(r->s->state, &r->err);
}

static void late_is_named(void **state)
{
    world w;

    world_begin(&w, 3, three_barriers);
    for (uint64_t r = 0; r < 3; r++) {
        w.ranks[r].options.collective_timeout = 0.4;
        w.ranks[r].options.fault_rank = 1;
        w.ranks[r].options.fault_late_at = 2;
        w.ranks[r].options.fault_late_by = 1.2;
    }
    world_run(&w);
    for (uint64_t r = 0; r < 3; r += 2) {
        assert_int_equal(w.ranks[r].status, STK_ETIMEDOUT);
        assert_non_null(strstr(w.ranks[r].err.text, "in call 2 (barrier) for rank 1 ("));
        assert_null(strstr(w.ranks[r].err.text, "for rank 1, "));
    }
    assert_true(w.net.wholes < 3);
    world_end(&w);
}

static void a_little_late_is_fine(void **state)
{
    world w;

    world_begin(&w, 3, three_barriers);
    for (uint64_t r = 0; r < 3; r++) {
        w.ranks[r].options.collective_timeout = 60;
        w.ranks[r].options.fault_rank = 2;
        w.ranks[r].options.fault_late_at = 2;
        w.ranks[r].options.fault_late_by = 0.05;
    }
    world_run(&w);
    for (uint64_t r = 0; r < 3; r++)
        assert_ok(w.ranks[r].status, &w.ranks[r].err);
    world_end(&w);
}

static void failure_is_told(void **state)
{
    world w;

    world_begin(&w, 3, three_barriers);
    for (uint64_t r = 0; r < 3; r++) {
        w.ranks[r].options.fault_rank = 2;
        w.ranks[r].options.fault_fail_at = 2;
    }
    world_run(&w);
    assert_fails(w.ranks[2].status, STK_EIO, &w.ranks[2].err, "call 2 fails");
    for (uint64_t r = 0; r < 2; r++) {
        assert_fails(w.ranks[r].status, STK_EIO, &w.ranks[r].err, "rank 2 of 3");
        assert_non_null(strstr(w.ranks[r].err.text, "has failed"));
    }
    /* All know, so all leave in good order. */
    assert_int_equal(w.net.wholes, 3);
    world_end(&w);
}

static void body_leaves(rank *r)
{
    if (r->s->rank != 1)
        three_barriers(r);
}

static void leaving_is_told(void **state)
{
    world w;

    world_begin(&w, 3, body_leaves);
    world_run(&w);
    assert_ok(w.ranks[1].status, &w.ranks[1].err);
    for (uint64_t r = 0; r < 3; r += 2)
        assert_fails(w.ranks[r].status, STK_EIO, &w.ranks[r].err, "rank 1 of 3");
    assert_int_equal(w.net.wholes, 3);
    world_end(&w);
}

static void network_fails(void **state)
{
    world w;

    world_begin(&w, 2, three_barriers);
    w.net.fail_test_of = 1;
    w.ranks[0].options.collective_timeout = w.ranks[1].options.collective_timeout = 0.3;
    world_run(&w);
    assert_fails(w.ranks[0].status, STK_EIO, &w.ranks[0].err, "a cable was cut");
    assert_int_equal(w.net.wholes, 0);
    world_end(&w);
}

static void body_refused(rank *r)
{
    int64_t numbers[2] = {0};

    assert_int_equal(
        r->s->reduce(r->s->state, numbers, 2, STK_INT64, STK_COMBINE_SUM, NULL, &r->err),
        STK_ENOTSUP);
    assert_non_null(strstr(r->err.text, "int64"));
    stk_error_init(&r->err);
}

static void refused(void **state)
{
    stk_collectives_options o;
    stk_collectives *c;
    stk_error err;
    world w;

    world_begin(&w, 2, body_refused);
    world_run(&w);
    world_end(&w);
    stk_context *ctx = test_context();
    stk_collectives_options_init(&o);
    o.transport = "pigeons";
    assert_fails(stk_collectives_open(ctx, &o, &c, &err), STK_EINVAL, &err, "pigeons");
    o.transport = "/dev/null";
    assert_fails(stk_collectives_open(ctx, &o, &c, &err), STK_EINVAL, &err, "/dev/null");
    o.transport = "openmpi";
    o.fault_late_at = 1;
    assert_fails(stk_collectives_open(ctx, &o, &c, &err), STK_EINVAL, &err, "fault_late_by");
    stk_context_destroy(&ctx);
}

/* Whoever watches sees a rank enter a collective and leave it. */
static atomic_int meets, mets;

static void count_meetings(void *user, const stk__event *event)
{
    (void)user;
    if (event->kind == STK__EVENT_MEET)
        atomic_fetch_add(&meets, 1);
    if (event->kind == STK__EVENT_MET && event->status == STK_OK)
        atomic_fetch_add(&mets, 1);
}

static void meetings_are_told(void **state)
{
    const stk__probe probe = {.event = count_meetings};
    world w;

    (void)state;
    world_begin(&w, 2, three_barriers);
    assert_int_equal(stk__probe_add(w.ctx, &probe), STK_OK);
    world_run(&w);
    stk__probe_remove(w.ctx, &probe);
    world_end(&w);
    /* Of each rank: joining, three barriers, leaving. */
    assert_int_equal(meets, 10);
    assert_int_equal(mets, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meetings_are_told),
        cmocka_unit_test(sums),
        cmocka_unit_test(in_parts),
        cmocka_unit_test(broadcasts),
        cmocka_unit_test(differences_are_named),
        cmocka_unit_test(late_is_named),
        cmocka_unit_test(a_little_late_is_fine),
        cmocka_unit_test(failure_is_told),
        cmocka_unit_test(leaving_is_told),
        cmocka_unit_test(network_fails),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests_name("dist/collectives", tests, NULL, NULL);
}
