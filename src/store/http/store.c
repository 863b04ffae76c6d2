/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http: and https: as stores. A server has objects and no folders: whatever no object is named
 * after is a folder as far as can be told.
 */
#include <stdio.h>

#include "base/options.h"
#include "base/text.h"
#include "store/http/reads.h"
#include "store/http/staged.h"
#include "store/url.h"

#define OPEN_PATIENCE_NS UINT64_C(120000000000)

typedef struct http_options {
    uint32_t struct_size;
    stk__http_options http;
} http_options;

static const stk_option http_option_list[] = {STK__HTTP_OPTIONS(http_options, http)};

static const stk_option_table http_option_table = {
    .name = "http",
    .doc = "Objects of a web server.",
    .struct_size = sizeof(http_options),
    .options = http_option_list,
    .count = STK_COUNT(http_option_list),
};

/* The same under the other name: a table belongs to one driver. */
static const stk_option_table https_option_table = {
    .name = "https",
    .doc = "Objects of a web server, over TLS.",
    .struct_size = sizeof(http_options),
    .options = http_option_list,
    .count = STK_COUNT(http_option_list),
};

typedef struct http_store http_store;

struct http_store {
    stk_store base;
    stk__http_client *client;
    stk__http_options options;
    stk__http_pins pins;
    stk__http_reads reads;
    size_t prefix_length;
    char prefix[]; /* of targets, as it goes on the wire: "/" or "/folder/" */
};

/* ---- Reading ---- */

static stk_status make_target(const http_store *store, const char *key,
                              char target[STK__HTTP_TARGET], stk_error *err)
{
    stk__text text = {.bytes = target, .room = STK__HTTP_TARGET};

    stk__text_put(&text, store->prefix, store->prefix_length);
    stk__text_add_percent(&text, key, strlen(key), true);
    return text.length < text.room
               ? STK_OK
               : stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "the key '%.200s' is too long", key);
}

static stk_status target_of_read(const void *store, const char *key, char to[STK__HTTP_TARGET])
{
    return make_target(store, key, to, NULL);
}

static stk_status http_submit(stk_store *base, stk_read *read)
{
    http_store *store = (http_store *)base;

    return stk__http_reads_submit(&store->reads, store->client, read, target_of_read, store);
}

static void http_cancel(stk_store *base, stk_read *read)
{
    http_store *store = (http_store *)base;

    stk__http_reads_cancel(&store->reads, store->client, read);
}

/* ---- Looking ---- */

/* Some servers refuse HEAD and answer a GET. */
static bool refuses_head(const stk__http_exchange *x)
{
    return x->code == 400 || x->code == 403 || x->code == 405 || x->code == 501;
}

static stk_status look(stk__http_client *client, const char *target, bool end,
                       const stk_store_call *call, stk__http_exchange *x, stk_error *err)
{
    char byte;

    *x = (stk__http_exchange){.target = target};
    stk_status status = stk__http_look(client, x, end, call, err);
    if (status == STK_OK || !refuses_head(x) || strcmp(x->method, "HEAD") != 0)
        return status;
    *x = (stk__http_exchange){
        .method = "GET", .target = target, .length = 1, .data = &byte, .up_to = true};
    return stk__http_call(client, x, call, err);
}

static stk_status http_stat(stk_store *base, const char *key, const stk_store_call *call,
                            stk_object_info *out, stk_error *err)
{
    http_store *store = (http_store *)base;
    char target[STK__HTTP_TARGET];
    stk__http_exchange x;

    STK_TRY(stk__key_check(key, err));
    if (!*key || key[strlen(key) - 1] == '/') {
        out->is_folder = true;
        return STK_OK;
    }
    STK_TRY(make_target(store, key, target, err));
    const stk_status status = look(store->client, target, false, call, &x, err);
    if (status == STK_EKIND && x.is_folder) {
        out->is_folder = true;
        return STK_OK;
    }
    STK_TRY(status);
    if (x.size == UINT64_MAX)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "the server does not say how long '%.200s' is; use one that sends "
                            "Content-Length",
                            key);
    out->size = x.size;
    out->identity = x.identity;
    out->mtime_ns = x.mtime_ns;
    stk__http_pins_set(&store->pins, key, x.identity, x.etag, true);
    return STK_OK;
}

/* ---- Writing ---- */

typedef struct http_put {
    stk_put base;
    http_store *store;
    const stk_store_call *call;
    stk__http_staged staged;
    char key[];
} http_put;

static stk_status put_write(stk_put *base, const void *data, size_t length, stk_error *err)
{
    http_put *put = (http_put *)base;

    return stk__http_staged_add(&put->staged, data, length, put->call->length, put->key, err);
}

static void put_abandon(stk_put *base)
{
    http_put *put = (http_put *)base;
    stk_context *ctx = put->store->base.context;

    stk__http_staged_release(&put->staged);
    stk__free(ctx, put);
}

static stk_status put_commit(stk_put *base, stk_error *err)
{
    http_put *put = (http_put *)base;
    http_store *store = put->store;
    char target[STK__HTTP_TARGET];
    stk__http_exchange x = {
        .method = "PUT", .target = target, .most = 65536, .if_none_match = put->call->no_replace};

    stk_status status = make_target(store, put->key, target, err);
    stk__http_staged_send(&put->staged, &x);
    if (status == STK_OK) {
        status = stk__http_call(store->client, &x, put->call, err);
        stk__http_exchange_release(store->client, &x);
        /* Whether what is there is of a try whose answer was lost. */
        if (status == STK_EEXIST && x.tries > 1 &&
            stk__http_staged_is_sent(&put->staged, store->client, target, put->call))
            status = STK_OK;
        /* Where it failed something else may be there, too. */
        stk__http_pins_set(&store->pins, put->key, 0, "", true);
    }
    put_abandon(base);
    return status;
}

static const stk_put_ops put_ops = {.struct_size = sizeof(stk_put_ops),
                                    .write = put_write,
                                    .commit = put_commit,
                                    .abandon = put_abandon};

static stk_status http_put_begin(stk_store *base, const char *key, const stk_store_call *call,
                                 stk_put **out, stk_error *err)
{
    http_put *put = stk__calloc(base->context, 1, sizeof *put + strlen(key) + 1);

    if (!put)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "no memory to write '%.200s'", key);
    put->base.ops = &put_ops;
    put->store = (http_store *)base;
    put->call = call;
    put->staged = (stk__http_staged){.context = base->context, .fd = -1};
    memcpy(put->key, key, strlen(key) + 1);
    *out = &put->base;
    return STK_OK;
}

static stk_status http_remove(stk_store *base, const char *key, const stk_store_call *call,
                              stk_error *err)
{
    http_store *store = (http_store *)base;
    char target[STK__HTTP_TARGET];
    stk__http_exchange x = {.method = "DELETE", .target = target, .most = 65536};

    STK_TRY(make_target(store, key, target, err));
    const stk_status status = stk__http_call(store->client, &x, call, err);
    stk__http_exchange_release(store->client, &x);
    stk__http_pins_set(&store->pins, key, 0, "", true);
    return status;
}

/* ---- Listing ---- */

static stk_status http_list(stk_store *base, const char *prefix, const stk_store_call *call,
                            stk_list_fn *each, void *user, stk_error *err)
{
    (void)base, (void)call, (void)each, (void)user;
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_STORE, prefix, STK_NO_OFFSET,
                        "a web server does not say what is in a folder; name the objects, or "
                        "pack them into one (zip, squashfs, Zarr with consolidated metadata)");
}

static void http_limits(stk_store *base, stk_store_limits *out)
{
    stk__http_limits(&((http_store *)base)->options, out);
}

/* ---- Opening and closing ---- */

static void http_close(stk_store *base)
{
    http_store *store = (http_store *)base;
    stk_context *ctx = base->context;

    if (stk__context_forked(ctx))
        return;
    stk__http_client_close(&store->client);
    stk__http_reads_release(&store->reads);
    stk__http_pins_release(&store->pins);
    stk__free(ctx, store);
    stk__context_unref(ctx);
}

/*
 * STK_OK: `target` may be a folder. STK_ENOENT: it is an object, or something above it that looks
 * like one is.
 */
static stk_status may_be_folder(stk__http_client *client, char *target, stk_error *err)
{
    const stk_store_call call = {.struct_size = sizeof call,
                                 .deadline_ns = stk__now_ns() + OPEN_PATIENCE_NS};
    size_t end = strlen(target);
    bool whole = target[end - 1] != '/'; /* with a '/' at its end it says that it is a folder */

    for (; end > 1; whole = false) {
        while (end > 1 && target[end - 1] == '/')
            end--;
        size_t from = end;
        stk__http_exchange x;
        while (from > 0 && target[from - 1] != '/')
            from--;
        /* The whole, or a part that looks like a file's name: an object has no folder below. */
        if (!stk__url_means_folder(target + from, end - from) &&
            (whole || memchr(target + from, '.', end - from))) {
            const char kept = target[end];
            target[end] = 0;
            const stk_status status = look(client, target, true, &call, &x, err);
            const bool is = status == STK_OK;
            if (is)
                (void)stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, target, STK_NO_OFFSET,
                                   "'%.200s' is an object and no folder", target);
            target[end] = kept;
            if (is)
                return STK_ENOENT;
            /* A folder whose name nothing has is often forbidden instead of not there. */
            if (status != STK_ENOENT && status != STK_EACCES && status != STK_EKIND)
                return status;
            if (status == STK_EKIND && x.is_folder)
                return STK_OK;
        }
        end = from;
    }
    return STK_OK;
}

/* "//HOST[:PORT]/PATH" -> "SCHEME://HOST[:PORT]" and the path as it goes on the wire. */
static stk_status take_apart(const char *scheme, const char *text, const stk__url *url,
                             char *endpoint, size_t endpoint_size, char target[STK__HTTP_TARGET],
                             stk_error *err)
{
    stk__text on_wire = {.bytes = target, .room = STK__HTTP_TARGET - 1}; /* a '/' may follow */
    char path[STK_MAX_OBJECT_KEY];

    if (url->path_length < 3 || strncmp(url->path, "//", 2) != 0 || url->path[2] == '/')
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%.200s' names no server; write %s://HOST/PATH", text, scheme);
    const size_t rest = url->path_length - 2;
    const char *slash = memchr(url->path + 2, '/', rest);
    const size_t host = slash ? (size_t)(slash - url->path) - 2 : rest;
    if ((size_t)snprintf(endpoint, endpoint_size, "%s://%.*s", scheme, (int)host, url->path + 2) >=
        endpoint_size)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "the name of the server in '%.100s' is "
                         "too long",
                         text);
    STK_TRY(stk__url_decode(slash ? slash : "/", slash ? rest - host : 1, path, sizeof path, err));
    STK_TRY(stk__key_check(path + strspn(path, "/"), err));
    stk__text_add_percent(&on_wire, path, strlen(path), true);
    if (on_wire.length >= on_wire.room)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "the path of '%.100s' is too long",
                         text);
    return STK_OK;
}

static stk_status open_at(const stk_store_ops *ops, stk_context *ctx, const char *text,
                          const stk__http_options *options, stk_store **out, stk_error *err)
{
    char endpoint[300], target[STK__HTTP_TARGET];
    stk__http_client *client = NULL;
    stk__url url;

    *out = NULL;
    STK_TRY(stk__url_parse(ctx, text, &url, err));
    STK_TRY(take_apart(ops->name, text, &url, endpoint, sizeof endpoint, target, err));
    STK_TRY(stk__http_client_open(ctx, endpoint, options, NULL, NULL, &client, err));
    size_t length = strlen(target);
    stk_status status = may_be_folder(client, target, err);
    if (target[length - 1] != '/') {
        target[length++] = '/';
        target[length] = 0;
    }
    http_store *store = status == STK_OK ? stk__calloc(ctx, 1, sizeof *store + length + 1) : NULL;
    if (status == STK_OK && !store)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", text);
    if (status != STK_OK) {
        stk__http_client_close(&client);
        return status;
    }
    store->base.ops = ops;
    store->base.context = stk__context_ref(ctx);
    store->client = client;
    store->options.connections = options->connections;
    stk__http_pins_init(&store->pins, ctx);
    stk__http_reads_init(&store->reads, ctx, &store->pins, sizeof(stk__http_exchange));
    store->prefix_length = length;
    memcpy(store->prefix, target, length + 1);
    *out = &store->base;
    return STK_OK;
}

static stk_status http_open(stk_context *ctx, const char *text, const void *options,
                            stk_store **out, stk_error *err)
{
    return open_at(&stk__store_http, ctx, text, &((const http_options *)options)->http, out, err);
}

static stk_status https_open(stk_context *ctx, const char *text, const void *options,
                             stk_store **out, stk_error *err)
{
    return open_at(&stk__store_https, ctx, text, &((const http_options *)options)->http, out, err);
}

#define HTTP(scheme, what)                                                                         \
    {                                                                                              \
        .struct_size = sizeof(stk_store_ops), .name = #scheme, .doc = what,                        \
        .options = &scheme##_option_table, .open = scheme##_open, .close = http_close,             \
        .submit = http_submit, .cancel = http_cancel, .stat = http_stat, .list = http_list,        \
        .put = http_put_begin, .remove = http_remove, .limits = http_limits                        \
    }

const stk_store_ops stk__store_http = HTTP(http, "objects of a web server");
const stk_store_ops stk__store_https = HTTP(https, "objects of a web server, over TLS");
