/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between the library and its process, none of which waits longer than the caller does. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "array/libhdf5/child.h"

#define LOOK_MS 50 /* how often a caller that may cancel is asked */
/* A process that says nothing for so long, for each second that it may compute, is stopped or waits
 * for ever. */
#define SILENCE_NS UINT64_C(10000000000)

/* ---- Loss ---- */

/* End the process, whose socket is at an unknown place; the signal that ended it, 0: none. */
static int lose(stk__libhdf5 *h, bool by_force, char *how, size_t size)
{
    if (h->socket >= 0)
        close(h->socket);
    h->socket = -1;
    return stk__libhdf5_reap(h, by_force, how, size);
}

/* Where a file is read it is at fault, unless the process was killed from without. */
static stk_status gone(stk__libhdf5 *h, stk_error *err)
{
    char how[64];

    const bool killed = lose(h, false, how, sizeof how) == SIGKILL;
    if (h->key && !killed)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, h->key, STK_NO_OFFSET,
                            "libhdf5, in the process stoker-hdf5, %s while it was at work on "
                            "'%.200s': the file may be damaged",
                            how, h->key);
    return stk__fail(err, STK_ESYSTEM, STK_STAGE_ARRAY, "libhdf5, in the process stoker-hdf5, %s%s",
                     how, killed ? ": the kernel does so when memory runs out" : "");
}

stk_status stk__libhdf5_nonsense(stk__libhdf5 *h, stk_error *err)
{
    char how[64];

    (void)lose(h, true, how, sizeof how);
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, h->key ? h->key : "", STK_NO_OFFSET,
                        "the process stoker-hdf5 said what makes no sense, and was ended: the file "
                        "may be made to misuse it");
}

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to speak with stoker-hdf5");
}

bool stk__libhdf5_has_ended(const stk__libhdf5 *h)
{
    struct pollfd polled = {.fd = h->socket, .events = POLLIN};

    return poll(&polled, 1, 0) > 0; /* between two calls it says nothing */
}

/* ---- Bytes ---- */

/* Wait until the socket is ready. Once the caller does not wait any longer the process is ended. */
static stk_status wait_ready(stk__libhdf5 *h, short events, const stk_store_call *call,
                             stk_error *err)
{
    const uint64_t silent_ns = stk__now_ns() + h->limits.seconds * SILENCE_NS;
    struct pollfd polled = {.fd = h->socket, .events = events};
    stk_status status = STK_OK;
    char how[64];

    while (status == STK_OK) {
        const int n = poll(&polled, 1, LOOK_MS);
        if (n > 0)
            return STK_OK;
        if (n < 0 && errno != EINTR)
            return stk__libhdf5_nonsense(h, err);
        status =
            stk__store_call_check(call ? call : &stk__store_call_none, h->key ? h->key : "", err);
        if (status == STK_OK && stk__now_ns() > silent_ns)
            status =
                stk__fail(err, STK_ETIMEDOUT, STK_STAGE_ARRAY,
                          "the process stoker-hdf5 has not answered for %llu s and was ended",
                          (unsigned long long)(h->limits.seconds * (SILENCE_NS / 1000000000u)));
    }
    (void)lose(h, true, how, sizeof how);
    return status;
}

static stk_status give(stk__libhdf5 *h, const void *from, uint64_t length,
                       const stk_store_call *call, stk_error *err)
{
    for (const char *at = from; length;) {
        const ssize_t n =
            send(h->socket, at, STK_MIN(length, STK__WIRE_PIECE), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            length -= (uint64_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            STK_TRY(wait_ready(h, POLLOUT, call, err));
        } else {
            return gone(h, err);
        }
    }
    return STK_OK;
}

static stk_status take(stk__libhdf5 *h, void *to, uint64_t length, const stk_store_call *call,
                       stk_error *err)
{
    for (char *at = to; length;) {
        const ssize_t n = recv(h->socket, at, length, MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            length -= (uint64_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            STK_TRY(wait_ready(h, POLLIN, call, err));
        } else {
            return gone(h, err);
        }
    }
    return STK_OK;
}

/* ---- Frames ---- */

static bool grow(stk__wire_out *out, size_t more)
{
    stk__bytes *made = out->user;

    made->length = out->length;
    if (!stk__bytes_reserve(made, more))
        return false;
    out->bytes = (unsigned char *)made->data;
    out->room = made->room;
    return true;
}

stk__wire_out stk__libhdf5_payload(stk__libhdf5 *h)
{
    h->made.ctx = h->ctx;
    return (stk__wire_out){.bytes = (unsigned char *)h->made.data,
                           .room = h->made.room,
                           .grow = grow,
                           .user = &h->made};
}

stk_status stk__libhdf5_send_bytes(stk__libhdf5 *h, uint32_t kind, const void *bytes,
                                   uint64_t length, const stk_store_call *call, stk_error *err)
{
    const stk__wire_head head = {kind, (uint32_t)length};

    if (h->socket < 0)
        return gone(h, err);
    STK_TRY(give(h, &head, sizeof head, call, err));
    return give(h, bytes, length, call, err);
}

stk_status stk__libhdf5_send(stk__libhdf5 *h, uint32_t kind, const stk__wire_out *payload,
                             const stk_store_call *call, stk_error *err)
{
    if (payload->too_long)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY,
                         "a name, fill value or attribute has more than %u bytes, the most that "
                         "stoker-hdf5 takes",
                         STK__WIRE_MOST);
    if (payload->bad)
        return no_memory(err);
    return stk__libhdf5_send_bytes(h, kind, payload->bytes, payload->length, call, err);
}

/* Bytes of the file that the process asks for. A failure ends what is under way. */
static stk_status answer(stk__libhdf5 *h, stk__wire_in *in, const stk_store_call *call,
                         stk_error *err)
{
    const uint64_t offset = stk__wire_u64(in), length = stk__wire_u64(in);
    char how[64];

    if (!stk__wire_end(in) || !h->store || length == 0 || length > STK__WIRE_PIECE ||
        offset > h->size || length > h->size - offset)
        return stk__libhdf5_nonsense(h, err);
    if (!h->piece)
        h->piece = stk__alloc_buffer(h->ctx, STK__WIRE_PIECE);
    const stk_status status =
        h->piece ? stk_store_read(h->store, h->key, offset, length, h->piece, err) : no_memory(err);
    if (status != STK_OK) {
        (void)lose(h, true, how, sizeof how);
        return status;
    }
    return stk__libhdf5_send_bytes(h, STK__WIRE_BYTES, h->piece, length, call, err);
}

static stk_status refused(stk__libhdf5 *h, stk__wire_in *in, stk_error *err)
{
    const stk_status status = (stk_status)(int32_t)stk__wire_u32(in);
    const char *text = stk__wire_text(in);

    if (!stk__wire_end(in) || status >= STK_OK)
        return stk__libhdf5_nonsense(h, err);
    return stk__fail_at(err, status, STK_STAGE_ARRAY, h->key ? h->key : "", STK_NO_OFFSET,
                        "%.80s%s%.480s", h->key ? h->key : "", h->key ? ": " : "", text);
}

static bool make_room(stk__libhdf5 *h, uint64_t length)
{
    if (length <= h->taken_room)
        return true;
    stk__free(h->ctx, h->taken);
    h->taken_room = 0;
    h->taken = stk__alloc(h->ctx, length);
    if (h->taken)
        h->taken_room = length;
    return h->taken != NULL;
}

stk_status stk__libhdf5_next(stk__libhdf5 *h, const stk_store_call *call, uint32_t *kind,
                             stk__wire_in *payload, void *to, uint64_t room, stk_error *err)
{
    stk__wire_head head = {0};
    char how[64];

    for (;;) {
        if (h->socket < 0)
            return gone(h, err);
        STK_TRY(take(h, &head, sizeof head, call, err));
        const bool is_data = to && head.kind == STK__WIRE_DATA;
        if (is_data ? head.length > room : head.length > STK__WIRE_MOST)
            return stk__libhdf5_nonsense(h, err);
        if (!is_data && !make_room(h, head.length)) {
            (void)lose(h, true, how, sizeof how);
            return no_memory(err);
        }
        STK_TRY(take(h, is_data ? to : h->taken, head.length, call, err));
        *payload = (stk__wire_in){.at = is_data ? to : h->taken, .left = head.length};
        *kind = head.kind;
        if (head.kind == STK__WIRE_FAIL)
            return refused(h, payload, err);
        if (head.kind != STK__WIRE_WANT)
            return STK_OK;
        STK_TRY(answer(h, payload, call, err));
    }
}

stk_status stk__libhdf5_done(stk__libhdf5 *h, const stk_store_call *call, stk_error *err)
{
    stk__wire_in payload;
    uint32_t kind = 0;

    STK_TRY(stk__libhdf5_next(h, call, &kind, &payload, NULL, 0, err));
    return kind == STK__WIRE_DONE && payload.left == 0 ? STK_OK : stk__libhdf5_nonsense(h, err);
}
