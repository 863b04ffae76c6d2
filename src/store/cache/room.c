/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a cache: who may use it, its files, and how much they take. */
#include "store/cache/room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/files.h"

#define GRANT      (UINT64_C(16) << 20) /* bytes that are granted at a time, */
#define SHARE      64                   /* of which a cache has so many at least */
#define DOUBT      16                   /* one part in so many may not be used after all */
#define TRIES      2000                 /* at a lock, a millisecond each */
#define MAGIC      UINT64_C(0x3145544154534b53)
#define SULK_LEAST UINT64_C(1000000000)
#define SULK_MOST  UINT64_C(600000000000)

/* Bytes of "state" that are locked; those of stores come behind. */
enum { LOCK_COUNTS, LOCK_OPEN };
#define LOCK_STORES (UINT64_C(1) << 40)
/* The byte of an object's file that is locked while that begins: behind those of all blocks. */
#define LOCK_HEAD (UINT64_C(1) << 61)

/* ---- Locks ----------------------------------------------------------------------------------- */

bool stk__cache_lock(int fd, short type, uint64_t from, uint64_t length)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)from, .l_len = (off_t)length};
    int failed;

    do
        failed = fcntl(fd, F_OFD_SETLK, &lock);
    while (failed < 0 && errno == EINTR);
    return failed == 0;
}

/* The same for a while, as holders have them shortly. */
static bool lock_soon(int fd, short type, uint64_t from)
{
    for (int i = 0; i < TRIES; i++) {
        if (stk__cache_lock(fd, type, from, 1))
            return true;
        if (errno != EAGAIN && errno != EACCES)
            return false;
        stk__sleep_until(stk__now_ns() + 1000000, NULL);
    }
    return false;
}

static uint64_t lock_of(uint64_t store)
{
    return LOCK_STORES + (store & (LOCK_STORES - 1));
}

bool stk__cache_store_open(const stk__cache_room *room, uint64_t store)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)lock_of(store), .l_len = 1};

    return store == room->store || fcntl(room->state, F_OFD_GETLK, &lock) < 0 ||
           lock.l_type != F_UNLCK;
}

/* ---- The state ------------------------------------------------------------------------------- */

typedef struct counts {
    uint64_t magic, used, granted, sum;
} counts;

static bool counts_read(const stk__cache_room *room, counts *c)
{
    return pread(room->state, c, sizeof *c, 0) == (ssize_t)sizeof *c && c->magic == MAGIC &&
           c->sum == XXH3_64bits(c, offsetof(counts, sum));
}

static void counts_write(const stk__cache_room *room, counts *c)
{
    c->magic = MAGIC;
    c->sum = XXH3_64bits(c, offsetof(counts, sum));
    /* A state that cannot be written is none: the next who reads it counts. */
    if (pwrite(room->state, c, sizeof *c, 0) != (ssize_t)sizeof *c)
        (void)!ftruncate(room->state, 0);
}

/* What was spent is used, and granted no more. */
static void settle(stk__cache_room *room, counts *c)
{
    const uint64_t spent = atomic_exchange(&room->spent, 0), of_grant = STK_MIN(spent, room->held);

    c->used += spent;
    c->granted -= STK_MIN(c->granted, of_grant);
    room->held -= of_grant;
}

uint64_t stk__cache_room_used(const stk__cache_room *room)
{
    counts c;

    return room->state >= 0 && counts_read(room, &c) ? c.used + room->spent : 0;
}

void stk__cache_room_charge(stk__cache_room *room, uint64_t bytes)
{
    atomic_fetch_add(&room->spent, bytes);
}

/* With the lock of the counts: read them, or count. */
static void know_counts(stk__cache_room *room, counts *c)
{
    const bool known = counts_read(room, c);

    if (!known)
        *c = (counts){0};
    /* Whoever had grants and has it open no more did not live to settle them. */
    const bool lost = room->alone && c->granted > 0;
    if (lost)
        c->granted = 0;
    if (!known || lost) {
        c->granted = STK_MAX(c->granted, room->held);
        room->spent = 0;
        c->used = stk__cache_count(room);
    }
    room->alone = false;
}

/*
 * With the lock of the counts: evict what may go. Of a file the bytes that were charged come back
 * but for what its map may have taken of them, so that never less is known than is used. The files
 * are counted where that has become much, and where too little went: some may have been removed by
 * others.
 */
static void evict(stk__cache_room *room, counts *c, uint64_t excess)
{
    uint64_t map;
    const uint64_t bytes = stk__cache_evict(room, excess, &map), gone = bytes - STK_MIN(bytes, map);

    c->used -= STK_MIN(c->used, gone);
    room->doubt += map;
    if (gone >= excess && room->doubt < room->size / DOUBT)
        return;
    c->used = stk__cache_count(room);
    room->spent = room->doubt = 0;
}

/* With the lock of the counts: whether so much more may be granted, after evicting what may go. */
static bool find_room(stk__cache_room *room, counts *c, uint64_t bytes)
{
    uint64_t all;

    if (!stk__add_size(c->used, c->granted, &all) || !stk__add_size(all, bytes, &all))
        return false;
    if (all <= room->size)
        return true;
    if (stk__now_ns() < room->sulk_ns)
        return false;
    evict(room, c, all - room->size);
    const bool found = c->used + c->granted + bytes <= room->size;
    room->sulk = found ? 0 : STK_MIN(STK_MAX(room->sulk * 2, SULK_LEAST), SULK_MOST);
    room->sulk_ns = stk__now_ns() + room->sulk;
    return found;
}

bool stk__cache_room_take(stk__cache_room *room, uint64_t bytes)
{
    counts c;

    if (room->state < 0 || bytes > room->size)
        return false;
    if (!room->alone && room->spent <= room->held && room->held - room->spent >= bytes)
        return true;
    if (!lock_soon(room->state, F_WRLCK, LOCK_COUNTS))
        return false;
    know_counts(room, &c);
    settle(room, &c);
    const uint64_t left = room->held, needed = bytes - STK_MIN(left, bytes),
                   wanted = STK_MAX(needed, STK_MIN(GRANT, room->size / SHARE));
    uint64_t grant = 0;
    if (c.used + c.granted + wanted <= room->size)
        grant = wanted;
    else if (find_room(room, &c, needed))
        grant = needed;
    c.granted += grant;
    room->held += grant;
    counts_write(room, &c);
    stk__cache_lock(room->state, F_UNLCK, LOCK_COUNTS, 1);
    return left + grant >= bytes;
}

void stk__cache_room_warn(stk__cache_room *room, const char *what, int error)
{
    if (!atomic_exchange(&room->warned, true))
        stk__message(
            room->ctx, STK_MESSAGE_WARNING,
            "the cache cannot %s: %s%s; what it does not hold is read from the store below", what,
            strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error",
            stk__remedy_of_errno(error));
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Open a folder of a folder, which is ours. -1: errno. */
static int open_own(int folder, const char *name, bool make)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(folder, name, flags);
    struct stat st;

    if (fd < 0 && errno == ENOENT && make && (mkdirat(folder, name, 0700) == 0 || errno == EEXIST))
        fd = openat(folder, name, flags);
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077))) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

/* The folder that the file of a name lies in, and the rest of the name. -1: errno. */
static int open_folder_of(const stk__cache_room *room, const char *name, bool make,
                          const char **rest)
{
    char part[STK__CACHE_NAME];
    int folder = room->folder, below = folder;

    *rest = name;
    for (const char *slash; below >= 0 && (slash = strchr(*rest, '/')); *rest = slash + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - *rest), *rest);
        below = open_own(folder, part, make);
        const int error = errno;
        if (folder != room->folder)
            close(folder);
        errno = error;
        folder = below;
    }
    return below;
}

/* A file with one name, which is ours: writing it changes nothing that lies elsewhere. */
static bool is_own(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_uid == geteuid();
}

static int open_file(int folder, const char *name, int flags)
{
    int fd = openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);

    if (fd >= 0 && !is_own(fd)) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

/* Whether the file of an object begins as it has to. */
static bool is_begun(int fd, const stk__cache_place *place)
{
    uint8_t head[STK__CACHE_HEAD];

    return pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
           stk__cache_head_right(place, head);
}

int stk__cache_file_begin(int fd, const stk__cache_place *place)
{
    uint8_t head[STK__CACHE_HEAD];
    int error = 0;

    if (is_begun(fd, place))
        return 0;
    if (!lock_soon(fd, F_WRLCK, LOCK_HEAD))
        return EAGAIN;
    if (!is_begun(fd, place)) {
        stk__cache_head_write(place, head);
        /* The head comes last: who finds it finds a table, too. */
        if (ftruncate(fd, 0) < 0 || ftruncate(fd, (off_t)(place->data_at + place->size)) < 0 ||
            pwrite(fd, head, sizeof head, 0) != (ssize_t)sizeof head)
            error = errno ? errno : ENOSPC;
    }
    stk__cache_lock(fd, F_UNLCK, LOCK_HEAD, 1);
    return error;
}

int stk__cache_file_open(stk__cache_room *room, const stk__cache_place *place)
{
    const bool full = stk__now_ns() < atomic_load(&room->sulk_ns);
    const char *name;
    int folder = open_folder_of(room, place->name, !full, &name);

    if (folder < 0)
        return -1;
    int fd = open_file(folder, name, full ? O_RDWR : O_RDWR | O_CREAT);
    const int error = errno;
    close(folder);
    errno = error;
    return fd;
}

void stk__cache_file_drop(int folder, const char *name)
{
    int fd = open_file(folder, name, O_WRONLY);

    /* Its room comes back at once, also where somebody has it open. */
    if (fd >= 0) {
        (void)!ftruncate(fd, 0);
        close(fd);
    }
    stk__remove_file(folder, name);
}

void stk__cache_file_touch(const stk__cache_room *room, const char *path)
{
    static const struct timespec now[] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    const char *name;
    int folder = room->state >= 0 ? open_folder_of(room, path, false, &name) : -1;

    if (folder < 0)
        return;
    (void)utimensat(folder, name, now, AT_SYMLINK_NOFOLLOW);
    close(folder);
}

void stk__cache_file_remove(const stk__cache_room *room, const char *path)
{
    const char *name;
    int folder = room->folder >= 0 ? open_folder_of(room, path, false, &name) : -1;

    if (folder < 0)
        return;
    stk__cache_file_drop(folder, name);
    close(folder);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Open the folder `dir`, made with those above it where it is missing. -1: errno. */
static int open_dir(stk_context *ctx, const char *dir)
{
    char *path = stk__strdup(ctx, dir);
    int fd;

    if (!path) {
        errno = ENOMEM;
        return -1;
    }
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        (void)mkdir(path, 0700);
        *p = '/';
    }
    (void)mkdir(path, 0700);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int error = errno;
    stk__free(ctx, path);
    errno = error;
    return fd;
}

static void open_state(stk__cache_room *room)
{
    room->state = open_file(room->folder, "state", O_RDWR | O_CREAT);
    if (room->state < 0) {
        stk__cache_room_warn(room, "keep what is read", errno);
        return;
    }
    room->alone = stk__cache_lock(room->state, F_WRLCK, LOCK_OPEN, 1);
    if (lock_soon(room->state, F_RDLCK, LOCK_OPEN) &&
        lock_soon(room->state, F_RDLCK, lock_of(room->store)))
        return;
    stk__cache_room_warn(room, "lock its file 'state'", errno);
    close(room->state);
    room->state = -1;
}

/* Eviction goes by when a store was open last. */
static void touch_store(const stk__cache_room *room)
{
    static const struct timespec now[] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    char name[20];

    snprintf(name, sizeof name, "%016llx", (unsigned long long)room->store);
    (void)utimensat(room->folder, name, now, AT_SYMLINK_NOFOLLOW);
}

void stk__cache_room_open(stk_context *ctx, const stk__cache_options *options, uint64_t store,
                          stk__cache_room *out)
{
    *out = (stk__cache_room){
        .ctx = ctx, .folder = -1, .state = -1, .size = options->size, .store = store};
    int dir = open_dir(ctx, options->dir);
    if (dir >= 0)
        out->folder = open_own(dir, STK__CACHE_OWN, true);
    const int error = errno;
    if (dir >= 0)
        close(dir);
    /* Processes begin at different ones. */
    out->at_folder = out->at_version = (unsigned)(stk__now_ns() >> 8);
    if (out->folder >= 0)
        open_state(out);
    if (out->state >= 0)
        touch_store(out);
    if (out->folder < 0)
        stk__cache_room_warn(out,
                             error == EPERM
                                 ? "use the folder '" STK__CACHE_OWN
                                   "' in its dir, which has to be of this user with mode 0700"
                                 : "use its dir",
                             error);
}

void stk__cache_room_close(stk__cache_room *room)
{
    counts c;

    if (room->state >= 0 && (room->held || room->spent) &&
        lock_soon(room->state, F_WRLCK, LOCK_COUNTS)) {
        if (counts_read(room, &c)) {
            settle(room, &c);
            c.granted -= STK_MIN(c.granted, room->held);
            counts_write(room, &c);
        }
        stk__cache_lock(room->state, F_UNLCK, LOCK_COUNTS, 1);
    }
    if (room->state >= 0) {
        touch_store(room);
        close(room->state);
    }
    if (room->folder >= 0)
        close(room->folder);
}
