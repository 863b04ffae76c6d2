/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do of workload `tokens`: `--workers` threads gather windows of 2,049 uint16
 * from random places of a mapped file and write them as int64, and once more shifted by one, into a
 * ring of `--ring` batches. No loader: the places are drawn where they are used, there is no order,
 * no errors, no end.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bounds/bound.h"

#define LENGTH 2048

static struct {
    const uint16_t *tokens;
    size_t count;
    int64_t *x[BOUND_MAX_RING], *y[BOUND_MAX_RING];
} all;

/* Built for this very machine, the compiler makes the widest vectors of it. */
static void widen(const uint16_t *restrict from, int64_t *restrict to)
{
    for (size_t i = 0; i < LENGTH; i++)
        to[i] = from[i];
}

static void fill(const struct bound *bound, uint64_t step, size_t slot)
{
    for (size_t i = 0; i < bound->batch; i++) {
        uint64_t random = (step * bound->batch + i + 1) * 0x9E3779B97F4A7C15u;
        random ^= random >> 29, random *= 0xBF58476D1CE4E5B9u, random ^= random >> 32;
        const uint16_t *from = all.tokens + random % (all.count - LENGTH);
        widen(from, all.x[slot] + i * LENGTH);
        widen(from + 1, all.y[slot] + i * LENGTH);
    }
}

static void prepare(const struct bound *bound, const char *path)
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
    for (size_t i = 0; i < bound->ring; i++) {
        all.x[i] = bound_buffer(bound->batch * LENGTH * sizeof(int64_t));
        all.y[i] = bound_buffer(bound->batch * LENGTH * sizeof(int64_t));
    }
}

int main(int argc, char **argv)
{
    struct bound bound;

    bench_known(argc, argv, "file batch workers ring seconds");
    bound_init(&bound, argc, argv, "tokens_bound", 16);
    prepare(&bound, bench_text(argc, argv, "file", ""));
    bound_run(&bound, "W4-tokens", 1600, fill);
    for (size_t i = 0; i < bound.ring; i++)
        free(all.x[i]), free(all.y[i]);
    munmap((void *)all.tokens, all.count * sizeof *all.tokens);
    return 0;
}
