/* a file of torch.save -> tensors */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.save() writes a zip of stored entries [APPNOTE.TXT of PKWARE]: NAME/data.pkl is a pickle of
 * protocol 2 or 3 [Python's pickletools] that describes the objects, NAME/data/KEY the bytes of
 * each storage, NAME/byteorder "little" or "big". The pickle is read by a machine that makes
 * tensors and plain containers and nothing else (base/pickle.h). Not
 * supported: other objects (refused by name), compressed entries, big-endian files, the format
 * before torch 1.6, float8, quantized and sparse tensors, ranks above STK_MAX_RANK.
 */
#ifndef STK_SRC_CHECKPOINT_PTH_PTH_H
#define STK_SRC_CHECKPOINT_PTH_PTH_H

#include <stoker/device.h>

#include "base/pickle.h"
#include "checkpoint/source.h"

#define STK__PTH_MAX_DIRECTORY (UINT64_C(64) << 20)  /* bytes of the zip's list of entries */
#define STK__PTH_MAX_PICKLE    (UINT64_C(100) << 20) /* bytes of data.pkl */
#define STK__PTH_MAX_VALUES    (1u << 22)            /* objects that it makes, and its memo */
#define STK__PTH_MAX_TENSORS   (1u << 18)            /* of the dictionary that is taken */
#define STK__PTH_MAX_NAME      256                   /* bytes of "module.name" */

/* By bytes, as qsort() and bsearch() want it: of texts, or of what begins with one. */
int stk__pth_text_compare(const void *a, const void *b);

/* ---- A zip of stored entries (zip.c) ---- */

typedef struct stk__zip_entry {
    stk__pickle_text name;
    uint32_t crc;
    uint64_t header, size; /* where its own header is; bytes of its data */
} stk__zip_entry;

typedef struct stk__zip {
    stk_context *ctx;
    uint8_t *directory;      /* has the names */
    stk__zip_entry *entries; /* sorted by name */
    size_t num_entries;
} stk__zip;

/* Read the list of entries. Errors: STK_ETRUNCATED, STK_EFORMAT, STK_EKIND (compressed, encrypted),
 * STK_ELIMIT, STK_ENOMEM. */
stk_status stk__zip_open(stk_context *ctx, const stk__checkpoint_source *source, const char *path,
                         stk__zip *out, stk_error *err);
/* NULL: there is none of this name. */
const stk__zip_entry *stk__zip_find(const stk__zip *zip, const char *name, size_t length);
/* Read all bytes of an entry, `room` at a time, each time to `to`: with room for all they are there
 * in the end. STK_ECHECKSUM where they are not those that were written. */
stk_status stk__zip_read(const stk__checkpoint_source *source, const char *path,
                         const stk__zip_entry *entry, void *to, uint64_t room, stk_error *err);
void stk__zip_release(stk__zip *zip);

/* ---- A pickle of tensors (objects.c) ---- */

typedef struct stk__pth_tensor {
    stk__pickle_text name, key; /* `key`: of its storage */
    stk_dtype dtype;
    uint32_t rank;
    uint64_t offset, shape[STK_MAX_RANK], stride[STK_MAX_RANK]; /* elements of the storage */
    uint64_t storage_bytes;                                     /* as the pickle says */
} stk__pth_tensor;

typedef struct stk__pth_tensors {
    stk__pth_tensor *all;
    size_t count;
} stk__pth_tensors;

/*
 * The tensors of the dictionary that a pickle is, or of the one that it holds as "state_dict",
 * "model_state_dict" or "model". `bytes` are theirs, too, and stay the caller's. *out is to be
 * freed with stk__free(). Errors: STK_EKIND naming an object that is no tensor; STK_EFORMAT,
 * STK_ELIMIT, STK_ENOMEM.
 */
stk_status stk__pth_pickle_parse(stk_context *ctx, const uint8_t *bytes, size_t length,
                                 const char *path, stk__pth_tensors *out, stk_error *err);

/* ---- A whole file (read.c) ---- */

typedef struct stk__pth {
    stk_context *ctx;
    stk_state_tensor *tensors;
    size_t num_tensors;
    char *names;
    void **blocks; /* memory of the tensors */
    size_t num_blocks;
} stk__pth;

/* Whether a file that begins with these bytes may be one. */
bool stk__pth_begins(const uint8_t first[4]);
/* Read the tensors of an open file into memory, dense and in C order. On failure *out is empty.
 * Errors: STK_EBUDGET, and as above. */
stk_status stk__pth_load(stk_context *ctx, const stk__checkpoint_source *source, const char *path,
                         stk__pth *out, stk_error *err);
/* The same without keeping their bytes, which are verified: `data` of each is NULL. */
stk_status stk__pth_verify(stk_context *ctx, const stk__checkpoint_source *source, const char *path,
                           stk__pth *out, stk_error *err);
void stk__pth_release(stk__pth *pth);

#endif
