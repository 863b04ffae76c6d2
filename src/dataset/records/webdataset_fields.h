/* the kinds of members of a shard -> fields, and what their values are made of */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_RECORDS_WEBDATASET_FIELDS_H
#define STK_SRC_DATASET_RECORDS_WEBDATASET_FIELDS_H

#include "array/npy/npy.h"
#include "codec/codec.h"
#include "dataset/records/webdataset.h"

enum { STK__WEBDATASET_FAIL, STK__WEBDATASET_BAD, STK__WEBDATASET_EMPTY }; /* option missing */

typedef enum stk__webdataset_form {
    STK__WEBDATASET_BYTES,
    STK__WEBDATASET_IMAGE,
    STK__WEBDATASET_LABEL,
    STK__WEBDATASET_NPY
} stk__webdataset_form;

/* A field of a sample, and how it is had from its part. */
typedef struct stk__webdataset_field {
    stk__webdataset_form form;
    bool zipped;         /* the part is a file of an npz archive with its local header */
    stk__npy_header npy; /* of the first sample */
    uint64_t length;     /* bytes of that part */
} stk__webdataset_field;

/* The state of the format. */
typedef struct stk__webdataset {
    stk_field fields[STK__RECORDS_MAX_KINDS];
    stk__webdataset_field states[STK__RECORDS_MAX_KINDS];
    uint32_t count;
    int missing;
    bool whole;     /* no sample lacks a field */
    int key_header; /* the kind STK__WEBDATASET_KEY_HEADER; -1: there is none */
    uint64_t
        inflated_most; /* bytes of an array of fixed shape in an npz archive, with its header */
    size_t names_used;
    char names[STK__RECORDS_MAX_KINDS * (STK__RECORDS_MAX_KIND + 1)]; /* of arrays */
} stk__webdataset;

/* ---- Values (webdataset_take.c): functions of the dataset ---- */

void stk__webdataset_prepare(stk_dataset *dataset, stk_sample *samples, size_t n);
/* A thread's room for arrays that are inflated; none where there are no npz archives. */
stk_status stk__webdataset_worker_open(stk_dataset *dataset, void **worker);
void stk__webdataset_worker_close(stk_dataset *dataset, void *worker);
/* Bytes that a thread takes. */
uint64_t stk__webdataset_worker_bytes(const stk__webdataset *w);

/* ---- Files of npz archives (webdataset_npz.c) ---- */

/*
 * The arrays of an npz archive [zip: APPNOTE 6.3.10] that is `size` bytes of the shard from
 * `offset` on: each is a part of the record, of the kind KIND/NAME.npy, from its local header to
 * the end of its data. One that is no such archive (encrypted, streamed, damaged, packed otherwise)
 * is a part as a whole, of the kind KIND.
 */
stk_status stk__webdataset_npz_scan(stk__shard *shard, const char *kind, uint64_t offset,
                                    uint64_t size, stk_error *err);
/* Whether a kind is one of these; an extension has no '/'. */
static inline bool stk__webdataset_is_zipped(const char *kind)
{
    return strchr(kind, '/') != NULL;
}

typedef struct stk__webdataset_zipped {
    const uint8_t *data;
    uint64_t stored, size; /* bytes of data; of the file */
    uint32_t crc;
    bool deflated;
} stk__webdataset_zipped;

/* What such a part is, all of whose bytes are data behind the local header; false: damaged. */
bool stk__webdataset_unzip(const void *part, uint64_t length, stk__webdataset_zipped *out);
/* The file, at its own place or in `room`, of `size` bytes at least where it is deflated. NULL:
 * *status and *reason say why not. */
const void *stk__webdataset_inflate(const stk__webdataset_zipped *zipped, stk__codec_state *state,
                                    void *room, stk_status *status, const char **reason);

#endif
