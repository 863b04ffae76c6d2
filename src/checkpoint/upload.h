/* files of this machine -> objects of a store, in the background */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_UPLOAD_H
#define STK_SRC_CHECKPOINT_UPLOAD_H

#include "checkpoint/checkpoint.h"

/*
 * A checkpoint for another store is a local file first. One thread uploads what is handed over, in
 * its order, and tries again what fails, until somebody who waits gives up. When the object is
 * there and as long as the file its mark is put, another object: a checkpoint without is not whole.
 * A file goes when it is uploaded, or when a later one takes its place before that.
 *
 * Handed over by one thread at a time, waited for by any.
 */
typedef struct stk__uploads stk__uploads;

stk_status stk__uploads_create(stk_context *ctx, stk__uploads **out, stk_error *err);
/* Ends what is being uploaded; what is left stays where it is. *NULL afterwards. Accepts NULL. */
void stk__uploads_destroy(stk__uploads **uploads);
/* Before the first file. */
stk_status stk__uploads_set(stk__uploads *uploads, const stk__upload_options *options,
                            stk_error *err);

/* Where the file for a URL is to be written: a path of its own, the caller's to free. `mark` is
 * what its mark will say. */
stk_status stk__uploads_path(stk__uploads *uploads, const char *url, const char *mark, char **out,
                             stk_error *err);
/*
 * Upload such a file, which is its own from now on, also on failure. The first part of several
 * waits until the marks of all others are in the store.
 */
stk_status stk__uploads_put(stk__uploads *uploads, const char *path, const char *url,
                            const char *mark, const stk__checkpoint_part *part, stk_error *err);
/* stk__checkpoint_voids(), stk__checkpoint_void() of one. */
size_t stk__uploads_voids(stk__uploads *uploads, stk__checkpoint_part *parts, size_t most);
void stk__uploads_void(stk__uploads *uploads, const stk__checkpoint_part *part);
/* A part that never was a file, nor an object: the checkpoint will not be there. */
void stk__uploads_lose(stk__uploads *uploads, const stk__checkpoint_part *part);
/* What was written of such a file goes: it is none. */
void stk__uploads_abandon(stk__uploads *uploads, const char *path);
/* Have `url` be the same as `from`, which was handed over before. */
stk_status stk__uploads_copy(stk__uploads *uploads, const char *from, const char *url,
                             stk_error *err);
/* Remove an object and its mark, after what was handed over before is uploaded. */
stk_status stk__uploads_remove(stk__uploads *uploads, const char *url, stk_error *err);
/* Upload what runs that have ended left in the folder of all, of objects below the URL `root`;
 * once. What would take the place of something later, or is damaged, stays, which is said. */
stk_status stk__uploads_take(stk__uploads *uploads, const char *root, stk_error *err);
/*
 * Wait until all is uploaded; for how long the options say. What is left then is said in one
 * warning, and is not tried again before the next file. False: something is left.
 */
bool stk__uploads_wait(stk__uploads *uploads);
/* The same with the others who put parts. */
bool stk__uploads_wait_together(stk__uploads *uploads, stk__upload_meet_fn *meet, void *user);
/* The path of the file of a URL that is not uploaded, into `path`; of one without parts. */
bool stk__uploads_find(stk__uploads *uploads, const char *url, char *path, size_t size);

#endif
