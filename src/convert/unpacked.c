/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards that are compressed as a whole (x.tar.gz, x.tar.zst, TFRecord files of compression_type)
 * have no places to read from. They are unpacked once, as streams within little memory; each has
 * its name when it is whole.
 */
#include "convert/unpacked.h"

#include <stdio.h>

#include "codec/codec.h"
#include "convert/target.h"
#include "dataset/dataset.h"
#include "store/store.h"

#define PIECE (UINT64_C(1) << 20) /* of what is written at a time */

/* A conversion on its way. */
typedef struct unpacking {
    const stk_conversion_job *job;
    stk_conversion_report *report;
    bool folder;
    stk_store *from, *to; /* of the shard being read; of the target's folder */
    const char *key;      /* of the shard being read */
    char prefix[STK_MAX_OBJECT_KEY], target[STK_MAX_OBJECT_KEY];
    stk__put_place place; /* of the target that is one file */
    stk_store_call call;
    uint64_t total, done;
    unsigned char *room;
} unpacking;

/* ---- What is compressed ---------------------------------------------------------------------- */

static stk__stream kind_of(stk_store *store, const char *key, uint64_t *size)
{
    stk_object_info info = {.struct_size = sizeof info};
    unsigned char head[4];

    if (stk_store_stat(store, key, NULL, &info, NULL) != STK_OK || info.is_folder)
        return STK__STREAM_NOT;
    *size = info.size;
    const uint64_t n = STK_MIN(info.size, sizeof head);
    if (stk_store_read(store, key, 0, n, head, NULL) != STK_OK)
        return STK__STREAM_NOT;
    return stk__stream_kind(head, n);
}

static stk_status first_kind(void *user, stk_store *store, const char *key, stk_error *err)
{
    uint64_t size = 0;

    *(stk__stream *)user = kind_of(store, key, &size);
    return STK_EOS; /* the first is enough */
}

bool stk__unpacked_takes(stk_context *ctx, const char *source, const char **why)
{
    const stk_conversion_job job = {.context = ctx, .source = source};
    const char *url = stk__convert_source(&job);
    stk__stream kind = STK__STREAM_NOT;

    *why = "is not compressed by gzip, zlib or zstd; samples become shards in a folder, as "
           "webdataset:DIR";
    if (url != source && strncmp(source, "webdataset:", 11) != 0 &&
        strncmp(source, "tfrecord:", 9) != 0)
        return false;
    return stk__packed_shards(ctx, url, first_kind, &kind, NULL) == STK_EOS &&
           kind != STK__STREAM_NOT;
}

/* ---- One shard ------------------------------------------------------------------------------- */

/* The name of a shard without the ending of its compression: x.tar of x.tar.gz and x.tgz. */
static void name_of(const char *key, char *out, size_t size)
{
    static const char *const ends[] = {".gz", ".zst", ".zstd", ".zlib"};
    const char *slash = strrchr(key, '/'), *name = slash ? slash + 1 : key;
    size_t length = strlen(name);

    if (stk__ends_with(name, length, ".tgz")) {
        snprintf(out, size, "%.*s.tar", (int)length - 4, name);
        return;
    }
    for (size_t i = 0; i < STK_COUNT(ends); i++)
        if (stk__ends_with(name, length, ends[i])) {
            length -= strlen(ends[i]);
            break;
        }
    snprintf(out, size, "%.*s", (int)length, name);
}

static stk_status read_packed(void *user, uint64_t offset, uint64_t length, void *data,
                              stk_error *err)
{
    unpacking *u = user;

    if (u->job->canceled(u->job))
        return stk__fail(err, STK_ECANCELED, STK_STAGE_CONVERT,
                         "the conversion to %.200s was stopped", u->job->target);
    return stk_store_read(u->from, u->key, offset, length, data, err);
}

static stk_status copy(unpacking *u, stk__unpack *from, stk_put *to, stk_error *err)
{
    for (uint64_t got = PIECE; got == PIECE;) {
        STK_TRY(stk__unpack_read(from, u->room, PIECE, &got, err));
        if (got)
            STK_TRY(to->ops->write(to, u->room, got, err));
        u->report->bytes_after += got;
    }
    return STK_OK;
}

static stk_status write_shard(unpacking *u, stk__stream kind, uint64_t size, stk_error *err)
{
    stk_context *ctx = u->job->context;
    stk__unpack *from = NULL;
    stk_put *put = NULL;

    STK_TRY(stk__unpack_create(ctx, kind, read_packed, u, size, u->key, &from, err));
    stk_status status =
        stk__store_put_begin(u->folder ? u->to : u->place.store,
                             u->folder ? u->target : u->place.key, &u->call, &put, err);
    if (status == STK_OK)
        status = copy(u, from, put, err);
    if (status == STK_OK)
        status = stk__store_put_commit(&put, err);
    stk__store_put_abandon(&put);
    stk__unpack_destroy(&from);
    return status;
}

static stk_status unpack_one(void *user, stk_store *store, const char *key, stk_error *err)
{
    unpacking *u = user;
    char name[STK_MAX_OBJECT_KEY];
    uint64_t size = 0;

    const stk__stream kind = kind_of(store, key, &size);
    if (kind == STK__STREAM_NOT)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_CONVERT, key, STK_NO_OFFSET,
                            "%.200s is not there, or not compressed by gzip, zlib or zstd; name "
                            "those shards alone that are",
                            key);
    u->from = store;
    u->key = key;
    name_of(key, name, sizeof name);
    if (u->folder)
        STK_TRY(stk__key_below(u->prefix, name, u->target, err));
    STK_TRY(write_shard(u, kind, size, err));
    u->report->bytes_before += size;
    u->report->copied++;
    stk__progress(u->job->context, "shards", ++u->done, u->total);
    return STK_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* The names that shards get: no two may be one. */
typedef struct names {
    stk_context *context;
    uint64_t *hashes;
    size_t count, room;
} names;

static stk_status take_name(void *user, stk_store *store, const char *key, stk_error *err)
{
    char name[STK_MAX_OBJECT_KEY];
    names *n = user;

    (void)store;
    name_of(key, name, sizeof name);
    uint64_t *hashes =
        stk__grow(n->context, n->hashes, &n->room, (uint64_t)n->count + 1, sizeof *hashes);
    if (!hashes)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the names of shards");
    n->hashes = hashes;
    n->hashes[n->count] = stk__fingerprint(0, name, strlen(name));
    for (size_t i = 0; i < n->count; i++)
        if (n->hashes[i] == n->hashes[n->count])
            return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                             "two of the shards would be named '%.200s' when unpacked; convert "
                             "them into folders of their own",
                             name);
    n->count++;
    return STK_OK;
}

static stk_status open_target(unpacking *u, stk_error *err)
{
    const stk_conversion_job *job = u->job;

    if (u->folder)
        return stk__put_folder_open(job->context, job->target, &u->to, u->prefix, err);
    if (u->total != 1)
        return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                         "%llu shards cannot become the one file %.200s; write them to a folder: "
                         "webdataset:DIR or tfrecord:DIR",
                         (unsigned long long)u->total, job->target);
    u->place.context = job->context;
    return stk__put_place_open(&u->place, job->target, err);
}

static stk_status run_all(unpacking *u, const char *url, stk_error *err)
{
    names n = {.context = u->job->context};

    stk_status status = stk__packed_shards(n.context, url, take_name, &n, err);
    stk__free(n.context, n.hashes);
    u->total = n.count;
    STK_TRY(status);
    STK_TRY(open_target(u, err));
    u->room = stk__alloc(n.context, PIECE);
    if (!u->room)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to unpack shards");
    return stk__packed_shards(n.context, url, unpack_one, u, err);
}

stk_status stk__unpacked_run(const stk_conversion_job *job, bool folder,
                             stk_conversion_report *report, stk_error *err)
{
    stk_context *ctx = job->context;
    stk_convert_shards_options usual;

    stk_options_init(&stk__convert_shards_option_table, &usual, sizeof usual);
    const stk_convert_shards_options *own = folder ? job->own : &usual;
    if (own->shard_size != usual.shard_size)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "shard_size does nothing where compressed shards are unpacked, which stay "
                         "as they are cut; leave it out");
    unpacking *u = stk__calloc(ctx, 1, sizeof *u); /* too large for some stacks */
    if (!u)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to unpack shards");
    u->job = job;
    u->report = report;
    u->folder = folder;
    u->call = (stk_store_call){.struct_size = sizeof u->call,
                               .canceled = stk__convert_canceled,
                               .user = (void *)(uintptr_t)job,
                               .no_replace = !job->options->overwrite};
    const stk_status status = run_all(u, stk__convert_source(job), err);
    report->total = u->total;
    if (u->place.context)
        stk__put_place_close(&u->place);
    stk_store_close(&u->to);
    stk__free(ctx, u->room);
    stk__free(ctx, u);
    return status;
}

static stk_status run(const stk_conversion_job *job, stk_conversion_report *report, stk_error *err)
{
    return stk__unpacked_run(job, false, report, err);
}

const stk_converter_ops stk__convert_unpack = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "unpack",
    .from = "compressed shards",
    .doc = "the shard itself",
    .endings = "|.tar|.tfrecord|.tfrecords|.tfrec|",
    .ignores = stk__convert_heeds_overwrite,
    .run = run,
    .takes = stk__unpacked_takes,
};
