/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do of workload `tiny`: a shuffled gather of 28x28 uint8 samples, x * scale +
 * shift to float32, and the label, by `--workers` threads into a ring of `--ring` batches that is
 * handed over by one mutex and two conditions. No loader: no epochs, no errors, no state, the order
 * is a list made beforehand.
 */
#include <pthread.h>
#include <stdbool.h>

#include "bench.h"

#define SAMPLES     60000
#define PIXELS      784
#define MEAN        0.1307f
#define STD         0.3081f
#define MAX_RING    256
#define MAX_WORKERS 64

static struct {
    uint8_t *images, *labels;
    uint32_t *order;
    size_t batch, ring;
    float *x[MAX_RING];
    int64_t *y[MAX_RING];
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t filled, emptied;
    bool ready[MAX_RING];
    uint64_t planned, taken;
    bool stop;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER,
         .filled = PTHREAD_COND_INITIALIZER,
         .emptied = PTHREAD_COND_INITIALIZER};

/* Built for this very machine, the compiler makes the widest vectors of it. */
static void convert(const uint8_t *restrict from, float *restrict to)
{
    const float scale = 1.0f / 255 / STD, shift = -MEAN / STD;

    for (size_t i = 0; i < PIXELS; i++)
        to[i] = (float)from[i] * scale + shift;
}

static void *work(void *unused)
{
    pthread_mutex_lock(&all.lock);
    for (;;) {
        while (!all.stop && all.planned >= all.taken + all.ring)
            pthread_cond_wait(&all.emptied, &all.lock);
        if (all.stop)
            break;
        uint64_t step = all.planned++;
        size_t slot = step % all.ring;
        pthread_mutex_unlock(&all.lock);

        uint64_t first = step * all.batch;
        for (size_t i = 0; i < all.batch; i++) {
            uint32_t index = all.order[(first + i) % SAMPLES];
            convert(all.images + (size_t)index * PIXELS, all.x[slot] + i * PIXELS);
            all.y[slot][i] = all.labels[index];
        }

        pthread_mutex_lock(&all.lock);
        all.ready[slot] = true;
        if (step == all.taken)
            pthread_cond_signal(&all.filled);
    }
    pthread_mutex_unlock(&all.lock);
    return unused;
}

/* Take the next batch and give the one before back. */
static void next(void)
{
    pthread_mutex_lock(&all.lock);
    size_t slot = all.taken % all.ring;
    while (!all.ready[slot])
        pthread_cond_wait(&all.filled, &all.lock);
    all.ready[slot] = false;
    all.taken++;
    pthread_cond_signal(&all.emptied);
    pthread_mutex_unlock(&all.lock);
}

static void *need(void *memory)
{
    if (!memory)
        bench_die("memory", "none left");
    return memory;
}

static void prepare(void)
{
    uint64_t random = 88172645463325252u;

    all.images = need(malloc((size_t)SAMPLES * PIXELS));
    all.labels = need(malloc(SAMPLES));
    all.order = need(malloc(SAMPLES * sizeof *all.order));
    for (size_t i = 0; i < (size_t)SAMPLES * PIXELS; i++)
        all.images[i] = (uint8_t)(i * 2654435761u >> 13);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint32_t k = (uint32_t)(random % (i + 1));
        all.labels[i] = (uint8_t)(i % 10);
        all.order[i] = all.order[k];
        all.order[k] = i;
    }
    for (size_t i = 0; i < all.ring; i++) {
        all.x[i] = need(aligned_alloc(64, (all.batch * PIXELS * sizeof(float) + 63) / 64 * 64));
        all.y[i] = need(malloc(all.batch * sizeof(int64_t)));
        memset(all.x[i], 0, all.batch * PIXELS * sizeof(float));
    }
}

int main(int argc, char **argv)
{
    bench_known(argc, argv, "batch workers ring seconds");
    int workers = (int)bench_number(argc, argv, "workers", 2);
    double seconds = bench_number(argc, argv, "seconds", 5);
    pthread_t threads[MAX_WORKERS];

    all.batch = (size_t)bench_number(argc, argv, "batch", 64);
    all.ring = (size_t)bench_number(argc, argv, "ring", workers * 2 + 1);
    if (workers < 1 || workers > MAX_WORKERS || all.ring < 1 || all.ring > MAX_RING || !all.batch)
        bench_die("tiny_bound", "workers 1..64, ring 1..256, batch from 1");
    prepare();
    double start = bench_now();
    for (int i = 0; i < workers; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL))
            bench_die("thread", "cannot start");
    }
    next();
    double first = bench_now() - start;
    for (size_t n = 0; n < 6400 / all.batch; n++)
        next();

    uint64_t samples = 0;
    double cpu = bench_cpu(), opened = bench_now(), now = opened;
    for (; now - opened < seconds; now = bench_now()) {
        next();
        samples += all.batch;
    }
    cpu = bench_cpu() - cpu;
    printf("{\"workload\": \"W3-tiny\", \"peer\": \"bound\", \"version\": \"C\", "
           "\"config\": {\"workers\": %d, \"batch\": %zu, \"ring\": %zu}, \"samples_per_s\": %.2f, "
           "\"cpu_s_per_1000\": %.6f, \"first_batch_s\": %.6f, \"peak_rss_mib\": %.0f, "
           "\"n_samples\": %llu}\n",
           workers, all.batch, all.ring, (double)samples / (now - opened),
           cpu / (double)samples * 1000, first, bench_peak_rss_mib(), (unsigned long long)samples);

    pthread_mutex_lock(&all.lock);
    all.stop = true;
    pthread_cond_broadcast(&all.emptied);
    pthread_mutex_unlock(&all.lock);
    for (int i = 0; i < workers; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < all.ring; i++)
        free(all.x[i]), free(all.y[i]);
    free(all.images), free(all.labels), free(all.order);
    return 0;
}
