/* What every benchmark program needs: arguments, clocks, the figures of the peers' JSON line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BENCH_H
#define STK_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static inline double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* User and system seconds of this process so far, all threads. */
static inline double bench_cpu(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static inline double bench_peak_rss_mib(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (double)r.ru_maxrss / 1024;
}

static inline void bench_die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* The value after `--name` of the command line, else `preset`. */
static inline const char *bench_text(int argc, char **argv, const char *name, const char *preset)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
            return argv[i + 1];
    }
    return preset;
}

static inline double bench_number(int argc, char **argv, const char *name, double preset)
{
    const char *text = bench_text(argc, argv, name, NULL);
    char *end = NULL;

    if (!text)
        return preset;
    double value = strtod(text, &end);
    if (end == text || *end)
        bench_die(name, "not a number");
    return value;
}

/* Refuses options that no bench_text() of this program asks for. `known` is "a b c". */
static inline void bench_known(int argc, char **argv, const char *known)
{
    for (int i = 1; i < argc; i += 2) {
        size_t length = strncmp(argv[i], "--", 2) == 0 ? strlen(argv[i] + 2) : 0;
        const char *at = length ? strstr(known, argv[i] + 2) : NULL;

        while (at && !((at == known || at[-1] == ' ') && (at[length] == ' ' || !at[length])))
            at = strstr(at + 1, argv[i] + 2);
        if (!at || i + 1 == argc) {
            fprintf(stderr, "%s: expected --NAME VALUE with NAME one of: %s\n", argv[i], known);
            exit(2);
        }
    }
}

/* The folder of the real data: STOKER_TEST_DATA, as for the peers. */
static inline const char *bench_data(void)
{
    const char *path = getenv("STOKER_TEST_DATA");

    return path ? path : "../shared/data";
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* NumPy's percentile with linear interpolation; sorts. */
static inline double bench_percentile(double *values, size_t n, double percent)
{
    if (!n)
        return 0;
    qsort(values, n, sizeof *values, bench_compare);
    double at = percent / 100 * (double)(n - 1);
    size_t k = (size_t)at;
    return k + 1 < n ? values[k] + (at - (double)k) * (values[k + 1] - values[k]) : values[k];
}

#endif
