/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npy files of `npy:`. Input: a byte of bits (1: trailing bytes are allowed, 2: the second file is
 * the labels of the first), two bytes of length, a file, another file. Both are read as files of
 * samples, and together as a folder of two samples and as one of two classes.
 */
#include "fuzz_support.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char key[64], spec[128];
    stk_store *store = NULL;
    stk_error err;
    size_t length = 0;

    if (size < 1)
        return 0;
    stk_context *ctx = fuzz_context();
    int bits = *data++;
    size--;
    const uint8_t *first = fuzz_take(&data, &size, &length);
    const char *trailing = bits & 1 ? "allow_trailing=true" : "allow_trailing=false";
    FUZZ_CHECK(stk_store_open(ctx, "mem://flat", &store, key, sizeof key, &err) == STK_OK);
    fuzz_put(store, "a.npy", first, length);
    fuzz_put(store, "b.npy", data, size);
    stk_store_close(&store);
    FUZZ_CHECK(stk_store_open(ctx, "mem://classes", &store, key, sizeof key, &err) == STK_OK);
    fuzz_put(store, "x/a.npy", data, size);
    fuzz_put(store, "y/a.npy", first, length);
    uint64_t held = fuzz_held(ctx);
    snprintf(spec, sizeof spec, "npy:mem://flat/a.npy?%s%s", trailing,
             bits & 2 ? "&labels=b.npy" : "");
    fuzz_dataset(ctx, spec);
    snprintf(spec, sizeof spec, "npy:slow+mem://flat/b.npy?%s", trailing);
    fuzz_dataset(ctx, spec);
    snprintf(spec, sizeof spec, "npy:mem://flat?%s", trailing);
    fuzz_dataset(ctx, spec);
    snprintf(spec, sizeof spec, "npy:mem://classes?%s", trailing);
    fuzz_dataset(ctx, spec);
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    return 0;
}
