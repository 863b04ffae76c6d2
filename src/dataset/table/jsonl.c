/* SPDX-License-Identifier: Apache-2.0 */
/* jsonl: tables of lines of JSON. */
#include "dataset/table/jsonl.h"

#include "dataset/table/formats.h"
#include "dataset/table/listed.h"

#define AT(member) offsetof(stk__jsonl_options, member)

static const stk_option options[] = {
    STK__TABLE_OPTIONS,
    {.name = "types",
     .type = STK_OPTION_STRING,
     .offset = AT(types),
     .metavar = "COLUMN:TYPE,...",
     .doc =
         "Types of columns, or of the values of their lists, in place of what is learnt: bool, "
         "int8 to uint64, float32, float64, text, bytes; int32[] and the like are lists. Also of "
         "keys that only later lines, or other files, have."},
    {.name = "learn",
     .type = STK_OPTION_UINT,
     .offset = AT(learn),
     .initial = "1000",
     .min = 1,
     .max = 1e6,
     .metavar = "N",
     .doc = "Lines of each file that its columns are learnt from, within its first MiB; types are "
            "those of the first file."},
};
static const stk_option_table table = {"jsonl", "Tables of lines of JSON.",
                                       sizeof(stk__jsonl_options), options, STK_COUNT(options)};

/* ---- Lines ----------------------------------------------------------------------------------- */

const char *stk__jsonl_line(const char *at, const char *end, const char **next)
{
    const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

    *next = stop ? stop + 1 : end;
    stop = stop ? stop : end;
    return stop > at && stop[-1] == '\r' ? stop - 1 : stop;
}

bool stk__jsonl_is_blank(const char *at, const char *end)
{
    stk__json_cursor c = {at, end, false};

    stk__json_skip_blanks(&c);
    return c.at == end;
}

typedef struct walk {
    stk__jsonl_member_fn *each;
    void *user;
    char name[STK__JSONL_MOST_NAME];
    size_t length;
} walk;

/* Behind the name of the object that it is in. */
static bool put_key(walk *w, const stk__json_member *member)
{
    const char *at = member->key, *end = member->key + member->key_length;
    char bytes[4];

    if (w->length)
        w->name[w->length++] = '.';
    while (at < end) {
        size_t n = 1;
        bytes[0] = *at;
        if (*at == '\\') {
            at++;
            n = stk__utf8_put(stk__json_unescape(&at, end), bytes);
        } else {
            at++;
        }
        if (w->length + n + 2 > sizeof w->name)
            return false;
        memcpy(w->name + w->length, bytes, n);
        w->length += n;
    }
    return true;
}

/* The members behind an opening brace. Nesting is bounded by the scan of the line. */
static stk_status walk_object(walk *w, stk__json_cursor *c)
{
    stk__json_member member = {0};
    const size_t before = w->length;
    bool closed = false;

    for (bool first = true;; first = false) {
        if (!stk__json_next(c, true, first, &member, &closed))
            return STK_EFORMAT;
        if (closed)
            return STK_OK;
        if (!put_key(w, &member))
            return STK_ELIMIT;
        stk_status status;
        if (member.kind == STK__JSON_OBJECT) {
            stk__json_cursor inner = {member.text + 1, member.text + member.length, false};
            status = walk_object(w, &inner);
        } else {
            status = w->each(w->user, w->name, w->length, &member);
        }
        STK_TRY(status);
        w->length = before;
    }
}

stk_status stk__jsonl_walk(const char *at, const char *end, stk__jsonl_member_fn *each, void *user)
{
    stk__json_cursor c = {at, end, false};
    walk w;

    w.each = each;
    w.user = user;
    w.length = 0;
    stk__json_skip_blanks(&c);
    if (c.at == end || *c.at != '{')
        return STK_EFORMAT;
    c.at++;
    STK_TRY(walk_object(&w, &c));
    return stk__jsonl_is_blank(c.at, end) ? STK_OK : STK_EFORMAT;
}

/* ---- The kind -------------------------------------------------------------------------------- */

static int recognise(stk_context *ctx, const char *url)
{
    (void)ctx;
    return stk__table_recognise(&stk__table_jsonl, url);
}

static stk_status open_table(stk_context *ctx, const char *url, const void *values,
                             stk_dataset **out, stk_error *err);

const stk_dataset_ops stk__dataset_jsonl = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "jsonl",
    .doc = "Tables of lines of JSON: one file, several, or a folder.",
    .options = &table,
    .open = open_table,
    .recognise = recognise,
    .close = stk__table_close,
    .locate = stk__table_locate,
    .object = stk__table_object,
    .prepare = stk__table_prepare,
    .prepare_rows = stk__table_prepare_rows,
    .describe = stk__table_describe,
    .decode = stk__table_decode,
};

static const char *const reasons[] = {
    "is no integer of its type; give the column another one by types=COLUMN:TYPE",
    "is no number; give the column another type by types=COLUMN:TYPE",
    "is neither true nor false; give the column another type by types=COLUMN:TYPE",
    "is no text; leave the column out by columns=",
    "is no list of numbers of its type; give them another one by types=COLUMN:TYPE",
    "is not UTF-8, or half of a surrogate pair; read it as it is by types=COLUMN:bytes",
};
static const char *const suffixes[] = {".jsonl", ".ndjson", NULL};

const stk__table_format stk__table_jsonl = {.ops = &stk__dataset_jsonl,
                                            .suffixes = suffixes,
                                            .scan = stk__jsonl_scan,
                                            .decode = stk__jsonl_decode,
                                            .reasons = reasons,
                                            .num_reasons = STK_COUNT(reasons)};

/* A key that types= names and no line has is a mistake. */
static stk_status check_met(const stk__jsonl_asked *asked, stk_error *err)
{
    stk__table_typed typed;
    size_t i = 0;

    for (const char *at = asked->options.types; at && *at; i++) {
        STK_TRY(stk__table_next_type(&at, true, &typed, err));
        if (!atomic_load(&asked->met[i]))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "types", STK_NO_OFFSET,
                                "types: no line has a key '%.*s'; name it as the lines do, or "
                                "leave it out",
                                (int)STK_MIN(typed.length, 100), typed.name);
    }
    return STK_OK;
}

static stk_status open_table(stk_context *ctx, const char *url, const void *values,
                             stk_dataset **out, stk_error *err)
{
    stk__jsonl_asked asked = {.options = *(const stk__jsonl_options *)values};
    stk__table_typed typed;
    size_t n = 0;

    for (const char *at = asked.options.types; at && *at; n++)
        STK_TRY(stk__table_next_type(&at, true, &typed, err));
    asked.met = n ? stk__calloc(ctx, n, sizeof *asked.met) : NULL;
    if (n && !asked.met)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "jsonl: no memory for types");
    stk_status status = stk__table_open(ctx, url, &stk__table_jsonl, &asked, out, err);
    if (status == STK_OK && (status = check_met(&asked, err)) != STK_OK) {
        stk__table_close(*out);
        *out = NULL;
    }
    stk__free(ctx, asked.met);
    return status;
}
