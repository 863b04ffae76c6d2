/* SPDX-License-Identifier: Apache-2.0 */
/* What is handed over to be uploaded, by this run or by one before. */
#include "base/url.h"
#include "checkpoint/upload_room.h"

stk__upload_job *stk__upload_job_make(stk__uploads *u, stk__upload_kind kind, const char *url,
                                      const char *from, const char *mark)
{
    const size_t bytes[] = {strlen(url) + 1, from ? strlen(from) + 1 : 0,
                            mark ? strlen(mark) + 1 : 0};

    stk__upload_job *j = stk__alloc(u->ctx, sizeof *j + bytes[0] + bytes[1] + bytes[2]);
    if (!j)
        return NULL;
    *j = (stk__upload_job){.kind = kind};
    j->url = memcpy(j->texts, url, bytes[0]);
    if (from)
        j->from = memcpy(j->texts + bytes[0], from, bytes[1]);
    if (mark)
        j->mark = memcpy(j->texts + bytes[0] + bytes[1], mark, bytes[2]);
    return j;
}

static void hand_over(stk__uploads *u, stk__upload_job *j)
{
    stk__upload_append(u, j);
    stk__upload_drop_older(u, j);
    if (!stk__upload_removes(j)) {
        u->gave_up = false;
        atomic_store(&u->sender.cancel, false);
    }
    pthread_cond_signal(&u->has_jobs);
}

/* Keep the file as the newest, so that it can have another name. */
static void keep_newest(stk__uploads *u, stk__upload_local *file, const char *url, const char *mark,
                        const stk__checkpoint_part *part)
{
    stk__upload_local_leave(u, &u->newest);
    stk__free(u->ctx, u->newest_url);
    stk__free(u->ctx, u->newest_mark);
    u->newest_url = stk__strdup(u->ctx, url);
    u->newest_mark = stk__strdup(u->ctx, mark);
    if (!u->newest_url || !u->newest_mark)
        return;
    u->newest = file;
    u->newest_part = *part;
    u->newest_there = false;
    file->users++;
}

/* The oldest are in the store, and whole, or void. Without memory a void part stays there. */
static void keep_own(stk__uploads *u, const char *url, const stk__checkpoint_part *part)
{
    const size_t bytes = strlen(url) + 1;
    stk__upload_own *own = stk__calloc(u->ctx, 1, sizeof *own + bytes), *last = u->own;

    if (!own)
        return;
    own->part = *part;
    memcpy(own->url, url, bytes);
    own->next = u->own;
    u->own = own;
    for (int i = 1; last && last->next; last = last->next)
        if (++i >= STK__UPLOAD_MOST_OWN) {
            stk__free(u->ctx, last->next);
            last->next = NULL;
            break;
        }
}

stk_status stk__uploads_put(stk__uploads *u, const char *path, const char *url, const char *mark,
                            const stk__checkpoint_part *part, stk_error *err)
{
    stk_status status = stk__upload_start(u, err);
    stk__upload_local *file = stk__upload_local_make(u, u->folder, path);
    stk__upload_job *j = stk__upload_job_make(u, STK__UPLOAD_JOB_PUT, url, NULL, mark);

    if (status == STK_OK && (!file || !j))
        status = stk__upload_no_memory(url, err);
    if (status != STK_OK) {
        stk__free(u->ctx, file);
        stk__free(u->ctx, j);
        stk__uploads_abandon(u, path);
        return status;
    }
    stk__upload_local_use(j, file);
    pthread_mutex_lock(&u->lock);
    j->part = *part;
    keep_newest(u, file, url, mark, part);
    hand_over(u, j);
    if (part->number)
        keep_own(u, url, part);
    pthread_mutex_unlock(&u->lock);
    return STK_OK;
}

stk_status stk__uploads_copy(stk__uploads *u, const char *from, const char *url, stk_error *err)
{
    STK_TRY(stk__upload_start(u, err));
    pthread_mutex_lock(&u->lock);
    const bool here = u->newest && strcmp(u->newest_url, from) == 0 &&
                      (!u->newest_part.count || stk__parts_same_folder(from, url));
    stk__upload_job *j = stk__upload_job_make(u, here ? STK__UPLOAD_JOB_PUT : STK__UPLOAD_JOB_COPY,
                                              url, here ? NULL : from, here ? u->newest_mark : "");
    if (j && here) {
        j->part = u->newest_part;
        j->there = u->newest_there;
        stk__upload_local_use(j, u->newest);
    }
    pthread_mutex_unlock(&u->lock);
    /* Without a note the object is only not made by a later run. */
    if (j && here &&
        stk__upload_folder_note(u->ctx, u->folder, j->note, j->file->name, url, j->mark, err) !=
            STK_OK)
        j->note[0] = 0;
    pthread_mutex_lock(&u->lock);
    if (j)
        hand_over(u, j);
    pthread_mutex_unlock(&u->lock);
    return j ? STK_OK : stk__upload_no_memory(url, err);
}

/* ---- What runs left -------------------------------------------------------------------------- */

typedef struct leaving {
    stk__uploads *u;
    bool failed;
} leaving;

/* A file that may have several names is one of several jobs. */
static stk__upload_local *find_local(const stk__uploads *u, const stk__upload_folder *folder,
                                     const char *name)
{
    const stk__upload_job *j = u->first;

    while (j && !(j->file && j->file->folder == folder && strcmp(j->file->name, name) == 0))
        j = j->next;
    return j ? j->file : NULL;
}

static void take_left(void *user, stk__upload_folder *folder, const char *note, const char *name,
                      const char *url, const char *mark)
{
    leaving *l = user;
    stk__uploads *u = l->u;
    stk__upload_local *file = find_local(u, folder, name);
    char *path = file ? NULL : stk__format(u->ctx, "%s/%s", folder->path, name);

    if (!file && path)
        file = stk__upload_local_make(u, folder, path);
    stk__upload_job *j = file && strlen(note) < sizeof j->note
                             ? stk__upload_job_make(u, STK__UPLOAD_JOB_LEFT, url, NULL, mark)
                             : NULL;
    stk__free(u->ctx, path);
    if (!j) {
        l->failed = true;
        if (file && !file->users)
            stk__free(u->ctx, file);
        return;
    }
    stk__upload_local_use(j, file);
    memcpy(j->note, note, strlen(note) + 1);
    stk__upload_append(u, j);
}

stk_status stk__uploads_take(stk__uploads *u, const char *root, stk_error *err)
{
    leaving l = {.u = u};

    if (u->taken)
        return STK_OK;
    u->taken = stk__upload_folders_take(u->ctx, stk__upload_dir(u));
    if (!u->taken)
        return STK_OK;
    STK_TRY(stk__upload_start(u, err));
    pthread_mutex_lock(&u->lock);
    for (stk__upload_folder *f = u->taken; f; f = f->next)
        stk__upload_folder_each(f, root, take_left, &l);
    pthread_cond_signal(&u->has_jobs);
    pthread_mutex_unlock(&u->lock);
    return l.failed ? stk__upload_no_memory("what an earlier run left", err) : STK_OK;
}

stk_status stk__uploads_remove(stk__uploads *u, const char *url, stk_error *err)
{
    STK_TRY(stk__upload_start(u, err));
    stk__upload_job *j = stk__upload_job_make(u, STK__UPLOAD_JOB_REMOVE, url, NULL, NULL);
    if (!j)
        return stk__upload_no_memory(url, err);
    pthread_mutex_lock(&u->lock);
    hand_over(u, j);
    pthread_mutex_unlock(&u->lock);
    return STK_OK;
}

/* ---- Parts that nobody needs ----------------------------------------------------------------- */

size_t stk__uploads_voids(stk__uploads *u, stk__checkpoint_part *parts, size_t most)
{
    pthread_mutex_lock(&u->lock);
    const size_t n = STK_MIN(most, u->num_voids);
    if (n) {
        memcpy(parts, u->voids, n * sizeof *parts);
        u->num_voids -= n;
        memmove(u->voids, u->voids + n, u->num_voids * sizeof *parts);
    }
    pthread_mutex_unlock(&u->lock);
    return n;
}

/* Take the note of a part of the save out; the caller's. NULL: there is none. */
static stk__upload_own *take_own(stk__uploads *u, const stk__checkpoint_part *part)
{
    stk__upload_own **at = &u->own;

    while (*at && !stk__part_same_save(&(*at)->part, part))
        at = &(*at)->next;
    stk__upload_own *own = *at;
    if (own)
        *at = own->next;
    return own;
}

void stk__uploads_void(stk__uploads *u, const stk__checkpoint_part *part)
{
    pthread_mutex_lock(&u->lock);
    stk__upload_own *own = take_own(u, part);
    if (own && !stk__upload_drop_put(u, own->url))
        stk__upload_append_removal(u, STK__UPLOAD_JOB_REMOVE, own->url, &own->part);
    pthread_cond_signal(&u->has_jobs);
    pthread_mutex_unlock(&u->lock);
    stk__free(u->ctx, own);
}

void stk__uploads_lose(stk__uploads *u, const stk__checkpoint_part *part)
{
    if (!part->count)
        return;
    pthread_mutex_lock(&u->lock);
    u->lost = true;
    if (!part->number)
        stk__upload_add_void(u, part);
    pthread_mutex_unlock(&u->lock);
}
