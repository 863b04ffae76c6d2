/* SPDX-License-Identifier: Apache-2.0 */
/* Every public function with a handle, called in children of processes at work: the table that
 * scripts/forks.py holds against the headers. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_world.h"
#include "measure/measure.h"
#include "measure/read.h"
#include "nn/nn.h"

#include <stoker/arrow.h>
#include <stoker/checkpoint.h>

/* Where the child stands, for the parent to name it. */
static const char *volatile *at;
static unsigned wrong;

#define STEP(function)  (*at = #function)
#define WRONG(function) (wrong++, dprintf(2, "in a child: %s\n", #function))
/* Refused by a status. */
#define REFUSED(function, ...)                                                                     \
    (STEP(function), function(__VA_ARGS__) == STK_EFORK ? (void)0 : (void)WRONG(function))
/* Returns, and then this holds. */
#define RETURNS(function, condition, ...)                                                          \
    (STEP(function), function(__VA_ARGS__), (condition) ? (void)0 : (void)WRONG(function))
/* Gives nothing. */
#define NOTHING(function, ...)                                                                     \
    (STEP(function), function(__VA_ARGS__) ? (void)WRONG(function) : (void)0)

static void line(void *user, const char *name, const char *value)
{
    (void)user;
    (void)name;
    (void)value;
}

static stk_status each(void *user, const char *key, const stk_object_info *info)
{
    (void)user;
    (void)key;
    (void)info;
    return STK_OK;
}

static void call_stores(world *w)
{
    stk_store_ops store = {.struct_size = sizeof store};
    stk_dataset_ops dataset = {.struct_size = sizeof dataset};
    stk_transform_ops transform = {.struct_size = sizeof transform};
    stk_object_info info = {.struct_size = sizeof info};
    stk_put *put;
    stk_mirror *mirror;
    stk_store *opened;
    const stk_dataset_info dataset_info = {.struct_size = sizeof dataset_info};
    stk_dataset *made;
    stk_device *made_device;
    void *tensor = NULL;
    stk_arrow_schema arrow_schema;
    stk_arrow_array arrow_array;
    stk_loader_description described = {.struct_size = sizeof described};
    stk__counter *counter;
    stk__event_trace *trace;
    stk_report *report;
    stk_event_log *log;
    stk_conversion *conversion;
    char byte, key[300];
    const double half[] = {0.5, 0.5};
    const uint64_t index = 0;

    const stk_driver_head *driver;
    REFUSED(stk_driver_find, w->ctx, STK_DRIVER_STORE, "file", &driver, NULL);
    NOTHING(stk_driver_at, w->ctx, STK_DRIVER_STORE, 0);
    NOTHING(stk_plugin_at, w->ctx, 0);
    REFUSED(stk_plugin_load, w->ctx, "no.so", NULL);
    REFUSED(stk_plugin_load_listed, w->ctx, w->config, true, NULL);
    REFUSED(stk_driver_add, w->ctx, STK_DRIVER_STORE, &store, NULL);
    REFUSED(stk_driver_add, w->ctx, STK_DRIVER_DATASET, &dataset, NULL);
    REFUSED(stk_driver_add, w->ctx, STK_DRIVER_TRANSFORM, &transform, NULL);
    REFUSED(stk_store_open, w->ctx, w->folder, &opened, key, sizeof key, NULL);
    REFUSED(stk_store_read, w->store, "f", 0, 1, &byte, NULL);
    REFUSED(stk_store_stat, w->store, "f", NULL, &info, NULL);
    REFUSED(stk_store_describe, w->store, "", line, NULL, NULL);
    REFUSED(stk_store_list, w->store, "", NULL, each, NULL, NULL);
    REFUSED(stk_store_put, w->store, "g", "x", 1, NULL, NULL);
    REFUSED(stk_put_open, w->ctx, "mem://fork/put", NULL, &put, NULL);
    REFUSED(stk_put_bytes, w->ctx, "mem://fork/put", "x", 1, NULL, NULL);
    REFUSED(stk_mirror_open, w->ctx, "mem://fork/log", &mirror, NULL);
    REFUSED(stk_mirror_flush, w->mirror, true, NULL);
    RETURNS(stk_mirror_path, true, w->mirror);
    REFUSED(stk_dataset_open, w->ctx, "digits:", &made, NULL);
    REFUSED(stk_dataset_open_with_nulls, w->ctx, "digits:", &made, NULL);
    REFUSED(stk_batch_dlpack, w->batch, 0, 0, &tensor, NULL);
    REFUSED(stk_batch_export_arrow, w->batch, &arrow_schema, &arrow_array, NULL);
    REFUSED(stk_batch_detach, &w->batch, NULL);
    REFUSED(stk_loader_describe, w->dataset, NULL, &described, NULL, 0, NULL);
    REFUSED(stk_dataset_create, w->ctx, &dataset, NULL, &dataset_info, &made, NULL);
    REFUSED(stk_device_create, w->ctx, NULL, NULL, &made_device, NULL);
    REFUSED(stk_dataset_range, &w->dataset, 0, 1, NULL);
    REFUSED(stk_dataset_subset, &w->dataset, &index, 1, NULL);
    REFUSED(stk_dataset_random_split, &w->dataset, half, 2, 0, 1, NULL);
    REFUSED(stk_dataset_describe, w->dataset, line, NULL, NULL);
    stk_survey_options options;
    stk_survey survey = {.struct_size = sizeof survey};
    stk_survey_options_init(&options);
    REFUSED(stk_survey_run, w->dataset, &options, NULL, NULL, NULL, &survey, NULL);
    REFUSED(stk_conversion_create, w->ctx, "digits:", w->out, &conversion, NULL);
    REFUSED(stk_conversion_run, w->conversion, NULL, NULL, NULL, NULL);
    REFUSED(stk_event_log_open, w->ctx, w->path, &log, NULL);
    RETURNS(stk_event_log_write, true, w->log, "x", NULL, 0, STK_NO_DURATION, NULL);
    RETURNS(stk_event_log_sample, true, w->log, 0, 0, 0, 1, 2);
    const stk_figures figures = {.struct_size = sizeof figures, .steps = 1};
    RETURNS(stk__event_log_verdict, true, w->log, &figures);
    REFUSED(stk__event_trace_open, w->ctx, w->path, 1, &trace, NULL);
    RETURNS(stk__event_trace_step, true, w->trace, 0, 0, 1, 2);
    REFUSED(stk__counter_open, w->ctx, &counter, NULL);
    const stk_loader_options loader = {.struct_size = sizeof loader};
    stk_figures measured = {.struct_size = sizeof measured, .steps = 1, .bytes_decoded = 1};
    stk_bench_setting setting = {.struct_size = sizeof setting, .dataset = "digits:"};
    stk_bench_result result = {.struct_size = sizeof result};
    stk_meter *meter;
    stk_bench *bench;
    REFUSED(stk_meter_open, w->ctx, w->loader, &loader, &meter, NULL);
    stk_live *live;
    stk_live_server *server;
    stk_live_state seen = {.struct_size = sizeof seen, .pid = 1};
    stk_heartbeat *heartbeat;
    REFUSED(stk_heartbeat_create, w->ctx, 1, &heartbeat, NULL);
    REFUSED(stk_heartbeat_listen, w->heartbeat, "localhost", NULL);
    REFUSED(stk_heartbeat_open, w->ctx, "/proc/self/fd/0", 0, &heartbeat, NULL);
    REFUSED(stk_live_open, w->ctx, "x", "x", &live, NULL);
    RETURNS(stk_live_get, seen.pid == 0, w->live, &seen);
    REFUSED(stk_live_serve, w->live, &w->address, &server, NULL);
    RETURNS(stk_meter_stop, true, w->meter);
    RETURNS(stk_meter_go_on, true, w->meter);
    RETURNS(stk_meter_get, measured.steps == 0, w->meter, &measured);
    REFUSED(stk_bench_create, w->ctx, &setting, &bench, NULL);
    REFUSED(stk_bench_run, w->bench, &result, &measured, NULL);
    stk_bench_plan *plan;
    REFUSED(stk_bench_plan_create, w->ctx, w->config, NULL, &plan, NULL);
    REFUSED(stk_bench_plan_add, w->plan, 0, 0, &result, &measured, NULL);
    stk_tune_run next = {.struct_size = sizeof next};
    stk_tune *tune;
    REFUSED(stk_tune_create, w->ctx, w->plan, NULL, &tune, NULL);
    REFUSED(stk_tune_next, w->tune, NULL, &next, NULL);
    REFUSED(stk_tune_log, w->tune, w->path, NULL);
    REFUSED(stk_tune_write, w->tune, NULL, NULL, NULL);
    REFUSED(stk_report_create, w->ctx, &report, NULL);
    REFUSED(stk_report_read, w->report, w->path, NULL);
    REFUSED(stk__report_begin, w->report, "x", NULL);
    REFUSED(stk__report_feed, w->report, "x", 1, NULL);
    REFUSED(stk__report_end, w->report, NULL);
    const stk_report_comparison *all;
    REFUSED(stk_report_compare, w->report, &all, NULL);
    const char *charts;
    size_t length;
    REFUSED(stk_report_charts, w->report, &charts, &length, NULL);
    const stk_recording recording = {.struct_size = sizeof recording, .figures = &measured};
    stk_prediction predicted = {.struct_size = sizeof predicted};
    stk_what_if what;
    stk_what_if_init(&what);
    REFUSED(stk_what_if_parse, w->ctx, "num_workers=2", &what, NULL);
    REFUSED(stk_predict, w->ctx, &recording, &what, &predicted, NULL);
    stk_verdict verdict = {.struct_size = sizeof verdict};
    RETURNS(stk_judge_recording, verdict.gain_high == 0, w->ctx, &recording, &verdict);
    REFUSED(stk_report_predict, w->report, 0, &what, &predicted, NULL);
    uint64_t ranks[STK_SCALE_RANKS];
    size_t num_ranks = 0;
    stk_scale scale;
    stk_scaled scaled = {.struct_size = sizeof scaled};
    stk_scale_init(&scale);
    REFUSED(stk_scale_parse, w->ctx, "ranks=2", &scale, &what, ranks, &num_ranks, NULL);
    REFUSED(stk_predict_scale, w->ctx, &recording, &what, &scale, &scaled, NULL);
    REFUSED(stk_report_scale, w->report, 0, &what, &scale, &scaled, NULL);
    REFUSED(stk_bench_plan_predict, w->plan, NULL, NULL);
    stk_storage_figures storage = {.struct_size = sizeof storage};
    REFUSED(stk_storage_measure, w->ctx, "mem://x", NULL, &storage, NULL);
}

/* A put belongs to the process that began it: a child neither writes nor takes it away. */
static void call_puts(world *w)
{
    stk_store *const stores[] = {w->store, w->files};

    for (int i = 0; i < 2; i++) {
        const stk_store_ops *ops = stores[i]->ops;
        const stk_put_ops *put = w->puts[i]->ops;
        stk_put *own;

        REFUSED(ops->put, stores[i], "p", &stk__store_call_none, &own, NULL);
        REFUSED(ops->remove, stores[i], "f", &stk__store_call_none, NULL);
        if (ops->copy)
            REFUSED(ops->copy, stores[i], "f", "g", &stk__store_call_none, NULL);
        REFUSED(put->write, w->puts[i], "x", 1, NULL);
        REFUSED(put->commit, w->puts[i], NULL);
        RETURNS(put->abandon, true, w->left[i]);
    }
}

static void call_loader(world *w)
{
    stk_loader_options options;
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_bad_samples bad = {.struct_size = sizeof bad};
    stk_loader *loader;
    stk_batch *batch;
    stk_loader_state state;

    stk_loader_options_init(&options);
    REFUSED(stk_loader_create, w->dataset, &options, &loader, NULL);
    REFUSED(stk_loader_next, w->loader, -1, &batch, NULL);
    REFUSED(stk_loader_set_epoch, w->loader, 0, NULL);
    REFUSED(stk_loader_restore, w->loader, &w->state, NULL);
    NOTHING(stk_loader_compare, w->loader, &w->state, NULL);
    RETURNS(stk_loader_get_state, true, w->loader, &state);
    RETURNS(stk_loader_get_stats, stats.workers == 0, w->loader, &stats);
    RETURNS(stk_loader_get_bad_samples, bad.samples == 0, w->loader, &bad);
    RETURNS(stk_loader_cancel, true, w->loader);
}

static void call_arrays(world *w)
{
    stk_array_writer_options options;
    stk_array_stats stats = {.struct_size = sizeof stats};
    stk_array_stored stored = {.struct_size = sizeof stored};
    const int64_t start[] = {0}, shape[] = {4};
    stk_array_box box = {.start = start, .shape = shape};
    stk_array_writer *writer;
    stk_group *group;
    const stk_array_layout layout = {.struct_size = sizeof layout};
    stk_array_texts *texts;
    stk_array *array;
    float values[4] = {0};

    REFUSED(stk_array_open, w->ctx, w->path, NULL, &array, NULL);
    const stk_array_format_ops *format = NULL;
    RETURNS(stk_array_recognise, !format, w->ctx, w->path, &format);
    REFUSED(stk_array_describe, w->array, line, NULL, NULL);
    REFUSED(stk_array_lay_out, w->array, &layout, NULL);
    stk_chunks_question question;
    stk_chunks_question_init(&question);
    const stk_chunks_trial trial = {.struct_size = sizeof trial};
    stk_chunks_sample sample = {.struct_size = sizeof sample};
    REFUSED(stk_chunks_question_of, w->array, shape, NULL, NULL, &question, NULL);
    REFUSED(stk_chunks_measure, w->ctx, w->array, &question, &trial, &sample, NULL);
    REFUSED(stk_array_read, w->array, &box, values, sizeof values, NULL, -1, NULL);
    REFUSED(stk_array_read_texts, w->array, &box, -1, &texts, NULL);
    REFUSED(stk_array_stored_count, w->array, &stored, NULL);
    REFUSED(stk_array_stats_compute, w->array, NULL, NULL, &stats, NULL);
    REFUSED(stk_array_stats_load, w->array, NULL, &stats, NULL);
    REFUSED(stk_array_stats_save, w->array, NULL, &stats, NULL);
    RETURNS(stk_array_cancel, true, w->array);
    REFUSED(stk_group_open, w->ctx, w->folder, &group, NULL);
    REFUSED(stk_group_array, w->group, "a", NULL, &array, NULL);
    REFUSED(stk_group_consolidate, w->ctx, w->folder, NULL, NULL);
    stk_array_writer_options_init(&options);
    REFUSED(stk_array_writer_create, w->ctx, w->out, &options, &writer, NULL);
    REFUSED(stk_array_writer_write, w->writer, start, shape, values, NULL);
}

static void call_models(world *w)
{
    const int64_t shape[] = {4};
    const float rows[4] = {0};
    stk_model_batch batch = {.struct_size = sizeof batch, .count = 1, .input = rows};
    stk_model_result result = {.struct_size = sizeof result};
    stk_state_tensor tensor;
    stk_scalar number = {0};
    double value;
    stk_model_builder *builder;
    stk_optimizer *optimizer;
    stk_model_parts recipe = {.struct_size = sizeof recipe, .builder = w->builder};
    stk_module *module;
    stk_model *model;

    REFUSED(stk_model_builder_create, w->ctx, shape, 1, &builder, NULL);
    REFUSED(stk_model_builder_add, w->builder, "relu", NULL);
    REFUSED(stk_model_module_create, w->ctx, &recipe, &module, NULL);
    REFUSED(stk_model_create, w->builder, NULL, &model, NULL);
    REFUSED(stk_model_forward, w->model, &batch, true, &result, NULL);
    REFUSED(stk_model_backward, w->model, 1, NULL);
    REFUSED(stk_model_value, w->model, &number, &value, NULL);
    REFUSED(stk_model_zero_grad, w->model, NULL);
    REFUSED(stk_model_output, w->model, &tensor, NULL);
    REFUSED(stk__model_clip_norm, w->model, 1, NULL);
    REFUSED(stk__model_clip_value, w->model, 1, NULL);
    REFUSED(stk_model_get_state, w->model, 0, &tensor, NULL);
    REFUSED(stk__model_get_gradient, w->model, 0, &tensor, NULL);
    REFUSED(stk__model_load, w->model, NULL, 0, false, NULL, NULL);
    REFUSED(stk_model_load_file, w->ctx, w->model, w->path, false, NULL, NULL);
    REFUSED(stk_weights_convert, w->ctx, w->path, "out.safetensors", NULL, NULL, NULL);
    REFUSED(stk_optimizer_create, w->model, NULL, NULL, 0, &optimizer, NULL);
    REFUSED(stk_optimizer_step, w->optimizer, NULL);
    RETURNS(stk_optimizer_destroy, !w->optimizer, &w->optimizer);
    RETURNS(stk_model_destroy, !w->model, &w->model);
}

static void call_trainer(world *w)
{
    stk_profile_summary summary = {.struct_size = sizeof summary};
    size_t order[1];
    stk_trainer_data data = {.struct_size = sizeof data};
    double number = 1;
    const stk_state_tensor tensor = {"g", STK_FLOAT64, 0, {0}, &number, sizeof number};
    const stk_scalar scalar = {.value = 1}, far = {.data = &number, .dtype = STK_FLOAT64};
    stk_trainer_options options;
    stk_trainer_times times = {.struct_size = sizeof times};
    stk_training_events *training_events;
    stk_bench_result run = {.struct_size = sizeof run};
    stk_figures of_run = {.struct_size = sizeof of_run};
    const stk_bench_step *bench_step;
    stk_recipe *recipe;
    stk_loader_stats begin = {.struct_size = sizeof begin}, end = {.struct_size = sizeof end};
    stk_trainer *trainer;
    stk_metric metric = {"a", 1};
    const stk_strategy strategy = {.struct_size = sizeof strategy};
    stk_collectives *collectives = NULL;
    stk_recipe_tested tested = {.struct_size = sizeof tested};
    stk_profile *profile;

    stk_trainer_options_init(&options);
    REFUSED(stk_trainer_create, w->ctx, &options, &trainer, NULL);
    REFUSED(stk_trainer_add_callback, w->trainer,
            ((const stk_callback_ops *)stk_driver_at(NULL, STK_DRIVER_CALLBACK, 0)), NULL, NULL,
            NULL);
    REFUSED(stk_trainer_add_logger, w->trainer,
            ((const stk_logger_ops *)stk_driver_at(NULL, STK_DRIVER_LOGGER, 0)), NULL, NULL);
    REFUSED(stk_trainer_add_hparam, w->trainer, "a", "b", NULL);
    REFUSED(stk_trainer_fit, w->trainer, w->module, &data, NULL, NULL);
    REFUSED(stk_trainer_validate, w->trainer, w->module, &data, NULL, NULL);
    REFUSED(stk_trainer_test, w->trainer, w->module, &data, NULL, NULL);
    REFUSED(stk_trainer_predict, w->trainer, w->module, &data, NULL, NULL);
    REFUSED(stk_checkpoint_describe, w->ctx, w->path, line, NULL, NULL);
    REFUSED(stk_checkpoint_consolidate, w->ctx, w->path, "out.ckpt", NULL, NULL);
    REFUSED(stk_trainer_log, w->trainer, "a", 1, 0, 0, NULL);
    REFUSED(stk_trainer_log_scalar, w->trainer, "a", &scalar, 0, 0, NULL);
    REFUSED(stk_trainer_set_strategy, w->trainer, &strategy, NULL);
    REFUSED(stk_collectives_open, w->ctx, NULL, &collectives, NULL);
    RETURNS(stk_collectives_close, collectives == NULL, &collectives);
    REFUSED(stk_trainer_reduce, w->trainer, &number, 1, STK_COMBINE_SUM, NULL);
    REFUSED(stk_trainer_gradient_done, w->trainer, &tensor, NULL);
    REFUSED(stk_trainer_parameters_wanted, w->trainer, &tensor, 1, NULL);
    REFUSED(stk_trainer_log_metrics, w->trainer, &metric, 1, NULL);
    REFUSED(stk_trainer_peek, w->trainer, w->path, &w->state, NULL);
    REFUSED(stk_trainer_save, w->trainer, w->path, false, NULL, NULL);
    REFUSED(stk_trainer_link, w->trainer, w->path, w->path, NULL);
    REFUSED(stk_trainer_read_scalar, w->trainer, &far, &number, NULL, NULL);
    REFUSED(stk_trainer_copy, w->trainer, &metric, &scalar, sizeof metric, STK_COPY_DEVICE_TO_HOST,
            NULL);
    RETURNS(stk_trainer_bar_metric, true, w->trainer, 0, &metric);
    RETURNS(stk_trainer_get_times, true, w->trainer, &times);
    RETURNS(stk_trainer_get_loader_stats, true, w->trainer, &begin, &end);
    REFUSED(stk_training_events_create, w->trainer, NULL, &training_events, NULL);
    RETURNS(stk_training_events_judge, true, w->training_events, NULL, NULL, NULL);
    REFUSED(stk_training_events_end, w->training_events, NULL);
    RETURNS(stk_training_events_destroy, !w->training_events, &w->training_events);
    REFUSED(stk_recipe_create, w->ctx, w->config, NULL, &recipe, NULL);
    REFUSED(stk_recipe_measure, w->recipe, &run, &of_run, NULL);
    REFUSED(stk_recipe_test, w->recipe, &tested, NULL);
    REFUSED(stk_recipe_step, w->recipe, 1, &bench_step, NULL);
    RETURNS(stk_recipe_destroy, !w->recipe, &w->recipe);
    REFUSED(stk_profile_create, w->trainer, NULL, &profile, NULL);
    REFUSED(stk_profile_summarize, w->profile, 0, NULL, &summary, NULL);
    REFUSED(stk_profile_kept_peaks, w->ctx, w->folder, NULL, &number, &number, NULL);
    REFUSED(stk_profile_sort_layers, w->profile, order, 1, order, NULL);
    REFUSED(stk_profile_write_files, w->profile, &summary, w->folder, NULL);
    RETURNS(stk_profile_format, true, w->profile, &summary, STK_PROFILE_LAYERS, NULL, 0);
    REFUSED(stk_profile_finish, w->profile, NULL);
    REFUSED(stk_profile_close, &w->profile, NULL);
    RETURNS(stk_trainer_destroy, !w->trainer, &w->trainer);
    RETURNS(stk_module_destroy, !w->module, &w->module);
}

static void call_ends(world *w)
{
    RETURNS(stk_model_builder_destroy, !w->builder, &w->builder);
    REFUSED(stk_array_writer_finish, &w->writer, NULL);
    RETURNS(stk_array_writer_abandon, !w->other_writer, &w->other_writer);
    RETURNS(stk_array_close, !w->array, &w->array);
    RETURNS(stk_group_close, !w->group, &w->group);
    RETURNS(stk_batch_release, !w->batch, &w->batch);
    RETURNS(stk_loader_destroy, !w->loader, &w->loader);
    RETURNS(stk_conversion_destroy, !w->conversion, &w->conversion);
    RETURNS(stk_report_destroy, !w->report, &w->report);
    RETURNS(stk_event_log_close, !w->log, &w->log, NULL);
    RETURNS(stk_mirror_close, !w->mirror, &w->mirror, NULL);
    RETURNS(stk__event_trace_close, !w->trace, &w->trace, NULL);
    RETURNS(stk__counter_close, !w->counter, &w->counter);
    RETURNS(stk_live_stop, !w->server, &w->server);
    RETURNS(stk_live_close, !w->live, &w->live);
    RETURNS(stk_heartbeat_close, !w->heartbeat, &w->heartbeat);
    RETURNS(stk_meter_close, !w->meter, &w->meter);
    RETURNS(stk_bench_destroy, !w->bench, &w->bench);
    RETURNS(stk_tune_destroy, !w->tune, &w->tune);
    RETURNS(stk_bench_plan_destroy, !w->plan, &w->plan);
    RETURNS(stk_dataset_close, !w->dataset, &w->dataset);
    RETURNS(stk_store_close, !w->store, &w->store);
    RETURNS(stk_store_close, !w->files, &w->files);
    RETURNS(stk_context_bind, true, w->ctx);
    RETURNS(stk_context_unbind, true, w->ctx);
    RETURNS(stk_context_destroy, !w->ctx, &w->ctx);
}

/* ---- Work in the parent ---- */

/* Draws until it is stopped, and keeps a hash of all it got. */
static void *consume(void *argument)
{
    world *w = argument;
    stk_batch *batch;
    stk_status status = STK_OK;

    while (!atomic_load(&w->stop)) {
        status = stk_loader_next(w->loader, -1, &batch, NULL);
        if (status == STK_EOS)
            continue;
        if (status != STK_OK)
            break;
        w->hash = next_hash(w->hash, batch);
        stk_batch_release(&batch);
        atomic_fetch_add(&w->batches, 1);
    }
    atomic_store(&w->failed, status < 0 ? status : 0);
    return NULL;
}

/* Takes the other locks, over and over. */
static void *ask(void *argument)
{
    world *w = argument;
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_bad_samples bad = {.struct_size = sizeof bad};

    while (!atomic_load(&w->stop)) {
        stk_loader_get_stats(w->loader, &stats);
        stk_loader_get_bad_samples(w->loader, &bad);
        for (size_t i = 0; ((const stk_dataset_ops *)stk_driver_at(w->ctx, STK_DRIVER_DATASET, i));
             i++)
            continue;
        stk_event_log_write(w->log, "x", NULL, 0, STK_NO_DURATION, NULL);
    }
    return NULL;
}

static void *read_array(void *argument)
{
    world *w = argument;
    const int64_t start[] = {0}, shape[] = {4};
    stk_array_box box = {.start = start, .shape = shape};
    float values[4];

    while (!atomic_load(&w->stop)) {
        if (stk_array_read(w->array, &box, values, sizeof values, NULL, -1, NULL) != STK_OK)
            break;
        stk_array_cancel(w->array);
    }
    return NULL;
}

static void child_main(world *w)
{
    alarm(SECONDS);
    call_stores(w);
    call_puts(w);
    call_loader(w);
    call_arrays(w);
    call_trainer(w);
    call_models(w);
    call_ends(w);
    _exit(wrong != 0);
}

/* The same batches, made without workers. */
static uint64_t wanted_hash(world *w, unsigned batches)
{
    stk_loader *loader = make_loader(w, 0);
    uint64_t hash = 0;
    stk_batch *batch;

    while (batches) {
        stk_status status = stk_loader_next(loader, -1, &batch, NULL);
        if (status == STK_EOS)
            continue;
        assert_int_equal(status, STK_OK);
        hash = next_hash(hash, batch);
        stk_batch_release(&batch);
        batches--;
    }
    stk_loader_destroy(&loader);
    return hash;
}

static void children_are_refused(void **state)
{
    void *(*const works[])(void *) = {consume, ask, read_array};
    static world w;

    (void)state;
    at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    make_world(&w);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&w.threads[i], NULL, works[i], &w), 0);
    for (unsigned i = 0; i < FORKS; i++) {
        int how = 0;
        unsigned before = atomic_load(&w.batches);
        while (atomic_load(&w.batches) == before && !atomic_load(&w.failed))
            sched_yield();
        if (atomic_load(&w.failed))
            fail_msg("fork %u: the loader failed with %d", i, atomic_load(&w.failed));
        pid_t pid = fork();
        if (pid == 0)
            child_main(&w);
        assert_int_equal(waitpid(pid, &how, 0), pid);
        if (!WIFEXITED(how))
            fail_msg("fork %u: the child ended by signal %d in %s()", i, WTERMSIG(how), *at);
        assert_int_equal(WEXITSTATUS(how), 0);
    }
    atomic_store(&w.stop, true);
    for (size_t i = 0; i < 3; i++)
        pthread_join(w.threads[i], NULL);
    assert_int_equal(w.hash, wanted_hash(&w, atomic_load(&w.batches)));
    end_world(&w);
    munmap((void *)at, sizeof *at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(children_are_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
