/* SPDX-License-Identifier: Apache-2.0 */
/* One of each handle, made and ended. */
#ifndef STK_TESTS_UNIT_LOADER_FORK_WORLD_H
#define STK_TESTS_UNIT_LOADER_FORK_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/measure.h"
#include "store/store.h"
#include "support/support.h"

enum { FORKS = 30, BATCH = 8, SECONDS = 10 };

/* One of each handle. */
typedef struct world {
    char folder[256], path[300], out[300];
    stk_context *ctx;
    stk_store *store, *files;
    stk_put *puts[2], *left[2]; /* in memory and in a folder */
    stk_dataset *dataset;
    stk_loader *loader;
    stk_batch *batch;
    stk_array *array;
    stk_group *group;
    stk_array_writer *writer, *other_writer;
    stk_conversion *conversion;
    stk_model_builder *builder;
    stk_model *model;
    stk_optimizer *optimizer;
    stk_module *module;
    stk_trainer *trainer;
    stk_profile *profile;
    stk_training_events *training_events;
    stk_recipe *recipe;
    stk_config *config;
    stk_event_log *log;
    stk_mirror *mirror;
    stk__event_trace *trace;
    stk__counter *counter;
    stk_meter *meter;
    stk_live *live;
    stk_heartbeat *heartbeat;
    stk_live_address address;
    stk_live_server *server; /* NULL: built without */
    stk_bench *bench;
    stk_bench_plan *plan;
    stk_tune *tune;
    stk_report *report;
    stk_loader_state state;
    pthread_t threads[3];
    atomic_bool stop;
    atomic_int failed; /* status that ended the consumer */
    atomic_uint batches;
    uint64_t hash;
} world;

/* No thread of the context is within malloc() at a fork. The C library sees to that itself, the
 * sanitizers that stand in for it do not, and their child waits for ever. */
static pthread_mutex_t in_malloc = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
    pthread_mutex_lock(&in_malloc);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&in_malloc);
}

static void *alloc_alone(void *user, size_t size, size_t align)
{
    void *memory = NULL;

    (void)user;
    pthread_mutex_lock(&in_malloc);
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size) != 0)
        memory = NULL;
    pthread_mutex_unlock(&in_malloc);
    return memory;
}

static void free_alone(void *user, void *memory, size_t size)
{
    (void)user;
    (void)size;
    pthread_mutex_lock(&in_malloc);
    free(memory);
    pthread_mutex_unlock(&in_malloc);
}

static stk_context *make_context(void)
{
    stk_context_options o;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&o);
    o.allocator = (stk_allocator){.alloc = alloc_alone, .free = free_alone};
    assert_int_equal(pthread_atfork(before_fork, after_fork, after_fork), 0);
    assert_ok(stk_context_create(&o, &ctx, &err), &err);
    return ctx;
}

static uint64_t next_hash(uint64_t hash, const stk_batch *batch)
{
    stk_tensor index = {.struct_size = sizeof index};

    if (stk_batch_find(batch, "index", &index) != STK_OK)
        return 0;
    for (uint64_t i = 0; i < stk_batch_count(batch); i++)
        hash = (hash ^ ((const uint64_t *)index.data)[i]) * 1099511628211u;
    return hash;
}

static stk_loader *make_loader(world *w, int64_t workers)
{
    stk_loader_options o;
    stk_loader *loader;
    stk_error err;

    stk_loader_options_init(&o);
    o.batch_size = BATCH;
    o.num_workers = workers;
    o.shuffle = STK_SHUFFLE_FULL;
    assert_ok(stk_loader_create(w->dataset, &o, &loader, &err), &err);
    return loader;
}

static void make_arrays(world *w)
{
    static const char group[] = "{\"zarr_format\": 3, \"node_type\": \"group\"}";
    const int64_t start[] = {0}, shape[] = {4};
    const float values[4] = {1, 2, 3, 4};
    stk_array_writer_options o;
    char url[320];
    stk_error err;

    test_write(w->folder, "zarr.json", group, sizeof group - 1);
    stk_array_writer_options_init(&o);
    o.dtype = STK_FLOAT32;
    o.rank = 1;
    o.shape = o.chunk_shape = shape;
    for (int i = 0; i < 3; i++) {
        stk_array_writer **writer = i == 1 ? &w->other_writer : &w->writer;
        snprintf(url, sizeof url, "%s/%c", w->folder, 'a' + i);
        assert_ok(stk_array_writer_create(w->ctx, url, &o, writer, &err), &err);
        assert_ok(stk_array_writer_write(*writer, start, shape, values, &err), &err);
        if (i == 0) {
            assert_ok(stk_array_writer_finish(writer, &err), &err);
            assert_ok(stk_array_open(w->ctx, url, NULL, &w->array, &err), &err);
        }
    }
    assert_ok(stk_group_open(w->ctx, w->folder, &w->group, &err), &err);
}

static void make_training(world *w)
{
    stk_model_parts recipe = {.struct_size = sizeof recipe};
    const int64_t shape[] = {4};
    stk_trainer_options trainer;
    stk_profile_options profile;
    stk_model_options model;
    stk_error err;

    assert_ok(stk_model_builder_create(w->ctx, shape, 1, &w->builder, &err), &err);
    assert_ok(stk_model_builder_add(w->builder, "linear(3)", &err), &err);
    /* Computed by every build, with oneDNN or without. */
    stk_model_options_init(&model);
    model.precision = STK_PRECISION_64_TRUE;
    assert_ok(stk_model_create(w->builder, &model, &w->model, &err), &err);
    assert_ok(stk_optimizer_create(w->model, NULL, NULL, 0, &w->optimizer, &err), &err);
    recipe.builder = w->builder;
    assert_ok(stk_model_module_create(w->ctx, &recipe, &w->module, &err), &err);
    stk_trainer_options_init(&trainer);
    trainer.default_root_dir = w->out;
    assert_ok(stk_trainer_create(w->ctx, &trainer, &w->trainer, &err), &err);
    assert_ok(stk_training_events_create(w->trainer, NULL, &w->training_events, &err), &err);
    assert_ok(stk_config_create(w->ctx, &w->config, &err), &err);
    assert_ok(stk_config_set(w->config, "data.dataset", "digits:?size=8", false, &err), &err);
    assert_ok(stk_config_set(w->config, "loader.transforms", "to_float", false, &err), &err);
    assert_ok(stk_config_set(w->config, "model.layers", "flatten", false, &err), &err);
    assert_ok(stk_recipe_create(w->ctx, w->config, NULL, &w->recipe, &err), &err);
    assert_ok(stk_bench_plan_create(w->ctx, w->config, NULL, &w->plan, &err), &err);
    assert_ok(stk_tune_create(w->ctx, w->plan, NULL, &w->tune, &err), &err);
    stk_profile_options_init(&profile);
    profile.profiler = "simple";
    assert_ok(stk_profile_create(w->trainer, &profile, &w->profile, &err), &err);
}

static void make_puts(world *w)
{
    stk_store *stores[2];
    stk_error err;

    assert_ok(stk_store_open(w->ctx, w->folder, &w->files, NULL, 0, &err), &err);
    stores[0] = w->store;
    stores[1] = w->files;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            stk_put **put = k ? &w->left[i] : &w->puts[i];
            assert_ok(stores[i]->ops->put(stores[i], k ? "left" : "kept", &stk__store_call_none,
                                          put, &err),
                      &err);
            assert_ok((*put)->ops->write(*put, "abc", 3, &err), &err);
        }
}

/* Nothing that children did shows. */
static void end_puts(world *w)
{
    stk_store *const stores[] = {w->store, w->files};
    char data[4] = "";
    stk_error err;

    for (int i = 0; i < 2; i++) {
        assert_ok(w->puts[i]->ops->commit(w->puts[i], &err), &err);
        assert_ok(w->left[i]->ops->commit(w->left[i], &err), &err);
        for (int k = 0; k < 2; k++) {
            assert_ok(stk_store_read(stores[i], k ? "left" : "kept", 0, 3, data, &err), &err);
            assert_string_equal(data, "abc");
        }
        assert_ok(stk_store_read(stores[i], "f", 0, 1, data, &err), &err);
    }
    stk_store_close(&w->files);
}

static void make_world(world *w)
{
    stk_error err;
    char trace[320];

    memset(w, 0, sizeof *w);
    test_folder(w->folder);
    snprintf(w->path, sizeof w->path, "%s/log.json", w->folder);
    test_write(w->folder, "f", "x", 1);
    snprintf(trace, sizeof trace, "%s/trace.json", w->folder);
    snprintf(w->out, sizeof w->out, "%s/out", w->folder);
    w->ctx = make_context();
    assert_ok(stk_store_open(w->ctx, "mem://fork", &w->store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(w->store, "f", "x", 1, NULL, &err), &err);
    assert_ok(stk_dataset_open(w->ctx, "digits:?size=200", &w->dataset, &err), &err);
    assert_ok(stk_conversion_create(w->ctx, "digits:?size=10", w->out, &w->conversion, &err), &err);
    assert_ok(stk_event_log_open(w->ctx, w->path, &w->log, &err), &err);
    assert_ok(stk_mirror_open(w->ctx, "mem://fork/log", &w->mirror, &err), &err);
    assert_ok(stk__event_trace_open(w->ctx, trace, 1, &w->trace, &err), &err);
    assert_ok(stk__counter_open(w->ctx, &w->counter, &err), &err);
    const stk_bench_setting setting = {.struct_size = sizeof setting, .dataset = "digits:"};
    assert_ok(stk_bench_create(w->ctx, &setting, &w->bench, &err), &err);
    assert_ok(stk_report_create(w->ctx, &w->report, &err), &err);
    make_puts(w);
    make_arrays(w);
    make_training(w);
    w->loader = make_loader(w, 2);
    const stk_loader_options loader = {.struct_size = sizeof loader, .batch_size = BATCH};
    assert_ok(stk_meter_open(w->ctx, w->loader, &loader, &w->meter, &err), &err);
    w->address.struct_size = sizeof w->address;
    assert_ok(stk_heartbeat_create(w->ctx, 1, &w->heartbeat, &err), &err);
    assert_ok(stk_live_open(w->ctx, "test", "fork", &w->live, &err), &err);
    assert_ok(stk_live_bind("0", &w->address, &err), &err);
    if (stk_live_serve(w->live, &w->address, &w->server, &err) != STK_OK)
        assert_int_equal(err.status, STK_ENOTSUP);
    stk_loader_get_state(w->loader, &w->state);
    assert_ok(stk_loader_next(w->loader, -1, &w->batch, &err), &err);
    w->hash = next_hash(0, w->batch);
    atomic_store(&w->batches, 1);
}

static void end_world(world *w)
{
    stk_error err;

    end_puts(w);
    stk_profile_close(&w->profile, &err);
    stk_trainer_destroy(&w->trainer);
    stk_training_events_destroy(&w->training_events);
    stk_recipe_destroy(&w->recipe);
    stk_tune_destroy(&w->tune);
    stk_bench_plan_destroy(&w->plan);
    stk_config_destroy(&w->config);
    stk_module_destroy(&w->module);
    stk_optimizer_destroy(&w->optimizer);
    stk_model_destroy(&w->model);
    stk_model_builder_destroy(&w->builder);
    stk_array_writer_abandon(&w->writer);
    stk_array_writer_abandon(&w->other_writer);
    stk_array_close(&w->array);
    stk_group_close(&w->group);
    stk_batch_release(&w->batch);
    stk_loader_destroy(&w->loader);
    stk_conversion_destroy(&w->conversion);
    stk_report_destroy(&w->report);
    stk__counter_close(&w->counter);
    stk_live_stop(&w->server);
    stk_live_unbind(&w->address);
    stk_heartbeat_close(&w->heartbeat);
    stk_live_close(&w->live);
    stk_meter_close(&w->meter);
    stk_bench_destroy(&w->bench);
    assert_ok(stk__event_trace_close(&w->trace, &err), &err);
    assert_ok(stk_event_log_close(&w->log, &err), &err);
    assert_ok(stk_mirror_close(&w->mirror, &err), &err);
    stk_dataset_close(&w->dataset);
    stk_store_close(&w->store);
    stk_context_destroy(&w->ctx);
    test_folder_remove(w->folder);
}

#endif
