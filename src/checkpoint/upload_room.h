/* a list of jobs, files of this machine: the parts of uploads */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_UPLOAD_ROOM_H
#define STK_SRC_CHECKPOINT_UPLOAD_ROOM_H

#include "checkpoint/parts.h"
#include "checkpoint/upload.h"
#include "checkpoint/upload_folder.h"
#include "checkpoint/upload_send.h"

typedef enum stk__upload_kind {
    STK__UPLOAD_JOB_PUT,
    STK__UPLOAD_JOB_COPY,
    STK__UPLOAD_JOB_REMOVE,
    STK__UPLOAD_JOB_PARTS, /* remove the parts of a save that no object is the first of any more */
    STK__UPLOAD_JOB_LEFT
} stk__upload_kind;

/* A local file, of as many jobs as it has names. */
typedef struct stk__upload_local {
    stk__upload_folder *folder;
    unsigned users, notes; /* notes: made so far */
    bool kept;             /* it stays when nobody uses it any more */
    const char *name;      /* "N/NAME", the end of `path` */
    char path[];
} stk__upload_local;

typedef struct stk__upload_job {
    struct stk__upload_job *next;
    stk__upload_kind kind;
    stk__upload_local *file; /* PUT, LEFT */
    char note[32];           /* of `file`; "": none */
    const char *from;        /* COPY */
    const char *mark;
    stk__checkpoint_part part;   /* PUT: which it is; PARTS: of which save; count 0: none */
    stk__checkpoint_part before; /* whose first part the object was until then; the thread's */
    uint32_t next_part; /* the first part that is not known to be in the store; the thread's */
    uint64_t look_at;   /* when that is looked for again; 0: at once */
    uint64_t looks;     /* in vain */
    bool last;          /* what is missing at the next look will not come */
    uint64_t most;      /* bytes that a try has come to; the thread's */
    bool working;       /* the thread is at it */
    bool dropped;       /* not to be tried again */
    bool begun;         /* first of parts: sent to its end, though it waits for others */
    bool there;         /* PUT of a first: the store has the save by another name */
    bool kept;          /* its note stays; the thread's */
    const char *url;
    char texts[];
} stk__upload_job;

/* A part that was handed over, of which the first may say that it is void. */
#define STK__UPLOAD_MOST_OWN 64
typedef struct stk__upload_own {
    struct stk__upload_own *next; /* handed over before */
    stk__checkpoint_part part;
    char url[];
} stk__upload_own;

struct stk__uploads {
    stk_context *ctx;
    stk__upload_options options;
    char *dir;
    stk__upload_folder *folder; /* made for the first file */
    stk__upload_folder *taken;  /* of runs that have ended; NULL: not looked for, or none */
    uint64_t files;
    stk__upload_sender sender;
    stk__thread thread;
    bool started;
    bool warned; /* that something is tried again; the thread's */
    char *plain; /* a URL whose folder has no parts; the thread's */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t has_jobs, done;
    stk__upload_job *first;
    stk__upload_local *newest; /* the file that was handed over last, with its URL and mark */
    char *newest_url, *newest_mark;
    stk__checkpoint_part newest_part;
    bool newest_there;           /* it is the first of a save that the store has */
    stk__upload_own *own;        /* the last first */
    stk__checkpoint_part *voids; /* that were not told yet */
    size_t num_voids, void_room;
    uint64_t retry_at, failures; /* in a row */
    bool hurry;                  /* what is new goes first */
    uint64_t asked;              /* how often all parts were to be looked for at once */
    bool alone;                  /* nobody else puts parts any more */
    bool lost;                   /* what is not in a file could not be put either */
    stk_error missing;           /* the part that was looked for last */
    bool waiting, gave_up, closing;
    stk_error failure;
};

/* ---- upload_files.c: with the lock held, but for those of paths ---- */

/* Where files lie until they are uploaded. */
const char *stk__upload_dir(const stk__uploads *u);
stk_status stk__upload_no_memory(const char *url, stk_error *err);
/* NULL: no memory. Nobody uses it yet. */
stk__upload_local *stk__upload_local_make(stk__uploads *u, stk__upload_folder *folder,
                                          const char *path);
/* Another object is to be made of the file: the job has the name of a note, which is not written.
 */
void stk__upload_local_use(stk__upload_job *j, stk__upload_local *file);
/* One user less; sets it to NULL and accepts NULL. */
void stk__upload_local_leave(stk__uploads *u, stk__upload_local **file);

/* ---- upload_list.c: with the lock held ---- */

void stk__upload_append(stk__uploads *u, stk__upload_job *j);
void stk__upload_take_out(stk__uploads *u, stk__upload_job *j);
void stk__upload_job_free(stk__uploads *u, stk__upload_job *j);
/* Those of the object of a new job are void. */
void stk__upload_drop_older(stk__uploads *u, const stk__upload_job *new);
/* A job is not to be done. What was to be removed after it is removed after the one that has come
 * in its place. */
void stk__upload_take_back(stk__uploads *u, stk__upload_job *j);
/* Behind an upload of the first of parts: every rank puts its parts in the order of their saves, so
 * what is missing of a save before is looked for only once more. */
void stk__upload_look_once_more(stk__uploads *u, const stk__upload_job *done);
/* No first will be put for the parts of a save, which no job needs any more. */
void stk__upload_add_void(stk__uploads *u, const stk__checkpoint_part *part);
/* The job is not done: the parts are void, unless the store has the save by another name. */
void stk__upload_void_put(stk__uploads *u, const stk__upload_job *j);
/* A job that has put the first of parts is done: the store has the save, whatever becomes of other
 * names of it. */
void stk__upload_note_first(stk__uploads *u, const stk__upload_job *done);
/* The file of an object is not put, or is removed behind that. False: there is none to put. */
bool stk__upload_drop_put(stk__uploads *u, const char *url);
/* Whether a job that was not dropped puts the first part of the save. */
bool stk__upload_needs(const stk__uploads *u, const stk__checkpoint_part *part);
/* Have a part be removed (REMOVE), or those of a save (PARTS), where no job needs them then.
 * Nothing is done for a count of 0. */
void stk__upload_append_removal(stk__uploads *u, stk__upload_kind kind, const char *url,
                                const stk__checkpoint_part *part);
bool stk__upload_works(const stk__uploads *u);
/* Whether nothing but parts of others is waited for, which are not there. */
bool stk__upload_is_stuck(const stk__uploads *u);
/* Which comes next: the first, or, where time is short, what was saved last. NULL: none; the first
 * is to be looked at again *when. */
stk__upload_job *stk__upload_choose(const stk__uploads *u, uint64_t *when);
static inline bool stk__upload_removes(const stk__upload_job *j)
{
    return j->kind == STK__UPLOAD_JOB_REMOVE || j->kind == STK__UPLOAD_JOB_PARTS;
}

/* ---- upload_hand.c ---- */

/* NULL: no memory. */
stk__upload_job *stk__upload_job_make(stk__uploads *u, stk__upload_kind kind, const char *url,
                                      const char *from, const char *mark);

/* ---- upload_parts.c: the thread's ---- */

/* A PUT, of a part or not; STK_EAGAIN: it is the first, and others are missing. */
stk_status stk__upload_put(stk__uploads *u, stk__upload_job *j, stk_error *err);
stk_status stk__upload_copy(stk__uploads *u, stk__upload_job *j, stk_error *err);
stk_status stk__upload_remove(stk__uploads *u, stk__upload_job *j, stk_error *err);
stk_status stk__upload_drop_parts(stk__uploads *u, stk__upload_job *j, stk_error *err);

/* ---- upload.c ---- */

stk_status stk__upload_start(stk__uploads *u, stk_error *err);

#endif
