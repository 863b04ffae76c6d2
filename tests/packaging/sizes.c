/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the library with structs of the headers it is compiled with, which may be those of another
 * version (other_version.py): sizes FOLDER. Each lies before a page that nobody may touch, so that
 * one byte too many ends the program.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sizes.h"

stk_error err;

void *before_the_end(size_t size, size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size * n + page - 1) / page * page;
    char *memory =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED || mprotect(memory + room, page, PROT_NONE))
        exit(1);
    memset(memory, 0x5a, room); /* what nobody has set is seen */
    return memset(memory + room - size * n, 0, size * n);
}

/* Every option of a table can be set to what it is; one beyond the caller's struct is refused. */
static void set_all(const stk_option_table *table, void *options)
{
    size_t taken = 0;

    for (size_t i = 0; i < table->count; i++) {
        char text[256];
        if (table->options[i].type == STK_OPTION_STRING) { /* it would keep the text */
            taken++;
            continue;
        }
        stk_options_format(&table->options[i], options, text, sizeof text);
        if (*text && stk_options_set(table, options, table->options[i].name, text, &err) == STK_OK)
            taken++;
        else
            CHECK(!*text || strstr(err.text, "earlier version"));
    }
    CHECK(taken + 6 >= table->count / 2);
}

static void contexts(stk_context **out)
{
    stk_context_options *options = NEW(stk_context_options);
    SIZED(stk_cores, cores);
    SIZED(stk_memory_stats, memory);

    stk_context_options_init(options);
    options->compute_threads = 1;
    OK(stk_context_create(options, out, &err));
    stk_context_cores(*out, cores);
    stk_context_memory(*out, memory);
    CHECK(cores->usable >= 1 && cores->compute == 1);
    CHECK(memory->struct_size == sizeof *memory);
}

static void arrays(stk_context *ctx, const char *folder)
{
    stk_array_writer_options *options = NEW(stk_array_writer_options);
    stk_array_options *how = NEW(stk_array_options);
    SIZED(stk_array_stored, stored);
    SIZED(stk_array_stats, stats);
    SIZED(stk_object_info, info);
    const int64_t shape[] = {4}, start[] = {0};
    const float values[] = {1, 2, 3, 4};
    stk_array_writer *writer = NULL;
    stk_array *array = NULL;
    stk_store *store = NULL;
    char url[4096];

    stk_array_writer_options_init(options);
    options->dtype = STK_FLOAT32;
    options->rank = 1;
    options->shape = options->chunk_shape = shape;
    snprintf(url, sizeof url, "%s/a.zarr", folder);
    OK(stk_array_writer_create(ctx, url, options, &writer, &err));
    OK(stk_array_writer_write(writer, start, shape, values, &err));
    OK(stk_array_writer_finish(&writer, &err));
    stk_array_options_init(how);
    set_all(stk_option_table_find("array"), how);
    OK(stk_array_open(ctx, url, how, &array, &err));
    OK(stk_array_stored_count(array, stored, &err));
    OK(stk_array_stats_compute(array, NULL, NULL, stats, &err));
    CHECK(stored->objects == 1 && stats->values == 4);
    OK(stk_array_stats_save(array, NULL, stats, &err));
    OK(stk_array_stats_load(array, NULL, stats, &err));
    CHECK(stats->values == 4 && stats->struct_size == sizeof *stats);
    OK(stk_store_open(ctx, url, &store, NULL, 0, &err));
    OK(stk_store_stat(store, "zarr.json", NULL, info, &err));
    CHECK(info->size > 100);
    stk_store_close(&store);
    stk_array_close(&array);
}

static double window_seconds;

static void took(void *user, size_t i, const stk_chunks_measured *measured)
{
    (void)user;
    window_seconds = i == 0 ? measured->seconds : 0;
}

/* Windows of the array in the folder, and the folder. */
static void trials(stk_context *ctx, const char *folder)
{
    stk_chunks_question *question = NEW(stk_chunks_question);
    stk_storage_measure_options *options = NEW(stk_storage_measure_options);
    stk_chunks_trial *trial = NEW(stk_chunks_trial);
    SIZED(stk_storage_figures, figures);
    SIZED(stk_chunks_sample, sample);
    const int64_t chunk[] = {2};
    stk_array *array = NULL;
    char url[4096];

    snprintf(url, sizeof url, "%s/a.zarr", folder);
    stk_chunks_question_init(question);
    question->rank = 1;
    question->window[0] = 2;
    question->extent[0] = 4;
    question->itemsize = sizeof(float);
    trial->struct_size = sizeof *trial;
    trial->sample = 1024;
    trial->count = 1;
    trial->chunks = chunk;
    trial->measured = took;
    OK(stk_array_open(ctx, url, NULL, &array, &err));
    OK(stk_chunks_measure(ctx, array, question, trial, sample, &err));
    CHECK(window_seconds > 0 && sample->bytes == 4 * sizeof(float));
    stk_array_close(&array);
    options->struct_size = sizeof *options;
    OK(stk_storage_measure(ctx, url, options, figures, &err));
    CHECK(figures->latency > 0 && figures->struct_size == sizeof *figures);
}

static void chunks(void)
{
    stk_chunks_question *question = NEW(stk_chunks_question);
    SIZED(stk_chunks_answer, answer);
    const int64_t chunk[] = {4, 16};
    stk_chunks_counts counts;
    stk_chunks_cost cost;

    stk_chunks_question_init(question);
    question->rank = 2;
    question->window[0] = question->window[1] = 8;
    question->extent[0] = question->extent[1] = 64;
    OK(stk_chunks_count(question, chunk, &counts, &err));
    OK(stk_chunks_predict(question, chunk, &cost, &err));
    OK(stk_chunks_advise(question, answer, &err));
    CHECK(counts.chunk_bytes == 64 && answer->num_ranked >= 1);
    CHECK(stk_chunks_regret(answer, &cost) > -1);
}

/* ---- A dataset of one's own: fields, needs, samples and values in arrays ---- */

enum { OWN_SIZE = 24 };

typedef struct own_state {
    stk_store *store;
    int closed;
} own_state;

static void close_own(stk_dataset *dataset)
{
    own_state *self = stk_dataset_self(dataset);

    stk_store_close(&self->store);
    self->closed++;
}

static stk_status locate_own(stk_dataset *dataset, const uint64_t *indices, size_t n,
                             stk_locator *to, stk_error *e)
{
    SIZED(stk_need, need);

    (void)dataset, (void)e;
    need->length = 2;
    for (size_t i = 0; i < n; i++) {
        need->offset = 2 * indices[i];
        if (to->add(to, i, need) != STK_OK)
            return STK_EINVAL;
    }
    return STK_OK;
}

static size_t object_own(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                         size_t size)
{
    (void)object;
    *store = ((own_state *)stk_dataset_self(dataset))->store;
    return (size_t)snprintf(key, size, "data");
}

static void prepare_own(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++) {
        stk_sample *sample = stk_sample_at(samples, i);
        stk_value *second = stk_sample_value(sample, 1);

        *(uint8_t *)second->out = (uint8_t)(3 * sample->index);
        second->data = second->out;
        stk_sample_value(sample, 0)->data = sample->needs[0].data;
    }
}

static void read_own(stk_dataset *dataset)
{
    stk_loader_options *options = NEW(stk_loader_options);
    SIZED(stk_tensor, pair);
    SIZED(stk_tensor, one);
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    uint32_t n = 0;

    stk_loader_options_init(options);
    options->batch_size = OWN_SIZE;
    OK(stk_loader_create(dataset, options, &loader, &err));
    const stk_field *fields = stk_loader_fields(loader, &n);
    CHECK(n == 3 && !strcmp(stk_field_at(fields, 1)->name, "one") &&
          !strcmp(stk_field_at(fields, 2)->name, "index"));
    OK(stk_loader_next(loader, -1, &batch, &err));
    OK(stk_batch_field(batch, 0, pair));
    OK(stk_batch_find(batch, "one", one));
    for (int i = 0; i < OWN_SIZE; i++) {
        CHECK(((uint8_t *)pair->data)[2 * i + 1] == 2 * i + 1);
        CHECK(((uint8_t *)one->data)[i] == 3 * i);
    }
    CHECK(pair->struct_size == sizeof *pair && pair->rank == 2 && one->rank == 1);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
}

static void datasets(stk_context *ctx)
{
    SIZED(stk_dataset_info, info);
    SIZED(stk_dataset_info, found);
    SIZED(stk_dataset_ops, ops);
    stk_field *fields = before_the_end(sizeof *fields, 2);
    uint8_t bytes[2 * OWN_SIZE];
    own_state state = {NULL, 0};
    stk_dataset *dataset = NULL;

    for (int i = 0; i < 2; i++) {
        fields[i].struct_size = sizeof *fields;
        fields[i].name = i ? "one" : "a name of much more than the thirty-one bytes of once";
        fields[i].dtype = STK_UINT8;
    }
    fields[0].rank = 1;
    fields[0].shape[0] = 2;
    for (int i = 0; i < 2 * OWN_SIZE; i++)
        bytes[i] = (uint8_t)i;
    OK(stk_store_open(ctx, "mem://own", &state.store, NULL, 0, &err));
    OK(stk_store_put(state.store, "data", bytes, sizeof bytes, NULL, &err));
    ops->name = "own";
    ops->close = close_own;
    ops->locate = locate_own;
    ops->object = object_own;
    ops->prepare = prepare_own;
    info->size = OWN_SIZE;
    info->fields = fields;
    info->num_fields = 2;
    OK(stk_dataset_create(ctx, ops, &state, info, &dataset, &err));
    stk_dataset_get_info(dataset, found);
    CHECK(found->size == OWN_SIZE && found->struct_size == sizeof *found);
    CHECK(!strcmp(stk_field_at(found->fields, 1)->name, "one"));
    read_own(dataset);
    stk_dataset_close(&dataset);
    CHECK(state.closed == 1);
}

static void loaders(stk_dataset *dataset)
{
    stk_loader_options *options = NEW(stk_loader_options);
    SIZED(stk_loader_stats, stats);
    SIZED(stk_bad_samples, bad);
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    char text[512];

    stk_loader_options_init(options);
    CHECK(options->prefetch_factor >= 1);
    set_all(stk_option_table_find("loader"), options);
    options->batch_size = 8;
    OK(stk_loader_create(dataset, options, &loader, &err));
    OK(stk_loader_next(loader, -1, &batch, &err));
    CHECK(stk_batch_count(batch) == 8);
    stk_batch_release(&batch);
    stk_loader_get_stats(loader, stats);
    stk_loader_get_bad_samples(loader, bad);
    CHECK(stats->memory_budget > 0 && stats->struct_size == sizeof *stats && bad->samples == 0);
    CHECK(stk_bad_samples_format(bad, text, sizeof text) == 0);
    stk_loader_destroy(&loader);
    /* One that was never set is told from an old one. */
    options->struct_size = 0;
    CHECK(stk_loader_create(dataset, options, &loader, &err) == STK_EINVAL &&
          strstr(err.text, "struct_size 0"));
}

static void plans(stk_context *ctx, const stk_bench_result *result, const stk_figures *figures)
{
    SIZED(stk_bench_plan_options, how);
    SIZED(stk_bench_setting, setting);
    SIZED(stk_bench_row, row);
    SIZED(stk_bench_summary, summary);
    SIZED(stk_bench_source, source);
    SIZED(stk_verdict, verdict);
    stk_bench_plan *plan = NULL;
    stk_config *config = NULL;

    stk_options_init(stk_option_table_find("source"), source, sizeof *source);
    OK(stk_config_create(ctx, &config, &err));
    OK(stk_config_set(config, "dataset", "digits:", false, &err));
    OK(stk_bench_plan_create(ctx, config, how, &plan, &err));
    stk_bench_plan_get(plan, 0, setting);
    CHECK(!strcmp(setting->dataset, "digits:") && setting->struct_size == sizeof *setting);
    OK(stk_bench_plan_add(plan, 0, 0, result, figures, &err));
    stk_bench_plan_row(plan, 0, row);
    stk_bench_plan_judge(plan, 0, verdict);
    stk_bench_plan_summary(plan, summary);
    CHECK(row->ended && row->struct_size == sizeof *row);
    CHECK(summary->best == 0 && summary->struct_size == sizeof *summary);
    stk_bench_plan_destroy(&plan);
    stk_config_destroy(&config);
}

static void measures(stk_context *ctx)
{
    stk_loader_options *loader = NEW(stk_loader_options);
    stk_bench_options *options = NEW(stk_bench_options);
    SIZED(stk_bench_setting, setting);
    SIZED(stk_bench_result, result);
    SIZED(stk_figures, figures);
    stk_bench *bench = NULL;

    stk_loader_options_init(loader);
    stk_bench_options_init(options);
    set_all(stk_option_table_find("bench"), options);
    options->num_epochs = 3;
    options->train_step_time = 0;
    setting->dataset = "digits:?size=64";
    setting->loader = loader;
    setting->bench = options;
    OK(stk_bench_create(ctx, setting, &bench, &err));
    OK(stk_bench_run(bench, result, figures, &err));
    CHECK(figures->steps >= 2 && figures->struct_size == sizeof *figures);
    CHECK(result->delivered >= 3 * 64 && result->struct_size == sizeof *result);
    stk_bench_destroy(&bench);
    plans(ctx, result, figures);
}

/* A setting simulated from the figures of a run alone. */
static void predicts(stk_context *ctx, stk_figures *figures)
{
    SIZED(stk_recording, recording);
    SIZED(stk_prediction, prediction);
    SIZED(stk_verdict, verdict);
    stk_what_if *what = NEW(stk_what_if);
    char text[1024];

    stk_what_if_init(what);
    set_all(stk_option_table_find("what_if"), what);
    OK(stk_what_if_parse(ctx, "num_workers=2", what, &err));
    CHECK(what->num_workers == 2 && what->struct_size == sizeof *what);
    CHECK(stk_what_if_format(what, text, sizeof text) > 0 && strcmp(text, "num_workers=2") == 0);
    figures->num_workers = 1;
    figures->batch_size = 1;
    figures->prepare_busy = 1;
    recording->figures = figures;
    OK(stk_predict(ctx, recording, what, prediction, &err));
    CHECK(prediction->struct_size == sizeof *prediction && prediction->samples_per_s > 9);
    CHECK(stk_prediction_format(prediction, text, sizeof text) > 0);
    stk_judge_recording(ctx, recording, verdict);
    CHECK(verdict->struct_size == sizeof *verdict);
}

static void judges(stk_context *ctx)
{
    SIZED(stk_figures, figures);
    SIZED(stk_verdict, verdict);
    SIZED(stk_storage_figures, storage);
    SIZED(stk_storage_answer, answer);
    char text[8192];

    figures->steps = figures->samples = 10;
    figures->wall = 1;
    figures->step_time = 0.1;
    figures->step_share = 1;
    figures->ranks = figures->usable_cores = 1;
    stk_judge(figures, verdict);
    CHECK(verdict->limit == STK_LIMIT_STEP && verdict->struct_size == sizeof *verdict);
    CHECK(stk_verdict_format(verdict, text, sizeof text) > 0);
    storage->latency = 0.02;
    storage->one_per_s = 50;
    storage->many_per_s = 800;
    stk_storage_judge(storage, answer);
    CHECK(answer->storage == STK_STORAGE_OBJECTS);
    predicts(ctx, figures);
}

static void pictures(stk_context *ctx, stk_dataset *dataset, const char *folder)
{
    stk_survey_options *options = NEW(stk_survey_options);
    stk_convert_options *how = NEW(stk_convert_options);
    SIZED(stk_survey, survey);
    SIZED(stk_conversion_report, report);
    stk_conversion *conversion = NULL;
    char to[4096];

    stk_survey_options_init(options);
    options->num_workers = 1;
    OK(stk_survey_run(dataset, options, NULL, NULL, NULL, survey, &err));
    CHECK(survey->pictures == 64 && survey->struct_size == sizeof *survey);
    stk_convert_options_init(how);
    set_all(stk_option_table_find("convert"), how);
    snprintf(to, sizeof to, "%s/idx", folder);
    OK(stk_conversion_create(ctx, "digits:?size=64", to, &conversion, &err));
    OK(stk_conversion_run(conversion, how, NULL, report, &err));
    CHECK(report->encoded > 0 && report->struct_size == sizeof *report);
    stk_conversion_destroy(&conversion);
}

static stk_status on_train_end(stk_callback *self, stk_trainer *t, const stk_moment *at,
                               stk_error *e)
{
    (void)t, (void)e;
    ++*(int *)self;
    return at->task == STK_TASK_FIT ? STK_OK : STK_EINVAL;
}

static stk_status make_callback(stk_context *ctx, const void *options, stk_callback **out,
                                stk_error *e)
{
    static int calls;

    (void)ctx, (void)options, (void)e;
    *out = (stk_callback *)&calls;
    return STK_OK;
}

static void end_callback(stk_callback *self)
{
    (void)self;
}

static void trains(stk_context *ctx, stk_dataset *dataset, const char *folder)
{
    const int64_t shape[] = {1, 28, 28};
    stk_trainer_options *options = NEW(stk_trainer_options);
    stk_model_options *model = NEW(stk_model_options);
    stk_optimizer_options *optimizer = NEW(stk_optimizer_options);
    stk_schedule *schedule = NEW(stk_schedule);
    stk_model_module_options *module_options = NEW(stk_model_module_options);
    stk_loader_options *loader = NEW(stk_loader_options);
    stk_loader_source *from = before_the_end(sizeof *from, 3);
    SIZED(stk_model_parts, recipe);
    SIZED(stk_trainer_data, data);
    SIZED(stk_callback_ops, watch);
    SIZED(stk_trainer_times, times);
    SIZED(stk_trainer_progress, progress);
    SIZED(stk_loader_stats, begin);
    SIZED(stk_loader_stats, end);
    SIZED(stk_model_plan, plan);
    SIZED(stk_model_layer, layer);
    SIZED(stk_model_fields, found);
    SIZED(stk_weights_options, weights);
    SIZED(stk_dataset_info, info);
    stk_model_builder *builder = NULL;
    stk_callback *watcher = NULL;
    stk_trainer *trainer = NULL;
    stk_module *module = NULL;

    stk_loader_options_init(loader);
    loader->batch_size = 16;
    loader->transforms = "normalize(mnist)";
    for (int i = 0; i < 3; i++) {
        from[i].struct_size = sizeof *from;
        from[i].dataset = dataset;
        from[i].options = loader;
    }
    data->train = &from[0];
    data->val = &from[1];
    data->num_val = 2;
    stk_model_options_init(model);
    model->input_layout = 1;
    stk_optimizer_options_init(optimizer);
    optimizer->name = STK_ADAM;
    stk_schedule_init(schedule);
    schedule->name = STK_SCHEDULE_COSINE;
    schedule->t_max = 8;
    stk_model_module_options_init(module_options);
    set_all(stk_option_table_find("model"), model);
    set_all(stk_option_table_find("optimizer"), optimizer);
    set_all(stk_option_table_find("lr_scheduler"), schedule);
    set_all(stk_option_table_find("module"), module_options);
    OK(stk_model_builder_create(ctx, shape, 3, &builder, &err));
    OK(stk_model_builder_add(builder, "flatten, linear(8), relu, linear(10)", &err));
    recipe->builder = builder;
    recipe->model = model;
    recipe->optimizer = optimizer;
    recipe->schedule = schedule;
    OK(stk_model_module_create(ctx, recipe, &module, &err));
    stk_dataset_get_info(dataset, info);
    stk_model_fields_find(info->fields, info->num_fields, module_options, found);
    CHECK(found->input == -1 && found->target == 1 && found->struct_size == sizeof *found);
    CHECK(stk_weights_convert(ctx, "none.pth", "none.safetensors", weights, NULL, &err) ==
          STK_ENOENT);
    stk_trainer_options_init(options);
    set_all(stk_option_table_find("trainer"), options);
    options->max_epochs = 1;
    options->logger = "false";
    options->default_root_dir = folder;
    options->enable_checkpointing = STK_SWITCH_FALSE;
    OK(stk_trainer_create(ctx, options, &trainer, &err));
    watch->name = "watch";
    watch->create = make_callback;
    watch->destroy = end_callback;
    watch->on_train_end = on_train_end;
    OK(stk_trainer_add_callback(trainer, watch, NULL, &watcher, &err));
    OK(stk_trainer_fit(trainer, module, data, NULL, &err));
    stk_trainer_get_times(trainer, times);
    stk_trainer_get_progress(trainer, progress);
    stk_trainer_get_loader_stats(trainer, begin, end);
    CHECK(*(int *)watcher == 1 && times->wall > 0 && progress->struct_size == sizeof *progress);
    CHECK(end->memory_budget > 0 && times->struct_size == sizeof *times);
    stk_model *made = stk_model_module_model(module);
    stk_model_get_plan(made, plan);
    CHECK(stk_model_get_layer(made, 0, layer) && layer->struct_size == sizeof *layer);
    stk_trainer_destroy(&trainer);
    stk_module_destroy(&module);
    stk_model_builder_destroy(&builder);
}

static void recipes(stk_context *ctx, const char *folder)
{
    const char text[] = "loader: {batch_size: 16, num_workers: 0, transforms: normalize(mnist)}\n"
                        "model: {layers: 'flatten, linear(10)'}\n"
                        "trainer: {max_epochs: 1, logger: 'false', enable_checkpointing: false}\n";
    SIZED(stk_recipe_options, options);
    SIZED(stk_recipe_parts, parts);
    SIZED(stk_recipe_tested, tested);
    SIZED(stk_training_events_options, log_options);
    SIZED(stk_bench_result, result);
    SIZED(stk_figures, figures);
    SIZED(stk_verdict, verdict);
    stk_profile_options *profile_options = NEW(stk_profile_options);
    SIZED(stk_profile_summary, summary);
    stk_training_events *log = NULL;
    stk_profile *profile = NULL;
    stk_config *config = NULL;
    stk_recipe *recipe = NULL;

    OK(stk_config_create(ctx, &config, &err));
    OK(stk_config_load_text(config, "sizes.yaml", text, sizeof text - 1, &err));
    OK(stk_config_set(config, "data.dataset", "digits:?size=64", false, &err));
    OK(stk_config_set(config, "trainer.default_root_dir", folder, false, &err));
    options->tasks = STK_RECIPE_FIT;
    OK(stk_recipe_create(ctx, config, options, &recipe, &err));
    stk_recipe_get_parts(recipe, parts);
    CHECK(parts->struct_size == sizeof *parts && parts->trainer && parts->module);
    CHECK(strcmp(parts->dataset, "digits:?size=64") == 0);
    OK(stk_training_events_create(parts->trainer, log_options, &log, &err));
    stk_profile_options_init(profile_options);
    profile_options->profiler = "simple";
    profile_options->dirpath = folder;
    profile_options->filename = "sizes";
    OK(stk_profile_create(parts->trainer, profile_options, &profile, &err));
    OK(stk_trainer_fit(parts->trainer, parts->module, parts->data, NULL, &err));
    OK(stk_recipe_test(recipe, tested, &err));
    CHECK(tested->struct_size == sizeof *tested);
    OK(stk_profile_summarize(profile, 1, NULL, summary, &err));
    CHECK(summary->batches == 3 && summary->struct_size == sizeof *summary);
    OK(stk_profile_close(&profile, &err));
    stk_training_events_judge(log, parts->data->train, figures, verdict);
    CHECK(figures->steps == 4 && figures->batch_size == 16);
    CHECK(figures->struct_size == sizeof *figures && verdict->struct_size == sizeof *verdict);
    OK(stk_training_events_end(log, &err));
    stk_recipe_destroy(&recipe);
    stk_training_events_destroy(&log);
    options->tasks = STK_RECIPE_FIT | STK_RECIPE_TEST;
    OK(stk_recipe_create(ctx, config, options, &recipe, &err));
    OK(stk_recipe_measure(recipe, result, figures, &err));
    CHECK(result->training.epochs == 1 && result->training.epoch_mean > 0);
    CHECK(result->struct_size == sizeof *result);
    stk_recipe_destroy(&recipe);
    stk_config_destroy(&config);
}

int main(int argc, char **argv)
{
    stk_context *ctx = NULL;
    stk_dataset *dataset = NULL;

    if (argc != 2)
        return 2;
    contexts(&ctx);
    OK(stk_dataset_open(ctx, "digits:?size=64", &dataset, &err));
    arrays(ctx, argv[1]);
    sizes_drivers(ctx, argv[1]);
    trials(ctx, argv[1]);
    chunks();
    datasets(ctx);
    loaders(dataset);
    judges(ctx);
    measures(ctx);
    pictures(ctx, dataset, argv[1]);
    recipes(ctx, argv[1]);
    trains(ctx, dataset, argv[1]);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    return 0;
}
