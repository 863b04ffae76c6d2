/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `arrays` (W6a of the peers): a whole array into memory, again and again, from the page
 * cache. A sample is 10^6 bytes, as there. `--mode open`: a consolidated group of 300 arrays, made
 * in a temporary folder, and all of its arrays are opened; milliseconds.
 */
#include <sys/mman.h>

#include <stoker/array.h>

#include "bench.h"
#include "folder.h"

#define OPENED     300
#define LARGE_PAGE (UINT64_C(1) << 21)

static stk_context *context;
static stk_error err;

static void must(stk_status status)
{
    if (status != STK_OK)
        bench_die("arrays", err.text);
}

static void read_all(int argc, char **argv)
{
    const double seconds = bench_number(argc, argv, "seconds", 5);
    const int threads = (int)bench_number(argc, argv, "threads", 2);
    const char *url = bench_text(argc, argv, "url", NULL);
    stk_array_options options;
    stk_array *array = NULL;

    if (!url)
        bench_die("--url", "an array is needed");
    stk_array_options_init(&options);
    options.num_threads = threads;
    must(stk_array_open(context, url, &options, &array, &err));
    const uint64_t bytes = stk_array_get_info(array)->bytes;
    /* Large pages are asked for, as NumPy does for the arrays of the others. */
    const uint64_t size = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    void *out = aligned_alloc(LARGE_PAGE, size);
    if (!out)
        bench_die("arrays", "no memory");
    (void)madvise(out, size, MADV_HUGEPAGE);
    double begin = bench_now();
    must(stk_array_read(array, NULL, out, bytes, NULL, -1, &err));
    const double first = bench_now() - begin, cpu = bench_cpu();
    uint64_t n = 0;
    for (begin = bench_now(); n == 0 || bench_now() - begin < seconds; n++)
        must(stk_array_read(array, NULL, out, bytes, NULL, -1, &err));
    const double wall = bench_now() - begin, megabytes = (double)n * (double)bytes / 1e6;
    printf("{\"workload\": \"W6a-array-all\", \"peer\": \"stoker\", \"config\": {\"threads\": %d}, "
           "\"samples_per_s\": %.2f, \"cpu_s_per_1000\": %.6f, \"first_batch_s\": %.6f, "
           "\"n_samples\": %.0f, \"GB_per_s\": %.3f, \"peak_rss_mib\": %.1f}\n",
           threads, megabytes / wall, (bench_cpu() - cpu) / megabytes * 1000, first, megabytes,
           megabytes / wall / 1000, bench_peak_rss_mib());
    free(out);
    stk_array_close(&array);
}

/* 300 variables as models of the weather have them; no chunks, which opening does not look at. */
static void make_group(const char *folder)
{
    const int64_t shape[4] = {8760, 37, 721, 1440}, chunk[4] = {1, 37, 128, 128};
    const char *const names[4] = {"time", "level", "latitude", "longitude"};
    stk_array_writer_options options;
    char url[4096 + 32];

    stk_array_writer_options_init(&options);
    options.dtype = STK_FLOAT32;
    options.rank = 4;
    options.shape = shape;
    options.chunk_shape = chunk;
    options.dimension_names = names;
    options.attributes = "{\"units\": \"K\", \"long_name\": \"Temperature at two metres\", "
                         "\"standard_name\": \"air_temperature\", \"scale_factor\": 0.01}";
    for (int i = 0; i < OPENED; i++) {
        stk_array_writer *writer = NULL;
        snprintf(url, sizeof url, "%s/variable_%03d", folder, i);
        must(stk_array_writer_create(context, url, &options, &writer, &err));
        must(stk_array_writer_finish(&writer, &err));
    }
    must(stk_group_consolidate(context, folder, NULL, &err));
}

static void open_all(int argc, char **argv)
{
    const double seconds = bench_number(argc, argv, "seconds", 5);
    struct bench_folder folder;
    double ms[1000];
    size_t n = 0;

    bench_folder_open(&folder, NULL);
    make_group(folder.path);
    for (double begin = bench_now(); n < 1000 && (n == 0 || bench_now() - begin < seconds); n++) {
        const double start = bench_now();
        const stk_node *node;
        stk_group *group = NULL;
        stk_array *arrays[OPENED];
        must(stk_group_open(context, folder.path, &group, &err));
        size_t i = 0;
        for (; (node = stk_group_node(group, i)); i++)
            must(stk_group_array(group, node->path, NULL, &arrays[i], &err));
        ms[n] = (bench_now() - start) * 1e3;
        if (i != OPENED)
            bench_die("arrays", "the group has another number of arrays");
        while (i-- > 0)
            stk_array_close(&arrays[i]);
        stk_group_close(&group);
    }
    bench_folder_close(&folder);
    printf("{\"workload\": \"W6a-open\", \"peer\": \"stoker\", \"config\": {\"arrays\": %d}, "
           "\"open_ms\": %.3f, \"open_p95_ms\": %.3f, \"peak_rss_mib\": %.1f}\n",
           OPENED, bench_percentile(ms, n, 50), bench_percentile(ms, n, 95), bench_peak_rss_mib());
}

int main(int argc, char **argv)
{
    bench_known(argc, argv, "mode url seconds threads");
    const char *mode = bench_text(argc, argv, "mode", "all");

    must(stk_context_create(NULL, &context, &err));
    if (strcmp(mode, "open") == 0)
        open_all(argc, argv);
    else
        read_all(argc, argv);
    stk_context_destroy(&context);
    return 0;
}
