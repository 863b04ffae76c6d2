/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/retry.h"

#include "base/random.h"

#define TRANSIENT_NS UINT64_C(50000000)
#define THROTTLED_NS UINT64_C(1000000000)
#define MOST_NS      UINT64_C(10000000000)

#define TRANSIENT_COST 10
#define THROTTLED_COST 5

#define LOWER_BY       0.7
#define RAISE_SHARE    16
#define LOWER_EVERY_NS UINT64_C(1000000000)

#define LEAST_SAMPLES  20
#define RECKON_EVERY   16
#define LATE_FLOOR_NS  UINT64_C(20000000)
#define QUIET_FLOOR_NS UINT64_C(10000000)
#define TWICE_SHARE    0.05
#define TWICE_MOST     8.0

/* ---- What an answer means ---- */

stk__http_verdict stk__http_judge(int32_t code)
{
    static const struct {
        int32_t code;
        stk__http_verdict verdict;
    } known[] = {
        {401, {STK_EACCES, STK__HTTP_FINAL, "; give credentials that may read it"}},
        {403, {STK_EACCES, STK__HTTP_FINAL, "; give credentials that may read it"}},
        {404, {STK_ENOENT, STK__HTTP_FINAL, ""}},
        {407, {STK_EACCES, STK__HTTP_FINAL, "; the proxy wants credentials"}},
        {408, {STK_ETIMEDOUT, STK__HTTP_TRANSIENT, "; trying again may help"}},
        {409, {STK_EIO, STK__HTTP_TRANSIENT, "; another writes it at the same time"}},
        {410, {STK_ENOENT, STK__HTTP_FINAL, ""}},
        {412, {STK_ECHANGED, STK__HTTP_FINAL, "; open the data anew"}},
        {413, {STK_ELIMIT, STK__HTTP_FINAL, "; the server takes no object as large"}},
        {416, {STK_ETRUNCATED, STK__HTTP_FINAL, "; it ends before the range"}},
        {425, {STK_EIO, STK__HTTP_TRANSIENT, "; trying again may help"}},
        {429, {STK_EIO, STK__HTTP_THROTTLED, "; lower `connections`, or try again later"}},
        {500, {STK_EIO, STK__HTTP_TRANSIENT, "; trying again may help"}},
        {502, {STK_EIO, STK__HTTP_TRANSIENT, "; trying again may help"}},
        {503, {STK_EIO, STK__HTTP_THROTTLED, "; lower `connections`, or try again later"}},
        {504, {STK_EIO, STK__HTTP_TRANSIENT, "; trying again may help"}},
        {507, {STK_ENOSPC, STK__HTTP_FINAL, "; free space on the server"}},
    };

    for (size_t i = 0; i < STK_COUNT(known); i++)
        if (known[i].code == code)
            return known[i].verdict;
    if (code >= 200 && code < 300)
        return (stk__http_verdict){STK_OK, STK__HTTP_FINAL, ""};
    if (code >= 300 && code < 400)
        return (stk__http_verdict){STK_ENOTSUP, STK__HTTP_FINAL,
                                   "; use the address that it leads to"};
    return (stk__http_verdict){STK_ENOTSUP, STK__HTTP_FINAL,
                               "; the server does not take such requests"};
}

/* ---- When to try again ---- */

uint64_t stk__http_backoff(stk__http_again again, uint32_t tries, uint32_t word)
{
    uint64_t most = again == STK__HTTP_THROTTLED ? THROTTLED_NS : TRANSIENT_NS;

    for (uint32_t i = 1; i < tries && most < MOST_NS; i++)
        most *= 2;
    return (uint64_t)((double)STK_MIN(most, MOST_NS) * (double)stk__uniform(word));
}

void stk__http_bucket_init(stk__http_bucket *bucket)
{
    bucket->tokens = STK__HTTP_BUCKET;
}

uint32_t stk__http_bucket_take(stk__http_bucket *bucket, stk__http_again again)
{
    const uint32_t cost = again == STK__HTTP_THROTTLED ? THROTTLED_COST : TRANSIENT_COST;

    if (bucket->tokens < cost)
        return 0;
    bucket->tokens -= cost;
    return cost;
}

void stk__http_bucket_refund(stk__http_bucket *bucket, uint32_t spent)
{
    bucket->tokens = STK_MIN(bucket->tokens + STK_MAX(spent, 1u), (uint32_t)STK__HTTP_BUCKET);
}

/* ---- How many at once ---- */

void stk__http_window_init(stk__http_window *window, uint32_t most)
{
    *window = (stk__http_window){.limit = most, .most = most};
}

void stk__http_window_raise(stk__http_window *window)
{
    const double more = STK_MAX(window->most / RAISE_SHARE, 1.0) / window->limit;

    window->limit = STK_MIN(window->limit + STK_MIN(more, window->limit), window->most);
}

void stk__http_window_lower(stk__http_window *window, uint64_t now_ns)
{
    if (window->lowered_ns && now_ns - window->lowered_ns < LOWER_EVERY_NS)
        return;
    window->lowered_ns = now_ns;
    window->limit = STK_MAX(window->limit * LOWER_BY, 1.0);
}

/* ---- What to ask for twice ---- */

void stk__http_pace_sent(stk__http_pace *pace)
{
    pace->credit = STK_MIN(pace->credit + TWICE_SHARE, TWICE_MOST);
}

static void note_time(stk__http_times *times, uint64_t ns, uint64_t floor_ns)
{
    uint64_t above[STK__HTTP_SAMPLES / 20 + 1];
    uint32_t kept = 0;

    times->ns[times->next] = ns;
    times->next = (times->next + 1) % STK__HTTP_SAMPLES;
    times->count = STK_MIN(times->count + 1, (uint32_t)STK__HTTP_SAMPLES);
    if (times->count < LEAST_SAMPLES || (times->long_ns && times->next % RECKON_EVERY))
        return;
    /* The largest twentieth, in order; its last is the percentile. */
    const uint32_t wanted = times->count / 20 + 1;
    for (uint32_t i = 0; i < times->count; i++) {
        uint32_t at = kept;
        if (kept == wanted && times->ns[i] <= above[kept - 1])
            continue;
        if (kept < wanted)
            kept++;
        else
            at = kept - 1;
        for (; at > 0 && above[at - 1] < times->ns[i]; at--)
            above[at] = above[at - 1];
        above[at] = times->ns[i];
    }
    times->long_ns = STK_MAX(above[kept - 1] + above[kept - 1] / 4, floor_ns);
}

void stk__http_pace_came(stk__http_pace *pace, uint64_t first_ns)
{
    note_time(&pace->first, first_ns, LATE_FLOOR_NS);
}

void stk__http_pace_rested(stk__http_pace *pace, uint64_t rest_ns)
{
    note_time(&pace->rest, rest_ns, QUIET_FLOOR_NS);
}

uint64_t stk__http_pace_late(const stk__http_pace *pace)
{
    return pace->first.long_ns ? pace->first.long_ns : UINT64_MAX;
}

uint64_t stk__http_pace_quiet(const stk__http_pace *pace)
{
    return pace->rest.long_ns ? pace->rest.long_ns : UINT64_MAX;
}

bool stk__http_pace_twice(stk__http_pace *pace)
{
    if (pace->credit < 1)
        return false;
    pace->credit -= 1;
    return true;
}
