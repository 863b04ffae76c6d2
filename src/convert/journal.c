/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/lines.h"
#include "base/url.h"
#include "dataset/dataset.h"

#define FIRST_LINE  "stoker-convert 1"
#define MAX_WORD    (3 * STK_MAX_OBJECT_KEY)
#define MAX_LINE    (MAX_WORD + 256)
#define VALUE_SHOWN 64
#define READ_BYTES  (64u << 10)
#define FILE_FLAGS  (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

/* ---- Words --------------------------------------------------------------------------------- */

void stk__journal_word(const char *name, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        if (c > 0x20 && c != 0x7f && c != '%') {
            *out++ = (char)c;
            continue;
        }
        *out++ = '%';
        *out++ = digits[c >> 4];
        *out++ = digits[c & 15];
    }
    *out = 0;
}

/* Undo it in place; false where it is no such word, or too long. */
static bool unword(char *word)
{
    return *word && stk__url_decode(word, strlen(word), word, STK_MAX_OBJECT_KEY, NULL) == STK_OK;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static stk_status fail_file(const stk__journal *journal, const char *verb, stk_error *err)
{
    const stk_status status = stk__durable_fail(err, verb, stk_mirror_path(journal->mirror), errno);

    if (err)
        err->stage = STK_STAGE_CONVERT;
    return status;
}

/* Add a line, its checksum and its end. */
static stk_status add_line(stk__journal *journal, const char *line, stk_error *err)
{
    const size_t length = strlen(line);
    char end[16];

    snprintf(end, sizeof end, " %08x\n", (unsigned)stk__fingerprint(0, line, length));
    if (stk__bytes_put(&journal->lines, line, length) && stk__bytes_text(&journal->lines, end))
        return STK_OK;
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the journal");
}

stk_status stk__journal_done(stk__journal *journal, const char *key, const stk__done *done,
                             stk_error *err)
{
    char line[MAX_LINE];

    int n = snprintf(line, sizeof line,
                     "done %u %u %" PRIu64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " ",
                     done->kind, done->renamed, done->source_size, done->mtime_ns, done->size,
                     done->sse, done->samples);
    stk__journal_word(key, line + n);
    return add_line(journal, line, err);
}

stk_status stk__journal_old(stk__journal *journal, const char *name, uint64_t size, stk_error *err)
{
    char line[MAX_LINE];

    int n = snprintf(line, sizeof line, "old %" PRIu64 " ", size);
    stk__journal_word(name, line + n);
    return add_line(journal, line, err);
}

stk_status stk__journal_object(stk__journal *journal, uint64_t node, uint64_t number, uint64_t size,
                               stk_error *err)
{
    char line[96];

    snprintf(line, sizeof line, "object %" PRIu64 " %" PRIu64 " %" PRIu64, node, number, size);
    return add_line(journal, line, err);
}

stk_status stk__journal_end(stk__journal *journal, stk_error *err)
{
    return add_line(journal, "end ", err);
}

static bool skipped(const stk__journal_head *head, const char *option)
{
    for (const char *const *name = head->skips; name && *name; name++)
        if (strcmp(*name, option) == 0)
            return true;
    return false;
}

stk_status stk__journal_begin(stk__journal *journal, const stk__journal_head *head, stk_error *err)
{
    char line[MAX_LINE], value[VALUE_SHOWN];

    journal->lines.length = 0;
    STK_TRY(add_line(journal, FIRST_LINE, err));
    int n = snprintf(line, sizeof line, "source %s ", head->kind);
    stk__journal_word(head->source, line + n);
    STK_TRY(add_line(journal, line, err));
    for (size_t i = 0; i < head->table->count; i++) {
        if (skipped(head, head->table->options[i].name))
            continue;
        stk_options_format(&head->table->options[i], head->options, value, sizeof value);
        snprintf(line, sizeof line, "option %s %s", head->table->options[i].name, value);
        STK_TRY(add_line(journal, line, err));
    }
    if (!head->plan)
        return STK_OK;
    snprintf(line, sizeof line, "plan %016" PRIx64, head->plan);
    return add_line(journal, line, err);
}

stk_status stk__journal_commit(stk__journal *journal, stk_error *err)
{
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
    STK_TRY(stk_put_bytes(journal->lines.ctx, stk_mirror_path(journal->mirror), journal->lines.data,
                          journal->lines.length, NULL, err));
    journal->lines.length = 0;
    journal->fd = open(stk_mirror_path(journal->mirror), O_WRONLY | O_APPEND | FILE_FLAGS);
    if (journal->fd < 0)
        return fail_file(journal, "write", err);
    return stk_mirror_flush(journal->mirror, true, err);
}

stk_status stk__journal_sync(stk__journal *journal, stk_error *err)
{
    if (stk__bytes_write(&journal->lines, journal->fd) != 0)
        return fail_file(journal, "write", err);
    if (stk__sync(journal->fd) != 0)
        return fail_file(journal, "make durable", err);
    return stk_mirror_flush(journal->mirror, false, err);
}

stk_status stk__journal_open(const stk_conversion_job *job, const char *name, stk__journal *journal,
                             stk_error *err)
{
    stk_context *ctx = job->context;
    char *url = stk__url_below(ctx, job->target, name);

    *journal = (stk__journal){.fd = -1, .lines.ctx = ctx};
    if (!url)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the journal");
    const stk_status status = stk_mirror_open(ctx, url, &journal->mirror, err);
    stk__free(ctx, url);
    return status;
}

void stk__journal_close(stk__journal *journal)
{
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
    if (!journal->mirror)
        return;
    stk_context *ctx = journal->lines.ctx;
    stk_error err;
    stk__bytes_release(&journal->lines);
    /* Of use to this folder alone: nothing of it is kept elsewhere. */
    if (stk_mirror_flush(journal->mirror, true, &err) != STK_OK) {
        stk__message(ctx, STK_MESSAGE_WARNING,
                     "what was converted after the journal was put last is done again: %s",
                     err.text);
        stk__mirror_drop(&journal->mirror);
    }
    (void)stk_mirror_close(&journal->mirror, NULL);
}

/* ---- Reading ------------------------------------------------------------------------------- */

typedef struct reader {
    const stk_conversion_job *job;
    const stk__journal_head *head;
    const stk__journal_lines *lines;
    int fd;
    bool fresh;
    uint64_t number;   /* of the line */
    uint8_t *buffer;   /* READ_BYTES */
    size_t at, filled; /* in `buffer` */
    char line[MAX_LINE + 16];
    char different[MAX_LINE]; /* of the head, for the message; empty: nothing */
} reader;

/* The next line without its end and checksum; false at the end, or where it is torn. */
static bool next_line(reader *r)
{
    size_t length = 0;

    for (;;) {
        if (r->at == r->filled) {
            ssize_t n = read(r->fd, r->buffer, READ_BYTES);
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                return false;
            r->at = 0;
            r->filled = (size_t)n;
        }
        char c = (char)r->buffer[r->at++];
        if (c == '\n')
            break;
        if (length + 1 == sizeof r->line || c == 0)
            return false;
        r->line[length++] = c;
    }
    r->line[length] = 0;
    if (length < 9 || r->line[length - 9] != ' ')
        return false;
    char *end, *sum = r->line + length - 8;
    unsigned long given = strtoul(sum, &end, 16);
    r->line[length - 9] = 0;
    r->number++;
    return !*end && given == (uint32_t)stk__fingerprint(0, r->line, length - 9);
}

static void check_source(reader *r, const char *rest)
{
    char expected[MAX_LINE];

    int n = snprintf(expected, sizeof expected, "%s ", r->head->kind);
    stk__journal_word(r->head->source, expected + n);
    if (strcmp(rest, expected) != 0 && !*r->different)
        snprintf(r->different, sizeof r->different, "of %.200s and not of %.200s",
                 strchr(rest, ' ') ? strchr(rest, ' ') + 1 : rest, r->head->source);
}

static void check_option(reader *r, char *rest)
{
    char value[VALUE_SHOWN] = "unknown";
    char *was = strchr(rest, ' ');

    if (!was)
        return;
    *was++ = 0;
    const stk_option *option = stk_options_find(r->head->table, rest);
    if (option)
        stk_options_format(option, r->head->options, value, sizeof value);
    if (strcmp(was, value) == 0 || *r->different)
        return;
    if (r->head->other)
        snprintf(r->different, sizeof r->different, "of %.300s", r->head->other);
    else if (!*value)
        snprintf(r->different, sizeof r->different, "with %.64s=%.64s, which is not set now", rest,
                 was);
    else if (!*was)
        snprintf(r->different, sizeof r->different, "without %.64s, which is %.64s now", rest,
                 value);
    else
        snprintf(r->different, sizeof r->different, "with %.64s=%.64s and not %.64s", rest, was,
                 value);
}

static void check_plan(reader *r, const char *rest)
{
    char expected[24];

    snprintf(expected, sizeof expected, "%016" PRIx64, r->head->plan);
    if (strcmp(rest, expected) != 0 && !*r->different)
        snprintf(r->different, sizeof r->different, "of %.300s",
                 r->head->other     ? r->head->other
                 : r->head->plan_of ? r->head->plan_of
                                    : "other arrays (shapes, chunks, codecs or attributes have "
                                      "changed)");
}

static stk_status refuse_line(const reader *r, stk_error *err)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_CONVERT, STK__TARGET_JOURNAL, STK_NO_OFFSET,
                        "the journal " STK__TARGET_JOURNAL
                        " of the target %.200s has a line %llu that no conversion writes; choose "
                        "another folder, or remove that file to have everything done anew",
                        r->job->target, (unsigned long long)r->number);
}

/* A number and the blank behind it. */
static bool take_number(char **rest, uint64_t most, uint64_t *out)
{
    const char *at = *rest;

    if (!stk__take_uint(&at, out) || *out > most || !stk__take(&at, ' '))
        return false;
    *rest += at - *rest;
    return true;
}

static bool take_time(char **rest, int64_t *out)
{
    const char *at = *rest;

    if (!stk__take_int(&at, out) || !stk__take(&at, ' '))
        return false;
    *rest += at - *rest;
    return true;
}

static stk_status take_done(reader *r, char *rest, stk_error *err)
{
    stk__done done = {.earlier = true};
    uint64_t kind, renamed;

    if (!take_number(&rest, STK__DONE_ENCODED, &kind) || kind < STK__DONE_COPIED ||
        !take_number(&rest, 1, &renamed) || !take_number(&rest, UINT64_MAX, &done.source_size) ||
        !take_time(&rest, &done.mtime_ns) || !take_number(&rest, UINT64_MAX, &done.size) ||
        !take_number(&rest, UINT64_MAX, &done.sse) ||
        !take_number(&rest, UINT64_MAX, &done.samples) || !unword(rest))
        return refuse_line(r, err);
    done.kind = (uint8_t)kind;
    done.renamed = renamed;
    return r->lines->done(r->lines->user, rest, &done, err);
}

static stk_status take_old(reader *r, char *rest, stk_error *err)
{
    uint64_t size;

    if (!take_number(&rest, UINT64_MAX, &size) || !unword(rest))
        return refuse_line(r, err);
    return r->lines->old(r->lines->user, rest, size, err);
}

static stk_status take_object(reader *r, char *rest, stk_error *err)
{
    uint64_t node, number, size;
    const char *at;

    if (!r->lines->object || !take_number(&rest, UINT64_MAX, &node) ||
        !take_number(&rest, UINT64_MAX, &number))
        return refuse_line(r, err);
    at = rest;
    if (!stk__take_uint(&at, &size) || *at)
        return refuse_line(r, err);
    return r->lines->object(r->lines->user, node, number, size, err);
}

static stk_status take_end(reader *r, const char *rest, stk_error *err)
{
    if (!r->lines->end || *rest)
        return refuse_line(r, err);
    r->lines->end(r->lines->user);
    return STK_OK;
}

static stk_status take_line(reader *r, stk_error *err)
{
    char *rest = strchr(r->line, ' ');

    if (!rest)
        return refuse_line(r, err);
    *rest++ = 0;
    if (strcmp(r->line, "done") == 0 && r->lines->done)
        return take_done(r, rest, err);
    if (strcmp(r->line, "object") == 0)
        return take_object(r, rest, err);
    if (strcmp(r->line, "end") == 0)
        return take_end(r, rest, err);
    if (strcmp(r->line, "old") == 0 && r->lines->old)
        return take_old(r, rest, err);
    if (strcmp(r->line, "source") == 0)
        check_source(r, rest);
    else if (strcmp(r->line, "option") == 0)
        check_option(r, rest);
    else if (strcmp(r->line, "plan") == 0 && r->head->plan)
        check_plan(r, rest);
    else
        return refuse_line(r, err);
    return STK_OK;
}

/* The head has been read: whether to go on. */
static stk_status judge(reader *r, stk_error *err)
{
    if (!*r->different)
        return STK_OK;
    r->fresh = true;
    if (r->job->options->overwrite)
        return STK_OK;
    return stk__fail(err, STK_EMISMATCH, STK_STAGE_OPTIONS,
                     "the target %.160s was begun as a conversion %.400s; run that one, choose "
                     "another folder, or set overwrite to do it anew",
                     r->job->target, r->different);
}

static stk_status read_lines(reader *r, stk_error *err)
{
    bool judged = false;

    if (!next_line(r) || strcmp(r->line, FIRST_LINE) != 0) {
        snprintf(r->different, sizeof r->different,
                 "by another version, or its " STK__TARGET_JOURNAL " is damaged,");
        return judge(r, err);
    }
    while (next_line(r)) {
        bool head = strncmp(r->line, "source ", 7) == 0 || strncmp(r->line, "option ", 7) == 0 ||
                    strncmp(r->line, "plan ", 5) == 0;
        if (head && judged)
            return refuse_line(r, err);
        if (!head && !judged) {
            STK_TRY(judge(r, err));
            judged = true;
        }
        STK_TRY(take_line(r, err));
    }
    return judged ? STK_OK : judge(r, err);
}

stk_status stk__journal_read(const stk_conversion_job *job, const stk__journal *journal,
                             const stk__journal_head *head, const stk__journal_lines *lines,
                             bool *fresh, stk_error *err)
{
    stk_context *ctx = job->context;
    stk_status status = STK_OK;

    *fresh = false;
    int fd = open(stk_mirror_path(journal->mirror), O_RDONLY | FILE_FLAGS);
    if (fd < 0)
        return errno == ENOENT ? STK_OK : fail_file(journal, "read", err);
    reader *r = stk__calloc(ctx, 1, sizeof *r);
    uint8_t *buffer = stk__alloc(ctx, READ_BYTES);
    if (r && buffer) {
        r->job = job;
        r->head = head;
        r->lines = lines;
        r->fd = fd;
        r->buffer = buffer;
        status = read_lines(r, err);
        *fresh = r->fresh;
    } else {
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to read the journal");
    }
    stk__free(ctx, buffer);
    stk__free(ctx, r);
    close(fd);
    return status;
}
