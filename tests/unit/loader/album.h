/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures in memory, some of which read bytes or have ragged values besides: what they want of a
 * budget can be chosen. */
#ifndef STK_TESTS_UNIT_LOADER_ALBUM_H
#define STK_TESTS_UNIT_LOADER_ALBUM_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include <jpeglib.h>

#include "unit/loader/run.h"

#include "codec/image/image.h"
#include "dataset/dataset.h"
#include "loader/parts.h"

/* ---- Pictures ---- */

enum { SIDES = 6, DAMAGED = SIDES, KINDS = SIDES + 2, STORED = 64 << 20, APART = 400000, OUT = 8 };

typedef struct picture {
    unsigned char *bytes;
    unsigned long size;
    uint64_t memory; /* that decoding it wants, without that of the resizer */
} picture;

static picture pictures[KINDS];
static const int sides[KINDS] = {40, 300, 420, 600, 970, 1030, 600, 1030};

/* A progressive picture of one colour, each kind of its own. */
static inline void make_picture(int kind, int side)
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

static inline int make_pictures(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        make_picture(kind, sides[kind]);
    return 0;
}

static inline int free_pictures(void **state)
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
    uint64_t gate;      /* locating this sample lets the slow one go, and waits until a row of */
    stk_loader *gated;  /* this loader was put back; NULL: until there is one */
    pthread_mutex_t lock;
    pthread_cond_t open;
    bool is_open;
} album;

static inline void let_go(album *a)
{
    pthread_mutex_lock(&a->lock);
    a->is_open = true;
    pthread_cond_broadcast(&a->open);
    pthread_mutex_unlock(&a->lock);
}

/* A thread plans meanwhile. */
static inline void wait_at_gate(album *a)
{
    pthread_mutex_lock(&a->lock);
    while (!a->gated)
        pthread_cond_wait(&a->open, &a->lock);
    pthread_mutex_unlock(&a->lock);
    a->gate = UINT64_MAX;
    let_go(a);
    for (bool is = false; !is; sched_yield()) {
        pthread_mutex_lock(&a->gated->ring->lock);
        is = a->gated->planner.num_replace != 0;
        pthread_mutex_unlock(&a->gated->ring->lock);
    }
}

static inline stk_status locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                stk_locator *to, stk_error *err)
{
    album *a = (album *)dataset;

    (void)err;
    for (size_t i = 0; i < n; i++) {
        const sample *s = &a->samples[indices[i]];
        if (indices[i] == a->gate)
            wait_at_gate(a);
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

static inline size_t object(stk_dataset *dataset, uint64_t number, stk_store **store, char *key,
                            size_t size)
{
    (void)number;
    *store = ((album *)dataset)->store;
    if (size)
        snprintf(key, size, "data");
    return 4;
}

/* Nothing is on its way from storage. */
static inline bool is_read(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    const bool is = stk__reads_idle_locked(&loader->reads);
    pthread_mutex_unlock(&loader->ring->lock);
    return is;
}

static inline void wait_within(album *a)
{
    while (a->loader && !is_read(a->loader))
        sched_yield();
    pthread_mutex_lock(&a->lock);
    while (!a->loader && !a->is_open)
        pthread_cond_wait(&a->open, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

static inline void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
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
            memset(values[1].out, (int)samples[i].index, STK_MIN(s->blob, values[1].capacity));
        }
    }
}

static inline void close_album(stk_dataset *dataset)
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

static inline album *open_album(stk_context *ctx, const char *folder, const sample *samples,
                                uint64_t n, bool ragged, int latency_ms)
{
    album *a = stk__calloc(ctx, 1, sizeof *a);
    char url[300], key[16];
    stk_error err;

    assert_non_null(a);
    a->samples = samples;
    a->ragged = ragged;
    a->slow = a->gate = UINT64_MAX;
    a->apart = 64;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->open, NULL);
    snprintf(url, sizeof url, "slow+file://%s?latency=%dms", folder, latency_ms);
    assert_ok(stk_store_open(ctx, url, &a->store, key, sizeof key, &err), &err);
    a->fields[0] = (stk_field){.struct_size = sizeof(stk_field),
                               .name = "image",
                               .dtype = STK_UINT8,
                               .layout = STK_BYTES,
                               .rank = 3,
                               .shape = {-1, -1, 3},
                               .codec = "image",
                               .picture = true};
    a->fields[1] = (stk_field){.struct_size = sizeof(stk_field),
                               .name = "blob",
                               .dtype = STK_UINT8,
                               .layout = STK_BYTES,
                               .rank = 1,
                               .shape = {-1}};
    stk__dataset_init(&a->head, &ops, ctx, n, a->fields, ragged ? 2 : 1);
    return a;
}

static inline void make_store(char *folder)
{
    char path[300];

    test_folder(folder);
    test_write(folder, "data", "", 0);
    snprintf(path, sizeof path, "%s/data", folder);
    assert_int_equal(truncate(path, STORED), 0);
}

static inline stk_loader_options options_of(uint64_t budget)
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
static inline void check_values(const stk_batch *batch, const album *a)
{
    stk_tensor image = {.struct_size = sizeof image}, blob = {.struct_size = sizeof blob},
               index = {.struct_size = sizeof index};

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

#endif
