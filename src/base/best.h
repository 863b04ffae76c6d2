/* where the best checkpoint of a run is, as another one tells it */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_BEST_H
#define STK_SRC_BASE_BEST_H

#include "base/base.h"

/* The folder that a path or URL lies in; NULL: there is none in it, or no memory. */
char *stk__best_folder(stk_context *ctx, const char *path);
/* Whether a path or URL is that of a plain name in a folder. */
bool stk__best_in(stk_context *ctx, const char *folder, const char *path);
/* Whether it lies in the folder of another run of the same logs: `folder` is
 * LOGS/version_1/checkpoints, and `path` LOGS/version_0/checkpoints/NAME. */
bool stk__best_of_sibling(stk_context *ctx, const char *folder, const char *path);
/* Whether two paths or URLs are one folder that is there, or are spelt alike. */
bool stk__best_is_folder(stk_context *ctx, const char *a, const char *b);
/* How the folder `other` is spelt where `folder` is: as that one where they are one, as LOGS of
 * `folder` says where it is of another run there, else as it is. NULL: no memory. */
char *stk__best_spelt(stk_context *ctx, const char *folder, const char *other);

/* What the checkpoint `path` says of the best: its name where both lie in one folder, what follows
 * LOGS/ where it is of such another run, else NULL, as without memory. */
char *stk__best_told(stk_context *ctx, const char *path, const char *best);
/* Back from that to the best; NULL: nothing of the kind was told, or no memory. */
char *stk__best_found(stk_context *ctx, const char *path, const char *told);

#endif
