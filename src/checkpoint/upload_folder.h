/* files on their way to a store -> a folder that a later run can go on with */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_UPLOAD_FOLDER_H
#define STK_SRC_CHECKPOINT_UPLOAD_FOLDER_H

#include "base/base.h"

/*
 * "stoker-upload-n-XXXXXX" in the folder of all, mode 0700, locked by flock() as long as it is
 * open: one that is not is of a run that has ended. It has a folder "N" for each file, and a note
 * "N.K" for each object that is still to be made of it: its name "N/NAME", the URL, and what the
 * mark says. The note is there before the file, and goes when the object is there or not wanted any
 * more: a file without notes is void.
 */
typedef struct stk__upload_folder {
    struct stk__upload_folder *next;
    int fd;
    int64_t changed_ns; /* Unix time at which the run that left it did something last; 0: our own */
    char path[];
} stk__upload_folder;

/* A new one, in `dir`, which is made. */
stk_status stk__upload_folder_make(stk_context *ctx, const char *dir, stk__upload_folder **out,
                                   stk_error *err);
/* Sets it to NULL; accepts NULL. With `own` it is removed where it is empty; a child of a fork has
 * nothing of its own. */
void stk__upload_folder_close(stk_context *ctx, stk__upload_folder **folder, bool own);
/* Durably. `name` is "N/NAME". */
stk_status stk__upload_folder_note(stk_context *ctx, const stk__upload_folder *folder,
                                   const char *note, const char *name, const char *url,
                                   const char *mark, stk_error *err);
void stk__upload_folder_forget(const stk__upload_folder *folder, const char *note);

/* Those of `dir` that runs of this user left, locked; newest first; what is void in them is
 * removed. NULL: there is none. */
stk__upload_folder *stk__upload_folders_take(stk_context *ctx, const char *dir);
/* Called with each note that is about what lies below the URL `root`; all texts are for the time of
 * the call. */
typedef void stk__upload_note_fn(void *user, stk__upload_folder *folder, const char *note,
                                 const char *name, const char *url, const char *mark);
void stk__upload_folder_each(stk__upload_folder *folder, const char *root,
                             stk__upload_note_fn *each, void *user);

#endif
