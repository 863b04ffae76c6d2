/* what the parts of the reader of SquashFS images share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_SQUASHFS_IMAGE_H
#define STK_SRC_STORE_SQUASHFS_IMAGE_H

#include "store/squashfs/squashfs.h"

#define STK__SQUASHFS_SUM_EVERY    64  /* blocks of a file whose stored bytes are summed ahead */
#define STK__SQUASHFS_MOST_THREADS 16u /* that decode tables */
#define STK__SQUASHFS_THREAD_WORTH 64  /* metadata blocks that are worth a thread */

/* A table of metadata blocks, decoded: one run of bytes. */
typedef struct stk__squashfs_table {
    const char *name;
    uint64_t at;    /* of its first block in the image */
    uint8_t *bytes; /* STK__SQUASHFS_METADATA of each block, of the last perhaps fewer */
    uint64_t length;
    uint64_t *blocks; /* where each begins, from `at` on */
    uint64_t num_blocks;
} stk__squashfs_table;

/* A file whose blocks are many: the bytes stored before every STK__SQUASHFS_SUM_EVERYth. */
typedef struct stk__squashfs_large {
    uint64_t inode;
    size_t first; /* of its sums */
} stk__squashfs_large;

struct stk__squashfs {
    stk_context *context;
    /* Of the superblock. */
    uint32_t num_inodes, block_size, num_fragments;
    stk__block_codec codec;
    uint64_t root, used; /* `used`: bytes of the image without its padding */
    uint64_t inode_table, directory_table, fragment_table, export_table, id_table;

    stk__squashfs_table inodes, fragments;
    uint32_t *fragment_ends; /* bytes that a fragment block has to decode to: its last tail's end */
    stk__squashfs_large *large; /* by inode */
    size_t num_large, large_room;
    uint64_t *sums;
    size_t num_sums, sums_room;
};

/* An image while it is opened. */
typedef struct stk__squashfs_opening {
    stk__squashfs *image;
    const char *key;
    uint64_t size;  /* of the object */
    uint64_t *held; /* bytes of all tables, within their part of memory_limit */
    uint8_t *tail;  /* of the image, from the table of inodes to the end of what is used */
    uint64_t tail_length;
    stk__squashfs_table directories;
    stk__squashfs_entry_fn *each;
    void *user;
    stk_error *err;
} stk__squashfs_opening;

/* An inode as it is written, without what is of no use to a reader. */
typedef struct stk__squashfs_inode {
    uint32_t kind, number;
    int64_t mtime_ns;
    uint64_t length; /* bytes of its record */
    /* Of a folder. */
    uint64_t listing; /* bytes */
    uint64_t block;   /* where the listing begins: of a metadata block, and in it */
    uint32_t offset;
    /* Of a file. */
    uint64_t start, size;
    uint32_t fragment, fragment_offset;
    uint64_t num_blocks;
    const uint8_t *blocks; /* their sizes, 4 bytes each */
} stk__squashfs_inode;

/* Fill in the error of damage at a byte of the image. */
stk_status stk__squashfs_damaged(const stk__squashfs_opening *o, uint64_t at, const char *what);
/* Count bytes of a table before they are taken. */
stk_status stk__squashfs_hold(const stk__squashfs_opening *o, uint64_t count, uint64_t size);
stk_status stk__squashfs_no_memory(const stk__squashfs_opening *o);

/* metadata.c */
/* Decode the metadata blocks of [at, end), all of them. */
stk_status stk__squashfs_table_load(const stk__squashfs_opening *o, stk__squashfs_table *table,
                                    uint64_t at, uint64_t end);
/* Decode an array of `bytes` bytes by the list of its blocks at `list`; *first is where they
 * begin. */
stk_status stk__squashfs_table_lookup(const stk__squashfs_opening *o, stk__squashfs_table *table,
                                      uint64_t list, uint64_t bytes);
/* Where the blocks of a table begin whose list lies at `list`. */
stk_status stk__squashfs_first_block(const stk__squashfs_opening *o, uint64_t list, uint64_t *out);
/* The place in a table that a block and an offset in it name; false: there is none. */
bool stk__squashfs_table_find(const stk__squashfs_table *table, uint64_t block, uint64_t offset,
                              uint64_t *out);
/* The byte of the image at which the metadata block of such a place begins. */
uint64_t stk__squashfs_table_at(const stk__squashfs_table *table, uint64_t place);
void stk__squashfs_table_release(stk_context *ctx, stk__squashfs_table *table);

/* inode.c */
/* The inode at a place of the table. NULL, or what is wrong with it. */
const char *stk__squashfs_inode_at(const stk__squashfs *image, uint64_t place,
                                   stk__squashfs_inode *out);
/* Order what the extents of large files want, after the last file. */
void stk__squashfs_files_end(stk__squashfs *image);
/* Hold a file against the image, and prepare what its extents want. */
stk_status stk__squashfs_file_check(const stk__squashfs_opening *o, uint64_t place,
                                    const stk__squashfs_inode *file);

/* directory.c */
stk_status stk__squashfs_walk(const stk__squashfs_opening *o);

#endif
