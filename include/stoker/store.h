/* SPDX-License-Identifier: Apache-2.0 */
/* Stores: bytes by key and range, wherever they are. */
#ifndef STOKER_STORE_H
#define STOKER_STORE_H

#include <stoker/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_store stk_store;
typedef struct stk_read stk_read;

/**
 * One asynchronous read. The caller fills the first part and keeps the struct, the key and the
 * destination alive until `done` has run; a driver may use `driver` for its own bookkeeping.
 */
struct stk_read {
    uint32_t struct_size;
    const char *key; /**< object, relative to the store's root; '/' parts folders; no leading '/' */
    uint64_t offset; /**< first byte */
    uint64_t length; /**< bytes wanted; the object must hold all of them (else STK_ETRUNCATED) */
    void *data;      /**< destination, `length` bytes */
    uint64_t deadline_ns; /**< monotonic time after which it fails with STK_ETIMEDOUT; 0: none */
    bool needed_next; /**< the submitting thread goes on with these bytes: what takes no waiting is
                           best copied inside submit, however long it is */
    /** Called once, on any thread, also from inside submit; it must not block. `status` is STK_OK
     * only when every byte is there; then and only then `data` holds the bytes. */
    void (*done)(stk_read *read, stk_status status);
    void *user;
    int32_t system_error; /**< out: errno or protocol status behind a failure; 0: none */
    void *driver[6];
    /** The object may end within the range, or before it: that is STK_OK, and the driver writes
     * into `got` how many bytes there were. A driver that does not know this fails, with
     * STK_ETRUNCATED.
     */
    bool up_to;
    uint64_t got; /**< out: bytes in `data`; `length` beforehand */
    /** Whether it shall end early, for a driver that does the work within submit(), where cancel()
     * does not reach it; asked now and then, on the thread of submit(). NULL: never. */
    bool (*canceled)(const stk_read *read);
    /** Where a driver may name the failure of this read, before done(); NULL: nobody asks. */
    stk_error *error;
    /** The last `length` bytes are wanted, however long the object is: `offset` is not looked at.
     * Set only for drivers whose limits say `ends`. */
    bool from_end;
    uint64_t size; /**< out, of `from_end`: bytes of the object */
    /** Where a driver that knows it writes the identity of the object whose bytes these are, before
     * done(); NULL: nobody asks. */
    uint64_t *identity;
};

/** What is known of an object. Two reads of the same identity give the same bytes. */
typedef struct stk_object_info {
    uint32_t struct_size;
    uint64_t size;     /**< bytes */
    uint64_t identity; /**< hash of size and mtime, or of the ETag */
    int64_t mtime_ns;  /**< Unix time; 0: unknown */
    bool is_folder;
} stk_object_info;

/** Called for each object below a prefix, in no order. A status other than STK_OK ends the listing
 * with it. */
typedef stk_status stk_list_fn(void *user, const char *key, const stk_object_info *info);

/**
 * What a caller wants of a call that waits for storage: by when, and what may end it early. A store
 * gets one that is never NULL, of the library's size. Zero bytes mean: no such wish.
 */
typedef struct stk_store_call {
    uint32_t struct_size;
    uint64_t deadline_ns; /**< monotonic time after which it fails with STK_ETIMEDOUT; 0: none */
    /** Asked now and then while it waits; true ends it with STK_ECANCELED. NULL: never. Any thread.
     */
    bool (*canceled)(void *user);
    void *user;
    uint64_t length; /**< put: bytes that will be written, so that room can be set aside; 0:
                          unknown */
    bool no_replace; /**< put: STK_EEXIST where the object is there already, or is being written by
                          another such call, at once or at commit */
    bool bare; /**< stat: no bytes of the object are read next, so that none need come along */
} stk_store_call;

/** An object being written: nothing is visible before commit, which is durable when it returns. The
 * call that began it is valid until it ends. */
typedef struct stk_put stk_put;
typedef struct stk_put_ops {
    uint32_t struct_size;
    stk_status (*write)(stk_put *put, const void *data, size_t length, stk_error *err);
    /** Ends the put, also on failure; then the old object, if any, is untouched. */
    stk_status (*commit)(stk_put *put, stk_error *err);
    void (*abandon)(stk_put *put);
} stk_put_ops;
struct stk_put {
    const stk_put_ops *ops;
};

/** What the read planner should know of a store. */
typedef struct stk_store_limits {
    uint32_t struct_size;
    uint64_t coalesce_gap; /**< bytes worth reading unused to save a request */
    uint64_t max_read;     /**< bytes of one request at most; larger ones are split; 0: no limit */
    uint32_t io_depth;     /**< concurrent requests that serve it well */
    bool tries_again;      /**< it tries again by itself what may pass: nobody else is to */
    bool ends;             /**< it knows stk_read.from_end */
} stk_store_limits;

/** The seam between storage and everything above: key + range -> bytes. `err` is never NULL: a
 * caller without one gets it from the library, so that a driver need not ask. */
typedef struct stk_store_ops {
    uint32_t struct_size; /* first, for ever */
    const char *name;     /* URL scheme */
    const char *doc;      /* one line for `stoker info` */
    /* (optional) What can be said of it by name; NULL: nothing, and the query of its URL is its
     * own. A key of a query that the table does not have is refused, but for what a wrapper passes
     * on. */
    const stk_option_table *options;
    /* `options` is the struct of the table, filled from `stores` of the context and from the query
     * of the URL; strings in it are to be copied. `url` has its scheme, and of its query what the
     * table does not have. STK_ENOENT for one that names no folder: the folder above it is tried,
     * and the last part is a key. */
    stk_status (*open)(stk_context *ctx, const char *url, const void *options, stk_store **out,
                       stk_error *err);
    void (*close)(stk_store *store);
    /* On failure done() is not called and the caller keeps `read`; on success it is called exactly
     * once, also after cancel(), and perhaps before submit() returns. Any thread. Does not wait for
     * storage. */
    stk_status (*submit)(stk_store *store, stk_read *read);
    /* Ask for an early done(STK_ECANCELED); a read that is past stopping completes as it would
     * have. The read stays valid until both done() and cancel() have returned; a cancel() before
     * submit() has returned may find nothing. */
    void (*cancel)(stk_store *store, stk_read *read);
    stk_status (*stat)(stk_store *store, const char *key, const stk_store_call *call,
                       stk_object_info *out, stk_error *err);
    /* (optional) NULL: the store cannot list, write or remove. */
    stk_status (*list)(stk_store *store, const char *prefix, const stk_store_call *call,
                       stk_list_fn *each, void *user, stk_error *err);
    stk_status (*put)(stk_store *store, const char *key, const stk_store_call *call, stk_put **out,
                      stk_error *err);
    stk_status (*remove)(stk_store *store, const char *key, const stk_store_call *call,
                         stk_error *err);
    /* (optional) The whole object where it already is in memory, for as long as the store is
     * open; STK_ENOTSUP where it does not. NULL: never. Readable for 64 bytes beyond its end. */
    stk_status (*map)(stk_store *store, const char *key, const void **data, uint64_t *size);
    /* (optional) NULL: the limits of a local file. */
    void (*limits)(stk_store *store, stk_store_limits *out);
    /* (optional) The object `to` becomes the same bytes as `from`, all or nothing, durably. NULL,
     * or STK_ENOTSUP: it is read and put. */
    stk_status (*copy)(stk_store *store, const char *from, const char *to,
                       const stk_store_call *call, stk_error *err);
    /* (optional) Give a range whose bytes are in memory, as those of a file that was read before.
     * Any failure: they cannot be had without waiting, `data` holds whatever, and submit() is asked
     * for them. Does not wait. Any thread. NULL: never. */
    stk_status (*read_now)(stk_store *store, const char *key, uint64_t offset, uint64_t length,
                           void *data);
    /* (optional) Print what lies under a key, "" for all of it, in lines of "name: value", and what
     * reading it costs. NULL: there is nothing to say but what stat() says. */
    stk_status (*describe)(stk_store *store, const char *key,
                           void (*line)(void *user, const char *name, const char *value),
                           void *user, stk_error *err);
    /* (optional) What a listing said of an object, perhaps a while ago: reads of it hold to that
     * version, as to one that stat() saw, and fail with STK_ECHANGED where it is another now. Does
     * not wait. Any thread. NULL: reads take what is there. */
    void (*know)(stk_store *store, const char *key, const stk_object_info *info);
} stk_store_ops;

/** Every store begins with this. */
struct stk_store {
    const stk_store_ops *ops;
    stk_context *context;
};

/**
 * Open the store of a URL: `file:///DIR`, a plain path, `mem://NAME`, `slow+URL?latency=5ms`, ...
 * A URL that names a file opens its folder: `*key` (if not NULL) is the file's name in it, "" for a
 * folder; it is written into `key` of `key_size` bytes. Its options are those of
 * `stk_context_options.stores` and of the query; credentials in a URL are refused. Blocks. Errors:
 * STK_ENOENT, STK_EACCES, STK_ENOTSUP (unknown scheme), STK_EINVAL (options, credentials), ...
 */
STK_API STK_NODISCARD stk_status stk_store_open(stk_context *context, const char *url,
                                                stk_store **out, char *key, size_t key_size,
                                                stk_error *err);
/** Close and set *store to NULL. Accepts NULL. Waits for reads in flight, which are canceled. */
STK_API void stk_store_close(stk_store **store);

/** Read a range and wait for it. For opening things, not for the hot path. `deadline_ns` as in
 * stk_read. */
STK_API STK_NODISCARD stk_status stk_store_read(stk_store *store, const char *key, uint64_t offset,
                                                uint64_t length, void *data, stk_error *err);
/** Size and identity of an object. `call` NULL: it may take 2 minutes. Blocks. */
STK_API STK_NODISCARD stk_status stk_store_stat(stk_store *store, const char *key,
                                                const stk_store_call *call, stk_object_info *out,
                                                stk_error *err);
/** List what is below a prefix ("" for all), folders included, one level. `call` NULL: it may
 * take an hour. Blocks. */
STK_API STK_NODISCARD stk_status stk_store_list(stk_store *store, const char *prefix,
                                                const stk_store_call *call, stk_list_fn *each,
                                                void *user, stk_error *err);
/**
 * Print what lies under a key, "" for all that the store holds, and what reading it costs, one
 * "name: value" at a time. Blocks. Errors: STK_ENOTSUP (a store that has nothing to say),
 * STK_ENOENT, ...
 */
STK_API STK_NODISCARD stk_status stk_store_describe(stk_store *store, const char *key,
                                                    void (*line)(void *user, const char *name,
                                                                 const char *value),
                                                    void *user, stk_error *err);
/**
 * Write a whole object: durable when this returns STK_OK, else what was there before is untouched.
 * The bytes are copied. `call` NULL: no deadline. Blocks. Errors: STK_ENOTSUP (a store that cannot
 * be written), STK_EEXIST (no_replace), STK_ENOSPC, STK_EACCES, ...
 */
STK_API STK_NODISCARD stk_status stk_store_put(stk_store *store, const char *key, const void *data,
                                               uint64_t length, const stk_store_call *call,
                                               stk_error *err);

/**
 * Begin to write the object of a URL or path, piece by piece: `(*out)->ops` has write(), and
 * commit() or abandon(), which ends it. The folder of a local file is made where it is missing; a
 * plain path is taken literally. `call` as in stk_store_put(). Thread: any, one at a time.
 * Blocks. Errors: as stk_store_put() and stk_store_open().
 */
STK_API STK_NODISCARD stk_status stk_put_open(stk_context *context, const char *url,
                                              const stk_store_call *call, stk_put **out,
                                              stk_error *err);
/**
 * The same of bytes that are all there: durable when this returns STK_OK, else what was there
 * before is untouched. `data` may be NULL where `size` is 0. Thread: any. Blocks. Errors: as
 * stk_put_open().
 */
STK_API STK_NODISCARD stk_status stk_put_bytes(stk_context *context, const char *url,
                                               const void *data, size_t size,
                                               const stk_store_call *call, stk_error *err);

/** A local file that grows, as a log does, whose bytes an object of a store is to have. */
typedef struct stk_mirror stk_mirror;

/**
 * Have a file for the object of a URL: of a path or file: URL that file itself, which need not be
 * there; for every other store a temporary one, which begins with what the object holds already.
 *
 * Ownership: *out is the caller's, ended with stk_mirror_close(). Thread: any, one at a time.
 * Blocks. Errors: those of stk_store_open() and of reading; STK_EINVAL for the URL of a folder.
 */
STK_API STK_NODISCARD stk_status stk_mirror_open(stk_context *context, const char *url,
                                                 stk_mirror **out, stk_error *err);
/** The path of the file, while the mirror is open. */
STK_API const char *stk_mirror_path(const stk_mirror *mirror);
/**
 * Put the file as it is, whole, where it has grown: at once with `now`; else where the last time is
 * 30 s ago, and a failure is then a warning, once, and tried again. Does nothing for a local file.
 * Blocks. Errors: as stk_store_put().
 */
STK_API STK_NODISCARD stk_status stk_mirror_flush(stk_mirror *mirror, bool now, stk_error *err);
/**
 * Put it for the last time where it has grown, remove the temporary file, and set *mirror to NULL.
 * Where that fails the file stays, and a message says where. Accepts NULL. Errors: as
 * stk_store_put().
 */
STK_API stk_status stk_mirror_close(stk_mirror **mirror, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
