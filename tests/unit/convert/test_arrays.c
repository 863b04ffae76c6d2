/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in other chunks, codecs and types: each element is where and what it was. */
#include "arrays.h"

#include <math.h>

static int64_t between(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(test_random(state) % (uint64_t)(high - low + 1));
}

static void shape_text(char *text, size_t size, uint32_t rank, const int64_t *sides)
{
    size_t at = 0;

    for (uint32_t d = 0; d < rank; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", d ? "x" : "", (long long)sides[d]);
}

/* Drawn shapes, chunks, shards, codecs, versions and numbers of threads. */
static void test_drawn(void **state)
{
    stk_context *ctx = test_context();
    uint64_t seed = 5;
    stk_error err;

    for (int i = 0; i < 60; i++) {
        int64_t shape[3], chunk[3], to_chunk[3], shard[3];
        char from[64], to[64], chunks[64], shards[64];
        stk_array_writer_options o;
        arrays_run run;
        stk_array_writer_options_init(&o);
        arrays_run_init(&run);
        o.dtype = i % 2 ? STK_INT32 : STK_FLOAT32;
        o.rank = (uint32_t)between(&seed, 1, 3);
        o.shape = shape;
        o.chunk_shape = chunk;
        for (uint32_t d = 0; d < o.rank; d++) {
            shape[d] = between(&seed, 1, 25);
            chunk[d] = between(&seed, 1, shape[d]);
            to_chunk[d] = between(&seed, 1, shape[d]);
            shard[d] = to_chunk[d] * between(&seed, 1, 3);
        }
        o.codec = i % 3 ? "zstd" : "none";
        snprintf(from, sizeof from, "mem://from%d.zarr", i);
        snprintf(to, sizeof to, "mem://to%d.zarr", i);
        arrays_make(ctx, from, &o, (uint32_t)i);
        shape_text(chunks, sizeof chunks, o.rank, to_chunk);
        shape_text(shards, sizeof shards, o.rank, shard);
        run.own.chunks = chunks;
        run.own.codec = (int32_t)between(&seed, 0, 5);
        run.own.shuffle = run.own.codec >= 4 ? (int32_t)between(&seed, 0, 3)
                          : run.own.codec    ? (int32_t)between(&seed, 0, 2)
                                             : 0;
        run.own.zarr_format = (int32_t)between(&seed, 0, 2);
        if (run.own.zarr_format != 1 && i % 2)
            run.own.shards = shards;
        run.own.checksum = run.own.zarr_format != 1 && i % 5 == 0;
        run.options.num_workers = between(&seed, 0, 3);
        assert_ok(arrays_convert(&run, ctx, from, to, &err), &err);
        assert_int_equal(run.report.arrays, 1);
        assert_int_equal(run.report.verified, run.report.total);
        arrays_check(ctx, to, (uint32_t)i);
    }
    stk_context_destroy(&ctx);
}

/* A transposition of an array that is larger than the memory: through the temporary file, each
 * chunk decoded once, and no more held than is allowed. */
static void transpose(int64_t workers, const char *astype)
{
    const int64_t shape[2] = {1024, 4096}, chunk[2] = {2, 4096};
    stk_context *ctx = test_context();
    char folder[256], from[300], to[300];
    stk_array_writer_options o;
    arrays_run run;
    stk_error err;

    test_folder(folder);
    snprintf(from, sizeof from, "%s/from.zarr", folder);
    snprintf(to, sizeof to, "%s/to.zarr", folder);
    stk_array_writer_options_init(&o);
    o.dtype = STK_FLOAT32;
    o.rank = 2;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.codec = "zstd";
    o.level = 1;
    arrays_make(ctx, from, &o, 7);
    arrays_run_init(&run);
    run.options.num_workers = workers;
    run.own.chunks = "1024x16";
    run.own.level = 1;
    run.own.astype = astype;
    assert_ok(arrays_convert(&run, NULL, from, to, &err), &err);
    assert_int_equal(run.report.temp_bytes, 1024 * 4096 * 4);
    assert_int_equal(run.report.decoded, 1024 * 4096 * 4);
    assert_int_equal(run.report.total, 256);
    assert_true(run.memory.peak <= (int64_t)run.options.memory_budget);
    assert_true(run.memory.peak > (int64_t)run.options.memory_budget / 4);
    assert_int_equal(run.memory.held, 0);
    arrays_check(ctx, to, 7);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
}

static void test_transposed(void **state)
{
    transpose(0, NULL);
    transpose(2, NULL);
    transpose(2, "int32");
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void put(stk_context *ctx, const char *url, stk_dtype dtype, int64_t n, const void *values,
                const char *attributes)
{
    const int64_t start = 0;
    stk_array_writer_options o;
    stk_array_writer *writer;
    stk_error err;

    stk_array_writer_options_init(&o);
    o.dtype = dtype;
    o.rank = 1;
    o.shape = o.chunk_shape = &n;
    o.attributes = attributes;
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, &start, &n, values, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
}

static void get(stk_context *ctx, const char *url, stk_dtype dtype, void *out, uint64_t bytes)
{
    stk_array *array;
    stk_error err;

    assert_ok(stk_array_open(ctx, url, NULL, &array, &err), &err);
    assert_int_equal(stk_array_get_info(array)->dtype, dtype);
    assert_ok(stk_array_read(array, NULL, out, bytes, NULL, -1, &err), &err);
    stk_array_close(&array);
}

static void test_astype(void **state)
{
    const double wide[6] = {1.1, -2.5, 1e300, 3e-320, NAN, 16777217};
    const int32_t whole[3] = {127, -128, 5}, beyond[1] = {128};
    stk_context *ctx = test_context();
    float narrow[6];
    int8_t bytes[3];
    arrays_run run;
    stk_error err;

    put(ctx, "mem://w.zarr", STK_FLOAT64, 6, wide, NULL);
    arrays_run_init(&run);
    run.own.astype = "float32";
    assert_ok(arrays_convert(&run, ctx, "mem://w.zarr", "mem://n.zarr", &err), &err);
    get(ctx, "mem://n.zarr", STK_FLOAT32, narrow, sizeof narrow);
    for (int i = 0; i < 6; i++)
        assert_true(narrow[i] == (float)wide[i] || (isnan(narrow[i]) && isnan(wide[i])));
    assert_int_equal(run.report.overflowed, 1);
    assert_true(run.report.worst_change == 1);
    put(ctx, "mem://i.zarr", STK_INT32, 3, whole, NULL);
    put(ctx, "mem://b.zarr", STK_INT32, 1, beyond, NULL);
    run.own.astype = "int8";
    assert_ok(arrays_convert(&run, ctx, "mem://i.zarr", "mem://j.zarr", &err), &err);
    get(ctx, "mem://j.zarr", STK_INT8, bytes, sizeof bytes);
    assert_true(bytes[0] == 127 && bytes[1] == -128 && bytes[2] == 5);
    assert_fails(arrays_convert(&run, ctx, "mem://b.zarr", "mem://k.zarr", &err), STK_EINVAL, &err,
                 "the value 128 does not fit int8");
    run.own.astype = "complex64";
    assert_fails(arrays_convert(&run, ctx, "mem://i.zarr", "mem://l.zarr", &err), STK_EINVAL, &err,
                 "astype");
    stk_context_destroy(&ctx);
}

/* Rounded to so many bits of the fraction, by arithmetic instead of bits. */
static double rounded(double x, int bits)
{
    int exponent;

    const double fraction = frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(fraction, bits + 1)), exponent - bits - 1);
}

static void test_bitround(void **state)
{
    stk_context *ctx = test_context();
    uint64_t seed = 3;
    float values[500], out[500];
    arrays_run run;
    stk_error err;

    for (int i = 0; i < 500; i++)
        values[i] = (float)(between(&seed, -1000000, 1000000)) / 1024;
    values[0] = NAN;
    values[1] = INFINITY;
    values[2] = 1e20f;   /* the missing value */
    values[3] = 1.0625f; /* halfway, to even */
    values[4] = 1.1875f;
    put(ctx, "mem://g.zarr", STK_FLOAT32, 500, values, "{\"_FillValue\": 1e20}");
    for (int64_t bits = 3; bits <= 22; bits += 19) {
        char to[64];
        snprintf(to, sizeof to, "mem://r%d.zarr", (int)bits);
        arrays_run_init(&run);
        run.own.bitround = bits;
        assert_ok(arrays_convert(&run, ctx, "mem://g.zarr", to, &err), &err);
        get(ctx, to, STK_FLOAT32, out, sizeof out);
        assert_true(isnan(out[0]) && isinf(out[1]) && out[2] == values[2]);
        for (int i = 3; i < 500; i++)
            assert_true(out[i] == (float)rounded(values[i], (int)bits));
    }
    stk_context_destroy(&ctx);
}

/* scale_factor, add_offset and _FillValue, applied, or kept as they are. */
static void test_packed(void **state)
{
    static const char attributes[] =
        "{\"scale_factor\": 0.5, \"add_offset\": 100.0, \"_FillValue\": -32768, \"units\": \"K\"}";
    const int16_t packed[4] = {-32768, 0, 3, 32767};
    stk_context *ctx = test_context();
    float out[4];
    int16_t same[4];
    double number;
    stk_array *array;
    arrays_run run;
    stk_error err;

    put(ctx, "mem://p.zarr", STK_INT16, 4, packed, attributes);
    arrays_run_init(&run);
    run.own.decode_cf = true;
    assert_ok(arrays_convert(&run, ctx, "mem://p.zarr", "mem://d.zarr", &err), &err);
    get(ctx, "mem://d.zarr", STK_FLOAT32, out, sizeof out);
    assert_true(isnan(out[0]) && out[1] == 100 && out[2] == 101.5f && out[3] == 16483.5f);
    assert_ok(stk_array_open(ctx, "mem://d.zarr", NULL, &array, &err), &err);
    assert_false(stk_array_number(array, "scale_factor", &number));
    assert_string_equal(stk_array_text(array, "units"), "K");
    assert_string_equal(stk_array_text(array, "_FillValue"), "AAAAAAAA+H8="); /* NaN, as xarray */
    stk_array_close(&array);
    run.own.decode_cf = false;
    assert_ok(arrays_convert(&run, ctx, "mem://p.zarr", "mem://k.zarr", &err), &err);
    get(ctx, "mem://k.zarr", STK_INT16, same, sizeof same);
    assert_memory_equal(same, packed, sizeof packed);
    assert_ok(stk_array_open(ctx, "mem://k.zarr", NULL, &array, &err), &err);
    assert_true(stk_array_number(array, "_FillValue", &number) && number == -32768);
    assert_true(stk_array_number(array, "scale_factor", &number) && number == 0.5);
    stk_array_close(&array);
    stk_context_destroy(&ctx);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static void add(stk_context *ctx, const char *url, uint32_t rank, const int64_t *shape,
                const int64_t *chunk, const char *const *names, uint32_t seed)
{
    stk_array_writer_options o;

    arrays_options(&o, rank, shape, chunk, names);
    o.attributes = "{\"about\": \"me\"}";
    arrays_make(ctx, url, &o, seed);
}

static void make_group(stk_context *ctx, const char *name)
{
    static const char *const names[] = {"time", "lat", "lon"};
    const int64_t shape[3] = {12, 5, 7}, chunk[3] = {1, 5, 7};
    char url[200];
    stk_error err;

    snprintf(url, sizeof url, "%s/t2m", name);
    add(ctx, url, 3, shape, chunk, names, 1);
    snprintf(url, sizeof url, "%s/inner/wind", name);
    add(ctx, url, 2, shape, chunk, names, 2);
    for (int d = 0; d < 3; d++) {
        snprintf(url, sizeof url, "%s/%s", name, names[d]);
        add(ctx, url, 1, &shape[d], &shape[d], &names[d], 3);
    }
    assert_ok(stk_group_consolidate(ctx, name, "{\"title\": \"all\"}", &err), &err);
}

static bool has(const stk_group *group, const char *path)
{
    const stk_node *node;

    for (size_t i = 0; (node = stk_group_node(group, i)); i++)
        if (strcmp(node->path, path) == 0)
            return true;
    return false;
}

static void check_chunk(stk_context *ctx, const char *url, uint32_t rank, const int64_t *chunk)
{
    stk_array *array;
    stk_error err;

    assert_ok(stk_array_open(ctx, url, NULL, &array, &err), &err);
    assert_int_equal(stk_array_get_info(array)->rank, rank);
    for (uint32_t d = 0; d < rank; d++)
        assert_int_equal(stk_array_get_info(array)->chunk_shape[d], chunk[d]);
    assert_string_equal(stk_array_text(array, "about"), "me");
    assert_string_equal(stk_array_get_info(array)->dimension_names[0], "time");
    stk_array_close(&array);
}

static void test_group(void **state)
{
    stk_context *ctx = test_context();
    stk_group *group;
    arrays_run run;
    stk_error err;

    make_group(ctx, "mem://g.zarr");
    for (int version = 1; version <= 2; version++) {
        const char *to = version == 1 ? "mem://v2.zarr" : "mem://v3.zarr";
        char url[100];
        arrays_run_init(&run);
        run.own.zarr_format = version;
        run.own.chunks = "time:12,lat:2,lon:-1";
        assert_ok(arrays_convert(&run, ctx, "mem://g.zarr", to, &err), &err);
        assert_int_equal(run.report.arrays, 5);
        assert_ok(stk_group_open(ctx, to, &group, &err), &err);
        assert_true(stk_group_is_consolidated(group));
        assert_non_null(strstr(stk_group_attributes(group), "\"title\""));
        assert_true(has(group, "inner") && has(group, "inner/wind") && has(group, "lon"));
        stk_group_close(&group);
        snprintf(url, sizeof url, "%s/t2m", to);
        check_chunk(ctx, url, 3, (const int64_t[]){12, 2, 7});
        arrays_check(ctx, url, 1);
        snprintf(url, sizeof url, "%s/inner/wind", to);
        arrays_check(ctx, url, 2);
    }
    /* One variable, with the coordinates of its dimensions. */
    arrays_run_init(&run);
    run.own.variables = "inner/wind";
    run.own.chunks = "3x5";
    assert_ok(arrays_convert(&run, ctx, "mem://g.zarr", "mem://one.zarr", &err), &err);
    assert_ok(stk_group_open(ctx, "mem://one.zarr", &group, &err), &err);
    assert_true(has(group, "inner/wind") && has(group, "time") && has(group, "lat"));
    assert_false(has(group, "t2m") || has(group, "lon"));
    stk_group_close(&group);
    check_chunk(ctx, "mem://one.zarr/inner/wind", 2, (const int64_t[]){3, 5});
    run.own.variables = "wind";
    assert_fails(arrays_convert(&run, ctx, "mem://g.zarr", "mem://no.zarr", &err), STK_EINVAL, &err,
                 "has no array 'wind'");
    stk_context_destroy(&ctx);
}

/* ---- Runs that are stopped, shared or refused ------------------------------------------------ */

typedef struct places {
    char folder[256], from[300], to[300], whole[300];
} places;

/* An array of 2 objects whose elements vary in length. */
static void add_texts(stk_context *ctx, const char *url)
{
    const int64_t shape = 40, chunk = 20, start = 0;
    static char letters[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    stk_array_string elements[40];
    stk_array_writer_options o;
    stk_array_writer *writer;
    stk_error err;

    stk_array_writer_options_init(&o);
    o.dtype = STK_DTYPE_NONE;
    o.type_name = "string";
    o.rank = 1;
    o.shape = &shape;
    o.chunk_shape = &chunk;
    for (int i = 0; i < 40; i++)
        elements[i] = (stk_array_string){letters + i % 7, (uint64_t)i};
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, &start, &shape, elements, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
}

/* A source of three arrays, and what an undisturbed conversion makes of it. */
static void make_places(places *p, stk_context *ctx, arrays_run *run)
{
    const int64_t shape[2] = {40, 64}, chunk[2] = {1, 64};
    char url[400];
    stk_error err;

    test_folder(p->folder);
    snprintf(p->from, sizeof p->from, "%s/from.zarr", p->folder);
    snprintf(p->to, sizeof p->to, "%s/to.zarr", p->folder);
    snprintf(p->whole, sizeof p->whole, "%s/whole.zarr", p->folder);
    snprintf(url, sizeof url, "%s/a", p->from);
    add(ctx, url, 2, shape, chunk, NULL, 1);
    snprintf(url, sizeof url, "%s/b", p->from);
    add(ctx, url, 2, shape, chunk, NULL, 2);
    snprintf(url, sizeof url, "%s/c", p->from);
    add_texts(ctx, url);
    assert_ok(stk_group_consolidate(ctx, p->from, NULL, &err), &err);
    arrays_run_init(run);
    run->own.chunks = "20x8";
    assert_ok(arrays_convert(run, ctx, p->from, p->whole, &err), &err);
}

/* Killed at drawn allocations, and run again until it is through: the same files. */
static void test_killed(void **state)
{
    stk_context *ctx = test_context();
    const char *kills = getenv("STOKER_TEST_KILLS");
    uint64_t seed = 11;
    arrays_run run;
    places p;
    stk_error err;
    int killed = 0;

    make_places(&p, ctx, &run);
    const int wanted = kills ? (int)strtol(kills, NULL, 10) : 9;
    for (int round = 0; round < 3 || killed < wanted; round++) {
        bool through = false;
        for (int attempt = 0; !through; attempt++) {
            /* The first are too early for any run to be through. */
            const int64_t moment = between(&seed, 1, attempt < 3 ? 250 : 2000);
            int status;
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                run.options.checkpoint = 3;
                run.options.num_workers = round % 3;
                run.memory.kill_in = moment;
                _exit(arrays_convert(&run, NULL, p.from, p.to, &err) == STK_OK ? 0 : 1);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            through = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            killed += !through;
            assert_true(through || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        }
        arrays_equal(p.whole, p.to);
        test_folder_remove(p.to);
    }
    assert_true(killed >= wanted);
    stk_context_destroy(&ctx);
    test_folder_remove(p.folder);
}

static void test_parts(void **state)
{
    stk_context *ctx = test_context();
    arrays_run run;
    places p;
    stk_error err;
    uint64_t objects = 0;

    make_places(&p, ctx, &run);
    const uint64_t all = run.report.total;
    for (int part = 3; part >= 1; part--) {
        char text[8];
        snprintf(text, sizeof text, "%d/3", part);
        run.own.part = text;
        assert_ok(arrays_convert(&run, ctx, p.from, p.to, &err), &err);
        objects += run.report.total;
        run.own.part = NULL;
        run.own.join = 3;
        if (part > 1)
            assert_fails(arrays_convert(&run, ctx, p.from, p.to, &err), STK_EINVAL, &err,
                         "part 1 of 3");
        run.own.join = 0;
    }
    assert_int_equal(objects, all);
    run.own.join = 3;
    run.options.dry_run = true;
    assert_ok(arrays_convert(&run, ctx, p.from, p.to, &err), &err);
    assert_int_equal(run.report.total, all);
    run.options.dry_run = false;
    assert_ok(arrays_convert(&run, ctx, p.from, p.to, &err), &err);
    assert_int_equal(run.report.total, all);
    arrays_equal(p.whole, p.to);
    run.own.chunks = "10x8";
    assert_fails(arrays_convert(&run, ctx, p.from, p.to, &err), STK_EMISMATCH, &err, "chunks=20x8");
    run.own.part = "4/3";
    run.own.join = 0;
    assert_fails(arrays_convert(&run, ctx, p.from, p.to, &err), STK_EINVAL, &err, "is no part");
    stk_context_destroy(&ctx);
    test_folder_remove(p.folder);
}

static bool there(const char *folder, const char *name)
{
    char path[600];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &st) == 0;
}

static void test_overwritten(void **state)
{
    stk_context *ctx = test_context();
    arrays_run run;
    places p;
    stk_error err;
    char url[400];

    make_places(&p, ctx, &run);
    /* The same again: nothing is done. Other chunks: refused, and with overwrite nothing is left.
     */
    assert_ok(arrays_convert(&run, ctx, p.from, p.whole, &err), &err);
    assert_int_equal(run.report.resumed, run.report.total);
    run.own.chunks = "40x64";
    assert_fails(arrays_convert(&run, ctx, p.from, p.whole, &err), STK_EMISMATCH, &err, "20x8");
    test_write(p.whole, "a/notes.txt", "mine", 4);
    run.options.overwrite = true;
    assert_ok(arrays_convert(&run, ctx, p.from, p.whole, &err), &err);
    assert_int_equal(run.report.resumed, 0);
    assert_true(there(p.whole, "a/c/0/0") && there(p.whole, "a/notes.txt"));
    assert_false(there(p.whole, "a/c/0/1") || there(p.whole, "a/c/1/0"));
    snprintf(url, sizeof url, "%s/b", p.whole);
    arrays_check(ctx, url, 2);
    /* Something else, no conversion's. */
    run.options.overwrite = false;
    assert_int_equal(mkdir(p.to, 0777), 0);
    test_write(p.to, "zarr.json", "{}", 2);
    assert_fails(arrays_convert(&run, ctx, p.from, p.to, &err), STK_EINVAL, &err, "not empty");
    snprintf(url, sizeof url, "%s/inner.zarr", p.from);
    assert_fails(arrays_convert(&run, ctx, p.from, url, &err), STK_EINVAL, &err, "lies in");
    stk_context_destroy(&ctx);
    test_folder_remove(p.folder);
}

static void test_dry_run(void **state)
{
    stk_context *ctx = test_context();
    arrays_run run;
    places p;
    stk_error err;

    make_places(&p, ctx, &run);
    run.options.dry_run = true;
    run.own.chunks = NULL;
    run.own.for_window = "4x8";
    assert_ok(arrays_convert(&run, ctx, p.from, p.to, &err), &err);
    assert_false(there(p.to, "."));
    assert_true(run.report.planned && run.report.total > 0 && run.report.memory > 0);
    assert_non_null(strstr(run.report.text, "a: int32, 10 KiB: chunks (1, 64) -> ("));
    assert_non_null(strstr(run.report.text, "a window reads now: 4.0 requests"));
    stk_context_destroy(&ctx);
    test_folder_remove(p.folder);
}

static void test_refused(void **state)
{
    static const struct {
        const char *chunks, *shards, *window, *store, *part;
    } cases[] = {
        {"4y4", NULL, NULL, NULL, "is no shape"},
        {"0x4", NULL, NULL, NULL, "is no shape"},
        {"4x4x4", NULL, NULL, NULL, "none of the arrays"},
        {"depth:4", NULL, NULL, NULL, "none of the arrays"},
        {"20x8", "30x8", NULL, NULL, "no multiple"},
        {"20x8", NULL, "4x4", NULL, "leave one of them out"},
        {NULL, NULL, NULL, "s3", "without for_window"},
        {NULL, NULL, "4x4", "s4", "there is no store"},
    };
    stk_context *ctx = test_context();
    arrays_run run;
    places p;
    stk_error err;

    make_places(&p, ctx, &run);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arrays_run_init(&run);
        run.own.chunks = cases[i].chunks;
        run.own.shards = cases[i].shards;
        run.own.for_window = cases[i].window;
        run.own.for_store = cases[i].store;
        assert_fails(arrays_convert(&run, ctx, p.from, p.to, &err), STK_EINVAL, &err,
                     cases[i].part);
    }
    arrays_run_init(&run);
    run.options.memory_budget = 1 << 20;
    assert_fails(arrays_convert(&run, ctx, p.from, p.to, &err), STK_EBUDGET, &err, "memory_budget");
    arrays_run_init(&run);
    run.own.zarr_format = 1;
    run.own.shards = "40x64";
    assert_fails(arrays_convert(&run, ctx, p.from, p.to, &err), STK_EINVAL, &err, "no shards");
    assert_false(there(p.to, "zarr.json"));
    stk_context_destroy(&ctx);
    test_folder_remove(p.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawn),       cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_astype),      cmocka_unit_test(test_bitround),
        cmocka_unit_test(test_packed),      cmocka_unit_test(test_group),
        cmocka_unit_test(test_killed),      cmocka_unit_test(test_parts),
        cmocka_unit_test(test_overwritten), cmocka_unit_test(test_dry_run),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
