/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of an npy file [NumPy Enhancement Proposal 1; numpy/lib/format]: "\x93NUMPY", major
 * and minor version, length of the text (2 bytes in version 1, 4 in 2 and 3, little endian), then
 * the text of a Python dictionary of descr, fortran_order and shape. Read by a grammar of our own;
 * nothing is evaluated, no pickle is opened.
 */
#ifndef STK_SRC_ARRAY_NPY_NPY_H
#define STK_SRC_ARRAY_NPY_NPY_H

#include "base/base.h"

#define STK_NPY_PREAMBLE   12u    /* bytes that tell the length of the rest */
#define STK_NPY_TEXT_MAX   65536u /* bytes of text accepted; NumPy writes about 120 */
#define STK_NPY_HEADER_MAX (STK_NPY_PREAMBLE + STK_NPY_TEXT_MAX)

typedef struct stk__npy_header {
    stk_dtype dtype;
    uint32_t swap; /* bytes of each group that is to be reversed; 0: little endian already */
    bool fortran;  /* the first index runs fastest */
    uint32_t rank;
    int64_t shape[STK_MAX_RANK];
    uint64_t offset; /* of the data in the file */
    uint64_t bytes;  /* of the data */
} stk__npy_header;

/* The type of a NumPy code without its byte order ("f4"); STK_DTYPE_NONE: of none that is a number.
 */
stk_dtype stk__npy_dtype(const char *name);

/*
 * Find the length of the whole header from the first STK_NPY_PREAMBLE bytes of a file of
 * `file_size` bytes (fewer when the file has fewer). Errors: STK_EFORMAT, STK_ETRUNCATED,
 * STK_ELIMIT.
 */
stk_status stk__npy_measure(const void *data, uint64_t length, uint64_t file_size, const char *key,
                            uint64_t *header, stk_error *err);

/*
 * Read the header, of which `data` holds the `length` bytes that stk__npy_measure() told, and check
 * that a file of `file_size` bytes holds exactly the data (or more, where `trailing` allows it).
 * Errors: STK_EFORMAT, STK_ETRUNCATED, STK_EKIND (a type or rank that no sample can have).
 */
stk_status stk__npy_parse(const void *data, uint64_t length, uint64_t file_size, bool trailing,
                          const char *key, stk__npy_header *out, stk_error *err);

/* Whether the files are of the same type and shape, whatever the order of their bytes. */
bool stk__npy_same(const stk__npy_header *a, const stk__npy_header *b);

/* Copy `bytes` with each group of `group` bytes (2, 4 or 8) reversed. */
void stk__npy_swap(const void *from, void *to, uint64_t bytes, uint32_t group);

#endif
