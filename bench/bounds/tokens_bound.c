/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do of workload `tokens`: `--workers` threads gather windows of 2,049 uint16
 * from random places of a mapped file and write them as int64, and once more shifted by one, into a
 * ring of `--ring` batches handed over by one mutex and two conditions. No loader: the places are
 * drawn where they are used, there is no order, no errors, no end.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

#define LENGTH      2048
#define MAX_RING    256
#define MAX_WORKERS 64

static struct {
    const uint16_t *tokens;
    size_t count, batch, ring;
    int64_t *x[MAX_RING], *y[MAX_RING];
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t filled, emptied;
    bool ready[MAX_RING];
    uint64_t planned, taken;
    bool stop;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER,
         .filled = PTHREAD_COND_INITIALIZER,
         .emptied = PTHREAD_COND_INITIALIZER};

/* Built for this very machine, the compiler makes the widest vectors of it. */
static void widen(const uint16_t *restrict from, int64_t *restrict to)
{
    for (size_t i = 0; i < LENGTH; i++)
        to[i] = from[i];
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

        for (size_t i = 0; i < all.batch; i++) {
            uint64_t random = (step * all.batch + i + 1) * 0x9E3779B97F4A7C15u;
            random ^= random >> 29, random *= 0xBF58476D1CE4E5B9u, random ^= random >> 32;
            const uint16_t *from = all.tokens + random % (all.count - LENGTH);
            widen(from, all.x[slot] + i * LENGTH);
            widen(from + 1, all.y[slot] + i * LENGTH);
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

static void prepare(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0)
        bench_die("tokens_bound", "--file is no file");
    all.count = (size_t)st.st_size / sizeof *all.tokens;
    all.tokens = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (all.tokens == MAP_FAILED || all.count <= LENGTH)
        bench_die("tokens_bound", "--file cannot be mapped, or is too short");
    for (size_t i = 0; i < all.ring; i++) {
        size_t bytes = all.batch * LENGTH * sizeof(int64_t);
        all.x[i] = aligned_alloc(64, bytes);
        all.y[i] = aligned_alloc(64, bytes);
        if (!all.x[i] || !all.y[i])
            bench_die("memory", "none left");
        memset(all.x[i], 0, bytes);
        memset(all.y[i], 0, bytes);
    }
}

int main(int argc, char **argv)
{
    bench_known(argc, argv, "file batch workers ring seconds");
    int workers = (int)bench_number(argc, argv, "workers", 2);
    double seconds = bench_number(argc, argv, "seconds", 5);
    pthread_t threads[MAX_WORKERS];

    all.batch = (size_t)bench_number(argc, argv, "batch", 16);
    all.ring = (size_t)bench_number(argc, argv, "ring", workers * 2 + 1);
    if (workers < 1 || workers > MAX_WORKERS || all.ring < 1 || all.ring > MAX_RING || !all.batch)
        bench_die("tokens_bound", "workers 1..64, ring 1..256, batch from 1");
    prepare(bench_text(argc, argv, "file", ""));
    double start = bench_now();
    for (int i = 0; i < workers; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            bench_die("thread", "cannot start");
    next();
    double first = bench_now() - start;
    for (size_t n = 0; n < 1600 / all.batch; n++)
        next();

    uint64_t samples = 0;
    double cpu = bench_cpu(), opened = bench_now(), now = opened;
    for (; now - opened < seconds; now = bench_now()) {
        next();
        samples += all.batch;
    }
    cpu = bench_cpu() - cpu;
    printf("{\"workload\": \"W4-tokens\", \"peer\": \"bound\", \"version\": \"C\", "
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
    munmap((void *)all.tokens, all.count * sizeof *all.tokens);
    return 0;
}
