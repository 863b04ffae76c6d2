/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of one object one after another, `--depth` of them under way, by a fetcher, as loaders
 * read: `--url` of the object in any store, its `--size` in bytes, `--length` of a range.
 */
#include "ranges.h"
#include "store/fetch.h"
#include "stream.h"

#define MOST_DEPTH 256

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t some;
    stk__transfer *ended;
    bool failed;
} all = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, false};

static void note_end(void *user, stk__transfer *list)
{
    (void)user;
    pthread_mutex_lock(&all.mutex);
    while (list) {
        stk__transfer *t = list;
        list = t->next;
        all.failed |= t->status != STK_OK;
        t->next = all.ended;
        all.ended = t;
    }
    pthread_cond_signal(&all.some);
    pthread_mutex_unlock(&all.mutex);
}

static stk__transfer *take_ended(void)
{
    pthread_mutex_lock(&all.mutex);
    while (!all.ended)
        pthread_cond_wait(&all.some, &all.mutex);
    if (all.failed)
        bench_die("ranges", "a read failed");
    stk__transfer *list = all.ended;
    all.ended = NULL;
    pthread_mutex_unlock(&all.mutex);
    return list;
}

int main(int argc, char **argv)
{
    static stk__transfer transfers[MOST_DEPTH];
    struct ranges r;
    stk__fetcher *fetcher;
    stk_context *ctx;
    stk_store *store;
    char key[STK_MAX_OBJECT_KEY];
    stk_error err;

    ranges_begin(&r, argc, argv);
    if (r.depth > MOST_DEPTH)
        bench_die("depth", "at most 256");
    bench_check(stk_context_create(NULL, &ctx, &err), &err);
    bench_check(stk_store_open(ctx, r.url, &store, key, sizeof key, &err), &err);
    const stk__fetcher_options options = {.depth = (uint32_t)r.depth, .ended = note_end};
    bench_check(stk__fetcher_create(ctx, &options, &fetcher), &err);
    for (size_t i = 0; i < r.depth; i++) {
        transfers[i] = (stk__transfer){.store = store,
                                       .key = key,
                                       .offset = ranges_next(&r),
                                       .length = r.length,
                                       .data = ranges_buffer(&r),
                                       .next = i + 1 < r.depth ? &transfers[i + 1] : NULL};
    }
    stk__fetcher_add(fetcher, transfers);
    stk__fetcher_pump(fetcher);
    for (size_t under_way = r.depth; under_way;) {
        stk__transfer *list = take_ended(), *again = NULL;
        while (list) {
            stk__transfer *t = list;
            list = t->next;
            under_way--;
            if (!ranges_ended(&r))
                continue;
            *t = (stk__transfer){.store = store,
                                 .key = key,
                                 .offset = ranges_next(&r),
                                 .length = r.length,
                                 .data = t->data,
                                 .next = again};
            again = t;
            under_way++;
        }
        if (again) {
            stk__fetcher_add(fetcher, again);
            stk__fetcher_pump(fetcher);
        }
    }
    stk__fetcher_destroy(&fetcher);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    ranges_print(&r, "stoker");
    return 0;
}
