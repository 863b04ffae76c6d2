/* key, range -> bytes */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_STORE_H
#define STK_SRC_STORE_STORE_H

#include <sys/stat.h>

#include <stoker/store.h>

#include "base/base.h"
#include "base/url.h"

extern const stk_store_ops stk__store_file, stk__store_mem, stk__store_slow, stk__store_cache,
    stk__store_http, stk__store_https, stk__store_s3, stk__store_gs;
#define STK__STORE_OF_CONTAINER(name) extern const stk_store_ops stk__store_##name;
STK__CONTAINERS(STK__STORE_OF_CONTAINER)
/* Whether an outsider's table of a store is whole. */
stk_status stk__store_kind_check(const void *table, stk_error *err);

/* Whether a driver's table reaches as far as `member`, and has it. */
#define STK__STORE_HAS(ops, member)                                                                \
    ((ops)->struct_size >= offsetof(stk_store_ops, member) + sizeof((ops)->member) && (ops)->member)

/* Limits of a store, filled also where its driver says nothing. */
void stk__store_limits(stk_store *store, stk_store_limits *out);

/* Say what a listing said of an object, which may have been kept. (store.c) */
void stk__store_know(stk_store *store, const char *key, const stk_object_info *info);
/* Whether an object is another one now; `far`: its identity is of its content. */
bool stk__store_is_other(const stk_object_info *was, const stk_object_info *is, bool far);
/* The folder of a cache, and a hash of what it is a cache of; false: it is no such store, or keeps
 * nothing. (cache/driver.c) */
bool stk__cache_folder(const stk_store *store, const char **folder, uint64_t *of);

/* A range that can be had without waiting; false: it is to be asked for by a fetcher, and `data`
 * holds whatever. (store.c) */
bool stk__store_read_now(stk_store *store, const char *key, uint64_t offset, uint64_t length,
                         void *data);

/* What the reads of a context over the network took so far. Of stores that are open: after the last
 * was closed it begins at zero. Any thread. NULL in a build without libcurl. (http/counts.c) */
extern void (*const stk__network_get)(stk_context *ctx, stk_network *out);

/* ---- Calls that wait (store.c) ---- */

extern const stk_store_call stk__store_call_none;
/* Take over a caller's wishes; NULL: those of a call that may take `patience_ns` (0: for ever). */
stk_status stk__store_call_take(const stk_store_call *theirs, uint64_t patience_ns,
                                stk_store_call *out, stk_error *err);
/* STK_ECANCELED or STK_ETIMEDOUT once the caller does not want to wait any longer. */
stk_status stk__store_call_check(const stk_store_call *call, const char *key, stk_error *err);

/*
 * What a key of a store is: an object, a folder of objects, or nothing. The one way to ask for it.
 * Only what is known not to be there is nothing: a store that cannot say fails.
 */
typedef enum stk__presence { STK__IS_NOTHING, STK__IS_OBJECT, STK__IS_FOLDER } stk__presence;
stk_status stk__store_look(stk_store *store, const char *key, stk__presence *out, stk_error *err);

/*
 * As stk_store_open(), of the longest prefix of the path that is a folder or an object. `rest` is
 * the way on below an object, without slashes at its ends: "a/b" of "data.h5/a/b", where data.h5 is
 * one; "" where the whole was opened. `key` NULL: folders alone, and no rest.
 */
stk_status stk__store_split(stk_context *ctx, const char *url, stk_store **out, char *key,
                            size_t key_size, char *rest, size_t rest_size, stk_error *err);
/*
 * Where a URL names what lies in a container without saying so, "x.zip/a?q", *url becomes the one
 * that says so, "zip:x.zip!/a?q", and the old one is freed; one that names something else, or
 * nothing, stays. (container_enter.c)
 */
stk_status stk__container_enter(stk_context *ctx, char **url, stk_error *err);
/*
 * Whether a part of a file in a container is had by unpacking more than is asked for: `bytes` are
 * kept then, of at most `most` that the store keeps (option unpacked_cache). False of stores that
 * are no containers. (container.c)
 */
bool stk__container_unpacks(stk_store *store, const char *key, uint64_t *bytes, uint64_t *most);
/* STK_ENOENT for a rest that its reader does not take. */
stk_status stk__store_no_rest(const char *url, const char *key, const char *rest, stk_error *err);

/*
 * From the first to the last of these, which nest, stores of other machines keep what they saw of
 * objects and are not asked for it again (opening.h). Around whatever opens a URL.
 */
void stk__opening_begin(stk_context *ctx);
void stk__opening_end(stk_context *ctx);
/*
 * Ask for some objects at once, for those who look at one after another while something is opened:
 * what is seen of them is kept, and nothing fails. Does nothing for stores that answer at once.
 * (expect.c)
 */
void stk__store_expect(stk_store *store, const char *const *keys, size_t count);

/* ---- Writing (put.c): the one way to write whole objects ---- */

/* Begin one; then its own write, and commit or abandon. `call` (never NULL) lives until then. */
stk_status stk__store_put_begin(stk_store *store, const char *key, const stk_store_call *call,
                                stk_put **out, stk_error *err);
/* Ends it and sets it to NULL, also on failure. */
stk_status stk__store_put_commit(stk_put **put, stk_error *err);
/* By when a put of so many bytes is to have ended, so that storage that hangs is named. */
uint64_t stk__store_put_deadline(uint64_t length);
/* Ends it without a trace and sets it to NULL. Accepts NULL. */
void stk__store_put_abandon(stk_put **put);
/* One that is not there is STK_ENOENT. */
stk_status stk__store_remove(stk_store *store, const char *key, stk_error *err);

/* End one without a last put and set it to NULL; its temporary file goes. (mirror.c) */
void stk__mirror_drop(stk_mirror **mirror);

struct stk__file_calls; /* base/durable.h */

/*
 * Where the object of a URL or path is written: the store of the folder, which is made where stores
 * have folders and it is missing, and the key in it. A plain path means itself, also where it looks
 * as if it had options. Stores of other machines stay open for the next object in the same folder.
 */
typedef struct stk__put_place {
    stk_context *context;
    const struct stk__file_calls *calls; /* of local files, for tests; NULL: the system's */
    stk_store *store;
    char *folder; /* of `store`, where that may serve the next object; NULL: it may not */
    char key[STK_MAX_OBJECT_KEY];
    uint64_t patience_ns; /* of a copy from another store, and more for its size; 0: 2 minutes */
    /* Whether copying, removing or putting ends early, and what it is asked with; NULL: never. */
    bool (*canceled)(void *user);
    void *user;
} stk__put_place;

stk_status stk__put_place_open(stk__put_place *place, const char *url, stk_error *err);
/* Nothing more is written now: a local folder is closed, as it may be moved meanwhile. */
void stk__put_place_rest(stk__put_place *place);
void stk__put_place_close(stk__put_place *place);

/* Open the store in which the keys of a folder of another store begin with `prefix`, of
 * STK_MAX_OBJECT_KEY bytes: "" or one that ends in '/'. The folder need not be there. */
stk_status stk__put_folder_open(stk_context *ctx, const char *url, stk_store **out, char *prefix,
                                stk_error *err);

/* Have `to` be the same bytes as `from`: another name where both lie in one folder that has names,
 * else a copy. */
stk_status stk__url_copy(stk__put_place *place, const char *from, const char *to, stk_error *err);
/* Remove an object; one that is not there is removed. */
stk_status stk__url_remove(stk__put_place *place, const char *url, stk_error *err);
/* Put bytes in place of what may be there. */
stk_status stk__url_put(stk__put_place *place, const char *url, const void *data, size_t size,
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
/* Open a folder, made with those above it where it is missing. `calls` NULL: the system's. (file.c)
 */
stk_status stk__file_open_folder(stk_context *ctx, const char *path,
                                 const struct stk__file_calls *calls, stk_store **out,
                                 stk_error *err);
/* The one object that the URL of the store named, which may be a link to anywhere. */
stk_status stk__file_name(stk_store *store, const char *key, stk_error *err);

/*
 * A key names an object below the root of its store and nothing else: relative, without "..",
 * shorter than STK_MAX_OBJECT_KEY. The empty key is the root itself. (url.c)
 */
stk_status stk__key_check(const char *key, stk_error *err);
/* prefix + name, where a key holds both. */
stk_status stk__key_below(const char *prefix, const char *name, char key[STK_MAX_OBJECT_KEY],
                          stk_error *err);

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
/* The same where objects lie in several stores: `limits_of` gives those of an object. */
typedef void stk__plan_limits_fn(void *user, uint64_t object, stk_store_limits *out);
size_t stk__plan_reads_of(stk__want *wants, size_t n, stk__plan_limits_fn *limits_of, void *user,
                          stk__request *requests);
/* Number of pieces, and piece `i`, of a range split by max_read (0: one piece). */
size_t stk__plan_pieces(uint64_t length, uint64_t max_read);
void stk__plan_split(uint64_t offset, uint64_t length, uint64_t max_read, size_t i,
                     uint64_t *piece_offset, uint64_t *piece_length);

#endif
