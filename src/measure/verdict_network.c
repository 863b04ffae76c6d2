/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the network adds to reads. Where a read over it took its time is known by parts: its turn at
 * a connection, tries in vain, the way to the first byte, the bytes. The loader sees their sum.
 */
#include <math.h>
#include <stdio.h>

#include "measure/verdict.h"

#define SAID       0.02 /* parts below this share of a read are not worth a word */
#define THROTTLED  0.01 /* from this share of requests on the server is said to throttle */
#define LATE       5.0  /* times the mean way to the first byte is late */
#define LATE_LEAST 0.05 /* s; less is not advised */

/* What a connection alone brings at least: its first bytes at once, as many again with each way
 * there and back [RFC 6928], and no less than this a second. What takes twice as long shares. */
#define ALONE_FIRST 14600.0
#define ALONE_BYTES 10e6

static double all_of(const stk_network *n)
{
    return (double)(n->turn_ns + n->throttled_ns + n->again_ns + n->connect_ns + n->first_ns +
                    n->body_ns);
}

static double share_of(const stk_network *n, uint64_t part_ns)
{
    const double all = all_of(n);

    return all > 0 ? (double)part_ns / all : 0;
}

/* Of the requests, in percent. */
static double percent_of(const stk_network *n, uint64_t requests)
{
    return n->requests ? 100 * (double)requests / (double)n->requests : 0;
}

bool stk__network_throttles(const stk_network *n)
{
    return percent_of(n, n->throttled) >= 100 * THROTTLED;
}

bool stk__network_counts(const stk__case *v)
{
    const stk_network *n = &v->f->network;

    return n->reads > 0 && (double)n->bytes >= STK_JUDGE_READ * (double)v->f->bytes_read;
}

bool stk__network_shares(const stk__case *v)
{
    const stk_network *n = &v->f->network;
    const double reads = (double)n->reads, bytes = (double)n->bytes / reads,
                 body = (double)n->body_ns * 1e-9 / reads,
                 first = (double)n->first_ns * 1e-9 / reads;

    if (!stk__network_counts(v))
        return false;
    return n->transfer_share >= (n->connections > 1 ? STK_JUDGE_TRANSFER : STK_JUDGE_ALONE) ||
           body >= 2 * (log2(1 + bytes / ALONE_FIRST) * first + bytes / ALONE_BYTES);
}

void stk__verdict_advise_connections(const stk__case *v, double factor, stk_verdict *out)
{
    const double now = (double)STK_MAX(v->f->network.connections, UINT64_C(1));
    const double value = stk__verdict_double(now, now * factor);

    if (value <= now)
        return;
    stk__verdict_advise(out, "connections", value);
    out->gain = STK_MIN(value / now, factor);
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

/* As many at once as the server did answer, or lets through: beyond them it throttles, and waits
 * follow. */
static void judge_throttled(const stk__case *v, double share, double best, stk_verdict *out)
{
    const stk_network *n = &v->f->network;
    const double served = (double)(n->connect_ns + n->first_ns + n->body_ns) * 1e-9 /
                          STK_MAX(v->f->wall, 1e-9),
                 let = n->window < n->connections ? (double)n->window : 1.0,
                 value = STK_MAX(ceil(served), STK_MAX(let, 1.0));

    out->limit = STK_LIMIT_THROTTLED;
    stk__verdict_say(out,
                     "The server throttles: %.3g %% of the requests are answered 429 or 503, and "
                     "the waits that follow are %.0f %% of the time of a read; %.3g requests at "
                     "once are served",
                     percent_of(n, n->throttled), 100 * share, served);
    if (value >= (double)n->connections)
        return;
    stk__verdict_advise(out, "connections", value);
    out->gain = STK_MIN(best, STK_MAX(value / STK_MAX(served, 0.1), 1.0));
}

/* Requests that are never answered are given up earlier; for others no setting is known. */
static void judge_again(const stk__case *v, double share, double best, stk_verdict *out)
{
    const stk_network *n = &v->f->network;
    const double first = (double)n->first_ns / (double)n->reads * 1e-9,
                 each = n->late ? (double)n->again_ns / (double)n->late * 1e-9 : 0,
                 soon = STK_MAX(LATE * first, LATE_LEAST);

    out->limit = STK_LIMIT_RETRIES;
    stk__verdict_say(out,
                     "The network or the server fails: %.3g %% of the requests are sent again, "
                     "%.3g %% as no answer came in time, and that is %.0f %% of the time of a read",
                     percent_of(n, n->retries), percent_of(n, n->late), 100 * share);
    if (2 * n->late < n->retries || each < 2 * soon)
        return;
    snprintf(out->knob, sizeof out->knob, "first_byte_timeout");
    snprintf(out->value, sizeof out->value, "%.0fms", 1e3 * soon);
    out->gain = STK_MIN(best, 1 / STK_MAX(1 - share * (1 - soon / each), 0.1));
}

static void judge_turns(const stk__case *v, double share, double best, stk_verdict *out)
{
    const stk_network *n = &v->f->network;

    out->limit = STK_LIMIT_CONNECTIONS;
    stk__verdict_say(out,
                     "The connections are the limit: reads wait %.0f %% of their time until one of "
                     "%.0f is free",
                     100 * share, (double)n->connections);
    stk__verdict_advise_connections(v, STK_MIN(best, 1 / STK_MAX(1 - share, 1e-3)), out);
}

typedef struct parts {
    double throttled, again, turns; /* shares of the time of the reads */
} parts;

static parts parts_of(const stk_network *n)
{
    /* Turns come late where fewer are allowed as the server throttles. */
    const bool lowered = stk__network_throttles(n) && n->window < n->connections;

    return (parts){.throttled = share_of(n, n->throttled_ns + (lowered ? n->turn_ns : 0)),
                   .again = share_of(n, n->again_ns),
                   .turns = lowered ? 0 : share_of(n, n->turn_ns)};
}

bool stk__network_fails(const stk__case *v)
{
    const parts p = parts_of(&v->f->network);

    return stk__network_counts(v) && STK_MAX(p.throttled, p.again) >= STK_JUDGE_NETWORK;
}

bool stk__judge_network(const stk__case *v, bool bandwidth, double best, stk_verdict *out)
{
    const parts p = parts_of(&v->f->network);

    if (stk__network_fails(v)) {
        if (p.throttled >= p.again)
            judge_throttled(v, p.throttled, best, out);
        else
            judge_again(v, p.again, best, out);
        return true;
    }
    /* Where bandwidth is what there is too little of, connections only share it. */
    if (!stk__network_counts(v) || bandwidth || p.turns < STK_JUDGE_NETWORK)
        return false;
    judge_turns(v, p.turns, best, out);
    return true;
}

/* ---- Words ----------------------------------------------------------------------------------- */

void stk__verdict_say_network(const stk__case *v, stk_verdict *out)
{
    const stk_network *n = &v->f->network;
    const struct {
        uint64_t ns;
        const char *what;
    } list[] = {
        {n->connect_ns, "connecting"},  {n->first_ns, "to the first byte"},
        {n->body_ns, "for its bytes"},  {n->turn_ns, "for its turn"},
        {n->again_ns, "in vain tries"}, {n->throttled_ns, "throttled"},
    };
    const char *before = " ";

    if (!stk__network_counts(v))
        return;
    stk__verdict_say(
        out, " A read over the network takes %.3g ms:", all_of(n) / (double)n->reads * 1e-6);
    for (size_t i = 0; i < STK_COUNT(list); i++) {
        if (share_of(n, list[i].ns) < SAID)
            continue;
        stk__verdict_say(out, "%s%.3g %s", before, (double)list[i].ns / (double)n->reads * 1e-6,
                         list[i].what);
        before = ", ";
    }
    stk__verdict_say(out, ".");
}
