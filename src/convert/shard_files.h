/* bytes -> objects that have their names when they are whole */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_SHARD_FILES_H
#define STK_SRC_CONVERT_SHARD_FILES_H

#include "convert/journal.h"
#include "store/store.h"

#define STK__SHARDS_MOST 1000000u /* "shard-999999" */

/* A shard that is whole. */
typedef struct stk__shard_done {
    uint64_t samples; /* of the dataset, up to its end */
    uint64_t size;    /* bytes */
} stk__shard_done;

/* The objects of a conversion, written one after the other from the first byte to the last. */
typedef struct stk__shard_files {
    const stk_conversion_job *job;
    const char *ending;   /* of the names of shards; NULL: the target is one object */
    stk__put_place place; /* of one object */
    stk_store *store;
    char prefix[STK_MAX_OBJECT_KEY], key[STK_MAX_OBJECT_KEY];
    uint64_t bytes;   /* of the object that is written */
    uint64_t total;   /* of all */
    uint64_t samples; /* of the dataset that are written, also by an earlier run; the caller counts
                         on, before it ends an object */
    uint32_t begun;   /* objects */
    stk_store_call call;
    stk_put *put; /* NULL: none is begun */
    /* Of shards: what is whole, for a run that goes on. */
    stk__journal journal;
    stk__journal_head head;
    bool has_journal;      /* of an earlier run */
    bool noted, ended;     /* this run has begun the journal; the earlier one had come to its end */
    stk__shard_done *done; /* of the earlier run, from the first shard on */
    size_t num_done, room_done;
    uint32_t num_old; /* shards of another conversion that were there, from the first on */
} stk__shard_files;

/*
 * Open the target of a job: a folder of "shard-000000" with the ending, or one object. What is
 * there is refused (STK_EEXIST) but for the option overwrite. Shards that a run of the same samples
 * and the same options of `table` has left whole are kept, as its journal says: files->samples are
 * theirs. Close it also after a failure. Blocks.
 */
stk_status stk__shard_files_open(stk__shard_files *files, const stk_conversion_job *job,
                                 const char *ending, const stk_option_table *table, stk_error *err);
/* End the object that is written, if any, and begin the next. Blocks. */
stk_status stk__shard_files_next(stk__shard_files *files, stk_error *err);
/* More bytes of the object that was begun. Blocks. */
stk_status stk__shard_files_write(stk__shard_files *files, const void *data, size_t length,
                                  stk_error *err);
/* The object that is written is whole: it gets its name, then its line in the journal. Does nothing
 * where none is. Blocks. */
stk_status stk__shard_files_end(stk__shard_files *files, stk_error *err);
/* End the last, and remove the shards of an earlier conversion behind it. Blocks. */
stk_status stk__shard_files_finish(stk__shard_files *files, stk_error *err);
/* It ends early: STK_ECANCELED with the remedy. */
void stk__shard_files_fail_stopped(const stk__shard_files *files, stk_error *err);
/* What is not ended leaves no trace. */
void stk__shard_files_close(stk__shard_files *files);

#endif
