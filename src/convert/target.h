/* Files of a folder that is written: nothing has its name before it is whole and safe. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_TARGET_H
#define STK_SRC_CONVERT_TARGET_H

#include "convert/convert.h"

#define STK__TARGET_OWN     ".stoker-convert" /* what begins so in the folder is ours */
#define STK__TARGET_JOURNAL STK__TARGET_OWN
#define STK__TARGET_ERRORS  STK__TARGET_OWN "-errors"
#define STK__TARGET_PARTS   STK__TARGET_OWN "-parts"

/*
 * The folder being written. Parts are files without a name of their own yet, told by number. A
 * group of them is made safe by one syncfs() of the file system, then gets its names, which a
 * second makes safe; so a name is that of a whole file after any kill or power cut, and a line of
 * the journal for a name.
 */
typedef struct stk__target {
    stk_context *context;
    const char *path; /* the caller's, for messages */
    int root, parts;  /* -1: not open */
    bool has_journal; /* when it was opened */
    bool made;        /* the folder, by this run */
    bool kept;        /* something in it is worth keeping: the folder stays */
} stk__target;

/*
 * Open the folder, made where it is missing, and lock it against a second conversion. `source` is
 * the folder that is read (NULL: none): the target must not be it, nor lie in it, nor hold it. What
 * is neither empty nor begun by a conversion is refused unless `overwrite`. Changes nothing in it.
 * stk__target_close() after a failure as well.
 */
stk_status stk__target_open(stk_context *ctx, const char *path, const char *source, bool overwrite,
                            stk__target *target, stk_error *err);
/* Remove parts that are left, and unlock; a folder that this run made goes if nothing is in it but
 * its journal. */
void stk__target_close(stk__target *target);
/* Remove the parts of an interrupted conversion, and make ready for new ones. */
stk_status stk__target_begin(stk__target *target, stk_error *err);

/* Write part `number`; with `check` it is read back and compared. On failure it is removed. */
stk_status stk__target_write(const stk__target *target, uint64_t number, const void *data,
                             uint64_t size, bool check, stk_error *err);
/* Make everything written so far safe. */
stk_status stk__target_sync(const stk__target *target, stk_error *err);
/* Give a part its name below the folder, making folders on the way. */
stk_status stk__target_name(stk__target *target, uint64_t number, const char *name, stk_error *err);
void stk__target_drop(const stk__target *target, uint64_t number);

/*
 * Names below the folder, here and above, are plain names parted by '/': one with "..", one that
 * leads through a link, and one of a file of our own are refused, so nothing outside is touched.
 */
/* Size of a file that is there; false: it is not, or is none. */
bool stk__target_size(const stk__target *target, const char *name, uint64_t *size);
/* Remove a picture that an earlier conversion wrote: a file of `size` bytes. What is not there, or
 * is something else, is left alone. */
stk_status stk__target_remove(const stk__target *target, const char *name, uint64_t size,
                              stk_error *err);
/* Remove a file of our own in the folder; one that is not there is well. */
stk_status stk__target_remove_own(const stk__target *target, const char *name, stk_error *err);
/* Open a file of our own in the folder. -1: errno. */
int stk__target_open_own(const stk__target *target, const char *name, int flags);
/* Put `name`.new, written and closed by the caller after an fsync, in the place of `name`. */
stk_status stk__target_replace_own(const stk__target *target, const char *name, stk_error *err);
/* Write all bytes to a descriptor. */
bool stk__target_put(int fd, const void *data, uint64_t size);
/* The failure of a system call on a file of the folder, with errno and the remedy. */
stk_status stk__target_fail(const stk__target *target, const char *verb, const char *name,
                            stk_error *err);

#endif
