/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of any shape takes no more memory than is claimed for it, and no more is claimed than a part
 * of what the context may use. */
#include "base/json.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

enum { HEAD = 16 }; /* of a block of malloc() */

static uint64_t held, peak;

static void *count_alloc(size_t size)
{
    void *memory = malloc(size);

    held += memory ? malloc_usable_size(memory) + HEAD : 0;
    peak = held > peak ? held : peak;
    return memory;
}

static void count_free(void *memory)
{
    held -= memory ? malloc_usable_size(memory) + HEAD : 0;
    free(memory);
}

static uint64_t used(const stk_context *ctx)
{
    stk_memory_stats stats = {.struct_size = sizeof stats};

    stk_context_memory(ctx, &stats);
    return stats.bytes;
}

static stk_context *limited(uint64_t limit)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.memory_limit = limit;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    return ctx;
}

/* `count` times `part` in a list or, with numbered keys, in an object. */
static char *repeat(const char *part, size_t count, bool object)
{
    size_t room = count * (strlen(part) + 24) + 8, at = 1;
    char *text = malloc(room);

    assert_non_null(text);
    text[0] = object ? '{' : '[';
    for (size_t i = 0; i < count; i++) {
        if (object)
            at += (size_t)snprintf(text + at, room - at, "%s\"%zu\":", i ? "," : "", i);
        else if (i)
            text[at++] = ',';
        at += (size_t)snprintf(text + at, room - at, "%s", part);
    }
    text[at++] = object ? '}' : ']';
    text[at] = 0;
    return text;
}

static void check(stk_context *ctx, const char *text)
{
    stk__json json;
    stk_error err;
    uint64_t before = used(ctx);

    held = peak = 0;
    assert_ok(stk__json_parse(ctx, text, strlen(text), "a", &json, &err), &err);
    uint64_t claimed = used(ctx) - before;
    assert_int_equal(claimed, json.bytes);
    if (peak > claimed)
        fail_msg("%.40s...: jansson took %llu bytes, claimed were %llu", text,
                 (unsigned long long)peak, (unsigned long long)claimed);
    /* A part that is kept claims for itself, and what the whole takes at most. */
    stk__json part;
    assert_ok(stk__json_keep(ctx, json.value, "a", &part, &err), &err);
    assert_true(part.bytes >= held);
    stk__json_drop(ctx, &json);
    assert_true(held > 0 && used(ctx) == before + part.bytes);
    stk__json_drop(ctx, &part);
    assert_int_equal(held, 0);
    assert_int_equal(used(ctx), before);
    assert_null(json.value);
}

static void test_claims(void **unused)
{
    static const char *const parts[] = {"{}",
                                        "[]",
                                        "0",
                                        "null",
                                        "\"\"",
                                        "\"abc\"",
                                        "1.5",
                                        "NaN",
                                        "123456789012345678901",
                                        "[[]]",
                                        "{\"a\":{}}",
                                        "{\"a\":1,\"b\":[1,2,3],\"c\":\"x\"}",
                                        "[1,2,3,4,5,6,7,8,9]",
                                        "true",
                                        "\"a text of forty bytes that is a value....\"",
                                        "{\"\":0}"};
    static const size_t counts[] = {1, 7, 8, 9, 65, 1000, 20000};
    stk_context *ctx = limited(UINT64_C(1) << 30);

    json_set_alloc_funcs(count_alloc, count_free);
    for (size_t p = 0; p < STK_COUNT(parts); p++)
        for (size_t c = 0; c < STK_COUNT(counts); c++)
            for (int object = 0; object < 2; object++) {
                char *text = repeat(parts[p], counts[c], object);
                check(ctx, text);
                free(text);
            }
    char *text = malloc(3000000); /* one long text */
    memset(text, 'x', 3000000);
    text[0] = '[', text[1] = text[2999997] = '"', text[2999998] = ']', text[2999999] = 0;
    check(ctx, text);
    free(text);
    json_set_alloc_funcs(malloc, free);
    stk_context_destroy(&ctx);
}

/* 6 MB of "{}" would take half a gigabyte. */
static void test_bomb(void **unused)
{
    stk_context *ctx = limited(UINT64_C(64) << 20);
    uint64_t before = used(ctx);
    char *text = repeat("{}", 2000000, false);
    stk__json json;
    stk_error err;

    json_set_alloc_funcs(count_alloc, count_free);
    held = peak = 0;
    assert_fails(stk__json_parse(ctx, text, strlen(text), "zarr.json", &json, &err), STK_ELIMIT,
                 &err, "memory_limit");
    assert_int_equal(peak, 0);
    assert_null(json.value);
    assert_int_equal(used(ctx), before);
    free(text);

    /* Many documents that are held at one time count together. */
    stk__json many[64];
    stk_status status = STK_OK;
    size_t n = 0;
    text = repeat("{}", 10000, false);
    while (status == STK_OK && n < STK_COUNT(many)) {
        stk_error_init(&err);
        status = stk__json_parse(ctx, text, strlen(text), "zarr.json", &many[n++], &err);
    }
    assert_fails(status, STK_ELIMIT, &err, "a quarter of memory_limit");
    assert_in_range(n, 3, 32);
    assert_true(held <= (UINT64_C(16) << 20));
    while (n--)
        stk__json_drop(ctx, &many[n]);
    assert_int_equal(used(ctx), before);
    free(text);
    json_set_alloc_funcs(malloc, free);
    stk_context_destroy(&ctx);
}

static void test_text(void **unused)
{
    static const char given[] = "{\"a\":[NaN,-Infinity,18446744073709551617,\"\\u0001NaN1\"]}";
    stk_context *ctx = test_context();
    stk__json json;
    stk_error err;

    assert_ok(stk__json_parse(ctx, given, sizeof given - 1, "a", &json, &err), &err);
    char *text = stk__json_text(ctx, json.value, false);
    assert_string_equal(text, "{\"a\": [NaN, -Infinity, 18446744073709551617, \"\\u0001NaN1\"]}");
    stk__free(ctx, text);
    stk__json_drop(ctx, &json);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
