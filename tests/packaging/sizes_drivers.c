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

void sizes_drivers(stk_context *ctx, const char *folder)
{
    formats(ctx, folder);
}
