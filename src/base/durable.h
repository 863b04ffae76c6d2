/* bytes -> a file that a power cut leaves old or new, never torn */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_DURABLE_H
#define STK_SRC_BASE_DURABLE_H

#include <sys/stat.h>

#include "base/base.h"

/* Every call on files that are written here, so that a test can record them and have each fail.
 * They answer as the system's: -1 and errno. */
typedef struct stk__file_calls {
    int (*open)(void *user, const char *path, int flags, mode_t mode);
    int (*allocate)(void *user, int fd, uint64_t bytes); /* the length of the file stays */
    ssize_t (*write)(void *user, int fd, const void *data, size_t length);
    int (*fsync)(void *user, int fd); /* also of folders */
    int (*close)(void *user, int fd);
    int (*rename)(void *user, const char *from, const char *to);
    int (*link)(void *user, const char *from, const char *to);
    int (*unlink)(void *user, const char *path);
    int (*mkdir)(void *user, const char *path, mode_t mode);
    void *user;
} stk__file_calls;

extern const stk__file_calls stk__file_calls_system;

typedef struct stk__durable stk__durable;

/* Begin to write `path` under a temporary name in its folder, with room for `bytes` set aside (0:
 * unknown). `calls` NULL: the system's. */
stk_status stk__durable_begin(stk_context *ctx, const stk__file_calls *calls, const char *path,
                              uint64_t bytes, stk__durable **out, stk_error *err);
stk_status stk__durable_write(stk__durable *file, const void *data, size_t length, stk_error *err);
/* fsync, rename, fsync of the folder. Ends it, also on failure; then what `path` was is untouched,
 * unless the last step alone failed. */
stk_status stk__durable_commit(stk__durable **file, stk_error *err);
/* Ends it without a trace. Accepts NULL. */
void stk__durable_abandon(stk__durable **file);

/* Make a folder and those above it, durably. */
stk_status stk__durable_folder(stk_context *ctx, const stk__file_calls *calls, const char *path,
                               stk_error *err);
/* fsync() of a folder: names made in it since are safe. */
stk_status stk__durable_sync_folder(const stk__file_calls *calls, const char *folder,
                                    stk_error *err);
/* Have `name` be another name of the file `path`, atomically and durably. */
stk_status stk__durable_link(stk_context *ctx, const stk__file_calls *calls, const char *path,
                             const char *name, stk_error *err);
/* Remove a file; one that is not there is removed. */
stk_status stk__durable_remove(stk_context *ctx, const stk__file_calls *calls, const char *path,
                               stk_error *err);
/* Remove unfinished files of processes that are gone from a folder. What cannot be is left. */
void stk__durable_sweep(const char *folder);
/* The folder of a path: "." where it names none. NULL: no memory. */
char *stk__durable_folder_of(stk_context *ctx, const char *path);
/* Fill `err` after a call on `path` failed: "cannot VERB 'PATH': reason and remedy". */
stk_status stk__durable_fail(stk_error *err, const char *verb, const char *path, int system_error);

#endif
