/* Whole files, and lines that are given one by one, as texts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_TEXT_H
#define STK_TESTS_SUPPORT_TEXT_H

#include <stdlib.h>
#include <string.h>

#include "support/support.h"

#define TEST_TAIL  64    /* zeros behind what was loaded: an end, and room for readers by vectors */
#define TEST_LINES 16384 /* bytes of the text of test_keep_line() */

/* All of a file, for the caller to free; NULL: it is not there. `size` may be NULL. */
static inline void *test_load(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");

    if (size)
        *size = 0;
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    const size_t length = (size_t)ftell(f);
    rewind(f);
    void *data = calloc(1, length + TEST_TAIL);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, length, f), length);
    fclose(f);
    if (size)
        *size = length;
    return data;
}

/* Appends to char[TEST_LINES]. */
static inline void test_keep_line(void *user, const char *line)
{
    char *to = user;

    snprintf(to + strlen(to), TEST_LINES - strlen(to), "%s\n", line);
}

#endif
