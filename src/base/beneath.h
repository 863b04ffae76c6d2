/* folder, path -> descriptor: what lies below the folder, and nothing outside of it */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_BENEATH_H
#define STK_SRC_BASE_BENEATH_H

#include <sys/stat.h>

#include "base/base.h"

/*
 * Paths that come from outside, out of lists, metadata and trees, are opened by these alone. The
 * path is relative and may hold links, as long as none of them leads out of `folder` on its way; an
 * absolute link counts as leading out wherever it ends. "" is the folder itself.
 */

/* As openat() with O_CLOEXEC. -1: errno; EXDEV when the path leads out. */
int stk__open_beneath(int folder, const char *path, int flags, mode_t mode);
/* What the path leads to. -1: errno; EXDEV when it leads out. */
int stk__stat_beneath(int folder, const char *path, struct stat *st);
/* Fail after EXDEV, naming the link and the option that allows it. STK_EACCES. */
stk_status stk__beneath_fail(int folder, const char *path, stk_stage stage, stk_error *err);

/*
 * The same without openat2(), for kernels before 5.6 and sandboxes that refuse it: links are
 * resolved one part after the other. Somebody who changes the tree meanwhile can lead it out.
 */
int stk__open_beneath_by_parts(int folder, const char *path, int flags, mode_t mode);

#endif
