/* SPDX-License-Identifier: Apache-2.0 */
/* The converters of arrays: options, the order of the steps, the statement. */
#include "convert/arrays.h"

#include <inttypes.h>

#include "base/lines.h"
#include "base/options.h"

#define LEAST_BUDGET ((uint64_t)8 << 20)
#define MOST_PARTS   UINT64_C(1000000)

/* ---- Options --------------------------------------------------------------------------------- */

#define AT(member) offsetof(stk_convert_arrays_options, member)

static const stk_option own_list[] = {
    {"variables", STK_OPTION_STRING, AT(variables), NULL, 0, 0, NULL, "NAME,...",
     "Arrays that are converted, by their paths in the group, with the coordinates of their "
     "dimensions; without it all."},
    {"chunks", STK_OPTION_STRING, AT(chunks), "auto", 0, 0, NULL, "DIM:N,...",
     "Elements of a chunk along dimensions, by name, or 4x64x64 for arrays of as many dimensions; "
     "-1 is all of one. Dimensions left out and auto: as in the source."},
    {"shards", STK_OPTION_STRING, AT(shards), NULL, 0, 0, NULL, "DIM:N,...",
     "The same of shards, objects of several chunks; without it each chunk is an object."},
    {"for_window", STK_OPTION_STRING, AT(for_window), NULL, 0, 0, NULL, "DIM:N,...",
     "Chunks that suit windows of this shape, written as chunks are; dimensions left out: 1."},
    {"for_store", STK_OPTION_STRING, AT(for_store), NULL, 0, 0, NULL, "NAME",
     "With for_window, the store that is read from then: ssd, disk, nfs or s3; without it one like "
     "that of the source."},
    {"codec", STK_OPTION_ENUM, AT(codec), "auto", 0, 0, "none|zstd|gzip|zlib|blosc|blosc_zstd|auto",
     NULL, "Of the chunks; blosc has lz4 within, blosc_zstd zstd; auto: zstd, of NetCDF-4 zlib."},
    {"level", STK_OPTION_INT, AT(level), "auto", -131072, 22, "auto", "N",
     "Of the codec; auto: 3 of zstd, 6 of gzip and zlib, 5 of blosc; of NetCDF-4 4."},
    {"shuffle", STK_OPTION_ENUM, AT(shuffle), "auto", 0, 0, "auto|none|byte|bit", NULL,
     "What is put together before the codec; auto: bytes by blosc and in NetCDF-4, else nothing. "
     "Bytes before "
     "zstd, "
     "gzip and zlib are a step that zarr-python knows and other readers may not."},
    {"checksum", STK_OPTION_BOOL, AT(checksum), "false", 0, 0, NULL, NULL,
     "A checksum behind every chunk: a CRC-32C in Zarr of version 3, a Fletcher-32 in NetCDF-4."},
    {"zarr_format", STK_OPTION_ENUM, AT(zarr_format), "auto", 0, 0, "auto|2|3", NULL,
     "Version of Zarr; auto: 3, or 2 where the target is zarr2:PATH."},
    {"astype", STK_OPTION_STRING, AT(astype), NULL, 0, 0, NULL, "TYPE",
     "Numbers become this type, as float32: rounded where it is narrower, refused where an integer "
     "does not hold them. Coordinates keep theirs."},
    {"bitround", STK_OPTION_INT, AT(bitround), "auto", 1, 52, "auto", "N",
     "Bits of the fraction of floats that are kept, the others rounded to zeros, which codecs make "
     "small; auto: all. Coordinates keep theirs."},
    {"decode_cf", STK_OPTION_BOOL, AT(decode_cf), "false", 0, 0, NULL, NULL,
     "Apply scale_factor, add_offset and _FillValue: packed values become floats, missing ones "
     "NaN."},
    {"temp_dir", STK_OPTION_STRING, AT(temp_dir), NULL, 0, 0, NULL, "DIR",
     "Where the temporary file lies that arrays go through which do not fit the memory; without it "
     "the target's folder, or /var/tmp."},
    {"part", STK_OPTION_STRING, AT(part), NULL, 0, 0, NULL, "K/N",
     "Write the K-th of N parts of all objects alone, for N machines or jobs on one target; join "
     "ends it."},
    {"join", STK_OPTION_UINT, AT(join), "0", 0, (double)MOST_PARTS, NULL, "N",
     "Write the metadata, once all of N parts are done; 0: no."},
    {"unlimited", STK_OPTION_STRING, AT(unlimited), NULL, 0, 0, NULL, "DIM,...",
     "Of NetCDF-4: dimensions that can grow later, as time; without it those without elements."},
};

const stk_option_table stk__convert_arrays_option_table = {
    .name = "arrays",
    .doc = "Arrays in other chunks, codecs or types.",
    .struct_size = sizeof(stk_convert_arrays_options),
    .options = own_list,
    .count = STK_COUNT(own_list),
};

/* "2/8", and join. */
static stk_status read_part(stk__arrays *run, stk_error *err)
{
    const char *text = run->own->part, *at = text;

    run->parts = run->own->join;
    if (!text || !*text)
        return STK_OK;
    if (run->own->join)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_OPTIONS,
            "arrays.part writes objects and arrays.join ends the conversion; leave one "
            "of them out");
    if (!stk__take_uint(&at, &run->part) || !stk__take(&at, '/') ||
        !stk__take_uint(&at, &run->parts) || *at || run->part < 1 || run->part > run->parts ||
        run->parts > MOST_PARTS)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.part: '%.40s' is no part; write the second of eight as 2/8", text);
    return STK_OK;
}

static stk_status settle(stk__arrays *run, stk_error *err)
{
    run->num_workers = stk__convert_workers(run->context, run->options);
    run->budget = stk__convert_budget(run->context, run->options);
    if (run->budget < LEAST_BUDGET)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_OPTIONS,
                         "convert.memory_budget is %" PRIu64
                         " bytes; converting arrays takes %" PRIu64 " at least",
                         run->budget, LEAST_BUDGET);
    if (run->own->level != STK_AUTO && run->own->codec == STK__ARRAYS_CODEC_NONE)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.level does nothing with codec none; leave it out");
    STK_TRY(read_part(run, err));
    if (run->parts && !run->ops->resumes)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_OPTIONS,
                         "%s is not written in parts; leave part and join out", run->ops->name);
    return STK_OK;
}

/* ---- The run --------------------------------------------------------------------------------- */

static stk_status write_all(stk__arrays *run, stk_error *err)
{
    const bool joins = run->parts && !run->part;

    for (size_t i = 0; i < run->num_arrays && !joins; i++)
        STK_TRY(stk__arrays_copy(run, &run->arrays[i], err));
    stk__progress(run->context, run->job->target, run->total, run->total);
    STK_TRY(run->ops->finish(run->target, err));
    run->report->bytes_after = run->ops->bytes(run->target);
    run->report->worst_change = run->loss.worst;
    run->report->overflowed = run->loss.overflowed;
    return STK_OK;
}

static stk_status convert(stk__arrays *run, stk_error *err)
{
    const stk__target_part part = {run->part, run->parts};

    STK_TRY(stk__arrays_open(run, err));
    STK_TRY(stk__arrays_choose_chunks(run, err));
    STK_TRY(stk__crew_create(run->context, run->num_workers, &run->crew, err));
    STK_TRY(run->ops->open(run->job, run->nodes, run->num_nodes, &part, stk__crew_size(run->crew),
                           &run->target, err));
    STK_TRY(stk__arrays_plan(run, err));
    if (run->job->options->dry_run)
        return stk__arrays_tell(run, err);
    return write_all(run, err);
}

stk_status stk__convert_arrays(const stk_conversion_job *job, const stk__array_target_ops *target,
                               stk_conversion_report *report, stk_error *err)
{
    stk__arrays run = {.job = job,
                       .context = job->context,
                       .options = job->options,
                       .own = job->own,
                       .ops = target,
                       .report = report};

    stk_status status = settle(&run, err);
    if (status == STK_OK)
        status = convert(&run, err);
    stk__crew_destroy(&run.crew);
    if (run.target)
        target->close(run.target);
    stk__arrays_close(&run);
    return status;
}

/* ---- Converters ------------------------------------------------------------------------------ */

static const char *const ignores[] = {"on_error", "max_errors", "max_pixels", "max_blocks", NULL};

static stk_status zarr_run(const stk_conversion_job *job, stk_conversion_report *report,
                           stk_error *err)
{
    return stk__convert_arrays(job, &stk__array_target_zarr, report, err);
}

static stk_status zarr2_run(const stk_conversion_job *job, stk_conversion_report *report,
                            stk_error *err)
{
    return stk__convert_arrays(job, &stk__array_target_zarr2, report, err);
}

const stk_converter_ops stk__convert_zarr = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "zarr",
    .from = "arrays (Zarr, NetCDF, npy, ...)",
    .doc = "Zarr arrays",
    .options = &stk__convert_arrays_option_table,
    .endings = "|.zarr|",
    .ignores = ignores,
    .run = zarr_run,
    .takes = stk__convert_takes_arrays,
    .plans = true,
};

const stk_converter_ops stk__convert_zarr2 = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "zarr2",
    .from = "arrays (Zarr, NetCDF, npy, ...)",
    .doc = "Zarr arrays of version 2",
    .options = &stk__convert_arrays_option_table,
    .endings = "|.zarr2|",
    .ignores = ignores,
    .run = zarr2_run,
    .takes = stk__convert_takes_arrays,
    .plans = true,
};
