/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every call of ranks begins with. All ranks put a frame of one size round: that is the same
 * call of the network whatever they want, so ranks that want different things learn it from the
 * frames, and do not hang in calls that do not fit each other. A rank that has failed says so in
 * the frame of the call that it would have made.
 *
 * Nothing waits for ever: calls of the network are begun, and asked for until a deadline. A rank
 * that has waited for a quarter of the time tells the others beside the call, so that at the
 * deadline those that have told nothing are the ones that are missing.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/probe.h"
#include "dist/nccl.h"

#define EAGER_NS  UINT64_C(2000000) /* asked without a pause before; then with pauses */
#define PAUSE_NS  50000
#define QUARTER   4
#define NUM_NAMED 4 /* ranks that a message names */

/* ---- What has failed ------------------------------------------------------------------------- */

static stk_status fail(stk_collectives *c, stk_status status, stk__health health, stk_error *err,
                       const char *text)
{
    c->health = health;
    snprintf(c->why, sizeof c->why, "%s", text);
    return stk__fail(err, status, STK_STAGE_TRAIN, "%s", text);
}

void stk__describe_call(const stk__rank_frame *f, char *text, size_t size)
{
    static const char *const calls[] = {"",        "reduce",         "broadcast",
                                        "barrier", "reduce-scatter", "all-gather",
                                        "leave",   "fail",           "begin NCCL"};
    static const char *const ops[] = {"sum", "mean", "min", "max"};
    const uint32_t which = f->call & ~(uint32_t)STK__CALL_ON_DEVICE;
    const char *call = which < STK_COUNT(calls) ? calls[which] : "?";
    const char *where = f->call & STK__CALL_ON_DEVICE ? " on the device" : "";

    if (which == STK__CALL_REDUCE || which == STK__CALL_REDUCE_SCATTER)
        snprintf(text, size, "%s %" PRIu64 " %s by %s%s", call, f->count,
                 stk_dtype_name((stk_dtype)f->dtype), f->op < STK_COUNT(ops) ? ops[f->op] : "?",
                 where);
    else if (which == STK__CALL_ALL_GATHER)
        snprintf(text, size, "%s %" PRIu64 " %s%s", call, f->count,
                 stk_dtype_name((stk_dtype)f->dtype), where);
    else if (which == STK__CALL_BROADCAST)
        snprintf(text, size, "%s %" PRIu64 " bytes%s", call, f->count, where);
    else
        snprintf(text, size, "%s", call);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* "rank 1 (node7), rank 2 (node8) and 3 more": those that have not told that they wait. */
static void name_missing(stk_collectives *c, char *text, size_t size)
{
    char why[STK__TRANSPORT_TEXT];
    uint64_t told, missing = 0;
    size_t used = 0;

    *text = 0;
    for (uint64_t r = 0; r < c->strategy.world_size; r++) {
        if (r == c->strategy.rank || !c->ops->told(c->transport, r, &told, why) ||
            told >= c->number)
            continue;
        if (missing++ < NUM_NAMED && used < size)
            used += (size_t)snprintf(text + used, size - used, "%srank %" PRIu64 " (%s)",
                                     missing > 1 ? ", " : "", r, c->hosts[r]);
    }
    if (missing > NUM_NAMED && used < size)
        snprintf(text + used, size - used, " and %" PRIu64 " more", missing - NUM_NAMED);
    if (missing == 0)
        snprintf(text, size, "the network, as all ranks are there");
}

static stk_status late(stk_collectives *c, stk_error *err)
{
    char text[STK_ERROR_TEXT], missing[240], what[80];

    stk__describe_call(&c->frames[c->strategy.world_size], what, sizeof what);
    name_missing(c, missing, sizeof missing);
    snprintf(text, sizeof text,
             "rank %" PRIu64 " of %" PRIu64 " (%s) has waited %.3g s in call %" PRIu64
             " (%s) for %s: see what became of it, or raise collectives.collective_timeout",
             c->strategy.rank, c->strategy.world_size, c->hosts[c->strategy.rank],
             stk__seconds(c->timeout_ns), c->number, what, missing);
    return fail(c, STK_ETIMEDOUT, STK__HEALTH_LOST, err, text);
}

void stk__pause_after(uint64_t waited_ns)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};

    if (waited_ns < EAGER_NS)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

static stk_status wait_call(stk_collectives *c, bool begun, const char *why, stk_error *err)
{
    char said[STK__TRANSPORT_TEXT] = "", text[STK_ERROR_TEXT];
    const uint64_t start = stk__now_ns();
    bool done = false, told = false;

    while (begun) {
        begun = c->ops->test(c->transport, &done, said);
        why = said;
        if (begun && done)
            return STK_OK;
        const uint64_t waited = stk__now_ns() - start;
        if (begun && waited >= c->timeout_ns)
            return late(c, err);
        if (begun && !told && waited >= c->timeout_ns / QUARTER) {
            begun = c->ops->tell(c->transport, c->number, said);
            told = true;
        }
        if (begun)
            stk__pause_after(waited);
    }
    snprintf(text, sizeof text, "%s, rank %" PRIu64 " of %" PRIu64 ", call %" PRIu64 ": %s",
             c->ops->name, c->strategy.rank, c->strategy.world_size, c->number, why);
    return fail(c, STK_EIO, STK__HEALTH_LOST, err, text);
}

static void tell(const stk_collectives *c, stk__event_kind kind, uint64_t count, stk_status status)
{
    if (!stk__probed(c->ctx))
        return;
    const uint64_t now = stk__now_ns();
    stk__emit(c->ctx, &(stk__event){.kind = kind,
                                    .status = status,
                                    .worker = UINT32_MAX,
                                    .start_ns = now,
                                    .end_ns = now,
                                    .count = count});
}

/* For whoever watches: in between this rank waits for the others. */
stk_status stk__finish_call(stk_collectives *c, bool begun, const char *why, stk_error *err)
{
    const uint64_t count = c->frames[c->strategy.world_size].count;

    tell(c, STK__EVENT_MEET, count, STK_OK);
    const stk_status status = wait_call(c, begun, why, err);
    tell(c, STK__EVENT_MET, count, status);
    return status;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static stk_status check_one(stk_collectives *c, uint64_t rank, stk_error *err)
{
    const stk__rank_frame *own = &c->frames[c->strategy.world_size], *f = &c->frames[rank];
    char text[STK_ERROR_TEXT], theirs[80], ours[80];

    if (f->call == own->call && f->op == own->op && f->dtype == own->dtype &&
        f->count == own->count && f->number == own->number)
        return STK_OK;
    stk__describe_call(f, theirs, sizeof theirs);
    stk__describe_call(own, ours, sizeof ours);
    snprintf(text, sizeof text,
             "the ranks make different calls: rank %" PRIu64
             " (%s) wants to %s as its call %" PRIu64 ", and rank %" PRIu64
             " (%s) to %s as its call %" PRIu64
             "; all ranks have to run the same program on the same configuration",
             rank, c->hosts[rank], theirs, f->number, c->strategy.rank, c->hosts[c->strategy.rank],
             ours, own->number);
    return fail(c, STK_EMISMATCH, STK__HEALTH_TOLD, err, text);
}

/* All ranks see the same frames, so all of them come to such an end, or none does. */
static stk_status check_frames(stk_collectives *c, stk_error *err)
{
    const stk__rank_frame *own = &c->frames[c->strategy.world_size];
    const uint64_t world = c->strategy.world_size;
    char text[STK_ERROR_TEXT];

    for (uint64_t r = 0; r < world; r++) {
        const uint32_t call = c->frames[r].call;
        if (call != STK__CALL_GONE && (call != STK__CALL_LEAVE || own->call == STK__CALL_LEAVE))
            continue;
        snprintf(text, sizeof text, "rank %" PRIu64 " of %" PRIu64 " (%s) %s", r, world,
                 c->hosts[r],
                 call == STK__CALL_GONE ? "has failed: it says why"
                                        : "has left: its run ended before this one's");
        return fail(c, STK_EIO, STK__HEALTH_TOLD, err, text);
    }
    for (uint64_t r = 0; r < world; r++)
        STK_TRY(check_one(c, r, err));
    return STK_OK;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* What a test asks for in place of a bad network. */
static stk_status make_fault(stk_collectives *c, stk_error *err)
{
    char text[STK_ERROR_TEXT];

    if (c->number == c->late_at)
        stk__sleep_until(stk__now_ns() + c->late_ns, NULL);
    if (c->number != c->fail_at)
        return STK_OK;
    snprintf(text, sizeof text,
             "rank %" PRIu64 " of %" PRIu64 ": call %" PRIu64
             " fails, as collectives.fault_fail_at says",
             c->strategy.rank, c->strategy.world_size, c->number);
    return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "%s", text);
}

static stk_status put_round(stk_collectives *c, stk_error *err)
{
    char why[STK__TRANSPORT_TEXT] = "";
    const bool begun = c->ops->all_gather(c->transport, &c->frames[c->strategy.world_size],
                                          c->frames, sizeof *c->frames, why);

    STK_TRY(stk__finish_call(c, begun, why, err));
    return check_frames(c, err);
}

stk_status stk__exchange(stk_collectives *c, stk__rank_call call, uint32_t op, uint32_t dtype,
                         uint64_t count, const void *data, size_t bytes, stk_error *err)
{
    stk__rank_frame *own = &c->frames[c->strategy.world_size];

    if (c->health != STK__HEALTH_GOOD)
        return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "%s", c->why);
    STK_TRY(stk__nccl_check(c, err));
    c->number++;
    STK_TRY(make_fault(c, err));
    *own = (stk__rank_frame){
        .call = (uint32_t)call, .op = op, .dtype = dtype, .number = c->number, .count = count};
    if (data)
        memcpy(own->data, data, bytes);
    return put_round(c, err);
}

void stk__say_farewell(stk_collectives *c, stk__rank_call call)
{
    stk_error said;

    if (c->health != STK__HEALTH_GOOD)
        return;
    c->number++;
    c->frames[c->strategy.world_size] =
        (stk__rank_frame){.call = (uint32_t)call, .number = c->number};
    stk_error_init(&said);
    /* Others may leave, too; else both sides know now how it ended. Where NCCL waits for ever,
     * this is where the ranks that are not there are known. */
    if (put_round(c, &said) == STK_ETIMEDOUT && c->nccl)
        stk__message(c->ctx, STK_MESSAGE_WARNING, "%s", said.text);
}

stk_status stk__exchange_hosts(stk_collectives *c, stk_error *err)
{
    char own[STK__HOST_ROOM] = "", why[STK__TRANSPORT_TEXT] = "";

    gethostname(own, sizeof own - 1);
    snprintf(c->hosts[c->strategy.rank], sizeof own, "%s", own);
    const bool begun = c->ops->all_gather(c->transport, own, c->hosts, sizeof own, why);
    STK_TRY(stk__finish_call(c, begun, why, err));
    for (uint64_t r = 0; r < c->strategy.world_size; r++)
        c->hosts[r][STK__HOST_ROOM - 1] = 0;
    return STK_OK;
}
