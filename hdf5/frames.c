/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over the socket. Without the library there is nothing to do: the process ends. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "program.h"

#define IDLE_SECONDS 10

static unsigned char *taken; /* the payload of the last frame */
static size_t taken_room;
static stk__wire_out made;
static bool ends_idle;

void frame_end_idle(void)
{
    const struct timeval silence = {.tv_sec = IDLE_SECONDS};

    ends_idle =
        setsockopt(STK__WIRE_SOCKET, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence) == 0;
}

_Noreturn void frame_nonsense(void)
{
    _exit(3);
}

/* `idle`: nothing is under way, and after a while of silence nothing is lost by an end. */
static void take(void *to, size_t length, bool idle)
{
    for (char *at = to; length;) {
        const ssize_t n = read(STK__WIRE_SOCKET, at, length);
        if (n < 0 && (errno == EINTR || (errno == EAGAIN && !(idle && at == to))))
            continue;
        if (n <= 0)
            _exit(0);
        at += n;
        length -= (size_t)n;
    }
}

static void give(const void *from, size_t length)
{
    for (const char *at = from; length;) {
        const ssize_t n = write(STK__WIRE_SOCKET, at, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(0);
        at += n;
        length -= (size_t)n;
    }
}

uint32_t frame_take(stk__wire_in *in)
{
    stk__wire_head head;

    take(&head, sizeof head, ends_idle);
    if (head.length > STK__WIRE_MOST)
        frame_nonsense();
    if (head.length > taken_room) {
        free(taken);
        taken_room = head.length;
        taken = malloc(taken_room);
        if (!taken)
            frame_nonsense();
    }
    take(taken, head.length, false);
    *in = (stk__wire_in){.at = taken, .left = head.length};
    return head.kind;
}

void frame_send(uint32_t kind, const void *payload, size_t length)
{
    const stk__wire_head head = {kind, (uint32_t)length};

    give(&head, sizeof head);
    give(payload, length);
}

static bool grow(stk__wire_out *out, size_t more)
{
    const size_t room = 2 * (out->length + more); /* of at most STK__WIRE_MOST each */
    unsigned char *bytes = realloc(out->bytes, room);

    if (!bytes)
        return false;
    out->bytes = bytes;
    out->room = room;
    return true;
}

stk__wire_out *frame_begin(void)
{
    made.grow = grow;
    made.length = 0;
    made.bad = made.too_long = false;
    return &made;
}

void frame_put(uint32_t kind, stk__wire_out *out)
{
    if (out->bad)
        frame_nonsense();
    frame_send(kind, out->bytes, out->length);
}

void frame_send_data(const void *data, size_t length)
{
    for (const char *at = data; length;) {
        const size_t n = length < STK__WIRE_PIECE ? length : STK__WIRE_PIECE;
        frame_send(STK__WIRE_DATA, at, n);
        at += n;
        length -= n;
    }
}

bool frame_take_bytes(void *to, size_t length)
{
    stk__wire_head head;

    take(&head, sizeof head, false);
    if (head.kind != STK__WIRE_BYTES || (head.length && head.length != length))
        frame_nonsense();
    take(to, head.length, false);
    return head.length > 0;
}

/* A command whose values find no memory fails when they were taken. */
void frame_take_data(void *to, size_t length)
{
    stk__wire_head head;
    char dropped[4096];
    char *at = to;

    while (length) {
        take(&head, sizeof head, false);
        if (head.kind != STK__WIRE_DATA || !head.length || head.length > length)
            frame_nonsense();
        for (size_t left = head.length, n; left; left -= n) {
            n = at || left < sizeof dropped ? left : sizeof dropped;
            take(at ? at : dropped, n, false);
            at = at ? at + n : NULL;
        }
        length -= head.length;
    }
}
