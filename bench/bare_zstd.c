/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of workload `arrays`: libzstd alone. The chunks of a Zarr array, plain or sharded, lie
 * encoded in memory; `--threads` threads decompress them into a buffer of their own, again and
 * again. Nothing is read, looked up or put in its place.
 */
#include <ftw.h>
#include <zstd.h>

#include "bare.h"

static size_t per_shard;

/* A file is a chunk, or a shard: then the index lies at its end, with a checksum behind. */
static int take_file(const char *path, const struct stat *info, int type, struct FTW *at)
{
    const char *name = path + at->base;
    size_t size = (size_t)info->st_size, index = per_shard * 16 + 4;

    if (type != FTW_F || name[0] < '0' || name[0] > '9')
        return 0;
    FILE *file = fopen(path, "rb");
    unsigned char *data = malloc(size + 1);
    if (!file || !data || fread(data, 1, size, file) != size)
        bench_die(path, "could not be read");
    fclose(file);
    if (!per_shard) {
        bare_add(data, size);
        return 0;
    }
    for (size_t i = 0; i < per_shard; i++) {
        uint64_t pair[2];
        if (size < index)
            bench_die(path, "is no shard");
        memcpy(pair, data + size - index + 16 * i, sizeof pair);
        if (pair[0] != UINT64_MAX)
            bare_add(data + pair[0], (size_t)pair[1]);
    }
    return 0;
}

static void *work(void *unused)
{
    ZSTD_DCtx *decoder = ZSTD_createDCtx();
    void *out = aligned_alloc(64, bare.decoded);

    if (!decoder || !out)
        bench_die("bare_zstd", "no memory");
    for (const struct bare_chunk *c; (c = bare_next());) {
        if (ZSTD_decompressDCtx(decoder, out, bare.decoded, c->data, c->size) != bare.decoded)
            bench_die("bare_zstd", "a chunk is damaged, or --chunk is not its size");
        bare.done++;
    }
    ZSTD_freeDCtx(decoder);
    free(out);
    return unused;
}

int main(int argc, char **argv)
{
    bench_known(argc, argv, "folder chunk per_shard seconds threads");
    bare.decoded = (size_t)bench_number(argc, argv, "chunk", 16 * 64 * 64 * 4);
    per_shard = (size_t)bench_number(argc, argv, "per_shard", 0);
    nftw(bench_text(argc, argv, "folder", ""), take_file, 16, FTW_PHYS);
    bare_run("W6a-array-all", argc, argv, work);
    return 0;
}
