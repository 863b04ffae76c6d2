/* A target that is one local file, which gets its name when it is whole and safe. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_ONE_FILE_H
#define STK_SRC_CONVERT_ONE_FILE_H

#include "base/durable.h"
#include "convert/convert.h"
#include "store/store.h"

typedef struct stk__one_file {
    const stk_conversion_job *job;
    stk__put_place place;
    stk__durable durable;
    bool begun; /* `durable` is */
} stk__one_file;

/* Begin the target of a job; `form`, as in "NetCDF-4", is named where it is of another store. */
stk_status stk__one_file_begin(stk__one_file *file, const stk_conversion_job *job, const char *form,
                               stk_error *err);
/* A descriptor of the caller's by which it is read, too. */
stk_status stk__one_file_open(const stk__one_file *file, int *fd, stk_error *err);
/* "cannot STEP 'TARGET': reason and remedy". */
stk_status stk__one_file_fail(const stk__one_file *file, const char *step, int error,
                              stk_error *err);
/* Ends what was begun, also on failure. */
stk_status stk__one_file_commit(stk__one_file *file, stk_error *err);
/* Without a commit nothing is left of it. Accepts zeros. */
void stk__one_file_close(stk__one_file *file);

#endif
