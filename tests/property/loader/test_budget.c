/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples are bad depends on the data and the budget alone. Samples of many sizes, some of
 * them too large: whatever the workers, depth, cache, engine, reads at a time, the same rows come,
 * the same are skipped, and the same take the place of bad ones; a state goes on with other
 * workers.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/loader/run.h"

#include "dataset/dataset.h"

enum { SAMPLES = 160, MANY = 320, LARGEST = 1 << 20 };

typedef struct sized {
    stk_dataset head;
    stk_store *store;
    stk_field fields[2];
    uint64_t spread;             /* bytes from one sample's to the next one's */
    int ragged;                  /* 1: of many sizes; 2: all may be alike */
    const stk_need (*listed)[3]; /* instead: what each sample needs */
} sized;

static stk_status locate_listed(const sized *dataset, const uint64_t *indices, size_t n,
                                stk_locator *to)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            if (dataset->listed[indices[i]][k].length)
                STK_TRY(to->add(to, i, &dataset->listed[indices[i]][k]));
    return STK_OK;
}

/* Some tiny, some large, some in two parts, in no order. */
static uint64_t size_of(uint64_t index)
{
    return 64 + index * 2654435761u % 97 * index * 40503u % LARGEST;
}

static stk_status locate(stk_dataset *dataset, const uint64_t *indices, size_t n, stk_locator *to,
                         stk_error *err)
{
    (void)err;
    if (((sized *)dataset)->listed)
        return locate_listed((sized *)dataset, indices, n, to);
    for (size_t i = 0; i < n; i++) {
        uint64_t size = size_of(indices[i]), first = indices[i] % 3 ? size : size / 2;
        const uint64_t from = ((sized *)dataset)->spread * indices[i];
        stk_need a = {.offset = from, .length = first};
        stk_need b = {.offset = from + LARGEST - (size - first), .length = size - first};
        STK_TRY(to->add(to, i, &a));
        if (b.length)
            STK_TRY(to->add(to, i, &b));
        if (((sized *)dataset)->ragged)
            to->bytes(to, i, 1, ((sized *)dataset)->ragged == 2 ? 16 : size / 16);
    }
    return STK_OK;
}

static size_t object(stk_dataset *dataset, uint64_t number, stk_store **store, char *key,
                     size_t size)
{
    (void)number;
    *store = ((sized *)dataset)->store;
    if (size)
        snprintf(key, size, "data");
    return 4;
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        memcpy(s->values[0].out, &s->index, sizeof s->index);
        if (((sized *)dataset)->ragged) {
            s->values[1].size = s->index % 4;
            memset(s->values[1].out, (int)s->index, s->index % 4);
        }
    }
}

static void close_sized(stk_dataset *dataset)
{
    stk_store_close(&((sized *)dataset)->store);
    stk__free(dataset->context, dataset);
}

static const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                    .name = "sized",
                                    .doc = "For tests.",
                                    .close = close_sized,
                                    .locate = locate,
                                    .object = object,
                                    .prepare = prepare};

static stk_dataset *open_sized(stk_context *ctx, const char *url, int ragged, uint64_t samples,
                               uint64_t spread)
{
    sized *d = stk__calloc(ctx, 1, sizeof *d);
    char key[16];
    stk_error err;

    d->ragged = ragged;
    d->spread = spread;
    assert_ok(stk_store_open(ctx, url, &d->store, key, sizeof key, &err), &err);
    d->fields[0] = stk__field("data", STK_UINT64, (const int64_t[]){-1}, false);
    d->fields[1] = (stk_field){.struct_size = sizeof(stk_field),
                               .name = "blob",
                               .dtype = STK_UINT8,
                               .layout = STK_BYTES,
                               .rank = 1,
                               .shape = {-1}};
    stk__dataset_init(&d->head, &ops, ctx, samples, d->fields, ragged ? 2 : 1);
    return &d->head;
}

/* Take `batches` (0: all of two epochs); what comes is kept, and how many were bad. */
static uint64_t take(stk_loader *loader, int batches, run *out, stk_loader_state *state)
{
    stk_bad_samples bad = {.struct_size = sizeof bad};
    stk_batch *batch;
    stk_error err;

    for (int ends = 0, n = 0; ends < 2 && (!batches || n < batches); n++) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        ends += status == STK_EOS;
        if (status == STK_EOS)
            continue;
        assert_ok(status, &err);
        keep(out, batch);
        stk_batch_release(&batch);
    }
    if (state)
        stk_loader_get_state(loader, state);
    stk_loader_get_bad_samples(loader, &bad);
    return bad.samples;
}

static void same(const run *a, const run *b, const stk_loader_options *o)
{
    if (a->n != b->n || memcmp(a->rows, b->rows, a->n * sizeof *a->rows) != 0)
        fail_msg("%d rows, not %d: workers %d, cache %d, io_depth %d, budget %d", (int)b->n,
                 (int)a->n, (int)o->num_workers, o->cache, (int)o->io_depth, (int)o->memory_budget);
}

/* What a loader holds besides one sample: its own structures, a worker and two batches. */
#define HOLDS 150000

/* With one worker and one batch: the samples whose reads, and all that they take as buffers, are no
 * more than the budget leaves for one. The two numbers of the reason say so. */
static void check_bad(const run *r, uint64_t budget, const stk_bad_samples *bad)
{
    unsigned long long wanted, left;
    bool seen[SAMPLES] = {false};
    const char *at = bad->num_reasons ? strchr(bad->reasons[0].first.text, '(') : NULL;

    for (at = at ? strchr(at + 1, '(') : NULL;
         at && sscanf(at, "(%llu bytes wanted", &wanted) != 1;)
        at = strchr(at + 1, '(');
    for (size_t i = 0; i < r->n; i++)
        seen[r->rows[i].index] = true;
    if (!at) {
        assert_int_equal(bad->num_reasons, 0);
        return;
    }
    assert_int_equal(sscanf(strstr(at, "budget of"), "budget of %*u: %llu left", &left), 1);
    assert_true(wanted > left);
    assert_in_range(left, budget - HOLDS, budget);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const uint64_t all = size_of(i), first = i % 3 ? all : all / 2, second = all - first;
        uint64_t cost = first + first / 4 + 320;
        cost += second ? second + second / 4 + 320 : 0;
        assert_int_equal(seen[i], cost <= left);
    }
}

static void bad_is_what_the_budget_says(void **state)
{
    static const uint64_t budgets[] = {700000, 1200000, 3 << 20, 1 << 24};
    char folder[256], url[300];
    char *bytes = calloc(1, LARGEST);
    uint64_t most = 0, least = UINT64_MAX;

    test_folder(folder);
    test_write(folder, "data", bytes, LARGEST);
    for (int b = 0; b < 4; b++)
        for (int ragged = 0; ragged < 2; ragged++)
            for (int replace = 0; replace < 2 && b >= 2 * replace; replace++) {
                run first = {0};
                uint64_t first_bad = 0;
                for (int i = 0; i < 16; i++) {
                    stk_context_options c;
                    stk_context *ctx;
                    stk_error err;
                    stk_context_options_init(&c);
                    c.io_engine = i & 4 ? STK_IO_THREADS : STK_IO_AUTO;
                    assert_ok(stk_context_create(&c, &ctx, &err), &err);
                    snprintf(url, sizeof url, "%s%s", i & 8 ? "slow+file://" : "file://", folder);
                    stk_dataset *dataset =
                        open_sized(ctx, url, ragged ? 1 + replace : 0, SAMPLES, 0);
                    stk_loader_options o = base_options();
                    run r = {0};
                    o.memory_budget = budgets[b];
                    o.on_error = replace ? STK_ON_ERROR_REPLACE : STK_ON_ERROR_SKIP;
                    o.num_workers = (int64_t[]){0, 1, 2, 5, 24, 3, 1, 2}[i % 8];
                    o.cache = budgets[b] >= 3 << 20 ? i % 3 : STK_CACHE_NONE;
                    o.io_depth = 1 + i;
                    o.prefetch_factor = 1 + i % 5;
                    o.epochs = 2;
                    o.timeout = 60;
                    stk_loader *loader = open_loader(dataset, &o);
                    stk_loader_state at;
                    uint64_t bad = take(loader, i % 2 ? 7 : 0, &r, &at);
                    stk_bad_samples all = {.struct_size = sizeof all};
                    stk_loader_get_bad_samples(loader, &all);
                    if (i == 0 && !replace && !ragged)
                        check_bad(&r, budgets[b], &all);
                    stk_loader_destroy(&loader);
                    if (i % 2) { /* gone on with, by others */
                        o.num_workers = i % 5;
                        loader = open_loader(dataset, &o);
                        assert_ok(stk_loader_restore(loader, &at, &err), &err);
                        bad += take(loader, 0, &r, NULL);
                        stk_loader_destroy(&loader);
                    }
                    if (i == 0) {
                        first = r;
                        first_bad = bad;
                    } else {
                        same(&first, &r, &o);
                        assert_int_equal(bad, first_bad);
                        free(r.rows);
                    }
                    stk_dataset_close(&dataset);
                    stk_context_destroy(&ctx);
                }
                most = STK_MAX(most, first_bad);
                least = STK_MIN(least, first_bad);
                free(first.rows);
            }
    /* It was about something: some budgets leave samples out, others none. */
    assert_true(most > SAMPLES / 2);
    assert_int_equal(least, 0);
    free(bytes);
    test_folder_remove(folder);
}

/* ---- Samples whose needs are listed ---- */

enum { FEW = 8, LISTED_BUDGET = 8 << 20, LISTED_EPOCHS = 3, SHARED = 1800000, OWN = 3200000 };

/* Two ranges that a cache beside samples holds, and a sample that wants both and one of its own. */
static const stk_need shares[FEW][3] = {
    [1] = {{.offset = 0, .length = SHARED}},
    [2] = {{.offset = 4 << 20, .length = SHARED}},
    [3] = {{.offset = 0, .length = SHARED},
           {.offset = 4 << 20, .length = SHARED},
           {.offset = 8 << 20, .length = OWN}},
};
/* Too large for the budget, each by its reads alone. */
static const stk_need large[FEW][3] = {
    [1] = {{.length = 7 << 20}},
    [3] = {{.length = 7 << 20}},
    [6] = {{.length = 7 << 20}},
};

/* Whatever the workers and the cache, no epoch delivers a sample that `bad` names. */
static void none_of(const stk_need (*listed)[3], int on_error, const bool bad[FEW])
{
    char folder[256], url[300], path[300];
    uint64_t num_bad = 0;

    for (int i = 0; i < FEW; i++)
        num_bad += bad[i];
    test_folder(folder);
    test_write(folder, "data", "", 0);
    snprintf(path, sizeof path, "%s/data", folder);
    assert_int_equal(truncate(path, 16 << 20), 0);
    snprintf(url, sizeof url, "file://%s", folder);
    for (int i = 0; i < 9; i++) {
        stk_context *ctx = test_context();
        stk_dataset *dataset = open_sized(ctx, url, 0, FEW, 0);
        stk_loader_options o = base_options();
        stk_bad_samples all = {.struct_size = sizeof all};
        stk_batch *batch;
        stk_error err;
        uint64_t rows = 0;
        ((sized *)dataset)->listed = listed;
        o.memory_budget = LISTED_BUDGET;
        o.batch_size = 1;
        o.shuffle = STK_SHUFFLE_NONE;
        o.on_error = on_error;
        o.cache = i % 3;
        o.num_workers = i / 3;
        o.epochs = LISTED_EPOCHS;
        o.timeout = 60;
        stk_loader *loader = open_loader(dataset, &o);
        for (int ends = 0; ends < LISTED_EPOCHS;) {
            stk_status status = stk_loader_next(loader, -1, &batch, &err);
            stk_tensor index = {.struct_size = sizeof index};
            ends += status == STK_EOS;
            if (status == STK_EOS)
                continue;
            assert_ok(status, &err);
            assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
            for (uint64_t r = 0; r < stk_batch_count(batch); r++)
                assert_false(bad[((const uint64_t *)index.data)[r]]);
            rows += stk_batch_count(batch);
            stk_batch_release(&batch);
        }
        stk_loader_get_bad_samples(loader, &all);
        const bool replaced = on_error == STK_ON_ERROR_REPLACE;
        assert_int_equal(rows, LISTED_EPOCHS * (FEW - (replaced ? 0 : num_bad)));
        if (replaced)
            assert_true(all.samples > LISTED_EPOCHS * num_bad);
        else
            assert_int_equal(all.samples, LISTED_EPOCHS * num_bad);
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
        stk_context_destroy(&ctx);
    }
    test_folder_remove(folder);
}

/* What the cache has of a sample makes it no smaller. */
static void bad_with_its_parts_in_the_cache(void **state)
{
    (void)state;
    none_of(shares, STK_ON_ERROR_SKIP, (const bool[FEW]){[3] = true});
}

/* What takes the place of a bad sample is judged as that was. */
static void a_substitute_may_be_too_large(void **state)
{
    (void)state;
    none_of(large, STK_ON_ERROR_REPLACE, (const bool[FEW]){[1] = true, [3] = true, [6] = true});
}

/* ---- What the process grows by ---- */

static uint64_t resident(void)
{
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*u %llu", &pages), 1);
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Run some epochs; the most that the process grew. */
static uint64_t growth(stk_dataset *dataset, const stk_loader_options *o)
{
    const uint64_t before = resident();
    uint64_t most = before;
    stk_batch *batch;
    stk_error err;

    stk_loader *loader = open_loader(dataset, o);
    for (uint64_t ends = 0; ends < o->epochs;) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        ends += status == STK_EOS;
        if (status == STK_EOS)
            continue;
        assert_ok(status, &err);
        most = STK_MAX(most, resident());
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    return most - before;
}

/* In a process of its own, whose allocator no other loader has used but a small one. */
static uint64_t growth_alone(const char *url, int cache, uint64_t budget)
{
    uint64_t grown = 0;
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stk_context *ctx = test_context();
        stk_dataset *dataset = open_sized(ctx, url, 0, MANY, LARGEST);
        stk_loader_options o = base_options();
        o.on_error = STK_ON_ERROR_SKIP;
        o.cache = cache;
        o.num_workers = 6;
        o.prefetch_factor = 4;
        o.epochs = 1;
        o.memory_budget = 8 << 20;
        growth(dataset, &o);
        o.memory_budget = budget;
        grown = growth(dataset, &o);
        _exit(write(ends[1], &grown, sizeof grown) != sizeof grown);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &grown, sizeof grown), sizeof grown);
    close(ends[0]);
    close(ends[1]);
    return grown;
}

/* What the process grows by, once a loader was there: the budget, and little more. */
static void the_process_grows_by_the_budget(void **state)
{
    enum { SPARE = 8 << 20 };
    static const uint64_t budgets[] = {8, 16, 32, 64, 256};
    char folder[256], url[300], path[300];

    if (TEST_SANITIZED)
        skip();
    test_folder(folder);
    test_write(folder, "data", "", 0);
    snprintf(path, sizeof path, "%s/data", folder);
    assert_int_equal(truncate(path, (off_t)MANY * LARGEST), 0);
    snprintf(url, sizeof url, "file://%s", folder);
    for (int cache = STK_CACHE_NONE; cache <= STK_CACHE_ENCODED; cache++)
        for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
            const uint64_t budget = budgets[i] << 20, grown = growth_alone(url, cache, budget);
            if (grown > budget + SPARE)
                fail_msg("memory_budget %d MiB: the process grew by %.1f MiB (cache %d)",
                         (int)budgets[i], (double)grown / (1 << 20), cache);
        }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_grows_by_the_budget),
        cmocka_unit_test(bad_is_what_the_budget_says),
        cmocka_unit_test(bad_with_its_parts_in_the_cache),
        cmocka_unit_test(a_substitute_may_be_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
