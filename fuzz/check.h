/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold whatever the input: where it does not, the place and the condition are said. */
#ifndef STK_FUZZ_CHECK_H
#define STK_FUZZ_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
