/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that fit the budget only alone: they are put back, or the budget is divided anew for
 * them. Whatever the budget, the workers, the cache and where a state was saved, the same samples
 * come in the same order, with the same values.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include <jpeglib.h>

#include "unit/loader/run.h"

#include "codec/image/image.h"
#include "dataset/dataset.h"
#include "loader/loader.h"

/* ---- Pictures ---- */

enum { SIDES = 6, DAMAGED = SIDES, KINDS = SIDES + 2, STORED = 32 << 20, APART = 400000, OUT = 8 };

typedef struct picture {
    unsigned char *bytes;
    unsigned long size;
    uint64_t memory; /* that decoding it wants, without that of the resizer */
} picture;

static picture pictures[KINDS];
static const int sides[KINDS] = {40, 300, 420, 600, 970, 1030, 600, 1030};

/* A progressive picture of one colour, each kind of its own. */
static void make_picture(int kind, int side)
{
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    picture *p = &pictures[kind];
    static unsigned char row[1030 * 3];
    JSAMPROW rows = row;
    stk__image_info info;
    const char *reason = NULL;

    library.err = jpeg_std_error(&errors);
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &p->bytes, &p->size);
    library.image_width = library.image_height = (JDIMENSION)side;
    library.input_components = 3;
    library.in_color_space = JCS_RGB;
    jpeg_set_defaults(&library);
    jpeg_simple_progression(&library);
    jpeg_start_compress(&library, TRUE);
    memset(row, 20 + 30 * kind, sizeof row);
    for (int y = 0; y < side; y++)
        jpeg_write_scanlines(&library, &rows, 1);
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    /* Those that are damaged end before their pixels do: decoding has begun by then. */
    p->size = kind >= DAMAGED ? p->size / 2 : p->size;
    p->bytes = realloc(p->bytes, p->size + STK_TAIL);
    assert_non_null(p->bytes);
    memset(p->bytes + p->size, 0, STK_TAIL);
    assert_int_equal(stk__image_peek(p->bytes, p->size, NULL, &info, &reason), STK_OK);
    p->memory = info.memory;
}

static int make_pictures(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        make_picture(kind, sides[kind]);
    return 0;
}

static int free_pictures(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        free(pictures[kind].bytes);
    return 0;
}

/* ---- A dataset of pictures in memory, some of which read bytes besides ---- */

typedef struct sample {
    int kind;
    uint32_t reads, blob;
    float cost;
} sample;

typedef struct album {
    stk_dataset head;
    stk_store *store;
    stk_field fields[2];
    const sample *samples;
    bool ragged;
    uint64_t apart;     /* bytes from one sample's reads to the next one's: less are joined */
    uint64_t slow;      /* this sample waits in prepare() until it may go on */
    stk_loader *loader; /* whose reads it waits for; NULL: for let_go() */
    pthread_mutex_t lock;
    pthread_cond_t open;
    bool is_open;
} album;

static stk_status locate(stk_dataset *dataset, const uint64_t *indices, size_t n, stk_locator *to,
                         stk_error *err)
{
    const album *a = (album *)dataset;

    (void)err;
    for (size_t i = 0; i < n; i++) {
        const sample *s = &a->samples[indices[i]];
        stk_need need = {.offset = indices[i] * a->apart, .length = s->reads};
        if (s->reads)
            STK_TRY(to->add(to, i, &need));
        if (a->ragged)
            to->bytes(to, i, 1, s->blob);
        if (s->cost > 0)
            to->cost(to, i, (double)s->cost);
    }
    return STK_OK;
}

static size_t object(stk_dataset *dataset, uint64_t number, stk_store **store, char *key,
                     size_t size)
{
    (void)number;
    *store = ((album *)dataset)->store;
    if (size)
        snprintf(key, size, "data");
    return 4;
}

/* Nothing is on its way from storage. */
static bool is_read(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    const bool is = !loader->reads.in_flight && !loader->reads.first && !loader->reads.pumping;
    pthread_mutex_unlock(&loader->ring->lock);
    return is;
}

static void wait_within(album *a)
{
    while (a->loader && !is_read(a->loader))
        sched_yield();
    pthread_mutex_lock(&a->lock);
    while (!a->loader && !a->is_open)
        pthread_cond_wait(&a->open, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    album *a = (album *)dataset;

    for (size_t i = 0; i < n; i++) {
        const sample *s = &a->samples[samples[i].index];
        stk_value *values = samples[i].values;
        if (samples[i].index == a->slow)
            wait_within(a);
        values[0].data = pictures[s->kind].bytes;
        values[0].size = pictures[s->kind].size;
        if (a->ragged) {
            values[1].size = s->blob;
            memset(values[1].out, (int)samples[i].index, s->blob);
        }
    }
}

static void close_album(stk_dataset *dataset)
{
    album *a = (album *)dataset;

    stk_store_close(&a->store);
    pthread_cond_destroy(&a->open);
    pthread_mutex_destroy(&a->lock);
    stk__free(dataset->context, dataset);
}

static const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                    .name = "album",
                                    .doc = "For tests.",
                                    .close = close_album,
                                    .locate = locate,
                                    .object = object,
                                    .prepare = prepare};

static album *open_album(stk_context *ctx, const char *folder, const sample *samples, uint64_t n,
                         bool ragged, int latency_ms)
{
    album *a = stk__calloc(ctx, 1, sizeof *a);
    char url[300], key[16];
    stk_error err;

    assert_non_null(a);
    a->samples = samples;
    a->ragged = ragged;
    a->slow = UINT64_MAX;
    a->apart = 64;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->open, NULL);
    snprintf(url, sizeof url, "slow+file://%s?latency=%dms", folder, latency_ms);
    assert_ok(stk_store_open(ctx, url, &a->store, key, sizeof key, &err), &err);
    a->fields[0] = (stk_field){.name = "image",
                               .dtype = STK_UINT8,
                               .layout = STK_BYTES,
                               .rank = 3,
                               .shape = {-1, -1, 3},
                               .codec = "image",
                               .picture = true};
    a->fields[1] = (stk_field){
        .name = "blob", .dtype = STK_UINT8, .layout = STK_BYTES, .rank = 1, .shape = {-1}};
    stk__dataset_init(&a->head, &ops, ctx, n, a->fields, ragged ? 2 : 1);
    return a;
}

static void make_store(char *folder)
{
    char path[300];

    test_folder(folder);
    test_write(folder, "data", "", 0);
    snprintf(path, sizeof path, "%s/data", folder);
    assert_int_equal(truncate(path, STORED), 0);
}

static stk_loader_options options_of(uint64_t budget)
{
    stk_loader_options o = base_options();

    o.shuffle = STK_SHUFFLE_NONE;
    o.batch_size = 1;
    o.epochs = 1;
    o.memory_budget = budget;
    o.transforms = "resize(8), center_crop(8)";
    return o;
}

/* The values of a batch are those of its samples. */
static void check_values(const stk_batch *batch, const album *a)
{
    stk_tensor image, blob = {0}, index;

    assert_int_equal(stk_batch_find(batch, "image", &image), STK_OK);
    assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
    if (a->ragged)
        assert_int_equal(stk_batch_find(batch, "blob", &blob), STK_OK);
    for (uint64_t i = 0; i < stk_batch_count(batch); i++) {
        const uint64_t at = ((const uint64_t *)index.data)[i];
        const sample *s = &a->samples[at];
        const unsigned char *pixels = (const unsigned char *)image.data + i * OUT * OUT * 3;
        for (int k = 0; k < OUT * OUT * 3; k++)
            assert_in_range(pixels[k] + 2, 20 + 30 * s->kind, 24 + 30 * s->kind);
        if (!a->ragged)
            continue;
        assert_int_equal(blob.offsets[i + 1] - blob.offsets[i], s->blob);
        for (uint64_t k = blob.offsets[i]; k < blob.offsets[i + 1]; k++)
            assert_int_equal(((const unsigned char *)blob.data)[k], at & 255);
    }
}

/* ---- Moments ---- */

/* The planner lacks memory, and nothing moves but the sample that waits. */
static bool settled(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    const bool is = loader->planner.blocked && !loader->planner.busy && loader->tasks == 1 &&
                    loader->planner.num_replace == 0;
    pthread_mutex_unlock(&loader->ring->lock);
    return is && is_read(loader);
}

static void let_go(album *a)
{
    pthread_mutex_lock(&a->lock);
    a->is_open = true;
    pthread_cond_broadcast(&a->open);
    pthread_mutex_unlock(&a->lock);
}

/* A sample is put back that held no bytes: that is planned at once, also where later ones wait for
 * slabs, where their buffers leave no room for its reserve, and where the caller holds batches. */
static void goes_on_from(const char *folder, uint64_t slow, uint64_t apart)
{
    enum { SAMPLES = 80 };
    sample samples[SAMPLES];
    stk_context *ctx = test_context();
    album *a = open_album(ctx, folder, samples, SAMPLES, false, 0);
    stk_dataset *dataset = &a->head;
    stk_loader_options o = options_of(8 << 20);
    stk_batch *held[3] = {NULL}, *batch;
    stk_error err;

    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (sample){.kind = 0, .reads = 200000};
    samples[slow] = (sample){.kind = 3 + (slow == 2)};
    a->slow = slow;
    a->apart = apart;
    o.num_workers = 2;
    o.prefetch_factor = 2;
    o.timeout = 60;
    stk_loader *loader = open_loader(&a->head, &o);
    for (uint64_t i = 0; i < slow; i++)
        assert_ok(stk_loader_next(loader, -1, &held[i], &err), &err);
    while (!settled(loader))
        assert_int_equal(stk_loader_next(loader, 1, &batch, &err), STK_EAGAIN);
    const uint64_t reserve = pictures[samples[slow].kind].memory - loader->decode_most;
    assert_in_range(reserve, 1, loader->most_row);
    let_go(a);
    for (uint64_t i = slow; i < SAMPLES; i++) {
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        assert_int_equal(stk_batch_positions(batch)[0], i);
        check_values(batch, a);
        stk_batch_release(&batch);
    }
    assert_int_equal(loader->late, apart == APART);
    stk_batch_release(&held[0]);
    stk_batch_release(&held[1]);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void a_row_put_back_wakes_the_planner(void **state)
{
    char folder[256];

    (void)state;
    make_store(folder);
    for (int i = 0; i < 4; i++)
        goes_on_from(folder, i & 2, i & 1 ? APART : 64);
    test_folder_remove(folder);
}

/* A sample wants what two batches take that are held: one of them is enough to go on. */
static void two_batches_that_are_held_are_too_many(void **state)
{
    enum { SAMPLES = 8 };
    sample samples[SAMPLES];
    char folder[256];

    (void)state;
    make_store(folder);
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (sample){.kind = 0, .reads = i == 2 ? 5200000 : 1000};
    for (int64_t workers = 0; workers < 3; workers++) {
        stk_context *ctx = test_context();
        album *a = open_album(ctx, folder, samples, SAMPLES, false, 0);
        stk_dataset *dataset = &a->head;
        stk_loader_options o = options_of(8 << 20);
        stk_batch *held[2], *batch;
        stk_error err;
        o.num_workers = workers;
        o.prefetch_factor = 3;
        o.cache = STK_CACHE_ENCODED; /* it has a part of the room */
        o.timeout = 60;
        stk_loader *loader = open_loader(&a->head, &o);
        const uint64_t limit = loader->ring->pool.limit;
        assert_true(samples[2].reads > limit);
        for (int i = 0; i < 2; i++)
            assert_ok(stk_loader_next(loader, -1, &held[i], &err), &err);
        for (int i = 0; i < 2; i++)
            assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_EBUSY, &err,
                         "give back all but one with stk_batch_release()");
        assert_int_equal(loader->ring->pool.limit, limit);
        stk_batch_release(&held[1]);
        for (uint64_t i = 2; i < SAMPLES; i++) {
            assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
            assert_int_equal(stk_batch_positions(batch)[0], i);
            check_values(batch, a);
            stk_batch_release(&batch);
        }
        assert_true(loader->ring->pool.limit > limit);
        stk_batch_release(&held[0]);
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
        stk_context_destroy(&ctx);
    }
    test_folder_remove(folder);
}

/* What takes the place of a damaged picture that was put back wants no memory on its account: both
 * would not fit. */
static void a_substitute_has_no_reserve(void **state)
{
    enum { SAMPLES = 40 };
    sample samples[SAMPLES];
    char folder[256];

    (void)state;
    make_store(folder);
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (sample){.kind = 0, .reads = 4 << 20};
    samples[0] = (sample){.kind = DAMAGED + 1};
    for (int64_t workers = 0; workers < 3; workers += 2) {
        stk_context *ctx = test_context();
        album *a = open_album(ctx, folder, samples, SAMPLES, false, 0);
        stk_loader_options o = options_of(8 << 20);
        stk_batch *batch;
        stk_error err;
        o.num_workers = workers;
        o.on_error = STK_ON_ERROR_REPLACE;
        stk_loader *loader = open_loader(&a->head, &o);
        const uint64_t reserve = pictures[DAMAGED + 1].memory - loader->decode_most;
        assert_in_range(reserve, 1, loader->most_row);
        assert_true(reserve + (5 << 20) > loader->most_row);
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        assert_int_equal(stk_batch_count(batch), 1);
        check_values(batch, a);
        stk_batch_release(&batch);
        stk_loader_destroy(&loader);
        stk_dataset *dataset = &a->head;
        stk_dataset_close(&dataset);
        stk_context_destroy(&ctx);
    }
    test_folder_remove(folder);
}

/* A picture that does not fit together with its own reads is bad, also while another one has a
 * reserve that would be enough for it. */
static void no_picture_has_the_reserve_of_another(void **state)
{
    static const sample samples[] = {{.kind = 5, .blob = 100, .cost = 2e6},
                                     {.kind = 4, .blob = 100, .reads = 3 << 19, .cost = 3e6},
                                     {.kind = 0, .blob = 100, .cost = 1e6}};
    char folder[256];

    (void)state;
    make_store(folder);
    for (int cost = 0; cost < 2; cost++) {
        stk_context *ctx = test_context();
        album *a = open_album(ctx, folder, samples, 3, true, 20);
        stk_loader_options o = options_of(8 << 20);
        stk_batch *batch;
        stk_error err;
        /* Rows one by one, or all in one task. */
        a->head.cost_ns = cost ? 1e6 : 1;
        o.batch_size = 3;
        o.num_workers = 0;
        o.on_error = STK_ON_ERROR_SKIP;
        a->slow = 2;
        stk_loader *loader = a->loader = open_loader(&a->head, &o);
        const uint64_t both = loader->decode_most + loader->most_row;
        assert_true(pictures[5].memory < both);
        assert_true(pictures[4].memory > both - samples[1].reads / 4 * 5 - 320);
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        check_values(batch, a);
        assert_int_equal(stk_batch_count(batch), 2);
        assert_int_equal(stk_batch_positions(batch)[1], 2);
        stk_batch_release(&batch);
        stk_loader_destroy(&loader);
        stk_dataset *dataset = &a->head;
        stk_dataset_close(&dataset);
        stk_context_destroy(&ctx);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_put_back_wakes_the_planner),
        cmocka_unit_test(two_batches_that_are_held_are_too_many),
        cmocka_unit_test(a_substitute_has_no_reserve),
        cmocka_unit_test(no_picture_has_the_reserve_of_another),
    };

    return cmocka_run_group_tests(tests, make_pictures, free_pictures);
}
