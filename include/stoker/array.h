/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: n-dimensional data in chunks, wherever and however it is stored. */
#ifndef STOKER_ARRAY_H
#define STOKER_ARRAY_H

#include <stoker/options.h>
#include <stoker/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Dimensions of an array at most. */
#define STK_ARRAY_MAX_RANK 32

typedef struct stk_array stk_array;

/** How an array is opened. The texts are read during the call only. */
typedef struct stk_array_options {
    uint32_t struct_size;
    const char *format;  /**< name of a driver: "zarr", "hdf5", "netcdf3", "kerchunk", "libhdf5",
                            "npy", "raw", or one of a plug-in; NULL or "auto": by content */
    int32_t missing;     /**< 0 fill, 1 error: what a chunk is that is not there */
    bool checksums;      /**< compare checksums of chunks and of shard indexes */
    int64_t num_threads; /**< that decode one read; STK_AUTO: the cores of preparation */
    uint64_t memory; /**< bytes a read may hold in addition to its result; 0: an eighth of what the
                        process may use, at most 1 GiB */
    uint64_t index_cache; /**< bytes of shard indexes kept */
    double timeout;       /**< seconds after which one read of the store fails; 0: never */
    const char *dtype;    /**< of raw: NumPy's name or code, as "uint16" or ">f4" */
    const char *shape;    /**< of raw: "512x512"; one dimension may be -1; NULL: flat */
    uint64_t offset;      /**< of raw: bytes in front of the data */
    int32_t order;        /**< of raw: 0 C, 1 F */
    bool allow_trailing;  /**< of npy and raw: ignore bytes behind the data */
    const char *concat;   /**< the path names several files ("era5_*.nc/t2m"), which are joined
                             along this dimension; NULL: one */
} stk_array_options;

static inline void stk_array_options_init(stk_array_options *options)
{
    stk_options_init(stk_option_table_find("array"), options, sizeof *options);
}

/** What an array is. Lives as long as the array. */
typedef struct stk_array_info {
    uint32_t struct_size;
    const char *format; /**< "zarr v3", "zarr v2", "netcdf 4", "hdf5", "netcdf 3", "npy", "raw" */
    stk_dtype dtype;    /**< of elements in memory; times are int64; STK_DTYPE_NONE: bytes */
    const char *type_name; /**< also where there is no dtype: "datetime64[ns]", "S8", "U4", "V3";
                              "string" and "bytes": of varying length, see stk_array_read_texts() */
    uint64_t itemsize;     /**< bytes of one element; 0: they vary in length */
    uint32_t rank;
    const int64_t *shape;       /**< `rank` values */
    const int64_t *chunk_shape; /**< of what is decoded at a time */
    const int64_t *shard_shape; /**< of what is in one object; that of the chunks without shards */
    const char *const *dimension_names; /**< `rank` names, each may be NULL; NULL: none has one */
    const void *fill_value; /**< `itemsize` bytes; NULL: not defined, and read as zeros. Of varying
                               length: an stk_array_string */
    const char *attributes; /**< a JSON object */
    const char *codecs;     /**< how chunks are encoded: "shuffle, zstd"; "none" */
    char order;             /**< how elements of a chunk are stored: 'C', 'F', or 'T' (other) */
    uint64_t num_chunks;
    uint64_t bytes;       /**< of all elements; 0 where they vary in length */
    uint64_t num_objects; /**< of the store that chunks or shards may be in */
} stk_array_info;

/**
 * Open the array of a URL in any store: a Zarr array (the folder that holds its zarr.json or
 * .zarray), a dataset of an HDF5 or NetCDF-4 file, an npy file, or with format=raw any file. The
 * longest prefix of the path that is an object is opened, and what follows is found in it by a
 * format that takes it ("a.h5/group/t2m"). Options in the URL's query
 * ("data.zarr/t2m?missing=error") go before those of `options`, which may be NULL. Blocks.
 *
 * Ownership: *out is the caller's, ended with stk_array_close(). Errors name object, value, remedy:
 * STK_ENOENT, STK_EFORMAT, STK_EKIND (a type, codec or extension by name), STK_ELIMIT, ...
 */
STK_API STK_NODISCARD stk_status stk_array_open(stk_context *context, const char *url,
                                                const stk_array_options *options, stk_array **out,
                                                stk_error *err);
/** Close and set *array to NULL. Accepts NULL. No read may be in progress. */
STK_API void stk_array_close(stk_array **array);

STK_API const stk_array_info *stk_array_get_info(const stk_array *array);
/** An attribute that is a number. False: there is none of that name, or it is something else. */
STK_API bool stk_array_number(const stk_array *array, const char *name, double *out);
/** An attribute that is a text; NULL: there is none. Lives as long as the array. */
STK_API const char *stk_array_text(const stk_array *array, const char *name);
/** Print what an array is, one "name: value" at a time. */
STK_API STK_NODISCARD stk_status stk_array_describe(stk_array *array,
                                                    void (*line)(void *user, const char *name,
                                                                 const char *value),
                                                    void *user, stk_error *err);

/** A box of elements. Each pointer has `rank` values, or is NULL for the default. */
typedef struct stk_array_box {
    const int64_t *start; /**< first element of each dimension; NULL: 0 */
    const int64_t *shape; /**< elements taken; NULL: up to the end */
    const int64_t *step;  /**< distance of neighbours, at least 1; NULL: 1 */
} stk_array_box;

/** Bytes that a box holds in C order. Errors: STK_EINVAL: it is not within the array. */
STK_API STK_NODISCARD stk_status stk_array_box_bytes(const stk_array *array,
                                                     const stk_array_box *box, uint64_t *bytes,
                                                     stk_error *err);

/**
 * Read a box (NULL: all) into `out`, which has `out_bytes`. Each chunk is fetched and decoded once,
 * in parallel; neighbouring ranges are fetched together. Without `strides` the elements come in C
 * order and `out_bytes` must be the bytes of the box; with them (bytes between neighbours of each
 * dimension, from 0 up) all must be within `out_bytes`.
 *
 * Blocks up to `timeout_ms` (-1: no limit). Any number of threads. After a failure what is in
 * `out` means nothing. Errors: STK_EINVAL, STK_ETIMEDOUT, STK_ECANCELED, those of the store,
 * damaged chunks with object and offset, and STK_ECHANGED of a file that is another one than when
 * opened.
 */
STK_API STK_NODISCARD stk_status stk_array_read(stk_array *array, const stk_array_box *box,
                                                void *out, uint64_t out_bytes,
                                                const int64_t *strides, int64_t timeout_ms,
                                                stk_error *err);
/** An element of varying length: UTF-8 of "string", any bytes of "bytes". */
typedef struct stk_array_string {
    const char *data; /**< without a zero at its end */
    uint64_t length;
} stk_array_string;

/** Elements of varying length, in C order of a box: element i is values[offsets[i], offsets[i + 1])
 * of `values`. */
typedef struct stk_array_texts {
    uint32_t struct_size;
    uint64_t count;
    const uint64_t *offsets; /**< count + 1 */
    const char *values;
} stk_array_texts;

/**
 * Read a box (NULL: all) of an array whose elements vary in length (itemsize 0); stk_array_read()
 * refuses such. Each chunk is fetched once. What its chunks hold, decoded, must fit `memory` of the
 * array's options.
 *
 * Ownership: on STK_OK *out is the caller's, ended with stk_array_texts_destroy(); else NULL.
 * Thread:    any number.  Blocks: up to `timeout_ms` (-1: no limit).
 * Errors:    those of stk_array_read(); STK_EKIND: the elements have a fixed length.
 */
STK_API STK_NODISCARD stk_status stk_array_read_texts(stk_array *array, const stk_array_box *box,
                                                      int64_t timeout_ms, stk_array_texts **out,
                                                      stk_error *err);
/** End and set *texts to NULL. Accepts NULL. */
STK_API void stk_array_texts_destroy(stk_array_texts **texts);
/** End every read in progress with STK_ECANCELED. Any thread. */
STK_API void stk_array_cancel(stk_array *array);

/** The text of an element's value as JSON, as Zarr writes fill values: 3, 0.1, "NaN", true,
 * [1.0, 2.0], "NaT", "text", [7, 255] for raw bytes. Of varying length `value` is an
 * stk_array_string. Floats have the fewest digits that tell them
 * from others of their type. Returns the length without the end, as snprintf(). */
STK_API size_t stk_array_value_text(const stk_array *array, const void *value, char *text,
                                    size_t size);

/** The date of an element of an array of times, which are datetime64, or numbers with the
 * attributes `units` ("hours since 1900-01-01") and `calendar` of the CF conventions:
 * "2015-03-01T06:00:00". Returns the length without the end, as snprintf(); 0: it holds no times,
 * or this is none (NaT).
 */
STK_API size_t stk_array_time_text(const stk_array *array, const void *value, char *text,
                                   size_t size);

/** What is in the store for an array. */
typedef struct stk_array_stored {
    uint32_t struct_size;
    uint64_t objects; /**< chunks or shards that are there */
    uint64_t bytes;   /**< of them */
    uint64_t values;  /**< bytes of the array's elements that they cover, decoded */
} stk_array_stored;

/** Count what is stored by listing; blocks. Errors: those of the store; STK_ENOTSUP: it cannot
 * list. */
STK_API STK_NODISCARD stk_status stk_array_stored_count(stk_array *array, stk_array_stored *out,
                                                        stk_error *err);

#define STK_ARRAY_BINS 64 /**< of a histogram at most */

/** What the values of an array are like. NaN and the value that stands for a missing one are
 * counted and left out of the rest. Values are those stored: `scale_factor` and `add_offset` are
 * not applied (mean and std of the scaled ones: mean * scale + offset, std * |scale|). */
typedef struct stk_array_stats {
    uint32_t struct_size;
    uint64_t values; /**< elements that mean, std, min and max are over */
    uint64_t nan, missing;
    double mean, std, min,
        max;          /**< NaN where there are no values; std over all: divided by `values` */
    double nan_share; /**< NaN among all elements; NaN where there are none */
    /** The histogram: bins[i] is the number of values from bin_low + i * bin_width up to, but
     * without, the next edge. Exact. The width is the least power of two (1 or more of integers)
     * for which STK_ARRAY_BINS bins that begin at its multiples hold all finite values: so it is
     * made in one pass over the data, whatever its order, and 33 to 64 bins are used where values
     * differ. Infinite values lie in no bin. 0 bins: there is none, as in statistics that were kept
     * before there were histograms. */
    uint32_t num_bins;
    double bin_low, bin_width;
    uint64_t bins[STK_ARRAY_BINS];
} stk_array_stats;

/**
 * Read all of a real-valued array, each chunk once, and compute its statistics; shows progress.
 * `stop` (may be NULL) is asked often and ends it with STK_ECANCELED. Blocks.
 * Errors: STK_EKIND: complex numbers, texts and bytes have none; those of reading.
 */
STK_API STK_NODISCARD stk_status stk_array_stats_compute(stk_array *array, bool (*stop)(void *user),
                                                         void *user, stk_array_stats *out,
                                                         stk_error *err);
/**
 * Statistics that were kept: in `.stoker-stats.json` next to the chunks (`folder` NULL; of a file
 * `x.npy` it is `.x.npy.stoker-stats.json`), or in a folder of many arrays' statistics. They count
 * only while type, shape, chunks, codecs and attributes are those they were made of; that the
 * values were not written again since is the caller's to know. Errors: STK_ENOENT: there are none.
 */
STK_API STK_NODISCARD stk_status stk_array_stats_load(stk_array *array, const char *folder,
                                                      stk_array_stats *out, stk_error *err);
/** Keep statistics. Errors: STK_ENOTSUP, STK_EACCES, ...: that place cannot be written. */
STK_API STK_NODISCARD stk_status stk_array_stats_save(stk_array *array, const char *folder,
                                                      const stk_array_stats *stats, stk_error *err);

/* ---- Groups ---- */

typedef struct stk_group stk_group;

typedef struct stk_node {
    const char *path; /**< below the group: "a/b"; '/' parts the levels */
    bool is_array;    /**< else a group */
} stk_node;

/** Open the group of a URL: a folder of Zarr, a file that holds several arrays, or a group in one
 * ("a.nc/forecast"). Its nodes, of all levels, come from consolidated metadata or the file where
 * there is such, else from listing the store. Blocks. */
STK_API STK_NODISCARD stk_status stk_group_open(stk_context *context, const char *url,
                                                stk_group **out, stk_error *err);
/** Close and set *group to NULL. Accepts NULL. Arrays opened from it live on. */
STK_API void stk_group_close(stk_group **group);
/** Node `i` in the order of paths; NULL past the end. Lives as long as the group. */
STK_API const stk_node *stk_group_node(const stk_group *group, size_t i);
/** The attributes as a JSON object. */
STK_API const char *stk_group_attributes(const stk_group *group);
/** Whether all nodes were told at one place: by consolidated metadata, or by a file. */
STK_API bool stk_group_is_consolidated(const stk_group *group);
/** Open an array of the group; from consolidated metadata without asking the store. */
STK_API STK_NODISCARD stk_status stk_group_array(stk_group *group, const char *path,
                                                 const stk_array_options *options, stk_array **out,
                                                 stk_error *err);

/* ---- Writing ---- */

typedef struct stk_array_writer stk_array_writer;

/** What is written: a Zarr array. The memory is read during the call only. */
typedef struct stk_array_writer_options {
    uint32_t struct_size;
    stk_dtype dtype;       /**< STK_DTYPE_NONE: bytes, as `type_name` says */
    const char *type_name; /**< NULL: that of `dtype`; "datetime64[ns]", "timedelta64[s]": of int64;
                              "S8", "U4", "V3" of bytes; "string" and "bytes" of varying length:
                              each element, the fill value too, is an stk_array_string */
    uint32_t rank;
    const int64_t *shape;
    const int64_t *chunk_shape;
    const int64_t *shard_shape; /**< multiples of the chunk's; NULL: each chunk is an object */
    const char *codec; /**< "none", "zstd", "gzip", "zlib", "blosc" (lz4 within), "blosc_zstd" */
    int64_t level;     /**< of the codec; STK_AUTO: its usual one */
    bool checksum;     /**< crc32c behind every chunk */
    const void *fill_value;             /**< one element; NULL: zero */
    const char *const *dimension_names; /**< `rank` names, each may be NULL; NULL: none */
    const char *attributes;             /**< a JSON object; NULL: none */
    int32_t zarr_format;     /**< 2 or 3; 0: 3. Version 2 has no shards and no `checksum` */
    const char *shuffle;     /**< of bytes before the codec: "none", "byte", "bit" (of blosc alone);
                                NULL: by blosc alone, of elements of more than a byte */
    bool no_fill_value;      /**< of version 2: none is defined, and every chunk is written */
    bool write_empty_chunks; /**< chunks of fill value alone are written, too, so that one that is
                                not there is known to be lost */
} stk_array_writer_options;

static inline void stk_array_writer_options_init(stk_array_writer_options *options)
{
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->codec = "zstd";
    options->level = STK_AUTO;
}

/**
 * Begin an array in the folder `url`, which is made. Its metadata is written by finish, after all
 * chunks: until then no reader takes it for complete. Errors: STK_EINVAL names the option, or says
 * that there is a node of that name already.
 */
STK_API STK_NODISCARD stk_status stk_array_writer_create(stk_context *context, const char *url,
                                                         const stk_array_writer_options *options,
                                                         stk_array_writer **out, stk_error *err);
/**
 * Write a box from `data` in C order. It must begin at a shard (a chunk without shards) and end at
 * one or at the array's end, so that every object is written once, whole. A chunk that is all fill
 * value is left out. Any number of threads, with different boxes.
 */
STK_API STK_NODISCARD stk_status stk_array_writer_write(stk_array_writer *writer,
                                                        const int64_t *start, const int64_t *shape,
                                                        const void *data, stk_error *err);
/** Write the metadata, durably, and end the writer; *writer becomes NULL, also on failure. */
STK_API STK_NODISCARD stk_status stk_array_writer_finish(stk_array_writer **writer, stk_error *err);
/** End without metadata: what was written stays but is no array. Accepts NULL. */
STK_API void stk_array_writer_abandon(stk_array_writer **writer);

/**
 * Write the metadata of a group over all nodes that are below it, consolidated, so that one read
 * opens them all. `attributes` is a JSON object; NULL: those it has, or none. Groups between that
 * have no metadata get some. Blocks.
 */
STK_API STK_NODISCARD stk_status stk_group_consolidate(stk_context *context, const char *url,
                                                       const char *attributes, stk_error *err);

/* ---- Formats ---- */

/** What a format is asked to open. Everything in it is valid during the call only, but the store
 * and its context, which live as long as the array. */
typedef struct stk_array_opening {
    uint32_t struct_size;
    stk_store *store; /**< `store->context` is the context */
    const char *key;  /**< the object in it; "": a folder, the store's root */
    const char *url;  /**< as the caller named it, for messages */
    const char *rest; /**< the way on below `key`: "group/t2m" of "a.h5/group/t2m"; "": none */
    const stk_array_options *array_options; /**< complete */
    const void *options;                    /**< its own, complete; NULL: it has no table */
    /** Of a group: where list() may put what it has read of the object, for the open() of each of
     * its arrays, perhaps several at a time, which only read it; forget() ends it with the group.
     * NULL: an array alone is opened. */
    void **kept;
} stk_array_opening;

/**
 * What a format says of an array. All of it is copied.
 *
 * How its values are read is one of three:
 * - one run: `chunk_shape` is NULL, and the elements follow each other from byte `offset` of the
 *   first object on;
 * - located chunks: locate() of the format says where each chunk is. They are fetched and decoded
 *   as those of Zarr are, in parallel, neighbours together;
 * - `reads_chunks`: read() of the format gives the elements of a chunk, by a library of its own.
 */
typedef struct stk_array_layout {
    uint32_t struct_size;
    const char *format;    /**< as stk_array_info shows it: "netcdf 4"; NULL: the driver's name */
    const char *type_name; /**< NumPy's name or code: "float32", ">f4", "<M8[ns]", "S8", "V12" */
    uint32_t rank;
    const int64_t *shape;       /**< `rank` values, from 0 up */
    const int64_t *chunk_shape; /**< `rank` values, from 1 up; NULL: one run */
    const char *codecs; /**< of located chunks: the JSON list of codecs that a zarr.json of version
                           3 has, without shards; it says the order of bytes. NULL: the elements as
                           `type_name` says */
    bool fortran;       /**< without codecs and reads_chunks: the first dimension runs fastest */
    bool reads_chunks;
    uint64_t offset;                    /**< of one run */
    const void *fill_value;             /**< one element, little endian; NULL: none is defined */
    const char *const *dimension_names; /**< `rank` names, each may be NULL; NULL: none has one */
    const char *attributes;             /**< a JSON object; NULL: none */
    const char *const *objects; /**< keys of the objects that chunks are in; NULL: the one that was
                                   opened */
    uint64_t num_objects;
    void *state; /**< what locate(), read() and close() get */
} stk_array_layout;

/** Where a chunk is. */
typedef struct stk_array_place {
    uint32_t struct_size;
    uint64_t object;         /**< number in the layout's `objects`; 0 where there is one */
    uint64_t offset, length; /**< bytes in it, at least 1 */
    /** Bit i: entry i of the layout's `codecs`, a codec of bytes, was left out when this chunk was
     * written. */
    uint32_t skipped;
} stk_array_place;

/** What a format tells of the arrays and groups in an object. */
typedef struct stk_array_listing stk_array_listing;

/** Tell a node; `path` is below the group that was asked for: "a/b". Groups come before what is in
 * them. Copied. Errors: STK_EFORMAT (no path), STK_ELIMIT, STK_ENOMEM. */
STK_API STK_NODISCARD stk_status stk_array_listing_add(stk_array_listing *listing, const char *path,
                                                       bool is_array, stk_error *err);
/** Tell the attributes of the group that was asked for, at most once: a JSON object. Copied. */
STK_API STK_NODISCARD stk_status stk_array_listing_attributes(stk_array_listing *listing,
                                                              const char *json_object,
                                                              stk_error *err);

/** A format of arrays: metadata -> where chunks are, or what they hold. */
typedef struct stk_array_format_ops {
    uint32_t struct_size;
    const char *name; /**< "hdf5": also the word of the option `format` */
    const char *doc;  /**< one line */
    /** (optional) Its own options, taken out of the query of an array's URL; NULL: none. */
    const stk_option_table *options;
    /** An object of this format may hold several arrays, found by `rest` of what is opened. False:
     * such a path is refused. */
    bool takes_rest;
    /** Whether it is one: 0 no, 1 perhaps, 2 surely. Reads little. Any thread. */
    int (*recognise)(stk_store *store, const char *key);
    /** Read the metadata and give the layout by one call of stk_array_lay_out(). Sizes and offsets
     * of a layout are checked, so what a file claims may be passed on. Any thread. Blocks. */
    stk_status (*open)(stk_array *array, const stk_array_opening *opening, stk_error *err);
    /** (optional) Where chunk `chunk` is, numbered in C order. STK_ENOENT: it is absent, and
     * reads as the fill value; any other failure ends the read, or the opening of windows, with it.
     * Looks up what open() has read. Any number of threads; does not block. NULL: no layout of this
     * format locates chunks. */
    stk_status (*locate)(void *state, uint64_t chunk, stk_array_place *out, stk_error *err);
    /** (optional) Read the elements of a box, of a chunk cut at the array's end, into `out`: C
     * order, `bytes` in all. STK_ENOENT: they are absent. Any number of threads, so a library that
     * takes but one at a time is locked within; it blocks the thread that sends reads, so one that
     * takes long looks at the deadline of `call` and asks `call->canceled`. NULL: no layout of this
     * format reads chunks. */
    stk_status (*read)(void *state, const int64_t *start, const int64_t *shape,
                       const stk_store_call *call, void *out, uint64_t bytes, stk_error *err);
    /** (optional) End what a layout's `state` is, once. NULL: nothing is to be ended. */
    void (*close)(void *state);
    /** (optional) Tell all arrays and groups below the group `opening->rest` of an object, of all
     * levels, and the group's attributes. STK_EMISMATCH: it is an array. Any thread. Blocks. NULL:
     * an object holds one array. */
    stk_status (*list)(const stk_array_opening *opening, stk_array_listing *listing,
                       stk_error *err);
    /** (optional) End what list() has put in `kept`, once. NULL: it keeps nothing. */
    void (*forget)(void *kept);
} stk_array_format_ops;

/**
 * Say what an array is; called once by open() of a format. On STK_OK `state` is the array's:
 * close() gets it when the array ends, also when the rest of open() fails; else it stays the
 * caller's.
 *
 * Errors: STK_EINVAL (the layout lacks something, named), STK_EFORMAT, STK_EKIND (a type or codec
 * by name), STK_ELIMIT, STK_ETRUNCATED (one run that its object does not hold), STK_ENOMEM; those
 * of the store. Thread: that of open().
 */
STK_API STK_NODISCARD stk_status stk_array_lay_out(stk_array *array, const stk_array_layout *layout,
                                                   stk_error *err);

/**
 * Which format recognises what is at a URL, as stk_array_open() would find it: 0 none, 1 perhaps,
 * 2 surely one of its arrays; STK_ENOMEM: there was no memory to tell. *format (may be NULL) is its
 * table; NULL: none. Blocks. Any thread.
 */
STK_API int stk_array_recognise(stk_context *context, const char *url,
                                const stk_array_format_ops **format);

#ifdef __cplusplus
}
#endif
#endif
