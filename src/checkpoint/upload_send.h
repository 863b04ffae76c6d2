/* one file -> an object that is marked as whole */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_UPLOAD_SEND_H
#define STK_SRC_CHECKPOINT_UPLOAD_SEND_H

#include <stdatomic.h>

#include "store/store.h"

/* Of the name of a checkpoint's mark, behind the checkpoint's own. */
#define STK__UPLOAD_MARK ".complete"

/* What sends, on one thread. */
typedef struct stk__upload_sender {
    stk_context *ctx;
    stk__put_place place;       /* of what was put last */
    atomic_uint_fast64_t moved; /* pieces that were taken for the first time */
    atomic_bool cancel;         /* end what is at work */
} stk__upload_sender;

void stk__upload_sender_init(stk__upload_sender *s, stk_context *ctx);
static inline bool stk__upload_sender_canceled(stk__upload_sender *s)
{
    return atomic_load_explicit(&s->cancel, memory_order_relaxed);
}
static inline void stk__upload_sender_advance(stk__upload_sender *s)
{
    atomic_fetch_add_explicit(&s->moved, 1, memory_order_relaxed);
}

/* Say that an object is whole. */
stk_status stk__upload_mark(stk__put_place *place, const char *url, const char *mark,
                            stk_error *err);
/* Put a file, look that it is there as long as it is here, and mark it. *most: bytes that earlier
 * tries have come to. */
stk_status stk__upload_file(stk__upload_sender *s, const char *path, const char *url,
                            const char *mark, uint64_t *most, stk_error *err);
/* The same of an object that is there, and marked. */
stk_status stk__upload_copy(stk__upload_sender *s, const char *from, const char *url,
                            stk_error *err);
/* What became of a file that a run left. */
typedef enum stk__upload_fate {
    STK__UPLOAD_SENT,    /* it is there, or was */
    STK__UPLOAD_DAMAGED, /* it is no whole checkpoint */
    STK__UPLOAD_OLD,     /* another was put in its place, or beside it, since */
} stk__upload_fate;

/* Put a file as stk__upload_file() does, which a run left that did something last at `changed_ns`:
 * only where it is whole, and where nobody has put a checkpoint into its folder since. */
stk_status stk__upload_left(stk__upload_sender *s, const char *path, const char *url,
                            const char *mark, int64_t changed_ns, uint64_t *most,
                            stk__upload_fate *fate, stk_error *err);
stk_status stk__upload_remove(stk__upload_sender *s, const char *url, stk_error *err);

#endif
