/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `save`: for how many steps the save of a checkpoint of 500 MB and more stops the
 * training of the model that it is of: an MLP of three layers of 4,608 (--width), Adam, batches of
 * 64. `blocked_steps` is the time that stk_trainer_save() takes over the median step; the first
 * save of a run, which has its memory taken in the background, and the median of the others. Of
 * ranks that mpirun started, which share the training out (--strategy), it is the longest of a
 * rank.
 */
#include "folder.h"
#include "join.h"
#include "training.h"

enum { EVERY = 8, SAVES = 4, STEPS = EVERY * (SAVES + 1), MOST = STEPS };

static struct {
    double steps[MOST], saves[SAVES], last;
    int num_steps, num_saves;
    char path[4200];
    double bytes;      /* of all files of the last */
    double figures[3]; /* the median step, the first save, the median of the others */
} seen;

static stk_status on_train_batch_end(stk_callback *self, stk_trainer *trainer, const stk_moment *at,
                                     stk_error *err)
{
    stk_status status = STK_OK;
    const double now = bench_now();

    (void)self;
    if (seen.last > 0 && seen.num_steps < MOST)
        seen.steps[seen.num_steps++] = now - seen.last;
    if (at->global_step % EVERY == 0 && seen.num_saves < SAVES) {
        status = stk_trainer_save(trainer, seen.path, false, NULL, err);
        seen.saves[seen.num_saves++] = bench_now() - now;
    }
    seen.last = bench_now();
    return status;
}

static stk_callback_ops saver = {.name = "saver", .on_train_batch_end = on_train_batch_end};

/* What of the command line counts. */
struct run {
    const char *folder, *strategy;
    int width;
    stk_collectives *ranks; /* NULL: this process is alone */
};

static void fit(stk_context *context, const struct run *run)
{
    static const int64_t shape[] = {28, 28, 1};
    stk_model_builder *builder;
    stk_model_options model;
    stk_optimizer_options optimizer;
    stk_loader_options loader;
    stk_trainer_options options;
    stk_trainer *trainer;
    stk_dataset *dataset;
    char layers[256];
    stk_error err;

    snprintf(layers, sizeof layers,
             "flatten, linear(%d), relu, linear(%d), relu, linear(%d), relu, linear(10)",
             run->width, run->width, run->width);
    bench_check(stk_dataset_open(context, "digits:?size=4096", &dataset, &err), &err);
    bench_check(stk_model_builder_create(context, shape, 3, &builder, &err), &err);
    bench_check(stk_model_builder_add(builder, layers, &err), &err);
    stk_model_options_init(&model);
    model.input_layout = 1;
    stk_optimizer_options_init(&optimizer);
    optimizer.name = STK_ADAM;
    stk_loader_options_init(&loader);
    loader.batch_size = 64;
    loader.transforms = "normalize(mnist)";
    stk_trainer_options_init(&options);
    options.max_steps = STEPS;
    options.default_root_dir = run->folder;
    options.logger = "false";
    options.strategy = run->strategy;
    bench_check(stk_trainer_create(context, &options, &trainer, &err), &err);
    if (run->ranks)
        bench_check(stk_trainer_set_strategy(trainer, stk_collectives_strategy(run->ranks), &err),
                    &err);
    bench_quiet(trainer, false);
    bench_add_callback(trainer, &saver);
    const stk_model_parts parts = {
        .struct_size = sizeof parts, .builder = builder, .model = &model, .optimizer = &optimizer};
    bench_fit(trainer, context, &parts, dataset, &loader);
    stk_trainer_destroy(&trainer);
    stk_model_builder_destroy(&builder);
    stk_dataset_close(&dataset);
}

static int add_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path, (void)at;
    if (type == FTW_F)
        seen.bytes += (double)st->st_size;
    return 0;
}

/* The folder of rank 0, and the time of the slowest. */
static void share(const struct run *run, void *data, uint64_t n, bool folder)
{
    const stk_strategy *s = run->ranks ? stk_collectives_strategy(run->ranks) : NULL;
    stk_error err;

    if (s && folder)
        bench_check(s->broadcast(s->state, data, n, NULL, &err), &err);
    else if (s)
        bench_check(s->reduce(s->state, data, n, STK_FLOAT64, STK_COMBINE_MAX, NULL, &err), &err);
}

static void print(void)
{
    const double step = seen.figures[0], first = seen.figures[1], later = seen.figures[2];

    printf(
        "{\"workload\": \"save\", \"peer\": \"stoker\", \"version\": \"stoker %s\", \"mb\": %.0f, "
        "\"step_ms\": %.2f, \"first_save_ms\": %.2f, \"save_ms\": %.2f, \"first_blocked_steps\": "
        "%.3f, \"blocked_steps\": %.3f}\n",
        stk_version(), seen.bytes * 1e-6, step * 1e3, first * 1e3, later * 1e3, first / step,
        later / step);
}

int main(int argc, char **argv)
{
    struct bench_folder folder = {.made = ""};
    char path[4096] = "", saved[4096 + 32];
    stk_context *context;
    stk_error err;

    bench_known(argc, argv, "root width strategy");
    bench_check(stk_context_create(NULL, &context, &err), &err);
    struct run run = {.folder = path,
                      .strategy = bench_text(argc, argv, "strategy", "auto"),
                      .width = (int)bench_number(argc, argv, "width", 4608),
                      .ranks = bench_join(context)};
    const bool first = !run.ranks || stk_collectives_strategy(run.ranks)->rank == 0;
    if (first) {
        bench_folder_open(&folder, bench_text(argc, argv, "root", NULL));
        snprintf(path, sizeof path, "%s", folder.path);
    }
    share(&run, path, sizeof path, true);
    snprintf(saved, sizeof saved, "%s/saved", path);
    snprintf(seen.path, sizeof seen.path, "%s/saved/saved.safetensors", path);
    fit(context, &run);
    seen.figures[0] = bench_percentile(seen.steps, (size_t)seen.num_steps, 50);
    seen.figures[1] = seen.saves[0];
    seen.figures[2] = bench_percentile(seen.saves + 1, (size_t)seen.num_saves - 1, 50);
    share(&run, seen.figures, 3, false);
    if (first && (nftw(saved, add_file, 16, FTW_PHYS) != 0 || seen.bytes == 0))
        bench_die(saved, "was not written");
    if (first)
        print();
    if (run.ranks)
        stk_collectives_close(&run.ranks);
    stk_context_destroy(&context);
    bench_folder_close(&folder);
    return 0;
}
