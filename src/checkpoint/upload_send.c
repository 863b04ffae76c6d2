/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/upload_send.h"

#include <stdio.h>

#include "base/url.h"
#include "checkpoint/hash.h"
#include "checkpoint/source.h"

#define PIECE (UINT64_C(1) << 20) /* of a file in memory */

static stk_status no_memory(const char *url, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to upload '%.300s'", url);
}

char *stk__upload_mark_url(stk_context *ctx, const char *url)
{
    size_t length;
    const char *name = stk__url_name(ctx, url, &length);

    return stk__format(ctx, "%.*s" STK__UPLOAD_MARK "%s", (int)(name + length - url), url,
                       name + length);
}

stk_status stk__upload_mark(stk__put_place *place, const char *url, const char *mark,
                            stk_error *err)
{
    char *name = stk__upload_mark_url(place->context, url);

    const stk_status status =
        name ? stk__url_put(place, name, mark, strlen(mark), err) : no_memory(url, err);
    stk__free(place->context, name);
    return status;
}

static bool is_canceled(void *user)
{
    return stk__upload_sender_canceled(user);
}

void stk__upload_sender_init(stk__upload_sender *s, stk_context *ctx)
{
    s->ctx = ctx;
    s->place = (stk__put_place){.context = ctx, .canceled = is_canceled, .user = s};
}

stk_store_call stk__upload_call(const stk__put_place *place, uint64_t length)
{
    return (stk_store_call){.struct_size = sizeof(stk_store_call),
                            .deadline_ns = stk__store_put_deadline(length),
                            .canceled = place->canceled,
                            .user = place->user,
                            .length = length};
}

stk_status stk__upload_list_beside(const stk__put_place *place, stk_list_fn *each, void *user,
                                   stk_error *err)
{
    const stk_store_call call = stk__upload_call(place, 0);
    char folder[STK_MAX_OBJECT_KEY];
    const char *slash = strrchr(place->key, '/');

    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - place->key) : 0, place->key);
    const stk_status status = stk_store_list(place->store, folder, &call, each, user, err);
    return status == STK_ENOENT ? STK_OK : status;
}

static stk_status send_pieces(stk__upload_sender *s, const stk__checkpoint_source *from,
                              const char *path, stk_put *put, uint64_t *most, stk_error *err)
{
    stk_status status = STK_OK;

    char *piece = stk__alloc_buffer(s->ctx, PIECE);
    if (!piece)
        return no_memory(path, err);
    for (uint64_t at = 0; at < from->size && status == STK_OK; at += PIECE) {
        const uint64_t n = STK_MIN(from->size - at, PIECE);
        status = stk__checkpoint_source_read(from, path, at, piece, n, err);
        if (status == STK_OK)
            status = put->ops->write(put, piece, (size_t)n, err);
        if (status == STK_OK && at + n > *most) {
            *most = at + n;
            stk__upload_sender_advance(s);
        }
    }
    stk__free(s->ctx, piece);
    return status;
}

static stk_status put_file(stk__upload_sender *s, const stk__checkpoint_source *from,
                           const char *path, uint64_t *most, stk_error *err)
{
    const stk_store_call call = stk__upload_call(&s->place, from->size);
    stk_put *put = NULL;

    STK_TRY(stk__store_put_begin(s->place.store, s->place.key, &call, &put, err));
    stk_status status = send_pieces(s, from, path, put, most, err);
    if (status == STK_OK)
        status = stk__store_put_commit(&put, err);
    stk__store_put_abandon(&put);
    return status;
}

/* What the store says it has. */
static stk_status verify(stk__upload_sender *s, const char *url, uint64_t size, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    const stk_store_call call = stk__upload_call(&s->place, 0);

    STK_TRY(stk_store_stat(s->place.store, s->place.key, &call, &info, err));
    if (info.size == size)
        return STK_OK;
    return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_STORE, url, STK_NO_OFFSET,
                        "'%.300s' has %llu bytes after %llu were put", url,
                        (unsigned long long)info.size, (unsigned long long)size);
}

stk_status stk__upload_file(stk__upload_sender *s, const char *path, const char *url,
                            const char *mark, uint64_t *most, stk_error *err)
{
    stk__checkpoint_source from;

    STK_TRY(stk__checkpoint_source_open(s->ctx, path, "a checkpoint", &from, err));
    stk_status status = stk__put_place_open(&s->place, url, err);
    if (status == STK_OK)
        status = put_file(s, &from, path, most, err);
    if (status == STK_OK)
        status = verify(s, url, from.size, err);
    stk__put_place_rest(&s->place);
    stk__checkpoint_source_close(&from);
    return status == STK_OK ? stk__upload_mark(&s->place, url, mark, err) : status;
}

stk_status stk__upload_copy_marked(stk__put_place *place, const char *from, const char *url,
                                   stk_error *err)
{
    char *from_mark = stk__upload_mark_url(place->context, from);
    char *mark = stk__upload_mark_url(place->context, url);

    stk_status status =
        from_mark && mark ? stk__url_copy(place, from, url, err) : no_memory(url, err);
    if (status == STK_OK)
        status = stk__url_copy(place, from_mark, mark, err);
    stk__free(place->context, from_mark);
    stk__free(place->context, mark);
    return status;
}

/* ---- What a run left ---- */

#define SKEW_NS   INT64_C(60000000000) /* between the clocks of this machine and of a store */
#define MARK_ROOM 256

typedef struct younger {
    int64_t than_ns;
    bool found;
} younger;

static stk_status look_for_younger(void *user, const char *key, const stk_object_info *info)
{
    younger *y = user;

    y->found |= !info->is_folder && stk__ends_with(key, strlen(key), STK__UPLOAD_MARK) &&
                info->mtime_ns > y->than_ns;
    return STK_OK;
}

/* Whether a mark in the folder of the object is younger. What cannot be listed says nothing. */
static stk_status find_younger(const stk__upload_sender *s, younger *y, stk_error *err)
{
    const stk_status status = stk__upload_list_beside(&s->place, look_for_younger, y, err);

    return status == STK_ENOTSUP ? STK_OK : status;
}

/* What the mark of the object says, in `text`; "": there is none. */
static stk_status read_mark(stk__upload_sender *s, char text[MARK_ROOM], stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    const stk_store_call call = stk__upload_call(&s->place, 0);
    char key[STK_MAX_OBJECT_KEY];

    text[0] = 0;
    STK_TRY(stk__key_below(s->place.key, STK__UPLOAD_MARK, key, err));
    const stk_status status = stk_store_stat(s->place.store, key, &call, &info, err);
    if (status == STK_ENOENT || (status == STK_OK && info.is_folder))
        return STK_OK;
    STK_TRY(status);
    const uint64_t n = STK_MIN(info.size, MARK_ROOM - 1);
    if (n)
        STK_TRY(stk_store_read(s->place.store, key, 0, n, text, err));
    text[n] = 0;
    if (!n)
        snprintf(text, MARK_ROOM, "of another");
    return STK_OK;
}

/* Whether the file is whole, and of which save it is a part; the others are not here. */
static bool is_whole(stk_context *ctx, const char *path, stk__checkpoint_part *part)
{
    stk__safetensors_file file;
    stk_error unheard;

    if (stk__safetensors_file_open(ctx, path, &file, &unheard) != STK_OK)
        return false;
    const char *text = stk__safetensors_find_text(&file.parsed, STK__CHECKPOINT_PART);
    const bool whole = stk__checkpoint_verify_alone(ctx, &file, path, &unheard) == STK_OK &&
                       (!text || stk__part_parse(text, part));
    stk__safetensors_file_close(&file);
    return whole;
}

stk_status stk__upload_left(stk__upload_sender *s, const stk__upload_found *file,
                            stk__checkpoint_part *part, uint32_t *next, uint64_t *most,
                            stk__upload_fate *fate, stk_error *err)
{
    younger y = {.than_ns = file->changed_ns + SKEW_NS};
    char there[MARK_ROOM];

    *fate = STK__UPLOAD_DAMAGED;
    *part = (stk__checkpoint_part){.count = 0};
    if (!is_whole(s->ctx, file->path, part))
        return STK_OK;
    STK_TRY(stk__put_place_open(&s->place, file->url, err));
    stk_status status = read_mark(s, there, err);
    /* Beside a part are those of other saves, and its own first decides. */
    if (status == STK_OK && !there[0] && !part->number)
        status = find_younger(s, &y, err);
    stk__put_place_rest(&s->place);
    STK_TRY(status);
    *fate = y.found || (there[0] && strcmp(there, file->mark) != 0) ? STK__UPLOAD_OLD
                                                                    : STK__UPLOAD_SENT;
    if (*fate == STK__UPLOAD_OLD || there[0])
        return STK_OK;
    if (stk__part_is_first(part))
        STK_TRY(stk__parts_objects_look(&s->place, file->url, part, next, err));
    return stk__upload_file(s, file->path, file->url, file->mark, most, err);
}

/* The mark goes first: what is half removed is not whole. */
stk_status stk__upload_remove_marked(stk__put_place *place, const char *url, stk_error *err)
{
    char *mark = stk__upload_mark_url(place->context, url);

    stk_status status = mark ? stk__url_remove(place, mark, err) : no_memory(url, err);
    if (status == STK_OK)
        status = stk__url_remove(place, url, err);
    stk__free(place->context, mark);
    return status;
}
