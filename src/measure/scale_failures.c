/* SPDX-License-Identifier: Apache-2.0 */
/* Failures at random: what is saved, what is done again. */
#include "measure/scale.h"

#include <math.h>

#include "base/random.h"

typedef struct fate {
    double mtbf;
    uint64_t seed, draws;
    uint64_t failures, most;
} fate;

/* Until the next failure: without memory. */
static double next_failure(fate *f)
{
    uint32_t words[4];

    stk__draw(f->seed, 0, f->draws++, STK_DRAW_DATA, words, 4);
    return -f->mtbf * log((words[0] + 0.5) * 0x1p-32);
}

/* Time until something that takes `seconds` is done without a failure in it. */
static double endure(fate *f, double seconds)
{
    double spent = 0;

    while (f->failures < f->most) {
        const double left = next_failure(f);
        if (left >= seconds)
            return spent + seconds;
        spent += left;
        f->failures++;
    }
    return spent;
}

double stk__scale_simulate_lost(double mtbf, double checkpoint, double restart, double interval,
                                uint64_t segments, uint64_t failures, uint64_t seed)
{
    fate f = {.mtbf = mtbf, .seed = seed, .most = failures};
    double spent = 0;
    uint64_t done = 0;

    for (; done < segments && f.failures < f.most; done++) {
        const double left = interval + checkpoint;
        for (;;) {
            /* One try; then a restart, which may fail as well. */
            const double until = next_failure(&f);
            if (until >= left)
                break;
            f.failures++;
            spent += until + endure(&f, restart);
            if (f.failures >= f.most)
                return done ? STK_MAX(1 - (double)done * interval / spent, 0.0) : 1;
        }
        spent += left;
    }
    return spent > 0 ? STK_MAX(1 - (double)done * interval / spent, 0.0) : 0;
}
