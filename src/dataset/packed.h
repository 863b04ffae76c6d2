/* a group of arrays of pictures that need no decoding -> samples */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_PACKED_H
#define STK_SRC_DATASET_PACKED_H

#include "base/json.h"
#include "codec/codec.h"
#include "dataset/window.h"

#define STK__PACKED_MARK "stoker_packed" /* an attribute of the group */

/*
 * Pictures packed by stoker convert, of one of two layouts. Fixed: `image` [N, height, width,
 * channels]. Ragged: `bytes`, in which each picture is a PPM, with `offset` [N] of its pixels and
 * `shape` [N, 3]. Both: `label` [N] and, where pictures may have been left out, `kept` [N].
 */
typedef struct stk__packed_set {
    stk_dataset base;
    stk_group *group;
    stk_field fields[2];
    bool marked;   /* stoker convert made it: chunks of columns that are not there are lost */
    uint64_t rows; /* of the arrays; samples are those that were not left out */
    int64_t *labels;
    uint64_t *kept; /* rows of the samples; NULL: all */
    stk__json attributes;
    const char **classes;

    /* Of the fixed layout. */
    stk_dataset *windows;               /* of `image` */
    uint64_t chunk_rows, picture_bytes; /* the second of the ragged layout too, in the mean */
    bool plain;                         /* what is read is the picture, of a chunk in part */
    bool checked;                       /* a CRC-32C follows each chunk */
    stk__codec_crc32c_fn *crc32c;
    uint8_t *fill;   /* a picture that is absent */
    stk_slice *maps; /* the objects, where the store has them in memory; else NULL */

    /* Of the ragged layout. */
    stk_array *bytes;
    int64_t *offsets; /* of pixels */
    int64_t *shapes;  /* three each */
} stk__packed_set;

extern const stk_dataset_ops stk__packed_pictures, stk__packed_decoded, stk__packed_ragged;

/* Whether a folder is a group of Zarr; `images:` reads it as packed pictures then. Blocks. */
stk_status stk__packed_is_group(stk_store *store, bool *out, stk_error *err);
/* Whether a file of this name makes a folder such a group. */
bool stk__packed_is_metadata(const char *name, size_t length);
/* As recognise() does, whether a group says that it is packed pictures. Blocks. */
int stk__packed_recognise(stk_context *ctx, const char *url);
/* Open one. Blocks. */
stk_status stk__packed_open(stk_context *ctx, const char *url, stk_dataset **out, stk_error *err);

/* ---- For its parts ---- */

/* "the array 'X' WHAT": STK_EFORMAT. */
stk_status stk__packed_wrong(stk_error *err, const char *array, const char *what);
bool stk__packed_has(const stk__packed_set *d, const char *path);
/* Read an array of `width` values for each row (0: of one alone), all of it, into new memory. */
stk_status stk__packed_column(stk__packed_set *d, const char *path, int64_t width,
                              stk_array **array, void **out, stk_error *err);
/* The row of a sample. */
static inline uint64_t stk__packed_row(const stk__packed_set *d, uint64_t index)
{
    return d->kept ? d->kept[index] : index;
}
void stk__packed_close(stk_dataset *dataset);
stk_status stk__packed_describe(stk_dataset *dataset,
                                void (*line)(void *user, const char *name, const char *value),
                                void *user, stk_error *err);

/* Of the ragged layout (packed_ragged.c): open `bytes`, read `offset` and `shape`, and hold them
 * against each other, of the rows that are samples. */
stk_status stk__packed_ragged_open(stk__packed_set *d, stk_error *err);
stk_status stk__packed_ragged_check(const stk__packed_set *d, stk_error *err);

#endif
