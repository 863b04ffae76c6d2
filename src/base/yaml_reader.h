/* one text of YAML, event by event, and where what is wrong with it stands */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_YAML_READER_H
#define STK_SRC_BASE_YAML_READER_H

#include <yaml.h>

#include "base/config.h"

/* A map that was met, so that the same one is not begun twice. */
typedef struct stk__yaml_section {
    const char *path;
    size_t line;
} stk__yaml_section;

/* One reading of one text. */
typedef struct stk__yaml {
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
    stk__yaml_section *sections; /* STK_CONFIG_MAX_KEYS at most */
    size_t num_sections, sections_capacity;
    stk_error *err;
} stk__yaml;

/* Look at the next event. */
stk_status stk__yaml_next(stk__yaml *r);
/* Refuse what is looked at: "FILE:LINE:COLUMN: ABOUT: WHAT"; `about` may be NULL. */
stk_status stk__yaml_fail(stk__yaml *r, stk_status status, const char *what, const char *about);
/* The same at a place. */
stk_status stk__yaml_fail_at(stk__yaml *r, stk_status status, size_t line, size_t column,
                             const char *what, const char *about);
stk_status stk__yaml_no_memory(stk__yaml *r);
stk__config_place stk__yaml_place(const stk__yaml *r);
/* A plain "null", "~" or nothing at all; a tagged one is refused as a value. */
bool stk__yaml_is_null(const yaml_event_t *event);
/* The scalar looked at as a value. */
stk_status stk__yaml_scalar(stk__yaml *r, stk__config_value *out);

#endif
