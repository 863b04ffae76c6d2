/* names -> files that are removed, being written without a trace left, or found */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_FILES_H
#define STK_SRC_BASE_FILES_H

#include "base/base.h"

/* ---- Removal (remove.c): the only caller of unlink() and its like ---- */

/* Whether this names something in a folder itself: neither empty, "." nor "..", without '/'. */
bool stk__is_plain_name(const char *name);
/* Remove a file, or an empty folder, of an open folder. -1: errno; EINVAL: no plain name. What a
 * file told is removed only where the folder is the run's own and the run, or one before it, made
 * it. */
int stk__remove_file(int folder, const char *name);
int stk__remove_folder(int folder, const char *name);
/* The same by a path that no file told. */
int stk__remove_path(const char *path);
int stk__remove_folder_path(const char *path);

/* ---- Temporary files without a name (unnamed.c): nothing stays however the process ends ---- */

/* One in a folder. -1: errno. */
int stk__unnamed_open(const char *folder);
/* All of so many bytes, from a place on. 0 or errno; EIO: it ends before. */
int stk__unnamed_write(int fd, const void *data, uint64_t bytes, uint64_t at);
int stk__unnamed_read(int fd, void *data, uint64_t bytes, uint64_t at);

/* ---- Files that are being written (durable.c) ---- */

#define STK__TEMPORARY ".stoker-put-" /* how their names begin: no reader takes them for data */

bool stk__is_temporary(const char *name);
/* fsync() of a file or folder, and syncfs(). One that was interrupted has lost nothing and is
 * repeated; one that failed never is: the kernel may have dropped the pages. */
int stk__sync(int fd);
int stk__sync_all(int fd);

/* ---- Files of Stoker's own (beside.c) ---- */

/* The program or library `name`, as access() says that it can be used by (R_OK, X_OK): beside the
 * library or the command, as in a build's folder, and where it is installed. `path` has PATH_MAX
 * bytes. */
bool stk__find_beside(const char *name, int mode, char *path);

#endif
