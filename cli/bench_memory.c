/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tells of this process and of the machine. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS UINT64_C(20000000)
#define ROOM_MOST                                                                                  \
    (UINT64_C(1) << 27) /* values to reserve: address space only, until they are used */
#define ROOM_LEAST (UINT64_C(1) << 18)

struct bench_memory {
    pthread_t thread;
    uint64_t start, peak;
    atomic_uint_fast64_t own_bytes, epoch;
    pthread_mutex_t lock; /* guards `stop` */
    pthread_cond_t wake;
    bool stop;
    /* The last size seen in each epoch; the sampler's until it is joined. */
    uint64_t seen;
    uint64_t epochs[BENCH_EPOCHS_SEEN], bytes[BENCH_EPOCHS_SEEN];
};

static uint64_t kilobytes(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

uint64_t bench_memory_now(void)
{
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return (kilobytes(text, "RssAnon:") + kilobytes(text, "RssShmem:")) * 1024;
}

static void sample(struct bench_memory *memory)
{
    uint64_t own = atomic_load(&memory->own_bytes), epoch = atomic_load(&memory->epoch);
    uint64_t now = bench_memory_now();

    now = now > own ? now - own : 0;
    if (now > memory->peak)
        memory->peak = now;
    if (memory->seen && memory->epochs[memory->seen - 1] == epoch)
        memory->seen--;
    if (memory->seen < BENCH_EPOCHS_SEEN) {
        memory->epochs[memory->seen] = epoch;
        memory->bytes[memory->seen++] = now;
    }
}

static void *sampler(void *argument)
{
    struct bench_memory *memory = argument;
    bool stop = false;

    while (!stop) {
        uint64_t until = cli_now_ns() + PERIOD_NS;
        struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
                             .tv_nsec = (long)(until % 1000000000u)};
        sample(memory);
        pthread_mutex_lock(&memory->lock);
        while (!memory->stop &&
               pthread_cond_timedwait(&memory->wake, &memory->lock, &t) != ETIMEDOUT)
            continue;
        stop = memory->stop;
        pthread_mutex_unlock(&memory->lock);
    }
    return NULL;
}

struct bench_memory *bench_memory_start(void)
{
    pthread_condattr_t clock;
    struct bench_memory *memory = calloc(1, sizeof *memory);

    if (!memory)
        return NULL;
    /* Touched now, so that filling them does not look like growth. */
    memset(memory->epochs, 1, sizeof memory->epochs);
    memset(memory->bytes, 1, sizeof memory->bytes);
    pthread_mutex_init(&memory->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&memory->wake, &clock);
    pthread_condattr_destroy(&clock);
    memory->start = memory->peak = bench_memory_now();
    if (pthread_create(&memory->thread, NULL, sampler, memory) != 0) {
        free(memory);
        return NULL;
    }
    return memory;
}

void bench_memory_note(struct bench_memory *memory, uint64_t own_bytes, uint64_t epoch)
{
    if (!memory)
        return;
    atomic_store_explicit(&memory->own_bytes, own_bytes, memory_order_relaxed);
    atomic_store_explicit(&memory->epoch, epoch, memory_order_relaxed);
}

void bench_memory_stop(struct bench_memory *memory, uint64_t *peak, double *slope)
{
    *peak = 0;
    *slope = 0;
    if (!memory)
        return;
    pthread_mutex_lock(&memory->lock);
    memory->stop = true;
    pthread_cond_signal(&memory->wake);
    pthread_mutex_unlock(&memory->lock);
    pthread_join(memory->thread, NULL);
    sample(memory);
    *peak = memory->peak - memory->start;
    *slope = stk_memory_slope(memory->epochs, memory->bytes, memory->seen);
    pthread_cond_destroy(&memory->wake);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

double *bench_memory_reserve(uint64_t *room)
{
    for (*room = ROOM_MOST; *room >= ROOM_LEAST; *room /= 8) {
        void *memory = mmap(NULL, *room * sizeof(double), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory != MAP_FAILED)
            return memory;
    }
    return NULL;
}

uint64_t bench_process_cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

uint64_t bench_machine_busy_ns(void)
{
    unsigned long long user, nice, system, idle, wait, irq, soft, steal;
    FILE *f = fopen("/proc/stat", "r");
    bool found = f && fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice,
                             &system, &idle, &wait, &irq, &soft, &steal) == 8;

    if (f)
        fclose(f);
    if (!found)
        return 0;
    return (user + nice + system + irq + soft + steal) *
           (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* Call `each` with the content of a file of every thread of this process. */
static void each_thread(const char *file, void (*each)(const char *text, void *user), void *user)
{
    DIR *tasks = opendir("/proc/self/task");

    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        char path[300], text[128];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/%s", entry->d_name, file);
        FILE *f = fopen(path, "r");
        if (f && fgets(text, sizeof text, f))
            each(text, user);
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
}

static void add_delay(const char *text, void *user)
{
    unsigned long long delay;

    if (sscanf(text, "%*u %llu", &delay) == 1)
        *(uint64_t *)user += delay;
}

uint64_t bench_runnable_ns(void)
{
    uint64_t sum = 0;

    each_thread("schedstat", add_delay, &sum);
    return sum;
}

static void count_reader(const char *text, void *user)
{
    *(uint32_t *)user += strcmp(text, "stk-io\n") == 0;
}

uint32_t bench_io_threads(void)
{
    uint32_t n = 0;

    each_thread("comm", count_reader, &n);
    return n;
}
