/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of any store packed into one SquashFS 4.0 image, laid out for training: each file is its
 * own run of blocks, in the order of the paths, and what does not shrink is stored as it is, so
 * that a file is a range of the image. It is written under a temporary name and gets its own when
 * it is whole: a conversion that was interrupted begins again.
 */
#include "convert/squashfs.h"

#include <inttypes.h>

#include "convert/target.h"

#define LEAST_BLOCK (1 << STK__SQUASHFS_MIN_LOG)
#define NODE_BYTES  20
#define MOST_BLOCK  (1 << STK__SQUASHFS_MAX_LOG)

/* ---- Options --------------------------------------------------------------------------------- */

#define AT(member) offsetof(stk_convert_squashfs_options, member)

static const stk_option own_list[] = {
    {"block", STK_OPTION_SIZE, AT(block), "128KiB", LEAST_BLOCK, MOST_BLOCK, NULL, "SIZE",
     "Bytes of a block, a power of two from 4KiB to 1MiB: a read of a few bytes of a file that was "
     "packed decodes one."},
    {"codec", STK_OPTION_ENUM, AT(codec), "zstd", 0, 0, "zstd|gzip|lz4|xz|none", NULL,
     "Of blocks that it makes smaller by a sixteenth at least, and of the tables; other blocks are "
     "stored as they are, with none all."},
    {"level", STK_OPTION_INT, AT(level), "auto", 1, 22, "auto", "N",
     "Of the codec; auto: 3 of zstd, 6 of gzip and xz. lz4 has none."},
};

const stk_option_table stk__convert_squashfs_option_table = {
    .name = "squashfs",
    .doc = "A folder packed into one image.",
    .struct_size = sizeof(stk_convert_squashfs_options),
    .options = own_list,
    .count = STK_COUNT(own_list),
};

static const struct {
    const char *name;
    int usual, most; /* level; most 0: it has none */
} codecs[] = {
    [STK__BLOCK_ZSTD] = {"zstd", 3, 22}, [STK__BLOCK_ZLIB] = {"gzip", 6, 9},
    [STK__BLOCK_LZ4] = {"lz4", 0, 0},    [STK__BLOCK_XZ] = {"xz", 6, 9},
    [STK__BLOCK_NONE] = {"none", 0, 0},
};

static stk_status settle(stk__squashfs_run *s, stk_error *err)
{
    const stk_convert_options *options = s->job->options;
    const int32_t codec = s->own->codec;

    s->num_workers = stk__convert_workers(s->context, options);
    s->budget = stk__convert_budget(s->context, options);
    s->verify = options->verify == STK_VERIFY_FULL;
    s->block = s->own->block;
    if (s->block & (s->block - 1))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "squashfs.block: %" PRIu64 " is no power of two, which SquashFS asks for",
                         s->block);
    if (s->own->level != STK_AUTO && s->own->level > codecs[codec].most)
        return codecs[codec].most
                   ? stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                               "squashfs.level: %s has levels from 1 to %d", codecs[codec].name,
                               codecs[codec].most)
                   : stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                               "squashfs.level does nothing with codec %s; leave it out",
                               codecs[codec].name);
    s->encodes = codec != STK__BLOCK_NONE;
    s->kind = (stk__block_kind){.codec = s->encodes ? (stk__block_codec)codec : STK__BLOCK_LZ4,
                                .level = s->own->level == STK_AUTO ? codecs[codec].usual
                                                                   : (int)s->own->level,
                                .most = (uint32_t)s->block};
    return STK_OK;
}

/* ---- The run --------------------------------------------------------------------------------- */

stk_status stk__squashfs_stopped(const stk__squashfs_run *s, stk_error *err)
{
    return stk__fail(err, STK_ECANCELED, STK_STAGE_CONVERT,
                     "the conversion to %.200s was stopped, and nothing of it is kept",
                     s->job->target);
}

/* Tables are packed to half of their names, and NODE_BYTES of a file, in images of many files. */
static stk_status tell(stk__squashfs_run *s, stk_error *err)
{
    double share;

    STK_TRY(stk__squashfs_estimate(s, &share, err));
    const uint64_t bytes = STK__SQUASHFS_SUPER + (uint64_t)(share * (double)s->tree.bytes) +
                           NODE_BYTES * s->tree.count + s->tree.paths.length / 2;
    s->report->bytes_after = stk__round_up(bytes, STK__SQUASHFS_PADDING);
    s->report->planned = true;
    return STK_OK;
}

static stk_status write_all(stk__squashfs_run *s, stk_error *err)
{
    STK_TRY(stk__squashfs_file_begin(&s->file, s->job, err));
    STK_TRY(stk__squashfs_front(s, err));
    STK_TRY(stk__squashfs_pack(s, err));
    STK_TRY(stk__squashfs_tables(s, err));
    if (s->verify)
        STK_TRY(stk__squashfs_check_blocks(s, err));
    s->report->bytes_after = stk__squashfs_end(&s->file);
    return stk__squashfs_file_commit(&s->file, err);
}

static stk_status convert(stk__squashfs_run *s, stk_error *err)
{
    stk_conversion_report *report = s->report;

    STK_TRY(settle(s, err));
    STK_TRY(stk__convert_check_outside(s->job, err));
    STK_TRY(stk__squashfs_list(s->job, &s->tree, err));
    report->total = s->tree.files;
    report->bytes_before = s->tree.bytes;
    report->skipped = s->tree.links;
    if (s->job->options->dry_run)
        return tell(s, err);
    STK_TRY(write_all(s, err));
    report->copied = report->total - report->encoded;
    if (report->skipped)
        stk__message(s->context, STK_MESSAGE_WARNING,
                     "left out of %.200s: %" PRIu64 " symbolic link%s; an image holds files and "
                     "folders",
                     s->job->source, report->skipped, report->skipped == 1 ? "" : "s");
    return STK_OK;
}

static stk_status run(const stk_conversion_job *job, stk_conversion_report *report, stk_error *err)
{
    stk__squashfs_run *s = stk__calloc(job->context, 1, sizeof *s); /* too large for some stacks */

    if (!s)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for a conversion");
    s->job = job;
    s->context = s->tree.context = s->tree.paths.ctx = s->file.context = job->context;
    s->own = job->own;
    s->report = report;
    s->file.back = -1;
    const stk_status status = convert(s, err);
    stk__squashfs_file_close(&s->file);
    stk__squashfs_tree_release(&s->tree);
    stk__free(job->context, s->sizes);
    stk__free(job->context, s);
    return status;
}

static bool takes(stk_context *ctx, const char *source, const char **why)
{
    const stk_conversion_job job = {.context = ctx, .source = source};

    *why = "is no folder";
    return stk__squashfs_is_folder(ctx, stk__convert_source(&job));
}

static const char *const ignores[] = {"on_error",   "max_errors", "max_pixels",
                                      "max_blocks", "checkpoint", NULL};

const stk_converter_ops stk__convert_squashfs = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "squashfs",
    .from = "any folder",
    .doc = "SquashFS images",
    .options = &stk__convert_squashfs_option_table,
    .endings = "|.squashfs|.sqsh|.sqfs|",
    .ignores = ignores,
    .run = run,
    .takes = takes,
    .plans = true,
};
