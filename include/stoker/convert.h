/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion: a dataset in one form -> the same data in another, resumable and verified. */
#ifndef STOKER_CONVERT_H
#define STOKER_CONVERT_H

#include <stoker/dataset.h>
#include <stoker/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stk_convert_verify { STK_VERIFY_FULL = 0, STK_VERIFY_NONE } stk_convert_verify;

/** What all converters share. One that ignores an option refuses it by name when it is not
 * at its default. */
typedef struct stk_convert_options {
    uint32_t struct_size;
    bool overwrite;         /**< replace what the target holds of other data or other options */
    int64_t num_workers;    /**< threads; 0: the caller's; STK_AUTO: the cores of preparation */
    uint64_t memory_budget; /**< bytes that conversion may hold; 0: a quarter of the process's, at
                               most 4 GiB */
    int32_t verify;         /**< stk_convert_verify */
    int32_t on_error;       /**< 0 fail, 1 skip: of sources that are broken for good */
    const char *max_errors; /**< with on_error skip: more broken sources fail it: "20", "0.5%" of
                               all, "auto": 1 %, at least `checkpoint`; NULL: auto */
    uint64_t checkpoint;    /**< files that are made safe on the disk together */
    uint64_t max_pixels;    /**< of a picture; larger ones are broken sources */
    uint64_t max_blocks;    /**< of 8 x 8, of all scans of a JPEG: the work of decoding it */
    bool dry_run; /**< say what would be done, in the report, and write nothing; refused where the
                     converter has no plans */
} stk_convert_options;

static inline void stk_convert_options_init(stk_convert_options *options)
{
    stk_options_init(stk_option_table_find("convert"), options, sizeof *options);
}

/** Of the converter "images": a folder of pictures packed again. */
typedef struct stk_convert_images_options {
    uint32_t struct_size;
    uint64_t max_side;         /**< pixels of the longer side at most; 0: as they are */
    uint64_t quality;          /**< of JPEG, 1 to 100 */
    int32_t subsampling;       /**< of colour: 0 420, 1 422, 2 444 */
    uint64_t restart_interval; /**< MCUs between restart markers; 0: none */
    int32_t dct_scaling;       /**< 0 auto, 1 off */
    bool upright;              /**< turn pictures by their EXIF orientation */
    bool keep_png;             /**< copy PNG files as they are */
} stk_convert_images_options;

/** Of the converter "packed": pictures that need no decoding, in Zarr. */
typedef struct stk_convert_packed_options {
    uint32_t struct_size;
    const char *size;    /**< "256x256": of all pictures; NULL: they are of one size as they are */
    uint64_t short_side; /**< pixels of the shorter side of each, whose shape stays; 0: no */
    uint64_t shard_size; /**< bytes of pictures in an object, roughly */
    bool checksum;       /**< a CRC-32C behind every chunk, where all are of one size */
} stk_convert_packed_options;

/** Of the converters of record shards, "webdataset" and "tfrecord". */
typedef struct stk_convert_shards_options {
    uint32_t struct_size;
    uint64_t shard_size; /**< bytes of a shard at most, of more than one record */
} stk_convert_shards_options;

/** Of the converters of arrays: Zarr or NetCDF-4 of other chunks, codecs or types. Coordinates,
 * which are arrays named as a dimension, keep their type, and their chunks unless these are named.
 */
typedef struct stk_convert_arrays_options {
    uint32_t struct_size;
    const char *variables;  /**< paths of arrays, parted by commas; NULL: all */
    const char *chunks;     /**< "4x64x64", "time:4,lat:64", "auto": as in the source */
    const char *shards;     /**< the same, multiples of the chunks; NULL: none */
    const char *for_window; /**< chunks that suit windows of this shape, written as chunks are */
    const char *for_store;  /**< in this store: "ssd", "disk", "nfs", "s3" */
    int32_t codec;          /**< 0 none, 1 zstd, 2 gzip, 3 zlib, 4 blosc, 5 blosc_zstd, 6 auto */
    int64_t level;          /**< of the codec; STK_AUTO: its usual one */
    int32_t shuffle;        /**< 0 auto (by blosc and in NetCDF-4), 1 none, 2 byte, 3 bit */
    bool checksum;          /**< a CRC-32C behind every chunk, a Fletcher-32 in NetCDF-4 */
    int32_t zarr_format;    /**< 0: what the name of the converter says, 1: 2, 2: 3 */
    const char *astype;     /**< numbers become this type; NULL: they keep theirs */
    int64_t bitround;       /**< bits of the fraction of floats that are kept; STK_AUTO: all */
    bool decode_cf;         /**< scale_factor, add_offset and _FillValue are applied */
    const char *temp_dir;   /**< folder of a temporary file; NULL: the target's, or /var/tmp */
    const char *part;       /**< "K/N": the K-th of N parts of all objects; NULL: all */
    uint64_t join;          /**< write the metadata, once all of so many parts are there; 0: no */
    const char *unlimited; /**< of NetCDF-4: dimensions that can grow, parted by commas; NULL: those
                              that have no elements */
} stk_convert_arrays_options;

/** Of the converter "squashfs": a folder packed into one image. */
typedef struct stk_convert_squashfs_options {
    uint32_t struct_size;
    uint64_t block; /**< bytes of a block, a power of two from 4 KiB to 1 MiB */
    int32_t codec;  /**< 0 zstd, 1 gzip, 2 lz4, 3 xz, 4 none */
    int64_t level;  /**< of the codec; STK_AUTO: its usual one */
} stk_convert_squashfs_options;

#define STK_CONVERT_TEXT 8192

/** What a conversion did. Counts are of the whole target, earlier interrupted runs included. */
typedef struct stk_conversion_report {
    uint32_t struct_size;
    uint64_t total;     /**< samples of the source */
    uint64_t copied;    /**< as they were, byte for byte */
    uint64_t rewritten; /**< stored in another way without loss (progressive -> baseline) */
    uint64_t encoded;   /**< encoded again */
    uint64_t kept_png;  /**< of `copied`: PNG files that JPEG cannot hold */
    uint64_t repeated;  /**< samples whose file another sample has named already */
    uint64_t skipped;   /**< broken sources left out */
    uint64_t resumed;   /**< files that an earlier run had completed; of shards, samples */
    uint64_t verified;  /**< files that this run has read back and decoded */
    uint64_t bytes_before,
        bytes_after;                 /**< of the files that were converted, and of what they became
                                      */
    uint64_t compared;               /**< encoded pictures that were decoded and compared */
    double mean_psnr, worst_psnr;    /**< dB against the resized original; equal ones count as 99 */
    char worst[STK_ERROR_KEY];       /**< the picture of worst_psnr */
    char errors_path[STK_ERROR_KEY]; /**< file that lists the skipped; empty: none */
    /* Of an image `total` counts its files: `copied` are stored as they are, `encoded` packed,
     * `repeated` of both are like another one and stored with it; `skipped` are links. */
    /* Of arrays; `total`, `resumed` and `verified` count objects of the target (chunks or shards),
     * bytes_before the elements as the source has them, bytes_after the objects. */
    uint64_t arrays;     /**< that were converted */
    uint64_t decoded;    /**< bytes that are decoded at most, by the plan: with those that are
                            decoded twice */
    uint64_t temp_bytes; /**< of the largest temporary file */
    uint64_t memory;     /**< bytes that are held at most */
    double seconds;      /**< of a dry run: an estimate */
    double worst_change; /**< greatest |new - old| of a value, where values change */
    uint64_t overflowed; /**< finite values that became infinite */
    bool planned;        /**< it was a dry run: nothing was written */
    char text[STK_CONVERT_TEXT]; /**< of a dry run: what would be done, and what training reads
                                    before and after; lines */
} stk_conversion_report;

typedef struct stk_conversion stk_conversion;

/** What a converter is asked to do. Valid during run(). */
typedef struct stk_conversion_job stk_conversion_job;
struct stk_conversion_job {
    uint32_t struct_size;
    stk_context *context;
    stk_dataset *dataset; /**< `source`, opened; stays the conversion's; NULL: the converter `takes`
                             it as it is */
    const char *source;   /**< its spec */
    const char *target;   /**< path or URL to write, without name and options of the converter */
    const stk_convert_options *options; /**< complete, in range */
    const void *own;                    /**< its own options, complete; NULL: it has no table */
    /** Whether the caller wants an early end: then run() keeps what is complete and gives
     * STK_ECANCELED. Any thread. */
    bool (*canceled)(const stk_conversion_job *job);
};

/** A way to convert. */
typedef struct stk_converter_ops {
    uint32_t struct_size;
    const char *name;                /**< "images": also the name of its option table */
    const char *doc;                 /**< what it writes: "a folder of JPEG files" */
    const stk_option_table *options; /**< its own, in addition to stk_convert_options; NULL: none */
    const char *from;                /**< what it reads: "images:DIR, photographs of any size" */
    /** (optional) Endings of targets that it writes: "|.zarr|.zr|". NULL: a target without an
     * ending that tells a form. */
    const char *endings;
    /** (optional) Names of the options of stk_convert_options that do nothing here, NULL-ended: one
     * that is set is refused. NULL: it takes all. */
    const char *const *ignores;
    /** Of converters of datasets, all that have no takes(). Whether it reads such samples; where
     * not, *why is the end of "SOURCE cannot be written as
     * ...: it", a text that stays. */
    bool (*accepts)(const stk_dataset *dataset, const char **why);
    /** Convert. *report has its struct_size and zeros; progress is the converter's to tell. Blocks.
     */
    stk_status (*run)(const stk_conversion_job *job, stk_conversion_report *report, stk_error *err);
    /** (optional) Whether it reads what `source` names, which is not opened as a dataset; where
     * not, *why is as that of accepts(). Blocks. NULL: it converts datasets. */
    bool (*takes)(stk_context *context, const char *source, const char **why);
    bool plans; /**< it heeds the option dry_run; false: that is refused */
} stk_converter_ops;

/**
 * Open `source`, the spec of a dataset or what a converter takes, and choose the converter: the one
 * that `target` names, as "NAME:PATH?option=value" with options of its own, else the first that
 * writes what the ending of `target` tells and accepts the dataset.
 *
 * Ownership: *out is the caller's, ended with stk_conversion_destroy(). Thread: any. Blocks.
 * Errors: those of stk_dataset_open(); STK_ENOTSUP when there is no way from the one to the other,
 * naming the ways there are.
 */
STK_API STK_NODISCARD stk_status stk_conversion_create(stk_context *context, const char *source,
                                                       const char *target, stk_conversion **out,
                                                       stk_error *err);

/** The converter that was chosen. */
STK_API const stk_converter_ops *stk_conversion_converter(const stk_conversion *conversion);

/**
 * Convert. `options` may be NULL for the defaults; `own` are the options of the converter's table,
 * NULL: their defaults; those that the target has go before. Progress goes to the context's sink,
 * from the calling thread. Runs once.
 *
 * What is complete stays, whatever happens: a failed, canceled or killed conversion goes on when
 * the same one is run again. *report (may be NULL) is filled once the converter has run, also where
 * that failed; before, it is as it was.
 *
 * Thread: one caller. Blocks until the end. Errors: STK_EINVAL (an option or folder, named),
 * STK_EMISMATCH (the target was begun with other options), STK_EBUSY (another process writes
 * there), STK_ENOSPC, STK_EACCES, STK_ECANCELED, the failure of a source with on_error fail,
 * STK_EBADSAMPLES (with on_error skip: more are broken than max_errors allows, or all), ...
 */
STK_API STK_NODISCARD stk_status stk_conversion_run(stk_conversion *conversion,
                                                    const stk_convert_options *options,
                                                    const void *own, stk_conversion_report *report,
                                                    stk_error *err);

/** Make the conversion end soon with STK_ECANCELED. Safe in a signal handler. Any thread. */
STK_API void stk_conversion_cancel(stk_conversion *conversion);

/** Free it and set *conversion to NULL. Accepts NULL. Not while it runs. */
STK_API void stk_conversion_destroy(stk_conversion **conversion);

/* ---- Surveys --------------------------------------------------------------------------------- */

/** Bounds of the histogram of sides: below 32, below 64, ... below 4096, and the others. */
#define STK_SURVEY_SIDES 9

/** What the pictures of a dataset are. */
typedef struct stk_survey {
    uint32_t struct_size;
    uint64_t pictures; /**< looked at, those of the next two too */
    uint64_t broken;   /**< by what their bytes are */
    uint64_t unread;   /**< for want of memory or permission: another time they may be sound */
    uint64_t bytes;    /**< of their files; of raw pictures their pixels */
    uint64_t jpeg, jpeg_progressive, png; /**< the second is part of the first */
    uint64_t grey;                        /**< have one channel, or one and alpha */
    uint64_t turned;                      /**< are to be turned by their EXIF orientation */
    uint32_t min_width, min_height, max_width, max_height;
    double mean_width, mean_height;
    uint64_t sides[STK_SURVEY_SIDES]; /**< pictures by their shorter side */
    uint32_t channels;      /**< of mean and std: 3, or of raw pictures theirs, 4 at most */
    double mean[4], std[4]; /**< of the values / 255 over all pixels, as normalize() takes them */
    double entropy_share;   /**< of decoding JPEG, estimated from some of them; < 0: unknown */
} stk_survey;

typedef struct stk_survey_options {
    uint32_t struct_size;
    uint64_t limit;         /**< look at so many, evenly spread; 0: at all */
    uint64_t entropy_every; /**< of the JPEG files one in so many is timed; 0: none */
    int64_t num_workers;    /**< threads; STK_AUTO: the usable cores */
    /** Asked ten times a second by the calling thread: true ends it with STK_ECANCELED. May be
     * NULL. */
    bool (*stop)(void *user);
    uint64_t max_pixels; /**< of a picture; larger ones are broken */
    uint64_t max_blocks; /**< of 8 x 8, of all scans of a JPEG: the work of decoding it */
} stk_survey_options;

static inline void stk_survey_options_init(stk_survey_options *options)
{
    stk_options_init(stk_option_table_find("survey"), options, sizeof *options);
    options->entropy_every = 16;
    options->num_workers = STK_AUTO;
}

/** Told of each picture that is broken or (`unread`) could not be read, one at a time, in no order.
 */
typedef void stk_survey_broken_fn(void *user, uint64_t index, const char *key, bool unread,
                                  const char *reason);

/**
 * Look at the pictures of a dataset: its first field of pictures, encoded or uint8 of one size.
 *
 * `class_counts` has room for dataset->num_classes numbers of samples looked at, by label; may be
 * NULL. `broken` may be NULL. Sums are exact, so the result does not depend on the number of
 * threads. Files that are read hold at most a quarter of the context's memory_limit, and pictures
 * that are decoded half of it: threads wait for it, and what does not fit alone is unread. Progress
 * goes to the context's sink. Thread: one caller for a dataset. Blocks until all is read. Errors:
 * STK_EKIND (no pictures), STK_ENOMEM, and failures of storage that may pass.
 */
STK_API STK_NODISCARD stk_status stk_survey_run(stk_dataset *dataset,
                                                const stk_survey_options *options,
                                                uint64_t *class_counts,
                                                stk_survey_broken_fn *broken, void *user,
                                                stk_survey *out, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
