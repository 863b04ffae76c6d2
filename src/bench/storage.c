/* SPDX-License-Identifier: Apache-2.0 */
/* What a store gives: latency, reads a second, bandwidth; in order and at random, one read at a
 * time and many. */
#include <stdio.h>

#include <stoker/store.h>

#include "base/random.h"
#include "base/sized.h"
#include "bench/bench.h"
#include "measure/measure.h"
#include "store/fetch.h"

enum { OBJECTS = 256, FOLDERS = 16, DEPTH = 32, SMALL = 4096, LARGE = 1 << 20, READS = 4096 };

#define TEST_NS    UINT64_C(400000000)  /* of each test, at most */
#define TEST_BYTES (UINT64_C(64) << 20) /* likewise, of a far store */

/* Reads of the steps: more of them at once than large ones have room for. */
enum { STEP = 512 << 10, STEP_DEPTH = 64 };

/* ---- What there is to read ------------------------------------------------------------------- */

typedef struct object {
    char *key;
    uint64_t size;
} object;

typedef struct found {
    stk_context *ctx;
    object objects[OBJECTS];
    char *folders[FOLDERS];
    size_t num_objects, num_folders;
    uint64_t bytes;
} found;

static stk_status take_object(void *user, const char *key, const stk_object_info *info)
{
    found *f = user;
    const bool wanted =
        info->is_folder ? f->num_folders < FOLDERS : info->size > 0 && f->num_objects < OBJECTS;
    char *copy = wanted ? stk__strdup(f->ctx, key) : NULL;

    if (!wanted)
        return STK_OK;
    if (!copy)
        return STK_ENOMEM;
    if (info->is_folder) {
        f->folders[f->num_folders++] = copy;
        return STK_OK;
    }
    f->objects[f->num_objects++] = (object){copy, info->size};
    f->bytes += info->size;
    return STK_OK;
}

static stk_status find_objects(stk_store *store, const char *key, found *f, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    if (*key) {
        STK_TRY(stk_store_stat(store, key, NULL, &info, err));
        return take_object(f, key, &info);
    }
    STK_TRY(stk_store_list(store, "", NULL, take_object, f, err));
    for (size_t i = 0; i < f->num_folders && f->num_objects < OBJECTS; i++)
        STK_TRY(stk_store_list(store, f->folders[i], NULL, take_object, f, err));
    return STK_OK;
}

static void found_release(found *f)
{
    for (size_t i = 0; i < f->num_objects; i++)
        stk__free(f->ctx, f->objects[i].key);
    for (size_t i = 0; i < f->num_folders; i++)
        stk__free(f->ctx, f->folders[i]);
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct reader reader;

typedef struct slot {
    stk__transfer read; /* first */
    bool busy;
} slot;

/* Reads of one test. */
struct reader {
    stk__fetcher *fetcher;
    const stk_storage_measure_options *options;
    char *room;           /* DEPTH x LARGE bytes, or as many of STEP */
    uint64_t most_bytes;  /* of a test */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended;
    slot slots[STEP_DEPTH];
    uint64_t reads, bytes, failures, under_way;
    double took[READS];
};

static bool reader_stopped(const reader *r)
{
    return r->options->stop && r->options->stop(r->options->user);
}

static void on_ended(void *user, stk__transfer *list)
{
    reader *r = user;

    pthread_mutex_lock(&r->lock);
    for (stk__transfer *read = list; read; read = read->next) {
        r->failures += read->status != STK_OK;
        if (r->reads < READS)
            r->took[r->reads] = stk__seconds(read->ended_ns - read->sent_ns);
        r->reads++;
        r->bytes += read->got;
        r->under_way--;
        ((slot *)read)->busy = false;
    }
    pthread_cond_signal(&r->ended);
    pthread_mutex_unlock(&r->lock);
}

/* The next place to read: in order through the objects, or anywhere. */
typedef struct cursor {
    const found *found;
    bool random;
    uint64_t draws, at;
    size_t object;
} cursor;

static void next_place(cursor *c, slot *s, uint64_t length)
{
    const object *o = &c->found->objects[c->object];

    if (c->random) {
        uint32_t words[2];
        stk__draw(length, 0, c->draws++, STK_DRAW_DATA, words, 2);
        o = &c->found->objects[words[0] % c->found->num_objects];
        const uint64_t blocks = o->size / length;
        s->read.offset = blocks ? words[1] % blocks * length : 0;
    } else {
        if (c->at >= o->size) {
            c->object = (c->object + 1) % c->found->num_objects;
            c->at = 0;
            o = &c->found->objects[c->object];
        }
        s->read.offset = c->at;
        c->at += length;
    }
    s->read.key = o->key;
    s->read.length = STK_MIN(o->size - s->read.offset, length);
}

static slot *free_slot(reader *r, uint32_t depth)
{
    for (uint32_t i = 0; i < depth; i++)
        if (!r->slots[i].busy)
            return &r->slots[i];
    return NULL;
}

/* Read until the time is over or enough is known; the seconds that it took. */
static double read_for(reader *r, cursor *c, uint64_t length, uint32_t depth)
{
    const uint64_t start = stk__now_ns();

    pthread_mutex_lock(&r->lock);
    r->reads = r->bytes = r->failures = 0;
    while (r->reads < READS && r->bytes < r->most_bytes && !reader_stopped(r) &&
           (stk__now_ns() - start < TEST_NS || r->reads == 0)) {
        slot *s = free_slot(r, depth);
        if (!s) {
            pthread_cond_wait(&r->ended, &r->lock);
            continue;
        }
        next_place(c, s, length);
        s->read.data = r->room + (size_t)(s - r->slots) * length;
        s->busy = true;
        s->read.next = NULL;
        r->under_way++;
        pthread_mutex_unlock(&r->lock);
        stk__fetcher_add(r->fetcher, &s->read);
        stk__fetcher_pump(r->fetcher);
        pthread_mutex_lock(&r->lock);
    }
    while (r->under_way)
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
    return stk__seconds(stk__now_ns() - start);
}

static void reader_destroy(stk_context *ctx, reader *r)
{
    if (!r)
        return;
    stk__fetcher_destroy(&r->fetcher);
    pthread_cond_destroy(&r->ended);
    pthread_mutex_destroy(&r->lock);
    stk__free(ctx, r->room);
    stk__free(ctx, r);
}

static reader *reader_create(stk_context *ctx, stk_store *store,
                             const stk_storage_measure_options *options)
{
    reader *r = stk__calloc(ctx, 1, sizeof *r);
    /* Each read as it is: a failure is counted, not tried again. */
    const stk__fetcher_options all = {.depth = STEP_DEPTH, .ended = on_ended, .user = r};

    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->ended, NULL);
    r->options = options;
    r->room = stk__calloc(ctx, DEPTH, LARGE);
    if (!r->room || stk__fetcher_create(ctx, &all, &r->fetcher) != STK_OK) {
        reader_destroy(ctx, r);
        return NULL;
    }
    r->most_bytes = UINT64_MAX;
    for (size_t i = 0; i < STEP_DEPTH; i++)
        r->slots[i].read = (stk__transfer){.store = store};
    return r;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

enum { ONE, MANY, ALONE, IN_ORDER, RANDOM, TESTS };

static const stk_storage_test tests[TESTS] = {
    [ONE] = {.name = "random 4 KiB, 1 at a time", .length = SMALL, .depth = 1, .random = true},
    [MANY] = {.name = "random 4 KiB, 32 at a time",
              .length = SMALL,
              .depth = DEPTH,
              .random = true},
    [ALONE] = {.name = "in order 1 MiB, 1 at a time", .length = LARGE, .depth = 1},
    [IN_ORDER] = {.name = "in order 1 MiB, 8 at a time", .length = LARGE, .depth = 8},
    [RANDOM] = {.name = "random 1 MiB, 8 at a time", .length = LARGE, .depth = 8, .random = true},
};

/* What the steps are called, by the number of the doubling. */
static const char *const step_names[STK_STORAGE_STEPS] = {
    "random 512 KiB, 1 at a time",  "random 512 KiB, 2 at a time",
    "random 512 KiB, 4 at a time",  "random 512 KiB, 8 at a time",
    "random 512 KiB, 16 at a time", "random 512 KiB, 32 at a time",
    "random 512 KiB, 64 at a time", "",
};

/* A step that gives less than this times the one before was in vain; after two of them it ends. */
#define GIVES_MORE 1.05

static stk_status run_test(reader *r, const found *f, stk_storage_test *test, stk_error *err)
{
    cursor c = {.found = f, .random = test->random};
    stk_spread spread;

    test->struct_size = sizeof *test;
    const double seconds = read_for(r, &c, test->length, test->depth);
    if (reader_stopped(r))
        return stk__fail(err, STK_ECANCELED, STK_STAGE_MEASURE, "the measurement was stopped");
    stk_spread_of(r->took, STK_MIN(r->reads, READS), &spread);
    test->latency = spread.p50;
    test->latency_p95 = spread.p95;
    test->reads_per_s = (double)r->reads / seconds;
    test->bytes_per_s = (double)r->bytes / seconds;
    test->failures = r->failures;
    if (r->options->test)
        r->options->test(r->options->user, test);
    return STK_OK;
}

static stk_status run_tests(stk_context *ctx, reader *r, const found *f,
                            stk_storage_test results[TESTS], stk_error *err)
{
    for (size_t i = 0; i < TESTS; i++) {
        stk__progress(ctx, "measuring", i, TESTS);
        results[i] = tests[i];
        STK_TRY(run_test(r, f, &results[i], err));
        if (i == ONE && results[ONE].latency >= STK_STORAGE_NEAR)
            r->most_bytes = TEST_BYTES;
    }
    stk__progress(ctx, "measuring", TESTS, TESTS);
    return STK_OK;
}

/* Of a far store, bandwidth by reads at once, doubled as long as that gives more. */
static stk_status run_steps(stk_context *ctx, reader *r, const found *f,
                            stk_storage_figures *figures, stk_error *err)
{
    uint32_t in_vain = 0;

    r->most_bytes = TEST_BYTES;
    for (uint32_t i = 0, depth = 1; depth <= STEP_DEPTH && in_vain < 2; i++, depth *= 2) {
        stk_storage_test test = {
            .name = step_names[i], .length = STEP, .depth = depth, .random = true};
        stk__progress(ctx, "measuring reads at once", depth, STEP_DEPTH);
        STK_TRY(run_test(r, f, &test, err));
        figures->steps[i] = (stk_storage_step){.depth = depth,
                                               .bytes_per_s = test.bytes_per_s,
                                               .latency = test.latency,
                                               .latency_p95 = test.latency_p95};
        figures->num_steps = i + 1;
        const bool more =
            i == 0 || test.bytes_per_s >= GIVES_MORE * figures->steps[i - 1].bytes_per_s;
        in_vain = more ? 0 : in_vain + 1;
    }
    stk__progress(ctx, "measuring reads at once", STEP_DEPTH, STEP_DEPTH);
    return STK_OK;
}

static stk_status measure(stk_context *ctx, stk_store *store, const found *f,
                          const stk_storage_measure_options *options, stk_storage_figures *figures,
                          stk_error *err)
{
    stk_storage_figures all = {0};
    stk_storage_test results[TESTS];
    stk_network before = {0};
    stk_store_limits limits;
    reader *r = reader_create(ctx, store, options);

    stk__store_limits(store, &limits);
    if (!r)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory to measure a store");
    if (stk__network_get)
        stk__network_get(ctx, &before);
    stk_status status = run_tests(ctx, r, f, results, err);
    if (status == STK_OK && (limits.tries_again || results[ONE].latency >= STK_STORAGE_NEAR))
        status = run_steps(ctx, r, f, &all, err);
    reader_destroy(ctx, r);
    STK_TRY(status);
    if (stk__network_get)
        stk__network_get(ctx, &all.network);
    stk__network_subtract(&all.network, &before);
    all.struct_size = sizeof all;
    all.latency = results[ONE].latency;
    all.latency_p95 = results[ONE].latency_p95;
    all.one_per_s = results[ONE].reads_per_s;
    all.many_per_s = results[MANY].reads_per_s;
    all.in_order_bytes = results[IN_ORDER].bytes_per_s;
    all.random_bytes = results[RANDOM].bytes_per_s;
    all.small = SMALL;
    all.many = DEPTH;
    all.most = limits.tries_again ? limits.io_depth : 0;
    all.objects = f->num_objects;
    all.bytes = f->bytes;
    stk__sized_write(figures, &all);
    return STK_OK;
}

stk_status stk_storage_measure(stk_context *context, const char *url,
                               const stk_storage_measure_options *options,
                               stk_storage_figures *figures, stk_error *err)
{
    stk_storage_measure_options known = {.struct_size = sizeof known};
    stk_store *store = NULL;
    char key[4096];

    STK_TRY(stk__context_check(context, err));
    if (options)
        STK_TRY(stk__sized_read(&known, sizeof known, options, "stk_storage_measure_options",
                                STK_STAGE_MEASURE, err));
    STK_TRY(stk__sized_check(figures, "stk_storage_figures", STK_STAGE_MEASURE, err));
    found *f = stk__calloc(context, 1, sizeof *f);
    if (!f)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory to measure a store");
    f->ctx = context;
    stk_status status = stk_store_open(context, url, &store, key, sizeof key, err);
    if (status == STK_OK)
        status = find_objects(store, key, f, err);
    if (status == STK_OK && f->num_objects == 0)
        status =
            stk__fail(err, STK_ENOENT, STK_STAGE_MEASURE,
                      "%.400s: no file in it, nor in its folders: there is nothing to read", url);
    if (status == STK_OK)
        status = measure(context, store, f, &known, figures, err);
    stk_store_close(&store);
    found_release(f);
    stk__free(context, f);
    return status;
}
