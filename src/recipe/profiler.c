/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.profiler: "simple", "advanced(filename=perf), pytorch" -> a profile of each task. */
#include "base/config.h"
#include "base/options.h"
#include "recipe/recipe.h"

static const stk__items_kind kind = {.stage = STK_STAGE_OPTIONS,
                                     .list = "trainer.profiler",
                                     .item = "profiler",
                                     .form = "name(option=value)",
                                     .classes = true,
                                     .most = STK__RECIPE_MAX_ITEMS};

/* What the items say together: several share their options. */
typedef struct asked {
    stk_profile_options options;
    uint64_t given;  /* bits: the options that an item has set */
    stk__text names; /* "simple,trace" */
} asked;

/* The library's name of a profiler of Lightning's; "": none is asked for; NULL: there is none. */
static const char *profiler_of(const char *name)
{
    static const char *const names[][2] = {{"simple", "simple"}, {"advanced", "advanced"},
                                           {"pytorch", "trace"}, {"trace", "trace"},
                                           {"none", ""},         {"null", ""}};

    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (stk__option_same(name, strlen(name), names[i][0], strlen(names[i][0])))
            return names[i][1];
    return NULL;
}

/* What two items say of an option has to be the same. */
static stk_status set_option(asked *to, const char *profiler, const stk__argument *argument,
                             stk_error *err)
{
    const stk_option_table *table = stk__recipe_profiler_table();
    const stk_option *option = stk_options_find(table, argument->name);
    const uint64_t bit = option ? UINT64_C(1) << (option - table->options) : 0;
    char before[200] = "", after[200];

    if (bit)
        stk_options_format(option, &to->options, before, sizeof before);
    STK_TRY(stk_options_set(table, &to->options, argument->name, argument->value, err));
    stk_options_format(option, &to->options, after, sizeof after);
    if ((to->given & bit) && strcmp(before, after) != 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "profiler", STK_NO_OFFSET,
                            "trainer.profiler: %s: %s is '%s' here and '%s' before; profilers "
                            "share it: give it once",
                            profiler, option->name, after, before);
    to->given |= bit;
    return STK_OK;
}

static stk_status add_item(const stk__item *item, void *user, stk_error *err)
{
    asked *to = user;
    char name[STK__RECIPE_ITEM_NAME];

    stk__recipe_item_name(item->name, strlen(item->name), name);
    const char *profiler = profiler_of(name);
    if (strcmp(name, "true") == 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "profiler", STK_NO_OFFSET,
                            "trainer.profiler: 'true' says not which one; it takes simple | "
                            "advanced | pytorch | trace | none");
    if (!profiler)
        return stk__option_no_word("trainer.profiler", "profiler", item->name, strlen(item->name),
                                   "simple|advanced|pytorch|trace|none", err);
    stk__text_add(&to->names, "%s%s", to->names.length ? "," : "", profiler);
    for (uint32_t i = 0; i < item->count; i++) {
        const stk__argument *argument = &item->arguments[i];
        if (!argument->name)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "profiler", STK_NO_OFFSET,
                                "trainer.profiler: %s: '%.100s' has no name: an option is "
                                "option=value",
                                name, argument->value);
        STK_TRY(set_option(to, name, argument, err));
    }
    return STK_OK;
}

/* The profile names its options as those of a section of its own. */
static stk_status create(stk_recipe *r, const asked *a, stk_error *err)
{
    static const char own[] = "profile.";
    char text[STK_ERROR_TEXT];

    const stk_status status = stk_profile_create(r->trainer, &a->options, &r->profile, err);
    if (status == STK_OK || !err || strncmp(err->text, own, strlen(own)) != 0)
        return status;
    memcpy(text, err->text, sizeof text);
    return stk__fail_at(
        err, status, STK_STAGE_OPTIONS, "profiler", STK_NO_OFFSET, "trainer.%s%.600s",
        strncmp(text + strlen(own), "profiler:", 9) == 0 ? "" : "profiler.", text + strlen(own));
}

stk_status stk__recipe_add_profiler(stk_recipe *r, stk_error *err)
{
    asked a = {.names = {.ctx = r->context}};

    stk_profile_options_init(&a.options);
    stk_status status = stk__recipe_items(r->config, &kind, add_item, &a, err);
    if (status == STK_OK && a.names.failed)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for trainer.profiler");
    if (status == STK_OK && a.names.length) {
        a.options.profiler = a.names.bytes;
        a.options.each_task = true;
        if (!a.options.machine_dir)
            a.options.machine_dir = r->options.machine_dir;
        status = create(r, &a, err);
    }
    stk__text_release(&a.names);
    return status;
}
