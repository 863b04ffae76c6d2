/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/worklist.h"
#include "support/faults.h"
#include "support/faulty_threads.h"
#include "support/support.h"

#define MANY (INT64_C(1) << 30)

/* A piece that leads to others. */
typedef struct part {
    stk__worklist_piece piece;
    uint32_t children, levels; /* of them, with as many each */
    uint32_t number;           /* of those that fail, from 1 */
    bool meets, late;          /* late: after another one has failed */
} part;

typedef struct fixture {
    stk__worklist list;
    faults memory;
    stk_context *ctx;
    atomic_uint done, by_others;
    uint32_t others_done; /* guarded by the list's mutex */
    pthread_cond_t met;
} fixture;

static void add(fixture *f, part like)
{
    part *p = stk__alloc(f->ctx, sizeof *p);

    assert_non_null(p);
    *p = like;
    stk__worklist_add_locked(&f->list, &p->piece);
}

static stk_status one(void *user, uint32_t thread, stk__worklist_piece *piece, stk_error *err);

static fixture *begin(uint32_t most)
{
    fixture *f = calloc(1, sizeof *f);
    stk_context_options options;
    stk_error err;

    f->memory.left = FAULTS_NONE;
    stk_context_options_init(&options);
    options.allocator =
        (stk_allocator){.alloc = faulty_alloc, .free = faulty_free, .user = &f->memory};
    assert_ok(stk_context_create(&options, &f->ctx, &err), &err);
    stk__cond_init(&f->met);
    f->list =
        (stk__worklist){.ctx = f->ctx, .name = "stk-test", .one = one, .user = f, .most = most};
    stk__worklist_init(&f->list);
    return f;
}

static void end(fixture *f)
{
    pthread_cond_destroy(&f->met);
    stk_context_destroy(&f->ctx);
    assert_int_equal(f->memory.held, 0);
    free(f);
}

/* Hand a piece to another thread, and wait until it is done: nobody else would do it. */
static void meet_another(fixture *f)
{
    const uint32_t before = f->others_done;

    if (!before)
        assert_true(stk__worklist_wants_locked(&f->list));
    add(f, (part){0});
    assert_false(stk__worklist_wants_locked(&f->list));
    stk__worklist_grow_locked(&f->list);
    while (f->others_done == before)
        pthread_cond_wait(&f->met, &f->list.mutex);
}

static stk_status one(void *user, uint32_t thread, stk__worklist_piece *piece, stk_error *err)
{
    fixture *f = user;
    const part p = *(part *)piece;

    stk__free(f->ctx, piece);
    atomic_fetch_add(&f->done, 1);
    atomic_fetch_add(&f->by_others, thread > 0);
    if (p.late) {
        pthread_mutex_lock(&f->list.mutex);
        add(f, (part){.number = 2});
        stk__worklist_grow_locked(&f->list);
        while (f->list.status == STK_OK)
            pthread_cond_wait(&f->list.changed, &f->list.mutex);
        assert_false(stk__worklist_wants_locked(&f->list));
        pthread_mutex_unlock(&f->list.mutex);
    }
    if (p.number)
        return stk__fail(err, STK_EIO, STK_STAGE_NONE, "piece %u", p.number);
    pthread_mutex_lock(&f->list.mutex);
    for (uint32_t i = 0; p.levels && i < p.children; i++)
        add(f, (part){.children = p.children, .levels = p.levels - 1});
    for (int i = 0; p.meets && i < 100; i++)
        meet_another(f);
    if (thread > 0) {
        f->others_done++;
        pthread_cond_signal(&f->met);
    }
    pthread_mutex_unlock(&f->list.mutex);
    return STK_OK;
}

/* Each piece is done once, and as many threads are started as have something to do. */
static void test_growth(void **state)
{
    static const struct {
        uint32_t children, most, started;
    } cases[] = {{0, 9, 0},   {1, 9, 0},     {2, 9, 1},  {3, 9, 2},
                 {100, 9, 9}, {100, 99, 31}, {100, 0, 0}};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        fixture *f = begin(cases[i].most);
        add(f, (part){.children = cases[i].children, .levels = 1});
        thread_faults.left = MANY;
        stk__worklist_work(&f->list);
        assert_ok(stk__worklist_end(&f->list, NULL), NULL);
        assert_int_equal(MANY - thread_faults.left, cases[i].started);
        thread_faults.left = FAULTS_NONE;
        assert_int_equal(f->list.came, 1 + cases[i].started);
        assert_int_equal(f->done, 1 + cases[i].children);
        end(f);
    }
}

static void test_tree(void **state)
{
    (void)state;
    for (uint32_t most = 0; most <= 8; most += 4) {
        fixture *f = begin(most);
        add(f, (part){.children = 6, .levels = 4});
        stk__worklist_work(&f->list);
        assert_ok(stk__worklist_end(&f->list, NULL), NULL);
        assert_int_equal(f->done, 1 + 6 + 36 + 216 + 1296);
        end(f);
    }
}

/* One other thread does what it is given, and waits meanwhile. */
static void test_hands_over(void **state)
{
    fixture *f = begin(1);

    (void)state;
    add(f, (part){.meets = true});
    stk__worklist_work(&f->list);
    assert_ok(stk__worklist_end(&f->list, NULL), NULL);
    assert_int_equal(f->by_others, 100);
    assert_int_equal(f->list.started, 1);
    end(f);
}

/* Threads of somebody else's. */
static void test_others(void **state)
{
    fixture *f = begin(0);
    stk__thread threads[3] = {0};

    (void)state;
    add(f, (part){.children = 6, .levels = 4});
    for (size_t i = 0; i < STK_COUNT(threads); i++)
        assert_ok(
            stk__thread_start(f->ctx, &threads[i], "other", stk__worklist_work, &f->list, NULL),
            NULL);
    for (size_t i = 0; i < STK_COUNT(threads); i++)
        stk__thread_join(&threads[i]);
    assert_ok(stk__worklist_end(&f->list, NULL), NULL);
    assert_int_equal(f->list.came, 3);
    assert_int_equal(f->list.started, 0);
    assert_int_equal(f->done, 1 + 6 + 36 + 216 + 1296);
    end(f);
}

/* The first failure is kept, ends all, and what is left is freed. */
static void test_failure(void **state)
{
    stk_error err;

    (void)state;
    for (uint32_t most = 0; most <= 4; most += 4) {
        fixture *f = begin(most);
        for (uint32_t i = 0; i < 20; i++)
            add(f, (part){.number = 20 - i});
        stk__worklist_work(&f->list);
        assert_int_equal(stk__worklist_end(&f->list, &err), STK_EIO);
        assert_int_equal(err.status, STK_EIO);
        assert_string_equal(err.text, "piece 1");
        assert_int_equal(f->done, 1);
        end(f);
    }
}

static void test_two_failures(void **state)
{
    fixture *f = begin(2);
    stk_error err;

    (void)state;
    add(f, (part){.number = 1, .late = true});
    stk__worklist_work(&f->list);
    assert_int_equal(stk__worklist_end(&f->list, &err), STK_EIO);
    assert_string_equal(err.text, "piece 2");
    assert_int_equal(f->done, 2);
    end(f);
}

/* Without threads the one that is there does it all, and does not try again and again. */
static void test_no_threads(void **state)
{
    fixture *f = begin(8);

    (void)state;
    add(f, (part){.children = 6, .levels = 3});
    thread_faults.left = 2;
    thread_faults.for_good = true;
    stk__worklist_work(&f->list);
    thread_faults.left = FAULTS_NONE;
    thread_faults.for_good = false;
    assert_ok(stk__worklist_end(&f->list, NULL), NULL);
    assert_int_equal(f->list.started, 2);
    assert_int_equal(f->list.most, 2);
    assert_int_equal(f->done, 1 + 6 + 36 + 216);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth),     cmocka_unit_test(test_tree),
        cmocka_unit_test(test_hands_over), cmocka_unit_test(test_others),
        cmocka_unit_test(test_failure),    cmocka_unit_test(test_two_failures),
        cmocka_unit_test(test_no_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
