/* nothing -> status, memory, time, threads, context: what every room is built on */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_BASE_H
#define STK_SRC_BASE_BASE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include <stoker/base.h>
#include <stoker/options.h>
#include <stoker/plugin.h>

#define STK_CACHE_LINE 64
/* Readable bytes beyond every buffer, so that kernels may load whole vectors. */
#define STK_TAIL           64
#define STK_MAX_OBJECT_KEY 4096 /* bytes of a key with its end; PATH_MAX of Linux */

#define STK_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define STK_MAX(a, b)    ((a) > (b) ? (a) : (b))
#define STK_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Errors (error.c) ---- */

/* Fill `err` (may be NULL) and return `status`. The text says what happened, to what, and the
 * remedy. */
stk_status stk__fail(stk_error *err, stk_status status, stk_stage stage, const char *format, ...)
    STK_PRINTF(4, 5);
/* The same with the object and the offset it happened at (STK_NO_OFFSET: none). */
stk_status stk__fail_at(stk_error *err, stk_status status, stk_stage stage, const char *key,
                        uint64_t offset, const char *format, ...) STK_PRINTF(6, 7);
/* The status of an errno. */
stk_status stk__status_of_errno(int error);
/* What to do about a file that could not be written, after a message: "; free some space ..."; or
 * "". */
const char *stk__remedy_of_errno(int error);
/* Copy with "..." in front when it does not fit, so that the end of a path stays. */
void stk__copy_tail(char *to, size_t size, const char *from);

#define STK_TRY(expression)                                                                        \
    do {                                                                                           \
        stk_status try_ = (expression);                                                            \
        if (try_ != STK_OK)                                                                        \
            return try_;                                                                           \
    } while (0)

/* Where pieces of a file go, in order. */
typedef stk_status stk__write_fn(void *user, const void *data, size_t length, stk_error *err);

/* ---- Memory (memory.c): the only caller of the allocator ---- */

/* NULL when there is none. `size` 0 gives a valid pointer. Aligned to 16. Any thread. */
void *stk__alloc(stk_context *ctx, size_t size);
/* Zeroed; `count * size` is checked. */
void *stk__calloc(stk_context *ctx, size_t count, size_t size);
/* Aligned to STK_CACHE_LINE, with STK_TAIL zeroed bytes beyond `size`. */
void *stk__alloc_buffer(stk_context *ctx, size_t size);
/* Large pages for memory that is met in random order, if the system likes. */
void stk__use_large_pages(void *memory, uint64_t bytes);
/* Whole pages go back to the system; they keep their addresses, and are zeros when touched. */
void stk__give_pages_back(void *memory, uint64_t bytes);
/* Grow a block of any of the above kept as stk__alloc(); on failure the old one is untouched. */
void *stk__realloc(stk_context *ctx, void *memory, size_t size);
/* The list `array` with room for at least `wanted` elements of `size` bytes: itself, or moved to
 * twice the room. *room is what it has. NULL: no memory, or memory_limit has not as much left; the
 * list stays as it was. */
void *stk__grow(stk_context *ctx, void *array, size_t *room, uint64_t wanted, size_t size);
/* Free what any of them gave. Accepts NULL. */
void stk__free(stk_context *ctx, void *memory);
/* What of memory_limit nothing of this context holds yet: to be asked before the memory that an
 * input calls for is taken. */
uint64_t stk__memory_left(const stk_context *ctx);
char *stk__strdup(stk_context *ctx, const char *text);
/* Format into new memory; NULL when there is none. */
char *stk__format(stk_context *ctx, const char *format, ...) STK_PRINTF(2, 3);

/* ---- Checked arithmetic: sizes from outside go through these ---- */

static inline bool stk__mul_size(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool stk__add_size(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Product of a shape and an element size; false when negative or beyond INT64_MAX. */
bool stk__shape_bytes(const int64_t *shape, uint32_t rank, uint64_t itemsize, uint64_t *out);

/* An unsigned number of at most 8 bytes, the most significant first, at any address. */
static inline uint64_t stk__big_endian(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* An unsigned number of at most 8 bytes, the least significant first, at any address. */
static inline uint64_t stk__little_endian(const uint8_t *at, unsigned bytes)
{
    uint64_t n = 0;

    while (bytes-- > 0)
        n = n << 8 | at[bytes];
    return n;
}

static inline uint64_t stk__divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static inline uint64_t stk__round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Where part `i` begins of `count` elements in `parts` parts that differ by one element at most. */
static inline uint64_t stk__part_from(uint64_t count, uint64_t parts, uint64_t i)
{
    return count / parts * i + STK_MIN(i, count % parts);
}

static inline bool stk__all_zero(const void *bytes, uint64_t n)
{
    return !n || (!*(const char *)bytes && memcmp(bytes, (const char *)bytes + 1, n - 1) == 0);
}

/* Whether a text of `length` bytes, which are more than those of `end`, ends so. */
static inline bool stk__ends_with(const char *text, size_t length, const char *end)
{
    const size_t of_end = strlen(end);

    return length > of_end && memcmp(text + length - of_end, end, of_end) == 0;
}

/* ---- Elements (dtype.c) ---- */

/* A float16: sign, 5 bits of exponent (bias 15), 10 of fraction [IEEE 754-2008]. */
double stk__half_to_double(uint16_t half);
/* One element at any address; NaN for a type that is no real number. */
double stk__element_as_double(const void *value, stk_dtype dtype);
/* Copy `n` elements, as STK_FLOAT32 or STK_FLOAT64 where they are of another type. */
void stk__elements_to(void *to, stk_dtype type, const void *from, stk_dtype from_type, uint64_t n);
/* A real number in a float type, half to even. */
void stk__float_bytes(stk_dtype dtype, double x, void *out);
/* Floats in STK_BFLOAT16, half to even; and back. */
void stk__floats_to_bf16(uint16_t *to, const float *from, uint64_t n);
void stk__bf16_to_floats(float *to, const uint16_t *from, uint64_t n);
/* Real numbers with a fraction. */
bool stk__dtype_is_float(stk_dtype dtype);

/* ---- Clock (clock.c) ---- */

uint64_t stk__now_ns(void);        /* monotonic */
double stk__wall_seconds(void);    /* Unix time */
uint64_t stk__thread_cpu_ns(void); /* of the calling thread */
uint64_t stk__process_cpu_ns(void);
/* Sleep until a monotonic time or until *cancel becomes true (checked every 20 ms; NULL: never). */
void stk__sleep_until(uint64_t when_ns, const atomic_bool *cancel);

/* What threads of oneDNN and others that are built on OpenMP do when there is nothing to
 * do, so that they leave the workers their cores. It is read when a process starts. */
#define STK__COMPUTE_ENVIRONMENT "OMP_WAIT_POLICY=passive"

static inline double stk__seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* stk__now_ns() of a moment that is only measured. What such stamps cost is found by leaving them
 * out (bench/no_ledger.h). */
static inline uint64_t stk__stamp(void)
{
    return stk__now_ns();
}

/* ---- Threads (thread.c) ---- */

typedef struct stk__thread {
    pthread_t handle;
    bool started;
    stk_context *context;
    void (*run)(void *);
    void *argument;
    char name[16];
} stk__thread;

/* Start a named thread where its context belongs; signals blocked, least slack. STK_ETHREAD */
stk_status stk__thread_start(stk_context *ctx, stk__thread *thread, const char *name,
                             void (*run)(void *), void *argument, stk_error *err);
/* The calling thread prepares for others: it wakes without pushing another off its core. */
void stk__thread_background(void);
/* Wait for its end. Accepts one that never started. */
void stk__thread_join(stk__thread *thread);

/* A condition variable on the monotonic clock. */
void stk__cond_init(pthread_cond_t *cond);
/* Wait until signalled or until a monotonic time (UINT64_MAX: no limit); false when the time has
 * passed. */
bool stk__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t when_ns);

/* ---- Context (context.c) ---- */

stk_context *stk__context_ref(stk_context *ctx);
void stk__context_unref(stk_context *ctx);
/* STK_EFORK in a child of the process that made the context. */
stk_status stk__context_check(const stk_context *ctx, stk_error *err);
bool stk__context_forked(const stk_context *ctx);
stk_io_engine stk__context_io_engine(const stk_context *ctx);
/* What the option `stores` says; lives as long as the context. */
const struct stk__items *stk__context_stores(const stk_context *ctx);
bool stk__cpu_has_avx2(const stk_context *ctx);
void stk__message(stk_context *ctx, stk_message_level level, const char *format, ...)
    STK_PRINTF(3, 4);
void stk__progress(stk_context *ctx, const char *what, uint64_t done, uint64_t total);

/* Never NULL: the name of a part of a wait, as "read_slot"; of a room, as "dataset". */
const char *stk__wait_name(stk_wait part);
const char *stk__stage_name(stk_stage stage);

/*
 * Threads that a model computes on which has work for `wanted`: compute_threads, or, where that is
 * left to the run, as many as wanted, its part of the usable cores at most. stk_context_cores()
 * tells the most that any model got. *chosen: it was left to the run. Any thread.
 */
uint32_t stk__context_model_threads(stk_context *ctx, uint32_t wanted, bool *chosen);

/*
 * Workers for each of `ranks` processes that share `usable` cores: a rank's share of them, less
 * those it computes with. One core stays free at least, and two where the share is 16 or more: the
 * thread of the step, reads and the system want some. At least 1. Pure.
 */
uint32_t stk__cores_workers(uint32_t usable, uint32_t compute, uint32_t ranks);

/* Bytes this process may use: the least of physical memory, cgroup limits and `memory_limit`. */
uint64_t stk__context_memory_limit(const stk_context *context);
/* The same for each of the processes that share it (`memory_ranks`). */
uint64_t stk__context_memory_share(const stk_context *context);
/* Bytes that something large may still take: what is left of that limit, and an eighth less than
 * the system has left, as others take some, too. */
uint64_t stk__context_memory_room(const stk_context *context);

#endif
