/* Objects whose places are remembered, and that may change meanwhile. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where chunks lie was read when the array was opened. Of an object that is another one by then,
 * old places give bytes of anything, so that what it was is kept, and compared now and then.
 */
#ifndef STK_SRC_ARRAY_WATCH_H
#define STK_SRC_ARRAY_WATCH_H

#include "array/room.h"

typedef struct stk__watched {
    atomic_uint_fast64_t due_ns; /* not looked at before */
    atomic_bool changed;         /* as seen last */
    uint64_t identity, size;     /* as it was; identity 0: not known yet */
    int64_t mtime_ns;
} stk__watched;

typedef struct stk__array_watch {
    pthread_mutex_t mutex; /* guards what objects were */
    bool far;              /* a look is a request to another machine: one at a time, in turn */
    atomic_uint_fast64_t due_ns; /* of far ones */
    uint64_t every_ns;           /* from look to look */
    uint64_t count;
    stk__watched objects[];
} stk__array_watch;

/* What an object is before the format opens it; identity 0: it is a folder, or cannot be told. */
void stk__watch_before(stk_store *store, const char *key, stk_object_info *out);
/* Watch the objects of an array that has been opened, whose own was `opened` before. */
stk_status stk__watch_begin(stk_array *a, const stk_object_info *opened, stk_error *err);
/* Watch the objects of joined files, each as the array of its file does. */
stk_status stk__watch_join(stk_array *a, stk_array *const *files, stk_error *err);
void stk__watch_end(stk_array *a);

#endif
