/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of this process while a loader is at work. */
#include "bench/bench.h"

#include <sys/mman.h>

#include "measure/measure.h"

#define PERIOD_NS   UINT64_C(20000000)
#define EPOCHS_SEEN 4096
#define ROOM_MOST                                                                                  \
    (UINT64_C(1) << 27) /* values to reserve: address space only, until they are used */
#define ROOM_LEAST (UINT64_C(1) << 18)

struct stk__bench_memory {
    stk__thread thread;
    uint64_t start, peak;
    atomic_uint_fast64_t own_bytes, epoch;
    pthread_mutex_t lock; /* guards `stop` */
    pthread_cond_t wake;
    bool stop;
    /* The last size seen in each epoch; the sampler's until it is joined. */
    uint64_t seen;
    uint64_t epochs[EPOCHS_SEEN], bytes[EPOCHS_SEEN];
};

static const stk__system here = {.root = ""};

static void sample(stk__bench_memory *memory)
{
    uint64_t own = atomic_load(&memory->own_bytes), epoch = atomic_load(&memory->epoch);
    uint64_t now = stk__system_process_bytes(&here);

    now = now > own ? now - own : 0;
    if (now > memory->peak)
        memory->peak = now;
    if (memory->seen && memory->epochs[memory->seen - 1] == epoch)
        memory->seen--;
    if (memory->seen < EPOCHS_SEEN) {
        memory->epochs[memory->seen] = epoch;
        memory->bytes[memory->seen++] = now;
    }
}

static void sampler(void *argument)
{
    stk__bench_memory *memory = argument;
    bool stop = false;

    while (!stop) {
        uint64_t until = stk__now_ns() + PERIOD_NS;
        sample(memory);
        pthread_mutex_lock(&memory->lock);
        while (!memory->stop && stk__cond_wait_until(&memory->wake, &memory->lock, until))
            continue;
        stop = memory->stop;
        pthread_mutex_unlock(&memory->lock);
    }
}

static void release(stk__bench_memory *memory)
{
    pthread_cond_destroy(&memory->wake);
    pthread_mutex_destroy(&memory->lock);
    munmap(memory, sizeof *memory);
}

stk__bench_memory *stk__bench_memory_start(stk_context *ctx)
{
    /* Past the context, whose memory is what is looked at. */
    stk__bench_memory *memory =
        mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    /* Touched now, so that filling them does not look like growth. */
    memset(memory->epochs, 1, sizeof memory->epochs);
    memset(memory->bytes, 1, sizeof memory->bytes);
    pthread_mutex_init(&memory->lock, NULL);
    stk__cond_init(&memory->wake);
    memory->start = memory->peak = stk__system_process_bytes(&here);
    if (stk__thread_start(ctx, &memory->thread, "stk-memory", sampler, memory, NULL) != STK_OK) {
        release(memory);
        return NULL;
    }
    return memory;
}

void stk__bench_memory_note(stk__bench_memory *memory, uint64_t own_bytes, uint64_t epoch)
{
    if (!memory)
        return;
    atomic_store_explicit(&memory->own_bytes, own_bytes, memory_order_relaxed);
    atomic_store_explicit(&memory->epoch, epoch, memory_order_relaxed);
}

void stk__bench_memory_stop(stk__bench_memory *memory, uint64_t *peak, double *slope)
{
    *peak = 0;
    *slope = 0;
    if (!memory)
        return;
    pthread_mutex_lock(&memory->lock);
    memory->stop = true;
    pthread_cond_signal(&memory->wake);
    pthread_mutex_unlock(&memory->lock);
    stk__thread_join(&memory->thread);
    sample(memory);
    *peak = memory->peak - memory->start;
    *slope = stk__memory_slope(memory->epochs, memory->bytes, memory->seen);
    release(memory);
}

double *stk__bench_memory_reserve(uint64_t *room)
{
    for (*room = ROOM_MOST; *room >= ROOM_LEAST; *room /= 8) {
        void *memory = mmap(NULL, *room * sizeof(double), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory != MAP_FAILED)
            return memory;
    }
    return NULL;
}
