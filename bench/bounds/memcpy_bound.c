/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do of workload `engine`: one thread copies samples of `--bytes` into a ring
 * of batches, sample by sample. `--source` of them lie in memory and are taken in shuffled order: 1
 * is what `synthetic:` does, whose samples share one template; 60000 gathers from MNIST's size. No
 * threads, no loader.
 */
#include "bounds/bound.h"

int main(int argc, char **argv)
{
    bench_known(argc, argv, "batch bytes source ring seconds");
    size_t batch = (size_t)bench_number(argc, argv, "batch", 256);
    size_t bytes = (size_t)bench_number(argc, argv, "bytes", 784);
    size_t source = (size_t)bench_number(argc, argv, "source", 1);
    size_t ring = (size_t)bench_number(argc, argv, "ring", 5);
    double seconds = bench_number(argc, argv, "seconds", 5);

    if (!batch || !bytes || !source || !ring)
        bench_die("memcpy_bound", "sizes from 1");
    uint8_t *from = bound_need(malloc(source * bytes));
    uint8_t *to = bound_need(malloc(ring * batch * bytes));
    uint32_t *order = bound_order(source);
    memset(from, 1, source * bytes);
    memset(to, 0, ring * batch * bytes);

    uint64_t samples = 0;
    size_t at = 0, slot = 0;
    double cpu = bench_cpu(), opened = bench_now(), now = opened;
    for (; now - opened < seconds; now = bench_now()) {
        uint8_t *row = to + slot * batch * bytes;

        for (size_t i = 0; i < batch; i++) {
            memcpy(row + i * bytes, from + order[at] * bytes, bytes);
            at = at + 1 == source ? 0 : at + 1;
        }
        slot = slot + 1 == ring ? 0 : slot + 1;
        samples += batch;
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    cpu = bench_cpu() - cpu;
    printf("{\"workload\": \"engine\", \"peer\": \"bound\", \"version\": \"C\", "
           "\"config\": {\"batch\": %zu, \"bytes\": %zu}, \"samples_per_s\": %.2f, "
           "\"cpu_s_per_1000\": %.6f, \"first_batch_s\": 0, \"peak_rss_mib\": %.0f, "
           "\"n_samples\": %llu, \"gb_per_s\": %.3f}\n",
           batch, bytes, (double)samples / (now - opened), cpu / (double)samples * 1000,
           bench_peak_rss_mib(), (unsigned long long)samples,
           (double)samples * (double)bytes / (now - opened) / 1e9);
    free(from), free(to), free(order);
    return 0;
}
