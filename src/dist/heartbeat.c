/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life: a sheet of memory with a row for each rank. */
#include "dist/heartbeat.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sized.h"

#define NAME       "stoker-heartbeat" /* of the memory */
#define MAGIC      "STKBEAT"
#define VERSION    1
#define MOST_RANKS 65536

static void release(stk_heartbeat *h)
{
    stk_context *ctx = h->ctx;

    stk__beat_listener_close(h);
    if (h->sheet)
        munmap(h->sheet, h->bytes);
    if (h->fd >= 0)
        close(h->fd);
    stk__free(ctx, h);
    stk__context_unref(ctx);
}

static stk_status make(stk_context *ctx, stk_heartbeat **out, stk_error *err)
{
    STK_TRY(stk__context_check(ctx, err));
    stk_heartbeat *h = stk__calloc(ctx, 1, sizeof *h);
    if (!h)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for signs of life");
    h->ctx = stk__context_ref(ctx);
    h->fd = -1;
    h->pid = (long)getpid();
    *out = h;
    return STK_OK;
}

static stk_status map(stk_heartbeat *h, stk_error *err)
{
    const int kind = h->fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *at = mmap(NULL, h->bytes, PROT_READ | PROT_WRITE, kind, h->fd, 0);

    if (at == MAP_FAILED)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for signs of life");
    h->sheet = at;
    return STK_OK;
}

/* ---- The watcher ----------------------------------------------------------------------------- */

static stk_status make_sheet(stk_heartbeat *h, uint64_t ranks, stk_error *err)
{
    h->ranks = ranks;
    h->bytes = stk__beat_bytes(ranks);
    h->fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    /* No writer can make it smaller under the others. */
    if (h->fd < 0 || ftruncate(h->fd, (off_t)h->bytes) != 0 ||
        fcntl(h->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return stk__fail(err, stk__status_of_errno(errno), STK_STAGE_MEASURE,
                         "no memory could be made for signs of life: %s", strerror(errno));
    STK_TRY(map(h, err));
    memcpy(h->sheet->magic, MAGIC, sizeof MAGIC);
    h->sheet->version = VERSION;
    h->sheet->ranks = (uint32_t)ranks;
    return STK_OK;
}

stk_status stk_heartbeat_create(stk_context *context, uint64_t ranks, stk_heartbeat **out,
                                stk_error *err)
{
    stk_heartbeat *h = NULL;

    *out = NULL;
    stk_error_init(err);
    if (ranks == 0 || ranks > MOST_RANKS)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "signs of life of %" PRIu64 " ranks: from 1 to %d", ranks, MOST_RANKS);
    STK_TRY(make(context, &h, err));
    stk_status status = make_sheet(h, ranks, err);
    if (status == STK_OK)
        *out = h;
    else
        release(h);
    return status;
}

int stk_heartbeat_path(const stk_heartbeat *h, char *text, size_t size)
{
    int n = snprintf(text, size, "/proc/%ld/fd/%d%s", h->pid, h->fd, h->listener ? "," : "");

    if (h->listener)
        n += (size_t)n < size ? stk__beat_url_write(h, text + n, size - (size_t)n)
                              : stk__beat_url_write(h, NULL, 0);
    return n;
}

void stk_heartbeat_read(const stk_heartbeat *h, uint64_t rank, stk_heartbeat_row *out)
{
    stk_heartbeat_row found = {.struct_size = sizeof found};

    if (rank < h->ranks) {
        stk__beat_row *r = &h->sheet->rows[rank];
        const uint_fast32_t doing = atomic_load(&r->doing);
        found.doing = doing <= STK_DOING_END ? (stk_doing)doing : STK_DOING_NOTHING;
        found.beats = atomic_load(&r->beats);
        found.at_ns = atomic_load(&r->at_ns);
        found.steps = atomic_load(&r->steps);
        found.pid = atomic_load(&r->pid);
        stk__beat_heard(h, rank, &found);
    }
    stk__sized_write(out, &found);
}

void stk_heartbeat_clear(stk_heartbeat *h)
{
    stk__beat_forget(h);
    memset(h->sheet->rows, 0, h->ranks * sizeof(stk__beat_row));
}

/* ---- A rank ---------------------------------------------------------------------------------- */

static void beat(stk__beat_row *own)
{
    atomic_store_explicit(&own->at_ns, stk__now_ns(), memory_order_relaxed);
    atomic_fetch_add_explicit(&own->beats, 1, memory_order_release);
}

static void beat_doing(stk__beat_row *own, stk_doing doing)
{
    atomic_store_explicit(&own->doing, doing, memory_order_relaxed);
    beat(own);
}

static void on_event(void *user, const stk__event *event)
{
    stk_heartbeat *h = user;

    /* Workers go on while the thread of the step waits for the other ranks: they say that the
     * process lives, not what it waits for. */
    switch (event->kind) {
    case STK__EVENT_DELIVER:
        atomic_fetch_add_explicit(&h->own->steps, 1, memory_order_relaxed);
        beat_doing(h->own, STK_DOING_DATA);
        break;
    case STK__EVENT_MEET:
        beat_doing(h->own, STK_DOING_COLLECTIVE);
        break;
    case STK__EVENT_MET:
        beat_doing(h->own, STK_DOING_DATA);
        break;
    default:
        beat(h->own);
        break;
    }
}

static stk_status open_sheet(stk_heartbeat *h, const char *path, uint64_t rank, stk_error *err)
{
    struct stat st;
    stk__beat_sheet head;

    h->fd = open(path, O_RDWR | O_CLOEXEC);
    if (h->fd < 0)
        return stk__fail_at(err, stk__status_of_errno(errno), STK_STAGE_MEASURE, path,
                            STK_NO_OFFSET, "%s: no signs of life can be given there: %s", path,
                            strerror(errno));
    const int seals = fcntl(h->fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(h->fd, &st) != 0 ||
        pread(h->fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 || head.version != VERSION ||
        head.ranks > MOST_RANKS || (uint64_t)st.st_size != stk__beat_bytes(head.ranks))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_MEASURE, path, STK_NO_OFFSET,
                            "%s: no sheet of signs of life of this version", path);
    if (rank >= head.ranks)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "%s: signs of life of %u ranks have no row for rank %" PRIu64, path,
                         head.ranks, rank);
    h->ranks = head.ranks;
    h->bytes = stk__beat_bytes(head.ranks);
    STK_TRY(map(h, err));
    h->own = &h->sheet->rows[rank];
    return STK_OK;
}

/* A sheet of its own, whose row is sent: of a rank on another machine. */
static stk_status open_remote(stk_heartbeat *h, const char *url, uint64_t rank, stk_error *err)
{
    /* What the other way has left. */
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
    h->ranks = 1;
    h->bytes = stk__beat_bytes(1);
    STK_TRY(map(h, err));
    h->own = &h->sheet->rows[0];
    beat(h->own);
    return stk__beat_sender_open(h, url, rank, err);
}

static stk_status open_either(stk_heartbeat *h, const char *path, uint64_t rank, stk_error *err)
{
    const char *url = stk__beat_url(path);
    char local[128];

    if (!url)
        return open_sheet(h, path, rank, err);
    snprintf(local, sizeof local, "%.*s", (int)STK_MIN(url - path - 1, 127), path);
    const stk_status status = open_sheet(h, local, rank, err);
    /* A sheet without such a row is the watcher's all the same. */
    return status == STK_OK || status == STK_EINVAL ? status : open_remote(h, url, rank, err);
}

stk_status stk_heartbeat_open(stk_context *context, const char *path, uint64_t rank,
                              stk_heartbeat **out, stk_error *err)
{
    stk_heartbeat *h = NULL;

    *out = NULL;
    stk_error_init(err);
    STK_TRY(make(context, &h, err));
    stk_status status = open_either(h, path, rank, err);
    if (status == STK_OK) {
        h->probe = (stk__probe){.event = on_event, .user = h};
        if (stk__probe_add(context, &h->probe) != STK_OK)
            status = stk__fail(err, STK_EBUSY, STK_STAGE_MEASURE,
                               "the context has too many listeners for signs of life: close a log "
                               "or a sheet first");
    }
    if (status != STK_OK) {
        stk__beat_sender_close(h);
        release(h);
        return status;
    }
    atomic_store(&h->own->pid, (int_fast64_t)getpid());
    beat_doing(h->own, STK_DOING_NOTHING);
    *out = h;
    return STK_OK;
}

void stk_heartbeat_beat(stk_heartbeat *h, stk_doing doing)
{
    if (h && h->own)
        beat_doing(h->own, doing);
}

void stk_heartbeat_close(stk_heartbeat **heartbeat)
{
    stk_heartbeat *h = heartbeat ? *heartbeat : NULL;

    if (!h)
        return;
    *heartbeat = NULL;
    /* A child of fork() has neither the listener nor the right to end its parent's row. */
    if (stk__context_forked(h->ctx))
        return;
    if (h->own) {
        stk__probe_remove(h->ctx, &h->probe);
        beat_doing(h->own, STK_DOING_END);
    }
    stk__beat_sender_close(h);
    release(h);
}
