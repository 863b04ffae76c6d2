/* What a core dump of this process would have. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_OWN_MEMORY_H
#define STK_TESTS_SUPPORT_OWN_MEMORY_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/support.h"

/* How often bytes lie in memory that dumps do not leave out. The caller
 * keeps the bytes themselves in memory that is left out. */
static inline unsigned memory_has(const void *bytes, size_t length)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    const int memory = open("/proc/self/mem", O_RDONLY);
    char line[512];
    unsigned long begin = 0, end = 0;
    unsigned found = 0;
    bool readable = false;

    assert_non_null(maps);
    assert_true(memory >= 0);
    while (fgets(line, sizeof line, maps)) {
        char flags[8];
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx %7s", &from, &to, flags) == 3) {
            begin = from;
            end = to;
            readable = flags[0] == 'r' && flags[1] == 'w';
        }
        if (strncmp(line, "VmFlags:", 8) != 0 || !readable || strstr(line, " dd"))
            continue;
        /* A copy, which is itself left out. */
        const size_t size = end - begin;
        char *copy = mmap(NULL, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(copy != MAP_FAILED);
        assert_int_equal(madvise(copy, size, MADV_DONTDUMP), 0);
        const ssize_t n = pread(memory, copy, size, (off_t)begin);
        for (char *at = copy; n > 0 && (at = memmem(at, (size_t)(copy + n - at), bytes, length));
             at++)
            found++;
        munmap(copy, size);
    }
    fclose(maps);
    close(memory);
    return found;
}

#endif
