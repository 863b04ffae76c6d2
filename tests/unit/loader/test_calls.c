/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets that outsiders wrote: calls that hang, that call back, that answer what is no answer. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/parts.h"
#include "support/support.h"

enum { SIZE = 640, BATCH = 16, NEVER = -1 };

/* What prepare() does at sample `at`. */
typedef struct fixture {
    stk_dataset head;
    stk_dataset_ops ops;
    stk_field field;
    stk_loader *loader;
    int64_t hangs_at, hangs_too, calls_at, bad_at;
    stk_status bad, located, decoded;
    stk_store *store;         /* of those that decode */
    atomic_bool hangs, go_on; /* it is there; it may end */
    atomic_uint by_consumer;
    pthread_t consumer;
    stk_status (*call)(stk_loader *loader, stk_error *err);
    stk_status called;
    stk_error call_error;
    pthread_mutex_t lock; /* guards log */
    char log[4000];
    const char *releases; /* a message with this lets a call that hangs end */
} fixture;

static void take_message(void *user, stk_message_level level, const char *message)
{
    fixture *f = user;

    (void)level;
    pthread_mutex_lock(&f->lock);
    size_t n = strlen(f->log);
    snprintf(f->log + n, sizeof f->log - n, "%s\n", message);
    pthread_mutex_unlock(&f->lock);
    if (f->releases && strstr(message, f->releases))
        atomic_store(&f->go_on, true);
}

static bool logged(fixture *f, const char *part)
{
    pthread_mutex_lock(&f->lock);
    bool found = strstr(f->log, part);
    pthread_mutex_unlock(&f->lock);
    return found;
}

static void wait_for(atomic_bool *flag)
{
    while (!atomic_load(flag))
        stk__sleep_until(stk__now_ns() + 1000000, NULL);
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    fixture *f = (fixture *)dataset;

    if (pthread_equal(pthread_self(), f->consumer))
        atomic_fetch_add(&f->by_consumer, 1);
    for (size_t i = 0; i < n; i++) {
        memcpy(samples[i].values[0].out, &samples[i].index, sizeof samples[i].index);
        if ((int64_t)samples[i].index == f->hangs_at || (int64_t)samples[i].index == f->hangs_too) {
            atomic_store(&f->hangs, true);
            wait_for(&f->go_on);
        }
        if ((int64_t)samples[i].index == f->calls_at) {
            f->calls_at = NEVER; /* once, also where it goes back */
            f->called = f->call(f->loader, &f->call_error);
        }
        if ((int64_t)samples[i].index == f->bad_at)
            samples[i].status = f->bad;
    }
}

static stk_status locate(stk_dataset *dataset, const uint64_t *indices, size_t n, stk_locator *to,
                         stk_error *err)
{
    const stk_need need = {.length = 8, .decoded = 8};

    (void)indices;
    (void)err;
    for (size_t i = 0; i < n && ((fixture *)dataset)->store; i++)
        STK_TRY(to->add(to, i, &need));
    return ((fixture *)dataset)->located;
}

static size_t object(stk_dataset *dataset, uint64_t number, stk_store **store, char *key,
                     size_t size)
{
    (void)number;
    *store = ((fixture *)dataset)->store;
    return (size_t)snprintf(key, size, "bytes");
}

static stk_status decode(stk_dataset *dataset, const stk_need *need, const void *data, void *out,
                         void *worker, const char **reason)
{
    (void)worker;
    (void)reason;
    memcpy(out, data, need->length);
    return ((fixture *)dataset)->decoded;
}

static void close_dataset(stk_dataset *dataset)
{
    (void)dataset;
}

static void set_up(fixture *f)
{
    stk_context_options o;
    stk_context *ctx;

    *f = (fixture){.hangs_at = NEVER, .hangs_too = NEVER, .calls_at = NEVER, .bad_at = NEVER};
    f->ops = (stk_dataset_ops){.struct_size = sizeof f->ops,
                               .name = "foreign",
                               .doc = "For tests.",
                               .close = close_dataset,
                               .prepare = prepare};
    pthread_mutex_init(&f->lock, NULL);
    f->consumer = pthread_self();
    f->field = stk__field("x", STK_INT64, (const int64_t[]){-1}, false);
    stk_context_options_init(&o);
    o.on_message = take_message;
    o.on_message_user = f;
    assert_int_equal(stk_context_create(&o, &ctx, NULL), STK_OK);
    stk__dataset_init(&f->head, &f->ops, ctx, SIZE, &f->field, 1);
}

static void open_loader(fixture *f, int64_t workers, double timeout, double watchdog)
{
    stk_loader_options o;
    stk_error err;

    stk_loader_options_init(&o);
    o.batch_size = BATCH;
    o.num_workers = workers;
    o.timeout = timeout;
    o.watchdog = watchdog;
    o.epochs = 1;
    o.on_error = STK_ON_ERROR_SKIP;
    assert_ok(stk_loader_create(&f->head, &o, &f->loader, &err), &err);
}

static void tear_down(fixture *f)
{
    stk_loader_destroy(&f->loader);
    stk_store_close(&f->store);
    stk_context_destroy(&f->head.context);
    pthread_mutex_destroy(&f->lock);
}

static stk_status drain(fixture *f, stk_error *err)
{
    stk_batch *batch;
    stk_status status;

    while ((status = stk_loader_next(f->loader, -1, &batch, err)) == STK_OK)
        stk_batch_release(&batch);
    return status;
}

/* With workers the consumer never runs what may hang, so its timeout holds, and the watchdog names
 * worker and sample. */
static void timeout_holds(void **state)
{
    fixture f;
    stk_error err;

    for (int64_t workers = 1; workers <= 2; workers++) {
        set_up(&f);
        f.hangs_at = 7 * BATCH;
        open_loader(&f, workers, 0.2, 0.02);
        assert_int_equal(drain(&f, &err), STK_ETIMEDOUT);
        assert_non_null(strstr(err.text, "0.2 s"));
        assert_int_equal(atomic_load(&f.by_consumer), 0);
        assert_true(logged(&f, "no batch for 0 s (epoch 0, step 7)"));
        assert_true(logged(&f, "; stk-worker-"));
        assert_true(logged(&f, " has prepared sample 112 for 0."));
        atomic_store(&f.go_on, true);
        assert_int_equal(drain(&f, &err), STK_EOS);
        tear_down(&f);
    }
}

/* Whether one message has both parts, in either order. */
static bool logged_together(fixture *f, const char *one, const char *other)
{
    bool found = false;

    pthread_mutex_lock(&f->lock);
    for (const char *line = f->log; !found && *line; line += strcspn(line, "\n") + 1) {
        const size_t length = strcspn(line, "\n");
        const char *a = strstr(line, one), *b = strstr(line, other);
        found = a && b && a < line + length && b < line + length;
        if (!line[length])
            break;
    }
    pthread_mutex_unlock(&f->lock);
    return found;
}

/* All that are stuck are in one message. */
static void each_that_hangs_is_named(void **state)
{
    fixture f;
    stk_error err;

    set_up(&f);
    f.hangs_at = 7 * BATCH;
    f.hangs_too = 8 * BATCH;
    open_loader(&f, 2, 0.2, 0.02);
    for (int i = 0; i < 50 && !logged_together(&f, "sample 112 for", "sample 128 for"); i++) {
        pthread_mutex_lock(&f.lock);
        *f.log = 0;
        pthread_mutex_unlock(&f.lock);
        assert_int_equal(drain(&f, &err), STK_ETIMEDOUT);
    }
    assert_true(logged_together(&f, "sample 112 for", "sample 128 for"));
    atomic_store(&f.go_on, true);
    assert_int_equal(drain(&f, &err), STK_EOS);
    tear_down(&f);
}

/* Without workers nothing can end the call, but it is named while it lasts. */
static void a_hang_in_the_callers_thread_is_named(void **state)
{
    fixture f;
    stk_error err;

    set_up(&f);
    f.hangs_at = 7 * BATCH;
    f.releases = "the caller's thread has prepared sample 112 for 0.";
    open_loader(&f, 0, 0, 0.05);
    assert_int_equal(drain(&f, &err), STK_EOS);
    assert_true(logged(&f, "no batch (epoch 0, step 7)"));
    assert_true(logged(&f, "num_workers: 0"));
    assert_in_range(atomic_load(&f.by_consumer), SIZE / BATCH, SIZE);
    tear_down(&f);
}

static void *drain_main(void *argument)
{
    static stk_error err;

    (void)drain(argument, &err);
    return &err;
}

/* A cancel from elsewhere ends a wait that nothing else would end. */
static void cancel_wakes_a_consumer(void **state)
{
    fixture f;
    pthread_t thread;
    void *err;

    set_up(&f);
    f.hangs_at = 0;
    open_loader(&f, 1, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, drain_main, &f), 0);
    wait_for(&f.hangs);
    stk_loader_cancel(f.loader);
    assert_int_equal(pthread_join(thread, &err), 0);
    assert_int_equal(((stk_error *)err)->status, STK_ECANCELED);
    atomic_store(&f.go_on, true);
    tear_down(&f);
}

/* A thread that does not end is left, and said. */
static void stuck_workers_are_abandoned(void **state)
{
    static fixture f;
    static stk_loader *left; /* so that what is left is no leak */

    set_up(&f);
    f.hangs_at = 3;
    open_loader(&f, 1, 0, 0);
    wait_for(&f.hangs);
    left = f.loader;
    left->abandon_ns = 20000000;
    stk_loader_destroy(&f.loader);
    assert_null(f.loader);
    assert_true(logged(&f, "stk-worker-0 does not end: it has prepared sample "));
    assert_true(logged(&f, "1 threads and 0 reads are abandoned"));
    atomic_store(&f.go_on, true);
    stk__thread_join(&left->workers.each[0].thread);
}

static stk_status call_next(stk_loader *loader, stk_error *err)
{
    stk_batch *batch;

    return stk_loader_next(loader, -1, &batch, err);
}

static stk_status call_set_epoch(stk_loader *loader, stk_error *err)
{
    return stk_loader_set_epoch(loader, 0, err);
}

static stk_status call_restore(stk_loader *loader, stk_error *err)
{
    const stk_loader_state state = {0}; /* it is not looked at */

    return stk_loader_restore(loader, &state, err);
}

static void no_calls_back(void **state)
{
    const struct {
        stk_status (*call)(stk_loader *loader, stk_error *err);
        const char *text;
    } cases[] = {{call_next, "stk_loader_next() was called from"},
                 {call_set_epoch, "stk_loader_set_epoch() was called from"},
                 {call_restore, "stk_loader_restore() was called from"}};
    fixture f;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++)
        for (int64_t workers = 0; workers <= 1; workers++) {
            set_up(&f);
            f.call = cases[i].call;
            f.calls_at = 11 * BATCH + 1;
            open_loader(&f, workers, 0, 0);
            assert_int_equal(drain(&f, &err), STK_EOS);
            assert_fails(f.called, STK_EINVAL, &f.call_error, cases[i].text);
            /* Whoever is not in a call may. */
            assert_ok(call_set_epoch(f.loader, &err), &err);
            tear_down(&f);
        }
}

/* What a dataset may not answer fails the run, skip or not, with its name. */
static void answers_are_no_failures(void **state)
{
    const struct {
        stk_status status;
        const char *text;
    } cases[] = {{STK_EOS, "STK_EOS"},
                 {STK_EAGAIN, "STK_EAGAIN"},
                 {(stk_status)99, "does not have"},
                 {(stk_status)-98, "does not have"}};
    stk_error err;
    fixture f;

    for (size_t i = 0; i < 3 * STK_COUNT(cases); i++)
        for (int64_t workers = 0; workers <= 1; workers++) {
            const stk_status status = cases[i / 3].status;

            set_up(&f);
            if (i % 3) {
                f.ops.locate = locate;
                f.ops.object = object;
                f.located = i % 3 == 1 ? status : STK_OK;
            } else {
                f.bad_at = 5;
                f.bad = status;
            }
            if (i % 3 == 2) {
                f.ops.decode = decode;
                f.decoded = status;
                assert_ok(stk_store_open(f.head.context, "mem://calls", &f.store, NULL, 0, &err),
                          &err);
                assert_ok(stk_store_put(f.store, "bytes", "01234567", 8, NULL, &err), &err);
            }
            open_loader(&f, workers, 0, 0);
            assert_fails(drain(&f, &err), STK_EINVAL, &err, cases[i / 3].text);
            tear_down(&f);
        }
}

static void tables_are_checked(void **state)
{
    static const char *const no_class[] = {"a", NULL};
    stk_loader_options o;
    stk_loader *loader;
    stk_error err;
    fixture f;

    stk_loader_options_init(&o);
    for (int i = 0; i < 13; i++) {
        static const char *const texts[] = {"struct_size",
                                            "lacks prepare",
                                            "lacks close",
                                            "lacks object, which goes with locate",
                                            "lacks locate, which goes with decode",
                                            "no fields",
                                            "counts classes",
                                            "cost_ns",
                                            "proper name",
                                            "no shape or type",
                                            "no shape or type",
                                            "negative shape",
                                            "class without a name"};
        set_up(&f);
        switch (i) {
        case 0:
            f.ops.struct_size = 8;
            break;
        case 1:
            f.ops.prepare = NULL;
            break;
        case 2:
            f.ops.close = NULL;
            break;
        case 3:
            f.ops.locate = locate;
            break;
        case 4:
            f.ops.decode = (void *)prepare;
            break;
        case 5:
            f.head.num_fields = 0;
            break;
        case 6:
            f.head.num_classes = 2;
            break;
        case 7:
            f.head.cost_ns = NAN;
            break;
        case 8:
            f.field.name = "";
            break;
        case 9:
            f.field.rank = STK_MAX_RANK + 1;
            break;
        case 10:
            f.field.dtype = STK_DTYPE_COUNT;
            break;
        case 11:
            f.field.rank = 1;
            f.field.shape[0] = -2;
            break;
        case 12:
            f.head.classes = no_class;
            f.head.num_classes = 2;
            break;
        }
        assert_fails(stk_loader_create(&f.head, &o, &loader, &err), STK_EINVAL, &err, texts[i]);
        assert_null(loader);
        stk_context_destroy(&f.head.context);
    }
    assert_fails(stk_loader_create(NULL, &o, &loader, &err), STK_EINVAL, &err, "no dataset");
}

static void times_are_not_negative(void **state)
{
    stk_loader_options o;
    stk_loader *loader;
    stk_error err;
    fixture f;

    set_up(&f);
    for (int i = 0; i < 4; i++) {
        const double wrong[] = {-1, -1e-3, NAN, INFINITY};
        stk_loader_options_init(&o);
        o.timeout = wrong[i];
        assert_fails(stk_loader_create(&f.head, &o, &loader, &err), STK_EINVAL, &err, "timeout");
        o.timeout = 0;
        o.watchdog = wrong[i];
        assert_fails(stk_loader_create(&f.head, &o, &loader, &err), STK_EINVAL, &err, "watchdog");
    }
    stk_context_destroy(&f.head.context);
}

/* Given back twice: said, and nothing is handed out twice. */
static void a_batch_is_given_back_once(void **state)
{
    stk_batch *batch, *again;
    stk_error err;
    fixture f;

    set_up(&f);
    open_loader(&f, 0, 0, 0);
    assert_ok(stk_loader_next(f.loader, -1, &batch, &err), &err);
    again = batch;
    stk_batch_release(&batch);
    assert_null(batch);
    assert_int_equal(f.log[0], 0);
    stk_batch_release(&again);
    assert_null(again);
    assert_true(logged(&f, "stk_batch_release(): this batch is not held"));
    assert_int_equal(f.loader->ring->num_held, 0);
    assert_int_equal(f.loader->ring->references, 1);
    assert_int_equal(drain(&f, &err), STK_EOS);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeout_holds),
        cmocka_unit_test(a_hang_in_the_callers_thread_is_named),
        cmocka_unit_test(cancel_wakes_a_consumer),
        cmocka_unit_test(each_that_hangs_is_named),
        cmocka_unit_test(stuck_workers_are_abandoned),
        cmocka_unit_test(no_calls_back),
        cmocka_unit_test(answers_are_no_failures),
        cmocka_unit_test(tables_are_checked),
        cmocka_unit_test(times_are_not_negative),
        cmocka_unit_test(a_batch_is_given_back_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
