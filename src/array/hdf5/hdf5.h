/* an HDF5 file -> groups, datasets, attributes, and where chunks lie. Inside src/array only. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader of the structure of HDF5 files [HDF5 File Format Specification 4.0] and of what
 * NetCDF-4 writes on top of it. It reads through the store, never writes, follows nothing out of
 * the file, and opens no other.
 *
 * One stk__hdf5 is one pass over a file: it is made, asked and ended by one thread, within one call
 * of the array room. All that the file says is checked where it is read; failures go to `err` of
 * the pass, with the address they happened at.
 */
#ifndef STK_SRC_ARRAY_HDF5_HDF5_H
#define STK_SRC_ARRAY_HDF5_HDF5_H

#include "array/array.h"
#include "array/hdf5/index.h"

#define STK__HDF5_NONE       UINT64_MAX          /* an address: there is none */
#define STK__HDF5_PART       4                   /* of memory_limit: what one pass may hold */
#define STK__HDF5_MAX_WORK   (UINT64_C(1) << 24) /* messages, links, nodes, KiB of one pass */
#define STK__HDF5_MAX_LEVELS 32                  /* groups in groups */

/* ---- Files (file.c) ---- */

typedef struct stk__hdf5_block stk__hdf5_block;

typedef struct stk__hdf5 {
    stk_context *ctx;
    stk_store *store;
    const char *key; /* of the file, and what messages call it */
    stk_error *err;
    uint64_t base; /* where the signature is: addresses count from there */
    uint64_t end;  /* addresses below it lie in the file */
    uint64_t root; /* address of the root group's header; NONE in a pass over an index alone */
    uint64_t identity, size;
    int64_t mtime_ns;
    uint32_t group_leaf_k, group_internal_k, chunk_k; /* half the entries of a node of B-tree 1 */
    uint64_t shared_table;         /* of messages that headers share; NONE: there is none */
    uint32_t shared_indexes;       /* of it */
    uint8_t of_address, of_length; /* bytes of an address and of a length */
    uint64_t work;                 /* that is left, of STK__HDF5_MAX_WORK */
    uint64_t memory;               /* that may still be taken */
    stk__hdf5_block *blocks;       /* of the file, kept for the reads that follow */
    uint64_t block_bytes, clock;
} stk__hdf5;

/* Begin a pass: find the signature and read the superblock. Ended by stk__hdf5_close(), also on
 * failure. `key` and `err` live until then. */
stk_status stk__hdf5_open(stk__hdf5 *f, stk_store *store, const char *key, stk_error *err);
void stk__hdf5_close(stk__hdf5 *f);
/* Whether a signature is there: 0 no, 1 none where the name says so, 2 surely. */
int stk__hdf5_recognise(stk_store *store, const char *key);

/* Read bytes at an address; what lies outside the file is STK_EFORMAT. */
stk_status stk__hdf5_read(stk__hdf5 *f, uint64_t address, uint64_t length, void *out);
/* Whether a range lies in the file. */
bool stk__hdf5_inside(const stk__hdf5 *f, uint64_t address, uint64_t length);
/* Memory within the pass's part of memory_limit, zeroed. */
stk_status stk__hdf5_take(stk__hdf5 *f, uint64_t bytes, void **out);
void stk__hdf5_give(stk__hdf5 *f, void *memory, uint64_t bytes);
/* Take memory and read a range into it. */
stk_status stk__hdf5_load(stk__hdf5 *f, uint64_t address, uint64_t length, uint8_t **out);
/* Read `count` ranges of `length` bytes, cut at the end of the file, to places of `out` that are
 * `length` apart and zeros; several at a time where the store is far. (load_all.c) */
stk_status stk__hdf5_load_all(stk__hdf5 *f, const uint64_t *addresses, uint64_t count,
                              uint64_t length, uint8_t *out);
/* Count one step of work. STK_ELIMIT: a file that asks for more than any whole one does. */
stk_status stk__hdf5_step(stk__hdf5 *f);

/* STK_EFORMAT: "KEY: WHAT at byte ADDRESS". */
stk_status stk__hdf5_damaged(const stk__hdf5 *f, uint64_t address, const char *what);
/* STK_EKIND: a feature by name that is not read. */
stk_status stk__hdf5_refuse(const stk__hdf5 *f, uint64_t address, const char *what);
stk_status stk__hdf5_no_memory(const stk__hdf5 *f);

/* Fields of a structure in memory, one after the other. A field beyond the end is 0 and sets
 * `failed`, so that a structure is taken as a whole and checked once. */
typedef struct stk__hdf5_fields {
    const uint8_t *at, *end;
    bool failed;
} stk__hdf5_fields;

stk__hdf5_fields stk__hdf5_fields_of(const void *data, uint64_t length);
uint64_t stk__hdf5_field(stk__hdf5_fields *fields, unsigned bytes);
const uint8_t *stk__hdf5_skip(stk__hdf5_fields *fields, uint64_t bytes); /* NULL: beyond the end */
/* An address: STK__HDF5_NONE where it is undefined. A length. */
uint64_t stk__hdf5_address(const stk__hdf5 *f, stk__hdf5_fields *fields);
uint64_t stk__hdf5_length(const stk__hdf5 *f, stk__hdf5_fields *fields);

/* Bytes that hold x: floor(log2 x) / 8 + 1. */
unsigned stk__hdf5_width(uint64_t x);
/* floor(log2 x) of x > 0. */
unsigned stk__hdf5_log2(uint64_t x);
bool stk__hdf5_is_power(uint64_t x); /* of two */
/* Jenkins' lookup3, as HDF5 uses it. (checksum.c) */
uint32_t stk__hdf5_checksum(const uint8_t *data, uint64_t length);
/* Whether a structure of `length` bytes, the last four of which are its checksum, begins with
 * `signature` and `version` and is whole. */
stk_status stk__hdf5_whole(const stk__hdf5 *f, uint64_t address, const uint8_t *data,
                           uint64_t length, const char *signature, uint8_t version);

#endif
