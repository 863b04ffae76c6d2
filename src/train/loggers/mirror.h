/* a local file that grows -> an object of a store, put whole now and then */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_LOGGERS_MIRROR_H
#define STK_SRC_TRAIN_LOGGERS_MIRROR_H

#include "base/base.h"

/* How much of a log a power cut, or the end of the machine, may take from another store. */
#define STK__MIRROR_NS UINT64_C(30000000000)

/* One thread at a time. Zero bytes: none, and every call does nothing. */
typedef struct stk__mirror {
    stk_context *ctx;
    char *url;       /* of the object; NULL: the file is what is wanted */
    char *folder;    /* temporary, made for the file */
    char *path;      /* of the file */
    uint64_t due_ns; /* when it is put next */
    bool warned;     /* that it could not be */
} stk__mirror;

/* Have a file for the object in a temporary folder; what the object holds already is in it. */
stk_status stk__mirror_open(stk_context *ctx, const char *url, stk__mirror *out, stk_error *err);
/* Put the file as it is, where that is due. A failure is a warning, once, and is tried again. */
void stk__mirror_tick(stk__mirror *mirror);
/* The same for a path that may be a plain one, which stays; else *path becomes that of the file. */
stk_status stk__mirror_take(stk_context *ctx, char **path, stk__mirror *out, stk_error *err);
/* Put it for the last time, and remove the file, which stays where that fails. */
stk_status stk__mirror_close(stk__mirror *mirror, stk_error *err);
/* Remove the file alone. */
void stk__mirror_drop(stk__mirror *mirror);

#endif
