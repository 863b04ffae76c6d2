/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML 1.1 through the event parser of libyaml: nested maps of scalars and of lists of scalars. Not
 * read, and refused by name: aliases, tags, lists in lists, keys that are no scalars, several
 * documents, and maps in lists but for {class_path: NAME, init_args: {OPTION: VALUE}}, which is
 * "name(option=value)". As a map of a section that is its `name`, and its options.
 */
#include "base/config.h"

#include <stdio.h>

#include "base/options.h"
#include "base/yaml_reader.h"

#define TWICE "the key is there twice, first in line %zu; keep one"

/* A class in the words of names here. */
static stk_status take_class(stk__yaml *r, stk__config_value *out)
{
    char name[128];

    STK_TRY(stk__yaml_scalar(r, out));
    const char *refused = stk__class_refused(out->text);
    if (refused)
        return stk__yaml_fail(r, STK_EINVAL, refused, *out->text ? out->text : r->path);
    stk__class_name(out->text, name, sizeof name);
    out->text = stk__config_copy(r->config, name, strlen(name));
    return out->text ? STK_OK : stk__yaml_no_memory(r);
}

#define SEED "trainer.seed_everything"

/* Lightning's place of callbacks, of loggers that are more than names, and of what a schedule looks
 * at. */
static const char *list_key(const stk__yaml *r, bool items)
{
    const char *key = stk__class_item_key(r->path);

    if (strcmp(r->path, "lr_scheduler.monitor") == 0)
        return "module.monitor";
    return key && (items || strcmp(key, "callbacks") == 0) ? key : r->path;
}

/* Refuse a key that this text has set before; another file's is replaced. */
static stk_status check_new(stk__yaml *r, const char *key)
{
    const stk__entry *entry = stk__config_find(r->config, key);
    size_t line = entry && entry->load == r->load ? entry->place.line : 0;
    char what[96];

    for (size_t i = 0; i < r->num_sections && !line; i++)
        if (strcmp(r->sections[i].path, key) == 0)
            line = r->sections[i].line;
    if (!line)
        return STK_OK;
    snprintf(what, sizeof what, TWICE, line);
    return stk__yaml_fail_at(r, STK_EFORMAT, r->key_place.line, r->key_place.column, what, key);
}

/* Set the key in `path`, or that of the same list here. */
static stk_status put(stk__yaml *r, const char *key, const stk__config_value *values, size_t count)
{
    if (strcmp(key, r->path) != 0)
        STK_TRY(check_new(r, key));
    /* Classes have its place until it is set again. */
    if (strcmp(key, STK__CONFIG_LOGGERS) == 0 && strcmp(r->path, STK__CONFIG_LOGGER) == 0)
        STK_TRY(stk__config_put(r->config, r->path, &r->key_place, NULL, 0, r->load, r->err));
    return stk__config_put_list(r->config, key, &r->key_place, values, count, r->load, r->err);
}

/* The scalar looked at; `*item`: it is a class by its full name. */
static stk_status take_value(stk__yaml *r, stk__config_value *out, bool *item)
{
    *item = stk__class_has_items(r->path) &&
            stk__class_has_package((const char *)r->event.data.scalar.value);
    return *item || r->of_class ? take_class(r, out) : stk__yaml_scalar(r, out);
}

/* Lightning's seed may be yes, which draws one, and no, which is none; 1 and 0 are seeds. */
static stk_status take_seed(stk__yaml *r, const stk__config_value *value, size_t *count)
{
    static const stk_option truth = {.name = SEED, .type = STK_OPTION_BOOL};
    const char *text = value->text;
    bool draws = false;

    if (!text[strspn(text, "0123456789")] || stk__option_parse(&truth, &draws, text) != STK__PARSED)
        return STK_OK;
    *count = 0;
    return draws ? stk__yaml_fail(r, STK_EINVAL,
                                  "a seed is a number here; Lightning's true draws one", SEED)
                 : STK_OK;
}

/* PyTorch's LinearLR and PolynomialLR last 5 steps where no number is given; here they last as long
 * as the training. */
static stk_status put_length(stk__yaml *r, const char *name)
{
    static const char key[] = "lr_scheduler.total_iters";
    const stk__config_value five = {.text = "5", .place = r->key_place};
    const stk__entry *entry = stk__config_find(r->config, key);

    if ((strcmp(name, "linear") != 0 && strcmp(name, "polynomial") != 0) ||
        strcmp(r->path, "lr_scheduler.name") != 0 || (entry && entry->load == r->load))
        return STK_OK;
    return stk__config_put(r->config, key, &r->key_place, &five, 1, 0, r->err);
}

static stk_status fail_foreign(stk__yaml *r, const char *refused, const char *key,
                               const char *value)
{
    char what[256], shown[STK_OPTION_SHOWN];

    stk__option_show(shown, value);
    snprintf(what, sizeof what, "'%s' is not supported: %s", shown, refused);
    return stk__yaml_fail(r, STK_EINVAL, what, key);
}

/* The value of the key in `path`: a scalar was met. */
static stk_status read_value(stk__yaml *r)
{
    stk__config_value value;
    const char *refused;
    size_t count = 1;
    bool item;

    if (stk__yaml_is_null(&r->event))
        return put(r, list_key(r, false), NULL, 0);
    STK_TRY(take_value(r, &value, &item));
    if (r->of_class)
        STK_TRY(put_length(r, value.text));
    if (stk__foreign_key(r->path, value.text, &refused))
        return refused ? fail_foreign(r, refused, r->path, value.text) : put(r, r->path, NULL, 0);
    if (strcmp(r->path, SEED) == 0)
        STK_TRY(take_seed(r, &value, &count));
    return put(r, list_key(r, item), &value, count);
}

/* ---- Classes --------------------------------------------------------------------------------- */

#define CLASS_PATH "class_path"
#define INIT_ARGS  "init_args"

static bool is_key(const yaml_event_t *event, const char *key)
{
    return event->type == YAML_SCALAR_EVENT &&
           strcmp((const char *)event->data.scalar.value, key) == 0;
}

/* A map of plain values: "0:8, 4:4", "hours:1, minutes:30". */
static stk_status read_pairs(stk__yaml *r, stk__text *out, const char *key)
{
    const char *what = strcmp(key, "scheduling") == 0 ? "an epoch has a number of batches"
                                                      : "a unit of time has a number";
    stk__config_value name, value;

    for (size_t count = 0;; count++) {
        STK_TRY(stk__yaml_next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return STK_OK;
        if (r->event.type != YAML_SCALAR_EVENT)
            return stk__yaml_fail(r, STK_EFORMAT, "a key is a plain word, no list and no map", key);
        STK_TRY(stk__yaml_scalar(r, &name));
        STK_TRY(stk__yaml_next(r));
        if (r->event.type != YAML_SCALAR_EVENT)
            return stk__yaml_fail(r, STK_EFORMAT, what, key);
        STK_TRY(stk__yaml_scalar(r, &value));
        if (strpbrk(name.text, "\",:") || strpbrk(value.text, "\",:"))
            return stk__yaml_fail(r, STK_EFORMAT, what, key);
        stk__text_add(out, "%s%s:%s", count ? ", " : "", name.text, value.text);
    }
}

/* Arguments that are maps: epochs of GradientAccumulationScheduler, and times. */
static bool has_pairs(const char *key)
{
    return strcmp(key, "scheduling") == 0 || strcmp(key, "duration") == 0 ||
           strcmp(key, "train_time_interval") == 0;
}

enum { MAX_OPTIONS = 64 }; /* of a class */

/* "option=value, ...", and the options in it. */
typedef struct arguments {
    stk__text text;
    stk__config_value options[MAX_OPTIONS];
    size_t count;
    bool read; /* there was a map of them, perhaps an empty one */
} arguments;

/* The key looked at as the name of an option. */
static stk_status take_option(stk__yaml *r, arguments *a, const char **out)
{
    stk__config_value *key = &a->options[a->count];
    char what[96];

    if (r->event.type != YAML_SCALAR_EVENT)
        return stk__yaml_fail(r, STK_EFORMAT, "a key is a plain word, no list and no map", r->path);
    if (a->count == MAX_OPTIONS)
        return stk__yaml_fail(r, STK_ELIMIT, "more than 64 options of a class", r->path);
    STK_TRY(stk__yaml_scalar(r, key));
    if (!*key->text || key->text[strspn(key->text, "abcdefghijklmnopqrstuvwxyz"
                                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")])
        return stk__yaml_fail(r, STK_EFORMAT, "an option's name is of letters, digits and '_'",
                              key->text);
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->options[i].text, key->text) == 0) {
            snprintf(what, sizeof what, TWICE, a->options[i].place.line);
            return stk__yaml_fail(r, STK_EFORMAT, what, key->text);
        }
    a->count++;
    *out = key->text;
    return STK_OK;
}

/* "option=value" of the pair looked at; values that are not plain stand in quotes. `item` is the
 * name of what takes it; NULL: not known yet. */
static stk_status read_argument(stk__yaml *r, arguments *a, const char *item)
{
    stk__config_value value;
    char path[STK_CONFIG_MAX_KEY];
    const char *key = NULL, *refused;

    STK_TRY(take_option(r, a, &key));
    STK_TRY(stk__yaml_next(r));
    if (r->event.type == YAML_MAPPING_START_EVENT && has_pairs(key)) {
        stk__text_add(&a->text, "%s%s=\"", a->text.length ? ", " : "", key);
        STK_TRY(read_pairs(r, &a->text, key));
        stk__text_add(&a->text, "\"");
        return STK_OK;
    }
    if (r->event.type != YAML_SCALAR_EVENT)
        return stk__yaml_fail(r, STK_EFORMAT,
                              "an option of a class is a plain value, no list, no map", key);
    if (stk__yaml_is_null(&r->event))
        return STK_OK;
    STK_TRY(stk__yaml_scalar(r, &value));
    snprintf(path, sizeof path, "%s.%s", item ? item : "", key);
    if (stk__foreign_key(path, value.text, &refused))
        return refused ? fail_foreign(r, refused, path, value.text) : STK_OK;
    const char *quote = !strpbrk(value.text, "'\",()[]{}= ") && *value.text ? ""
                        : strchr(value.text, '"')                           ? "'"
                                                                            : "\"";
    if (*quote && strchr(value.text, *quote))
        return stk__yaml_fail(r, STK_EFORMAT, "a value has both kinds of quotes in it", value.text);
    stk__text_add(&a->text, "%s%s=%s%s%s", a->text.length ? ", " : "", key, quote, value.text,
                  quote);
    return STK_OK;
}

static stk_status read_arguments(stk__yaml *r, arguments *a, const char *item)
{
    a->read = true;
    STK_TRY(stk__yaml_next(r));
    if (r->event.type == YAML_SCALAR_EVENT && stk__yaml_is_null(&r->event))
        return STK_OK;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return stk__yaml_fail(r, STK_EFORMAT, INIT_ARGS " is a map of options", r->path);
    for (;;) {
        STK_TRY(stk__yaml_next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return STK_OK;
        STK_TRY(read_argument(r, a, item));
    }
}

static stk_status read_class(stk__yaml *r, arguments *a, stk__config_value *out)
{
    *out = (stk__config_value){.place = stk__yaml_place(r)};
    for (;;) {
        STK_TRY(stk__yaml_next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (is_key(&r->event, CLASS_PATH) && !out->text) {
            STK_TRY(stk__yaml_next(r));
            if (r->event.type != YAML_SCALAR_EVENT)
                return stk__yaml_fail(r, STK_EFORMAT, CLASS_PATH " is a name", r->path);
            STK_TRY(take_class(r, out));
        } else if (is_key(&r->event, INIT_ARGS) && !a->read) {
            STK_TRY(read_arguments(r, a, out->text));
        } else {
            return stk__yaml_fail(
                r, STK_EFORMAT, "a map in a list is {class_path: NAME, init_args: {OPTION: VALUE}}",
                r->path);
        }
    }
    if (!out->text)
        return stk__yaml_fail(r, STK_EFORMAT, "a map in a list has no class_path", r->path);
    return STK_OK;
}

/* A map in a list was met: "name(option=value)". */
static stk_status read_item(stk__yaml *r, stk__config_value *out)
{
    arguments a = {.text = {.ctx = r->config->context}};

    stk_status status = read_class(r, &a, out);
    if (status == STK_OK && a.text.length) {
        stk__text item = {.ctx = r->config->context};
        stk__text_add(&item, "%s(%s)", out->text, a.text.bytes);
        out->text = item.failed ? NULL : stk__config_copy(r->config, item.bytes, item.length);
        status = out->text && !a.text.failed ? STK_OK : stk__yaml_no_memory(r);
        stk__text_release(&item);
    }
    stk__text_release(&a.text);
    return status;
}

static stk_status read_one_item(stk__yaml *r)
{
    stk__config_value value;

    STK_TRY(read_item(r, &value));
    return put(r, stk__class_item_key(r->path), &value, 1);
}

/* A list of no loggers asks for none, as Lightning's does. */
static stk_status put_no_logger(stk__yaml *r)
{
    const bool list = strcmp(r->path, STK__CONFIG_LOGGERS) == 0;
    const stk__config_value none = {.text = list ? "" : "false", .place = r->key_place};

    return put(r, r->path, &none, 1);
}

static bool is_logger(const char *path)
{
    return strcmp(path, STK__CONFIG_LOGGERS) == 0 || strcmp(path, STK__CONFIG_LOGGER) == 0;
}

/* The value of the key in `path`: a list began. */
static stk_status read_list(stk__yaml *r)
{
    size_t count = 0;
    bool items = false;

    for (;; count++) {
        STK_TRY(stk__yaml_next(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        if (r->event.type == YAML_ALIAS_EVENT)
            return stk__yaml_fail(r, STK_EFORMAT,
                                  "an alias ('*...') is not supported; write the value again",
                                  r->path);
        const bool item = r->event.type == YAML_MAPPING_START_EVENT;
        items |= item;
        if (!item && r->event.type != YAML_SCALAR_EVENT)
            return stk__yaml_fail(r, STK_EFORMAT,
                                  "a list holds plain values only, no lists and no maps", r->path);
        if (!item && stk__yaml_is_null(&r->event))
            return stk__yaml_fail(r, STK_EFORMAT, "a value of the list is empty", r->path);
        if (count == STK_CONFIG_MAX_VALUES)
            return stk__yaml_fail(r, STK_ELIMIT, "more than 65536 values", r->path);
        stk__config_value *values =
            stk__grow(r->config->context, r->values, &r->capacity, count + 1, sizeof *values);
        if (!values)
            return stk__yaml_no_memory(r);
        r->values = values;
        bool class = false;
        STK_TRY(item ? read_item(r, &r->values[count]) : take_value(r, &r->values[count], &class));
        items |= class;
    }
    if (count == 0 && is_logger(r->path))
        return put_no_logger(r);
    if (count == 0 && strcmp(list_key(r, false), "callbacks") != 0)
        return stk__yaml_fail(r, STK_EFORMAT, "the list is empty; give at least one value",
                              r->path);
    return put(r, list_key(r, items), r->values, count);
}

/* The map of the key in `path` began. */
static stk_status begin_map(stk__yaml *r)
{
    if (r->depth == STK_CONFIG_MAX_DEPTH - 1)
        return stk__yaml_fail(r, STK_ELIMIT, "maps nest deeper than 16", r->path);
    if (r->num_sections == STK_CONFIG_MAX_KEYS)
        return stk__yaml_fail(r, STK_ELIMIT, "more than 4096 maps", r->path);
    const char *path = stk__config_copy(r->config, r->path, strlen(r->path));
    stk__yaml_section *sections = stk__grow(r->config->context, r->sections, &r->sections_capacity,
                                            r->num_sections + 1, sizeof *sections);
    if (sections)
        r->sections = sections;
    if (!path || !sections)
        return stk__yaml_no_memory(r);
    r->sections[r->num_sections++] = (stk__yaml_section){path, r->key_place.line};
    r->lengths[++r->depth] = strlen(path);
    return STK_OK;
}

/* A time as a map of its units. */
static stk_status read_time(stk__yaml *r)
{
    stk__text text = {.ctx = r->config->context};
    stk__config_value value = {.place = stk__yaml_place(r)};

    stk_status status = read_pairs(r, &text, r->path);
    if (status == STK_OK) {
        value.text = text.failed ? NULL : stk__config_copy(r->config, text.bytes, text.length);
        status = value.text ? put(r, r->path, &value, 1) : stk__yaml_no_memory(r);
    }
    stk__text_release(&text);
    return status;
}

/* The value of the key in `path`: a map began. */
static stk_status read_map(stk__yaml *r)
{
    if (stk__class_item_key(r->path))
        return read_one_item(r);
    if (strcmp(r->path, "trainer.max_time") == 0 ||
        strcmp(r->path, "trainer.val_check_interval") == 0)
        return read_time(r);
    return begin_map(r);
}

/* Lightning's form of a section. `*inner`: the key names a map whose keys are those of the section
 * itself. */
static stk_status translate(stk__yaml *r, bool *inner)
{
    const size_t prefix = r->lengths[r->depth];

    /* LightningCLI has it beside the trainer. */
    if (strcmp(r->path, "seed_everything") == 0)
        snprintf(r->path, sizeof r->path, SEED);
    *inner = prefix && is_key(&r->event, INIT_ARGS);
    r->of_class = prefix && is_key(&r->event, CLASS_PATH);
    if (!r->of_class && !*inner)
        return STK_OK;
    r->path[prefix] = 0;
    if (strcmp(r->path, "optimizer") != 0 && strcmp(r->path, "lr_scheduler") != 0)
        return stk__yaml_fail(r, STK_EINVAL, stk__class_misplaced(r->path), r->path);
    if (r->of_class)
        snprintf(r->path + prefix, sizeof r->path - prefix, ".name");
    return STK_OK;
}

/* The key looked at joins the path of the map that it is in. */
static stk_status read_key(stk__yaml *r)
{
    if (r->event.type == YAML_ALIAS_EVENT)
        return stk__yaml_fail(r, STK_EFORMAT, "an alias ('*...') is not supported; write the key",
                              NULL);
    if (r->event.type != YAML_SCALAR_EVENT)
        return stk__yaml_fail(r, STK_EFORMAT, "a key is a plain word, no list and no map", NULL);
    if (r->event.data.scalar.tag)
        return stk__yaml_fail(r, STK_EFORMAT,
                              "a tag ('!...') is not supported here; write the plain key", NULL);
    const char *what =
        stk__config_join(r->path, r->lengths[r->depth], (const char *)r->event.data.scalar.value,
                         r->event.data.scalar.length);
    if (what)
        return stk__yaml_fail(r, STK_EFORMAT, what, (const char *)r->event.data.scalar.value);
    bool inner;
    r->key_place = stk__yaml_place(r);
    STK_TRY(translate(r, &inner));
    return inner ? STK_OK : check_new(r, r->path);
}

/* From the first event of the root map to its end. No recursion: depth is a number that is checked.
 */
static stk_status read_maps(stk__yaml *r)
{
    for (;;) {
        STK_TRY(stk__yaml_next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) {
            if (r->depth == 0)
                return STK_OK;
            r->depth--;
            continue;
        }
        STK_TRY(read_key(r));
        STK_TRY(stk__yaml_next(r));
        switch (r->event.type) {
        case YAML_SCALAR_EVENT:
            STK_TRY(read_value(r));
            break;
        case YAML_SEQUENCE_START_EVENT:
            STK_TRY(read_list(r));
            break;
        case YAML_MAPPING_START_EVENT:
            STK_TRY(read_map(r));
            break;
        default:
            return stk__yaml_fail(r, STK_EFORMAT,
                                  "an alias ('*...') is not supported; write the value again",
                                  r->path);
        }
    }
}

static stk_status read_stream(stk__yaml *r)
{
    STK_TRY(stk__yaml_next(r)); /* start of the stream */
    STK_TRY(stk__yaml_next(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return STK_OK;
    STK_TRY(stk__yaml_next(r));
    bool empty = r->event.type == YAML_SCALAR_EVENT && stk__yaml_is_null(&r->event);
    if (!empty && r->event.type != YAML_MAPPING_START_EVENT)
        return stk__yaml_fail(r, STK_EFORMAT,
                              "a configuration begins with a map: lines of 'key: value'", NULL);
    if (!empty)
        STK_TRY(read_maps(r));
    STK_TRY(stk__yaml_next(r)); /* end of the document */
    STK_TRY(stk__yaml_next(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return stk__yaml_fail(r, STK_EFORMAT, "a second document; a configuration is one", NULL);
    return STK_OK;
}

stk_status stk_config_load_text(stk_config *config, const char *name, const char *text,
                                size_t length, stk_error *err)
{
    stk__yaml r = {.config = config, .err = err, .load = ++config->loads};

    if (length > STK_CONFIG_MAX_FILE)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_OPTIONS, name, STK_NO_OFFSET,
                            "%.200s: larger than 4 MiB, which no configuration is", name);
    r.name = stk__config_copy(config, name, strlen(name));
    if (!r.name || !yaml_parser_initialize(&r.parser))
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_OPTIONS, name, STK_NO_OFFSET,
                            "no memory for the configuration %.200s", name);
    bool mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    r.text = text + (mark ? 3 : 0);
    r.length = length - (mark ? 3 : 0);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)r.text, r.length);
    stk_status status = read_stream(&r);
    if (status == STK_OK)
        status = stk__config_check_version(config, err);
    if (r.has_event)
        yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    stk__free(config->context, r.values);
    stk__free(config->context, r.sections);
    return status;
}
