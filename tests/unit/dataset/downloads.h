/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of downloads share: a mirror that fails, a disk that is full, made-up files. */
#ifndef STK_TESTS_UNIT_DATASET_DOWNLOADS_H
#define STK_TESTS_UNIT_DATASET_DOWNLOADS_H

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/md5.h"
#include "dataset/download.h"
#include "support/over_mem.h"
#include "support/tars.h"

#define PIECES 3u
#define BYTES  ((PIECES - 1) * STK__DOWNLOAD_ROOM + 12345)

/* ---- A mirror that fails ----------------------------------------------------------------------
 */

static struct {
    atomic_uint reads;   /* so far */
    uint32_t fail_at;    /* this read and later ones fail */
    bool kill;           /* the process is killed then */
    atomic_ullong least; /* smallest offset that was asked for */
    atomic_ullong bytes; /* asked for */
} mirror;

static inline stk_status shaky_submit(stk_store *store, stk_read *read)
{
    const uint32_t n = atomic_fetch_add(&mirror.reads, 1);

    if (read->offset < atomic_load(&mirror.least))
        atomic_store(&mirror.least, read->offset);
    atomic_fetch_add(&mirror.bytes, read->length);
    if (n >= mirror.fail_at && mirror.kill)
        kill(getpid(), SIGKILL);
    return n >= mirror.fail_at ? STK_EACCES : stk__store_mem.submit(store, read);
}

static stk_store_ops shaky;

static inline stk_status shaky_open(stk_context *ctx, const char *url, const void *options,
                                    stk_store **out, stk_error *err)
{
    return test_open_over_mem(&shaky, ctx, url, out, err);
}

static inline void mirror_reset(void)
{
    atomic_store(&mirror.reads, 0);
    atomic_store(&mirror.bytes, 0);
    mirror.fail_at = UINT32_MAX;
    mirror.kill = false;
    atomic_store(&mirror.least, UINT64_MAX);
}

/* ---- What is published ------------------------------------------------------------------------
 */

typedef struct room {
    stk_context *ctx;
    stk_store *store; /* the mirror's */
    char folder[256], url[300];
    unsigned char *data;
    char sum[STK__MD5_TEXT];
    stk__published of;
} room;

/* The sum of something, by what test_md5.c holds against others. */
static inline void sum_of(const void *data, size_t size, char sum[STK__MD5_TEXT])
{
    stk__md5 h;

    stk__md5_init(&h);
    stk__md5_add(&h, data, size);
    stk__md5_text(&h, sum);
}

static inline void put(room *r, const char *key, const void *data, size_t size)
{
    stk_error err;

    assert_ok(stk_store_put(r->store, key, data, size, NULL, &err), &err);
}

/* A file "f" of several pieces at shaky://published, to be downloaded to DIR/below/raw. */
static inline void room_open(room *r)
{
    uint64_t seed = 7;
    stk_error err;

    *r = (room){.ctx = test_context()};
    shaky = stk__store_mem;
    shaky.name = "shaky";
    shaky.open = shaky_open;
    shaky.submit = shaky_submit;
    shaky.map = NULL;
    shaky.read_now = NULL;
    assert_ok(stk_driver_add(r->ctx, STK_DRIVER_STORE, &shaky, &err), &err);
    assert_ok(stk_store_open(r->ctx, "mem://published", &r->store, NULL, 0, &err), &err);
    test_folder(r->folder);
    snprintf(r->url, sizeof r->url, "%s/new", r->folder);
    r->data = malloc(BYTES);
    assert_non_null(r->data);
    for (size_t i = 0; i < BYTES; i++)
        r->data[i] = (unsigned char)test_random(&seed);
    put(r, "f", r->data, BYTES);
    sum_of(r->data, BYTES, r->sum);
    r->of = (stk__published){.kind = "made_up",
                             .folder = "below/raw",
                             .mirrors = {"shaky://published"},
                             .files = {{"f", r->sum}}};
    mirror_reset();
}

static inline void room_close(room *r)
{
    free(r->data);
    stk_store_close(&r->store);
    stk_context_destroy(&r->ctx);
    test_folder_remove(r->folder);
}

/* Everything anew, but for the mirror. */
static inline void room_clear(room *r)
{
    test_folder_remove(r->folder);
    test_folder(r->folder);
    snprintf(r->url, sizeof r->url, "%s/new", r->folder);
    mirror_reset();
}

static inline void path_of(const room *r, const char *name, char path[400])
{
    snprintf(path, 400, "%s/below/raw/%s", r->url, name);
}

/* Bytes of a file of the folder; -1: it is not there. */
static inline int64_t size_of(const room *r, const char *name)
{
    char path[400];
    struct stat st;

    path_of(r, name, path);
    return stat(path, &st) == 0 ? st.st_size : -1;
}

static inline void assert_whole(const room *r)
{
    unsigned char *data = malloc(BYTES + 1);
    char path[400];

    assert_non_null(data);
    path_of(r, "f", path);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(data, 1, BYTES + 1, f), BYTES);
    fclose(f);
    assert_memory_equal(data, r->data, BYTES);
    free(data);
    assert_int_equal(size_of(r, "f.part"), -1);
}

static inline stk_status fetch_with(room *r, stk__download *d, stk_error *err)
{
    d->context = r->ctx;
    d->of = &r->of;
    stk_error_init(err);
    STK_TRY(stk__download_open(d, r->url, err));
    stk_status status = stk__download_fetch(d, 0, err);
    stk__download_close(d);
    return status;
}

static inline stk_status fetch(room *r, const char *from, stk_error *err)
{
    stk__download d = {.mirror = from};

    return fetch_with(r, &d, err);
}

/* ---- The disk ---------------------------------------------------------------------------------
 */

static struct {
    uint64_t room;               /* bytes that can be written */
    int allocate, fsync, rename; /* errno; 0: they succeed */
} disk;

static inline int disk_allocate(void *user, int fd, uint64_t bytes)
{
    errno = disk.allocate;
    return disk.allocate ? -1 : 0;
}

static inline ssize_t disk_write(void *user, int fd, const void *data, size_t length)
{
    if (!disk.room) {
        errno = ENOSPC;
        return -1;
    }
    length = STK_MIN(length, disk.room);
    disk.room -= length;
    return write(fd, data, length);
}

static inline int disk_fsync(void *user, int fd)
{
    errno = disk.fsync;
    return disk.fsync ? -1 : stk__file_calls_system.fsync(user, fd);
}

static inline int disk_rename(void *user, int folder, const char *from, const char *to, bool keep)
{
    errno = disk.rename;
    return disk.rename ? -1 : stk__file_calls_system.rename(user, folder, from, to, keep);
}

static inline stk__file_calls disk_calls(void)
{
    stk__file_calls calls = stk__file_calls_system;

    memset(&disk, 0, sizeof disk);
    disk.room = UINT64_MAX;
    calls.allocate = disk_allocate;
    calls.write = disk_write;
    calls.fsync = disk_fsync;
    calls.rename = disk_rename;
    return calls;
}

/* ---- Archives and folders ----------------------------------------------------------------------
 */

/* Publish an archive at mem://published/KEY/a.tar.gz; frees it. */
static inline void publish(room *r, const char *key, tar_bytes *t, char sum[STK__MD5_TEXT])
{
    tar_bytes packed = tar_gzip(t);
    char name[64];

    snprintf(name, sizeof name, "%s/a.tar.gz", key);
    put(r, name, packed.data, packed.size);
    sum_of(packed.data, packed.size, sum);
    free(packed.data);
}

static inline stk_status never_there(const void *user, stk_store *store, size_t file, bool *there,
                                     stk_error *err)
{
    *there = false;
    return STK_OK;
}

static inline bool exists(const room *r, const char *name)
{
    char path[800];

    snprintf(path, sizeof path, "%s/%s", r->url, name);
    return access(path, F_OK) == 0;
}

#endif
