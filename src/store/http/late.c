/* SPDX-License-Identifier: Apache-2.0 */
/* What of an exchange is due: its deadline, the end of a wait, an answer that is late. */
#include <stdio.h>

#include "store/http/room.h"

#define STALL_BYTES 1024

/* A try that takes too long; false: it is in time, and what is due next is known. */
static bool is_late(stk__http_loop *loop, stk__http_try *t, uint64_t now)
{
    const stk__http_client *client = t->client;

    if (!t->sent_ns)
        return false; /* curl looks at connect_timeout */
    if (!t->first_ns) {
        const uint64_t due = t->sent_ns + client->first_byte_ns;
        if (now >= due)
            stk__http_try_fail(t, STK_ETIMEDOUT, STK__HTTP_TRANSIENT,
                               "no answer began within first_byte_timeout");
        stk__http_loop_due(loop, due);
        return now >= due;
    }
    if (now >= t->mark_ns + client->stall_ns) {
        if (t->moved - t->marked < STALL_BYTES) {
            stk__http_try_fail(t, STK_ETIMEDOUT, STK__HTTP_TRANSIENT,
                               "the answer stalled for stall_timeout");
            return true;
        }
        t->mark_ns = now;
        t->marked = t->moved;
    }
    stk__http_loop_due(loop, t->mark_ns + client->stall_ns);
    return false;
}

/* Whether it may be asked for more than once. */
static bool may_repeat(const stk__http_exchange *x)
{
    return !x->body && !x->body_length &&
           (strcmp(x->method, "GET") == 0 || strcmp(x->method, "HEAD") == 0);
}

/* Ask for what is late a second time; where that is late as well, for the first anew. */
static void ask_twice(stk__http_loop *loop, stk__http_job *job, uint64_t now)
{
    stk__http_host *host = job->exchange->client->host;
    stk__http_try *const first = job->tries[0];
    const stk__http_try *last = job->tries[1] ? job->tries[1] : first;
    const uint64_t late = stk__http_pace_late(&host->pace);

    if (!first || first->first_ns || !last->sent_ns || last->first_ns || late == UINT64_MAX ||
        !may_repeat(job->exchange))
        return;
    if (now < last->sent_ns + late) {
        stk__http_loop_due(loop, last->sent_ns + late);
        return;
    }
    if (!stk__http_pace_twice(&host->pace)) {
        stk__http_loop_due(loop, now + late);
        return;
    }
    if (job->tries[1]) {
        job->late++;
        stk__http_try_stop(loop, first);
        stk__http_job_promote(job);
    }
    stk__http_job_start(loop, job, true);
}

/* A body that brings nothing for long goes on over another connection; false: it does not, and
 * what is due next is known. */
static bool leave_quiet(stk__http_loop *loop, stk__http_job *job, uint64_t now)
{
    stk__http_host *host = job->exchange->client->host;
    const uint64_t quiet = stk__http_pace_quiet(&host->pace);
    stk__http_try *const t = job->tries[0];

    if (!t || job->tries[1] || !t->first_ns || t->status != STK_OK || quiet == UINT64_MAX ||
        !may_repeat(job->exchange))
        return false;
    if (now < t->moved_ns + quiet || !stk__http_pace_twice(&host->pace)) {
        stk__http_loop_due(loop, STK_MAX(now, t->moved_ns) + quiet);
        return false;
    }
    job->late++;
    stk__http_try_stop(loop, t);
    stk__http_job_rewind(job);
    /* At once: the place that it leaves at the host is its own. */
    stk__http_count_wait(job);
    stk__http_job_run(loop, job);
    return true;
}

void stk__http_job_look(stk__http_loop *loop, stk__http_job *job, uint64_t now)
{
    const stk__http_exchange *x = job->exchange;

    if (x->deadline_ns && now >= x->deadline_ns) {
        if (!job->why[0])
            snprintf(job->why, sizeof job->why, "its deadline passed");
        stk__http_job_end(loop, job, STK_ETIMEDOUT);
        return;
    }
    if (x->deadline_ns)
        stk__http_loop_due(loop, x->deadline_ns);
    if (job->place == STK__HTTP_DELAYED) {
        if (now >= job->due_ns) {
            stk__http_job_set_backs_off(job, false);
            stk__http_job_wait(loop, job);
        } else {
            stk__http_loop_due(loop, job->due_ns);
        }
        return;
    }
    if (job->place != STK__HTTP_RUNS)
        return;
    for (size_t i = STK_COUNT(job->tries); i-- > 0;) {
        /* Its end may be that of the job, or make the other the first. */
        if (job->tries[i] && is_late(loop, job->tries[i], now)) {
            stk__http_loop_due(loop, now);
            stk__http_job_ended(loop, job->tries[i], CURLE_OK);
            return;
        }
    }
    if (!leave_quiet(loop, job, now))
        ask_twice(loop, job, now);
}
