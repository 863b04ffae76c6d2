/* IDs, keys -> objects in heaps and trees. Inside src/array only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_HDF5_HEAP_H
#define STK_SRC_ARRAY_HDF5_HEAP_H

#include "array/hdf5/object.h"

/* ---- B-tree of version 2 (btree2.c) ---- */

/* Called for each record, in order. */
typedef stk_status stk__hdf5_record_fn(stk__hdf5 *f, const uint8_t *record, uint32_t bytes,
                                       void *user);
/* Go through all records of a tree of a type. `bytes`: of a record, 0: any. */
stk_status stk__hdf5_btree2(stk__hdf5 *f, uint64_t address, uint8_t type, uint32_t bytes,
                            stk__hdf5_record_fn *each, void *user);

/* ---- Fractal heaps (fractal_heap.c) ---- */

typedef struct stk__hdf5_heap_block {
    uint8_t *data;
    uint64_t offset, bytes; /* in the heap */
} stk__hdf5_heap_block;

typedef struct stk__hdf5_heap {
    uint64_t address; /* of its header */
    uint32_t id_bytes, width;
    uint64_t start, most_direct; /* bytes of blocks */
    uint64_t huge_tree, root;
    uint32_t bits, rows; /* of offsets; of the root, 0: it is a direct block */
    unsigned of_offset, of_object;
    bool checksums;
    /* Direct blocks that were read, by offset, as objects are asked for in any order: names in that
     * of their hashes. All are dropped where the pass would have less memory left than `least`. */
    stk__hdf5_heap_block *blocks;
    size_t num_blocks, room;
    uint64_t least;
} stk__hdf5_heap;

/* Read the header; ended by stk__hdf5_heap_close(), also on failure. */
stk_status stk__hdf5_heap_open(stk__hdf5 *f, uint64_t address, stk__hdf5_heap *out);
void stk__hdf5_heap_close(stk__hdf5 *f, stk__hdf5_heap *heap);
/* The object of an ID of `id_bytes`, in memory that stk__hdf5_give() ends. */
stk_status stk__hdf5_heap_object(stk__hdf5 *f, stk__hdf5_heap *heap, const uint8_t *id,
                                 uint8_t **data, uint64_t *bytes);

/* ---- Global heaps (global_heap.c): what elements of variable length refer to ---- */

typedef struct stk__hdf5_collections {
    struct {
        uint64_t address, bytes;
        uint8_t *data;
    } one[8]; /* that were read last */
    uint32_t next;
} stk__hdf5_collections;

/* The bytes that an element of variable length stands for, which live until the collections are
 * dropped or eight others were asked for. `element`: count, address, index. */
stk_status stk__hdf5_vlen(stk__hdf5 *f, stk__hdf5_collections *kept, const uint8_t *element,
                          const uint8_t **data, uint64_t *bytes, uint32_t *count);
void stk__hdf5_collections_drop(stk__hdf5 *f, stk__hdf5_collections *kept);

/* ---- Groups (group.c, path.c) ---- */

typedef enum stk__hdf5_link_kind {
    STK__HDF5_HARD,
    STK__HDF5_SOFT,
    STK__HDF5_FOREIGN /* external, or of a kind of its own */
} stk__hdf5_link_kind;

typedef struct stk__hdf5_link {
    stk__hdf5_link_kind kind;
    const char *name; /* with an end; lives during the call only */
    const char *path; /* of a soft link */
    uint64_t address; /* of a hard one */
} stk__hdf5_link;

/* STK_EOS ends the iteration, which then gives STK_OK. */
typedef stk_status stk__hdf5_link_fn(stk__hdf5 *f, const stk__hdf5_link *link, void *user);
/* All links of a group, in no order. */
stk_status stk__hdf5_links(stk__hdf5 *f, stk__hdf5_object *group, stk__hdf5_link_fn *each,
                           void *user);
bool stk__hdf5_is_group(const stk__hdf5_object *o);

/* Where a path leads from the root: the addresses of headers of the groups on the way, root first,
 * and of the object at its end. Soft links are followed within the file. */
typedef struct stk__hdf5_way {
    uint64_t groups[STK__HDF5_MAX_LEVELS];
    uint32_t num_groups;
    uint64_t address;
} stk__hdf5_way;
stk_status stk__hdf5_find(stk__hdf5 *f, const char *path, stk__hdf5_way *out);

/* ---- Attributes (attribute.c) ---- */

typedef struct stk__hdf5_attribute {
    const char *name;
    stk__hdf5_type type;
    stk__hdf5_space space;
    uint64_t count;      /* of elements */
    const uint8_t *data; /* `count` times the type's size */
} stk__hdf5_attribute;

typedef stk_status stk__hdf5_attribute_fn(stk__hdf5 *f, const stk__hdf5_attribute *attribute,
                                          void *user);
/* All attributes of an object, wherever they are kept. STK_EOS as of links. */
stk_status stk__hdf5_attributes(stk__hdf5 *f, stk__hdf5_object *o, stk__hdf5_attribute_fn *each,
                                void *user);
/* Those that are numbers or texts, as a JSON object without what NetCDF keeps for itself. */
stk_status stk__hdf5_attributes_json(stk__hdf5 *f, stk__hdf5_object *o, stk__text *out);

#endif
