/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials that expire: one load each, whoever wants them, and old ones as long as they hold.
 * The clock is the test's. */
#include "store/s3/credentials/credentials.h"
#include "support/support.h"

#define THREADS  64
#define EXPIRIES 100
#define CANARY   "C4nary"

typedef struct source {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int64_t now, life; /* seconds; of the keys that are given */
    uint64_t loads, wakes;
    bool hold;         /* loads wait */
    stk_status status; /* of the next loads */
    stk__s3_cache *cache;
    char id[32]; /* of the keys that a test got last */
} source;

static stk_status load(void *user, stk__s3_keys *out, stk_error *err)
{
    source *s = user;
    char id[32];

    pthread_mutex_lock(&s->mutex);
    s->loads++;
    pthread_cond_broadcast(&s->changed);
    while (s->hold)
        pthread_cond_wait(&s->changed, &s->mutex);
    snprintf(id, sizeof id, "id-%llu", (unsigned long long)s->loads);
    const stk_status status = s->status;
    out->expires = s->now + s->life;
    pthread_mutex_unlock(&s->mutex);
    stk__secret_set(&out->id, id, strlen(id));
    stk__secret_set(&out->secret, CANARY, 6);
    return status == STK_OK ? STK_OK : stk__fail(err, status, STK_STAGE_STORE, "no keys today");
}

static int64_t now(void *user)
{
    source *s = user;

    pthread_mutex_lock(&s->mutex);
    const int64_t is = s->now;
    pthread_mutex_unlock(&s->mutex);
    return is;
}

static void wake(void *user)
{
    source *s = user;

    pthread_mutex_lock(&s->mutex);
    s->wakes++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static const stk__s3_cache_ops ops = {load, now, wake};

static stk_status copy_id(void *user, const stk__s3_keys *keys, stk_error *err)
{
    snprintf(user, 32, "%.31s", keys->id.text);
    return STK_OK;
}

static void set_now(source *s, int64_t moment)
{
    pthread_mutex_lock(&s->mutex);
    s->now = moment;
    pthread_mutex_unlock(&s->mutex);
}

static void wait_wakes(source *s, uint64_t n)
{
    pthread_mutex_lock(&s->mutex);
    while (s->wakes < n)
        pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

static void wait_loads(source *s, uint64_t n)
{
    pthread_mutex_lock(&s->mutex);
    while (s->loads < n)
        pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

static uint64_t count_loads(source *s)
{
    pthread_mutex_lock(&s->mutex);
    const uint64_t loads = s->loads;
    pthread_mutex_unlock(&s->mutex);
    return loads;
}

static void set_up(source *s, stk_context *ctx)
{
    stk_error err;

    *s = (source){.now = 1000000, .life = 3600};
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    assert_ok(stk__s3_cache_open(ctx, &ops, s, &s->cache, &err), &err);
}

/* As a request does it: put off until there are keys. */
static stk_status get(source *s, char id[32], uint64_t *generation, stk_error *err)
{
    for (;;) {
        pthread_mutex_lock(&s->mutex);
        const uint64_t before = s->wakes;
        pthread_mutex_unlock(&s->mutex);
        const stk_status status = stk__s3_cache_use(s->cache, copy_id, id, generation, err);
        if (status != STK_EAGAIN)
            return status;
        wait_wakes(s, before + 1);
    }
}

/* ---- One after another ------------------------------------------------------------------------
 */

static void test_early(void **state)
{
    uint64_t generation;
    stk_error err;
    source s;

    set_up(&s, *state);
    assert_int_equal(stk__s3_cache_use(s.cache, copy_id, s.id, &generation, &err), STK_EAGAIN);
    wait_wakes(&s, 1);
    assert_ok(stk__s3_cache_use(s.cache, copy_id, s.id, &generation, &err), &err);
    assert_string_equal(s.id, "id-1");
    /* 10 minutes before their end at the latest it is not time yet; at 5 it is. */
    set_now(&s, 1000000 + 3600 - 601);
    assert_ok(stk__s3_cache_use(s.cache, copy_id, s.id, &generation, &err), &err);
    assert_int_equal(count_loads(&s), 1);
    pthread_mutex_lock(&s.mutex);
    s.hold = true;
    pthread_mutex_unlock(&s.mutex);
    set_now(&s, 1000000 + 3600 - 300);
    assert_ok(stk__s3_cache_use(s.cache, copy_id, s.id, &generation, &err), &err);
    wait_loads(&s, 2);
    /* Meanwhile the old ones serve, up to their end, and nothing else is loaded. */
    set_now(&s, 1000000 + 3600 - 1);
    assert_ok(stk__s3_cache_use(s.cache, copy_id, s.id, &generation, &err), &err);
    assert_string_equal(s.id, "id-1");
    set_now(&s, 1000000 + 3600);
    assert_int_equal(stk__s3_cache_use(s.cache, copy_id, s.id, &generation, &err), STK_EAGAIN);
    pthread_mutex_lock(&s.mutex);
    s.hold = false;
    pthread_cond_broadcast(&s.changed);
    pthread_mutex_unlock(&s.mutex);
    assert_ok(get(&s, s.id, &generation, &err), &err);
    assert_string_equal(s.id, "id-2");
    assert_int_equal(count_loads(&s), 2);
    stk__s3_cache_close(&s.cache);
    assert_null(s.cache);
}

/* A load that fails leaves what is there, and is the answer where nothing is. */
static void test_failures(void **state)
{
    uint64_t generation;
    stk_error err;
    source s;

    set_up(&s, *state);
    s.status = STK_ETIMEDOUT;
    assert_fails(get(&s, s.id, &generation, &err), STK_ETIMEDOUT, &err, "no keys today");
    assert_fails(get(&s, s.id, &generation, &err), STK_ETIMEDOUT, &err, "no keys today");
    assert_int_equal(count_loads(&s), 1);
    set_now(&s, s.now + 2);
    s.status = STK_OK;
    assert_ok(get(&s, s.id, &generation, &err), &err);
    assert_string_equal(s.id, "id-2");
    s.status = STK_ETIMEDOUT;
    set_now(&s, s.now + 3590);
    assert_ok(get(&s, s.id, &generation, &err), &err);
    wait_wakes(&s, 3);
    assert_ok(get(&s, s.id, &generation, &err), &err);
    assert_string_equal(s.id, "id-2");
    assert_int_equal(count_loads(&s), 3); /* not again at once */
    set_now(&s, s.now + 10);
    assert_fails(get(&s, s.id, &generation, &err), STK_ETIMEDOUT, &err, "no keys today");
    stk__s3_cache_close(&s.cache);
}

/* A server says that they have expired: one load, and a second one only where the first helped. */
static void test_forced(void **state)
{
    uint64_t first, second, third;
    stk_error err;
    source s;

    set_up(&s, *state);
    assert_ok(get(&s, s.id, &first, &err), &err);
    assert_true(stk__s3_cache_expire(s.cache, first));
    assert_true(stk__s3_cache_expire(s.cache, first)); /* said by two requests */
    assert_ok(get(&s, s.id, &second, &err), &err);
    assert_string_equal(s.id, "id-2");
    assert_true(stk__s3_cache_expire(s.cache, first)); /* late */
    assert_ok(get(&s, s.id, &second, &err), &err);
    assert_int_equal(count_loads(&s), 2);
    /* The new ones are no better. */
    assert_false(stk__s3_cache_expire(s.cache, second));
    assert_ok(get(&s, s.id, &second, &err), &err);
    assert_int_equal(count_loads(&s), 2);
    /* They were, for a while. */
    stk__s3_cache_taken(s.cache, second);
    assert_true(stk__s3_cache_expire(s.cache, second));
    assert_ok(get(&s, s.id, &third, &err), &err);
    assert_string_equal(s.id, "id-3");
    assert_true(third > second);
    stk__s3_cache_close(&s.cache);
}

/* Closing waits for a load. */
static void test_close(void **state)
{
    uint64_t generation;
    stk_error err;
    source s = {.cache = NULL};

    stk__s3_cache_close(&s.cache);
    set_up(&s, *state);
    assert_int_equal(stk__s3_cache_use(s.cache, copy_id, s.id, &generation, &err), STK_EAGAIN);
    stk__s3_cache_close(&s.cache);
    assert_true(s.loads <= 1);
}

/* ---- All at once ------------------------------------------------------------------------------
 */

typedef struct crowd {
    source *source;
    pthread_barrier_t begin, end;
    atomic_uint failures, wrong;
    char expected[32];
} crowd;

static void *member(void *argument)
{
    crowd *c = argument;
    uint64_t generation;
    char id[32];
    stk_error err;

    for (int i = 0; i < EXPIRIES; i++) {
        pthread_barrier_wait(&c->begin);
        for (int k = 0; k < 4; k++)
            if (get(c->source, id, &generation, &err) != STK_OK)
                atomic_fetch_add(&c->failures, 1);
            else if (strcmp(id, c->expected) != 0)
                atomic_fetch_add(&c->wrong, 1);
        pthread_barrier_wait(&c->end);
    }
    return NULL;
}

static void test_crowd(void **state)
{
    pthread_t threads[THREADS];
    crowd c = {.expected = ""};
    source s;

    set_up(&s, *state);
    c.source = &s;
    s.life = 2;
    pthread_barrier_init(&c.begin, NULL, THREADS + 1);
    pthread_barrier_init(&c.end, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, member, &c), 0);
    for (int i = 0; i < EXPIRIES; i++) {
        snprintf(c.expected, sizeof c.expected, "id-%d", i + 1);
        set_now(&s, 1000000 + 2 * i); /* those before have just expired */
        pthread_barrier_wait(&c.begin);
        pthread_barrier_wait(&c.end);
        assert_int_equal(count_loads(&s), i + 1);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(c.failures, 0);
    assert_int_equal(c.wrong, 0);
    stk__s3_cache_close(&s.cache);
    pthread_barrier_destroy(&c.begin);
    pthread_barrier_destroy(&c.end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_early, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_failures, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_forced, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_close, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_crowd, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
