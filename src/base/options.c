/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of options: finding, setting, describing. */
#include "base/options.h"

#include <stdio.h>

/* ---- Messages -------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `p`; 0 when it is broken or a control character. */
static size_t utf8_length(const unsigned char *p)
{
    size_t length = *p < 0x80                 ? 1
                    : *p >= 0xc2 && *p < 0xe0 ? 2
                    : *p >= 0xe0 && *p < 0xf0 ? 3
                    : *p >= 0xf0 && *p < 0xf5 ? 4
                                              : 0;

    if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0))
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

void stk__option_show(char shown[STK_OPTION_SHOWN], const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t used = 0;

    while (*p) {
        size_t length = utf8_length(p), room = STK_MAX(length, 1);
        if (used + room + 4 > STK_OPTION_SHOWN) {
            memcpy(shown + used, "...", 3);
            used += 3;
            break;
        }
        if (length)
            memcpy(shown + used, p, length);
        else
            shown[used] = '?';
        used += room;
        p += room;
    }
    shown[used] = 0;
}

/* Whether two characters are the same to one who mistypes: in any case, and every separator. */
static bool alike(char a, char b)
{
    return stk__option_same(a == '.' ? "_" : &a, 1, b == '.' ? "_" : &b, 1);
}

/* Edit distance with exchanges of neighbours [optimal string alignment]. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][STK_OPTION_NAME], n = strlen(a), m = strlen(b);

    if (n >= STK_OPTION_NAME || m >= STK_OPTION_NAME)
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *last = rows[(i - 1) % 3], *older = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = last[j - 1] + !alike(a[i - 1], b[j - 1]);
            now[j] = STK_MIN(STK_MIN(last[j], now[j - 1]) + 1, change);
            if (i > 1 && j > 1 && alike(a[i - 1], b[j - 2]) && alike(a[i - 2], b[j - 1]))
                now[j] = STK_MIN(now[j], older[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

void stk__nearest_init(stk__nearest *nearest, const char *wanted)
{
    *nearest = (stk__nearest){.wanted = wanted, .distance = SIZE_MAX};
}

/* Found as `name` where what is wanted is near `spelt`. */
static void offer_as(stk__nearest *nearest, const char *spelt, const char *name)
{
    size_t wanted = strlen(nearest->wanted), length = strlen(spelt);
    size_t distance = edit_distance(nearest->wanted, spelt);
    /* Of a short word one letter is wrong, or anything is like it. */
    size_t most = wanted < 4 ? 1 : STK_MAX((size_t)2, wanted / 3);

    /* One that only lacks its end is near at any length: "--prefetch". */
    if (wanted >= 3 && length < STK_OPTION_NAME && wanted < length &&
        stk__option_same(nearest->wanted, wanted, spelt, wanted))
        distance = STK_MIN(distance, most);
    if (distance >= nearest->distance || distance > most)
        return;
    nearest->distance = distance;
    snprintf(nearest->found, sizeof nearest->found, "%s", name);
}

void stk__nearest_offer(stk__nearest *nearest, const char *name)
{
    offer_as(nearest, name, name);
}

void stk__nearest_offer_class(stk__nearest *nearest, const char *name)
{
    char words[STK_OPTION_NAME];

    stk__nearest_offer(nearest, name);
    for (size_t i = 0; stk__class_words(name, &i, words, sizeof words);)
        offer_as(nearest, words, name);
}

void stk__nearest_offer_words(stk__nearest *nearest, const char *words)
{
    char name[STK_OPTION_NAME];
    const char *word = "";
    size_t length;

    for (size_t i = 0; (length = stk__option_choice(words, i, &word)) > 0; i++)
        if (length < sizeof name) {
            memcpy(name, word, length);
            name[length] = 0;
            stk__nearest_offer_class(nearest, name);
        }
}

const char *stk__nearest_said(const stk__nearest *nearest, char text[STK_OPTION_MEANT])
{
    text[0] = 0;
    if (*nearest->found)
        snprintf(text, STK_OPTION_MEANT, "; did you mean '%s'?", nearest->found);
    return text;
}

const char *stk_nearest_name(const char *wanted, const char *const *names, size_t count)
{
    const char *found = NULL;
    stk__nearest nearest;

    if (!wanted || !names)
        return NULL;
    stk__nearest_init(&nearest, wanted);
    for (size_t i = 0; i < count; i++) {
        size_t before = nearest.distance;
        stk__nearest_offer(&nearest, names[i]);
        if (nearest.distance < before)
            found = names[i];
    }
    return found;
}

/* "--like-this", where the name was asked for as a flag. */
static void as_flag(char name[STK_OPTION_NAME])
{
    size_t length = STK_MIN(strlen(name), (size_t)STK_OPTION_NAME - 3);

    memmove(name + 2, name, length);
    name[0] = name[1] = '-';
    name[length + 2] = 0;
    for (char *p = name; *p; p++)
        if (*p == '_')
            *p = '-';
}

#define UNKNOWN "unknown option '"
#define MEANT   "'; did you mean '"

stk_status stk__option_unknown(const stk_option_table *table, const char *name, stk_error *err)
{
    bool flag = strncmp(name, "--", 2) == 0;
    char shown[STK_OPTION_SHOWN];
    stk__nearest nearest;

    stk__nearest_init(&nearest, flag ? name + 2 : name);
    for (size_t i = 0; i < table->count; i++)
        stk__nearest_offer(&nearest, table->options[i].name);
    if (flag && *nearest.found)
        as_flag(nearest.found);
    stk__option_show(shown, name);
    if (*nearest.found)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, name, STK_NO_OFFSET,
                            "%s%s" UNKNOWN "%s" MEANT "%s'?", table->name, *table->name ? ": " : "",
                            shown, nearest.found);
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, name, STK_NO_OFFSET,
                        "%s%s" UNKNOWN "%s', and none is like it", table->name,
                        *table->name ? ": " : "", shown);
}

void stk__option_unknown_nearer(const stk_option_table *table, stk_error *err)
{
    char name[STK_ERROR_KEY], meant[STK_OPTION_NAME] = "";
    stk__nearest nearest;

    if (!table || !err || err->status != STK_EINVAL || err->stage != STK_STAGE_OPTIONS ||
        !strstr(err->text, UNKNOWN))
        return;
    const char *told = strstr(err->text, MEANT);
    if (told)
        snprintf(meant, sizeof meant, "%.*s", (int)strcspn(told + strlen(MEANT), "'"),
                 told + strlen(MEANT));
    snprintf(name, sizeof name, "%s", err->key);
    stk__nearest_init(&nearest, name);
    if (*meant)
        stk__nearest_offer(&nearest, meant);
    size_t before = nearest.distance;
    for (size_t i = 0; i < table->count; i++)
        stk__nearest_offer(&nearest, table->options[i].name);
    if (nearest.distance < before)
        (void)stk__option_unknown(table, name, err);
}

stk_status stk__option_no_word(const char *where, const char *what, const char *word, size_t length,
                               const char *words, stk_error *err)
{
    char name[STK_OPTION_NAME], shown[STK_OPTION_SHOWN], meant[STK_OPTION_MEANT], list[400];
    const stk_option option = {.type = STK_OPTION_ENUM, .choices = words};
    const char *dot = strrchr(where, '.');
    stk__nearest nearest;

    snprintf(name, sizeof name, "%.*s", (int)STK_MIN(length, sizeof name - 1), word);
    stk__option_show(shown, name);
    stk__option_allowed(&option, false, list, sizeof list);
    stk__nearest_init(&nearest, name);
    stk__nearest_offer_words(&nearest, words);
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, dot ? dot + 1 : where, STK_NO_OFFSET,
                        "%s: there is no %s '%s'; it takes %s%s", where, what, shown, list,
                        stk__nearest_said(&nearest, meant));
}

static stk_status fail_value(const stk_option_table *table, const stk_option *option,
                             const char *text, stk__parsed why, stk_error *err)
{
    char shown[STK_OPTION_SHOWN], allowed[400], meant[STK_OPTION_MEANT];
    stk__nearest nearest;

    if (option->type == STK_OPTION_SECRET)
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_OPTIONS, option->name, STK_NO_OFFSET, "%s%s%s: %s",
            table->name, *table->name ? "." : "", option->name,
            why == STK__PARSE_RANGE
                ? "the environment variable that it names is not set, or is empty"
                : "a secret is not written down: give env:NAME, the name of an environment "
                  "variable that holds it");
    stk__option_show(shown, text);
    stk__option_allowed(option, why == STK__PARSE_RANGE, allowed, sizeof allowed);
    stk__nearest_init(&nearest, text);
    if (option->choices)
        stk__nearest_offer_words(&nearest, option->choices);
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option->name, STK_NO_OFFSET,
                        "%s%s%s: '%s' is %s; it takes %s%s", table->name, *table->name ? "." : "",
                        option->name, shown,
                        why == STK__PARSE_RANGE ? "out of range" : "not allowed", allowed,
                        stk__nearest_said(&nearest, meant));
}

/* ---- Tables ---------------------------------------------------------------------------------- */

const stk_option *stk__option_find(const stk_option_table *table, const char *name, size_t length)
{
    for (size_t i = 0; i < table->count; i++) {
        const char *known = table->options[i].name;
        if (stk__option_same(name, length, known, strlen(known)))
            return &table->options[i];
    }
    return NULL;
}

const stk_option *stk_options_find(const stk_option_table *table, const char *name)
{
    return stk__option_find(table, name, strlen(name));
}

/* Bytes of the member of an option. */
static size_t option_size(stk_option_type type)
{
    switch (type) {
    case STK_OPTION_BOOL:
        return sizeof(bool);
    case STK_OPTION_INT:
    case STK_OPTION_UINT:
    case STK_OPTION_SIZE:
        return sizeof(uint64_t);
    case STK_OPTION_DOUBLE:
    case STK_OPTION_RATE:
    case STK_OPTION_DURATION:
        return sizeof(double);
    case STK_OPTION_ENUM:
        return sizeof(int32_t);
    case STK_OPTION_STRING:
    case STK_OPTION_SECRET:
        return sizeof(const char *);
    }
    return 0;
}

bool stk__option_in(const stk_option *option, size_t size)
{
    return option->offset + option_size(option->type) <= size;
}

void stk_options_init(const stk_option_table *table, void *options, size_t size)
{
    const uint32_t given = (uint32_t)size;

    memset(options, 0, size);
    memcpy(options, &given, sizeof given);
    /* A default that its own parser refuses leaves zero; stk__options_check() finds it in the
     * tests. */
    for (size_t i = 0; i < table->count; i++)
        if (table->options[i].initial && stk__option_in(&table->options[i], size))
            stk__option_parse(&table->options[i], options, table->options[i].initial);
}

stk_status stk_options_set(const stk_option_table *table, void *options, const char *name,
                           const char *text, stk_error *err)
{
    const stk_option *option = stk_options_find(table, name);

    if (!option)
        return stk__option_unknown(table, name, err);
    uint32_t size;
    memcpy(&size, options, sizeof size);
    if (!stk__option_in(option, size))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option->name, STK_NO_OFFSET,
                            "%s%s%s is not known to this program, which was built for an earlier "
                            "version of Stoker, or did not call stk_options_init()",
                            table->name, *table->name ? "." : "", option->name);
    stk__parsed parsed = stk__option_parse(option, options, text);
    if (parsed != STK__PARSED)
        return fail_value(table, option, text, parsed, err);
    return STK_OK;
}

static bool is_name(const char *name)
{
    return name && *name && strlen(name) < STK_OPTION_NAME / 2 &&
           !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")];
}

static bool is_member(const stk_option_table *table, const stk_option *option)
{
    size_t size = option_size(option->type);

    return size && option->offset >= sizeof(uint32_t) && option->offset <= table->struct_size &&
           table->struct_size - option->offset >= size && option->offset % size == 0;
}

/* An ENUM needs choices; some others may know "auto"; the rest has none. */
static bool has_its_choices(const stk_option *option)
{
    if (option->type == STK_OPTION_ENUM)
        return option->choices && *option->choices;
    return !option->choices ||
           (stk__option_type_auto(option->type) && strcmp(option->choices, "auto") == 0);
}

/* What two options of a table have in common that they must not, or NULL. */
static const char *clash_of(const stk_option *a, const stk_option *b)
{
    if (strcmp(a->name, b->name) == 0)
        return "its name is there twice";
    if (a->offset < b->offset + option_size(b->type) &&
        b->offset < a->offset + option_size(a->type))
        return "its member is another option's too";
    return NULL;
}

/* What is wrong with one option of a table, or NULL. */
static const char *defect_of(const stk_option_table *table, size_t which)
{
    const stk_option *option = &table->options[which];
    const char *clash = NULL;

    if (!is_name(option->name))
        return "its name is not snake_case";
    if (!is_member(table, option))
        return "its member is not in the struct";
    if (!has_its_choices(option))
        return "it has choices it cannot have, or none";
    if (option->type == STK_OPTION_ENUM && !option->initial)
        return "it has no default";
    if (option->type == STK_OPTION_SECRET && option->initial)
        return "its default would be a secret that is written down";
    if (!(option->min <= option->max))
        return "its range is empty";
    if (!option->doc || !*option->doc)
        return "it has no doc";
    for (size_t i = 0; i < which && !clash; i++)
        clash = clash_of(option, &table->options[i]);
    return clash;
}

stk_status stk__options_check(const stk_option_table *table, stk_error *err)
{
    if (!table->name || !table->doc || table->struct_size < sizeof(uint32_t) ||
        table->struct_size > 4096)
        return stk__fail(err, STK_EINTERNAL, STK_STAGE_OPTIONS, "table %s: no name, doc or size",
                         table->name ? table->name : "");
    /* Aligned as any member wants it. */
    uint64_t scratch[4096 / sizeof(uint64_t)] = {0};
    for (size_t i = 0; i < table->count; i++) {
        const stk_option *option = &table->options[i];
        const char *defect = defect_of(table, i);
        if (!defect && option->initial &&
            stk__option_parse(option, scratch, option->initial) != STK__PARSED)
            defect = "its default is not allowed";
        if (defect)
            return stk__fail(err, STK_EINTERNAL, STK_STAGE_OPTIONS, "table %s, option %zu (%s): %s",
                             table->name, i, option->name ? option->name : "", defect);
    }
    return STK_OK;
}

/* ---- Help ------------------------------------------------------------------------------------ */

#define HELP_COLUMN 32 /* where the docs begin, at most */
#define HELP_WIDTH  100

static const char *metavar_of(const stk_option *option)
{
    if (option->metavar)
        return option->metavar;
    switch (option->type) {
    case STK_OPTION_BOOL:
        return "";
    case STK_OPTION_INT:
    case STK_OPTION_UINT:
        return "N";
    case STK_OPTION_DOUBLE:
        return "X";
    case STK_OPTION_SIZE:
        return "SIZE";
    case STK_OPTION_RATE:
        return "RATE";
    case STK_OPTION_DURATION:
        return "TIME";
    case STK_OPTION_ENUM:
        return "WORD";
    case STK_OPTION_SECRET:
        return "env:NAME";
    case STK_OPTION_STRING:
        break;
    }
    return "TEXT";
}

/* "--[no-]drop-last", "--num-workers N". Returns the length. */
static size_t format_flag(const stk_option *option, char text[2 * STK_OPTION_NAME])
{
    bool truth = option->type == STK_OPTION_BOOL;
    int length = snprintf(text, 2 * STK_OPTION_NAME, "--%s%s%s%.60s", truth ? "[no-]" : "",
                          option->name, truth ? "" : " ", truth ? "" : metavar_of(option));

    for (char *p = text; *p && *p != ' '; p++)
        if (*p == '_')
            *p = '-';
    return length < 0 ? 0 : (size_t)length;
}

/* "(default: auto; auto or 0..1024)"; empty when there is nothing to say. */
static void format_notes(const stk_option *option, char *text, size_t size)
{
    char allowed[400] = "";

    *text = 0;
    if (option->type == STK_OPTION_ENUM || option->min != option->max || option->choices)
        stk__option_allowed(option, true, allowed, sizeof allowed);
    bool initial = option->initial && *option->initial;
    if (initial || *allowed)
        snprintf(text, size, "(%s%s%s%s)", initial ? "default: " : "",
                 initial ? option->initial : "", initial && *allowed ? "; " : "", allowed);
}

/* Add words from column `column` on, breaking lines before HELP_WIDTH. `*at` is the column
 * reached. */
static void add_words(stk__text *out, const char *text, size_t column, size_t *at)
{
    while (*text) {
        size_t length = strcspn(text, " ");
        if (*at > column && *at + 1 + length > HELP_WIDTH) {
            stk__text_add(out, "\n%*s", (int)column, "");
            *at = column;
        } else if (*at > column) {
            stk__text_put(out, " ", 1);
            (*at)++;
        }
        stk__text_put(out, text, length);
        *at += length;
        text += length;
        text += strspn(text, " ");
    }
}

int stk_options_help(const stk_option_table *table, char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};
    char flag[2 * STK_OPTION_NAME], notes[640];
    size_t column = 0;

    if (size)
        *text = '\0';
    for (size_t i = 0; i < table->count; i++)
        column = STK_MAX(column, format_flag(&table->options[i], flag) + 5);
    column = STK_MIN(column, (size_t)HELP_COLUMN);
    for (size_t i = 0; i < table->count; i++) {
        const stk_option *option = &table->options[i];
        size_t length = format_flag(option, flag) + 2, at = column;
        stk__text_add(&out, "  %s", flag);
        if (length + 3 > column)
            stk__text_add(&out, "\n%*s", (int)column, "");
        else
            stk__text_add(&out, "%*s", (int)(column - length), "");
        format_notes(option, notes, sizeof notes);
        add_words(&out, option->doc, column, &at);
        add_words(&out, notes, column, &at);
        stk__text_put(&out, "\n", 1);
    }
    return (int)out.length;
}
