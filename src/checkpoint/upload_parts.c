/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs about objects that may lie in parts. A rank puts its own part and tells nobody: its mark is
 * there. The first is put when all marks are, so it waits, and what does not follow from it goes on
 * meanwhile. Parts go behind the last object that is the first of them.
 */
#include "checkpoint/upload_room.h"

/* Which save the object is the first part of now. */
static stk_status look_before(stk__uploads *u, stk__upload_job *j, stk_error *err)
{
    stk__checkpoint_part part;
    bool any;

    if (j->part.number || (u->plain && stk__parts_same_folder(u->plain, j->url)))
        return STK_OK;
    STK_TRY(stk__parts_object_of(&u->sender.place, j->url, &any, &part, err));
    if (!any && !j->part.count) {
        stk__free(u->ctx, u->plain);
        u->plain = stk__strdup(u->ctx, j->url);
    }
    /* Of a try before, the object may have become another or gone. */
    if (part.count && !(j->part.count && stk__part_same_save(&part, &j->part)))
        j->before = part;
    return STK_OK;
}

static void note_parts(stk__uploads *u, const stk__upload_job *j)
{
    if (j->part.count && u->plain && stk__parts_same_folder(u->plain, j->url)) {
        stk__free(u->ctx, u->plain);
        u->plain = NULL;
    }
}

stk_status stk__upload_put(stk__uploads *u, stk__upload_job *j, stk_error *err)
{
    note_parts(u, j);
    if (stk__part_is_first(&j->part))
        STK_TRY(stk__parts_objects_look(&u->sender.place, j->url, &j->part, &j->next_part, err));
    STK_TRY(look_before(u, j, err));
    return stk__upload_file(&u->sender, j->file->path, j->url, j->mark, &j->most, err);
}

stk_status stk__upload_copy(stk__uploads *u, stk__upload_job *j, stk_error *err)
{
    stk__put_place *place = &u->sender.place;
    stk__checkpoint_part part;
    bool any;

    STK_TRY(look_before(u, j, err));
    if (!stk__parts_same_folder(j->from, j->url)) {
        STK_TRY(stk__parts_object_of(place, j->from, &any, &part, err));
        if (part.count)
            STK_TRY(stk__parts_objects_copy(place, j->from, j->url, &part, err));
    }
    return stk__upload_copy_marked(place, j->from, j->url, err);
}

stk_status stk__upload_remove(stk__uploads *u, stk__upload_job *j, stk_error *err)
{
    STK_TRY(look_before(u, j, err));
    return stk__upload_remove_marked(&u->sender.place, j->url, err);
}

stk_status stk__upload_drop_parts(stk__uploads *u, stk__upload_job *j, stk_error *err)
{
    pthread_mutex_lock(&u->lock);
    const bool needed = stk__upload_needs(u, &j->part);
    pthread_mutex_unlock(&u->lock);
    return needed ? STK_OK : stk__parts_objects_drop(&u->sender.place, j->url, &j->part, err);
}
