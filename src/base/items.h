/* "label=name(argument, key=value), name" -> items and their arguments */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one language of lists: transforms, layers, callbacks, loggers, groups of parameters.
 *
 *     items    = [ item { "," item } ]
 *     item     = [ label "=" ] name [ "(" [ argument { "," argument } ] ")" ]
 *     argument = [ key "=" ] value
 *
 * A value is any text; brackets in it nest, and quotes hide what is between them.
 */
#ifndef STK_SRC_BASE_ITEMS_H
#define STK_SRC_BASE_ITEMS_H

#include "base/base.h"

#define STK__MAX_ARGUMENTS 32 /* of one item */
#define STK__MAX_NESTING   32 /* brackets within brackets */

/* What a list is of, for the parser and its messages. */
typedef struct stk__items_kind {
    stk_stage stage;
    const char *list; /* the option whose value it is: "transforms" */
    const char *item; /* one of it: "transform" */
    const char *form; /* how one is written: "name(argument, option=value)" */
    uint32_t most;    /* items in a list */
    bool labels;      /* "label=" may come before a name */
    bool patterns;    /* a name may be a pattern, as "layer1.*.bias", or a URL */
    bool quiet;       /* messages repeat nothing of the text, as it may hold secrets */
    bool classes;     /* a name may have points, as that of a class with its package */
} stk__items_kind;

typedef struct stk__argument {
    char *name; /* NULL: given by place */
    char *value;
} stk__argument;

typedef struct stk__item {
    const stk__items_kind *kind;
    char *label; /* NULL: none */
    char *name;
    stk__argument *arguments;
    uint32_t count; /* of arguments */
} stk__item;

/* All texts point into `text`. */
typedef struct stk__items {
    char *text; /* a copy; NULL where the caller's own was cut up */
    stk__item *items;
    stk__argument *arguments;
    uint32_t count; /* of items */
} stk__items;

/* Take a text apart. NULL and blank texts have no items. Errors: STK_EINVAL, which says what was
 * expected where; STK_ENOMEM. On failure nothing is to be released. */
stk_status stk__items_parse(stk_context *ctx, const stk__items_kind *kind, const char *text,
                            stk__items *out, stk_error *err);
/* The same within `text`, which is cut up and has to live as long as the items' texts are used. */
stk_status stk__items_cut(stk_context *ctx, const stk__items_kind *kind, char *text,
                          stk__items *out, stk_error *err);
void stk__items_release(stk_context *ctx, stk__items *items);

/* Fill a struct of `table` (NULL: the item takes no arguments) from the arguments of an item.
 * `places` names the arguments that are given by place, parted by spaces; NULL: in the order of the
 * table. */
stk_status stk__item_options(const stk__item *item, const stk_option_table *table,
                             const char *places, void *options, stk_error *err);

/* Bytes of a text up to the first of the characters `stops` outside of brackets and
 * quotes; `length` where there is none. SIZE_MAX, with what is wrong and where, when brackets or
 * quotes do not pair. A closing bracket among the stops need not pair. */
typedef struct stk__unpaired {
    const char *what; /* "the quote that ends a value" */
    size_t at;
} stk__unpaired;
size_t stk__part_length(const char *text, size_t length, const char *stops,
                        stk__unpaired *unpaired);

#endif
