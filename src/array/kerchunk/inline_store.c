/* SPDX-License-Identifier: Apache-2.0 */
/* A store with one object more: bytes that a document of references holds itself. */
#include "array/kerchunk/kerchunk.h"

typedef struct inline_store {
    stk_store base;
    stk__shared_store *files;
    stk__text bytes;
    char key[];
} inline_store;

static bool is_inline(const inline_store *s, const char *key)
{
    return key && strcmp(key, s->key) == 0;
}

static stk_status inline_submit(stk_store *store, stk_read *read)
{
    inline_store *s = (inline_store *)store;

    if (!is_inline(s, read->key))
        return s->files->store->ops->submit(s->files->store, read);
    const uint64_t size = s->bytes.length;
    const uint64_t length = STK_MIN(read->length, size - STK_MIN(read->offset, size));
    read->system_error = 0;
    if (length)
        memcpy(read->data, s->bytes.bytes + read->offset, length);
    if (read->up_to)
        read->got = length;
    read->done(read, length < read->length && !read->up_to ? STK_ETRUNCATED : STK_OK);
    return STK_OK;
}

static void inline_cancel(stk_store *store, stk_read *read)
{
    const inline_store *s = (inline_store *)store;

    if (!is_inline(s, read->key))
        s->files->store->ops->cancel(s->files->store, read);
}

static stk_status inline_stat(stk_store *store, const char *key, const stk_store_call *call,
                              stk_object_info *out, stk_error *err)
{
    const inline_store *s = (inline_store *)store;

    if (!is_inline(s, key))
        return s->files->store->ops->stat(s->files->store, key, call, out, err);
    out->size = s->bytes.length;
    out->is_folder = false;
    return STK_OK;
}

static void inline_limits(stk_store *store, stk_store_limits *out)
{
    stk__store_limits(((inline_store *)store)->files->store, out);
    out->ends = false;
}

static stk_status inline_read_now(stk_store *store, const char *key, uint64_t offset,
                                  uint64_t length, void *data)
{
    const inline_store *s = (inline_store *)store;

    return !is_inline(s, key) && stk__store_read_now(s->files->store, key, offset, length, data)
               ? STK_OK
               : STK_EAGAIN;
}

static void inline_close(stk_store *store)
{
    inline_store *s = (inline_store *)store;
    stk_context *ctx = store->context;

    if (stk__context_forked(ctx))
        return;
    stk__shared_unref(s->files);
    stk__text_release(&s->bytes);
    stk__free(ctx, s);
    stk__context_unref(ctx);
}

static const stk_store_ops inline_ops = {
    .struct_size = sizeof(stk_store_ops),
    .name = "references",
    .close = inline_close,
    .submit = inline_submit,
    .cancel = inline_cancel,
    .stat = inline_stat,
    .limits = inline_limits,
    .read_now = inline_read_now,
};

stk_status stk__inline_store(stk__shared_store *files, const char *key, stk__text *bytes,
                             stk__shared_store **out, stk_error *err)
{
    stk_context *ctx = files->store->context;
    inline_store *s = stk__calloc(ctx, 1, sizeof *s + strlen(key) + 1);

    *out = NULL;
    if (!s)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "no memory for the references of %s", key);
    s->base = (stk_store){.ops = &inline_ops, .context = stk__context_ref(ctx)};
    s->files = stk__shared_ref(files);
    s->bytes = *bytes;
    *bytes = (stk__text){.ctx = ctx};
    memcpy(s->key, key, strlen(key) + 1);
    return stk__shared_create(&(stk_store *){&s->base}, out, err);
}
