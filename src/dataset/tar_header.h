/* a block of 512 bytes -> what a header of tar says */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of ustar [POSIX.1-2017, pax, "ustar Interchange Format"], of GNU with magic "ustar  ",
 * and of those before it without magic; the records of pax's extended headers ["pax Extended
 * Header"].
 */
#ifndef STK_SRC_DATASET_TAR_HEADER_H
#define STK_SRC_DATASET_TAR_HEADER_H

#include "base/base.h"

#define STK__TAR_BLOCK 512
#define STK__TAR_NAME  257 /* a prefix of 155 bytes, '/', 100 of the name, and the end */

typedef struct stk__tar_head {
    char name[STK__TAR_NAME]; /* as it is written */
    unsigned char type;
    uint64_t size;
    bool binary; /* the size is a number of base 256, as GNU writes one of 8 GiB and more */
    bool sized;  /* there is a size that is a number */
    bool split;  /* the name is put together of two fields */
} stk__tar_head;

/* STK_ECHECKSUM, STK_EFORMAT: *what is what is wrong with it, "a header whose ...". A size that is
 * none is left to the caller. */
stk_status stk__tar_head_read(const unsigned char *head, stk__tar_head *out, const char **what);

/* Plain names between slashes, which lie below the folder that they are unpacked to. */
bool stk__tar_is_below(char *name);

/* A record "LENGTH KEY=VALUE\n" of an extended header; `value` does not end at its length. */
typedef struct stk__tar_pax {
    const char *key, *value;
    size_t key_length, value_length;
} stk__tar_pax;

/* Take the record at *at, which moves behind it. False: it is none. */
bool stk__tar_pax_next(const char **at, const char *end, stk__tar_pax *out);

#endif
