/* tensors, texts <-> the bytes of a safetensors file */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * https://github.com/huggingface/safetensors#format: a little-endian uint64 N, N bytes of JSON that
 * begin with '{' and may end with spaces, and the data; offsets are relative to the data, without
 * holes or overlaps. Not supported: ranks above STK_MAX_RANK, types that stk_dtype has not
 * (float8, float4), names and texts with a NUL.
 */
#ifndef STK_SRC_CHECKPOINT_SAFETENSORS_SAFETENSORS_H
#define STK_SRC_CHECKPOINT_SAFETENSORS_SAFETENSORS_H

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/source.h"

#define STK__SAFETENSORS_MAX_HEADER UINT64_C(100000000) /* bytes of JSON, as in the reference */
#define STK__SAFETENSORS_REMEDY     "; copy it again, or use an earlier checkpoint" /* damage */
#define STK__SAFETENSORS_ALIGN      64 /* of the data in files written here */

/* ---- Header -> tensors (safetensors_parse.c) ---- */

typedef struct stk__safetensors {
    stk_context *ctx;
    char *json;                /* the header, cut into the names and texts */
    stk_state_tensor *tensors; /* in the order of their data; `data` is not set by the parser */
    uint64_t *begins;          /* of each, in the data */
    uint64_t *skipped;         /* of each, bytes in front of `data`; NULL: none (parts_read.c) */
    size_t num_tensors;
    size_t *by_name;             /* numbers of tensors, sorted by name */
    stk__checkpoint_text *texts; /* sorted by name */
    size_t num_texts;
    uint64_t data_bytes; /* what the offsets say */
} stk__safetensors;

/*
 * Parse a header of `length` bytes; json[length] is writable too. Takes `json`, which
 * stk__safetensors_release() frees, also after a failure. `path` is for messages.
 */
stk_status stk__safetensors_parse(stk_context *ctx, char *json, size_t length, const char *path,
                                  stk__safetensors *out, stk_error *err);
void stk__safetensors_release(stk__safetensors *file);
/* Sort `by_name` anew, which has room for the tensors; a name that two of them have, or NULL. */
const char *stk__safetensors_sort_names(stk__safetensors *file);
const stk_state_tensor *stk__safetensors_find(const stk__safetensors *file, const char *name);
const char *stk__safetensors_find_text(const stk__safetensors *file, const char *name);

/* ---- A whole file (safetensors_read.c) ---- */

/* Bytes in front of the data: the length and the header. */
typedef struct stk__safetensors_file {
    stk__checkpoint_source source;
    uint8_t *head; /* the first `head_bytes` bytes, as they are in the file */
    uint64_t head_bytes;
    stk__safetensors parsed;
} stk__safetensors_file;

/* Open a file and parse its header; that the file holds all its data is checked. */
stk_status stk__safetensors_file_open(stk_context *ctx, const char *path,
                                      stk__safetensors_file *out, stk_error *err);
/* The same of one that is open: `source` is taken, and closed on failure. */
stk_status stk__safetensors_file_take(stk_context *ctx, stk__checkpoint_source *source,
                                      const char *path, stk__safetensors_file *out, stk_error *err);
/* Read all data into one block and set the tensors' pointers, aligned for their types. *data (and
 * *moved, may be NULL) are to be freed with stk__free(). */
stk_status stk__safetensors_file_load(stk__safetensors_file *file, const char *path, uint8_t **data,
                                      uint8_t **moved, stk_error *err);
/* Nothing more will be read: only `parsed` stays. */
void stk__safetensors_file_end(stk__safetensors_file *file);
void stk__safetensors_file_close(stk__safetensors_file *file);

/* ---- Tensors -> header (safetensors_write.c) ---- */

/* A growing text; kept by its owner, so that the next header needs no memory. */
typedef struct stk__safetensors_head {
    stk__text text;  /* the length and the JSON, padded: what a file begins with */
    size_t *order;   /* numbers of the tensors in the order of the data */
    size_t *by_name; /* the same, sorted by name */
    size_t order_room;
    uint64_t data_bytes;
} stk__safetensors_head;

/*
 * Make the head of a file: widest types first, so that every tensor is aligned, else in the order
 * given. Errors: STK_EINVAL naming the tensor or text that no file can hold, STK_ELIMIT,
 * STK_ENOMEM.
 */
stk_status stk__safetensors_head_make(stk__safetensors_head *head, const stk_state_tensor *tensors,
                                      size_t num_tensors, const stk__checkpoint_text *texts,
                                      size_t num_texts, stk_error *err);
void stk__safetensors_head_release(stk__safetensors_head *head);

/* Name of a type in the format; NULL where it has none. */
const char *stk__safetensors_dtype_name(stk_dtype dtype);
stk_dtype stk__safetensors_dtype_parse(const char *name);

#endif
