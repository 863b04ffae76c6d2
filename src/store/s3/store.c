/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3: and gs: as stores. A bucket has objects and no folders: a folder is what keys have in front
 * of a '/'.
 */
#include <stdio.h>

#include "store/s3/s3.h"
#include "store/url.h"

#define OPEN_PATIENCE_NS UINT64_C(120000000000)

/* ---- Reading ----------------------------------------------------------------------------------
 */

static stk_status target_of_read(const void *store, const char *key, char to[STK__HTTP_TARGET])
{
    return stk__s3_target(store, key, "", to, NULL);
}

static stk_status s3_submit(stk_store *base, stk_read *read)
{
    stk__s3_store *store = (stk__s3_store *)base;

    return stk__http_reads_submit(&store->reads, store->client, read, target_of_read, store);
}

static void s3_cancel(stk_store *base, stk_read *read)
{
    stk__s3_store *store = (stk__s3_store *)base;

    stk__http_reads_cancel(&store->reads, store->client, read);
}

/* ---- What waits -------------------------------------------------------------------------------
 */

static stk_status s3_stat(stk_store *base, const char *key, const stk_store_call *call,
                          stk_object_info *out, stk_error *err)
{
    STK_TRY(stk__key_check(key, err));
    return stk__s3_stat((stk__s3_store *)base, key, call, out, err);
}

static stk_status s3_list(stk_store *base, const char *prefix, const stk_store_call *call,
                          stk_list_fn *each, void *user, stk_error *err)
{
    STK_TRY(stk__key_check(prefix, err));
    return stk__s3_list((stk__s3_store *)base, prefix, call, each, user, err);
}

static stk_status s3_put(stk_store *base, const char *key, const stk_store_call *call,
                         stk_put **out, stk_error *err)
{
    return stk__s3_put_begin((stk__s3_store *)base, key, call, out, err);
}

static stk_status s3_remove(stk_store *base, const char *key, const stk_store_call *call,
                            stk_error *err)
{
    STK_TRY(stk__key_check(key, err));
    return stk__s3_remove((stk__s3_store *)base, key, call, err);
}

static void s3_know(stk_store *base, const char *key, const stk_object_info *info)
{
    if (info->identity && !info->is_folder)
        stk__http_pins_set(&((stk__s3_store *)base)->pins, key, info->identity, "", false);
}

static void s3_limits(stk_store *base, stk_store_limits *out)
{
    stk__http_limits(&((stk__s3_store *)base)->http, out);
}

/* ---- Closing ----------------------------------------------------------------------------------
 */

static void close_client(stk__s3_store *store)
{
    stk__s3_provider_serve(store->provider, &store->member, NULL);
    stk__http_client_close(&store->client);
}

static void s3_close(stk_store *base)
{
    stk__s3_store *store = (stk__s3_store *)base;
    stk_context *ctx = base->context;

    if (stk__context_forked(ctx))
        return;
    /* What waits for credentials ends with the client; then nobody asks the cache any more. */
    close_client(store);
    stk__s3_provider_leave(&store->provider, &store->member);
    stk__http_reads_release(&store->reads);
    stk__http_pins_release(&store->pins);
    stk__secrets_free(store->key, sizeof *store->key);
    stk__free(ctx, store->texts);
    stk__free(ctx, store);
    stk__context_unref(ctx);
}

/* ---- Opening ----------------------------------------------------------------------------------
 */

/* Copy texts that outlive the options; `room` NULL: count their bytes. */
static const char *keep(const char *text, char **room, size_t *bytes)
{
    if (!text || !*text)
        return NULL;
    const size_t length = strlen(text) + 1;
    *bytes += length;
    if (!*room)
        return NULL;
    char *kept = *room;
    memcpy(kept, text, length);
    *room += length;
    return kept;
}

static size_t keep_texts(stk__s3_store *store, const stk__s3_options *o, char *room)
{
    size_t bytes = 0;

    store->where.endpoint = keep(o->endpoint, &room, &bytes);
    store->where.region = keep(o->region, &room, &bytes);
    store->http.ca_file = keep(o->http.ca_file, &room, &bytes);
    store->http.proxy = keep(o->http.proxy, &room, &bytes);
    return bytes;
}

static const char *said(const char *text)
{
    return text && *text ? text : NULL;
}

/* As the options say: the texts are theirs. */
static stk__s3_sources sources_of(const stk__s3_store *store, const stk__s3_options *o)
{
    return (stk__s3_sources){
        .access_key_id = said(o->access_key_id),
        .secret_access_key = said(o->secret_access_key),
        .session_token = said(o->session_token),
        .role_arn = said(o->role_arn),
        .role_session_name = said(o->role_session_name),
        .web_identity_token_file = said(o->web_identity_token_file),
        .profile = said(o->profile),
        .credentials_file = said(o->credentials_file),
        .config_file = said(o->config_file),
        .sso_folder = said(o->sso_folder),
        .container_uri = said(o->container_uri),
        .container_token = said(o->container_token),
        .container_token_file = said(o->container_token_file),
        .metadata_endpoint = said(o->metadata_endpoint),
        .google = store->google,
    };
}

static void set_region(stk__s3_store *store, const stk__s3_sources *s)
{
    if (store->where.region)
        snprintf(store->region, sizeof store->region, "%.31s", store->where.region);
    else if (store->google)
        memcpy(store->region, "auto", 5);
    else if (!stk__s3_profile_region(s, store->region, sizeof store->region))
        memcpy(store->region, "us-east-1", 10);
    if (!store->where.region)
        store->where.region = store->region;
}

static stk_status take_options(stk__s3_store *store, const stk__s3_options *o, stk_error *err)
{
    stk__s3_sources sources = sources_of(store, o);

    store->http = o->http;
    store->requester_pays = o->requester_pays;
    store->key = stk__secrets_alloc(sizeof *store->key);
    store->texts = stk__alloc(store->base.context, keep_texts(store, o, NULL) + 1);
    if (!store->key || !store->texts)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for options of a store");
    keep_texts(store, o, store->texts);
    store->where.style = o->style;
    store->where.google = store->google;
    store->where.allow_http = o->allow_http;
    store->where.anonymous = o->anonymous;
    set_region(store, &sources);
    if (o->anonymous)
        return STK_OK;
    sources.region = store->where.region;
    STK_TRY(stk__s3_provider_get(store->base.context, &sources, &store->http, &store->member,
                                 &store->provider, err));
    store->cache = stk__s3_provider_cache(store->provider);
    return STK_OK;
}

static stk_status open_client(stk__s3_store *store, const char *bucket, stk_error *err)
{
    stk__http_client *client = NULL;

    STK_TRY(stk__s3_endpoint_make(&store->where, bucket, &store->endpoint, err));
    STK_TRY(stk__http_client_open(store->base.context, store->endpoint.url, &store->http,
                                  &stk__s3_hooks, store, &client, err));
    store->client = client;
    stk__s3_provider_serve(store->provider, &store->member, client);
    return STK_OK;
}

/* Amazon says in every answer about a bucket where it lies: ask where nobody has said, as a region
 * is part of the host's name. */
static stk_status find_region(stk__s3_store *store, const char *bucket, stk_error *err)
{
    const stk_store_call call = {.struct_size = sizeof call,
                                 .deadline_ns = stk__now_ns() + OPEN_PATIENCE_NS};
    char path[STK__S3_BUCKET + 2];
    stk__s3_request request = {.exchange = {.method = "HEAD", .target = path}};

    snprintf(path, sizeof path, "/%s", store->endpoint.in_path ? bucket : "");
    const stk_status status = stk__s3_call(store, &request, &call, err);
    const char *region = request.exchange.region;
    if (!stk__s3_region_valid(region) || strcmp(region, store->region) == 0)
        return status == STK_EACCES && request.exchange.code == 403 ? STK_OK : status;
    close_client(store);
    snprintf(store->region, sizeof store->region, "%s", region);
    return open_client(store, bucket, err);
}

/* STK_ENOENT: the prefix is an object, or nothing. One that may not be listed is what it is called.
 */
static stk_status check_folder(stk__s3_store *store, const char *bucket, stk_error *err)
{
    const stk_store_call call = {.struct_size = sizeof call,
                                 .deadline_ns = stk__now_ns() + OPEN_PATIENCE_NS};
    const size_t length = strlen(store->prefix);
    char target[STK__HTTP_TARGET];
    bool is = false;

    const stk_status status = stk__s3_folder_look(store, "", &call, &is, err);
    if (status != STK_EACCES && (status != STK_OK || is))
        return status;
    if (status == STK_EACCES) {
        store->prefix[length - 1] = 0;
        stk__s3_request request = {.exchange = {.method = "HEAD", .target = target}};
        stk_status object = stk__s3_target(store, "", "", target, err);
        if (object == STK_OK)
            object = stk__s3_call(store, &request, &call, NULL);
        store->prefix[length - 1] = '/';
        if (object != STK_OK)
            return STK_OK;
    }
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, store->prefix, STK_NO_OFFSET,
                        "there is no folder '%.200s' in the bucket '%s'", store->prefix, bucket);
}

static stk_status set_up(stk__s3_store *store, const stk__url *url, const stk__s3_options *options,
                         stk_error *err)
{
    char bucket[STK__S3_BUCKET];
    const bool folder = url->path_length > 0 && url->path[url->path_length - 1] == '/';

    STK_TRY(stk__s3_url_take(url->path, url->path_length, bucket, store->prefix, err));
    STK_TRY(stk__key_check(store->prefix, err));
    STK_TRY(take_options(store, options, err));
    STK_TRY(open_client(store, bucket, err));
    if (!store->google && !store->where.endpoint && store->where.region == store->region)
        STK_TRY(find_region(store, bucket, err));
    return folder || !store->prefix[0] ||
                   stk__url_means_folder(store->prefix, strlen(store->prefix))
               ? STK_OK
               : check_folder(store, bucket, err);
}

static stk_status open_at(const stk_store_ops *ops, stk_context *ctx, const char *text,
                          const stk__s3_options *options, stk_store **out, stk_error *err)
{
    stk__url url;

    *out = NULL;
    STK_TRY(stk__url_parse(ctx, text, &url, err));
    stk__s3_store *store = stk__calloc(ctx, 1, sizeof *store);
    if (!store)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", text);
    store->base.ops = ops;
    store->base.context = stk__context_ref(ctx);
    store->google = ops == &stk__store_gs;
    stk__http_pins_init(&store->pins, ctx);
    stk__http_reads_init(&store->reads, ctx, &store->pins, sizeof(stk__s3_request));
    const stk_status status = set_up(store, &url, options, err);
    if (status != STK_OK) {
        s3_close(&store->base);
        return status;
    }
    *out = &store->base;
    return STK_OK;
}

static stk_status s3_open(stk_context *ctx, const char *text, const void *options, stk_store **out,
                          stk_error *err)
{
    return open_at(&stk__store_s3, ctx, text, options, out, err);
}

static stk_status gs_open(stk_context *ctx, const char *text, const void *options, stk_store **out,
                          stk_error *err)
{
    return open_at(&stk__store_gs, ctx, text, options, out, err);
}

#define S3(scheme, what)                                                                           \
    {                                                                                              \
        .struct_size = sizeof(stk_store_ops), .name = #scheme, .doc = what,                        \
        .options = &stk__##scheme##_option_table, .open = scheme##_open, .close = s3_close,        \
        .submit = s3_submit, .cancel = s3_cancel, .stat = s3_stat, .list = s3_list, .put = s3_put, \
        .remove = s3_remove, .limits = s3_limits, .know = s3_know                                  \
    }

const stk_store_ops stk__store_s3 = S3(s3, "objects of Amazon S3, and of what speaks its language");
const stk_store_ops stk__store_gs = S3(gs, "objects of Google Cloud Storage");
