/* SPDX-License-Identifier: Apache-2.0 */
/* Described options: one table per struct serves C, YAML, command line, --help and the manual. */
#ifndef STOKER_OPTIONS_H
#define STOKER_OPTIONS_H

#include <stoker/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How the text of an option becomes the member at `offset` of its struct. */
typedef enum stk_option_type {
    STK_OPTION_BOOL,   /**< bool: true/false, yes/no, on/off, 1/0 */
    STK_OPTION_INT,    /**< int64_t: decimal; with `auto` in `choices`, that word gives STK_AUTO */
    STK_OPTION_UINT,   /**< uint64_t: decimal or 0x... */
    STK_OPTION_DOUBLE, /**< double; with `auto` in `choices`, that word gives NaN */
    STK_OPTION_SIZE,   /**< uint64_t bytes: "65536", "64KiB", "1.5 MiB", "2GB" (K = 1000, Ki = 1024)
                        */
    STK_OPTION_RATE,   /**< double bytes per second: as SIZE with an optional "/s"; `auto` likewise
                        */
    STK_OPTION_DURATION, /**< double seconds: "0.005", "5ms", "20us", "1m", "2h"; `auto` likewise */
    STK_OPTION_ENUM,     /**< int32_t: position of the word in `choices` ("a|b|c") */
    STK_OPTION_STRING,   /**< const char *: the text itself, which the caller keeps alive */
    STK_OPTION_SECRET /**< const char *: a credential. Its text is "env:NAME", and the member what
                         the environment variable NAME holds, until that is set again; another
                         text is refused. It is written as "***" and never part of a message */
} stk_option_type;

#define STK_AUTO (-1)

typedef struct stk_option {
    const char *name; /**< snake_case; '-' and '_' are alike on the command line */
    stk_option_type type;
    size_t offset;       /**< of the member in the struct */
    const char *initial; /**< default, as text; NULL: zero bytes (none) */
    double min, max;     /**< range of numbers, both inclusive; equal: no limit */
    const char *choices; /**< words of ENUM, or "auto" for an INT, DOUBLE, RATE or DURATION that
                            knows it; else NULL */
    const char *metavar; /**< the word for the value in --help ("N", "DIR", "SECONDS"); NULL:
                            from the type */
    const char *doc;     /**< one or two sentences; the unit */
} stk_option;

typedef struct stk_option_table {
    const char *name; /**< of the section in YAML and the prefix of long flags: "loader" */
    const char *doc;
    size_t struct_size;
    const stk_option *options;
    size_t count;
} stk_option_table;

/**
 * The table of a struct of the library, by name: "context" (stk_context_options), "array", "bench",
 * "convert", "images" (stk_convert_images_options), "loader", "lr_scheduler" (stk_schedule),
 * "model", "module" (stk_model_module_options), "optimizer", "profile", "source"
 * (stk_bench_source), "survey", "trainer", "what_if". "dataset" has what the spec of every dataset
 * takes; "recipe" and "recipe.data", "recipe.model", ... have the sections of a training's
 * configuration, the first those at its top. The options of drivers are in their tables:
 * stk_driver_at(). NULL: there is none of that name. What is returned is constant. Any thread.
 */
STK_API const stk_option_table *stk_option_table_find(const char *name);
/** Table `i` of them, and the name that finds it; NULL past the last. */
STK_API const stk_option_table *stk_option_table_at(size_t i, const char **name);

/** Fill a struct of `size` bytes with its defaults, and its first member (uint32_t struct_size)
 * with `size`: sizeof the struct as the caller knows it, or the table's struct_size. */
STK_API void stk_options_init(const stk_option_table *table, void *options, size_t size);

/** Find an option by name ('-' and '_' alike); NULL if there is none. */
STK_API const stk_option *stk_options_find(const stk_option_table *table, const char *name);

/**
 * Set one option from text.
 * Errors: STK_EINVAL naming table, option, value and what is allowed; for an unknown name the
 * nearest known one; an option that is beyond the caller's struct_size. Ownership: the text of a
 * STRING is not copied; it has to outlive the struct.
 */
STK_API STK_NODISCARD stk_status stk_options_set(const stk_option_table *table, void *options,
                                                 const char *name, const char *text,
                                                 stk_error *err);

/** Write the value of one option as text that stk_options_set() reads back; nothing where it is
 * beyond the struct's struct_size. Returns the length, as snprintf(). */
STK_API int stk_options_format(const stk_option *option, const void *options, char *text,
                               size_t size);

/** The same as a JSON value: numbers and switches as they are, other values and `auto` as strings,
 * null for a text that is not set. Returns the length, as snprintf(). */
STK_API int stk_options_format_json(const stk_option *option, const void *options, char *text,
                                    size_t size);

/**
 * Of `count` names the one nearest to a misspelt one, by edit distance ('-' and '_', and letters of
 * any case alike); NULL where none is near. What is returned is one of `names`.
 */
STK_API const char *stk_nearest_name(const char *wanted, const char *const *names, size_t count);

/**
 * The path that one which does not exist may have meant: each part that is not there replaced by
 * the nearest entry of its folder. False, and `found` as it was, where the path exists, where none
 * is near, or where it does not fit into `size` bytes.
 */
STK_API bool stk_nearest_path(const char *path, char *found, size_t size);

/**
 * Put a home folder in the place of the tilde with which a path begins, also behind the ':' of a
 * prefix ("images:~/train"), in each spec of a dataset of datasets. Returns the length, as
 * snprintf(); 0: there is none, and `out` is as it was. Pure.
 */
STK_API size_t stk_home_path(const char *text, const char *home, char *out, size_t size);

/** Bytes with three significant digits or all of the integer part, and their unit ("5.12 GiB").
 * Returns `text`. Pure. */
STK_API const char *stk_size_text(double bytes, char text[32]);

/** Write the options of a table as the lines of a --help. Returns the length, as snprintf(). */
STK_API int stk_options_help(const stk_option_table *table, char *text, size_t size);

/*
 * A configuration: YAML file and command line together. Keys are dotted paths
 * ("loader.num_workers"); each holds one or several texts with the place they came from. Later
 * settings replace earlier ones. A key with several values is a sweep: every combination is one
 * setting.
 */
typedef struct stk_config stk_config;

STK_API STK_NODISCARD stk_status stk_config_create(stk_context *context, stk_config **out,
                                                   stk_error *err);
STK_API void stk_config_destroy(stk_config **config);

/** Read a YAML file of nested maps, scalars and lists of scalars. Errors name file, line and
 * column. Blocks. */
STK_API STK_NODISCARD stk_status stk_config_load(stk_config *config, const char *path,
                                                 stk_error *err);
/** The same from memory; `name` names the file in messages. */
STK_API STK_NODISCARD stk_status stk_config_load_text(stk_config *config, const char *name,
                                                      const char *text, size_t length,
                                                      stk_error *err);
/** Set a key from the command line: commas outside brackets and quotes part the values of a sweep
 * when `sweep`. */
STK_API STK_NODISCARD stk_status stk_config_set(stk_config *config, const char *key,
                                                const char *text, bool sweep, stk_error *err);

/** Number of values of a key; 0 when it is not set. */
STK_API size_t stk_config_count(const stk_config *config, const char *key);
/** Value `i` of a key; NULL when there is none. Lives as long as the configuration. */
STK_API const char *stk_config_get(const stk_config *config, const char *key, size_t i);

/** Number of combinations of all keys with several values (1 without a sweep). */
STK_API uint64_t stk_config_combinations(const stk_config *config);
/**
 * Fill a struct from the keys below `table->name`, as they are in combination `which`.
 * Every key below that name must be an option of the table. Errors: as stk_options_set(), with
 * file, line, column.
 */
STK_API STK_NODISCARD stk_status stk_config_apply(stk_config *config, const stk_option_table *table,
                                                  uint64_t which, void *options, stk_error *err);

/**
 * What `from` says of the options of a table wins over what `into` says of them: each that is set
 * in `from` is set in `into`, to one value, that of combination `which`; or, where `options` is not
 * NULL, to the value in that struct of the table, which the caller made of `from`.
 * Errors: those of stk_config_apply() and stk_config_set(); `into` may have some of them then.
 */
STK_API STK_NODISCARD stk_status stk_config_merge(stk_config *into, stk_config *from,
                                                  const stk_option_table *table, uint64_t which,
                                                  const void *options, stk_error *err);

/** A line of a configuration, without its end; valid during the call. */
typedef void stk_config_line(void *user, const char *line);
/**
 * What is set of the tables that were applied, as YAML that is read as the same configuration:
 * values in the form of their options, in the order of the tables, after the version of the
 * library, of which an older one refuses it (STK_ENOTSUP). Secrets are not shown.
 */
STK_API STK_NODISCARD stk_status stk_config_write(const stk_config *config, stk_config_line *line,
                                                  void *user, stk_error *err);

/** After all applies: refuse the first key that no table took, naming the nearest that exists. */
STK_API STK_NODISCARD stk_status stk_config_finish(const stk_config *config, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
