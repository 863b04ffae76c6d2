/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of records read by blocks: the members of tars (ustar), each read by one pread() into
 * the place it has in a batch of 64. Blocks of 4 MiB of neighbours come in a random order, and so
 * do the members of a block. --folder FOLDER of the tars --threads N
 */
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <unistd.h>

#include "../bench.h"

#define MOST_THREADS 16
#define BLOCK_BYTES  (4u << 20)
#define BATCH        64

struct member {
    int fd;
    off_t offset;
    size_t size;
};

static struct {
    struct member *members;
    size_t count, room, largest;
    size_t per_block, blocks;
    double until;
} all;

struct work {
    pthread_t thread;
    uint64_t random, read;
};

static uint64_t draw(struct work *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static void add(int fd, off_t offset, size_t size)
{
    if (all.count == all.room) {
        all.room = all.room ? 2 * all.room : 4096;
        all.members = realloc(all.members, all.room * sizeof *all.members);
        if (!all.members)
            bench_die("pread_bound", "no memory");
    }
    all.members[all.count++] = (struct member){fd, offset, size};
    all.largest = size > all.largest ? size : all.largest;
}

static void read_tar(const char *path)
{
    char head[512];
    off_t at = 0;
    int fd = open(path, O_RDONLY);

    if (fd < 0)
        bench_die(path, "cannot be opened");
    while (pread(fd, head, sizeof head, at) == sizeof head && head[0]) {
        const size_t size = strtoul(head + 124, NULL, 8);
        add(fd, at + 512, size);
        at += 512 + (off_t)((size + 511) / 512 * 512);
    }
}

static void *work(void *argument)
{
    struct work *w = argument;
    unsigned char *slab = malloc(BATCH * all.largest);

    if (!slab)
        bench_die("pread_bound", "no memory");
    while (bench_now() < all.until) {
        const size_t first = draw(w) % all.blocks * all.per_block;
        const size_t n = first + all.per_block > all.count ? all.count - first : all.per_block;
        for (size_t i = 0; i < n; i++) {
            const struct member *m = &all.members[first + draw(w) % n];
            unsigned char *to = slab + w->read % BATCH * all.largest;
            if (pread(m->fd, to, m->size, m->offset) != (ssize_t)m->size)
                bench_die("pread_bound", "a short read");
            w->read++;
        }
    }
    free(slab);
    return NULL;
}

int main(int argc, char **argv)
{
    struct work workers[MOST_THREADS] = {{0}};
    uint64_t bytes = 0, read = 0;
    char pattern[4096];
    glob_t found;

    bench_known(argc, argv, "folder threads seconds parts");
    const int threads = (int)bench_number(argc, argv, "threads", 2);
    const double parts = bench_number(argc, argv, "parts", 1); /* members of a record */
    snprintf(pattern, sizeof pattern, "%s/*.tar", bench_text(argc, argv, "folder", "."));
    if (threads < 1 || threads > MOST_THREADS || glob(pattern, 0, NULL, &found) != 0)
        bench_die(pattern, "no tars, or too many threads");
    for (size_t i = 0; i < found.gl_pathc; i++)
        read_tar(found.gl_pathv[i]);
    for (size_t i = 0; i < all.count; i++)
        bytes += all.members[i].size;
    all.per_block = (size_t)(BLOCK_BYTES / (bytes / all.count + 1)) + 1;
    all.blocks = (all.count + all.per_block - 1) / all.per_block;
    const double opened = bench_now(), cpu = bench_cpu();
    all.until = opened + bench_number(argc, argv, "seconds", 5);
    for (int i = 0; i < threads; i++) {
        workers[i].random = 88172645463325252u + (uint64_t)i;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        read += workers[i].read;
    }
    const double records = (double)read / parts;
    printf("{\"workload\": \"records\", \"peer\": \"pread\", \"config\": {\"workers\": %d}, "
           "\"samples_per_s\": %.2f, \"cpu_s_per_1000\": %.6f, \"n_samples\": %.0f}\n",
           threads, records / (bench_now() - opened), (bench_cpu() - cpu) / records * 1e3, records);
    return 0;
}
