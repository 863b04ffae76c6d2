/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the program share: see sizes.c. */
#ifndef SIZES_H
#define SIZES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/stoker.h>

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0                                                                         \
                 : (printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, err.text), exit(1)))
#define OK(call)  CHECK((call) == STK_OK)
#define NEW(type) ((type *)before_the_end(sizeof(type), 1))
#define SIZED(type, name)                                                                          \
    type *name = NEW(type);                                                                        \
    name->struct_size = sizeof *name

extern stk_error err;

/* Zeros that end where a page begins that nobody may touch. */
void *before_the_end(size_t size, size_t n);

/* Drivers of one's own, over what sizes.c has written into the folder. */
void sizes_drivers(stk_context *ctx, const char *folder);

/* A setting simulated from the figures of a run alone. */
void sizes_predictions(stk_context *ctx, stk_figures *figures);

#endif
