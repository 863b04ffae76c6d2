/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A spec -> files. It is a list, parted by "::" or ',', of URLs and paths with braces: {000..127}
 * for numbers, with as many digits as the first has, {0..126..2} with a step, {a,b} for texts. A
 * folder stands for all of its files that end as they do, in the order of their bytes. The query
 * at the end is that of all stores.
 */
#include "dataset/listing.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

#define MAX_STORES 4096u
#define MAX_GROUPS 16u /* of braces in one URL */
#define MAX_DIGITS 18  /* of a number in braces */
#define MAX_DEPTH  16u /* folders in folders */

/* A spec being read. */
typedef struct spec {
    const stk__listing *to;
    const char *text;  /* all of it, for messages */
    const char *query; /* with its '?'; "" */
    char url[STK_MAX_OBJECT_KEY];
    stk_error *err;
} spec;

static stk_status no_memory(const stk__listing *to, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for the list of %ss",
                     to->who, to->noun);
}

static stk_status wrong(const spec *s, const char *what)
{
    const char *end = s->to->suffix;

    return stk__fail_at(s->err, STK_EINVAL, STK_STAGE_DATASET, s->text, STK_NO_OFFSET,
                        "%s: '%.200s' names no %ss: %s; write them as train-{000..127}%s, as "
                        "{a,b}%s, as a list parted by '::', or name their folder",
                        s->to->who, s->text, s->to->noun, what, end, end);
}

/* ---- Stores ---------------------------------------------------------------------------------- */

stk_status stk__listed_store(stk__listed_stores *list, const char *who, const char *noun,
                             const char *folder, uint32_t *store, stk_error *err)
{
    stk_context *ctx = list->context;

    for (size_t i = list->count; i-- > 0;)
        if (strcmp(list->items[i].folder, folder) == 0) {
            *store = (uint32_t)i;
            return STK_OK;
        }
    if (list->count == MAX_STORES)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "%s: the %ss lie in more than %u folders; move them into fewer", who, noun,
                         MAX_STORES);
    stk__listed_place *items =
        stk__grow(ctx, list->items, &list->room, (uint64_t)list->count + 1, sizeof *items);
    if (!items)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for the list of %ss",
                         who, noun);
    list->items = items;
    stk__listed_place *s = &list->items[list->count];
    *s = (stk__listed_place){.folder = stk__strdup(ctx, folder)};
    if (!s->folder)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for the list of %ss",
                         who, noun);
    const stk_status status = stk_store_open(ctx, folder, &s->store, NULL, 0, err);
    if (status != STK_OK) {
        stk__free(ctx, s->folder);
        return status;
    }
    *store = (uint32_t)list->count++;
    return STK_OK;
}

void stk__listed_stores_release(stk__listed_stores *list)
{
    for (size_t i = 0; i < list->count; i++) {
        stk_store_close(&list->items[i].store);
        stk__free(list->context, list->items[i].folder);
    }
    stk__free(list->context, list->items);
    *list = (stk__listed_stores){.context = list->context};
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* The names of a folder's files. */
typedef struct listing {
    const stk__listing *to;
    stk_store *store;
    char *text;
    size_t *names; /* where each begins in `text` */
    size_t text_bytes, text_room, count, room;
    char *folders; /* names of folders that are still to be listed, each ended by a zero */
    size_t folders_bytes, folders_room;
    uint32_t depth;
    uint64_t packed; /* files whose names say that they are compressed */
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

static const char *last_name(const char *key)
{
    const char *slash = strrchr(key, '/');

    return slash ? slash + 1 : key;
}

/* A folder within, which is listed behind this one. */
static stk_status keep_folder(listing *l, const char *key)
{
    const size_t length = strlen(key) - (size_t)(*key && key[strlen(key) - 1] == 0x2f);

    if (l->depth == MAX_DEPTH)
        return stk__fail_at(l->err, STK_ELIMIT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "%s: '%.200s' lies in more than %u folders; name one below", l->to->who,
                            key, MAX_DEPTH);
    char *folders = stk__grow(l->to->context, l->folders, &l->folders_room,
                              (uint64_t)l->folders_bytes + length + 2, 1);
    if (!folders)
        return no_memory(l->to, l->err);
    l->folders = folders;
    memcpy(l->folders + l->folders_bytes, key, length);
    memcpy(l->folders + l->folders_bytes + length, "/", 2);
    l->folders_bytes += length + 2;
    return STK_OK;
}

static stk_status list_one(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;
    stk_context *ctx = l->to->context;
    const size_t length = strlen(key);
    const char *name = last_name(key);

    if (name[0] == '.' || name[0] == (l->to->deep ? '_' : '.'))
        return STK_OK;
    if (info->is_folder)
        return l->to->deep ? keep_folder(l, key) : STK_OK;
    l->packed += is_packed(key, length, l->to->suffix);
    if (!l->to->is_file(l->to->user, name))
        return STK_OK;
    if (l->count == STK__LISTING_MAX)
        return stk__fail(l->err, STK_ELIMIT, STK_STAGE_DATASET, "%s: the folder holds too many",
                         l->to->who);
    char *text = stk__grow(ctx, l->text, &l->text_room, (uint64_t)l->text_bytes + length + 1, 1);
    if (!text)
        return no_memory(l->to, l->err);
    l->text = text;
    size_t *names = stk__grow(ctx, l->names, &l->room, (uint64_t)l->count + 1, sizeof *names);
    if (!names)
        return no_memory(l->to, l->err);
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

/* A folder, and those within it, level by level. */
static stk_status list_all(listing *l)
{
    stk_status status = stk_store_list(l->store, "", NULL, list_one, l, l->err);

    while (status == STK_OK && l->folders_bytes) {
        char *level = l->folders;
        const size_t bytes = l->folders_bytes;
        l->folders = NULL;
        l->folders_bytes = l->folders_room = 0;
        l->depth++;
        for (size_t at = 0; status == STK_OK && at < bytes; at += strlen(level + at) + 1)
            status = stk_store_list(l->store, level + at, NULL, list_one, l, l->err);
        stk__free(l->to->context, level);
    }
    return status;
}

static stk_status add_folder(spec *s, const char *folder)
{
    const stk__listing *to = s->to;
    listing l = {.to = to, .err = s->err};
    uint32_t store = 0;

    STK_TRY(to->add_store(to->user, folder, true, &store, &l.store, s->err));
    stk_status status = list_all(&l);
    if (status == STK_OK && !l.count)
        status = stk__fail_at(
            s->err, STK_ENOENT, STK_STAGE_DATASET, folder, STK_NO_OFFSET,
            "%s: the folder %.300s holds no %s file%s%s", to->who, folder, to->suffix,
            !l.packed            ? "; name the folder of the "
            : to->noun[0] == 's' ? "; compressed shards cannot be read at any place: "
                                   "unpack them once, as by "
                                 : "; unpack them, as they cannot be read at any place",
            l.packed ? to->noun[0] == 's' ? "stoker convert webdataset:DIR webdataset:OUT" : ""
            : to->noun[0] == 's' ? "shards"
                                 : "files");
    if (status == STK_OK)
        qsort_r(l.names, l.count, sizeof *l.names, by_name, l.text);
    for (size_t i = 0; status == STK_OK && i < l.count; i++)
        status = to->add_file(to->user, store, l.text + l.names[i], s->err);
    stk__free(to->context, l.text);
    stk__free(to->context, l.names);
    stk__free(to->context, l.folders);
    return status;
}

/* ---- One URL --------------------------------------------------------------------------------- */

/* The folder of a URL with the query of the spec: the caller's. */
static stk_status add_file(spec *s, const char *url, const char *name)
{
    stk_context *ctx = s->to->context;
    stk_store *opened = NULL;
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
        return no_memory(s->to, s->err);
    stk_status status = s->to->add_store(s->to->user, folder, false, &store, &opened, s->err);
    stk__free(ctx, folder);
    if (status == STK_OK)
        status = s->to->add_file(s->to->user, store, key, s->err);
    return status;
}

/* What does not end as the files do is a folder, or a file of another name. */
static stk_status add_other(spec *s, const char *url)
{
    stk_context *ctx = s->to->context;
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;

    char *all = stk__format(ctx, "%s%s", url, s->query);
    if (!all)
        return no_memory(s->to, s->err);
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

    if (s->to->is_file(s->to->user, name))
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
    if ((uint64_t)(r->last - r->first) / (uint64_t)r->step >= STK__LISTING_MAX)
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

stk_status stk__listing_read(const stk__listing *to, const char *url, stk_error *err)
{
    const char *end = url + strcspn(url, "?"), *at = url, *after;
    spec s = {.to = to, .text = url, .query = end, .err = err};

    if (at == end)
        return wrong(&s, "it is empty");
    if (is_there(to->context, url)) {
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
