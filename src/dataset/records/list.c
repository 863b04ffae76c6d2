/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A spec -> shards. It is a list, parted by "::" or ',', of URLs and paths with braces: {000..127}
 * for numbers, with as many digits as the first has, {0..126..2} with a step, {a,b} for texts. A
 * folder stands for all of its files that end as shards do, in the order of their bytes. The query
 * at the end is that of all stores.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/numbers.h"
#include "dataset/records/records.h"

#define MAX_STORES 4096u
#define MAX_GROUPS 16u /* of braces in one URL */
#define MAX_DIGITS 18  /* of a number in braces */

/* A spec being read. */
typedef struct spec {
    stk__records *set;
    const char *text;  /* all of it, for messages */
    const char *query; /* with its '?'; "" */
    char url[STK_MAX_OBJECT_KEY];
    stk_error *err;
} spec;

static const char *name_of(const stk__records *set)
{
    return set->format->ops->name;
}

static stk_status no_memory(const stk__records *set, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for the list of shards",
                     name_of(set));
}

static stk_status wrong(const spec *s, const char *what)
{
    return stk__fail_at(s->err, STK_EINVAL, STK_STAGE_DATASET, s->text, STK_NO_OFFSET,
                        "%s: '%.200s' names no shards: %s; write them as train-{000..127}.tar, as "
                        "{a,b}.tar, as a list parted by '::', or name their folder",
                        name_of(s->set), s->text, what);
}

/* ---- The table ------------------------------------------------------------------------------- */

stk_status stk__records_add_store(stk__records *set, const char *folder, uint32_t *store,
                                  stk_error *err)
{
    stk_context *ctx = set->base.context;

    for (size_t i = set->num_stores; i-- > 0;)
        if (strcmp(set->stores[i].folder, folder) == 0) {
            *store = (uint32_t)i;
            return STK_OK;
        }
    if (set->num_stores == MAX_STORES)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "%s: the shards lie in more than %u folders; move them into fewer",
                         name_of(set), MAX_STORES);
    stk__records_store *stores = stk__grow(ctx, set->stores, &set->stores_room,
                                           (uint64_t)set->num_stores + 1, sizeof *stores);
    if (!stores)
        return no_memory(set, err);
    set->stores = stores;
    stk__records_store *s = &set->stores[set->num_stores];
    *s = (stk__records_store){.folder = stk__strdup(ctx, folder)};
    if (!s->folder)
        return no_memory(set, err);
    const stk_status status = stk_store_open(ctx, folder, &s->store, NULL, 0, err);
    if (status != STK_OK) {
        stk__free(ctx, s->folder);
        return status;
    }
    *store = (uint32_t)set->num_stores++;
    return STK_OK;
}

stk_status stk__records_add_shard(stk__records *set, uint32_t store, const char *key,
                                  stk_error *err)
{
    stk__records_table *t = &set->table;
    const size_t length = strlen(key) + 1;

    if (t->num_shards == STK__RECORDS_MAX_SHARDS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "%s: more than %llu shards; name fewer", name_of(set),
                         (unsigned long long)STK__RECORDS_MAX_SHARDS);
    char *text = stk__grow(t->context, t->text, &t->text_room, (uint64_t)t->text_bytes + length, 1);
    if (!text)
        return no_memory(set, err);
    t->text = text;
    stk__records_shard *shards = stk__grow(t->context, t->shards, &t->shards_room,
                                           (uint64_t)t->num_shards + 1, sizeof *shards);
    if (!shards)
        return no_memory(set, err);
    t->shards = shards;
    t->shards[t->num_shards++] = (stk__records_shard){.key = t->text_bytes, .store = store};
    memcpy(t->text + t->text_bytes, key, length);
    t->text_bytes += length;
    return STK_OK;
}

static bool is_shard(const stk__records *set, const char *name)
{
    const size_t length = strlen(name);

    return set->format->is_shard ? set->format->is_shard(name, length)
                                 : stk__ends_with(name, length, set->format->suffix);
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* The names of a folder's shards. */
typedef struct listing {
    stk__records *set;
    char *text;
    size_t *names; /* where each begins in `text` */
    size_t text_bytes, text_room, count, room;
    uint64_t packed; /* files whose names say that they are compressed shards */
    stk_error *err;
} listing;

/* "x.tar.gz" of ".tar". */
static bool is_packed(const char *key, size_t length, const char *suffix)
{
    static const char *const ends[] = {".gz", ".zst", ".bz2", ".xz", ".lz4"};

    for (size_t i = 0; i < STK_COUNT(ends); i++)
        if (stk__ends_with(key, length, ends[i]))
            return stk__ends_with(key, length - strlen(ends[i]), suffix) ||
                   (length > strlen(ends[i]) + strlen(suffix) &&
                    memcmp(key + length - strlen(ends[i]) - strlen(suffix), suffix,
                           strlen(suffix)) == 0);
    return false;
}

static stk_status list_one(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;
    stk_context *ctx = l->set->base.context;
    const size_t length = strlen(key);

    if (info->is_folder || key[0] == '.')
        return STK_OK;
    l->packed += is_packed(key, length, l->set->format->suffix);
    if (!is_shard(l->set, key))
        return STK_OK;
    if (l->count == STK__RECORDS_MAX_SHARDS)
        return stk__fail(l->err, STK_ELIMIT, STK_STAGE_DATASET, "%s: the folder holds too many",
                         name_of(l->set));
    char *text = stk__grow(ctx, l->text, &l->text_room, (uint64_t)l->text_bytes + length + 1, 1);
    if (!text)
        return no_memory(l->set, l->err);
    l->text = text;
    size_t *names = stk__grow(ctx, l->names, &l->room, (uint64_t)l->count + 1, sizeof *names);
    if (!names)
        return no_memory(l->set, l->err);
    l->names = names;
    l->names[l->count++] = l->text_bytes;
    memcpy(l->text + l->text_bytes, key, length + 1);
    l->text_bytes += length + 1;
    return STK_OK;
}

static int by_name(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + *(const size_t *)a, (const char *)text + *(const size_t *)b);
}

static stk_status add_folder(spec *s, const char *folder)
{
    stk__records *set = s->set;
    listing l = {.set = set, .err = s->err};
    uint32_t store = 0;

    set->of_folder = true;
    STK_TRY(stk__records_add_store(set, folder, &store, s->err));
    stk_status status = stk_store_list(set->stores[store].store, "", NULL, list_one, &l, s->err);
    if (status == STK_OK && !l.count)
        status = stk__fail_at(s->err, STK_ENOENT, STK_STAGE_DATASET, folder, STK_NO_OFFSET,
                              "%s: the folder %.300s holds no %s file%s", name_of(set), folder,
                              set->format->suffix,
                              l.packed ? "; compressed shards cannot be read at any place: unpack "
                                         "them once, as by stoker convert webdataset:DIR "
                                         "webdataset:OUT"
                                       : "; name the folder of the shards");
    if (status == STK_OK)
        qsort_r(l.names, l.count, sizeof *l.names, by_name, l.text);
    for (size_t i = 0; status == STK_OK && i < l.count; i++)
        status = stk__records_add_shard(set, store, l.text + l.names[i], s->err);
    stk__free(set->base.context, l.text);
    stk__free(set->base.context, l.names);
    return status;
}

/* ---- One URL --------------------------------------------------------------------------------- */

/* The folder of a URL with the query of the spec: the caller's. */
static stk_status add_file(spec *s, const char *url, const char *name)
{
    stk_context *ctx = s->set->base.context;
    char key[STK_MAX_OBJECT_KEY];
    uint32_t store = 0;
    stk__url parsed;

    stk__url_scan(ctx, url, &parsed);
    if (parsed.plain)
        snprintf(key, sizeof key, "%s", name);
    else
        STK_TRY(stk__url_decode(name, strlen(name), key, sizeof key, s->err));
    char *folder =
        stk__format(ctx, "%.*s%s%s", (int)(name - url), url, name == url ? "." : "", s->query);
    if (!folder)
        return no_memory(s->set, s->err);
    stk_status status = stk__records_add_store(s->set, folder, &store, s->err);
    stk__free(ctx, folder);
    if (status == STK_OK)
        status = stk__records_add_shard(s->set, store, key, s->err);
    return status;
}

/* What does not end as a shard does is a folder, or a file of another name. */
static stk_status add_other(spec *s, const char *url)
{
    stk_context *ctx = s->set->base.context;
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;

    char *all = stk__format(ctx, "%s%s", url, s->query);
    if (!all)
        return no_memory(s->set, s->err);
    stk_status status = stk_store_open(ctx, all, &store, key, sizeof key, s->err);
    stk_store_close(&store);
    if (status == STK_OK) {
        const char *slash = strrchr(url, '/');
        status = key[0] ? add_file(s, url, slash ? slash + 1 : url) : add_folder(s, all);
    }
    stk__free(ctx, all);
    return status;
}

static stk_status add_url(spec *s)
{
    const char *slash = strrchr(s->url, '/');
    const char *name = slash ? slash + 1 : s->url;

    if (is_shard(s->set, name))
        return add_file(s, s->url, name);
    return add_other(s, s->url);
}

/* ---- Braces ---------------------------------------------------------------------------------- */

/* {first..last..step} */
typedef struct numbers {
    int64_t first, last, step;
    int digits; /* at least; 0: as many as there are */
} numbers;

static const char *read_number(const char *at, const char *end, int64_t *out, int *digits)
{
    const char *begin = at;

    *out = 0;
    for (; at < end && *at >= '0' && *at <= '9' && at - begin < MAX_DIGITS; at++)
        *out = *out * 10 + (*at - '0');
    *digits = (int)(at - begin);
    return *digits && !(at < end && *at >= '0' && *at <= '9') ? at : NULL;
}

static bool read_range(const char *at, const char *end, numbers *out)
{
    int last_digits, step_digits;

    *out = (numbers){.step = 1};
    const char *begin = at;
    at = read_number(at, end, &out->first, &out->digits);
    if (!at || end - at < 2 || memcmp(at, "..", 2) != 0)
        return false;
    at = read_number(at + 2, end, &out->last, &last_digits);
    if (at && end - at > 2 && memcmp(at, "..", 2) == 0)
        at = read_number(at + 2, end, &out->step, &step_digits);
    if (out->digits < 2 || *begin != '0')
        out->digits = 0;
    return at == end && out->step > 0;
}

static const char *find(const char *at, const char *end, char sign)
{
    return at < end ? memchr(at, sign, (size_t)(end - at)) : NULL;
}

static stk_status expand(spec *s, size_t used, const char *at, const char *end, uint32_t groups);

/* The texts of one group, each in front of what follows it. */
static stk_status expand_texts(spec *s, size_t used, const char *body, const char *close,
                               const char *end, uint32_t groups)
{
    if (!find(body, close, ','))
        return wrong(s, "braces hold neither numbers as {0..9} nor texts as {a,b}");
    for (const char *at = body; at <= close;) {
        const char *stop = find(at, close, ',');
        const size_t n = (size_t)((stop ? stop : close) - at);
        if (n >= sizeof s->url - used)
            return wrong(s, "one of them is too long");
        memcpy(s->url + used, at, n);
        STK_TRY(expand(s, used + n, close + 1, end, groups + 1));
        at += n + 1;
    }
    return STK_OK;
}

static stk_status expand_numbers(spec *s, size_t used, const numbers *r, const char *after,
                                 const char *end, uint32_t groups)
{
    if (r->last < r->first)
        return wrong(s, "the numbers in braces run backwards");
    if ((uint64_t)(r->last - r->first) / (uint64_t)r->step >= STK__RECORDS_MAX_SHARDS)
        return wrong(s, "they are too many");
    for (int64_t i = r->first; i <= r->last; i += r->step) {
        const int n =
            snprintf(s->url + used, sizeof s->url - used, "%0*lld", r->digits, (long long)i);
        if (n < 0 || (size_t)n >= sizeof s->url - used)
            return wrong(s, "one of them is too long");
        STK_TRY(expand(s, used + (size_t)n, after, end, groups + 1));
    }
    return STK_OK;
}

/* `used` bytes of the URL are there; what is between `at` and `end` follows. */
static stk_status expand(spec *s, size_t used, const char *at, const char *end, uint32_t groups)
{
    const char *open = find(at, end, '{');
    const size_t plain = (size_t)((open ? open : end) - at);
    numbers range;

    if (groups > MAX_GROUPS)
        return wrong(s, "there are too many braces");
    if (plain >= sizeof s->url - used)
        return wrong(s, "one of them is too long");
    memcpy(s->url + used, at, plain);
    used += plain;
    s->url[used] = 0;
    if (!open)
        return add_url(s);
    const char *close = find(open, end, '}');
    if (!close)
        return wrong(s, "a brace is not closed");
    if (find(open + 1, close, '{'))
        return wrong(s, "braces lie within braces");
    if (read_range(open + 1, close, &range))
        return expand_numbers(s, used, &range, close + 1, end, groups);
    return expand_texts(s, used, open + 1, close, end, groups);
}

/* ---- The list -------------------------------------------------------------------------------- */

/* Where the first of the list ends; *after is where the next begins. */
static const char *next_of(const char *at, const char *end, const char **after)
{
    bool inside = false;

    for (; at < end; at++) {
        if (*at == '{' || *at == '}')
            inside = *at == '{';
        const bool colons = !inside && end - at > 1 && at[0] == ':' && at[1] == ':';
        if (colons || (!inside && *at == ',')) {
            *after = at + 1 + colons;
            return at;
        }
    }
    *after = NULL;
    return end;
}

/* Whether a path is to be taken as it is: one with the signs of a list, that is there. */
static bool is_there(stk_context *ctx, const char *url)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    stk__url parsed;

    stk__url_scan(ctx, url, &parsed);
    if (!parsed.plain || !strpbrk(url, "{},"))
        return false;
    const stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, NULL);
    stk_store_close(&store);
    return status == STK_OK;
}

stk_status stk__records_list(stk__records *set, const char *url, stk_error *err)
{
    const char *end = url + strcspn(url, "?"), *at = url, *after;
    spec s = {.set = set, .text = url, .query = end, .err = err};

    if (at == end)
        return wrong(&s, "it is empty");
    if (is_there(set->base.context, url)) {
        snprintf(s.url, sizeof s.url, "%.*s", (int)STK_MIN(end - url, (ptrdiff_t)sizeof s.url),
                 url);
        return add_url(&s);
    }
    do {
        const char *stop = next_of(at, end, &after);
        if (stop == at)
            return wrong(&s, "one of the list is empty");
        STK_TRY(expand(&s, 0, at, stop, 0));
        at = after;
    } while (after);
    return STK_OK;
}
