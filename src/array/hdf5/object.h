/* the address of an object header -> its messages, and what they say. Inside src/array only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_HDF5_OBJECT_H
#define STK_SRC_ARRAY_HDF5_OBJECT_H

#include "array/hdf5/hdf5.h"

#include "base/text.h"

/* ---- Object headers (object.c) ---- */

enum {
    STK__HDF5_DATASPACE = 0x01,
    STK__HDF5_LINK_INFO = 0x02,
    STK__HDF5_DATATYPE = 0x03,
    STK__HDF5_OLD_FILL = 0x04,
    STK__HDF5_FILL = 0x05,
    STK__HDF5_LINK = 0x06,
    STK__HDF5_EXTERNAL = 0x07,
    STK__HDF5_LAYOUT = 0x08,
    STK__HDF5_GROUP_INFO = 0x0a,
    STK__HDF5_FILTERS = 0x0b,
    STK__HDF5_ATTRIBUTE = 0x0c,
    STK__HDF5_CONTINUATION = 0x10,
    STK__HDF5_SYMBOLS = 0x11,
    STK__HDF5_K_VALUES = 0x13,
    STK__HDF5_DRIVER = 0x14,
    STK__HDF5_ATTRIBUTE_INFO = 0x15,
    STK__HDF5_SHARED_TABLE = 0x0f,
    STK__HDF5_CACHE_IMAGE = 0x18
};

#define STK__HDF5_IS_SHARED 2 /* among the flags of a message */

typedef struct stk__hdf5_message {
    const uint8_t *data;
    uint64_t address; /* of the data in the file */
    uint32_t size;
    uint16_t type;
    uint16_t order; /* of attributes: that in which they were made, where the header keeps it */
    uint8_t flags;
} stk__hdf5_message;

typedef struct stk__hdf5_piece {
    uint8_t *data;
    uint64_t address, bytes;
} stk__hdf5_piece;

/* An object header: its messages, in order, and the blocks that they lie in. */
typedef struct stk__hdf5_object {
    uint64_t address;
    stk__hdf5_message *messages;
    size_t count, room;
    stk__hdf5_piece *pieces;
    size_t num_pieces, room_pieces;
} stk__hdf5_object;

/* Read a header with all its blocks; ended by stk__hdf5_object_end(), also on failure. */
stk_status stk__hdf5_object_begin(stk__hdf5 *f, uint64_t address, stk__hdf5_object *out);
void stk__hdf5_object_end(stk__hdf5 *f, stk__hdf5_object *o);
/* Give the object bytes to hold until it ends. Takes them over, also on failure. */
stk_status stk__hdf5_object_hold(stk__hdf5 *f, stk__hdf5_object *o, uint8_t *data, uint64_t address,
                                 uint64_t bytes);
/* The first message of a type, with what a shared one stands for; *out is NULL where there is none.
 */
stk_status stk__hdf5_message_find(stk__hdf5 *f, stk__hdf5_object *o, uint16_t type,
                                  const stk__hdf5_message **out);
/* Whether it has one, shared or not. */
bool stk__hdf5_has(const stk__hdf5_object *o, uint16_t type);
/* What the body `shared` of a shared message of this type stands for, held by `o`. (shared.c) */
stk_status stk__hdf5_shared(stk__hdf5 *f, stk__hdf5_object *o, uint16_t type,
                            const stk__hdf5_message *shared, stk__hdf5_message *out);
/* The message behind an ID in the heap of shared messages. (shared.c) */
stk_status stk__hdf5_shared_id(stk__hdf5 *f, stk__hdf5_object *o, uint16_t type, const uint8_t *id,
                               stk__hdf5_message *out);

/* ---- What messages say (message.c, datatype.c, filters.c) ---- */

typedef struct stk__hdf5_space {
    uint32_t rank;
    bool null; /* holds nothing at all */
    int64_t shape[STK_ARRAY_MAX_RANK];
    uint64_t most[STK_ARRAY_MAX_RANK]; /* UINT64_MAX: unlimited */
} stk__hdf5_space;

stk_status stk__hdf5_space_read(const stk__hdf5 *f, const stk__hdf5_message *m,
                                stk__hdf5_space *out);
/* Elements of a space; false: more than can be. */
bool stk__hdf5_space_count(const stk__hdf5_space *space, uint64_t *out);

typedef enum stk__hdf5_class {
    STK__HDF5_INTEGER = 0,
    STK__HDF5_FLOAT = 1,
    STK__HDF5_STRING = 3,
    STK__HDF5_OPAQUE = 5,
    STK__HDF5_COMPOUND = 6,
    STK__HDF5_REFERENCE = 7,
    STK__HDF5_ENUM = 8,
    STK__HDF5_VLEN = 9,
    STK__HDF5_ARRAY = 10
} stk__hdf5_class;

typedef struct stk__hdf5_type {
    uint8_t class_; /* of an enum that of its base, which is what its elements are */
    uint8_t base;   /* of a vlen: the class of its elements */
    bool text;      /* of a vlen: it is a text */
    bool big_endian, is_signed;
    uint8_t padding;   /* of a text: 0 ended by a zero, 1 padded with zeros, 2 with spaces */
    uint32_t size;     /* bytes of an element */
    const char *other; /* what it is called where its elements are none of ours; NULL: they are */
    char code[24];     /* NumPy's: ">f4"; "" where `other` is set */
} stk__hdf5_type;

stk_status stk__hdf5_type_read(const stk__hdf5 *f, const stk__hdf5_message *m, stk__hdf5_type *out);
/* The bits of a number of a type of at most 8 bytes. */
uint64_t stk__hdf5_bits(const stk__hdf5_type *type, const uint8_t *data);

typedef enum stk__hdf5_storage {
    STK__HDF5_COMPACT,
    STK__HDF5_CONTIGUOUS,
    STK__HDF5_CHUNKED
} stk__hdf5_storage;

typedef enum stk__hdf5_indexing {
    STK__HDF5_SINGLE = 1,
    STK__HDF5_IMPLICIT,
    STK__HDF5_FIXED,
    STK__HDF5_EXTENSIBLE,
    STK__HDF5_BTREE2,
    STK__HDF5_BTREE1
} stk__hdf5_indexing;

typedef struct stk__hdf5_layout {
    stk__hdf5_storage storage;
    uint64_t address; /* of data or index; NONE: nothing was written */
    uint64_t bytes;   /* of data */
    /* Of chunks: */
    uint32_t rank; /* of them, without the element's size */
    int64_t chunk[STK_ARRAY_MAX_RANK];
    uint32_t itemsize;
    stk__hdf5_indexing indexing;
    bool edges_unfiltered; /* chunks that the shape cuts */
    bool wide;             /* layout 5: sizes take a whole length */
    uint64_t single_bytes; /* of a single filtered chunk; 0: it has no filters */
    uint32_t single_mask;
    uint32_t node_bytes;                         /* of B-tree 2 */
    uint8_t page_bits, max_bits, index_elements, /* of arrays */
        min_pointers, min_elements;
} stk__hdf5_layout;

stk_status stk__hdf5_layout_read(const stk__hdf5 *f, const stk__hdf5_message *m,
                                 const stk__hdf5_space *space, stk__hdf5_layout *out);

#define STK__HDF5_MAX_FILTERS 32
#define STK__HDF5_MAX_VALUES  64 /* of one filter */
#define STK__HDF5_NO_ENTRY    UINT8_MAX

typedef struct stk__hdf5_filters {
    uint32_t count;
    struct {
        uint32_t id, num_values;
        uint32_t values[STK__HDF5_MAX_VALUES];
    } filter[STK__HDF5_MAX_FILTERS];
} stk__hdf5_filters;

/* `m` NULL: none. */
stk_status stk__hdf5_filters_read(const stk__hdf5 *f, const stk__hdf5_message *m,
                                  stk__hdf5_filters *out);
/* The list of codecs as a zarr.json has it; bit i of a mask of the file becomes bit entry[i] of the
 * array room's, or none (NO_ENTRY). */
stk_status stk__hdf5_codecs(const stk__hdf5 *f, const stk__hdf5_filters *filters,
                            const stk__hdf5_type *type, stk__text *out,
                            uint8_t entry[STK__HDF5_MAX_FILTERS]);
/* The fill value of an object as the file has it: `size` bytes into `out`. False: zeros, or none.
 */
stk_status stk__hdf5_fill_read(stk__hdf5 *f, stk__hdf5_object *o, uint32_t size, uint8_t *out,
                               bool *defined);

#endif
