/* a local file that grows -> an object of a store, put whole now and then */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_MIRROR_H
#define STK_SRC_STORE_MIRROR_H

#include "store/store.h"

/* How much of a log a power cut, or the end of the machine, may take from another store. */
#define STK__MIRROR_NS UINT64_C(30000000000)

struct stk_mirror {
    stk_context *ctx;     /* held */
    char *path;           /* of the file */
    char *url;            /* of the object; NULL: the file is what is wanted */
    char *folder;         /* temporary, made for the file */
    stk__put_place place; /* where it is put */
    struct stat was;      /* the file when it was put or fetched; zero bytes: it was not there */
    uint64_t due_ns;      /* when it is put next */
    bool warned;          /* that it could not be */
};

#endif
