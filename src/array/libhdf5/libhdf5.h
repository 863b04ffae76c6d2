/* A file -> what is in it, by libhdf5 in a process of its own; variables, boxes -> a file. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libhdf5 knows all of HDF5, holds one lock for all it does, and is not safe with files of
 * strangers. So it is linked into neither the library nor the command: it runs in the program
 * stoker-hdf5, which has limits of memory and time, opens no file, and whose crash is an error like
 * others. The library starts it (posix_spawn(): nothing of the caller's process is run in the
 * child), speaks the frames of wire.h with it, and believes nothing that it says.
 */
#ifndef STK_SRC_ARRAY_LIBHDF5_LIBHDF5_H
#define STK_SRC_ARRAY_LIBHDF5_LIBHDF5_H

#include "array/array.h"
#include "array/libhdf5/wire.h"

typedef struct stk__libhdf5 stk__libhdf5;

/* What the process may take. */
typedef struct stk__libhdf5_limits {
    uint64_t memory;  /* bytes of address space */
    uint64_t seconds; /* of processor time for one call; 1 at least */
} stk__libhdf5_limits;

#define STK__LIBHDF5_MEMORY  (UINT64_C(1) << 30)
#define STK__LIBHDF5_SECONDS 60

/*
 * Start one. `file` is a descriptor that is to be written, and stays the caller's; -1: none. The
 * calls below are of one thread at a time. Errors: STK_ENOTSUP: there is no such program, or it is
 * of another version.
 */
stk_status stk__libhdf5_start(stk_context *ctx, const stk__libhdf5_limits *limits, int file,
                              stk__libhdf5 **out, stk_error *err);
/* The same over a socket whose other end plays the program; it is taken over, also on failure. */
stk_status stk__libhdf5_attach(stk_context *ctx, int socket, stk__libhdf5 **out, stk_error *err);
/* End it and set it to NULL. Accepts NULL. */
void stk__libhdf5_stop(stk__libhdf5 **child);
/* Whether it has ended, or what it said made no sense: every call fails. */
bool stk__libhdf5_is_lost(const stk__libhdf5 *child);
/* Whether it has ended by itself, as one does that was asked nothing for some seconds. */
bool stk__libhdf5_has_ended(const stk__libhdf5 *child);

/* ---- Reading ---- */

/* The file that is read; bytes come from the store, which outlives the process. `call` here and
 * below (NULL: none) says how long the caller waits: past it, or once it is canceled, the process
 * is ended. */
stk_status stk__libhdf5_open(stk__libhdf5 *child, stk_store *store, const char *key,
                             const stk_store_call *call, stk_error *err);

/* Told of each group and dataset, the root aside, parents first; a failure ends the listing. */
typedef stk_status stk__libhdf5_node_fn(void *user, const char *path, bool is_array,
                                        stk_error *err);
stk_status stk__libhdf5_list(stk__libhdf5 *child, const stk_store_call *call,
                             stk__libhdf5_node_fn *each, void *user, stk_error *err);

/* What an object is. */
typedef struct stk__libhdf5_object {
    stk_context *ctx;
    char *attributes;              /* a JSON object */
    bool is_array;                 /* else a group, and nothing below counts */
    char type_name[STK_ERROR_KEY]; /* as stk_array_layout has it: "float32", "S8" */
    uint64_t itemsize;
    uint32_t rank;
    int64_t shape[STK_ARRAY_MAX_RANK], chunk_shape[STK_ARRAY_MAX_RANK];
    bool is_chunked;
    void *fill_value;                     /* itemsize bytes; NULL: not defined */
    char *dimensions[STK_ARRAY_MAX_RANK]; /* NULL: without a name */
    char *filters;                        /* "shuffle, deflate"; "": none */
} stk__libhdf5_object;

stk_status stk__libhdf5_describe(stk__libhdf5 *child, const char *path, const stk_store_call *call,
                                 stk__libhdf5_object *out, stk_error *err);
void stk__libhdf5_object_release(stk__libhdf5_object *object);

/* A box of a dataset that was described, in C order. */
stk_status stk__libhdf5_read(stk__libhdf5 *child, const char *path,
                             const stk__libhdf5_object *object, const int64_t *start,
                             const int64_t *shape, const stk_store_call *call, void *out,
                             uint64_t bytes, stk_error *err);

/* ---- Writing: in this order ---- */

stk_status stk__libhdf5_begin(stk__libhdf5 *child, const stk_store_call *call, stk_error *err);
/* "" is the root; parents come first. */
stk_status stk__libhdf5_put_group(stk__libhdf5 *child, const char *path, const stk_store_call *call,
                                  stk_error *err);
/* A dimension without a variable; numbers count up from 0, over those of variables too. */
stk_status stk__libhdf5_put_dimension(stk__libhdf5 *child, uint32_t number, const char *path,
                                      uint64_t size, bool unlimited, const stk_store_call *call,
                                      stk_error *err);

typedef struct stk__libhdf5_variable {
    uint32_t number;   /* of the variable: from 0 up */
    const char *path;  /* with what HDF5 calls it */
    uint32_t type;     /* stk_dtype; STK__WIRE_TEXT: one byte; STK__WIRE_UNICODE: texts */
    uint64_t itemsize; /* of the elements that are put */
    uint32_t rank;
    uint64_t shape[STK__WIRE_RANK], chunk_shape[STK__WIRE_RANK];
    bool unlimited[STK__WIRE_RANK];
    uint32_t dimensions[STK__WIRE_RANK];
    bool is_chunked, shuffle, fletcher32;
    uint32_t level;         /* of deflate; 0: none */
    const void *fill_value; /* one element; NULL: none */
    uint32_t scale;         /* the dimension whose coordinate it is; STK__WIRE_NONE: of none */
} stk__libhdf5_variable;

stk_status stk__libhdf5_put_variable(stk__libhdf5 *child, const stk__libhdf5_variable *v,
                                     const stk_store_call *call, stk_error *err);
/*
 * An attribute of what was put last: `count` numbers of a dtype one after the other, or texts
 * (STK__WIRE_TEXT: `values` is an array of pointers). Scalar: no list, also of one.
 */
stk_status stk__libhdf5_put_attribute(stk__libhdf5 *child, const char *name, uint32_t type,
                                      uint64_t count, bool scalar, const void *values,
                                      const stk_store_call *call, stk_error *err);
stk_status stk__libhdf5_put_defined(stk__libhdf5 *child, const stk_store_call *call,
                                    stk_error *err);
/* A box in C order. `verify`: it is read back, decoded and compared. */
stk_status stk__libhdf5_put_box(stk__libhdf5 *child, const stk__libhdf5_variable *v,
                                const int64_t *start, const int64_t *shape, const void *data,
                                bool verify, const stk_store_call *call, stk_error *err);
/* A chunk of a variable with chunks, encoded by its filters. `verify`: its bytes are read back. */
stk_status stk__libhdf5_put_chunk(stk__libhdf5 *child, const stk__libhdf5_variable *v,
                                  const int64_t *start, const void *bytes, uint64_t length,
                                  bool verify, const stk_store_call *call, stk_error *err);
/* The file is whole, and the caller's to make durable. */
stk_status stk__libhdf5_finish(stk__libhdf5 *child, const stk_store_call *call, stk_error *err);

#endif
