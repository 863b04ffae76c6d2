/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a spec to a dataset. `NAME:URL?name=value&...` where NAME is a kind; anything else is a path
 * or URL whose kind follows from what is there. Options are taken out of the query by the tables,
 * those of every dataset first, then the kind's own; what stays is the store's.
 */
#include <stdio.h>

#include "dataset/nested.h"
#include "dataset/view.h"

#include "array/array.h"
#include "base/options.h"
#include "base/registry.h"
#include "base/spec.h"
#include "base/url.h"
#include "store/store.h"

#define NAMES 512 /* bytes of a list of kinds in a message */

/* The kinds' names as "digits, mnist, npy"; what does not fit is left out. */
static const char *kind_names(const stk_context *ctx, char names[NAMES])
{
    stk__driver_names(ctx, STK_DRIVER_DATASET, ", ", names, NAMES);
    return names;
}

static const stk_dataset_ops *kind_at(const stk_context *ctx, size_t i)
{
    return (const stk_dataset_ops *)stk_driver_at(ctx, STK_DRIVER_DATASET, i);
}

/* The kind whose name and a ':' begin the spec; *rest is what follows. */
static const stk_dataset_ops *named_kind(const stk_context *ctx, const char *spec,
                                         const char **rest)
{
    const stk_dataset_ops *kind;

    for (size_t i = 0; (kind = kind_at(ctx, i)); i++) {
        size_t length = strlen(kind->name);
        if (strncmp(spec, kind->name, length) == 0 && spec[length] == ':') {
            *rest = spec + length + 1;
            return kind;
        }
    }
    *rest = spec;
    return NULL;
}

/* ---- One kind's options -------------------------------------------------------------------- */

/* The options of one kind, taken out of a copy of the URL. */
typedef struct taken {
    char *url;
    void *options;
    char *texts; /* of STRING options */
} taken;

static void release_taken(stk_context *ctx, taken *t)
{
    stk__free(ctx, t->texts);
    stk__free(ctx, t->options);
    stk__free(ctx, t->url);
}

/* `nulls`: what a table does with them where the URL does not say it; NULL: as its options say. */
static stk_status take(stk_context *ctx, const char *url, const stk_option_table *table,
                       const char *nulls, taken *out, stk_error *err)
{
    *out = (taken){.url = stk__strdup(ctx, url)};
    if (out->url && table)
        out->options = stk__calloc(ctx, 1, table->struct_size);
    if (!out->url || (table && !out->options))
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open '%.200s'", url);
    if (!table)
        return STK_OK;
    stk_options_init(table, out->options, table->struct_size);
    if (nulls && stk_options_find(table, "nulls"))
        STK_TRY(stk_options_set(table, out->options, "nulls", nulls, err));
    return stk__spec_take(ctx, out->url, table, out->options, &out->texts, err);
}

/* ---- Recognition --------------------------------------------------------------------------- */

/* What asking every kind has given. */
typedef struct vote {
    const stk_dataset_ops *best;
    int sureness, winners;
    char names[NAMES]; /* the winners, as "mnist:, npy:" */
    stk_error refused; /* the first kind's that could not take its options */
} vote;

static void count_vote(vote *v, const stk_dataset_ops *kind, int sureness)
{
    if (sureness <= 0 || sureness < v->sureness)
        return;
    if (sureness > v->sureness) {
        v->winners = 0;
        v->names[0] = 0;
    }
    v->sureness = sureness;
    v->best = kind;
    size_t length = strlen(v->names);
    snprintf(v->names + length, sizeof v->names - length, "%s%s:", v->winners++ ? ", " : "",
             kind->name);
}

/* The kind that a prefix of `length` bytes is nearly the name of: "'; did you mean 'images:'?" */
static void suggest_kind(const stk_context *ctx, const char *url, size_t length, char *text,
                         size_t size)
{
    char prefix[STK_OPTION_NAME] = "";
    const stk_dataset_ops *kind;
    stk__nearest nearest;

    if (length < sizeof prefix)
        memcpy(prefix, url, length);
    stk__nearest_init(&nearest, prefix);
    for (size_t i = 0; (kind = kind_at(ctx, i)); i++)
        stk__nearest_offer(&nearest, kind->name);
    snprintf(text, size, "%s%.60s%s", *nearest.found ? "; did you mean '" : "", nearest.found,
             *nearest.found ? ":'?" : "");
}

/* Nobody knows it: say whether that is because nothing is there. */
static stk_status nobody(stk_context *ctx, const char *url, const vote *v, stk_error *err)
{
    char names[NAMES], key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    size_t head = strcspn(url, ":/?");

    if (v->refused.status != STK_OK) {
        if (err)
            *err = v->refused;
        return v->refused.status;
    }
    stk_error missing;
    stk_error_init(&missing);
    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, &missing);
    stk_store_close(&store);
    kind_names(ctx, names);
    const stk_dataset_ops *kind;
    for (size_t i = 0; status != STK_OK && (kind = kind_at(ctx, i)); i++)
        if (strcmp(url, kind->name) == 0)
            return stk__fail_at(
                err, status, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                "there is no file or folder '%s'; for the kind of dataset write '%s:'", url, url);
    if (status == STK_ENOMEM)
        return stk__fail(err, status, STK_STAGE_DATASET, "no memory to open '%.200s'", url);
    if (status != STK_OK && url[head] == ':' && head > 0 && strncmp(url + head, "://", 3) != 0 &&
        !stk__url_driver(ctx, url, head)) {
        char meant[100];
        suggest_kind(ctx, url, head, meant, sizeof meant);
        return stk__fail_at(
            err, *meant ? STK_EINVAL : status, STK_STAGE_DATASET, url, STK_NO_OFFSET,
            "'%.200s' is no dataset: '%.*s' is no kind of dataset%s (they are %.300s), and "
            "as a path: %.200s",
            url, (int)STK_MIN(head, 40), url, meant, names, missing.text);
    }
    if (status != STK_OK) {
        if (err)
            *err = missing;
        return status;
    }
    const char *format = stk__array_foreign(url);
    if (format)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "'%.200s': %s is not built in: write the data as Zarr, npy or one of "
                            "the kinds %.300s",
                            url, format, names);
    return stk__fail_at(
        err, STK_EFORMAT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
        "no kind of dataset recognises what lies at '%.200s'; name one, as npy:%.60s; "
        "the kinds are %.300s",
        url, url, names);
}

static stk_status recognise(stk_context *ctx, const char *url, const stk_dataset_ops **out,
                            stk_error *err)
{
    const stk_dataset_ops *kind;
    vote v = {0};

    stk_error_init(&v.refused);
    for (size_t i = 0; (kind = kind_at(ctx, i)); i++) {
        stk_error refused;
        int sureness = 0;
        taken t;

        if (!kind->recognise || !kind->open)
            continue;
        stk_error_init(&refused);
        stk_status status = take(ctx, url, kind->options, NULL, &t, &refused);
        if (status == STK_OK)
            sureness = kind->recognise(ctx, t.url);
        else if (v.refused.status == STK_OK)
            v.refused = refused;
        count_vote(&v, kind, sureness);
        release_taken(ctx, &t);
        if (status == STK_ENOMEM || sureness == STK_ENOMEM)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open '%.200s'", url);
    }
    if (!v.best)
        return nobody(ctx, url, &v, err);
    if (v.winners > 1)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "'%.200s' may be any of %.200s say which, as %s:%.100s", url, v.names,
                            v.best->name, url);
    *out = v.best;
    return STK_OK;
}

/* ---- Opening ------------------------------------------------------------------------------- */

static stk_status open_kind(stk_context *ctx, const stk_dataset_ops *kind, const char *url,
                            const char *nulls, stk_dataset **out, stk_error *err)
{
    taken t;
    stk_dataset *dataset = NULL;

    if (!kind->open)
        return stk__fail(
            err, STK_ENOTSUP, STK_STAGE_DATASET,
            "a dataset of kind '%s' is made by a function of the program and not from a spec",
            kind->name);
    stk_status status = take(ctx, url, kind->options, nulls, &t, err);
    if (status == STK_OK)
        status = stk__dataset_said(kind->open(ctx, t.url, t.options, &dataset, err), err);
    if (status == STK_OK)
        status = stk__dataset_check(dataset, err);
    if (status != STK_OK && dataset && dataset->ops && dataset->ops->close)
        stk_dataset_close(&dataset);
    release_taken(ctx, &t);
    if (status == STK_OK)
        *out = dataset;
    else
        stk__option_unknown_nearer(kind->options, err);
    return status;
}

static stk_status open_spec(stk_context *context, const char *spec, const char *nulls,
                            stk_dataset **out, stk_error *err)
{
    const char *rest = NULL;
    stk_dataset *dataset = NULL;
    taken general = {0};

    const stk_dataset_ops *kind = named_kind(context, spec, &rest);
    if (!kind && *rest == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "the spec of the dataset is empty; give one, as digits: or mnist:DIR");
    if (stk__is_nested(kind))
        STK_TRY(stk__nested_check(kind->name, rest, err));
    stk_status status = take(context, rest, &stk__dataset_option_table, NULL, &general, err);
    /* Specs in parentheses enter what they name each for itself. */
    if (status == STK_OK && !stk__is_nested(kind))
        status = stk__container_enter(context, &general.url, err);
    if (status == STK_OK && !kind)
        status = recognise(context, general.url, &kind, err);
    if (status == STK_OK)
        status = open_kind(context, kind, general.url, nulls, &dataset, err);
    if (status == STK_OK)
        status = stk__select(&dataset, general.options, err);
    if (status == STK_OK) {
        if (!dataset->holds_context)
            stk__context_ref(context);
        dataset->holds_context = true;
        *out = dataset;
    } else {
        stk_dataset_close(&dataset);
        stk__option_unknown_nearer(&stk__dataset_option_table, err);
    }
    release_taken(context, &general);
    return status;
}

static stk_status open_any(stk_context *context, const char *spec, const char *nulls,
                           stk_dataset **out, stk_error *err)
{
    if (!out || !context || !spec)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "no context, no spec or no place for the dataset");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    STK_TRY(stk__secret_refuse(spec, err));
    stk__opening_begin(context);
    const stk_status status = open_spec(context, spec, nulls, out, err);
    stk__opening_end(context);
    return status;
}

stk_status stk_dataset_open(stk_context *context, const char *spec, stk_dataset **out,
                            stk_error *err)
{
    return open_any(context, spec, NULL, out, err);
}

stk_status stk_dataset_open_with_nulls(stk_context *context, const char *spec, stk_dataset **out,
                                       stk_error *err)
{
    return open_any(context, spec, "mask", out, err);
}
