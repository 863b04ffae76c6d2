/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.csv: a line for each call, columns sorted by name, "step" always, empty where a line has
 * no value. Lines are appended; only a name that is new has the file written anew, under a
 * temporary name, so that the old one stays until the new one is safe.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoker/store.h>

#include "base/bytes.h"
#include "base/decimal.h"
#include "base/durable.h"
#include "base/files.h"
#include "base/url.h"
#include "train/loggers/loggers.h"
#include "train/loggers/run_folder.h"

#define WRITE_BYTES (64 * 1024)   /* lines are kept up to here */
#define READ_BYTES  (1024 * 1024) /* of one read of the file that is written anew */
#define MAX_LINE    (8 * 1024 * 1024)
#define MAX_COLUMNS 16384 /* they are kept sorted, each moved by those that come later */

typedef struct column {
    char *name;
    bool set; /* in the line that is being made */
    double value;
} column;

typedef struct csv_logger {
    stk_logger base;
    stk__run_folder run;
    stk_mirror *mirror; /* of the file, which another store may be to have */
    const char *path;   /* the mirror's */
    int fd;
    column *columns; /* sorted by name */
    size_t num_columns, column_room;
    bool stale;    /* there are columns that the header of the file lacks */
    uint64_t size; /* of the file: whole lines */
    stk__bytes lines, name;
} csv_logger;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for metrics.csv");
}

/* ---- Lines that are there ---- */

/* A file that is read line by line. */
typedef struct reader {
    int fd;
    bool ended;
    stk__bytes text; /* read and not yet taken, from `at` on */
    size_t at;
} reader;

/* End of the first line of `length` bytes, its '\n' included; 0: it is not all there. Line ends
 * within quotes do not count. */
static size_t line_length(const char *text, size_t length)
{
    bool quoted = false;

    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"')
            quoted = !quoted;
        else if (text[i] == '\n' && !quoted)
            return i + 1;
    }
    return 0;
}

/* The next whole line; *length 0 at the end. What follows the last '\n' is left out. */
static stk_status next_line(reader *r, const char *path, const char **line, size_t *length,
                            stk_error *err)
{
    for (;;) {
        *length = r->text.data ? line_length(r->text.data + r->at, r->text.length - r->at) : 0;
        if (*length > MAX_LINE || (!*length && r->text.length - r->at > MAX_LINE))
            return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                             "'%s' has a line of more than MAX_LINE, %d bytes; move it away, or "
                             "log to another version",
                             path, MAX_LINE);
        if (*length || r->ended)
            break;
        if (r->at)
            memmove(r->text.data, r->text.data + r->at, r->text.length - r->at);
        r->text.length -= r->at;
        r->at = 0;
        if (!stk__bytes_reserve(&r->text, READ_BYTES))
            return no_memory(err);
        ssize_t n = read(r->fd, r->text.data + r->text.length, READ_BYTES);
        if (n < 0 && errno != EINTR)
            return stk__durable_fail(err, "read", path, errno);
        r->ended = n == 0;
        r->text.length += n > 0 ? (size_t)n : 0;
    }
    *line = r->text.data + r->at;
    r->at += *length;
    return STK_OK;
}

/* Take a cell from a line that ends with '\n': *cell is its text as written, quotes included.
 * False after the last. */
static bool next_cell(const char **at, const char *end, const char **cell, size_t *length)
{
    bool quoted = false;

    if (*at >= end)
        return false;
    *cell = *at;
    const char *c = *at;
    for (; c < end && (quoted || (*c != ',' && *c != '\n')); c++)
        if (*c == '"')
            quoted = !quoted;
    *length = (size_t)(c - *cell);
    if (*length && (*cell)[*length - 1] == '\r' && (c == end || *c == '\n'))
        (*length)--;
    *at = c + 1;
    /* A comma at the end is followed by one more, empty cell: the '\n' alone. */
    return true;
}

/* ---- Columns ---- */

static bool find_column(const csv_logger *csv, const char *name, size_t *at)
{
    size_t low = 0, high = csv->num_columns;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, csv->columns[middle].name);
        if (order == 0) {
            *at = middle;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    *at = low;
    return false;
}

/* Add a column at its place. */
static stk_status add_column(csv_logger *csv, const char *name, size_t at, stk_error *err)
{
    stk_context *ctx = csv->base.context;

    if (csv->num_columns == MAX_COLUMNS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                         "'%s' would have more than MAX_COLUMNS, %d; log fewer names", csv->path,
                         MAX_COLUMNS);
    if (csv->num_columns == csv->column_room) {
        size_t room = csv->column_room ? 2 * csv->column_room : 32;
        column *grown = stk__realloc(ctx, csv->columns, room * sizeof *grown);
        if (!grown)
            return no_memory(err);
        csv->columns = grown;
        csv->column_room = room;
    }
    char *copy = stk__strdup(ctx, name);
    if (!copy)
        return no_memory(err);
    memmove(csv->columns + at + 1, csv->columns + at, (csv->num_columns - at) * sizeof(column));
    csv->columns[at] = (column){.name = copy};
    csv->num_columns++;
    csv->stale = true;
    return STK_OK;
}

/* A name as a cell. */
static bool put_name(stk__bytes *to, const char *name)
{
    if (!strpbrk(name, ",\"\r\n"))
        return stk__bytes_text(to, name);
    bool good = stk__bytes_text(to, "\"");
    for (; *name && good; name++)
        good = (*name != '"' || stk__bytes_text(to, "\"")) && stk__bytes_put(to, name, 1);
    return good && stk__bytes_text(to, "\"");
}

static bool put_header(const csv_logger *csv, stk__bytes *to)
{
    bool good = true;

    for (size_t i = 0; i < csv->num_columns && good; i++)
        good = (i == 0 || stk__bytes_text(to, ",")) && put_name(to, csv->columns[i].name);
    return good && stk__bytes_text(to, "\n");
}

/* Take the names of a header line as columns. `places` (may be NULL) gets the column of each cell,
 * which is there already then. */
static stk_status read_header(csv_logger *csv, const char *line, size_t length, size_t *places,
                              size_t max_places, size_t *num_cells, stk_error *err)
{
    stk__bytes name = {.ctx = csv->base.context};
    const char *at = line, *end = line + length, *cell;
    stk_status status = STK_OK;
    size_t cell_length, place = 0, n = 0;

    while (status == STK_OK && next_cell(&at, end, &cell, &cell_length)) {
        name.length = 0;
        bool good = true;
        for (size_t i = 0; i < cell_length && good; i++) {
            if (cell[i] != '"')
                good = stk__bytes_put(&name, cell + i, 1);
            else if (i > 0 && i + 1 < cell_length && cell[i + 1] == '"')
                good = stk__bytes_put(&name, cell + i++, 1);
        }
        good = good && stk__bytes_put(&name, "", 1);
        if (!good)
            status = no_memory(err);
        else if (!find_column(csv, name.data, &place) && !places)
            status = add_column(csv, name.data, place, err);
        if (places && n < max_places)
            places[n] = place;
        n++;
    }
    *num_cells = n;
    stk__bytes_release(&name);
    return status;
}

/* ---- Writing ---- */

/* Append the lines that are kept. A write that fails leaves no part of a line. */
static stk_status write_lines(csv_logger *csv, stk_error *err)
{
    size_t length = csv->lines.length;

    if (length == 0)
        return STK_OK;
    if (stk__bytes_write(&csv->lines, csv->fd) < 0) {
        int error = errno;
        if (ftruncate(csv->fd, (off_t)csv->size) < 0)
            stk__message(csv->base.context, STK_MESSAGE_WARNING, "'%s' ends within a line",
                         csv->path);
        return stk__durable_fail(err, "write", csv->path, error);
    }
    csv->size += length;
    return STK_OK;
}

/* Take the file for this process: lines of two would be lost in each other's. What cannot lock is
 * trusted. */
static stk_status take_file(csv_logger *csv, stk_error *err)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(csv->fd, F_SETLK, &all) == 0 || (errno != EAGAIN && errno != EACCES))
        return STK_OK;
    return stk__fail_at(err, STK_EBUSY, STK_STAGE_TRAIN, csv->path, STK_NO_OFFSET,
                        "another training writes '%.300s'; wait for its end, or give this one "
                        "another version",
                        csv->path);
}

static stk_status open_file(csv_logger *csv, stk_error *err)
{
    struct stat st;

    do {
        if (csv->fd >= 0)
            close(csv->fd);
        csv->fd = open(csv->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (csv->fd < 0)
            return stk__durable_fail(err, "write", csv->path, errno);
        STK_TRY(take_file(csv, err));
        if (fstat(csv->fd, &st) < 0)
            return stk__durable_fail(err, "write", csv->path, errno);
        /* Its owner has replaced it meanwhile. */
    } while (st.st_nlink == 0);
    csv->size = (uint64_t)st.st_size;
    return STK_OK;
}

/* One old line in the new order: `cells` has room for one text for each column. */
static bool copy_line(const csv_logger *csv, const char *line, size_t length, const size_t *places,
                      size_t num_places, const char **cells, size_t *lengths, stk__bytes *to)
{
    const char *at = line, *cell;
    size_t cell_length;
    bool good = true;

    memset(cells, 0, csv->num_columns * sizeof *cells);
    for (size_t i = 0; i < num_places && next_cell(&at, line + length, &cell, &cell_length); i++) {
        cells[places[i]] = cell;
        lengths[places[i]] = cell_length;
    }
    for (size_t i = 0; i < csv->num_columns && good; i++)
        good = (i == 0 || stk__bytes_text(to, ",")) &&
               (!cells[i] || stk__bytes_put(to, cells[i], lengths[i]));
    return good && stk__bytes_text(to, "\n");
}

/* Write all lines of `r` to `file` under the columns as they are now. */
static stk_status copy_lines(csv_logger *csv, reader *r, stk_put *file, stk_error *err)
{
    stk_context *ctx = csv->base.context;
    stk__bytes out = {.ctx = ctx};
    size_t n = csv->num_columns, num_places = 0, length;
    const char *line;
    stk_status status = STK_OK;

    size_t *places = stk__calloc(ctx, n, sizeof *places);
    const char **cells = stk__calloc(ctx, n, sizeof *cells);
    size_t *lengths = stk__calloc(ctx, n, sizeof *lengths);
    if (!places || !cells || !lengths || !put_header(csv, &out))
        status = no_memory(err);
    if (status == STK_OK)
        status = next_line(r, csv->path, &line, &length, err);
    if (status == STK_OK && length)
        status = read_header(csv, line, length, places, n, &num_places, err);
    while (status == STK_OK) {
        status = next_line(r, csv->path, &line, &length, err);
        if (status != STK_OK || length == 0)
            break;
        if (!copy_line(csv, line, length, places, STK_MIN(num_places, n), cells, lengths, &out))
            status = no_memory(err);
        if (status == STK_OK && out.length >= WRITE_BYTES) {
            status = file->ops->write(file, out.data, out.length, err);
            out.length = 0;
        }
    }
    if (status == STK_OK)
        status = file->ops->write(file, out.data, out.length, err);
    stk__bytes_release(&out);
    stk__free(ctx, lengths);
    stk__free(ctx, cells);
    stk__free(ctx, places);
    return status;
}

/* After columns were added: the file under its new header. */
static stk_status rewrite(csv_logger *csv, stk_error *err)
{
    reader r = {.fd = csv->fd, .text = {.ctx = csv->base.context}};
    stk_put *file;

    if (lseek(csv->fd, 0, SEEK_SET) < 0)
        return stk__durable_fail(err, "read", csv->path, errno);
    STK_TRY(stk_put_open(csv->base.context, csv->path, NULL, &file, err));
    stk_status status = copy_lines(csv, &r, file, err);
    if (status == STK_OK)
        status = file->ops->commit(file, err);
    else
        file->ops->abandon(file);
    stk__bytes_release(&r.text);
    csv->stale &= status != STK_OK;
    return status == STK_OK ? open_file(csv, err) : status;
}

/* Have columns for all these names and for the step. */
static stk_status know_names(csv_logger *csv, const stk_metric *metrics, size_t n, stk_error *err)
{
    size_t at;

    for (size_t i = 0; i <= n; i++) {
        csv->name.length = 0;
        if (i < n && (!stk__bytes_text(&csv->name, csv->run.prefix) ||
                      !stk__bytes_put(&csv->name, metrics[i].name, strlen(metrics[i].name) + 1)))
            return no_memory(err);
        const char *name = i < n ? csv->name.data : "step";
        if (find_column(csv, name, &at))
            continue;
        if (!csv->stale)
            STK_TRY(write_lines(csv, err));
        STK_TRY(add_column(csv, name, at, err));
    }
    if (!csv->stale)
        return STK_OK;
    if (csv->size > 0)
        return rewrite(csv, err);
    if (!put_header(csv, &csv->lines))
        return no_memory(err);
    csv->stale = false;
    return STK_OK;
}

static void set_value(csv_logger *csv, const char *name, double value)
{
    size_t at;

    if (!find_column(csv, name, &at))
        return;
    csv->columns[at].set = true;
    csv->columns[at].value = value;
}

/* The line of the values that are set. */
static bool put_line(csv_logger *csv, int64_t step)
{
    char text[STK__DECIMAL];
    bool good = true;

    for (size_t i = 0; i < csv->num_columns && good; i++) {
        column *c = &csv->columns[i];
        text[0] = 0;
        if (strcmp(c->name, "step") == 0)
            snprintf(text, sizeof text, "%" PRId64, step);
        else if (c->set)
            stk__decimal(c->value, text);
        c->set = false;
        good = (i == 0 || stk__bytes_text(&csv->lines, ",")) && stk__bytes_text(&csv->lines, text);
    }
    return good && stk__bytes_text(&csv->lines, "\n");
}

/* ---- The logger ---- */

static void csv_free(csv_logger *csv)
{
    stk_context *ctx = csv->base.context;
    stk_error err;

    if (csv->fd >= 0)
        close(csv->fd);
    for (size_t i = 0; i < csv->num_columns; i++)
        stk__free(ctx, csv->columns[i].name);
    stk__free(ctx, csv->columns);
    if (stk_mirror_close(&csv->mirror, &err) != STK_OK)
        stk__message(ctx, STK_MESSAGE_ERROR, "%s", err.text);
    stk__bytes_release(&csv->lines);
    stk__bytes_release(&csv->name);
    stk__run_folder_release(ctx, &csv->run);
    stk__free(ctx, csv);
}

/* Whether the columns stand in the file as they do here. */
static stk_status compare_header(csv_logger *csv, const char *line, size_t length, bool *same,
                                 stk_error *err)
{
    stk__bytes header = {.ctx = csv->base.context};

    if (!put_header(csv, &header)) {
        stk__bytes_release(&header);
        return no_memory(err);
    }
    *same = header.length == length && memcmp(header.data, line, length) == 0;
    stk__bytes_release(&header);
    return STK_OK;
}

/* Go on with a file that is there: its columns, and no part of a line at its end. */
static stk_status continue_file(csv_logger *csv, stk_error *err)
{
    reader r = {.fd = csv->fd, .text = {.ctx = csv->base.context}};
    uint64_t whole = 0;
    bool same = true;
    size_t length, n;
    const char *line;

    stk_status status = next_line(&r, csv->path, &line, &length, err);
    if (status == STK_OK && length)
        status = read_header(csv, line, length, NULL, 0, &n, err);
    if (status == STK_OK && length)
        status = compare_header(csv, line, length, &same, err);
    while (status == STK_OK && length) {
        whole += length;
        status = next_line(&r, csv->path, &line, &length, err);
    }
    stk__bytes_release(&r.text);
    csv->stale = !same;
    if (status == STK_OK && whole < csv->size) {
        if (ftruncate(csv->fd, (off_t)whole) < 0)
            return stk__durable_fail(err, "write", csv->path, errno);
        csv->size = whole;
    }
    return status == STK_OK && !same ? rewrite(csv, err) : status;
}

static stk_status csv_open(stk_context *ctx, const void *options, const char *root,
                           stk_logger **out, stk_error *err)
{
    *out = NULL;
    csv_logger *csv = stk__calloc(ctx, 1, sizeof *csv);
    if (!csv)
        return no_memory(err);
    csv->base.ops = &stk__logger_csv;
    csv->base.context = ctx;
    csv->lines.ctx = csv->name.ctx = ctx;
    csv->fd = -1;
    stk_status status = stk__run_folder_open(ctx, options, root, &csv->run, &csv->base, err);
    if (status == STK_OK) {
        char *url = stk__url_below(ctx, csv->run.log_dir, "metrics.csv");
        status = url ? stk_mirror_open(ctx, url, &csv->mirror, err) : no_memory(err);
        stk__free(ctx, url);
    }
    if (status == STK_OK) {
        csv->path = stk_mirror_path(csv->mirror);
        status = open_file(csv, err);
    }
    if (status == STK_OK && csv->size > 0)
        status = continue_file(csv, err);
    if (status != STK_OK) {
        csv_free(csv);
        return status;
    }
    *out = &csv->base;
    return STK_OK;
}

static void csv_close(stk_logger *logger)
{
    csv_logger *csv = (csv_logger *)logger;
    stk_error err;

    if (write_lines(csv, &err) != STK_OK)
        stk__message(logger->context, STK_MESSAGE_ERROR, "%s", err.text);
    csv_free(csv);
}

static stk_status csv_log_metrics(stk_logger *logger, const stk_metric *metrics, size_t n,
                                  int64_t step, double wall_time, stk_error *err)
{
    csv_logger *csv = (csv_logger *)logger;

    STK_TRY(know_names(csv, metrics, n, err));
    for (size_t i = 0; i < n; i++) {
        if (!csv->run.prefix[0]) {
            set_value(csv, metrics[i].name, metrics[i].value);
            continue;
        }
        csv->name.length = 0;
        if (!stk__bytes_text(&csv->name, csv->run.prefix) ||
            !stk__bytes_put(&csv->name, metrics[i].name, strlen(metrics[i].name) + 1))
            return no_memory(err);
        set_value(csv, csv->name.data, metrics[i].value);
    }
    size_t before = csv->lines.length;
    if (!put_line(csv, step)) {
        csv->lines.length = before;
        return no_memory(err);
    }
    return csv->lines.length >= WRITE_BYTES ? write_lines(csv, err) : STK_OK;
}

static stk_status csv_log_hyperparams(stk_logger *logger, const stk_hparam *params, size_t n,
                                      stk_error *err)
{
    return stk__hparams_write(logger->context, logger->log_dir, params, n, err);
}

static stk_status csv_flush(stk_logger *logger, stk_error *err)
{
    csv_logger *csv = (csv_logger *)logger;

    STK_TRY(write_lines(csv, err));
    STK_TRY(stk_mirror_flush(csv->mirror, false, err));
    /* Some disks say only now that they are full. */
    return stk__sync(csv->fd) == 0 ? STK_OK
                                   : stk__durable_fail(err, "make durable", csv->path, errno);
}

static stk_status csv_finalize(stk_logger *logger, stk_error *err)
{
    STK_TRY(csv_flush(logger, err));
    stk__log_put(logger->context, ((csv_logger *)logger)->mirror);
    return STK_OK;
}

static const stk_option_table table = {
    .name = "csv",
    .doc = "Metrics as lines of metrics.csv.",
    .struct_size = sizeof(stk__logger_options),
    .options = stk__logger_option_list,
    .count = STK__LOGGER_OPTION_COUNT,
};

const stk_logger_ops stk__logger_csv = {
    .struct_size = sizeof(stk_logger_ops),
    .name = "csv",
    .doc = "Metrics as lines of metrics.csv.",
    .options = &table,
    .open = csv_open,
    .close = csv_close,
    .log_metrics = csv_log_metrics,
    .log_hyperparams = csv_log_hyperparams,
    .flush = csv_flush,
    .finalize = csv_finalize,
};
