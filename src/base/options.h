/* text -> values of described options */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_OPTIONS_H
#define STK_SRC_BASE_OPTIONS_H

#include "base/base.h"
#include "base/text.h"

#define STK_OPTION_SHOWN 64  /* bytes of a value that a message shows, with its end */
#define STK_OPTION_NAME  128 /* bytes of a name that can be the nearest one, with its end */
#define STK_OPTION_MEANT 160 /* bytes of "; did you mean 'NAME'?", with its end */
#define STK__PATH_MEANT  320 /* the same of a path */

extern const stk_option_table stk__context_option_table;

/* ---- Values (options_value.c) ---------------------------------------------------------------- */

typedef enum stk__parsed { STK__PARSED, STK__PARSE_BAD, STK__PARSE_RANGE } stk__parsed;

/* Whether options of this type may know the word "auto". */
bool stk__option_type_auto(stk_option_type type);
/* Whether a struct of `size` bytes, as the caller knows it, has the member. */
bool stk__option_in(const stk_option *option, size_t size);
/* Turn `text` into the member of `options`; on failure the member is untouched. */
stk__parsed stk__option_parse(const stk_option *option, void *options, const char *text);
/* Say what an option takes, as "auto or 0..1024". `range` alone: nothing where there is no limit.
 */
void stk__option_allowed(const stk_option *option, bool range, char *text, size_t size);
/* Length of word `i` of "a|b|c", and where it begins; 0 past the last. */
size_t stk__option_choice(const char *choices, size_t i, const char **word);
/* Whether two words are the same but for case and '-' against '_'. */
bool stk__option_same(const char *a, size_t a_length, const char *b, size_t b_length);
/* A finite number in the C locale, whatever the locale of the program; *end is what follows it. */
bool stk__option_number(const char *text, double *value, const char **end);

/*
 * max_errors of `all` samples (bound.c): a count, a share ("0.5%"), or auto: 1 %, at least `least`.
 * STK_EINVAL: it is none of them, or it is set although on_error is fail, where it does nothing;
 * `others` then says what on_error may be instead, else it is NULL.
 */
stk_status stk__option_bound(const char *text, const char *others, uint64_t all, uint64_t least,
                             uint64_t *out, stk_error *err);

/* "DD:HH:MM:SS" in nanoseconds (duration.c). STK_EINVAL. */
stk_status stk__duration_parse(const char *option, const char *text, uint64_t *ns, stk_error *err);

/* The same as stk_options_find() for a name of `length` bytes. */
const stk_option *stk__option_find(const stk_option_table *table, const char *name, size_t length);

/* A member as a JSON value: stk_options_format_json() (options_json.c). */
void stk__option_add_json(stk__text *out, const stk_option *option, const void *options);

/* ---- Secrets (secret.c) ---------------------------------------------------------------------- */

#define STK__SECRET_FROM  "env:" /* in front of the name of an environment variable */
#define STK__SECRET_SHOWN "***"

/* Whether a text names an environment variable and is no secret itself. */
bool stk__secret_named(const char *text);
/*
 * Whether something of this name is a credential: it ends, but for case and what is neither letter
 * nor digit, in password, passwd, secret, token, signature, sig, credential(s), apikey, accesskey,
 * secretkey, privatekey or accesskeyid.
 */
bool stk__secret_name(const char *name, size_t length);
/* Refuse a text with a URL that has credentials: a user before the host, a port that is no number,
 * or a key of a query that is a secret's name. The message repeats none of them. STK_EINVAL. */
stk_status stk__secret_refuse(const char *text, stk_error *err);

/* ---- Messages (options.c) -------------------------------------------------------------------- */

/* Copy a value for a message: cut to what fits, control bytes and broken UTF-8 as '?'. */
void stk__option_show(char shown[STK_OPTION_SHOWN], const char *text);

/* The nearest of the names offered, by edit distance; `found` is empty when none is near. */
typedef struct stk__nearest {
    const char *wanted;
    size_t distance;
    char found[STK_OPTION_NAME];
} stk__nearest;

void stk__nearest_init(stk__nearest *nearest, const char *wanted);
void stk__nearest_offer(stk__nearest *nearest, const char *name);
/* The words of a class of PyTorch or Lightning that is `name` here: "csvlogger" of csv
 * (class_names.c). *i counts from 0; false past the last. */
bool stk__class_words(const char *name, size_t *i, char *out, size_t size);
/* The same, also by the classes of PyTorch and Lightning that are it. */
void stk__nearest_offer_class(stk__nearest *nearest, const char *name);
/* Every word of "a|b|c", likewise. */
void stk__nearest_offer_words(stk__nearest *nearest, const char *words);
/* "; did you mean 'NAME'?", or nothing where none is near. Gives `text`. */
const char *stk__nearest_said(const stk__nearest *nearest, char text[STK_OPTION_MEANT]);

/* "; did you mean 'PATH'?" for a path that does not exist, or nothing (nearest_path.c). Gives
 * `text`. */
const char *stk__nearest_path_said(const char *path, char text[STK__PATH_MEANT]);

/* Fail for a name that the table does not have, with the nearest that it has. STK_EINVAL. */
stk_status stk__option_unknown(const stk_option_table *table, const char *name, stk_error *err);

/* Fail for a word of a list that is none of "a|b|c": "WHERE: there is no WHAT 'WORD'; ...". The
 * option is what WHERE ends with. STK_EINVAL. */
stk_status stk__option_no_word(const char *where, const char *what, const char *word, size_t length,
                               const char *words, stk_error *err);

/* Where an error is of a name that a table behind this one does not have, and this one has a nearer
 * name than that table: name it. Other errors, and NULL, stay as they are. */
void stk__option_unknown_nearer(const stk_option_table *table, stk_error *err);

/*
 * A table must be sound, or every use of it fails: unique snake_case names, members within the
 * struct, defaults that the parser accepts, choices where they belong, a doc. Checked by the tests,
 * over all tables.
 */
stk_status stk__options_check(const stk_option_table *table, stk_error *err);

#endif
