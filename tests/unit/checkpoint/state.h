/* A state that is a known function of a step, saved and checked. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_CHECKPOINT_STATE_H
#define STK_TESTS_CHECKPOINT_STATE_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/durable.h"
#include "checkpoint/checkpoint.h"
#include "store/store.h"
#include "support/support.h"

enum { WIDE = 1000 };

typedef struct model {
    float weight[WIDE];
    int64_t count;
    uint8_t bits[5];
    char step[24];
    stk_state_tensor tensors[3];
    stk__checkpoint_text texts[2];
} model;

/* A state that is a known function of `step`. */
static inline void fill(model *m, int step)
{
    for (int i = 0; i < WIDE; i++)
        m->weight[i] = (float)(step * 1000 + i);
    m->count = step * INT64_C(1000000007);
    for (int i = 0; i < 5; i++)
        m->bits[i] = (uint8_t)(step + i);
    snprintf(m->step, sizeof m->step, "%d", step);
    m->tensors[0] = (stk_state_tensor){"stoker.bits", STK_UINT8, 1, {5}, m->bits, 5};
    m->tensors[1] = (stk_state_tensor){"layer.weight",  STK_FLOAT32, 2,
                                       {WIDE / 10, 10}, m->weight,   sizeof m->weight};
    m->tensors[2] = (stk_state_tensor){"layer.count", STK_INT64, 0, {0}, &m->count, 8};
    m->texts[0] = (stk__checkpoint_text){STK__CHECKPOINT_STEP, m->step};
    m->texts[1] = (stk__checkpoint_text){"loader", "{\"epoch\": 3}"};
}

/* For tests that cut no power: a disk is slow to say that it is done. */
static inline int no_fsync(void *user, int fd)
{
    return 0;
}

static inline stk__checkpoint_writer *quick_writer(stk_context *ctx)
{
    static stk__file_calls quick;
    stk__checkpoint_writer *writer = NULL;
    stk_error err;

    quick = stk__file_calls_system;
    quick.fsync = no_fsync;
    assert_ok(stk__checkpoint_writer_create_on(ctx, &quick, &writer, &err), &err);
    return writer;
}

static inline void save(stk__checkpoint_writer *writer, const char *path, int step,
                        const char *const *replaces, size_t n)
{
    stk_error err;
    model m;

    fill(&m, step);
    assert_ok(stk__checkpoint_save(writer, path, m.tensors, 3, m.texts, 2, replaces, n, NULL, &err),
              &err);
    /* The snapshot is taken: this must not reach the file. */
    memset(&m, 0xee, sizeof m);
}

static inline void check(stk_context *ctx, const char *path, int step)
{
    stk__checkpoint *c = NULL;
    stk_error err;
    model m;

    fill(&m, step);
    assert_ok(stk__checkpoint_open(ctx, path, &c, &err), &err);
    assert_int_equal(stk__checkpoint_count(c), 3);
    for (size_t i = 0; i < 3; i++) {
        const stk_state_tensor *t = stk__checkpoint_find(c, m.tensors[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, m.tensors[i].dtype);
        assert_int_equal(t->rank, m.tensors[i].rank);
        assert_int_equal(t->bytes, m.tensors[i].bytes);
        assert_memory_equal(t->data, m.tensors[i].data, t->bytes);
    }
    assert_string_equal(stk__checkpoint_find_text(c, STK__CHECKPOINT_STEP), m.step);
    assert_string_equal(stk__checkpoint_find_text(c, "loader"), "{\"epoch\": 3}");
    assert_null(stk__checkpoint_find_text(c, "other"));
    stk__checkpoint_close(&c);
    assert_null(c);
    assert_ok(stk__checkpoint_verify(ctx, path, &err), &err);
}

/* ---- Messages of the context ---- */

typedef struct messages {
    int count;
    char last[1024];
} messages;

static inline void keep(void *user, stk_message_level level, const char *message)
{
    messages *m = user;

    if (level < STK_MESSAGE_WARNING)
        return;
    m->count++;
    snprintf(m->last, sizeof m->last, "%s", message);
}

static inline stk_context *context_with(messages *m)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.on_message = keep;
    options.on_message_user = m;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    return ctx;
}

static inline bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

#endif
