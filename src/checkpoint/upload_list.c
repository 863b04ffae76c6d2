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

/* A file that is not begun is no more wanted. What was to be removed after it is removed after the
 * one that has come in its place. */
static void drop(stk__uploads *u, stk__upload_job *j)
{
    stk__upload_job *moved = NULL, **last = &moved;

    if (j->working) {
        j->dropped = true;
        return;
    }
    for (stk__upload_job **at = &j->next; *at;) {
        stk__upload_job *next = *at;
        if (next->kind != STK__UPLOAD_JOB_REMOVE || next->working) {
            at = &next->next;
            continue;
        }
        *at = next->next;
        next->next = NULL;
        *last = next;
        last = &next->next;
    }
    stk__upload_take_out(u, j);
    stk__upload_job_free(u, j);
    for (stk__upload_job *next; moved; moved = next) {
        next = moved->next;
        stk__upload_append(u, moved);
    }
}

/* Those of the object of a new job are void. */
void stk__upload_drop_older(stk__uploads *u, const stk__upload_job *new)
{
    for (stk__upload_job *j = u->first; j && j != new;) {
        const bool removes =
            j->kind == STK__UPLOAD_JOB_REMOVE && new->kind == STK__UPLOAD_JOB_REMOVE;
        if (j->dropped || removes || strcmp(j->url, new->url) != 0) {
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

/* Which comes next: the first, or, where time is short, what was saved last. */
stk__upload_job *stk__upload_choose(const stk__uploads *u)
{
    stk__upload_job *newest = NULL;

    for (stk__upload_job *j = u->first; j && u->hurry; j = j->next)
        if (j->kind != STK__UPLOAD_JOB_REMOVE)
            newest = j;
    return newest ? newest : u->first;
}
