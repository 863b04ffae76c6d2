/* A console that keeps what was said, and callbacks made of texts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_SAID_H
#define STK_TESTS_UNIT_TRAIN_SAID_H

#include "unit/train/tiny.h"

static char said[65536];

static inline void say_line(void *user, const char *text)
{
    const size_t used = strlen(said);

    snprintf(said + used, sizeof said - used, "%s\n", text);
}

static inline void listen_to(stk_trainer *t)
{
    const stk_console console = {.struct_size = sizeof console, .line = say_line};

    *said = 0;
    stk_trainer_set_console(t, &console);
}

/* Add a callback with "name", "value", ..., NULL. */
static inline stk_callback *add(bench *b, stk_trainer *t, const stk_callback_ops *ops, ...)
{
    uint64_t room[64];
    stk_callback *out;
    va_list arguments;

    stk_options_init(ops->options, room, sizeof room);
    va_start(arguments, ops);
    for (const char *name; (name = va_arg(arguments, const char *));)
        assert_ok(
            stk_options_set(ops->options, room, name, va_arg(arguments, const char *), &b->err),
            &b->err);
    va_end(arguments);
    assert_ok(stk_trainer_add_callback(t, ops, room, &out, &b->err), &b->err);
    return out;
}

#endif
