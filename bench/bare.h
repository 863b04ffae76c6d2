/* What lies encoded in memory, decoded again and again by threads: what decoders alone can do. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BENCH_BARE_H
#define STK_BENCH_BARE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "bench.h"

#define BARE_MAX_THREADS 64

struct bare_chunk {
    const unsigned char *data;
    size_t size;
};

static struct {
    struct bare_chunk *chunks;
    size_t count, room, decoded; /* decoded: bytes of a chunk */
    atomic_uint_fast64_t next, done;
    atomic_bool stop;
} bare;

static inline void bare_add(const unsigned char *data, size_t size)
{
    if (bare.count == bare.room) {
        bare.room = bare.room ? 2 * bare.room : 1024;
        bare.chunks = realloc(bare.chunks, bare.room * sizeof *bare.chunks);
        if (!bare.chunks)
            bench_die("chunks", "no memory");
    }
    bare.chunks[bare.count].data = data;
    bare.chunks[bare.count++].size = size;
}

/* The next chunk to decode; NULL: time is over. */
static inline const struct bare_chunk *bare_next(void)
{
    return bare.stop ? NULL : &bare.chunks[bare.next++ % bare.count];
}

struct bare_rate {
    double done, wall, cpu; /* seconds, in which so many were done */
};

/* `n` threads that `work`, which counts `done`; the time is taken from when `warm` were done. */
static inline struct bare_rate bare_measure(size_t n, double seconds, uint64_t warm,
                                            void *(*work)(void *))
{
    pthread_t threads[BARE_MAX_THREADS];

    if (n < 1 || n > BARE_MAX_THREADS)
        bench_die("threads", "1 to 64");
    for (size_t i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    while (bare.done < warm)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const uint64_t before = bare.done;
    const double start = bench_now(), cpu = bench_cpu();
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds,
                                 .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)},
              NULL);
    const struct bare_rate rate = {.done = (double)(bare.done - before),
                                   .wall = bench_now() - start,
                                   .cpu = bench_cpu() - cpu};
    bare.stop = true;
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return rate;
}

/* Measured from when each chunk was decoded once. Prints the line of the peers: a sample is 10^6
 * bytes. */
static inline void bare_run(const char *workload, int argc, char **argv, void *(*work)(void *))
{
    const double seconds = bench_number(argc, argv, "seconds", 5);
    const size_t n = (size_t)bench_number(argc, argv, "threads", 2);

    if (!bare.count)
        bench_die(workload, "there are no chunks");
    const struct bare_rate rate = bare_measure(n, seconds, bare.count, work);
    const double megabytes = rate.done * (double)bare.decoded / 1e6;
    printf("{\"workload\": \"%s\", \"peer\": \"bound\", \"config\": {\"threads\": %zu}, "
           "\"samples_per_s\": %.2f, \"cpu_s_per_1000\": %.6f, \"n_samples\": %.0f}\n",
           workload, n, megabytes / rate.wall, rate.cpu / megabytes * 1000, megabytes);
}

#endif
