/* bytes to be kept -> whether there is room for them, and the files that they go to */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_CACHE_ROOM_H
#define STK_SRC_STORE_CACHE_ROOM_H

#include "store/cache/cache.h"

/*
 * The folder of a cache, for all stores and processes that use it. Its file "state" counts what is
 * used and what is granted: an opening takes grants before it writes, so that all together stay
 * within `size`, whatever ends when. What a killed process was granted comes back when files are
 * counted anew, by the first that opens a cache that nobody has open. Locks are those of open files
 * (F_OFD_SETLK), which end with their holder.
 *
 * Of an opening one thread takes and charges; the rest may be called by any.
 */
typedef struct stk__cache_room {
    stk_context *ctx;
    int folder;                   /* the cache's own; -1: nothing is read or kept */
    int state;                    /* -1: nothing is kept */
    uint64_t size, store;         /* bytes at most; hash of this opening's store */
    uint64_t held;                /* granted to this opening, */
    atomic_uint_fast64_t spent;   /* and used of it since that was last settled */
    atomic_uint_fast64_t sulk_ns; /* it is full, and nothing can be evicted before */
    uint64_t sulk;                /* for how long that was so */
    bool alone; /* nobody else had it open then, and the counts have not been looked at since */
    atomic_uint_fast64_t evicted;   /* files, by this opening */
    uint64_t doubt;                 /* bytes that less may be used than is known */
    unsigned at_folder, at_version; /* of a store: where the next eviction goes on */
    atomic_bool warned;
    /* Unix time before which files of this store were used last that are not used any more. */
    atomic_int_least64_t unused_ns;
} stk__cache_room;

/* What cannot be used is warned of, and not used. */
void stk__cache_room_open(stk_context *ctx, const stk__cache_options *options, uint64_t store,
                          stk__cache_room *out);
void stk__cache_room_close(stk__cache_room *room);
/* Have so many bytes granted, evicting what nobody needs. False: there is no room now. */
bool stk__cache_room_take(stk__cache_room *room, uint64_t bytes);
/* So many bytes are used of what was granted. */
void stk__cache_room_charge(stk__cache_room *room, uint64_t bytes);
/* Something cannot be done for this errno: said once. */
void stk__cache_room_warn(stk__cache_room *room, const char *what, int error);
/* Bytes that all use; 0: not known. */
uint64_t stk__cache_room_used(const stk__cache_room *room);
/* Whether any opening, of any process, is of this store. */
bool stk__cache_store_open(const stk__cache_room *room, uint64_t store);

/* Open the file of an object to write it, made where it is missing unless the cache is full. -1:
 * errno. */
int stk__cache_file_open(stk__cache_room *room, const stk__cache_place *place);
/* Give it a head where it has not its own, and then nothing else. 0 or errno. */
int stk__cache_file_begin(int fd, const stk__cache_place *place);
/* Bytes that a file takes, with those that its map may take once the file system writes it out:
 * only then has ext4 a block for every 340 pieces of a file. */
static inline uint64_t stk__cache_file_bytes(const struct stat *st)
{
    const uint64_t bytes = (uint64_t)st->st_blocks * 512;

    return bytes ? bytes + 4096 + bytes / 256 : 0;
}
/* Give up what the file of an object takes, and its name. */
void stk__cache_file_remove(const stk__cache_room *room, const char *path);
/* The file of an object, if it is there, is used now. */
void stk__cache_file_touch(const stk__cache_room *room, const char *path);
/* Give up what a file of an open folder takes, and its name. */
void stk__cache_file_drop(int folder, const char *name);
/* Lock bytes for this opening of a file. False: errno; EAGAIN or EACCES where another has them. */
bool stk__cache_lock(int fd, short type, uint64_t from, uint64_t length);

/*
 * What all files take, which looks at each; and evict so many bytes of those that nobody needs, and
 * some more: the bytes of the files that went, *map of which may have come to them after they were
 * charged (evict.c). Only whoever has the lock of the counts calls them.
 */
uint64_t stk__cache_count(stk__cache_room *room);
uint64_t stk__cache_evict(stk__cache_room *room, uint64_t excess, uint64_t *map);

#endif
