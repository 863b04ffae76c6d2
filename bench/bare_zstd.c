/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of workload `arrays`: libzstd alone. The chunks of a Zarr array, plain or sharded, lie
 * encoded in memory; `--threads` threads decompress them into a buffer of their own, again and
 * again. Nothing is read, looked up or put in its place.
 */
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <zstd.h>

#include "bench.h"

#define MAX_THREADS 64

static struct {
    struct chunk {
        const unsigned char *data;
        size_t size;
    } * chunks;
    size_t count, room, decoded; /* decoded: bytes of a chunk */
    size_t per_shard;
    atomic_uint_fast64_t next, done;
    atomic_bool stop;
} all;

static void add(const unsigned char *data, size_t size)
{
    if (all.count == all.room) {
        all.room = all.room ? 2 * all.room : 1024;
        all.chunks = realloc(all.chunks, all.room * sizeof *all.chunks);
        if (!all.chunks)
            bench_die("bare_zstd", "no memory");
    }
    all.chunks[all.count].data = data;
    all.chunks[all.count++].size = size;
}

/* A file is a chunk, or a shard: then the index lies at its end, with a checksum behind. */
static int take_file(const char *path, const struct stat *info, int type, struct FTW *at)
{
    const char *name = path + at->base;
    size_t size = (size_t)info->st_size, index = all.per_shard * 16 + 4;

    if (type != FTW_F || name[0] < '0' || name[0] > '9')
        return 0;
    FILE *file = fopen(path, "rb");
    unsigned char *data = malloc(size + 1);
    if (!file || !data || fread(data, 1, size, file) != size)
        bench_die(path, "could not be read");
    fclose(file);
    if (!all.per_shard) {
        add(data, size);
        return 0;
    }
    for (size_t i = 0; i < all.per_shard; i++) {
        uint64_t pair[2];
        if (size < index)
            bench_die(path, "is no shard");
        memcpy(pair, data + size - index + 16 * i, sizeof pair);
        if (pair[0] != UINT64_MAX)
            add(data + pair[0], (size_t)pair[1]);
    }
    return 0;
}

static void *work(void *unused)
{
    ZSTD_DCtx *decoder = ZSTD_createDCtx();
    void *out = aligned_alloc(64, all.decoded);

    if (!decoder || !out)
        bench_die("bare_zstd", "no memory");
    while (!all.stop) {
        const struct chunk *c = &all.chunks[all.next++ % all.count];
        if (ZSTD_decompressDCtx(decoder, out, all.decoded, c->data, c->size) != all.decoded)
            bench_die("bare_zstd", "a chunk is damaged, or --chunk is not its size");
        all.done++;
    }
    ZSTD_freeDCtx(decoder);
    free(out);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[MAX_THREADS];

    bench_known(argc, argv, "folder chunk per_shard seconds threads");
    const double seconds = bench_number(argc, argv, "seconds", 5);
    const size_t n = (size_t)bench_number(argc, argv, "threads", 2);
    all.decoded = (size_t)bench_number(argc, argv, "chunk", 16 * 64 * 64 * 4);
    all.per_shard = (size_t)bench_number(argc, argv, "per_shard", 0);
    if (n < 1 || n > MAX_THREADS)
        bench_die("--threads", "1 to 64");
    nftw(bench_text(argc, argv, "folder", ""), take_file, 16, FTW_PHYS);
    if (!all.count)
        bench_die("--folder", "no chunks there");
    for (size_t i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    while (all.done < all.count)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const uint64_t before = all.done;
    const double start = bench_now();
    double cpu = bench_cpu();
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds,
                                 .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)},
              NULL);
    const double megabytes = (double)(all.done - before) * (double)all.decoded / 1e6;
    const double wall = bench_now() - start;
    cpu = bench_cpu() - cpu;
    all.stop = true;
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("{\"workload\": \"W6a-array-all\", \"peer\": \"bound\", \"config\": {\"threads\": %zu}, "
           "\"samples_per_s\": %.2f, \"cpu_s_per_1000\": %.6f, \"n_samples\": %.0f}\n",
           n, megabytes / wall, cpu / megabytes * 1000, megabytes);
    return 0;
}
