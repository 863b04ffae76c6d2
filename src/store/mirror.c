/* SPDX-License-Identifier: Apache-2.0 */
#include "store/mirror.h"

#include <errno.h>
#include <stdlib.h>

#include "base/durable.h"
#include "base/url.h"

#define FOLDER "/tmp/stoker-log-XXXXXX"
/* What a put may take, and more for its size: it is tried again, and an end may be near. */
#define PATIENCE_NS UINT64_C(10000000000)

static void forget(stk_mirror *m)
{
    stk_context *ctx = m->ctx;

    stk__put_place_close(&m->place);
    stk__free(ctx, m->path);
    stk__free(ctx, m->folder);
    stk__free(ctx, m->url);
    stk__free(ctx, m);
    stk__context_unref(ctx);
}

static void remove_file(const stk_mirror *m)
{
    if (m->path)
        stk__remove_path(m->path);
    if (m->folder)
        stk__remove_folder_path(m->folder);
}

/* What the object holds already, if it is there. */
static stk_status fetch(stk_mirror *m, stk_error *err)
{
    stk__put_place file = {.context = m->ctx};
    stk_error own;

    const stk_status status = stk__url_copy(&file, m->url, m->path, &own);
    stk__put_place_close(&file);
    if (status == STK_ENOENT)
        return STK_OK;
    if (status != STK_OK && err)
        *err = own;
    if (status == STK_OK && stat(m->path, &m->was) < 0)
        return stk__durable_fail(err, "read", m->path, errno);
    return status;
}

/* The temporary file for the object of another store. */
static stk_status make_file(stk_mirror *m, const char *url, stk_error *err)
{
    char folder[] = FOLDER;

    if (!mkdtemp(folder))
        return stk__durable_fail(err, "make the folder", folder, errno);
    m->url = stk__strdup(m->ctx, url);
    m->path = stk__format(m->ctx, "%s/log", folder);
    m->folder = stk__strdup(m->ctx, folder);
    if (m->url && m->path && m->folder)
        return fetch(m, err);
    stk__remove_folder_path(folder);
    return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for the log '%.200s'", url);
}

stk_status stk_mirror_open(stk_context *context, const char *url, stk_mirror **out, stk_error *err)
{
    if (!context || !url || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "stk_mirror_open: an argument is NULL");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk_mirror *m = stk__calloc(context, 1, sizeof *m);
    if (!m)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for the log '%.200s'", url);
    m->ctx = stk__context_ref(context);
    m->place.context = context;
    m->place.patience_ns = PATIENCE_NS;
    m->due_ns = stk__now_ns() + STK__MIRROR_NS;
    const stk_status status = stk__url_elsewhere(context, url)
                                  ? make_file(m, url, err)
                                  : stk__url_local(context, url, &m->path, err);
    if (status != STK_OK) {
        if (m->folder)
            remove_file(m);
        forget(m);
        return status;
    }
    *out = m;
    return STK_OK;
}

const char *stk_mirror_path(const stk_mirror *mirror)
{
    return mirror->path;
}

/* Put it where it has changed; what is not there, or was made and is empty, has not. */
static stk_status put_changed(stk_mirror *m, stk_error *err)
{
    struct stat is;

    if (stat(m->path, &is) < 0 ||
        (is.st_size == m->was.st_size &&
         (is.st_size == 0 || (is.st_mtim.tv_sec == m->was.st_mtim.tv_sec &&
                              is.st_mtim.tv_nsec == m->was.st_mtim.tv_nsec))))
        return STK_OK;
    STK_TRY(stk__url_copy(&m->place, m->path, m->url, err));
    m->was = is;
    m->due_ns = stk__now_ns() + STK__MIRROR_NS;
    return STK_OK;
}

/* What fails in between is a warning, once. */
static void tick(stk_mirror *m)
{
    stk_error err;

    if (stk__now_ns() < m->due_ns)
        return;
    if (put_changed(m, &err) != STK_OK && !m->warned) {
        m->warned = true;
        stk__message(m->ctx, STK_MESSAGE_WARNING, "a log is tried again later: %s", err.text);
    }
    m->due_ns = stk__now_ns() + STK__MIRROR_NS;
}

stk_status stk_mirror_flush(stk_mirror *mirror, bool now, stk_error *err)
{
    STK_TRY(stk__context_check(mirror->ctx, err));
    if (mirror->url && now)
        return put_changed(mirror, err);
    if (mirror->url)
        tick(mirror);
    return STK_OK;
}

void stk__mirror_drop(stk_mirror **mirror)
{
    if ((*mirror)->url)
        remove_file(*mirror);
    forget(*mirror);
    *mirror = NULL;
}

stk_status stk_mirror_close(stk_mirror **mirror, stk_error *err)
{
    stk_status status = STK_OK;
    stk_mirror *m = *mirror;

    *mirror = NULL;
    if (!m || stk__context_forked(m->ctx))
        return STK_OK;
    if (m->url) {
        status = put_changed(m, err);
        if (status == STK_OK)
            remove_file(m);
        else
            stk__message(m->ctx, STK_MESSAGE_WARNING, "what was logged stays in '%s'", m->path);
    }
    forget(m);
    return status;
}
