/* key, range -> bytes */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_STORE_H
#define STK_SRC_STORE_STORE_H

#include <sys/stat.h>

#include <stoker/store.h>

#include "base/base.h"

extern const stk_store_ops stk__store_file, stk__store_mem, stk__store_slow;
/* Whether an outsider's table of a store is whole. */
stk_status stk__store_kind_check(const void *table, stk_error *err);

/* Limits of a store, filled also where its driver says nothing. */
void stk__store_limits(stk_store *store, stk_store_limits *out);

/* Write a whole object: it is there when this returns STK_OK, else what was there before. Errors:
 * STK_ENOTSUP of a store that takes none. */
stk_status stk__store_put(stk_store *store, const char *key, const void *data, uint64_t length,
                          stk_error *err);

/* The folder of a store that is a local folder, which stays the store's; -1: it is another kind.
 * (file_list.c) */
int stk__file_root(const stk_store *store);
/*
 * Of such a store: open a path below its folder, and look at one, as a key would be. -1: errno;
 * EXDEV where a link leads out of the folder and the store was not opened with follow_links.
 * (file_list.c)
 */
int stk__file_open_below(const stk_store *store, const char *path, int flags);
int stk__file_stat_below(const stk_store *store, const char *path, struct stat *st);
/* Links may lead out of its folder; before its first use. Other stores than folders have none. */
bool stk__file_follows(const stk_store *store);
void stk__file_follow(stk_store *store);
/* The one object that the URL of the store named, which may be a link to anywhere. */
stk_status stk__file_name(stk_store *store, const char *key, stk_error *err);

/*
 * A key names an object below the root of its store and nothing else: relative, without "..",
 * shorter than STK_MAX_OBJECT_KEY. The empty key is the root itself. (url.c)
 */
stk_status stk__key_check(const char *key, stk_error *err);

/* ---- The pure read planner (plan.c): no I/O, no clock, no allocation but the arrays given ---- */

/* A range somebody wants. */
typedef struct stk__want {
    uint64_t object, offset, length;
    uint32_t tag; /* the caller's number of it */
} stk__want;

/* One read to send: bytes [offset, offset + length) of an object; it serves wants[first .. first +
 * count). */
typedef struct stk__request {
    uint64_t object, offset, length;
    uint32_t first, count;
} stk__request;

/*
 * Turn wants into requests: sorts `wants` by (object, offset, length), de-duplicates, joins what
 * lies at most `coalesce_gap` apart, and never makes a joined request longer than `max_read`. A
 * want that is itself longer than `max_read` becomes a request of its own (the sender splits it
 * with stk__plan_split()). Overlapping wants of one object always share a request when the union
 * fits `max_read`.
 *
 * `requests` has room for `n`. Returns their number. A want of length 0 belongs to no request: such
 * wants come first after sorting, and `first` of the first request counts them.
 */
size_t stk__plan_reads(stk__want *wants, size_t n, const stk_store_limits *limits,
                       stk__request *requests);
/* Number of pieces, and piece `i`, of a range split by max_read (0: one piece). */
size_t stk__plan_pieces(uint64_t length, uint64_t max_read);
void stk__plan_split(uint64_t offset, uint64_t length, uint64_t max_read, size_t i,
                     uint64_t *piece_offset, uint64_t *piece_length);

#endif
