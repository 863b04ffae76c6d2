/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library hears from the process of libhdf5. Input: a byte (what is asked: 0 the listing,
 * 1 an object, 2 values, 3 the file), then all that the process says after its first words.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_support.h"

#include "array/libhdf5/libhdf5.h"
#include "base/json.h"

#define MOST (64u << 10) /* a socket holds as much unread */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char hello[] = {STK__WIRE_HELLO,   0, 0, 0, 4, 0, 0, 0,
                                      STK__WIRE_VERSION, 0, 0, 0};

static stk_status each(void *user, const char *path, bool is_array, stk_error *err)
{
    size_t *bytes = user;

    (void)is_array, (void)err;
    FUZZ_CHECK(*path && *path != '/');
    *bytes += strlen(path);
    return STK_OK;
}

static void look_at_object(stk__libhdf5 *child, stk_context *ctx)
{
    stk__libhdf5_object object;
    stk__json parsed = {0};

    if (stk__libhdf5_describe(child, "x", NULL, &object, NULL) != STK_OK)
        return;
    /* What was put together is JSON, or has a name twice. */
    (void)stk__json_parse(ctx, object.attributes, strlen(object.attributes), "x", &parsed, NULL);
    stk__json_drop(ctx, &parsed);
    if (object.is_array)
        FUZZ_CHECK(object.rank <= STK_ARRAY_MAX_RANK && object.itemsize > 0);
    stk__libhdf5_object_release(&object);
}

static void look_at_values(stk__libhdf5 *child, stk_context *ctx)
{
    const int64_t start[1] = {0}, shape[1] = {64};
    const stk__libhdf5_object object = {.ctx = ctx, .itemsize = 1, .rank = 1};
    unsigned char *out = malloc(64); /* so that a sanitizer sees its end */

    FUZZ_CHECK(out != NULL);
    (void)stk__libhdf5_read(child, "x", &object, start, shape, NULL, out, 64, NULL);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__libhdf5 *child = NULL;
    size_t bytes = 0;
    int ends[2];

    if (size < 1 || size > MOST)
        return 0;
    fuzz_room room = fuzz_open("mem://libhdf5");
    fuzz_put(room.store, "x", data, size);
    fuzz_ready(&room);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    FUZZ_CHECK(send(ends[1], hello, sizeof hello, 0) == (ssize_t)sizeof hello);
    FUZZ_CHECK(send(ends[1], data + 1, size - 1, 0) == (ssize_t)size - 1);
    shutdown(ends[1], SHUT_WR);
    FUZZ_CHECK(stk__libhdf5_attach(room.ctx, ends[0], &child, NULL) == STK_OK);
    switch (*data % 4) {
    case 0:
        (void)stk__libhdf5_list(child, NULL, each, &bytes, NULL);
        break;
    case 1:
        look_at_object(child, room.ctx);
        break;
    case 2:
        look_at_values(child, room.ctx);
        break;
    default:
        (void)stk__libhdf5_open(child, room.store, "x", NULL, NULL);
    }
    stk__libhdf5_stop(&child);
    close(ends[1]);
    fuzz_close(&room);
    return 0;
}
