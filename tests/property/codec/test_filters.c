/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All pairs of filters, with all types that metadata may give them, over all elements; and many
 * triples. A chain that compiles keeps its sizes: what it encodes is as long as it said, decodes to
 * the chunk's size, and no byte beyond any block of memory is written, whatever the encoded bytes.
 */
#include "codec/codec.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

enum { GUARD = 64, MOST = 1 << 20, MOST_FILTERS = 224, TRIPLES = 60000 };

/* ---- Memory that knows what was written behind it ---- */

static void *guarded_alloc(void *user, size_t size, size_t align)
{
    char *memory = NULL;

    if (posix_memalign((void **)&memory, align < 16 ? 16 : align, size + GUARD))
        return NULL;
    memset(memory + size, 0x5a, GUARD);
    return memory;
}

static void check_guard(const void *memory, size_t size)
{
    for (size_t i = 0; i < GUARD; i++)
        if (((const char *)memory)[size + i] != 0x5a)
            fail_msg("byte %zu behind a block of %zu was written", i, size);
}

static void guarded_free(void *user, void *memory, size_t size)
{
    check_guard(memory, size);
    free(memory);
}

static stk_context *guarded_context(void)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){guarded_alloc, guarded_free, NULL};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    return ctx;
}

/* ---- The filters ---- */

static const char *const types[] = {"|b1", "|u1", "<i2", ">i4", "<f4", "<f8", ">f2"};

static const struct element {
    stk_dtype dtype;
    uint32_t item, swap;
} elements[] = {{STK_BOOL, 1, 1},    {STK_UINT8, 1, 1},      {STK_INT16, 2, 2},
                {STK_FLOAT32, 4, 4}, {STK_COMPLEX64, 8, 4},  {STK_FLOAT64, 8, 8},
                {STK_INT64, 8, 8},   {STK_DTYPE_NONE, 5, 1}, {STK_DTYPE_NONE, 12, 4}};

/* Number filters with two types; the others as they are. */
static const char *const typed[] = {
    "{\"id\": \"astype\", \"decode_dtype\": \"%s\", \"encode_dtype\": \"%s\"}",
    "{\"id\": \"delta\", \"dtype\": \"%s\", \"astype\": \"%s\"}",
    "{\"id\": \"fixedscaleoffset\", \"dtype\": \"%s\", \"astype\": \"%s\", \"scale\": 3, "
    "\"offset\": 1}",
    "{\"id\": \"quantize\", \"dtype\": \"%s\", \"astype\": \"%s\", \"digits\": 2}"};
static const char *const plain[] = {"{\"id\": \"bitround\", \"keepbits\": 4}",
                                    "{\"id\": \"packbits\"}",
                                    "{\"id\": \"transpose\", \"order\": [1, 0]}",
                                    "{\"id\": \"transpose\", \"order\": \"F\"}",
                                    "{\"id\": \"shuffle\", \"elementsize\": 8}",
                                    "{\"id\": \"crc32\"}",
                                    "{\"id\": \"zstd\", \"level\": 1}",
                                    "{\"id\": \"blosc\"}",
                                    "{\"id\": \"delta\"}"};

static json_t *filters[MOST_FILTERS], *named[MOST_FILTERS]; /* of v2, of v3 */
static size_t num_filters;

static void add_filter(const char *text)
{
    json_error_t error;
    char name[64];
    json_t *filter = json_loads(text, 0, &error);

    assert_true(filter && num_filters < MOST_FILTERS);
    snprintf(name, sizeof name, "%s%s", strstr(text, "transpose") ? "" : "numcodecs.",
             json_string_value(json_object_get(filter, "id")));
    filters[num_filters] = filter;
    named[num_filters++] = json_pack("{s:s, s:O}", "name", name, "configuration", filter);
}

static void add_filters(void)
{
    char text[256];

    for (size_t f = 0; f < STK_COUNT(typed); f++)
        for (size_t a = 0; a < STK_COUNT(types); a++)
            for (size_t b = 0; b < STK_COUNT(types); b++) {
                snprintf(text, sizeof text, typed[f], types[a], types[b]);
                add_filter(text);
            }
    for (size_t f = 0; f < STK_COUNT(plain); f++)
        add_filter(plain[f]);
}

static void drop_filters(void)
{
    for (size_t i = 0; i < num_filters; i++) {
        json_decref(filters[i]);
        json_decref(named[i]);
    }
    num_filters = 0;
}

/* ---- One chain ---- */

static uint64_t seed = 1;
static size_t compiled;

static uint8_t *block(uint64_t size)
{
    uint8_t *memory = guarded_alloc(NULL, size, 16);

    for (uint64_t i = 0; i < size; i++)
        memory[i] = (uint8_t)test_random(&seed);
    return memory;
}

/* Sizes are always right; what a filter that loses precision does to bits and checksums is not. */
static void check_decoded(stk_status status, const char *reason)
{
    if (status != STK_OK && status != STK_ECHECKSUM && !strstr(reason, "damaged"))
        fail_msg("what was encoded has another size: %s", reason);
}

static void use(const stk__chain *chain, stk__codec_state *state)
{
    uint64_t size = stk__chain_size(chain), bound = stk__chain_bound(chain), length = 0;
    uint64_t exact = stk__chain_encoded_size(chain);
    uint8_t *chunk = block(size), *encoded = block(bound), *out = block(size);
    const char *reason = "";

    assert_true(bound <= MOST);
    stk_status status =
        stk__chain_encode(chain, state, chunk, size, encoded, bound, &length, &reason);
    if (status == STK_OK) {
        assert_true(length <= bound);
        if (exact != STK__CHAIN_NO_SIZE)
            assert_int_equal(length, exact);
        status = stk__chain_decode(chain, state, encoded, length, out, size, &reason);
        check_decoded(status, reason);
        for (uint64_t needed = 1; needed < size; needed = 5 * needed + 1) {
            stk_status part =
                stk__chain_decode_prefix(chain, state, encoded, length, out, size, needed, &reason);
            check_decoded(part, reason);
            assert_true(status != STK_OK || part == STK_OK);
        }
    }
    if (exact != STK__CHAIN_NO_SIZE) { /* any bytes of this length are a chunk, but for checksums */
        uint8_t *noise = block(exact);
        (void)stk__chain_decode(chain, state, noise, exact, out, size, &reason);
        (void)stk__chain_decode(chain, state, noise, exact / 2, out, size, &reason);
        guarded_free(NULL, noise, exact);
    }
    guarded_free(NULL, chunk, size);
    guarded_free(NULL, encoded, bound);
    guarded_free(NULL, out, size);
    compiled++;
}

static void try_list(stk_context *ctx, const struct element *e, json_t *list, bool v3)
{
    static const int64_t shape[] = {6, 4};
    stk__codec_state *state = NULL;
    stk__chain *chain = NULL;
    stk__chain_spec spec;
    stk_error err;

    stk__chain_spec_init(&spec);
    spec.key = "a";
    spec.dtype = e->dtype;
    spec.itemsize = e->item;
    spec.swap_size = e->swap;
    spec.rank = 2;
    spec.shape = shape;
    spec.codecs = v3 ? list : NULL;
    spec.filters = v3 ? NULL : list;
    spec.fortran = !v3;
    stk_error_init(&err);
    if (stk__chain_create(ctx, &spec, &chain, &err) != STK_OK) {
        assert_true(err.text[0] && err.status != STK_EINTERNAL && !chain);
        return;
    }
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    use(chain, state);
    stk__codec_state_destroy(&state);
    stk__chain_destroy(&chain);
}

/* A list of filters, as v2 has it and as v3 does: there with a transpose behind them, which moves
 * the elements that the filters leave. */
static void try_filters(stk_context *ctx, const struct element *e, const size_t *which, size_t n)
{
    json_t *v2 = json_array(), *v3 = json_array();

    for (size_t i = 0; i < n; i++) {
        json_array_append(v2, filters[which[i]]);
        json_array_append(v3, named[which[i]]);
    }
    json_array_append_new(
        v3, json_pack("{s:s, s:{s:s}}", "name", "transpose", "configuration", "order", "F"));
    json_array_append_new(
        v3, json_pack("{s:s, s:{s:s}}", "name", "bytes", "configuration", "endian", "big"));
    try_list(ctx, e, v2, false);
    try_list(ctx, e, v3, true);
    json_decref(v2);
    json_decref(v3);
}

static void test_pairs(void **unused)
{
    stk_context *ctx = guarded_context();

    add_filters();
    compiled = 0;
    for (size_t e = 0; e < STK_COUNT(elements); e++)
        for (size_t a = 0; a < num_filters; a++) {
            try_filters(ctx, &elements[e], (size_t[]){a}, 1);
            for (size_t b = e % 3; b < num_filters; b += 3)
                try_filters(ctx, &elements[e], (size_t[]){a, b}, 2);
        }
    assert_true(compiled > 20000);
    drop_filters();
    stk_context_destroy(&ctx);
}

static void test_triples(void **unused)
{
    stk_context *ctx = guarded_context();

    add_filters();
    compiled = 0;
    for (int i = 0; i < TRIPLES; i++) {
        size_t which[3];
        const struct element *e = &elements[test_random(&seed) % STK_COUNT(elements)];
        for (int k = 0; k < 3; k++)
            which[k] = test_random(&seed) % num_filters;
        try_filters(ctx, e, which, 3);
    }
    assert_true(compiled > 4000);
    drop_filters();
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_triples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
