/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of all exchanges of a context. It alone touches jobs, tries and the multi handle of
 * curl; others leave what they want in the inbox and wake it.
 */
#include "base/slot.h"
#include "base/wiped.h"
#include "store/http/room.h"

#define LONGEST_MS 60000 /* of one sleep */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

/* Headers and small bodies may be secrets, and curl leaves them in what it frees. Where another has
 * begun with curl before, this changes nothing. */
static void start_curl(void)
{
    curl_state = curl_global_init_mem(CURL_GLOBAL_DEFAULT, stk__wiped_alloc, stk__wiped_free,
                                      stk__wiped_realloc, stk__wiped_strdup, stk__wiped_calloc);
}

void stk__http_loop_due(stk__http_loop *loop, uint64_t due_ns)
{
    loop->nearest_ns = STK_MIN(loop->nearest_ns, due_ns);
}

/* ---- What others want ---- */

/* Oldest first. */
static stk__http_job *in_order(stk__http_job *newest)
{
    stk__http_job *list = NULL;

    while (newest) {
        stk__http_job *const next = newest->next;
        newest->next = list;
        list = newest;
        newest = next;
    }
    return list;
}

static void heed(stk__http_loop *loop, const stk__http_client *client, bool closing)
{
    for (stk__http_job *job = loop->jobs, *next; job; job = next) {
        next = job->next;
        if (job->exchange->client != client)
            continue;
        if (closing)
            atomic_store(&job->exchange->canceled, true);
        else if (job->place == STK__HTTP_HELD)
            stk__http_job_wait(loop, job);
    }
}

/* False: the loop is to end. */
static bool take_inbox(stk__http_loop *loop)
{
    stk__http_client *client;

    pthread_mutex_lock(&loop->mutex);
    stk__http_job *arrived = in_order(loop->inbox);
    bool cancels = loop->cancels;
    loop->inbox = NULL;
    loop->cancels = false;
    loop->known = loop->hosts;
    const bool stopping = loop->stopping;
    pthread_mutex_unlock(&loop->mutex);
    for (stk__http_job *next; arrived; arrived = next) {
        next = arrived->next;
        stk__http_job_begin(loop, arrived);
    }
    for (;;) {
        pthread_mutex_lock(&loop->mutex);
        client = loop->wanting;
        bool closing = false;
        if (client) {
            loop->wanting = client->next;
            client->listed = client->wake = false;
            closing = client->closing;
            if (closing)
                pthread_cond_broadcast(&client->idle);
        }
        pthread_mutex_unlock(&loop->mutex);
        if (!client)
            break;
        heed(loop, client, closing);
        cancels |= closing;
    }
    for (stk__http_job *job = cancels ? loop->jobs : NULL, *next; job; job = next) {
        next = job->next;
        if (atomic_load(&job->exchange->canceled))
            stk__http_job_end(loop, job, STK_ECANCELED);
    }
    return !stopping;
}

/* ---- Turns ---- */

static void admit(stk__http_loop *loop)
{
    for (stk__http_host *host = loop->known; host; host = host->next) {
        while (host->first && (double)host->active + 1 <= host->window.limit) {
            stk__http_job *job = host->first;
            host->first = job->behind;
            if (!host->first)
                host->last = NULL;
            job->behind = NULL;
            stk__http_job_run(loop, job);
        }
    }
}

static void look_at_clock(stk__http_loop *loop)
{
    const uint64_t now = stk__now_ns();

    if (now < loop->nearest_ns)
        return;
    loop->nearest_ns = UINT64_MAX;
    for (stk__http_job *job = loop->jobs, *next; job; job = next) {
        next = job->next;
        stk__http_job_look(loop, job, now);
    }
}

static bool take_ends(stk__http_loop *loop)
{
    CURLMsg *message;
    stk__http_try *try_;
    bool any = false;
    int left;

    while ((message = curl_multi_info_read(loop->multi, &left))) {
        const CURLcode result = message->data.result;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&try_);
        stk__http_job_ended(loop, try_, result);
        any = true;
    }
    return any;
}

static void sleep_until_due(stk__http_loop *loop)
{
    const uint64_t now = stk__now_ns();
    const uint64_t left = loop->nearest_ns > now ? loop->nearest_ns - now : 0;

    curl_multi_poll(loop->multi, NULL, 0,
                    (int)STK_MIN(stk__divide_up(left, 1000000), (uint64_t)LONGEST_MS), NULL);
}

static void run(void *argument)
{
    stk__http_loop *loop = argument;
    int running;

    while (take_inbox(loop)) {
        look_at_clock(loop);
        admit(loop);
        curl_multi_perform(loop->multi, &running);
        if (!take_ends(loop))
            sleep_until_due(loop);
    }
}

/* ---- Its life ---- */

static void free_loop(stk__http_loop *loop)
{
    for (stk__http_host *host = loop->hosts, *next; host; host = next) {
        next = host->next;
        stk__free(loop->context, host);
    }
    if (loop->multi)
        curl_multi_cleanup(loop->multi);
    pthread_mutex_destroy(&loop->mutex);
    stk__free(loop->context, loop);
}

static stk_status make_loop(stk_context *ctx, stk__http_loop **out, stk_error *err)
{
    stk__http_loop *loop = stk__calloc(ctx, 1, sizeof *loop);

    if (!loop)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for requests over HTTP");
    pthread_mutex_init(&loop->mutex, NULL);
    loop->context = ctx;
    loop->nearest_ns = UINT64_MAX;
    pthread_once(&curl_once, start_curl);
    loop->multi = curl_state == CURLE_OK ? curl_multi_init() : NULL;
    stk_status status = STK_OK;
    if (!loop->multi) {
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "libcurl does not start");
    } else {
        curl_multi_setopt(loop->multi, CURLMOPT_MAXCONNECTS, 1024L);
        status = stk__thread_start(ctx, &loop->thread, "stk-http", run, loop, err);
    }
    if (status != STK_OK) {
        free_loop(loop);
        return status;
    }
    *out = loop;
    return STK_OK;
}

typedef struct loop_wish {
    stk__http_loop *loop;
    bool last;
    stk_error *err;
} loop_wish;

static stk_status get_loop(stk_context *ctx, stk__slot *slot, void *user)
{
    loop_wish *wish = user;

    wish->loop = slot->data;
    if (!wish->loop)
        STK_TRY(make_loop(ctx, &wish->loop, wish->err));
    slot->data = wish->loop;
    wish->loop->clients++;
    return STK_OK;
}

static stk_status put_loop(stk_context *ctx, stk__slot *slot, void *user)
{
    loop_wish *wish = user;

    (void)ctx;
    wish->last = --wish->loop->clients == 0;
    if (wish->last)
        slot->data = NULL;
    return STK_OK;
}

stk_status stk__http_loop_get(stk_context *ctx, stk__http_loop **out, stk_error *err)
{
    loop_wish wish = {.err = err};

    *out = NULL;
    STK_TRY(stk__context_slot(ctx, STK__SLOT_HTTP, get_loop, &wish));
    *out = wish.loop;
    return STK_OK;
}

void stk__http_loop_put(stk__http_loop *loop)
{
    loop_wish wish = {.loop = loop};

    (void)stk__context_slot(loop->context, STK__SLOT_HTTP, put_loop, &wish);
    if (!wish.last)
        return;
    pthread_mutex_lock(&loop->mutex);
    loop->stopping = true;
    pthread_mutex_unlock(&loop->mutex);
    curl_multi_wakeup(loop->multi);
    stk__thread_join(&loop->thread);
    free_loop(loop);
}

stk__http_host *stk__http_host_get(stk__http_loop *loop, const char *endpoint, uint32_t most)
{
    const size_t length = strlen(endpoint);
    stk__http_host *made = stk__calloc(loop->context, 1, sizeof *made + length + 1), *found;

    if (!made)
        return NULL;
    memcpy(made->name, endpoint, length + 1);
    stk__http_bucket_init(&made->bucket);
    stk__http_window_init(&made->window, most);
    pthread_mutex_lock(&loop->mutex);
    for (found = loop->hosts; found; found = found->next)
        if (found->window.most == (double)most && strcmp(found->name, endpoint) == 0)
            break;
    if (!found) {
        made->next = loop->hosts;
        found = loop->hosts = made;
        made = NULL;
    }
    pthread_mutex_unlock(&loop->mutex);
    stk__free(loop->context, made);
    return found;
}
