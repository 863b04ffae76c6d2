/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/download.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/md5.h"
#include "base/url.h"

#define PATIENCE_NS UINT64_C(300000000000) /* longer than one read may take */
#define LOOKS_NS    UINT64_C(100000000)    /* between two looks at what another process does */
#define MOST_BYTES  (UINT64_C(1) << 30)    /* of one file: the largest that is published has half */
#define PART        ".part"

/* ---- The folder ------------------------------------------------------------------------------ */

/* The path of the folder of the published files. */
static stk_status find_path(stk__download *d, const char *url, stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY];
    stk__url innermost;

    const char *text = stk__url_unwrap(d->context, url, &innermost);
    if (!innermost.local)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "%s: cannot download to %.200s, which is no local folder; download to "
                            "one and copy it there",
                            d->of->kind, url);
    STK_TRY(stk__url_path(&innermost, text, path, sizeof path, err));
    const size_t length = strlen(path);
    const bool slash = *d->of->folder && length && path[length - 1] != '/';
    d->path = stk__format(d->context, "%s%s%s", path, slash ? "/" : "", d->of->folder);
    return d->path ? STK_OK
                   : stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to download to '%s'",
                               path);
}

stk_status stk__download_open(stk__download *d, const char *url, stk_error *err)
{
    const stk__file_calls *calls = d->calls ? d->calls : &stk__file_calls_system;

    d->calls = calls;
    d->path = NULL;
    d->folder = -1;
    d->patience_ns = d->patience_ns ? d->patience_ns : PATIENCE_NS;
    d->room = stk__alloc_buffer(d->context, STK__DOWNLOAD_ROOM);
    stk_status status = d->room ? STK_OK
                                : stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                                            "%s: no memory to download to '%s'", d->of->kind, url);
    if (status == STK_OK)
        status = find_path(d, url, err);
    if (status == STK_OK)
        status = stk__durable_path(d->context, calls, d->path, err);
    if (status == STK_OK) {
        d->folder =
            calls->open(calls->user, AT_FDCWD, d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
        if (d->folder < 0)
            status = stk__durable_fail(err, "open the folder", d->path, errno);
    }
    if (status != STK_OK)
        stk__download_close(d);
    return status;
}

void stk__download_close(stk__download *d)
{
    if (d->room && d->folder >= 0)
        d->calls->close(d->calls->user, d->folder);
    stk__free(d->context, d->path);
    stk__free(d->context, d->room);
    d->path = NULL;
    d->room = NULL;
    d->folder = -1;
}

stk_status stk__download_fail(const stk__download *d, const char *step, const char *name, int error,
                              stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY + NAME_MAX + 2];

    snprintf(path, sizeof path, "%s/%s", d->path, name);
    const stk_status status = stk__durable_fail(err, step, path, error);
    if (err)
        err->stage = STK_STAGE_DATASET;
    return status;
}

stk_status stk__download_wait(stk__download *d, const char *name, uint64_t now, uint64_t *seen,
                              uint64_t *since, stk_error *err)
{
    const uint64_t time = stk__now_ns();

    if (*since == 0)
        stk__message(d->context, STK_MESSAGE_INFO,
                     "%s: waiting for another process that has '%s/%s'", d->of->kind, d->path,
                     name);
    if (*since == 0 || now != *seen)
        *since = time;
    *seen = now;
    if (time - *since >= d->patience_ns)
        return stk__fail_at(err, STK_EBUSY, STK_STAGE_DATASET, name, STK_NO_OFFSET,
                            "%s: another process has '%s/%s' and has done nothing to it for %.0f "
                            "s; end it, and try again",
                            d->of->kind, d->path, name, stk__seconds(time - *since));
    stk__sleep_until(time + STK_MIN(LOOKS_NS, d->patience_ns), NULL);
    return STK_OK;
}

stk_status stk__download_sum(stk__download *d, int fd, uint64_t length, const char *name,
                             stk__md5 *md5, stk_error *err)
{
    for (uint64_t at = 0; at < length;) {
        const uint64_t wanted = STK_MIN(length - at, STK__DOWNLOAD_ROOM);
        const ssize_t n = pread(fd, d->room, (size_t)wanted, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return stk__download_fail(d, "read", name, n < 0 ? errno : EIO, err);
        stk__md5_add(md5, d->room, (size_t)n);
        at += (uint64_t)n;
    }
    return STK_OK;
}

/* ---- One file from one place ----------------------------------------------------------------- */

/* A published file where it is fetched from, and as it is written. */
typedef struct fetching {
    const char *name, *md5;
    char *url;
    stk_store *store;
    char key[STK_MAX_OBJECT_KEY];
    uint64_t size, at; /* bytes in all; written so far */
    stk__durable part;
    bool elsewhere; /* what failed may succeed from another place */
} fetching;

/* What the place said, with what to do. `err` is filled. */
static stk_status blame(stk__download *d, fetching *f, stk_error *err)
{
    char kept[96] = "", said[240];

    const stk_status status = err->status;
    f->elsewhere = stk_status_fault(status) != STK_FAULT_STOKER && status != STK_ENOMEM &&
                   status != STK_ETHREAD && status != STK_EFORK;
    if (!f->elsewhere)
        return status;
    snprintf(said, sizeof said, "%.239s", err->text);
    if (f->at)
        snprintf(kept, sizeof kept, "; %llu bytes are kept, and the next run goes on from there",
                 (unsigned long long)f->at);
    return stk__fail_at(err, status, STK_STAGE_DATASET, f->name, STK_NO_OFFSET,
                        "%s: cannot download %.100s (%s)%s; put it into %.100s by hand, or name "
                        "the URL of a folder that has it with mirror=",
                        d->of->kind, strstr(said, f->url) ? f->name : f->url, said, kept, d->path);
}

static stk_status open_source(stk__download *d, fetching *f, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    STK_TRY(stk_store_open(d->context, f->url, &f->store, f->key, sizeof f->key, err));
    /* Some stores open whatever is not there as a folder. */
    if (!f->key[0])
        return stk__fail(err, STK_ENOENT, STK_STAGE_DATASET, "it is not there, or is a folder");
    STK_TRY(stk_store_stat(f->store, f->key, NULL, &info, err));
    if (info.is_folder || info.size == 0 || info.size > MOST_BYTES)
        return stk__fail(err, STK_EKIND, STK_STAGE_DATASET,
                         "it is a folder, or has not between 1 and %llu bytes",
                         (unsigned long long)MOST_BYTES);
    f->size = info.size;
    return STK_OK;
}

/* Take the part over from whoever had it. *there: somebody else has finished it. */
static stk_status open_part(stk__download *d, fetching *f, bool *there, stk_error *err)
{
    uint64_t seen = 0, since = 0;
    char part[NAME_MAX + 1];
    struct stat st;
    int error;

    snprintf(part, sizeof part, "%s" PART, f->name);
    while ((error = stk__durable_resume(&f->part, d->calls, d->folder, part, f->name, f->size,
                                        &f->at)) == EBUSY) {
        const bool known = fstatat(d->folder, part, &st, AT_SYMLINK_NOFOLLOW) == 0;
        STK_TRY(stk__download_wait(d, part, known ? (uint64_t)st.st_size : 0, &seen, &since, err));
    }
    /* Of another file: the sum would tell, but it is known now. */
    if (error == 0 && f->at > f->size) {
        stk__durable_abandon(&f->part);
        error = stk__durable_resume(&f->part, d->calls, d->folder, part, f->name, f->size, &f->at);
    }
    *there = error == EEXIST;
    return error && !*there ? stk__download_fail(d, f->part.step, part, error, err) : STK_OK;
}

/* Fetch what is missing behind the bytes that are there, and compare the sum of all. */
static stk_status receive(stk__download *d, fetching *f, char sum[STK__MD5_TEXT], stk_error *err)
{
    char what[NAME_MAX + 16];
    stk__md5 md5;

    snprintf(what, sizeof what, "downloading %s", f->name);
    stk__md5_init(&md5);
    STK_TRY(stk__download_sum(d, f->part.fd, f->at, f->name, &md5, err));
    while (f->at < f->size) {
        const uint64_t n = STK_MIN(f->size - f->at, STK__DOWNLOAD_ROOM);
        stk__progress(d->context, what, f->at, f->size);
        if (stk_store_read(f->store, f->key, f->at, n, d->room, err) != STK_OK)
            return blame(d, f, err);
        const int error = stk__durable_write(&f->part, d->room, (size_t)n);
        if (error)
            return stk__download_fail(d, f->part.step, f->name, error, err);
        stk__md5_add(&md5, d->room, (size_t)n);
        f->at += n;
    }
    stk__progress(d->context, what, f->size, f->size);
    stk__md5_text(&md5, sum);
    return STK_OK;
}

/* Everything is there: give it its name, or throw it away. */
static stk_status finish(stk__download *d, fetching *f, const char *sum, stk_error *err)
{
    if (strcmp(sum, f->md5) != 0) {
        stk__durable_abandon(&f->part);
        f->elsewhere = true;
        return stk__fail_at(err, STK_ECHECKSUM, STK_STAGE_DATASET, f->name, STK_NO_OFFSET,
                            "%s: %.200s is not what is published: its MD5 is %s and not %s; the "
                            "%llu bytes have been removed: download it again, or name another "
                            "place with mirror=",
                            d->of->kind, f->url, sum, f->md5, (unsigned long long)f->size);
    }
    const int error = stk__durable_commit(&f->part, f->name);
    if (error && error != EEXIST)
        return stk__download_fail(d, f->part.step, f->name, error, err);
    stk__message(d->context, STK_MESSAGE_INFO, "%s: downloaded %s to '%s/%s'", d->of->kind, f->url,
                 d->path, f->name);
    return STK_OK;
}

static stk_status fetch_from(stk__download *d, const char *mirror, fetching *f, stk_error *err)
{
    char sum[STK__MD5_TEXT];
    bool there = false;

    f->url = stk__url_below(d->context, mirror, f->name);
    if (!f->url)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory to download %s",
                         d->of->kind, f->name);
    stk_status status = open_source(d, f, err);
    if (status != STK_OK)
        status = blame(d, f, err);
    else
        status = open_part(d, f, &there, err);
    if (status == STK_OK && !there) {
        status = receive(d, f, sum, err);
        if (status == STK_OK)
            status = finish(d, f, sum, err);
        else
            stk__durable_leave(&f->part);
    }
    stk_store_close(&f->store);
    stk__free(d->context, f->url);
    return status;
}

/* ---- One file -------------------------------------------------------------------------------- */

stk_status stk__download_fetch(stk__download *d, size_t file, stk_error *err)
{
    const bool own = d->mirror && *d->mirror;
    const char *const mirrors[] = {own ? d->mirror : d->of->mirrors[0],
                                   own ? NULL : d->of->mirrors[1]};
    stk_error errors[STK_COUNT(mirrors)];
    stk_status status = STK_OK;
    struct stat st;

    if (fstatat(d->folder, d->of->files[file].name, &st, 0) == 0)
        return STK_OK;
    for (size_t i = 0; i < STK_COUNT(mirrors) && mirrors[i]; i++) {
        fetching f = {.name = d->of->files[file].name, .md5 = d->of->files[file].md5};
        stk_error_init(&errors[i]);
        status = fetch_from(d, mirrors[i], &f, &errors[i]);
        if (status == STK_OK)
            return STK_OK;
        /* Of several places that failed the first, which is the best known, is the one to tell. */
        const stk_error *told = f.elsewhere ? &errors[0] : &errors[i];
        if (err)
            *err = *told;
        status = told->status;
        if (!f.elsewhere)
            break;
    }
    return status;
}
