/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/durable.h"
#include "base/url.h"
#include "checkpoint/upload_room.h"

static void remove_file(const char *path)
{
    char folder[STK_MAX_OBJECT_KEY];
    const char *slash = strrchr(path, '/');

    stk__remove_path(path);
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    stk__remove_folder_path(folder);
}

void stk__upload_local_leave(stk__uploads *u, stk__upload_local **file)
{
    if (*file && --(*file)->users == 0) {
        if (!(*file)->kept)
            remove_file((*file)->path);
        stk__free(u->ctx, *file);
    }
    *file = NULL;
}

stk_status stk__upload_no_memory(const char *url, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to upload '%.300s'", url);
}

const char *stk__upload_dir(const stk__uploads *u)
{
    return u->dir ? u->dir : STK__UPLOAD_DIR;
}

/* The name of the note of a file, of which it may have several. */
static void name_note(const char *name, unsigned n, char note[32])
{
    snprintf(note, 32, "%.*s.%u", (int)strspn(name, "0123456789"), name, n);
}

/* "N/NAME" at the end of a path. */
static const char *name_in_folder(const stk__upload_folder *folder, const char *path)
{
    return path + strlen(folder->path) + 1;
}

stk_status stk__uploads_path(stk__uploads *u, const char *url, const char *mark, char **out,
                             stk_error *err)
{
    char note[32];
    size_t length;

    *out = NULL;
    if (!u->folder)
        STK_TRY(stk__upload_folder_make(u->ctx, stk__upload_dir(u), &u->folder, err));
    const char *name = stk__url_name(u->ctx, url, &length);
    char *path = stk__format(u->ctx, "%s/%llu/%.*s", u->folder->path,
                             (unsigned long long)u->files++, (int)length, name);
    if (!path)
        return stk__upload_no_memory(url, err);
    name = name_in_folder(u->folder, path);
    name_note(name, 0, note);
    const stk_status status =
        stk__upload_folder_note(u->ctx, u->folder, note, name, url, mark, err);
    if (status == STK_OK)
        *out = path;
    else
        stk__free(u->ctx, path);
    return status;
}

void stk__uploads_abandon(stk__uploads *u, const char *path)
{
    char note[32];

    name_note(name_in_folder(u->folder, path), 0, note);
    stk__upload_folder_forget(u->folder, note);
    remove_file(path);
}

stk__upload_local *stk__upload_local_make(stk__uploads *u, stk__upload_folder *folder,
                                          const char *path)
{
    stk__upload_local *file = stk__calloc(u->ctx, 1, sizeof *file + strlen(path) + 1);

    if (!file)
        return NULL;
    file->folder = folder;
    memcpy(file->path, path, strlen(path) + 1);
    file->name = name_in_folder(folder, file->path);
    return file;
}

/* Another object is to be made of the file. The note of the first is there already. */
void stk__upload_local_use(stk__upload_job *j, stk__upload_local *file)
{
    j->file = file;
    file->users++;
    name_note(file->name, file->notes++, j->note);
}
