/* SPDX-License-Identifier: Apache-2.0 */
/* The composition root: every driver in static tables. Nothing else sees all folders. */
#include <stoker/stoker.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "store/store.h"
#include "transform/transform.h"

static const void *const stores[] = {&stk__store_file, &stk__store_mem, &stk__store_slow, NULL};

static const void *const datasets[] = {
    &stk__dataset_digits, &stk__dataset_mnist,     &stk__dataset_cifar10,
    &stk__dataset_npy,    &stk__dataset_array,     &stk__dataset_tokens,
    &stk__dataset_images, &stk__dataset_synthetic, NULL};

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

const void *const *stk__builtin_drivers(int kind)
{
    static const void *const *const tables[STK__REGISTRY_COUNT] = {
        [STK__REGISTRY_STORE] = stores,
        [STK__REGISTRY_DATASET] = datasets,
        [STK__REGISTRY_TRANSFORM] = transforms,
    };

    return tables[kind];
}
