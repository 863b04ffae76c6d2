/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of lines as requests [MLflow REST API 2.0]. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/url.h"
#include "train/remote/mlflow.h"
#include "train/remote/mlflow_room.h"

/* [MLflow REST API, Log Batch: limits; mlflow/utils/validation.py] */
#define MOST_METRICS 1000
#define MOST_PARAMS  100
#define MOST_TAGS    100
#define MOST_ALL     1000
#define MOST_BYTES   (800 << 10) /* a request may have 1 MB */
#define MOST_KEY     250
#define MOST_PARAM   6000
#define MOST_TAG     5000

/* A request that is being put together. */
typedef struct batch {
    stk__text metrics, params, tags;
    size_t num_metrics, num_params, num_tags;
    uint64_t lines;
    uint64_t offset; /* behind its last line */
} batch;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a request to MLflow");
}

static void empty(stk__mlflow *m, batch *b)
{
    stk__text_release(&b->metrics);
    stk__text_release(&b->params);
    stk__text_release(&b->tags);
    *b = (batch){.metrics = {.ctx = m->ctx}, .params = {.ctx = m->ctx}, .tags = {.ctx = m->ctx}};
}

/* ---- Lines into a batch ---------------------------------------------------------------------- */

/* A name as servers take it: letters, digits and "_-. :/", 250 bytes at most. */
static void add_key(stk__text *text, const char *name)
{
    char key[MOST_KEY + 1];
    size_t n = 0;

    for (const char *c = name; *c && n < MOST_KEY; c++) {
        const bool good = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                          (*c >= '0' && *c <= '9') || strchr("_-. :/", *c);
        key[n++] = good ? *c : '_';
    }
    key[n] = 0;
    stk__text_add_json(text, n ? key : "_");
}

/* At most `most` bytes of a text, whole characters. */
static void add_value(stk__text *text, stk_context *ctx, const char *value, size_t most)
{
    size_t length = strlen(value);

    if (length <= most) {
        stk__text_add_json(text, value);
        return;
    }
    for (length = most; length > 0 && ((unsigned char)value[length] & 0xc0) == 0x80; length--)
        continue;
    char *cut = stk__format(ctx, "%.*s", (int)length, value);
    text->failed |= !cut;
    stk__text_add_json(text, cut ? cut : "");
    stk__free(ctx, cut);
}

/* What JSON has no number for is a text, as protobuf has it. */
static void add_number(stk__text *text, double value)
{
    if (isfinite(value))
        stk__text_add_real(text, value);
    else
        stk__text_add(text, "\"%s\"", isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
}

static void add_metrics(batch *b, const stk__run_journal_line *line)
{
    const char *ignored;
    double value;

    for (size_t i = 0; i < json_array_size(line->pairs); i++) {
        const char *name = stk__run_journal_pair(line, i, &ignored, &value);
        stk__text_add(&b->metrics, "%s{\"key\": ", b->num_metrics++ ? ", " : "");
        add_key(&b->metrics, name);
        stk__text_add(&b->metrics, ", \"value\": ");
        add_number(&b->metrics, value);
        stk__text_add(&b->metrics, ", \"timestamp\": %" PRId64 ", \"step\": %" PRId64 "}",
                      (int64_t)(line->time * 1e3), line->step);
    }
}

static void add_texts(stk__text *text, stk_context *ctx, size_t *count, size_t most,
                      const stk__run_journal_line *line)
{
    const char *value;
    double ignored;

    for (size_t i = 0; i < json_array_size(line->pairs); i++) {
        const char *name = stk__run_journal_pair(line, i, &value, &ignored);
        stk__text_add(text, "%s{\"key\": ", (*count)++ ? ", " : "");
        add_key(text, name);
        stk__text_add(text, ", \"value\": ");
        add_value(text, ctx, value, most);
        stk__text_add(text, "}");
    }
}

/* Whether a line still fits. One alone always does. */
static bool fits(const stk__mlflow *m, const batch *b, const stk__run_journal_line *line)
{
    const size_t n = json_array_size(line->pairs),
                 all = b->num_metrics + b->num_params + b->num_tags + n;

    if (b->lines == 0)
        return true;
    if (m->singly || all > MOST_ALL ||
        b->metrics.length + b->params.length + b->tags.length > MOST_BYTES / 2)
        return false;
    return line->kind == STK__RUN_JOURNAL_MEASURED ? b->num_metrics + n <= MOST_METRICS
           : line->kind == STK__RUN_JOURNAL_PARAMS ? b->num_params + n <= MOST_PARAMS
                                                   : b->num_tags + n <= MOST_TAGS;
}

static bool batched(stk__run_journal_kind kind)
{
    return kind == STK__RUN_JOURNAL_MEASURED || kind == STK__RUN_JOURNAL_PARAMS ||
           kind == STK__RUN_JOURNAL_TAGS;
}

static void add_line(stk__mlflow *m, batch *b, const stk__run_journal_line *line)
{
    if (line->kind == STK__RUN_JOURNAL_MEASURED)
        add_metrics(b, line);
    else if (line->kind == STK__RUN_JOURNAL_PARAMS)
        add_texts(&b->params, m->ctx, &b->num_params, MOST_PARAM, line);
    else
        add_texts(&b->tags, m->ctx, &b->num_tags, MOST_TAG, line);
    b->lines++;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Whether a server will say the same for ever. */
static bool refused(int code)
{
    return code == 400 || code == 413 || code == 414 || code == 422;
}

static stk_status write_mark(stk__mlflow *m, uint64_t offset, stk_error *err)
{
    m->mark.offset = offset;
    return stk__run_journal_mark_write(m->ctx, m->place.mark, &m->mark, err);
}

/* What was refused, line by line: those that are at fault are left out. */
static stk_status leave_out(stk__mlflow *m, const batch *b, const stk_error *why, stk_error *err)
{
    if (b->lines > 1) {
        m->singly = b->offset;
        stk__run_journal_seek(&m->reader, m->mark.offset);
        return STK_OK;
    }
    if (m->sent.refused++ == 0)
        stk__message(m->ctx, STK_MESSAGE_WARNING,
                     "mlflow: a line of '%s' is not sent, as the server refuses it: %s",
                     m->place.journal, why->text);
    return write_mark(m, b->offset, err);
}

static void add_list(stk__text *body, const char *name, const stk__text *list)
{
    stk__text_add(body, ", \"%s\": [", name);
    if (list->length > 0)
        stk__text_put(body, list->bytes, list->length);
    stk__text_add(body, "]");
}

static stk_status send_batch(stk__mlflow *m, batch *b, const stk_store_call *call, stk_error *err)
{
    stk__text body = {.ctx = m->ctx};
    stk_error own;
    int code;

    if (b->lines == 0)
        return STK_OK;
    stk__text_add(&body, "{\"run_id\": ");
    stk__text_add_json(&body, m->mark.run);
    add_list(&body, "metrics", &b->metrics);
    add_list(&body, "params", &b->params);
    add_list(&body, "tags", &b->tags);
    stk__text_add(&body, "}");
    body.failed |= b->metrics.failed || b->params.failed || b->tags.failed;
    stk_status status = stk__mlflow_ask(m, "POST", "/api/2.0/mlflow/runs/log-batch", &body, call,
                                        NULL, &code, &own);
    if (status != STK_OK && refused(code))
        return leave_out(m, b, &own, err);
    if (status != STK_OK) {
        *err = own;
        return status;
    }
    m->sent.metrics += b->num_metrics;
    m->sent.params += b->num_params;
    m->sent.tags += b->num_tags;
    if (b->offset >= m->singly)
        m->singly = 0;
    return write_mark(m, b->offset, err);
}

static stk_status send_end(stk__mlflow *m, const stk__run_journal_line *line,
                           const stk_store_call *call, stk_error *err)
{
    stk__text body = {.ctx = m->ctx};
    int code;

    stk__text_add(&body, "{\"run_id\": ");
    stk__text_add_json(&body, m->mark.run);
    stk__text_add(&body, ", \"status\": ");
    stk__text_add_json(&body, line->text);
    stk__text_add(&body, ", \"end_time\": %" PRId64 "}", (int64_t)(line->time * 1e3));
    const stk_status status =
        stk__mlflow_ask(m, "POST", "/api/2.0/mlflow/runs/update", &body, call, NULL, &code, err);
    if (status != STK_OK && refused(code)) {
        m->sent.refused++;
        return STK_OK;
    }
    return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* The path of a run's artifacts behind the server's own proxy; NULL: the server has them kept
 * elsewhere. "mlflow-artifacts:/1/ID/artifacts", or with a host. */
static const char *proxied(const stk__mlflow *m)
{
    static const char scheme[] = "mlflow-artifacts:";
    const char *at = m->mark.artifacts;

    if (strncmp(at, scheme, sizeof scheme - 1) != 0)
        return NULL;
    at += sizeof scheme - 1;
    return strncmp(at, "//", 2) == 0 ? strchr(at + 2, '/') : at;
}

static stk_status open_file(const char *path, int *fd, uint64_t *length, stk_error *err)
{
    struct stat info;

    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return stk__durable_fail(err, "read", path, errno);
    if (fstat(*fd, &info) == 0 && S_ISREG(info.st_mode)) {
        *length = (uint64_t)info.st_size;
        return STK_OK;
    }
    close(*fd);
    return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "'%.300s' is no file", path);
}

/* What goes next of a file, on the thread of all clients. One that became shorter is not sent. */
static bool read_file(void *user, uint64_t at, void *to, size_t length)
{
    const int *fd = user;
    char *next = to;

    while (length > 0) {
        const ssize_t n = pread(*fd, next, length, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        next += n;
        at += (uint64_t)n;
        length -= (size_t)n;
    }
    return true;
}

static stk_status put_file(stk__mlflow *m, const char *path, const char *name,
                           const stk_store_call *call, int *code, stk_error *err)
{
    stk__text target = {.ctx = m->ctx};
    stk__http_exchange x = {.method = "PUT", .most = STK__MLFLOW_ANSWER};
    const char *below = proxied(m);
    int fd;

    *code = 0;
    STK_TRY(open_file(path, &fd, &x.body_length, err));
    stk__text_add(&target, "/api/2.0/mlflow-artifacts/artifacts");
    stk__text_add(&target, "%s/", below);
    stk__text_add_percent(&target, name, strlen(name), true);
    x.read_body = read_file;
    x.body_user = &fd;
    x.target = target.bytes;
    const stk_status status =
        target.failed ? no_memory(err) : stk__http_services.call(m->service, &x, call, err);
    *code = x.code;
    stk__http_services.release(m->service, &x);
    stk__text_release(&target);
    close(fd);
    return status;
}

stk_status stk__mlflow_send_file(stk__mlflow *m, const char *name, const stk_store_call *call,
                                 stk_error *err)
{
    int code = 0;

    if (!proxied(m)) {
        m->sent.unsent++;
        if (!m->said_unsent)
            stk__message(m->ctx, STK_MESSAGE_WARNING,
                         "mlflow: '%s' and other files are not sent: the server keeps artifacts "
                         "at '%s'; start it with --serve-artifacts",
                         name, m->mark.artifacts);
        m->said_unsent = true;
        return STK_OK;
    }
    char *path = stk__url_below(m->ctx, m->place.folder, name);
    if (!path)
        return no_memory(err);
    const stk_status status = put_file(m, path, name, call, &code, err);
    stk__free(m->ctx, path);
    m->sent.files += status == STK_OK;
    if (status == STK_OK || code == 0 ? status != STK_ENOENT && status != STK_ELIMIT
                                      : !refused(code))
        return status;
    /* It is gone, as checkpoints that others replace, or will never be taken. */
    m->sent.unsent++;
    if (status != STK_ENOENT)
        stk__message(m->ctx, STK_MESSAGE_WARNING, "mlflow: '%s' is not sent: %s", name, err->text);
    return STK_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* A line that a batch does not take: what is before it goes first. */
static stk_status send_apart(stk__mlflow *m, const stk__run_journal_line *line,
                             const stk_store_call *call, stk_error *err)
{
    if (line->kind == STK__RUN_JOURNAL_FILE)
        STK_TRY(stk__mlflow_send_file(m, line->text, call, err));
    else if (line->kind == STK__RUN_JOURNAL_END)
        STK_TRY(send_end(m, line, call, err));
    else if (line->kind == STK__RUN_JOURNAL_NOTHING)
        m->sent.damaged++;
    else
        return STK_OK;
    return write_mark(m, m->reader.offset, err);
}

/* Fill a batch and send it, and what stands behind it; STK_EOS: nothing is left. */
static stk_status send_some(stk__mlflow *m, uint64_t end, const stk_store_call *call,
                            stk_error *err)
{
    stk__run_journal_line line;
    const char *text;
    size_t length;
    batch b = {0};

    empty(m, &b);
    stk_status status;
    for (;;) {
        const uint64_t before = m->reader.offset;
        status = stk__run_journal_next(&m->reader, end, &text, &length, err);
        if (status == STK_OK)
            status = stk__run_journal_take(m->ctx, text, length, &line, err);
        if (status != STK_OK)
            break;
        const bool apart = !batched(line.kind);
        if (apart ? b.lines > 0 : !fits(m, &b, &line)) {
            stk__run_journal_seek(&m->reader, before);
            stk__run_journal_line_release(m->ctx, &line);
            break;
        }
        if (apart)
            status = send_apart(m, &line, call, err);
        else
            add_line(m, &b, &line);
        b.offset = m->reader.offset;
        stk__run_journal_line_release(m->ctx, &line);
        if (apart)
            break;
    }
    if (status == STK_OK || status == STK_EOS) {
        const stk_status sent = send_batch(m, &b, call, err);
        status = sent == STK_OK && b.lines > 0 ? STK_OK : sent == STK_OK ? status : sent;
    }
    empty(m, &b);
    return status;
}

stk_status stk__mlflow_send(stk__mlflow *m, uint64_t end, const stk_store_call *call,
                            stk_error *err)
{
    stk_status status = STK_OK;

    if (m->mark.offset >= end)
        return STK_OK;
    STK_TRY(stk__mlflow_begin(m, call, err));
    stk__run_journal_seek(&m->reader, m->mark.offset);
    while (status == STK_OK) {
        STK_TRY(stk__store_call_check(call ? call : &stk__store_call_none, "mlflow", err));
        status = send_some(m, end, call, err);
    }
    return status == STK_EOS ? STK_OK : status;
}
