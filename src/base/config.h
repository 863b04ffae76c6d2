/* YAML, command line -> keys and their texts -> structs of options */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_CONFIG_H
#define STK_SRC_BASE_CONFIG_H

#include "base/base.h"
#include "base/text.h"

/* Bounds of what a file may ask for: beyond them it is refused. */
#define STK_CONFIG_MAX_FILE   (4u << 20) /* bytes */
#define STK_CONFIG_MAX_DEPTH  16         /* maps in maps */
#define STK_CONFIG_MAX_KEY    256        /* bytes of a dotted key, with its end */
#define STK_CONFIG_MAX_KEYS   4096
#define STK_CONFIG_MAX_VALUES 65536 /* of one key */

/* Where a text came from. `source` is NULL for the command line; lines and columns count from 1. */
typedef struct stk__config_place {
    const char *source;
    size_t line, column;
} stk__config_place;

typedef struct stk__config_value {
    const char *text;
    stk__config_place place;
} stk__config_value;

/* One key. Its texts stay where they are also when a later setting replaces them. */
typedef struct stk__entry {
    const char *key;
    stk__config_place place; /* of the key */
    stk__config_value *values;
    size_t count;  /* 0: set to nothing ("key:"), which leaves the default */
    uint64_t load; /* number of the load that set it: the same key twice in one file is refused */
    bool used;     /* somebody took it */
} stk__entry;

/* The one key whose list is no sweep in any configuration. */
#define STK__CONFIG_PLUGINS "plugins"
/* Where a file gives classes for the first, they are the second (config_yaml.c). */
#define STK__CONFIG_LOGGER  "trainer.logger"
#define STK__CONFIG_LOGGERS "loggers"
/* Values that an entry can have in a combination; at least 1. */
size_t stk__config_choices(const stk__entry *entry);

/* Memory that lives as long as the configuration. */
typedef struct stk__config_block {
    struct stk__config_block *next;
} stk__config_block;

struct stk_config {
    stk_context *context;
    stk__entry *entries; /* in the order given */
    size_t count, capacity;
    const stk_option_table **tables; /* that were applied */
    size_t num_tables, tables_capacity;
    stk__config_block *blocks;
    uint64_t loads;
};

/* A copy of `length` bytes, with an end, that lives as long as the configuration; NULL when there
 * is no memory. */
char *stk__config_copy(stk_config *config, const char *text, size_t length);
stk__entry *stk__config_find(const stk_config *config, const char *key);
/* Set a key to `count` values (copied; their texts are not). Errors: STK_ENOMEM, STK_ELIMIT. */
stk_status stk__config_put(stk_config *config, const char *key, const stk__config_place *place,
                           const stk__config_value *values, size_t count, uint64_t load,
                           stk_error *err);
/* Whether a key has a list of PyTorch's that is another thing here. This, the classes below and the
 * reader know keys of the recipe's sections, which stand apart from its tables: config_lists.c,
 * class_names.c, config_yaml.c. */
bool stk__config_is_list(const char *key);
/* The same as stk__config_put(), where such a list becomes that other thing. Also STK_EINVAL. */
stk_status stk__config_put_list(stk_config *config, const char *key, const stk__config_place *place,
                                const stk__config_value *values, size_t count, uint64_t load,
                                stk_error *err);
/* "lightning.pytorch.callbacks.EarlyStopping" -> "early_stopping": the class alone, in the words of
 * names here (class_names.c). */
void stk__class_name(const char *path, char *out, size_t size);
/* The word for a class that is the value of a key, as a flag has it ("CosineAnnealingLR" of
 * "lr_scheduler.name"); false: it is none, or one that the word alone does not mean: LinearLR and
 * PolynomialLR have another length. */
bool stk__class_word(const char *key, const char *value, char *out, size_t size);
/* Where Lightning has one class, which is an item here: the key of that; NULL: elsewhere. */
const char *stk__class_item_key(const char *path);
/* Whether the items of a list may be classes. */
bool stk__class_has_items(const char *path);
/* Whether a text is a name with the package of Lightning's or PyTorch's in front of it. */
bool stk__class_has_package(const char *path);
/* What is wrong with the name of a class, in words; NULL: nothing yet. */
const char *stk__class_refused(const char *path);
/* The same of a key that takes none. */
const char *stk__class_misplaced(const char *key);
/* Whether a key is one of Lightning's alone ("optimizer.amsgrad", "progress_bar.process_position":
 * foreign_keys.c) whose value, or null (NULL), is known; `*refused`: why it is not taken, NULL: it
 * asks for nothing. */
bool stk__foreign_key(const char *key, const char *value, const char **refused);
/* Refuse what a later version wrote: what it says may not be what is meant here. STK_ENOTSUP. */
stk_status stk__config_check_version(const stk_config *config, stk_error *err);
/* Refuse a value that is not UTF-8, as the name of a file may be: YAML has characters alone.
 * STK_EFORMAT. */
stk_status stk__config_check_characters(const stk_config *config, stk_error *err);
/* The text of stk_config_write(). */
stk_status stk__config_format(const stk_config *config, stk__text *out, stk_error *err);
/* Refuse a value with a URL that has credentials, before any of them is logged. STK_EINVAL. */
stk_status stk__config_no_secrets(const stk_config *config, stk_error *err);
/* "file:line:column: ", or "" for the command line. */
void stk__place_format(const stk__config_place *place, char *text, size_t size);
/* Join a key below a prefix into `path` (STK_CONFIG_MAX_KEY), '-' as '_'. What is wrong with it, or
 * NULL. */
const char *stk__config_join(char *path, size_t prefix, const char *key, size_t length);

/* A ladder through the combinations: from the first value of every key on, one key after the other
 * goes through its values and stays at the last. Its number of rungs, and the combination of one.
 */
uint64_t stk__config_rungs(const stk_config *config);
uint64_t stk__config_rung(const stk_config *config, uint64_t rung);

#endif
