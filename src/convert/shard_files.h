/* bytes -> objects that have their names when they are whole */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_SHARD_FILES_H
#define STK_SRC_CONVERT_SHARD_FILES_H

#include "convert/convert.h"
#include "store/store.h"

#define STK__SHARDS_MOST 1000000u /* "shard-999999" */

/* The objects of a conversion, written one after the other from the first byte to the last. */
typedef struct stk__shard_files {
    const stk_conversion_job *job;
    const char *ending;   /* of the names of shards; NULL: the target is one object */
    stk__put_place place; /* of one object */
    stk_store *store;
    char prefix[STK_MAX_OBJECT_KEY], key[STK_MAX_OBJECT_KEY];
    uint64_t bytes; /* of the object that is written */
    uint64_t total; /* of all */
    uint32_t begun; /* objects */
    stk_store_call call;
    stk_put *put; /* NULL: none is begun */
} stk__shard_files;

/*
 * Open the target of a job: a folder of "shard-000000" with the ending, or one object. What is
 * there is refused (STK_EEXIST) but for the option overwrite. Close it also after a failure.
 * Blocks.
 */
stk_status stk__shard_files_open(stk__shard_files *files, const stk_conversion_job *job,
                                 const char *ending, stk_error *err);
/* End the object that is written, if any, and begin the next. Blocks. */
stk_status stk__shard_files_next(stk__shard_files *files, stk_error *err);
/* More bytes of the object that was begun. Blocks. */
stk_status stk__shard_files_write(stk__shard_files *files, const void *data, size_t length,
                                  stk_error *err);
/* The object that is written is whole: it gets its name. Does nothing where none is. Blocks. */
stk_status stk__shard_files_end(stk__shard_files *files, stk_error *err);
/* End the last, and with overwrite remove the shards of an earlier conversion behind it. Blocks. */
stk_status stk__shard_files_finish(stk__shard_files *files, stk_error *err);
/* It ends early: STK_ECANCELED with the remedy. */
void stk__shard_files_fail_stopped(const stk__shard_files *files, stk_error *err);
/* What is not ended leaves no trace. */
void stk__shard_files_close(stk__shard_files *files);

#endif
