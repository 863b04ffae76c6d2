/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever names a chunk shape for windows of an array names the same one: what a dataset says of
 * itself, the figures of a run, and the question that the command and converters ask.
 */
#include "measure/measure.h"
#include "unit/dataset/windows.h"

#define TEXT 400

static double all_alike(int64_t place)
{
    return (double)(place / 4096);
}

static void keep_advice(void *user, const char *name, const char *value)
{
    if (strcmp(name, "advised chunks") == 0)
        snprintf(user, TEXT, "%s", value);
}

/* Chunks that hold far more than a window are worth another shape; those that suit it are not, nor
 * are arrays that are read in part. */
static void test_advised_chunks(void **state)
{
    static const struct {
        const char *url, *says;
        int64_t chunk[3];
        bool encoded;
    } cases[] = {
        /* 32 windows of 64 bytes begin in a chunk of 2048; one that is the window holds it alone.
         * The bytes are stored ones. */
        {"mem://coarse", "1x4x4 for data: ", {32, 4, 4}, true},
        {"mem://fine", "", {1, 4, 4}, true},
        {"mem://plain", "", {32, 4, 4}, false},
    };
    stk_context *ctx = test_context();
    char spec[100], text[TEXT];
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        made a = {
            .dtype = STK_FLOAT32, .shape = {64, 4, 4}, .codec = cases[i].encoded ? NULL : "none"};
        memcpy(a.chunk, cases[i].chunk, sizeof a.chunk);
        make_array(ctx, cases[i].url, &a);
        snprintf(spec, sizeof spec, "array:%s?window=1x4x4", cases[i].url);
        stk_dataset *d = open_windows(ctx, spec);
        text[0] = 0;
        assert_ok(stk_dataset_describe(d, keep_advice, text, &err), &err);
        assert_memory_equal(text, cases[i].says, strlen(cases[i].says) + !cases[i].says[0]);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

/* The shape for 2x2x2 windows without gaps, by a question that is put together here. */
static void expect(stk_context *ctx, const char *url, const char *store, char shape[64])
{
    stk_array_stored stored = {.struct_size = sizeof stored};
    stk_chunks_answer answer = {.struct_size = sizeof answer};
    stk_chunks_question q;
    stk_array *a = NULL;
    stk_error err;
    size_t count;

    assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
    assert_ok(stk_array_stored_count(a, &stored, &err), &err);
    stk_chunks_question_init(&q);
    q.rank = 3;
    q.itemsize = 4;
    q.ratio = (double)stored.values / (double)stored.bytes;
    for (int i = 0; i < 3; i++) {
        q.extent[i] = stk_array_get_info(a)->shape[i];
        q.window[i] = q.stride[i] = 2;
    }
    const stk_chunks_store *stores = stk_chunks_stores(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(stores[i].name, store) == 0)
            q.store = stores[i];
    assert_ok(stk_chunks_advise(&q, &answer, &err), &err);
    const int64_t *best = answer.ranked[0].chunk;
    snprintf(shape, 64, "%lldx%lldx%lld", (long long)best[0], (long long)best[1],
             (long long)best[2]);
    stk_array_close(&a);
}

/* What converters and `stoker chunks` ask; `store` NULL: the one the array lies in. */
static void ask(stk_context *ctx, const char *url, const char *store, char shape[64])
{
    const int64_t sides[] = {2, 2, 2};
    const stk_chunks_store *preset = NULL;
    stk_chunks_answer answer = {.struct_size = sizeof answer};
    stk_chunks_question q;
    stk_array *a = NULL;
    stk_error err;

    stk_chunks_question_init(&q);
    assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
    if (store)
        assert_ok(stk_chunks_store_find(store, &preset, &err), &err);
    assert_ok(stk_chunks_question_of(a, sides, sides, preset, &q, &err), &err);
    assert_ok(stk_chunks_advise(&q, &answer, &err), &err);
    const int64_t *best = answer.ranked[0].chunk;
    snprintf(shape, 64, "%lldx%lldx%lld", (long long)best[0], (long long)best[1],
             (long long)best[2]);
    stk_array_close(&a);
}

static void test_one_answer(void **state)
{
    static const struct {
        made array;
        const char *prefix, *store;
    } cases[] = {
        {{.shape = {32, 64, 64}, .chunk = {32, 64, 64}, .value = all_alike}, "", "ssd"},
        {{.shape = {32, 64, 64}, .chunk = {32, 64, 64}}, "", "ssd"},
        {{.shape = {7, 30, 40}, .chunk = {7, 30, 40}, .codec = "gzip"}, "", "ssd"},
        {{.shape = {64, 32, 32}, .chunk = {1, 1, 32}}, "slow+", "s3"},
        {{.shape = {16, 64, 64}, .chunk = {16, 64, 64}, .shard = {16, 64, 64}}, "", "ssd"},
    };
    stk_context *ctx = test_context();
    char spec[200], url[100], info[TEXT], wanted[64], asked[64];
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        made a = cases[i].array;
        a.dtype = STK_FLOAT32;
        snprintf(url, sizeof url, "mem://one%zu", i);
        make_array(ctx, url, &a);
        snprintf(url, sizeof url, "%smem://one%zu%s", cases[i].prefix, i,
                 cases[i].prefix[0] ? "?latency=20ms" : "");
        expect(ctx, url, cases[i].store, wanted);
        ask(ctx, url, NULL, asked);
        assert_string_equal(asked, wanted);

        snprintf(spec, sizeof spec, "array:%s%cwindow=2x2x2", url, cases[i].prefix[0] ? '&' : '?');
        stk_dataset *d = open_windows(ctx, spec);
        info[0] = 0;
        assert_ok(stk_dataset_describe(d, keep_advice, info, &err), &err);
        assert_memory_equal(info, wanted, strlen(wanted));
        assert_memory_equal(info + strlen(wanted), " for data: ", 11);
        assert_non_null(strstr(info, cases[i].store));
        /* A run that decodes ten times what its samples hold. */
        stk_figures f = {.struct_size = sizeof f, .bytes_taken = 100, .bytes_decoded = 1000};
        stk__figures_advise_chunks(d, &f);
        assert_string_equal(f.chunks, wanted);
        stk_dataset_close(&d);

        expect(ctx, url, "disk", wanted);
        ask(ctx, url, "disk", asked);
        assert_string_equal(asked, wanted);
    }
    stk_context_destroy(&ctx);
}

static void test_refused(void **state)
{
    const int64_t good[] = {2, 2, 2}, large[] = {2, 2, 200};
    stk_array_stored stored = {.struct_size = sizeof stored};
    const stk_chunks_store *preset;
    stk_context *ctx = test_context();
    made made_of = {.dtype = STK_FLOAT32, .shape = {8, 8, 8}, .chunk = {8, 8, 8}};
    stk_chunks_question q;
    stk_array *a = NULL;
    stk_error err;

    (void)state;
    make_array(ctx, "mem://w", &made_of);
    assert_ok(stk_array_open(ctx, "mem://w", NULL, &a, &err), &err);
    stk_chunks_question_init(&q);
    assert_fails(stk_chunks_question_of(NULL, good, NULL, NULL, &q, &err), STK_EINVAL, &err,
                 "NULL");
    assert_fails(stk_chunks_question_of(a, large, NULL, NULL, &q, &err), STK_EINVAL, &err,
                 "200 of 8 elements");
    assert_fails(stk_chunks_store_find("nsf", &preset, &err), STK_EINVAL, &err,
                 "there are ssd, disk, nfs, s3; did you mean 'nfs'?");
    assert_null(preset);
    assert_ok(stk_chunks_question_of(a, good, NULL, NULL, &q, &err), &err);
    assert_int_equal(q.stride[2], 1);
    assert_int_equal(q.extent[1], 8);
    assert_string_equal(q.store.name, "ssd");
    assert_ok(stk_array_stored_count(a, &stored, &err), &err);
    assert_true(q.ratio == (double)stored.values / (double)stored.bytes && q.ratio != 1);
    stk_array_close(&a);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_advised_chunks),
        cmocka_unit_test(test_one_answer),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
