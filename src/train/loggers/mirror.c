/* SPDX-License-Identifier: Apache-2.0 */
#include "train/loggers/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <stoker/store.h>

#include "base/durable.h"
#include "base/files.h"
#include "base/registry.h"

#define PIECE_BYTES ((size_t)1 << 20) /* of one write or read of the store */
#define FOLDER      "/tmp/stoker-log-XXXXXX"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a log");
}

/* Move bytes from the file into the put, to the end. */
static stk_status copy_out(stk__mirror *m, int fd, stk_put *put, stk_error *err)
{
    stk_status status = STK_OK;
    ssize_t n = 1;

    char *piece = stk__alloc(m->ctx, PIECE_BYTES);
    if (!piece)
        return no_memory(err);
    while (status == STK_OK && n != 0) {
        n = read(fd, piece, PIECE_BYTES);
        if (n > 0)
            status = put->ops->write(put, piece, (size_t)n, err);
        else if (n < 0 && errno != EINTR)
            status = stk__durable_fail(err, "read", m->path, errno);
    }
    stk__free(m->ctx, piece);
    return status;
}

static stk_status put_file(stk__mirror *m, stk_error *err)
{
    stk_put *put = NULL;

    const int fd = open(m->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return stk__durable_fail(err, "read", m->path, errno);
    stk_status status = stk_put_open(m->ctx, m->url, NULL, &put, err);
    if (status == STK_OK) {
        status = copy_out(m, fd, put, err);
        if (status == STK_OK)
            status = put->ops->commit(put, err);
        else
            put->ops->abandon(put);
    }
    close(fd);
    return status;
}

static stk_status copy_in(stk__mirror *m, stk_store *store, const char *key, uint64_t size,
                          stk_error *err)
{
    stk_status status = STK_OK;

    char *piece = stk__alloc(m->ctx, PIECE_BYTES);
    const int fd = open(m->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (!piece || fd < 0)
        status = fd < 0 ? stk__durable_fail(err, "write", m->path, errno) : no_memory(err);
    for (uint64_t at = 0; at < size && status == STK_OK; at += PIECE_BYTES) {
        const size_t n = (size_t)STK_MIN(size - at, PIECE_BYTES);
        status = stk_store_read(store, key, at, n, piece, err);
        for (size_t done = 0; done < n && status == STK_OK;) {
            const ssize_t wrote = write(fd, piece + done, n - done);
            if (wrote < 0 && errno != EINTR)
                status = stk__durable_fail(err, "write", m->path, errno);
            done += wrote > 0 ? (size_t)wrote : 0;
        }
    }
    if (fd >= 0)
        close(fd);
    stk__free(m->ctx, piece);
    return status;
}

/* What the object holds already, if it is there. */
static stk_status fetch(stk__mirror *m, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    stk_error missing;

    stk_status status = stk_store_open(m->ctx, m->url, &store, key, sizeof key, &missing);
    if (status == STK_ENOENT)
        return STK_OK;
    if (status != STK_OK) {
        if (err)
            *err = missing;
        return status;
    }
    status = stk_store_stat(store, key, NULL, &info, err);
    if (status == STK_OK)
        status = copy_in(m, store, key, info.size, err);
    stk_store_close(&store);
    return status;
}

static void forget(stk__mirror *m)
{
    stk__free(m->ctx, m->path);
    stk__free(m->ctx, m->folder);
    stk__free(m->ctx, m->url);
    *m = (stk__mirror){0};
}

void stk__mirror_drop(stk__mirror *m)
{
    if (!m->ctx)
        return;
    if (m->path)
        stk__remove_path(m->path);
    if (m->folder)
        stk__remove_folder_path(m->folder);
    forget(m);
}

stk_status stk__mirror_open(stk_context *ctx, const char *url, stk__mirror *out, stk_error *err)
{
    char folder[] = FOLDER;

    *out = (stk__mirror){.ctx = ctx, .due_ns = stk__now_ns() + STK__MIRROR_NS};
    if (!mkdtemp(folder))
        return stk__durable_fail(err, "make the folder", folder, errno);
    out->folder = stk__strdup(ctx, folder);
    if (!out->folder)
        stk__remove_folder_path(folder);
    out->url = stk__strdup(ctx, url);
    out->path = stk__format(ctx, "%s/log", folder);
    stk_status status = out->folder && out->url && out->path ? fetch(out, err) : no_memory(err);
    if (status != STK_OK)
        stk__mirror_drop(out);
    return status;
}

stk_status stk__mirror_take(stk_context *ctx, char **path, stk__mirror *out, stk_error *err)
{
    if (!stk__driver_names_store(ctx, *path))
        return STK_OK;
    STK_TRY(stk__mirror_open(ctx, *path, out, err));
    char *local = stk__strdup(ctx, out->path);
    if (!local) {
        stk__mirror_drop(out);
        return no_memory(err);
    }
    stk__free(ctx, *path);
    *path = local;
    return STK_OK;
}

void stk__mirror_tick(stk__mirror *m)
{
    stk_error err;

    if (!m->url || stk__now_ns() < m->due_ns)
        return;
    if (put_file(m, &err) != STK_OK && !m->warned) {
        m->warned = true;
        stk__message(m->ctx, STK_MESSAGE_WARNING, "a log is tried again later: %s", err.text);
    }
    m->due_ns = stk__now_ns() + STK__MIRROR_NS;
}

stk_status stk__mirror_close(stk__mirror *m, stk_error *err)
{
    if (!m->url)
        return STK_OK;
    const stk_status status = put_file(m, err);
    if (status == STK_OK) {
        stk__mirror_drop(m);
        return STK_OK;
    }
    stk__message(m->ctx, STK_MESSAGE_WARNING, "what was logged stays in '%s'", m->path);
    forget(m);
    return status;
}
