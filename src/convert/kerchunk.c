/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arrays of a file as references of kerchunk, so that what reads Zarr reads them where they
 * are. The references name the file as it is seen from the folder that they are written to.
 */
#include <stdio.h>

#include "array/kerchunk/kerchunk.h"
#include "base/text.h"
#include "convert/convert.h"
#include "convert/target.h"

/* Bytes of a path or URL up to its last name. */
static size_t folder_length(const char *url)
{
    const size_t length = strcspn(url, "?");
    size_t n = length;

    while (n && url[n - 1] != '/')
        n--;
    return n;
}

/* The file as references say it: below their folder, or where it is, which has to be allowed to
 * whom reads them. */
static stk_status name_file(const stk_conversion_job *job, char *name, size_t size, stk_error *err)
{
    const char *source = stk__convert_source(job);
    const size_t folder = folder_length(job->target);
    const int length = (int)strcspn(source, "?");
    const bool beside = strncmp(source, job->target, folder) == 0 &&
                        (folder || (source[0] != '/' && strncmp(source, "../", 3) != 0));

    if (!beside && source[0] != '/' && !strstr(source, "://"))
        return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                         "'%.200s' does not lie below the folder of '%.200s'; write the references "
                         "beside it, or name it by its whole path",
                         source, job->target);
    const int n = beside ? snprintf(name, size, "%.*s", length - (int)folder, source + folder)
                         : snprintf(name, size, "%.*s", length, source);
    return n >= 0 && (size_t)n < size ? STK_OK
                                      : stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                                                  "the name of '%.200s' is too long", source);
}

static bool takes(stk_context *ctx, const char *source, const char **why)
{
    const stk_array_format_ops *format = NULL;
    const stk_conversion_job job = {.context = ctx, .source = source};

    *why = "is no file of arrays in chunks";
    return stk_array_recognise(ctx, stk__convert_source(&job), &format) == 2 && format &&
           format->list;
}

static stk_status run(const stk_conversion_job *job, stk_conversion_report *report, stk_error *err)
{
    const stk_store_call call = {.struct_size = sizeof call,
                                 .canceled = stk__convert_canceled,
                                 .user = (void *)(uintptr_t)job,
                                 .no_replace = !job->options->overwrite};
    char name[STK_MAX_OBJECT_KEY];
    stk__text text = {.ctx = job->context};
    stk__kerchunk_written written;
    stk_group *group = NULL;

    STK_TRY(name_file(job, name, sizeof name, err));
    STK_TRY(stk_group_open(job->context, stk__convert_source(job), &group, err));
    stk_status status = stk__kerchunk_write(job->context, group, name, &text, &written, err);
    if (status == STK_OK)
        status = stk_put_bytes(job->context, job->target, text.bytes, text.length, &call, err);
    if (status == STK_OK) {
        report->arrays = written.arrays;
        report->total = written.references;
        report->bytes_before = written.bytes;
    }
    report->bytes_after = text.length;
    stk__text_release(&text);
    stk_group_close(&group);
    return status;
}

const stk_converter_ops stk__convert_kerchunk = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "kerchunk",
    .from = "files of arrays (NetCDF, HDF5)",
    .doc = "references in JSON to the chunks of a file",
    .endings = "|.json|",
    .ignores = stk__convert_heeds_overwrite,
    .run = run,
    .takes = takes,
};
