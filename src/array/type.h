/* names of element types, fill values -> types, bytes. Inside src/array only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_TYPE_H
#define STK_SRC_ARRAY_TYPE_H

#include <stoker/array.h>

#include "base/json.h"

#define STK__ARRAY_MAX_ITEM  65536u /* bytes of one element */
#define STK__ARRAY_TYPE_NAME 64

typedef enum stk__type_kind {
    STK__KIND_BOOL,
    STK__KIND_INT,
    STK__KIND_UINT,
    STK__KIND_FLOAT,
    STK__KIND_COMPLEX,
    STK__KIND_TIME,  /* datetime64 and timedelta64: int64, with the least value for NaT */
    STK__KIND_BYTES, /* S: padded with zeros */
    STK__KIND_TEXT,  /* U: UTF-32, padded with zeros */
    STK__KIND_RAW,   /* V, r<N>, records */
    /* Of varying length: in memory an element is an stk_array_string. */
    STK__KIND_STRING, /* UTF-8 */
    STK__KIND_STRING_BYTES
} stk__type_kind;

typedef struct stk__type {
    stk__type_kind kind;
    stk_dtype dtype; /* STK_DTYPE_NONE: bytes */
    uint32_t itemsize;
    uint32_t swap_size; /* bytes that a change of byte order reverses together; 1: none */
    bool optional;      /* elements may be missing: NaN or NaT */
    stk_dtype stored;   /* of optional ones: integers are read as float64 */
    bool big_endian;    /* as stored: of v2, npy and raw; v3 says it in a codec */
    char name[STK__ARRAY_TYPE_NAME];
} stk__type;

static inline bool stk__type_varies(const stk__type *type)
{
    return type->kind == STK__KIND_STRING || type->kind == STK__KIND_STRING_BYTES;
}

/* The type of elements of varying length. */
void stk__type_set_varying(stk__type *out, bool text);
/* What a missing element is read as, itemsize bytes. */
void stk__type_missing(const stk__type *type, void *out);
/* A NumPy code as "<f4", "|S8", ">M8[ns]", or a name as "float32". `descr` of records is a list.
 * Errors: STK_EKIND by name, STK_EFORMAT, STK_ELIMIT. */
stk_status stk__type_numpy(const char *code, const char *key, stk__type *out, stk_error *err);
stk_status stk__type_v2(const json_t *dtype, const char *key, stk__type *out, stk_error *err);
stk_status stk__type_v3(const json_t *data_type, const char *key, stk__type *out, stk_error *err);
/* The type as zarr.json has it: a new reference, NULL when there is no memory. */
json_t *stk__type_to_v3(const stk__type *type);
/* The code of the type, little endian, as .zarray has it: "<f4", "|S8". */
void stk__type_to_v2(const stk__type *type, char code[STK__ARRAY_TYPE_NAME]);

/* The fill value of a JSON value into `out` (itemsize bytes, little endian). `version` 2 or 3. */
stk_status stk__fill_parse(const stk__type *type, const json_t *value, int version, const char *key,
                           void *out, stk_error *err);
/* The JSON value of a fill value: a new reference, NULL when there is no memory. (fill.c) */
json_t *stk__fill_to_json(const stk__type *type, const void *value);

/* A list of at most `size` bytes as numbers, as above. (fill.c) */
bool stk__byte_list_parse(const json_t *list, uint32_t size, unsigned char *out);
/* Elements as doubles; false: they are no real numbers. (value.c) */
bool stk__array_numbers(const stk__type *type, const void *values, size_t count, double *out);

#endif
