/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that a format reads by itself, as a store: its objects are the chunks, named by their
 * coordinates ("0.3.1"), so that everything which reads arrays reads them in the same way.
 *
 * A read ends within submit(), on the thread that sends it. One of a part of a chunk reads the
 * chunk whole and keeps it for the parts that follow. This store asks for no such reads: the limit
 * that cuts large chunks is the one that read.c puts on what a reading has in flight.
 */
#include "array/room.h"

#include "base/table.h"

#define NO_CHUNK UINT64_MAX
/* Nothing lies behind a chunk that would be worth reading along, and no piece of one is cheaper. */
#define GAP   (UINT64_C(1) << 16)
#define DEPTH 64

static const stk_store_ops chunk_ops;

typedef struct chunk_store {
    stk_store base;
    const stk_array *array; /* which outlives it */
    pthread_mutex_t mutex;  /* guards the rest */
    uint64_t held;          /* number of the chunk in `chunk`, or NO_CHUNK */
    unsigned char *chunk;   /* NULL: none was read in part, or a thread has taken it */
} chunk_store;

/* The part of a chunk that lies in the array. True: all of it. */
static bool cut(const stk_array *a, const int64_t *at, stk__box *box)
{
    bool whole = true;

    for (uint32_t d = 0; d < a->rank; d++) {
        const int64_t size = a->levels[0].shape[d];
        box->start[d] = at[d] * size;
        box->shape[d] = STK_MIN(size, a->shape[d] - box->start[d]);
        box->step[d] = 1;
        whole = whole && box->shape[d] == size;
    }
    return whole;
}

static bool is_canceled(void *user)
{
    const stk_read *read = user;

    return read->canceled && read->canceled(read);
}

/* Call read() of the format on behalf of `read`. A read of a store has a status alone, so that the
 * text of a failure becomes a message. */
static stk_status call(const stk_array *a, const stk__box *box, stk_read *read, void *out,
                       uint64_t bytes)
{
    const stk_store_call wishes = {.struct_size = sizeof wishes,
                                   .deadline_ns = read->deadline_ns,
                                   .canceled = is_canceled,
                                   .user = read};
    stk_error err;

    stk_error_init(&err);
    stk_status status = a->ops->read(a->state, box->start, box->shape, &wishes, out, bytes, &err);
    if (status > 0)
        status = stk__fail(&err, STK_EINVAL, STK_STAGE_ARRAY,
                           "read() of the stk_array_format_ops of '%.64s' gave %s, which is an "
                           "answer: it has to give STK_OK or a failure",
                           a->ops->name, stk_status_name(status));
    if (status != STK_OK && status != STK_ENOENT && status != STK_ECANCELED && *err.text)
        stk__message(a->context, STK_MESSAGE_WARNING, "%s: %s", a->metadata_key, err.text);
    return status;
}

static stk_status read_chunk(const stk_array *a, const int64_t *at, uint64_t number, stk_read *read,
                             void *out)
{
    const stk__need need = {.chunk = number, .decode_size = a->chunk_bytes};
    int64_t strides[STK_ARRAY_MAX_RANK];
    uint64_t bytes;
    stk__box box;

    if (cut(a, at, &box))
        return call(a, &box, read, out, a->chunk_bytes);
    if (!stk__shape_bytes(box.shape, a->rank, a->type.itemsize, &bytes))
        return STK_ELIMIT;
    unsigned char *part = stk__alloc_buffer(a->context, bytes);
    if (!part)
        return STK_ENOMEM;
    const stk_status status = call(a, &box, read, part, bytes);
    if (status == STK_OK) {
        memset(out, 0, a->chunk_bytes);
        stk__array_strides(a->rank, box.shape, a->type.itemsize, strides);
        stk__array_gather(a, &box, &need, part, strides, out);
    }
    stk__free(a->context, part);
    return status;
}

/* The kept chunk, which is then this thread's alone; NULL: there is none, or another has it. */
static unsigned char *take_chunk(chunk_store *s, uint64_t *held)
{
    pthread_mutex_lock(&s->mutex);
    unsigned char *chunk = s->chunk;
    *held = s->held;
    s->chunk = NULL;
    s->held = NO_CHUNK;
    pthread_mutex_unlock(&s->mutex);
    return chunk;
}

/* Keep a chunk that is known in place of one that is not; the other one is freed. */
static void give_chunk(chunk_store *s, unsigned char *chunk, uint64_t number)
{
    unsigned char *other = chunk;

    pthread_mutex_lock(&s->mutex);
    if (!s->chunk || number != NO_CHUNK) {
        other = s->chunk;
        s->chunk = chunk;
        s->held = number;
    }
    pthread_mutex_unlock(&s->mutex);
    stk__free(s->array->context, other);
}

static stk_status read_part(chunk_store *s, const int64_t *at, uint64_t number, stk_read *read)
{
    const stk_array *a = s->array;
    stk_status status = STK_OK;
    uint64_t held = NO_CHUNK;

    unsigned char *chunk = take_chunk(s, &held);
    if (!chunk)
        chunk = stk__alloc_buffer(a->context, a->chunk_bytes);
    if (!chunk)
        return STK_ENOMEM;
    if (held != number)
        status = read_chunk(a, at, number, read, chunk);
    if (status == STK_OK)
        memcpy(read->data, chunk + read->offset, read->length);
    give_chunk(s, chunk, status == STK_OK ? number : NO_CHUNK);
    return status;
}

static stk_status chunk_submit(stk_store *store, stk_read *read)
{
    chunk_store *s = (chunk_store *)store;
    int64_t at[STK_ARRAY_MAX_RANK];
    stk_status status = STK_OK;
    uint64_t number;

    const uint64_t size = s->array->chunk_bytes;
    uint64_t length = STK_MIN(read->length, size - STK_MIN(read->offset, size));

    read->system_error = 0;
    if (!stk__array_key_parse(s->array, read->key, at, &number))
        status = STK_ENOENT;
    else if (length < read->length && !read->up_to)
        status = STK_ETRUNCATED;
    else if (read->offset == 0 && length == size)
        status = read_chunk(s->array, at, number, read, read->data);
    else if (length)
        status = read_part(s, at, number, read);
    if (read->up_to)
        read->got = length;
    read->done(read, status);
    return STK_OK;
}

/* Every read has ended within submit(), and asks there whether it is canceled. */
static void chunk_cancel(stk_store *store, stk_read *read)
{
    (void)store, (void)read;
}

/* A chunk is as new as the object that was opened. */
static stk_status chunk_stat(stk_store *store, const char *key, const stk_store_call *call_,
                             stk_object_info *out, stk_error *err)
{
    const stk_array *a = ((chunk_store *)store)->array;
    int64_t at[STK_ARRAY_MAX_RANK];
    uint64_t number;

    if (!stk__array_key_parse(a, key, at, &number))
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "'%.200s' is no chunk of %.200s", key, a->metadata_key);
    STK_TRY(stk_store_stat(a->home->store, a->object_key, call_, out, err));
    out->size = a->chunk_bytes;
    out->is_folder = false;
    return STK_OK;
}

static void chunk_limits(stk_store *store, stk_store_limits *out)
{
    (void)store;
    out->coalesce_gap = GAP;
    out->max_read = 0;
    out->io_depth = DEPTH;
}

static void chunk_close(stk_store *store)
{
    chunk_store *s = (chunk_store *)store;
    stk_context *ctx = store->context;

    if (stk__context_forked(ctx))
        return;
    pthread_mutex_destroy(&s->mutex);
    stk__free(ctx, s->chunk);
    stk__free(ctx, s);
    stk__context_unref(ctx);
}

static const stk_store_ops chunk_ops = {
    .struct_size = sizeof(stk_store_ops),
    .name = "chunks",
    .close = chunk_close,
    .submit = chunk_submit,
    .cancel = chunk_cancel,
    .stat = chunk_stat,
    .limits = chunk_limits,
};

stk_status stk__array_read_by_format(stk_array *a, stk_error *err)
{
    chunk_store *s = stk__calloc(a->context, 1, sizeof *s);
    stk__shared_store *shared;

    if (!s)
        return stk__array_no_memory(a, err);
    s->base = (stk_store){.ops = &chunk_ops, .context = stk__context_ref(a->context)};
    s->array = a;
    s->held = NO_CHUNK;
    pthread_mutex_init(&s->mutex, NULL);
    STK_TRY(stk__shared_create(&(stk_store *){&s->base}, &shared, err));
    a->home = a->shared;
    a->shared = shared;
    a->manifest = STK__MANIFEST_READ;
    a->separator = '.';
    return STK_OK;
}
