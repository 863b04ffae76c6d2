/* Archives of tests/golden/store/zip in memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_ZIPS_H
#define STK_TESTS_SUPPORT_ZIPS_H

#include <stdlib.h>

#include "support/support.h"

#define ZIPS TESTS_DIR "/golden/store/zip"

/* All bytes of an archive, for the caller to free. */
static inline void *zip_bytes(const char *name, size_t *size)
{
    char path[512], *data = malloc(1 << 20);

    snprintf(path, sizeof path, ZIPS "/%s.zip", name);
    FILE *f = fopen(path, "rb");
    assert_true(f && data);
    *size = fread(data, 1, 1 << 20, f);
    fclose(f);
    return data;
}

/* Keep an archive under a key of a store. */
static inline void zip_put(stk_store *store, const char *key, const char *name)
{
    size_t size;
    void *data = zip_bytes(name, &size);
    stk_error err;

    assert_ok(stk_store_put(store, key, data, size, NULL, &err), &err);
    free(data);
}

#endif
