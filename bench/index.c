/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `index`: a dataset of an HDF5 file of many chunks is opened, which finds where each of
 * them lies; milliseconds, from the page cache. `--mode made`: from the file itself each time.
 * `--mode kept`: from the index beside it, which is written before the time is taken.
 */
#include <stoker/array.h>

#include "bench.h"

#define MOST 1000

static stk_context *context;
static stk_error err;

/* Open and close; gives the chunks. */
static uint64_t open_once(const char *url)
{
    stk_array *array = NULL;

    if (stk_array_open(context, url, NULL, &array, &err) != STK_OK)
        bench_die("index", err.text);
    const uint64_t chunks = stk_array_get_info(array)->num_chunks;
    stk_array_close(&array);
    return chunks;
}

int main(int argc, char **argv)
{
    static double ms[MOST];
    char url[4096];
    size_t n = 0;

    bench_known(argc, argv, "mode url seconds");
    const double seconds = bench_number(argc, argv, "seconds", 5);
    const char *mode = bench_text(argc, argv, "mode", "made"),
               *path = bench_text(argc, argv, "url", NULL);
    const bool kept = strcmp(mode, "kept") == 0;
    if (!path || snprintf(url, sizeof url, "%s?chunk_index=%s", path, kept ? "auto" : "none") >=
                     (int)sizeof url)
        bench_die("--url", "a dataset is needed");
    if (stk_context_create(NULL, &context, &err) != STK_OK)
        bench_die("index", err.text);
    const double first = bench_now();
    uint64_t chunks = open_once(url);
    const double first_ms = (bench_now() - first) * 1e3, cpu = bench_cpu();
    for (double begin = bench_now(); n < MOST && (n == 0 || bench_now() - begin < seconds); n++) {
        const double start = bench_now();
        chunks = open_once(url);
        ms[n] = (bench_now() - start) * 1e3;
    }
    const double cpu_ms = (bench_cpu() - cpu) * 1e3 / (double)n;
    printf("{\"workload\": \"hdf5-index\", \"peer\": \"stoker\", \"config\": {\"mode\": \"%s\", "
           "\"chunks\": %llu}, \"index_ms\": %.3f, \"index_p95_ms\": %.3f, \"cpu_ms\": %.3f, "
           "\"first_ms\": %.3f, \"peak_rss_mib\": %.1f}\n",
           mode, (unsigned long long)chunks, bench_percentile(ms, n, 50),
           bench_percentile(ms, n, 95), cpu_ms, first_ms, bench_peak_rss_mib());
    stk_context_destroy(&context);
    return 0;
}
