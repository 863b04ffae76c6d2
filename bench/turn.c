/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moments between steady states: the first batch after create, the wait at the turn of an epoch
 * beside the waits within epochs, and restoring a state in the middle of an epoch. Milliseconds;
 * medians and maxima.
 */
#include "stream.h"

#define TRIES     20
#define MAX_WAITS (1 << 20)

struct waits {
    double *ms;
    size_t n;
};

static void add(struct waits *w, double seconds)
{
    if (w->n < MAX_WAITS)
        w->ms[w->n++] = seconds * 1e3;
}

static void print(const char *name, struct waits *w)
{
    double median = bench_percentile(w->ms, w->n, 50); /* sorts */

    printf(", \"%s_ms\": %.4f, \"%s_max_ms\": %.4f", name, median, name,
           w->n ? w->ms[w->n - 1] : 0);
}

/* All epochs of a loader: each wait belongs to the turn or to the inside of an epoch. */
static void time_turns(struct bench_stream *s, struct waits *turn, struct waits *within,
                       uint64_t epochs, struct bench_window *window)
{
    double start = bench_now(), cpu = bench_cpu();

    for (uint64_t epoch = 0; epoch < epochs;) {
        double asked = bench_now();
        stk_batch *batch = bench_stream_next(s);
        double wait = bench_now() - asked;

        epoch = stk_batch_epoch(batch);
        if (stk_batch_step(batch) != 0)
            add(within, wait);
        else if (epoch > 0)
            add(turn, wait);
        window->samples += stk_batch_count(batch);
        stk_batch_release(&batch);
    }
    window->samples_per_s = (double)window->samples / (bench_now() - start);
    window->cpu_s_per_1000 = (bench_cpu() - cpu) / (double)window->samples * 1000;
}

static void time_restores(struct bench_stream *s, struct waits *restore, struct waits *first)
{
    uint64_t steps = stk_loader_steps(s->loader);
    stk_loader_state state;
    stk_error err;

    stk_loader_get_state(s->loader, &state);
    for (uint64_t i = 0; i < TRIES; i++) {
        state.epoch = i;
        state.step = steps * (i % 7 + 1) / 9;
        double start = bench_now();
        bench_check(stk_loader_restore(s->loader, &state, &err), &err);
        add(restore, bench_now() - start);
        stk_batch *batch = bench_stream_next(s);
        add(first, bench_now() - start);
        if (stk_batch_step(batch) != state.step || stk_batch_epoch(batch) != state.epoch)
            bench_die("turn", "restored to another step");
        stk_batch_release(&batch);
    }
}

int main(int argc, char **argv)
{
    static double room[5][MAX_WAITS];
    struct waits create = {room[0], 0}, turn = {room[1], 0}, within = {room[2], 0},
                 restore = {room[3], 0}, restored = {room[4], 0};
    struct bench_window window = {0};
    struct bench_stream s;
    stk_loader_options options;
    char spec[4096];

    bench_known(argc, argv, "dataset epochs batch_size num_workers prefetch_factor memory_budget");
    snprintf(spec, sizeof spec, "mnist:%s/mnist", bench_data());
    const char *dataset = bench_text(argc, argv, "dataset", spec);
    stk_loader_options_init(&options);
    options.batch_size = 64;
    options.num_workers = 2;
    options.shuffle = STK_SHUFFLE_FULL;
    options.transforms = "normalize(mnist)";
    options.epochs = 0;
    bench_loader_options(argc, argv, &options);
    options.epochs = 0;

    bench_stream_open(&s, dataset, &options);
    for (int i = 0; i < TRIES; i++) {
        stk_error err;

        stk_loader_destroy(&s.loader);
        double start = bench_now();
        bench_check(stk_loader_create(s.dataset, &options, &s.loader, &err), &err);
        bench_stream_skip(&s);
        add(&create, bench_now() - start);
    }
    time_turns(&s, &turn, &within, (uint64_t)bench_number(argc, argv, "epochs", TRIES), &window);
    time_restores(&s, &restore, &restored);

    window.first_batch_s = bench_percentile(create.ms, create.n, 50) * 1e-3;
    bench_print("turn", &options, &window);
    print("first_batch", &create);
    print("turn_wait", &turn);
    print("step_wait", &within);
    print("restore", &restore);
    print("restored_batch", &restored);
    printf("}\n");
    bench_stream_close(&s);
    return 0;
}
