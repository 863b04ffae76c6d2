/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an exchange: its turn, one try or two at once, and what follows from how they end.
 * All of it is on the thread of the loop.
 */
#include <stdio.h>

#include "base/random.h"
#include "store/http/room.h"

#define RESUMED_MUCH (UINT64_C(64) << 10) /* bytes that make a try that was cut no failure */

/* The last word of the counter of Philox: what a draw is for. */
enum { DRAW_BACKOFF = 0x68747470 };

/* ---- Lists ---- */

void stk__http_job_wait(stk__http_loop *loop, stk__http_job *job)
{
    stk__http_host *host = job->exchange->client->host;

    (void)loop;
    job->place = STK__HTTP_WAITS;
    stk__http_count_wait(job);
    job->behind = NULL;
    *(host->first ? &host->last->behind : &host->first) = job;
    host->last = job;
}

static void leave_queue(stk__http_job *job)
{
    stk__http_host *host = job->exchange->client->host;
    stk__http_job *before = NULL;

    for (stk__http_job *at = host->first; at != job; at = at->behind)
        before = at;
    *(before ? &before->behind : &host->first) = job->behind;
    if (host->last == job)
        host->last = before;
}

void stk__http_job_begin(stk__http_loop *loop, stk__http_job *job)
{
    const stk__http_exchange *x = job->exchange;

    job->previous = NULL;
    job->next = loop->jobs;
    if (loop->jobs)
        loop->jobs->previous = job;
    loop->jobs = job;
    stk__http_job_wait(loop, job);
    if (atomic_load(&x->canceled))
        stk__http_job_end(loop, job, STK_ECANCELED);
    else if (x->deadline_ns)
        stk__http_loop_due(loop, x->deadline_ns);
}

void stk__http_job_set_backs_off(stk__http_job *job, bool does)
{
    stk__http_host *host = job->exchange->client->host;

    host->backing_off += does;
    host->backing_off -= job->backs_off;
    job->backs_off = does;
}

/* ---- Ending ---- */

/* Where it went, without what is not to be seen. */
static void name_place(const stk__http_job *job, char *text, size_t size)
{
    const stk__http_exchange *x = job->exchange;

    snprintf(text, size, "%s%.*s", x->client->endpoint, (int)strcspn(x->target, "?"), x->target);
}

static void name_failure(stk__http_job *job, stk_status status)
{
    stk__http_exchange *x = job->exchange;
    const stk__http_verdict verdict = stk__http_judge(x->code);
    char place[STK_MAX_OBJECT_KEY + 300], tries[40] = "";
    const char *why = job->why, *remedy = "";

    if (x->error.status != STK_OK)
        return; /* it was named by who looked at it */
    name_place(job, place, sizeof place);
    if (x->tries > 1)
        snprintf(tries, sizeof tries, ", after %u requests", x->tries);
    if (status == STK_ECANCELED)
        why = "it was canceled";
    else if (x->code >= 300 && verdict.status == status)
        remedy = verdict.remedy;
    else if (stk_status_fault(status) == STK_FAULT_MACHINE)
        remedy = "; trying again may help";
    (void)stk__fail_at(&x->error, status, STK_STAGE_STORE, place,
                       x->data ? x->offset : STK_NO_OFFSET, "%s of '%.300s': %s%s%s", x->method,
                       place, *why ? why : stk_status_text(status), tries, remedy);
}

void stk__http_job_end(stk__http_loop *loop, stk__http_job *job, stk_status status)
{
    stk__http_exchange *x = job->exchange;
    stk__http_client *client = x->client;

    for (size_t i = 0; i < STK_COUNT(job->tries); i++)
        if (job->tries[i])
            stk__http_try_stop(loop, job->tries[i]);
    if (job->place == STK__HTTP_WAITS)
        leave_queue(job);
    stk__http_job_set_backs_off(job, false);
    *(job->previous ? &job->previous->next : &loop->jobs) = job->next;
    if (job->next)
        job->next->previous = job->previous;
    stk__http_count_read(loop, job, status);
    x->got = job->got;
    x->error.status = status == STK_OK ? STK_OK : x->error.status;
    if (status != STK_OK)
        name_failure(job, status);
    stk__free(client->context, job->url);
    stk__free(client->context, job->judged);
    stk__free(client->context, job);
    x->job = NULL;
    x->done(x, status);
    pthread_mutex_lock(&loop->mutex);
    if (--client->jobs == 0)
        pthread_cond_broadcast(&client->idle);
    pthread_mutex_unlock(&loop->mutex);
}

/* ---- Tries ---- */

void stk__http_job_start(stk__http_loop *loop, stk__http_job *job, bool twice)
{
    stk__http_exchange *x = job->exchange;
    stk_status status;
    stk_error err;

    stk_error_init(&err);
    stk__http_try *t = stk__http_try_start(loop, job, twice, &status, &err);
    if (t) {
        job->tries[twice] = t;
        job->place = STK__HTTP_RUNS;
        x->tries++;
        job->twice += twice;
        if (!twice)
            stk__http_pace_sent(&x->client->host->pace);
    } else if (twice) {
        return; /* the first goes on alone */
    } else if (status == STK_EAGAIN) {
        job->place = STK__HTTP_HELD;
    } else {
        if (err.status != STK_OK)
            x->error = err;
        job->place = STK__HTTP_RUNS;
        snprintf(job->why, sizeof job->why, "the request cannot be made");
        stk__http_job_end(loop, job, status);
    }
}

void stk__http_job_run(stk__http_loop *loop, stk__http_job *job)
{
    job->place = STK__HTTP_RUNS;
    stk__http_count_turn(job);
    job->judged_length = 0;
    job->winner = NULL;
    stk__http_job_start(loop, job, false);
}

/* The host answers again: of those that wait only lest they ask in vain two go on for each answer.
 */
static void hurry(stk__http_loop *loop, const stk__http_host *host)
{
    uint32_t left = STK_MIN(host->backing_off, 2u);

    for (stk__http_job *job = loop->jobs; job && left > 0; job = job->next) {
        if (!job->backs_off || job->exchange->client->host != host)
            continue;
        left--;
        stk__http_job_set_backs_off(job, false);
        job->due_ns = 0;
        stk__http_loop_due(loop, 0);
    }
}

static void try_again(stk__http_loop *loop, stk__http_job *job, uint64_t wait_ns)
{
    job->place = STK__HTTP_DELAYED;
    job->due_ns = stk__now_ns() + wait_ns;
    stk__http_loop_due(loop, job->due_ns);
}

/* Bytes that are there already are of the same object as those to come: something says so. */
static bool can_resume(const stk__http_job *job)
{
    const stk__http_exchange *x = job->exchange;

    return x->data && job->reckoned && x->identity && (x->etag[0] || x->mtime_ns);
}

/* Whether the try has brought bytes enough that were not there before it. */
static bool brought_much(const stk__http_job *job, const stk__http_try *t)
{
    return job->exchange->data && job->exchange->offset + job->got - t->from >= RESUMED_MUCH;
}

void stk__http_job_rewind(stk__http_job *job)
{
    if (can_resume(job) && job->got)
        return;
    job->got = 0;
    job->reckoned = false;
}

/* How long to wait, or UINT64_MAX: it is not to be tried again. */
static uint64_t draw_wait(stk__http_loop *loop, stk__http_job *job, const stk__http_try *t)
{
    stk__http_exchange *x = job->exchange;
    stk__http_host *host = x->client->host;
    const uint32_t counter[4] = {(uint32_t)loop->draws++, 0, job->fruitless, DRAW_BACKOFF},
                   key[2] = {(uint32_t)(uintptr_t)loop, (uint32_t)t->start_ns};
    uint32_t words[4];

    job->fruitless = brought_much(job, t) && can_resume(job) ? 0 : job->fruitless + 1;
    if (job->fruitless > x->client->options.retries)
        return UINT64_MAX;
    const uint32_t cost = stk__http_bucket_take(&host->bucket, job->again);
    if (!cost) {
        const size_t length = strlen(job->why);
        snprintf(job->why + length, sizeof job->why - length,
                 "; too many requests to this server fail for more tries");
        return UINT64_MAX;
    }
    job->spent += cost;
    if (job->fruitless == 0)
        return 0;
    stk__philox(counter, key, words);
    const uint64_t asked = stk__http_retry_after(&t->head, (int64_t)(stk__wall_seconds() * 1e9));
    return asked + stk__http_backoff(job->again, job->fruitless, words[0]);
}

/* A try has failed: `job->status` and what goes with it say how. The try is off the wire. */
static void after_failure(stk__http_loop *loop, stk__http_job *job, const stk__http_try *t)
{
    const stk__http_exchange *x = job->exchange;

    if (job->again == STK__HTTP_FINAL) {
        stk__http_job_end(loop, job, job->status);
        return;
    }
    if (job->again == STK__HTTP_THROTTLED)
        stk__http_window_lower(&x->client->host->window, stk__now_ns());
    const uint64_t wait = draw_wait(loop, job, t);
    const uint64_t now = stk__now_ns();
    if (wait == UINT64_MAX) {
        stk__http_job_end(loop, job, job->status);
        return;
    }
    /* With more time it might have come. */
    if (x->deadline_ns && x->deadline_ns - STK_MIN(now, x->deadline_ns) <= wait) {
        stk__http_job_end(loop, job, STK_ETIMEDOUT);
        return;
    }
    stk__http_job_rewind(job);
    stk__http_job_set_backs_off(job, stk__http_retry_after(&t->head, 0) == 0);
    try_again(loop, job, wait);
}

static void fail(stk__http_job *job, stk_status status, stk__http_again again, const char *why)
{
    job->status = status;
    job->again = again;
    snprintf(job->why, sizeof job->why, "%.*s", (int)sizeof job->why - 1, why);
}

/* ---- What a try has come to ---- */

/* A proxy has led nowhere; false: it is none of that. */
static bool judge_proxy(stk__http_job *job, const stk__http_try *t)
{
    long code = 0;

    if (t->sent_ns || curl_easy_getinfo(t->easy, CURLINFO_HTTP_CONNECTCODE, &code) != CURLE_OK ||
        code < 300)
        return false;
    const bool refused = code == 401 || code == 403 || code == 407;
    job->status = refused ? STK_EACCES : STK_EIO;
    job->again = refused                      ? STK__HTTP_FINAL
                 : code == 429 || code == 503 ? STK__HTTP_THROTTLED
                                              : STK__HTTP_TRANSIENT;
    snprintf(job->why, sizeof job->why, "the proxy answered %ld%s", code,
             refused ? "; it wants credentials, or leads to no such server" : "");
    return true;
}

/* How curl says that it failed. */
static void judge_transport(stk__http_job *job, const stk__http_try *t, CURLcode result)
{
    const char *told = t->told[0] ? t->told : curl_easy_strerror(result);
    stk_status status = STK_EIO;
    stk__http_again again = STK__HTTP_TRANSIENT;

    if (judge_proxy(job, t))
        return;
    if (t->crowded && !t->sent_ns) {
        fail(job, STK_EIO, again, "no file descriptor is free for a connection; raise `ulimit -n`");
        return;
    }
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT:
        fail(job, STK_ETIMEDOUT, again, "no connection came about within connect_timeout");
        return;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
        snprintf(job->why, sizeof job->why,
                 "its certificate is not trusted (%.80s); give the one that signed it by ca_file",
                 told);
        job->status = STK_EINVAL;
        job->again = STK__HTTP_FINAL;
        return;
    case CURLE_OUT_OF_MEMORY:
        /* What curl says of a line of a head that is longer than it takes, too. */
        if (t->sent_ns && !t->judged) {
            fail(job, STK_ELIMIT, STK__HTTP_FINAL,
                 "a line of its head is too long, or there is no memory for it");
            return;
        }
        status = STK_ENOMEM;
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
        stk__http_names_lost(job);
        break;
    case CURLE_UNSUPPORTED_PROTOCOL:
        if (t->sent_ns) /* what came is no HTTP: bytes behind an earlier answer, perhaps */
            break;
        /* fall through */
    case CURLE_URL_MALFORMAT:
    case CURLE_COULDNT_RESOLVE_PROXY:
        status = STK_EINVAL;
        again = STK__HTTP_FINAL;
        break;
    default:
        break;
    }
    fail(job, status, again, told);
}

/* All bytes that are wanted have their place, or the object ends before. */
static bool has_all(const stk__http_job *job)
{
    const stk__http_exchange *x = job->exchange;

    return job->got == x->length ||
           (x->up_to && x->size != UINT64_MAX && x->offset + job->got >= x->size);
}

/* Ask the owner of the client; true: it has decided. */
static bool ask_owner(stk__http_job *job, const char *body, size_t length)
{
    stk__http_exchange *x = job->exchange;
    stk__http_client *client = x->client;

    if (!client->hooks.judge)
        return false;
    const stk_status status =
        client->hooks.judge(client->user, x, body ? body : "", length, &x->error);
    if (status == STK_OK) {
        stk_error_init(&x->error);
        return false;
    }
    if (status == STK_EAGAIN) {
        const bool busy = stk__http_judge(x->code).again == STK__HTTP_THROTTLED;
        fail(job, STK_EIO, busy ? STK__HTTP_THROTTLED : STK__HTTP_TRANSIENT, x->error.text);
        stk_error_init(&x->error);
    } else {
        fail(job, status, STK__HTTP_FINAL, x->error.text);
        x->error.status = status;
    }
    return true;
}

/* An answer that is not 2xx. */
static void judge_code(stk__http_job *job, stk__http_try *t)
{
    stk__http_exchange *x = job->exchange;
    const int32_t code = t->head.code;
    const stk__http_verdict verdict = stk__http_judge(code);
    const char *why = NULL;

    if (strlen(t->head.location) < sizeof x->location)
        memcpy(x->location, t->head.location, strlen(t->head.location) + 1);
    if (ask_owner(job, job->judged, job->judged_length))
        return;
    if (code == 301 || code == 302 || code == 303 || code == 307 || code == 308) {
        const stk_status status = stk__http_redirect(job, t, &why);
        fail(job, status, STK__HTTP_FINAL, why ? why : "");
        return;
    }
    /* Beyond the end of an object that may end there; of one that has no bytes as well. */
    if (code == 416 && x->data && x->up_to &&
        (t->head.total == STK__HTTP_UNSAID || t->head.total <= t->from)) {
        job->status = STK_OK;
        return;
    }
    snprintf(job->why, sizeof job->why, "the server answered %d", code);
    job->status = verdict.status;
    job->again = verdict.again;
    if (code == 412 && x->if_none_match) {
        job->status = STK_EEXIST;
        snprintf(job->why, sizeof job->why, "it exists already");
    } else if (code == 412) {
        snprintf(job->why, sizeof job->why, "the object has changed (412)");
    }
}

/* Sets status, again, why of the job. STK_EAGAIN in `status`: what there is is not all yet. */
static void judge(stk__http_job *job, stk__http_try *t, CURLcode result)
{
    stk__http_exchange *x = job->exchange;

    job->status = STK_OK;
    if (t->status != STK_OK) {
        fail(job, t->status, t->again, t->why);
    } else if (t->judged && t->body == STK__HTTP_JUDGE) {
        judge_code(job, t);
    } else if (result != CURLE_OK && !t->enough) {
        judge_transport(job, t, result);
    } else if (!t->judged) {
        fail(job, STK_EIO, STK__HTTP_TRANSIENT, "the server sent no answer");
    } else if (t->body == STK__HTTP_DATA) {
        if (has_all(job))
            return;
        if (t->capped && t->left == 0 && t->moved)
            job->status = STK_EAGAIN;
        else if (t->capped || x->size != UINT64_MAX || !t->head.framed || result != CURLE_OK)
            fail(job, STK_EIO, STK__HTTP_TRANSIENT, "the answer was cut");
        else if (!x->up_to) /* a whole object of a length that nobody said has ended */
            fail(job, STK_ETRUNCATED, STK__HTTP_FINAL, "the object ends within the range");
    } else if (x->look && ask_owner(job, x->text, (size_t)job->got)) {
        return;
    }
}

void stk__http_job_promote(stk__http_job *job)
{
    job->tries[0] = job->tries[1];
    job->tries[1] = NULL;
    job->tries[0]->twice = false;
}

/* A part of what was asked for has come. Tiny parts are no more than tries that fail. */
static bool is_fruitful(stk__http_job *job, const stk__http_try *t)
{
    job->fruitless = brought_much(job, t) ? 0 : job->fruitless + 1;
    if (job->fruitless <= job->exchange->client->options.retries)
        return true;
    fail(job, STK_EIO, STK__HTTP_FINAL, "every answer is of a few bytes of the range alone");
    return false;
}

void stk__http_job_ended(stk__http_loop *loop, stk__http_try *t, CURLcode result)
{
    stk__http_job *job = t->job;
    stk__http_exchange *x = job->exchange;
    stk__http_host *host = x->client->host;
    stk__http_try *other = job->tries[!t->twice];

    if (job->winner && job->winner != t) {
        stk__http_try_stop(loop, t);
        return;
    }
    if (t->crowded && !t->sent_ns && host->active > 1) {
        /* The connections that there are have to do. */
        stk__http_try_stop(loop, t);
        host->window.limit = STK_MAX((double)host->active, 1.0);
        if (!other)
            stk__http_job_wait(loop, job);
        else if (!job->tries[0])
            stk__http_job_promote(job);
        return;
    }
    if (t->judged) /* the other of two may have had a head since */
        x->code = t->head.code;
    judge(job, t, result);
    stk__http_count_try(job, t, job->status != STK_OK && job->status != STK_EAGAIN);
    const stk__http_try seen = *t; /* what is asked of it when it is off the wire */
    stk__http_try_stop(loop, t);
    if (job->status == STK_OK && job->url && x->code >= 300 && x->code != 416) {
        stk__http_job_wait(loop, job); /* where a redirect leads */
        return;
    }
    if (job->status == STK_OK) {
        if (seen.body == STK__HTTP_DATA)
            stk__http_pace_rested(&host->pace, seen.rest_ns);
        stk__http_bucket_refund(&host->bucket, job->spent);
        stk__http_window_raise(&host->window);
        hurry(loop, host);
        stk__http_job_end(loop, job, STK_OK);
    } else if (job->status == STK_EAGAIN && is_fruitful(job, &seen)) {
        stk__http_job_wait(loop, job);
    } else if (other && job->again != STK__HTTP_FINAL && !job->winner) {
        if (!job->tries[0]) /* the other may still bring it */
            stk__http_job_promote(job);
    } else {
        if (other)
            stk__http_try_stop(loop, other);
        if (!x->data) {
            job->got = 0;
            job->reckoned = false;
        }
        after_failure(loop, job, &seen);
    }
}
