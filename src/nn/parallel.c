/* SPDX-License-Identifier: Apache-2.0 */
/* Loops in parts, on the threads that oneDNN computes with. */
#include "nn/parallel.h"

#include "base/base.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#ifdef STK_WITH_ONEDNN
/* Of the runtime that oneDNN is linked with. Its header is not with every compiler that can link
 * it. */
extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int threads);
#endif

#define SUBNORMALS_OFF 0x8040u /* MXCSR: results flushed to zero, operands taken for zero */

static void mode_set(unsigned mode)
{
#ifdef __SSE2__
    if (_mm_getcsr() != mode)
        _mm_setcsr(mode);
#endif
}

/* Gives the mode before. */
static unsigned subnormals_off(void)
{
#ifdef __SSE2__
    unsigned before = _mm_getcsr();

    mode_set(before | SUBNORMALS_OFF);
    return before;
#else
    return 0;
#endif
}

uint32_t stk__parallel_parts(uint32_t threads, uint64_t n, uint64_t grain)
{
#ifdef _OPENMP
    uint64_t parts = grain > 0 ? n / grain : n;

    return parts < 2 || threads < 2 ? 1 : (uint32_t)STK_MIN(parts, threads);
#else
    return 1;
#endif
}

uint32_t stk__parallel(uint32_t threads, uint64_t n, uint64_t grain, stk__body *body,
                       void *argument)
{
    uint32_t parts = stk__parallel_parts(threads, n, grain);

    if (parts == 1) {
        body(argument, 0, n, 0);
        return 1;
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (uint32_t i = 0; i < parts; i++) {
        unsigned before = subnormals_off();
        body(argument, n * i / parts, n * (i + 1) / parts, i);
        mode_set(before);
    }
#endif
    return parts;
}

stk__compute stk__compute_begin(uint32_t threads)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    stk__compute before = {.mode = subnormals_off()};
    sigset_t held;

    sigfillset(&held);
    for (size_t i = 0; i < STK_COUNT(faults); i++)
        sigdelset(&held, faults[i]);
    pthread_sigmask(SIG_BLOCK, &held, &before.signals);
#ifdef STK_WITH_ONEDNN
    before.threads = omp_get_max_threads();
    if (before.threads != (int)threads)
        omp_set_num_threads((int)threads);
#endif
    return before;
}

void stk__compute_end(const stk__compute *before)
{
#ifdef STK_WITH_ONEDNN
    if (omp_get_max_threads() != before->threads)
        omp_set_num_threads(before->threads);
#endif
    pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
    mode_set(before->mode);
}
