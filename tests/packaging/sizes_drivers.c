/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers that give the library structs of their own version. */
#include "sizes.h"

/* ---- A format of arrays: the first bytes of a file ---- */

static const int64_t head_shape[] = {4};

static int head_recognise(stk_store *store, const char *key)
{
    (void)store, (void)key;
    return 0;
}

static stk_status head_open(stk_array *array, const stk_array_opening *opening, stk_error *e)
{
    stk_array_layout *layout = NEW(stk_array_layout);

    CHECK(opening->struct_size > 0 && *opening->key);
    layout->struct_size = sizeof *layout;
    layout->type_name = "uint8";
    layout->rank = 1;
    layout->shape = head_shape;
    return stk_array_lay_out(array, layout, e);
}

static const stk_array_format_ops head_ops = {
    .struct_size = sizeof head_ops, .name = "head", .recognise = head_recognise, .open = head_open};

static void formats(stk_context *ctx, const char *folder)
{
    stk_array *array = NULL;
    unsigned char bytes[4];
    char url[4096];

    OK(stk_driver_add(ctx, STK_DRIVER_ARRAY, &head_ops, &err));
    snprintf(url, sizeof url, "%s/a.zarr/zarr.json?format=head", folder);
    OK(stk_array_open(ctx, url, NULL, &array, &err));
    OK(stk_array_read(array, NULL, bytes, sizeof bytes, NULL, -1, &err));
    CHECK(bytes[0] == '{');
    stk_array_close(&array);
}

/* ---- A converter that writes nothing ---- */

static bool none_accepts(const stk_dataset *dataset, const char **why)
{
    (void)dataset, (void)why;
    return true;
}

static stk_status none_run(const stk_conversion_job *job, stk_conversion_report *report,
                           stk_error *e)
{
    SIZED(stk_dataset_info, info);

    CHECK(job->struct_size >= sizeof(uint32_t) && job->options->struct_size > 0);
    CHECK(strcmp(job->source, "digits:?size=64") == 0 && strcmp(job->target, "nowhere") == 0);
    stk_dataset_get_info(job->dataset, info);
    CHECK(info->size == 64);
    report->total = info->size;
    stk_error_init(e);
    return STK_OK;
}

static const stk_converter_ops none_ops = {.struct_size = sizeof none_ops,
                                           .name = "none",
                                           .doc = "nothing",
                                           .from = "anything",
                                           .accepts = none_accepts,
                                           .run = none_run};

static void converters(stk_context *ctx)
{
    SIZED(stk_conversion_report, report);
    stk_conversion *conversion = NULL;

    OK(stk_driver_add(ctx, STK_DRIVER_CONVERTER, &none_ops, &err));
    OK(stk_conversion_create(ctx, "digits:?size=64", "none:nowhere", &conversion, &err));
    OK(stk_conversion_run(conversion, NULL, NULL, report, &err));
    CHECK(report->total == 64 && report->struct_size == sizeof *report);
    stk_conversion_destroy(&conversion);
}

void sizes_drivers(stk_context *ctx, const char *folder)
{
    formats(ctx, folder);
    converters(ctx);
}
