/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking what was downloaded: the files that are wanted and no others, each durably. Who unpacks
 * holds a lock on the archive.
 */
#include "dataset/download.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/md5.h"
#include "codec/codec.h"
#include "dataset/tar.h"

#define MOST_BYTES   (UINT64_C(1) << 30) /* that an archive unpacks to; CIFAR has 186 MB */
#define MOST_ENTRIES 4096u

typedef struct unpacking {
    stk__download *d;
    const char *archive, *below;
    const char *const *names;
    int fd;     /* of the archive */
    int folder; /* that is unpacked to */
    uint64_t size, passed;
    stk__gzip *gzip;
} unpacking;

/* ---- The archive ----------------------------------------------------------------------------- */

/* Open and lock it. */
static stk_status open_archive(unpacking *u, stk_error *err)
{
    stk__download *d = u->d;
    uint64_t seen = 0, since = 0;
    struct stat st;

    u->fd =
        d->calls->open(d->calls->user, d->folder, u->archive, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (u->fd < 0 || fstat(u->fd, &st) < 0)
        return stk__download_fail(d, "open", u->archive, errno, err);
    if (!S_ISREG(st.st_mode))
        return stk__download_fail(d, "unpack", u->archive, EINVAL, err);
    u->size = (uint64_t)st.st_size;
    /* A file system without locks has no others that would be kept out. */
    while (flock(u->fd, LOCK_EX | LOCK_NB) < 0 && (errno == EWOULDBLOCK || errno == EINTR))
        STK_TRY(stk__download_wait(d, u->archive, 0, &seen, &since, err));
    return STK_OK;
}

static stk_status check_archive(unpacking *u, const char *wanted, stk_error *err)
{
    char sum[STK__MD5_TEXT];
    stk__md5 md5;

    stk__md5_init(&md5);
    STK_TRY(stk__download_sum(u->d, u->fd, u->size, u->archive, &md5, err));
    stk__md5_text(&md5, sum);
    if (strcmp(sum, wanted) == 0)
        return STK_OK;
    return stk__fail_at(err, STK_ECHECKSUM, STK_STAGE_DATASET, u->archive, STK_NO_OFFSET,
                        "%s: '%s/%s' is not what is published: its MD5 is %s and not %s; remove "
                        "it, and it is downloaded again",
                        u->d->of->kind, u->d->path, u->archive, sum, wanted);
}

static void tell(const unpacking *u, uint64_t done)
{
    char what[NAME_MAX + 16];

    snprintf(what, sizeof what, "unpacking %s", u->archive);
    stk__progress(u->d->context, what, done, u->size);
}

static stk_status read_archive(void *user, uint64_t offset, uint64_t length, void *data,
                               stk_error *err)
{
    const unpacking *u = user;

    tell(u, offset);
    for (uint64_t at = 0; at < length;) {
        const ssize_t n =
            pread(u->fd, (char *)data + at, (size_t)(length - at), (off_t)(offset + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return stk__download_fail(u->d, "read", u->archive, n < 0 ? errno : EIO, err);
        at += (uint64_t)n;
    }
    return STK_OK;
}

static stk_status read_stream(void *user, void *out, uint64_t size, uint64_t *got, stk_error *err)
{
    unpacking *u = user;

    STK_TRY(stk__gzip_read(u->gzip, out, size, got, err));
    u->passed += *got;
    return STK_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static bool is_there(const unpacking *u, const char *name)
{
    struct stat st;

    return fstatat(u->folder, name, &st, 0) == 0;
}

static stk_status write_file(unpacking *u, stk__tar *tar, const char *name, uint64_t size,
                             stk_error *err)
{
    stk__download *d = u->d;
    stk__durable file;
    char shown[2 * NAME_MAX + 2];
    stk_status status = STK_OK;

    int error = stk__durable_begin(&file, d->calls, u->folder, name, size, true);
    for (uint64_t left = size; !error && status == STK_OK && left;) {
        const uint64_t n = STK_MIN(left, STK__DOWNLOAD_ROOM);
        status = stk__tar_read(tar, d->room, n, err);
        if (status == STK_OK)
            error = stk__durable_write(&file, d->room, (size_t)n);
        left -= n;
    }
    if (status != STK_OK) {
        stk__durable_abandon(&file);
        return status;
    }
    if (!error)
        error = stk__durable_commit(&file, name);
    else if (file.fd >= 0)
        stk__durable_abandon(&file);
    snprintf(shown, sizeof shown, "%s/%s", u->below, name);
    return error ? stk__download_fail(d, file.step, shown, error, err) : STK_OK;
}

/* The name in the folder that an entry is wanted under; NULL: it is passed over. */
static stk_status wanted_name(const unpacking *u, const stk__tar_entry *entry, const char **name,
                              stk_error *err)
{
    const size_t length = strlen(u->below);

    *name = NULL;
    if (strncmp(entry->name, u->below, length) != 0 ||
        (entry->name[length] != '/' && !(entry->name[length] == 0 && entry->is_folder)))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, u->archive, STK_NO_OFFSET,
                            "'%s' holds '%.200s', which does not lie in '%s'; download it again",
                            u->archive, entry->name, u->below);
    for (const char *const *n = u->names; *n && !entry->is_folder; n++)
        if (strcmp(entry->name + length + 1, *n) == 0)
            *name = *n;
    return STK_OK;
}

static stk_status too_much(const unpacking *u, stk_error *err)
{
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, u->archive, STK_NO_OFFSET,
                        "'%s' unpacks to more than %llu bytes or %u files; unpack it by hand",
                        u->archive, (unsigned long long)MOST_BYTES, MOST_ENTRIES);
}

static stk_status unpack_all(unpacking *u, stk_error *err)
{
    stk__tar_entry entry;
    const char *name;
    bool found = true;
    stk__tar tar;

    stk__tar_init(&tar, read_stream, u, u->archive);
    for (uint32_t n = 0;; n++) {
        STK_TRY(stk__tar_next(&tar, &entry, &found, err));
        if (!found)
            return STK_OK;
        if (n == MOST_ENTRIES || entry.size > MOST_BYTES || u->passed > MOST_BYTES - entry.size)
            return too_much(u, err);
        STK_TRY(wanted_name(u, &entry, &name, err));
        if (name && !is_there(u, name))
            STK_TRY(write_file(u, &tar, name, entry.size, err));
    }
}

/* The first name that is not there; NULL: all are. */
static const char *first_missing(const unpacking *u)
{
    const char *const *n = u->names;

    while (*n && is_there(u, *n))
        n++;
    return *n;
}

static stk_status unpack(unpacking *u, const char *md5, stk_error *err)
{
    if (!first_missing(u))
        return STK_OK;
    STK_TRY(check_archive(u, md5, err));
    STK_TRY(stk__gzip_create_from(u->d->context, read_archive, u, u->size, MOST_BYTES, u->archive,
                                  &u->gzip, err));
    STK_TRY(unpack_all(u, err));
    tell(u, u->size);
    const char *missing = first_missing(u);
    if (missing)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, missing, STK_NO_OFFSET,
                            "'%s/%s' holds no '%s/%s'; download it again", u->d->path, u->archive,
                            u->below, missing);
    stk__message(u->d->context, STK_MESSAGE_INFO, "%s: unpacked '%s/%s'", u->d->of->kind,
                 u->d->path, u->archive);
    return STK_OK;
}

stk_status stk__download_unpack(stk__download *d, stk_error *err)
{
    const stk__published *of = d->of;
    unpacking u = {.d = d,
                   .archive = of->files[0].name,
                   .below = of->unpacked,
                   .names = of->names,
                   .fd = -1,
                   .folder = -1};

    stk_status status = open_archive(&u, err);
    if (status == STK_OK) {
        int error = stk__durable_folder(d->calls, d->folder, u.below);
        if (!error)
            u.folder = d->calls->open(d->calls->user, d->folder, u.below,
                                      O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
        if (u.folder < 0)
            status = stk__download_fail(d, "open the folder", u.below, error ? error : errno, err);
    }
    if (status == STK_OK)
        status = unpack(&u, of->files[0].md5, err);
    stk__gzip_destroy(&u.gzip);
    if (u.folder >= 0)
        d->calls->close(d->calls->user, u.folder);
    if (u.fd >= 0)
        d->calls->close(d->calls->user, u.fd);
    return status;
}
