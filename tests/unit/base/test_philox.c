/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "base/random.h"
#include "support/support.h"

/* The known answers published with the Random123 library, file kat_vectors, lines "philox4x32 10".
 */
static void known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < STK_COUNT(vectors); i++) {
        uint32_t out[4];
        stk__philox(vectors[i].counter, vectors[i].key, out);
        assert_memory_equal(out, vectors[i].expected, sizeof out);
    }
}

/* No two draws of different purpose, epoch or position may share words. */
static void draws_are_apart(void **state)
{
    uint32_t a[8], b[8];

    stk__draw(7, 1, 100, STK_DRAW_TRANSFORM, a, 8);
    stk__draw(7, 1, 100, STK_DRAW_TRANSFORM, b, 5);
    assert_memory_equal(a, b, 5 * sizeof *a);
    /* Nor two blocks of one. */
    assert_memory_not_equal(a, a + 4, 4 * sizeof *a);
    const struct {
        uint64_t seed, position;
        uint32_t epoch, purpose;
    } others[] = {{8, 100, 1, STK_DRAW_TRANSFORM},
                  {7, 101, 1, STK_DRAW_TRANSFORM},
                  {7, 100, 2, STK_DRAW_TRANSFORM},
                  {7, 100, 1, STK_DRAW_TRANSFORM + 1},
                  {7 | UINT64_C(1) << 32, 100, 1, STK_DRAW_TRANSFORM},
                  {7, 100 | UINT64_C(1) << 40, 1, STK_DRAW_TRANSFORM}};
    for (size_t i = 0; i < STK_COUNT(others); i++) {
        stk__draw(others[i].seed, others[i].epoch, others[i].position, others[i].purpose, b, 8);
        assert_memory_not_equal(a, b, sizeof a);
    }
}

static void uniform_is_below_one(void **state)
{
    assert_true(stk__uniform(UINT32_MAX) < 1.0f);
    assert_true(stk__uniform(0) == 0.0f);
    assert_true(stk__uniform(UINT32_C(1) << 31) == 0.5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(draws_are_apart),
        cmocka_unit_test(uniform_is_below_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
