/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/staged.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"

#define FOLDER "/var/tmp"

static stk_status fail_file(const char *key, int error, stk_error *err)
{
    return stk__fail_at(err, stk__status_of_errno(error), STK_STAGE_STORE, key, STK_NO_OFFSET,
                        "'%.200s' cannot be sent: no temporary file in " FOLDER
                        " can hold it until then: %s",
                        key, strerror(error));
}

static stk_status add_memory(stk__http_staged *s, const void *data, size_t length,
                             uint64_t expected, const char *key, stk_error *err)
{
    char *grown =
        stk__grow(s->context, s->bytes, &s->room, STK_MAX(s->length + length, expected), 1);

    if (!grown)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "no memory to send '%.200s'", key);
    s->bytes = grown;
    if (length)
        memcpy(s->bytes + s->length, data, length);
    s->length += length;
    return STK_OK;
}

/* What is in memory goes to a file. */
static int begin_file(stk__http_staged *s)
{
    s->fd = stk__unnamed_open(FOLDER);
    if (s->fd < 0)
        return errno;
    const int error = stk__unnamed_write(s->fd, s->bytes, s->length, 0);
    stk__free(s->context, s->bytes);
    s->bytes = NULL;
    return error;
}

stk_status stk__http_staged_add(stk__http_staged *s, const void *data, size_t length,
                                uint64_t expected, const char *key, stk_error *err)
{
    uint64_t end;
    int error = 0;

    if (!stk__add_size(s->length, length, &end) || end > INT64_MAX)
        return fail_file(key, EFBIG, err);
    if (s->fd < 0 && STK_MAX(end, expected) <= STK__HTTP_IN_MEMORY)
        return add_memory(s, data, length, expected, key, err);
    if (s->fd < 0)
        error = begin_file(s);
    if (!error)
        error = stk__unnamed_write(s->fd, data, length, s->length);
    if (error)
        return fail_file(key, error, err);
    s->length = end;
    return STK_OK;
}

/* On the thread of all clients: it was written a moment ago, and is in the page cache but where
 * memory is short. */
static bool read_file(void *user, uint64_t at, void *to, size_t length)
{
    const stk__http_staged *s = user;

    return stk__unnamed_read(s->fd, to, length, at) == 0;
}

void stk__http_staged_send(stk__http_staged *s, stk__http_exchange *x)
{
    x->body = s->bytes;
    x->body_length = s->length;
    x->read_body = s->fd < 0 ? NULL : read_file;
    x->body_user = s;
}

/* A place in what was sent, as the object is read back. */
typedef struct compared {
    const stk__http_staged *staged;
    uint64_t at;
} compared;

static bool same(void *user, const void *bytes, size_t length)
{
    compared *c = user;
    const char *from = bytes;
    char piece[16384];

    while (length > 0) {
        const size_t n = STK_MIN(length, sizeof piece);
        if (stk__unnamed_read(c->staged->fd, piece, n, c->at) != 0 || memcmp(piece, from, n) != 0)
            return false;
        c->at += n;
        from += n;
        length -= n;
    }
    return true;
}

bool stk__http_staged_is_sent(stk__http_staged *s, stk__http_client *client, const char *target,
                              const stk_store_call *call)
{
    const char *bytes = s->bytes;
    compared file = {.staged = s};
    const stk__http_sent sent = {.length = s->length,
                                 .same = s->fd < 0 ? stk__http_same_bytes : same,
                                 .user = s->fd < 0 ? (void *)&bytes : &file};
    stk__http_exchange x = {.target = target};

    return stk__http_holds(s->context, client, &x, &sent, call);
}

void stk__http_staged_release(stk__http_staged *s)
{
    stk__free(s->context, s->bytes);
    if (s->fd >= 0)
        close(s->fd);
}
