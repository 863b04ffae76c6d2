/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoker/store.h>

#define SLOTS          16
#define SLOT_BYTES     (32 * 1024)
#define FLUSH_EVERY_NS UINT64_C(250000000)
#define SCAN_BYTES     4096

/* One buffer of lines. A thread keeps to one slot; with more threads than slots some share. */
typedef struct slot {
    pthread_mutex_t lock; /* guards the rest */
    size_t used;
    char *lines; /* SLOT_BYTES */
} slot;

struct stk__writer {
    stk_context *ctx;
    stk_mirror *mirror; /* of the file, which another store may be to have; the flusher's */
    int fd;
    size_t piece; /* longest append that is atomic: PIPE_BUF for a pipe, anything for a file */
    bool regular; /* a file whose end may be cut */
    atomic_int failure; /* errno of the first write that failed; nothing is written after it */
    slot slots[SLOTS];
    char *memory; /* of all slots */
    char path[STK_ERROR_KEY];

    stk__thread flusher;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t wake;
    bool closing;
    void (*tick)(void *user); /* or NULL */
    void *user;
};

/* Length of the whole lines in the first `limit` bytes, or of the first line where that is longer.
 */
static size_t whole_lines(const char *lines, size_t length, size_t limit)
{
    if (length <= limit)
        return length;
    const char *end = memrchr(lines, '\n', limit);
    if (!end)
        end = memchr(lines + limit, '\n', length - limit);
    return end ? (size_t)(end - lines) + 1 : length;
}

/* One append for each piece of whole lines. The kernel orders appends to a file (and to a pipe, up
 * to PIPE_BUF). What is left of one cut short follows at once: where the disk is full that says so.
 */
static void append(stk__writer *writer, const char *lines, size_t length)
{
    while (length && atomic_load_explicit(&writer->failure, memory_order_relaxed) == 0) {
        size_t piece = whole_lines(lines, length, writer->piece);
        ssize_t n = write(writer->fd, lines, piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int none = 0, error = n < 0 ? errno : ENOSPC;
            atomic_compare_exchange_strong(&writer->failure, &none, error);
            return;
        }
        lines += n;
        length -= (size_t)n;
    }
}

static void flush_locked(stk__writer *writer, slot *s)
{
    append(writer, s->lines, s->used);
    s->used = 0;
}

void stk__writer_flush(stk__writer *writer)
{
    for (int i = 0; i < SLOTS; i++) {
        slot *s = &writer->slots[i];
        pthread_mutex_lock(&s->lock);
        flush_locked(writer, s);
        pthread_mutex_unlock(&s->lock);
    }
}

static void flusher_run(void *argument)
{
    stk__writer *writer = argument;
    bool closing = false;
    stk_error err;

    while (!closing) {
        uint64_t when = stk__now_ns() + FLUSH_EVERY_NS;
        pthread_mutex_lock(&writer->lock);
        while (!writer->closing && stk__cond_wait_until(&writer->wake, &writer->lock, when))
            continue;
        closing = writer->closing;
        void (*tick)(void *) = closing ? NULL : writer->tick;
        void *user = writer->user;
        pthread_mutex_unlock(&writer->lock);
        if (tick)
            tick(user);
        stk__writer_flush(writer);
        /* One that fails in between is a warning of its own. */
        if (!closing && stk_mirror_flush(writer->mirror, false, &err) != STK_OK)
            return;
    }
}

void stk__writer_tick(stk__writer *writer, void (*tick)(void *user), void *user)
{
    pthread_mutex_lock(&writer->lock);
    writer->tick = tick;
    writer->user = user;
    pthread_mutex_unlock(&writer->lock);
}

static slot *slot_of_thread(stk__writer *writer)
{
    static atomic_uint threads;
    static _Thread_local unsigned number;

    if (number == 0)
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % SLOTS + 1;
    return &writer->slots[number - 1];
}

void stk__writer_put(stk__writer *writer, const char *lines, size_t length)
{
    slot *s = slot_of_thread(writer);

    pthread_mutex_lock(&s->lock);
    if (length > SLOT_BYTES - s->used)
        flush_locked(writer, s);
    if (length > SLOT_BYTES) {
        append(writer, lines, length);
    } else {
        memcpy(s->lines + s->used, lines, length);
        s->used += length;
    }
    pthread_mutex_unlock(&s->lock);
}

/* Cut what a failed write left of a line, so that the file ends with a whole one. */
static void cut_last_line(int fd)
{
    char bytes[SCAN_BYTES];
    struct stat st;

    if (fstat(fd, &st) != 0)
        return;
    off_t end = st.st_size;
    while (end > 0) {
        off_t from = end > SCAN_BYTES ? end - SCAN_BYTES : 0;
        ssize_t n = pread(fd, bytes, (size_t)(end - from), from);
        if (n <= 0)
            return;
        const char *newline = memrchr(bytes, '\n', (size_t)n);
        if (newline) {
            end = from + (newline - bytes) + 1;
            break;
        }
        end = from;
    }
    if (end < st.st_size && ftruncate(fd, end) != 0)
        return;
}

static stk_status fail_open(const char *path, int error, stk_error *err)
{
    const char *remedy =
        error == ENOENT   ? "the folder does not exist; make it, or give another path"
        : error == EACCES ? "no permission to write there; give another path"
        : error == EISDIR ? "it is a folder; give the path of a file"
        : error == ENOSPC ? "the disk is full; free some space, or give another path"
        : error == EROFS  ? "the file system is read-only; give another path"
                          : strerrordesc_np(error);

    return stk__fail_at(err, stk__status_of_errno(error), STK_STAGE_MEASURE, path, STK_NO_OFFSET,
                        "could not open the log %s: %s", path, remedy ? remedy : "unknown error");
}

static void writer_free(stk__writer *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    /* After a fork the threads that hold or wait for these are the parent's: destroying would wait
     * for ever. */
    if (!stk__context_forked(writer->ctx)) {
        for (int i = 0; i < SLOTS; i++)
            pthread_mutex_destroy(&writer->slots[i].lock);
        pthread_mutex_destroy(&writer->lock);
        pthread_cond_destroy(&writer->wake);
    }
    stk_mirror_close(&writer->mirror, NULL);
    stk__free(writer->ctx, writer->memory);
    stk__free(writer->ctx, writer);
}

/* Open the file: 0 or errno. Reading is for the last line alone; what cannot be read (a pipe) is
 * written all the same. */
static int open_file(stk__writer *writer, bool anew)
{
    const int flags = O_APPEND | O_CREAT | O_CLOEXEC | (anew ? O_TRUNC : 0);
    const char *path = stk_mirror_path(writer->mirror);
    struct stat st;

    writer->fd = open(path, O_RDWR | flags, 0666);
    if (writer->fd < 0)
        writer->fd = open(path, O_WRONLY | flags, 0666);
    if (writer->fd < 0 || fstat(writer->fd, &st) != 0)
        return errno;
    writer->regular = S_ISREG(st.st_mode);
    writer->piece = writer->regular ? SIZE_MAX : PIPE_BUF;
    return 0;
}

stk_status stk__writer_open(stk_context *ctx, const char *path, bool anew, stk__writer **out,
                            stk_error *err)
{

    *out = NULL;
    stk__writer *writer = stk__calloc(ctx, 1, sizeof *writer);
    if (!writer)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the log");
    writer->ctx = ctx;
    pthread_mutex_init(&writer->lock, NULL);
    stk__cond_init(&writer->wake);
    for (int i = 0; i < SLOTS; i++)
        pthread_mutex_init(&writer->slots[i].lock, NULL);
    stk__copy_tail(writer->path, sizeof writer->path, path);
    writer->fd = -1;
    stk_status status = stk_mirror_open(ctx, path, &writer->mirror, err);
    const int error = status == STK_OK ? open_file(writer, anew) : 0;
    if (error)
        status = fail_open(path, error, err);
    if (status != STK_OK) {
        writer_free(writer);
        return status;
    }
    writer->memory = stk__calloc(ctx, SLOTS, SLOT_BYTES);
    if (!writer->memory) {
        writer_free(writer);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE,
                         "no memory for the buffers of the log");
    }
    for (int i = 0; i < SLOTS; i++)
        writer->slots[i].lines = writer->memory + (size_t)i * SLOT_BYTES;
    status = stk__thread_start(ctx, &writer->flusher, "stk-log", flusher_run, writer, err);
    if (status != STK_OK) {
        writer_free(writer);
        return status;
    }
    *out = writer;
    return STK_OK;
}

stk_status stk__writer_close(stk__writer **writer_in_out, stk_error *err)
{
    stk__writer *writer = *writer_in_out;
    stk_status status = STK_OK;
    stk_error own;

    *writer_in_out = NULL;
    if (stk__context_forked(writer->ctx)) {
        /* The buffers and the thread are the parent's; its lines are not written twice. */
        writer_free(writer);
        return STK_OK;
    }
    pthread_mutex_lock(&writer->lock);
    writer->closing = true;
    pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    stk__thread_join(&writer->flusher);
    int error = atomic_load(&writer->failure);
    if (error && writer->regular)
        cut_last_line(writer->fd);
    /* Network file systems tell only now. */
    if (close(writer->fd) != 0 && !error && errno != EINTR)
        error = errno;
    writer->fd = -1;
    const stk_status put = stk_mirror_close(&writer->mirror, &own);
    if (put != STK_OK && !error) {
        status = put;
        if (err)
            *err = own;
    }
    if (error) {
        const char *text = strerrordesc_np(error);
        status = stk__fail_at(err, stk__status_of_errno(error), STK_STAGE_MEASURE, writer->path,
                              STK_NO_OFFSET, "the log %s is not complete: %s", writer->path,
                              error == ENOSPC || error == EDQUOT
                                  ? "the disk is full; free some space, or give another path"
                              : error == EFBIG
                                  ? "it is too large; raise the limit of sizes with 'ulimit -f'"
                              : text ? text
                                     : "writing failed");
    }
    writer_free(writer);
    return status;
}
