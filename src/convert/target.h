/* Files of a folder that is written: nothing has its name before it is whole and safe. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_TARGET_H
#define STK_SRC_CONVERT_TARGET_H

#include "convert/convert.h"
#include "store/store.h"

#define STK__TARGET_OWN     ".stoker-convert" /* what begins so in the folder is ours */
#define STK__TARGET_JOURNAL STK__TARGET_OWN
#define STK__TARGET_ERRORS  STK__TARGET_OWN "-errors"
#define STK__TARGET_PART    STK__TARGET_OWN "-of-" /* journals of parts: "-of-2-8" */
#define STK__TARGET_SUFFIX  32
#define STK__TARGET_NAME    (sizeof STK__TARGET_JOURNAL + STK__TARGET_SUFFIX) /* of a journal */

typedef struct stk__target stk__target;

/*
 * What a kind of target does. Names are checked before. A file is written in two steps, so that a
 * local folder can make many of them safe at once: write(), by any thread; then, when sync() says
 * that all written before are safe, name(), and sync() again for the names.
 */
typedef struct stk__target_ops {
    /* Remove what an interrupted conversion has not finished. */
    stk_status (*begin)(stk__target *target, stk_error *err);
    /* Write file `number`, whose name will be `name`. With `check` it is read back and compared. On
     * failure nothing of it is left. */
    stk_status (*write)(stk__target *target, uint64_t number, const char *name, const void *data,
                        uint64_t size, bool check, stk_error *err);
    stk_status (*name)(stk__target *target, uint64_t number, const char *name, stk_error *err);
    /* One that is written gets no name. */
    void (*drop)(stk__target *target, uint64_t number);
    stk_status (*sync)(stk__target *target, stk_error *err);
    /* Of a file; STK_ENOENT: it is not there, or is none. */
    stk_status (*size)(stk__target *target, const char *name, uint64_t *size, stk_error *err);
    /* Of a file that is there. */
    stk_status (*remove)(stk__target *target, const char *name, stk_error *err);
    void (*close)(stk__target *target);
} stk__target_ops;

/* The folder being written: a local one, or of another store. */
struct stk__target {
    const stk__target_ops *ops;
    const stk_conversion_job *job;
    char suffix[STK__TARGET_SUFFIX]; /* of our own names, of a part of a conversion; else empty */
    char journal[STK__TARGET_NAME];  /* its name, with the suffix */
    bool has_journal;                /* when it was opened */
    bool has_parts;                  /* journals of other parts, likewise */
    bool has_others;  /* what no conversion wrote; not looked for where nothing asks */
    atomic_bool kept; /* something in it is worth keeping */
};

/*
 * Open the folder of a job; a local one is made where it is missing, and locked against a second
 * conversion. It must not be the folder that is read, nor lie in it, nor hold it. What is neither
 * empty nor begun by a conversion is refused unless the option overwrite is set. Changes nothing in
 * it. Conversions of different suffixes, each below STK__TARGET_SUFFIX bytes, write to it at a
 * time; each has files of its own.
 */
stk_status stk__target_open(const stk_conversion_job *job, const char *suffix, stk__target **out,
                            stk_error *err);
/* What both kinds begin with. */
void stk__target_init(stk__target *target, const stk__target_ops *ops,
                      const stk_conversion_job *job, const char *suffix);
/* The two kinds, for it alone; stk__target_close() after a failure as well. */
stk_status stk__target_folder_open(const stk_conversion_job *job, const char *suffix,
                                   stk__target **out, stk_error *err);
stk_status stk__target_store_open(const stk_conversion_job *job, const char *suffix,
                                  stk__target **out, stk_error *err);
/* Remove files without a name, and unlock; where nothing is kept the journal goes, and the folder
 * if this run made it. Accepts NULL. */
void stk__target_close(stk__target **target);

/* Names of files of the target have plain parts, and none is of our own: STK_EINVAL. */
stk_status stk__target_check_name(const char *name, stk_error *err);

stk_status stk__target_write(stk__target *target, uint64_t number, const char *name,
                             const void *data, uint64_t size, bool check, stk_error *err);
stk_status stk__target_name(stk__target *target, uint64_t number, const char *name, stk_error *err);
/* Whether a file is there and has this size, as far as can be told. */
bool stk__target_has(stk__target *target, const char *name, uint64_t size);
/* Remove a picture that an earlier conversion wrote: a file of `size` bytes. What is not there, or
 * is something else, is left alone. STK_ENOTSUP: the target's store removes nothing. */
stk_status stk__target_remove(stk__target *target, const char *name, uint64_t size, stk_error *err);
/* What was read back is not what was written. */
stk_status stk__target_fail_check(const stk__target *target, stk_error *err);
stk_status stk__convert_fail_check(const stk_conversion_job *job, stk_error *err);
/* STK_EINVAL where the file that is the target of a job lies in the folder that is read. */
stk_status stk__convert_check_outside(const stk_conversion_job *job, stk_error *err);

/* The path or URL that the source of a job names, without the kind of dataset. */
const char *stk__convert_source(const stk_conversion_job *job);
/* The local folder that a path or URL is about, also below wrappers, as the system resolves it,
 * into `path` of PATH_MAX bytes. False: it is of another store, or not there. */
bool stk__convert_folder(stk_context *ctx, const char *url, char *path);

#endif
