/* Two checkpoints that say the same. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SAME_CHECKPOINT_H
#define STK_TESTS_SAME_CHECKPOINT_H

#include <stdio.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "support/support.h"

/* The same lines. Metrics stand in the order in which they were first met. */
static inline void assert_same_lines(const char *name, const char *a, const char *b)
{
    while (*a) {
        const size_t n = strcspn(a, "\n");
        const char *at = b;
        while (*at && (strcspn(at, "\n") != n || memcmp(at, a, n) != 0))
            at += strcspn(at, "\n"), at += *at != 0;
        /* A validation that was stopped is done again, and counts again. */
        if (!*at && n && strncmp(a, "val_batches ", 12) != 0)
            fail_msg("%s: there is no line '%.*s' in '%s'", name, (int)n, a, b);
        a += n + (a[n] != 0);
    }
}

/* The best checkpoint: of the one run it may lie in the folder of a run that was killed. */
static inline void assert_same_best(const char *a, const char *b)
{
    const char *const in_a = strrchr(a, '/'), *const in_b = strrchr(b, '/');

    assert_string_equal(in_a ? in_a + 1 : a, in_b ? in_b + 1 : b);
}

/* Every text: loops, progress, metrics, the loader's state, callbacks; but for the hash, and for
 * the lists of files, as a run that goes on has a folder of its own (unit/train/ends looks at
 * those). */
static inline void assert_same_texts(const stk__checkpoint *a, const stk__checkpoint *b)
{
    const char *name;
    size_t n = 0;

    while ((name = stk__checkpoint_text_name(a, n))) {
        const char *const x = stk__checkpoint_find_text(a, name);
        const char *const y = stk__checkpoint_find_text(b, name);
        if (!y)
            fail_msg("there is no text '%s'", name);
        if (strcmp(name, "stoker.best") == 0)
            assert_same_best(x, y);
        else if (strcmp(name, "stoker.xxh3") != 0 && !strstr(name, "model_checkpoint"))
            assert_same_lines(name, x, y);
        n++;
    }
    assert_true(n > 5);
    assert_null(stk__checkpoint_text_name(b, n));
}

/* Every tensor of both, in one file or in parts: parameters, moments of the optimizer, averages,
 * gradients, numbers of draws; and with `texts` every text. */
static inline void assert_same_state(const char *a_path, const char *b_path, bool texts)
{
    stk_context *ctx = test_context();
    stk__checkpoint *a, *b;
    stk_error err;

    assert_ok(stk__checkpoint_open(ctx, a_path, &a, &err), &err);
    assert_ok(stk__checkpoint_open(ctx, b_path, &b, &err), &err);
    assert_int_equal(stk__checkpoint_count(a), stk__checkpoint_count(b));
    assert_true(stk__checkpoint_count(a) > 0);
    for (size_t i = 0; i < stk__checkpoint_count(a); i++) {
        const stk_state_tensor *x = stk__checkpoint_tensor(a, i);
        const stk_state_tensor *y = stk__checkpoint_find(b, x->name);
        if (!y)
            fail_msg("%s: there is no '%s'", b_path, x->name);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->rank, y->rank);
        assert_memory_equal(x->shape, y->shape, x->rank * sizeof x->shape[0]);
        assert_int_equal(x->bytes, y->bytes);
        if (memcmp(x->data, y->data, x->bytes) != 0)
            fail_msg("%s and %s: '%s' differs", a_path, b_path, x->name);
    }
    if (texts)
        assert_same_texts(a, b);
    stk__checkpoint_close(&a);
    stk__checkpoint_close(&b);
    stk_context_destroy(&ctx);
}

static inline void assert_same_checkpoints(const char *a_path, const char *b_path)
{
    assert_same_state(a_path, b_path, true);
}

#endif
