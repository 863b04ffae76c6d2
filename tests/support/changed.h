/* Files that change under a reader: replaced, written in place, and only touched. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_CHANGED_H
#define STK_TESTS_SUPPORT_CHANGED_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array/watch.h"
#include "support/support.h"

#define CHANGED_SECONDS 1000000000 /* 2001-09-09T01:46:40 */

/* Set when a file was written last; the time of the last access is another one each time. */
static inline void set_time(const char *folder, const char *name, long ns)
{
    static int accesses;
    const struct timespec times[2] = {{accesses++, 0}, {CHANGED_SECONDS, ns}};
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* A file of that time. */
static inline void write_at(const char *folder, const char *name, const void *data, size_t size,
                            long ns)
{
    test_write(folder, name, data, size);
    set_time(folder, name, ns);
}

/* Put a file of that time in the place of another one. */
static inline void replace_at(const char *folder, const char *name, const void *data, size_t size,
                              long ns)
{
    char from[512], to[512];

    write_at(folder, "replacement", data, size, ns);
    snprintf(from, sizeof from, "%s/replacement", folder);
    snprintf(to, sizeof to, "%s/%s", folder, name);
    assert_int_equal(rename(from, to), 0);
}

/* Write one byte where it lies, in the file itself. */
static inline void write_byte(const char *folder, const char *name, long offset, int byte, long ns)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, offset, SEEK_SET), 0);
    assert_int_equal(fputc(byte, f), byte);
    assert_int_equal(fclose(f), 0);
    set_time(folder, name, ns);
}

#endif
