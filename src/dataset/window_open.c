/* SPDX-License-Identifier: Apache-2.0 */
/* Opening windows: options, variables, their common dimensions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/options.h"
#include "base/spec.h"
#include "dataset/window.h"

#define AT(member) offsetof(stk__window_options, member)
#define BYTE_NS    0.15 /* of copying a byte of a window */

static const stk_option option_list[] = {
    {"variables", STK_OPTION_STRING, AT(variables), NULL, 0, 0, NULL, "A,B,...",
     "Arrays of the group; without it all that are no coordinates."},
    {"window", STK_OPTION_STRING, AT(window), NULL, 0, 0, NULL, "DIM:N,...",
     "Elements of a window along dimensions, by name or number, or 4x64x64 for all; those left out "
     "are taken whole. Without it one step of the first dimension."},
    {"stride", STK_OPTION_STRING, AT(stride), NULL, 0, 0, NULL, "DIM:N,...",
     "Distance of neighbouring windows; without it that of the window."},
    {"overlap", STK_OPTION_STRING, AT(overlap), NULL, 0, 0, NULL, "DIM:N,...",
     "Elements that neighbouring windows share, instead of stride."},
    {"range", STK_OPTION_STRING, AT(range), NULL, 0, 0, NULL, "DIM:A:B,...",
     "Only elements A to B - 1 of a dimension."},
    {"select", STK_OPTION_STRING, AT(select), NULL, 0, 0, NULL, "DIM=A:B,...",
     "Only elements whose coordinate is from A to B, both taken; dates of times, as "
     "time=2015-01:2016-06. A number alone is one element, whose dimension the fields do not have "
     "then; a date alone is the period it names."},
    {"at", STK_OPTION_STRING, AT(at), NULL, 0, 0, NULL, "DIM:I,...",
     "Only element I of a dimension, which the fields do not have then."},
    {"input", STK_OPTION_UINT, AT(input), "0", 0, 1u << 30, NULL, "N",
     "Steps of time that make the field input; the window along time follows from it."},
    {"target", STK_OPTION_UINT, AT(target), "0", 0, 1u << 30, NULL, "N",
     "Steps of time behind the input that make the field target."},
    {"lead", STK_OPTION_UINT, AT(lead), "0", 0, 1u << 30, NULL, "N",
     "Steps of time left out between input and target."},
    {"time", STK_OPTION_STRING, AT(time), NULL, 0, 0, NULL, "DIM",
     "The dimension of time; without it the first."},
    {"stack", STK_OPTION_BOOL, AT(stack), "false", 0, 0, NULL, NULL,
     "Put the variables into one field, as channels in front."},
    {"convert", STK_OPTION_STRING, AT(convert), NULL, 0, 0, NULL, "TYPE",
     "Type of the fields: float32 or float64; without it that of the array, or where values are "
     "computed float32, of float64 float64."},
    {"scale", STK_OPTION_BOOL, AT(scale), "true", 0, 0, NULL, NULL,
     "Apply the attributes scale_factor and add_offset, and read _FillValue and missing_value as "
     "NaN."},
    {"nan", STK_OPTION_ENUM, AT(nan), "keep", 0, 0, "keep|mask|drop|fill", NULL,
     "NaN: kept; filled, with a field mask of 1 where values are; a window with any is a bad "
     "sample (on_error); filled."},
    {"fill", STK_OPTION_DOUBLE, AT(fill), "0", -1e308, 1e308, NULL, "X",
     "What NaN becomes, after normalising."},
    {"mean", STK_OPTION_STRING, AT(mean), NULL, 0, 0, NULL, "X,Y,...",
     "Subtracted from the values: one number for each variable, or one for all."},
    {"std", STK_OPTION_STRING, AT(std), NULL, 0, 0, NULL, "X,Y,...",
     "What values less mean are divided by."},
    {"max_requests", STK_OPTION_UINT, AT(max_requests), "2097152", 1, 1e15, NULL, "N",
     "Requests that opening may take to learn where chunks lie: one for each chunk that is an "
     "object of its own, one for each shard."},
    {"normalize", STK_OPTION_BOOL, AT(normalize), "false", 0, 0, NULL, NULL,
     "Mean and std are those of the whole array, as `stoker info --stats` keeps them."},
    {"stats", STK_OPTION_STRING, AT(stats), NULL, 0, 0, NULL, "DIR",
     "Where the statistics are kept, if not next to the data."},
};

const stk_option_table stk__window_table = {"array", "Windows of Zarr and NumPy arrays as samples.",
                                            sizeof(stk__window_options), option_list,
                                            STK_COUNT(option_list)};

/* ---- Variables ---- */

static stk_status add_dim(stk__window *w, const stk__window_variable *v, uint32_t d, stk_error *err)
{
    const char *name = v->info->dimension_names ? v->info->dimension_names[d] : NULL;
    stk__window_dim *dim = &w->dims[w->num_dims];

    if (w->num_dims == STK__WINDOW_DIMS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "the variables have more than %d dimensions", STK__WINDOW_DIMS);
    *dim = (stk__window_dim){.size = v->info->shape[d],
                             .end = v->info->shape[d],
                             .chunk = 1,
                             .variable = w->num_variables - 1};
    snprintf(dim->name, sizeof dim->name, "%s", name ? name : "");
    w->num_dims++;
    return STK_OK;
}

/* Which of the window's dimensions those of a variable are: by name, else by place. */
static stk_status tie_dims(stk__window *w, stk__window_variable *v, stk_error *err)
{
    const bool first = w->num_dims == 0;

    if (v->info->rank > STK__WINDOW_DIMS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "'%s' has %u dimensions; windows have at most %d", v->name, v->info->rank,
                         STK__WINDOW_DIMS);
    for (uint32_t d = 0; d < v->info->rank; d++) {
        const char *name = v->info->dimension_names ? v->info->dimension_names[d] : NULL;
        uint32_t i = d;
        for (uint32_t j = 0; !first && name && (j == 0 || i < w->num_dims); j++) {
            i = j;
            if (j == w->num_dims || strcmp(w->dims[j].name, name) == 0)
                break;
        }
        if (first)
            i = w->num_dims;
        if (i >= w->num_dims) {
            i = w->num_dims;
            STK_TRY(add_dim(w, v, d, err));
        }
        v->dims[d] = i;
        if (w->dims[i].size != v->info->shape[d])
            return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "'%s' has %lld elements along dimension '%s' where '%s' has %lld; "
                             "choose variables of one shape",
                             v->name, (long long)v->info->shape[d], w->dims[i].name,
                             w->variables[0].name, (long long)w->dims[i].size);
        for (uint32_t e = 0; e < d; e++)
            if (v->dims[e] == i)
                return stk__fail(err, STK_EKIND, STK_STAGE_DATASET,
                                 "'%s' has the dimension '%s' twice", v->name, w->dims[i].name);
        w->dims[i].chunk = STK_MAX(w->dims[i].chunk, v->info->chunk_shape[d]);
    }
    return STK_OK;
}

static stk_status add_variable(stk__window *w, const char *name, stk_array *array, stk_error *err)
{
    const stk_array_info *info = stk_array_get_info(array);
    stk__window_variable *v = &w->variables[w->num_variables];

    *v = (stk__window_variable){.array = array, .info = info, .scale = 1};
    w->num_variables++;
    const char *last = strrchr(name, '/');
    snprintf(v->name, sizeof v->name, "%s", last ? last + 1 : name);
    if (info->dtype == STK_DTYPE_NONE)
        return stk__fail(err, STK_EKIND, STK_STAGE_DATASET,
                         "'%s' holds %s; windows are cut out of numbers", v->name, info->type_name);
    if (info->bytes == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET, "'%s' has no elements", v->name);
    v->chunk_bytes = info->itemsize;
    for (uint32_t d = 0; d < info->rank; d++)
        v->chunk_bytes *= (uint64_t)info->chunk_shape[d];
    return tie_dims(w, v, err);
}

/* A coordinate: the array of a dimension's own name. */
static bool is_coordinate(const char *path, const stk_array *array)
{
    const stk_array_info *info = stk_array_get_info(array);
    const char *last = strrchr(path, '/'), *name = last ? last + 1 : path;

    return info->rank == 0 || info->dtype == STK_DTYPE_NONE ||
           (info->rank == 1 && info->dimension_names && info->dimension_names[0] &&
            strcmp(info->dimension_names[0], name) == 0);
}

static stk_status add_from_group(stk__window *w, const char *path, bool asked,
                                 const stk_array_options *o, stk_error *err)
{
    stk_array *array = NULL;

    const stk_status status = stk_group_array(w->group, path, o, &array, err);
    if (!asked && status == STK_EKIND) { /* texts, records, ...: no numbers */
        stk__message(w->base.context, STK_MESSAGE_DEBUG, "'%s' is left out: %.300s", path,
                     err ? err->text : "");
        return STK_OK;
    }
    STK_TRY(status);
    if (!asked && is_coordinate(path, array)) {
        stk_array_close(&array);
        return STK_OK;
    }
    if (w->num_variables == STK__WINDOW_VARIABLES) {
        stk_array_close(&array);
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_OPTIONS, "variables", STK_NO_OFFSET,
                            "variables: there are more than %d; name those that are wanted",
                            STK__WINDOW_VARIABLES);
    }
    STK_TRY(add_variable(w, path, array, err));
    char **own = &w->variables[w->num_variables - 1].path;
    *own = stk__strdup(w->base.context, path);
    return *own ? STK_OK
                : stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for a variable's path");
}

static stk_status open_group(stk__window *w, const char *url, const char *variables,
                             const stk_array_options *o, stk_error *err)
{
    char name[512];

    STK_TRY(stk__group_open_along(w->base.context, url, o->concat && *o->concat ? o->concat : NULL,
                                  &w->group, err));
    for (const char *at = variables; at && *at;) {
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof name)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "variables", STK_NO_OFFSET,
                                "variables=%.200s: write it as t2m,u10", variables);
        memcpy(name, at, length);
        name[length] = 0;
        STK_TRY(add_from_group(w, name, true, o, err));
        at += length + (at[length] == ',');
    }
    const stk_node *node;
    for (size_t i = 0; !variables && (node = stk_group_node(w->group, i)); i++)
        if (node->is_array)
            STK_TRY(add_from_group(w, node->path, false, o, err));
    if (w->num_variables == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "the group '%.200s' holds no array of numbers", url);
    return STK_OK;
}

/* Without names it is an array, or a group whose variables are all taken. */
static stk_status open_either(stk__window *w, const char *url, const stk_array_options *o,
                              stk_error *err)
{
    stk_array *array = NULL;
    stk_error first, second;

    stk_error_init(&first);
    stk_error_init(&second);
    stk_status status = stk_array_open(w->base.context, url, o, &array, &first);
    if (status == STK_OK)
        return add_variable(w, "data", array, err);
    if (status == STK_EMISMATCH) { /* the metadata of a group, or files that do not go together */
        const stk_status grouped = open_group(w, url, NULL, o, &second);
        const bool none = !w->group && (grouped == STK_EMISMATCH || grouped == STK_EINVAL);
        if (grouped != STK_OK && err)
            *err = none ? first : second;
        return none ? status : grouped;
    }
    if (status == STK_EFORMAT && stk__array_by_content(o) &&
        open_group(w, url, NULL, o, NULL) == STK_OK)
        return STK_OK;
    if (err)
        *err = first;
    return status;
}

/* One format is for looking and converting alone: reads by libhdf5 wait for each other. */
stk_status stk__window_refuse_slow(const char *url, const stk_array_options *o, stk_error *err)
{
    const char *slow = stk__array_libhdf5.name;

    if (!o->format || !stk__option_same(o->format, strlen(o->format), slow, strlen(slow)))
        return STK_OK;
    return stk__fail(
        err, STK_ENOTSUP, STK_STAGE_DATASET,
        "'%.300s': format=%s reads one chunk at a time, in a process of its own, and is "
        "not for training: convert it first, as 'stoker convert FILE?format=%s "
        "OUT.zarr' does",
        url, slow, slow);
}

/* The array of a URL, or those of its group. `url` is the spec's; the arrays' options are taken
 * out of it. */
static stk_status open_variables(stk__window *w, const char *url, const char *variables,
                                 stk_array_options *o, stk_error *err)
{
    stk_context *ctx = w->base.context;
    char *rest = stk__strdup(ctx, url), *texts = NULL;

    if (!rest)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open '%.200s'", url);
    stk_array_options_init(o);
    stk_status status = stk__spec_take(ctx, rest, &stk__array_option_table, o, &texts, err);
    if (status == STK_OK)
        status = stk__window_refuse_slow(url, o, err);
    if (status == STK_OK && variables)
        status = open_group(w, rest, variables, o, err);
    else if (status == STK_OK)
        status = open_either(w, rest, o, err);
    if (status != STK_OK)
        stk__option_unknown_nearer(&stk__array_option_table, err);
    stk__free(ctx, texts);
    stk__free(ctx, rest);
    return status;
}

/* ---- Values ---- */

/* Number `i` of a list, or its only one. */
static stk_status listed(const char *option, const char *text, uint32_t i, uint32_t n, double *out,
                         stk_error *err)
{
    uint32_t count = 0;

    for (const char *at = text; *at;) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !isfinite(value))
            break;
        if (count++ == i || count == 1)
            *out = value;
        at = end + (*end == ',');
        if (!*at && (count == n || count == 1))
            return STK_OK;
    }
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                        "%s=%.200s: write one number, or one for each of the %u variables", option,
                        text, n);
}

/* Mean and std of the values as they are delivered, from the statistics of those stored. */
static stk_status known_stats(const stk__window_variable *v, const stk__window_options *o,
                              double *mean, double *std, stk_error *err)
{
    stk_array_stats stats = {.struct_size = sizeof stats};

    if ((o->mean && *o->mean) || (o->std && *o->std))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "normalize", STK_NO_OFFSET,
                            "normalize takes mean and std from the statistics; leave those two "
                            "out");
    STK_TRY(stk_array_stats_load(v->array, o->stats && *o->stats ? o->stats : NULL, &stats, err));
    *mean = stats.mean * v->scale + v->offset;
    *std = stats.std * fabs(v->scale);
    return STK_OK;
}

static stk_status settle_values(stk__window *w, uint32_t i, const stk__window_options *o,
                                stk_error *err)
{
    stk__window_variable *v = &w->variables[i];
    double mean = 0, std = 1;

    if (o->mean && *o->mean)
        STK_TRY(listed("mean", o->mean, i, w->num_variables, &mean, err));
    if (o->std && *o->std)
        STK_TRY(listed("std", o->std, i, w->num_variables, &std, err));
    if (o->scale && stk__window_is_real(v->info->dtype)) {
        v->scale = stk__array_number_or(v->array, "scale_factor", 1);
        v->offset = stk__array_number_or(v->array, "add_offset", 0);
        v->has_missing = stk_array_number(v->array, "_FillValue", &v->missing) ||
                         stk_array_number(v->array, "missing_value", &v->missing);
    }
    if (o->normalize)
        STK_TRY(known_stats(v, o, &mean, &std, err));
    if (!(std > 0) || !isfinite(mean))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "std", STK_NO_OFFSET,
                            "std: it is %g of '%s', and the mean %g; values are divided by it: "
                            "give one above 0",
                            std, v->name, mean);
    v->scale /= std;
    v->offset = (v->offset - mean) / std;
    v->converts = v->scale != 1 || v->offset != 0 || v->has_missing;
    return STK_OK;
}

/* The type of the fields, and which variables have to be converted to it. */
static stk_status choose_dtype(stk__window *w, const stk__window_options *o, stk_error *err)
{
    const stk_dtype own = w->variables[0].info->dtype;
    bool computed = o->nan != STK__NAN_KEEP, wide = false;

    for (uint32_t i = 0; i < w->num_variables; i++) {
        STK_TRY(settle_values(w, i, o, err));
        computed |= w->variables[i].converts || w->variables[i].info->dtype != own;
        wide |= w->variables[i].info->dtype == STK_FLOAT64;
    }
    stk_dtype dtype = computed ? (wide ? STK_FLOAT64 : STK_FLOAT32) : own;
    if (o->convert && *o->convert) {
        dtype = stk_dtype_parse(o->convert);
        if (dtype != STK_FLOAT32 && dtype != STK_FLOAT64 && (computed || dtype != own))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "convert", STK_NO_OFFSET,
                                "convert=%.60s: values are converted to float32 or float64 alone",
                                o->convert);
    }
    for (uint32_t i = 0; i < w->num_variables; i++) {
        stk__window_variable *v = &w->variables[i];
        v->dtype = dtype;
        v->converts |= o->nan != STK__NAN_KEEP || dtype != v->info->dtype;
        if (v->converts && !stk__window_is_real(v->info->dtype))
            return stk__fail(err, STK_EKIND, STK_STAGE_DATASET,
                             "'%s' holds %s, which cannot be converted to %s", v->name,
                             v->info->type_name, stk_dtype_name(dtype));
    }
    return STK_OK;
}

/* ---- The dataset ---- */

/* Whether windows and parts of a variable have no chunk in common that one of them holds whole. */
static bool is_alone(const stk__window *w, const stk__window_part *part)
{
    const stk__window_variable *v = &w->variables[part->variable];
    uint32_t parts = 0;

    for (uint32_t p = 0; p < w->num_parts; p++)
        parts += w->parts[p].variable == part->variable;
    for (uint32_t i = 0; i < w->num_dims; i++) {
        const stk__window_dim *dim = &w->dims[i];
        bool has = false; /* windows along a dimension that the variable lacks repeat it */
        for (uint32_t d = 0; d < v->info->rank; d++)
            has |= v->dims[d] == i;
        if (dim->n > 1 && (!has || dim->stride < dim->window))
            return false;
    }
    return parts == 1 && !v->plain && !v->converts;
}

/* Of all chunks that windows touch; 0: more than can be said. */
static uint64_t decoded_bytes(const stk__window *w)
{
    uint64_t all = 0, bytes;

    for (uint32_t i = 0; i < w->num_variables; i++) {
        const stk__window_variable *v = &w->variables[i];
        if (!v->plain && (!stk__mul_size(v->num_chunks, v->chunk_bytes, &bytes) ||
                          !stk__add_size(all, bytes, &all)))
            return 0;
    }
    return all;
}

/* What the samples are: arrays, their values, the windows. */
static void fill_head(stk__window *w)
{
    uint64_t bytes = 0, block = 1, scratch = 0, print;

    stk__dataset_init(&w->base, w->base.ops, w->base.context, w->base.size, w->fields,
                      w->num_fields);
    print = w->base.fingerprint;
    for (uint32_t i = 0; i < w->num_dims; i++) {
        const stk__window_dim *dim = &w->dims[i];
        int64_t numbers[] = {dim->size,   dim->begin,  dim->end,
                             dim->window, dim->stride, (int64_t)dim->k};
        print = stk__fingerprint(print, numbers, sizeof numbers);
        block *= dim->k;
    }
    for (uint32_t i = 0; i < w->num_variables; i++) {
        const stk__window_variable *v = &w->variables[i];
        double numbers[] = {v->scale, v->offset, v->has_missing ? v->missing : 0};
        print = stk__fingerprint(print, v->name, strlen(v->name));
        print = stk__fingerprint(print, v->info->type_name, strlen(v->info->type_name));
        print = stk__fingerprint(print, v->info->attributes, strlen(v->info->attributes));
        print = stk__fingerprint(print, numbers, sizeof numbers);
        const stk__chain *chain = stk__array_chain(v->array);
        if (!v->plain && !v->fixed)
            scratch = STK_MAX(scratch, stk__chain_scratch(chain) + stk__chain_library(chain));
    }
    for (uint32_t f = 0; f < w->num_fields; f++)
        bytes += stk_field_bytes(&w->fields[f]);
    w->base.fingerprint = print;
    w->base.block_size = STK_MIN(block, w->base.size);
    w->base.worker_bytes = scratch + w->raw_bytes + sizeof(stk__window_state);
    w->base.decoded_bytes = decoded_bytes(w);
    w->base.cost_ns = 500 + BYTE_NS * (double)bytes;
}

stk_status stk__window_finish(stk__window *w, const stk_array_options *options, stk_error *err)
{
    uint64_t objects = 0;

    for (uint32_t i = 0; i < w->num_variables; i++) {
        stk__window_variable *v = &w->variables[i];
        v->num_objects = v->info->num_objects;
        STK_TRY(stk__window_manifest(w, v, options, err));
        v->prefix = !v->plain && !v->fixed && v->info->order == 'C' &&
                    !stk__array_has_parts(v->array) &&
                    stk__chain_has_prefix(stk__array_chain(v->array));
        v->first_object = objects;
        if (!stk__add_size(objects, v->num_objects, &objects))
            return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                             "the variables have more objects than can be numbered");
    }
    for (uint32_t p = 0; p < w->num_parts; p++)
        w->parts[p].alone = is_alone(w, &w->parts[p]);
    fill_head(w);
    return STK_OK;
}

static stk_status open_all(stk__window *w, const char *url, const stk__window_options *o,
                           stk_error *err)
{
    stk_array_options array_options;

    STK_TRY(open_variables(w, url, o->variables, &array_options, err));
    STK_TRY(choose_dtype(w, o, err));
    STK_TRY(stk__window_grid(w, o, url, err));
    STK_TRY(stk__window_fields(w, err));
    return stk__window_finish(w, &array_options, err);
}

stk_status stk__window_open(stk_context *ctx, const char *url, const void *options,
                            stk_dataset **out, stk_error *err)
{
    const stk__window_options *o = options;

    *out = NULL;
    stk__window *w = stk__calloc(ctx, 1, sizeof *w);
    if (!w)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open '%.200s'", url);
    w->base.context = ctx;
    w->base.ops = &stk__dataset_array;
    w->options = *o;
    stk_status status = open_all(w, url, o, err);
    /* The texts are the caller's. */
    w->options.variables = w->options.window = w->options.stride = w->options.overlap =
        w->options.range = w->options.select = w->options.at = w->options.time =
            w->options.convert = w->options.mean = w->options.std = w->options.stats = NULL;
    if (status != STK_OK) {
        w->base.ops->close(&w->base);
        return status;
    }
    *out = &w->base;
    return STK_OK;
}
