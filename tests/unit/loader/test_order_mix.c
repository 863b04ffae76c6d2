/* SPDX-License-Identifier: Apache-2.0 */
/* The order of several sources: shares, passes, chance. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "loader/order.h"
#include "support/support.h"

enum { SOURCES = 3 };

typedef struct mixed {
    stk_dataset *dataset;
    const stk__mixture *mixture;
    stk__order order;
    stk__order_epoch view;
} mixed;

static void begin(mixed *m, stk_context *ctx, const char *spec, const stk_loader_options *o)
{
    stk_error err;

    assert_ok(stk_dataset_open(ctx, spec, &m->dataset, &err), &err);
    m->mixture = m->dataset->mixture;
    assert_non_null(m->mixture);
    assert_ok(stk__order_init(&m->order, m->dataset, o, &err), &err);
    assert_int_equal(stk__order_epoch_init(&m->view, ctx, &m->order), STK_OK);
}

static void end(mixed *m)
{
    stk__order_epoch_release(&m->view);
    stk_dataset_close(&m->dataset);
}

/* The source and the sample there at a position. */
static uint64_t at(mixed *m, uint64_t epoch, uint64_t position, uint32_t *source)
{
    uint64_t index;

    stk__order_epoch_set(&m->view, epoch);
    stk__order_indices(&m->view, &position, &index, 1);
    const uint64_t draw = stk__mixture_draw(m->mixture, index, source);
    /* Each sample has one index, however often it comes. */
    assert_in_range(draw, 0, m->mixture->sizes[*source] - 1);
    return draw;
}

static stk_loader_options options(int shuffle, uint64_t seed)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.shuffle = shuffle;
    o.seed = seed;
    o.batch_size = 1;
    o.block_size = 3;
    o.streams = 2;
    o.shuffle_buffer = 4;
    return o;
}

/* Random mixtures against counting: shares, and how often each sample comes within a pass. */
static void shares_and_passes(void **state)
{
    uint64_t random = 3;

    for (int i = 0; i < 150; i++) {
        const uint64_t size[SOURCES] = {test_random(&random) % 90 + 20,
                                        test_random(&random) % 90 + 20,
                                        test_random(&random) % 900 + 20};
        const char *const stops[] = {"first", "all", "577"};
        const stk_loader_options o =
            options(i % 2 ? STK_SHUFFLE_FULL : STK_SHUFFLE_BLOCK, test_random(&random));
        char spec[400];
        mixed m;
        snprintf(spec, sizeof spec,
                 "mix:%d*(synthetic:?size=%d),%d*(synthetic:?size=%d),%d*(synthetic:?size=%d)"
                 "?stop=%s",
                 (int)(test_random(&random) % 9 + 1), (int)size[0],
                 (int)(test_random(&random) % 9 + 1), (int)size[1],
                 (int)(test_random(&random) % 9 + 1), (int)size[2], stops[i % 3]);
        begin(&m, *state, spec, &o);
        const uint64_t epochs = 4, n = m.order.size, slots = m.mixture->slots;
        uint8_t *times = calloc(SOURCES * 1000, 1);
        uint64_t draws[SOURCES];
        for (uint64_t epoch = 0; epoch < epochs; epoch++) {
            memset(draws, 0, sizeof draws);
            for (uint32_t s = 0; s < SOURCES; s++) {
                /* Another pass begins: each epoch, or when it has too few left for another. */
                const uint64_t all = stk__mixture_draws(m.mixture, s, n);
                if (all >= size[s] || epoch % (size[s] / all) == 0)
                    memset(times + 1000 * s, 0, 1000);
            }
            for (uint64_t p = 0; p < n; p++) {
                uint32_t s = 99;
                const uint64_t sample = at(&m, epoch, p, &s);
                assert_in_range(s, 0, SOURCES - 1);
                /* No sample comes again before each was there. */
                const uint64_t all = stk__mixture_draws(m.mixture, s, n);
                times[1000 * s + sample]++;
                assert_in_range(times[1000 * s + sample], 1,
                                all < size[s] ? 1 : draws[s] / size[s] + 1);
                draws[s]++;
                for (uint32_t k = 0; (p + 1) % slots == 0 && k < SOURCES; k++)
                    assert_int_equal(draws[k], (p + 1) / slots * m.mixture->counts[k]);
            }
            for (uint32_t s = 0; s < SOURCES; s++)
                assert_int_equal(draws[s], stk__mixture_draws(m.mixture, s, n));
        }
        free(times);
        end(&m);
    }
}

/* A place is the same whether it is reached in order or directly. */
static void random_access(void **state)
{
    uint64_t random = 4;

    for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
        const stk_loader_options o = options(shuffle, 9);
        mixed m, other;
        const char *spec = "mix:3*(synthetic:?size=50),(synthetic:?size=300)?stop=1000";
        begin(&m, *state, spec, &o);
        begin(&other, *state, spec, &o);
        uint64_t expected[2][1000], positions[1000];
        for (uint64_t p = 0; p < 1000; p++)
            positions[p] = p;
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            stk__order_epoch_set(&m.view, epoch);
            stk__order_indices(&m.view, positions, expected[epoch], 1000);
        }
        for (int i = 0; i < 1500; i++) {
            uint64_t p = test_random(&random) % 1000, epoch = test_random(&random) % 2, index;
            stk__order_epoch_set(&other.view, epoch);
            stk__order_indices(&other.view, &p, &index, 1);
            assert_int_equal(index, expected[epoch][p]);
        }
        end(&m);
        end(&other);
    }
}

/* Chi-square of n cells against equal expectations. */
static double chi_square(const uint64_t *cells, size_t n)
{
    double sum = 0, all = 0;

    for (size_t i = 0; i < n; i++)
        all += (double)cells[i];
    for (size_t i = 0; i < n; i++) {
        const double differs = (double)cells[i] - all / (double)n;
        sum += differs * differs / (all / (double)n);
    }
    return sum;
}

/* 99.99 % of such sums are less (Wilson and Hilferty). */
static double limit_of(size_t cells)
{
    const double k = (double)cells - 1;
    const double root = 1 - 2 / (9 * k) + 3.72 * sqrt(2 / (9 * k));

    return k * root * root * root;
}

/* Over many epochs: which sample comes first of a source, which source has a position, whatever
 * the rank. Two sources of equal weights have two ranks alike. */
static void chance(void **state)
{
    enum { SIZE = 20, EPOCHS = 4000, ROUNDS = SIZE };
    const stk_loader_options o = options(STK_SHUFFLE_FULL, 31);
    uint64_t first[2][SIZE] = {{0}}, even[2] = {0}, pairs[4] = {0};
    mixed m;

    begin(&m, *state, "mix:(synthetic:?size=20),(synthetic:?size=20)", &o);
    assert_int_equal(m.order.size, 2 * SIZE);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint32_t s, t;
        uint64_t sample = at(&m, epoch, epoch % ROUNDS * 2, &s);
        first[s][sample]++;
        even[s]++;
        sample = at(&m, epoch, epoch % ROUNDS * 2 + 1, &t);
        first[t][sample]++;
        assert_int_not_equal(s, t);
        at(&m, epoch, (epoch + 1) % ROUNDS * 2, &t);
        pairs[2 * s + t]++;
    }
    assert_true(chi_square(first[0], SIZE) < limit_of(SIZE));
    assert_true(chi_square(first[1], SIZE) < limit_of(SIZE));
    assert_true(chi_square(even, 2) < 15.2);
    assert_true(chi_square(pairs, 4) < limit_of(4));
    end(&m);
}

/* Sources of the same size do not go through their samples in the same order, nor do epochs. */
static void sources_differ(void **state)
{
    const stk_loader_options o = options(STK_SHUFFLE_FULL, 1);
    uint64_t samples[2][2][100], n[2][2] = {{0}};
    mixed m;

    begin(&m, *state, "mix:(synthetic:?size=100),(synthetic:?size=100)", &o);
    for (uint64_t epoch = 0; epoch < 2; epoch++)
        for (uint64_t p = 0; p < 200; p++) {
            uint32_t s;
            const uint64_t sample = at(&m, epoch, p, &s);
            samples[epoch][s][n[epoch][s]++] = sample;
        }
    assert_memory_not_equal(samples[0][0], samples[0][1], sizeof samples[0][0]);
    assert_memory_not_equal(samples[0][0], samples[1][0], sizeof samples[0][0]);
    end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_and_passes),
        cmocka_unit_test(random_access),
        cmocka_unit_test(chance),
        cmocka_unit_test(sources_differ),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
