/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the files of a dataset are in the page cache: a run from there says nothing about the
 * disk. */
#include "bench/bench.h"

#include <ctype.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

#define MAX_FILES 100000
#define LOOKED_AT 2000                 /* files whose pages are looked up; more take too long */
#define PIECE     (UINT64_C(64) << 20) /* bytes of a file looked up at a time */
#define PREFIXES  4                    /* of a path, at most */

/* Pages of the files that were looked at. */
typedef struct pages {
    unsigned char *there; /* one byte for each page of a piece */
    uint64_t page, all, resident;
} pages;

/* The path in "mnist:slow+file:///DIR?latency=5ms", or false where there is none on this machine.
 */
static bool local_path(const char *spec, char path[PATH_MAX])
{
    struct stat st;

    for (int i = 0; i < PREFIXES; i++) {
        if (strncmp(spec, "slow+", 5) == 0)
            spec += 5;
        if (strncmp(spec, "file://", 7) == 0)
            spec += 7;
        snprintf(path, PATH_MAX, "%s", spec);
        if (path[0] && stat(path, &st) == 0)
            return true;
        path[strcspn(path, "?")] = 0;
        if (path[0] && stat(path, &st) == 0)
            return true;
        size_t word = 0;
        while (isalnum((unsigned char)spec[word]) || spec[word] == '_')
            word++;
        if (word == 0 || spec[word] != ':')
            return false;
        spec += word + 1;
    }
    return false;
}

static void look_up(const char *path, uint64_t size, pages *p)
{
    int fd = size == 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    for (uint64_t at = 0; at < size; at += PIECE) {
        uint64_t length = size - at < PIECE ? size - at : PIECE;
        uint64_t n = (length + p->page - 1) / p->page;
        /* Mapped only to ask which pages are there; none is touched. */
        void *map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, (off_t)at);
        if (map == MAP_FAILED)
            break;
        if (mincore(map, length, p->there) == 0) {
            p->all += n;
            for (uint64_t i = 0; i < n; i++)
                p->resident += p->there[i] & 1;
        }
        munmap(map, length);
    }
    close(fd);
}

static void drop(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    /* Pages that are not yet on the disk would stay. */
    if (stk__sync(fd) == 0)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* Look up the files below a path, or (p NULL) have the kernel forget them. */
static void walk(char *path, uint64_t most, pages *p)
{
    char *const roots[] = {path, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    uint64_t files = 0;

    for (FTSENT *e; tree && files < most && (e = fts_read(tree));) {
        if (e->fts_info != FTS_F)
            continue;
        if (p)
            look_up(e->fts_accpath, (uint64_t)e->fts_statp->st_size, p);
        else
            drop(e->fts_accpath);
        files++;
    }
    if (tree)
        fts_close(tree);
}

double stk__bench_files_cached(stk_context *ctx, const char *spec)
{
    pages p = {.page = (uint64_t)sysconf(_SC_PAGESIZE)};
    char path[PATH_MAX];

    if (!local_path(spec, path))
        return -1;
    p.there = stk__alloc(ctx, PIECE / p.page + 1);
    if (p.there)
        walk(path, LOOKED_AT, &p);
    stk__free(ctx, p.there);
    return p.all ? (double)p.resident / (double)p.all : -1;
}

void stk__bench_files_drop(const char *spec)
{
    char path[PATH_MAX];

    if (local_path(spec, path))
        walk(path, MAX_FILES, NULL);
}
