/* Arrays whose elements follow from their places, for the tests of their conversion. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_ARRAYS_H
#define STK_TESTS_ARRAYS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/array.h>

#include "support/support.h"

/* Element number i, in C order, of an array with this seed. Neighbours are unlike. */
static inline int32_t arrays_value(uint64_t i, uint32_t seed)
{
    return (int32_t)((i * 2654435761u + seed) % 30011) - 15000;
}

/* An allocator that counts what is held, and ends the process at an allocation. */
typedef struct arrays_memory {
    _Atomic int64_t held, peak;
    _Atomic int64_t kill_in; /* allocations; never below 0 where it is not to */
} arrays_memory;

static inline void *arrays_alloc(void *user, size_t size, size_t align)
{
    arrays_memory *m = user;
    void *memory = NULL;

    if (m->kill_in && atomic_fetch_sub(&m->kill_in, 1) == 1)
        kill(getpid(), SIGKILL);
    if (posix_memalign(&memory, align < 16 ? 16 : align, size ? size : 1) != 0)
        return NULL;
    const int64_t held = atomic_fetch_add(&m->held, (int64_t)size) + (int64_t)size;
    int64_t peak = m->peak;
    while (held > peak && !atomic_compare_exchange_weak(&m->peak, &peak, held))
        ;
    return memory;
}

static inline void arrays_free(void *user, void *memory, size_t size)
{
    arrays_memory *m = user;

    atomic_fetch_sub(&m->held, (int64_t)size);
    free(memory);
}

/* What a conversion is told, and what it told. */
typedef struct arrays_run {
    stk_convert_options options;
    stk_convert_arrays_options own;
    stk_conversion_report report;
    arrays_memory memory;
} arrays_run;

static inline void arrays_run_init(arrays_run *run)
{
    memset(run, 0, sizeof *run);
    run->report.struct_size = sizeof run->report;
    stk_convert_options_init(&run->options);
    stk_options_init(stk_option_table_find("arrays"), &run->own, sizeof run->own);
    run->options.num_workers = 0;
    run->options.memory_budget = 8 << 20;
}

/* Convert in `ctx`; NULL: in a context of its own with the run's memory. */
static inline stk_status arrays_convert(arrays_run *run, stk_context *ctx, const char *from,
                                        const char *to, stk_error *err)
{
    stk_conversion *conversion = NULL;
    stk_context *own = NULL;
    stk_context_options options;

    stk_error_init(err);
    if (!ctx) {
        stk_context_options_init(&options);
        options.allocator = (stk_allocator){arrays_alloc, arrays_free, &run->memory};
        options.io_engine = STK_IO_THREADS;
        assert_ok(stk_context_create(&options, &own, err), err);
    }
    memset(&run->report, 0, sizeof run->report);
    run->report.struct_size = sizeof run->report;
    stk_status status = stk_conversion_create(ctx ? ctx : own, from, to, &conversion, err);
    if (status == STK_OK)
        status = stk_conversion_run(conversion, &run->options, &run->own, &run->report, err);
    stk_conversion_destroy(&conversion);
    stk_context_destroy(&own);
    return status;
}

static inline uint64_t arrays_count(uint32_t rank, const int64_t *shape)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < rank; d++)
        n *= (uint64_t)shape[d];
    return n;
}

/* Of int32, of this shape, chunks and names of dimensions (which may be NULL). */
static inline void arrays_options(stk_array_writer_options *o, uint32_t rank, const int64_t *shape,
                                  const int64_t *chunk, const char *const *names)
{
    stk_array_writer_options_init(o);
    o->dtype = STK_INT32;
    o->rank = rank;
    o->shape = shape;
    o->chunk_shape = chunk;
    o->dimension_names = names;
}

/* Write an array of int32 or float32 whose elements are arrays_value(). */
static inline void arrays_make(stk_context *ctx, const char *url, const stk_array_writer_options *o,
                               uint32_t seed)
{
    const uint64_t n = arrays_count(o->rank, o->shape);
    const int64_t start[STK_ARRAY_MAX_RANK] = {0};
    int32_t *values = malloc(n * 4 + 4);
    stk_array_writer *writer;
    stk_error err;

    assert_non_null(values);
    for (uint64_t i = 0; i < n; i++) {
        const int32_t x = arrays_value(i, seed);
        const float f = (float)x;
        if (o->dtype == STK_FLOAT32)
            memcpy(&values[i], &f, 4);
        else
            values[i] = x;
    }
    assert_ok(stk_array_writer_create(ctx, url, o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, start, o->shape, values, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
    free(values);
}

/* Read all of an array and hold it against arrays_value(). */
static inline void arrays_check(stk_context *ctx, const char *url, uint32_t seed)
{
    stk_array *array;
    stk_error err;

    assert_ok(stk_array_open(ctx, url, NULL, &array, &err), &err);
    const stk_array_info *info = stk_array_get_info(array);
    const uint64_t n = arrays_count(info->rank, info->shape);
    int32_t *values = malloc(n * 4 + 4);
    assert_non_null(values);
    assert_int_equal(info->itemsize, 4);
    assert_ok(stk_array_read(array, NULL, values, n * 4, NULL, -1, &err), &err);
    for (uint64_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, &values[i], 4);
        const int32_t x = info->dtype == STK_FLOAT32 ? (int32_t)f : values[i];
        if (x != arrays_value(i, seed))
            fail_msg("%s: element %llu is %d and not %d", url, (unsigned long long)i, x,
                     arrays_value(i, seed));
    }
    free(values);
    stk_array_close(&array);
}

/* Whether two folders hold the same files, journals aside. */
static inline void arrays_equal(const char *a, const char *b)
{
    char command[1200];

    snprintf(command, sizeof command, "diff -r -x '.stoker-convert*' '%s' '%s' >&2", a, b);
    assert_int_equal(system(command), 0);
}

#endif
