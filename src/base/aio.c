/* SPDX-License-Identifier: Apache-2.0 */
/* What both engines of asynchronous reads share: the choice between them, and lists of reads. */
#include "base/aio.h"

#include <errno.h>

#define AIO_MAX_DEPTH 4096

static stk_status create_uring(stk_context *ctx, uint32_t depth, stk__aio **out, stk_error *err)
{
#ifdef STK_WITH_URING
    return stk__aio_uring_create(ctx, depth, out, err);
#else
    (void)ctx, (void)depth, (void)out;
    return stk__fail(
        err, STK_ENOTSUP, STK_STAGE_STORE,
        "io_engine `uring`: built without io_uring; install liburing and build again, or "
        "use `threads`");
#endif
}

stk_status stk__aio_create(stk_context *ctx, stk_io_engine engine, uint32_t depth, stk__aio **out,
                           stk_error *err)
{
    *out = NULL;
    if (depth < 1 || depth > AIO_MAX_DEPTH)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "the depth of an I/O engine is 1 to %d reads, not %u", AIO_MAX_DEPTH,
                         (unsigned)depth);
    if (engine == STK_IO_URING)
        return create_uring(ctx, depth, out, err);
    if (engine == STK_IO_AUTO) {
        stk_error why;
        stk_status status = create_uring(ctx, depth, out, &why);
        if (status == STK_OK)
            return STK_OK;
        stk__message(ctx, STK_MESSAGE_DEBUG, "reading with threads: %s", why.text);
    }
    return stk__aio_threads_create(ctx, depth, out, err);
}

void stk__aio_destroy(stk__aio **aio)
{
    if (!aio || !*aio)
        return;
    /* In a child of the process that made it, its threads do not exist and its locks may be held
     * for ever: what the engine holds is left to the end of the child. */
    if (!stk__context_forked((*aio)->context))
        (*aio)->ops->destroy(*aio);
    *aio = NULL;
}

stk_status stk__aio_submit(stk__aio *aio, stk__aio_read *read)
{
    uint64_t end;

    if (!stk__add_size(read->offset, read->length, &end) || end > INT64_MAX)
        return STK_EINVAL;
    read->got = 0;
    read->next = read->prev = NULL;
    read->retries = 0;
    read->state = STK__AIO_IDLE;
    if (read->length == 0) {
        read->done(read, STK_OK, 0);
        return STK_OK;
    }
    return aio->ops->submit(aio, read);
}

void stk__aio_cancel(stk__aio *aio, stk__aio_read *read)
{
    aio->ops->cancel(aio, read);
}

void stk__aio_push(stk__aio_list *list, stk__aio_read *read)
{
    read->next = NULL;
    read->prev = list->tail;
    if (list->tail)
        list->tail->next = read;
    else
        list->head = read;
    list->tail = read;
}

void stk__aio_unlink(stk__aio_list *list, stk__aio_read *read)
{
    if (read->prev)
        read->prev->next = read->next;
    else
        list->head = read->next;
    if (read->next)
        read->next->prev = read->prev;
    else
        list->tail = read->prev;
    read->next = read->prev = NULL;
}

uint64_t stk__aio_expire(stk__aio_list *list, uint64_t now_ns, stk__aio_list *out)
{
    uint64_t nearest = UINT64_MAX;

    for (stk__aio_read *read = list->head, *next; read; read = next) {
        next = read->next;
        if (!read->deadline_ns)
            continue;
        if (read->deadline_ns > now_ns) {
            nearest = STK_MIN(nearest, read->deadline_ns);
            continue;
        }
        stk__aio_unlink(list, read);
        read->state = STK__AIO_IDLE;
        stk__aio_push(out, read);
    }
    return nearest;
}

void stk__aio_finish(stk__aio_list *list, stk_status status, int system_error)
{
    /* done() may free the read or submit it again: nothing of it is touched afterwards. */
    for (stk__aio_read *read = list->head, *next; read; read = next) {
        next = read->next;
        read->done(read, status, system_error);
    }
    list->head = list->tail = NULL;
}

stk_status stk__aio_status(int system_error)
{
    stk_status status = stk__status_of_errno(system_error);

    /* A name was given by the data, not by a caller. */
    if (system_error == EISDIR)
        return STK_EKIND;
    if (system_error == ELOOP || system_error == ENAMETOOLONG)
        return STK_ELIMIT;
    return status < STK_OK ? status : STK_EIO;
}
