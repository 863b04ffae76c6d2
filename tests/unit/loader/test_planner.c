/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner alone, without workers or a consumer: what it locates, what it reads, in which order,
 * and where it waits for memory. Samples are ranges of one object on a store that keeps what is
 * submitted.
 */
#include "loader/planner.h"

#include "support/support.h"

enum { SIZE = 64, ROWS = 4, BYTES = 100, MOST = 64, FAR = 1000000 };

typedef struct bench {
    stk_dataset dataset;
    stk_dataset_ops ops;
    stk_store store;
    stk_field field;
    stk_read *reads[MOST]; /* submitted and not answered */
    uint32_t submitted;
    uint64_t shared;  /* so many samples need the same range */
    uint64_t apart;   /* bytes from one range to the next */
    uint64_t decoded; /* bytes that a range becomes; 0: it stays as it is */
    uint64_t ragged;  /* bytes of the value of each; 0: values of one size */
    stk__order order;
    stk__budget budget;
    stk__keeping keeping;
    stk__ring *ring;
    stk__steps steps;
    stk__reads in;
    stk__units units;
    stk__stalls stalls;
    stk__planner planner;
} bench;

static bench *at_store; /* the one that runs */

static stk_status submit(stk_store *store, stk_read *read)
{
    (void)store;
    assert_true(at_store->submitted < MOST);
    at_store->reads[at_store->submitted++] = read;
    return STK_OK;
}

static stk_status locate(stk_dataset *dataset, const uint64_t *indices, size_t n, stk_locator *to,
                         stk_error *err)
{
    const bench *b = (const bench *)dataset;

    (void)err;
    for (size_t i = 0; i < n; i++) {
        const stk_need need = {.struct_size = sizeof need,
                               .offset = indices[i] / b->shared * b->apart,
                               .length = BYTES,
                               .decoded = b->decoded};
        STK_TRY(to->add(to, i, &need));
        if (b->ragged)
            to->bytes(to, i, 0, b->ragged);
    }
    return STK_OK;
}

static size_t object(stk_dataset *dataset, uint64_t number, stk_store **store, char *key,
                     size_t size)
{
    (void)number;
    *store = &((bench *)dataset)->store;
    return (size_t)snprintf(key, size, "data");
}

static stk_status decode(stk_dataset *dataset, const stk_need *need, const void *data, void *out,
                         void *state, const char **reason)
{
    (void)dataset;
    (void)data;
    (void)state;
    (void)reason;
    memset(out, 0, need->decoded);
    return STK_OK;
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    (void)samples;
    (void)n;
}

static void sooner(void *user)
{
    pthread_cond_broadcast(&((bench *)user)->ring->work);
}

static const stk_store_ops store_ops = {
    .struct_size = sizeof store_ops, .name = "kept", .submit = submit};

static void set_up_ragged(bench *b, uint64_t shared, uint64_t pool, uint64_t ragged)
{
    stk_context *ctx = test_context();
    stk_loader_options o;
    stk__column column = {.row_bytes = 8};
    stk_error err;

    *b = (bench){.shared = shared,
                 .apart = FAR,
                 .ragged = ragged,
                 .store = {.ops = &store_ops, .context = ctx}};
    at_store = b;
    b->ops = (stk_dataset_ops){.struct_size = sizeof b->ops,
                               .name = "ranges",
                               .locate = locate,
                               .object = object,
                               .prepare = prepare};
    b->field = stk__field("x", STK_INT64, (const int64_t[]){-1}, false);
    b->field.layout = ragged ? STK_RAGGED : STK_FIXED;
    column.field = b->field;
    stk__dataset_init(&b->dataset, &b->ops, ctx, SIZE, &b->field, 1);
    stk_loader_options_init(&o);
    o.batch_size = ROWS;
    assert_ok(stk__order_init(&b->order, &b->dataset, &o, &err), &err);
    assert_ok(stk__ring_create(ctx, &column, 1, ROWS, 2, 0, NULL, false, &b->ring, &err), &err);
    b->ring->pool.limit = pool;
    b->budget = (stk__budget){.most_row = pool, .most_ragged = pool / 4};
    assert_int_equal(stk__steps_init(&b->steps, b->ring, 8, ROWS), STK_OK);
    b->steps.limit = UINT64_MAX;
    b->in = (stk__reads){.lock = &b->ring->lock, .sooner_locked = sooner, .user = b};
    assert_int_equal(stk__reads_init(&b->in, ctx, MOST, 0, 1), STK_OK);
    b->units = (stk__units){.ctx = ctx,
                            .dataset = &b->dataset,
                            .ring = b->ring,
                            .steps = &b->steps,
                            .reads = &b->in,
                            .keeping = &b->keeping};
    b->planner = (stk__planner){.ctx = ctx,
                                .dataset = &b->dataset,
                                .order = &b->order,
                                .budget = &b->budget,
                                .keeping = &b->keeping,
                                .ring = b->ring,
                                .steps = &b->steps,
                                .units = &b->units,
                                .reads = &b->in,
                                .stalls = &b->stalls};
    assert_int_equal(stk__planner_init(&b->planner), STK_OK);
}

static void set_up(bench *b, uint64_t shared, uint64_t pool)
{
    set_up_ragged(b, shared, pool, 0);
}

/* Plan until there is nothing to plan. */
static void plan(bench *b)
{
    pthread_mutex_lock(&b->ring->lock);
    while (stk__can_plan_locked(&b->planner))
        stk__plan_round_locked(&b->planner);
    pthread_mutex_unlock(&b->ring->lock);
}

static void answer(bench *b, uint32_t i)
{
    stk_read *read = b->reads[i];

    b->reads[i] = NULL;
    read->done(read, STK_OK);
}

/* Take the ready rows of a step as a worker would, and give up what they read. */
static uint32_t use_rows(bench *b, uint64_t serial)
{
    stk__step *step = stk__step_at(&b->steps, serial);
    stk__spent spent = {0};
    uint32_t n;

    pthread_mutex_lock(&b->ring->lock);
    for (n = 0; step->num_ready; n++, step->num_ready--) {
        stk__row *row = &step->rows[step->ready[step->ready_first]];
        for (uint32_t k = 0; k < row->num_needs; k++) {
            if (row->needs[k].unit)
                stk__unit_unref_locked(row->needs[k].unit, &spent);
            row->needs[k].unit = NULL;
        }
        step->ready_first = (step->ready_first + 1) % ROWS;
    }
    pthread_mutex_unlock(&b->ring->lock);
    stk__spent_free(&b->units, &spent);
    return n;
}

static void tear_down(bench *b)
{
    stk_context *ctx = b->dataset.context;
    stk__spent spent = {0};

    for (uint32_t i = 0; i < b->submitted; i++)
        if (b->reads[i])
            answer(b, i);
    for (uint64_t s = 0; s < b->steps.located_end; s++) {
        use_rows(b, s);
        stk__pool_give(&b->ring->pool, stk__step_at(&b->steps, s)->ragged);
    }
    pthread_mutex_lock(&b->ring->lock);
    stk__idle_reclaim_locked(&b->units, true, &spent);
    pthread_mutex_unlock(&b->ring->lock);
    stk__spent_free(&b->units, &spent);
    assert_int_equal(atomic_load(&b->ring->pool.used), 0);
    stk__planner_destroy(&b->planner);
    stk__steps_release(&b->steps);
    stk__units_destroy(&b->units);
    stk__reads_destroy(&b->in);
    stk__ring_unref(b->ring);
    stk__cache_destroy(&b->keeping.cache);
    stk_context_destroy(&ctx);
}

/* As many steps as there are records, each row's read in order of position; of these as many have a
 * slab as there are. A row is ready when its bytes have come, and not before. */
static void test_plans_ahead(void **state)
{
    bench b;

    (void)state;
    set_up(&b, 1, 1 << 20);
    plan(&b);
    assert_int_equal(b.steps.located_end, 8);
    assert_int_equal(b.steps.slab_end, 2);
    assert_int_equal(b.submitted, 8 * ROWS);
    for (uint32_t i = 0; i < b.submitted; i++) {
        assert_int_equal(b.reads[i]->offset, (uint64_t)i * FAR);
        assert_int_equal(b.reads[i]->length, BYTES);
    }
    assert_int_equal(stk__steps_ready_locked(&b.steps), UINT64_MAX);
    answer(&b, ROWS + 1);
    assert_int_equal(stk__steps_ready_locked(&b.steps), 1);
    assert_int_equal(stk__step_at(&b.steps, 1)->ready[0], 1);
    answer(&b, 0);
    assert_int_equal(stk__steps_ready_locked(&b.steps), 0);
    tear_down(&b);
}

/* Rows that need the same range wait for one read of it, across steps. */
static void test_shared_range(void **state)
{
    bench b;

    (void)state;
    set_up(&b, 2 * ROWS, 1 << 20);
    plan(&b);
    assert_int_equal(b.submitted, 4);
    answer(&b, 0);
    assert_int_equal(stk__step_at(&b.steps, 0)->num_ready, ROWS);
    assert_int_equal(stk__step_at(&b.steps, 1)->num_ready, ROWS);
    assert_int_equal(stk__step_at(&b.steps, 2)->num_ready, 0);
    assert_int_equal(b.units.needed_bytes, 8 * ROWS * BYTES);
    tear_down(&b);
}

/* Ragged values are planned as far ahead, each step with room for its own; where the room of the
 * next does not fit, none of its rows is read. */
static void test_ragged(void **state)
{
    const uint64_t room = stk__pool_cost(ROWS * 1008);
    bench b;

    (void)state;
    set_up_ragged(&b, 1, 1 << 20, 1000);
    plan(&b);
    assert_int_equal(b.steps.slab_end, 2);
    assert_int_equal(b.steps.located_end, 8);
    assert_int_equal(b.submitted, 8 * ROWS);
    tear_down(&b);
    set_up_ragged(&b, 1, 4 * (room + ROWS * stk__read_cost(BYTES)), 1000);
    plan(&b);
    assert_true(b.ring->full);
    assert_in_range(b.submitted, 3 * ROWS, 6 * ROWS - 1);
    for (uint64_t s = 0; s < 8; s++) {
        const bool any = s * ROWS < b.submitted;
        assert_true(!any || stk__step_at(&b.steps, s)->ragged);
    }
    tear_down(&b);
}

/* With room for a few rows it admits those alone, the first ones; one that is used lets the next
 * in. */
static void test_full(void **state)
{
    bench b;

    (void)state;
    set_up(&b, 1, 3 * stk__read_cost(BYTES));
    plan(&b);
    assert_int_equal(b.submitted, 3);
    assert_true(b.ring->full);
    assert_int_equal(b.planner.wanted, 0);
    answer(&b, 0);
    plan(&b);
    assert_int_equal(b.submitted, 3);
    assert_int_equal(use_rows(&b, 0), 1);
    assert_false(b.ring->full);
    plan(&b);
    assert_int_equal(b.submitted, 4);
    assert_int_equal(b.reads[3]->offset, 3 * FAR);
    tear_down(&b);
}

/* A row that never fits the pool, but might fit the budget, is waited for by name. */
static void test_too_large_for_the_pool(void **state)
{
    bench b;

    (void)state;
    set_up(&b, 1, stk__read_cost(BYTES) - 1);
    b.budget.most_row = UINT64_MAX;
    plan(&b);
    assert_int_equal(b.submitted, 0);
    assert_int_equal(b.planner.wanted, stk__read_cost(BYTES));
    assert_true(stk__planner_stuck_locked(&b.planner));
    /* One that may never have so much is bad, and its row is ready as such. */
    tear_down(&b);
    set_up(&b, 1, stk__read_cost(BYTES) - 1);
    plan(&b);
    assert_int_equal(stk__step_at(&b.steps, 0)->num_ready, ROWS);
    assert_int_equal(stk__step_at(&b.steps, 0)->rows[0].status, STK_EBUDGET);
    tear_down(&b);
}

/* So many reads of ranges that lie close together, and each row that is admitted gets its own. */
static void check_close(uint64_t pool, uint32_t reads)
{
    bench b;

    set_up(&b, 1, pool);
    b.apart = 10 * BYTES;
    b.decoded = 20 * BYTES;
    plan(&b);
    assert_int_equal(b.submitted, reads);
    for (uint64_t s = 0; s < b.steps.located_end; s++)
        for (uint32_t r = 0; r < ROWS; r++)
            assert_int_equal(stk__step_at(&b.steps, s)->rows[r].status, STK_OK);
    b.steps.draining = true; /* what comes now is not decoded any more */
    tear_down(&b);
}

/* What lies between ranges is read in vain where there is room for that beside what they become:
 * with none to spare each is read by itself. */
static void test_gaps(void **state)
{
    const uint64_t row = stk__read_cost(BYTES) + stk__pool_cost(20 * BYTES);

    (void)state;
    check_close(1 << 20, 1);
    check_close(ROWS * row, ROWS);
}

/* Decode all that has come, as workers would. */
static void decode_all(bench *b)
{
    stk__doing doing = {0};
    stk__unit *unit;

    pthread_mutex_lock(&b->ring->lock);
    while ((unit = stk__decode_take_locked(&b->units))) {
        pthread_mutex_unlock(&b->ring->lock);
        stk__decode_run(unit, 0, NULL, &doing); /* comes back with the lock */
    }
    pthread_mutex_unlock(&b->ring->lock);
}

/* Rows whose bytes are all in the cache read nothing, and leave no less room for the next. */
static void test_all_from_the_cache(void **state)
{
    static const char bytes[BYTES];
    const stk_slice kept = {.data = bytes, .size = BYTES};
    bench b;

    (void)state;
    set_up(&b, 1, ROWS * stk__pool_cost(20 * BYTES));
    b.ops.decode = decode;
    b.decoded = 20 * BYTES;
    b.keeping = (stk__keeping){.ranges = true, .encoded = true};
    assert_int_equal(stk__cache_create(b.dataset.context, 1 << 20, SIZE, &b.keeping.cache), STK_OK);
    for (uint64_t i = 0; i < SIZE; i++)
        stk__cache_put(b.keeping.cache, 0, i * FAR, &kept, 1);
    for (uint64_t s = 0; s < 4; s++) {
        plan(&b);
        assert_int_equal(b.planner.round.cost, 0);
        assert_true(b.ring->full);
        decode_all(&b);
        assert_int_equal(use_rows(&b, s), ROWS);
    }
    assert_int_equal(b.submitted, 0);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans_ahead),
                                       cmocka_unit_test(test_shared_range),
                                       cmocka_unit_test(test_ragged),
                                       cmocka_unit_test(test_full),
                                       cmocka_unit_test(test_gaps),
                                       cmocka_unit_test(test_all_from_the_cache),
                                       cmocka_unit_test(test_too_large_for_the_pool)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
