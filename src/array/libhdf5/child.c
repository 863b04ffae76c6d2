/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the process for reading: the file, what is in it, boxes of it. */
#include <stdio.h>
#include <unistd.h>

#include "array/hdf5/netcdf.h"
#include "array/libhdf5/child.h"

/* ---- Beginning and end ---- */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory for the process of libhdf5");
}

/* It says of which version it is before anything else. */
static stk_status greet(stk__libhdf5 *h, stk_error *err)
{
    stk__wire_in in;
    uint32_t kind = 0;

    STK_TRY(stk__libhdf5_next(h, NULL, &kind, &in, NULL, 0, err));
    const uint32_t version = stk__wire_u32(&in);
    if (kind != STK__WIRE_HELLO || !stk__wire_end(&in))
        return stk__libhdf5_nonsense(h, err);
    if (version != STK__WIRE_VERSION)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_ARRAY,
                         "the program stoker-hdf5 is of another version of Stoker (it speaks %u, "
                         "and %u is spoken here): install both of one build",
                         version, STK__WIRE_VERSION);
    return STK_OK;
}

static stk__libhdf5 *create(stk_context *ctx, const stk__libhdf5_limits *limits)
{
    stk__libhdf5 *h = stk__calloc(ctx, 1, sizeof *h);

    if (!h)
        return NULL;
    h->ctx = ctx;
    h->socket = -1;
    h->limits = limits ? *limits : (stk__libhdf5_limits){STK__LIBHDF5_MEMORY, STK__LIBHDF5_SECONDS};
    return h;
}

stk_status stk__libhdf5_start(stk_context *ctx, const stk__libhdf5_limits *limits, int file,
                              stk__libhdf5 **out, stk_error *err)
{
    *out = create(ctx, limits);
    if (!*out)
        return no_memory(err);
    stk_status status = stk__libhdf5_spawn(*out, file, err);
    if (status == STK_OK)
        status = greet(*out, err);
    if (status != STK_OK)
        stk__libhdf5_stop(out);
    return status;
}

stk_status stk__libhdf5_attach(stk_context *ctx, int socket, stk__libhdf5 **out, stk_error *err)
{
    *out = create(ctx, NULL);
    if (!*out) {
        close(socket);
        return no_memory(err);
    }
    (*out)->socket = socket;
    const stk_status status = greet(*out, err);
    if (status != STK_OK)
        stk__libhdf5_stop(out);
    return status;
}

void stk__libhdf5_stop(stk__libhdf5 **child)
{
    stk__libhdf5 *h = *child;
    char how[64];

    *child = NULL;
    if (!h)
        return;
    if (h->socket >= 0)
        close(h->socket);
    (void)stk__libhdf5_reap(h, true, how, sizeof how);
    stk__bytes_release(&h->made);
    stk__free(h->ctx, h->piece);
    stk__free(h->ctx, h->taken);
    stk__free(h->ctx, h->key);
    stk__free(h->ctx, h);
}

bool stk__libhdf5_is_lost(const stk__libhdf5 *child)
{
    return child->socket < 0;
}

/* ---- The file ---- */

stk_status stk__libhdf5_open(stk__libhdf5 *h, stk_store *store, const char *key,
                             const stk_store_call *call, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    STK_TRY(stk_store_stat(store, key, call, &info, err));
    h->key = stk__strdup(h->ctx, key);
    if (!h->key)
        return no_memory(err);
    h->store = store;
    h->size = info.size;
    stk__wire_out out = stk__libhdf5_payload(h);
    stk__wire_put_u64(&out, info.size);
    STK_TRY(stk__libhdf5_send(h, STK__WIRE_READ_FILE, &out, call, err));
    return stk__libhdf5_done(h, call, err);
}

/* A path of a file that becomes one of Stoker's: of plain names, none of which leads elsewhere. */
static bool is_plain_path(const char *path)
{
    size_t n;

    for (;; path += n + 1) {
        n = strcspn(path, "/");
        if (n == 0 || (n == 1 && *path == '.') || (n == 2 && memcmp(path, "..", 2) == 0))
            return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)path[i] < ' ' || path[i] == 0x7f)
                return false;
        if (!path[n])
            return true;
    }
}

stk_status stk__libhdf5_list(stk__libhdf5 *h, const stk_store_call *call,
                             stk__libhdf5_node_fn *each, void *user, stk_error *err)
{
    const stk__wire_out nothing = stk__libhdf5_payload(h);
    uint64_t nodes = 0;
    stk__wire_in in;
    uint32_t kind = 0;

    STK_TRY(stk__libhdf5_send(h, STK__WIRE_LIST, &nothing, call, err));
    for (;;) {
        STK_TRY(stk__libhdf5_next(h, call, &kind, &in, NULL, 0, err));
        if (kind == STK__WIRE_DONE && in.left == 0)
            return STK_OK;
        const bool is_array = stk__wire_u8(&in) != 0;
        const char *path = stk__wire_text(&in);
        if (kind != STK__WIRE_NODE || !stk__wire_end(&in) || ++nodes > STK__WIRE_NODES)
            return stk__libhdf5_nonsense(h, err);
        /* What has such a name cannot be named in a URL. */
        const stk_status status = is_plain_path(path) && strlen(path) < STK_MAX_OBJECT_KEY
                                      ? each(user, path, is_array, err)
                                      : STK_OK;
        if (status != STK_OK) { /* the rest of the answer is not waited for */
            (void)stk__libhdf5_nonsense(h, NULL);
            return status;
        }
    }
}

/* ---- An object ---- */

void stk__libhdf5_object_release(stk__libhdf5_object *o)
{
    stk__free(o->ctx, o->attributes);
    stk__free(o->ctx, o->fill_value);
    stk__free(o->ctx, o->filters);
    for (uint32_t d = 0; d < STK_ARRAY_MAX_RANK; d++)
        stk__free(o->ctx, o->dimensions[d]);
    *o = (stk__libhdf5_object){.ctx = o->ctx};
}

static bool take_type(stk__wire_in *in, stk__libhdf5_object *o)
{
    const uint32_t type = stk__wire_u32(in);

    o->itemsize = stk__wire_u64(in);
    if (o->itemsize == 0 || o->itemsize > INT32_MAX)
        return false;
    const unsigned long long n = o->itemsize;
    if (type > STK_DTYPE_NONE && type < STK_DTYPE_COUNT) {
        snprintf(o->type_name, sizeof o->type_name, "%s", stk_dtype_name((stk_dtype)type));
        return o->itemsize == stk_dtype_size((stk_dtype)type);
    }
    if (type == STK__WIRE_UNICODE)
        snprintf(o->type_name, sizeof o->type_name, "<U%llu", n / 4);
    else
        snprintf(o->type_name, sizeof o->type_name, "|%c%llu", type == STK__WIRE_TEXT ? 'S' : 'V',
                 n);
    return type == STK__WIRE_UNICODE ? n % 4 == 0 : type == STK__WIRE_TEXT || type == STK__WIRE_RAW;
}

static bool take_shape(stk__wire_in *in, uint32_t rank, int64_t least, int64_t *shape)
{
    for (uint32_t d = 0; d < rank; d++) {
        const uint64_t n = stk__wire_u64(in);
        if (n > INT64_MAX || (int64_t)n < least)
            return false;
        shape[d] = (int64_t)n;
    }
    return !in->bad;
}

/* *memory: it is what failed. */
static bool take_layout(stk__wire_in *in, stk__libhdf5_object *o, bool *memory)
{
    const void *fill;

    o->is_array = true;
    if (!take_type(in, o))
        return false;
    o->rank = stk__wire_u32(in);
    if (o->rank > STK_ARRAY_MAX_RANK || !take_shape(in, o->rank, 0, o->shape))
        return false;
    o->is_chunked = stk__wire_u8(in) != 0;
    if (o->is_chunked && !take_shape(in, o->rank, 1, o->chunk_shape))
        return false;
    if (stk__wire_u8(in) && (fill = stk__wire_take(in, o->itemsize))) {
        o->fill_value = stk__alloc(o->ctx, o->itemsize);
        if (!o->fill_value)
            return *memory = true, false;
        memcpy(o->fill_value, fill, o->itemsize);
    }
    for (uint32_t d = 0; d < o->rank; d++) {
        const char *name = stk__netcdf_name(stk__wire_text(in));
        if (*name && stk__utf8_valid(name, strlen(name)) &&
            !(o->dimensions[d] = stk__strdup(o->ctx, name)))
            return *memory = true, false;
    }
    const char *filters = stk__wire_text(in);
    if (!stk__wire_end(in))
        return false;
    o->filters = stk__strdup(o->ctx, filters);
    return *memory = !o->filters, o->filters != NULL;
}

/* Frames up to DONE: attributes, and of a dataset one layout. */
static stk_status take_object(stk__libhdf5 *h, const char *path, const stk_store_call *call,
                              stk__text *attributes, stk__libhdf5_object *o, stk_error *err)
{
    bool memory = false, skipped;
    stk__wire_in in;
    uint32_t kind = 0;

    for (;;) {
        STK_TRY(stk__libhdf5_next(h, call, &kind, &in, NULL, 0, err));
        if (kind == STK__WIRE_DONE && in.left == 0)
            return STK_OK;
        if (kind == STK__WIRE_ATTRIBUTE && attributes->length < STK__WIRE_MOST) {
            skipped = false;
            stk__wire_in name = in;
            if (!stk__libhdf5_attribute(&in, attributes, &skipped))
                return stk__libhdf5_nonsense(h, err);
            if (skipped)
                stk__message(h->ctx, STK_MESSAGE_WARNING,
                             "%s: the attribute '%.100s' of '%.200s' is left out: it is neither "
                             "numbers nor texts",
                             h->key ? h->key : "", stk__wire_text(&name), path);
        } else if (kind != STK__WIRE_LAYOUT || o->is_array || !take_layout(&in, o, &memory)) {
            return memory ? no_memory(err) : stk__libhdf5_nonsense(h, err);
        }
    }
}

stk_status stk__libhdf5_describe(stk__libhdf5 *h, const char *path, const stk_store_call *call,
                                 stk__libhdf5_object *out, stk_error *err)
{
    stk__text attributes = {.ctx = h->ctx};
    stk__wire_out asked = stk__libhdf5_payload(h);

    *out = (stk__libhdf5_object){.ctx = h->ctx};
    stk__wire_put_text(&asked, path);
    STK_TRY(stk__libhdf5_send(h, STK__WIRE_DESCRIBE, &asked, call, err));
    stk__text_put(&attributes, "{", 1);
    stk_status status = take_object(h, path, call, &attributes, out, err);
    stk__text_put(&attributes, "}", 1);
    if (status == STK_OK && attributes.failed)
        status = no_memory(err);
    if (status == STK_OK) {
        out->attributes = attributes.bytes;
        return STK_OK;
    }
    stk__text_release(&attributes);
    stk__libhdf5_object_release(out);
    return status;
}

/* ---- A box ---- */

stk_status stk__libhdf5_read(stk__libhdf5 *h, const char *path, const stk__libhdf5_object *object,
                             const int64_t *start, const int64_t *shape, const stk_store_call *call,
                             void *out, uint64_t bytes, stk_error *err)
{
    stk__wire_out asked = stk__libhdf5_payload(h);
    unsigned char *to = out;
    stk__wire_in in;
    uint32_t kind = 0;

    stk__wire_put_text(&asked, path);
    stk__wire_put_u64(&asked, object->itemsize);
    stk__wire_put_u32(&asked, object->rank);
    for (uint32_t d = 0; d < object->rank; d++)
        stk__wire_put_u64(&asked, (uint64_t)start[d]);
    for (uint32_t d = 0; d < object->rank; d++)
        stk__wire_put_u64(&asked, (uint64_t)shape[d]);
    STK_TRY(stk__libhdf5_send(h, STK__WIRE_READ, &asked, call, err));
    while (bytes) {
        STK_TRY(stk__libhdf5_next(h, call, &kind, &in, to, bytes, err));
        if (kind != STK__WIRE_DATA || in.left == 0)
            return stk__libhdf5_nonsense(h, err);
        to += in.left;
        bytes -= in.left;
    }
    return stk__libhdf5_done(h, call, err);
}
