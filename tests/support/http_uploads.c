/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads in parts, as S3 has them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "support/http_s3.h"

#define PART_MOST 10000

typedef struct part {
    int number;
    size_t length;
    unsigned char *data;
    char etag[HTTP_ETAG_MAX];
    struct part *next; /* of a higher number */
} part;

typedef struct upload {
    uint64_t id;
    char *path;
    part *parts;
    struct upload *next;
} upload;

struct http_uploads {
    pthread_mutex_t lock; /* guards all of it */
    uint64_t last;
    upload *first;
};

http_uploads *http_uploads_create(void)
{
    http_uploads *uploads = calloc(1, sizeof *uploads);

    if (uploads)
        pthread_mutex_init(&uploads->lock, NULL);
    return uploads;
}

static void remove_upload(upload **link)
{
    upload *u = *link;

    *link = u->next;
    while (u->parts) {
        part *p = u->parts;

        u->parts = p->next;
        free(p->data);
        free(p);
    }
    free(u->path);
    free(u);
}

void http_uploads_destroy(http_uploads *uploads)
{
    if (!uploads)
        return;
    while (uploads->first)
        remove_upload(&uploads->first);
    pthread_mutex_destroy(&uploads->lock);
    free(uploads);
}

static upload **find_locked(http_uploads *uploads, const http_request *request)
{
    http_text value = {0};
    const char *text = http_s3_value(request, "uploadId", &value);
    const uint64_t id = text ? strtoull(text, NULL, 16) : 0;
    upload **link = &uploads->first;

    while (*link && ((*link)->id != id || strcmp((*link)->path, request->path) != 0))
        link = &(*link)->next;
    http_text_free(&value);
    return *link ? link : NULL;
}

static void begin_locked(http_uploads *uploads, const http_request *request, http_answer *a)
{
    upload *u = calloc(1, sizeof *u);
    char *path = strdup(request->path);

    if (!u || !path) {
        free(u);
        free(path);
        http_answer_error(a, request, 500, NULL);
        return;
    }
    *u = (upload){.id = ++uploads->last, .path = path, .next = uploads->first};
    uploads->first = u;
    const char *key = strchr(path + 1, '/');
    http_s3_xml(a, "InitiateMultipartUploadResult");
    http_text_add(&a->text, "<Bucket>%.*s</Bucket><Key>", (int)(key - path) - 1, path + 1);
    http_s3_escape(&a->text, key + 1);
    http_text_add(&a->text,
                  "</Key><UploadId>%016" PRIx64 "</UploadId></InitiateMultipartUploadResult>",
                  u->id);
}

/* One of the same number gives way to it. */
static void put_part_locked(upload *u, const http_request *request, http_answer *a)
{
    http_text value = {0};
    const char *text = http_s3_value(request, "partNumber", &value);
    const long number = text ? strtol(text, NULL, 10) : 0;
    part **link = &u->parts;

    http_text_free(&value);
    if (number < 1 || number > PART_MOST) {
        http_answer_error(a, request, 400, "InvalidArgument");
        return;
    }
    if (!http_s3_sums_right(request, request->body, request->body_length, a))
        return;
    unsigned char *data = malloc(request->body_length + 1);
    while (*link && (*link)->number < number)
        link = &(*link)->next;
    part *p = *link && (*link)->number == number ? *link : calloc(1, sizeof *p);
    if (!data || !p) {
        free(data);
        if (p != *link)
            free(p);
        http_answer_error(a, request, 500, NULL);
        return;
    }
    if (p != *link) {
        p->next = *link;
        *link = p;
    }
    memcpy(data, request->body, request->body_length);
    free(p->data);
    p->data = data;
    p->number = (int)number;
    p->length = request->body_length;
    snprintf(p->etag, sizeof p->etag, "\"%016llx\"", (unsigned long long)XXH64(data, p->length, 0));
    http_text_add(&a->lines, "ETag: %s\r\n", p->etag);
}

static bool names_etag(const char *xml, const part *p)
{
    char bare[HTTP_ETAG_MAX];

    snprintf(bare, sizeof bare, "%.*s", (int)strlen(p->etag) - 2, p->etag + 1);
    return strstr(xml, bare);
}

/* One "<Part>...</Part>" of the list joins its part to the whole. An error's code, or NULL. */
static const char *join(const upload *u, const char *xml, int *before, http_text *whole)
{
    const char *at = strstr(xml, "<PartNumber>");
    const int number = at ? (int)strtol(at + strlen("<PartNumber>"), NULL, 10) : 0;
    const part *p = u->parts;

    if (number <= *before)
        return "InvalidPartOrder";
    *before = number;
    while (p && p->number != number)
        p = p->next;
    if (!p || !names_etag(xml, p))
        return "InvalidPart";
    if (!http_s3_part_right(xml, p->data, p->length))
        return "BadDigest";
    http_text_bytes(whole, p->data, p->length);
    return NULL;
}

/* The whole of it, as the list of parts in the body says. An error's code, or NULL. */
static const char *join_all(const upload *u, const http_request *request, int *n, http_text *whole)
{
    char *xml = http_body_text(request);
    const char *code = xml ? NULL : "InternalError";
    int before = 0;

    for (char *at = xml; !code && at && (at = strstr(at, "<Part>"));) {
        char *end = strstr(at, "</Part>");

        if (!end) {
            code = "MalformedXML";
            break;
        }
        *end = 0;
        code = join(u, at, &before, whole);
        at = end + 1;
        ++*n;
    }
    free(xml);
    return code ? code : *n == 0 ? "MalformedXML" : whole->failed ? "InternalError" : NULL;
}

static void complete_locked(http_server *server, upload **link, const http_request *request,
                            http_answer *a)
{
    http_text whole = {0};
    char etag[HTTP_ETAG_MAX];
    int n = 0;
    const char *code = join_all(*link, request, &n, &whole);

    snprintf(etag, sizeof etag, "\"%016llx-%d\"",
             (unsigned long long)XXH64(whole.data ? whole.data : "", whole.length, 0), n);
    if (code) {
        http_answer_error(a, request, 400, code);
    } else if (!http_answer_refuses(server, request, a) &&
               http_s3_sums_right(request, whole.data ? whole.data : "", whole.length, a)) {
        if (http_objects_put(server->objects, request->path, whole.data, whole.length, etag)) {
            remove_upload(link);
            http_s3_xml(a, "CompleteMultipartUploadResult");
            http_text_add(&a->text, "<Key>");
            http_s3_escape(&a->text, strchr(request->path + 1, '/') + 1);
            http_text_add(&a->text, "</Key><ETag>");
            http_s3_escape(&a->text, etag);
            http_text_add(&a->text, "</ETag></CompleteMultipartUploadResult>");
        } else {
            http_answer_error(a, request, 500, NULL);
        }
    }
    http_text_free(&whole);
}

static void list_parts_locked(const upload *u, http_answer *a)
{
    http_s3_xml(a, "ListPartsResult");
    http_text_add(&a->text, "<UploadId>%016" PRIx64 "</UploadId><IsTruncated>false</IsTruncated>",
                  u->id);
    for (const part *p = u->parts; p; p = p->next) {
        http_text_add(&a->text, "<Part><PartNumber>%d</PartNumber><ETag>", p->number);
        http_s3_escape(&a->text, p->etag);
        http_text_add(&a->text, "</ETag><Size>%zu</Size></Part>", p->length);
    }
    http_text_add(&a->text, "</ListPartsResult>");
}

void http_s3_upload(http_server *server, const http_request *request, http_answer *a)
{
    http_uploads *uploads = server->uploads;
    const char *method = request->method;
    upload **link;

    a->status = 200;
    pthread_mutex_lock(&uploads->lock);
    if (strcmp(method, "POST") == 0 && http_s3_asks(request, "uploads")) {
        begin_locked(uploads, request, a);
    } else if (!(link = find_locked(uploads, request))) {
        http_answer_error(a, request, 404, "NoSuchUpload");
    } else if (strcmp(method, "PUT") == 0) {
        put_part_locked(*link, request, a);
    } else if (strcmp(method, "POST") == 0) {
        complete_locked(server, link, request, a);
    } else if (strcmp(method, "DELETE") == 0) {
        a->status = 204;
        remove_upload(link);
    } else {
        list_parts_locked(*link, a);
    }
    pthread_mutex_unlock(&uploads->lock);
}

void http_s3_list_uploads(http_uploads *uploads, const char *bucket, http_answer *a)
{
    http_s3_xml(a, "ListMultipartUploadsResult");
    http_text_add(&a->text, "<IsTruncated>false</IsTruncated>");
    pthread_mutex_lock(&uploads->lock);
    for (const upload *u = uploads->first; u; u = u->next) {
        if (strncmp(u->path, bucket, strlen(bucket)) != 0)
            continue;
        http_text_add(&a->text, "<Upload><Key>");
        http_s3_escape(&a->text, u->path + strlen(bucket));
        http_text_add(&a->text,
                      "</Key><UploadId>%016" PRIx64
                      "</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>",
                      u->id);
    }
    pthread_mutex_unlock(&uploads->lock);
    http_text_add(&a->text, "</ListMultipartUploadsResult>");
}
