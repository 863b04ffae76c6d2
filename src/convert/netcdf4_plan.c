/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays and groups -> dimensions and variables. In NetCDF a dimension is an object of a group with
 * one length, which arrays there and in groups below share; arrays of Zarr only name theirs.
 * [NetCDF Users Guide, "The Enhanced Data Model"; CF conventions 1.11, section 2]
 */
#include <stdio.h>

#include "convert/netcdf4.h"

#define NONE SIZE_MAX
/* What NetCDF-C puts before a variable that has a dimension's name and is not its coordinate. */
#define NOT_COORDINATE "_nc4_non_coord_"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                     "no memory for the dimensions and variables of NetCDF");
}

/* ---- Paths ---- */

/* Length of the group's part of a path, without a '/' behind: "a/b/t" -> 3. */
static size_t group_length(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? (size_t)(slash - path) : 0;
}

/* What an array is called; one that is all of the source, after that. */
static const char *name_of(const stk__netcdf4_plan *p, const stk__target_node *n)
{
    return *n->path ? stk__convert_last_name(n->path) : p->alone;
}

/* Whether the object `path` lies in the group that is the first `length` bytes of `of`. */
static bool lies_in(const char *path, const char *of, size_t length)
{
    return group_length(path) == length && memcmp(path, of, length) == 0;
}

static char *path_of(stk_context *ctx, const char *of, size_t length, const char *begin,
                     const char *name)
{
    return stk__format(ctx, "%.*s%s%s%s", (int)length, of, length ? "/" : "", begin, name);
}

/* ---- Types ---- */

/* Bytes of text as characters: of more than one each, along a dimension of their own. */
static bool is_characters(const stk__target_node *n)
{
    return n->dtype == STK_DTYPE_NONE && n->type_name && *n->type_name == 'S';
}

static stk_status type_of(const stk__netcdf4_plan *p, const stk__target_node *n,
                          stk__netcdf4_variable *v, stk_error *err)
{
    const char *shown = *n->path ? n->path : p->alone;

    v->itemsize = n->itemsize;
    v->type = (uint32_t)n->dtype;
    switch (n->dtype) {
    case STK_BOOL:
        v->type = STK_INT8;
        return STK_OK;
    case STK_UINT8:
    case STK_INT8:
    case STK_UINT16:
    case STK_INT16:
    case STK_UINT32:
    case STK_INT32:
    case STK_UINT64:
    case STK_INT64:
    case STK_FLOAT32:
    case STK_FLOAT64:
        return STK_OK;
    case STK_DTYPE_NONE:
        break;
    default:
        return stk__fail_at(
            err, STK_EKIND, STK_STAGE_CONVERT, n->path, STK_NO_OFFSET,
            "'%.200s' is %s, which NetCDF-4 does not have: %s, or write Zarr", shown, n->type_name,
            stk__dtype_is_float(n->dtype) ? "choose astype=float32" : "leave it out");
    }
    v->type = is_characters(n) ? STK__WIRE_TEXT : STK__WIRE_UNICODE;
    if (is_characters(n))
        v->itemsize = 1;
    if (is_characters(n) || (n->type_name && *n->type_name == 'U'))
        return STK_OK;
    return stk__fail_at(err, STK_EKIND, STK_STAGE_CONVERT, n->path, STK_NO_OFFSET,
                        "'%.200s' holds %s%s, which are not written to NetCDF-4: leave it out, or "
                        "write Zarr",
                        shown, n->type_name ? n->type_name : "bytes",
                        n->varies ? " of varying length" : "");
}

/* ---- Dimensions ---- */

/* Dimension `name` of the group that is the first `length` bytes of `of`; NONE: there is none. */
static size_t find_in(const stk__netcdf4_plan *p, const char *of, size_t length, const char *name)
{
    for (size_t i = 0; i < p->num_dimensions; i++)
        if (lies_in(p->dimensions[i].path, of, length) &&
            strcmp(stk__convert_last_name(p->dimensions[i].path), name) == 0)
            return i;
    return NONE;
}

static stk_status add_dimension(stk__netcdf4_plan *p, const char *of, size_t length,
                                const char *name, int64_t size, size_t *out, stk_error *err)
{
    stk__netcdf4_dimension *grown =
        stk__grow(p->ctx, p->dimensions, &p->room_dimensions, p->num_dimensions + 1, sizeof *grown);
    if (!grown)
        return no_memory(err);
    p->dimensions = grown;
    stk__netcdf4_dimension *d = &grown[p->num_dimensions];
    *d = (stk__netcdf4_dimension){.path = path_of(p->ctx, of, length, "", name),
                                  .size = size,
                                  .unlimited = size == 0,
                                  .variable = NONE};
    if (!d->path)
        return no_memory(err);
    *out = p->num_dimensions++;
    return STK_OK;
}

/* Whether an array of the group is the coordinate of a dimension: it has its name and runs along
 * it. */
static bool has_coordinate(const stk__netcdf4_plan *p, const char *of, size_t length,
                           const char *name)
{
    for (size_t i = 0; i < p->num_nodes; i++) {
        const stk__target_node *n = &p->nodes[i];
        if (n->is_array && n->rank && n->dimension_names && n->dimension_names[0] &&
            lies_in(n->path, of, length) && strcmp(name_of(p, n), name) == 0 &&
            strcmp(n->dimension_names[0], name) == 0)
            return true;
    }
    return false;
}

/* Find or make the dimension of an array: in its group, else in the nearest above with that
 * length, unless its group has a coordinate of its own. */
static stk_status tie(stk__netcdf4_plan *p, const stk__target_node *n, const char *name,
                      int64_t size, size_t *out, stk_error *err)
{
    const size_t group = group_length(n->path);
    const bool own = has_coordinate(p, n->path, group, name);

    for (size_t length = group;;) {
        const size_t i = find_in(p, n->path, length, name);
        if (i != NONE && p->dimensions[i].size == size) {
            *out = i;
            return STK_OK;
        }
        if (i != NONE && length == group)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_CONVERT, n->path, STK_NO_OFFSET,
                                "'%.200s' has %lld elements along the dimension '%.100s', and "
                                "another array of its group has %lld: in NetCDF a name has one "
                                "length in a group",
                                n->path, (long long)size, name, (long long)p->dimensions[i].size);
        if (own || length == 0)
            return add_dimension(p, n->path, group, name, size, out, err);
        const char *before = memrchr(n->path, '/', length);
        length = before ? (size_t)(before - n->path) : 0;
    }
}

/* A name for a dimension that has none: of its place, and where that is taken of its length too. */
static void invent(const stk__netcdf4_plan *p, const stk__target_node *n, uint32_t d, int64_t size,
                   char name[64])
{
    const size_t group = group_length(n->path);

    snprintf(name, 64, "dim_%u", d);
    const size_t i = find_in(p, n->path, group, name);
    if (i != NONE && p->dimensions[i].size != size)
        snprintf(name, 64, "dim_%u_%lld", d, (long long)size);
}

/* ---- Variables ---- */

static stk_status lay_axis(stk__netcdf4_plan *p, stk__netcdf4_variable *v, const char *name,
                           int64_t size, int64_t chunk, stk_error *err)
{
    const uint32_t d = v->rank++;

    v->shape[d] = size;
    v->chunk_shape[d] = STK_MAX(STK_MIN(chunk, size), 1);
    return tie(p, &p->nodes[v->node], name, size, &v->dimensions[d], err);
}

static stk_status add_variable(stk__netcdf4_plan *p, size_t node, stk_error *err)
{
    const stk__target_node *n = &p->nodes[node];
    stk__netcdf4_variable *v = &p->variables[p->num_variables];
    char name[64];

    *v = (stk__netcdf4_variable){.node = node, .scale = NONE};
    STK_TRY(type_of(p, n, v, err));
    if (n->rank + is_characters(n) > STK__NETCDF4_RANK)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_CONVERT, n->path, STK_NO_OFFSET,
                            "'%.200s' has %u dimensions, and a variable has %d at most", n->path,
                            n->rank, STK__NETCDF4_RANK);
    for (uint32_t d = 0; d < n->rank; d++) {
        const char *given = n->dimension_names ? n->dimension_names[d] : NULL;
        const bool good = given && *given && !strchr(given, '/');
        if (!good)
            invent(p, n, d, n->shape[d], name);
        STK_TRY(lay_axis(p, v, good ? given : name, n->shape[d], n->chunk_shape[d], err));
    }
    if (is_characters(n) && n->itemsize > 1) {
        snprintf(name, sizeof name, "string%llu", (unsigned long long)n->itemsize);
        STK_TRY(lay_axis(p, v, name, (int64_t)n->itemsize, (int64_t)n->itemsize, err));
    }
    p->num_variables++;
    return STK_OK;
}

/* What a variable is called, and whether it is the coordinate of a dimension of its group. */
static stk_status name_variable(stk__netcdf4_plan *p, size_t index, stk_error *err)
{
    stk__netcdf4_variable *v = &p->variables[index];
    const char *path = p->nodes[v->node].path, *name = name_of(p, &p->nodes[v->node]);
    const size_t group = group_length(path);
    const size_t same = find_in(p, path, group, name);

    if (same != NONE && v->rank && v->dimensions[0] == same) {
        v->scale = same;
        p->dimensions[same].variable = index;
    }
    v->path =
        path_of(p->ctx, path, group, same != NONE && v->scale == NONE ? NOT_COORDINATE : "", name);
    return v->path ? STK_OK : no_memory(err);
}

/* Numbers in the order in which they are made: those without a variable first. */
static void number_dimensions(stk__netcdf4_plan *p)
{
    uint32_t next = 0;

    for (size_t i = 0; i < p->num_dimensions; i++)
        if (p->dimensions[i].variable == NONE)
            p->dimensions[i].number = next++;
    for (size_t i = 0; i < p->num_variables; i++)
        if (p->variables[i].scale != NONE)
            p->dimensions[p->variables[i].scale].number = next++;
}

static uint32_t depth_of(const char *path)
{
    uint32_t depth = 0;

    for (; (path = strchr(path, '/')); path++)
        depth++;
    return depth;
}

/* Arrays of upper groups come first: those below may share their dimensions. */
static stk_status add_variables(stk__netcdf4_plan *p, stk_error *err)
{
    uint32_t deepest = 0;

    for (size_t i = 0; i < p->num_nodes; i++)
        deepest = STK_MAX(deepest, depth_of(p->nodes[i].path));
    for (uint32_t depth = 0; depth <= deepest; depth++)
        for (size_t i = 0; i < p->num_nodes; i++)
            if (p->nodes[i].is_array && depth_of(p->nodes[i].path) == depth)
                STK_TRY(add_variable(p, i, err));
    return STK_OK;
}

stk_status stk__netcdf4_plan_make(stk_context *ctx, const stk__target_node *nodes, size_t num_nodes,
                                  const char *alone, stk__netcdf4_plan *plan, stk_error *err)
{
    *plan = (stk__netcdf4_plan){.ctx = ctx, .nodes = nodes, .num_nodes = num_nodes, .alone = alone};
    plan->variables = stk__calloc(ctx, STK_MAX(num_nodes, 1), sizeof *plan->variables);
    if (!plan->variables)
        return no_memory(err);
    STK_TRY(add_variables(plan, err));
    for (size_t i = 0; i < plan->num_variables; i++)
        STK_TRY(name_variable(plan, i, err));
    number_dimensions(plan);
    return STK_OK;
}

bool stk__netcdf4_plan_unlimited(stk__netcdf4_plan *plan, const char *name, size_t length)
{
    bool found = false;

    for (size_t i = 0; i < plan->num_dimensions; i++) {
        stk__netcdf4_dimension *d = &plan->dimensions[i];
        const char *last = stk__convert_last_name(d->path);
        if (strlen(last) == length && memcmp(last, name, length) == 0)
            found = d->unlimited = true;
    }
    return found;
}

void stk__netcdf4_plan_release(stk__netcdf4_plan *plan)
{
    for (size_t i = 0; i < plan->num_dimensions; i++)
        stk__free(plan->ctx, plan->dimensions[i].path);
    for (size_t i = 0; i < plan->num_variables; i++)
        stk__free(plan->ctx, plan->variables[i].path);
    stk__free(plan->ctx, plan->dimensions);
    stk__free(plan->ctx, plan->variables);
    *plan = (stk__netcdf4_plan){.ctx = plan->ctx};
}
