/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the files of a dataset lie in the page cache: a run from there says nothing about the
 * disk. */
#include "bench.h"

#include <ctype.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILES    100000
#define LOOKED_AT    2000 /* files whose pages are looked up; more take too long */
#define OPEN_FOLDERS 16
#define PIECE        (UINT64_C(64) << 20) /* bytes of a file looked up at a time */

/* The path in "mnist:slow+file:///DIR?latency=5ms", or false where there is none on this machine.
 */
static bool local_path(const char *spec, char path[PATH_MAX])
{
    struct stat st;

    for (int i = 0; i < 4; i++) {
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

/* nftw() has no room for the caller's own data; the bench walks one tree at a time in one thread.
 */
static void (*walk_each)(const char *path, uint64_t size);
static uint64_t walk_files, walk_pages, walk_resident;

static int visit(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)ftw;
    if (flag == FTW_F && S_ISREG(st->st_mode)) {
        walk_each(path, (uint64_t)st->st_size);
        walk_files++;
    }
    return walk_files >= MAX_FILES;
}

static void look_up(const char *path, uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned char *there;
    int fd;

    if (walk_files >= LOOKED_AT || size == 0 || (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return;
    there = malloc(PIECE / page + 1);
    for (uint64_t at = 0; at < size && there; at += PIECE) {
        uint64_t length = size - at < PIECE ? size - at : PIECE;
        uint64_t pages = (length + page - 1) / page;
        /* Mapped only to ask which pages are there; none is touched. */
        void *map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, (off_t)at);
        if (map == MAP_FAILED)
            break;
        if (mincore(map, length, there) == 0) {
            walk_pages += pages;
            for (uint64_t i = 0; i < pages; i++)
                walk_resident += there[i] & 1;
        }
        munmap(map, length);
    }
    free(there);
    close(fd);
}

static void drop(const char *path, uint64_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    (void)size;
    if (fd < 0)
        return;
    /* Pages that are not yet on the disk would stay. */
    if (fsync(fd) == 0)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static bool walk(const char *spec, void (*each)(const char *path, uint64_t size))
{
    char path[PATH_MAX];

    walk_each = each;
    walk_files = walk_pages = walk_resident = 0;
    return local_path(spec, path) && nftw(path, visit, OPEN_FOLDERS, FTW_PHYS) >= 0;
}

double bench_files_cached(const char *spec)
{
    if (!walk(spec, look_up) || walk_pages == 0)
        return -1;
    return (double)walk_resident / (double)walk_pages;
}

uint64_t bench_files_drop(const char *spec)
{
    return walk(spec, drop) ? walk_files : 0;
}
