/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of NCCL that fail, hang or do not fit each other: they end in time, named, and what they
 * leave in memory is taken for no result. */
#include "unit/dist/nccl_ranks.h"

static void plan_fault(world *w, stub_fault fault, int at)
{
    stub->fault = fault;
    stub->rank = 1;
    stub->at = at;
    for (uint64_t r = 0; r < w->net.world; r++)
        w->ranks[r].options.collective_timeout = 1;
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

/* Five sums, each waited for; what is in memory after one that failed is not taken for a result. */
static void sums_in_turn(rank *r)
{
    for (int i = 0; i < 5 && r->status == STK_OK; i++) {
        fill(r, 100, STK_FLOAT32);
        reduce(r, 100, STK_FLOAT32, STK_COMBINE_SUM);
        if (r->status == STK_OK)
            r->status = stub_synchronize(r->device->stream, &r->err);
        if (r->status == STK_OK)
            r->status = r->s->check(r->s->state, &r->err);
        r->went_on |= r->status == STK_OK &&
                      value(r, 5, STK_FLOAT32) != expected(r->s->world_size, 5, STK_COMBINE_SUM);
    }
    /* It is over, for what lies on the host as well. */
    if (r->status != STK_OK)
        assert_true(r->s->barrier(r->s->state, NULL) < 0);
}

static void run_badly(world *w)
{
    world_run(w);
    for (uint64_t r = 0; r < w->net.world; r++) {
        assert_true(w->ranks[r].status < 0);
        assert_false(w->ranks[r].went_on);
    }
    assert_int_equal(stub->finalized, 0);
    assert_int_equal(stub->aborted, stub->joined);
}

static void a_call_fails(void **state)
{
    world w;

    world_begin(&w, 3, sums_in_turn);
    plan_fault(&w, STUB_FAILS, 3);
    run_badly(&w);
    assert_fails(w.ranks[1].status, STK_EIO, &w.ranks[1].err, "unhandled system error");
    assert_non_null(strstr(w.ranks[1].err.text, "a cable was cut"));
    assert_non_null(strstr(w.ranks[1].err.text, "reduce 100 float32 by sum on the device"));
    assert_non_null(strstr(w.ranks[1].err.text, "rank 1 of 3 ("));
    /* The others have begun it, and wait on their devices. */
    for (uint64_t r = 0; r < 3; r += 2)
        assert_fails(w.ranks[r].status, STK_ETIMEDOUT, &w.ranks[r].err,
                     "(reduce 100 float32 by sum on the device) has not ended for 1 s");
    world_end(&w);
}

static void a_call_is_lost(void **state)
{
    world w;

    world_begin(&w, 2, sums_in_turn);
    plan_fault(&w, STUB_LOST, 2);
    run_badly(&w);
    for (uint64_t r = 0; r < 2; r++)
        assert_fails(w.ranks[r].status, STK_ETIMEDOUT, &w.ranks[r].err, "has not ended for 1 s");
    world_end(&w);
}

static void a_failure_comes_later(void **state)
{
    world w;

    world_begin(&w, 2, sums_in_turn);
    plan_fault(&w, STUB_FALLS, 2);
    run_badly(&w);
    assert_fails(w.ranks[1].status, STK_EIO, &w.ranks[1].err, "remote process exited");
    assert_int_equal(w.ranks[0].status, STK_ETIMEDOUT);
    world_end(&w);
}

static void joining_fails(void **state)
{
    world w;

    world_begin(&w, 2, sums_in_turn);
    plan_fault(&w, STUB_INIT_FAILS, 0);
    run_badly(&w);
    assert_fails(w.ranks[1].status, STK_EIO, &w.ranks[1].err, "ncclCommInitRankConfig");
    assert_fails(w.ranks[0].status, STK_ETIMEDOUT, &w.ranks[0].err, "a rank is not there");
    world_end(&w);
}

static void one_never_joins(void **state)
{
    world w;

    world_begin(&w, 3, sums_in_turn);
    plan_fault(&w, STUB_INIT_LOST, 0);
    run_badly(&w);
    for (uint64_t r = 0; r < 3; r++)
        assert_fails(w.ranks[r].status, STK_ETIMEDOUT, &w.ranks[r].err,
                     "ncclCommInitRankConfig has come to no end for 1 s");
    assert_int_equal(stub->calls, 0);
    world_end(&w);
}

/* Of a device that does nothing any more no more calls are begun than there are places for. */
static void calls_without_waiting(rank *r)
{
    while (r->status == STK_OK) {
        reduce(r, 10, STK_FLOAT32, STK_COMBINE_SUM);
        r->which += r->status == STK_OK;
    }
}

static void a_device_is_behind(void **state)
{
    world w;

    world_begin(&w, 2, calls_without_waiting);
    plan_fault(&w, STUB_LOST, 1);
    for (uint64_t r = 0; r < 2; r++)
        w.ranks[r].options.collective_timeout = 2;
    run_badly(&w);
    for (uint64_t r = 0; r < 2; r++)
        assert_true(w.ranks[r].which <= 64);
    world_end(&w);
}

/* An abort that hangs is left behind with its thread, which ends when it can. */
static void lost_body(rank *r)
{
    reduce(r, 100, STK_FLOAT32, STK_COMBINE_SUM);
    while (r->status == STK_OK) {
        sched_yield();
        r->status = r->s->check(r->s->state, &r->err);
    }
}

static void an_abort_hangs(void **state)
{
    world w;

    world_begin(&w, 2, lost_body);
    plan_fault(&w, STUB_ABORT_LATE, 1);
    world_run(&w);
    for (uint64_t r = 0; r < 2; r++)
        assert_fails(w.ranks[r].status, STK_ETIMEDOUT, &w.ranks[r].err, "has not ended");
    assert_int_equal(stub->aborted, 1);
    world_end(&w);
    stub->abort_now = true;
    while (stub->aborted < 2)
        sched_yield();
}

/* One that does not come to the call is named, as with calls of the host's memory. */
static void late_is_named(void **state)
{
    world w;

    world_begin(&w, 3, sums_in_turn);
    plan_fault(&w, STUB_FINE, 0);
    for (uint64_t r = 0; r < 3; r++) {
        w.ranks[r].options.fault_rank = 1;
        w.ranks[r].options.fault_late_at = 3; /* of the MPI's: the first begins NCCL */
        w.ranks[r].options.fault_late_by = 3;
    }
    run_badly(&w);
    for (uint64_t r = 0; r < 3; r += 2)
        assert_fails(w.ranks[r].status, STK_ETIMEDOUT, &w.ranks[r].err,
                     "in call 3 (reduce 100 float32 by sum on the device) for rank 1 (");
    world_end(&w);
}

static void differs(rank *r)
{
    const bool odd = r->s->rank == 1;
    double on_host[4] = {0};

    if (r->which == 0)
        reduce(r, odd ? 3 : 4, STK_FLOAT64, STK_COMBINE_SUM);
    else if (r->which == 1)
        reduce(r, 4, odd ? STK_FLOAT32 : STK_FLOAT64, STK_COMBINE_SUM);
    else if (odd)
        r->status =
            r->s->reduce(r->s->state, on_host, 4, STK_FLOAT64, STK_COMBINE_SUM, NULL, &r->err);
    else
        reduce(r, 4, STK_FLOAT64, STK_COMBINE_SUM);
}

static void differences_are_named(void **state)
{
    static const char *const theirs[] = {"reduce 3 float64 by sum on the device",
                                         "reduce 4 float32 by sum on the device", "rank 1 ("};
    world w;

    for (int i = 0; i < 3; i++) {
        set_up(NULL);
        world_begin(&w, 3, differs);
        for (uint64_t r = 0; r < 3; r++)
            w.ranks[r].which = i;
        world_run(&w);
        for (uint64_t r = 0; r < 3; r++) {
            assert_fails(w.ranks[r].status, STK_EMISMATCH, &w.ranks[r].err, theirs[i]);
            assert_non_null(strstr(w.ranks[r].err.text, "on the device"));
        }
        /* Nothing came to NCCL. */
        assert_int_equal(stub->calls, 0);
        assert_int_equal(w.net.wholes, 3);
        world_end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_call_fails, set_up),
        cmocka_unit_test_setup(a_call_is_lost, set_up),
        cmocka_unit_test_setup(a_failure_comes_later, set_up),
        cmocka_unit_test_setup(joining_fails, set_up),
        cmocka_unit_test_setup(one_never_joins, set_up),
        cmocka_unit_test_setup(a_device_is_behind, set_up),
        cmocka_unit_test_setup(an_abort_hangs, set_up),
        cmocka_unit_test_setup(late_is_named, set_up),
        cmocka_unit_test_setup(differences_are_named, set_up),
    };

    return stub_load() ? cmocka_run_group_tests_name("dist/nccl_faults", tests, NULL, NULL) : 1;
}
