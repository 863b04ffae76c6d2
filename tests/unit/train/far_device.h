/* The device of stub_device.h, but that the host cannot touch its memory: its addresses are pages
 * without access. It gives memory back in granules, counts what is there, and notes who comes to
 * what is not. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_FAR_DEVICE_H
#define STK_TESTS_UNIT_TRAIN_FAR_DEVICE_H

#include <sys/mman.h>
#include <unistd.h>

#include "unit/dist/stub_device.h"

enum { FAR_BYTES = 256 << 10, GRANULE = 64, FAR_DEVICES = 4, LOST = 0xff /* bytes of no number */ };

typedef struct far_memory {
    char *inside, *shown; /* the same bytes: for who is the device; its addresses */
    bool gone[FAR_BYTES / GRANULE];
    uint64_t used, live; /* handed out, ever; of blocks that were not freed */
    uint64_t allocs, gives, takes;
    uint64_t alloc_fails_at, give_fails_at, take_fails_at; /* the so many'th; 0: none */
} far_memory;

/* Of each rank; the library that stands for NCCL reaches them all. */
static far_memory far_memories[FAR_DEVICES];
static atomic_int far_missing; /* times that somebody came to what is gone */
static _Thread_local far_memory *far_own;

static inline void far_open_memory(far_memory *m)
{
    const int fd = memfd_create("device", MFD_CLOEXEC);

    assert_true(fd >= 0 && ftruncate(fd, FAR_BYTES) == 0);
    *m = (far_memory){0};
    m->inside = mmap(NULL, FAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    m->shown = mmap(NULL, FAR_BYTES, PROT_NONE, MAP_SHARED, fd, 0);
    assert_true(m->inside != MAP_FAILED && m->shown != MAP_FAILED);
    close(fd);
}

static inline void far_close_memory(far_memory *m)
{
    munmap(m->inside, FAR_BYTES);
    munmap(m->shown, FAR_BYTES);
    m->inside = m->shown = NULL;
}

static inline far_memory *far_memory_of(const void *at)
{
    for (int i = 0; i < FAR_DEVICES; i++) {
        far_memory *m = &far_memories[i];
        if (m->shown && (const char *)at >= m->shown && (const char *)at < m->shown + FAR_BYTES)
            return m;
    }
    return NULL;
}

/* What is wanted has to be there. */
static inline void *far_reach(const void *at, uint64_t bytes)
{
    const far_memory *m = far_memory_of(at);

    if (!m)
        return (void *)at;
    const uint64_t from = (uint64_t)((const char *)at - m->shown);
    for (uint64_t i = from / GRANULE; bytes && i <= (from + bytes - 1) / GRANULE; i++)
        if (m->gone[i])
            far_missing++;
    return m->inside + from;
}

/* Bytes of a block that are there. */
static inline uint64_t far_present(const void *at, uint64_t bytes)
{
    const far_memory *m = far_memory_of(at);
    const uint64_t from = (uint64_t)((const char *)at - m->shown);
    uint64_t there = 0;

    for (uint64_t i = from; i < from + bytes; i++)
        there += !m->gone[i / GRANULE];
    return there;
}

static inline stk_status far_alloc(stk_device *device, uint64_t bytes, void **out, stk_error *err)
{
    far_memory *m = far_own;

    if (++m->allocs == m->alloc_fails_at)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DEVICE, "a block failed on purpose");
    *out = m->shown + m->used;
    *(uint64_t *)(void *)(m->inside + m->used) = bytes; /* for free(), before the block */
    *out = (char *)*out + 256;
    m->used += 256 + (bytes / 256 + 1) * 256;
    m->live += bytes;
    assert_true(m->used <= FAR_BYTES);
    memset(far_reach(*out, bytes), LOST, bytes);
    return STK_OK;
}

static inline void far_free(stk_device *device, void *memory)
{
    far_memory *m = far_memory_of(memory);

    m->live -= *(uint64_t *)(void *)(m->inside + ((char *)memory - m->shown) - 256);
}

static inline stk_status far_copy(stk_stream *stream, void *to, const void *from, uint64_t bytes,
                                  stk_copy_kind kind, stk_error *err)
{
    STK_TRY(stub_synchronize(stream, err));
    assert_int_equal(far_memory_of(to) != NULL, kind != STK_COPY_DEVICE_TO_HOST);
    assert_int_equal(far_memory_of(from) != NULL, kind != STK_COPY_HOST_TO_DEVICE);
    memmove(far_reach(to, bytes), far_reach(from, bytes), bytes);
    return STK_OK;
}

static inline stk_status far_fill(stk_stream *stream, void *to, uint8_t byte, uint64_t bytes,
                                  stk_error *err)
{
    STK_TRY(stub_synchronize(stream, err));
    assert_non_null(far_memory_of(to));
    memset(far_reach(to, bytes), byte, bytes);
    return STK_OK;
}

static inline stk_status far_fold(stk_stream *stream, double *sums, const stk_scalar *value,
                                  double weight, stk_error *err)
{
    const size_t size = stk_dtype_size(value->dtype);
    stk_scalar here = *value;

    STK_TRY(stub_synchronize(stream, err));
    here.data = far_reach(value->data, size);
    here.weight = value->weight ? far_reach(value->weight, size) : NULL;
    return stk__device_cpu.fold(stream, far_reach(sums, 4 * sizeof *sums), &here, weight, err);
}

static inline stk_status far_convert(stk_stream *stream, void *to, stk_dtype to_type,
                                     const void *from, stk_dtype from_type, uint64_t n,
                                     stk_error *err)
{
    STK_TRY(stub_synchronize(stream, err));
    assert_true(far_memory_of(to) && far_memory_of(from));
    return stk__device_cpu.convert(stream, far_reach(to, n * stk_dtype_size(to_type)), to_type,
                                   far_reach(from, n * stk_dtype_size(from_type)), from_type, n,
                                   err);
}

static inline stk_status far_squares(stk_stream *stream, double *sum, const void *from,
                                     stk_dtype dtype, uint64_t n, stk_error *err)
{
    STK_TRY(stub_synchronize(stream, err));
    assert_true(far_memory_of(sum) && far_memory_of(from));
    return stk__device_cpu.squares(stream, far_reach(sum, sizeof *sum),
                                   far_reach(from, n * stk_dtype_size(dtype)), dtype, n, err);
}

static inline stk_status far_scale(stk_stream *stream, void *data, stk_dtype dtype, uint64_t n,
                                   double by, double most, stk_error *err)
{
    STK_TRY(stub_synchronize(stream, err));
    assert_non_null(far_memory_of(data));
    return stk__device_cpu.scale(stream, far_reach(data, n * stk_dtype_size(dtype)), dtype, n, by,
                                 most, err);
}

/* Whole granules go, and those that it touches come; nothing is left of what was in them. */
static inline void far_set(void *memory, uint64_t bytes, bool gone)
{
    far_memory *m = far_memory_of(memory);
    const uint64_t from = (uint64_t)((char *)memory - m->shown), end = from + bytes;
    const uint64_t first = (gone ? from + GRANULE - 1 : from) / GRANULE;

    for (uint64_t i = first; i < (gone ? end : end + GRANULE - 1) / GRANULE; i++) {
        if (m->gone[i] != gone)
            memset(m->inside + i * GRANULE, LOST, GRANULE);
        m->gone[i] = gone;
    }
}

static inline stk_status far_give_back(stk_stream *stream, void *memory, uint64_t bytes,
                                       stk_error *err)
{
    far_memory *m = far_memory_of(memory);

    assert_non_null(err);
    STK_TRY(stub_synchronize(stream, err));
    if (++m->gives == m->give_fails_at)
        return stk__fail(err, STK_EIO, STK_STAGE_DEVICE, "unmapping failed on purpose");
    far_set(memory, bytes, true);
    return STK_OK;
}

static inline stk_status far_take_back(stk_stream *stream, void *memory, uint64_t bytes,
                                       stk_error *err)
{
    far_memory *m = far_memory_of(memory);

    assert_non_null(err);
    STK_TRY(stub_synchronize(stream, err));
    if (++m->takes == m->take_fails_at)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DEVICE, "memory is out on purpose");
    far_set(memory, bytes, false);
    return STK_OK;
}

static inline stk_device_ops far_device(void)
{
    stk_device_ops ops = stub_device;

    ops.name = "far";
    ops.alloc = far_alloc;
    ops.free = far_free;
    ops.copy = far_copy;
    ops.fill = far_fill;
    ops.fold = far_fold;
    ops.convert = far_convert;
    ops.squares = far_squares;
    ops.scale = far_scale;
    ops.give_back = far_give_back;
    ops.take_back = far_take_back;
    return ops;
}

#endif
