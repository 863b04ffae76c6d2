/* SPDX-License-Identifier: Apache-2.0 */
/* Formats that an outsider adds: each way of a layout gives the values, and what lacks is named. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <stoker/stoker.h>

#include "support/support.h"

/* An array of 7 x 5 numbers in chunks of 3 x 2, of which one is absent. */
#define ROWS    7
#define COLUMNS 5
#define HIGH    3
#define WIDE    2
#define CHUNKS  9
#define FILL    77
#define CHUNK   (HIGH * WIDE * 2)
/* In the file: the run, then the chunks from the last on, then each column by column. */
#define CHUNK_AT  (ROWS * COLUMNS * 2)
#define COLUMN_AT (CHUNK_AT + CHUNKS * CHUNK)
#define FILE_SIZE (COLUMN_AT + CHUNKS * CHUNK)

static const int64_t shape[2] = {ROWS, COLUMNS}, chunk_shape[2] = {HIGH, WIDE};
static const int16_t fill = FILL;
static const char *const names[2] = {"y", NULL};
static const char *const halves[2] = {"even.toy", "odd.toy"};
static const char codecs[] = "[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"big\"}}]";

/* What open() of the format does next, and what it saw. */
static struct {
    stk_array_layout layout;
    bool no_layout;
    stk_status status; /* of open(), after the layout */
    bool bad_place;
    uint64_t absent; /* a chunk */
    int64_t level;   /* of its own option */
    char key[40], rest[40];
    int opened, closed, reads;
    int wanted, met; /* read() goes on once `wanted` calls are in it; guarded by `meeting` */
    bool hangs;      /* read() ends when it is canceled */
    stk_status lost; /* of locate(); STK_OK: it knows */
} toy;

static pthread_mutex_t meeting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_met = PTHREAD_COND_INITIALIZER;

/* Wait until `wanted` threads are here at the same time; a minute at most. */
static bool meet(void)
{
    struct timespec until;
    bool met = true;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&meeting);
    toy.met++;
    pthread_cond_broadcast(&all_met);
    while (toy.met < toy.wanted && met)
        met = pthread_cond_timedwait(&all_met, &meeting, &until) == 0;
    pthread_mutex_unlock(&meeting);
    return met;
}

typedef struct toy_options {
    uint32_t struct_size;
    int64_t level;
} toy_options;
static const stk_option toy_list[] = {
    {"level", STK_OPTION_INT, offsetof(toy_options, level), "3", 0, 9, NULL, "N", "Of a test."}};
static const stk_option_table toy_table = {"toy", "Of a test.", sizeof(toy_options), toy_list, 1};

static int16_t value_at(int64_t y, int64_t x)
{
    return (int16_t)(1000 + y * COLUMNS + x);
}

static int16_t seen_at(int64_t y, int64_t x, bool absent)
{
    return absent && y / HIGH * 3 + x / WIDE == (int64_t)toy.absent ? FILL : value_at(y, x);
}

static int toy_recognise(stk_store *store, const char *key)
{
    (void)store;
    return strstr(key, ".toy") ? 2 : 0;
}

static stk_status toy_open(stk_array *array, const stk_array_opening *opening, stk_error *err)
{
    static int16_t state;

    toy.opened++;
    toy.level = ((const toy_options *)opening->options)->level;
    snprintf(toy.key, sizeof toy.key, "%s", opening->key);
    snprintf(toy.rest, sizeof toy.rest, "%s", opening->rest);
    toy.layout.state = &state;
    if (!toy.no_layout) {
        const stk_status status = stk_array_lay_out(array, &toy.layout, err);
        if (status != STK_OK)
            return status;
    }
    return toy.status;
}

static stk_status toy_locate(void *state, uint64_t chunk, stk_array_place *out, stk_error *err)
{
    assert_non_null(state);
    out->object = toy.layout.objects ? chunk % 2 : 0;
    out->offset = (toy.layout.fortran ? COLUMN_AT : CHUNK_AT) + (CHUNKS - 1 - chunk) * CHUNK;
    out->length = toy.bad_place ? 0 : CHUNK;
    if (toy.lost != STK_OK)
        snprintf(err->text, sizeof err->text, "the index is torn");
    return toy.lost != STK_OK ? toy.lost : chunk == toy.absent ? STK_ENOENT : STK_OK;
}

static stk_status toy_read(void *state, const int64_t *start, const int64_t *size,
                           const stk_store_call *call, void *out, uint64_t bytes, stk_error *err)
{
    int16_t *to = out;

    (void)state, (void)err;
    __atomic_add_fetch(&toy.reads, 1, __ATOMIC_RELAXED);
    assert_int_equal(bytes, size[0] * size[1] * 2);
    if (!meet())
        return STK_EFORMAT;
    while (toy.hangs)
        if (call->canceled(call->user))
            return STK_ECANCELED;
    if (start[0] / HIGH * 3 + start[1] / WIDE == (int64_t)toy.absent)
        return STK_ENOENT;
    for (int64_t y = 0; y < size[0]; y++)
        for (int64_t x = 0; x < size[1]; x++)
            *to++ = value_at(start[0] + y, start[1] + x);
    return STK_OK;
}

static void toy_close(void *state)
{
    assert_non_null(state);
    toy.closed++;
}

static const stk_array_format_ops toy_ops = {.struct_size = sizeof toy_ops,
                                             .name = "toy",
                                             .doc = "Of a test",
                                             .options = &toy_table,
                                             .takes_rest = true,
                                             .recognise = toy_recognise,
                                             .open = toy_open,
                                             .locate = toy_locate,
                                             .read = toy_read,
                                             .close = toy_close};

/* The file without the chunks of the other half. */
static void put_half(stk_store *store, const unsigned char *whole, uint64_t half)
{
    unsigned char file[FILE_SIZE];
    stk_error err;

    memcpy(file, whole, sizeof file);
    for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
        if (chunk % 2 != half)
            memset(file + CHUNK_AT + (CHUNKS - 1 - chunk) * CHUNK, 0xee, CHUNK);
    assert_ok(stk_store_put(store, halves[half], file, sizeof file, NULL, &err), &err);
}

/* A context with the format, and a file with the values: a run, then chunks in big endian, then
 * those in little endian. */
static stk_context *prepare(void)
{
    unsigned char file[FILE_SIZE] = {0};
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    stk_error err;

    memset(&toy, 0, sizeof toy);
    toy.absent = 4;
    toy.layout = (stk_array_layout){.struct_size = sizeof toy.layout,
                                    .type_name = "int16",
                                    .rank = 2,
                                    .shape = shape,
                                    .fill_value = &fill,
                                    .dimension_names = names,
                                    .attributes = "{\"units\": \"K\"}"};
    for (int64_t y = 0; y < ROWS; y++)
        for (int64_t x = 0; x < COLUMNS; x++) {
            const int64_t chunk = CHUNKS - 1 - (y / HIGH * 3 + x / WIDE);
            const int16_t value = value_at(y, x);
            unsigned char *big = file + CHUNK_AT + chunk * CHUNK + (y % HIGH * WIDE + x % WIDE) * 2;
            memcpy(file + (y * COLUMNS + x) * 2, &value, 2);
            big[0] = (unsigned char)(value >> 8);
            big[1] = (unsigned char)value;
            memcpy(file + COLUMN_AT + chunk * CHUNK + (x % WIDE * HIGH + y % HIGH) * 2, &value, 2);
        }
    assert_ok(stk_store_open(ctx, "mem://f", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, "a.toy", file, sizeof file, NULL, &err), &err);
    put_half(store, file, 0);
    put_half(store, file, 1);
    stk_store_close(&store);
    assert_ok(stk_driver_add(ctx, STK_DRIVER_ARRAY, &toy_ops, &err), &err);
    return ctx;
}

enum way { RUN, CODED, PLAIN, SPLIT, SPLIT_CODED, FORTRAN, READS, WAYS };

static void set_way(enum way way)
{
    toy.layout.chunk_shape = way == RUN ? NULL : chunk_shape;
    toy.layout.codecs = way == CODED || way == SPLIT_CODED ? codecs : NULL;
    toy.layout.type_name = way == PLAIN || way == SPLIT ? ">i2" : "int16";
    toy.layout.objects = way == SPLIT || way == SPLIT_CODED ? halves : NULL;
    toy.layout.num_objects = 2;
    toy.layout.fortran = way == FORTRAN;
    toy.layout.reads_chunks = way == READS;
    toy.layout.format = way == READS ? "toy 2" : NULL;
}

/* Every box of a few steps has the values, in each of the ways. */
static void reads_boxes(void **state)
{
    stk_context *ctx = prepare();
    stk_error err;

    for (enum way way = RUN; way < WAYS; way++) {
        stk_array *a = NULL;
        set_way(way);
        assert_ok(stk_array_open(ctx, "mem://f/a.toy", NULL, &a, &err), &err);
        const stk_array_info *info = stk_array_get_info(a);
        assert_string_equal(info->format, way == READS ? "toy 2" : "toy");
        assert_int_equal(info->dtype, STK_INT16);
        assert_string_equal(info->dimension_names[0], "y");
        assert_string_equal(stk_array_text(a, "units"), "K");
        assert_int_equal(*(const int16_t *)info->fill_value, FILL);
        for (int64_t y = 0; y < ROWS; y++)
            for (int64_t x = 0; x < COLUMNS; x++)
                for (int64_t step = 1; step < 4; step++) {
                    int64_t start[2] = {y, x}, steps[2] = {step, 1};
                    int64_t size[2] = {(ROWS - y - 1) / step + 1, COLUMNS - x};
                    int16_t out[ROWS * COLUMNS];
                    stk_array_box box = {start, size, steps};
                    assert_ok(stk_array_read(a, &box, out, (uint64_t)(size[0] * size[1] * 2), NULL,
                                             -1, &err),
                              &err);
                    for (int64_t i = 0; i < size[0]; i++)
                        for (int64_t j = 0; j < size[1]; j++)
                            assert_int_equal(out[i * size[1] + j],
                                             seen_at(y + i * step, x + j, way != RUN));
                }
        assert_int_equal(toy.closed, way);
        stk_array_close(&a);
        assert_int_equal(toy.closed, way + 1);
    }
    assert_true(toy.reads > 0);
    stk_context_destroy(&ctx);
}

/* Windows of such an array, through a loader; also where the first of all chunks is absent. */
static void gives_windows(void **state)
{
    stk_context *ctx = prepare();
    stk_error err;

    for (int turn = 0; turn < 2 * WAYS; turn++) {
        const enum way way = turn / 2;
        stk_dataset *dataset = NULL;
        stk_loader_options options;
        stk_loader *loader = NULL;
        stk_batch *batch = NULL;
        int64_t rows = 0;
        toy.absent = turn % 2 ? 0 : 4;
        set_way(way);
        assert_ok(
            stk_dataset_open(ctx, "array:mem://f/a.toy?window=2x5&stride=1x5", &dataset, &err),
            &err);
        stk_loader_options_init(&options);
        options.batch_size = 2;
        options.num_workers = way % 2;
        assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
        while (stk_loader_next(loader, -1, &batch, &err) == STK_OK) {
            stk_tensor field = {.struct_size = sizeof field};
            assert_ok(stk_batch_field(batch, 0, &field), &err);
            const int16_t *values = field.data;
            const int64_t n = (int64_t)stk_batch_count(batch);
            for (int64_t k = 0; k < n; k++, rows++)
                for (int64_t i = 0; i < 2 * COLUMNS; i++)
                    assert_int_equal(values[k * 2 * COLUMNS + i],
                                     seen_at(rows + i / COLUMNS, i % COLUMNS, way != RUN));
            stk_batch_release(&batch);
        }
        assert_int_equal(rows, ROWS - 1);
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
    }
    assert_int_equal(toy.closed, toy.opened);
    stk_context_destroy(&ctx);
}

static stk_status read_corner(stk_array *a, int64_t chunk)
{
    const int64_t start[2] = {chunk / 3 * HIGH, chunk % 3 * WIDE}, size[2] = {HIGH, WIDE};
    int16_t out[HIGH * WIDE];
    stk_error err;

    const stk_status status =
        stk_array_read(a, &(stk_array_box){start, size, NULL}, out, sizeof out, NULL, -1, &err);
    for (int64_t i = 0; status == STK_OK && i < HIGH * WIDE; i++)
        assert_int_equal(out[i], value_at(start[0] + i / WIDE, start[1] + i % WIDE));
    return status;
}

static void *read_first(void *array)
{
    return read_corner(array, 0) == STK_OK ? array : NULL;
}

/* A chunk that is read in parts is read once, and read() runs in several threads at once. */
static void reads_parts(void **state)
{
    stk_context *ctx = prepare();
    stk_array *a = NULL;
    pthread_t thread;
    void *same = NULL;
    stk_error err;

    set_way(READS);
    assert_ok(stk_array_open(ctx, "mem://f/a.toy?num_threads=1&memory=17", NULL, &a, &err), &err);
    assert_int_equal(read_corner(a, 1), STK_OK);
    assert_int_equal(toy.reads, 1);
    toy.wanted = toy.met + 2;
    assert_int_equal(pthread_create(&thread, NULL, read_first, a), 0);
    const stk_status status = read_corner(a, 3);
    pthread_join(thread, &same);
    assert_int_equal(status, STK_OK);
    assert_ptr_equal(same, a);
    stk_array_close(&a);
    stk_context_destroy(&ctx);
}

static void *cancel_soon(void *array)
{
    (void)meet();
    stk_array_cancel(array);
    return NULL;
}

/* A read() that takes long is told to end: by stk_array_cancel(), a deadline, and the loader. */
static void ends_reads(void **state)
{
    stk_context *ctx = prepare();
    stk_dataset *dataset = NULL;
    stk_loader_options options;
    stk_loader *loader = NULL;
    int16_t out[ROWS * COLUMNS];
    stk_batch *batch = NULL;
    stk_array *a = NULL;
    pthread_t thread;
    stk_error err;

    set_way(READS);
    toy.hangs = true;
    toy.wanted = 2;
    assert_ok(stk_array_open(ctx, "mem://f/a.toy?num_threads=1", NULL, &a, &err), &err);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, a), 0);
    assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_ECANCELED, &err,
                 "cancel");
    pthread_join(thread, NULL);
    assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, 1, &err), STK_ETIMEDOUT, &err, "");
    stk_array_close(&a);
    assert_ok(stk_dataset_open(ctx, "array:mem://f/a.toy?window=2x5", &dataset, &err), &err);
    stk_loader_options_init(&options);
    options.num_workers = 1;
    toy.wanted = toy.met + 2;
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    assert_int_equal(stk_loader_next(loader, 0, &batch, &err), STK_EAGAIN);
    assert_true(meet());
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Its own options are taken where the format is named and where it is found. */
static void takes_options(void **state)
{
    static const char *const good[] = {"mem://f/a.toy?level=5", "mem://f/a.toy?format=toy&level=5",
                                       "mem://f/a.toy?level=5&missing=fill"};
    static const struct {
        const char *url, *text;
    } bad[] = {{"mem://f/a.toy?level=10", "level"},
               {"mem://f/a.toy?levels=1", "levels"},
               {"mem://f/a.toy?format=raw&dtype=i2&level=1", "level"},
               {"mem://f/b.npy?level=1", "options of other formats than 'npy'"},
               {"mem://f/a.toy?format=tay", "did you mean 'toy'"}};
    static const char npy[] = "\x93NUMPY\x01\0\x36\0{'descr': '|u1', 'fortran_order': False, "
                              "'shape': (1,)}\n\7";
    stk_context *ctx = prepare();
    stk_store *store = NULL;
    stk_array *a = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://f", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, "b.npy", npy, sizeof npy - 1, NULL, &err), &err);
    stk_store_close(&store);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(stk_array_open(ctx, good[i], NULL, &a, &err), &err);
        assert_int_equal(toy.level, 5);
        stk_array_close(&a);
    }
    assert_ok(stk_array_open(ctx, "mem://f/a.toy", NULL, &a, &err), &err);
    assert_int_equal(toy.level, 3);
    stk_array_close(&a);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(stk_array_open(ctx, bad[i].url, NULL, &a, &err), STK_EINVAL, &err,
                     bad[i].text);
        assert_null(a);
    }
    stk_context_destroy(&ctx);
}

/* The way on below an object is given to a format that takes it, and refused for any other. */
static void takes_rest(void **state)
{
    stk_context *ctx = prepare();
    const stk_array_format_ops *format;
    stk_dataset *dataset = NULL;
    stk_store *store = NULL;
    stk_array *a = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://f", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, "b.bin", "01234567", 8, NULL, &err), &err);
    stk_store_close(&store);
    set_way(CODED);
    assert_ok(stk_array_open(ctx, "mem://f/a.toy/deep/b?level=5", NULL, &a, &err), &err);
    assert_string_equal(toy.key, "a.toy");
    assert_string_equal(toy.rest, "deep/b");
    assert_int_equal(toy.level, 5);
    stk_array_close(&a);
    assert_ok(stk_array_open(ctx, "mem://f/a.toy", NULL, &a, &err), &err);
    assert_string_equal(toy.rest, "");
    stk_array_close(&a);
    assert_ok(stk_dataset_open(ctx, "array:mem://f/a.toy/b?window=2x5", &dataset, &err), &err);
    assert_string_equal(toy.rest, "b");
    stk_dataset_close(&dataset);
    assert_int_equal(stk_array_recognise(ctx, "mem://f/a.toy/b?level=2", &format), 2);
    assert_ptr_equal(format, &toy_ops);
    assert_int_equal(stk_array_recognise(ctx, "mem://f/b.bin", &format), 0);
    assert_null(format);
    assert_int_equal(stk_array_recognise(ctx, "mem://f/b.bin/b", &format), 0);
    assert_int_equal(stk_array_recognise(NULL, "mem://f/a.toy", NULL), 0);
    static const char *const refused[] = {
        "mem://f/b.bin/deep/b", "mem://f/b.bin/deep/b?format=raw&dtype=u1",
        "mem://f/b.bin/deep/b?format=npy", "mem://f/b.bin/deep/b?format=zarr"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_fails(stk_array_open(ctx, refused[i], NULL, &a, &err), STK_ENOENT, &err,
                     "'b.bin' is an object and no folder, and nothing opens 'deep/b' in it");
    stk_context_destroy(&ctx);
}

/* Statistics of an array are not taken for those of another one in the same object. */
static void keeps_statistics(void **state)
{
    static const char *const folders[] = {NULL, "mem://statistics"};
    stk_context *ctx = prepare();
    stk_array *arrays[2] = {NULL};
    stk_error err;

    set_way(RUN);
    assert_ok(stk_array_open(ctx, "mem://f/a.toy/a", NULL, &arrays[0], &err), &err);
    assert_ok(stk_array_open(ctx, "mem://f/a.toy/b", NULL, &arrays[1], &err), &err);
    for (size_t i = 0; i < 2; i++) {
        stk_array_stats stats = {.struct_size = sizeof stats}, kept = stats;
        assert_ok(stk_array_stats_compute(arrays[0], NULL, NULL, &stats, &err), &err);
        assert_ok(stk_array_stats_save(arrays[0], folders[i], &stats, &err), &err);
        assert_fails(stk_array_stats_load(arrays[1], folders[i], &kept, &err), STK_ENOENT, &err,
                     "");
        stats.mean++;
        assert_ok(stk_array_stats_save(arrays[1], folders[i], &stats, &err), &err);
        assert_ok(stk_array_stats_load(arrays[0], folders[i], &kept, &err), &err);
        assert_true(kept.mean == stats.mean - 1);
    }
    stk_array_close(&arrays[0]);
    stk_array_close(&arrays[1]);
    stk_context_destroy(&ctx);
}

/* What a format gets wrong is named, nothing is left over, and its state is ended once or not. */
static void refuses(void **state)
{
    static const int64_t zero[2] = {0, 1}, negative[2] = {-1, 1};
    static const char *const lacking[2] = {"a.toy", NULL};
    stk_context *ctx = prepare();
    stk_array_layout good;
    stk_array *a = NULL;
    stk_error err;
    int16_t value[ROWS * COLUMNS];

#define FAILS(status, text)                                                                        \
    do {                                                                                           \
        assert_fails(stk_array_open(ctx, "mem://f/a.toy", NULL, &a, &err), status, &err, text);    \
        assert_null(a);                                                                            \
        assert_int_equal(toy.closed, 0);                                                           \
        toy.layout = good;                                                                         \
    } while (0)

    set_way(CODED);
    good = toy.layout;
    toy.no_layout = true;
    FAILS(STK_EINVAL, "of 'toy' gave STK_OK and no layout");
    toy.status = STK_EOS;
    FAILS(STK_EINVAL, "open() of the stk_array_format_ops of 'toy' gave STK_EOS");
    toy.no_layout = false;
    toy.status = STK_OK;
    toy.layout.struct_size = 0;
    FAILS(STK_EINVAL, "stk_array_layout");
    toy.layout.type_name = NULL;
    FAILS(STK_EINVAL, "lacks type_name");
    toy.layout.type_name = "object";
    FAILS(STK_EKIND, "'object'");
    toy.layout.rank = 33;
    FAILS(STK_ELIMIT, "33 dimensions");
    toy.layout.shape = negative;
    FAILS(STK_EFORMAT, "-1 elements");
    toy.layout.chunk_shape = zero;
    FAILS(STK_EFORMAT, "holds nothing");
    toy.layout.codecs = "[{\"name\": \"pickle\"}]";
    FAILS(STK_EKIND, "pickle");
    toy.layout.codecs = "[";
    FAILS(STK_EFORMAT, "a.toy");
    toy.layout.fortran = true;
    FAILS(STK_EINVAL, "has codecs");
    toy.layout.reads_chunks = true;
    FAILS(STK_EINVAL, "has codecs");
    toy.layout.codecs = NULL;
    toy.layout.chunk_shape = NULL;
    toy.layout.reads_chunks = true;
    FAILS(STK_EINVAL, "reads_chunks without read() or chunk_shape");
    toy.layout.codecs = NULL;
    toy.layout.reads_chunks = true;
    toy.layout.fortran = true;
    FAILS(STK_EINVAL, "is fortran, and read() gives C order");
    toy.layout.objects = lacking;
    toy.layout.num_objects = 2;
    FAILS(STK_EINVAL, "has an object without a key");
    toy.layout.attributes = "[]";
    FAILS(STK_EFORMAT, "attributes");
    toy.layout.codecs = NULL;
    toy.layout.chunk_shape = NULL;
    toy.layout.offset = 1u << 20;
    FAILS(STK_ETRUNCATED, "less than the elements");
    /* The layout was taken: its state is ended by who has it. */
    toy.status = STK_EFORMAT;
    assert_int_equal(stk_array_open(ctx, "mem://f/a.toy", NULL, &a, &err), STK_EFORMAT);
    assert_int_equal(toy.closed, 1);
    /* A place that no object has. */
    toy.status = STK_OK;
    toy.bad_place = true;
    assert_ok(stk_array_open(ctx, "mem://f/a.toy", NULL, &a, &err), &err);
    assert_fails(stk_array_read(a, NULL, value, sizeof value, NULL, -1, &err), STK_EFORMAT, &err,
                 "chunk 0 would be 0 bytes");
    assert_fails(stk_array_lay_out(a, &good, &err), STK_EINVAL, &err, "called once");
    /* A place that the format cannot say is no absent chunk. */
    toy.lost = STK_ECHECKSUM;
    assert_fails(stk_array_read(a, NULL, value, sizeof value, NULL, -1, &err), STK_ECHECKSUM, &err,
                 "where chunk 0 lies the format 'toy' does not say: the index is torn");
    stk_array_stored stored = {.struct_size = sizeof stored};
    assert_fails(stk_array_stored_count(a, &stored, &err), STK_ECHECKSUM, &err, "torn");
    stk_dataset *dataset = NULL;
    assert_fails(stk_dataset_open(ctx, "array:mem://f/a.toy?window=2x5", &dataset, &err),
                 STK_ECHECKSUM, &err, "torn");
    toy.lost = STK_EOS;
    assert_fails(stk_array_read(a, NULL, value, sizeof value, NULL, -1, &err), STK_EINVAL, &err,
                 "chunk 0");
    stk_array_close(&a);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_boxes),   cmocka_unit_test(gives_windows),
        cmocka_unit_test(reads_parts),   cmocka_unit_test(takes_rest),
        cmocka_unit_test(ends_reads),    cmocka_unit_test(keeps_statistics),
        cmocka_unit_test(takes_options), cmocka_unit_test(refuses)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
