/* an image of SquashFS 4.0 -> its files, and where their bytes lie */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * [squashfs-tools-ng doc/format.adoc; Linux Documentation/filesystems/squashfs.rst]
 *
 * Everything behind the data of the files is read at once when an image is opened: the tables of
 * inodes, directories and fragments. They are checked in one walk over all directories; what was
 * checked is kept as it was written, and afterwards only read, by any thread.
 */
#ifndef STK_SRC_STORE_SQUASHFS_SQUASHFS_H
#define STK_SRC_STORE_SQUASHFS_SQUASHFS_H

#include "store/container.h"

#define STK__SQUASHFS_MAGIC        UINT32_C(0x73717368) /* "hsqs" */
#define STK__SQUASHFS_SUPER        96                   /* bytes of the superblock */
#define STK__SQUASHFS_METADATA     8192                 /* bytes of a decoded metadata block */
#define STK__SQUASHFS_MIN_LOG      12                   /* of the size of a block of data */
#define STK__SQUASHFS_MAX_LOG      20
#define STK__SQUASHFS_NAME         256        /* most bytes of a name */
#define STK__SQUASHFS_FRAGMENT     16         /* bytes of an entry of the table of fragments */
#define STK__SQUASHFS_NONE         UINT32_MAX /* a file without a fragment */
#define STK__SQUASHFS_MAX_DEPTH    64         /* of folders */
#define STK__SQUASHFS_PART         4          /* of memory_limit that the tables may take */
#define STK__SQUASHFS_SUM_EVERY    64  /* blocks of a file whose stored bytes are summed ahead */
#define STK__SQUASHFS_MOST_RUN     256 /* blocks of one extent */
#define STK__SQUASHFS_MOST_THREADS 16u /* that decode tables */
#define STK__SQUASHFS_THREAD_WORTH 64  /* metadata blocks that are worth a thread */

/* A size of a block as it is stored: 24 bits, and whether it is stored as it is. */
#define STK__SQUASHFS_STORED UINT32_C(0x00ffffff)
#define STK__SQUASHFS_RAW    UINT32_C(0x01000000)

/* Kinds of inodes; of their two forms the basic one. */
enum { STK__SQUASHFS_FOLDER = 1, STK__SQUASHFS_FILE = 2, STK__SQUASHFS_KINDS = 7 };

typedef struct stk__squashfs stk__squashfs;

/* What the walk has come to. */
typedef struct stk__squashfs_entry {
    const char *path; /* from the root, without slashes at its ends; during the call */
    uint32_t kind; /* STK__SQUASHFS_FOLDER, STK__SQUASHFS_FILE, or another, which is never opened */
    uint64_t size; /* bytes of a file */
    int64_t mtime_ns;
    uint64_t inode; /* by which its bytes are found */
} stk__squashfs_entry;

/* A status other than STK_OK ends the walk with it. */
typedef stk_status stk__squashfs_entry_fn(void *user, const stk__squashfs_entry *entry,
                                          stk_error *err);

/*
 * Read the tables of an object of `size` bytes and tell of everything but the root, each folder
 * before what is in it. Store and key are only used during the call; `key` names the image in
 * messages. Ownership: *out is the caller's. Blocks. Errors: STK_EFORMAT (damaged), STK_ETRUNCATED,
 * STK_EKIND (another version, a compressor that is not read), STK_ELIMIT (memory_limit, depth),
 * STK_ENOMEM, those of reading.
 */
stk_status stk__squashfs_open(stk_store *store, const char *key, uint64_t size,
                              stk__squashfs_entry_fn *each, void *user, stk__squashfs **out,
                              stk_error *err);
/* Ends it and sets *image to NULL. Accepts NULL. */
void stk__squashfs_close(stk__squashfs **image);

/*
 * What holds byte `offset` of a file, which lies within its size: blocks stored as they are, and
 * blocks of zeros, as many as follow each other; else one block. Any thread, does not wait.
 */
void stk__squashfs_find_run(const stk__squashfs *image, uint64_t inode, uint64_t offset,
                            stk__container_run *out);
/* Decode an extent that is not raw: exactly e->decoded bytes at `out`. A thread has a state. */
stk_status stk__squashfs_decode(const stk__squashfs *image, stk__codec_state *state,
                                const stk__container_run *e, const void *stored, void *out,
                                const char **reason);

/* ---- Inside of src/store/squashfs ---- */

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
    uint64_t held; /* bytes of all tables, within their part of memory_limit */
};

/* An image while it is opened. */
typedef struct stk__squashfs_opening {
    stk__squashfs *image;
    const char *key;
    uint64_t size; /* of the object */
    uint8_t *tail; /* of the image, from the table of inodes to the end of what is used */
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
