/* one file -> an object that is marked as whole */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_UPLOAD_SEND_H
#define STK_SRC_CHECKPOINT_UPLOAD_SEND_H

#include <stdatomic.h>

#include "checkpoint/parts.h"

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

/* A call about so many bytes of what the place is open for. */
stk_store_call stk__upload_call(const stk__put_place *place, uint64_t length);
/* List the folder of the object that the place is open for; one that is not there has nothing. */
stk_status stk__upload_list_beside(const stk__put_place *place, stk_list_fn *each, void *user,
                                   stk_error *err);
/* The URL of an object's mark, the caller's; NULL: no memory. */
char *stk__upload_mark_url(stk_context *ctx, const char *url);
/* Say that an object is whole. */
stk_status stk__upload_mark(stk__put_place *place, const char *url, const char *mark,
                            stk_error *err);
/* Put a file, look that it is there as long as it is here, and mark it. *most: bytes that earlier
 * tries have come to. */
stk_status stk__upload_file(stk__upload_sender *s, const char *path, const char *url,
                            const char *mark, uint64_t *most, stk_error *err);
/* The same of an object that is there, and marked. */
stk_status stk__upload_copy_marked(stk__put_place *place, const char *from, const char *url,
                                   stk_error *err);
/* What became of a file that a run left. */
typedef enum stk__upload_fate {
    STK__UPLOAD_SENT,    /* it is there, or was */
    STK__UPLOAD_DAMAGED, /* it is no whole checkpoint */
    STK__UPLOAD_OLD,     /* another was put in its place, or beside it, since */
} stk__upload_fate;

/* A file that a run left, which did something last at `changed_ns`. */
typedef struct stk__upload_found {
    const char *path, *url, *mark;
    int64_t changed_ns;
} stk__upload_found;

/* Put it as stk__upload_file() does: only where it is whole, and where nobody has put a checkpoint
 * into its folder since. In *part which part it is. STK_EAGAIN: it is the first of several, and
 * others are missing; *next as in stk__parts_objects_look(). */
stk_status stk__upload_left(stk__upload_sender *s, const stk__upload_found *file,
                            stk__checkpoint_part *part, uint32_t *next, uint64_t *most,
                            stk__upload_fate *fate, stk_error *err);
/* Remove an object and its mark, which goes first. */
stk_status stk__upload_remove_marked(stk__put_place *place, const char *url, stk_error *err);

#endif
