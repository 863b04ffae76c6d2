/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of 4 KiB at random, warm: of a folder, and of a zip archive that holds the same stored and
 * deflated. All at once through a fetcher, as loaders read, and one after the other without waiting
 * (read_now). Rounds take turns; the figures are the best of each.
 */
#include <sys/stat.h>
#include <zlib.h>

#include "bench.h"
#include "folder.h"
#include "store/fetch.h"

enum { BYTES = 4096, CLASS = 100, GROUP = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the next */
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
static size_t ended;
static bool failed;

static void note_end(void *user, stk__transfer *list)
{
    (void)user;
    pthread_mutex_lock(&mutex);
    for (; list; list = list->next) {
        ended++;
        failed |= list->status != STK_OK;
    }
    pthread_cond_signal(&some);
    pthread_mutex_unlock(&mutex);
}

static void name_file(char name[32], size_t i)
{
    snprintf(name, 32, "%04zu/%06zu", i / CLASS, i);
}

static void number(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static size_t pack(const unsigned char *data, unsigned char *out)
{
    z_stream z = {.next_in = (unsigned char *)data,
                  .avail_in = BYTES,
                  .next_out = out,
                  .avail_out = 2 * BYTES};

    if (deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&z, Z_FINISH) != Z_STREAM_END)
        bench_die("zlib", "cannot deflate");
    deflateEnd(&z);
    return 2 * BYTES - z.avail_out;
}

/* Write the files into a folder and into an archive. */
static void make(const char *folder, size_t count, bool deflates, bool files)
{
    char path[4096], name[32];
    unsigned char data[BYTES], packed[2 * BYTES];
    unsigned char *directory = malloc(count * 64);
    size_t length = 0;
    uint64_t at = 0;

    snprintf(path, sizeof path, "%s/%s.zip", folder, deflates ? "d" : "s");
    FILE *zip = fopen(path, "wb");
    if (!zip || !directory)
        bench_die(path, "cannot be made");
    for (size_t i = 0; i < count; i++) {
        unsigned char local[30] = "PK\3\4", entry[46] = "PK\1\2";
        name_file(name, i);
        for (size_t k = 0; k < BYTES; k++)
            data[k] = (unsigned char)("abcdefgh"[(k * 7 + i) % 8] + (i * k >> 5) % 5);
        if (files) {
            snprintf(path, sizeof path, "%s/f/%04zu", folder, i / CLASS);
            if (i % CLASS == 0 && mkdir(path, 0777) < 0)
                bench_die(path, "cannot be made");
            snprintf(path, sizeof path, "%s/f/%s", folder, name);
            FILE *f = fopen(path, "wb");
            if (!f || fwrite(data, 1, BYTES, f) != BYTES || fclose(f) != 0)
                bench_die(path, "cannot be written");
        }
        const size_t stored = deflates ? pack(data, packed) : BYTES;
        number(local + 8, deflates ? 8 : 0, 2);
        number(local + 14, crc32(0, data, BYTES), 4);
        number(local + 18, stored, 4);
        number(local + 22, BYTES, 4);
        number(local + 26, strlen(name), 2);
        memcpy(entry + 10, local + 8, 20);
        number(entry + 42, at, 4);
        fwrite(local, 1, sizeof local, zip);
        fwrite(name, 1, strlen(name), zip);
        fwrite(deflates ? packed : data, 1, stored, zip);
        at += sizeof local + strlen(name) + stored;
        memcpy(directory + length, entry, sizeof entry);
        memcpy(directory + length + sizeof entry, name, strlen(name));
        length += sizeof entry + strlen(name);
    }
    unsigned char end[22] = "PK\5\6";
    number(end + 8, count, 2);
    number(end + 10, count, 2);
    number(end + 12, length, 4);
    number(end + 16, at, 4);
    fwrite(directory, 1, length, zip);
    if (fwrite(end, 1, sizeof end, zip) != sizeof end || fclose(zip) != 0)
        bench_die("the archive", "cannot be written");
    free(directory);
}

/* Files a second of one round through a fetcher; *per_cpu: for each second of processor time. */
static double fetch(stk_context *ctx, stk_store *store, size_t count, size_t reads, uint64_t seed,
                    double *per_cpu)
{
    const stk__fetcher_options o = {.ended = note_end};
    static unsigned char data[GROUP][BYTES + 64];
    static char names[GROUP][32];
    static stk__transfer t[GROUP];
    stk__fetcher *fetcher;

    if (stk__fetcher_create(ctx, &o, &fetcher) != STK_OK)
        bench_die("fetcher", "cannot be made");
    const double begin = bench_now(), cpu = bench_cpu();
    for (size_t done = 0; done < reads; done += GROUP) {
        ended = 0;
        for (size_t i = 0; i < GROUP; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            name_file(names[i], (size_t)(seed >> 33) % count);
            t[i] = (stk__transfer){.store = store,
                                   .key = names[i],
                                   .length = BYTES,
                                   .data = data[i],
                                   .needed_next = true,
                                   .next = i + 1 < GROUP ? &t[i + 1] : NULL};
        }
        stk__fetcher_add(fetcher, t);
        stk__fetcher_pump(fetcher);
        pthread_mutex_lock(&mutex);
        while (ended < GROUP)
            pthread_cond_wait(&some, &mutex);
        pthread_mutex_unlock(&mutex);
    }
    const double seconds = bench_now() - begin;
    *per_cpu = (double)reads / (bench_cpu() - cpu);
    stk__fetcher_destroy(&fetcher);
    return (double)reads / seconds;
}

int main(int argc, char **argv)
{
    static const char *const places[] = {"file:%s/f", "zip:%s/s.zip!/", "zip:%s/d.zip!/"};
    static const char *const shown[] = {"files", "stored", "deflated"};
    double best[3] = {0}, best_cpu[3] = {0}, per_cpu;
    struct bench_folder folder;
    stk_store *stores[3];
    stk_context *ctx;
    char url[4200];
    stk_error err;

    bench_known(argc, argv, "folder count rounds reads");
    const size_t count = (size_t)bench_number(argc, argv, "count", 20000);
    const size_t reads = (size_t)bench_number(argc, argv, "reads", 20000) / GROUP * GROUP;
    bench_folder_open(&folder, bench_text(argc, argv, "folder", NULL));
    snprintf(url, sizeof url, "%s/f", folder.path);
    if (count > 65535 || mkdir(url, 0777) < 0)
        bench_die(url, "cannot be made, or more than 65535 files");
    make(folder.path, count, false, true);
    make(folder.path, count, true, false);
    if (stk_context_create(NULL, &ctx, &err) != STK_OK)
        bench_die("context", err.text);
    for (int s = 0; s < 3; s++) {
        snprintf(url, sizeof url, places[s], folder.path);
        const double begin = bench_now();
        if (stk_store_open(ctx, url, &stores[s], NULL, 0, &err) != STK_OK)
            bench_die(url, err.text);
        printf("%s: opened in %.1f ms\n", shown[s], 1e3 * (bench_now() - begin));
    }
    for (int round = 0; round < (int)bench_number(argc, argv, "rounds", 7); round++)
        for (int s = 0; s < 3; s++) {
            const double rate = fetch(ctx, stores[s], count, reads, (uint64_t)round + 1, &per_cpu);
            best_cpu[s] = per_cpu > best_cpu[s] ? per_cpu : best_cpu[s];
            best[s] = rate > best[s] ? rate : best[s];
        }
    for (int s = 0; s < 3; s++) {
        printf("%s: %.0f files/s, %.2f of files; %.2f us of processor each, %.2f of files\n",
               shown[s], best[s], best[s] / best[0], 1e6 / best_cpu[s], best_cpu[s] / best_cpu[0]);
        stk_store_close(&stores[s]);
    }
    stk_context_destroy(&ctx);
    bench_folder_close(&folder);
    if (failed)
        bench_die("a read", "failed");
    return 0;
}
