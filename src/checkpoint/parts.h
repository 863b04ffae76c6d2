/* a checkpoint in parts -> their files, and the tensors that they are ranges of */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_PARTS_H
#define STK_SRC_CHECKPOINT_PARTS_H

#include "base/durable.h"
#include "checkpoint/safetensors/safetensors.h"
#include "store/store.h"

/* ---- Names (parts_name.c) ---- */

#define STK__CHECKPOINT_PART_TEXT 64        /* bytes of the text, with its end */
#define STK__PART_FAILED          ".failed" /* behind the name of one that could not be written */

void stk__part_text(const stk__checkpoint_part *part, char text[STK__CHECKPOINT_PART_TEXT]);
/* False: no text that is written here. */
bool stk__part_parse(const char *text, stk__checkpoint_part *out);
/* The file of a part but the first of the checkpoint at the path or URL `first`, and the one that
 * says that it could not be written; NULL: no memory. */
char *stk__part_path(stk_context *ctx, const char *first, const stk__checkpoint_part *part,
                     uint32_t number);
char *stk__part_failed_path(stk_context *ctx, const char *first, const stk__checkpoint_part *part,
                            uint32_t number);
/* What a name in STK__CHECKPOINT_PARTS says; false: it is another's file. */
bool stk__part_name_parse(const char *name, stk__checkpoint_part *out);
/* Whether both are of one save. */
static inline bool stk__part_same_save(const stk__checkpoint_part *a, const stk__checkpoint_part *b)
{
    return a->save[0] == b->save[0] && a->save[1] == b->save[1];
}

/* Whether it is the first of several. */
static inline bool stk__part_is_first(const stk__checkpoint_part *part)
{
    return part->count && !part->number;
}

/* ---- Writing (parts_write.c) ---- */

/* Wait until the parts of all others are on the disk, under their names. `path`: of the first.
 * `hurry`: the others have failed. */
stk_status stk__parts_wait_for(stk_context *ctx, const stk__file_calls *calls, const char *path,
                               const stk__checkpoint_part *part, uint64_t patience_ns,
                               const atomic_bool *hurry, stk_error *err);
/* Tell the first that a part is not written. What fails here is not told. */
void stk__part_tell_failure(const stk__file_calls *calls, const char *path);

/* ---- Names of files (parts_files.c) ---- */

#define STK__PARTS_YOUNG_S 600 /* seconds between the parts of a save, at most */

/* What the file at a path or URL says that it is, in *out; STK_ENOENT: no part. */
stk_status stk__part_read(stk_context *ctx, const char *path, stk__checkpoint_part *out,
                          stk_error *err);

/* Whether that says for sure that it is no part, or is not there. */
static inline bool stk__part_is_none(stk_status status)
{
    return stk_status_fault(status) == STK_FAULT_SAMPLE && status != STK_EACCES;
}

/* All of these take paths of local checkpoints, which may lie in one file. */

/* What the checkpoint is the first of; false: it lies in no parts, as far as it can be read. */
bool stk__parts_of(stk_context *ctx, const char *path, stk__checkpoint_part *out);
/* Behind the removal of the checkpoint: remove its parts, but where another name in its folder is
 * one of it. */
void stk__parts_drop(stk_context *ctx, const char *path, const stk__checkpoint_part *part);
/* stk__url_remove() and stk__url_copy() with parts. */
stk_status stk__parts_remove(stk__put_place *place, const char *path, stk_error *err);
stk_status stk__parts_link(stk__put_place *place, const char *path, const char *name,
                           stk_error *err);
/* Remove from the folder of a run the parts that no checkpoint there is the first of: those of
 * saves that ended before it was written. */
void stk__parts_sweep(stk_context *ctx, const char *folder);

/* ---- Objects of a store (parts_objects.c) ---- */

/* Whether both URLs or paths name something in the same folder. */
bool stk__parts_same_folder(const char *a, const char *b);
/* Which save an object is the first part of; *out has a count of 0: of none, or it is not there.
 * *any: the folder has parts of something. */
stk_status stk__parts_object_of(stk__put_place *place, const char *url, bool *any,
                                stk__checkpoint_part *out, stk_error *err);
/* Look for the marks of parts *next and above, as far as they are there. STK_EAGAIN: one is not,
 * `err` says of whom. */
stk_status stk__parts_objects_look(stk__put_place *place, const char *url,
                                   const stk__checkpoint_part *part, uint32_t *next,
                                   stk_error *err);
/* Put the parts of the checkpoint `from` beside `to`, which lies in another folder. */
stk_status stk__parts_objects_copy(stk__put_place *place, const char *from, const char *to,
                                   const stk__checkpoint_part *part, stk_error *err);
/* Remove the parts of a save, marks first, where no object beside `url` is the first of them. */
stk_status stk__parts_objects_drop(stk__put_place *place, const char *url,
                                   const stk__checkpoint_part *part, stk_error *err);

/* Remove what stk__parts_sweep() would, beside `url`. */
stk_status stk__parts_objects_sweep(stk__put_place *place, const char *url, stk_error *err);

/* ---- Reading (parts_read.c) ---- */

/* Bytes of the files of parts, and their number; 0: it lies in one file. */
typedef struct stk__parts_told {
    uint64_t bytes;
    uint32_t count;
} stk__parts_told;

/* How many parts a file says that it is the first of; 0: it lies in one file. */
stk_status stk__parts_identify(stk__safetensors_file *file, const char *path, uint32_t *count,
                               stk_error *err);
/* stk__checkpoint_fits() of a verified file. */
stk_status stk__parts_own(stk__safetensors_file *file, const char *path,
                          const stk__checkpoint_wanted *wanted, bool *own, stk_error *err);
/* Of a verified file in memory: read what is wanted of what lies in parts (NULL: all; `own`: it is
 * what the reader's part has) into one block with all else, which takes the place of *data and
 * *moved, and have `file->parsed` list it as if it had been one file. Nothing is done with a file
 * that lies in no parts. */
stk_status stk__parts_load(stk__safetensors_file *file, const char *path,
                           const stk__checkpoint_wanted *wanted, bool own, uint8_t **data,
                           uint8_t **moved, stk_error *err);
/* Without the data: verify the parts that this of several readers answers for. The first of them
 * has `file->parsed` list the same. */
stk_status stk__parts_verify(stk__safetensors_file *file, const char *path, uint64_t reader,
                             uint64_t readers, stk__parts_told *told, stk_error *err);

#endif
