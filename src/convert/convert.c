/* SPDX-License-Identifier: Apache-2.0 */
/* What all of them share: choosing, options, life. */
#include "convert/convert.h"

#include <stdio.h>

#include "base/options.h"
#include "base/registry.h"
#include "base/sized.h"
#include "base/spec.h"
#include "base/table.h"
#include "base/url.h"
#include "codec/image/image.h"
#include "convert/target.h"
#include "dataset/dataset.h"
#include "store/store.h"

#define VALUE_SHOWN 64
#define LIST_SHOWN  480
#define REFUSE(...) stk__fail(err, STK_ENOTSUP, STK_STAGE_CONVERT, __VA_ARGS__)

/* A conversion that was begun. */
struct stk_conversion {
    stk_conversion_job job; /* first; its context is held */
    const stk_converter_ops *converter;
    char *source, *target, *path; /* `path`: the target without name and options */
    char *query;                  /* behind a name: options, as in "?option=value"; NULL: none */
    stk_dataset *dataset;         /* `source`, opened */
    atomic_bool canceled;
    bool ran;
};

static const stk__member members[] = {STK__MEMBER(stk_converter_ops, run)};
static const stk__given_table kind = {.type = "stk_converter_ops",
                                      .least = offsetof(stk_converter_ops, takes),
                                      .members = members,
                                      .num_members = STK_COUNT(members),
                                      .stage = STK_STAGE_CONVERT};

typedef bool takes_fn(stk_context *context, const char *source, const char **why);

/* A table of an earlier version ends before that member. */
static takes_fn *takes_of(const stk_converter_ops *converter)
{
    return converter->struct_size >= offsetof(stk_converter_ops, takes) + sizeof(takes_fn *)
               ? converter->takes
               : NULL;
}

stk_status stk__converter_kind_check(const void *ops, stk_error *err)
{
    const stk_converter_ops *converter = ops;

    STK_TRY(stk__table_check(&kind, ops, err));
    if (!converter->accepts && !takes_of(converter))
        return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                         "the stk_converter_ops of '%.64s' lacks accepts", converter->name);
    if (converter->options)
        STK_TRY(stk__options_check(converter->options, err));
    if (!converter->from || !converter->doc)
        return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                         "the stk_converter_ops of '%.64s' lacks %s", converter->name,
                         converter->from ? "doc" : "from");
    for (const char *const *name = converter->ignores; name && *name; name++)
        if (!stk_options_find(&stk__convert_option_table, *name))
            return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                             "the stk_converter_ops of '%.64s' ignores '%.64s', which is no option "
                             "of stk_convert_options",
                             converter->name, *name);
    return STK_OK;
}

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                     "no memory for the options of a conversion");
}

/* ---- Options ------------------------------------------------------------------------------- */

#define AT(member) offsetof(stk_convert_options, member)

static const stk_option options_list[] = {
    {"overwrite", STK_OPTION_BOOL, AT(overwrite), "false", 0, 0, NULL, NULL,
     "Write into a folder that holds something else, and replace what an earlier conversion with "
     "other options wrote there."},
    {"num_workers", STK_OPTION_INT, AT(num_workers), "auto", 0, 1024, "auto", "N",
     "Threads that convert; 0: none but the one that waits; auto: all usable cores."},
    {"memory_budget", STK_OPTION_SIZE, AT(memory_budget), "0", 0, 0, NULL, "SIZE",
     "Bound on the memory of files and pictures in work; 0: a quarter of what the process may use, "
     "at most 4 GiB."},
    {"verify", STK_OPTION_ENUM, AT(verify), "full", 0, 0, "full|none", NULL,
     "full: read every written file back, decode it whole and compare, before it gets its name; "
     "none: trust what was written."},
    {"on_error", STK_OPTION_ENUM, AT(on_error), "fail", 0, 0, "fail|skip", NULL,
     "What becomes of a source that is broken: the end of the conversion, or a line in a list."},
    {"max_errors", STK_OPTION_STRING, AT(max_errors), "auto", 0, 0, NULL, "N|N%",
     "With on_error skip: more broken sources fail the conversion: a count, or a share of all "
     "(100%: no "
     "bound); auto: 1 %, at least checkpoint."},
    {"checkpoint", STK_OPTION_UINT, AT(checkpoint), "256", 1, 65536, NULL, "N",
     "Files that are made safe on the disk together: so many are done again at most after a kill."},
    STK__IMAGE_LIMIT_OPTIONS(stk_convert_options),
    {"dry_run", STK_OPTION_BOOL, AT(dry_run), "false", 0, 0, NULL, NULL,
     "Say what would be done and what it would take, and write nothing: of arrays, packed pictures "
     "and images of folders."},
};

const stk_option_table stk__convert_option_table = {
    .name = "convert",
    .doc = "How it is converted.",
    .struct_size = sizeof(stk_convert_options),
    .options = options_list,
    .count = STK_COUNT(options_list),
};

/* A table that was built before there was the option does not heed it. */
static bool plans(const stk_converter_ops *converter)
{
    return converter->struct_size > offsetof(stk_converter_ops, plans) && converter->plans;
}

static stk_status does_nothing(const stk_converter_ops *converter, const char *option,
                               stk_error *err)
{
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "the option %s does nothing where %s are written; leave it out", option,
                     converter->doc);
}

/* An option that does nothing is refused where somebody has set it. */
static stk_status check_ignored(const stk_converter_ops *converter,
                                const stk_convert_options *options, stk_error *err)
{
    stk_convert_options defaults;
    char value[VALUE_SHOWN], initial[VALUE_SHOWN];

    stk_convert_options_init(&defaults);
    if (options->dry_run && !plans(converter))
        return does_nothing(converter, "dry_run", err);
    for (const char *const *name = converter->ignores; name && *name; name++) {
        const stk_option *option = stk_options_find(&stk__convert_option_table, *name);
        stk_options_format(option, options, value, sizeof value);
        stk_options_format(option, &defaults, initial, sizeof initial);
        if (strcmp(value, initial) != 0)
            return does_nothing(converter, *name, err);
    }
    return STK_OK;
}

/* Numbers that a caller in C may have set beyond their range. */
static stk_status check_range(stk_context *ctx, const stk_option_table *table, const void *options,
                              stk_error *err)
{
    stk_status status = STK_OK;
    char value[VALUE_SHOWN];

    void *copy = stk__alloc(ctx, table->struct_size);
    if (!copy)
        return no_memory(err);
    memcpy(copy, options, table->struct_size);
    for (size_t i = 0; i < table->count && status == STK_OK; i++) {
        const stk_option *option = &table->options[i];
        if (option->type == STK_OPTION_STRING || option->type == STK_OPTION_SECRET)
            continue;
        stk_options_format(option, options, value, sizeof value);
        status = stk_options_set(table, copy, option->name, value, err);
    }
    stk__free(ctx, copy);
    return status;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* Endings that mean a form of its own, so that a folder is not made of what was a slip of the
 * table. */
static const char file_endings[] =
    "|.zarr|.nc|.nc4|.h5|.hdf5|.npy|.npz|.tar|.squashfs|.sqsh|.sqfs|.tfrecord|.parquet|.beton|"
    ".zip|.csv|.tsv|.jsonl|.json|.arrow|.feather|";

static bool ends_with(const stk_conversion *c, const char *endings)
{
    char ending[16];
    stk__url url;

    stk__url_scan(c->job.context, c->path, &url);
    const char *end = url.path + url.path_length, *dot;
    while (end > url.path && end[-1] == '/')
        end--;
    dot = end;
    while (dot > url.path && dot[-1] != '/' && *dot != '.')
        dot--;
    if (dot == end || *dot != '.' || (size_t)(end - dot) + 3 > sizeof ending)
        return false;
    snprintf(ending, sizeof ending, "|%.*s|", (int)(end - dot), dot);
    return strstr(endings, ending);
}

static const stk_converter_ops *converter_at(const stk_conversion *c, size_t i)
{
    return (const stk_converter_ops *)stk_driver_at(c->job.context, STK_DRIVER_CONVERTER, i);
}

/* Whether the ending of the target tells a form that is no folder: one that a converter writes, or
 * one that a stranger would expect. */
static bool tells_form(const stk_conversion *c)
{
    const stk_converter_ops *converter;

    for (size_t i = 0; (converter = converter_at(c, i)); i++)
        if (converter->endings && ends_with(c, converter->endings))
            return true;
    return ends_with(c, file_endings);
}

static bool suits(const stk_conversion *c, const stk_converter_ops *converter)
{
    return converter->endings ? ends_with(c, converter->endings) : !tells_form(c);
}

/* A target that begins nearly as a converter does is no path that was meant. */
static stk_status refuse_slip(const stk_conversion *c, size_t length, stk_error *err)
{
    char name[STK_OPTION_NAME], meant[STK_OPTION_MEANT];
    const stk_converter_ops *converter;
    stk__nearest nearest;

    snprintf(name, sizeof name, "%.*s", (int)STK_MIN(length, sizeof name - 1), c->target);
    stk__nearest_init(&nearest, name);
    for (size_t i = 0; (converter = converter_at(c, i)); i++)
        stk__nearest_offer(&nearest, converter->name);
    if (!*stk__nearest_said(&nearest, meant))
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "the target '%.200s': there is no converter '%s', and a path of that name is "
                     "written ./%.200s%s",
                     c->target, name, c->target, meant);
}

/* Take name and options of a converter off the target, where it begins with one. */
static stk_status take_name(stk_conversion *c, stk_error *err)
{
    stk_context *ctx = c->job.context;
    const size_t length = strcspn(c->target, ":/?");
    stk__url url;

    c->path = c->target;
    if (c->target[length] != ':')
        return STK_OK;
    c->converter = stk__driver_find(ctx, STK_DRIVER_CONVERTER, c->target, length);
    if (!c->converter) {
        stk__url_scan(ctx, c->target, &url);
        return url.plain && !url.inner ? refuse_slip(c, length, err) : STK_OK;
    }
    c->path = c->target + length + 1;
    stk__url_scan(ctx, c->path, &url);
    if (url.query) {
        c->query = stk__strdup(ctx, url.query - 1);
        c->path[url.query - 1 - c->path] = 0;
        if (!c->query)
            return no_memory(err);
    }
    if (!*c->path)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the target '%.200s' names no path; write it as %s:PATH", c->target,
                         c->converter->name);
    return STK_OK;
}

static bool accepts(const stk_conversion *c, const stk_converter_ops *converter, const char **why)
{
    *why = NULL;
    bool does = takes_of(converter) && takes_of(converter)(c->job.context, c->source, why);
    /* One that takes some sources as they are may write any samples as well. */
    if (!does && converter->accepts && c->dataset)
        does = converter->accepts(c->dataset, why);
    if (!*why)
        *why = "has samples of another kind";
    return does;
}

/* The first that suits the target and takes the source as it is. */
static bool choose_taker(stk_conversion *c)
{
    const stk_converter_ops *converter;
    const char *why;

    for (size_t i = 0; (converter = converter_at(c, i)); i++)
        if (takes_of(converter) && suits(c, converter) && accepts(c, converter, &why)) {
            c->converter = converter;
            return true;
        }
    return false;
}

/* What the source can be written as. */
static void list_forms(const stk_conversion *c, char *out, size_t size)
{
    const stk_converter_ops *converter;
    const char *why;
    size_t used = 0;

    snprintf(out, size, "nothing");
    for (size_t i = 0; (converter = converter_at(c, i)) && used < size; i++)
        if (accepts(c, converter, &why))
            used +=
                (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", converter->doc);
}

static stk_status choose(stk_conversion *c, stk_error *err)
{
    const stk_converter_ops *converter, *near = NULL;
    const char *why = NULL;
    char forms[LIST_SHOWN];

    if (c->converter) {
        if (accepts(c, c->converter, &why))
            return STK_OK;
        return REFUSE("%.120s cannot be written as %s: it %s. The converter %s reads %s", c->source,
                      c->converter->doc, why, c->converter->name, c->converter->from);
    }
    /* Asked in the order of the registry. */
    for (size_t i = 0; (converter = converter_at(c, i)); i++) {
        if (!suits(c, converter))
            continue;
        near = c->converter = converter;
        if (accepts(c, converter, &why))
            return STK_OK;
    }
    c->converter = NULL;
    list_forms(c, forms, sizeof forms);
    if (near)
        return REFUSE("%.120s cannot be written as %s: it %s. It can be written as %s", c->source,
                      near->doc, why, forms);
    return REFUSE("nothing writes what %.160s would be by its name. %.120s can be written as %s",
                  c->target, c->source, forms);
}

/* The converter's own options. */
typedef struct own_options {
    void *values; /* of its table; NULL: it has none */
    char *texts;  /* that they point into */
    char *target; /* the path, with what its store is to have of the query */
} own_options;

static void own_release(stk_context *ctx, own_options *own)
{
    stk__free(ctx, own->values);
    stk__free(ctx, own->texts);
    stk__free(ctx, own->target);
    *own = (own_options){0};
}

/* What the target says of them; the rest of its query is for its store, where it has one. */
static stk_status take_query(const stk_conversion *c, own_options *out, stk_error *err)
{
    const stk_option_table *table = c->converter->options;
    stk_context *ctx = c->job.context;

    out->target = stk__format(ctx, "%s%s", c->path, c->query ? c->query : "");
    if (!out->target)
        return no_memory(err);
    char *rest = out->target + strlen(c->path);
    if (table && *rest)
        STK_TRY(stk__spec_take(ctx, rest, table, out->values, &out->texts, err));
    if (!*rest || stk__url_elsewhere(ctx, c->path))
        return STK_OK;
    if (table)
        return stk__spec_unknown(table, rest + 1, err);
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "the target has the options '%.160s', and the converter %s has none", rest + 1,
                     c->converter->name);
}

/* The caller's, and over them those of the target. */
static stk_status own_take(const stk_conversion *c, const void *theirs, own_options *out,
                           stk_error *err)
{
    const stk_option_table *table = c->converter->options;
    stk_context *ctx = c->job.context;
    stk_status status = STK_OK;

    *out = (own_options){0};
    if (table) {
        out->values = stk__calloc(ctx, 1, table->struct_size);
        if (!out->values)
            return no_memory(err);
        stk_options_init(table, out->values, table->struct_size);
    }
    if (table && theirs)
        status = stk__sized_read(out->values, table->struct_size, theirs, table->name,
                                 STK_STAGE_CONVERT, err);
    if (status == STK_OK)
        status = take_query(c, out, err);
    if (status == STK_OK && table)
        status = check_range(ctx, table, out->values, err);
    if (status != STK_OK)
        own_release(ctx, out);
    return status;
}

/* ---- Life ---------------------------------------------------------------------------------- */

static bool is_canceled(const stk_conversion_job *job)
{
    const stk_conversion *c = (const stk_conversion *)job;

    return atomic_load_explicit(&c->canceled, memory_order_relaxed);
}

/* Where the source names what lies in a container without saying so, it says so from now on. */
static stk_status enter(stk_conversion *c, bool *entered, stk_error *err)
{
    const stk_conversion_job job = {.context = c->job.context, .source = c->source};
    const size_t name = (size_t)(stk__convert_source(&job) - c->source);
    char *url = stk__strdup(c->job.context, c->source + name);
    char *source = NULL;

    *entered = false;
    stk_status status = url ? stk__container_enter(c->job.context, &url, err) : no_memory(err);
    *entered = status == STK_OK && strcmp(url, c->source + name) != 0;
    if (*entered) {
        source = stk__format(c->job.context, "%.*s%s", (int)name, c->source, url);
        status = source ? STK_OK : no_memory(err);
    }
    if (source) {
        stk__free(c->job.context, c->source);
        c->source = source;
    }
    stk__free(c->job.context, url);
    return status;
}

/* Whether the converter that was named, or one that suits the target, takes the source as it is. */
static bool is_taken(stk_conversion *c)
{
    const char *why;

    if (!c->converter)
        return choose_taker(c);
    return takes_of(c->converter) && accepts(c, c->converter, &why);
}

/* Whether what is written has nulls: by the converter that was named, or one that suits. */
static bool has_nulls(const stk_conversion *c)
{
    const stk_converter_ops *k;
    bool has = false;

    for (size_t i = 0; !has && (k = converter_at(c, i)); i++)
        has = (c->converter ? c->converter == k : suits(c, k)) &&
              k->struct_size > offsetof(stk_converter_ops, nulls) && k->nulls;
    return has;
}

/* Options behind a plain path, which no converter is named for, would become part of its name. A
 * file or folder that is there and has such a name is meant. */
static stk_status refuse_query(const stk_conversion *c, stk_error *err)
{
    stk__url url;

    stk__url_scan(c->job.context, c->target, &url);
    if (c->path != c->target || !url.plain || url.inner || !url.query)
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "the target '%.200s' is a plain path, which has no options: they are written "
                     "with the converter's name, as %s:%.200s, and a folder with a '?' in its name "
                     "has to be there before",
                     c->target, c->converter->name, c->target);
}

/* The source, the converter and its options, of which a wrong one is told before anything is done.
 */
static stk_status open_source(stk_conversion *c, stk_error *err)
{
    own_options own;
    bool entered = false;

    STK_TRY(take_name(c, err));
    /* Some read an object that is a container as something else. */
    const bool taken = is_taken(c);
    if (!taken)
        STK_TRY(enter(c, &entered, err));
    /* Of one that was named, what it cannot read is told when it opens it. */
    if (c->converter ? !takes_of(c->converter) || (!taken && c->converter->accepts)
                     : !(entered && choose_taker(c))) {
        STK_TRY((has_nulls(c) ? stk_dataset_open_with_nulls
                              : stk_dataset_open)(c->job.context, c->source, &c->dataset, err));
        STK_TRY(choose(c, err));
    }
    STK_TRY(refuse_query(c, err));
    STK_TRY(own_take(c, NULL, &own, err));
    own_release(c->job.context, &own);
    return STK_OK;
}

stk_status stk_conversion_create(stk_context *context, const char *source, const char *target,
                                 stk_conversion **out, stk_error *err)
{
    if (!out || !context || !source || !target)
        return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                         "no context, no source, no target or no place for the conversion");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    if (!*target)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the target is empty; name the folder to write");
    stk_conversion *c = stk__calloc(context, 1, sizeof *c);
    if (!c)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for a conversion");
    c->job.context = stk__context_ref(context);
    c->source = stk__strdup(context, source);
    c->target = stk__strdup(context, target);
    stk_status status = c->source && c->target
                            ? open_source(c, err)
                            : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                                        "no memory for the names of a conversion");
    if (status == STK_OK)
        *out = c;
    else
        stk_conversion_destroy(&c);
    return status;
}

const stk_converter_ops *stk_conversion_converter(const stk_conversion *conversion)
{
    return conversion->converter;
}

/* Run it with options that are complete. */
static stk_status run(stk_conversion *c, const stk_convert_options *options, const own_options *own,
                      stk_conversion_report *report, stk_error *err)
{
    c->job = (stk_conversion_job){.struct_size = sizeof c->job,
                                  .context = c->job.context,
                                  .dataset = c->dataset,
                                  .source = c->source,
                                  .target = own->target,
                                  .options = options,
                                  .own = own->values,
                                  .canceled = is_canceled};
    c->ran = true;
    const stk_status status = c->converter->run(&c->job, report, err);
    return stk__table_made(&kind, c->converter->name, "run", status, c, err);
}

stk_status stk_conversion_run(stk_conversion *conversion, const stk_convert_options *options,
                              const void *own, stk_conversion_report *report, stk_error *err)
{
    stk_convert_options o;
    stk_conversion_report done = {.struct_size = sizeof done};
    own_options its;

    if (!conversion)
        return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT, "no conversion to run");
    stk_context *ctx = conversion->job.context;
    STK_TRY(stk__context_check(ctx, err));
    if (conversion->ran)
        return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                         "the conversion of %.200s has run already; create another one",
                         conversion->source);
    if (report)
        STK_TRY(stk__sized_check(report, "stk_conversion_report", STK_STAGE_CONVERT, err));
    stk_convert_options_init(&o);
    if (options)
        STK_TRY(
            stk__sized_read(&o, sizeof o, options, "stk_convert_options", STK_STAGE_CONVERT, err));
    STK_TRY(check_range(ctx, &stk__convert_option_table, &o, err));
    STK_TRY(check_ignored(conversion->converter, &o, err));
    STK_TRY(own_take(conversion, own, &its, err));
    const stk_status status = run(conversion, &o, &its, &done, err);
    own_release(ctx, &its);
    if (report)
        stk__sized_write(report, &done);
    return status;
}

void stk_conversion_cancel(stk_conversion *conversion)
{
    atomic_store_explicit(&conversion->canceled, true, memory_order_relaxed);
}

void stk_conversion_destroy(stk_conversion **conversion)
{
    if (!conversion || !*conversion)
        return;
    if (stk__context_forked((*conversion)->job.context)) {
        *conversion = NULL;
        return;
    }
    stk_conversion *c = *conversion;
    stk_context *ctx = c->job.context;
    stk_dataset_close(&c->dataset);
    stk__free(ctx, c->query);
    stk__free(ctx, c->source);
    stk__free(ctx, c->target);
    stk__free(ctx, c);
    stk__context_unref(ctx);
    *conversion = NULL;
}
