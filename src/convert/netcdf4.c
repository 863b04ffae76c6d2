/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays and groups as one NetCDF-4 file. libhdf5 writes it in a process of its own, under a
 * temporary name, and it gets its own when it is whole: a conversion that was interrupted begins
 * again.
 */
#include "convert/netcdf4.h"

#include <stdio.h>
#include <unistd.h>

#include "base/url.h"
#include "convert/encoders.h"
#include "convert/one_file.h"
#include "convert/target.h"
#include "store/store.h"

#define NONE       SIZE_MAX
#define BASE_BYTES (UINT64_C(512) << 20) /* of the process, besides chunks in work */
#define CHUNKS     6                     /* that it holds at a time, in all their forms */
#define SECONDS    600                   /* of one call: a chunk is encoded, a file finished */
#define LEVEL      4                     /* of deflate, as netCDF4-python has it */

typedef struct netcdf4_target {
    stk__array_target base;
    stk__netcdf4_plan plan;
    char alone[256];            /* the name of the source */
    size_t *variables;          /* by node; NONE: a group */
    stk__libhdf5_variable *put; /* as they were put, by variable */
    stk__libhdf5 *child;
    stk__one_file file;
    uint32_t level; /* of deflate; 0: none */
    bool shuffle, fletcher32;
    bool verify;
    stk_array_writer **writers; /* by variable; NULL: libhdf5 encodes it */
    stk__encoders *encoders;
    pthread_mutex_t lock; /* guards the process, and the next two */
    unsigned char *box;   /* elements of a box that are not one run */
    size_t box_room;
    uint64_t bytes; /* of the file, once it is finished */
    stk_store_call call;
} netcdf4_target;

static netcdf4_target *of(stk__array_target *target)
{
    return (netcdf4_target *)target;
}

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to write NetCDF-4");
}

/* ---- The file ---- */

/* A descriptor by which the file is read, too: libhdf5 looks again at what it has written. */
static stk_status start_child(netcdf4_target *t, stk_error *err)
{
    stk__libhdf5_limits limits = {BASE_BYTES, SECONDS};
    uint64_t most = 0, bytes = 0;
    int fd;

    for (size_t i = 0; i < t->plan.num_variables; i++) {
        const stk__netcdf4_variable *v = &t->plan.variables[i];
        if (stk__shape_bytes(v->chunk_shape, v->rank, v->itemsize, &bytes))
            most = STK_MAX(most, bytes);
    }
    if (!stk__mul_size(most, CHUNKS, &most) || !stk__add_size(limits.memory, most, &limits.memory))
        limits.memory = UINT64_MAX;
    STK_TRY(stk__one_file_open(&t->file, &fd, err));
    const stk_status status = stk__libhdf5_start(t->base.job->context, &limits, fd, &t->child, err);
    close(fd);
    return status;
}

/* ---- What is in it ---- */

static stk_status put_dimensions(netcdf4_target *t, stk_error *err)
{
    for (size_t i = 0; i < t->plan.num_dimensions; i++) {
        const stk__netcdf4_dimension *d = &t->plan.dimensions[i];
        if (d->variable == NONE)
            STK_TRY(stk__libhdf5_put_dimension(t->child, d->number, d->path, (uint64_t)d->size,
                                               d->unlimited, &t->call, err));
    }
    return STK_OK;
}

/* The root is there in any case, also of one array alone. */
static stk_status put_groups(netcdf4_target *t, stk_error *err)
{
    for (size_t i = 0; i < t->plan.num_nodes; i++) {
        const stk__target_node *n = &t->plan.nodes[i];
        if (n->is_array)
            continue;
        STK_TRY(stk__libhdf5_put_group(t->child, n->path, &t->call, err));
        STK_TRY(stk__netcdf4_attributes(t->child, t->base.job->context, n, STK_DTYPE_NONE, &t->call,
                                        err));
    }
    return STK_OK;
}

static void describe(const netcdf4_target *t, size_t index, stk__libhdf5_variable *out)
{
    const stk__netcdf4_variable *v = &t->plan.variables[index];
    const stk__netcdf4_dimension *dimensions = t->plan.dimensions;
    const stk__target_node *n = &t->plan.nodes[v->node];
    bool unlimited = false, whole = true;

    *out = (stk__libhdf5_variable){.number = (uint32_t)index,
                                   .path = v->path,
                                   .type = v->type,
                                   .itemsize = v->itemsize,
                                   .rank = v->rank,
                                   .level = t->level,
                                   .shuffle = t->shuffle,
                                   .fletcher32 = t->fletcher32,
                                   .scale = v->scale == NONE ? STK__WIRE_NONE
                                                             : dimensions[v->scale].number};
    if (n->dtype != STK_DTYPE_NONE)
        out->fill_value = n->missing_value ? n->missing_value : n->fill_value;
    for (uint32_t d = 0; d < v->rank; d++) {
        out->shape[d] = (uint64_t)v->shape[d];
        out->chunk_shape[d] = (uint64_t)v->chunk_shape[d];
        out->dimensions[d] = dimensions[v->dimensions[d]].number;
        out->unlimited[d] = dimensions[v->dimensions[d]].unlimited;
        unlimited = unlimited || out->unlimited[d];
        whole = whole && v->chunk_shape[d] >= v->shape[d];
    }
    /* Filters are of chunks; texts of any length lie elsewhere, where none reaches them. */
    if (v->type == STK__WIRE_UNICODE || v->rank == 0) {
        out->level = 0;
        out->fletcher32 = false;
    }
    out->shuffle = out->shuffle && out->level && v->itemsize > 1;
    out->is_chunked = v->rank && (unlimited || !whole || out->level || out->fletcher32);
}

/* How it will be written, also where nothing is. */
static stk_status describe_all(netcdf4_target *t, stk_error *err)
{
    for (size_t i = 0; i < t->plan.num_variables; i++) {
        const stk__netcdf4_variable *v = &t->plan.variables[i];
        describe(t, i, &t->put[i]);
        t->variables[v->node] = i;
        STK_TRY(stk__netcdf4_writer(t->base.job->context, &t->plan.nodes[v->node], &t->put[i],
                                    v->chunk_shape, &t->writers[i], err));
    }
    return STK_OK;
}

static stk_status put_variables(netcdf4_target *t, stk_error *err)
{
    stk_context *ctx = t->base.job->context;

    for (size_t i = 0; i < t->plan.num_variables; i++) {
        const stk__netcdf4_variable *v = &t->plan.variables[i];
        const stk__target_node *n = &t->plan.nodes[v->node];
        STK_TRY(stk__libhdf5_put_variable(t->child, &t->put[i], &t->call, err));
        STK_TRY(stk__netcdf4_attributes(t->child, ctx, n, v->type, &t->call, err));
    }
    return STK_OK;
}

static stk_status define(netcdf4_target *t, stk_error *err)
{
    STK_TRY(stk__libhdf5_begin(t->child, &t->call, err));
    STK_TRY(put_groups(t, err));
    STK_TRY(put_dimensions(t, err));
    STK_TRY(put_variables(t, err));
    return stk__libhdf5_put_defined(t->child, &t->call, err);
}

/* ---- The target ---- */

static void netcdf4_close(stk__array_target *target)
{
    netcdf4_target *t = of(target);
    stk_context *ctx = target->job->context;

    stk__libhdf5_stop(&t->child);
    stk__encoders_destroy(&t->encoders);
    for (size_t i = 0; t->writers && i < t->plan.num_variables; i++)
        stk_array_writer_abandon(&t->writers[i]);
    pthread_mutex_destroy(&t->lock);
    stk__one_file_close(&t->file);
    stk__netcdf4_plan_release(&t->plan);
    stk__free(ctx, t->variables);
    stk__free(ctx, t->put);
    stk__free(ctx, t->writers);
    stk__free(ctx, t->box);
    stk__free(ctx, t);
}

/* "x/t2m.npy" -> "t2m". */
static void name_alone(netcdf4_target *t)
{
    size_t length = 0;
    const char *name =
        stk__url_name(t->base.job->context, stk__convert_source(t->base.job), &length);
    const char *end = memrchr(name, '.', length);

    if (end && end > name)
        length = (size_t)(end - name);
    snprintf(t->alone, sizeof t->alone, "%.*s", (int)STK_MIN(length, sizeof t->alone - 1), name);
    if (!*t->alone || strchr(t->alone, '/'))
        snprintf(t->alone, sizeof t->alone, "data");
}

/* What the options say of chunks. */
static stk_status settle(netcdf4_target *t, stk_error *err)
{
    const stk_convert_arrays_options *own = t->base.job->own;
    const bool deflate =
        own->codec == STK__ARRAYS_CODEC_AUTO || own->codec == STK__ARRAYS_CODEC_ZLIB;

    if (!deflate && own->codec != STK__ARRAYS_CODEC_NONE)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.codec: NetCDF-4 has none or zlib, which every reader of it has");
    if (own->level != STK_AUTO && (own->level < 1 || own->level > 9))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.level: zlib has levels from 1 to 9");
    if (own->shuffle == STK__ARRAYS_SHUFFLE_BITS)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.shuffle: NetCDF-4 has none or byte");
    if (!deflate && own->shuffle > STK__ARRAYS_SHUFFLE_NONE)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.shuffle does nothing with codec none; leave it out");
    if (own->zarr_format)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.zarr_format does nothing for NetCDF-4; leave it out");
    if (deflate)
        t->level = own->level == STK_AUTO ? LEVEL : (uint32_t)own->level;
    t->shuffle = own->shuffle != STK__ARRAYS_SHUFFLE_NONE;
    t->fletcher32 = own->checksum;
    t->verify = t->base.job->options->verify == STK_VERIFY_FULL;
    return STK_OK;
}

/* Dimensions of that name, in any group, can grow. */
static stk_status set_unlimited(netcdf4_target *t, stk_error *err)
{
    const char *list = ((const stk_convert_arrays_options *)t->base.job->own)->unlimited;

    for (const char *at = list ? list : ""; *at;) {
        at += strspn(at, ", ");
        const size_t length = strcspn(at, ", ");
        if (length && !stk__netcdf4_plan_unlimited(&t->plan, at, length))
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "arrays.unlimited: no array has a dimension '%.*s'",
                             (int)STK_MIN(length, 100), at);
        at += length;
    }
    return STK_OK;
}

static stk_status open_target(netcdf4_target *t, const stk__target_node *nodes, size_t n,
                              uint32_t members, stk_error *err)
{
    stk_context *ctx = t->base.job->context;

    STK_TRY(settle(t, err));
    name_alone(t);
    STK_TRY(stk__netcdf4_plan_make(ctx, nodes, n, t->alone, &t->plan, err));
    STK_TRY(set_unlimited(t, err));
    t->variables = stk__calloc(ctx, STK_MAX(n, 1), sizeof *t->variables);
    t->put = stk__calloc(ctx, STK_MAX(t->plan.num_variables, 1), sizeof *t->put);
    t->writers = stk__calloc(ctx, STK_MAX(t->plan.num_variables, 1), sizeof(stk_array_writer *));
    if (!t->variables || !t->put || !t->writers)
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        t->variables[i] = NONE;
    STK_TRY(stk__encoders_create(ctx, members, &t->encoders, err));
    STK_TRY(describe_all(t, err));
    if (t->base.job->options->dry_run)
        return STK_OK;
    STK_TRY(stk__one_file_begin(&t->file, t->base.job, "NetCDF-4", err));
    STK_TRY(start_child(t, err));
    return define(t, err);
}

static stk_status netcdf4_open(const stk_conversion_job *job, const stk__target_node *nodes,
                               size_t num_nodes, const stk__target_part *part, uint32_t members,
                               stk__array_target **out, stk_error *err)
{
    netcdf4_target *t = stk__calloc(job->context, 1, sizeof *t);

    (void)part;
    *out = NULL;
    if (!t)
        return no_memory(err);
    t->base = (stk__array_target){.ops = &stk__array_target_netcdf4, .job = job};
    t->call = (stk_store_call){
        .struct_size = sizeof t->call, .canceled = stk__convert_canceled, .user = (void *)job};
    t->plan.ctx = job->context;
    pthread_mutex_init(&t->lock, NULL);
    const stk_status status = open_target(t, nodes, num_nodes, members, err);
    if (status == STK_OK)
        *out = &t->base;
    else
        netcdf4_close(&t->base);
    return status;
}

/* What a chunk is encoded to, or the copy of a box that is not one run. What the process of libhdf5
 * holds is not counted: it has a limit of its own. */
static uint64_t netcdf4_memory(const stk__array_target *target, size_t node)
{
    const netcdf4_target *t = (const netcdf4_target *)target;
    const stk__target_node *n = &t->plan.nodes[node];
    uint64_t bytes = 0;

    if (t->writers[t->variables[node]])
        return stk__encoder_memory(t->writers[t->variables[node]]);
    return stk__shape_bytes(n->object_shape, n->rank, n->itemsize, &bytes) ? bytes : UINT64_MAX;
}

/* The elements of a box in C order: its own, or a copy. */
static stk_status gather(netcdf4_target *t, const stk__target_node *n, const stk__target_box *box,
                         const void **out, stk_error *err)
{
    int64_t strides[STK_ARRAY_MAX_RANK];
    uint64_t bytes = 0;

    stk__array_strides(n->rank, box->shape, n->itemsize, strides);
    *out = box->data;
    bool same = true;
    for (uint32_t d = 0; d < n->rank; d++)
        same = same && (box->shape[d] == 1 || box->strides[d] == strides[d]);
    if (same)
        return STK_OK;
    if (!stk__shape_bytes(box->shape, n->rank, n->itemsize, &bytes))
        return no_memory(err);
    unsigned char *grown = stk__grow(t->base.job->context, t->box, &t->box_room, bytes, 1);
    if (!grown)
        return no_memory(err);
    t->box = grown;
    stk__copy_strided(n->rank, n->itemsize, box->shape, box->data, box->strides, t->box, strides);
    *out = t->box;
    return STK_OK;
}

/* Elements that libhdf5 encodes. */
static stk_status write_box_locked(netcdf4_target *t, const stk__target_node *n, size_t index,
                                   const stk__target_box *box, stk_error *err)
{
    const stk__netcdf4_variable *v = &t->plan.variables[index];
    int64_t start[STK__NETCDF4_RANK] = {0}, shape[STK__NETCDF4_RANK];
    const void *values = NULL;

    STK_TRY(gather(t, n, box, &values, err));
    for (uint32_t d = 0; d < v->rank; d++) {
        start[d] = d < n->rank ? box->start[d] : 0;
        shape[d] = d < n->rank ? box->shape[d] : v->shape[d];
        if (shape[d] == 0)
            return STK_OK;
    }
    return stk__libhdf5_put_box(t->child, &t->put[index], start, shape, values, t->verify, &t->call,
                                err);
}

static stk_status netcdf4_write(stk__array_target *target, uint32_t member, size_t node,
                                const stk__target_box *box, stk_error *err)
{
    netcdf4_target *t = of(target);
    const size_t index = t->variables[node];
    const stk_array_writer *encoded = t->writers[index];
    const void *bytes = NULL;
    uint64_t length = 0;

    if (encoded) {
        STK_TRY(
            stk__encoders_run(t->encoders, member, encoded, box, t->verify, &bytes, &length, err));
        if (!length)
            return STK_OK;
    }
    pthread_mutex_lock(&t->lock);
    const stk_status status = encoded
                                  ? stk__libhdf5_put_chunk(t->child, &t->put[index], box->start,
                                                           bytes, length, t->verify, &t->call, err)
                                  : write_box_locked(t, &t->plan.nodes[node], index, box, err);
    pthread_mutex_unlock(&t->lock);
    return status;
}

static stk_status netcdf4_finish(stk__array_target *target, stk_error *err)
{
    netcdf4_target *t = of(target);
    struct stat st;

    STK_TRY(stk__libhdf5_finish(t->child, &t->call, err));
    stk__libhdf5_stop(&t->child);
    if (fstat(t->file.durable.fd, &st) == 0)
        t->bytes = (uint64_t)st.st_size;
    return stk__one_file_commit(&t->file, err);
}

static uint64_t netcdf4_bytes(const stk__array_target *target)
{
    return ((const netcdf4_target *)target)->bytes;
}

const stk__array_target_ops stk__array_target_netcdf4 = {
    .name = "NetCDF-4",
    .open = netcdf4_open,
    .memory = netcdf4_memory,
    .write = netcdf4_write,
    .finish = netcdf4_finish,
    .bytes = netcdf4_bytes,
    .close = netcdf4_close,
};

/* ---- The converter --------------------------------------------------------------------------- */

static stk_status netcdf4_run(const stk_conversion_job *job, stk_conversion_report *report,
                              stk_error *err)
{
    return stk__convert_arrays(job, &stk__array_target_netcdf4, report, err);
}

/* It is written in one go: nothing is noted on the way. */
static const char *const ignores[] = {"on_error",   "max_errors", "max_pixels",
                                      "max_blocks", "checkpoint", NULL};

const stk_converter_ops stk__convert_netcdf4 = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "netcdf4",
    .from = "arrays (Zarr, NetCDF, npy, ...)",
    .doc = "NetCDF-4",
    .options = &stk__convert_arrays_option_table,
    .endings = "|.nc|.nc4|",
    .ignores = ignores,
    .run = netcdf4_run,
    .takes = stk__convert_takes_arrays,
    .plans = true,
};
