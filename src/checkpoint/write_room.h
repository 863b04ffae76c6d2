/* snapshots and links -> files and objects: the parts of a writer */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_WRITE_ROOM_H
#define STK_SRC_CHECKPOINT_WRITE_ROOM_H

#include "checkpoint/parts.h"
#include "checkpoint/upload.h"

typedef enum stk__write_kind { STK__WRITE_TOUCH, STK__WRITE_SAVE, STK__WRITE_LINK } stk__write_kind;

/* One thing to do; its strings lie behind it. */
typedef struct stk__write_job {
    struct stk__write_job *next;
    stk__write_kind kind;
    const char *path;
    stk__checkpoint_part part; /* SAVE: that it is; count 0: it is all */
    size_t num_others;
    const char *others[]; /* SAVE: what it replaces; LINK: the other name */
} stk__write_job;

struct stk__checkpoint_writer {
    stk_context *ctx;
    stk__put_place place; /* of what was written last; the thread's */
    stk__uploads *uploads;
    stk__thread thread;

    /* The snapshot: the caller's while `snapshot_busy` is false, else the thread's. */
    stk__safetensors_head head;
    stk__checkpoint_text *texts;
    size_t text_room;
    char part_text[STK__CHECKPOINT_PART_TEXT];
    uint8_t *data;
    uint64_t data_room;

    bool save_failed;  /* the last save; the thread's */
    atomic_bool hurry; /* the parts of others may not come any more */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t has_jobs, done;
    stk__write_job *first, *last;
    bool working;       /* the thread is at a job */
    bool snapshot_busy; /* the thread has it, or will have */
    bool closing;
    bool failed; /* `failure` was not told yet */
    stk_error failure;
};

/* ---- write_jobs.c: the thread's ---- */

/* Without the lock. */
stk_status stk__write_job_run(stk__checkpoint_writer *writer, const stk__write_job *j,
                              stk_error *err);

#endif
