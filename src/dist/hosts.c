/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of hosts and of tasks as Slurm writes them [slurm.schedmd.com/scontrol.html, "hostlist"].
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/dist.h"

/* Digits at *at; false: there are none, or more than a number of hosts has. */
static bool number(const char **at, uint64_t *out, int *width)
{
    const size_t digits = strspn(*at, "0123456789");

    if (!digits || digits > 9)
        return false;
    *out = strtoull(*at, NULL, 10);
    *width = (int)digits;
    *at += digits;
    return true;
}

/* One entry of the list up to its comma: "gpu[001-003,7]-ib", or "login". *i goes down by the hosts
 * that it has. 1: it has the host; 0: it has not; -1: it is no list. */
static int entry(const char **at, uint64_t *i, char *host, size_t size)
{
    const char *name = *at;
    const int length = (int)strcspn(name, "[,");
    uint64_t first, last;
    int width, ignored;

    *at += length;
    if (**at != '[') {
        if (!length)
            return -1;
        if ((*i)-- > 0)
            return 0;
        return snprintf(host, size, "%.*s", length, name) < (int)size ? 1 : -1;
    }
    const char *close = strchr(*at, ']');
    if (!close)
        return -1;
    const int end = (int)strcspn(close + 1, ",");
    if (memchr(close + 1, '[', (size_t)end))
        return -1; /* of more than one dimension: not read */
    do {
        ++*at; /* the bracket, or a comma within */
        if (!number(at, &first, &width))
            return -1;
        last = first;
        if (**at == '-') {
            ++*at;
            if (!number(at, &last, &ignored) || last < first)
                return -1;
        }
        if (*i <= last - first)
            return snprintf(host, size, "%.*s%0*" PRIu64 "%.*s", length, name, width, first + *i,
                            end, close + 1) < (int)size
                       ? 1
                       : -1;
        *i -= last - first + 1;
    } while (**at == ',');
    if (*at != close)
        return -1;
    *at = close + 1 + end;
    return 0;
}

bool stk_ranks_host(const char *list, uint64_t i, char *host, size_t size)
{
    int has = size ? 0 : -1;

    if (size)
        *host = 0;
    while (has == 0 && *list) {
        has = entry(&list, &i, host, size);
        if (has == 0 && *list && *list++ != ',')
            has = -1;
    }
    if (has != 1 && size)
        *host = 0;
    return has == 1;
}

uint64_t stk__tasks_of_node(const char *text, uint64_t node)
{
    uint64_t tasks, times;
    int width;

    while (number(&text, &tasks, &width)) {
        times = 1;
        if (strncmp(text, "(x", 2) == 0) {
            text += 2;
            if (!number(&text, &times, &width) || *text++ != ')')
                return 0;
        }
        if (node < times)
            return tasks;
        node -= times;
        if (*text++ != ',')
            return 0;
    }
    return 0;
}
