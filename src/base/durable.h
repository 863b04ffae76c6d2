/* bytes -> a file that a power cut leaves old or new, never torn */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_DURABLE_H
#define STK_SRC_BASE_DURABLE_H

#include <limits.h>
#include <sys/stat.h>

#include "base/files.h"

/* The calls on files that are written here, so that a test can record them and have each fail. They
 * answer as the system's: -1 and errno. Names are relative to the open folder, which may be
 * AT_FDCWD. */
typedef struct stk__file_calls {
    int (*open)(void *user, int folder, const char *name, int flags, mode_t mode);
    int (*allocate)(void *user, int fd, uint64_t bytes); /* the length of the file stays */
    ssize_t (*write)(void *user, int fd, const void *data, size_t length);
    int (*fsync)(void *user, int fd); /* also of folders */
    int (*close)(void *user, int fd);
    /* `keep`: fails with EEXIST where `to` is there. */
    int (*rename)(void *user, int folder, const char *from, const char *to, bool keep);
    int (*link)(void *user, int from_folder, const char *from, int folder, const char *to);
    int (*unlink)(void *user, int folder, const char *name);
    int (*mkdir)(void *user, int folder, const char *name, mode_t mode);
    void *user;
} stk__file_calls;

extern const stk__file_calls stk__file_calls_system;

/*
 * A file being written. Functions return 0 or errno, and `step` is then what could not be done, as
 * in "cannot STEP 'NAME'".
 */
typedef struct stk__durable {
    const stk__file_calls *calls;
    int folder; /* the caller's, open until the end */
    int fd;
    int failed; /* errno of an earlier write: nothing may be committed */
    bool keep;  /* what has the name already is not replaced */
    const char *step;
    char temporary[NAME_MAX + 1];
} stk__durable;

/*
 * Begin a file of `folder` under a temporary name, with room for `bytes` set aside (0: unknown).
 * With `keep` it will replace nothing: EEXIST where `name` is there already, or is being written by
 * another of this kind, in any process.
 */
int stk__durable_begin(stk__durable *file, const stk__file_calls *calls, int folder,
                       const char *name, uint64_t bytes, bool keep);
/*
 * Go on with a file that was left under the temporary name `part`, of which *length bytes are
 * there, or begin it. What is written goes behind them; `fd` can be read. It will replace nothing:
 * EEXIST where `name` is there; EBUSY where another is writing `part`, in any process. On failure
 * what is there stays.
 */
int stk__durable_resume(stk__durable *file, const stk__file_calls *calls, int folder,
                        const char *part, const char *name, uint64_t bytes, uint64_t *length);
/* Ends it and leaves what was written, to be gone on with. */
void stk__durable_leave(stk__durable *file);
int stk__durable_write(stk__durable *file, const void *data, size_t length);
/* fsync, rename to `name`, fsync of the folder. Ends it, also on failure; then what `name` was is
 * untouched, unless the last step alone failed. */
int stk__durable_commit(stk__durable *file, const char *name);
/* Ends it without a trace. */
void stk__durable_abandon(stk__durable *file);

/* Have `name` be another name of the file `from`, atomically and durably. EPERM, EXDEV, EMLINK,
 * ENOSYS or EOPNOTSUPP where the file system has no hard links. */
int stk__durable_link(const stk__file_calls *calls, int from_folder, const char *from, int folder,
                      const char *name);
/* Remove a file durably. */
int stk__durable_remove(const stk__file_calls *calls, int folder, const char *name);
/* Make a folder in `parent` durably; one that is there is well. */
int stk__durable_folder(const stk__file_calls *calls, int parent, const char *name);
/* The same of a path with all folders on the way. Fills `err`. */
stk_status stk__durable_path(stk_context *ctx, const stk__file_calls *calls, const char *path,
                             stk_error *err);
stk_status stk__durable_sync_path(const char *folder, stk_error *err);

/* Remove from an open folder the unfinished files of processes that are gone. What cannot be
 * removed is left. */
void stk__durable_sweep(int folder);
void stk__durable_sweep_path(const char *folder);

/* Fill `err` after a call on `path` failed: "cannot VERB 'PATH': reason and remedy". */
stk_status stk__durable_fail(stk_error *err, const char *verb, const char *path, int system_error);

#endif
