/* SPDX-License-Identifier: Apache-2.0 */
/* Environments that never were: "NAME=VALUE", ended by NULL. */
#ifndef STK_TESTS_UNIT_DIST_ENVIRONMENT_H
#define STK_TESTS_UNIT_DIST_ENVIRONMENT_H

#include <string.h>

static inline const char *environment_look(void *user, const char *name)
{
    const size_t length = strlen(name);

    for (const char *const *entry = user; *entry; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

#endif
