/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/source.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/url.h"
#include "store/store.h"

#define PIECE (UINT64_C(64) << 20) /* bytes between two looks at whether they are still wanted */

stk_status stk__checkpoint_source_read(const stk__checkpoint_source *source, const char *path,
                                       uint64_t offset, void *to, uint64_t length, stk_error *err)
{
    uint8_t *at = to;

    while (length > 0) {
        ssize_t n = (ssize_t)STK_MIN(length, PIECE);
        if (source->call)
            STK_TRY(stk__store_call_check(source->call, path, err));
        if (source->store)
            STK_TRY(stk_store_read(source->store, source->key, offset, (uint64_t)n, at, err));
        else
            n = pread(source->fd, at, (size_t)n, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return stk__durable_fail(err, "read", path, errno);
        if (n == 0)
            return stk__fail_at(err, STK_ECHANGED, STK_STAGE_TRAIN, path, offset,
                                "'%.300s' became shorter while it was read", path);
        at += n;
        offset += (uint64_t)n;
        length -= (uint64_t)n;
    }
    return STK_OK;
}

static stk_status fail(const char *path, const char *what, const char *why, stk_error *err)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                        "'%.300s' is not %s: it is %s", path, what, why);
}

/* The same in a store. */
static stk_status open_object(stk_context *ctx, const char *url, const char *what,
                              stk__checkpoint_source *out, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    STK_TRY(stk_store_open(ctx, url, &out->store, out->key, sizeof out->key, err));
    if (!out->key[0])
        return fail(url, what, "a folder", err);
    STK_TRY(stk_store_stat(out->store, out->key, NULL, &info, err));
    out->size = info.size;
    return STK_OK;
}

/* Open and look at the size. A FIFO would wait for a writer: not here. */
static stk_status open_regular(const char *path, const char *what, stk__checkpoint_source *out,
                               stk_error *err)
{
    struct stat st;

    out->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (out->fd < 0)
        return stk__durable_fail(err, "open", path, errno);
    if (fstat(out->fd, &st) < 0)
        return stk__durable_fail(err, "open", path, errno);
    if (!S_ISREG(st.st_mode))
        return fail(path, what, S_ISDIR(st.st_mode) ? "a folder" : "no file", err);
    out->size = (uint64_t)st.st_size;
    return STK_OK;
}

static stk_status open_local(stk_context *ctx, const char *path, const char *what,
                             stk__checkpoint_source *out, stk_error *err)
{
    char *local;

    STK_TRY(stk__url_local(ctx, path, &local, err));
    const stk_status status = open_regular(local, what, out, err);
    stk__free(ctx, local);
    return status;
}

stk_status stk__checkpoint_source_open(stk_context *ctx, const char *path, const char *what,
                                       stk__checkpoint_source *out, stk_error *err)
{
    *out = (stk__checkpoint_source){.fd = -1};
    const stk_status status = stk__url_elsewhere(ctx, path) ? open_object(ctx, path, what, out, err)
                                                            : open_local(ctx, path, what, out, err);
    if (status != STK_OK)
        stk__checkpoint_source_close(out);
    return status;
}

void stk__checkpoint_source_close(stk__checkpoint_source *source)
{
    if (source->fd >= 0)
        close(source->fd);
    source->fd = -1;
    stk_store_close(&source->store);
}
