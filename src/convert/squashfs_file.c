/* SPDX-License-Identifier: Apache-2.0 */
/* The file of an image: appended to in large pieces, read back, shortened. */
#include <errno.h>
#include <unistd.h>

#include "convert/squashfs.h"

#define BUFFER (UINT64_C(1) << 20)

static stk_status fail(const stk__squashfs_file *f, const char *step, int error, stk_error *err)
{
    return stk__one_file_fail(&f->file, step, error, err);
}

stk_status stk__squashfs_file_begin(stk__squashfs_file *f, const stk_conversion_job *job,
                                    stk_error *err)
{
    f->context = job->context;
    f->buffer = stk__alloc(job->context, BUFFER);
    if (!f->buffer)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to write an image");
    STK_TRY(stk__one_file_begin(&f->file, job, "SquashFS", err));
    return stk__one_file_open(&f->file, &f->back, err);
}

static stk_status write_out(stk__squashfs_file *f, const void *data, uint64_t length,
                            stk_error *err)
{
    const int error = stk__durable_write(&f->file.durable, data, length);

    if (error)
        return fail(f, f->file.durable.step, error, err);
    f->written += length;
    f->most = STK_MAX(f->most, f->written);
    return STK_OK;
}

static stk_status flush(stk__squashfs_file *f, stk_error *err)
{
    const uint64_t length = f->buffered;

    f->buffered = 0;
    return length ? write_out(f, f->buffer, length, err) : STK_OK;
}

stk_status stk__squashfs_append(stk__squashfs_file *f, const void *data, uint64_t length,
                                stk_error *err)
{
    if (length > BUFFER - f->buffered)
        STK_TRY(flush(f, err));
    if (length > BUFFER)
        return write_out(f, data, length, err);
    if (length)
        memcpy(f->buffer + f->buffered, data, length);
    f->buffered += length;
    return STK_OK;
}

static stk_status seek(stk__squashfs_file *f, uint64_t to, stk_error *err)
{
    if (lseek(f->file.durable.fd, (off_t)to, SEEK_SET) < 0)
        return fail(f, "write", errno, err);
    f->written = to;
    return STK_OK;
}

stk_status stk__squashfs_rewind(stk__squashfs_file *f, uint64_t to, stk_error *err)
{
    if (to >= f->written) {
        f->buffered = to - f->written;
        return STK_OK;
    }
    f->buffered = 0;
    return seek(f, to, err);
}

stk_status stk__squashfs_read(stk__squashfs_file *f, uint64_t at, uint64_t length, void *out,
                              stk_error *err)
{
    uint8_t *to = out;

    while (length && at < f->written) {
        const uint64_t n = STK_MIN(length, f->written - at);
        const ssize_t got = pread(f->back, to, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail(f, "read back", got < 0 ? errno : EIO, err);
        at += (uint64_t)got;
        to += got;
        length -= (uint64_t)got;
    }
    if (length)
        memcpy(to, f->buffer + (at - f->written), length);
    return STK_OK;
}

stk_status stk__squashfs_head(stk__squashfs_file *f, const void *data, uint64_t length,
                              stk_error *err)
{
    STK_TRY(flush(f, err));
    const uint64_t end = f->written;
    if (f->most > end && ftruncate(f->file.durable.fd, (off_t)end) != 0)
        return fail(f, "write", errno, err);
    STK_TRY(seek(f, 0, err));
    STK_TRY(write_out(f, data, length, err));
    f->written = end;
    return STK_OK;
}

stk_status stk__squashfs_file_commit(stk__squashfs_file *f, stk_error *err)
{
    return stk__one_file_commit(&f->file, err);
}

void stk__squashfs_file_close(stk__squashfs_file *f)
{
    if (f->back >= 0)
        close(f->back);
    f->back = -1;
    stk__one_file_close(&f->file);
    stk__free(f->context, f->buffer);
    f->buffer = NULL;
}
