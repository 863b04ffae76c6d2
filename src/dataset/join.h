/* A dataset made of several: index -> which of them, and the index there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_JOIN_H
#define STK_SRC_DATASET_JOIN_H

#include "dataset/dataset.h"
#include "dataset/nested.h"

#define STK_JOIN_CHUNK 64 /* samples that are mapped at a time, on the stack */

/* What becomes of names of classes that differ: an option of the kinds. */
typedef enum stk__join_classes {
    STK_JOIN_CHECK,
    STK_JOIN_UNITE,
    STK_JOIN_IGNORE
} stk__join_classes;
#define STK_JOIN_CLASSES "check|unite|ignore"

typedef struct stk__join stk__join;
struct stk__join {
    stk_dataset base;
    stk_dataset_ops ops; /* of `base`: no more than one of the sources has */
    uint32_t num;
    stk_dataset **sources; /* owned */
    /* At most STK_JOIN_CHUNK at a time. */
    void (*map)(const stk__join *join, const uint64_t *indices, uint32_t *source, uint64_t *out,
                size_t n);
    void (*say)(const stk__join *join, uint32_t source, char *text, size_t size); /* for describe */
    uint64_t *starts;     /* concat: the index at which each begins; pair: the field; and the end */
    uint64_t *rows;       /* pair by key: of each source its index of each sample; NULL: the same */
    stk__mixture mixture; /* mix */
    void *room;           /* of `mixture`; pair: of fields */
    const char **names;   /* of united classes, which the sources own */
    int64_t *renumber;    /* unite: of each source `num_classes` labels; NULL: none */
    uint32_t label;       /* the field */
    char text[160];       /* for describe: what it is */
};

/* The table of a kind: these with `name`, `doc`, `options` and `open`. */
void stk__join_close(stk_dataset *dataset);
void stk__join_prepare(stk_dataset *dataset, stk_sample *samples, size_t n);
/* Whether a dataset is one of these. */
bool stk__is_join(const stk_dataset *dataset);
/* Whether all that it is made of are built in. */
bool stk__join_is_own(const stk__join *join);
/* The number of an object of a source; false: it is too large. */
bool stk__join_object(uint64_t object, uint32_t num, uint32_t source, uint64_t *out);
/* What `worker`, which may be NULL, keeps for a source. */
void *stk__join_worker(void *worker, uint32_t source);
/* One that takes over the datasets of `nested`; its fields are those of the first. The caller fills
 * in map, size and the rest; to give it up: stk__join_close(). On failure nothing is taken over. */
stk_status stk__join_make(const stk_dataset_ops *kind, stk__nested *nested, stk__join **out,
                          stk_error *err);
/* The same of datasets that have to be alike, with the names of their classes. On failure they may
 * be closed. */
stk_status stk__join_create(const stk_dataset_ops *kind, stk__nested *nested,
                            stk__join_classes classes, stk__join **out, stk_error *err);

#endif
