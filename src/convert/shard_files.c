/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/shard_files.h"

#include <stdio.h>

#include "convert/target.h"

static stk_status make_key(stk__shard_files *f, uint32_t number, stk_error *err)
{
    char name[64];

    if (number == STK__SHARDS_MOST)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "%.200s would have more than %u shards; set a larger shard_size",
                         f->job->target, STK__SHARDS_MOST);
    snprintf(name, sizeof name, "shard-%06u%s", number, f->ending);
    return stk__key_below(f->prefix, name, f->key, err);
}

static stk_status open_one(stk__shard_files *f, stk_error *err)
{
    STK_TRY(stk__convert_check_outside(f->job, err));
    f->place.context = f->job->context;
    STK_TRY(stk__put_place_open(&f->place, f->job->target, err));
    f->store = f->place.store;
    snprintf(f->key, sizeof f->key, "%s", f->place.key);
    return STK_OK;
}

static stk_status open_folder(stk__shard_files *f, stk_error *err)
{
    STK_TRY(stk__put_folder_open(f->job->context, f->job->target, &f->store, f->prefix, err));
    return make_key(f, 0, err);
}

stk_status stk__shard_files_open(stk__shard_files *f, const stk_conversion_job *job,
                                 const char *ending, stk_error *err)
{
    stk__presence there;

    *f = (stk__shard_files){.job = job, .ending = ending};
    f->call = (stk_store_call){
        .struct_size = sizeof f->call, .canceled = stk__convert_canceled, .user = (void *)job};
    STK_TRY(ending ? open_folder(f, err) : open_one(f, err));
    if (job->options->overwrite)
        return STK_OK;
    STK_TRY(stk__store_look(f->store, f->key, &there, err));
    if (there == STK__IS_NOTHING)
        return STK_OK;
    if (!ending)
        return stk__fail_at(err, STK_EEXIST, STK_STAGE_CONVERT, f->key, STK_NO_OFFSET,
                            "'%.300s' is there already: --overwrite replaces it", job->target);
    return stk__fail_at(err, STK_EEXIST, STK_STAGE_CONVERT, f->key, STK_NO_OFFSET,
                        "the target %.200s has shards already; choose a new folder, or set "
                        "overwrite to replace them",
                        job->target);
}

stk_status stk__shard_files_end(stk__shard_files *f, stk_error *err)
{
    return f->put ? stk__store_put_commit(&f->put, err) : STK_OK;
}

stk_status stk__shard_files_next(stk__shard_files *f, stk_error *err)
{
    STK_TRY(stk__shard_files_end(f, err));
    if (f->ending)
        STK_TRY(make_key(f, f->begun, err));
    f->bytes = 0;
    f->begun++;
    return stk__store_put_begin(f->store, f->key, &f->call, &f->put, err);
}

stk_status stk__shard_files_write(stk__shard_files *f, const void *data, size_t length,
                                  stk_error *err)
{
    if (length == 0)
        return STK_OK;
    STK_TRY(f->put->ops->write(f->put, data, length, err));
    f->bytes += length;
    f->total += length;
    return STK_OK;
}

stk_status stk__shard_files_finish(stk__shard_files *f, stk_error *err)
{
    stk__presence there = STK__IS_OBJECT;

    STK_TRY(stk__shard_files_end(f, err));
    for (uint32_t i = f->begun; f->ending && f->job->options->overwrite && i < STK__SHARDS_MOST;
         i++) {
        STK_TRY(make_key(f, i, err));
        STK_TRY(stk__store_look(f->store, f->key, &there, err));
        if (there != STK__IS_OBJECT)
            break;
        STK_TRY(stk__store_remove(f->store, f->key, err));
    }
    return STK_OK;
}

void stk__shard_files_fail_stopped(const stk__shard_files *f, stk_error *err)
{
    stk__fail(err, STK_ECANCELED, STK_STAGE_CONVERT,
              "the conversion to %.200s was stopped; it begins again with overwrite",
              f->job->target);
}

void stk__shard_files_close(stk__shard_files *f)
{
    stk__store_put_abandon(&f->put);
    if (f->ending)
        stk_store_close(&f->store);
    else if (f->job)
        stk__put_place_close(&f->place);
}
