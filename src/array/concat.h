/* files of one variable each -> one array */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of several files as one, along one dimension. Chunks stay those of the files: where the
 * length of a file is no multiple of them, its last chunk is cut and the next file begins a new
 * one. So each is read and decoded once, by the file's own chain, whatever windows cross.
 */
#ifndef STK_SRC_ARRAY_CONCAT_H
#define STK_SRC_ARRAY_CONCAT_H

#include "array/room.h"

#define STK__CONCAT_MAX_FILES 65536u
#define STK__CONCAT_COMPARED  (UINT64_C(1) << 20) /* bytes of arrays whose values are compared */

/* Files in a store, and the way to the array in each. */
typedef struct stk__concat_files {
    stk_context *context;
    stk_store *store;
    char **keys; /* in the order in which they are joined */
    size_t count, room;
    char rest[STK_MAX_OBJECT_KEY];
    char name[STK_MAX_OBJECT_KEY]; /* of all of them: the pattern */
} stk__concat_files;

/* The files that a URL with a pattern as one part of its path names; released also after a failure.
 * (concat_files.c) */
stk_status stk__concat_files_find(stk_context *ctx, const char *url, stk__concat_files *out,
                                  stk_error *err);
void stk__concat_files_release(stk__concat_files *files);

/* Whether an array of a file goes on where those before it end; *dimension is that of the first,
 * found there. (concat_check.c) */
stk_status stk__concat_dimension(const stk_array *first, const char *name, uint32_t *dimension,
                                 stk_error *err);
/* Whether what a chunk cut along the dimension has are its first elements, as it is stored. */
bool stk__concat_runs(const stk_array *array, uint32_t dimension);
/* Whether an array has the dimension: by its name, or where dimensions have none by its number. */
bool stk__concat_has(const stk_array *array, const char *name);
/* Whether elements and chunks of both mean the same. *converts becomes true where the other's times
 * have to be told in the first one's units. */
stk_status stk__concat_same(const stk_array *first, const stk_array *other, uint32_t dimension,
                            bool *converts, stk_error *err);
/* Whether an array that is not joined is the same in both; values of large ones are not looked at.
 */
stk_status stk__concat_equal(stk_array *first, stk_array *other, stk_error *err);
/* The values of the coordinate at both ends of each file, so far; zeros before the first. */
typedef struct stk__concat_ends {
    bool any, unknown;       /* some file's were seen; not to be compared */
    int direction;           /* 1 rising, -1 falling, 0 not known yet */
    stk__coordinate meaning; /* of the file seen last */
    char units[64];          /* of it, where they are not read: its numbers compare with the same */
    int64_t last;            /* key of its end, and the value as a text */
    char text[STK__DATE_TEXT];
} stk__concat_ends;
/* Look at the coordinate of a file, `array`, which goes along the dimension. */
stk_status stk__concat_follow(stk__concat_ends *ends, stk_array *array, stk_error *err);

/* Whether both are lists of times of one calendar, whose units may then differ; *same: they mean
 * the same by a number. (concat_times.c) */
bool stk__concat_times(const stk_array *first, const stk_array *other, bool *same);
/* Read lists of times, `elements` in all, in the units of the first. Errors: STK_EMISMATCH: a time
 * is not to be told in them;
 * STK_ELIMIT: more bytes than are held. *out is freed with stk__free(). */
stk_status stk__concat_times_read(stk_array *const *files, size_t count, int64_t elements,
                                  void **out, stk_error *err);

/* Open the array of all files that `url` names, by the option `concat`. `format` NULL: by content.
 */
stk_status stk__concat_open(stk_context *ctx, const char *url, const stk_array_options *options,
                            const stk_array_format_ops *format, const stk__own_options *own,
                            stk_array **out, stk_error *err);
extern const stk_array_format_ops stk__array_concat;

#endif
