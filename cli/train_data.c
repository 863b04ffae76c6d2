/* SPDX-License-Identifier: Apache-2.0 */
/* Specs of the section `data` -> datasets and the options of their loaders. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

/* ---- Specs ----------------------------------------------------------------------------------- */

/* Options of a spec that choose some of its samples: those of another split are not meant. */
static bool selects(const char *option, size_t length)
{
    static const char *const names[] = {"subset",     "indices", "random_split", "part",
                                        "split_seed", "split",   "size"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncmp(option, names[i], length) == 0)
            return true;
    return false;
}

/* "mnist:DIR?subset=0:1000&memory=true" -> "mnist:DIR?memory=true&split=test". False where the spec
 * names its split itself, or the result does not fit. */
static bool test_spec(const char *spec, char *out, size_t size)
{
    size_t used = strcspn(spec, "?");
    const char *p = spec + used + (spec[used] == '?');

    if (used + 16 >= size)
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

stk_status train_open_first(stk_context *context, const struct train_data *data, char *spec,
                            size_t size, bool *other, stk_dataset **out, stk_error *err)
{
    const char *first = cli_home(data->dataset ? data->dataset : data->otherwise);
    const char *second = cli_home(data->otherwise);

    *other = false;
    snprintf(spec, size, "%s", first);
    stk_status status = stk_dataset_open(context, first, out, err);
    if (status != STK_ENOENT || !second || !data->dataset)
        return status;
    *other = true;
    snprintf(spec, size, "%s", second);
    return stk_dataset_open(context, second, out, err);
}

/* ---- Samples kept for validation ------------------------------------------------------------- */

/* "0.1" or "5000" -> a share of `size`; negative: it makes no sense. */
static double split_share(const char *text, uint64_t size)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= 0) || !isfinite(value))
        return -1;
    if (!strpbrk(text, ".eE"))
        return value < (double)size ? value / (double)size : -1;
    return value < 1 ? value : -1;
}

static int fail_split(const char *text, uint64_t size)
{
    cli_error("data.val_split: '%.40s' is no share below 1.0 and no number of samples below the "
              "%" PRIu64 " of the training data",
              text, size);
    return CLI_USAGE;
}

/* Take the validation samples out of the training data, into a dataset of their own. */
static int split(struct cli *cli, stk_context *context, const struct train_data *data,
                 struct train_sets *sets)
{
    stk_error err;

    double share = split_share(data->val_split, sets->train->size);
    if (share < 0)
        return fail_split(data->val_split, sets->train->size);
    if (share == 0)
        return CLI_GO_ON;
    const double shares[] = {1 - share, share};
    stk_status status = stk_dataset_open(context, sets->spec, &sets->val, &err);
    if (status == STK_OK)
        status = stk_dataset_random_split(&sets->train, shares, 2, 0, data->split_seed, &err);
    if (status == STK_OK)
        status = stk_dataset_random_split(&sets->val, shares, 2, 1, data->split_seed, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

/* ---- Loaders --------------------------------------------------------------------------------- */

static bool is_random(const stk_context *context, const char *name, size_t length)
{
    const stk_transform_ops *ops;

    for (size_t i = 0; (ops = stk_transform_kind(context, i)); i++)
        if (strlen(ops->name) == length && strncmp(ops->name, name, length) == 0)
            return ops->num_draws > 0;
    return false;
}

/* Length of a list up to its next comma outside of brackets. */
static size_t item_length(const char *text)
{
    int depth = 0;
    size_t i = 0;

    for (; text[i] && (text[i] != ',' || depth > 0); i++)
        depth += (text[i] == '(' || text[i] == '[') - (text[i] == ')' || text[i] == ']');
    return i;
}

/* The item of evaluation in the place of a random crop, of the same size; "" for any other. */
static void fixed_crop(const char *item, size_t length, char *out, size_t size)
{
    static const char resized[] = "random_resized_crop", crop[] = "random_crop";
    const bool resizes = strncmp(item, resized, sizeof resized - 1) == 0;
    const char *end = item + length, *side = memchr(item, '(', length);
    int sides = 0;

    *out = 0;
    if (!resizes && strncmp(item, crop, sizeof crop - 1) != 0)
        return;
    if (side)
        side += 1 + strspn(side + 1, " \t");
    if (side && strncmp(side, "size", 4) == 0)
        side += strcspn(side, "0123456789");
    while (side && side + sides < end && strchr("0123456789x", side[sides]))
        sides++;
    if (sides == 0 || sides > 20) {
        side = "224";
        sides = 3;
    }
    if (!resizes || memchr(side, 'x', (size_t)sides)) /* both sides are given */
        snprintf(out, size, "%s(%.*s)", resizes ? "resize" : "center_crop", sides, side);
    else
        snprintf(out, size, "resize(%lu), center_crop(%.*s)", strtoul(side, NULL, 10) * 8 / 7,
                 sides, side);
}

/* The transforms without those that draw; where `fixed`, with fixed crops in the place of random
 * ones. NULL where there is no memory. */
static char *without_random(const stk_context *context, const char *transforms, bool fixed)
{
    enum { GROWTH = 80 /* of an item at most, where it is replaced */ };
    const size_t room = strlen(transforms) * GROWTH + 1;
    char *out = calloc(1, room), crop[GROWTH];
    size_t used = 0;

    for (const char *p = transforms; out && *p;) {
        p += strspn(p, " \t\n");
        size_t length = item_length(p), name = strcspn(p, " \t\n(,");
        const bool random = length && is_random(context, p, name);
        const char *item = p;
        int bytes = (int)length;
        if (random) {
            fixed_crop(p, length, crop, sizeof crop);
            item = crop;
            bytes = fixed ? (int)strlen(crop) : 0;
        }
        if (bytes)
            used +=
                (size_t)snprintf(out + used, room - used, "%s%.*s", used ? ", " : "", bytes, item);
        p += length + (p[length] == ',');
    }
    return out;
}

/* Where the transforms of evaluation were made by leaving out a random crop, that is what is
 * amiss: say it, and the list to give. Whether it was said. */
static bool advise_eval(const stk_context *context, const struct train_sets *sets, const char *what)
{
    const char *of = sets->loader.transforms;

    if (!sets->eval_transforms || !of)
        return false;
    char *list = without_random(context, of, true);
    const bool differs = list && strcmp(list, sets->eval_transforms) != 0;
    if (differs)
        cli_error("%s: random transforms are left out there, and with them the crop that gave "
                  "pictures their size: give data.eval_transforms: \"%s\"",
                  what, list);
    free(list);
    return differs;
}

static int make_eval_options(const stk_context *context, const struct train_config *config,
                             struct train_sets *sets)
{
    const char *given = config->data.eval_transforms;

    sets->eval = config->loader;
    sets->eval.shuffle = STK_SHUFFLE_NONE;
    sets->eval.drop_last = false;
    sets->eval.batch_transforms = NULL;
    if (given)
        sets->eval.transforms = given;
    else if (config->loader.transforms) {
        sets->eval_transforms = without_random(context, config->loader.transforms, false);
        if (!sets->eval_transforms) {
            cli_error("no memory for the transforms");
            return CLI_FAILED;
        }
        sets->eval.transforms = sets->eval_transforms;
    }
    return CLI_GO_ON;
}

/* ---- What a model takes ---------------------------------------------------------------------- */

static bool is_float(stk_dtype dtype)
{
    return dtype == STK_FLOAT32 || dtype == STK_FLOAT64;
}

stk_status train_find_field(stk_dataset *dataset, const stk_loader_options *options,
                            const char *input, stk_field *out, stk_error *err)
{
    stk_loader_options quiet = *options;
    stk_loader *loader = NULL;
    uint32_t n;
    bool found = false;

    quiet.num_workers = 0;
    stk_status status = stk_loader_create(dataset, &quiet, &loader, err);
    if (status != STK_OK)
        return status;
    const stk_field *fields = stk_loader_fields(loader, &n);
    for (uint32_t i = 0; i < n && !found; i++) {
        found = input ? strcmp(fields[i].name, input) == 0 : is_float(fields[i].dtype);
        if (found)
            *out = fields[i];
    }
    stk_loader_destroy(&loader);
    return found ? STK_OK : STK_ENOENT;
}

/* Samples of validation and test have to be what the model is made for. */
static int check_field(struct cli *cli, const stk_context *context, stk_dataset *dataset,
                       bool evaluated, const char *what, const char *input, struct train_sets *sets)
{
    const stk_loader_options *options = evaluated ? &sets->eval : &sets->loader;
    stk_field *expected = &sets->field;
    stk_field field;
    stk_error err;

    if (!dataset)
        return CLI_GO_ON;
    stk_status status = train_find_field(dataset, options, input, &field, &err);
    if (status == STK_ENOENT && input) {
        cli_error("module.input: the batches have no field '%.60s'; 'stoker info' lists those of a "
                  "dataset",
                  input);
        return CLI_USAGE;
    }
    if (status == STK_ENOENT) {
        cli_error("the samples of %s have no field of floats for the model: end loader.transforms "
                  "with to_float or normalize(...)",
                  what);
        return CLI_USAGE;
    }
    if (status == STK_EINVAL && evaluated && advise_eval(context, sets, what))
        return CLI_USAGE;
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    if (!*expected->name)
        *expected = field;
    bool same = field.dtype == expected->dtype && field.rank == expected->rank;
    for (uint32_t i = 0; i < field.rank && same; i++)
        same = field.shape[i] == expected->shape[i];
    if (same)
        return CLI_GO_ON;
    if (evaluated && advise_eval(context, sets, what))
        return CLI_USAGE;
    cli_error("the samples of %s have another shape or type than those before: give "
              "data.eval_transforms, or data of the same shape",
              what);
    return CLI_USAGE;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int open_train(struct cli *cli, stk_context *context, const struct train_data *data,
                      struct train_sets *sets)
{
    bool other;
    stk_error err;

    if (!data->dataset && !data->otherwise) {
        cli_error("no data: set data.dataset, or --dataset SPEC ('digits:' needs no files)");
        return CLI_USAGE;
    }
    stk_status status =
        train_open_first(context, data, sets->spec, sizeof sets->spec, &other, &sets->train, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    if (other && !cli->quiet) {
        char line[512];
        snprintf(line, sizeof line,
                 "There is no %.200s: the data is %.200s instead (data.otherwise)", data->dataset,
                 sets->spec);
        cli_console_line(line);
    }
    return CLI_GO_ON;
}

/* The test data: as given, or the other split of the training data. */
static int open_test(struct cli *cli, stk_context *context, const struct train_data *data,
                     bool optional, struct train_sets *sets)
{
    stk_error err;

    if (data->test) {
        snprintf(sets->test_spec, sizeof sets->test_spec, "%s", cli_home(data->test));
        stk_status status = stk_dataset_open(context, sets->test_spec, &sets->test, &err);
        return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
    }
    bool made = test_spec(sets->spec, sets->test_spec, sizeof sets->test_spec);
    if (made && stk_dataset_open(context, sets->test_spec, &sets->test, &err) == STK_OK)
        return CLI_GO_ON;
    sets->test_spec[0] = 0;
    if (optional)
        return CLI_GO_ON;
    cli_error("no test data: %.200s has no split=test that could be opened; set data.test",
              sets->spec);
    return CLI_USAGE;
}

static int open_all(struct cli *cli, stk_context *context, const struct train_config *config,
                    unsigned needs, struct train_sets *sets)
{
    const struct train_data *data = &config->data;
    stk_status status = STK_OK;
    stk_error err;

    int code = open_train(cli, context, data, sets);
    if (code == CLI_GO_ON && data->val && strcmp(data->val_split, "0") != 0) {
        cli_error("data.val and data.val_split contradict each other: leave out one");
        code = CLI_USAGE;
    }
    if (code == CLI_GO_ON && data->val && needs & (TRAIN_FIT | TRAIN_VAL))
        status = stk_dataset_open(context, cli_home(data->val), &sets->val, &err);
    else if (code == CLI_GO_ON && !data->val)
        code = split(cli, context, data, sets);
    if (code == CLI_GO_ON && status != STK_OK)
        code = cli_fail(cli, status, &err);
    if (code == CLI_GO_ON && needs & TRAIN_VAL && !sets->val) {
        cli_error("no validation data: set data.val or data.val_split");
        code = CLI_USAGE;
    }
    if (code == CLI_GO_ON && data->predict && needs & TRAIN_PREDICT) {
        status = stk_dataset_open(context, cli_home(data->predict), &sets->predict, &err);
        if (status != STK_OK)
            code = cli_fail(cli, status, &err);
    } else if (code == CLI_GO_ON && needs & (TRAIN_TEST | TRAIN_PREDICT)) {
        code = open_test(cli, context, data, needs & TRAIN_FIT, sets);
    }
    return code;
}

int train_sets_open(struct cli *cli, stk_context *context, const struct train_config *config,
                    unsigned needs, struct train_sets *sets)
{
    const char *input = config->module.input && *config->module.input ? config->module.input : NULL;

    *sets = (struct train_sets){.loader = config->loader};
    int code = open_all(cli, context, config, needs, sets);
    if (code == CLI_GO_ON)
        code = make_eval_options(context, config, sets);
    const struct {
        stk_dataset *dataset;
        bool evaluated;
        const char *what;
    } checked[] = {{needs & TRAIN_FIT ? sets->train : NULL, false, "the training data"},
                   {sets->val, true, "the validation data"},
                   {sets->test, true, "the test data"},
                   {sets->predict, true, "the data to predict"}};
    for (size_t i = 0; i < sizeof checked / sizeof *checked && code == CLI_GO_ON; i++)
        code = check_field(cli, context, checked[i].dataset, checked[i].evaluated, checked[i].what,
                           input, sets);
    return code;
}

void train_sets_close(struct train_sets *sets)
{
    stk_dataset_close(&sets->train);
    stk_dataset_close(&sets->val);
    stk_dataset_close(&sets->test);
    stk_dataset_close(&sets->predict);
    free(sets->eval_transforms);
    *sets = (struct train_sets){0};
}
