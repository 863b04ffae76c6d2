/* SPDX-License-Identifier: Apache-2.0 */
/* Options of formats in the query of a URL, before and after the format is known. */
#include "array/room.h"

#include "base/options.h"
#include "base/spec.h"

typedef struct own {
    const stk_array_format_ops *ops;
    void *values;
    char *texts;    /* that the values point into */
    uint64_t taken; /* bytes that the query lost to this table */
} own;

struct stk__own_options {
    size_t count;
    uint64_t taken; /* by all of them together */
    own list[];
};

void stk__own_options_free(stk_context *ctx, stk__own_options **options)
{
    stk__own_options *o = *options;

    *options = NULL;
    for (size_t i = 0; o && i < o->count; i++) {
        stk__free(ctx, o->list[i].values);
        stk__free(ctx, o->list[i].texts);
    }
    stk__free(ctx, o);
}

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory for the options of an array");
}

/* Take the options of a table out of `url` into a struct of its own. */
static stk_status take(stk_context *ctx, char *url, const stk_option_table *table, void **values,
                       char **texts, stk_error *err)
{
    *values = stk__calloc(ctx, 1, table->struct_size);
    if (!*values)
        return no_memory(err);
    stk_options_init(table, *values, table->struct_size);
    return stk__spec_take(ctx, url, table, *values, texts, err);
}

/* What one table takes of the whole query; then `url` loses it, too. */
static stk_status take_one(stk_context *ctx, const char *whole, char *url, own *o, stk_error *err)
{
    char *copy = stk__strdup(ctx, whole), *texts = NULL;
    void *again = NULL;

    stk_status status =
        copy ? take(ctx, copy, o->ops->options, &o->values, &o->texts, err) : no_memory(err);
    if (status == STK_OK) {
        o->taken = strlen(whole) - strlen(copy);
        status = take(ctx, url, o->ops->options, &again, &texts, err);
    }
    stk__free(ctx, texts);
    stk__free(ctx, again);
    stk__free(ctx, copy);
    return status;
}

stk_status stk__own_options_take(stk_context *ctx, char *url, const stk_array_format_ops *ops,
                                 stk__own_options **out, stk_error *err)
{
    const stk_driver_head *driver;
    stk_status status = STK_OK;
    size_t n = 0;

    *out = NULL;
    while (stk_driver_at(ctx, STK_DRIVER_ARRAY, n))
        n++;
    char *whole = stk__strdup(ctx, url);
    stk__own_options *o = stk__calloc(ctx, 1, sizeof *o + n * sizeof o->list[0]);
    if (!whole || !o)
        status = no_memory(err);
    for (size_t i = 0;
         i < n && status == STK_OK && (driver = stk_driver_at(ctx, STK_DRIVER_ARRAY, i)); i++) {
        const stk_array_format_ops *one = (const stk_array_format_ops *)driver;
        if (!one->options || (ops && one != ops))
            continue;
        own *place = &o->list[o->count++];
        place->ops = one;
        status = take_one(ctx, whole, url, place, err);
    }
    if (status == STK_OK)
        o->taken = strlen(whole) - strlen(url);
    else if (o)
        stk__own_options_free(ctx, &o);
    stk__free(ctx, whole);
    *out = o;
    return status;
}

stk_status stk__own_options_get(const stk__own_options *options, const stk_array_format_ops *ops,
                                const void **out, stk_error *err)
{
    uint64_t taken = 0;

    *out = NULL;
    for (size_t i = 0; i < options->count; i++)
        if (options->list[i].ops == ops) {
            *out = options->list[i].values;
            taken = options->list[i].taken;
        }
    if (taken == options->taken)
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "the URL has options of other formats than '%.64s', which lies there; leave "
                     "them out, or name the format: format=NAME",
                     ops->name);
}
