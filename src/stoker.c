/* SPDX-License-Identifier: Apache-2.0 */
/* The composition root: every driver in static tables. Nothing else sees all folders. */
#include <stoker/stoker.h>

#include "array/array.h"
#include "base/base.h"
#include "base/options.h"
#include "base/pace.h"
#include "base/registry.h"
#include "bench/bench.h"
#include "convert/convert.h"
#include "dataset/dataset.h"
#include "device/device.h"
#include "dist/dist.h"
#include "loader/loader.h"
#include "measure/measure.h"
#include "measure/pace.h"
#include "nn/nn.h"
#include "recipe/recipe.h"
#include "store/store.h"
#include "train/train.h"
#include "transform/transform.h"

#define CONTAINER(name) &stk__store_##name,
static const void *const stores[] = {
    &stk__store_file,  &stk__store_mem,  &stk__store_slow,
    &stk__store_cache, &stk__store_http, &stk__store_https,
    &stk__store_s3,    &stk__store_gs,   STK__CONTAINERS(CONTAINER) NULL};

static const void *const datasets[] = {
    &stk__dataset_digits,   &stk__dataset_mnist,      &stk__dataset_fashion_mnist,
    &stk__dataset_kmnist,   &stk__dataset_emnist,     &stk__dataset_cifar10,
    &stk__dataset_cifar100, &stk__dataset_npy,        &stk__dataset_array,
    &stk__dataset_hdf5,     &stk__dataset_npz,        &stk__dataset_tokens,
    &stk__dataset_images,   &stk__dataset_webdataset, &stk__dataset_tfrecord,
    &stk__dataset_mds,      &stk__dataset_litdata,    &stk__dataset_synthetic,
    &stk__dataset_mix,      &stk__dataset_concat,     &stk__dataset_pair,
    &stk__dataset_csv,      &stk__dataset_tsv,        &stk__dataset_parquet,
    &stk__dataset_arrow,    &stk__dataset_jsonl,      NULL};

/* Asked in this order. */
static const void *const arrays[] = {
    &stk__array_zarr,    &stk__array_npy,     &stk__array_raw,      &stk__array_hdf5,
    &stk__array_libhdf5, &stk__array_netcdf3, &stk__array_kerchunk, NULL};

static const void *const transforms[] = {
    &stk__transform_decode,           &stk__transform_random_resized_crop,
    &stk__transform_resize,           &stk__transform_center_crop,
    &stk__transform_random_crop,      &stk__transform_pad,
    &stk__transform_horizontal_flip,  &stk__transform_vertical_flip,
    &stk__transform_random_rotation,  &stk__transform_color_jitter,
    &stk__transform_random_grayscale, &stk__transform_gaussian_blur,
    &stk__transform_rand_augment,     &stk__transform_random_erasing,
    &stk__transform_to_float,         &stk__transform_normalize,
    &stk__transform_layout,           NULL};

static const void *const devices[] = {&stk__device_cpu, NULL};

static const void *const callbacks[] = {&stk__callback_model_checkpoint,
                                        &stk__callback_early_stopping,
                                        &stk__callback_lr_monitor,
                                        &stk__callback_timer,
                                        &stk__callback_ema,
                                        &stk__callback_weight_averaging,
                                        &stk__callback_backbone_finetuning,
                                        &stk__callback_accumulation,
                                        &stk__callback_throughput,
                                        &stk__callback_device_stats,
                                        &stk__callback_progress_bar,
                                        &stk__callback_model_summary,
                                        &stk__callback_prediction_writer,
                                        &stk__callback_on_exception,
                                        &stk__callback_spike_detection,
                                        &stk__callback_lr_find,
                                        NULL};

static const void *const loggers[] = {&stk__logger_csv, &stk__logger_tensorboard,
                                      &stk__logger_mlflow, &stk__logger_wandb, NULL};

/* Asked in this order. */
static const void *const converters[] = {&stk__convert_images,
                                         &stk__convert_idx,
                                         &stk__convert_zarr,
                                         &stk__convert_zarr2,
                                         &stk__convert_netcdf4,
                                         &stk__convert_packed,
                                         &stk__convert_kerchunk,
                                         &stk__convert_squashfs,
                                         &stk__convert_webdataset,
                                         &stk__convert_tfrecord,
                                         &stk__convert_parquet,
                                         &stk__convert_arrow,
                                         &stk__convert_csv,
                                         &stk__convert_tsv,
                                         &stk__convert_jsonl,
                                         &stk__convert_unpack,
                                         NULL};

/* Each table begins as stk_driver_head says. */
#define BEGINS(type, member)                                                                       \
    _Static_assert(offsetof(type, member) == offsetof(stk_driver_head, member),                    \
                   #type "." #member " is where the head has it")
#define BEGINS_AS_A_DRIVER(type)                                                                   \
    BEGINS(type, struct_size);                                                                     \
    BEGINS(type, name);                                                                            \
    BEGINS(type, doc);                                                                             \
    BEGINS(type, options)

BEGINS_AS_A_DRIVER(stk_store_ops);
BEGINS_AS_A_DRIVER(stk_dataset_ops);
BEGINS_AS_A_DRIVER(stk_array_format_ops);
BEGINS_AS_A_DRIVER(stk_transform_ops);
BEGINS_AS_A_DRIVER(stk_layer_ops);
BEGINS_AS_A_DRIVER(stk_device_ops);
BEGINS_AS_A_DRIVER(stk_callback_ops);
BEGINS_AS_A_DRIVER(stk_logger_ops);
BEGINS_AS_A_DRIVER(stk_converter_ops);

const stk__drivers *stk__drivers_of(stk_driver_kind kind)
{
    static const stk__drivers all[STK_DRIVER_KINDS] = {
        [STK_DRIVER_STORE] = {"store", stores, stk__store_kind_check},
        [STK_DRIVER_DATASET] = {"dataset", datasets, stk__dataset_kind_check},
        [STK_DRIVER_ARRAY] = {"array format", arrays, stk__array_kind_check},
        [STK_DRIVER_TRANSFORM] = {"transform", transforms, stk__transform_kind_check},
        [STK_DRIVER_LAYER] = {"layer", stk__layers, stk__layer_kind_check},
        [STK_DRIVER_DEVICE] = {"device", devices, stk__device_kind_check},
        [STK_DRIVER_CALLBACK] = {"callback", callbacks, stk__callback_kind_check},
        [STK_DRIVER_LOGGER] = {"logger", loggers, stk__logger_kind_check},
        [STK_DRIVER_CONVERTER] = {"converter", converters, stk__converter_kind_check},
    };

    return &all[kind];
}

const stk__pace_policy *stk__pace_policy_default(void)
{
    return &stk__pace_policy_table;
}

/* ---- Options --------------------------------------------------------------------------------- */

const stk_option_table *stk_option_table_at(size_t i, const char **name)
{
    static const struct {
        const char *name;
        const stk_option_table *table;
    } tables[] = {
        {"context", &stk__context_option_table},
        {"array", &stk__array_option_table},
        {"dataset", &stk__dataset_option_table},
        {"loader", &stk__loader_option_table},
        {"model", &stk__model_option_table},
        {"optimizer", &stk__optimizer_option_table},
        {"lr_scheduler", &stk__schedule_option_table},
        {"module", &stk__model_module_option_table},
        {"trainer", &stk__trainer_option_table},
        {"collectives", &stk__collectives_option_table},
        {"profile", &stk__profile_option_table},
        {"convert", &stk__convert_option_table},
        {"images", &stk__convert_images_option_table},
        {"arrays", &stk__convert_arrays_option_table},
        {"packed", &stk__convert_packed_option_table},
        {"squashfs", &stk__convert_squashfs_option_table},
        {"shards", &stk__convert_shards_option_table},
        {"weights", &stk__weights_option_table},
        {"survey", &stk__survey_option_table},
        {"source", &stk__bench_source_option_table},
        {"bench", &stk__bench_option_table},
        {"python", &stk__bench_python_option_table},
        {"what_if", &stk__what_if_option_table},
        {"tune", &stk__tune_option_table},
        {"scale", &stk__scale_option_table},
    };

    if (i >= STK_COUNT(tables))
        return stk__recipe_option_table(i - STK_COUNT(tables), name);
    *name = tables[i].name;
    return tables[i].table;
}

const stk_option_table *stk_option_table_find(const char *name)
{
    const stk_option_table *table;
    const char *found;

    for (size_t i = 0; (table = stk_option_table_at(i, &found)); i++)
        if (strcmp(name, found) == 0)
            return table;
    return NULL;
}
