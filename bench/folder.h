/* A folder for what a benchmark program writes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BENCH_FOLDER_H
#define STK_BENCH_FOLDER_H

#include <ftw.h>
#include <unistd.h>

#include "bench.h"

struct bench_folder {
    const char *path;
    char made[4096]; /* empty: it was given */
};

/* `given`, or a new folder when that is NULL. */
static inline void bench_folder_open(struct bench_folder *folder, const char *given)
{
    const char *tmp = getenv("TMPDIR");

    folder->path = given;
    folder->made[0] = 0;
    if (given)
        return;
    snprintf(folder->made, sizeof folder->made, "%s/stoker-bench-XXXXXX", tmp ? tmp : "/tmp");
    folder->path = mkdtemp(folder->made);
    if (!folder->path)
        bench_die(folder->made, "cannot be made");
}

static inline int bench_remove_one(const char *path, const struct stat *st, int type,
                                   struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

/* Remove it, if it was made. */
static inline void bench_folder_close(const struct bench_folder *folder)
{
    if (folder->made[0] && nftw(folder->made, bench_remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "could not remove %s\n", folder->made);
}

#endif
