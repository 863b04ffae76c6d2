/* SPDX-License-Identifier: Apache-2.0 */
/* A live sheet: the memory that others read, and the thread that writes it. */
#include "measure/live.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stoker/machine.h>

#include "base/sized.h"

#define TICK_NS UINT64_C(500000000)

struct stk_live {
    stk_context *ctx;
    stk__probe probe;
    int fd;
    stk__live_page *page;  /* the thread's */
    stk__live_watch watch; /* its counts any thread's, the rest the thread's */
    stk__thread thread;
    pthread_mutex_t lock; /* guards the next three */
    pthread_cond_t wake;
    bool closing;
    stk_live_state shown;
};

static void on_event(void *user, const stk__event *event)
{
    stk_live *live = user;

    stk__live_event(&live->watch, event);
}

/* What reads meanwhile sees an odd number, or another one afterwards. */
static void publish(stk__live_page *page, const stk_live_state *state)
{
    const uint64_t before = atomic_load_explicit(&page->sequence, memory_order_relaxed);

    atomic_store_explicit(&page->sequence, before + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    memcpy(&page->state, state, sizeof *state);
    atomic_store_explicit(&page->sequence, before + 2, memory_order_release);
}

static void look(stk_live *live)
{
    stk__live_watch_look(&live->watch, stk__now_ns());
    publish(live->page, &live->watch.state);
    pthread_mutex_lock(&live->lock);
    live->shown = live->watch.state;
    pthread_mutex_unlock(&live->lock);
}

static void run(void *user)
{
    stk_live *live = user;
    bool closing = false;

    stk__thread_background();
    while (!closing) {
        const uint64_t when = stk__now_ns() + TICK_NS;
        pthread_mutex_lock(&live->lock);
        while (!live->closing && stk__cond_wait_until(&live->wake, &live->lock, when))
            continue;
        closing = live->closing;
        pthread_mutex_unlock(&live->lock);
        if (!closing)
            look(live);
    }
}

/* ---- Making ---------------------------------------------------------------------------------- */

static stk_status make_page(stk_live *live, stk_error *err)
{
    live->fd = memfd_create(STK__LIVE_NAME, MFD_CLOEXEC);
    if (live->fd < 0 || ftruncate(live->fd, sizeof *live->page) != 0)
        return stk__fail(err, stk__status_of_errno(errno), STK_STAGE_MEASURE,
                         "no memory could be made for a live sheet: %s", strerror(errno));
    live->page = mmap(NULL, sizeof *live->page, PROT_READ | PROT_WRITE, MAP_SHARED, live->fd, 0);
    if (live->page == MAP_FAILED) {
        live->page = NULL;
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for a live sheet");
    }
    memcpy(live->page->magic, STK__LIVE_MAGIC, sizeof STK__LIVE_MAGIC);
    live->page->version = STK__LIVE_VERSION;
    live->page->bytes = sizeof *live->page;
    return STK_OK;
}

static void begin_state(stk_live *live, const char *command, const char *label)
{
    stk_machine machine = {.struct_size = sizeof machine};
    stk_live_state *s = &live->watch.state;

    *s = (stk_live_state){.struct_size = sizeof *s, .pid = (int64_t)getpid()};
    snprintf(s->stoker, sizeof s->stoker, "%s", stk_version());
    snprintf(s->command, sizeof s->command, "%s", command ? command : "");
    stk__copy_tail(s->label, sizeof s->label, label ? label : "");
    stk_machine_get(live->ctx, NULL, &machine);
    stk_machine_summary(&machine, s->machine, sizeof s->machine);
    s->started = stk__wall_seconds();
    s->usable_cores = machine.usable;
}

static void release(stk_live *live)
{
    stk_context *ctx = live->ctx;

    if (live->page)
        munmap(live->page, sizeof *live->page);
    if (live->fd >= 0)
        close(live->fd);
    pthread_cond_destroy(&live->wake);
    pthread_mutex_destroy(&live->lock);
    stk__free(ctx, live);
    stk__context_unref(ctx);
}

stk_status stk_live_open(stk_context *context, const char *command, const char *label,
                         stk_live **out, stk_error *err)
{
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk_live *live = stk__calloc(context, 1, sizeof *live);
    if (!live)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for a live sheet");
    live->ctx = live->watch.ctx = stk__context_ref(context);
    live->fd = -1;
    pthread_mutex_init(&live->lock, NULL);
    stk__cond_init(&live->wake);
    /* Before others can find the page, as it takes a while. */
    begin_state(live, command, label);
    stk_status status = make_page(live, err);
    if (status != STK_OK) {
        release(live);
        return status;
    }
    live->probe = (stk__probe){.event = on_event, .user = live};
    look(live);
    status = stk__probe_add(context, &live->probe);
    if (status != STK_OK) {
        release(live);
        return stk__fail(err, status, STK_STAGE_MEASURE,
                         "the context has too many listeners for a live sheet: close a log or "
                         "another sheet first");
    }
    status = stk__thread_start(context, &live->thread, "stk-live", run, live, err);
    if (status != STK_OK) {
        stk__probe_remove(context, &live->probe);
        release(live);
        return status;
    }
    *out = live;
    return STK_OK;
}

stk_context *stk__live_context(const stk_live *live)
{
    return live->ctx;
}

void stk_live_get(const stk_live *live, stk_live_state *out)
{
    stk_live *l = (stk_live *)live; /* its lock is written, nothing else */
    stk_live_state state = {.struct_size = sizeof state};

    if (!stk__context_forked(l->ctx)) {
        pthread_mutex_lock(&l->lock);
        state = l->shown;
        pthread_mutex_unlock(&l->lock);
    }
    stk__sized_write(out, &state);
}

void stk_live_close(stk_live **live)
{
    stk_live *l = live ? *live : NULL;

    if (!l)
        return;
    *live = NULL;
    /* The thread is in the parent, and so is what it writes. */
    if (stk__context_forked(l->ctx))
        return;
    stk__probe_remove(l->ctx, &l->probe);
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    stk__thread_join(&l->thread);
    release(l);
}
