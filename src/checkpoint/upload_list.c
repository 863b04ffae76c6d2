/* SPDX-License-Identifier: Apache-2.0 */
/* The list of jobs. */
#include "checkpoint/upload_room.h"

void stk__upload_take_out(stk__uploads *u, stk__upload_job *j)
{
    stk__upload_job **at = &u->first;

    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
}

void stk__upload_append(stk__uploads *u, stk__upload_job *j)
{
    stk__upload_job **at = &u->first;

    while (*at)
        at = &(*at)->next;
    j->next = NULL;
    *at = j;
}

void stk__upload_job_free(stk__uploads *u, stk__upload_job *j)
{
    if (j->note[0] && !j->kept)
        stk__upload_folder_forget(j->file->folder, j->note);
    stk__upload_local_leave(u, &j->file);
    stk__free(u->ctx, j);
}

void stk__upload_take_back(stk__uploads *u, stk__upload_job *j)
{
    stk__upload_job *moved = NULL, **last = &moved;

    for (stk__upload_job **at = &j->next; *at;) {
        stk__upload_job *next = *at;
        if (!stk__upload_removes(next) || next->working) {
            at = &next->next;
            continue;
        }
        *at = next->next;
        next->next = NULL;
        *last = next;
        last = &next->next;
    }
    stk__upload_take_out(u, j);
    stk__upload_void_put(u, j);
    stk__upload_job_free(u, j);
    for (stk__upload_job *next; moved; moved = next) {
        next = moved->next;
        stk__upload_append(u, moved);
    }
}

/* A file that is not begun is no more wanted. */
static void drop(stk__uploads *u, stk__upload_job *j)
{
    if (j->working || j->begun)
        j->dropped = true;
    else
        stk__upload_take_back(u, j);
}

/* Those of the object of a new job are void. */
void stk__upload_drop_older(stk__uploads *u, const stk__upload_job *new)
{
    for (stk__upload_job *j = u->first; j && j != new;) {
        const bool removes =
            j->kind == STK__UPLOAD_JOB_REMOVE && new->kind == STK__UPLOAD_JOB_REMOVE;
        if (j->dropped || removes || j->kind == STK__UPLOAD_JOB_PARTS ||
            strcmp(j->url, new->url) != 0) {
            j = j->next;
            continue;
        }
        drop(u, j);
        j = u->first;
    }
}

bool stk__upload_works(const stk__uploads *u)
{
    const stk__upload_job *j = u->first;

    while (j && !j->working)
        j = j->next;
    return j;
}

/* ---- Parts ---- */

void stk__upload_append_removal(stk__uploads *u, stk__upload_kind kind, const char *url,
                                const stk__checkpoint_part *part)
{
    /* Without memory they stay in the store, where nothing needs them. */
    stk__upload_job *j = part->count ? stk__upload_job_make(u, kind, url, NULL, NULL) : NULL;

    if (!j)
        return;
    j->part = *part;
    stk__upload_append(u, j);
}

bool stk__upload_drop_put(stk__uploads *u, const char *url)
{
    stk__upload_job *j = u->first;

    while (j && (j->kind != STK__UPLOAD_JOB_PUT || j->dropped || strcmp(j->url, url) != 0))
        j = j->next;
    if (j)
        drop(u, j);
    return j;
}

bool stk__upload_needs(const stk__uploads *u, const stk__checkpoint_part *part)
{
    const stk__upload_job *j = u->first;

    while (j && (j->kind != STK__UPLOAD_JOB_PUT || (j->dropped && !j->begun) ||
                 !stk__part_is_first(&j->part) || !stk__part_same_save(&j->part, part)))
        j = j->next;
    return j;
}

void stk__upload_add_void(stk__uploads *u, const stk__checkpoint_part *part)
{
    if (!stk__part_is_first(part) || stk__upload_needs(u, part))
        return;
    stk__checkpoint_part *grown =
        stk__grow(u->ctx, u->voids, &u->void_room, u->num_voids + 1, sizeof *grown);
    if (!grown)
        return;
    u->voids = grown;
    u->voids[u->num_voids++] = *part;
}

void stk__upload_void_put(stk__uploads *u, const stk__upload_job *j)
{
    if (j->kind == STK__UPLOAD_JOB_PUT && !j->there)
        stk__upload_add_void(u, &j->part);
}

void stk__upload_note_first(stk__uploads *u, const stk__upload_job *done)
{
    for (stk__upload_job *j = u->first; j; j = j->next)
        j->there |= j->kind == STK__UPLOAD_JOB_PUT && stk__part_same_save(&j->part, &done->part);
    u->newest_there |= stk__part_same_save(&u->newest_part, &done->part);
}

void stk__upload_look_once_more(stk__uploads *u, const stk__upload_job *done)
{
    for (stk__upload_job *j = u->first; j && j != done && !u->hurry;) {
        stk__upload_job *next = j->next;
        if (j->kind == STK__UPLOAD_JOB_PUT && j->looks &&
            !stk__part_same_save(&j->part, &done->part)) {
            j->last = true;
            j->look_at = 0;
            if (j->dropped) {
                stk__upload_take_back(u, j);
                next = u->first;
            }
        }
        j = next;
    }
}

bool stk__upload_is_stuck(const stk__uploads *u)
{
    bool stuck = false;

    for (const stk__upload_job *j = u->first; j; j = j->next) {
        if (stk__upload_removes(j) || j->kind == STK__UPLOAD_JOB_COPY)
            continue;
        if (j->working || !j->look_at)
            return false;
        stuck = true;
    }
    return stuck;
}

/* ---- Order ---- */

/* What removes and copies comes behind what was to be put before it; all else may pass that. */
stk__upload_job *stk__upload_choose(const stk__uploads *u, uint64_t *when)
{
    const uint64_t now = stk__now_ns();
    stk__upload_job *chosen = NULL;
    bool blocked = false;

    *when = UINT64_MAX;
    for (stk__upload_job *j = u->first; j; j = j->next) {
        const bool removes = stk__upload_removes(j);
        if (j->look_at > now) {
            *when = STK_MIN(*when, j->look_at);
            blocked |= j->kind == STK__UPLOAD_JOB_PUT;
        } else if (!((removes || j->kind == STK__UPLOAD_JOB_COPY) && blocked) &&
                   (!chosen || (u->hurry && !removes))) {
            chosen = j;
        }
    }
    return chosen;
}
