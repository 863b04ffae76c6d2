/* SPDX-License-Identifier: Apache-2.0 */
/* What stays in the pool as memory changes: held against loaders whose chunks and pages are
 * counted, and what a table says of its pages against what its rows need. */
#include <stoker/convert.h>

#include "dataset/dataset.h"
#include "measure/measure.h"
#include "measure/simulate_shared.h"
#include "unit/dataset/windows.h"

#define WARM  24 /* batches that are not counted */
#define TAKEN 72

static stk_context *ctx;
static stk_error err;

static int set_up(void **state)
{
    (void)state;
    ctx = test_context();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stk_context_destroy(&ctx);
    return 0;
}

static void take(stk_loader *loader, uint64_t batches)
{
    stk_batch *batch;

    for (uint64_t i = 0; i < batches; i++) {
        assert_ok(stk_loader_next(loader, 30000, &batch, &err), &err);
        stk_batch_release(&batch);
    }
}

/* The figures of some batches. */
static stk_figures run(stk_dataset *dataset, const stk_loader_options *o)
{
    stk_loader_stats then = {.struct_size = sizeof then}, now = then;
    stk_figures f = {.struct_size = sizeof f,
                     .ranks = 1,
                     .step_stretch = 1,
                     .steps = TAKEN,
                     .samples = TAKEN * o->batch_size,
                     .batch_size = o->batch_size};
    stk_loader *loader;

    assert_ok(stk_loader_create(dataset, o, &loader, &err), &err);
    take(loader, WARM);
    stk_loader_get_stats(loader, &then);
    take(loader, TAKEN);
    stk_loader_get_stats(loader, &now);
    stk_loader_destroy(&loader);
    stk__figures_of_loader(&then, &now, &f);
    return f;
}

/* Decoded bytes for a sample, expected by what is shared alone, at another budget. */
static double expected(const stk_figures *f, uint64_t budget)
{
    const stk_recording recording = {.struct_size = sizeof recording, .figures = f};
    const stk__sharing *s;
    stk__stages stages;
    stk__setting set;
    double found, stay, of_kinds[STK_CLAIM_KINDS];

    assert_ok(stk__stages_of(ctx, &recording, &stages, &err), &err);
    s = &stages.sharing;
    assert_true(s->once > 0 && s->once < s->asked);
    stk__setting_of(&recording, &stages, &set);
    set.budget = (double)budget;
    assert_ok(stk__setting_found(&stages, &set, &found, of_kinds, &stay, &err), &err);
    assert_true(found >= 0 && found <= 1);
    const double bytes = s->once + (s->asked - s->once) * (1 - found);
    stk__stages_release(&stages);
    return bytes;
}

static stk_loader_options options_of(uint64_t batch, uint64_t streams, uint64_t buffer)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.batch_size = batch;
    o.num_workers = 1;
    o.io_depth = 4;
    o.shuffle = STK_SHUFFLE_BLOCK;
    o.streams = streams;
    o.shuffle_buffer = buffer;
    return o;
}

/* From one run what each other one decodes, within a share; they differ by as much. */
static void expect_all(stk_dataset *dataset, stk_loader_options *o, const uint64_t *budgets,
                       size_t n, double differ, double share)
{
    stk_figures f[8];
    double least = 1e300, most = 0;

    for (size_t i = 0; i < n; i++) {
        o->memory_budget = budgets[i];
        f[i] = run(dataset, o);
        const double is = (double)f[i].bytes_decoded / (double)f[i].samples;
        least = STK_MIN(least, is);
        most = STK_MAX(most, is);
    }
    assert_true(least < (1 - differ) * most);
    for (size_t from = 0; from < n; from += n - 2)
        for (size_t to = 0; to < n; to++) {
            const double is = (double)f[to].bytes_decoded / (double)f[to].samples,
                         wanted = expected(&f[from], budgets[to]);
            print_message("%.1f MB told of %.1f MB: %.0f bytes, %.0f are decoded\n",
                          (double)budgets[from] / 1e6, (double)budgets[to] / 1e6, wanted, is);
            assert_true(fabs(wanted - is) < share * is + 0.03 * most);
        }
}

static void test_windows(void **state)
{
    static const made array = {
        .dtype = STK_FLOAT32, .shape = {128, 128, 128}, .chunk = {8, 64, 64}};
    static const uint64_t budgets[] = {2900000, 3300000, 4000000, 6000000},
                          large[] = {2900000, 6000000, 9000000};

    (void)state;
    make_array(ctx, "mem://a", &array);
    stk_dataset *dataset = open_windows(ctx, "array:mem://a?window=2x16x16");
    /* Where the machine is busy rows may seem dear, so that one thread does all. */
    stk_loader_options o = options_of(16, 2, 6);
    expect_all(dataset, &o, budgets, STK_COUNT(budgets), 0.3, 0.5);
    /* In the caller's thread nothing is planned ahead of a step. */
    for (o.num_workers = 0; o.streams <= 4; o.streams += 2, o.shuffle_buffer = 3)
        expect_all(dataset, &o, budgets, STK_COUNT(budgets), 0.3, 0.25);
    /* Of all samples in any order what is looked over finds what lives. */
    o = options_of(16, 1, 1);
    o.shuffle = STK_SHUFFLE_FULL;
    o.cache = STK_CACHE_NONE;
    expect_all(dataset, &o, large, STK_COUNT(large), 0.1, 0.4); /* parts of chunks */
    stk_dataset_close(&dataset);
}

/* ---- Tables ---- */

#define ROWS 60000

/* Rows of numbers: two columns of small ones, two of large ones, as Parquet with pages of 2 KiB. */
static stk_dataset *open_table(const char *folder)
{
    char csv[300], target[400], spec[400];
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_conversion *conversion;
    stk_convert_options options;
    stk_dataset *dataset;

    snprintf(csv, sizeof csv, "%s/x.csv", folder);
    FILE *file = fopen(csv, "w");
    assert_non_null(file);
    fprintf(file, "a,b,c,d\n");
    for (uint32_t i = 0; i < ROWS; i++)
        fprintf(file, "%u,%u.25,%u,%u\n", i * 2654435761u, i * 40503u, i % 7, i % 100);
    assert_int_equal(fclose(file), 0);
    snprintf(target, sizeof target, "parquet:%s/x.parquet?row_group_rows=2000&page_size=2048",
             folder);
    stk_convert_options_init(&options);
    snprintf(spec, sizeof spec, "csv:%s?types=c:int16,d:uint8", csv);
    assert_ok(stk_conversion_create(ctx, spec, target, &conversion, &err), &err);
    assert_ok(stk_conversion_run(conversion, &options, NULL, &report, &err), &err);
    stk_conversion_destroy(&conversion);
    snprintf(spec, sizeof spec, "parquet:%s/x.parquet", folder);
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    return dataset;
}

typedef struct adder {
    stk_locator seam;
    uint64_t needs, read, decoded, once, last[8]; /* last: offsets of the sample before */
    uint64_t now[8];
    size_t n, before;
} adder;

static stk_status add(stk_locator *seam, size_t i, const stk_need *need)
{
    adder *a = (adder *)seam;
    bool known = false;

    (void)i;
    assert_true(a->n < STK_COUNT(a->now));
    for (size_t k = 0; k < a->before; k++)
        known |= a->last[k] == need->offset;
    a->now[a->n++] = need->offset;
    a->needs++;
    a->read += need->length;
    a->decoded += need->decoded;
    a->once += known ? 0 : need->decoded;
    return STK_OK;
}

/* In order each range is met in one run of rows. */
static void test_kinds(void **state)
{
    char folder[256];
    adder a = {.seam = stk__locator_of_needs(add)};
    double needs = 0, read = 0, decoded = 0, once = 0;

    (void)state;
    stk_dataset *dataset = open_table(test_folder(folder));
    for (uint64_t row = 0; row < ROWS; row++) {
        memcpy(a.last, a.now, sizeof a.now);
        a.before = a.n;
        a.n = 0;
        assert_ok(dataset->ops->locate(dataset, &row, 1, &a.seam, &err), &err);
    }
    for (size_t i = 0; i < STK_CLAIM_KINDS && dataset->kinds[i].rows; i++) {
        const stk_claim_kind *k = &dataset->kinds[i];
        assert_true(i == 0 || k->rows <= k[-1].rows);
        needs += (double)k->needs;
        read += (double)k->read;
        decoded += (double)k->decoded;
        once += (double)k->decoded / (double)k->rows;
    }
    assert_true(dataset->kinds[1].rows > 0); /* columns differ */
    assert_int_equal(needs, a.needs / ROWS);
    assert_true(fabs(read * ROWS / (double)a.read - 1) < 0.01);
    assert_true(fabs(decoded * ROWS / (double)a.decoded - 1) < 0.01);
    assert_true(fabs(once * ROWS / (double)a.once - 1) < 0.02);
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
}

/* As long as rows are read one by one. */
static void test_pages(void **state)
{
    static const uint64_t budgets[] = {2200000, 2500000, 2800000};
    char folder[256];

    (void)state;
    stk_dataset *dataset = open_table(test_folder(folder));
    stk_loader_options o = options_of(32, 4, 6);
    expect_all(dataset, &o, budgets, STK_COUNT(budgets), 0.3, 0.35);
    /* In large batches rows of one page meet, and come together. */
    o.batch_size = 320;
    o.memory_budget = 3000000;
    stk_figures f = run(dataset, &o);
    const double is = (double)f.bytes_decoded / (double)f.samples,
                 wanted = expected(&f, o.memory_budget);
    print_message("together: %.0f bytes, %.0f are decoded\n", wanted, is);
    assert_true(wanted > is / 1.4 && wanted < 1.4 * is);
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
}

/* Rows of a step that need the same page are prepared one behind the other: it is decoded once for
 * them, however little the pool holds. */
static void test_rows_of_a_step(void **state)
{
    const stk__shared_kind kind = {.rows = 64, .needs = 1, .read = 65536, .decoded = 65536};
    stk__mixing mixing = {.kinds = &kind,
                          .num_kinds = 1,
                          .streams = 1,
                          .rows = 512,
                          .pool = 4 * 65728,
                          .batch = 128,
                          .steps = 2,
                          .horizon = 2};
    double apart, together, stay;

    (void)state;
    assert_ok(stk__found_simulate(ctx, &mixing, &apart, &stay, &err), &err);
    mixing.grouped = true;
    assert_ok(stk__found_simulate(ctx, &mixing, &together, &stay, &err), &err);
    /* Eight pages, each met in each of four steps: at least 8 x 4 of 512 rows find none. */
    assert_true(together > 0.9 && apart < 0.7);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_windows), TEST(test_kinds), TEST(test_pages),
                                       TEST(test_rows_of_a_step)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
