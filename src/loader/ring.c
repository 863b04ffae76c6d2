/* SPDX-License-Identifier: Apache-2.0 */
/* The slabs that go round between the steps and the consumer, and what a caller sees of a batch. */
#include "loader/ring.h"

#include <sys/mman.h>

#include "base/sized.h"

#if defined(__SANITIZE_ADDRESS__)
#define GUARDED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARDED 1
#endif
#endif
#ifdef GUARDED
#include <sanitizer/asan_interface.h>

#endif

/* The consumer gets it, or has given it back. */
static void guard(stk_batch *batch, bool held)
{
#ifdef GUARDED
    if (held)
        __asan_unpoison_memory_region(batch->guard, sizeof batch->guard);
    else
        __asan_poison_memory_region(batch->guard, sizeof batch->guard);
#else
    (void)batch;
    (void)held;
#endif
}

/* A batch that the caller names is held. */
static const stk_batch *held(const stk_batch *batch)
{
#ifdef GUARDED
    (void)*(const volatile char *)batch->guard;
#endif
    return batch;
}

uint64_t stk__slab_bytes(const stk__column *columns, uint32_t n, uint64_t rows)
{
    uint64_t bytes = stk__round_up(rows * sizeof(uint64_t), STK_CACHE_LINE);

    for (uint32_t i = 0; i < n; i++) {
        const stk__column *c = &columns[i];
        uint64_t part =
            c->field.layout == STK_FIXED ? c->row_bytes * rows : (rows + 1) * sizeof(uint64_t);
        bytes += stk__round_up(part + STK_TAIL, STK_CACHE_LINE);
    }
    return bytes;
}

/* Cut a slab's memory into columns. */
static void lay_out(stk_batch *batch, const stk__column *columns, uint32_t n, uint64_t rows)
{
    char *at = batch->memory;

    batch->positions = (uint64_t *)at;
    at += stk__round_up(rows * sizeof(uint64_t), STK_CACHE_LINE);
    for (uint32_t i = 0; i < n; i++) {
        const stk__column *c = &columns[i];
        bool fixed = c->field.layout == STK_FIXED;
        uint64_t part = fixed ? c->row_bytes * rows : (rows + 1) * sizeof(uint64_t);
        if (fixed)
            batch->data[i] = at;
        else
            batch->offsets[i] = (uint64_t *)at;
        at += stk__round_up(part + STK_TAIL, STK_CACHE_LINE);
    }
}

static stk_status make_slab(stk__ring *ring, stk_batch *batch, stk_error *err)
{
    void *memory = NULL;

    if (ring->device)
        STK_TRY(ring->device->ops->alloc_host(ring->device, ring->slab_bytes, &memory, err));
    else
        memory = stk__alloc_buffer(ring->ctx, ring->slab_bytes);
    batch->memory = memory;
    if (!memory)
        return STK_ENOMEM;
    if (ring->locked_memory && mlock(memory, ring->slab_bytes) != 0) {
        stk__message(ring->ctx, STK_MESSAGE_WARNING,
                     "pin_memory: the system refuses to lock %llu bytes (ulimit -l); batches stay "
                     "pageable",
                     (unsigned long long)ring->slab_bytes);
        ring->locked_memory = false;
    }
    return STK_OK;
}

static void free_slab(stk__ring *ring, stk_batch *batch)
{
    if (!batch->memory)
        return;
    if (ring->locked_memory)
        munlock(batch->memory, ring->slab_bytes);
    if (ring->device)
        ring->device->ops->free_host(ring->device, batch->memory);
    else
        stk__free(ring->ctx, batch->memory);
    batch->memory = NULL;
}

void stk__ring_shrink(stk__ring *ring, uint32_t slabs)
{
    pthread_mutex_lock(&ring->lock);
    while (ring->num_slabs > slabs && ring->free) {
        free_slab(ring, stk__ring_take_locked(ring));
        ring->num_slabs--;
    }
    pthread_mutex_unlock(&ring->lock);
}

static void ring_free(stk__ring *ring)
{
    stk_context *ctx = ring->ctx;

    for (uint32_t i = 0; ring->slabs && i < ring->made; i++) {
        free_slab(ring, &ring->slabs[i]);
        guard(&ring->slabs[i], true); /* the allocator's again */
    }
    stk__free(ctx, ring->slabs);
    stk__free(ctx, ring->places);
    stk__free(ctx, ring->columns);
    stk__free(ctx, ring->fields);
    stk__free(ctx, ring->names);
    stk__pool_destroy(&ring->pool);
    pthread_cond_destroy(&ring->watch);
    pthread_cond_destroy(&ring->work);
    pthread_cond_destroy(&ring->finished);
    sem_destroy(&ring->woken);
    pthread_mutex_destroy(&ring->lock);
    stk__free(ctx, ring);
    stk__context_unref(ctx);
}

static stk_status make_columns(stk__ring *ring, const stk__column *columns, uint32_t n)
{
    size_t bytes = 0;

    ring->columns = stk__calloc(ring->ctx, n, sizeof *ring->columns);
    ring->fields = stk__calloc(ring->ctx, n, sizeof *ring->fields);
    if (!ring->columns || !ring->fields)
        return STK_ENOMEM;
    memcpy(ring->columns, columns, n * sizeof *columns);
    /* The dataset's names may be gone before the last batch. */
    for (uint32_t i = 0; i < n; i++)
        bytes += strlen(columns[i].field.name) + 1;
    ring->names = stk__alloc(ring->ctx, bytes);
    if (!ring->names)
        return STK_ENOMEM;
    char *name = ring->names;
    for (uint32_t i = 0; i < n; i++) {
        const size_t length = strlen(columns[i].field.name) + 1;
        ring->columns[i].field.name = memcpy(name, columns[i].field.name, length);
        name += length;
        ring->fields[i] = ring->columns[i].field;
        ring->num_ragged += columns[i].field.layout != STK_FIXED;
    }
    ring->num_columns = n;
    return STK_OK;
}

/* The next one. */
static stk_status make_batch(stk__ring *ring, stk_error *err)
{
    const uint32_t n = ring->num_columns;
    stk_batch *batch = &ring->slabs[ring->made];

    batch->data = ring->places + (size_t)ring->made * n * 2;
    batch->offsets = (uint64_t **)(batch->data + n);
    batch->ring = ring;
    STK_TRY(make_slab(ring, batch, err));
    guard(batch, false);
    lay_out(batch, ring->columns, n, ring->rows);
    pthread_mutex_lock(&ring->lock);
    stk__ring_give_locked(ring, batch);
    ring->num_slabs++;
    ring->made++;
    pthread_mutex_unlock(&ring->lock);
    return STK_OK;
}

static stk_status make_slabs(stk__ring *ring, uint32_t slabs, uint32_t spare, stk_error *err)
{
    ring->most = slabs + spare;
    ring->slabs = stk__calloc(ring->ctx, ring->most, sizeof *ring->slabs);
    ring->places =
        stk__calloc(ring->ctx, (size_t)ring->most * ring->num_columns * 2, sizeof *ring->places);
    if (!ring->slabs || !ring->places)
        return STK_ENOMEM;
    while (ring->made < slabs)
        STK_TRY(make_batch(ring, err));
    return STK_OK;
}

void stk__ring_grow(stk__ring *ring, uint32_t slabs)
{
    stk_error err;

    while (ring->num_slabs < slabs && ring->made < ring->most)
        if (make_batch(ring, &err) != STK_OK)
            return;
}

stk_status stk__ring_create(stk_context *ctx, const stk__column *columns, uint32_t n, uint64_t rows,
                            uint32_t slabs, uint32_t spare, stk_device *device, bool lock_memory,
                            stk__ring **out, stk_error *err)
{
    *out = NULL;
    stk__ring *ring = stk__calloc(ctx, 1, sizeof *ring);
    if (!ring)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_LOADER, "no memory for the ring of batches");
    ring->ctx = stk__context_ref(ctx);
    pthread_mutex_init(&ring->lock, NULL);
    stk__cond_init(&ring->finished);
    sem_init(&ring->woken, 0, 0);
    stk__cond_init(&ring->work);
    stk__cond_init(&ring->watch);
    stk__pool_init(&ring->pool, ctx, 0);
    ring->rows = rows;
    ring->slab_bytes = stk__slab_bytes(columns, n, rows);
    ring->references = 1;
    ring->device = device;
    ring->locked_memory = lock_memory;
    stk_status status = make_columns(ring, columns, n);
    if (status == STK_OK)
        status = make_slabs(ring, slabs, spare, err);
    if (status != STK_OK) {
        const uint64_t bytes = ring->slab_bytes;
        ring_free(ring);
        return status != STK_ENOMEM ? status
                                    : stk__fail(err, STK_ENOMEM, STK_STAGE_LOADER,
                                                "no memory for %u batches of %llu bytes", slabs,
                                                (unsigned long long)bytes);
    }
    *out = ring;
    return STK_OK;
}

stk_batch *stk__ring_take_locked(stk__ring *ring)
{
    stk_batch *slab = ring->free;

    if (slab) {
        ring->free = slab->next;
        ring->num_free--;
    }
    return slab;
}

void stk__ring_give_locked(stk__ring *ring, stk_batch *slab)
{
    slab->next = ring->free;
    ring->free = slab;
    ring->num_free++;
}

void stk__ring_hold_locked(stk__ring *ring, stk_batch *slab)
{
    slab->held = true;
    guard(slab, true);
    ring->num_held++;
    ring->references++;
}

void stk__ring_work_locked(stk__ring *ring)
{
    pthread_cond_signal(&ring->work);
    if (ring->alone)
        stk__ring_wake_locked(ring);
}

/* Until it is posted, which a signal handler may do, or until a monotonic time (UINT64_MAX: no
 * limit); a signal ends it early. */
static void await(sem_t *semaphore, uint64_t until_ns)
{
    struct timespec t = {.tv_sec = (time_t)(until_ns / 1000000000u),
                         .tv_nsec = (long)(until_ns % 1000000000u)};

    if (until_ns == UINT64_MAX)
        sem_wait(semaphore);
    else
        sem_clockwait(semaphore, CLOCK_MONOTONIC, &t);
}

void stk__ring_wait_locked(stk__ring *ring, uint64_t until)
{
    ring->waits = true;
    pthread_mutex_unlock(&ring->lock);
    await(&ring->woken, until);
    pthread_mutex_lock(&ring->lock);
    ring->waits = false;
}

void stk__ring_wake_locked(stk__ring *ring)
{
    if (!ring->waits)
        return;
    ring->waits = false;
    sem_post(&ring->woken);
}

void stk__ring_room_locked(stk__ring *ring)
{
    if (!ring->full)
        return;
    ring->full = false;
    stk__ring_work_locked(ring);
}

void stk__ring_unref(stk__ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    bool last = --ring->references == 0;
    pthread_mutex_unlock(&ring->lock);
    if (last)
        ring_free(ring);
}

/* A slab is back, and maybe values of the pool. (L) held. */
static void returned_locked(stk__ring *ring, stk_batch *slab, bool values)
{
    stk__ring_give_locked(ring, slab);
    ring->num_held--;
    if (values)
        ring->full = false;
    if (ring->returned_locked) {
        ring->returned_locked(ring->user);
        stk__ring_work_locked(ring);
    }
}

static void free_detached(stk_batch *b)
{
    stk__ring *ring = b->ring;

    free_slab(ring, b);
    stk__pool_free(&ring->pool, b->ragged);
    guard(b, true); /* the allocator's again */
    stk__free(ring->ctx, b);
    stk__ring_unref(ring);
}

/* Neither the consumer nor a tensor uses the memory of a batch any more. (L) free. */
static void give_back(stk_batch *b)
{
    stk__ring *ring = b->ring;
    void *ragged = b->ragged;

    if (b->detached) {
        free_detached(b);
        return;
    }
    b->ragged = NULL;
    /* Before it is among the free it cannot be handed to a step, so its values go first. */
    stk__pool_give(&ring->pool, ragged);
    pthread_mutex_lock(&ring->lock);
    returned_locked(ring, b, ragged != NULL);
    bool last = --ring->references == 0;
    pthread_mutex_unlock(&ring->lock);
    if (last)
        ring_free(ring);
}

void stk_batch_release(stk_batch **batch)
{
    stk_batch *b = batch ? *batch : NULL;

    if (!b)
        return;
    *batch = NULL;
    stk__ring *ring = b->ring;
    /* In a child the locks may be held by threads that are in the parent. */
    if (stk__context_forked(ring->ctx))
        return;
    pthread_mutex_lock(&ring->lock);
    const bool was_held = b->held, shared = b->tensors > 0;
    b->held = false;
    if (was_held) /* from here on it may be another's */
        guard(b, false);
    pthread_mutex_unlock(&ring->lock);
    if (!was_held) {
        stk__message(ring->ctx, STK_MESSAGE_ERROR,
                     "stk_batch_release(): this batch is not held: it was given back before");
        return;
    }
    if (!shared)
        give_back(b);
}

/* Places of the columns, behind a record that is not of the ring's. */
static stk_batch *detached_record(stk__ring *ring)
{
    const size_t places = (size_t)ring->num_columns * 2 * sizeof(void *);
    stk_batch *record = stk__calloc(ring->ctx, 1, sizeof *record + places);

    if (record) {
        record->data = (void **)(void *)(record + 1);
        record->offsets = (uint64_t **)(record->data + ring->num_columns);
    }
    return record;
}

/* What `from` holds becomes `to`'s, and `from` gets `memory`. */
static void move_out(stk_batch *to, stk_batch *from, char *memory)
{
    const stk__ring *ring = from->ring;
    void **data = to->data;
    uint64_t **offsets = to->offsets;

    memcpy(data, from->data, ring->num_columns * sizeof *data);
    memcpy(offsets, from->offsets, ring->num_columns * sizeof *offsets);
    *to = *from;
    to->data = data;
    to->offsets = offsets;
    to->detached = true;
    from->memory = memory;
    from->ragged = NULL;
    from->held = false;
    lay_out(from, ring->columns, ring->num_columns, ring->rows);
    guard(from, false);
}

stk_status stk_batch_detach(stk_batch **batch, stk_error *err)
{
    stk_batch *b = *batch;
    stk__ring *ring = b->ring;
    stk_batch fresh = {0};

    STK_TRY(stk__context_check(ring->ctx, err));
    if (held(b)->detached)
        return STK_OK;
    stk_batch *record = detached_record(ring);
    const stk_status status = record ? make_slab(ring, &fresh, err) : STK_ENOMEM;
    if (status != STK_OK) {
        stk__free(ring->ctx, record);
        return status != STK_ENOMEM ? status
                                    : stk__fail(err, STK_ENOMEM, STK_STAGE_LOADER,
                                                "no memory for one more batch of %llu bytes",
                                                (unsigned long long)ring->slab_bytes);
    }
    pthread_mutex_lock(&ring->lock);
    const bool shared = b->tensors > 0;
    if (!shared)
        move_out(record, b, fresh.memory);
    pthread_mutex_unlock(&ring->lock);
    if (shared) {
        free_slab(ring, &fresh);
        stk__free(ring->ctx, record);
        return stk__fail(err, STK_EBUSY, STK_STAGE_LOADER,
                         "the batch is held by DLPack tensors, which cannot follow it");
    }
    stk__pool_disown(&ring->pool, record->ragged);
    pthread_mutex_lock(&ring->lock);
    returned_locked(ring, b, record->ragged != NULL);
    pthread_mutex_unlock(&ring->lock);
    *batch = record;
    return STK_OK;
}

void stk__batch_share(stk_batch *batch)
{
    pthread_mutex_lock(&batch->ring->lock);
    batch->tensors++;
    pthread_mutex_unlock(&batch->ring->lock);
}

void stk__batch_unshare(stk_batch *batch)
{
    pthread_mutex_lock(&batch->ring->lock);
    const bool last = --batch->tensors == 0 && !batch->held;
    pthread_mutex_unlock(&batch->ring->lock);
    if (last)
        give_back(batch);
}

uint64_t stk_batch_count(const stk_batch *batch)
{
    return held(batch)->count;
}

uint64_t stk_batch_epoch(const stk_batch *batch)
{
    return held(batch)->epoch;
}

uint64_t stk_batch_step(const stk_batch *batch)
{
    return held(batch)->step;
}

const uint64_t *stk_batch_positions(const stk_batch *batch)
{
    return held(batch)->positions;
}

stk_status stk_batch_field(const stk_batch *batch, uint32_t i, stk_tensor *out)
{
    stk_tensor tensor = {.struct_size = sizeof tensor};

    STK_TRY(stk__sized_check(out, "stk_tensor", STK_STAGE_LOADER, NULL));
    if (i < held(batch)->ring->num_columns) {
        const stk_field *field = &batch->ring->fields[i];
        tensor.name = field->name;
        tensor.dtype = field->dtype;
        tensor.layout = field->layout;
        tensor.data = batch->data[i];
        tensor.shape[0] = (int64_t)batch->count;
        tensor.rank = 1;
        const stk__pad *pad = &batch->ring->columns[i].pad;
        if (pad->unit) {
            tensor.layout = STK_FIXED;
            tensor.rank += STK_MAX(field->rank, 1);
            memcpy(tensor.shape + 1, field->shape, field->rank * sizeof *field->shape);
            tensor.shape[1] = (int64_t)batch->offsets[i][0];
        } else if (field->layout == STK_FIXED) {
            memcpy(tensor.shape + 1, field->shape, field->rank * sizeof *field->shape);
            tensor.rank += field->rank;
        } else {
            tensor.offsets = batch->offsets[i];
        }
    }
    stk__sized_write(out, &tensor);
    return tensor.name ? STK_OK : STK_EINVAL;
}

stk_status stk_batch_find(const stk_batch *batch, const char *name, stk_tensor *out)
{
    uint32_t i = 0;

    while (i < held(batch)->ring->num_columns && strcmp(batch->ring->fields[i].name, name) != 0)
        i++;
    return stk_batch_field(batch, i, out);
}

void stk_batch_get_state(const stk_batch *batch, stk_loader_state *out)
{
    *out = held(batch)->ring->state;
    out->epoch = batch->epoch;
    out->step = batch->step + 1;
}

/* A column as batch transforms see it. */
stk__batch_field stk__batch_field_of(const stk__column *column, void *data)
{
    stk__batch_field field = {.name = column->field.name, .data = data, .bytes = column->row_bytes};

    field.header = column->header;
    return field;
}
