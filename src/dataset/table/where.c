/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/table/where.h"

#include "base/options.h"
#include "dataset/widen.h"

/* ---- Parsing --------------------------------------------------------------------------------- */

typedef struct parser {
    stk__where *out;
    const char *at;
    char *free; /* in out->bytes */
    uint32_t depth;
    stk_error *err;
} parser;

static stk_status wrong(const parser *p, const char *at, const char *what)
{
    return stk__fail_at(p->err, STK_EINVAL, STK_STAGE_OPTIONS, "where", STK_NO_OFFSET,
                        "where=%.150s: character %zu, at '%.20s': %s", p->out->text,
                        (size_t)(at - p->out->text) + 1, at, what);
}

static void skip(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n')
        p->at++;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || (unsigned char)c >= 128;
}

static size_t name_length(const char *at)
{
    size_t n = 0;

    while (is_name(at[n]))
        n++;
    return n;
}

/* A word of the language, in any case, that is not the beginning of a name. */
static bool take_word(parser *p, const char *word)
{
    skip(p);
    const size_t length = name_length(p->at);
    if (!stk__option_same(p->at, length, word, strlen(word)))
        return false;
    p->at += length;
    return true;
}

static bool take_sign(parser *p, const char *sign)
{
    skip(p);
    if (strncmp(p->at, sign, strlen(sign)) != 0)
        return false;
    p->at += strlen(sign);
    return true;
}

static const char *keep(parser *p, const char *text, size_t length)
{
    char *kept = p->free;

    memcpy(kept, text, length);
    kept[length] = 0;
    p->free += length + 1;
    return kept;
}

static stk_status add_node(parser *p, stk__where_node node, uint32_t *out)
{
    stk__where *w = p->out;

    if (w->num_nodes == STK__WHERE_MOST_NODES)
        return wrong(p, p->at, "it has too many parts");
    w->nodes[w->num_nodes] = node;
    *out = w->num_nodes++;
    return STK_OK;
}

/* A name, as it is or in `backticks`. */
static stk_status take_column(parser *p, uint32_t *out)
{
    stk__where *w = p->out;
    const char *begin;
    size_t length;

    skip(p);
    if (*p->at == '`') {
        begin = p->at + 1;
        length = strcspn(begin, "`");
        if (!begin[length] || !length)
            return wrong(p, p->at, "the name in backticks does not end");
        p->at = begin + length + 1;
    } else {
        begin = p->at;
        length = name_length(begin);
        if (!length || (*begin >= '0' && *begin <= '9'))
            return wrong(p, p->at,
                         "the name of a column is expected; others than a-z 0-9 _ . are "
                         "written in `backticks`");
        p->at += length;
    }
    for (*out = 0; *out < w->num_columns; ++*out)
        if (strlen(w->columns[*out]) == length && memcmp(w->columns[*out], begin, length) == 0)
            return STK_OK;
    w->columns[w->num_columns++] = keep(p, begin, length);
    return STK_OK;
}

static stk_status take_string(parser *p, stk__where_value *out)
{
    const char quote = *p->at, *begin = p->at++;
    char *kept = p->free;

    for (;; p->at++) {
        if (!*p->at)
            return wrong(p, begin, "the text does not end");
        if (*p->at == quote && *++p->at != quote)
            break;
        *p->free++ = *p->at;
    }
    *out = (stk__where_value){.text = true, .bytes = kept, .length = (size_t)(p->free - kept)};
    *p->free++ = 0;
    return STK_OK;
}

static stk_status take_value(parser *p, stk__where_value *out)
{
    skip(p);
    const char *begin = p->at, *end;

    if (*begin == '\'' || *begin == '"')
        return take_string(p, out);
    *out = (stk__where_value){.integer = 1};
    if (take_word(p, "true") || take_word(p, "false")) {
        out->integer = *begin == 't' || *begin == 'T';
        out->number = (double)out->integer;
        return STK_OK;
    }
    if (!stk__option_number(begin, &out->number, &end))
        return wrong(p, begin, "a number, true, false or a text in quotes is expected");
    const char *digit = begin + (*begin == '-' || *begin == '+');
    uint64_t value = 0;
    out->real = false;
    for (; digit < end && !out->real; digit++)
        out->real = *digit < '0' || *digit > '9' || !stk__mul_size(value, 10, &value) ||
                    !stk__add_size(value, (uint64_t)(*digit - '0'), &value) || value > INT64_MAX;
    out->integer = *begin == '-' ? -(int64_t)value : (int64_t)value;
    p->at = end;
    return STK_OK;
}

static stk_status take_in(parser *p, uint32_t column, size_t at, uint32_t *out)
{
    stk__where_node node = {.kind = STK__WHERE_EQUAL, .column = column, .at = at};
    uint32_t next = 0;

    if (!take_sign(p, "("))
        return wrong(p, p->at, "a list in parentheses is expected after in");
    STK_TRY(take_value(p, &node.value));
    STK_TRY(add_node(p, node, out));
    while (take_sign(p, ",")) {
        STK_TRY(take_value(p, &node.value));
        STK_TRY(add_node(p, node, &next));
        STK_TRY(add_node(
            p, (stk__where_node){.kind = STK__WHERE_OR, .left = *out, .right = next, .at = at},
            out));
    }
    return take_sign(p, ")") ? STK_OK : wrong(p, p->at, "the list is to end with )");
}

static stk_status negate(parser *p, size_t at, uint32_t *out)
{
    return add_node(p, (stk__where_node){.kind = STK__WHERE_NOT, .left = *out, .at = at}, out);
}

static stk_status take_comparison(parser *p, uint32_t *out)
{
    static const struct {
        const char *sign;
        stk__where_kind kind;
    } signs[] = {{"==", STK__WHERE_EQUAL},    {"!=", STK__WHERE_DIFFERENT},
                 {"<=", STK__WHERE_NOT_MORE}, {">=", STK__WHERE_NOT_LESS},
                 {"<", STK__WHERE_LESS},      {">", STK__WHERE_MORE}};
    stk__where_node node = {.kind = STK__WHERE_TRUE};

    skip(p);
    node.at = (size_t)(p->at - p->out->text);
    STK_TRY(take_column(p, &node.column));
    for (size_t i = 0; i < STK_COUNT(signs); i++)
        if (take_sign(p, signs[i].sign)) {
            node.kind = signs[i].kind;
            STK_TRY(take_value(p, &node.value));
            return add_node(p, node, out);
        }
    if (*p->at == '=')
        return wrong(p, p->at, "write == to compare");
    if (take_word(p, "in"))
        return take_in(p, node.column, node.at, out);
    if (take_word(p, "is")) {
        const bool not = take_word(p, "not");
        if (!take_word(p, "null"))
            return wrong(p, p->at, "null is expected after is");
        node.kind = STK__WHERE_NULL;
        STK_TRY(add_node(p, node, out));
        return not ? negate(p, node.at, out) : STK_OK;
    }
    if (take_word(p, "not")) {
        if (!take_word(p, "in"))
            return wrong(p, p->at, "in is expected after not");
        STK_TRY(take_in(p, node.column, node.at, out));
        return negate(p, node.at, out);
    }
    return add_node(p, node, out);
}

static stk_status take_or(parser *p, uint32_t *out);

static stk_status take_not(parser *p, uint32_t *out)
{
    const size_t at = (size_t)(p->at - p->out->text);

    if (p->depth++ == STK__WHERE_MOST_DEPTH)
        return wrong(p, p->at, "it is nested too deep");
    stk_status status;
    if (take_word(p, "not")) {
        status = take_not(p, out);
        if (status == STK_OK)
            status = negate(p, at, out);
    } else if (take_sign(p, "(")) {
        status = take_or(p, out);
        if (status == STK_OK && !take_sign(p, ")"))
            status = wrong(p, p->at, "a ) is missing here");
    } else {
        status = take_comparison(p, out);
    }
    p->depth--;
    return status;
}

static stk_status take_and(parser *p, uint32_t *out)
{
    stk__where_node node = {.kind = STK__WHERE_AND};

    STK_TRY(take_not(p, out));
    while (take_word(p, "and")) {
        node.left = *out;
        STK_TRY(take_not(p, &node.right));
        STK_TRY(add_node(p, node, out));
    }
    return STK_OK;
}

static stk_status take_or(parser *p, uint32_t *out)
{
    stk__where_node node = {.kind = STK__WHERE_OR};

    STK_TRY(take_and(p, out));
    while (take_word(p, "or")) {
        node.left = *out;
        STK_TRY(take_and(p, &node.right));
        STK_TRY(add_node(p, node, out));
    }
    return STK_OK;
}

stk_status stk__where_parse(stk_context *ctx, const char *text, stk__where *out, stk_error *err)
{
    *out = (stk__where){.ctx = ctx, .text = text};
    parser p = {.out = out, .at = text, .err = err};

    /* Each name and text is shorter than what stands for it, but for its end. */
    out->bytes = stk__alloc(ctx, 2 * strlen(text) + 2);
    out->nodes = stk__calloc(ctx, STK__WHERE_MOST_NODES, sizeof *out->nodes);
    out->columns = stk__calloc(ctx, strlen(text) + 1, sizeof *out->columns);
    if (!out->bytes || !out->nodes || !out->columns)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for where");
    p.free = out->bytes;
    STK_TRY(take_or(&p, &out->root));
    skip(&p);
    return *p.at ? wrong(&p, p.at, "and, or, or the end is expected") : STK_OK;
}

void stk__where_release(stk__where *w)
{
    stk__free(w->ctx, w->bytes);
    stk__free(w->ctx, w->nodes);
    stk__free(w->ctx, w->columns);
}

/* ---- Checking -------------------------------------------------------------------------------- */

static bool is_scalar(const stk__table_column *c)
{
    return c->kind == STK__COLUMN_VALUES && c->width == 1 && !c->list &&
           (stk__dtype_is_float(c->dtype) || stk__widen_c(c->dtype) || c->dtype == STK_BOOL ||
            c->dtype == STK_UINT64);
}

stk_status stk__where_check(const stk__where *w, const stk__table_column *const *columns,
                            stk_error *err)
{
    const parser p = {.out = (stk__where *)w, .err = err};

    for (uint32_t i = 0; i < w->num_nodes; i++) {
        const stk__where_node *n = &w->nodes[i];
        if (n->kind <= STK__WHERE_NULL)
            continue;
        const stk__table_column *c = columns[n->column];
        if (!c)
            continue;
        const bool text = c->kind == STK__COLUMN_BYTES;
        if (!text && !is_scalar(c))
            return wrong(&p, w->text + n->at, "the column has no single number or text in a row");
        if (n->kind == STK__WHERE_TRUE && c->dtype != STK_BOOL)
            return wrong(&p, w->text + n->at, "a column by itself has to be of bool; compare it");
        if (n->kind != STK__WHERE_TRUE && text != n->value.text)
            return wrong(&p, w->text + n->at,
                         text ? "the column has texts; write the value in quotes"
                              : "the column has numbers; write the value without quotes");
    }
    return STK_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Less, equal, more: -1, 0, 1; 2: a NaN is neither. */
static int order_reals(double a, double b)
{
    return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2;
}

/* Of numbers that are given as bounds are. */
static int order_numbers(const stk__table_bound *a, const stk__where_value *b)
{
    if (a->is_float || b->real)
        return order_reals(a->is_float ? a->real : (double)a->integer, b->number);
    return (a->integer > b->integer) - (a->integer < b->integer);
}

static int order_texts(const void *data, uint64_t size, const stk__where_value *b)
{
    const uint64_t both = STK_MIN(size, b->length);
    const int order = both ? memcmp(data, b->bytes, both) : 0;

    return order ? (order > 0) - (order < 0) : (size > b->length) - (size < b->length);
}

static stk__table_bound number_of(const void *data, stk_dtype dtype)
{
    uint64_t big = 0;
    int64_t value;

    if (dtype == STK_UINT64)
        memcpy(&big, data, sizeof big);
    if (stk__dtype_is_float(dtype) || big > INT64_MAX)
        return (stk__table_bound){.is_float = true, .real = stk__element_as_double(data, dtype)};
    if (dtype == STK_BOOL || dtype == STK_UINT64)
        return (stk__table_bound){.integer =
                                      dtype == STK_BOOL ? *(const uint8_t *)data : (int64_t)big};
    stk__widen_c(dtype)(data, 1, &value);
    return (stk__table_bound){.integer = value};
}

static bool is_so(stk__where_kind kind, int order)
{
    switch (kind) {
    case STK__WHERE_EQUAL:
        return order == 0;
    case STK__WHERE_DIFFERENT:
        return order != 0;
    case STK__WHERE_LESS:
        return order == -1;
    case STK__WHERE_NOT_MORE:
        return order == -1 || order == 0;
    case STK__WHERE_MORE:
        return order == 1;
    default:
        return order == 1 || order == 0;
    }
}

typedef struct evaluation {
    const stk__where *where;
    const stk__table_column *const *columns;
    stk__where_cell_fn *cell;
    void *user;
    uint64_t row;
} evaluation;

enum { NO, YES, UNKNOWN };

/* Chains of or are as deep as a list is long: STK__WHERE_MOST_NODES at most. */
static int evaluate(const evaluation *e, uint32_t number)
{
    const stk__where_node *n = &e->where->nodes[number];
    uint64_t size = 0;

    if (n->kind == STK__WHERE_NOT) {
        const int inner = evaluate(e, n->left);
        return inner == UNKNOWN ? UNKNOWN : !inner;
    }
    if (n->kind <= STK__WHERE_OR) {
        const int decides = n->kind == STK__WHERE_OR ? YES : NO;
        const int left = evaluate(e, n->left);
        if (left == decides)
            return left;
        const int right = evaluate(e, n->right);
        return right == decides || left != UNKNOWN ? right : UNKNOWN;
    }
    if (!e->columns[n->column])
        return UNKNOWN;
    const void *data = e->cell(e->user, n->column, e->row, &size);
    if (n->kind == STK__WHERE_NULL)
        return !data;
    if (!data)
        return UNKNOWN;
    if (n->kind == STK__WHERE_TRUE)
        return *(const uint8_t *)data != 0;
    if (n->value.text)
        return is_so(n->kind, order_texts(data, size, &n->value));
    const stk__table_bound number_here = number_of(data, e->columns[n->column]->dtype);
    return is_so(n->kind, order_numbers(&number_here, &n->value));
}

bool stk__where_holds(const stk__where *w, const stk__table_column *const *columns,
                      stk__where_cell_fn *cell, void *user, uint64_t row)
{
    const evaluation e = {w, columns, cell, user, row};

    return evaluate(&e, w->root) == YES;
}

bool stk__where_may(const stk__where *w, const stk__table_column *const *columns,
                    stk__where_cell_fn *cell, void *user)
{
    const evaluation e = {w, columns, cell, user, 0};

    return evaluate(&e, w->root) != NO;
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

static bool may_hold(const stk__where *w, uint32_t number, stk__where_bounds_fn *bounds, void *user)
{
    const stk__where_node *n = &w->nodes[number];
    stk__table_bound least, most;

    if (n->kind == STK__WHERE_AND)
        return may_hold(w, n->left, bounds, user) && may_hold(w, n->right, bounds, user);
    if (n->kind == STK__WHERE_OR)
        return may_hold(w, n->left, bounds, user) || may_hold(w, n->right, bounds, user);
    if (n->kind < STK__WHERE_EQUAL || n->kind == STK__WHERE_DIFFERENT || n->value.text ||
        !bounds(user, n->column, &least, &most))
        return true;
    const int low = order_numbers(&least, &n->value), high = order_numbers(&most, &n->value);
    if (low == 2 || high == 2)
        return true;
    switch (n->kind) {
    case STK__WHERE_EQUAL:
        return low <= 0 && high >= 0;
    case STK__WHERE_LESS:
        return low < 0;
    case STK__WHERE_NOT_MORE:
        return low <= 0;
    case STK__WHERE_MORE:
        return high > 0;
    default:
        return high >= 0;
    }
}

bool stk__where_may_hold(const stk__where *w, stk__where_bounds_fn *bounds, void *user)
{
    return may_hold(w, w->root, bounds, user);
}
