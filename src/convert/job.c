/* SPDX-License-Identifier: Apache-2.0 */
/* What converters ask of a conversion: threads, memory, fields, whether it goes on. */
#include "convert/convert.h"

#include "dataset/dataset.h"

#define DEFAULT_BUDGET ((uint64_t)4 << 30)

const char *const stk__convert_heeds_overwrite[] = {"num_workers", "memory_budget", "verify",
                                                    "on_error",    "max_errors",    "checkpoint",
                                                    "max_pixels",  "max_blocks",    NULL};

bool stk__convert_canceled(void *user)
{
    const stk_conversion_job *job = user;

    return job->canceled(job);
}

uint32_t stk__convert_workers(stk_context *ctx, const stk_convert_options *options)
{
    stk_cores cores = {.struct_size = sizeof cores};

    if (options->num_workers != STK_AUTO)
        return (uint32_t)options->num_workers;
    stk_context_cores(ctx, &cores);
    return cores.usable;
}

const stk_field *stk__convert_field(const stk_dataset *dataset, const char *name)
{
    for (uint32_t i = 0; i < dataset->num_fields; i++)
        if (strcmp(dataset->fields[i].name, name) == 0)
            return &dataset->fields[i];
    return NULL;
}

bool stk__convert_has_masks(const stk_dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->num_fields; i++)
        if (dataset->fields[i].mask)
            return true;
    return false;
}

uint64_t stk__convert_budget(stk_context *ctx, const stk_convert_options *options)
{
    return options->memory_budget ? options->memory_budget
                                  : STK_MIN(stk__context_memory_limit(ctx) / 4, DEFAULT_BUDGET);
}
