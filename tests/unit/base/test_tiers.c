/* SPDX-License-Identifier: Apache-2.0 */
/* Where bytes were found, and what that saved. */
#include "base/context.h"
#include "base/tiers.h"
#include "support/support.h"

#define MIB (UINT64_C(1) << 20)

static const char *said(const stk_tiers *tiers)
{
    static char text[512];

    const int length = stk_tiers_format(tiers, text, sizeof text);
    assert_int_equal(length, strlen(text));
    return text;
}

static void test_counts(void **state)
{
    stk_context *ctx = NULL;
    stk_tiers then, now;
    stk_error err;

    (void)state;
    assert_ok(stk_context_create(NULL, &ctx, &err), &err);
    stk__tier_count(ctx, STK_TIER_REMOTE, 5, 7);
    stk__tiers_get(ctx, &then);
    stk__tier_count(ctx, STK_TIER_DISK, 10, 20);
    stk__tier_count(ctx, STK_TIER_REMOTE, 30, 40);
    stk__tier_count(ctx, STK_TIER_REMOTE, 1, 2);
    stk__tiers_get(ctx, &now);
    stk__tiers_subtract(&now, &then);
    assert_int_equal(now.of[STK_TIER_MEMORY].reads, 0);
    assert_int_equal(now.of[STK_TIER_DISK].reads, 1);
    assert_int_equal(now.of[STK_TIER_DISK].bytes, 10);
    assert_int_equal(now.of[STK_TIER_DISK].ns, 20);
    assert_int_equal(now.of[STK_TIER_REMOTE].reads, 2);
    assert_int_equal(now.of[STK_TIER_REMOTE].bytes, 31);
    assert_int_equal(now.of[STK_TIER_REMOTE].ns, 42);
    stk_context_destroy(&ctx);
}

static void test_words(void **state)
{
    stk_tiers tiers = {.of = {[STK_TIER_MEMORY] = {.reads = 4, .bytes = MIB}}};

    (void)state;
    /* Memory alone is no matter of a cache on disk. */
    assert_string_equal(said(&tiers), "");
    /* 3 MiB of the disk would have taken 3 s, less the second that they took; a mean read takes
     * 0.25 s, and 4 came from memory. */
    tiers.of[STK_TIER_DISK] = (stk_tier){.reads = 6, .bytes = 3 * MIB, .ns = 1000000000};
    tiers.of[STK_TIER_REMOTE] = (stk_tier){.reads = 2, .bytes = MIB, .ns = 1000000000};
    assert_string_equal(said(&tiers),
                        "4 samples or ranges came from memory. Of 4 MiB that were read, 75.0 % "
                        "came from the disk of the cache and 25.0 % from the store below it: the "
                        "cache saved 3 MiB of transfers and 3 s of reads.");
    /* What a read below takes is not known. */
    tiers.of[STK_TIER_REMOTE] = tiers.of[STK_TIER_MEMORY] = (stk_tier){0};
    assert_string_equal(said(&tiers),
                        "Of 3 MiB that were read, 100.0 % came from the disk of the cache and 0.0 "
                        "% from the store below it: the cache saved 3 MiB of transfers.");
    /* A disk that is slower than what lies below saves no time. */
    tiers.of[STK_TIER_REMOTE] = (stk_tier){.reads = 1, .bytes = MIB, .ns = 1};
    assert_non_null(strstr(said(&tiers), " and 0 s of reads."));
}

static void test_members(void **state)
{
    stk_tiers tiers = {.of = {[STK_TIER_MEMORY] = {.reads = 4, .bytes = 1}}};
    char text[160];

    (void)state;
    stk__tiers_members(&tiers, text, sizeof text);
    assert_string_equal(text, "");
    tiers.of[STK_TIER_DISK] = (stk_tier){.reads = 1, .bytes = 2};
    tiers.of[STK_TIER_REMOTE] = (stk_tier){.reads = 1, .bytes = 3};
    stk__tiers_members(&tiers, text, sizeof text);
    assert_string_equal(text, ", \"tiers\": {\"memory\": 1, \"disk\": 2, \"remote\": 3}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
