/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any variable of an HDF5 file, as libhdf5 reads it, for `info`, `cat` and `convert` of what the
 * parser of this library does not read. It is slow, one read at a time: training refuses it.
 */
#include <stdio.h>

#include "array/libhdf5/libhdf5.h"

#include "base/text.h"

#define AT(member)  offsetof(libhdf5_options, member)
#define PIECE       (UINT64_C(4) << 20) /* of what is stored without chunks, read at a time */
#define MOST_NAMED  8                   /* variables that an error names */
#define LEAST_BYTES 67108864e0          /* libhdf5 starts in it */
#define MOST_BYTES  1e15

typedef struct libhdf5_options {
    uint32_t struct_size;
    uint64_t child_memory, child_seconds;
} libhdf5_options;

static const stk_option rows[] = {
    {"child_memory", STK_OPTION_SIZE, AT(child_memory), "1GiB", LEAST_BYTES, MOST_BYTES, NULL,
     "SIZE", "Memory of the process that libhdf5 runs in; beyond it reading fails."},
    {"child_seconds", STK_OPTION_UINT, AT(child_seconds), "60", 1, 86400, NULL, "N",
     "Seconds of processor time that it may take for one chunk, or to open."},
};

static const stk_option_table option_table = {
    .name = "libhdf5",
    .doc = "How files are read by libhdf5.",
    .struct_size = sizeof(libhdf5_options),
    .options = rows,
    .count = STK_COUNT(rows),
};

typedef struct variable {
    stk_context *ctx;
    stk_store *store; /* lives as long as the array */
    char *key, *path;
    stk__libhdf5_limits limits;
    uint64_t identity; /* of the object when it was opened */
    stk__libhdf5_object object;
    pthread_mutex_t mutex; /* guards the process */
    stk__libhdf5 *child;   /* NULL: none, as it was lost */
} variable;

static void variable_close(void *state)
{
    variable *v = state;

    stk__libhdf5_stop(&v->child);
    stk__libhdf5_object_release(&v->object);
    pthread_mutex_destroy(&v->mutex);
    stk__free(v->ctx, v->key);
    stk__free(v->ctx, v->path);
    stk__free(v->ctx, v);
}

/* What the object is now: a file that was replaced is not read as if it was the one that was
 * described. */
static stk_status look(variable *v, const stk_store_call *call, uint64_t *identity, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    STK_TRY(stk_store_stat(v->store, v->key, call, &info, err));
    *identity = info.identity;
    return STK_OK;
}

/* A process that has the file open. */
static stk_status have_child(variable *v, const stk_store_call *call, stk_error *err)
{
    if (v->child && !stk__libhdf5_is_lost(v->child) && !stk__libhdf5_has_ended(v->child))
        return STK_OK;
    stk__libhdf5_stop(&v->child);
    STK_TRY(stk__libhdf5_start(v->ctx, &v->limits, -1, &v->child, err));
    const stk_status status = stk__libhdf5_open(v->child, v->store, v->key, call, err);
    if (status != STK_OK)
        stk__libhdf5_stop(&v->child);
    return status;
}

static stk_status read_once(variable *v, const int64_t *start, const int64_t *shape,
                            const stk_store_call *call, void *out, uint64_t bytes, stk_error *err)
{
    STK_TRY(have_child(v, call, err));
    return stk__libhdf5_read(v->child, v->path, &v->object, start, shape, call, out, bytes, err);
}

static stk_status variable_read(void *state, const int64_t *start, const int64_t *shape,
                                const stk_store_call *call, void *out, uint64_t bytes,
                                stk_error *err)
{
    variable *v = state;
    uint64_t identity = 0;

    pthread_mutex_lock(&v->mutex);
    stk_status status = look(v, call, &identity, err);
    if (status == STK_OK && identity != v->identity)
        status = stk__fail_at(err, STK_ECHANGED, STK_STAGE_ARRAY, v->key, STK_NO_OFFSET,
                              "%s has changed since it was opened: open it again", v->key);
    if (status == STK_OK)
        status = read_once(v, start, shape, call, out, bytes, err);
    /* It may have ended for want of questions just when one was asked. */
    if (status == STK_EFORMAT && v->child && stk__libhdf5_is_lost(v->child))
        status = read_once(v, start, shape, call, out, bytes, err);
    pthread_mutex_unlock(&v->mutex);
    return status;
}

/* ---- Opening ---- */

/* Rows of what lies in one run, so that no read is large. */
static void cut_run(stk__libhdf5_object *o)
{
    uint64_t bytes = o->itemsize;

    for (uint32_t d = o->rank; d-- > 0;) {
        const uint64_t most = STK_MAX(PIECE / bytes, UINT64_C(1));
        const uint64_t size = STK_MAX((uint64_t)o->shape[d], UINT64_C(1));
        o->chunk_shape[d] = (int64_t)STK_MIN(size, most);
        bytes = STK_MIN(bytes * (uint64_t)o->chunk_shape[d], PIECE);
    }
}

typedef struct names {
    stk__text text;
    uint32_t count;
} names;

static stk_status add_name(void *user, const char *path, bool is_array, stk_error *err)
{
    names *n = user;

    (void)err;
    if (is_array && n->count++ < MOST_NAMED)
        stk__text_add(&n->text, "%s'%.60s'", n->count > 1 ? ", " : "", path);
    return STK_OK;
}

/* A group was asked for as an array. */
static stk_status is_group(variable *v, stk_error *err)
{
    char room[STK_ERROR_TEXT / 2] = "";
    names n = {.text = {.bytes = room, .room = sizeof room}};

    STK_TRY(stk__libhdf5_list(v->child, NULL, add_name, &n, err));
    return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, v->key, STK_NO_OFFSET,
                        "'%.200s%s%.100s' is a group and no array; the file has %u: %s%s", v->key,
                        *v->path ? "/" : "", v->path, n.count, room,
                        n.count > MOST_NAMED ? ", ..." : "");
}

static stk_status describe(variable *v, stk_error *err)
{
    STK_TRY(look(v, NULL, &v->identity, err));
    STK_TRY(have_child(v, NULL, err));
    STK_TRY(stk__libhdf5_describe(v->child, v->path, NULL, &v->object, err));
    if (!v->object.is_array)
        return is_group(v, err);
    if (!v->object.is_chunked)
        cut_run(&v->object);
    return STK_OK;
}

static stk_status create(const stk_array_opening *opening, variable **out, stk_error *err)
{
    const libhdf5_options *options = opening->options;
    stk_context *ctx = opening->store->context;
    variable *v = *out = stk__calloc(ctx, 1, sizeof *v);

    if (v) {
        v->ctx = v->object.ctx = ctx;
        v->store = opening->store;
        v->limits = (stk__libhdf5_limits){options->child_memory, options->child_seconds};
        pthread_mutex_init(&v->mutex, NULL);
        v->key = stk__strdup(ctx, opening->key);
        v->path = stk__strdup(ctx, opening->rest);
        if (v->key && v->path)
            return STK_OK;
        variable_close(v);
    }
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to open '%.200s'", opening->url);
}

static stk_status variable_open(stk_array *array, const stk_array_opening *opening, stk_error *err)
{
    variable *v;

    if (!*opening->key)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, opening->key, STK_NO_OFFSET,
                            "'%.300s' is a folder; name the HDF5 file", opening->url);
    STK_TRY(create(opening, &v, err));
    stk_status status = describe(v, err);
    if (status == STK_OK) {
        const stk__libhdf5_object *o = &v->object;
        const stk_array_layout layout = {.struct_size = sizeof layout,
                                         .type_name = o->type_name,
                                         .rank = o->rank,
                                         .shape = o->shape,
                                         .chunk_shape = o->chunk_shape,
                                         .reads_chunks = true,
                                         .fill_value = o->fill_value,
                                         .dimension_names = (const char *const *)o->dimensions,
                                         .attributes = o->attributes,
                                         .state = v};
        status = stk_array_lay_out(array, &layout, err);
    }
    if (status != STK_OK)
        variable_close(v);
    return status;
}

/* ---- What a file holds ---- */

static stk_status add_node(void *user, const char *path, bool is_array, stk_error *err)
{
    return stk_array_listing_add(user, path, is_array, err);
}

/* Nodes below the group that was asked for. */
typedef struct below {
    stk_array_listing *listing;
    const char *group;
    size_t length;
} below;

static stk_status add_below(void *user, const char *path, bool is_array, stk_error *err)
{
    const below *b = user;

    if (strncmp(path, b->group, b->length) != 0 || path[b->length] != '/')
        return STK_OK;
    return add_node(b->listing, path + b->length + 1, is_array, err);
}

static stk_status list_group(variable *v, stk_array_listing *listing, stk_error *err)
{
    below b = {listing, v->path, strlen(v->path)};

    STK_TRY(have_child(v, NULL, err));
    STK_TRY(stk__libhdf5_describe(v->child, v->path, NULL, &v->object, err));
    if (v->object.is_array)
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, v->key, STK_NO_OFFSET,
                            "'%.200s' is an array and no group", v->path);
    STK_TRY(stk__libhdf5_list(v->child, NULL, b.length ? add_below : add_node,
                              b.length ? (void *)&b : listing, err));
    return stk_array_listing_attributes(listing, v->object.attributes, err);
}

static stk_status variable_list(const stk_array_opening *opening, stk_array_listing *listing,
                                stk_error *err)
{
    variable *v;

    STK_TRY(create(opening, &v, err));
    const stk_status status = list_group(v, listing, err);
    variable_close(v);
    return status;
}

/* What others read they read better: it is chosen by name alone. */
static int recognise(stk_store *store, const char *key)
{
    (void)store, (void)key;
    return 0;
}

const stk_array_format_ops stk__array_libhdf5 = {
    .struct_size = sizeof(stk_array_format_ops),
    .name = "libhdf5",
    .doc = "HDF5 by libhdf5, in a process of its own: all that the format has, slowly; not for "
           "training",
    .options = &option_table,
    .takes_rest = true,
    .recognise = recognise,
    .open = variable_open,
    .read = variable_read,
    .close = variable_close,
    .list = variable_list,
};
