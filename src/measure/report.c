/* SPDX-License-Identifier: Apache-2.0 */
/* Logs -> runs: reading files, and the figures once they are read. */
#include "measure/read.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoker/store.h>

#include "base/options.h"
#include "base/url.h"

#define PIECE          (UINT64_C(256) << 10)
#define FOREIGN_BYTES  (UINT64_C(4) << 20) /* without an event, from which on a file is no log */
#define PROCESSES_MOST 256 /* runs that are looked back for the process of an event */

/* ---- The report ----------------------------------------------------------------------------- */

static stk_status fail_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory to read the log");
}

stk_status stk_report_create(stk_context *context, stk_report **out, stk_error *err)
{
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk_report *report = stk__calloc(context, 1, sizeof *report);
    if (!report)
        return fail_memory(err);
    report->ctx = stk__context_ref(context);
    report->exact_left = STK__EXACT_MAX;
    report->series_left = STK__SERIES_ALL;
    report->curves_left = STK__CURVES_ALL;
    report->records_left = STK__RECORDED_ALL;
    report->bars.reach = -1;
    report->charts.ctx = context;
    atomic_init(&report->canceled, false);
    report->scanner.buffer = stk__alloc(context, STK__SCAN_ROOM);
    if (!report->scanner.buffer) {
        stk_report_destroy(&report);
        return fail_memory(err);
    }
    *out = report;
    return STK_OK;
}

void stk_report_destroy(stk_report **report_in_out)
{
    if (!report_in_out || !*report_in_out)
        return;
    stk_report *report = *report_in_out;
    stk_context *ctx = report->ctx;

    *report_in_out = NULL;
    if (stk__context_forked(ctx))
        return;
    for (uint64_t i = 0; i < report->num_runs; i++)
        stk__run_free(report, report->runs[i]);
    for (uint64_t i = 0; i < report->num_files; i++)
        stk__free(ctx, (char *)report->files[i].name);
    stk__comparison_destroy(ctx, report->comparison);
    stk__text_release(&report->charts);
    stk__free(ctx, report->runs);
    stk__free(ctx, report->files);
    stk__free(ctx, report->bars.bars);
    stk__free(ctx, report->grid.settings);
    stk__free(ctx, report->scanner.buffer);
    stk__free(ctx, report);
    stk__context_unref(ctx);
}

void stk_report_cancel(stk_report *report)
{
    atomic_store(&report->canceled, true);
}

uint64_t stk_report_files(const stk_report *report)
{
    return report->num_files;
}

const stk_report_file *stk_report_file_at(const stk_report *report, uint64_t i)
{
    return i < report->num_files ? &report->files[i] : NULL;
}

uint64_t stk_report_runs(const stk_report *report)
{
    return report->num_runs;
}

const stk_report_run *stk_report_run_at(const stk_report *report, uint64_t i)
{
    return i < report->num_runs ? &report->runs[i]->out : NULL;
}

const stk_report_bar *stk_report_bars(stk_report *report, uint64_t *n)
{
    stk__bars_finish(&report->bars, STK__BARS_KEPT);
    *n = report->bars.n;
    return report->bars.bars;
}

/* ---- Objects -------------------------------------------------------------------------------- */

static stk_status new_run(stk_report *report, const stk__log_line *line, stk__run **out)
{
    stk_report_file *file = &report->files[report->num_files - 1];

    *out = NULL;
    if (report->num_runs == STK__RUNS_MAX) {
        file->runs_left_out++;
        return STK_OK;
    }
    stk__run **runs = stk__grow(report->ctx, report->runs, &report->runs_room, report->num_runs + 1,
                                sizeof *runs);
    if (!runs)
        return STK_ENOMEM;
    report->runs = runs;
    stk_status status = stk__run_create(report, line, out);
    if (status != STK_OK) {
        stk__run_free(report, *out);
        *out = NULL;
        return status;
    }
    (*out)->number = (uint32_t)report->num_runs;
    (*out)->out.file = report->num_files - 1;
    report->runs[report->num_runs++] = *out;
    file->runs++;
    return STK_OK;
}

/* The run of an event: that of its process, or the one that began last. */
static stk__run *run_of(const stk_report *report, const stk__log_line *line)
{
    const stk_report_file *file = &report->files[report->num_files - 1];
    stk__run *last = report->last;
    uint64_t n = report->num_runs;

    if (!last || line->pid < 0 || last->out.pid < 0 || last->out.pid == line->pid)
        return last;
    for (uint64_t i = n; i > file->first_run && n - i < PROCESSES_MOST; i--)
        if (report->runs[i - 1]->out.pid == line->pid)
            return report->runs[i - 1];
    return last;
}

static stk_status take_object(stk_report *report)
{
    stk_report_file *file = &report->files[report->num_files - 1];
    stk__log_line line;

    if (!stk__line_of(&report->object, &line)) {
        file->foreign++;
        return STK_OK;
    }
    file->objects++;
    file->notebook_lost += !line.alone;
    bool start = strcmp(line.name, "run start") == 0;
    if (start || !report->last) {
        /* A log that lacks its beginning is a run, too; but not what follows the last that is kept.
         */
        if (!start && file->runs_left_out)
            return STK_OK;
        stk__run *ended = report->last;
        STK_TRY(new_run(report, &line, &report->last));
        if (ended && ended->out.ended && ended != report->last) {
            STK_TRY(stk__run_drain(report, ended, 0));
            stk__free(report->ctx, ended->heap);
            ended->heap = NULL;
        }
        if (!report->last)
            return STK_OK;
    }
    return stk__run_event(report, run_of(report, &line), &line);
}

static stk_status take_objects(stk_report *report, stk_error *err)
{
    while (stk__scanner_next(&report->scanner, &report->object)) {
        stk_status status = take_object(report);
        if (status != STK_OK)
            return fail_memory(err);
    }
    return STK_OK;
}

/* ---- Logs ----------------------------------------------------------------------------------- */

stk_status stk__report_begin(stk_report *report, const char *name, stk_error *err)
{
    STK_TRY(stk__context_check(report->ctx, err));
    if (report->reading)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "a log is being read: end it before the next");
    stk_report_file *files = stk__grow(report->ctx, report->files, &report->files_room,
                                       report->num_files + 1, sizeof *files);
    if (!files)
        return fail_memory(err);
    report->files = files;
    char *copy = stk__strdup(report->ctx, name);
    if (!copy)
        return fail_memory(err);
    report->files[report->num_files++] = (stk_report_file){
        .struct_size = sizeof(stk_report_file), .name = copy, .first_run = report->num_runs};
    report->scanner = (stk__scanner){.buffer = report->scanner.buffer, .fresh = true};
    report->last = NULL;
    report->grid.first = report->grid.n;
    report->reading = true;
    /* It is not of all runs any more. */
    stk__comparison_destroy(report->ctx, report->comparison);
    report->comparison = NULL;
    return STK_OK;
}

/* What a file that is no log seems to be. */
static stk_status fail_foreign(const stk_report *report, stk_error *err)
{
    const stk_report_file *file = &report->files[report->num_files - 1];
    const char *what = "it is no event log";

    if (file->bytes == 0)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_MEASURE, file->name, STK_NO_OFFSET,
                            "%s is empty; make a log with 'stoker bench --log FILE'", file->name);
    if (file->foreign)
        what = "its JSON objects have no \"event\"";
    else if (file->dropped_bytes == 0 && report->scanner.dropped_bytes == 0)
        what = "it holds blanks alone";
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_MEASURE, file->name, STK_NO_OFFSET,
                        "%s holds no event in its first %llu bytes: %s; give a log of 'stoker "
                        "bench --log FILE' or of the published Python benchmark",
                        file->name, (unsigned long long)file->bytes, what);
}

/* Bytes that are in the scanner's room. */
static stk_status take_bytes(stk_report *report, size_t n, stk_error *err)
{
    stk_report_file *file = &report->files[report->num_files - 1];

    report->scanner.end += n;
    file->bytes += n;
    STK_TRY(take_objects(report, err));
    return file->bytes > FOREIGN_BYTES && file->objects == 0 ? fail_foreign(report, err) : STK_OK;
}

stk_status stk__report_feed(stk_report *report, const void *bytes, size_t n, stk_error *err)
{
    STK_TRY(stk__context_check(report->ctx, err));
    const char *at = bytes;

    while (n) {
        size_t room;
        char *to = stk__scanner_room(&report->scanner, &room);
        size_t piece = STK_MIN(n, STK_MIN(room, PIECE));
        memcpy(to, at, piece);
        STK_TRY(take_bytes(report, piece, err));
        at += piece;
        n -= piece;
    }
    return STK_OK;
}

stk_status stk__report_end(stk_report *report, stk_error *err)
{
    STK_TRY(stk__context_check(report->ctx, err));
    stk_report_file *file = &report->files[report->num_files - 1];
    stk__scanner *s = &report->scanner;

    s->eof = true;
    STK_TRY(take_objects(report, err));
    file->dropped_bytes = s->dropped_bytes;
    file->dropped_pieces = s->dropped_pieces;
    file->truncated = s->truncated;
    report->reading = false;
    if (file->objects == 0)
        return fail_foreign(report, err);
    for (uint64_t i = file->first_run; i < report->num_runs; i++) {
        stk__run *run = report->runs[i];
        if (stk__run_drain(report, run, 0) != STK_OK)
            return fail_memory(err);
        stk__free(report->ctx, run->heap);
        run->heap = NULL;
        if (run->out.num_series && !run->series_out) {
            run->series_out =
                stk__calloc(report->ctx, run->out.num_series, sizeof *run->series_out);
            if (!run->series_out)
                return fail_memory(err);
        }
        if (stk__curves_show(report, run) != STK_OK)
            return fail_memory(err);
        stk__recorded_part(&run->records);
        stk__run_figures(report, run);
    }
    return STK_OK;
}

static stk_status fail_read(const char *path, int error, stk_error *err)
{
    const char *text = strerrordesc_np(error);
    char meant[STK__PATH_MEANT] = "";

    if (error == ENOENT)
        stk__nearest_path_said(path, meant);
    return stk__fail_at(err, error == EISDIR ? STK_EINVAL : stk__status_of_errno(error),
                        STK_STAGE_MEASURE, path, STK_NO_OFFSET, "could not read the log %s: %s%s",
                        path,
                        error == ENOENT   ? "there is no such file"
                        : error == EISDIR ? "it is a folder; give the path of a log in it"
                        : text            ? text
                                          : "reading failed",
                        meant);
}

/* The first bytes of formats that logs are packed in, or taken for. */
static const char *packed_as(const char *bytes, size_t n)
{
    if (n >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0)
        return "gzip; unpack it first: 'gunzip -k FILE'";
    if (n >= 4 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0)
        return "zstd; unpack it first: 'zstd -d FILE'";
    if (memchr(bytes, 0, n))
        return "a binary file; give a log of 'stoker bench --log FILE'";
    return NULL;
}

/* Where a log comes from: a file, or an object of a store. */
typedef struct source {
    const char *path;
    int fd;           /* -1: of the store */
    stk_store *store; /* NULL: of the file */
    char key[STK_MAX_OBJECT_KEY];
    uint64_t size, done; /* 0: a pipe */
} source;

/* Up to `room` bytes into `to`; *n = 0 at the end. */
static stk_status read_some(stk_report *report, source *from, char *to, size_t room, size_t *n,
                            stk_error *err)
{
    *n = 0;
    if (from->store) {
        const uint64_t piece = STK_MIN(from->size - from->done, room);
        if (piece)
            STK_TRY(stk_store_read(from->store, from->key, from->done, piece, to, err));
        *n = (size_t)piece;
        return STK_OK;
    }
    for (;;) {
        const ssize_t got = read(from->fd, to, room);
        if (got >= 0) {
            *n = (size_t)got;
            return STK_OK;
        }
        if (errno != EINTR || atomic_load(&report->canceled))
            return fail_read(from->path, errno, err);
    }
}

static stk_status read_all(stk_report *report, source *from, stk_error *err)
{
    for (;;) {
        size_t room, n;
        char *to = stk__scanner_room(&report->scanner, &room);
        const stk_status status = read_some(report, from, to, STK_MIN(room, PIECE), &n, err);
        if (atomic_load(&report->canceled))
            return stk__fail(err, STK_ECANCELED, STK_STAGE_MEASURE, "reading %s was cancelled",
                             from->path);
        STK_TRY(status);
        if (n == 0)
            break;
        const char *packed = from->done ? NULL : packed_as(to, STK_MIN(n, 4096));
        if (packed)
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_MEASURE, from->path, 0,
                                "%s is no event log but %s", from->path, packed);
        STK_TRY(take_bytes(report, n, err));
        from->done += (uint64_t)n;
        stk__progress(report->ctx, "reading", from->done, STK_MAX(from->size, from->done));
    }
    return stk__report_end(report, err);
}

static stk_status open_object(stk_report *report, source *from, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    STK_TRY(
        stk_store_open(report->ctx, from->path, &from->store, from->key, sizeof from->key, err));
    if (!from->key[0])
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_MEASURE, from->path, STK_NO_OFFSET,
            "could not read the log %s: no object has this name, or it is a folder; "
            "give the URL of a log",
            from->path);
    STK_TRY(stk_store_stat(from->store, from->key, NULL, &info, err));
    from->size = info.size;
    return STK_OK;
}

static stk_status open_file(source *from, bool input, stk_error *err)
{
    struct stat st;

    from->fd = input ? STDIN_FILENO : open(from->path, O_RDONLY | O_CLOEXEC);
    if (from->fd < 0)
        return fail_read(from->path, errno, err);
    posix_fadvise(from->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    from->size = fstat(from->fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    return STK_OK;
}

stk_status stk_report_read(stk_report *report, const char *path, stk_error *err)
{
    STK_TRY(stk__context_check(report->ctx, err));
    const bool input = strcmp(path, "-") == 0;
    source from = {.path = path, .fd = -1};

    stk_status status = stk__url_elsewhere(report->ctx, path) ? open_object(report, &from, err)
                                                              : open_file(&from, input, err);
    if (status == STK_OK)
        status = stk__report_begin(report, input ? "standard input" : path, err);
    if (status == STK_OK)
        status = read_all(report, &from, err);
    stk_store_close(&from.store);
    if (from.fd >= 0 && !input)
        close(from.fd);
    return status;
}
