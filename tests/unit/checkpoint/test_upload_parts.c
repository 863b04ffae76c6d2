/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of checkpoints in a store: each is put by its own writer, the first behind the marks of all
 * others, and they go behind the last object that is the first of them. */
#include "upload_parts.h"

/* ---- Order ----------------------------------------------------------------------------------- */

static void the_first_comes_last(void **state)
{
    world *w = *state;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    const stk__checkpoint_part part = draw();
    for (uint32_t k = 0; k < PARTS; k++) {
        save_part(&r, part, k, "noted://p/x.ckpt", 1, NULL);
        /* Not before all are there. */
        if (k + 1 < PARTS && k)
            stk__checkpoint_upload(r.writers[k]);
        if (k + 1 < PARTS)
            assert_false(is_there(w, "noted://p/x.ckpt"));
    }
    upload_all(&r);
    const char *first = logged(w, "put x.ckpt\n");
    for (uint32_t k = 1; k < PARTS; k++) {
        char mark[600];
        snprintf(mark, sizeof mark, "put %s" STK__UPLOAD_MARK "\n",
                 strrchr(part_url(&r, "noted://p/x.ckpt", &part, k), '/') + 1);
        assert_true(logged(w, mark) < first);
    }
    assert_true(first < logged(w, "put x.ckpt.complete\n"));
    assert_whole(&r, "noted://p/x.ckpt", 1);
    assert_int_equal(w->warnings, 0);
    close_ranks(&r);
    assert_int_equal(left(w), 0);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void parts_go_behind_the_last_name(void **state)
{
    static const char *const a = "noted://n/a.ckpt", *const b = "noted://n/b.ckpt",
                             *const last = "noted://n/last.ckpt", *const other = "noted://o/c.ckpt";
    world *w = *state;
    stk_error err;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    const stk__checkpoint_part first = draw(), second = draw(), third = draw();
    save_all(&r, &first, a, 1, NULL);
    assert_ok(stk__checkpoint_link(w->writer, a, last, &err), &err);
    flush(w);
    upload_all(&r);
    save_all(&r, &second, b, 2, a);
    upload_all(&r);
    assert_false(is_there(w, a));
    assert_whole(&r, last, 1);
    assert_int_equal(count_parts(&r, a, &first), 4);
    /* The name is another's, and so are the parts. */
    assert_ok(stk__checkpoint_link(w->writer, b, last, &err), &err);
    flush(w);
    upload_all(&r);
    assert_whole(&r, last, 2);
    assert_int_equal(count_parts(&r, a, &first), 0);
    /* The mark of the first goes first. */
    const char *gone = logged(w, "remove a.ckpt.complete\nremove a.ckpt\n");
    assert_true(gone < logged(w, strrchr(part_url(&r, a, &first, 1), '/') + 1) ||
                gone < strstr(gone, "-00001-of-"));
    /* In another folder it has parts of its own. */
    assert_ok(stk__checkpoint_link(w->writer, b, other, &err), &err);
    flush(w);
    upload_all(&r);
    assert_whole(&r, other, 2);
    assert_int_equal(count_parts(&r, other, &second), 4);
    /* The same name once more. */
    save_all(&r, &third, b, 3, last);
    upload_all(&r);
    assert_whole(&r, b, 3);
    assert_whole(&r, other, 2);
    assert_false(is_there(w, last));
    assert_int_equal(count_parts(&r, b, &second), 0);
    assert_int_equal(count_parts(&r, b, &third), 4);
    /* And one file in its place. */
    save(w, b, 4, NULL);
    upload(w);
    assert_float_equal(value_of(w, b), 4, 0);
    assert_int_equal(count_parts(&r, b, &third), 0);
    assert_int_equal(w->warnings, 0);
    close_ranks(&r);
}

/* ---- A slow store ---------------------------------------------------------------------------- */

/* Until the first looks for a part, as nothing else is looked at while puts wait. */
static void await_look(world *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->looks && !strstr(w->log, "put x.ckpt"))
        stk__cond_wait_until(&w->moved, &w->lock, UINT64_MAX);
    pthread_mutex_unlock(&w->lock);
}

static void tell_voids(ranks *r, size_t expected)
{
    stk__checkpoint_part voids[8];
    const size_t n = stk__checkpoint_voids(r->w->writer, voids, 8);

    assert_int_equal(n, expected);
    for (uint32_t k = 1; k < PARTS; k++)
        stk__checkpoint_void(r->writers[k], voids, n);
}

/* Until the store has it; false: it never has. */
static bool await_put_of(world *w, const char *name)
{
    const uint64_t end = stk__now_ns() + UINT64_C(20000000000);
    bool there = false;

    pthread_mutex_lock(&w->lock);
    while (!there && stk__now_ns() < end) {
        there = strstr(w->log, name);
        if (!there)
            stk__cond_wait_until(&w->moved, &w->lock, stk__now_ns() + 1000000);
    }
    pthread_mutex_unlock(&w->lock);
    return there;
}

static void await_removal(world *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->clung)
        stk__cond_wait_until(&w->moved, &w->lock, UINT64_MAX);
    pthread_mutex_unlock(&w->lock);
}

/* The first that was begun is sent to its end, and then what is new: all ranks know which. */
static void a_slow_store_gets_what_is_new(void **state)
{
    static const char *const urls[] = {"noted://s/1.ckpt", "noted://s/2.ckpt", "noted://s/3.ckpt"};
    const stk__checkpoint_part parts[] = {draw(), draw(), draw()};
    world *w = *state;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    hold(w, true);
    for (uint32_t k = PARTS; k-- > 0;)
        save_part(&r, parts[0], k, urls[0], 1, NULL);
    await_look(w);
    save_all(&r, &parts[1], urls[1], 2, urls[0]);
    tell_voids(&r, 0);
    for (uint32_t k = 0; k < PARTS - 1; k++)
        save_part(&r, parts[2], k, urls[2], 3, urls[1]);
    tell_voids(&r, 1);
    hold(w, false);
    assert_true(await_put_of(w, "put 1.ckpt.complete\n"));
    save_part(&r, parts[2], PARTS - 1, urls[2], 3, urls[1]);
    upload_all(&r);
    assert_null(strstr(w->log, "put 2.ckpt"));
    assert_false(is_there(w, urls[0]));
    assert_whole(&r, urls[2], 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(count_parts(&r, urls[i], &parts[i]), i == 2 ? 4 : 0);
    assert_int_equal(w->warnings, 0);
    close_ranks(&r);
    assert_int_equal(left(w), 0);
}

/* A later save takes the other name of one that the store has: that one keeps its parts. */
static void a_name_that_is_not_made(void **state)
{
    world *w = *state;
    stk_error err;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    /* The other name is asked for before the store has the save, or behind that. */
    for (int early = 0; early < 2; early++) {
        const char *const old = early ? "noted://e/0.ckpt" : "noted://m/0.ckpt";
        const char *const a = early ? "noted://e/a.ckpt" : "noted://m/a.ckpt";
        const char *const b = early ? "noted://e/b.ckpt" : "noted://m/b.ckpt";
        const char *const last = early ? "noted://e/last.ckpt" : "noted://m/last.ckpt";
        const stk__checkpoint_part first = draw(), second = draw();
        save(w, old, 0, NULL);
        upload(w);
        w->log[0] = 0;
        cling(w, true);
        for (uint32_t k = 1; k < PARTS; k++) {
            save_part(&r, first, k, a, 1, NULL);
            stk__checkpoint_upload(r.writers[k]);
        }
        hold(w, early);
        save_part(&r, first, 0, a, 1, old);
        if (early)
            await_put(w);
        else
            await_removal(w);
        assert_int_equal(!strstr(w->log, "put a.ckpt.complete\n"), early);
        assert_ok(stk__checkpoint_link(w->writer, a, last, &err), &err);
        flush(w);
        hold(w, false);
        assert_true(await_put_of(w, "put a.ckpt.complete\n"));
        await_removal(w);
        save_all(&r, &second, b, 2, NULL);
        assert_ok(stk__checkpoint_link(w->writer, b, last, &err), &err);
        flush(w);
        cling(w, false);
        tell_voids(&r, 0);
        upload_all(&r);
        assert_whole(&r, a, 1);
        assert_whole(&r, b, 2);
        assert_whole(&r, last, 2);
        assert_int_equal(count_parts(&r, a, &first), 4);
    }
    assert_int_equal(w->warnings, 0);
    close_ranks(&r);
}

/* That the store has the save before says nothing of one that never comes there. */
static void a_save_behind_one_that_is_there(void **state)
{
    static const char *const a = "noted://k/a.ckpt", *const b = "noted://k/b.ckpt",
                             *const last = "noted://k/last.ckpt";
    const stk__checkpoint_part first = draw(), second = draw(), third = draw();
    const stk__checkpoint_part *const later[] = {&second, &third};
    world *w = *state;
    stk_error err;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    save_all(&r, &first, a, 1, NULL);
    upload_all(&r);
    /* The thread is at another file, so neither name of the second save is begun. */
    hold(w, true);
    save(w, "noted://k/0.ckpt", 0, NULL);
    await_put(w);
    for (int i = 0; i < 2; i++) {
        save_all(&r, later[i], b, 2 + (float)i, NULL);
        assert_ok(stk__checkpoint_link(w->writer, b, last, &err), &err);
        flush(w);
    }
    tell_voids(&r, 1);
    hold(w, false);
    upload_all(&r);
    assert_whole(&r, a, 1);
    assert_whole(&r, b, 3);
    assert_whole(&r, last, 3);
    assert_int_equal(count_parts(&r, b, &second), 0);
    assert_int_equal(w->warnings, 0);
    close_ranks(&r);
}

/* What is void when it is being put is removed behind that. */
static void a_void_part_under_way(void **state)
{
    static const char *const url = "noted://u/x.ckpt";
    const stk__checkpoint_part part = draw();
    world *w = *state;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    hold(w, true);
    save_part(&r, part, 1, url, 1, NULL);
    await_put(w);
    stk__checkpoint_void(r.writers[1], &part, 1);
    hold(w, false);
    stk__checkpoint_upload(r.writers[1]);
    assert_non_null(strstr(w->log, "-00001-of-00003.safetensors.complete\n"));
    assert_int_equal(count_parts(&r, url, &part), 0);
    close_ranks(&r);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

/* A part that nobody puts any more is not waited for: the first stays here, without a mark. */
static void a_part_that_does_not_come(void **state)
{
    static const char *const url = "noted://f/x.ckpt", *const next = "noted://f/y.ckpt";
    const stk__checkpoint_part lost = draw(), part = draw();
    world *w = *state;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    save_part(&r, lost, 0, url, 1, NULL);
    save_part(&r, lost, 2, url, 1, NULL);
    stk__checkpoint_upload(r.writers[2]);
    stk__checkpoint_upload(w->writer);
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "the part of rank 1 of 3 is not in the store"));
    assert_false(is_there(w, url));
    assert_false(is_there(w, "noted://f/x.ckpt.complete"));
    /* What is saved later, and whole, is put; the one before is given up, and is void. */
    save_all(&r, &part, next, 2, NULL);
    upload_all(&r);
    assert_whole(&r, next, 2);
    assert_false(is_there(w, url));
    tell_voids(&r, 1);
    upload_all(&r);
    assert_int_equal(count_parts(&r, next, &part), 4);
    assert_int_equal(count_parts(&r, url, &lost), 0);
    close_ranks(&r);
    assert_int_equal(w->warnings, 2);
    assert_non_null(strstr(w->warning, "will not be in the store: the part of rank 1 of 3"));
    assert_int_equal(left(w), 0);
}

/* Without room here each goes straight to the store, in the same order. */
static void without_room_here(void **state)
{
    const stk__upload_options nowhere = {"/dev/null/x", 20000000, NULL, NULL};
    static const char *const url = "noted://r/x.ckpt";
    stk__checkpoint_part part = draw();
    world *w = *state;
    stk_error err;
    ranks r;

    open_ranks(&r, w, 20000000);
    for (int k = 0; k < PARTS; k++)
        assert_ok(stk__checkpoint_upload_by(r.writers[k], &nowhere, &err), &err);
    hand_part(&r, part, 0, url, 1, NULL);
    await_look(w);
    assert_false(is_there(w, url));
    for (uint32_t k = PARTS; k-- > 1;)
        save_part(&r, part, k, url, 1, NULL);
    flush(w);
    assert_whole(&r, url, 1);
    assert_true(is_there(w, "noted://r/x.ckpt.complete"));
    assert_int_equal(w->warnings, 0);
    /* A part that is lost so leaves none: once the others have failed, at once. */
    part = draw();
    w->failures = 1;
    save_part(&r, part, 1, "noted://r/y.ckpt", 2, NULL);
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "is lost, and training goes on"));
    close_ranks(&r);
}

/* ---- Together -------------------------------------------------------------------------------- */

/* Threads that add their numbers up. */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t met;
    int here, round;
    double sums[STK__UPLOAD_SUMS], last[STK__UPLOAD_SUMS];
} meeting;

static stk_status meet(void *user, double sums[STK__UPLOAD_SUMS])
{
    meeting *m = user;

    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < STK__UPLOAD_SUMS; i++)
        m->sums[i] += sums[i];
    const int round = m->round;
    if (++m->here == PARTS) {
        memcpy(m->last, m->sums, sizeof m->last);
        memset(m->sums, 0, sizeof m->sums);
        m->here = 0;
        m->round++;
        pthread_cond_broadcast(&m->met);
    }
    while (m->round == round)
        pthread_cond_wait(&m->met, &m->lock);
    memcpy(sums, m->last, sizeof m->last);
    pthread_mutex_unlock(&m->lock);
    return STK_OK;
}

typedef struct waiter {
    pthread_t thread;
    stk__checkpoint_writer *writer;
    meeting *m;
    bool all;
} waiter;

static void *wait_with_others(void *argument)
{
    waiter *self = argument;

    self->all = stk__checkpoint_upload_together(self->writer, meet, self->m);
    return NULL;
}

/* All hear the same. */
static bool upload_together(ranks *r)
{
    meeting m = {.lock = PTHREAD_MUTEX_INITIALIZER, .met = PTHREAD_COND_INITIALIZER};
    waiter waiters[PARTS];

    for (int k = 0; k < PARTS; k++) {
        waiters[k] = (waiter){.writer = r->writers[k], .m = &m};
        assert_int_equal(pthread_create(&waiters[k].thread, NULL, wait_with_others, &waiters[k]),
                         0);
    }
    for (int k = 0; k < PARTS; k++)
        pthread_join(waiters[k].thread, NULL);
    for (int k = 1; k < PARTS; k++)
        assert_int_equal(waiters[k].all, waiters[0].all);
    return waiters[0].all;
}

/* The one that gets on keeps all from giving up, and one that cannot fails all. */
static void all_hear_of_one(void **state)
{
    static const char *const url = "noted://t/x.ckpt";
    stk__checkpoint_part part = draw();
    world *w = *state;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    save_all(&r, &part, url, 1, NULL);
    assert_true(upload_together(&r));
    assert_whole(&r, url, 1);
    /* One part is nowhere: the others have theirs in the store and do not wait. */
    part = draw();
    save_part(&r, part, 0, url, 2, NULL);
    save_part(&r, part, 1, url, 2, NULL);
    assert_false(upload_together(&r));
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "the part of rank 2 of 3 is not in the store"));
    assert_whole(&r, url, 1);
    close_ranks(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_comes_last, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts_go_behind_the_last_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_store_gets_what_is_new, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_that_is_not_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_save_behind_one_that_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_void_part_under_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_that_does_not_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_room_here, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_hear_of_one, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("checkpoint/upload_parts", tests, NULL, NULL);
}
