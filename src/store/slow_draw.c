/* SPDX-License-Identifier: Apache-2.0 */
#include "store/slow.h"

#include <math.h>
#include <xxhash.h>

#include "base/random.h"

#define FAIL_BLOCK   4096 /* bytes that fail together when the damage is permanent */
#define LOGNORMAL_SD 0.5  /* of the logarithm: the 99th percentile is 3.2 times the median */

/* The last word of the counter of Philox: what a draw is for. */
enum { DRAW_READ = 0x736c6f77, DRAW_SWAP, DRAW_DAMAGE };

enum { CONSTANT, EXPONENTIAL, LOGNORMAL, UNIFORM };
enum { FAIL_IO, FAIL_TIMEOUT, FAIL_MISSING, FAIL_TRUNCATED };
#define OPTION(member) .name = #member, .offset = offsetof(stk__slow_options, member)

static const stk_option slow_option_list[] = {
    {OPTION(latency), .type = STK_OPTION_DURATION, .initial = "0", .min = 0, .max = 3600,
     .doc = "Time from the start of a read to its end: the mean, and the median of a lognormal."},
    {OPTION(jitter), .type = STK_OPTION_DURATION, .initial = "0", .min = 0, .max = 3600,
     .doc = "Added to it or taken off, evenly between both."},
    {OPTION(distribution), .type = STK_OPTION_ENUM, .initial = "constant",
     .choices = "constant|exponential|lognormal|uniform",
     .doc = "How the latency of a read is drawn; uniform is between 0 and twice the latency."},
    {OPTION(bandwidth), .type = STK_OPTION_RATE, .initial = "0", .min = 0, .max = 1e15,
     .doc = "Bytes per second of all reads together; 0 is no limit."},
    {OPTION(fail), .type = STK_OPTION_DOUBLE, .initial = "0", .min = 0, .max = 1,
     .doc =
         "Share of reads that fail; of objects for `missing`, of blocks of 4 KiB for `truncated`."},
    {OPTION(fail_kind), .type = STK_OPTION_ENUM, .initial = "io",
     .choices = "io|timeout|missing|truncated",
     .doc = "How they fail. Trying again may help against `io` and `timeout`; the others stay as "
            "they are."},
    {OPTION(order), .type = STK_OPTION_ENUM, .initial = "fifo", .choices = "fifo|random",
     .doc = "Whether each read ends after its own latency, or reads under way change places at "
            "random."},
    {OPTION(seed), .type = STK_OPTION_UINT, .initial = "1", .doc = "Of all that is drawn."},
};

const stk_option_table stk__slow_option_table = {
    .name = "slow",
    .doc = "A store made slow.",
    .struct_size = sizeof(stk__slow_options),
    .options = slow_option_list,
    .count = STK_COUNT(slow_option_list),
};

static void draw(const stk__slow_options *o, uint64_t count, uint32_t more, uint32_t what,
                 uint32_t words[4])
{
    uint32_t counter[4] = {(uint32_t)count, (uint32_t)(count >> 32), more, what};
    uint32_t key[2] = {(uint32_t)o->seed, (uint32_t)(o->seed >> 32)};

    stk__philox(counter, key, words);
}

/* In (0, 1): a logarithm of it is finite. */
static double open_uniform(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

static uint64_t draw_latency_ns(const stk__slow_options *o, const uint32_t words[4])
{
    double u = open_uniform(words[0]), seconds = o->latency;

    if (o->distribution == EXPONENTIAL)
        seconds *= -log(u);
    else if (o->distribution == UNIFORM)
        seconds *= 2 * u;
    else if (o->distribution == LOGNORMAL) /* Box-Muller */
        seconds *= exp(LOGNORMAL_SD * sqrt(-2 * log(u)) *
                       cos(2 * 3.14159265358979323846 * open_uniform(words[1])));
    seconds += o->jitter * (2 * open_uniform(words[2]) - 1);
    return seconds > 0 ? (uint64_t)(seconds * 1e9) : 0;
}

/* Whether an object, or a block that the read touches, is damaged: a function of the bytes asked
 * for, not of how they are asked for, so that the same samples are bad however reads are joined. */
static bool is_damaged(const stk__slow_options *o, const stk_read *read)
{
    uint64_t object = XXH3_64bits(read->key, strlen(read->key));
    uint64_t first = read->offset / FAIL_BLOCK, last = first;
    uint32_t words[4];

    if (o->fail_kind == FAIL_MISSING)
        first = last = 0;
    else if (read->length)
        last = (read->offset + (read->length - 1)) / FAIL_BLOCK;
    for (uint64_t block = first; block <= last; block++) {
        draw(o, object ^ (block * UINT64_C(0x9e3779b97f4a7c15)), (uint32_t)block, DRAW_DAMAGE,
             words);
        if (open_uniform(words[0]) < o->fail)
            return true;
    }
    return false;
}

static stk_status draw_failure(const stk__slow_options *o, const stk_read *read, uint32_t word)
{
    static const stk_status statuses[] = {
        [FAIL_IO] = STK_EIO,
        [FAIL_TIMEOUT] = STK_ETIMEDOUT,
        [FAIL_MISSING] = STK_ENOENT,
        [FAIL_TRUNCATED] = STK_ETRUNCATED,
    };
    int32_t kind = o->fail_kind;

    if (o->fail <= 0)
        return STK_OK;
    bool fails = kind >= FAIL_MISSING ? is_damaged(o, read) : open_uniform(word) < o->fail;
    return fails ? statuses[kind] : STK_OK;
}

void stk__slow_draw_read(const stk__slow_options *options, uint64_t number, const stk_read *read,
                         stk__slow_draw *out)
{
    uint32_t words[4];

    draw(options, number, 0, DRAW_READ, words);
    out->latency_ns = draw_latency_ns(options, words);
    out->status = draw_failure(options, read, words[3]);
    draw(options, number, 0, DRAW_SWAP, words);
    out->place = (double)words[0] * 0x1p-32;
}
