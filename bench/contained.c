/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of 4 KiB at random, warm: of a folder, of zip archives that hold the same stored and
 * deflated (up to 65,535 of them), and of the SquashFS image that conversion makes of the folder;
 * --content text or random. 64 at a time through a fetcher, as loaders read. Rounds take turns; the
 * figures are the medians of each.
 */
#include <sys/stat.h>
#include <zlib.h>

#include <stoker/convert.h>

#include "bench.h"
#include "folder.h"
#include "store/fetch.h"

enum { BYTES = 4096, CLASS = 100, GROUP = 64, MOST_ROUNDS = 99, PLACES = 4 };

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

static uint64_t next(uint64_t *state)
{
    return (*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u) >> 33;
}

/* Random bytes; or words of a small language, which deflate to two fifths. */
static void fill(unsigned char data[BYTES], size_t i, bool random)
{
    uint64_t state = i * UINT64_C(0x9e3779b97f4a7c15) + 1, word;

    for (size_t k = 0; k < BYTES;) {
        if (random) {
            data[k++] = (unsigned char)next(&state);
            continue;
        }
        word = next(&state) % 1024 * UINT64_C(0x9e3779b97f4a7c15);
        for (size_t n = 3 + word % 7; n && k < BYTES; n--, word = word >> 5 | word << 59)
            data[k++] = (unsigned char)('a' + word % 26);
        if (k < BYTES)
            data[k++] = ' ';
    }
}

static void make_files(const char *folder, size_t count, bool random)
{
    char path[4096], name[32];
    unsigned char data[BYTES];

    for (size_t i = 0; i < count; i++) {
        name_file(name, i);
        fill(data, i, random);
        snprintf(path, sizeof path, "%s/f/%04zu", folder, i / CLASS);
        if (i % CLASS == 0 && mkdir(path, 0777) < 0)
            bench_die(path, "cannot be made");
        snprintf(path, sizeof path, "%s/f/%s", folder, name);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(data, 1, BYTES, f) != BYTES || fclose(f) != 0)
            bench_die(path, "cannot be written");
    }
}

static void make_image(stk_context *ctx, const char *folder)
{
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_conversion *conversion = NULL;
    char from[4200], to[4200];
    stk_error err;

    snprintf(from, sizeof from, "%s/f", folder);
    snprintf(to, sizeof to, "%s/i.sqfs", folder);
    stk_error_init(&err);
    if (stk_conversion_create(ctx, from, to, &conversion, &err) != STK_OK ||
        stk_conversion_run(conversion, NULL, NULL, &report, &err) != STK_OK)
        bench_die(to, err.text);
    stk_conversion_destroy(&conversion);
}

/* Write the same into an archive. */
static void make_zip(const char *folder, size_t count, bool random, bool deflates)
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
        fill(data, i, random);
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

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return values[n / 2];
}

int main(int argc, char **argv)
{
    static const char *const places[PLACES] = {"file:%s/f", "squashfs:%s/i.sqfs!/",
                                               "zip:%s/s.zip!/", "zip:%s/d.zip!/"};
    static const char *const shown[PLACES] = {"files", "squashfs", "zip stored", "zip deflated"};
    static double rates[PLACES][MOST_ROUNDS], costs[PLACES][MOST_ROUNDS];
    double rate[PLACES], cost[PLACES], per_cpu;
    stk_store *stores[PLACES];
    struct bench_folder folder;
    stk_context *ctx;
    char url[4200];
    stk_error err;

    bench_known(argc, argv, "folder count rounds reads content");
    const size_t count = (size_t)bench_number(argc, argv, "count", 20000);
    const size_t reads = (size_t)bench_number(argc, argv, "reads", 20000) / GROUP * GROUP;
    const size_t rounds = (size_t)bench_number(argc, argv, "rounds", 7);
    const bool random = strcmp(bench_text(argc, argv, "content", "text"), "random") == 0;
    const int num = count > UINT16_MAX ? 2 : PLACES;
    bench_folder_open(&folder, bench_text(argc, argv, "folder", NULL));
    snprintf(url, sizeof url, "%s/f", folder.path);
    if (count > 1000000 || rounds < 1 || rounds > MOST_ROUNDS || mkdir(url, 0777) < 0)
        bench_die(url, "cannot be made, or more than 1,000,000 files or 99 rounds");
    if (stk_context_create(NULL, &ctx, &err) != STK_OK)
        bench_die("context", err.text);
    make_files(folder.path, count, random);
    make_image(ctx, folder.path);
    for (int s = 2; s < num; s++)
        make_zip(folder.path, count, random, s == 3);
    for (int s = 0; s < num; s++) {
        snprintf(url, sizeof url, places[s], folder.path);
        const double begin = bench_now();
        if (stk_store_open(ctx, url, &stores[s], NULL, 0, &err) != STK_OK)
            bench_die(url, err.text);
        printf("%s: opened in %.1f ms\n", shown[s], 1e3 * (bench_now() - begin));
    }
    for (size_t round = 0; round < rounds; round++)
        for (int s = 0; s < num; s++) {
            rates[s][round] = fetch(ctx, stores[s], count, reads, round + 1, &per_cpu);
            costs[s][round] = 1e6 / per_cpu;
        }
    for (int s = 0; s < num; s++) {
        rate[s] = median(rates[s], rounds);
        cost[s] = median(costs[s], rounds);
        printf("%s: %.0f files/s, %.2f of files; %.2f us of processor each, %.2f of files\n",
               shown[s], rate[s], rate[s] / rate[0], cost[s], cost[s] / cost[0]);
        stk_store_close(&stores[s]);
    }
    stk_context_destroy(&ctx);
    bench_folder_close(&folder);
    if (failed)
        bench_die("a read", "failed");
    return 0;
}
