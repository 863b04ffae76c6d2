/* state -> one durable file -> state */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint is one safetensors file: the tensors, and texts (JSON or plain) in its
 * `__metadata__`. Two of the texts are the writer's own: the version of this layout and a hash of
 * the whole file, so that a file that is cut, damaged or mixed up is never taken for a checkpoint.
 */
#ifndef STK_SRC_CHECKPOINT_CHECKPOINT_H
#define STK_SRC_CHECKPOINT_CHECKPOINT_H

#include <stoker/checkpoint.h>
#include <stoker/device.h>

#include "base/base.h"

/* Texts with a meaning for this room; the caller gives them with the others. */
#define STK__CHECKPOINT_EPOCH "epoch"       /* decimal */
#define STK__CHECKPOINT_STEP  "global_step" /* decimal; which checkpoint is the newest */
#define STK__CHECKPOINT_HASH  "stoker.xxh3" /* the writer's own: of the whole file */
/* Names of texts and tensors that begin so are no parameters of the model: optimizer, averages, ...
 */
#define STK__CHECKPOINT_OWN "stoker."
static inline bool stk__checkpoint_is_own(const char *name)
{
    return strncmp(name, STK__CHECKPOINT_OWN, strlen(STK__CHECKPOINT_OWN)) == 0;
}

/* ---- Writing (write.c) ---- */

/* One background thread, one snapshot at a time. One caller at a time. */
typedef struct stk__checkpoint_writer stk__checkpoint_writer;

/* What a checkpoint holds besides tensors. */
typedef struct stk__checkpoint_text {
    const char *name, *text;
} stk__checkpoint_text;

struct stk__file_calls; /* base/durable.h; NULL: the system's */

stk_status stk__checkpoint_writer_create(stk_context *ctx, stk__checkpoint_writer **out,
                                         stk_error *err);
stk_status stk__checkpoint_writer_create_on(stk_context *ctx, const struct stk__file_calls *calls,
                                            stk__checkpoint_writer **out, stk_error *err);
/* How checkpoints for other stores than local folders get there. */
typedef struct stk__upload_options {
    const char *dir;          /* where they lie until then; in a folder of the writer's own */
    uint64_t deadline_ns;     /* a wait ends so long after it is told to; else when nothing has got
                                 through for STK__UPLOAD_PATIENCE times as long */
    bool (*told)(void *user); /* the program is to end, asked of the thread that waits; or NULL */
    void *user;
} stk__upload_options;
#define STK__UPLOAD_PATIENCE 5
/* Where files lie until then: on a disk, and left alone by a restart. */
#define STK__UPLOAD_DIR "/var/tmp"

/* Before the first save. */
stk_status stk__checkpoint_upload_by(stk__checkpoint_writer *writer,
                                     const stk__upload_options *options, stk_error *err);
/* Upload first what runs that have ended left in the same folder, of checkpoints below the URL
 * `root`; not what would take the place of something later. Once, before the first save. */
stk_status stk__checkpoint_upload_left(stk__checkpoint_writer *writer, const char *root,
                                       stk_error *err);
/* Waits until everything handed over is on the disk, and as stk__checkpoint_upload() where nobody
 * has. *NULL afterwards. Accepts NULL. */
void stk__checkpoint_writer_destroy(stk__checkpoint_writer **writer);
/* (optional) Take the memory of a snapshot of `bytes` bytes of tensors in the background, so that
 * the first save costs no more than the others: most of a first copy is the kernel giving pages. */
stk_status stk__checkpoint_reserve(stk__checkpoint_writer *writer, uint64_t bytes, stk_error *err);
/*
 * Copy the tensors and texts (the only part that blocks: one memcpy) and write them in the
 * background to `path`, whose folders are made: temporary name, fsync, rename, fsync of the folder.
 * Then `replaces` (older checkpoints) are removed, only after the new one is durable and never
 * `path` itself. The URL of another store is written to a local file and uploaded
 * (checkpoint/upload.h): such a save does not fail later on. If a snapshot is still being written
 * the call waits for it: *waited_ns (may be NULL). Errors, here: a tensor or text that no file can
 * hold (named), STK_ENOMEM. Those of the write come from poll and flush.
 */
stk_status stk__checkpoint_save(stk__checkpoint_writer *writer, const char *path,
                                const stk_state_tensor *tensors, size_t num_tensors,
                                const stk__checkpoint_text *texts, size_t num_texts,
                                const char *const *replaces, size_t num_replaces,
                                uint64_t *waited_ns, stk_error *err);
/*
 * Have `name` be another name of the checkpoint `path` (as last.ckpt of the newest), atomically and
 * durably, after all that was handed over before; a hard link, or a copy where the file system has
 * none. Nothing is done when the save of `path` failed. Does not wait.
 */
stk_status stk__checkpoint_link(stk__checkpoint_writer *writer, const char *path, const char *name,
                                stk_error *err);
/* Wait until all is written and uploaded. What is not uploaded then stays in its local folder,
 * which a warning says: that fails nothing. */
void stk__checkpoint_upload(stk__checkpoint_writer *writer);
/* Where a checkpoint can be read: of one that is not uploaded its file, into `path`. False: where
 * it was saved. */
bool stk__checkpoint_local(stk__checkpoint_writer *writer, const char *url, char *path,
                           size_t size);
/* The first failure of a background write that was not told yet (disk full, read-only folder), else
 * STK_OK. Does not wait. */
stk_status stk__checkpoint_poll(stk__checkpoint_writer *writer, stk_error *err);
/* Wait until all is written; then as poll. */
stk_status stk__checkpoint_flush(stk__checkpoint_writer *writer, stk_error *err);

/* ---- Parts (parts_write.c): what several processes write of one checkpoint ---- */

/*
 * The first part is the file that a checkpoint is known by. It has all that lies in no parts, and
 * gets its name when the others are on the disk: so it is the mark of the whole. Those of the
 * others lie beside it, in the folder STK__CHECKPOINT_PARTS, by the number of the save, so that
 * what is written never takes the place of what an older checkpoint needs.
 *
 * A tensor that lies in parts is STK__CHECKPOINT_RANGE NAME in each of them, of rank 1; one behind
 * the other, in the order of parts, they are the tensor. Its shape is STK__CHECKPOINT_SHAPE NAME in
 * the first (int64, one element a dimension). The text STK__CHECKPOINT_PART says which part of
 * which save a file is: "NUMBER-OF-SAVE PART COUNT".
 */
#define STK__CHECKPOINT_PART       STK__CHECKPOINT_OWN "part"
#define STK__CHECKPOINT_RANGE      STK__CHECKPOINT_OWN "range."
#define STK__CHECKPOINT_SHAPE      STK__CHECKPOINT_OWN "shape."
#define STK__CHECKPOINT_PARTS      "checkpoint.parts"
#define STK__CHECKPOINT_MOST_PARTS (1U << 20) /* as many as there may be ranks */

typedef struct stk__checkpoint_part {
    uint64_t save[2];       /* drawn for each save */
    uint32_t number, count; /* of this part, from 0; of all; count 0: it is no part */
} stk__checkpoint_part;

/* The folder in which the parts of a local checkpoint lie; NULL: no memory. The caller's. */
char *stk__checkpoint_parts_folder(stk_context *ctx, const char *path);
/* Draw the number of a save. */
void stk__checkpoint_part_draw(stk__checkpoint_part *part);
/* Whether parts may be objects of the store of a URL, which each process puts itself. */
bool stk__checkpoint_parts_store(stk_context *ctx, const char *url);
/*
 * As stk__checkpoint_save() of this process's part of the checkpoint `path`; the others save theirs
 * by the same number. What it replaces is the first's to do. Of a local one the first waits for the
 * others in the background: as long as its own part took several times over, and two minutes at
 * least; a part that could not be written is a failure of the first, too. Of one in a store each
 * part is uploaded by its process, and the first when the marks of all others are there.
 */
stk_status stk__checkpoint_save_part(stk__checkpoint_writer *writer,
                                     const stk__checkpoint_part *part, const char *path,
                                     const stk_state_tensor *tensors, size_t num_tensors,
                                     const stk__checkpoint_text *texts, size_t num_texts,
                                     const char *const *replaces, size_t num_replaces,
                                     stk_error *err);
/* The other processes have failed: their parts are waited for a few seconds longer, until the next
 * save. Does not wait. */
void stk__checkpoint_hurry(stk__checkpoint_writer *writer);
/* Parts in a store that will never have a first, as it gave the checkpoint up for a later one: for
 * the others to hear. At most `most` of them, each told once. */
size_t stk__checkpoint_voids(stk__checkpoint_writer *writer, stk__checkpoint_part *parts,
                             size_t most);
/* What the first told: what this process has of them goes. */
void stk__checkpoint_void(stk__checkpoint_writer *writer, const stk__checkpoint_part *parts,
                          size_t n);
/* Adds numbers of all processes up, in place; a failure: there are no others any more. */
enum { STK__UPLOAD_SUMS = 5 };
typedef stk_status stk__upload_meet_fn(void *user, double sums[STK__UPLOAD_SUMS]);
/*
 * stk__checkpoint_upload() by all processes that write parts: each is waited for as long as any of
 * them gets on, and no part longer than there is somebody who may put it. False, to all of them:
 * something of one is left. `meet` is called by all equally often.
 */
bool stk__checkpoint_upload_together(stk__checkpoint_writer *writer, stk__upload_meet_fn *meet,
                                     void *user);

/* ---- Reading (read.c) ---- */

/* A checkpoint in memory, verified. */
typedef struct stk__checkpoint stk__checkpoint;

/* One that lies in parts is put together, as if it had been one file. Errors name the file:
 * STK_ENOENT (also of a part), STK_ETRUNCATED, STK_ECHECKSUM (damaged), STK_EFORMAT (something
 * else, or a part of another save). */
stk_status stk__checkpoint_open(stk_context *ctx, const char *path, stk__checkpoint **out,
                                stk_error *err);
/* *NULL afterwards. Accepts NULL. */
void stk__checkpoint_close(stk__checkpoint **checkpoint);

/* Bytes of a tensor. */
typedef struct stk__checkpoint_range {
    const char *name;
    uint64_t from, bytes; /* beyond its end there are none */
} stk__checkpoint_range;

/* What one of several readers of a checkpoint wants of what lies in parts. */
typedef struct stk__checkpoint_wanted {
    const stk__checkpoint_range *ranges; /* sorted by name, each once */
    size_t n;
    uint64_t reader, readers; /* which of them, from 0 */
} stk__checkpoint_wanted;

/* As stk__checkpoint_open() of the first alone: what lies in parts is not there yet. */
stk_status stk__checkpoint_open_first(stk_context *ctx, const char *path, stk__checkpoint **out,
                                      stk_error *err);
/*
 * Of one that lies in parts: whether the part of the reader's number is just what is wanted, by its
 * head. Where that holds for all readers, and what they want of a tensor are its parts in their
 * order, `own` may be given to stk__checkpoint_bring(), and no reader looks at another part.
 */
stk_status stk__checkpoint_fits(stk__checkpoint *checkpoint, const stk__checkpoint_wanted *wanted,
                                bool *fits, stk_error *err);
/*
 * Read what is wanted; NULL: all. Tensors are listed as by stk__checkpoint_open(), with the wanted
 * bytes alone. Each part is verified as a whole by one of the readers, and by who wants all of it;
 * what others read of it is not hashed again. So what is brought counts when no reader has failed.
 */
stk_status stk__checkpoint_bring(stk__checkpoint *checkpoint, const stk__checkpoint_wanted *wanted,
                                 bool own, stk_error *err);
/* Bytes of a tensor in front of its data that were not wanted. */
uint64_t stk__checkpoint_skipped(const stk__checkpoint *checkpoint, const stk_state_tensor *tensor);
size_t stk__checkpoint_count(const stk__checkpoint *checkpoint);
/* Tensor `i` in the order of the file; its data is aligned and lives as long as the checkpoint. */
const stk_state_tensor *stk__checkpoint_tensor(const stk__checkpoint *checkpoint, size_t i);
/* NULL: there is none. */
const stk_state_tensor *stk__checkpoint_find(const stk__checkpoint *checkpoint, const char *name);
const char *stk__checkpoint_find_text(const stk__checkpoint *checkpoint, const char *name);
/* Name of text `i`; NULL past the last. */
const char *stk__checkpoint_text_name(const stk__checkpoint *checkpoint, size_t i);
/* Verify a file without keeping it in memory. */
stk_status stk__checkpoint_verify(stk_context *ctx, const char *path, stk_error *err);
/* What one of several readers, from 0, does of it: where none fails it is verified. The first
 * reader has the first file, and looks at the heads of all parts. */
stk_status stk__checkpoint_verify_share(stk_context *ctx, const char *path, uint64_t reader,
                                        uint64_t readers, stk_error *err);

/* Where the newest is looked for. */
typedef struct stk__newest_where {
    const char *const *own; /* where a run saves that goes on: there it is, if all have some */
    size_t num_own;
    const char *runs;  /* the folders version_<n> of these; with no `other` all that is below */
    const char *other; /* of runs without such a folder, which come behind the highest version where
                          their last checkpoint is older; or NULL */
    const char *wanted; /* name of a text: those without it come behind all others; or NULL */
    bool goes_on;       /* what killed runs left unfinished in folders version_<n> of `runs` is
                           removed: a run that goes on writes into a folder of its own */
    stk_status (*verify)(void *user, const char *path, stk_error *err); /* NULL: alone */
    void *user;
} stk__newest_where;

/*
 * The path of the newest complete and verified checkpoint (*.ckpt, *.safetensors) in these folders
 * and those below them: that of the highest folder version_<n>, and there of the highest step;
 * without such folders, which runs then share, the youngest. Damaged ones are named in the
 * context's log as skipped, each once. STK_ENOENT where there is none.
 */
stk_status stk__checkpoint_newest(stk_context *ctx, const stk__newest_where *where, char *path,
                                  size_t size, stk_error *err);

#endif
