/* a table of labels -> its columns, row by row */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images_labels.c ties the rows of a table to pictures; images_columns.c opens the table and
 * chooses the column of the files and those of the labels.
 */
#ifndef STK_SRC_DATASET_IMAGES_LABELS_H
#define STK_SRC_DATASET_IMAGES_LABELS_H

#include "dataset/images.h"
#include "dataset/taken.h"

typedef struct stk__labels_column {
    const char *name;
    uint32_t field;
    int mask;       /* field that is 0 where there is no value; -1: there always is one */
    bool text;      /* of any length */
    bool list;      /* numbers, as many as each row has */
    uint64_t width; /* numbers of a row; of a list 0 */
    stk_dtype dtype;
} stk__labels_column;

typedef struct stk__labels_table {
    stk_dataset *dataset;
    const char *name; /* for messages */
    stk__labels_column file, *targets;
    uint32_t num_targets;
    bool guessed; /* the targets are all columns but that of the file */
} stk__labels_table;

/* Open the table and choose its columns. To be closed, whatever comes. Blocks. */
stk_status stk__labels_table_open(stk_context *ctx, const char *url,
                                  const stk__images_labels_options *options, stk__labels_table *out,
                                  stk_error *err);
void stk__labels_table_close(stk__labels_table *table);

/* Whether the row that was taken has a value there. */
bool stk__labels_has(const stk__labels_column *column, const stk__taken *taken);
/* A text, or the digits of an integer in `room`; *length of it. */
const char *stk__labels_text(const stk__labels_column *column, const stk__taken *taken,
                             char room[32], size_t *length);
/* False: it is beyond int64. */
bool stk__labels_integer(const stk__labels_column *column, const stk__taken *taken, int64_t *out);
/* Number `i` of the row. */
double stk__labels_real(const stk__labels_column *column, const stk__taken *taken, uint64_t i);

/* ---- Rows (images_labels.c) ------------------------------------------------------------------ */

#define STK__LABELS_NONE  UINT32_MAX
#define STK__LABELS_WHERE 200 /* bytes of a text */

/* The row that was taken: "labels.csv:17" where lines have numbers. Gives `text`. */
const char *stk__labels_where(const stk__labels_table *table, const stk__taken *taken, uint64_t row,
                              char text[STK__LABELS_WHERE]);
stk_status stk__labels_no_memory(uint64_t pictures, stk_error *err);

/* ---- Labels (images_label_values.c) ---------------------------------------------------------- */

typedef enum stk__labels_form {
    STK__FORM_NAMES,    /* a text: the name of a class */
    STK__FORM_INTEGERS, /* an integer: a class */
    STK__FORM_VALUES,   /* numbers */
    STK__FORM_SEVERAL   /* names of classes in a text */
} stk__labels_form;

typedef struct stk__label_values {
    stk_context *context;
    const stk__labels_table *table;
    const stk__taken *taken;
    const char *separated; /* the option; NULL: names are not parted */
    int32_t type;          /* STK__LABELS_AUTO, ... */
    uint64_t pictures;
    stk__images_labels *out;
    stk_error *err;
    stk__labels_form form;
    char separator;
    uint64_t *begin; /* of each picture its first mark, in the order of the rows */
    size_t num_marks, marks_room;
    bool whole, flags; /* all values are integers; 0 or 1. True at first */
} stk__label_values;

/* All but what comes behind `err` is set. Released by stk__label_values_release(); `out` is the
 * caller's, also on failure. */
stk_status stk__label_values_choose(stk__label_values *values);
stk_status stk__label_values_make_room(stk__label_values *values);
/* The first column of the row that has no value; NULL: there is none. Of several names none is a
 * label as well. */
const stk__labels_column *stk__label_values_empty(const stk__label_values *values);
/* The label of a picture; STK__LABELS_NONE: its names alone are kept, so that the numbers of
 * classes do not depend on which pictures there are. */
stk_status stk__label_values_take(stk__label_values *values, uint64_t row, uint32_t picture);
/* Labels of `n` samples, the pictures `picks` or all. */
stk_status stk__label_values_settle(stk__label_values *values, const uint32_t *picks, uint64_t n);
void stk__label_values_release(stk__label_values *values);

#endif
