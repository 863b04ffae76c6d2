/* Files of gzip. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_GZIPS_H
#define STK_TESTS_SUPPORT_GZIPS_H

#include <stdio.h>
#include <zlib.h>

#include "support/support.h"

/* As test_write() does, but compressed. */
static inline void gzip_write(const char *folder, const char *name, const void *data, size_t size)
{
    char path[1024];

    test_write(folder, name, "", 0);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, data, (unsigned)size), size);
    assert_int_equal(gzclose(f), Z_OK);
}

#endif
