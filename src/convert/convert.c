/* SPDX-License-Identifier: Apache-2.0 */
/* What all of them share: choosing, options, life. */
#include "convert/convert.h"

#include <stdio.h>

#include "base/sized.h"
#include "codec/image/image.h"
#include "dataset/dataset.h"

#define VALUE_SHOWN 64
#define LIST_SHOWN  400

/* ---- Options ------------------------------------------------------------------------------- */

#define AT(member) offsetof(stk_convert_options, member)

static const stk_option options_list[] = {
    {"overwrite", STK_OPTION_BOOL, AT(overwrite), "false", 0, 0, NULL, NULL,
     "Write into a folder that holds something else, and replace what an earlier conversion with "
     "other options wrote there."},
    {"num_workers", STK_OPTION_INT, AT(num_workers), "auto", 0, 1024, "auto", "N",
     "Threads that convert; 0: none but the one that waits; auto: the usable cores less those of "
     "compute."},
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
     "(100%: "
     "no bound); auto: 1 %, at least checkpoint."},
    {"checkpoint", STK_OPTION_UINT, AT(checkpoint), "256", 1, 65536, NULL, "N",
     "Files that are made safe on the disk together: so many are done again at most after a kill."},
    STK__IMAGE_LIMIT_OPTIONS(stk_convert_options),
};

const stk_option_table stk__convert_option_table = {
    .name = "convert",
    .doc = "How it is converted.",
    .struct_size = sizeof(stk_convert_options),
    .options = options_list,
    .count = STK_COUNT(options_list),
};

/* An option that does nothing is refused where somebody has set it. */
static stk_status check_ignored(const stk__converter *converter, const stk_convert_options *options,
                                stk_error *err)
{
    stk_convert_options defaults;
    char value[VALUE_SHOWN], initial[VALUE_SHOWN];

    stk_convert_options_init(&defaults);
    for (const char *const *name = converter->ignores; name && *name; name++) {
        const stk_option *option = stk_options_find(&stk__convert_option_table, *name);
        stk_options_format(option, options, value, sizeof value);
        stk_options_format(option, &defaults, initial, sizeof initial);
        if (strcmp(value, initial) != 0)
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "the option %s does nothing where %s are written; leave it out", *name,
                             converter->shown.to);
    }
    return STK_OK;
}

/* Numbers that a caller in C may have set beyond their range. */
static stk_status check_range(const stk_option_table *table, const void *options, stk_error *err)
{
    for (size_t i = 0; i < table->count; i++) {
        char value[VALUE_SHOWN];
        const stk_option *option = &table->options[i];
        if (option->type == STK_OPTION_STRING)
            continue;
        _Alignas(8) char copy[512];
        if (table->struct_size > sizeof copy)
            return STK_OK;
        memcpy(copy, options, table->struct_size);
        stk_options_format(option, options, value, sizeof value);
        STK_TRY(stk_options_set(table, copy, option->name, value, err));
    }
    return STK_OK;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

const stk_field *stk__convert_field(const stk_dataset *dataset, const char *name)
{
    for (uint32_t i = 0; i < dataset->num_fields; i++)
        if (strcmp(dataset->fields[i].name, name) == 0)
            return &dataset->fields[i];
    return NULL;
}

/* Endings that mean a form of its own, so that a folder is not made of what was a slip of the
 * table. */
static const char file_endings[] =
    "|.zarr|.nc|.nc4|.h5|.hdf5|.npy|.npz|.tar|.squashfs|.sqsh|.sqfs|.tfrecord|.parquet|.beton|";

static bool ends_with(const char *target, const char *endings)
{
    const char *slash = strrchr(target, '/'), *dot = strrchr(slash ? slash + 1 : target, '.');
    size_t length = dot ? strlen(dot) : 0;

    for (const char *at = endings; dot && (at = strstr(at, dot)); at += length)
        if (at > endings && at[-1] == '|' && at[length] == '|')
            return true;
    return false;
}

static bool suits(const stk__converter *converter, const char *target)
{
    return converter->endings ? ends_with(target, converter->endings)
                              : !ends_with(target, file_endings);
}

static stk_status choose(stk_conversion *c, stk_error *err)
{
    char ways[LIST_SHOWN] = "";
    const char *why = NULL, *first = NULL, *form = NULL;

    /* Asked in the order of the registry. */
    const stk__converter *converter;
    for (size_t i = 0;
         (converter = (const stk__converter *)stk_driver_at(c->context, STK_DRIVER_CONVERTER, i));
         i++) {
        size_t used = strlen(ways);
        snprintf(ways + used, sizeof ways - used, "%s%s -> %s", used ? "; " : "",
                 converter->shown.from, converter->shown.to);
        if (!suits(converter, c->target))
            continue;
        if (converter->accepts(c->dataset, &why)) {
            c->converter = converter;
            return STK_OK;
        }
        first = why;
        form = converter->shown.to;
    }
    if (first)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_CONVERT,
                         "%.120s cannot be written as %s: it %s. What can be converted: %s",
                         c->source, form, first, ways);
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_CONVERT,
                     "nothing writes what %.160s would be by its name. What can be converted: %s",
                     c->target, ways);
}

/* ---- Life ---------------------------------------------------------------------------------- */

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
    c->context = stk__context_ref(context);
    c->source = stk__strdup(context, source);
    c->target = stk__strdup(context, target);
    stk_status status = c->source && c->target
                            ? stk_dataset_open(context, source, &c->dataset, err)
                            : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                                        "no memory for the names of a conversion");
    if (status == STK_OK)
        status = choose(c, err);
    if (status == STK_OK)
        *out = c;
    else
        stk_conversion_destroy(&c);
    return status;
}

const stk_converter *stk_conversion_converter(const stk_conversion *conversion)
{
    return &conversion->converter->shown;
}

stk_status stk_conversion_run(stk_conversion *conversion, const stk_convert_options *options,
                              const void *own, stk_conversion_report *report, stk_error *err)
{
    stk_convert_options o;
    _Alignas(8) char its[512]; /* no converter has more */
    stk_conversion_report done = {.struct_size = sizeof done};

    if (!conversion)
        return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT, "no conversion to run");
    STK_TRY(stk__context_check(conversion->context, err));
    if (conversion->ran)
        return stk__fail(err, STK_EINVAL, STK_STAGE_CONVERT,
                         "the conversion of %.200s has run already; create another one",
                         conversion->source);
    const stk__converter *converter = conversion->converter;
    const stk_option_table *table = converter->shown.options;
    if (report)
        STK_TRY(stk__sized_check(report, "stk_conversion_report", STK_STAGE_CONVERT, err));
    stk_convert_options_init(&o);
    if (options)
        STK_TRY(
            stk__sized_read(&o, sizeof o, options, "stk_convert_options", STK_STAGE_CONVERT, err));
    STK_TRY(check_range(&stk__convert_option_table, &o, err));
    STK_TRY(check_ignored(converter, &o, err));
    if (table) {
        stk_options_init(table, its, table->struct_size);
        if (own)
            STK_TRY(
                stk__sized_read(its, table->struct_size, own, table->name, STK_STAGE_CONVERT, err));
        STK_TRY(check_range(table, its, err));
    }
    conversion->ran = true;
    stk_status status = converter->run(conversion, &o, table ? its : NULL, &done, err);
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
    if (stk__context_forked((*conversion)->context)) {
        *conversion = NULL;
        return;
    }
    stk_conversion *c = *conversion;
    stk_context *ctx = c->context;
    stk_dataset_close(&c->dataset);
    stk__free(ctx, c->source);
    stk__free(ctx, c->target);
    stk__free(ctx, c);
    stk__context_unref(ctx);
    *conversion = NULL;
}
