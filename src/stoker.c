/* SPDX-License-Identifier: Apache-2.0 */
/* The composition root: every driver in static tables. Nothing else sees all folders. */
#include <stoker/stoker.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "store/store.h"
#include "transform/transform.h"

static const void *const stores[] = {&stk__store_file, &stk__store_mem, &stk__store_slow, NULL};

static const void *const datasets[] = {&stk__dataset_digits,    &stk__dataset_mnist,
                                       &stk__dataset_cifar10,   &stk__dataset_npy,
                                       &stk__dataset_synthetic, NULL};

static const void *const transforms[] = {&stk__transform_to_float,
                                         &stk__transform_normalize,
                                         &stk__transform_layout,
                                         &stk__transform_pad,
                                         &stk__transform_random_crop,
                                         &stk__transform_horizontal_flip,
                                         NULL};

const void *const *stk__builtin_drivers(int kind)
{
    static const void *const *const tables[STK__REGISTRY_COUNT] = {
        [STK__REGISTRY_STORE] = stores,
        [STK__REGISTRY_DATASET] = datasets,
        [STK__REGISTRY_TRANSFORM] = transforms,
    };

    return tables[kind];
}
