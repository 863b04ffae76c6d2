/* SPDX-License-Identifier: Apache-2.0 */
/* Specs of the section `data` -> datasets. */
#include <inttypes.h>
#include <stdio.h>

#include "base/config.h"
#include "base/options.h"
#include "recipe/recipe.h"

/* ---- Specs ----------------------------------------------------------------------------------- */

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(text, word, length) == 0;
}

/* Options of a spec that choose some of its samples: those of another split are not meant. */
static bool selects(const char *option, size_t length)
{
    const stk_option_table *every = stk_option_table_find("dataset");

    for (size_t i = 0; i < every->count; i++)
        if (is_word(option, length, every->options[i].name))
            return true;
    return is_word(option, length, "split") || is_word(option, length, "size");
}

/* Whether it is a dataset of datasets, which have splits of their own. */
static bool holds_specs(const char *spec)
{
    return strncmp(spec, "mix:", 4) == 0 || strncmp(spec, "concat:", 7) == 0 ||
           strncmp(spec, "pair:", 5) == 0;
}

/* "mnist:DIR?subset=0:1000&memory=true" -> "mnist:DIR?memory=true&split=test". False where the spec
 * names its split itself, or the result does not fit. */
static bool test_spec(const char *spec, char *out, size_t size)
{
    size_t used = strcspn(spec, "?");
    const char *p = spec + used + (spec[used] == '?');

    if (used + 16 >= size || holds_specs(spec))
        return false;
    memcpy(out, spec, used);
    out[used] = 0;
    bool any = false;
    while (*p) {
        size_t length = strcspn(p, "&"), name = strcspn(p, "=&");
        if (name == 5 && strncmp(p, "split", 5) == 0)
            return false;
        if (length && !selects(p, name)) {
            if (used + length + 16 >= size)
                return false;
            used += (size_t)snprintf(out + used, size - used, "%c%.*s", any ? '&' : '?',
                                     (int)length, p);
            any = true;
        }
        p += length + (p[length] == '&');
    }
    snprintf(out + used, size - used, "%csplit=test", any ? '&' : '?');
    return true;
}

stk_status stk__recipe_home(stk_config *config, const char *home, stk__recipe_data *data,
                            stk_error *err)
{
    const char **const specs[] = {&data->dataset, &data->otherwise, &data->val, &data->test,
                                  &data->predict};

    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        const char *const spec = *specs[i];
        const size_t length = spec ? stk_home_path(spec, home, NULL, 0) : 0;
        if (!length)
            continue;
        char *made = stk__alloc(config->context, length + 1);
        if (made)
            stk_home_path(spec, home, made, length + 1);
        *specs[i] = made ? stk__config_copy(config, made, length) : NULL;
        stk__free(config->context, made);
        if (!*specs[i])
            return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the spec %.200s",
                             spec);
    }
    return STK_OK;
}

/* The training data, or `otherwise` where that of a file is not there: whoever names data apart
 * from the file wants these and no other. */
static stk_status open_first(stk__recipe_sets *sets, const stk__recipe_data *data, stk_error *err)
{
    const char *first = data->dataset ? data->dataset : data->otherwise;

    snprintf(sets->spec, sizeof sets->spec, "%s", first);
    stk_status status = stk_dataset_open(sets->context, first, &sets->train, err);
    if (status != STK_ENOENT || !data->otherwise || !data->dataset || sets->given_apart)
        return status;
    snprintf(sets->spec, sizeof sets->spec, "%s", data->otherwise);
    STK_TRY(stk_dataset_open(sets->context, data->otherwise, &sets->train, err));
    stk__message(sets->context, STK_MESSAGE_WARNING,
                 "There is no %.200s: the data is %.200s instead (data.otherwise)", data->dataset,
                 sets->spec);
    return STK_OK;
}

static stk_status open_train(stk__recipe_sets *sets, const stk__recipe_data *data, stk_error *err)
{
    if (sets->train)
        return data->dataset || data->otherwise
                   ? stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "data.dataset", STK_NO_OFFSET,
                                  "data.%s: it has no effect, as the training data is the "
                                  "caller's; leave it out",
                                  data->dataset ? "dataset" : "otherwise")
                   : STK_OK;
    if (!data->dataset && !data->otherwise)
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_OPTIONS, "data.dataset", STK_NO_OFFSET,
            "no data: set data.dataset, for example to 'digits:', which needs no files");
    return open_first(sets, data, err);
}

/* ---- Samples kept for validation ------------------------------------------------------------- */

/* "0.1" or "5000" -> a share of `size`; negative: it makes no sense. */
static double split_share(const char *text, uint64_t size)
{
    const char *end;
    double value;

    if (!stk__option_number(text, &value, &end) || *end || !(value >= 0))
        return -1;
    if (!strpbrk(text, ".eE"))
        return value < (double)size ? value / (double)size : -1;
    return value < 1 ? value : -1;
}

/* Take the validation samples out of the training data, into a dataset of their own. */
static stk_status split(stk__recipe_sets *sets, const stk__recipe_data *data, stk_error *err)
{
    stk_dataset_info train = {.struct_size = sizeof train};

    stk_dataset_get_info(sets->train, &train);
    const double share = split_share(data->val_split, train.size);
    if (share < 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "data.val_split", STK_NO_OFFSET,
                            "data.val_split: '%.40s' is no share below 1.0 and no number of "
                            "samples below the %" PRIu64 " of the training data",
                            data->val_split, train.size);
    if (share == 0)
        return STK_OK;
    if (!sets->spec[0])
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "data.val_split", STK_NO_OFFSET,
                            "data.val_split: the training data is the caller's, who gives the "
                            "validation data, too");
    const double shares[] = {1 - share, share};
    STK_TRY(stk_dataset_open(sets->context, sets->spec, &sets->val, err));
    STK_TRY(stk_dataset_random_split(&sets->train, shares, 2, 0, data->split_seed, err));
    return stk_dataset_random_split(&sets->val, shares, 2, 1, data->split_seed, err);
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* One of the further sets, unless the caller has given it. */
static stk_status open_one(stk__recipe_sets *sets, const char *key, const char *spec,
                           stk_dataset **set, stk_error *err)
{
    if (!*set)
        return stk_dataset_open(sets->context, spec, set, err);
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, key, STK_NO_OFFSET,
                        "%s: it has no effect, as this data is the caller's; leave it out", key);
}

static stk_status open_val(stk__recipe_sets *sets, const stk__recipe_data *data, uint32_t tasks,
                           stk_error *err)
{
    const bool splits = strcmp(data->val_split, "0") != 0;

    if ((data->val || sets->val) && splits)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "data.val_split", STK_NO_OFFSET,
                            "data.val and data.val_split contradict each other: leave out one");
    if (data->val && tasks & (STK_RECIPE_FIT | STK_RECIPE_VALIDATE))
        STK_TRY(open_one(sets, "data.val", data->val, &sets->val, err));
    else if (!data->val && splits)
        STK_TRY(split(sets, data, err));
    if (tasks & STK_RECIPE_VALIDATE && !sets->val)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "data.val", STK_NO_OFFSET,
                            "no validation data: set data.val or data.val_split");
    return STK_OK;
}

/* The test data: as given, or the other split of the training data. */
static stk_status open_test(stk__recipe_sets *sets, const stk__recipe_data *data, bool optional,
                            stk_error *err)
{
    if (data->test) {
        snprintf(sets->test_spec, sizeof sets->test_spec, "%s", data->test);
        return open_one(sets, "data.test", data->test, &sets->test, err);
    }
    if (sets->test)
        return STK_OK;
    if (sets->spec[0] && test_spec(sets->spec, sets->test_spec, sizeof sets->test_spec)) {
        const stk_status status =
            stk_dataset_open(sets->context, sets->test_spec, &sets->test, err);
        /* What a machine refuses now says nothing of what there is. */
        if (status == STK_OK || stk_status_fault(status) == STK_FAULT_MACHINE)
            return status;
    }
    sets->test_spec[0] = 0;
    if (optional)
        return STK_OK;
    return stk__fail_at(
        err, STK_EINVAL, STK_STAGE_OPTIONS, "data.test", STK_NO_OFFSET,
        "no test data: %.200s has no split=test that could be opened; set data.test",
        sets->spec[0] ? sets->spec : "the caller's data");
}

static stk_status open_all(stk__recipe_sets *sets, const stk__recipe_data *data, uint32_t tasks,
                           stk_error *err)
{
    const stk_recipe_options *given = sets->given;

    sets->train = given->train;
    sets->val = given->val;
    sets->test = given->test;
    sets->predict = given->predict;
    STK_TRY(open_train(sets, data, err));
    if (tasks == STK_RECIPE_MODEL)
        return STK_OK;
    STK_TRY(open_val(sets, data, tasks, err));
    if (data->predict && tasks & STK_RECIPE_PREDICT)
        return open_one(sets, "data.predict", data->predict, &sets->predict, err);
    if (sets->predict ? tasks & STK_RECIPE_TEST : tasks & (STK_RECIPE_TEST | STK_RECIPE_PREDICT))
        return open_test(sets, data, tasks & STK_RECIPE_FIT, err);
    return STK_OK;
}

stk_status stk__recipe_open(stk__recipe_sets *sets, const stk__recipe_settings *settings,
                            uint32_t tasks, stk_error *err)
{
    sets->loader = settings->loader;
    STK_TRY(open_all(sets, &settings->data, tasks, err));
    STK_TRY(stk__recipe_make_eval(sets, settings, err));
    const struct {
        stk_dataset *dataset;
        bool evaluated;
        const char *what;
    } checked[] = {
        {tasks & (STK_RECIPE_FIT | STK_RECIPE_MODEL) ? sets->train : NULL, false,
         "the training data"},
        {sets->val, true, "the validation data"},
        {sets->test, true, "the test data"},
        {sets->predict, true, "the data to predict"},
    };
    for (size_t i = 0; i < STK_COUNT(checked) && !sets->given->module; i++)
        if (checked[i].dataset)
            STK_TRY(stk__recipe_check_field(sets, checked[i].dataset, checked[i].evaluated,
                                            checked[i].what, &settings->module, err));
    return STK_OK;
}

static void close_own(stk_dataset **set, const stk_dataset *given)
{
    if (*set != given)
        stk_dataset_close(set);
    *set = NULL;
}

void stk__recipe_close(stk__recipe_sets *sets)
{
    close_own(&sets->train, sets->given->train);
    close_own(&sets->val, sets->given->val);
    close_own(&sets->test, sets->given->test);
    close_own(&sets->predict, sets->given->predict);
    stk__free(sets->context, sets->eval_transforms);
    sets->eval_transforms = NULL;
}
