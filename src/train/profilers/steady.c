/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which batches count for the times of layers. The first steps are slower than all later ones:
 * memory is allocated, code generated, caches are cold. So is the first batch of another number of
 * rows, which gets a plan of its own. A validation within a training does not count either: its
 * passes are not those of a training step.
 */
#include "train/profilers/profiler.h"

/* Whether a batch of so many rows was seen before; it is from now on. */
static bool known_rows(stk__profile_steady *s, uint64_t rows)
{
    for (uint64_t i = 0; i < STK_MIN(s->num_rows, (uint64_t)STK__PROFILE_SIZES); i++)
        if (s->rows[i] == rows)
            return true;
    s->rows[s->num_rows++ % STK__PROFILE_SIZES] = rows;
    return false;
}

void stk__profile_steady_start(stk_profile *p, enum stk__profile_role role)
{
    const stk_moment *at = stk_trainer_moment(p->trainer);
    stk__profile_steady *s = &p->steady;
    const uint64_t warmup = STK_MAX(p->options.warmup_steps, (uint64_t)1);

    switch (role) {
    case STK__ROLE_BATCH:
        s->counting = s->steps >= warmup;
        break;
    case STK__ROLE_FORWARD:
        s->counting &= at->batch && known_rows(s, stk_batch_count(at->batch));
        break;
    case STK__ROLE_EVALUATE:
        s->counting =
            p->task != STK_TASK_FIT && at->batch && known_rows(s, stk_batch_count(at->batch));
        break;
    default:
        break;
    }
}

void stk__profile_steady_stop(stk_profile *p, enum stk__profile_role role, uint64_t ns)
{
    stk__profile_steady *s = &p->steady;
    const stk_profile_batch evaluated = {.forward = ns}, *b = &p->batch;

    if (role == STK__ROLE_OPTIMIZER) {
        stk__profile_optimizer(p, ns);
        s->steps++;
    }
    if (role == STK__ROLE_EVALUATE)
        b = &evaluated;
    if (role != STK__ROLE_BATCH && (role != STK__ROLE_EVALUATE || p->task == STK_TASK_FIT))
        return;
    s->left_out += !s->counting;
    if (s->counting) {
        const uint64_t parts[] = {[STK_PROFILE_DATA] = b->data,
                                  [STK_PROFILE_FORWARD] = b->forward,
                                  [STK_PROFILE_BACKWARD] = b->backward,
                                  [STK_PROFILE_OTHER] = b->other};
        s->batches++;
        for (size_t i = 0; i < STK_COUNT(parts); i++) {
            s->ns[i] += parts[i];
            s->ns[STK_PROFILE_TOTAL] += parts[i];
        }
    }
    s->counting = false;
}
