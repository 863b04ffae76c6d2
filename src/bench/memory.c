/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of this process, and of its workers, while a loader is at work. */
#include "bench/bench.h"

#include <sys/mman.h>

#include "measure/measure.h"

#define PERIOD_NS   UINT64_C(20000000)
#define TREE_NS     UINT64_C(500000000) /* the kernel counts the pages of a process one by one */
#define TREE_GROWN  (UINT64_C(32) << 20)
#define EPOCHS_SEEN 4096
#define ROOM_MOST                                                                                  \
    (UINT64_C(1) << 27) /* values to reserve: address space only, until they are used */
#define ROOM_LEAST (UINT64_C(1) << 18)

struct stk__bench_memory {
    stk__thread thread;
    bool tree;
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

static uint64_t held(const stk__bench_memory *memory)
{
    return memory->tree ? stk__bench_tree_bytes() : stk__system_process_bytes(&here);
}

static void sample(stk__bench_memory *memory)
{
    uint64_t own = atomic_load(&memory->own_bytes), epoch = atomic_load(&memory->epoch);
    uint64_t now = held(memory);

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
        uint64_t until = stk__now_ns() + (memory->tree ? TREE_NS : PERIOD_NS);
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

stk__bench_memory *stk__bench_memory_start(stk_context *ctx, bool tree)
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
    memory->tree = tree;
    memory->start = memory->peak = held(memory);
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
    /* Pages that processes shared become their own one after the other. */
    if (memory->tree && *slope * (double)memory->seen < (double)TREE_GROWN)
        *slope = 0;
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
