/* path, range -> bytes: the parts of the file store */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_FILE_H
#define STK_SRC_STORE_FILE_H

#include <sys/stat.h>

#include "base/aio.h"
#include "base/durable.h"
#include "store/store.h"

#define STK__FILE_MAX_OPEN 256 /* descriptors kept open; fewer where the process may have few */
#define STK__FILE_BUCKETS  512
#define STK__FILE_SWEPT    64 /* folders remembered as cleared of what killed writers left */

/* How a small read of a file is tried without the I/O engine. */
enum {
    STK__FILE_NOWAIT, /* by preadv2(RWF_NOWAIT), which fails rather than wait for a disk */
    STK__FILE_MEMORY, /* by pread(): the file system is memory and never waits */
    STK__FILE_ENGINE  /* not at all */
};

/* An open file. All but `mode` is guarded by the store's mutex; key and fd stand still while it is
 * pinned. */
typedef struct stk__file_entry stk__file_entry;
struct stk__file_entry {
    stk__file_entry *newer,
        *older;            /* by last use, while listed; `older` also links the free ones */
    stk__file_entry *next; /* in its bucket */
    uint64_t hash;
    char *key; /* kept for the next user of the entry: few allocations, then none */
    size_t key_room;
    dev_t device;
    ino_t inode;
    int fd;
    uint32_t pins; /* reads that use it; 1 also while it is being opened */
    bool listed;   /* found by its key; else it is closed with its last pin */
    atomic_int mode;
};

/* A read on its way through the engine. */
typedef struct stk__file_slot stk__file_slot;
/* Slots are made in blocks and never given back before the store closes. */
typedef struct stk__file_block stk__file_block;
typedef struct stk__file_map stk__file_map;

typedef struct stk__file_store {
    stk_store base;
    int root;                     /* the folder */
    bool mapping;                 /* `mmap` was asked for */
    bool follow;                  /* links may lead out of `root`: `follow_links` was asked for */
    const stk__file_calls *calls; /* with which files are written */
    char *path;                   /* of `root`, for messages about what is written */
    char *named;           /* the object that the URL itself named, link or not; NULL: a folder */
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t engine_made;
    bool making_engine;
    stk__aio *engine; /* made by the first read that needs it, or at the start where it was asked
                       * for by name; never changes afterwards */

    stk__file_entry *newest, *oldest, *free_entries;
    uint32_t limit;              /* entries that may be in use */
    uint32_t num_used, num_idle; /* entries in use; those of them that are open without a pin */
    stk__file_entry *buckets[STK__FILE_BUCKETS];
    stk__file_entry entries[STK__FILE_MAX_OPEN];

    stk_read *waiting, *last_waiting; /* for a descriptor, in order; linked by driver[1] */
    atomic_uint num_waiting; /* written under the mutex; read without, as a hint after an unpin */
    bool resuming;           /* a thread is starting them */
    stk__file_slot *free_slots;
    stk__file_block *blocks;
    stk__file_map *maps[STK__FILE_BUCKETS];
    uint64_t swept[STK__FILE_SWEPT]; /* hashes of folders, each at its place; 0: none */
} stk__file_store;

/* ---- Open files (file_cache.c) ---- */

void stk__file_cache_init(stk__file_store *store);
void stk__file_cache_release(stk__file_store *store);
/*
 * Pin the open file of read->key. STK_EAGAIN: there is no descriptor now and other reads hold some;
 * the read has been queued in `waiting`. Failures: the status and errno of opening it. Opening
 * waits for metadata of the file system, the one thing here that may wait for storage.
 */
stk_status stk__file_take(stk__file_store *store, stk_read *read, stk__file_entry **out,
                          int *system_error);
/* Pin the file of a key if it is open already; else NULL. */
stk__file_entry *stk__file_take_open(stk__file_store *store, const char *key);
/* Give up a pin. Returns a descriptor to close once the mutex is free, or -1. */
int stk__file_drop_locked(stk__file_store *store, stk__file_entry *entry);
/* Whether a waiting read could get a descriptor. */
bool stk__file_available_locked(const stk__file_store *store);
/* Forget the open file of a key, unless it is the file of `st` (NULL: in any case). */
void stk__file_forget(stk__file_store *store, const char *key, const struct stat *st);
/* Open a key, giving up idle descriptors when there are too few. -1: errno. */
int stk__file_open_key(stk__file_store *store, const char *key, int flags);
/* What tells one version of a file from another. */
uint64_t stk__file_identity(const struct stat *st);
/* Whether to try again after opening something failed with this errno: idle descriptors were given
 * up. */
bool stk__file_try_again(stk__file_store *store, int error);

/* ---- The other verbs (file_list.c, file_put.c) ---- */

/* Fill `err` after a system call failed; `what` is the verb: "cannot VERB 'KEY': reason". */
stk_status stk__file_fail(const stk__file_store *store, stk_error *err, const char *what,
                          const char *key, int system_error);
stk_status stk__file_stat(stk_store *store, const char *key, const stk_store_call *call,
                          stk_object_info *out, stk_error *err);
stk_status stk__file_list(stk_store *store, const char *prefix, const stk_store_call *call,
                          stk_list_fn *each, void *user, stk_error *err);
stk_status stk__file_put(stk_store *store, const char *key, const stk_store_call *call,
                         stk_put **out, stk_error *err);
stk_status stk__file_remove(stk_store *store, const char *key, const stk_store_call *call,
                            stk_error *err);
stk_status stk__file_copy(stk_store *store, const char *from, const char *to,
                          const stk_store_call *call, stk_error *err);
stk_status stk__file_map_object(stk_store *store, const char *key, const void **data,
                                uint64_t *size);
void stk__file_unmap_all(stk__file_store *store);

#endif
