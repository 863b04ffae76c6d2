/* Workers -> batches -> one taker: what the bounds of the loader's workloads share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BENCH_BOUND_H
#define STK_BENCH_BOUND_H

#include <pthread.h>
#include <stdbool.h>

#include "bench.h"

#define BOUND_MAX_RING    256
#define BOUND_MAX_WORKERS 64

/* `workers` threads fill a ring of batches, which one mutex and two conditions hand over. */
struct bound {
    int workers;
    size_t batch, ring; /* samples of a batch, batches of the ring */
    double seconds;     /* that the window lasts */
    void (*fill)(const struct bound *bound, uint64_t step, size_t slot);
    pthread_t threads[BOUND_MAX_WORKERS];
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t filled, emptied;
    bool ready[BOUND_MAX_RING];
    uint64_t planned, taken;
    bool stop;
};

static inline void *bound_need(void *memory)
{
    if (!memory)
        bench_die("memory", "none left");
    return memory;
}

/* Memory whose pages are there. */
static inline void *bound_buffer(size_t bytes)
{
    const size_t size = (bytes + 63) / 64 * 64;

    return memset(bound_need(aligned_alloc(64, size)), 0, size);
}

/* A shuffled list of the numbers below `count`. */
static inline uint32_t *bound_order(size_t count)
{
    uint32_t *order = bound_need(malloc(count * sizeof *order));
    uint64_t random = 88172645463325252u;

    for (uint32_t i = 0; i < count; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint32_t k = (uint32_t)(random % (i + 1));
        order[i] = order[k];
        order[k] = i;
    }
    return order;
}

/* From the options batch, workers, ring and seconds of the command line. */
static inline void bound_init(struct bound *b, int argc, char **argv, const char *name,
                              size_t batch)
{
    memset(b, 0, sizeof *b);
    b->workers = (int)bench_number(argc, argv, "workers", 2);
    b->seconds = bench_number(argc, argv, "seconds", 5);
    b->batch = (size_t)bench_number(argc, argv, "batch", (double)batch);
    b->ring = (size_t)bench_number(argc, argv, "ring", b->workers * 2 + 1);
    if (b->workers < 1 || b->workers > BOUND_MAX_WORKERS || b->ring < 1 ||
        b->ring > BOUND_MAX_RING || !b->batch)
        bench_die(name, "workers 1..64, ring 1..256, batch from 1");
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->filled, NULL);
    pthread_cond_init(&b->emptied, NULL);
}

static inline void *bound_work(void *user)
{
    struct bound *b = user;

    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!b->stop && b->planned >= b->taken + b->ring)
            pthread_cond_wait(&b->emptied, &b->lock);
        if (b->stop)
            break;
        uint64_t step = b->planned++;
        size_t slot = step % b->ring;
        pthread_mutex_unlock(&b->lock);
        b->fill(b, step, slot);
        pthread_mutex_lock(&b->lock);
        b->ready[slot] = true;
        if (step == b->taken)
            pthread_cond_signal(&b->filled);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Take the next batch and give the one before back. */
static inline void bound_next(struct bound *b)
{
    pthread_mutex_lock(&b->lock);
    size_t slot = b->taken % b->ring;
    while (!b->ready[slot])
        pthread_cond_wait(&b->filled, &b->lock);
    b->ready[slot] = false;
    b->taken++;
    pthread_cond_signal(&b->emptied);
    pthread_mutex_unlock(&b->lock);
}

static inline void bound_stop(struct bound *b)
{
    pthread_mutex_lock(&b->lock);
    b->stop = true;
    pthread_cond_broadcast(&b->emptied);
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < b->workers; i++)
        pthread_join(b->threads[i], NULL);
}

/* The peers' line about batches that `fill` makes; the window opens after `warm` samples. */
static inline void bound_run(struct bound *b, const char *workload, size_t warm,
                             void (*fill)(const struct bound *bound, uint64_t step, size_t slot))
{
    b->fill = fill;
    double start = bench_now();
    for (int i = 0; i < b->workers; i++) {
        if (pthread_create(&b->threads[i], NULL, bound_work, b))
            bench_die("thread", "cannot start");
    }
    bound_next(b);
    double first = bench_now() - start;
    for (size_t n = 0; n < warm / b->batch; n++)
        bound_next(b);

    uint64_t samples = 0;
    double cpu = bench_cpu(), opened = bench_now(), now = opened;
    for (; now - opened < b->seconds; now = bench_now()) {
        bound_next(b);
        samples += b->batch;
    }
    cpu = bench_cpu() - cpu;
    printf("{\"workload\": \"%s\", \"peer\": \"bound\", \"version\": \"C\", "
           "\"config\": {\"workers\": %d, \"batch\": %zu, \"ring\": %zu}, \"samples_per_s\": %.2f, "
           "\"cpu_s_per_1000\": %.6f, \"first_batch_s\": %.6f, \"peak_rss_mib\": %.0f, "
           "\"n_samples\": %llu}\n",
           workload, b->workers, b->batch, b->ring, (double)samples / (now - opened),
           cpu / (double)samples * 1000, first, bench_peak_rss_mib(), (unsigned long long)samples);
    bound_stop(b);
}

#endif
