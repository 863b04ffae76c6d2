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

#define STK__SQUASHFS_MAGIC       UINT32_C(0x73717368) /* "hsqs" */
#define STK__SQUASHFS_SUPER       96                   /* bytes of the superblock */
#define STK__SQUASHFS_METADATA    8192                 /* bytes of a decoded metadata block */
#define STK__SQUASHFS_MIN_LOG     12                   /* of the size of a block of data */
#define STK__SQUASHFS_MAX_LOG     20
#define STK__SQUASHFS_NAME        256        /* most bytes of a name */
#define STK__SQUASHFS_FRAGMENT    16         /* bytes of an entry of the table of fragments */
#define STK__SQUASHFS_NO_FRAGMENT UINT32_MAX /* of a file without one */
#define STK__SQUASHFS_MAX_DEPTH   64         /* of folders that are read */
#define STK__SQUASHFS_MOST_RUN    256        /* blocks that are found as one run */
#define STK__SQUASHFS_PADDING     4096       /* an image that is written is a multiple of */

/* A size of a block as it is stored: 24 bits, and whether it is stored as it is. Of a metadata
 * block: 15, and whether. */
#define STK__SQUASHFS_STORED      UINT32_C(0x00ffffff)
#define STK__SQUASHFS_RAW         UINT32_C(0x01000000)
#define STK__SQUASHFS_META_STORED 0x7fffu
#define STK__SQUASHFS_META_RAW    0x8000u

/* Kinds of inodes, in their basic form; the extended ones follow, in the same order. */
enum { STK__SQUASHFS_FOLDER = 1, STK__SQUASHFS_FILE = 2, STK__SQUASHFS_KINDS = 7 };

/* Compressors [squashfs-tools squashfs_fs.h; format.adoc has 2 and 3 the other way round]. */
enum {
    STK__SQUASHFS_GZIP = 1,
    STK__SQUASHFS_LZMA,
    STK__SQUASHFS_LZO,
    STK__SQUASHFS_XZ,
    STK__SQUASHFS_LZ4,
    STK__SQUASHFS_ZSTD
};

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
 * messages. `held` counts the bytes that the tables take, and perhaps `each` of what it keeps,
 * within their part of memory_limit. Ownership: *out is the caller's. Blocks. Errors: STK_EFORMAT
 * (damaged), STK_ETRUNCATED, STK_EKIND (another version, a compressor that is not read), STK_ELIMIT
 * (memory_limit, depth), STK_ENOMEM, those of reading.
 */
stk_status stk__squashfs_open(stk_store *store, const char *key, uint64_t size, uint64_t *held,
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

#endif
