/* bytes of a NetCDF-3 header -> dimensions, attributes, variables */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NetCDF-3: the classic format, that with 64-bit offsets, and CDF-5 [Unidata/netcdf-c,
 * docs/file_format_specifications.md; PnetCDF, CDF-5 format]. All numbers are big-endian, everything
 * in the header is padded to 4 bytes.
 */
#ifndef STK_SRC_ARRAY_NETCDF3_NETCDF3_H
#define STK_SRC_ARRAY_NETCDF3_NETCDF3_H

#include "array/array.h"
#include "base/text.h"

#define STK__NETCDF3_MAX_HEADER (UINT64_C(64) << 20) /* bytes that are looked at */
#define STK__NETCDF3_PART       8 /* of memory_limit: what a header may take in memory */

typedef struct stk__netcdf3_type {
    const char *name; /* NumPy's, as it is stored */
    uint32_t bytes;
    unsigned char fill[8]; /* its default fill value, little endian */
} stk__netcdf3_type;

/* Pointers are into the header's bytes; names have no end. */
typedef struct stk__netcdf3_attribute {
    const char *name;
    uint64_t name_length;
    const stk__netcdf3_type *type;
    uint64_t count;
    const unsigned char *values; /* big-endian */
} stk__netcdf3_attribute;

typedef struct stk__netcdf3_list {
    stk__netcdf3_attribute *attributes;
    uint64_t count;
} stk__netcdf3_list;

typedef struct stk__netcdf3_dimension {
    const char *name;
    uint64_t name_length;
    uint64_t length; /* 0: of the records */
} stk__netcdf3_dimension;

typedef struct stk__netcdf3_variable {
    const char *name;
    uint64_t name_length;
    uint32_t rank;
    uint32_t *dimensions; /* numbers in the header's */
    stk__netcdf3_list attributes;
    const stk__netcdf3_type *type;
    uint64_t begin; /* in the file; of records: in the first */
    uint64_t bytes; /* of the variable, or of one record of it, without padding */
    bool is_record;
} stk__netcdf3_variable;

typedef struct stk__netcdf3_header {
    stk_context *context;
    unsigned char *bytes; /* that it was read from */
    int version;          /* 1, 2 or 5 */
    uint64_t num_records;
    uint64_t record_bytes; /* of all variables, with padding: the distance of records */
    stk__netcdf3_dimension *dimensions;
    uint64_t num_dimensions;
    stk__netcdf3_list attributes;
    stk__netcdf3_variable *variables;
    uint64_t num_variables;
    uint64_t held; /* bytes of memory in all of this */
} stk__netcdf3_header;

/*
 * Take a header apart. `length` of the file's `size` bytes are there; *more tells that the header
 * goes on behind them, and then this fails. What `out` has is released by
 * stk__netcdf3_release(), also after a failure. Errors: STK_EFORMAT, STK_ETRUNCATED, STK_EKIND (a
 * type), STK_ELIMIT, with the offset.
 */
stk_status stk__netcdf3_parse(stk_context *ctx, const unsigned char *bytes, uint64_t length,
                              uint64_t size, const char *key, stk__netcdf3_header *out, bool *more,
                              stk_error *err);
void stk__netcdf3_release(stk__netcdf3_header *header);
/* Read the header of an object; released as above. (read.c) */
stk_status stk__netcdf3_read(stk_store *store, const char *key, stk__netcdf3_header *out,
                             stk_error *err);

/* Attributes as a JSON object: texts, numbers, lists of numbers. (attributes.c) */
void stk__netcdf3_attributes(const stk__netcdf3_list *list, stk__text *out);
/* The attribute of a name; NULL: there is none. */
const stk__netcdf3_attribute *stk__netcdf3_find(const stk__netcdf3_list *list, const char *name);

#endif
