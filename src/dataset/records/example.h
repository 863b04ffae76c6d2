/* bytes of a tf.train.Example or SequenceExample -> its features, in place */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As in the published definitions (tensorflow/core/example/{example,feature}.proto):
 *
 *     Example         { Features features = 1 }
 *     SequenceExample { Features context = 1, FeatureLists feature_lists = 2 }
 *     Features        { map<string, Feature> feature = 1 }
 *     FeatureLists    { map<string, FeatureList> feature_list = 1 }
 *     FeatureList     { repeated Feature feature = 1 }
 *     Feature         { oneof kind { BytesList = 1, FloatList = 2, Int64List = 3 } }
 *     BytesList, FloatList, Int64List { repeated value = 1 }, numbers packed or not
 *
 * What is read is what Protocol Buffers read: the later entry of a name counts, fields that come
 * twice are joined, unknown ones are passed over. An Example is a SequenceExample without lists.
 * Nothing is copied and no memory is taken; the depth is that of the definitions.
 */
#ifndef STK_SRC_DATASET_RECORDS_EXAMPLE_H
#define STK_SRC_DATASET_RECORDS_EXAMPLE_H

#include "base/proto_scan.h"

#define STK__EXAMPLE_MAX_ENTRIES 65536u /* features of a record */
#define STK__EXAMPLE_MAX_NAME    256u   /* bytes of the name of a feature that is taken */

/* Why a record, or a feature of it, is not taken. */
typedef enum stk__example_fault {
    STK__EXAMPLE_GOOD = 0,
    STK__EXAMPLE_DAMAGED, /* no message, or not of this form */
    STK__EXAMPLE_ENTRIES, /* more than STK__EXAMPLE_MAX_ENTRIES features */
    STK__EXAMPLE_MISSING, /* there is no such feature, or it has no list */
    STK__EXAMPLE_KIND,    /* it is a list of another kind */
    STK__EXAMPLE_FEWER,   /* than the field's values */
    STK__EXAMPLE_MORE,
    STK__EXAMPLE_RANGE, /* a value that the field's type does not hold */
    STK__EXAMPLE_FAULTS
} stk__example_fault;

typedef enum stk__feature_kind {
    STK__FEATURE_NONE = 0,
    STK__FEATURE_BYTES,
    STK__FEATURE_FLOAT,
    STK__FEATURE_INT64
} stk__feature_kind;

/* A feature that points into its record. */
typedef struct stk__feature {
    const char *name; /* not ended; of any bytes */
    size_t name_length;
    stk__proto_cursor data; /* a Feature, or a FeatureList */
    bool is_list;           /* of feature_lists */
} stk__feature;

/* Takes one entry after the other; anything but GOOD ends the walk. */
typedef stk__example_fault stk__feature_fn(void *user, const stk__feature *feature);

/* Walk the features of a record: those of `features` (`context`) and of `feature_lists`, as they
 * come. A name may come again, and counts then. Any thread. */
stk__example_fault stk__example_walk(const void *data, uint64_t length, stk__feature_fn *each,
                                     void *user);

/* What is in a feature: the kind of its list and the number of values; of a FeatureList those of
 * all its features, one behind the other (`steps` of them). */
typedef struct stk__feature_values {
    stk__feature_kind kind;
    uint64_t count, steps;
} stk__feature_values;
stk__example_fault stk__feature_look(const stk__feature *feature, stk__feature_values *out);

/* Room for the values of a list of numbers. */
typedef struct stk__feature_room {
    void *out;
    stk_dtype dtype;     /* of `out`: FLOAT32 of floats; of int64 any type of integers */
    uint64_t room, used; /* elements */
} stk__feature_room;
/* Copy the values of a list of floats, or of int64. KIND: it is of another; MORE: than there is
 * room; RANGE. A feature without a list has no values. */
stk__example_fault stk__feature_floats(const stk__feature *feature, stk__feature_room *to);
stk__example_fault stk__feature_integers(const stk__feature *feature, stk__feature_room *to);
/* The only value of a list of bytes, in place. FEWER: there is none; MORE. */
stk__example_fault stk__feature_bytes(const stk__feature *feature, const void **data,
                                      uint64_t *length);

#endif
