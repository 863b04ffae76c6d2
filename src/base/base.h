/* nothing -> status, memory, threads, time, randomness: what every room stands on */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_BASE_H
#define STK_SRC_BASE_BASE_H

#include <pthread.h>
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

/* ---- Memory (memory.c): the only caller of the allocator ---- */

/* NULL when there is none. `size` 0 gives a valid pointer. Aligned to 16. Any thread. */
void *stk__alloc(stk_context *ctx, size_t size);
/* Zeroed; `count * size` is checked. */
void *stk__calloc(stk_context *ctx, size_t count, size_t size);
/* Aligned to STK_CACHE_LINE, with STK_TAIL zeroed bytes beyond `size`. */
void *stk__alloc_buffer(stk_context *ctx, size_t size);
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

static inline uint64_t stk__round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* ---- Elements (dtype.c) ---- */

/* A float16: sign, 5 bits of exponent (bias 15), 10 of fraction [IEEE 754-2008]. */
double stk__half_to_double(uint16_t half);
/* One element at any address; NaN for a type that is no real number. */
double stk__element_as_double(const void *value, stk_dtype dtype);

/* ---- Clock (clock.c) ---- */

uint64_t stk__now_ns(void);        /* monotonic */
double stk__wall_seconds(void);    /* Unix time */
uint64_t stk__thread_cpu_ns(void); /* of the calling thread */
uint64_t stk__process_cpu_ns(void);
/* Sleep until a monotonic time or until *cancel becomes true (checked every 20 ms; NULL: never). */
void stk__sleep_until(uint64_t when_ns, const atomic_bool *cancel);

/* What threads of oneDNN and others that are built on OpenMP are told for when there is nothing to
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
    void (*run)(void *);
    void *argument;
    char name[16];
} stk__thread;

/* Start a named thread with all signals blocked and the least timer slack. Errors: STK_ETHREAD. */
stk_status stk__thread_start(stk_context *ctx, stk__thread *thread, const char *name,
                             void (*run)(void *), void *argument, stk_error *err);
/* The calling thread prepares for others: when it wakes it does not push the thread off the core
 * that runs there. */
void stk__thread_background(void);
/* Wait for its end. Accepts one that never started. */
void stk__thread_join(stk__thread *thread);

/* A condition variable on the monotonic clock. */
void stk__cond_init(pthread_cond_t *cond);
/* Wait until signalled or until a monotonic time (UINT64_MAX: no limit); false when the time has
 * passed. */
bool stk__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t when_ns);

/* ---- Randomness (philox.c, permutation.c) ---- */

/* Philox4x32-10 [Salmon et al., SC'11]: 128 bits of counter and 64 of key -> 128 random bits. */
void stk__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* A float in [0, 1) of a word, with 24 bits; the result of u * 2^-32 rounded down. */
static inline float stk__uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* What a draw is for: no two purposes share a stream. The transform's number in its pipeline is
 * added to TRANSFORM. */
enum {
    STK_DRAW_ORDER = 0,   /* keys of permutations */
    STK_DRAW_REPLACE = 1, /* substitutes of bad samples */
    STK_DRAW_DATA = 2,    /* data made procedurally */
    STK_DRAW_SPLIT = 3,
    STK_DRAW_BATCH = 4, /* batch -> batch transforms */
    STK_DRAW_TRANSFORM = 16
};

/* `n` words (a multiple of 4 is made up) for (seed, epoch, position, purpose). position < 2^48,
 * purpose < 2^16. */
void stk__draw(uint64_t seed, uint32_t epoch, uint64_t position, uint32_t purpose, uint32_t *words,
               size_t n);

#define STK_PERMUTATION_ROUNDS 8

/* A keyed permutation of [0, size), size <= 2^48, computed and not stored. */
typedef struct stk__permutation {
    uint64_t size;
    uint32_t left_bits, right_bits;
    uint32_t keys[STK_PERMUTATION_ROUNDS];
    uint32_t swap; /* 1: the positions 0 and 1 change places first */
} stk__permutation;

#define STK_PERMUTATION_MAX (UINT64_C(1) << 48)

void stk__permutation_init(stk__permutation *p, uint64_t size, uint64_t seed, uint64_t epoch,
                           uint32_t which);
uint64_t stk__permutation_at(const stk__permutation *p, uint64_t position); /* position -> value */
uint64_t stk__permutation_inverse(const stk__permutation *p,
                                  uint64_t value); /* value -> position */
/* out[i] = at(positions[i]); the same values, faster, with or without AVX2. */
void stk__permutation_many(const stk__permutation *p, const uint64_t *positions, uint64_t *out,
                           size_t n, bool avx2);

/* ---- Context (context.c) ---- */

/* Whom the context tells what happens. All events of all rooms go through `event`; it must not
 * block. */
typedef struct stk__event stk__event;
typedef struct stk__probe {
    void (*event)(void *user, const stk__event *event);
    void *user;
} stk__probe;

typedef enum stk__event_kind {
    STK__EVENT_SAMPLE,  /* samples were prepared: epoch, position and index of the first, count,
                           worker, start, end */
    STK__EVENT_READ,    /* a read ended: bytes, start (submitted), end, status, count = samples it
                           serves */
    STK__EVENT_BATCH,   /* a batch became ready: epoch, step, count, start (planned), end */
    STK__EVENT_DELIVER, /* a batch was handed out: epoch, step, start (asked), end */
    STK__EVENT_BAD_SAMPLE, /* index, position, status */
    STK__EVENT_PLAN,       /* samples were located: count, start, end */
    STK__EVENT_DECODE      /* what several samples may share was decoded: bytes (that came out),
                              count = samples waiting for it, worker, start, end, status */
} stk__event_kind;

struct stk__event {
    stk__event_kind kind;
    stk_status status;
    uint32_t worker; /* number of the worker; UINT32_MAX: the caller's thread */
    uint64_t start_ns, end_ns;
    uint64_t epoch, step, position, index, count, bytes;
    const uint64_t *indices; /* of SAMPLE: `count` of them, valid during the call; else NULL */
};

/* ---- Drivers (registry.c): <stoker/plugin.h>, and what the rooms ask ---- */

/* A kind of drivers, as the composition root lists it. */
typedef struct stk__drivers {
    const char *word;           /* "dataset" */
    const void *const *builtin; /* NULL-ended; each begins as a stk_driver_head */
    /* Whether an outsider's table is whole; NULL: none can be added. */
    stk_status (*check)(const void *table, stk_error *err);
} stk__drivers;

/* Defined by the composition root, src/stoker.c. */
const stk__drivers *stk__drivers_of(stk_driver_kind kind);
/* The driver whose name are these `length` bytes, as stk_driver_find() does; NULL: none. */
const void *stk__driver_find(const stk_context *ctx, stk_driver_kind kind, const char *name,
                             size_t length);
bool stk__driver_is_builtin(stk_driver_kind kind, const void *table);
/* The names of a kind with a text between them, cut to what fits. */
void stk__driver_names(const stk_context *ctx, stk_driver_kind kind, const char *between,
                       char *text, size_t size);
/* Add all or none; with `plugin`, which may be NULL, nothing where the context has that already. */
stk_status stk__drivers_add(stk_context *ctx, const stk_plugin *plugin,
                            const stk_plugin_driver *drivers, size_t n, stk_error *err);

stk_context *stk__context_ref(stk_context *ctx);
void stk__context_unref(stk_context *ctx);
/* STK_EFORK in a child of the process that made the context. */
stk_status stk__context_check(const stk_context *ctx, stk_error *err);
bool stk__context_forked(const stk_context *ctx);
stk_io_engine stk__context_io_engine(const stk_context *ctx);
bool stk__cpu_has_avx2(const stk_context *ctx);
void stk__log(stk_context *ctx, stk_log_level level, const char *format, ...) STK_PRINTF(3, 4);
void stk__progress(stk_context *ctx, const char *what, uint64_t done, uint64_t total);

/* Install or remove (NULL) a probe; at most 4 at a time, else STK_EBUSY. Waits until no thread is
 * in a removed one. */
stk_status stk__probe_add(stk_context *ctx, const stk__probe *probe);
void stk__probe_remove(stk_context *ctx, const stk__probe *probe);
/* Whether anybody listens: lets the hot path skip its stamps. */
bool stk__probed(const stk_context *ctx);
void stk__emit(stk_context *ctx, const stk__event *event);

/* A slot in which mem: stores of this context keep their objects, owned by src/store. */
typedef struct stk__slot {
    void *data;
    void (*destroy)(stk_context *ctx, void *data);
} stk__slot;
/* Run `use` with the context's mem: slot, under its lock. */
stk_status stk__context_slot(stk_context *ctx,
                             stk_status (*use)(stk_context *ctx, stk__slot *slot, void *user),
                             void *user);

/* ---- Removal (remove.c): the only caller of unlink() and its like ---- */

/* Whether this names something in a folder itself: neither empty, "." nor "..", without '/'. */
bool stk__is_plain_name(const char *name);
/* Remove a file, or an empty folder, of an open folder. -1: errno; EINVAL: no plain name. What a
 * file told is removed only where the folder is the run's own and the run, or one before it, made
 * it. */
int stk__remove_file(int folder, const char *name);
int stk__remove_folder(int folder, const char *name);
/* The same by a path that no file told. */
int stk__remove_path(const char *path);
int stk__remove_folder_path(const char *path);

/* ---- Files that are being written (temporary.c) ---- */

#define STK__TEMPORARY      ".stoker-put-" /* how their names begin: nobody takes them for anything */
#define STK__TEMPORARY_ROOM 40

bool stk__is_temporary(const char *name);
/* A name that nobody has, most probably. */
void stk__temporary_name(char name[STK__TEMPORARY_ROOM]);
/* Lock the file just made under such a name. False: another process has taken it for one that was
 * left, and it is to be made again under another name. */
bool stk__temporary_claim(int fd);
/* Hold the lock on while `fd` is closed, until release() after the file has its final name. */
int stk__temporary_hold(int fd);
void stk__temporary_release(int held);
/* Remove what processes that are gone left in an open folder. What cannot be is left. */
void stk__temporary_sweep(int folder);
/* fsync() of a file or folder, and syncfs(). One that was interrupted has lost nothing and is
 * repeated; one that failed never is: the kernel may have dropped the pages. */
int stk__sync(int fd);
int stk__sync_all(int fd);

/* ---- Specs (spec.c) ---- */

/*
 * Take the options of `table` out of the query of "url?name=value&name=value": known names are set
 * in `options`, the others stay. `url` (writable) becomes the rest. Values may be %-escaped.
 * `texts` receives a block that the values of STRING options point into, to be freed with
 * stk__free() after use; NULL when there is none.
 */
stk_status stk__spec_take(stk_context *ctx, char *url, const stk_option_table *table, void *options,
                          char **texts, stk_error *err);
/* Fail for the first option of a query that nobody has taken; the table names the nearest. */
stk_status stk__spec_unknown(const stk_option_table *table, const char *query, stk_error *err);

#endif
