/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of objects while something is opened: for how long, how much, and of which version.
 */
#include <stdlib.h>
#include <string.h>

#include "store/opening.h"
#include "support/faulty_context.h"

static const stk__seen one = {.size = 10, .identity = 1, .mtime_ns = 5, .etag = "\"a\""};

static XXH128_hash_t named(const char *name)
{
    return XXH3_128bits(name, strlen(name));
}

/* A range of it as text, or NULL. */
static const char *read_text(stk_context *ctx, const char *name, uint64_t offset, uint64_t length,
                             bool up_to, char text[32])
{
    uint64_t got = 0;
    stk__seen seen;

    memset(text, 0, 32);
    return stk__opening_read(ctx, named(name), offset, length, up_to, text, &got, &seen) ? text
                                                                                         : NULL;
}

static void test_life(void **state)
{
    stk_context *ctx = *state;
    stk__seen seen;

    stk__opening_note(ctx, named("x"), &one, 0, "0123", 4);
    assert_false(stk__opening_find(ctx, named("x"), &seen)); /* nothing is opened */
    stk__opening_begin(ctx);
    assert_true(stk__opening_is(ctx));
    assert_false(stk__opening_find(ctx, named("x"), &seen));
    stk__opening_begin(ctx);
    stk__opening_note(ctx, named("x"), &one, 0, NULL, 0);
    stk__opening_end(ctx);
    assert_true(stk__opening_find(ctx, named("x"), &seen)); /* the outer one goes on */
    assert_int_equal(seen.size, 10);
    assert_int_equal(seen.identity, 1);
    assert_string_equal(seen.etag, "\"a\"");
    stk__opening_forget(ctx);
    assert_false(stk__opening_find(ctx, named("x"), &seen));
    stk__opening_note(ctx, named("x"), &one, 0, NULL, 0);
    stk__opening_end(ctx);
    assert_false(stk__opening_is(ctx));
    stk__opening_begin(ctx);
    assert_false(stk__opening_find(ctx, named("x"), &seen));
    stk__opening_end(ctx);
}

static void test_ranges(void **state)
{
    stk_context *ctx = *state;
    char text[32];

    stk__opening_begin(ctx);
    stk__opening_note(ctx, named("x"), &one, 0, "01234", 5);
    stk__opening_note(ctx, named("x"), &one, 7, "789", 3);
    assert_string_equal(read_text(ctx, "x", 0, 5, false, text), "01234");
    assert_string_equal(read_text(ctx, "x", 2, 3, false, text), "234");
    assert_string_equal(read_text(ctx, "x", 8, 2, false, text), "89");
    assert_string_equal(read_text(ctx, "x", 8, 9, true, text), "89");
    assert_string_equal(read_text(ctx, "x", 10, 4, true, text), ""); /* its end is known */
    assert_null(read_text(ctx, "x", 2, 4, false, text));
    assert_null(read_text(ctx, "x", 5, 2, false, text));
    assert_null(read_text(ctx, "x", 8, 3, false, text));
    assert_null(read_text(ctx, "x", UINT64_MAX, 2, false, text));
    assert_null(read_text(ctx, "x", 4, UINT64_MAX, false, text));
    assert_null(read_text(ctx, "y", 0, 1, false, text));
    stk__opening_end(ctx);
}

/* Another version takes the place of all that was kept of the one before. */
static void test_versions(void **state)
{
    const stk__seen other = {.size = 10, .identity = 2}, absent = {.absent = true};
    stk_context *ctx = *state;
    stk__seen seen;
    char text[32];

    stk__opening_begin(ctx);
    stk__opening_note(ctx, named("x"), &one, 0, "01234", 5);
    stk__opening_note(ctx, named("x"), &other, 5, "56789", 5);
    assert_null(read_text(ctx, "x", 0, 5, false, text));
    assert_string_equal(read_text(ctx, "x", 5, 5, false, text), "56789");
    stk__opening_note(ctx, named("x"), &absent, 0, NULL, 0);
    assert_true(stk__opening_find(ctx, named("x"), &seen));
    assert_true(seen.absent);
    stk__opening_note(ctx, named("x"), &one, 0, "0", 1);
    assert_true(stk__opening_find(ctx, named("x"), &seen));
    assert_false(seen.absent);
    stk__opening_end(ctx);
}

/* Memory has a bound, whatever comes. */
static void test_bounds(void **state)
{
    enum { MANY = 1000 };
    stk_context *ctx = *state;
    const uint64_t size = STK__OPENING_AHEAD;
    const stk__seen large = {.size = size, .identity = 1};
    const uint64_t before = stk__memory_left(ctx);
    char *bytes = calloc(1, size), name[16];
    int found = 0;
    stk__seen seen;

    stk__opening_begin(ctx);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%d", i);
        stk__opening_note(ctx, named(name), &large, 0, bytes, size);
    }
    assert_true(before - stk__memory_left(ctx) < (UINT64_C(17) << 20));
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%d", i);
        found += stk__opening_find(ctx, named(name), &seen);
    }
    assert_true(found > 0 && found < MANY);
    stk__opening_end(ctx);
    assert_int_equal(stk__memory_left(ctx), before);
    free(bytes);
}

static stk_status note_some(void *user, stk_error *err)
{
    stk_context *ctx = user;
    char text[32];
    stk__seen seen;

    (void)err;
    stk__opening_begin(ctx);
    stk__opening_note(ctx, named("x"), &one, 0, "01234", 5);
    stk__opening_note(ctx, named("x"), &one, 7, "789", 3);
    if (stk__opening_find(ctx, named("x"), &seen))
        assert_int_equal(seen.size, 10);
    if (read_text(ctx, "x", 7, 3, false, text))
        assert_string_equal(text, "789");
    stk__opening_end(ctx);
    return STK_OK;
}

static void test_no_memory(void **state)
{
    faults f = {.left = FAULTS_NONE};
    stk_context *ctx = faulty_context(&f);

    (void)state;
    assert_int_equal(faulty_each(&f, "opening", 20, note_some, ctx), 4);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_ranges, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_versions, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_bounds, test_context_open, test_context_close),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
