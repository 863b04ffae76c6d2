/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/http_mlflow.h"
#include "support/http_s3.h"

#define CHUNK_MOST        UINT64_C(65536)
#define ENDLESS_HEAD      (UINT64_C(64) << 20)
#define DATE              "%a, %d %b %Y %H:%M:%S GMT"
#define EXTRA_LINE        "X-More: and more of the same, as long as anybody listens to it\r\n"
#define EXTRA_LINE_LENGTH (sizeof EXTRA_LINE - 1)

static const struct {
    int status;
    const char *reason;
    const char *code; /* S3's word for it */
} statuses[] = {
    {200, "OK", NULL},
    {204, "No Content", NULL},
    {206, "Partial Content", NULL},
    {301, "Moved Permanently", "PermanentRedirect"},
    {302, "Found", NULL},
    {304, "Not Modified", NULL},
    {307, "Temporary Redirect", "TemporaryRedirect"},
    {308, "Permanent Redirect", NULL},
    {400, "Bad Request", "InvalidRequest"},
    {401, "Unauthorized", "Unauthorized"},
    {403, "Forbidden", "AccessDenied"},
    {404, "Not Found", "NoSuchKey"},
    {405, "Method Not Allowed", "MethodNotAllowed"},
    {408, "Request Timeout", "RequestTimeout"},
    {411, "Length Required", "MissingContentLength"},
    {412, "Precondition Failed", "PreconditionFailed"},
    {413, "Content Too Large", "EntityTooLarge"},
    {416, "Range Not Satisfiable", "InvalidRange"},
    {429, "Too Many Requests", "TooManyRequests"},
    {431, "Request Header Fields Too Large", "RequestHeaderSectionTooLarge"},
    {500, "Internal Server Error", "InternalError"},
    {502, "Bad Gateway", NULL},
    {503, "Service Unavailable", "SlowDown"},
    {504, "Gateway Timeout", NULL},
};

static const char *reason_of(int status, bool code)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status && (!code || statuses[i].code))
            return code ? statuses[i].code : statuses[i].reason;
    return code ? "InternalError" : "Status";
}

const char *http_header(const http_request *request, const char *name, char *value, size_t size)
{
    const size_t length = strlen(name);

    for (const char *line = request->headers; *line;) {
        const char *end = strstr(line, "\r\n");

        if (!end)
            return NULL;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            line += length + 1;
            line += strspn(line, " \t");
            while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
                end--;
            snprintf(value, size, "%.*s", (int)(end - line), line);
            return value;
        }
        line = end + 2;
    }
    return NULL;
}

void http_answer_release(http_answer *a)
{
    http_text head = a->head; /* kept for the next */

    http_text_free(&a->text);
    http_text_free(&a->lines);
    http_object_close(&a->object);
    head.length = 0;
    head.failed = false;
    *a = (http_answer){.head = head, .object = {.fd = -1}};
}

/* ---- What is asked for ---- */

void http_answer_error(http_answer *a, const http_request *request, int status, const char *code)
{
    http_object_close(&a->object);
    a->status = status;
    a->text.length = 0;
    http_text_add(&a->lines, "Content-Type: application/xml\r\n");
    http_text_add(&a->text,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>%s"
                  "</Message><RequestId>%" PRIu64 "</RequestId></Error>",
                  code ? code : reason_of(status, true), reason_of(status, false), request->number);
}

typedef enum range { RANGE_NONE, RANGE_GOOD, RANGE_BEHIND } range;

/* "bytes=a-b", "bytes=a-", "bytes=-n"; several, or another unit, are not looked at. */
static range parse_range(const char *text, uint64_t size, uint64_t *offset, uint64_t *length)
{
    char *end;

    if (strncmp(text, "bytes=", 6) != 0 || strchr(text, ','))
        return RANGE_NONE;
    text += 6;
    if (*text == '-') {
        const uint64_t n = strtoull(text + 1, &end, 10);

        if (end == text + 1 || *end)
            return RANGE_NONE;
        *length = n < size ? n : size;
        *offset = size - *length;
        return *length ? RANGE_GOOD : RANGE_BEHIND;
    }
    const uint64_t first = strtoull(text, &end, 10);
    if (end == text || *end != '-')
        return RANGE_NONE;
    text = end + 1;
    const uint64_t last = *text ? strtoull(text, &end, 10) : UINT64_MAX;
    if ((*text && *end) || last < first)
        return RANGE_NONE;
    if (first >= size)
        return RANGE_BEHIND;
    *offset = first;
    *length = (last < size ? last + 1 : size) - first;
    return RANGE_GOOD;
}

/* Whether a condition names this object. */
static bool names(const char *condition, const char *etag)
{
    return strcmp(condition, "*") == 0 || strstr(condition, etag);
}

static void answer_get(http_server *server, const http_request *request, const http_fault *fault,
                       http_answer *a)
{
    char value[512];

    if (!http_objects_open(server->objects, request->path, &a->object)) {
        http_answer_error(a, request, 404, NULL);
        return;
    }
    const http_object *o = &a->object;
    if (http_header(request, "If-Match", value, sizeof value) && !names(value, o->etag)) {
        http_answer_error(a, request, 412, NULL);
        return;
    }
    a->status = 200;
    a->length = o->size;
    if (http_header(request, "If-None-Match", value, sizeof value) && names(value, o->etag)) {
        a->status = 304;
        return;
    }
    if (fault->whole ||
        (http_header(request, "If-Range", value, sizeof value) && strcmp(value, o->etag) != 0) ||
        !http_header(request, "Range", value, sizeof value))
        return;
    const uint64_t size = o->size;
    switch (parse_range(value, size, &a->offset, &a->length)) {
    case RANGE_NONE:
        break;
    case RANGE_GOOD:
        if (fault->part && a->length > fault->part)
            a->length = fault->part;
        a->status = 206;
        a->ranged = true;
        break;
    case RANGE_BEHIND:
        a->length = 0;
        http_text_add(&a->lines, "Content-Range: bytes */%" PRIu64 "\r\n", size);
        http_answer_error(a, request, 416, NULL);
    }
}

bool http_answer_refuses(http_server *server, const http_request *request, http_answer *a)
{
    http_object old;
    char value[512];
    const bool there = http_objects_open(server->objects, request->path, &old);
    bool refused = false;

    if (http_header(request, "If-Match", value, sizeof value))
        refused = !there || !names(value, old.etag);
    else if (http_header(request, "If-None-Match", value, sizeof value))
        refused = there && names(value, old.etag);
    http_object_close(&old);
    if (refused)
        http_answer_error(a, request, 412, NULL);
    return refused;
}

static void answer_put(http_server *server, const http_request *request, http_answer *a)
{
    http_object put;

    if (http_answer_refuses(server, request, a))
        return;
    if (!http_objects_put(server->objects, request->path, request->body, request->body_length,
                          NULL)) {
        http_answer_error(a, request, 500, NULL);
        return;
    }
    a->status = 200;
    if (http_objects_open(server->objects, request->path, &put))
        http_text_add(&a->lines, "ETag: %s\r\n", put.etag);
    http_object_close(&put);
}

static void answer_method(http_server *server, const http_request *request, const http_fault *fault,
                          http_answer *a)
{
    if (strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0)
        answer_get(server, request, fault, a);
    else if (strcmp(request->method, "PUT") == 0)
        answer_put(server, request, a);
    else if (strcmp(request->method, "DELETE") != 0)
        http_answer_error(a, request, 405, NULL);
    else if (http_objects_remove(server->objects, request->path) || server->options.s3)
        a->status = 204;
    else
        http_answer_error(a, request, 404, NULL);
}

/* ---- What a fault makes of it ---- */

/* An answer that is the fault's alone: false, there is none. */
static bool answer_fault(const http_request *request, const http_fault *fault, http_answer *a)
{
    if (fault->status < 300 && !fault->code && !fault->location && !fault->body)
        return false;
    const int status = fault->status     ? fault->status
                       : fault->location ? 302
                       : fault->code     ? 400
                                         : 200;
    if (!fault->body && (fault->code || status >= 400))
        http_answer_error(a, request, status, fault->code);
    a->status = status;
    if (fault->body)
        http_text_add(&a->text, "%s", fault->body);
    if (fault->location)
        http_text_add(&a->lines, "Location: %s\r\n", fault->location);
    return true;
}

/* The body in memory, where its bytes are to be others. */
static void body_to_text(http_answer *a)
{
    char buffer[16384];
    size_t n;

    for (uint64_t done = 0; a->object.size && done < a->length; done += n) {
        const uint64_t left = a->length - done;

        n = http_object_read(&a->object, a->offset + done, buffer,
                             left < sizeof buffer ? (size_t)left : sizeof buffer);
        if (n == 0)
            break;
        http_text_bytes(&a->text, buffer, n);
    }
    a->object.size = 0; /* what it has goes by text now */
}

static void chunk(http_answer *a, http_chunks how)
{
    http_text coded = {0};
    const uint64_t half = a->text.length / 2 + 1;
    const uint64_t most = half < CHUNK_MOST ? half : CHUNK_MOST;

    for (uint64_t at = 0; at < a->text.length; at += most) {
        const uint64_t left = a->text.length - at;
        const uint64_t n = left < most ? left : most;

        if (at == most && how == HTTP_CHUNKED_BADLY)
            http_text_add(&coded, "zz\r\n");
        else
            http_text_add(&coded, "%" PRIx64 "\r\n", n);
        http_text_bytes(&coded, a->text.data + at, (size_t)n);
        http_text_add(&coded, "\r\n");
    }
    if (how != HTTP_CHUNKED_ENDLESS)
        http_text_add(&coded, "0\r\n\r\n");
    http_text_free(&a->text);
    a->text = coded;
}

static void change_body(const http_fault *fault, http_answer *a)
{
    if (a->bare || (!fault->chunks && !fault->flip))
        return;
    if (a->object.size)
        body_to_text(a);
    if (fault->flip && fault->flip <= a->text.length)
        a->text.data[fault->flip - 1] ^= 1;
    if (fault->chunks)
        chunk(a, fault->chunks);
    a->length = a->text.length;
}

/* ---- The head ---- */

static void add_date(http_text *text, const char *name, time_t t)
{
    char date[64];
    struct tm tm;

    gmtime_r(&t, &tm);
    strftime(date, sizeof date, DATE, &tm);
    http_text_add(text, "%s: %s\r\n", name, date);
}

static void add_etag(http_server *server, const http_fault *fault, const http_answer *a,
                     http_text *head)
{
    if (fault->etag_changes) {
        pthread_mutex_lock(&server->lock);
        const uint64_t n = ++server->changing;
        pthread_mutex_unlock(&server->lock);
        http_text_add(head, "ETag: \"changed-%" PRIu64 "\"\r\n", n);
    } else if (fault->etag) {
        if (*fault->etag)
            http_text_add(head, "ETag: %s\r\n", fault->etag);
    } else if (*a->object.etag) {
        http_text_add(head, "ETag: %s\r\n", a->object.etag);
    }
}

static void add_range(const http_fault *fault, const http_answer *a, uint64_t size, http_text *head)
{
    const uint64_t first = a->offset + (uint64_t)fault->range_off;

    if (fault->range) {
        if (*fault->range)
            http_text_add(head, "Content-Range: %s\r\n", fault->range);
    } else if (a->ranged) {
        http_text_add(head, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", first,
                      first + a->length - 1, size);
    }
}

static void add_retry_after(const http_fault *fault, http_text *head)
{
    if (!fault->retry_after && !fault->retry_after_date)
        return;
    if (fault->retry_after_date)
        add_date(head, "Retry-After", time(NULL) + fault->retry_after);
    else
        http_text_add(head, "Retry-After: %d\r\n", fault->retry_after);
}

/* `size`: of the whole object; `length`: of the body before it was changed. */
static void write_head(http_server *server, const http_fault *fault, http_answer *a, uint64_t size,
                       uint64_t length)
{
    http_text *head = &a->head;

    http_text_add(head, "%sHTTP/1.1 %d %s\r\n", fault->before ? fault->before : "", a->status,
                  reason_of(a->status, false));
    add_date(head, "Date", time(NULL) + fault->date_off);
    if (a->object.etag[0]) {
        http_text_add(head, "Accept-Ranges: bytes\r\n");
        add_date(head, "Last-Modified", a->object.modified);
        add_etag(server, fault, a, head);
    }
    if (a->status == 206 || fault->range)
        add_range(fault, &(http_answer){.offset = a->offset, .length = length, .ranged = a->ranged},
                  size, head);
    if (fault->chunks && a->status != 304 && a->status != 204)
        http_text_add(head, "Transfer-Encoding: chunked\r\n");
    else if (!fault->no_length && a->status != 304 && a->status != 204)
        http_text_add(head, "Content-Length: %" PRIu64 "\r\n",
                      length + (uint64_t)fault->length_off);
    add_retry_after(fault, head);
    if (fault->encoding)
        http_text_add(head, "Content-Encoding: %s\r\n", fault->encoding);
    if (fault->header)
        http_text_add(head, "%s%s", fault->header, strstr(fault->header, "\r\n") ? "" : "\r\n");
    http_text_bytes(head, a->lines.data, a->lines.length);
    if (!fault->endless_head)
        http_text_add(head, "\r\n");
}

/* Where it ends: by itself, or cut. */
static void place_end(const http_fault *fault, http_answer *a)
{
    if (fault->endless_head) {
        a->length = 0;
        a->extra = ENDLESS_HEAD;
    }
    if (a->bare)
        a->length = 0;
    if (a->head.failed || a->text.failed || a->lines.failed) {
        a->last = true; /* no memory: nothing is said */
        a->end = 0;
        return;
    }
    a->end = a->head.length + a->length + a->extra;
    a->last = a->extra || fault->length_off || fault->no_length || fault->endless_head ||
              fault->chunks > HTTP_CHUNKED;
    a->cut = fault->in_upload ? HTTP_UNCUT : fault->cut;
    if (a->cut == HTTP_UNCUT)
        return;
    const uint64_t at = fault->at == HTTP_BEFORE_HEAD   ? 0
                        : fault->at == HTTP_WITHIN_HEAD ? a->head.length / 2
                                                        : a->head.length + (uint64_t)fault->at;
    if (at < a->end)
        a->end = at;
}

static bool unauthorized(http_server *server, const http_request *request, http_answer *a)
{
    if (http_server_token_right(server, request))
        return false;
    http_text_add(&a->lines, "WWW-Authenticate: Bearer\r\n");
    http_answer_error(a, request, 401, NULL);
    return true;
}

void http_answer_make(http_server *server, const http_request *request, const http_fault *fault,
                      http_answer *a)
{
    http_answer_release(a);
    a->bare = strcmp(request->method, "HEAD") == 0;
    if (http_control(server, request))
        http_control_answer(server, request, a);
    else if (!answer_fault(request, fault, a) && !unauthorized(server, request, a) &&
             !http_mlflow_answer(server, request, a) &&
             !(server->options.s3 && http_s3_answer(server, request, a)))
        answer_method(server, request, fault, a);
    if (server->options.s3)
        http_s3_add_sum(request, a);
    if (!a->object.etag[0])
        a->length = a->text.length;
    const uint64_t size = a->object.size, length = a->length;
    a->bare |= a->status == 304 || a->status == 204;
    change_body(fault, a);
    a->extra = a->bare ? 0 : fault->extra;
    write_head(server, fault, a, size, length);
    place_end(fault, a);
}

/* ---- The bytes ---- */

bool http_answer_by_file(const http_answer *a)
{
    return a->object.fd >= 0 && a->object.size && a->sent >= a->head.length &&
           a->sent < a->head.length + a->length && a->sent < a->end;
}

size_t http_answer_piece(const http_answer *a, char *buffer, size_t size, const char **piece)
{
    uint64_t at = a->sent, n = a->end - a->sent;

    if (n > size)
        n = size;
    if (at < a->head.length) {
        *piece = a->head.data + at;
        return n < a->head.length - at ? (size_t)n : a->head.length - (size_t)at;
    }
    at -= a->head.length;
    if (at >= a->length) {
        at = (at - a->length) % EXTRA_LINE_LENGTH;
        *piece = &EXTRA_LINE[at];
        return n < EXTRA_LINE_LENGTH - at ? (size_t)n : EXTRA_LINE_LENGTH - (size_t)at;
    }
    if (n > a->length - at)
        n = a->length - at;
    if (!a->object.size) {
        *piece = a->text.data + at;
        return (size_t)n;
    }
    if (a->object.blob) {
        *piece = (const char *)a->object.blob->data + a->offset + at;
        return (size_t)n;
    }
    *piece = buffer;
    return http_object_read(&a->object, a->offset + at, buffer, (size_t)n);
}
