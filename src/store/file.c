/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a local folder; keys are paths below it. Small reads of cached pages end inside
 * submit; all others go to the I/O engine. Nothing is mapped unless `mmap=true` is asked for.
 */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/options.h"
#include "store/url.h"

#define INLINE_MAX                                                                                 \
    65536 /* bytes copied in the submitting thread when they lie in the page cache                 \
           */
#define ENGINE_DEPTH 64
#define BLOCK_SLOTS  32

struct stk__file_slot {
    stk__aio_read aio;
    stk__file_store *store;
    stk__file_slot *next; /* of the free ones */
    stk_read *read;       /* NULL: ended */
    stk__file_entry *entry;
    uint32_t cancelers;   /* threads that still look at `aio` to cancel it: not to be used again */
    bool submitted, stop; /* known to the engine; to be canceled as soon as it is */
    uint64_t uses;        /* tells one use of the slot from the next */
};

struct stk__file_block {
    stk__file_block *next;
    stk__file_slot slots[BLOCK_SLOTS];
};

typedef struct file_options {
    uint32_t struct_size;
    bool mmap, follow_links;
} file_options;

static const stk_option file_option_list[] = {
    {.name = "mmap",
     .type = STK_OPTION_BOOL,
     .offset = offsetof(file_options, mmap),
     .initial = "false",
     .doc = "Map files into memory where a reader can use that. A file that is truncated meanwhile "
            "then ends the process with SIGBUS."},
    {.name = "follow_links",
     .type = STK_OPTION_BOOL,
     .offset = offsetof(file_options, follow_links),
     .initial = "false",
     .doc = "Follow symbolic links that lead out of the folder, or that are absolute; else they "
            "are errors. The folder itself may be a link."},
};

static const stk_option_table file_option_table = {
    .name = "file",
    .doc = "The store of a local folder.",
    .struct_size = sizeof(file_options),
    .options = file_option_list,
    .count = STK_COUNT(file_option_list),
};

/* ---- Reading ---- */

static void slot_done(stk__aio_read *aio_read, stk_status status, int system_error);
static void resume_waiting(stk__file_store *store);

static void drop(stk__file_store *store, stk__file_entry *entry)
{
    pthread_mutex_lock(&store->mutex);
    int fd = stk__file_drop_locked(store, entry);
    pthread_mutex_unlock(&store->mutex);
    if (fd >= 0)
        close(fd);
}

/* Give up a pin, and tell how the read ended. */
static void finish(stk__file_store *store, stk_read *read, stk__file_entry *entry,
                   stk_status status, int system_error)
{
    struct stat st;

    /* After the bytes: a file that was changed meanwhile is another one. */
    if (entry && read->identity && fstat(entry->fd, &st) == 0)
        *read->identity = stk__file_identity(&st);
    if (entry)
        drop(store, entry);
    read->system_error = system_error;
    read->done(read, status);
}

/* The engine; made once, by the first thread that needs it, with no lock held; or when the store is
 * opened, where it was asked for by name. */
static stk_status get_engine(stk__file_store *store, stk__aio **out)
{
    stk_context *ctx = store->base.context;
    stk_status status = STK_OK;

    pthread_mutex_lock(&store->mutex);
    while (store->making_engine)
        pthread_cond_wait(&store->engine_made, &store->mutex);
    *out = store->engine;
    if (!*out) {
        store->making_engine = true;
        pthread_mutex_unlock(&store->mutex);
        status = stk__aio_create(ctx, stk__context_io_engine(ctx), ENGINE_DEPTH, out, NULL);
        pthread_mutex_lock(&store->mutex);
        store->engine = *out;
        store->making_engine = false;
        pthread_cond_broadcast(&store->engine_made);
    }
    pthread_mutex_unlock(&store->mutex);
    return status;
}

static stk__file_slot *get_slot(stk__file_store *store)
{
    pthread_mutex_lock(&store->mutex);
    stk__file_slot *slot = store->free_slots;
    if (slot)
        store->free_slots = slot->next;
    pthread_mutex_unlock(&store->mutex);
    if (slot)
        return slot;
    stk__file_block *block = stk__calloc(store->base.context, 1, sizeof *block);
    if (!block)
        return NULL;
    pthread_mutex_lock(&store->mutex);
    block->next = store->blocks;
    store->blocks = block;
    for (size_t i = 1; i < BLOCK_SLOTS; i++) {
        block->slots[i].next = store->free_slots;
        store->free_slots = &block->slots[i];
    }
    pthread_mutex_unlock(&store->mutex);
    return &block->slots[0];
}

static void free_slot_locked(stk__file_store *store, stk__file_slot *slot)
{
    if (slot->read || slot->cancelers)
        return;
    slot->next = store->free_slots;
    store->free_slots = slot;
}

/* The read has ended; its slot is free once no cancel() looks at it. */
static void leave_slot_locked(stk__file_store *store, stk__file_slot *slot)
{
    slot->read->driver[0] = NULL;
    slot->read = NULL;
    free_slot_locked(store, slot);
}

/* Cancel the read of a slot on which this thread has counted itself in `cancelers`. */
static void cancel_slot(stk__file_store *store, stk__file_slot *slot)
{
    /* The engine exists and does not change: the slot has been submitted to it. */
    stk__aio_cancel(store->engine, &slot->aio);
    pthread_mutex_lock(&store->mutex);
    slot->cancelers--;
    free_slot_locked(store, slot);
    pthread_mutex_unlock(&store->mutex);
}

/* The engine knows the read: from now on it is the engine that cancels it, beginning with what came
 * meanwhile. */
static void note_submitted(stk__file_store *store, stk__file_slot *slot, uint64_t use)
{
    pthread_mutex_lock(&store->mutex);
    bool stop = false;
    if (slot->uses == use && slot->read) {
        slot->submitted = true;
        stop = slot->stop;
        slot->cancelers += stop;
    }
    pthread_mutex_unlock(&store->mutex);
    if (stop)
        cancel_slot(store, slot);
}

/* Hand a read to the engine. On failure the caller still holds the pin. */
static stk_status send(stk__file_store *store, stk_read *read, stk__file_entry *entry)
{
    stk__aio *engine;

    STK_TRY(get_engine(store, &engine));
    stk__file_slot *slot = get_slot(store);
    if (!slot)
        return STK_ENOMEM;
    slot->aio = (stk__aio_read){.fd = entry->fd,
                                .data = read->data,
                                .offset = read->offset,
                                .length = read->length,
                                .deadline_ns = read->deadline_ns,
                                .done = slot_done};
    slot->store = store;
    slot->entry = entry;
    pthread_mutex_lock(&store->mutex);
    slot->read = read;
    slot->submitted = slot->stop = false;
    uint64_t use = ++slot->uses;
    read->driver[0] = slot;
    pthread_mutex_unlock(&store->mutex);
    stk_status status = stk__aio_submit(engine, &slot->aio);
    if (status == STK_OK) {
        note_submitted(store, slot, use);
        return STK_OK;
    }
    pthread_mutex_lock(&store->mutex);
    leave_slot_locked(store, slot);
    pthread_mutex_unlock(&store->mutex);
    return status;
}

static void slot_done(stk__aio_read *aio_read, stk_status status, int system_error)
{
    stk__file_slot *slot = (stk__file_slot *)aio_read;
    stk__file_store *store = slot->store;
    stk__file_entry *entry = slot->entry;
    const uint64_t got = aio_read->got;

    pthread_mutex_lock(&store->mutex);
    stk_read *read = slot->read;
    leave_slot_locked(store, slot);
    pthread_mutex_unlock(&store->mutex);
    if (status == STK_ETRUNCATED && read->up_to) {
        read->got = got;
        status = STK_OK;
    }
    finish(store, read, entry, status, system_error);
    if (atomic_load_explicit(&store->num_waiting, memory_order_relaxed))
        resume_waiting(store);
}

/* What becomes of a file for which RWF_NOWAIT is not known: file systems in memory need no such
 * care. */
static int find_mode(int fd)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) == 0 &&
        ((unsigned long)fs.f_type == TMPFS_MAGIC || (unsigned long)fs.f_type == RAMFS_MAGIC))
        return STK__FILE_MEMORY;
    return STK__FILE_ENGINE;
}

/* Try to read all of it without waiting. */
static bool read_inline(stk__file_entry *entry, uint64_t offset, uint64_t length, void *data)
{
    struct iovec part = {.iov_base = data, .iov_len = (size_t)length};
    int mode = atomic_load_explicit(&entry->mode, memory_order_relaxed);
    ssize_t n;

    if (mode == STK__FILE_ENGINE)
        return false;
    if (mode == STK__FILE_MEMORY)
        return pread(entry->fd, data, (size_t)length, (off_t)offset) == (ssize_t)length;
    n = preadv2(entry->fd, &part, 1, (off_t)offset, RWF_NOWAIT);
    if (n < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
        atomic_store_explicit(&entry->mode, find_mode(entry->fd), memory_order_relaxed);
    return n == (ssize_t)length;
}

/* Files that are open, as those that were read lately; opening one may wait. */
static stk_status file_read_now(stk_store *base, const char *key, uint64_t offset, uint64_t length,
                                void *data)
{
    stk__file_store *store = (stk__file_store *)base;
    uint64_t end;

    if (!stk__add_size(offset, length, &end) || end > INT64_MAX)
        return STK_EINVAL;
    stk__file_entry *entry = stk__file_take_open(store, key);
    if (!entry)
        return STK_EAGAIN;
    const bool read = read_inline(entry, offset, length, data);
    drop(store, entry);
    if (atomic_load_explicit(&store->num_waiting, memory_order_relaxed))
        resume_waiting(store);
    return read ? STK_OK : STK_EAGAIN;
}

/* Start a read; whatever happens, it ends by done(). */
static void start(stk__file_store *store, stk_read *read)
{
    stk__file_entry *entry = NULL;
    int system_error = 0;
    stk_status status = stk__file_take(store, read, &entry, &system_error);

    if (status == STK_EAGAIN)
        return;
    if (status == STK_OK && (read->length <= INLINE_MAX || read->needed_next) &&
        read_inline(entry, read->offset, read->length, read->data)) {
        finish(store, read, entry, STK_OK, 0);
        return;
    }
    if (status == STK_OK)
        status = send(store, read, entry);
    else
        entry = NULL;
    if (status != STK_OK)
        finish(store, read, entry, status, system_error);
}

static void unlink_first_locked(stk__file_store *store)
{
    stk_read *read = store->waiting;

    store->waiting = read->driver[1];
    if (!store->waiting)
        store->last_waiting = NULL;
    read->driver[2] = NULL;
    atomic_fetch_sub(&store->num_waiting, 1);
}

/*
 * Start reads that wait for a descriptor, as long as there are any. One thread at a time: what
 * another one frees meanwhile is seen here before `resuming` ends, so no read is forgotten; and
 * done() of a read started here may submit another without nesting deeper each time.
 */
static void resume_waiting(stk__file_store *store)
{
    pthread_mutex_lock(&store->mutex);
    while (!store->resuming && store->waiting && stk__file_available_locked(store)) {
        stk_read *read = store->waiting;
        unlink_first_locked(store);
        store->resuming = true;
        pthread_mutex_unlock(&store->mutex);
        if (read->deadline_ns && stk__now_ns() >= read->deadline_ns)
            finish(store, read, NULL, STK_ETIMEDOUT, 0);
        else
            start(store, read);
        pthread_mutex_lock(&store->mutex);
        store->resuming = false;
    }
    pthread_mutex_unlock(&store->mutex);
}

static stk_status file_submit(stk_store *base, stk_read *read)
{
    stk__file_store *store = (stk__file_store *)base;
    uint64_t end;

    if (!read->key || !stk__add_size(read->offset, read->length, &end) || end > INT64_MAX)
        return STK_EINVAL;
    read->system_error = 0;
    start(store, read);
    if (atomic_load_explicit(&store->num_waiting, memory_order_relaxed))
        resume_waiting(store);
    return STK_OK;
}

/* Take a read out of those that wait. */
static bool unwait_locked(stk__file_store *store, stk_read *read)
{
    stk_read *before = NULL;

    if (!read->driver[2])
        return false;
    for (stk_read *at = store->waiting; at != read; at = at->driver[1])
        before = at;
    if (!before) {
        unlink_first_locked(store);
        return true;
    }
    before->driver[1] = read->driver[1];
    if (store->last_waiting == read)
        store->last_waiting = before;
    read->driver[2] = NULL;
    atomic_fetch_sub(&store->num_waiting, 1);
    return true;
}

static void file_cancel(stk_store *base, stk_read *read)
{
    stk__file_store *store = (stk__file_store *)base;

    pthread_mutex_lock(&store->mutex);
    bool waited = unwait_locked(store, read);
    stk__file_slot *slot = waited ? NULL : read->driver[0];
    if (slot && !slot->submitted) {
        slot->stop = true;
        slot = NULL;
    }
    if (slot)
        slot->cancelers++;
    pthread_mutex_unlock(&store->mutex);
    if (waited)
        finish(store, read, NULL, STK_ECANCELED, 0);
    if (slot)
        cancel_slot(store, slot);
}

/* ---- Opening and closing ---- */

static void release(stk__file_store *store)
{
    stk_context *ctx = store->base.context;

    for (stk__file_block *block = store->blocks, *next; block; block = next) {
        next = block->next;
        stk__free(ctx, block);
    }
    stk__free(ctx, store->named);
    stk__file_unmap_all(store);
    stk__file_cache_release(store);
    if (store->root >= 0)
        close(store->root);
    pthread_cond_destroy(&store->engine_made);
    pthread_mutex_destroy(&store->mutex);
    stk__free(ctx, store->path);
    stk__free(ctx, store);
    stk__context_unref(ctx);
}

static void file_close(stk_store *base)
{
    stk__file_store *store = (stk__file_store *)base;

    /* After fork() the locks may be held by threads that do not exist here: nothing can be given
     * back. */
    if (stk__context_forked(base->context))
        return;
    for (;;) {
        pthread_mutex_lock(&store->mutex);
        stk_read *read = store->waiting;
        if (read)
            unlink_first_locked(store);
        pthread_mutex_unlock(&store->mutex);
        if (!read)
            break;
        finish(store, read, NULL, STK_ECANCELED, 0);
    }
    stk__aio_destroy(&store->engine);
    release(store);
}

static stk_status open_root(const char *path, int *root, stk_error *err)
{
    do
        *root = open(path[0] ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (*root < 0 && errno == EINTR);
    if (*root >= 0)
        return STK_OK;
    if (errno == ENOENT) {
        char meant[STK__PATH_MEANT];
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, path, STK_NO_OFFSET,
                            "'%.300s' does not exist%s", path,
                            *stk__nearest_path_said(path, meant) ? meant : "; check the path");
    }
    if (errno == ENOTDIR)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, path, STK_NO_OFFSET,
                            "'%.300s' is not a folder; give the folder it lies in", path);
    return stk__file_fail(NULL, err, "open the folder", path, errno);
}

/* Takes `root`, also on failure. */
static stk_status make_store(stk_context *ctx, const char *path, int root,
                             const file_options *options, stk_store **out, stk_error *err)
{
    stk__file_store *store = stk__calloc(ctx, 1, sizeof *store);
    char *kept = stk__strdup(ctx, path);

    if (!store || !kept) {
        stk__free(ctx, store);
        stk__free(ctx, kept);
        close(root);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.300s'", path);
    }
    store->base.ops = &stk__store_file;
    store->base.context = stk__context_ref(ctx);
    store->root = root;
    store->path = kept;
    store->calls = &stk__file_calls_system;
    store->mapping = options->mmap;
    store->follow = options->follow_links;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->engine_made, NULL);
    stk__file_cache_init(store);
    *out = &store->base;
    return STK_OK;
}

stk_status stk__file_open_folder(stk_context *ctx, const char *path, const stk__file_calls *calls,
                                 stk_store **out, stk_error *err)
{
    file_options options;
    int root;

    *out = NULL;
    stk_options_init(&file_option_table, &options, sizeof options);
    STK_TRY(stk__durable_path(ctx, calls, path, err));
    STK_TRY(open_root(path, &root, err));
    STK_TRY(make_store(ctx, path, root, &options, out, err));
    if (calls)
        ((stk__file_store *)*out)->calls = calls;
    return STK_OK;
}

static stk_status file_open(stk_context *ctx, const char *text, const void *options,
                            stk_store **out, stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY];
    stk__url url;
    int root;

    STK_TRY(stk__url_parse(ctx, text, &url, err));
    STK_TRY(stk__url_path(&url, text, path, sizeof path, err));
    STK_TRY(open_root(path, &root, err));
    STK_TRY(make_store(ctx, path, root, options, out, err));
    stk__file_store *store = (stk__file_store *)*out;
    /* One that was asked for by name and is refused is nothing that a read could answer for. */
    if (stk__context_io_engine(ctx) == STK_IO_URING) {
        stk_status status = stk__aio_create(ctx, STK_IO_URING, ENGINE_DEPTH, &store->engine, err);
        if (status != STK_OK) {
            *out = NULL;
            release(store);
            return status;
        }
    }
    return STK_OK;
}

const stk_store_ops stk__store_file = {
    .struct_size = sizeof(stk_store_ops),
    .name = "file",
    .doc = "a folder, which is also meant by a path without a scheme",
    .options = &file_option_table,
    .open = file_open,
    .close = file_close,
    .submit = file_submit,
    .cancel = file_cancel,
    .stat = stk__file_stat,
    .list = stk__file_list,
    .put = stk__file_put,
    .remove = stk__file_remove,
    .map = stk__file_map_object,
    .copy = stk__file_copy,
    .read_now = file_read_now,
};
