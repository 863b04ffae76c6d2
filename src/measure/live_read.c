/* SPDX-License-Identifier: Apache-2.0 */
/* Live sheets of other processes: found through their descriptors in /proc, read and checked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "base/sized.h"
#include "measure/live.h"

#define LINK       "/memfd:" STK__LIVE_NAME " (deleted)"
#define FILES_MOST 4096 /* descriptors of one process that are looked at */
#define TRIES      100  /* to read a state that is not being written */
#define ANCESTORS  16   /* of a process, to the one that was named */
#define RUNS_MOST  256  /* that are told apart */

/* ---- One page -------------------------------------------------------------------------------- */

#define TAME(text) ((text)[sizeof(text) - 1] = 0)

void stk__live_tame(stk_live_state *s)
{
    TAME(s->stoker);
    TAME(s->command);
    TAME(s->label);
    TAME(s->machine);
    TAME(s->what);
    TAME(s->limit);
    TAME(s->verdict);
    s->num_workers = STK_MIN(s->num_workers, (uint32_t)STK_LIVE_WORKERS);
    s->num_metrics = STK_MIN(s->num_metrics, (uint32_t)STK_LIVE_METRICS);
    s->num_loaders = STK_MIN(s->num_loaders, (uint32_t)STK_LIVE_LOADERS);
    for (uint32_t i = 0; i < s->num_metrics; i++)
        TAME(s->metric[i].name);
    s->struct_size = sizeof *s;
    /* A byte that is neither 0 nor 1 is no bool. */
    s->loader = *(const unsigned char *)&s->loader != 0;
    for (uint32_t i = 0; i < s->num_loaders; i++)
        s->loaders[i].first = *(const unsigned char *)&s->loaders[i].first != 0;
}

static bool read_at(int fd, void *to, size_t size, size_t at)
{
    return pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* It is read and not mapped: whoever made it may cut it at any time, and a mapping would then end
 * this process. */
stk_status stk__live_read_page(int fd, stk_live_state *out, stk_error *err)
{
    stk__live_page head = {.magic = ""};
    const size_t sequence_at = offsetof(stk__live_page, sequence);
    uint64_t before = 0, after = 0;

    if (!read_at(fd, &head, offsetof(stk__live_page, state), 0) ||
        memcmp(head.magic, STK__LIVE_MAGIC, sizeof STK__LIVE_MAGIC) != 0 ||
        head.version != STK__LIVE_VERSION || head.bytes != sizeof head)
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_MEASURE,
                         "the live sheet is of another version of Stoker than %s: look at it with "
                         "the command of that version",
                         stk_version());
    for (int i = 0; i < TRIES; i++) {
        if (!read_at(fd, &before, sizeof before, sequence_at) ||
            !read_at(fd, out, sizeof *out, offsetof(stk__live_page, state)) ||
            !read_at(fd, &after, sizeof after, sequence_at))
            return stk__fail(err, STK_EMISMATCH, STK_STAGE_MEASURE,
                             "the live sheet is shorter than it says");
        if (before == after && before % 2 == 0 && before > 0) {
            stk__live_tame(out);
            return STK_OK;
        }
    }
    return stk__fail(err, STK_EAGAIN, STK_STAGE_MEASURE,
                     "the live sheet was being written all the time: try again");
}

/* ---- Processes ------------------------------------------------------------------------------- */

/* Descriptor `i` of those of a process that are a live sheet, opened for reading; -1: none. */
static int open_sheet(int64_t pid, size_t i)
{
    char path[300], to[sizeof LINK];
    int found = -1, looked = 0;

    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry;
         dir && found < 0 && looked++ < FILES_MOST && (entry = readdir(dir));) {
        const ssize_t n = readlinkat(dirfd(dir), entry->d_name, to, sizeof to);
        if (n == (ssize_t)sizeof LINK - 1 && memcmp(to, LINK, sizeof LINK - 1) == 0 && i-- == 0)
            found = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    if (dir)
        closedir(dir);
    return found;
}

static int64_t parent_of(int64_t pid)
{
    char path[64], text[1024];
    long long parent = 0;

    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (!stk__read_small(path, text, sizeof text))
        return 0;
    /* The name before it may hold anything, parentheses too. */
    const char *behind = strrchr(text, ')');
    return behind && sscanf(behind + 1, " %*c %lld", &parent) == 1 ? parent : 0;
}

static bool comes_from(int64_t pid, int64_t ancestor)
{
    for (int i = 0; i < ANCESTORS && pid > 1; i++) {
        if (pid == ancestor)
            return true;
        pid = parent_of(pid);
    }
    return false;
}

struct run {
    int64_t pid;
    dev_t device; /* of the sheet */
    ino_t inode;
};

static int compare(const void *a, const void *b)
{
    const int64_t x = ((const struct run *)a)->pid, y = ((const struct run *)b)->pid;

    return (x > y) - (x < y);
}

/* A child of fork() has the sheet of its parent, too: it is listed once, of the first process. */
static void add_run(struct run *runs, size_t *n, int64_t pid, int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return;
    for (size_t i = 0; i < *n; i++)
        if (runs[i].inode == st.st_ino && runs[i].device == st.st_dev) {
            runs[i].pid = STK_MIN(runs[i].pid, pid);
            return;
        }
    if (*n < RUNS_MOST)
        runs[(*n)++] = (struct run){pid, st.st_dev, st.st_ino};
}

/* Processes of this user that have a sheet and, unless it is 0, come from `ancestor`. */
static size_t list(int64_t ancestor, int64_t *pids, size_t room)
{
    struct run runs[RUNS_MOST];
    struct dirent *entry;
    size_t n = 0;
    DIR *dir = opendir("/proc");

    while (dir && (entry = readdir(dir))) {
        struct stat st;
        char *end;
        const long long pid = strtoll(entry->d_name, &end, 10);
        if (pid <= 0 || *end || fstatat(dirfd(dir), entry->d_name, &st, 0) != 0 ||
            st.st_uid != geteuid() || (ancestor && !comes_from(pid, ancestor)))
            continue;
        const int fd = open_sheet(pid, 0);
        if (fd < 0)
            continue;
        add_run(runs, &n, pid, fd);
        close(fd);
    }
    if (dir)
        closedir(dir);
    qsort(runs, n, sizeof *runs, compare);
    for (size_t i = 0; i < n && i < room; i++)
        pids[i] = runs[i].pid;
    return n;
}

size_t stk_live_list(int64_t *pids, size_t room)
{
    return list(0, pids, room);
}

/* The process that has the sheets which are meant by `pid`, and the first of them. */
static stk_status open_of(int64_t pid, int64_t *whose, int *fd, stk_error *err)
{
    char path[64];
    struct stat st;
    int64_t below = 0;

    snprintf(path, sizeof path, "/proc/%" PRId64, pid);
    if (pid <= 0 || stat(path, &st) != 0)
        return stk__fail(err, STK_ENOENT, STK_STAGE_MEASURE, "there is no process %" PRId64, pid);
    *whose = pid;
    *fd = open_sheet(pid, 0);
    if (*fd >= 0)
        return STK_OK;
    if (st.st_uid != geteuid() && geteuid() != 0)
        return stk__fail(err, STK_EACCES, STK_STAGE_MEASURE,
                         "process %" PRId64 " is another user's: only its own and root may look",
                         pid);
    /* A bench runs each setting in a child. */
    const size_t n = list(pid, &below, 1);
    *whose = below;
    if (n == 1)
        *fd = open_sheet(below, 0);
    if (*fd >= 0)
        return STK_OK;
    if (n > 1)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "process %" PRId64 " has started %zu runs, %" PRId64
                         " is the first: name one of them",
                         pid, n, below);
    return stk__fail(err, STK_ENOENT, STK_STAGE_MEASURE,
                     "process %" PRId64
                     " runs nothing that can be looked at: 'stoker bench', 'train', 'validate', "
                     "'test', 'predict', 'tune' and 'convert' do, and programs that call "
                     "stk_live_open()",
                     pid);
}

stk_status stk_live_read_at(int64_t pid, size_t i, stk_live_state *out, stk_error *err)
{
    stk_live_state state;
    int64_t whose = 0;
    int fd = -1;

    STK_TRY(stk__sized_check(out, "stk_live_state", STK_STAGE_MEASURE, err));
    STK_TRY(open_of(pid, &whose, &fd, err));
    if (i) {
        close(fd);
        fd = open_sheet(whose, i);
    }
    if (fd < 0)
        return STK_EOS;
    const stk_status status = stk__live_read_page(fd, &state, err);
    close(fd);
    if (status == STK_OK)
        stk__sized_write(out, &state);
    return status;
}

stk_status stk_live_read(int64_t pid, stk_live_state *out, stk_error *err)
{
    return stk_live_read_at(pid, 0, out, err);
}
