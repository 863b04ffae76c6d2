/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List files: a line "path,label" for each sample. CSV [RFC 4180: quotes, doubled quotes in them,
 * line ends in them], values parted by tabs, and .txt, where the first line of values shows what
 * parts them: a tab, a comma or the last space.
 */
#include "dataset/images.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define SHOWN    60                  /* bytes of a value in a message */
#define LIST_MAX (UINT64_C(4) << 30) /* bytes of a list file */

/* Where the reading is. */
typedef struct reader {
    const char *name; /* of the list */
    const char *at, *end;
    uint64_t line;  /* of `at` */
    uint64_t begin; /* line on which the record began */
    char separator; /* 0: not known yet */
    stk_error *err;
} reader;

/* A value between separators, as it is written but for its quotes. */
typedef struct value {
    char *text;
    size_t length;
} value;

/* What the list becomes. */
typedef struct filling {
    stk__images_table *table;
    stk__images_labels *labels;
    uint64_t *lines;
    char *names; /* of the labels, as they are in the list */
    uint64_t names_used;
    bool numbers; /* all labels are numbers so far */
    bool absolute;
} filling;

static stk_status fail_line(const reader *r, stk_status status, const char *what, value v,
                            const char *remedy)
{
    return stk__fail_at(r->err, status, STK_STAGE_DATASET, r->name, STK_NO_OFFSET,
                        "images: %.200s:%llu: %s '%.*s%s'; %s", r->name,
                        (unsigned long long)r->begin, what, (int)STK_MIN(v.length, SHOWN), v.text,
                        v.length > SHOWN ? "..." : "", remedy);
}

static stk_status no_memory(stk_error *err, const char *name)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, name, STK_NO_OFFSET,
                        "images: no memory for the files of the list %.200s", name);
}

/* ---- Lines and values ------------------------------------------------------------------------ */

static const char *line_end(const reader *r)
{
    const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));

    return end ? end : r->end;
}

static void skip_line(reader *r)
{
    const char *end = line_end(r);

    r->line += end < r->end;
    r->at = end < r->end ? end + 1 : end;
}

/* Go to the next line that is neither blank nor a remark. */
static bool find_record(reader *r)
{
    while (r->at < r->end) {
        const char *p = r->at, *end = line_end(r);
        while (p < end && isspace((unsigned char)*p))
            p++;
        if (p < end && *r->at != '#') {
            r->begin = r->line;
            return true;
        }
        skip_line(r);
    }
    return false;
}

/* The text of a value in quotes, written over them; `r` moves behind the closing one. */
static stk_status read_quoted(reader *r, value *out)
{
    char *to = (char *)r->at;

    *out = (value){.text = to};
    for (const char *p = r->at + 1; p < r->end; p++) {
        if (*p == '"' && (p + 1 == r->end || p[1] != '"')) {
            r->at = p + 1;
            out->length = (size_t)(to - out->text);
            return STK_OK;
        }
        p += *p == '"';
        r->line += *p == '\n';
        *to++ = *p;
    }
    out->length = (size_t)(to - out->text);
    return fail_line(r, STK_EFORMAT, "a quote is not closed before the end of the file, at", *out,
                     "close it, or double the quotes that belong to a value");
}

/* Read up to a separator (true in *more) or the end of the line, which is taken. */
static stk_status read_value(reader *r, value *out, bool *more)
{
    bool quoted = r->separator == ',' && r->at < r->end && *r->at == '"';

    if (quoted)
        STK_TRY(read_quoted(r, out));
    const char *end = line_end(r), *stop = memchr(r->at, r->separator, (size_t)(end - r->at));
    *more = stop != NULL;
    if (!stop)
        stop = end > r->at && end[-1] == '\r' ? end - 1 : end;
    if (!quoted)
        *out = (value){(char *)r->at, (size_t)(stop - r->at)};
    else if (stop > r->at)
        return fail_line(r, STK_EFORMAT, "something follows the closing quote of", *out,
                         "double the quotes that belong to a value");
    if (*more)
        r->at = stop + 1;
    else
        skip_line(r);
    return STK_OK;
}

/* "path label" of a line: the label is what follows the last space. */
static void read_spaced(reader *r, value *path, value *label)
{
    char *begin = (char *)r->at, *end = (char *)line_end(r), *cut;

    while (end > begin && isspace((unsigned char)end[-1]))
        end--;
    for (cut = end; cut > begin && cut[-1] != ' ';)
        cut--;
    *label = (value){cut, (size_t)(end - cut)};
    while (cut > begin && cut[-1] == ' ')
        cut--;
    *path = (value){begin, (size_t)(cut - begin)};
    skip_line(r);
}

static void trim(value *v)
{
    while (v->length && isspace((unsigned char)v->text[v->length - 1]))
        v->length--;
    while (v->length && isspace((unsigned char)v->text[0])) {
        v->text++;
        v->length--;
    }
}

static stk_status read_record(reader *r, value *path, value *label)
{
    value rest;
    bool more = false;

    *label = (value){.text = (char *)r->at};
    if (r->separator == ' ') {
        read_spaced(r, path, label);
    } else {
        STK_TRY(read_value(r, path, &more));
        if (more)
            STK_TRY(read_value(r, label, &more));
        if (more) {
            STK_TRY(read_value(r, &rest, &more));
            return fail_line(r, STK_EFORMAT, "a third value begins with", rest,
                             "keep the two columns path and label, and put a path that holds the "
                             "separator in quotes (CSV)");
        }
    }
    trim(label);
    if (!label->length)
        return fail_line(r, STK_EFORMAT, "there is no label behind", *path,
                         "write path and label, parted by a comma (.csv) or a tab (.tsv)");
    return STK_OK;
}

/* What parts the values of a .txt: by its first record. */
static char guess_separator(const reader *r)
{
    size_t length = (size_t)(line_end(r) - r->at);

    return memchr(r->at, '\t', length) ? '\t' : memchr(r->at, ',', length) ? ',' : ' ';
}

static bool is_one_of(value v, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == v.length && strncasecmp(*words, v.text, v.length) == 0)
            return true;
    return false;
}

static bool is_header(value path, value label)
{
    static const char *const paths[] = {"path",      "image",    "file",       "filename",
                                        "file_name", "filepath", "image_path", NULL};
    static const char *const labels[] = {"label", "class", "target", "class_name", NULL};

    return is_one_of(path, paths) && is_one_of(label, labels);
}

/* ---- Filling the table ----------------------------------------------------------------------- */

static bool is_number(value v)
{
    size_t i = v.length > 1 && (v.text[0] == '-' || v.text[0] == '+');

    for (; i < v.length; i++)
        if (v.text[i] < '0' || v.text[i] > '9')
            return false;
    return true;
}

/* Make the path a key of the store, or say why it is none. */
static stk_status check_path(const reader *r, filling *f, value *path)
{
    bool absolute = path->length && path->text[0] == '/';

    while (path->length && (path->text[0] == '/' ||
                            (path->length > 1 && path->text[0] == '.' && path->text[1] == '/'))) {
        path->text++;
        path->length--;
    }
    if (f->table->num_files == 0)
        f->absolute = absolute;
    if (!path->length)
        return fail_line(r, STK_EFORMAT, "there is no path:", *path, "write path and label");
    if (absolute != f->absolute)
        return fail_line(r, STK_EFORMAT,
                         absolute ? "after relative paths comes the absolute"
                                  : "after absolute paths comes the relative",
                         *path, "write all paths in one way");
    if (path->length > STK__IMAGES_MAX_PATH)
        return fail_line(r, STK_ELIMIT, "too long is the path", *path, "shorten it");
    return STK_OK;
}

/* The text of the label is kept, and where it begins is in the place of its number. */
static stk_status add_record(const reader *r, filling *f, value path, value label)
{
    stk__images_table *t = f->table;

    STK_TRY(check_path(r, f, &path));
    if (t->num_files == STK__IMAGES_MAX_FILES)
        return fail_line(r, STK_ELIMIT, "too many files, beginning with", path, "split the list");
    t->files[t->num_files] = (stk__images_file){.name = t->text_bytes};
    memcpy(t->text + t->text_bytes, path.text, path.length);
    t->text[t->text_bytes + path.length] = 0;
    if (stk__key_check(t->text + t->text_bytes, NULL) != STK_OK)
        return fail_line(r, STK_EINVAL, "'..' leaves the folder of the list in", path,
                         "name the folder that holds all pictures with root=DIR, and write the "
                         "paths from there on");
    t->text_bytes += path.length + 1;
    f->lines[t->num_files] = r->begin;
    f->labels->labels[t->num_files++] = (int64_t)f->names_used;
    memcpy(f->names + f->names_used, label.text, label.length);
    f->names[f->names_used + label.length] = 0;
    f->names_used += label.length + 1;
    f->numbers &= is_number(label);
    return STK_OK;
}

static stk_status read_records(reader *r, filling *f)
{
    bool first = true;

    while (find_record(r)) {
        value path, label;
        if (!r->separator)
            r->separator = guess_separator(r);
        STK_TRY(read_record(r, &path, &label));
        if (!first || !is_header(path, label))
            STK_TRY(add_record(r, f, path, label));
        first = false;
    }
    if (f->table->num_files)
        return STK_OK;
    return stk__fail_at(r->err, STK_EFORMAT, STK_STAGE_DATASET, r->name, STK_NO_OFFSET,
                        "images: %.200s lists no pictures; write lines of path and label", r->name);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static stk_status read_numbers(reader *r, filling *f)
{
    stk__images_labels *l = f->labels;

    for (uint64_t i = 0; i < f->table->num_files; i++) {
        char *text = f->names + l->labels[i];
        errno = 0;
        long long number = strtoll(text, NULL, 10);
        r->begin = f->lines[i];
        if (errno)
            return fail_line(r, STK_ELIMIT,
                             "a label is int64, and this is beyond:", (value){text, strlen(text)},
                             "number the classes from 0 on");
        l->labels[i] = number;
    }
    return STK_OK;
}

/* Number the names in their order. */
static stk_status number_names(reader *r, filling *f)
{
    stk__images_labels *l = f->labels;
    const uint64_t n = f->table->num_files;
    stk_context *ctx = f->table->context;
    uint32_t number = 0, *renumber = NULL;
    stk_status status = STK_OK;

    for (uint64_t i = 0; i < n && status == STK_OK; i++) {
        char *name = f->names + l->labels[i];
        status = stk__names_add(&l->names, name, strlen(name), &number);
        l->labels[i] = number;
        r->begin = f->lines[i];
        if (status == STK_ELIMIT)
            return fail_line(r, STK_ELIMIT, "too many names of labels, with",
                             (value){name, strlen(name)}, "number the classes");
    }
    if (status == STK_OK)
        status = stk__names_sort(&l->names, &renumber);
    for (uint64_t i = 0; i < n && status == STK_OK; i++)
        l->labels[i] = renumber[l->labels[i]];
    stk__free(ctx, renumber);
    return status == STK_OK ? STK_OK : no_memory(r->err, r->name);
}

/* ---- The list -------------------------------------------------------------------------------- */

void stk__images_release_labels(stk_context *ctx, stk__images_labels *labels)
{
    stk__free(ctx, labels->labels);
    stk__free(ctx, labels->values);
    stk__free(ctx, labels->marks);
    stk__free(ctx, labels->starts);
    stk__names_release(&labels->names);
    *labels = (stk__images_labels){.names.context = ctx};
}

/* Room for as many records as there are lines, and texts as long as the list. */
static stk_status make_room(filling *f, const reader *r, uint64_t records, uint64_t length)
{
    stk__images_table *t = f->table;
    const uint64_t each = sizeof *t->files + sizeof *f->labels->labels + sizeof *f->lines +
                          sizeof(const char *) +
                          2 * sizeof(uint64_t); /* of a name and its number */
    uint64_t bytes, left = stk__memory_left(t->context);

    /* Three texts: paths, labels, and the names of the classes. */
    if (!stk__mul_size(records, each, &bytes) || !stk__add_size(bytes, 3 * length, &bytes) ||
        bytes > left)
        return stk__fail_at(r->err, STK_ELIMIT, STK_STAGE_DATASET, r->name, STK_NO_OFFSET,
                            "images: the %llu lines of %.200s need %llu bytes and %llu of "
                            "memory_limit are left; split the list, or raise memory_limit",
                            (unsigned long long)records, r->name, (unsigned long long)bytes,
                            (unsigned long long)left);
    t->folders = stk__calloc(t->context, 1, sizeof *t->folders);
    t->text = stk__alloc(t->context, length + 2);
    t->files = stk__calloc(t->context, records, sizeof *t->files);
    f->labels->labels = stk__calloc(t->context, records, sizeof *f->labels->labels);
    f->names = stk__alloc(t->context, length + 1);
    f->lines = stk__calloc(t->context, records, sizeof *f->lines);
    if (t->folders && t->text && t->files && f->labels->labels && f->names && f->lines)
        return STK_OK;
    return no_memory(r->err, r->name);
}

/* A zero is no text: UTF-16, or no list at all. */
static stk_status check_text(reader *r, uint64_t *records)
{
    *records = 1;
    for (const char *p = r->at; p < r->end; p++) {
        *records += *p == '\n';
        if (!*p)
            return stk__fail_at(r->err, STK_EFORMAT, STK_STAGE_DATASET, r->name,
                                (uint64_t)(p - r->at),
                                "images: %.200s:%llu: a zero byte; save the list as UTF-8", r->name,
                                (unsigned long long)*records);
    }
    return STK_OK;
}

stk_status stk__images_parse_list(stk_context *ctx, const char *name, char *data, uint64_t length,
                                  stk__images_table *out, stk__images_labels *labels,
                                  uint64_t **lines, bool *absolute, stk_error *err)
{
    reader r = {.name = name, .at = data, .end = data + length, .line = 1, .err = err};
    filling f = {.table = out, .labels = labels, .numbers = true};
    size_t end = strlen(name);
    uint64_t records = 0;

    *out = (stk__images_table){.context = ctx};
    *labels = (stk__images_labels){.names.context = ctx};
    *lines = NULL;
    if (length >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        r.at += 3;
    if (end >= 4 && strcasecmp(name + end - 4, ".csv") == 0)
        r.separator = ',';
    else if (end >= 4 && strcasecmp(name + end - 4, ".tsv") == 0)
        r.separator = '\t';
    stk_status status = check_text(&r, &records);
    if (status == STK_OK)
        status = make_room(&f, &r, records, length);
    if (status == STK_OK) {
        /* One folder, and in it names that are paths. */
        out->num_folders = 1;
        out->text[0] = 0;
        out->text_bytes = 1;
        status = read_records(&r, &f);
    }
    if (status == STK_OK)
        status = f.numbers ? read_numbers(&r, &f) : number_names(&r, &f);
    stk__free(ctx, f.names);
    if (status != STK_OK) {
        stk__free(ctx, f.lines);
        stk__images_release_labels(ctx, labels);
        stk__images_release(out);
        return status;
    }
    out->folders[0].count = out->num_files;
    *lines = f.lines;
    *absolute = f.absolute;
    return STK_OK;
}

stk_status stk__images_read_list(stk_store *store, const char *name, char **data, uint64_t *length,
                                 stk_error *err)
{
    stk_context *ctx = store->context;
    stk_object_info info = {.struct_size = sizeof info};

    STK_TRY(stk_store_stat(store, name, NULL, &info, err));
    uint64_t limit = STK_MIN(LIST_MAX, stk__memory_left(ctx) / 4);
    if (info.size > limit)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, name, STK_NO_OFFSET,
                            "images: the list %.200s has %llu bytes and %llu are the most that "
                            "are read, a quarter of what is left of memory_limit; split it",
                            name, (unsigned long long)info.size, (unsigned long long)limit);
    *length = info.size;
    *data = stk__alloc_buffer(ctx, info.size);
    if (!*data)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "images: no memory to open %.200s",
                         name);
    return stk_store_read(store, name, 0, info.size, *data, err);
}
