/* Ranges of one object, read again and again: what the programs that read them share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BENCH_RANGES_H
#define STK_BENCH_RANGES_H

#include <pthread.h>
#include <stdbool.h>

#include "bench.h"

struct ranges {
    const char *url;
    uint64_t size, length, next, bytes;
    size_t depth;
    double seconds, opened, closed, cpu; /* the window opens when each place was read once */
    size_t ended;
};

static inline void ranges_begin(struct ranges *r, int argc, char **argv)
{
    bench_known(argc, argv, "url size length depth seconds");
    *r = (struct ranges){.url = bench_text(argc, argv, "url", ""),
                         .size = (uint64_t)bench_number(argc, argv, "size", 0),
                         .length = (uint64_t)bench_number(argc, argv, "length", 128 << 10),
                         .depth = (size_t)bench_number(argc, argv, "depth", 32),
                         .seconds = bench_number(argc, argv, "seconds", 3)};
    if (!r->length || r->size < r->length || !r->depth)
        bench_die("size, length, depth", "each at least 1, and the size no less than the length");
}

/* Where the next range begins. */
static inline uint64_t ranges_next(struct ranges *r)
{
    return r->next++ % (r->size / r->length) * r->length;
}

static inline void *ranges_buffer(const struct ranges *r)
{
    void *buffer = malloc(r->length);

    if (!buffer)
        bench_die("ranges", "no memory");
    return buffer;
}

/* One more is there. Whether another is wanted. */
static inline bool ranges_ended(struct ranges *r)
{
    const double now = bench_now();

    if (++r->ended == r->depth) {
        r->opened = now;
        r->cpu = -bench_cpu();
    } else if (r->ended > r->depth && !r->closed) {
        r->bytes += r->length;
    }
    if (r->opened && !r->closed && now - r->opened >= r->seconds) {
        r->closed = now;
        r->cpu += bench_cpu();
    }
    return !r->closed;
}

/* A sample is 10^6 bytes. */
static inline void ranges_print(const struct ranges *r, const char *peer)
{
    const double megabytes = (double)r->bytes / 1e6;

    printf("{\"workload\": \"ranges\", \"peer\": \"%s\", \"config\": {\"length\": %llu, \"depth\": "
           "%zu}, \"samples_per_s\": %.2f, \"cpu_s_per_1000\": %.6f, \"peak_rss_mib\": %.0f}\n",
           peer, (unsigned long long)r->length, r->depth, megabytes / (r->closed - r->opened),
           r->cpu / megabytes * 1000, bench_peak_rss_mib());
}

#endif
