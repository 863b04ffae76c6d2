/* SPDX-License-Identifier: Apache-2.0 */
/* What S3 has on top of GET and PUT: lists, and sums of what is put. "/BUCKET/KEY"; every bucket
 * is there. Signatures are not looked at. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/http_s3.h"

#define KEYS_MOST 1000

/* ---- Texts ---- */

/* A value of the query, decoded, in `value`: NULL, there is none. */
const char *http_s3_value(const http_request *request, const char *name, http_text *value)
{
    const size_t length = strlen(name);

    for (const char *at = request->query; *at; at += strspn(at, "&")) {
        const size_t n = strcspn(at, "&");

        if (strncmp(at, name, length) == 0 && (n == length || at[length] == '=')) {
            value->length = 0;
            http_text_add(value, "%s", "");
            if (n > length)
                http_text_decode(value, at + length + 1, n - length - 1);
            return value->failed ? NULL : value->data;
        }
        at += n;
    }
    return NULL;
}

bool http_s3_asks(const http_request *request, const char *name)
{
    http_text value = {0};
    const bool asked = http_s3_value(request, name, &value) != NULL;

    http_text_free(&value);
    return asked;
}

void http_s3_escape(http_text *out, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;

        if (c == '<' || c == '>' || c == '&' || c == '"' || c < ' ')
            http_text_add(out, "&#%u;", (unsigned)c);
        else
            http_text_bytes(out, text, 1);
    }
}

static void encode(http_text *out, const char *text)
{
    for (; *text; text++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/", *text))
            http_text_bytes(out, text, 1);
        else
            http_text_add(out, "%%%02X", (unsigned)(unsigned char)*text);
}

void http_s3_xml(http_answer *a, const char *name)
{
    http_text_add(&a->lines, "Content-Type: application/xml\r\n");
    http_text_add(&a->text,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%s "
                  "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
                  name);
}

/* ---- Lists ---- */

typedef struct list {
    const char *bucket; /* "/BUCKET/" */
    size_t bucket_length;
    http_text prefix; /* each a path, with the bucket */
    http_text after;
    http_text delimiter; /* empty: none */
    long most;
    bool by_url; /* names are encoded */
    long n;
    bool more;
    http_text keys;
    http_text folders;
} list;

static void add_name(const list *l, http_text *out, const char *path)
{
    if (l->by_url)
        encode(out, path + l->bucket_length);
    else
        http_s3_escape(out, path + l->bucket_length);
}

static void add_object(list *l, const http_listed *o)
{
    char date[32];
    struct tm tm;

    gmtime_r(&o->modified, &tm);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
    http_text_add(&l->keys, "<Contents><Key>");
    add_name(l, &l->keys, o->path);
    http_text_add(&l->keys, "</Key><LastModified>%s</LastModified><ETag>", date);
    http_s3_escape(&l->keys, o->etag);
    http_text_add(&l->keys,
                  "</ETag><Size>%" PRIu64 "</Size><StorageClass>STANDARD</StorageClass></Contents>",
                  o->size);
}

/* All below a name that ends in the delimiter is one entry, and passed over. */
static void add_folder(list *l, http_listed *o, size_t length)
{
    o->path[length] = 0;
    http_text_add(&l->folders, "<CommonPrefixes><Prefix>");
    add_name(l, &l->folders, o->path);
    http_text_add(&l->folders, "</Prefix></CommonPrefixes>");
    l->after.length = 0;
    http_text_add(&l->after, "%s\xff", o->path);
}

static void fill(http_objects *objects, list *l)
{
    http_names *names = http_objects_names(objects, l->prefix.data);
    http_listed o = {0};

    while (names && http_names_next(names, l->prefix.data, l->after.data, &o)) {
        const char *end =
            l->delimiter.length ? strstr(o.path + l->prefix.length, l->delimiter.data) : NULL;

        if (l->n == l->most) {
            l->more = true;
            break;
        }
        l->n++;
        if (end) {
            add_folder(l, &o, (size_t)(end - o.path) + l->delimiter.length);
            continue;
        }
        add_object(l, &o);
        l->after.length = 0;
        http_text_add(&l->after, "%s", o.path);
    }
    free(o.path);
    http_names_free(names);
}

/* Where a list goes on: a token is the path in hexadecimal. */
static void take_after(const http_request *request, list *l)
{
    http_text value = {0};

    if (http_s3_value(request, "continuation-token", &value)) {
        http_text hex = value;

        for (size_t i = 0; i + 1 < hex.length; i += 2) {
            const char digits[3] = {hex.data[i], hex.data[i + 1], 0};

            http_text_bytes(&l->after, &(char){(char)strtol(digits, NULL, 16)}, 1);
        }
    } else if (http_s3_value(request, "start-after", &value)) {
        http_text_add(&l->after, "%s%s", l->bucket, value.data);
    }
    http_text_add(&l->after, "%s", "");
    http_text_free(&value);
}

static void write_list(list *l, http_answer *a)
{
    http_s3_xml(a, "ListBucketResult");
    http_text_add(&a->text, "<Name>%.*s</Name><Prefix>", (int)l->bucket_length - 2, l->bucket + 1);
    add_name(l, &a->text, l->prefix.data);
    http_text_add(&a->text, "</Prefix><KeyCount>%ld</KeyCount><MaxKeys>%ld</MaxKeys>%s", l->n,
                  l->most, l->by_url ? "<EncodingType>url</EncodingType>" : "");
    http_text_add(&a->text, "<IsTruncated>%s</IsTruncated>", l->more ? "true" : "false");
    if (l->more) {
        http_text_add(&a->text, "<NextContinuationToken>");
        for (size_t i = 0; i < l->after.length; i++)
            http_text_add(&a->text, "%02x", (unsigned)(unsigned char)l->after.data[i]);
        http_text_add(&a->text, "</NextContinuationToken>");
    }
    http_text_bytes(&a->text, l->keys.data, l->keys.length);
    http_text_bytes(&a->text, l->folders.data, l->folders.length);
    http_text_add(&a->text, "</ListBucketResult>");
}

static void answer_list(http_server *server, const http_request *request, const char *bucket,
                        http_answer *a)
{
    list l = {.bucket = bucket, .bucket_length = strlen(bucket), .most = KEYS_MOST};
    http_text value = {0};

    atomic_fetch_add(&server->figures.lists, 1);
    http_text_add(&l.prefix, "%s%s", bucket,
                  http_s3_value(request, "prefix", &value) ? value.data : "");
    if (http_s3_value(request, "delimiter", &value))
        http_text_add(&l.delimiter, "%s", value.data);
    if (http_s3_value(request, "max-keys", &value))
        l.most = strtol(value.data, NULL, 10);
    l.most = l.most < 0 || l.most > KEYS_MOST ? KEYS_MOST : l.most;
    l.by_url = http_s3_value(request, "encoding-type", &value) && strcmp(value.data, "url") == 0;
    take_after(request, &l);
    if (!l.prefix.failed && !l.after.failed && !l.delimiter.failed) {
        fill(server->objects, &l);
        a->status = 200;
        write_list(&l, a);
    } else {
        http_answer_error(a, request, 500, NULL);
    }
    http_text_free(&value);
    http_text_free(&l.prefix);
    http_text_free(&l.after);
    http_text_free(&l.delimiter);
    http_text_free(&l.keys);
    http_text_free(&l.folders);
}

/* ---- Sums ---- */

/* A reflected one with all bits set before and after. */
static uint64_t crc(uint64_t polynomial, unsigned bits, const unsigned char *data, size_t length)
{
    const uint64_t all = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    uint64_t table[256], sum = all;

    for (unsigned byte = 0; byte < 256; byte++) {
        table[byte] = byte;
        for (int bit = 0; bit < 8; bit++)
            table[byte] = table[byte] >> 1 ^ (table[byte] & 1 ? polynomial : 0);
    }
    for (size_t i = 0; i < length; i++)
        sum = sum >> 8 ^ table[(sum ^ data[i]) & 255];
    return sum ^ all;
}

static const struct {
    const char *header;
    const char *element; /* in the list of the parts of an upload */
    const char *digest;  /* of OpenSSL; NULL: a CRC */
    uint64_t polynomial;
    unsigned bits;
} sums[] = {
    {"x-amz-checksum-crc32", "ChecksumCRC32", NULL, 0xEDB88320, 32},
    {"x-amz-checksum-crc32c", "ChecksumCRC32C", NULL, 0x82F63B78, 32},
    {"x-amz-checksum-crc64nvme", "ChecksumCRC64NVME", NULL, UINT64_C(0x9A6C9329AC4BC9B5), 64},
    {"x-amz-checksum-sha1", "ChecksumSHA1", "SHA1", 0, 0},
    {"x-amz-checksum-sha256", "ChecksumSHA256", "SHA256", 0, 0},
    {"Content-MD5", NULL, "MD5", 0, 0},
};

#define SUMS       (sizeof sums / sizeof *sums)
#define SUM_CRC32C 1

static void sum_of(size_t kind, const void *data, size_t length, char text[HTTP_S3_SUM_MAX])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned n = sums[kind].bits / 8;

    if (sums[kind].digest) {
        EVP_Digest(data, length, raw, &n, EVP_get_digestbyname(sums[kind].digest), NULL);
    } else {
        const uint64_t value = crc(sums[kind].polynomial, sums[kind].bits, data, length);

        for (unsigned i = 0; i < n; i++)
            raw[i] = (unsigned char)(value >> (8 * (n - 1 - i)));
    }
    EVP_EncodeBlock((unsigned char *)text, raw, (int)n);
}

static bool hash_right(const http_request *request, const void *data, size_t length)
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    char value[256], hex[65];

    if (!http_header(request, "x-amz-content-sha256", value, sizeof value) || strlen(value) != 64)
        return true;
    EVP_Digest(data, length, raw, NULL, EVP_sha256(), NULL);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", raw[i]);
    return strcasecmp(value, hex) == 0;
}

bool http_s3_sums_right(const http_request *request, const void *data, size_t length,
                        http_answer *a)
{
    char value[HTTP_S3_SUM_MAX], own[HTTP_S3_SUM_MAX];

    for (size_t i = 0; i < SUMS; i++) {
        if (!http_header(request, sums[i].header, value, sizeof value) || strchr(value, '-'))
            continue;
        sum_of(i, data, length, own);
        if (strcmp(value, own) != 0) {
            http_answer_error(a, request, 400, "BadDigest");
            return false;
        }
        http_text_add(&a->lines, "%s: %s\r\n", sums[i].header, own);
    }
    return true;
}

void http_s3_add_sum(const http_request *request, http_answer *a)
{
    const http_object *o = &a->object;
    char value[32], sum[HTTP_S3_SUM_MAX];

    if (a->status != 200 || !o->blob ||
        !http_header(request, "x-amz-checksum-mode", value, sizeof value))
        return;
    sum_of(SUM_CRC32C, o->blob->data, o->blob->size, sum);
    http_text_add(&a->lines, "%s: %s\r\nx-amz-checksum-type: FULL_OBJECT\r\n",
                  sums[SUM_CRC32C].header, sum);
}

bool http_s3_part_right(const char *part, const void *data, size_t length)
{
    char own[HTTP_S3_SUM_MAX], wanted[HTTP_S3_SUM_MAX + 64];

    for (size_t i = 0; i < SUMS; i++) {
        if (!sums[i].element)
            continue;
        snprintf(wanted, sizeof wanted, "<%s>", sums[i].element);
        if (!strstr(part, wanted))
            continue;
        sum_of(i, data, length, own);
        snprintf(wanted, sizeof wanted, "<%s>%s</%s>", sums[i].element, own, sums[i].element);
        if (!strstr(part, wanted))
            return false;
    }
    return true;
}

/* ---- What it does ---- */

static bool answer_bucket(http_server *server, const http_request *request, const char *bucket,
                          http_answer *a)
{
    const bool get = strcmp(request->method, "GET") == 0;

    a->status = strcmp(request->method, "DELETE") == 0 ? 204 : 200;
    if (get && http_s3_asks(request, "uploads"))
        http_s3_list_uploads(server->uploads, bucket, a);
    else if (get && http_s3_asks(request, "location"))
        http_s3_xml(a, "LocationConstraint"), http_text_add(&a->text, "</LocationConstraint>");
    else if (get)
        answer_list(server, request, bucket, a);
    return true;
}

bool http_s3_answer(http_server *server, const http_request *request, http_answer *a)
{
    const char *body = request->body_length ? request->body : "";
    const char *slash = request->path[0] == '/' ? strchr(request->path + 1, '/') : NULL;
    bool done = true;

    if (!request->path[0] || !request->path[1]) {
        http_answer_error(a, request, 405, NULL); /* no list of buckets */
    } else if (!slash || !slash[1]) {
        http_text bucket = {0};

        http_text_add(&bucket, "%s%s", request->path, slash ? "" : "/");
        done = answer_bucket(server, request, bucket.data, a);
        http_text_free(&bucket);
    } else if (!hash_right(request, body, request->body_length)) {
        http_answer_error(a, request, 400, "XAmzContentSHA256Mismatch");
    } else if (http_s3_asks(request, "uploads") || http_s3_asks(request, "uploadId")) {
        http_s3_upload(server, request, a);
    } else {
        done = strcmp(request->method, "PUT") == 0 &&
               !http_s3_sums_right(request, body, request->body_length, a);
    }
    return done;
}
