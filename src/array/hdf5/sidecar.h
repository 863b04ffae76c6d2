/* the index of a dataset's chunks <-> a file beside the data. Inside src/array only. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `.NAME.stoker-index` beside the file NAME holds the indexes of datasets with many chunks, so that
 * opening them again reads one range instead of many nodes. Little endian:
 *
 *   header   "stkHDF5i", version u32, sections u32, bytes and identity of the file u64, CRC-32C of
 *            these and of the table u32, 0 u32
 *   table    of each section: address of the dataset, fingerprint of its layout, offset in this
 *            file, chunks (u64), CRC-32C of them u32, 0 u32
 *   chunks   number, offset, (u64) bytes, mask (u32)
 *
 * It is believed while bytes and identity of the file are those that it names. Anybody may have
 * written it, so that what it says is checked as what the file itself says is.
 */
#ifndef STK_SRC_ARRAY_HDF5_SIDECAR_H
#define STK_SRC_ARRAY_HDF5_SIDECAR_H

#include "array/hdf5/index.h"

#define STK__SIDECAR_LEAST 4096 /* chunks of a dataset from which on it is worth a file */

/* What an index belongs to, and what bounds it. */
typedef struct stk__sidecar_of {
    uint64_t file_bytes, identity;
    uint64_t dataset;     /* address of its header */
    uint64_t fingerprint; /* of all that chunks are numbered by */
    uint64_t most_chunks; /* numbers are below it */
    uint64_t most_memory;
} stk__sidecar_of;

/* The chunks of a section in the bytes of a sidecar: `data` holds the whole. STK_ENOENT: none of
 * that dataset, or of another state of the file. STK_EFORMAT, STK_ECHECKSUM, STK_ELIMIT,
 * STK_ENOMEM; whatever the bytes, an index is sound. */
stk_status stk__sidecar_parse(stk_context *ctx, const void *data, uint64_t length,
                              const stk__sidecar_of *of, stk__hdf5_index *out);
/* The bytes of a sidecar with this index, and the sections of other datasets that `old` (may be
 * NULL) has of the same state of the file. *data is the caller's. */
stk_status stk__sidecar_make(stk_context *ctx, const void *old, uint64_t old_length,
                             const stk__sidecar_of *of, const stk__hdf5_index *index, void **data,
                             uint64_t *length);

#endif
