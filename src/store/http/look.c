/* SPDX-License-Identifier: Apache-2.0 */
/* What lies at a target: by HEAD; while something is opened by its first bytes, which are kept. */
#include "store/opening.h"

#include "store/http/room.h"

XXH128_hash_t stk__http_name(const stk__http_client *client, const char *target)
{
    const uint64_t endpoint = XXH3_64bits(client->endpoint, strlen(client->endpoint));

    return XXH3_128bits_withSeed(target, strlen(target), endpoint);
}

static bool asks(const stk__http_exchange *x)
{
    return strcmp(x->method, "GET") == 0 || strcmp(x->method, "HEAD") == 0;
}

/* All tries were in vain: others of the same would be, too. */
static bool fails_for_good(const stk__http_exchange *x, stk_status status)
{
    return (status == STK_EIO || status == STK_ETIMEDOUT) && x->error.status == status && asks(x);
}

void stk__http_note(const stk__http_client *client, const stk__http_exchange *x, stk_status status)
{
    stk__seen seen = {.absent = status == STK_ENOENT};

    if (!stk__opening_is(client->context))
        return;
    if (fails_for_good(x, status))
        seen.error = x->error;
    else if ((status != STK_OK && !seen.absent) ||
             (!seen.absent && (x->size == UINT64_MAX || !x->identity)))
        return;
    if (!stk__seen_none(&seen)) {
        seen.size = x->size;
        seen.identity = x->identity;
        seen.mtime_ns = x->mtime_ns;
        memcpy(seen.etag, x->etag, sizeof seen.etag);
    }
    stk__opening_note(client->context, stk__http_name(client, x->target), &seen, x->offset, x->data,
                      x->data && !stk__seen_none(&seen) ? x->got : 0);
}

bool stk__http_failed(const stk__http_client *client, stk__http_exchange *x)
{
    stk__seen seen;

    if (!asks(x) || !stk__opening_find(client->context, stk__http_name(client, x->target), &seen) ||
        seen.error.status == STK_OK)
        return false;
    x->code = 0;
    x->error = seen.error;
    return true;
}

/* What was seen before, as if it had been asked for now. */
static bool recall(const stk__http_client *client, stk__http_exchange *x, stk_status *status,
                   stk_error *err)
{
    stk__seen seen;

    if (!stk__opening_find(client->context, stk__http_name(client, x->target), &seen) ||
        seen.error.status != STK_OK)
        return false;
    x->code = seen.absent ? 404 : 200;
    x->size = seen.size;
    x->identity = seen.identity;
    x->mtime_ns = seen.mtime_ns;
    memcpy(x->etag, seen.etag, sizeof x->etag);
    *status = !seen.absent ? STK_OK
                           : stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, x->target,
                                          STK_NO_OFFSET, "'%.200s' was not there", x->target);
    return true;
}

static stk_status look_ahead(stk__http_client *client, stk__http_exchange *x, bool end, void *room,
                             const stk_store_call *call, stk_error *err)
{
    stk__http_exchange last = {.method = "GET",
                               .target = x->target,
                               .data = (char *)room + STK__OPENING_AHEAD,
                               .length = STK__OPENING_END,
                               .from_end = true};
    stk_status ended = STK_ENOENT;

    x->method = "GET";
    x->data = room;
    x->length = STK__OPENING_AHEAD;
    x->up_to = true;
    const stk_status status = stk__http_call_both(client, x, end ? &last : NULL, call, &ended, err);
    stk__http_note(client, x, status);
    if (end && status == STK_OK && ended == STK_OK)
        stk__http_note(client, &last, ended);
    x->data = NULL;
    return status;
}

stk_status stk__http_look(stk__http_client *client, stk__http_exchange *x, bool end,
                          const stk_store_call *call, stk_error *err)
{
    stk_context *ctx = client->context;
    stk_status status;

    if (recall(client, x, &status, err))
        return status;
    const bool ahead = stk__opening_is(ctx) && !(call && call->bare);
    void *room = ahead ? stk__alloc(ctx, STK__OPENING_AHEAD + STK__OPENING_END) : NULL;
    if (room) {
        status = look_ahead(client, x, end, room, call, err);
        stk__free(ctx, room);
        return status;
    }
    x->method = "HEAD";
    status = stk__http_call(client, x, call, err);
    stk__http_note(client, x, status);
    return status;
}
