/* A profile around fits of a tiny module and of a model, and its files read back. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_PROFILES_H
#define STK_TESTS_UNIT_TRAIN_PROFILES_H

#include "support/text.h"
#include "train/profilers/profiler.h"
#include "unit/train/said.h"

/* A fit of 10 training batches and 3 of validation under a profile; both are the caller's. */
static inline void profile_fit(bench *b, tiny *module, const stk_profile_options *options,
                               stk_trainer **t, stk_profile **p)
{
    tiny_init(module);
    assert_ok(stk_trainer_create(b->ctx, &b->options, t, &b->err), &b->err);
    listen_to(*t);
    assert_ok(stk_profile_create(*t, options, p, &b->err), &b->err);
    assert_ok(stk_trainer_fit(*t, &module->base, &b->data, NULL, &b->err), &b->err);
}

static inline void profile_options(stk_profile_options *o, const char *profiler,
                                   const char *dirpath, const char *filename)
{
    stk_profile_options_init(o);
    o->profiler = profiler;
    o->dirpath = dirpath;
    o->filename = filename;
}

/* All of a file that is not empty; the caller frees it. */
static inline char *read_text(const char *path)
{
    char *text = test_load(path, NULL);

    assert_true(text && *text);
    return text;
}

#endif
