/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that their tasks read: whatever a store gives at once, now and then or never, the same rows
 * come in the same order, and the same are bad.
 */
#include <stdio.h>

#include "unit/loader/run.h"

#include "dataset/dataset.h"
#include "loader/parts.h"

enum { SAMPLES = 3000, LENGTH = 997, APART = 1501, EPOCHS = 3 };

/* A store of one object whose bytes are a function of their place. */
typedef struct ready_store {
    stk_store head;
    stk_store_ops ops;
    uint64_t miss_every; /* of read_now(), one in so many finds nothing; 0: none */
    uint64_t lost_every; /* samples whose bytes are not there; 0: none */
    atomic_bool stuck;   /* nothing is given at once, and reads end by cancel() alone */
    atomic_uint_fast64_t asked, submitted;
} ready_store;

typedef struct ready_dataset {
    stk_dataset head;
    ready_store *store;
    stk_field fields[1];
} ready_dataset;

static uint8_t byte_at(uint64_t place)
{
    return (uint8_t)(place * 131 ^ place >> 8);
}

static bool lost(const ready_store *s, uint64_t offset)
{
    return s->lost_every && offset / APART % s->lost_every == 1;
}

static void fill(uint64_t offset, uint64_t length, uint8_t *to)
{
    for (uint64_t i = 0; i < length; i++)
        to[i] = byte_at(offset + i);
}

static stk_status ready_submit(stk_store *store, stk_read *read)
{
    ready_store *s = (ready_store *)store;

    atomic_fetch_add(&s->submitted, 1);
    if (atomic_load(&s->stuck))
        return STK_OK;
    if (lost(s, read->offset)) {
        read->done(read, STK_ETRUNCATED);
        return STK_OK;
    }
    fill(read->offset, read->length, read->data);
    read->done(read, STK_OK);
    return STK_OK;
}

static stk_status ready_read_now(stk_store *store, const char *key, uint64_t offset,
                                 uint64_t length, void *data)
{
    ready_store *s = (ready_store *)store;
    static const stk_status failures[] = {STK_EAGAIN, STK_EIO, STK_ETRUNCATED, STK_ENOMEM};
    const uint64_t asked = atomic_fetch_add(&s->asked, 1);

    assert_string_equal(key, "data");
    memset(data, 0xee, length);
    if (atomic_load(&s->stuck) || lost(s, offset) || (s->miss_every && asked % s->miss_every == 0))
        return failures[asked / STK_MAX(s->miss_every, 1) % STK_COUNT(failures)];
    fill(offset, length, data);
    return STK_OK;
}

static void ready_cancel(stk_store *store, stk_read *read)
{
    if (atomic_load(&((ready_store *)store)->stuck))
        read->done(read, STK_ECANCELED);
}

static void ready_limits(stk_store *store, stk_store_limits *out)
{
    (void)store;
    *out = (stk_store_limits){.struct_size = sizeof *out, .max_read = 1 << 20, .io_depth = 8};
}

static stk_status locate(stk_dataset *dataset, const uint64_t *indices, size_t n, stk_locator *to,
                         stk_error *err)
{
    (void)dataset;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        stk_need need = {.offset = indices[i] * APART, .length = LENGTH + indices[i] % 3};
        STK_TRY(to->add(to, i, &need));
    }
    return STK_OK;
}

static size_t object(stk_dataset *dataset, uint64_t number, stk_store **store, char *key,
                     size_t size)
{
    (void)number;
    *store = &((ready_dataset *)dataset)->store->head;
    return (size_t)snprintf(key, size, "data");
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++)
        samples[i].values[0].data = samples[i].needs[0].data;
}

static void close_ready(stk_dataset *dataset)
{
    stk__free(dataset->context, dataset);
}

static const stk_dataset_ops dataset_ops = {.struct_size = sizeof dataset_ops,
                                            .name = "ready",
                                            .doc = "For tests.",
                                            .close = close_ready,
                                            .locate = locate,
                                            .object = object,
                                            .prepare = prepare};

static ready_store make_store(stk_context *ctx, bool gives_now)
{
    return (ready_store){.head = {.context = ctx},
                         .ops = {.struct_size = sizeof(stk_store_ops),
                                 .name = "ready",
                                 .submit = ready_submit,
                                 .cancel = ready_cancel,
                                 .limits = ready_limits,
                                 .read_now = gives_now ? ready_read_now : NULL}};
}

static stk_dataset *make_dataset(stk_context *ctx, ready_store *store)
{
    ready_dataset *d = stk__calloc(ctx, 1, sizeof *d);

    store->head.ops = &store->ops;
    d->store = store;
    d->fields[0] = stk__field("data", STK_UINT8, (const int64_t[]){LENGTH, -1}, false);
    stk__dataset_init(&d->head, &dataset_ops, ctx, SAMPLES, d->fields, 1);
    return &d->head;
}

static void check(const stk_batch *batch)
{
    stk_tensor data = {.struct_size = sizeof data}, index = {.struct_size = sizeof index};
    uint8_t want[LENGTH];

    assert_int_equal(stk_batch_find(batch, "data", &data), STK_OK);
    assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
    for (uint64_t i = 0; i < stk_batch_count(batch); i++) {
        fill(((uint64_t *)index.data)[i] * APART, LENGTH, want);
        assert_memory_equal((uint8_t *)data.data + i * LENGTH, want, LENGTH);
    }
}

/* Take `batches`, or all of EPOCHS epochs. */
static void take(stk_loader *loader, uint64_t batches, run *out)
{
    stk_batch *batch;
    stk_error err;

    for (uint64_t ends = 0, n = 0; ends < EPOCHS && n < batches; n++) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        ends += status == STK_EOS;
        if (status == STK_EOS)
            continue;
        assert_ok(status, &err);
        check(batch);
        keep(out, batch);
        stk_batch_release(&batch);
    }
}

/* All that is admitted is dropped: the pool has its bytes back. */
static void drop(stk_loader *loader)
{
    stk__loader_reset(loader, 0);
    if (loader->workers.num == 0)
        assert_int_equal(atomic_load(&loader->ring->pool.used), 0);
}

static run run_of(stk_context *ctx, ready_store *store, const stk_loader_options *o)
{
    stk_dataset *dataset = make_dataset(ctx, store);
    stk_loader *loader = open_loader(dataset, o);
    stk_loader_stats stats = {.struct_size = sizeof stats};
    run all = {0};

    take(loader, UINT64_MAX, &all);
    stk_loader_get_stats(loader, &stats);
    /* Two epochs that meet may share a read. */
    assert_true(stats.requests + 100 >= all.n);
    assert_true(stats.request_bytes >= stats.requests * LENGTH);
    assert_true(stk__loader_stop(loader));
    assert_int_equal(atomic_load(&loader->ring->pool.used), 0);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    return all;
}

static void same(const run *a, const run *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->rows, b->rows, a->n * sizeof *a->rows);
}

static stk_loader_options options(int64_t workers)
{
    stk_loader_options o = base_options();

    o.num_workers = workers;
    o.epochs = EPOCHS;
    o.on_error = STK_ON_ERROR_SKIP;
    return o;
}

static void rows_are_the_same_however_they_are_read(void **state)
{
    stk_context *ctx = *state;
    static const struct {
        uint64_t miss, lost, batch_size; /* 0: that of the others */
    } kinds[] = {{0, 0, 0}, {900, 0, 0}, {3, 0, 0},    {900, 0, 1},
                 {1, 0, 0}, {0, 600, 0}, {700, 701, 0}};

    for (size_t k = 0; k < STK_COUNT(kinds); k++)
        for (int64_t workers = 0; workers < 3; workers++) {
            stk_loader_options o = options(workers);
            ready_store plain = make_store(ctx, false), now = make_store(ctx, true);
            if (kinds[k].batch_size)
                o.batch_size = kinds[k].batch_size;
            plain.lost_every = now.lost_every = kinds[k].lost;
            now.miss_every = kinds[k].miss;
            run a = run_of(ctx, &plain, &o), b = run_of(ctx, &now, &o);
            same(&a, &b);
            const uint64_t bad = kinds[k].lost ? (SAMPLES - 2 + kinds[k].lost) / kinds[k].lost : 0;
            assert_int_equal(a.n, EPOCHS * (SAMPLES - bad));
            assert_int_equal(plain.asked, 0);
            assert_true(now.asked > 0);
            if (!kinds[k].miss && !kinds[k].lost) {
                assert_true(now.submitted < plain.submitted / 2);
                assert_true(now.submitted + now.asked + 100 >= a.n);
            }
            /* Storage that is too slow most of the time is hardly asked. */
            if (kinds[k].miss == 1)
                assert_true(now.asked < plain.submitted / 4);
            free(a.rows);
            free(b.rows);
        }
}

/* What was admitted and not prepared is given up. */
static void a_jump_gives_the_pool_its_bytes_back(void **state)
{
    stk_context *ctx = *state;

    for (int64_t workers = 0; workers < 3; workers++) {
        stk_loader_options o = options(workers);
        ready_store store = make_store(ctx, true);
        store.miss_every = 500;
        stk_dataset *dataset = make_dataset(ctx, &store);
        stk_loader *loader = open_loader(dataset, &o);
        run first = {0}, again = {0};
        take(loader, 60, &first);
        drop(loader);
        take(loader, 60, &again);
        same(&first, &again);
        assert_true(stk__loader_stop(loader));
        assert_int_equal(atomic_load(&loader->ring->pool.used), 0);
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
        free(first.rows);
        free(again.rows);
    }
}

/* Whoever needs more than there is waits for it as for a buffer, and the pool keeps its limit. */
static void the_budget_holds(void **state)
{
    stk_context *ctx = *state;
    stk_loader_options o = options(2);
    ready_store plain = make_store(ctx, false), now = make_store(ctx, true);
    stk_loader_stats stats = {.struct_size = sizeof stats};

    o.memory_budget = 16 << 20;
    run a = run_of(ctx, &plain, &o);
    stk_dataset *dataset = make_dataset(ctx, &now);
    stk_loader *loader = open_loader(dataset, &o);
    run b = {0};
    take(loader, UINT64_MAX, &b);
    stk_loader_get_stats(loader, &stats);
    assert_true(stats.memory_peak <= o.memory_budget);
    assert_true(now.asked > SAMPLES);
    same(&a, &b);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    free(a.rows);
    free(b.rows);
}

/* Storage stops answering: what tasks could not read waits for it like any other, as long as the
 * loader is allowed to, and the end cancels it. */
static void storage_that_stops_is_timed_out(void **state)
{
    stk_context *ctx = *state;
    stk_batch *batch = NULL;
    stk_error err;

    for (int64_t workers = 0; workers < 3; workers++)
        for (int cancels = 0; cancels < 2; cancels++) {
            stk_loader_options o = options(workers);
            ready_store store = make_store(ctx, true);
            o.timeout = 0.2;
            stk_dataset *dataset = make_dataset(ctx, &store);
            stk_loader *loader = open_loader(dataset, &o);
            stk_status status = STK_OK;
            run some = {0};
            take(loader, 60, &some);
            assert_true(store.asked > 100);
            atomic_store(&store.stuck, true);
            while (!cancels && (status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK)
                stk_batch_release(&batch);
            if (!cancels)
                assert_fails(status, STK_ETIMEDOUT, &err, "0.2");
            stk_loader_cancel(loader);
            assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_ECANCELED, &err,
                         "canceled");
            stk_loader_destroy(&loader);
            stk_dataset_close(&dataset);
            free(some.rows);
        }
}

/* ---- Tokens of a file ---- */

enum { TOKENS = 20000 };

static void windows_of_every_type_are_those_of_the_mapped_file(void **state)
{
    stk_context *ctx = *state;
    static const char *const types[] = {"uint8",  "int8",  "uint16", "int16",
                                        "uint32", "int32", "int64",  "npy"};
    /* Big-endian values. */
    static const char head[128] = "\x93NUMPY\1\0v\0"
                                  "{'descr': '>i4', 'fortran_order': False, 'shape': (20000,), }"
                                  "                                                        ";
    static uint8_t bytes[8 * TOKENS + 3];
    char folder[256], spec[2][400];
    uint64_t seed = 5;
    stk_error err;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(test_random(&seed) >> 32);
    test_folder(folder);
    for (size_t t = 0; t < STK_COUNT(types); t++) {
        run runs[2] = {{0}};
        uint64_t sums[2] = {0};
        const bool npy = strcmp(types[t], "npy") == 0;
        const size_t size = npy ? 4 : stk_dtype_size(stk_dtype_parse(types[t]));
        if (npy) {
            memcpy(bytes, head, sizeof head - 1);
            bytes[sizeof head - 1] = '\n';
        }
        test_write(folder, "t.bin", bytes, TOKENS * size + (npy ? sizeof head : 3));
        for (int k = 0; k < 2; k++) {
            stk_dataset *dataset;
            stk_batch *batch;
            stk_loader_options o = options(2);
            snprintf(spec[k], sizeof spec[k],
                     "tokens:%s/t.bin?length=203&stride=7&target=true&mmap=%s%s%s", folder,
                     k ? "true" : "false", npy ? "" : "&offset=3&dtype=", npy ? "" : types[t]);
            assert_ok(stk_dataset_open(ctx, spec[k], &dataset, &err), &err);
            stk_loader *loader = open_loader(dataset, &o);
            for (int ends = 0; ends < EPOCHS;) {
                stk_status status = stk_loader_next(loader, -1, &batch, &err);
                ends += status == STK_EOS;
                if (status == STK_EOS)
                    continue;
                assert_ok(status, &err);
                keep(&runs[k], batch);
                for (uint32_t f = 0; f < 2; f++) {
                    stk_tensor v = {.struct_size = sizeof v};
                    assert_int_equal(stk_batch_field(batch, f, &v), STK_OK);
                    for (uint64_t i = 0; i < stk_batch_count(batch) * 203; i++)
                        sums[k] = sums[k] * 31 + (uint64_t)((int64_t *)v.data)[i];
                }
                stk_batch_release(&batch);
            }
            stk_loader_destroy(&loader);
            stk_dataset_close(&dataset);
        }
        same(&runs[0], &runs[1]);
        assert_int_equal(sums[0], sums[1]);
        free(runs[0].rows);
        free(runs[1].rows);
    }
    test_folder_remove(folder);
}

/* ---- A file for each sample ---- */

enum { FILES = 400 };

/* Two big-endian numbers. */
static void write_sample(const char *folder, int v)
{
    unsigned char data[132] = "\x93NUMPY\1\0v\0{'descr': '>i2', 'fortran_order': False, "
                              "'shape': (2,), }";
    char name[16];

    memset(data + strlen((char *)data + 10) + 10, ' ', 127 - 10 - strlen((char *)data + 10));
    data[127] = '\n';
    data[128] = (unsigned char)(v >> 8);
    data[129] = (unsigned char)v;
    data[130] = (unsigned char)(-v >> 8);
    data[131] = (unsigned char)-v;
    snprintf(name, sizeof name, "%04d.npy", v);
    test_write(folder, name, data, sizeof data);
}

static void rows_of_many_files(void **state)
{
    stk_context *ctx = *state;
    char folder[256], spec[300];
    stk_dataset *dataset;
    stk_batch *batch;
    stk_error err;

    test_folder(folder);
    for (int v = 0; v < FILES; v++)
        write_sample(folder, v);
    snprintf(spec, sizeof spec, "npy:%s", folder);
    for (int64_t workers = 0; workers < 3; workers++) {
        stk_loader_options o = options(workers);
        uint64_t rows = 0;
        assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
        stk_loader *loader = open_loader(dataset, &o);
        for (int ends = 0; ends < EPOCHS;) {
            stk_status status = stk_loader_next(loader, -1, &batch, &err);
            ends += status == STK_EOS;
            if (status == STK_EOS)
                continue;
            assert_ok(status, &err);
            stk_tensor data = {.struct_size = sizeof data}, index = {.struct_size = sizeof index};
            assert_int_equal(stk_batch_field(batch, 0, &data), STK_OK);
            assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
            for (uint64_t i = 0; i < stk_batch_count(batch); i++, rows++) {
                const int v = (int)((uint64_t *)index.data)[i];
                assert_int_equal(((int16_t *)data.data)[2 * i], v);
                assert_int_equal(((int16_t *)data.data)[2 * i + 1], -v);
            }
            stk_batch_release(&batch);
        }
        assert_int_equal(rows, EPOCHS * FILES);
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_the_same_however_they_are_read, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(a_jump_gives_the_pool_its_bytes_back, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(storage_that_stops_is_timed_out, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(rows_of_many_files, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(the_budget_holds, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(windows_of_every_type_are_those_of_the_mapped_file,
                                        test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
