/* SPDX-License-Identifier: Apache-2.0 */
/* Random chains over random shapes: there and back, in part, and damaged (fuzz/fuzz_chain.h). */
#include "../../../fuzz/fuzz_chain.h"

#include "support/support.h"

#define ROUNDS 1500

static void test_random_chains(void **unused)
{
    stk_context *ctx = test_context();
    uint64_t seed = 2026;
    uint8_t bytes[400];

    for (int i = 0; i < ROUNDS; i++) {
        size_t size = test_random(&seed) % sizeof bytes;
        for (size_t k = 0; k < size; k++)
            bytes[k] = (uint8_t)test_random(&seed);
        fuzz_chain_once(ctx, bytes, size);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_chains)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
