/* SPDX-License-Identifier: Apache-2.0 */
#include "base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_LINKS 40 /* links followed on the way of one path, as in the kernel */
#define MAX_TRIES 8  /* EAGAIN: the kernel saw a folder of the path being moved */

/* A path on its way: `seen` has been resolved and holds no link, `left` follows it. */
typedef struct way {
    char seen[STK_MAX_OBJECT_KEY], left[STK_MAX_OBJECT_KEY];
    char link[STK_MAX_OBJECT_KEY]; /* the last link that was followed; empty: none was */
    unsigned links;
} way;

/* Put what a link says in front of what is left. */
static int turn(way *w, const char *target, size_t length, const char *rest)
{
    char left[STK_MAX_OBJECT_KEY];

    if (++w->links > MAX_LINKS)
        return ELOOP;
    memcpy(w->link, w->seen, strlen(w->seen) + 1);
    char *last = strrchr(w->seen, '/');
    *(last ? last : w->seen) = 0;
    int n = snprintf(left, sizeof left, "%.*s/%s", (int)length, target, rest);
    if (n < 0 || (size_t)n >= sizeof left)
        return ENAMETOOLONG;
    memcpy(w->left, left, (size_t)n + 1);
    return target[0] == '/' ? EXDEV : 0;
}

/* Take one part from `left`. */
static int take_part(way *w, int folder)
{
    char target[STK_MAX_OBJECT_KEY];
    size_t seen = strlen(w->seen), length = strcspn(w->left, "/");
    const char *part = w->left, *rest = part + length + (part[length] == '/');

    if (length == 2 && part[0] == '.' && part[1] == '.') {
        if (!seen)
            return EXDEV;
        char *last = strrchr(w->seen, '/');
        *(last ? last : w->seen) = 0;
    } else if (length && !(length == 1 && part[0] == '.')) {
        if (seen + 1 + length >= sizeof w->seen)
            return ENAMETOOLONG;
        snprintf(w->seen + seen, sizeof w->seen - seen, "%s%.*s", seen ? "/" : "", (int)length,
                 part);
        ssize_t n = readlinkat(folder, w->seen, target, sizeof target);
        if (n > 0)
            return turn(w, target, (size_t)n, rest);
        /* No link, or nothing yet: opening it will tell. */
        if (errno != EINVAL && errno != ENOENT && errno != ENOTDIR)
            return errno;
    }
    memmove(w->left, rest, strlen(rest) + 1);
    return 0;
}

/* 0 and a path without links in `seen`, or an errno. */
static int resolve(int folder, const char *path, way *w)
{
    int error = 0;

    *w->seen = *w->link = 0;
    w->links = 0;
    if (path[0] == '/')
        return EXDEV;
    if (strlen(path) >= sizeof w->left)
        return ENAMETOOLONG;
    memcpy(w->left, path, strlen(path) + 1);
    while (!error && w->left[0])
        error = take_part(w, folder);
    return error;
}

int stk__open_beneath_by_parts(int folder, const char *path, int flags, mode_t mode)
{
    way w;
    int error = resolve(folder, path, &w);

    if (error) {
        errno = error;
        return -1;
    }
    return openat(folder, w.seen[0] ? w.seen : ".", flags | O_CLOEXEC | O_NOFOLLOW, mode);
}

int stk__open_beneath(int folder, const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC),
                           .mode = flags & O_CREAT ? mode : 0,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int tries = 0;
    long fd;

    do
        fd = syscall(SYS_openat2, folder, path[0] ? path : ".", &how, sizeof how);
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < MAX_TRIES)));
    /* EPERM also from a sandbox that does not know the call. */
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return stk__open_beneath_by_parts(folder, path, flags, mode);
    return (int)fd;
}

int stk__stat_beneath(int folder, const char *path, struct stat *st)
{
    int fd = stk__open_beneath(folder, path, O_PATH, 0);

    if (fd < 0)
        return -1;
    int result = fstat(fd, st), error = errno;
    close(fd);
    errno = error;
    return result;
}

stk_status stk__beneath_fail(int folder, const char *path, stk_stage stage, stk_error *err)
{
    way w;

    if (resolve(folder, path, &w) == EXDEV && !w.link[0])
        return stk__fail_at(err, STK_EACCES, stage, path, STK_NO_OFFSET,
                            "the path '%.300s' leads out of the folder that was opened; open the "
                            "folder that holds it",
                            path);
    return stk__fail_at(err, STK_EACCES, stage, path, STK_NO_OFFSET,
                        "the link '%.200s' leads out of the folder that was opened, or is "
                        "absolute; to read what it leads to, open the folder with "
                        "?follow_links=true",
                        w.link[0] ? w.link : path);
}
