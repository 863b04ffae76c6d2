/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datasets that choose among the samples of another one: a range, an index list, a part of a random
 * split. They map indices and pass everything on; bytes are touched by the inner dataset alone.
 */
#include "dataset/view.h"

/* ---- Passing on ---------------------------------------------------------------------------- */

static void view_close(stk_dataset *dataset)
{
    stk__view *view = (stk__view *)dataset;
    stk_dataset *inner = view->inner;

    stk__free(dataset->context, view->list);
    stk__free(dataset->context, view->extra);
    stk__free(dataset->context, view);
    stk_dataset_close(&inner); /* perhaps the last that holds the context */
}

/* The caller's locator, for a piece of a call that begins at sample `shift`. */
typedef struct shifted {
    stk_locator base;
    stk_locator *to;
    size_t shift;
} shifted;

static stk_status shifted_add(stk_locator *self, size_t i, const stk_need *need)
{
    shifted *s = (shifted *)self;

    return s->to->add(s->to, s->shift + i, need);
}

static void shifted_cost(stk_locator *self, size_t i, double nanoseconds)
{
    shifted *s = (shifted *)self;

    s->to->cost(s->to, s->shift + i, nanoseconds);
}

static void shifted_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    shifted *s = (shifted *)self;

    s->to->bytes(s->to, s->shift + i, field, bytes);
}

static bool shifted_same(stk_locator *self, size_t i, size_t like)
{
    shifted *s = (shifted *)self;

    return s->to->same(s->to, s->shift + i, s->shift + like);
}

static size_t shifted_run(stk_locator *self, size_t i, size_t n)
{
    shifted *s = (shifted *)self;

    return s->to->run(s->to, s->shift + i, n);
}

static stk_status view_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                              stk_locator *to, stk_error *err)
{
    const stk__view *view = (const stk__view *)dataset;
    shifted locator = {{sizeof locator.base, shifted_add, shifted_cost, shifted_bytes,
                        to->same ? shifted_same : NULL, to->blocks, to->mixed,
                        to->run ? shifted_run : NULL},
                       to,
                       0};
    uint64_t mapped[STK_VIEW_CHUNK];

    for (size_t done = 0; done < n; done += STK_VIEW_CHUNK) {
        size_t count = STK_MIN(n - done, (size_t)STK_VIEW_CHUNK);

        view->map(view, indices + done, mapped, count);
        locator.shift = done;
        stk_status status =
            view->inner->ops->locate(view->inner, mapped, count, &locator.base, err);
        if (status == STK_OK)
            continue;
        /* The caller knows the sample by its outer index. */
        for (size_t i = 0; err && i < count; i++) {
            if (mapped[i] == err->sample) {
                err->sample = indices[done + i];
                break;
            }
        }
        return status;
    }
    return STK_OK;
}

static size_t view_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                          size_t size)
{
    stk_dataset *inner = ((stk__view *)dataset)->inner;

    return inner->ops->object(inner, object, store, key, size);
}

static stk_status view_decode(stk_dataset *dataset, const stk_need *need, const void *data,
                              void *out, void *worker, const char **reason)
{
    stk_dataset *inner = ((stk__view *)dataset)->inner;

    return inner->ops->decode(inner, need, data, out, worker, reason);
}

static stk_status view_worker_open(stk_dataset *dataset, void **worker)
{
    stk_dataset *inner = ((stk__view *)dataset)->inner;

    return inner->ops->worker_open(inner, worker);
}

static void view_worker_close(stk_dataset *dataset, void *worker)
{
    stk_dataset *inner = ((stk__view *)dataset)->inner;

    inner->ops->worker_close(inner, worker);
}

static void view_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk__view *view = (const stk__view *)dataset;
    uint64_t outer[STK_VIEW_CHUNK], mapped[STK_VIEW_CHUNK];

    for (size_t done = 0; done < n; done += STK_VIEW_CHUNK) {
        size_t count = STK_MIN(n - done, (size_t)STK_VIEW_CHUNK);

        for (size_t i = 0; i < count; i++)
            outer[i] = samples[done + i].index;
        view->map(view, outer, mapped, count);
        for (size_t i = 0; i < count; i++)
            samples[done + i].index = mapped[i];
        view->inner->ops->prepare(view->inner, samples + done, count);
        for (size_t i = 0; i < count; i++)
            samples[done + i].index = outer[i];
    }
}

static void view_prepare_rows(stk_dataset *dataset, stk_rows *rows)
{
    const stk__view *view = (const stk__view *)dataset;
    uint64_t mapped[STK_VIEW_CHUNK];
    stk_rows some = *rows;

    some.indices = mapped;
    for (uint32_t done = 0; done < rows->num; done += some.num) {
        some.num = STK_MIN(rows->num - done, STK_VIEW_CHUNK);
        if (rows->places)
            some.places = rows->places + done;
        some.place = rows->place + done;
        some.statuses = rows->statuses + done;
        some.reasons = rows->reasons + done;
        some.lines = rows->lines + done;
        view->map(view, rows->indices + done, mapped, some.num);
        view->inner->ops->prepare_rows(view->inner, &some);
    }
}

static stk_status view_describe(stk_dataset *dataset,
                                void (*line)(void *user, const char *name, const char *value),
                                void *user, stk_error *err)
{
    const stk__view *view = (const stk__view *)dataset;

    line(user, view->what, view->text);
    if (view->inner->ops->describe)
        return view->inner->ops->describe(view->inner, line, user, err);
    return STK_OK;
}

static const stk_dataset_ops view_ops = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "view",
    .doc = "Samples of another dataset.",
    .close = view_close,
    .locate = view_locate,
    .object = view_object,
    .prepare = view_prepare,
    .describe = view_describe,
    .decode = view_decode,
    .worker_open = view_worker_open,
    .worker_close = view_worker_close,
    .prepare_rows = view_prepare_rows,
};

static int64_t view_label(const stk_dataset *dataset, uint64_t index)
{
    const stk__view *view = (const stk__view *)dataset;
    uint64_t mapped;

    view->map(view, &index, &mapped, 1);
    return view->inner->label(view->inner, mapped);
}

bool stk__is_view(const stk_dataset *dataset)
{
    return dataset->ops->close == view_close;
}

stk_status stk__view_create(stk_dataset *dataset, uint64_t size, const char *what, stk__view **out,
                            stk_error *err)
{
    stk__view *view = stk__calloc(dataset->context, 1, sizeof *view);

    if (!view)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for a %s of a dataset",
                         what);
    view->base = *dataset;
    /* What the inner dataset does without, a need for storage or for decoding, the loader shall see
     * at once. */
    view->ops = view_ops;
    if (!dataset->ops->locate)
        view->ops.locate = NULL, view->ops.object = NULL;
    if (!dataset->ops->locate || !dataset->ops->decode)
        view->ops.decode = NULL;
    if (!dataset->ops->worker_open)
        view->ops.worker_open = NULL, view->ops.worker_close = NULL;
    if (!dataset->ops->prepare_rows)
        view->ops.prepare_rows = NULL;
    view->base.ops = &view->ops;
    view->base.size = size;
    view->base.block_size = 1;
    view->base.block_bytes = 0;
    view->base.mixture = NULL; /* its indices are others */
    view->base.label = dataset->label ? view_label : NULL;
    view->base.holds_context = view->base.created = false;
    atomic_init(&view->base.shares, 0);
    view->base.fingerprint = stk__fingerprint(dataset->fingerprint, what, strlen(what));
    view->what = what;
    *out = view;
    return STK_OK;
}

void stk__view_same_indices(stk__view *view, const stk_dataset *dataset)
{
    view->base.block_size = dataset->block_size;
    view->base.block_bytes = dataset->block_bytes;
    view->base.mixture = dataset->mixture;
}

void stk__view_finish(stk__view *view, stk_dataset **dataset)
{
    view->inner = *dataset;
    *dataset = &view->base;
}
