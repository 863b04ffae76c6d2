/* What the files of the converter of pictures share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_IMAGES_H
#define STK_SRC_CONVERT_IMAGES_H

#include "convert/picture.h"
#include "store/store.h"

#define STK__IMAGES_MAX_WORKERS 1024

/* A file whose part is written and that waits for its name. */
typedef struct stk__waiting {
    uint64_t index;
    stk__done done;
} stk__waiting;

/* A source that was left out. */
typedef struct stk__left_out {
    uint64_t index;
    char *text; /* a line */
} stk__left_out;

/* A file that may be left of an earlier conversion. */
typedef struct stk__old {
    char *name;
    uint64_t size; /* that it was written with */
} stk__old;

/* The conversion of a folder of pictures, shared by its threads. */
typedef struct stk__images_run {
    const stk_conversion_job *job;
    stk_context *context;
    stk_dataset *dataset;
    const stk_convert_options *options;
    const stk_convert_images_options *own;
    stk_conversion_report *report;
    stk__target *target;
    stk__journal journal;
    stk__journal_head head;
    uint64_t total, budget, share; /* share: bytes that each worker may hold without asking */
    uint32_t num_workers;
    /* One for each file. While workers run, a row is its worker's, then the committing thread's. */
    stk__done *done;

    /* Files that may be left of an earlier conversion; guarded by `lock`. */
    stk__old *old;
    uint64_t num_old, room_old;

    atomic_uint_fast64_t next;
    atomic_bool stop;
    pthread_rwlock_t all_memory; /* held for writing by one that needs more than its share */
    pthread_mutex_t lock;        /* guards what follows */
    pthread_cond_t changed;
    stk__waiting *waiting; /* 2 x checkpoint */
    uint64_t num_waiting;
    uint64_t finished; /* files: kept, waiting, named, left out */
    uint64_t verified;
    uint32_t running; /* workers */
    stk__left_out *left_out;
    uint64_t num_left_out, room_left_out;
    uint64_t max_errors; /* of them; not guarded */
    uint64_t failed_at;  /* index of the file of `failure`, the first in order */
    stk_error failure;   /* status STK_OK: none */
} stk__images_run;

/* ---- Names (images_names.c) ------------------------------------------------------------------ */

/* Store and key of sample `index`. */
stk_status stk__images_source(stk__images_run *run, uint64_t index, stk_store **store,
                              char key[STK_MAX_OBJECT_KEY], stk_error *err);
/* The name of what a key becomes: with the ending .jpg where `renamed`. */
stk_status stk__images_name(const char *key, bool renamed, char name[STK_MAX_OBJECT_KEY],
                            stk_error *err);
/* Whether a key has to be renamed when it becomes a JPEG that it was not. */
bool stk__images_has_jpeg_name(const char *key);

/* A table from names to samples, made before the workers begin. */
typedef struct stk__images_names stk__images_names;
/* Look at all keys: bad ones and collisions are refused, what is named twice is REPEATED. */
stk_status stk__images_names_create(stk__images_run *run, stk__images_names **out, stk_error *err);
void stk__images_names_destroy(stk__images_run *run, stk__images_names **names);
/* The sample of a key; false: there is none. */
bool stk__images_names_find(stk__images_run *run, const stk__images_names *names, const char *key,
                            uint64_t *index);
/* Whether anything that was done has this name. */
bool stk__images_names_taken(stk__images_run *run, const stk__images_names *names,
                             const char *name);

/* ---- Work (images_work.c) -------------------------------------------------------------------- */

/* Read a file whole, with STK_TAIL readable bytes behind. */
stk_status stk__images_load(stk__images_run *run, stk_store *store, const char *key, uint64_t size,
                            uint8_t **out, stk_error *err);
/* Convert the next file; false: there is none, or the run has ended. */
bool stk__images_step(stk__images_run *run, stk__picture_worker *worker);

/* ---- Keeping (images_keep.c) ----------------------------------------------------------------- */

/* A file of `size` bytes that an earlier conversion has written. */
stk_status stk__images_add_old(stk__images_run *run, const char *name, uint64_t size,
                               stk_error *err);
/* Read the journal of an earlier run, and begin a new one. */
stk_status stk__images_resume(stk__images_run *run, const stk__images_names *names, stk_error *err);
/* Make what waits safe, give it its names and note it. One thread at a time. */
stk_status stk__images_checkpoint(stk__images_run *run, stk_error *err);
/* After the last file: the old ones, the list of those left out, a tidy journal. */
stk_status stk__images_finish(stk__images_run *run, const stk__images_names *names, stk_error *err);

#endif
