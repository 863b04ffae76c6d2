/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/random.h>

#include "base/random.h"

bool stk__system_random(void *bytes, size_t size)
{
    ssize_t got;

    do
        got = getrandom(bytes, size, 0);
    while (got < 0 && errno == EINTR); /* before the system has gathered enough */
    return got == (ssize_t)size;
}
