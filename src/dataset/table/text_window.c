/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/table/text_window.h"

stk_status stk__text_window_no_memory(const stk__text_window *w)
{
    const char *key = stk__table_file_key(w->file);

    return stk__fail_at(w->err, STK_ENOMEM, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                        "no memory to read %.200s; raise memory_limit", key);
}

static stk_status make_room(stk__text_window *w, uint64_t room)
{
    stk_context *ctx = stk__table_file_context(w->file);
    char *bytes = room <= stk__memory_left(ctx) ? stk__alloc(ctx, room) : NULL;

    if (!bytes)
        return stk__text_window_no_memory(w);
    stk__free(ctx, w->bytes);
    w->bytes = bytes;
    w->room = room;
    return STK_OK;
}

stk_status stk__text_window_open(stk__text_window *w)
{
    return make_room(w, STK__TEXT_WINDOW);
}

stk_status stk__text_window_fill(stk__text_window *w, uint64_t at)
{
    w->at = at;
    w->length = STK_MIN(w->room, stk__table_file_size(w->file) - at);
    return stk__table_file_read(w->file, at, w->bytes, w->length, w->err);
}

stk_status stk__text_window_grow(stk__text_window *w, uint64_t line)
{
    const uint64_t room = STK_MIN(w->room * 2, w->most + STK__TEXT_WINDOW);

    if (w->room < room)
        return make_room(w, room);
    return stk__table_file_fail(
        w->file, STK_ELIMIT, w->at, w->err, "line %llu has more than %llu bytes%s",
        (unsigned long long)line + 1, (unsigned long long)w->most, w->if_longer);
}

void stk__text_window_close(stk__text_window *w)
{
    stk__free(stk__table_file_context(w->file), w->bytes);
    w->bytes = NULL;
}
