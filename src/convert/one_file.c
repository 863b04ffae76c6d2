/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/one_file.h"

#include <errno.h>
#include <fcntl.h>

stk_status stk__one_file_fail(const stk__one_file *file, const char *step, int error,
                              stk_error *err)
{
    const char *target = file->job->target;

    if (error == EEXIST)
        return stk__fail_at(err, STK_EEXIST, STK_STAGE_CONVERT, target, STK_NO_OFFSET,
                            "'%.300s' is there already, or being written: --overwrite replaces it",
                            target);
    return stk__fail_at(err, stk__status_of_errno(error), STK_STAGE_CONVERT, target, STK_NO_OFFSET,
                        "cannot %s '%.300s': %s%s", step, target, strerror(error),
                        stk__remedy_of_errno(error));
}

stk_status stk__one_file_begin(stk__one_file *file, const stk_conversion_job *job, const char *form,
                               stk_error *err)
{
    *file = (stk__one_file){.job = job, .place.context = job->context};
    STK_TRY(stk__put_place_open(&file->place, job->target, err));
    const int folder = stk__file_root(file->place.store);
    if (folder < 0)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_CONVERT, job->target, STK_NO_OFFSET,
                            "'%.300s': %s is written to local files: convert it to one, and copy "
                            "that",
                            job->target, form);
    stk__durable_sweep(folder);
    const int error = stk__durable_begin(&file->durable, NULL, folder, file->place.key, 0,
                                         !job->options->overwrite);
    if (error)
        return stk__one_file_fail(file, file->durable.step, error, err);
    file->begun = true;
    return STK_OK;
}

stk_status stk__one_file_open(const stk__one_file *file, int *fd, stk_error *err)
{
    *fd = openat(file->durable.folder, file->durable.temporary, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    return *fd >= 0 ? STK_OK : stk__one_file_fail(file, "write", errno, err);
}

stk_status stk__one_file_commit(stk__one_file *file, stk_error *err)
{
    file->begun = false;
    const int error = stk__durable_commit(&file->durable, file->place.key);
    return error ? stk__one_file_fail(file, file->durable.step, error, err) : STK_OK;
}

void stk__one_file_close(stk__one_file *file)
{
    if (file->begun)
        stk__durable_abandon(&file->durable);
    file->begun = false;
    if (file->job)
        stk__put_place_close(&file->place);
}
