/* SPDX-License-Identifier: Apache-2.0 */
/* The table of files, and the threads that fill it. */
#include "dataset/images.h"

#include <stdio.h>
#include <strings.h>

#define MAX_CREW         16u
#define TELL_AFTER_NS    UINT64_C(500000000) /* what takes less is not worth a bar */
#define TELL_INTERVAL_NS UINT64_C(200000000)

void stk__images_release(stk__images_table *table)
{
    stk__free(table->context, table->text);
    stk__free(table->context, table->folders);
    stk__free(table->context, table->files);
    *table = (stk__images_table){.context = table->context};
}

size_t stk__images_key(const stk__images_table *table, uint64_t i, char *key, size_t size)
{
    const stk__images_file *file = &table->files[i];
    const char *path = table->text + table->folders[file->folder].path;
    int n = snprintf(key, size, "%s%s%s", path, path[0] ? "/" : "", table->text + file->name);

    return n < 0 ? 0 : (size_t)n;
}

bool stk__images_is_class(const stk__images_table *table, uint64_t folder)
{
    const char *path = table->text + table->folders[folder].path;

    return path[0] && !strchr(path, '/');
}

int stk__images_compare_paths(const char *a, const char *b)
{
    size_t a_length = strcspn(a, "/"), b_length = strcspn(b, "/");
    int order = memcmp(a, b, STK_MIN(a_length, b_length));

    if (order)
        return order;
    if (a_length != b_length)
        return a_length < b_length ? -1 : 1;
    return strcmp(a, b);
}

int stk__images_kind(const char *name, size_t length)
{
    static const struct {
        const char *end;
        int kind;
    } kinds[] = {{".jpeg", STK__IMAGES_JPEG},   {".jpg", STK__IMAGES_JPEG},
                 {".png", STK__IMAGES_PNG},     {".bmp", STK__IMAGES_UNREAD},
                 {".gif", STK__IMAGES_UNREAD},  {".pgm", STK__IMAGES_UNREAD},
                 {".ppm", STK__IMAGES_UNREAD},  {".tif", STK__IMAGES_UNREAD},
                 {".tiff", STK__IMAGES_UNREAD}, {".webp", STK__IMAGES_UNREAD}};

    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        size_t n = strlen(kinds[i].end);
        if (length > n && strncasecmp(name + length - n, kinds[i].end, n) == 0)
            return kinds[i].kind;
    }
    return STK__IMAGES_OTHER;
}

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct crew {
    void (*work)(void *);
    void *argument;
    pthread_mutex_t mutex; /* guards `running` */
    pthread_cond_t ended;
    uint32_t running;
} crew;

uint32_t stk__images_threads(const stk_context *ctx)
{
    stk_cores cores = {.struct_size = sizeof cores};

    stk_context_cores(ctx, &cores);
    return STK_MIN(4 * cores.usable, MAX_CREW);
}

static void crew_main(void *argument)
{
    crew *c = argument;

    c->work(c->argument);
    pthread_mutex_lock(&c->mutex);
    c->running--;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&c->mutex);
}

void stk__images_crew(stk_context *ctx, uint32_t threads, void (*work)(void *), void *argument,
                      const char *what, const atomic_uint_fast64_t *done, uint64_t total)
{
    crew c = {.work = work, .argument = argument, .mutex = PTHREAD_MUTEX_INITIALIZER};
    stk__thread members[MAX_CREW] = {{0}};
    uint32_t started = 0;
    bool told = false;

    threads = STK_MIN(threads, MAX_CREW);
    stk__cond_init(&c.ended);
    c.running = threads > 1 ? threads : 0;
    while (threads > 1 && started < threads &&
           stk__thread_start(ctx, &members[started], "stk-list", crew_main, &c, NULL) == STK_OK)
        started++;
    if (started == 0)
        work(argument);
    uint64_t when = stk__now_ns() + TELL_AFTER_NS;
    pthread_mutex_lock(&c.mutex);
    if (threads > 1)
        c.running -= threads - started;
    while (c.running) {
        if (stk__cond_wait_until(&c.ended, &c.mutex, when))
            continue;
        pthread_mutex_unlock(&c.mutex);
        stk__progress(ctx, what, atomic_load_explicit(done, memory_order_relaxed), total);
        told = true;
        when = stk__now_ns() + TELL_INTERVAL_NS;
        pthread_mutex_lock(&c.mutex);
    }
    pthread_mutex_unlock(&c.mutex);
    for (uint32_t i = 0; i < started; i++)
        stk__thread_join(&members[i]);
    if (told) {
        uint64_t all = atomic_load_explicit(done, memory_order_relaxed);
        stk__progress(ctx, what, all, total ? total : all);
    }
    pthread_cond_destroy(&c.ended);
    pthread_mutex_destroy(&c.mutex);
}

void stk__images_remark_splits(stk_context *ctx, const char *url, const char *const *classes,
                               uint32_t count)
{
    static const char *const splits[] = {"train", "val", "test", "valid", "validation", "training"};
    const char *train = NULL;

    if (count < 2)
        return;
    for (uint32_t c = 0; c < count; c++) {
        size_t k = 0;
        while (k < STK_COUNT(splits) && strcmp(classes[c], splits[k]) != 0)
            k++;
        if (k == STK_COUNT(splits))
            return;
        if (strncmp(splits[k], "train", 5) == 0)
            train = splits[k];
    }
    if (train)
        stk__message(
            ctx, STK_MESSAGE_WARNING,
            "images: the %u class folders of %.*s are splits, one of them '%s'; did you mean "
            "%.*s/%s?",
            count, (int)strcspn(url, "?"), url, train, (int)strcspn(url, "?"), url, train);
}

stk_field stk__images_field(const char *name, int64_t channels, bool mask)
{
    return (stk_field){.struct_size = sizeof(stk_field),
                       .name = name,
                       .dtype = STK_UINT8,
                       .layout = STK_BYTES,
                       .rank = 3,
                       .shape = {-1, -1, channels},
                       .codec = "image",
                       .picture = true,
                       .mask = mask};
}
