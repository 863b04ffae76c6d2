/* bytes -> the files of a tar archive, one behind the other */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of tar whose names and sizes stand in the headers of the files themselves: ustar
 * [POSIX.1-2017, pax, "ustar Interchange Format"], GNU's with magic "ustar  ", and those before it
 * without magic. Files and folders below the archive's own root, and nothing else: a link, a device
 * and a header that changes the next one (pax, GNU's long names) is refused by name.
 */
#ifndef STK_SRC_DATASET_TAR_H
#define STK_SRC_DATASET_TAR_H

#include "dataset/tar_header.h"

/* Gives the next `size` bytes of the archive; *got is less only at its end. */
typedef stk_status stk__tar_source(void *user, void *out, uint64_t size, uint64_t *got,
                                   stk_error *err);

typedef struct stk__tar {
    stk__tar_source *source;
    void *user;
    const char *key;     /* names it in messages */
    uint64_t at;         /* bytes taken from the source */
    uint64_t left, tail; /* of the file: bytes not read yet, and those that fill its last block */
} stk__tar;

typedef struct stk__tar_entry {
    char name[STK__TAR_NAME]; /* relative, of plain names between '/', without one at its end */
    uint64_t size;
    bool is_folder;
} stk__tar_entry;

/* Begin; `key` and `user` live as long as it. Nothing is to be ended. */
void stk__tar_init(stk__tar *tar, stk__tar_source *source, void *user, const char *key);
/* Go to the next file or folder, over what was not read. *found false: that was the last. Errors:
 * STK_EFORMAT, STK_ECHECKSUM, STK_ETRUNCATED, STK_EKIND (what is refused), and the source's. */
stk_status stk__tar_next(stk__tar *tar, stk__tar_entry *entry, bool *found, stk_error *err);
/* The next `size` bytes of the file, which has as many left. */
stk_status stk__tar_read(stk__tar *tar, void *out, uint64_t size, stk_error *err);

#endif
