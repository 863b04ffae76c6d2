/* SPDX-License-Identifier: Apache-2.0 */
/* An array or a group that is read -> the nodes of the target, but for their chunks. */
#include <stdio.h>

#include "base/json.h"
#include "base/url.h"
#include "convert/arrays.h"
#include "convert/target.h"
#include "dataset/dataset.h"

#define DIMENSIONS "_ARRAY_DIMENSIONS" /* in which xarray keeps names in Zarr of version 2 */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the arrays to convert");
}

/* ---- What is read ---------------------------------------------------------------------------- */

static void source_options(const stk__arrays *run, stk_array_options *out)
{
    stk_array_options_init(out);
    out->memory = run->budget / 4;
    out->index_cache = STK_MIN(out->index_cache, run->budget / 16);
    out->num_threads = STK_MAX(run->num_workers, 1);
}

/* Whether what failed to open as a group may be something else: it is not there as one. */
static bool is_no_group(stk_status status)
{
    return status == STK_ENOENT || status == STK_EINVAL || status == STK_EMISMATCH;
}

/* An array or a group: which of both, the source says by what can be opened. */
static stk_status open_either(stk_context *ctx, const char *url, const stk_array_options *options,
                              stk_array **array, stk_group **group, stk_error *err)
{
    stk_error of_array;

    const stk_status grouped = stk_group_open(ctx, url, group, err);
    if (grouped == STK_OK || !(is_no_group(grouped) || grouped == STK_EFORMAT ||
                               grouped == STK_EKIND || grouped == STK_ENOTSUP))
        return grouped;
    stk_error_init(&of_array);
    const stk_status status = stk_array_open(ctx, url, options, array, &of_array);
    /* A group that is damaged says more than that it is no array. */
    if (!is_no_group(grouped) && (status == STK_ENOENT || status == STK_EMISMATCH))
        return grouped;
    if (status != STK_OK && err)
        *err = of_array;
    return status;
}

/* Whether a path that nothing names is of a dataset of pictures, and holds no arrays. */
static bool is_pictures(stk_context *ctx, const char *url)
{
    static const stk_dataset_ops *const kinds[] = {&stk__dataset_images, &stk__dataset_mnist,
                                                   &stk__dataset_cifar10};
    const stk_array_format_ops *format;
    bool is = false;

    if (stk_array_recognise(ctx, url, &format))
        return false;
    char *entered = stk__strdup(ctx, url);
    if (entered && stk__container_enter(ctx, &entered, NULL) == STK_OK)
        for (size_t i = 0; i < STK_COUNT(kinds) && !is; i++)
            is = kinds[i]->recognise(ctx, entered) > 0;
    stk__free(ctx, entered);
    return is;
}

bool stk__convert_takes_arrays(stk_context *ctx, const char *source, const char **why)
{
    const stk_conversion_job job = {.context = ctx, .source = source};
    const size_t length = strcspn(source, ":");
    const char *url = stk__convert_source(&job);
    stk_array *array = NULL;
    stk_group *group = NULL;

    *why = "is neither an array nor a group of arrays";
    /* A dataset of another kind is named. */
    if (url != source && strncmp(source, "array", length) != 0 &&
        strncmp(source, "npy", length) != 0)
        return false;
    const stk_status status = open_either(ctx, url, NULL, &array, &group, NULL);
    stk_array_close(&array);
    stk_group_close(&group);
    /* What is wrong with one that is there, run() says. */
    return !is_no_group(status) && !(status == STK_EFORMAT && is_pictures(ctx, url));
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static stk_status add_node(stk__arrays *run, const char *path, stk__target_node **out,
                           stk_error *err)
{
    size_t room = run->num_nodes;
    stk__target_node *grown =
        stk__grow(run->context, run->nodes, &room, run->num_nodes + 1, sizeof *grown);

    if (!grown)
        return no_memory(err);
    run->nodes = grown;
    *out = &grown[run->num_nodes];
    **out = (stk__target_node){.path = stk__strdup(run->context, path)};
    if (!(*out)->path)
        return no_memory(err);
    run->num_nodes++;
    return STK_OK;
}

static stk_status copy_shape(stk__arrays *run, const stk_array_info *info, stk__target_node *node,
                             stk_error *err)
{
    const uint32_t rank = info->rank;
    int64_t *sides = stk__calloc(run->context, 3 * (size_t)rank + 1, sizeof *sides);

    if (!sides)
        return no_memory(err);
    for (uint32_t d = 0; d < rank; d++) {
        sides[d] = info->shape[d];
        sides[rank + d] = sides[2 * rank + d] = info->chunk_shape[d];
    }
    node->rank = rank;
    node->shape = sides;
    node->chunk_shape = sides + rank;
    node->object_shape = sides + 2 * rank;
    return STK_OK;
}

/* The names in one block with what points to them. */
static stk_status copy_names(stk__arrays *run, const stk_array_info *info, stk__target_node *node,
                             stk_error *err)
{
    size_t bytes = info->rank * sizeof(char *);

    if (!info->dimension_names)
        return STK_OK;
    for (uint32_t d = 0; d < info->rank; d++)
        bytes += info->dimension_names[d] ? strlen(info->dimension_names[d]) + 1 : 0;
    char **names = stk__calloc(run->context, 1, bytes + 1);
    if (!names)
        return no_memory(err);
    char *at = (char *)(names + info->rank);
    for (uint32_t d = 0; d < info->rank; d++) {
        if (!info->dimension_names[d])
            continue;
        const size_t length = strlen(info->dimension_names[d]) + 1;
        names[d] = memcpy(at, info->dimension_names[d], length);
        at += length;
    }
    node->dimension_names = (const char *const *)names;
    return STK_OK;
}

/* ---- Values and attributes ------------------------------------------------------------------- */

static bool is_real(stk_dtype dtype)
{
    return dtype != STK_DTYPE_NONE && dtype != STK_COMPLEX64 && dtype != STK_COMPLEX128;
}

static bool is_time(const stk_array_info *info)
{
    return strncmp(info->type_name, "datetime64", 10) == 0 ||
           strncmp(info->type_name, "timedelta64", 11) == 0;
}

/* The type that xarray would decode packed values to: one that holds them exactly. */
static stk_dtype unpacked(stk_dtype from)
{
    return stk_dtype_size(from) <= 2 || from == STK_FLOAT32 ? STK_FLOAT32 : STK_FLOAT64;
}

/* Bytes of an element in memory. */
static uint64_t item_of(const stk_array_info *info)
{
    return info->itemsize ? info->itemsize : sizeof(stk_array_string);
}

static stk_status choose_values(const stk__arrays *run, stk__arrays_array *a, stk_error *err)
{
    const stk_convert_arrays_options *own = run->own;
    const stk_array_info *info = stk_array_get_info(a->array);
    stk__arrays_values *v = &a->values;
    double scale = 1, offset = 0;

    *v = (stk__arrays_values){.from = info->dtype, .to = info->dtype, .itemsize = item_of(info)};
    if (!is_real(info->dtype) || is_time(info))
        return STK_OK;
    const bool packed = stk_array_number(a->array, "scale_factor", &scale) |
                        stk_array_number(a->array, "add_offset", &offset);
    if (own->decode_cf && packed) {
        v->unpack = true;
        v->scale = scale;
        v->offset = offset;
        v->to = unpacked(info->dtype);
    }
    if (a->is_coordinate)
        return STK_OK;
    if (own->astype && *own->astype) {
        v->to = stk_dtype_parse(own->astype);
        if (!is_real(v->to))
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "arrays.astype: '%.60s' is no type of real numbers; write it as "
                             "float32, int16, ...",
                             own->astype);
    }
    if (own->bitround != STK_AUTO && stk__dtype_is_float(v->to))
        v->keepbits = (uint32_t)own->bitround;
    return STK_OK;
}

/* What stands for a missing value in the source, if anything does. */
static bool missing_of(const stk_array *array, void *out)
{
    const stk_array_info *info = stk_array_get_info(array);

    if (stk__array_fill_attribute(array, out))
        return true;
    /* xarray takes the fill value of version 2 for the missing one. */
    if (strcmp(info->format, "zarr v2") != 0 || !info->fill_value)
        return false;
    memcpy(out, info->fill_value, item_of(info));
    return true;
}

/* Elements that stand for something, as the target has them; one block. */
static stk_status choose_fill(stk__arrays *run, stk__arrays_array *a, stk__target_node *node,
                              stk_error *err)
{
    const stk_array_info *info = stk_array_get_info(a->array);
    const uint64_t size = STK_MAX(item_of(info), stk__arrays_values_to_size(&a->values));
    unsigned char *fill = stk__calloc(run->context, 4, size);
    stk__arrays_loss loss = {0};

    if (!fill)
        return no_memory(err);
    unsigned char *missing = fill + size, *was = missing + size;
    node->fill_value = fill;
    const bool has = missing_of(a->array, was);
    if (has && is_real(info->dtype)) {
        a->values.has_missing = true;
        a->values.missing = stk__element_as_double(was, info->dtype);
    }
    stk__arrays_values plain = a->values;
    plain.keepbits = 0;
    if (has) {
        STK_TRY(stk__arrays_values_convert(&plain, was, missing, 1, &loss, err));
        node->missing_value = missing;
    }
    if (!info->fill_value)
        memset(was, 0, size);
    return stk__arrays_values_convert(&plain, info->fill_value ? info->fill_value : was, fill, 1,
                                      &loss, err);
}

/* What `_FillValue` means has a place of its own. NaN of packed integers, say, is none of them, and
 * no reader of Zarr takes it. */
static void take_missing(const stk__arrays *run, const stk__arrays_array *a, json_t *attributes)
{
    const stk__target_node *node = &run->nodes[a->node];
    const stk_array_info *info = stk_array_get_info(a->array);

    if (!node->missing_value && !is_real(info->dtype))
        return;
    if (json_object_del(attributes, "_FillValue") == 0 && !node->missing_value)
        stk__message(run->context, STK_MESSAGE_WARNING,
                     "the attribute _FillValue of '%.100s' is no %s and is left out", node->path,
                     info->type_name);
}

/* `a` NULL: those of a group. */
static stk_status copy_attributes(stk__arrays *run, const stk__arrays_array *a, const char *text,
                                  const char **out, stk_error *err)
{
    static const char *const of_packing[] = {"scale_factor", "add_offset", "missing_value",
                                             "valid_range",  "valid_min",  "valid_max"};
    stk__json attributes = {0};

    STK_TRY(stk__json_parse(run->context, text, strlen(text), "attributes", &attributes, err));
    json_object_del(attributes.value, DIMENSIONS);
    if (a)
        take_missing(run, a, attributes.value);
    for (size_t i = 0; a && a->values.unpack && i < STK_COUNT(of_packing); i++)
        json_object_del(attributes.value, of_packing[i]);
    *out = stk__json_text(run->context, attributes.value, false);
    stk__json_drop(run->context, &attributes);
    return *out ? STK_OK : no_memory(err);
}

static stk_status fill_node(stk__arrays *run, stk__arrays_array *a, stk__target_node *node,
                            stk_error *err)
{
    const stk_array_info *info = stk_array_get_info(a->array);

    node->is_array = true;
    node->varies = info->itemsize == 0;
    STK_TRY(copy_shape(run, info, node, err));
    STK_TRY(copy_names(run, info, node, err));
    STK_TRY(choose_values(run, a, err));
    STK_TRY(choose_fill(run, a, node, err));
    node->dtype = a->values.to;
    node->itemsize = stk__arrays_values_to_size(&a->values);
    node->type_name =
        a->values.from == a->values.to ? info->type_name : stk_dtype_name(node->dtype);
    return copy_attributes(run, a, info->attributes, &node->attributes, err);
}

static stk_status add_array(stk__arrays *run, const char *path, stk_array *array, stk_error *err)
{
    size_t room = run->num_arrays;
    stk__target_node *node;

    stk__arrays_array *grown =
        stk__grow(run->context, run->arrays, &room, run->num_arrays + 1, sizeof *grown);
    if (!grown) {
        stk_array_close(&array);
        return no_memory(err);
    }
    run->arrays = grown;
    grown[run->num_arrays++] = (stk__arrays_array){.node = run->num_nodes, .array = array};
    return add_node(run, path, &node, err);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Whether a list "a,b" has a path. */
static bool lists(const char *list, const char *path)
{
    const size_t length = strlen(path);

    for (const char *at = list; *at; at += *at == ',') {
        at += strspn(at, " ");
        const size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, path, length) == 0)
            return true;
        at += n;
    }
    return false;
}

static stk_status check_variables(const stk__arrays *run, const char *list, stk_error *err)
{
    char name[256];

    for (const char *at = list; *at; at += *at == ',') {
        at += strspn(at, " ");
        const size_t n = strcspn(at, ",");
        bool found = false;
        const stk_node *node;
        snprintf(name, sizeof name, "%.*s", (int)STK_MIN(n, sizeof name - 1), at);
        for (size_t i = 0; (node = stk_group_node(run->group, i)); i++)
            found |= node->is_array && strcmp(node->path, name) == 0;
        if (!found)
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "arrays.variables: '%.200s' has no array '%.100s'; stoker info lists "
                             "what it has",
                             run->job->source, name);
        at += n;
    }
    return STK_OK;
}

static bool has_dimension(const stk_array *array, const char *name)
{
    const stk_array_info *info = stk_array_get_info(array);

    for (uint32_t d = 0; info->dimension_names && d < info->rank; d++)
        if (info->dimension_names[d] && strcmp(info->dimension_names[d], name) == 0)
            return true;
    return false;
}

/* Whether an array's attribute `coordinates`, names parted by blanks, has this one. */
static bool has_coordinate(const stk_array *array, const char *name)
{
    const char *list = stk_array_text(array, "coordinates");
    const size_t length = strlen(name);

    for (const char *at = list; at && (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' '))
            return true;
    return false;
}

/* Whether `path` is a coordinate of an array that is opened. */
static bool serves(const stk_group *group, stk_array *const *opened, const char *path)
{
    const char *name = stk__convert_last_name(path);

    for (size_t i = 0; stk_group_node(group, i); i++)
        if (opened[i] && (has_dimension(opened[i], name) || has_coordinate(opened[i], name)))
            return true;
    return false;
}

/* Open what is wanted of the group into `opened`, of which entry i is of its node i. */
static stk_status open_arrays(stk__arrays *run, stk_array **opened, bool coordinates,
                              const stk_array_options *options, stk_error *err)
{
    const char *list = run->own->variables;
    const bool all = !list || !*list;
    const stk_node *node;

    for (size_t i = 0; (node = stk_group_node(run->group, i)); i++) {
        const bool wanted = coordinates ? !all && serves(run->group, opened, node->path)
                                        : all || lists(list, node->path);
        if (node->is_array && wanted && !opened[i])
            STK_TRY(stk_group_array(run->group, node->path, options, &opened[i], err));
    }
    return STK_OK;
}

/* Whether something of what is converted lies in a group. */
static bool is_needed(const stk_group *group, stk_array *const *opened, const char *path)
{
    const size_t length = strlen(path);
    const stk_node *node;

    for (size_t i = 0; (node = stk_group_node(group, i)); i++)
        if (opened[i] && strncmp(node->path, path, length) == 0 && node->path[length] == '/')
            return true;
    return false;
}

static stk_status add_group(stk__arrays *run, const char *path, const char *attributes,
                            stk_error *err)
{
    stk__target_node *node;

    STK_TRY(add_node(run, path, &node, err));
    return copy_attributes(run, NULL, attributes, &node->attributes, err);
}

static stk_status add_inner(stk__arrays *run, const char *url, const char *path, stk_error *err)
{
    stk_group *inner = NULL;

    /* Options behind a '?' stay behind. */
    const char *query = url + strcspn(url, "?");
    char *before = stk__format(run->context, "%.*s", (int)(query - url), url);
    char *place = before ? stk__url_below(run->context, before, path) : NULL;
    char *below = place ? stk__format(run->context, "%s%s", place, query) : NULL;
    stk_status status = below ? stk_group_open(run->context, below, &inner, err) : no_memory(err);
    if (status == STK_OK)
        status = add_group(run, path, stk_group_attributes(inner), err);
    stk_group_close(&inner);
    stk__free(run->context, before);
    stk__free(run->context, place);
    stk__free(run->context, below);
    return status;
}

/* The nodes of a group, in the order of their paths: parents come first. */
static stk_status add_all(stk__arrays *run, const char *url, stk_array **opened, stk_error *err)
{
    const bool all = !run->own->variables || !*run->own->variables;
    const stk_node *node;

    STK_TRY(add_group(run, "", stk_group_attributes(run->group), err));
    for (size_t i = 0; (node = stk_group_node(run->group, i)); i++) {
        if (opened[i]) {
            stk_array *array = opened[i];
            opened[i] = NULL;
            STK_TRY(add_array(run, node->path, array, err));
        } else if (!node->is_array && (all || is_needed(run->group, opened, node->path))) {
            STK_TRY(add_inner(run, url, node->path, err));
        }
    }
    return STK_OK;
}

static stk_status open_group(stk__arrays *run, const char *url, const stk_array_options *options,
                             stk_error *err)
{
    const char *list = run->own->variables;
    size_t n = 0;

    while (stk_group_node(run->group, n))
        n++;
    stk_array **opened = stk__calloc(run->context, n + 1, sizeof(stk_array *));
    if (!opened)
        return no_memory(err);
    stk_status status = list && *list ? check_variables(run, list, err) : STK_OK;
    if (status == STK_OK)
        status = open_arrays(run, opened, false, options, err);
    if (status == STK_OK)
        status = open_arrays(run, opened, true, options, err);
    if (status == STK_OK)
        status = add_all(run, url, opened, err);
    for (size_t i = 0; i < n; i++)
        stk_array_close(&opened[i]);
    stk__free(run->context, opened);
    return status;
}

static void mark_coordinates(stk__arrays *run)
{
    for (size_t i = 0; i < run->num_arrays; i++) {
        const char *name = stk__convert_last_name(run->nodes[run->arrays[i].node].path);
        for (size_t k = 0; k < run->num_arrays && *name; k++)
            run->arrays[i].is_coordinate |= has_dimension(run->arrays[k].array, name);
    }
}

/* ---- Lengths --------------------------------------------------------------------------------- */

/* Whether both lie in one group. */
static bool are_neighbours(const stk__target_node *a, const stk__target_node *b)
{
    const size_t length = (size_t)(stk__convert_last_name(a->path) - a->path);

    return (size_t)(stk__convert_last_name(b->path) - b->path) == length &&
           memcmp(a->path, b->path, length) == 0;
}

static stk_status compare_lengths(const stk__target_node *a, const stk__target_node *b,
                                  stk_error *err)
{
    for (uint32_t d = 0; a->dimension_names && d < a->rank; d++)
        for (uint32_t e = 0; b->dimension_names && e < b->rank; e++) {
            const char *name = a->dimension_names[d], *other = b->dimension_names[e];
            if (name && other && strcmp(name, other) == 0 && a->shape[d] != b->shape[e])
                return stk__fail_at(
                    err, STK_EINVAL, STK_STAGE_CONVERT, b->path, STK_NO_OFFSET,
                    "'%.100s' and '%.100s' have %lld and %lld elements along the dimension "
                    "'%.100s', and libhdf5 does not fill what the shorter one lacks; leave "
                    "format=libhdf5 out, or choose one of them by variables",
                    a->path, b->path, (long long)a->shape[d], (long long)b->shape[e], name);
        }
    return STK_OK;
}

/* libhdf5 gives unlimited dimensions as long as each variable is. Arrays of one dimension with
 * lengths of their own are no dataset that xarray opens. */
static stk_status check_lengths(const stk__arrays *run, stk_error *err)
{
    for (size_t i = 0; i < run->num_arrays; i++) {
        const stk__target_node *a = &run->nodes[run->arrays[i].node];
        if (strcmp(stk_array_get_info(run->arrays[i].array)->format, "libhdf5") != 0)
            continue;
        for (size_t k = 0; k < i; k++) {
            const stk__target_node *b = &run->nodes[run->arrays[k].node];
            if (are_neighbours(a, b))
                STK_TRY(compare_lengths(b, a, err));
        }
    }
    return STK_OK;
}

/* ---- Life ------------------------------------------------------------------------------------ */

stk_status stk__arrays_open(stk__arrays *run, stk_error *err)
{
    const char *url = stk__convert_source(run->job);
    const char *list = run->own->variables;
    stk_array_options options;
    stk_array *array = NULL;

    source_options(run, &options);
    STK_TRY(open_either(run->context, url, &options, &array, &run->group, err));
    if (array && list && *list) {
        stk_array_close(&array);
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.variables: '%.200s' is one array, of which there is nothing to "
                         "choose; leave it out",
                         run->job->source);
    }
    if (array)
        STK_TRY(add_array(run, "", array, err));
    if (run->group)
        STK_TRY(open_group(run, url, &options, err));
    mark_coordinates(run);
    for (size_t i = 0; i < run->num_arrays; i++)
        STK_TRY(fill_node(run, &run->arrays[i], &run->nodes[run->arrays[i].node], err));
    return check_lengths(run, err);
}

void stk__arrays_close(stk__arrays *run)
{
    stk_context *ctx = run->context;

    for (size_t i = 0; i < run->num_nodes; i++) {
        const stk__target_node *node = &run->nodes[i];
        stk__free(ctx, (void *)(uintptr_t)node->path);
        stk__free(ctx, (void *)(uintptr_t)node->attributes);
        stk__free(ctx, (void *)(uintptr_t)node->shape);
        stk__free(ctx, (void *)(uintptr_t)node->dimension_names);
        stk__free(ctx, (void *)(uintptr_t)node->fill_value);
    }
    for (size_t i = 0; i < run->num_arrays; i++)
        stk_array_close(&run->arrays[i].array);
    stk_group_close(&run->group);
    stk__free(ctx, run->nodes);
    stk__free(ctx, run->arrays);
}
