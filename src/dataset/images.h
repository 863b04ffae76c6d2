/* a tree of folders, a list, an index -> a table of files with sizes */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of `images:` share. images.c is the dataset; the table of files comes from a tree
 * (images_folder.c), from an index of a tree (images_index.c, images_cache.c) or from a list file
 * (images_list.c); images_sizes.c looks at the files; images_find.c finds one by its path,
 * images_pairs.c the mask of each picture, images_labels.c its label in a table;
 * images_recognise.c tells a tree from other things; images_table.c is what they all use.
 */
#ifndef STK_SRC_DATASET_IMAGES_H
#define STK_SRC_DATASET_IMAGES_H

#include "dataset/dataset.h"
#include "dataset/lookers.h"
#include "dataset/names.h"
#include "store/store.h"

#define STK__IMAGES_MAX_FILES   (UINT64_C(1) << 27)
#define STK__IMAGES_MAX_FOLDERS (UINT64_C(1) << 24)
#define STK__IMAGES_MAX_DEPTH   32u /* folders in folders; links of folders may lead in circles */
#define STK__IMAGES_MAX_REPEATS (UINT64_C(1) << 20) /* entries that links lead to once more */
#define STK__IMAGES_MAX_NAME    255u                /* bytes of a name, NAME_MAX of Linux */
#define STK__IMAGES_MAX_PATH    (STK_MAX_OBJECT_KEY - STK__IMAGES_MAX_NAME - 2)
#define STK__IMAGES_INDEX       ".stoker-index"

/* A folder, as it was when it was listed. Of other stores than local folders the last three are 0,
 * but for the inode of the root: a hash of where it lies. */
typedef struct stk__images_folder {
    uint64_t path;         /* below the root, where it begins in `text`; "" is the root */
    uint64_t first, count; /* its pictures in `files` */
    int64_t mtime_ns;
    uint64_t inode;
    uint64_t entries; /* sum of hashes of the names in it and their inodes */
} stk__images_folder;

typedef struct stk__images_file {
    uint64_t name; /* where it begins in `text` */
    uint64_t size; /* bytes */
    uint32_t folder;
} stk__images_file;

/*
 * A table of files: folders in the order of (class, path), the root first, the files of each in the
 * order of their names; all orders are those of bytes. `text` holds the paths of all folders, then
 * the names of all files, each ended by a zero.
 */
typedef struct stk__images_table {
    stk_context *context;
    char *text;
    uint64_t text_bytes;
    stk__images_folder *folders;
    uint64_t num_folders;
    stk__images_file *files;
    uint64_t num_files;
    uint64_t ignored;     /* files of other names than pictures have */
    uint64_t unread;      /* those of them that are pictures of formats that are not read */
    uint64_t *identities; /* of the objects of another store than a local folder; else NULL */
    bool is_group;        /* it was no tree: the root is a group of Zarr */
    bool followed;        /* links that lead out of the root were followed */
    int64_t listed_ns;    /* Unix time when listing began, by this machine's clock */
    uint64_t elapsed_ns;  /* from then until the index was written */
} stk__images_table;

void stk__images_release(stk__images_table *table);
/* The key of file `i` in its store: at most `size` bytes with the end; its full length. */
size_t stk__images_key(const stk__images_table *table, uint64_t i, char *key, size_t size);
/* A fingerprint of paths and sizes, after another: the same however the table came about. */
uint64_t stk__images_print(uint64_t print, const stk__images_table *table);
/* The field of encoded pictures. */
stk_field stk__images_field(const char *name, int64_t channels, bool mask);
/* Whether the folder is a class: one level below the root. */
bool stk__images_is_class(const stk__images_table *table, uint64_t folder);
/* The order of folders: by their first part, then by path. */
int stk__images_compare_paths(const char *a, const char *b);

enum { STK__IMAGES_OTHER, STK__IMAGES_UNREAD, STK__IMAGES_JPEG, STK__IMAGES_PNG };
/* What the end of a name says; upper and lower case alike. */
int stk__images_kind(const char *name, size_t length);

/* 2: class folders with pictures; 1: pictures; 0: neither. Blocks. */
int stk__images_recognise(stk_context *ctx, const char *url);

/* ---- Trees ----------------------------------------------------------------------------------- */

/*
 * List the pictures of a tree, at any depth, with their sizes; hidden names are passed over. Links
 * are followed within the store; one that leads to a folder it lies in, and those that lead to the
 * same entries again, more than STK__IMAGES_MAX_REPEATS, are errors. The table does not depend on
 * the number of threads. Blocks.
 */
stk_status stk__images_list_tree(stk_context *ctx, stk_store *store, uint32_t threads,
                                 stk__images_table *out, stk_error *err);

/* Open a folder of a local store and tell what it is now: inode and time of change. */
stk_status stk__images_open_folder(const stk_store *store, const char *path, int *fd,
                                   stk__images_folder *out, uint64_t *device, stk_error *err);
/* Look at an entry of an open folder, whose key is `key`, and through it where it is a link. -1:
 * errno; EXDEV where the link leads out of the store. */
int stk__images_look_at(const stk_store *store, int folder, const char *name, const char *key,
                        struct stat *st);
/* What is in it: `each` (may be NULL) gets all names that are not hidden, `type` as of readdir();
 * *entries receives their hash. Closes the descriptor. */
typedef stk_status stk__images_entry_fn(void *user, int folder, const char *name, unsigned type);
stk_status stk__images_read_folder(int fd, const char *path, stk__images_entry_fn *each, void *user,
                                   uint64_t *entries, stk_error *err);
/* "cannot VERB 'PATH': reason" */
stk_status stk__images_system_fail(const stk_store *store, stk_error *err, const char *verb,
                                   const char *path, int error);

/* Ask for the sizes of all files. Of those that are no files the size is set to 1, so that reading
 * them tells what is wrong; `missing` (may be NULL) receives the first of them, or UINT64_MAX.
 * Blocks. */
stk_status stk__images_find_sizes(stk__images_table *table, stk_store *store, uint32_t threads,
                                  uint64_t *missing, stk_error *err);

/* ---- Index (images_index.c: bytes; images_cache.c: files) ------------------------------------ */

/* Bytes of an index that are the table's, in new memory. */
stk_status stk__images_index_make(const stk__images_table *table, void **data, uint64_t *length);
/* The table of an index. Whatever the bytes, a table is sound: its orders, names and counts are
 * those that listing gives. STK_EFORMAT, STK_ECHECKSUM, STK_ELIMIT, STK_ENOMEM. */
stk_status stk__images_index_parse(stk_context *ctx, const void *data, uint64_t length,
                                   stk__images_table *out);

typedef enum stk__images_index_use {
    STK__IMAGES_INDEX_NONE,    /* not asked for, or there is no place for it */
    STK__IMAGES_INDEX_USED,    /* the tree has not changed since it was written */
    STK__IMAGES_INDEX_YOUNG,   /* it is believed, as it is not old */
    STK__IMAGES_INDEX_WRITTEN, /* the tree was listed */
    STK__IMAGES_INDEX_REFUSED  /* the tree was listed and the index could not be written */
} stk__images_index_use;

/* How a tree is opened. */
typedef struct stk__images_place {
    const char *url;   /* of the tree */
    const char *index; /* "auto", "none" or a path */
    double index_age;  /* seconds that an index of another store than a local folder is believed */
} stk__images_place;

/* The table of a tree: from its index where that is true, else listed, with the index written.
 * Blocks. */
stk_status stk__images_open_tree(stk_context *ctx, stk_store *store, const stk__images_place *place,
                                 stk__images_table *out, stk__images_index_use *use,
                                 stk_error *err);

/* ---- Lists (images_list.c) ------------------------------------------------------------------- */

/* The labels of the samples of a list or a table: one of three forms. */
typedef struct stk__images_labels {
    int64_t *labels;  /* [samples]: classes */
    float *values;    /* [samples][width]: targets */
    uint32_t *marks;  /* several classes each: those of sample i are marks[starts[i]] on, */
    uint64_t *starts; /* up to marks[starts[i + 1]] */
    uint32_t width;   /* of values and marks: elements of a label */
    bool flags;       /* values are 0 and 1 */
    stk__names names; /* of the classes or the elements of a label; none: classes are numbers */
    uint64_t pictures_left, rows_left; /* of a table: those that have no partner */
} stk__images_labels;

/* All of a list file, in new memory, also on failure. Blocks. */
stk_status stk__images_read_list(stk_store *store, const char *name, char **data, uint64_t *length,
                                 stk_error *err);
/*
 * Read a list file of lines "path,label". `name` ends in .csv, .tsv or .txt and is what messages
 * call it. *absolute: its paths begin with a '/', which is taken off: they are relative to the
 * root of all.
 */
stk_status stk__images_parse_list(stk_context *ctx, const char *name, char *data, uint64_t length,
                                  stk__images_table *out, stk__images_labels *labels,
                                  uint64_t **lines, bool *absolute, stk_error *err);
void stk__images_release_labels(stk_context *ctx, stk__images_labels *labels);

/* ---- Tables of labels (images_labels.c) ------------------------------------------------------ */

enum { STK__LABELS_AUTO, STK__LABELS_CLASS, STK__LABELS_VALUE, STK__LABELS_MULTI };

typedef struct stk__images_labels_options {
    const char *labels;          /* spec of the table, from the folder of the pictures on */
    const char *file_column;     /* of the paths; NULL: it is looked for */
    const char *label_columns;   /* with commas; NULL: they are looked for */
    const char *separator;       /* of names in a text; NULL: it is one name */
    int32_t type;                /* STK__LABELS_... */
    int32_t missing, duplicates; /* 1: drop; first */
} stk__images_labels_options;

/* Read the table for the pictures of the folder `url`. *picks receives the pictures that have a
 * label, NULL where all have, *num_picks how many. Blocks. */
stk_status stk__images_read_labels(const char *url, const stk__images_labels_options *options,
                                   const stk__images_table *pictures, stk__images_labels *out,
                                   uint32_t **picks, uint64_t *num_picks, stk_error *err);

/* Remark class folders that are the splits of a dataset (images_table.c). */
void stk__images_remark_splits(stk_context *ctx, const char *url, const char *const *classes,
                               uint32_t count);

/* ---- Finding pictures (images_find.c) -------------------------------------------------------- */

/* A path taken apart. */
typedef struct stk__images_path {
    const char *folder, *name;
    size_t folder_length, name_length;
    size_t stem_length; /* of `name` without the extension of a picture, which it may lack */
} stk__images_path;

void stk__images_path_split(const char *path, size_t length, stk__images_path *out);
/* That of file `i`. */
void stk__images_path_of(const stk__images_table *table, uint64_t i, stk__images_path *out);

typedef struct stk__images_finder {
    bool by_name; /* folders do not count */
    bool any_end; /* extensions do not count; else one that a path has does */
    const stk__images_table *table;
    uint32_t *slots;
    uint64_t num_slots;
} stk__images_finder;

/* `by_name` and `any_end` are set. STK_ENOMEM. */
stk_status stk__images_finder_make(stk__images_finder *finder, const stk__images_table *table);
/* The files of a path, two at most: how many. */
uint32_t stk__images_find(const stk__images_finder *finder, const stk__images_path *path,
                          uint32_t found[2]);
void stk__images_finder_release(stk__images_finder *finder);

/* ---- Pairs (images_pairs.c) ------------------------------------------------------------------ */

/* For each picture the number of the mask of the same path without its extension. */
stk_status stk__images_pair(const stk__images_table *pictures, const stk__images_table *masks,
                            const char *masks_url, uint32_t **out, uint64_t *unused,
                            stk_error *err);

#endif
