/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML 1.1 through the event parser of libyaml: nested maps of scalars and of lists of scalars. Not
 * read, and refused by name: aliases, tags, lists in lists, keys that are no scalars, several
 * documents, and maps in lists but for {class_path: NAME, init_args: {OPTION: VALUE}}, which is
 * "name(option=value)". As a map of a section that is its `name`, and its options.
 */
#include "base/config.h"

#include <stdio.h>
#include <yaml.h>

#include "base/options.h"

/* A map that was met, so that the same one is not begun twice. */
typedef struct section {
    const char *path;
    size_t line;
} section;

#define TWICE "the key is there twice, first in line %zu; keep one"

/* One reading of one text. */
typedef struct reader {
    stk_config *config;
    yaml_parser_t parser;
    yaml_event_t event; /* the one looked at */
    bool has_event;
    const char *name; /* of the file, kept by the configuration */
    const char *text; /* without a byte order mark */
    size_t length;
    uint64_t load;
    size_t lengths[STK_CONFIG_MAX_DEPTH + 1]; /* of the path at each depth of maps */
    size_t depth;
    char path[STK_CONFIG_MAX_KEY];
    stk__config_place key_place; /* of the last part of the path */
    bool of_class;               /* the value is a class's name */
    stk__config_value *values;   /* of the list being read */
    size_t capacity;
    section *sections; /* STK_CONFIG_MAX_KEYS at most */
    size_t num_sections, sections_capacity;
    stk_error *err;
} reader;

static stk_status fail_in(reader *r, stk_status status, size_t line, size_t column,
                          const char *what, const char *about)
{
    const stk__config_place place = {r->name, line, column};
    char where[224], shown[STK_OPTION_SHOWN] = "";

    stk__place_format(&place, where, sizeof where);
    if (about)
        stk__option_show(shown, about);
    return stk__fail_at(r->err, status, STK_STAGE_OPTIONS, r->name, STK_NO_OFFSET, "%s%s%s%s",
                        where, shown, about ? ": " : "", what);
}

/* The same at the start of the event looked at. */
static stk_status fail_here(reader *r, stk_status status, const char *what, const char *about)
{
    const yaml_mark_t *mark = &r->event.start_mark;

    return fail_in(r, status, mark->line + 1, mark->column + 1, what, about);
}

static stk_status fail_memory(reader *r)
{
    return stk__fail_at(r->err, STK_ENOMEM, STK_STAGE_OPTIONS, r->name, STK_NO_OFFSET,
                        "no memory for the configuration %s", r->name);
}

/* Whether a line (from 0) begins with a tab, perhaps behind spaces. */
static bool tab_indents(const reader *r, size_t number)
{
    const char *p = r->text, *end = r->text + r->length;

    for (size_t i = 0; i < number && p; i++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : NULL;
    }
    while (p && p < end && *p == ' ')
        p++;
    return p && p < end && *p == '\t';
}

/* What the parser itself refuses. */
static stk_status fail_syntax(reader *r)
{
    const yaml_parser_t *parser = &r->parser;
    yaml_mark_t mark = parser->problem_mark;
    char what[200];

    if (parser->error == YAML_MEMORY_ERROR)
        return fail_memory(r);
    if (parser->error == YAML_READER_ERROR) {
        /* It knows the byte only. */
        size_t end = STK_MIN((size_t)parser->problem_offset, r->length), line = 1, column = 1;
        for (size_t i = 0; i < end; i++) {
            bool start = ((unsigned char)r->text[i] & 0xc0) != 0x80;
            column = r->text[i] == '\n' ? 1 : column + start;
            line += r->text[i] == '\n';
        }
        return fail_in(r, STK_EFORMAT, line, column,
                       "not UTF-8 text: a byte or a control character that YAML does not allow",
                       NULL);
    }
    /* "dataset: digits:" has two keys in a line to YAML. */
    bool colon = parser->problem && strstr(parser->problem, "mapping values are not allowed");
    snprintf(what, sizeof what, "%s%s%s%s%s", parser->problem ? parser->problem : "not YAML",
             parser->context ? " " : "", parser->context ? parser->context : "",
             tab_indents(r, mark.line) ? "; tabs cannot indent YAML, use spaces" : "",
             colon ? "; quote a value with a ':' at its end or before a blank, as \"digits:\""
                   : "");
    return fail_in(r, STK_EFORMAT, mark.line + 1, mark.column + 1, what, NULL);
}

/* A list or a map; a scalar's is looked at where it is taken. */
static bool has_tag(const yaml_event_t *event)
{
    return (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.tag) ||
           (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.tag);
}

static stk_status next(reader *r)
{
    if (r->has_event)
        yaml_event_delete(&r->event);
    r->has_event = yaml_parser_parse(&r->parser, &r->event);
    if (!r->has_event)
        return fail_syntax(r);
    if (has_tag(&r->event))
        return fail_here(r, STK_EFORMAT,
                         "a tag ('!...') is not supported here; write the plain list or map",
                         *r->path ? r->path : NULL);
    return STK_OK;
}

static stk__config_place place_here(const reader *r)
{
    return (stk__config_place){r->name, r->event.start_mark.line + 1,
                               r->event.start_mark.column + 1};
}

/* A plain "null", "~" or nothing at all; a tagged one is refused as a value. */
static bool is_null(const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;

    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !event->data.scalar.tag &&
           (length == 0 || (length == 1 && *text == '~') ||
            stk__option_same(text, length, "null", 4));
}

/* The scalar looked at as a value. */
static stk_status take_scalar(reader *r, stk__config_value *out)
{
    const char *text = (const char *)r->event.data.scalar.value;
    size_t length = r->event.data.scalar.length;

    if (r->event.data.scalar.tag)
        return fail_here(r, STK_EFORMAT,
                         "a tag ('!...') is not supported here; write the plain value", r->path);
    if (memchr(text, 0, length))
        return fail_here(r, STK_EFORMAT, "a value has a zero byte in it", r->path);
    out->place = place_here(r);
    out->text = stk__config_copy(r->config, text, length);
    return out->text ? STK_OK : fail_memory(r);
}

/* A class in the words of names here. */
static stk_status take_class(reader *r, stk__config_value *out)
{
    char name[128];

    STK_TRY(take_scalar(r, out));
    const char *refused = stk__class_refused(out->text);
    if (refused)
        return fail_here(r, STK_EINVAL, refused, *out->text ? out->text : r->path);
    stk__class_name(out->text, name, sizeof name);
    out->text = stk__config_copy(r->config, name, strlen(name));
    return out->text ? STK_OK : fail_memory(r);
}

#define SEED "trainer.seed_everything"

/* Lightning's place of callbacks, and of loggers that are more than names. */
static const char *list_key(const reader *r, bool items)
{
    const char *key = stk__class_item_key(r->path);

    return key && (items || strcmp(key, "callbacks") == 0) ? key : r->path;
}

/* Refuse a key that this text has set before; another file's is replaced. */
static stk_status check_new(reader *r, const char *key)
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
    return fail_in(r, STK_EFORMAT, r->key_place.line, r->key_place.column, what, key);
}

/* Set the key in `path`, or that of the same list here. */
static stk_status put(reader *r, const char *key, const stk__config_value *values, size_t count)
{
    if (strcmp(key, r->path) != 0)
        STK_TRY(check_new(r, key));
    /* Classes have its place until it is set again. */
    if (strcmp(key, STK__CONFIG_LOGGERS) == 0 && strcmp(r->path, STK__CONFIG_LOGGER) == 0)
        STK_TRY(stk__config_put(r->config, r->path, &r->key_place, NULL, 0, r->load, r->err));
    return stk__config_put_list(r->config, key, &r->key_place, values, count, r->load, r->err);
}

/* The scalar looked at; `*item`: it is a class by its full name. */
static stk_status take_value(reader *r, stk__config_value *out, bool *item)
{
    *item = stk__class_has_items(r->path) &&
            stk__class_has_package((const char *)r->event.data.scalar.value);
    return *item || r->of_class ? take_class(r, out) : take_scalar(r, out);
}

/* Lightning's seed may be yes, which draws one, and no, which is none; 1 and 0 are seeds. */
static stk_status take_seed(reader *r, const stk__config_value *value, size_t *count)
{
    static const stk_option truth = {.name = SEED, .type = STK_OPTION_BOOL};
    const char *text = value->text;
    bool draws = false;

    if (!text[strspn(text, "0123456789")] || stk__option_parse(&truth, &draws, text) != STK__PARSED)
        return STK_OK;
    *count = 0;
    return draws ? fail_here(r, STK_EINVAL, "a seed is a number here; Lightning's true draws one",
                             SEED)
                 : STK_OK;
}

/* The value of the key in `path`: a scalar was met. */
static stk_status read_value(reader *r)
{
    stk__config_value value;
    size_t count = 1;
    bool item;

    if (is_null(&r->event))
        return put(r, list_key(r, false), NULL, 0);
    STK_TRY(take_value(r, &value, &item));
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

/* The map of epochs of GradientAccumulationScheduler: "0:8, 4:4". */
static stk_status read_epochs(reader *r, stk__text *arguments, const char *key)
{
    stk__config_value epoch, batches;
    size_t count = 0;

    stk__text_add(arguments, "%s%s=\"", arguments->length ? ", " : "", key);
    for (;; count++) {
        STK_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (r->event.type != YAML_SCALAR_EVENT)
            return fail_here(r, STK_EFORMAT, "a key is a plain word, no list and no map", key);
        STK_TRY(take_scalar(r, &epoch));
        STK_TRY(next(r));
        if (r->event.type != YAML_SCALAR_EVENT)
            return fail_here(r, STK_EFORMAT, "an epoch has a number of batches", key);
        STK_TRY(take_scalar(r, &batches));
        if (strpbrk(epoch.text, "\",:") || strpbrk(batches.text, "\",:"))
            return fail_here(r, STK_EFORMAT, "an epoch has a number of batches", key);
        stk__text_add(arguments, "%s%s:%s", count ? ", " : "", epoch.text, batches.text);
    }
    stk__text_add(arguments, "\"");
    return STK_OK;
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
static stk_status take_option(reader *r, arguments *a, const char **out)
{
    stk__config_value *key = &a->options[a->count];
    char what[96];

    if (r->event.type != YAML_SCALAR_EVENT)
        return fail_here(r, STK_EFORMAT, "a key is a plain word, no list and no map", r->path);
    if (a->count == MAX_OPTIONS)
        return fail_here(r, STK_ELIMIT, "more than 64 options of a class", r->path);
    STK_TRY(take_scalar(r, key));
    if (!*key->text || key->text[strspn(key->text, "abcdefghijklmnopqrstuvwxyz"
                                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")])
        return fail_here(r, STK_EFORMAT, "an option's name is of letters, digits and '_'",
                         key->text);
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->options[i].text, key->text) == 0) {
            snprintf(what, sizeof what, TWICE, a->options[i].place.line);
            return fail_here(r, STK_EFORMAT, what, key->text);
        }
    a->count++;
    *out = key->text;
    return STK_OK;
}

/* "option=value" of the pair looked at; values that are not plain stand in quotes. */
static stk_status read_argument(reader *r, arguments *a)
{
    stk__config_value value;
    const char *key = NULL;

    STK_TRY(take_option(r, a, &key));
    STK_TRY(next(r));
    if (r->event.type == YAML_MAPPING_START_EVENT && strcmp(key, "scheduling") == 0)
        return read_epochs(r, &a->text, key);
    if (r->event.type != YAML_SCALAR_EVENT)
        return fail_here(r, STK_EFORMAT, "an option of a class is a plain value, no list, no map",
                         key);
    if (is_null(&r->event))
        return STK_OK;
    STK_TRY(take_scalar(r, &value));
    const char *quote = !strpbrk(value.text, "'\",()[]{}= ") && *value.text ? ""
                        : strchr(value.text, '"')                           ? "'"
                                                                            : "\"";
    if (*quote && strchr(value.text, *quote))
        return fail_here(r, STK_EFORMAT, "a value has both kinds of quotes in it", value.text);
    stk__text_add(&a->text, "%s%s=%s%s%s", a->text.length ? ", " : "", key, quote, value.text,
                  quote);
    return STK_OK;
}

static stk_status read_arguments(reader *r, arguments *a)
{
    a->read = true;
    STK_TRY(next(r));
    if (r->event.type == YAML_SCALAR_EVENT && is_null(&r->event))
        return STK_OK;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return fail_here(r, STK_EFORMAT, INIT_ARGS " is a map of options", r->path);
    for (;;) {
        STK_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return STK_OK;
        STK_TRY(read_argument(r, a));
    }
}

static stk_status read_class(reader *r, arguments *a, stk__config_value *out)
{
    *out = (stk__config_value){.place = place_here(r)};
    for (;;) {
        STK_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (is_key(&r->event, CLASS_PATH) && !out->text) {
            STK_TRY(next(r));
            if (r->event.type != YAML_SCALAR_EVENT)
                return fail_here(r, STK_EFORMAT, CLASS_PATH " is a name", r->path);
            STK_TRY(take_class(r, out));
        } else if (is_key(&r->event, INIT_ARGS) && !a->read) {
            STK_TRY(read_arguments(r, a));
        } else {
            return fail_here(r, STK_EFORMAT,
                             "a map in a list is {class_path: NAME, init_args: {OPTION: VALUE}}",
                             r->path);
        }
    }
    if (!out->text)
        return fail_here(r, STK_EFORMAT, "a map in a list has no class_path", r->path);
    return STK_OK;
}

/* A map in a list was met: "name(option=value)". */
static stk_status read_item(reader *r, stk__config_value *out)
{
    arguments a = {.text = {.ctx = r->config->context}};

    stk_status status = read_class(r, &a, out);
    if (status == STK_OK && a.text.length) {
        stk__text item = {.ctx = r->config->context};
        stk__text_add(&item, "%s(%s)", out->text, a.text.bytes);
        out->text = item.failed ? NULL : stk__config_copy(r->config, item.bytes, item.length);
        status = out->text && !a.text.failed ? STK_OK : fail_memory(r);
        stk__text_release(&item);
    }
    stk__text_release(&a.text);
    return status;
}

static stk_status read_one_item(reader *r)
{
    stk__config_value value;

    STK_TRY(read_item(r, &value));
    return put(r, stk__class_item_key(r->path), &value, 1);
}

/* The value of the key in `path`: a list began. */
static stk_status read_list(reader *r)
{
    size_t count = 0;
    bool items = false;

    for (;; count++) {
        STK_TRY(next(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        if (r->event.type == YAML_ALIAS_EVENT)
            return fail_here(r, STK_EFORMAT,
                             "an alias ('*...') is not supported; write the value again", r->path);
        const bool item = r->event.type == YAML_MAPPING_START_EVENT;
        items |= item;
        if (!item && r->event.type != YAML_SCALAR_EVENT)
            return fail_here(r, STK_EFORMAT, "a list holds plain values only, no lists and no maps",
                             r->path);
        if (!item && is_null(&r->event))
            return fail_here(r, STK_EFORMAT, "a value of the list is empty", r->path);
        if (count == STK_CONFIG_MAX_VALUES)
            return fail_here(r, STK_ELIMIT, "more than 65536 values", r->path);
        stk__config_value *values =
            stk__grow(r->config->context, r->values, &r->capacity, count + 1, sizeof *values);
        if (!values)
            return fail_memory(r);
        r->values = values;
        bool class = false;
        STK_TRY(item ? read_item(r, &r->values[count]) : take_value(r, &r->values[count], &class));
        items |= class;
    }
    if (count == 0 && strcmp(list_key(r, false), "callbacks") != 0)
        return fail_here(r, STK_EFORMAT, "the list is empty; give at least one value", r->path);
    return put(r, list_key(r, items), r->values, count);
}

/* The map of the key in `path` began. */
static stk_status begin_map(reader *r)
{
    if (r->depth == STK_CONFIG_MAX_DEPTH - 1)
        return fail_here(r, STK_ELIMIT, "maps nest deeper than 16", r->path);
    if (r->num_sections == STK_CONFIG_MAX_KEYS)
        return fail_here(r, STK_ELIMIT, "more than 4096 maps", r->path);
    const char *path = stk__config_copy(r->config, r->path, strlen(r->path));
    section *sections = stk__grow(r->config->context, r->sections, &r->sections_capacity,
                                  r->num_sections + 1, sizeof *sections);
    if (sections)
        r->sections = sections;
    if (!path || !sections)
        return fail_memory(r);
    r->sections[r->num_sections++] = (section){path, r->key_place.line};
    r->lengths[++r->depth] = strlen(path);
    return STK_OK;
}

/* Lightning's form of a section. `*inner`: the key names a map whose keys are those of the section
 * itself. */
static stk_status translate(reader *r, bool *inner)
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
        return fail_here(r, STK_EINVAL, stk__class_misplaced(r->path), r->path);
    if (r->of_class)
        snprintf(r->path + prefix, sizeof r->path - prefix, ".name");
    return STK_OK;
}

/* The key looked at joins the path of the map that it is in. */
static stk_status read_key(reader *r)
{
    if (r->event.type == YAML_ALIAS_EVENT)
        return fail_here(r, STK_EFORMAT, "an alias ('*...') is not supported; write the key", NULL);
    if (r->event.type != YAML_SCALAR_EVENT)
        return fail_here(r, STK_EFORMAT, "a key is a plain word, no list and no map", NULL);
    if (r->event.data.scalar.tag)
        return fail_here(r, STK_EFORMAT,
                         "a tag ('!...') is not supported here; write the plain key", NULL);
    const char *what =
        stk__config_join(r->path, r->lengths[r->depth], (const char *)r->event.data.scalar.value,
                         r->event.data.scalar.length);
    if (what)
        return fail_here(r, STK_EFORMAT, what, (const char *)r->event.data.scalar.value);
    bool inner;
    r->key_place = place_here(r);
    STK_TRY(translate(r, &inner));
    return inner ? STK_OK : check_new(r, r->path);
}

/* From the first event of the root map to its end. No recursion: depth is a number that is checked.
 */
static stk_status read_maps(reader *r)
{
    for (;;) {
        STK_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) {
            if (r->depth == 0)
                return STK_OK;
            r->depth--;
            continue;
        }
        STK_TRY(read_key(r));
        STK_TRY(next(r));
        switch (r->event.type) {
        case YAML_SCALAR_EVENT:
            STK_TRY(read_value(r));
            break;
        case YAML_SEQUENCE_START_EVENT:
            STK_TRY(read_list(r));
            break;
        case YAML_MAPPING_START_EVENT:
            STK_TRY(stk__class_item_key(r->path) ? read_one_item(r) : begin_map(r));
            break;
        default:
            return fail_here(r, STK_EFORMAT,
                             "an alias ('*...') is not supported; write the value again", r->path);
        }
    }
}

static stk_status read_stream(reader *r)
{
    STK_TRY(next(r)); /* start of the stream */
    STK_TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return STK_OK;
    STK_TRY(next(r));
    bool empty = r->event.type == YAML_SCALAR_EVENT && is_null(&r->event);
    if (!empty && r->event.type != YAML_MAPPING_START_EVENT)
        return fail_here(r, STK_EFORMAT, "a configuration begins with a map: lines of 'key: value'",
                         NULL);
    if (!empty)
        STK_TRY(read_maps(r));
    STK_TRY(next(r)); /* end of the document */
    STK_TRY(next(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return fail_here(r, STK_EFORMAT, "a second document; a configuration is one", NULL);
    return STK_OK;
}

stk_status stk_config_load_text(stk_config *config, const char *name, const char *text,
                                size_t length, stk_error *err)
{
    reader r = {.config = config, .err = err, .load = ++config->loads};

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
