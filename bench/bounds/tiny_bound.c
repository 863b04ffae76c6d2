/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do of workload `tiny`: a shuffled gather of 28x28 uint8 samples, x * scale +
 * shift to float32, and the label, by `--workers` threads into a ring of `--ring` batches. No
 * loader: no epochs, no errors, no state, the order is a list made beforehand.
 */
#include "bounds/bound.h"

#define SAMPLES 60000
#define PIXELS  784
#define MEAN    0.1307f
#define STD     0.3081f

static struct {
    uint8_t *images, *labels;
    uint32_t *order;
    float *x[BOUND_MAX_RING];
    int64_t *y[BOUND_MAX_RING];
} all;

/* Built for this very machine, the compiler makes the widest vectors of it. */
static void convert(const uint8_t *restrict from, float *restrict to)
{
    const float scale = 1.0f / 255 / STD, shift = -MEAN / STD;

    for (size_t i = 0; i < PIXELS; i++)
        to[i] = (float)from[i] * scale + shift;
}

static void fill(const struct bound *bound, uint64_t step, size_t slot)
{
    uint64_t first = step * bound->batch;

    for (size_t i = 0; i < bound->batch; i++) {
        uint32_t index = all.order[(first + i) % SAMPLES];
        convert(all.images + (size_t)index * PIXELS, all.x[slot] + i * PIXELS);
        all.y[slot][i] = all.labels[index];
    }
}

static void prepare(const struct bound *bound)
{
    all.images = bound_need(malloc((size_t)SAMPLES * PIXELS));
    all.labels = bound_need(malloc(SAMPLES));
    all.order = bound_order(SAMPLES);
    for (size_t i = 0; i < (size_t)SAMPLES * PIXELS; i++)
        all.images[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < SAMPLES; i++)
        all.labels[i] = (uint8_t)(i % 10);
    for (size_t i = 0; i < bound->ring; i++) {
        all.x[i] = bound_buffer(bound->batch * PIXELS * sizeof(float));
        all.y[i] = bound_need(malloc(bound->batch * sizeof(int64_t)));
    }
}

int main(int argc, char **argv)
{
    struct bound bound;

    bench_known(argc, argv, "batch workers ring seconds");
    bound_init(&bound, argc, argv, "tiny_bound", 64);
    prepare(&bound);
    bound_run(&bound, "W3-tiny", 6400, fill);
    for (size_t i = 0; i < bound.ring; i++)
        free(all.x[i]), free(all.y[i]);
    free(all.images), free(all.labels), free(all.order);
    return 0;
}
