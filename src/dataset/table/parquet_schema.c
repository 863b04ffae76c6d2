/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a schema -> columns [apache/parquet-format, LogicalTypes.md, Nested Types]. What
 * groups hold becomes columns "a.b"; the two groups that make a list have no names of their own
 * there, and neither has the single one of lists as older writers made them.
 */
#include <stdio.h>

#include "dataset/table/parquet.h"

#define DEPTH_MOST 32
#define NAME_MOST  1024
#define NODES_MOST (1u << 17)
#define FIXED_MOST (1 << 24) /* bytes of a value of one width */
#define SCALE_MOST 76        /* of decimals of 32 bytes */

enum { REQUIRED, OPTIONAL, REPEATED };

/* ConvertedType and LogicalType, as one. */
typedef enum logical {
    NOTHING,
    TEXT,
    MAP,
    LIST,
    ENUM,
    DECIMAL,
    DATE,
    TIME,
    TIMESTAMP,
    INTEGER,
    UNKNOWN,
    JSON,
    BSON,
    UUID,
    FLOAT16,
    VARIANT,
    GEOMETRY,
    GEOGRAPHY,
    INTERVAL
} logical;

/* A SchemaElement. */
typedef struct node {
    int64_t type, length, repetition, children, scale, precision;
    stk__thrift_text name;
    logical logical;
    int64_t bits;
    bool is_signed, utc;
    char unit; /* of times: 'm', 'u', 'n' */
    bool told; /* by a LogicalType, which goes before a ConvertedType */
} node;

typedef struct walk {
    stk__parquet_schema *out;
    const node *nodes;
    uint32_t count, at;
    const char *wrong;
    size_t used, room; /* of texts */
} walk;

/* Where a node is. */
typedef struct place {
    char name[NAME_MOST];
    uint8_t most, repeated, lists;
    unsigned depth;
    bool nullable;
} place;

/* ---- SchemaElement ---- */

static char read_unit(stk__thrift *t)
{
    stk__thrift_field f = {0};
    char unit = 0;

    while (stk__thrift_next(t, &f)) {
        if (f.id >= 1 && f.id <= 3)
            unit = "mun"[f.id - 1];
        stk__thrift_skip(t, &f);
    }
    return unit;
}

static void read_logical_fields(stk__thrift *t, node *n)
{
    stk__thrift_field f = {0};

    while (stk__thrift_next(t, &f)) {
        if (n->logical == DECIMAL && f.id == 1)
            n->scale = stk__thrift_int(t, &f);
        else if (n->logical == DECIMAL && f.id == 2)
            n->precision = stk__thrift_int(t, &f);
        else if (n->logical == INTEGER && f.id == 1)
            n->bits = stk__thrift_int(t, &f);
        else if (n->logical == INTEGER && f.id == 2)
            n->is_signed = stk__thrift_bool(t, &f);
        else if ((n->logical == TIME || n->logical == TIMESTAMP) && f.id == 1)
            n->utc = stk__thrift_bool(t, &f);
        else if ((n->logical == TIME || n->logical == TIMESTAMP) && f.id == 2 &&
                 stk__thrift_struct(t, &f))
            n->unit = read_unit(t);
        else
            stk__thrift_skip(t, &f);
    }
}

static void read_logical(stk__thrift *t, node *n)
{
    static const logical of[] = {
        [1] = TEXT,  [2] = MAP,       [3] = LIST,     [4] = ENUM,      [5] = DECIMAL,   [6] = DATE,
        [7] = TIME,  [8] = TIMESTAMP, [10] = INTEGER, [11] = UNKNOWN,  [12] = JSON,     [13] = BSON,
        [14] = UUID, [15] = FLOAT16,  [16] = VARIANT, [17] = GEOMETRY, [18] = GEOGRAPHY};
    stk__thrift_field f = {0};

    n->told = true;
    n->logical = NOTHING;
    while (stk__thrift_next(t, &f)) {
        if (!stk__thrift_struct(t, &f))
            return;
        n->logical = f.id >= 0 && (size_t)f.id < STK_COUNT(of) ? of[f.id] : NOTHING;
        read_logical_fields(t, n);
    }
}

static void set_converted(node *n, int64_t converted)
{
    static const struct {
        uint8_t logical, bits;
        bool is_signed;
        char unit;
    } of[] = {
        {TEXT, 0, 0, 0},     {MAP, 0, 0, 0},         {NOTHING, 0, 0, 0},     {LIST, 0, 0, 0},
        {ENUM, 0, 0, 0},     {DECIMAL, 0, 0, 0},     {DATE, 0, 0, 0},        {TIME, 0, 0, 'm'},
        {TIME, 0, 0, 'u'},   {TIMESTAMP, 0, 0, 'm'}, {TIMESTAMP, 0, 0, 'u'}, {INTEGER, 8, 0, 0},
        {INTEGER, 16, 0, 0}, {INTEGER, 32, 0, 0},    {INTEGER, 64, 0, 0},    {INTEGER, 8, 1, 0},
        {INTEGER, 16, 1, 0}, {INTEGER, 32, 1, 0},    {INTEGER, 64, 1, 0},    {JSON, 0, 0, 0},
        {BSON, 0, 0, 0},     {INTERVAL, 0, 0, 0}};

    if (n->told || converted < 0 || (uint64_t)converted >= STK_COUNT(of))
        return;
    n->logical = of[converted].logical;
    n->bits = of[converted].bits;
    n->is_signed = of[converted].is_signed;
    n->unit = of[converted].unit;
    n->utc = true;
}

static void read_node(stk__thrift *t, node *n)
{
    stk__thrift_field f = {0};

    *n = (node){.type = -1};
    while (stk__thrift_next(t, &f)) {
        if (f.id == 1)
            n->type = stk__thrift_int(t, &f);
        else if (f.id == 2)
            n->length = stk__thrift_int(t, &f);
        else if (f.id == 3)
            n->repetition = stk__thrift_int(t, &f);
        else if (f.id == 4)
            n->name = stk__thrift_binary(t, &f);
        else if (f.id == 5)
            n->children = stk__thrift_int(t, &f);
        else if (f.id == 6)
            set_converted(n, stk__thrift_int(t, &f));
        else if (f.id == 7 && !n->told)
            n->scale = stk__thrift_int(t, &f);
        else if (f.id == 8 && !n->told)
            n->precision = stk__thrift_int(t, &f);
        else if (f.id == 10 && stk__thrift_struct(t, &f))
            read_logical(t, n);
        else
            stk__thrift_skip(t, &f);
    }
}

/* ---- Types ---- */

static stk_dtype integer_of(const node *n)
{
    static const stk_dtype types[2][4] = {{STK_UINT8, STK_UINT16, STK_UINT32, STK_UINT64},
                                          {STK_INT8, STK_INT16, STK_INT32, STK_INT64}};
    const int64_t bits = n->logical == INTEGER && n->bits ? n->bits : 0;
    const bool sign = n->logical != INTEGER || n->is_signed;

    if (n->type == STK__PARQUET_INT64)
        return types[sign][3];
    return types[sign][bits == 8 ? 0 : bits == 16 ? 1 : 2];
}

static void set_integer(const node *n, stk__parquet_column *c)
{
    c->column.dtype = integer_of(n);
    const stk_dtype d = c->column.dtype;
    c->leaf.item = n->type == STK__PARQUET_INT64       ? 8
                   : d == STK_INT8 || d == STK_UINT8   ? 1
                   : d == STK_INT16 || d == STK_UINT16 ? 2
                                                       : 4;
    c->leaf.as = c->leaf.item < 4 ? STK__PARQUET_AS_NARROW : STK__PARQUET_AS_STORED;
    c->bound = n->logical == INTEGER && !n->is_signed ? 'u' : 'i';
}

static void set_fixed(const node *n, stk__parquet_column *c)
{
    c->leaf.length = (uint32_t)n->length;
    if (n->logical == FLOAT16 && n->length == 2) {
        c->column.dtype = STK_FLOAT16;
        c->leaf.item = 2;
        return;
    }
    c->column.dtype = STK_UINT8;
    c->column.width = (uint32_t)n->length;
    c->column.list = true;
}

static bool is_decimal(const node *n)
{
    return n->logical == DECIMAL && n->scale >= 0 && n->scale <= SCALE_MOST &&
           (n->type == STK__PARQUET_INT32 || n->type == STK__PARQUET_INT64 ||
            n->type == STK__PARQUET_BYTE_ARRAY || n->type == STK__PARQUET_FIXED);
}

static void set_type(const node *n, stk__parquet_column *c)
{
    c->column.kind = STK__COLUMN_VALUES;
    c->column.width = 1;
    c->leaf.type = (uint32_t)n->type & 7;
    if (is_decimal(n)) {
        c->leaf.as = STK__PARQUET_AS_DECIMAL;
        c->leaf.item = 8;
        c->leaf.scale = (uint32_t)n->scale & 127;
        c->leaf.length = (uint32_t)n->length;
        c->column.dtype = STK_FLOAT64;
        return;
    }
    switch (n->type) {
    case STK__PARQUET_BOOLEAN:
        c->column.dtype = STK_BOOL;
        c->leaf.as = STK__PARQUET_AS_WHOLE;
        c->leaf.item = 1;
        break;
    case STK__PARQUET_INT32:
    case STK__PARQUET_INT64:
        set_integer(n, c);
        break;
    case STK__PARQUET_INT96:
        c->column.dtype = STK_INT64;
        c->leaf.as = STK__PARQUET_AS_TIME;
        c->leaf.item = 8;
        break;
    case STK__PARQUET_FLOAT:
    case STK__PARQUET_DOUBLE:
        c->column.dtype = n->type == STK__PARQUET_FLOAT ? STK_FLOAT32 : STK_FLOAT64;
        c->leaf.item = n->type == STK__PARQUET_FLOAT ? 4 : 8;
        c->bound = 'f';
        break;
    case STK__PARQUET_FIXED:
        set_fixed(n, c);
        break;
    default:
        c->column.kind = STK__COLUMN_BYTES;
        c->column.dtype = STK_UINT8;
        c->column.text = n->logical == TEXT || n->logical == ENUM || n->logical == JSON;
    }
}

/* What is said of a type that its dtype does not say. */
static void write_note(const node *n, char *out, size_t size)
{
    static const char *const names[] = {[ENUM] = "enum",         [DATE] = "date: days since 1970",
                                        [JSON] = "json",         [BSON] = "bson",
                                        [UUID] = "uuid",         [VARIANT] = "variant",
                                        [GEOMETRY] = "geometry", [GEOGRAPHY] = "geography",
                                        [INTERVAL] = "interval", [UNKNOWN] = "nulls alone"};
    const char *unit = n->unit == 'm' ? "ms" : n->unit == 'u' ? "us" : "ns";

    *out = '\0';
    if (n->logical == DECIMAL)
        snprintf(out, size, "decimal(%lld, %lld)", (long long)n->precision, (long long)n->scale);
    else if (n->logical == TIME)
        snprintf(out, size, "time[%s]", unit);
    else if (n->logical == TIMESTAMP)
        snprintf(out, size, "timestamp[%s%s]", unit, n->utc ? ", UTC" : "");
    else if (n->type == STK__PARQUET_INT96)
        snprintf(out, size, "timestamp[ns]");
    else if ((size_t)n->logical < STK_COUNT(names) && names[n->logical])
        snprintf(out, size, "%s", names[n->logical]);
}

/* ---- The tree ---- */

static bool fail(walk *w, const char *wrong)
{
    if (!w->wrong)
        w->wrong = wrong;
    return false;
}

static const char *keep(walk *w, const char *text)
{
    const size_t length = strlen(text) + 1;

    if (length > w->room - w->used) {
        fail(w, "its names are too long");
        return "";
    }
    char *at = memcpy(w->out->texts + w->used, text, length);
    w->used += length;
    return at;
}

static bool add_name(walk *w, const place *at, const node *n, place *out)
{
    const size_t before = strlen(at->name);

    *out = *at;
    if (memchr(n->name.data ? (const void *)n->name.data : "", '\0', n->name.length))
        return fail(w, "a name of it holds a zero byte");
    if (before + n->name.length + 2 > NAME_MOST)
        return fail(w, "a name of it is longer than 1000 bytes");
    if (before)
        out->name[before] = '.';
    if (n->name.length)
        memcpy(out->name + before + (before != 0), n->name.data, n->name.length);
    out->name[before + (before != 0) + n->name.length] = '\0';
    return true;
}

static void add_levels(const node *n, place *at)
{
    at->most = (uint8_t)(at->most + (n->repetition != REQUIRED));
    if (n->repetition == REPEATED) {
        if (!at->lists)
            at->repeated = at->most;
        at->lists++;
    } else if (n->repetition == OPTIONAL && !at->lists) {
        at->nullable = true;
    }
}

static void refuse(stk__parquet_column *c, const char *note)
{
    c->column.kind = STK__COLUMN_REFUSED;
    c->column.note = note;
    c->bound = 0;
}

/* The leaf where the walk is. `hidden`: another one stands for it. */
static bool add_leaf(walk *w, const place *at, const node *n, bool hidden, const char *refused)
{
    stk__parquet_column *c = &w->out->columns[w->out->count++];
    char note[64];

    *c = (stk__parquet_column){.number = hidden ? STK__PARQUET_NONE_NUMBER : 0};
    if (n->type < 0 || n->type >= STK__PARQUET_TYPES)
        return fail(w, "a column of it has a type that does not exist");
    if (n->type == STK__PARQUET_FIXED && (n->length <= 0 || n->length > FIXED_MOST))
        return fail(w, "a column of it has values of no width, or of more than 16 MiB");
    set_type(n, c);
    write_note(n, note, sizeof note);
    c->column.name = keep(w, at->name);
    c->column.note = *note ? keep(w, note) : NULL;
    c->column.nullable = at->nullable;
    c->leaf.most = at->most & 63u;
    c->leaf.repeated = at->repeated & 63u;
    c->column.holes = at->lists && at->most > at->repeated;
    if (refused)
        refuse(c, refused);
    else if (at->lists > 1)
        refuse(c, "a list of lists");
    else if (at->lists && c->column.kind == STK__COLUMN_BYTES)
        refuse(c, "a list of strings");
    else if (at->lists && c->column.width > 1)
        refuse(c, "a list of bytes of one width");
    else if (at->lists)
        c->column.kind = STK__COLUMN_LIST;
    if (at->lists)
        c->bound = 0; /* bounds are those of elements */
    return true;
}

static bool is_legacy(const node *list, const node *repeated)
{
    static const char tuple[] = "_tuple";
    const size_t n = list->name.length;

    if (repeated->children != 1)
        return true;
    if (repeated->name.length == 5 && !memcmp(repeated->name.data, "array", 5))
        return true;
    return repeated->name.length == n + sizeof tuple - 1 &&
           !memcmp(repeated->name.data, list->name.data, n) &&
           !memcmp(repeated->name.data + n, tuple, sizeof tuple - 1);
}

/* A node that is `named`, or is called as what it is in, as the inner groups of lists are. */
static bool visit(walk *w, const place *above, bool named, const char *refused, bool hidden);

static bool visit_children(walk *w, const place *at, int64_t children, const char *refused,
                           bool hidden)
{
    for (int64_t i = 0; i < children; i++)
        if (!visit(w, at, !refused, refused, hidden || (refused && i)))
            return false;
    return true;
}

/* The repeated node in a group that is a list, and its element. */
static bool visit_list(walk *w, const place *at, const node *list, const char *refused, bool hidden)
{
    const node *repeated = &w->nodes[w->at];
    place inside = *at;

    if (w->at == w->count || repeated->type >= 0 || repeated->repetition != REPEATED)
        return visit(w, at, false, refused, hidden);
    add_levels(repeated, &inside);
    inside.depth++;
    w->at++;
    if (is_legacy(list, repeated))
        return visit_children(w, &inside, repeated->children, refused, hidden);
    return visit(w, &inside, false, refused, hidden);
}

static bool visit(walk *w, const place *above, bool named, const char *refused, bool hidden)
{
    place at = *above;

    if (w->at == w->count || above->depth == DEPTH_MOST)
        return fail(w, w->at == w->count ? "it has fewer columns than it says"
                                         : "it is nested more than 32 deep");
    const node *n = &w->nodes[w->at++];
    if (n->repetition < REQUIRED || n->repetition > REPEATED)
        return fail(w, "a column of it is repeated in a way that is not known");
    if (named && !add_name(w, above, n, &at))
        return false;
    at.depth++;
    add_levels(n, &at);
    if (n->type >= 0)
        return add_leaf(w, &at, n, hidden, refused);
    if (n->children < 0 || n->children > w->count - w->at)
        return fail(w, "it has fewer columns than it says");
    if (!refused && (n->logical == MAP || n->logical == VARIANT)) {
        /* Its first leaf, which has its name, stands for all of it. */
        return visit_children(w, &at, n->children, n->logical == MAP ? "a map" : "a variant",
                              hidden);
    }
    if (n->logical == LIST && n->children == 1)
        return visit_list(w, &at, n, refused, hidden);
    return visit_children(w, &at, n->children, refused, hidden);
}

static bool visit_all(walk *w)
{
    const place root = {0};

    if (w->nodes[0].type >= 0 || w->nodes[0].children < 0)
        return fail(w, "its first element is not a group");
    w->at = 1;
    if (!visit_children(w, &root, w->nodes[0].children, NULL, false))
        return false;
    return w->at == w->count ? true : fail(w, "it has more columns than it says");
}

stk_status stk__parquet_schema_read(stk_context *ctx, stk__thrift list, stk__parquet_schema *out,
                                    const char **wrong)
{
    const stk__thrift_field field = {0, 9};
    stk__thrift_field of;
    stk_status status = STK_EFORMAT;

    *out = (stk__parquet_schema){.ctx = ctx};
    const uint64_t bytes = (uint64_t)(list.end - list.at);
    const uint32_t count = stk__thrift_list(&list, &field, &of);
    *wrong = "it is damaged";
    if (!count || count > NODES_MOST) {
        *wrong = count ? "it has more than 131072 elements" : "it is empty";
        return STK_EFORMAT;
    }
    /* A name of each leaf, which may have those of all groups around it, and a note. */
    const uint64_t room = STK_MIN(bytes * DEPTH_MOST, (uint64_t)count * NAME_MOST) + count * 64u;
    node *nodes = stk__calloc(ctx, count, sizeof *nodes);
    out->columns = stk__calloc(ctx, count, sizeof *out->columns);
    out->texts = stk__alloc(ctx, room);
    if (!nodes || !out->columns || !out->texts) {
        *wrong = "no memory for it";
        status = STK_ENOMEM;
        goto out;
    }
    for (uint32_t i = 0; i < count && !list.bad; i++)
        if (stk__thrift_struct(&list, &of))
            read_node(&list, &nodes[i]);
    if (!list.bad) {
        walk w = {.out = out, .nodes = nodes, .count = count, .room = room};
        status = visit_all(&w) && !w.wrong ? STK_OK : STK_EFORMAT;
        *wrong = w.wrong;
    }
out:
    stk__free(ctx, nodes);
    if (status != STK_OK)
        stk__parquet_schema_release(out);
    return status;
}

void stk__parquet_schema_release(stk__parquet_schema *schema)
{
    stk__free(schema->ctx, schema->columns);
    stk__free(schema->ctx, schema->texts);
    schema->columns = NULL;
    schema->texts = NULL;
}
