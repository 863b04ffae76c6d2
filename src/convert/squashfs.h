/* What the files of the conversion to SquashFS share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_SQUASHFS_H
#define STK_SRC_CONVERT_SQUASHFS_H

#include "base/text.h"
#include "codec/codec.h"
#include "convert/convert.h"
#include "convert/crew.h"
#include "convert/one_file.h"
#include "store/squashfs/squashfs.h"
#include "store/store.h"

#define STK__SQUASHFS_NODES (UINT32_MAX - 1) /* of an image at most */
#define STK__SQUASHFS_NONE  UINT32_MAX       /* no node */

/* A file or a folder of the image. */
typedef struct stk__squashfs_node {
    uint64_t path; /* in `paths` of the tree */
    uint64_t size; /* of a file, and what else the listing said of it */
    uint64_t identity;
    int64_t mtime_ns;             /* of a folder the newest of what it holds */
    uint64_t first;               /* of a file: its first block, in `sizes` of the image */
    uint64_t at, stored;          /* where its blocks lie in the image, and their bytes */
    uint64_t hash;                /* of these */
    uint64_t sparse;              /* bytes of blocks of zeros, which are not stored */
    uint64_t reference;           /* to its inode */
    uint32_t parent, child, next; /* nodes; of a folder the first child, and the one behind */
    uint32_t number;              /* of its inode */
    uint16_t name;                /* bytes of its path before its name */
    bool is_folder;
    bool is_copy; /* a file like it came before, and its blocks are those of that */
    bool shrank;  /* a block of it is encoded */
} stk__squashfs_node;

/* What is packed: parents before children, siblings by name, so that what lies in one folder lies
 * together. Node 0 is the root. */
typedef struct stk__squashfs_tree {
    stk_context *context;
    stk_store *store; /* to read from */
    stk__text paths;  /* each with its end */
    stk__squashfs_node *nodes;
    size_t count, room;
    uint64_t files, bytes, links;    /* links: that were left out */
    char prefix[STK_MAX_OBJECT_KEY]; /* of keys: "" or with '/' at its end */
} stk__squashfs_tree;

/* An image that is written: bytes are appended, and may be taken back. */
typedef struct stk__squashfs_file {
    stk_context *context;
    stk__one_file file;
    int back;        /* a descriptor to read from; -1: none */
    uint8_t *buffer; /* bytes that follow those that are written */
    uint64_t buffered, written;
    uint64_t most; /* bytes that it had at any time */
} stk__squashfs_file;

typedef struct stk__squashfs_run {
    const stk_conversion_job *job;
    stk_context *context;
    const stk_convert_squashfs_options *own;
    stk_conversion_report *report;
    bool encodes; /* false: codec none */
    bool verify;
    stk__block_kind kind;
    uint64_t block, budget;
    uint32_t num_workers;
    stk__squashfs_tree tree;
    uint32_t *sizes; /* of all blocks, as inodes say them */
    stk__squashfs_file file;
} stk__squashfs_run;

stk_status stk__squashfs_stopped(const stk__squashfs_run *s, stk_error *err);

/* ---- The source (squashfs_tree.c) ---- */

/* List all that lies below the source of a job. */
stk_status stk__squashfs_list(const stk_conversion_job *job, stk__squashfs_tree *tree,
                              stk_error *err);
void stk__squashfs_tree_release(stk__squashfs_tree *tree);
/* Whether it is a folder; also where there is no memory to tell, which listing it will say. */
bool stk__squashfs_is_folder(stk_context *ctx, const char *source);

static inline const char *stk__squashfs_path(const stk__squashfs_tree *tree,
                                             const stk__squashfs_node *node)
{
    return tree->paths.bytes + node->path;
}

/* ---- The image (squashfs_file.c) ---- */

stk_status stk__squashfs_file_begin(stk__squashfs_file *file, const stk_conversion_job *job,
                                    stk_error *err);
stk_status stk__squashfs_append(stk__squashfs_file *file, const void *data, uint64_t length,
                                stk_error *err);
/* Where the next byte goes. */
static inline uint64_t stk__squashfs_end(const stk__squashfs_file *file)
{
    return file->written + file->buffered;
}
/* Take back what was appended from `to` on. */
stk_status stk__squashfs_rewind(stk__squashfs_file *file, uint64_t to, stk_error *err);
/* Read what was appended. */
stk_status stk__squashfs_read(stk__squashfs_file *file, uint64_t at, uint64_t length, void *out,
                              stk_error *err);
/* Write over the first bytes, of which there are as many; nothing is appended any more. */
stk_status stk__squashfs_head(stk__squashfs_file *file, const void *data, uint64_t length,
                              stk_error *err);
stk_status stk__squashfs_file_commit(stk__squashfs_file *file, stk_error *err);
/* Accepts one that was never begun, but for `back`. */
void stk__squashfs_file_close(stk__squashfs_file *file);

/* ---- Files that are alike (squashfs_copies.c) ---- */

/* What hashes of files lead to. */
typedef struct stk__squashfs_copies {
    stk__squashfs_run *s;
    uint32_t *nodes; /* STK__SQUASHFS_NONE: free */
    uint64_t mask;
    uint8_t *a, *b; /* to compare */
} stk__squashfs_copies;

stk_status stk__squashfs_copies_init(stk__squashfs_copies *copies, stk__squashfs_run *s,
                                     stk_error *err);
/* Accepts zeros. */
void stk__squashfs_copies_release(stk__squashfs_copies *copies);
/* The file that ends the image, which has bytes: take it back where another one is like it. */
stk_status stk__squashfs_copies_take(stk__squashfs_copies *copies, uint32_t node, stk_error *err);

/* ---- Blocks (squashfs_blocks.c) ---- */

static inline uint64_t stk__squashfs_blocks(const stk__squashfs_run *s,
                                            const stk__squashfs_node *file)
{
    return stk__divide_up(file->size, s->block);
}

/* Pack the content of all files, by all threads. */
stk_status stk__squashfs_pack(stk__squashfs_run *s, stk_error *err);
/* What of the bytes of a sample of the files would be stored, as a share. */
stk_status stk__squashfs_estimate(stk__squashfs_run *s, double *share, stk_error *err);
/* Compare what is stored with what was. */
stk_status stk__squashfs_check_blocks(stk__squashfs_run *s, stk_error *err);

/* ---- Inodes, folders (squashfs_tables.c) ---- */

/* Append what stands in front of the content: room for the superblock, options of the codec. */
stk_status stk__squashfs_front(stk__squashfs_run *s, stk_error *err);
/* Append all tables, write the superblock in front, and compare both with what is there. */
stk_status stk__squashfs_tables(stk__squashfs_run *s, stk_error *err);

#endif
