/* SPDX-License-Identifier: Apache-2.0 */
#include "train/remote/sender.h"

#include <inttypes.h>

#define FIRST_WAIT_NS UINT64_C(1000000000)
#define MOST_WAIT_NS  UINT64_C(60000000000)

struct stk__sender {
    stk_context *ctx;
    stk__mlflow *mlflow; /* the thread's */
    stk__thread thread;
    atomic_uint_fast64_t stop_ns; /* when a request that is under way is given up; 0: never */
    uint64_t failures;            /* in a row; the thread's */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    uint64_t end;
    bool closing;
};

static bool is_late(void *user)
{
    const uint64_t stop =
        atomic_load_explicit(&((stk__sender *)user)->stop_ns, memory_order_relaxed);

    return stop && stk__now_ns() >= stop;
}

/* Of a failure, when to try again. */
static uint64_t note_failure(stk__sender *s, const stk_error *err)
{
    const uint64_t wait = FIRST_WAIT_NS << STK_MIN(s->failures, UINT64_C(6));

    if (s->failures++ == 0)
        stk__message(s->ctx, STK_MESSAGE_WARNING,
                     "mlflow: nothing can be sent now; it is kept in '%s', and tried again: %s",
                     stk__mlflow_where(s->mlflow)->journal, err->text);
    return stk__now_ns() + STK_MIN(wait, MOST_WAIT_NS);
}

static void note_success(stk__sender *s)
{
    if (s->failures)
        stk__message(s->ctx, STK_MESSAGE_INFO, "mlflow: '%s' answers again",
                     stk__mlflow_where(s->mlflow)->server.url);
    s->failures = 0;
}

/* Wait for lines to send, or for the time of another try. False: there is nothing more to do. */
static bool wait_locked(stk__sender *s, uint64_t again)
{
    const uint64_t sent = stk__mlflow_offset(s->mlflow);

    while (!s->closing && (s->end <= sent || stk__now_ns() < again))
        stk__cond_wait_until(&s->changed, &s->lock, s->end <= sent ? UINT64_MAX : again);
    return s->end > sent;
}

static void run(void *argument)
{
    stk__sender *s = argument;
    const stk_store_call call = {.struct_size = sizeof call, .canceled = is_late, .user = s};
    bool closing = false;
    uint64_t again = 0;
    stk_error err;

    stk__thread_background();
    pthread_mutex_lock(&s->lock);
    while (wait_locked(s, again) && !(closing && s->failures)) {
        const uint64_t end = s->end;
        closing = s->closing;
        pthread_mutex_unlock(&s->lock);
        const stk_status status = stk__mlflow_send(s->mlflow, end, &call, &err);
        if (status == STK_OK)
            note_success(s);
        else if (!is_late(s))
            again = note_failure(s, &err);
        pthread_mutex_lock(&s->lock);
        if (is_late(s))
            break;
    }
    pthread_mutex_unlock(&s->lock);
}

static void free_sender(stk__sender *s)
{
    stk__mlflow_close(&s->mlflow);
    stk__free(s->ctx, s);
}

stk_status stk__sender_create(stk_context *ctx, const stk__mlflow_place *place, stk__sender **out,
                              stk_error *err)
{
    stk__sender *s = stk__calloc(ctx, 1, sizeof *s);

    *out = NULL;
    if (!s)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a logger");
    s->ctx = ctx;
    stk_status status = stk__mlflow_open(ctx, place, &s->mlflow, err);
    if (status != STK_OK) {
        free_sender(s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    stk__cond_init(&s->changed);
    status = stk__thread_start(ctx, &s->thread, "stk-mlflow", run, s, err);
    if (status != STK_OK) {
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        free_sender(s);
        return status;
    }
    *out = s;
    return STK_OK;
}

void stk__sender_publish(stk__sender *s, uint64_t end)
{
    pthread_mutex_lock(&s->lock);
    s->end = end;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* What is left, and how it is sent; or where the run can be seen. */
static void say_end(const stk__sender *s)
{
    const stk__mlflow_sent *sent = stk__mlflow_counts(s->mlflow);
    const stk__mlflow_place *where = stk__mlflow_where(s->mlflow);
    const uint64_t at = stk__mlflow_offset(s->mlflow);
    char page[1024];

    if (s->end > at)
        stk__message(s->ctx, STK_MESSAGE_WARNING,
                     "mlflow: %" PRIu64 " of %" PRIu64
                     " bytes of '%s' are not sent; 'stoker report "
                     "--sync mlflow %s' sends them",
                     s->end - at, s->end, where->journal, where->folder);
    else if (stk__mlflow_page(s->mlflow, page, sizeof page))
        stk__message(s->ctx, STK_MESSAGE_INFO, "mlflow: %s", page);
    if (sent->refused || sent->unsent)
        stk__message(s->ctx, STK_MESSAGE_WARNING,
                     "mlflow: the server refused %" PRIu64 " lines of '%s', and %" PRIu64
                     " files were not sent",
                     sent->refused, where->journal, sent->unsent);
}

void stk__sender_destroy(stk__sender **sender, double timeout)
{
    stk__sender *s = *sender;

    *sender = NULL;
    if (!s)
        return;
    atomic_store(&s->stop_ns, stk__now_ns() + (uint64_t)(timeout * 1e9));
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    stk__thread_join(&s->thread);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    say_end(s);
    free_sender(s);
}
