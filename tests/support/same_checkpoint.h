/* Two checkpoints that say the same. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SAME_CHECKPOINT_H
#define STK_TESTS_SAME_CHECKPOINT_H

#include <stdio.h>
#include <string.h>

#include "checkpoint/safetensors/safetensors.h"
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
static inline void assert_same_texts(const stk__safetensors *a, const stk__safetensors *b)
{
    assert_int_equal(a->num_texts, b->num_texts);
    assert_true(a->num_texts > 5);
    for (size_t i = 0; i < a->num_texts; i++) {
        assert_string_equal(a->texts[i].name, b->texts[i].name);
        if (strcmp(a->texts[i].name, "stoker.best") == 0)
            assert_same_best(a->texts[i].text, b->texts[i].text);
        else if (strcmp(a->texts[i].name, "stoker.xxh3") != 0 &&
                 !strstr(a->texts[i].name, "model_checkpoint"))
            assert_same_lines(a->texts[i].name, a->texts[i].text, b->texts[i].text);
    }
}

/* Every tensor of both files: parameters, moments of the optimizer, averages, gradients, numbers of
 * draws; and every text. */
static inline void assert_same_checkpoints(const char *a_path, const char *b_path)
{
    stk_context *ctx = test_context();
    stk__safetensors_file a, b;
    uint8_t *a_data, *b_data, *a_moved, *b_moved;
    stk_error err;

    assert_ok(stk__safetensors_file_open(ctx, a_path, &a, &err), &err);
    assert_ok(stk__safetensors_file_open(ctx, b_path, &b, &err), &err);
    assert_ok(stk__safetensors_file_load(&a, a_path, &a_data, &a_moved, &err), &err);
    assert_ok(stk__safetensors_file_load(&b, b_path, &b_data, &b_moved, &err), &err);
    assert_int_equal(a.parsed.num_tensors, b.parsed.num_tensors);
    assert_true(a.parsed.num_tensors > 0);
    for (size_t i = 0; i < a.parsed.num_tensors; i++) {
        const stk_state_tensor *x = &a.parsed.tensors[i], *y = &b.parsed.tensors[i];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->bytes, y->bytes);
        if (memcmp(x->data, y->data, x->bytes) != 0)
            fail_msg("%s and %s: '%s' differs", a_path, b_path, x->name);
    }
    assert_same_texts(&a.parsed, &b.parsed);
    stk__free(ctx, a_data);
    stk__free(ctx, b_data);
    stk__free(ctx, a_moved);
    stk__free(ctx, b_moved);
    stk__safetensors_file_close(&a);
    stk__safetensors_file_close(&b);
    stk_context_destroy(&ctx);
}

#endif
