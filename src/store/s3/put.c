/* SPDX-License-Identifier: Apache-2.0 */
/* Writing: one PUT of what is small, else an upload in parts, of which nothing is visible before it
 * is completed. */
#include <stdio.h>

#include "base/base64.h"
#include "base/crc32c.h"
#include "base/digits.h"
#include "base/md5.h"
#include "store/http/holds.h"
#include "store/s3/s3.h"
#include "store/s3/xml.h"

/* [S3 User Guide, Multipart upload limits] */
#define PART      (UINT64_C(8) << 20) /* bytes; twice as many after every PARTS_ALIKE */
#define PARTS     10000
#define ALIKE     1000
#define ANSWER    (UINT64_C(1) << 20)
#define ABORT_NS  UINT64_C(30000000000)
#define UPLOAD_ID 2048
#define CHECKSUM  9 /* bytes of a CRC-32C in base64, with the end */

typedef struct part {
    char etag[128], checksum[CHECKSUM];
    uint64_t end; /* bytes of all up to it */
} part;

typedef struct s3_put {
    stk_put base;
    stk__s3_store *store;
    const stk_store_call *call;
    char *bytes; /* of the part that is being filled */
    size_t length, room;
    part *parts; /* that are sent */
    size_t count, parts_room;
    char upload[UPLOAD_ID]; /* escaped; "": none has begun */
    bool failed;
    char key[];
} s3_put;

/* A CRC-32C, the most significant byte first, in base64. */
static void to_base64(uint32_t crc, char text[CHECKSUM])
{
    const uint8_t bytes[4] = {(uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8),
                              (uint8_t)crc};
    stk__text out = {.bytes = text, .room = CHECKSUM};

    stk__text_add_base64(&out, bytes, sizeof bytes);
}

static void sum(const void *data, size_t length, char text[CHECKSUM])
{
    to_base64(stk__crc32c(0, data, length), text);
}

static uint64_t part_bytes(const s3_put *put)
{
    const uint64_t wanted = stk__divide_up(put->call->length, PARTS - 1);

    return STK_MAX(PART << STK_MIN(put->count / ALIKE, 9u), wanted);
}

static stk_status lacking(const s3_put *put, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_STORE, put->key, STK_NO_OFFSET,
                        "no memory to send '%.200s'", put->key);
}

/* A request about the object of the put. */
static stk_status send(s3_put *put, stk__s3_request *request, const char *query,
                       const stk_store_call *call, stk_error *err)
{
    char target[STK__HTTP_TARGET];

    STK_TRY(stk__s3_target(put->store, put->key, query, target, err));
    request->exchange.target = target;
    request->exchange.most = ANSWER;
    const stk_status status = stk__s3_call(put->store, request, call, err);
    request->exchange.target = NULL;
    return status;
}

/* ---- Uploads in parts -------------------------------------------------------------------------
 */

static bool take_upload(s3_put *put, const char *text, size_t length)
{
    char id[UPLOAD_ID] = "";
    stk__text escaped = {.bytes = put->upload, .room = sizeof put->upload};
    stk__xml_event event;
    stk__xml xml;

    stk__xml_init(&xml, text, length);
    while ((event = stk__xml_next(&xml)) < STK__XML_DONE)
        if (event == STK__XML_END && xml.depth == 2 && xml.leaf && stk__xml_is(&xml, "UploadId") &&
            !stk__xml_text(&xml, id, sizeof id))
            return false;
    stk__text_add_percent(&escaped, id, strlen(id), false);
    if (event == STK__XML_DONE && id[0] && escaped.length < escaped.room)
        return true;
    put->upload[0] = 0;
    return false;
}

static stk_status begin_upload(s3_put *put, stk_error *err)
{
    stk__s3_request request = {.exchange = {.method = "POST", .look = true},
                               .asks_checksum = !put->store->google};

    stk_status status = send(put, &request, "?uploads=", put->call, err);
    if (status == STK_OK && !take_upload(put, request.exchange.text ? request.exchange.text : "",
                                         (size_t)request.exchange.got))
        status = stk__fail_at(err, STK_EFORMAT, STK_STAGE_STORE, put->key, STK_NO_OFFSET,
                              "the server began no upload of '%.200s' in parts", put->key);
    stk__http_exchange_release(put->store->client, &request.exchange);
    return status;
}

/* What is an ETag within XML: quotes are text there. */
static bool is_etag(const char *etag)
{
    for (const char *p = etag; *p; p++)
        if (*p < ' ' || *p > '~' || *p == '<' || *p == '&' || *p == '>')
            return false;
    return *etag != 0;
}

static stk_status send_part(s3_put *put, stk_error *err)
{
    char query[UPLOAD_ID + 64];
    part sent;
    stk__s3_request request = {
        .exchange = {.method = "PUT", .body = put->bytes, .body_length = put->length},
        .checksum = put->store->google ? NULL : sent.checksum};

    if (put->count == PARTS)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_STORE, put->key, STK_NO_OFFSET,
                            "'%.200s' would be of more than %d parts", put->key, PARTS);
    part *parts = stk__grow(put->store->base.context, put->parts, &put->parts_room, put->count + 1,
                            sizeof *parts);
    if (!parts)
        return lacking(put, err);
    put->parts = parts;
    if (put->count == 0)
        STK_TRY(begin_upload(put, err));
    sum(put->bytes, put->length, sent.checksum);
    snprintf(query, sizeof query, "?partNumber=%zu&uploadId=%s", put->count + 1, put->upload);
    stk_status status = send(put, &request, query, put->call, err);
    snprintf(sent.etag, sizeof sent.etag, "%s", request.exchange.etag);
    stk__http_exchange_release(put->store->client, &request.exchange);
    if (status == STK_OK && !is_etag(sent.etag))
        status = stk__fail_at(err, STK_EFORMAT, STK_STAGE_STORE, put->key, STK_NO_OFFSET,
                              "the server gave no ETag for a part of '%.200s'", put->key);
    if (status == STK_OK) {
        sent.end = (put->count ? put->parts[put->count - 1].end : 0) + put->length;
        put->parts[put->count++] = sent;
        put->length = 0;
    }
    return status;
}

/* Parts of an object as it is read back. */
typedef struct looked {
    const s3_put *put;
    size_t part;
    uint64_t at;
    uint32_t crc; /* of the part so far */
} looked;

static bool same_parts(void *user, const void *bytes, size_t length)
{
    looked *l = user;
    const uint8_t *from = bytes;
    char checksum[CHECKSUM];

    while (length > 0) {
        const part *p = &l->put->parts[l->part];
        const size_t n = (size_t)STK_MIN(length, p->end - l->at);
        l->crc = stk__crc32c(l->crc, from, n);
        l->at += n;
        from += n;
        length -= n;
        if (l->at < p->end)
            continue;
        to_base64(l->crc, checksum);
        if (strcmp(checksum, p->checksum) != 0)
            return false;
        l->crc = 0;
        l->part++;
    }
    return true;
}

/* "\"0123...\"" -> its bytes. */
static bool md5_of_etag(const char *etag, uint8_t bytes[STK__MD5_TEXT / 2])
{
    uint64_t byte;

    if (strlen(etag) != STK__MD5_TEXT + 1 || etag[0] != '"' || etag[STK__MD5_TEXT] != '"')
        return false;
    for (size_t i = 0; i < STK__MD5_TEXT / 2; i++) {
        if (!stk__hex_number(etag + 1 + 2 * i, 2, &byte))
            return false;
        bytes[i] = (uint8_t)byte;
    }
    return true;
}

/* The MD5 of those of the parts, which servers make an ETag of; "": theirs are none. */
static void etag_of_parts(const s3_put *put, char *etag, size_t size)
{
    char text[STK__MD5_TEXT];
    stk__md5 all;

    *etag = 0;
    stk__md5_init(&all);
    for (size_t i = 0; i < put->count; i++) {
        uint8_t bytes[STK__MD5_TEXT / 2];
        if (!md5_of_etag(put->parts[i].etag, bytes))
            return;
        stk__md5_add(&all, bytes, sizeof bytes);
    }
    stk__md5_text(&all, text);
    snprintf(etag, size, "\"%s-%zu\"", text, put->count);
}

/* Whether what is there is of a try whose answer was lost. */
static bool is_sent(const s3_put *put)
{
    const char *bytes = put->bytes;
    looked parts = {.put = put};
    stk__http_sent sent = {.length = put->length, .same = stk__http_same_bytes, .user = &bytes};
    char target[STK__HTTP_TARGET];
    stk__s3_request request = {.exchange = {.target = target}};

    if (put->count > 0) {
        sent = (stk__http_sent){
            .length = put->parts[put->count - 1].end, .same = same_parts, .user = &parts};
        etag_of_parts(put, sent.etag, sizeof sent.etag);
    }
    return stk__s3_target(put->store, put->key, "", target, NULL) == STK_OK &&
           stk__http_holds(put->store->base.context, put->store->client, &request.exchange, &sent,
                           put->call);
}

/* A 200 may be an error: judge() looks at it. */
static stk_status complete(s3_put *put, stk_error *err)
{
    stk__text body = {.ctx = put->store->base.context};
    char query[UPLOAD_ID + 32];

    stk__text_add(&body, "<CompleteMultipartUpload "
                         "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (size_t i = 0; i < put->count; i++) {
        stk__text_add(&body, "<Part><PartNumber>%zu</PartNumber><ETag>%s</ETag>", i + 1,
                      put->parts[i].etag);
        if (!put->store->google)
            stk__text_add(&body, "<ChecksumCRC32C>%s</ChecksumCRC32C>", put->parts[i].checksum);
        stk__text_add(&body, "</Part>");
    }
    stk__text_add(&body, "</CompleteMultipartUpload>");
    if (body.failed) {
        stk__text_release(&body);
        return lacking(put, err);
    }
    stk__s3_request request = {.exchange = {.method = "POST",
                                            .look = true,
                                            .body = body.bytes,
                                            .body_length = body.length,
                                            .body_type = "application/xml",
                                            .if_none_match = put->call->no_replace}};
    snprintf(query, sizeof query, "?uploadId=%s", put->upload);
    const stk_status status = send(put, &request, query, put->call, err);
    /* An upload that is completed is there no more. */
    const bool gone = status == STK_EEXIST || request.exchange.code == 404;
    stk__http_exchange_release(put->store->client, &request.exchange);
    stk__text_release(&body);
    return status != STK_OK && gone && request.exchange.tries > 1 && is_sent(put) ? STK_OK : status;
}

/* Parts of an upload that nobody completes are paid for until somebody aborts it. */
static void abort_upload(s3_put *put)
{
    const stk_store_call call = {.struct_size = sizeof call,
                                 .deadline_ns = stk__now_ns() + ABORT_NS};
    stk__s3_request request = {.exchange = {.method = "DELETE"}};
    char query[UPLOAD_ID + 32];
    stk_error err;

    snprintf(query, sizeof query, "?uploadId=%s", put->upload);
    if (send(put, &request, query, &call, &err) != STK_OK)
        stk__message(put->store->base.context, STK_MESSAGE_WARNING,
                     "parts of '%.200s' stay in the bucket '%s', which are paid for: %.300s; "
                     "a lifecycle rule that aborts incomplete uploads removes them",
                     put->key, put->store->endpoint.bucket, err.text);
    stk__http_exchange_release(put->store->client, &request.exchange);
}

/* ---- The put ----------------------------------------------------------------------------------
 */

static stk_status put_write(stk_put *base, const void *data, size_t length, stk_error *err)
{
    s3_put *put = (s3_put *)base;
    const char *from = data;

    while (length > 0) {
        const uint64_t whole = part_bytes(put);
        const size_t n = (size_t)STK_MIN(length, whole - put->length);
        char *grown =
            stk__grow(put->store->base.context, put->bytes, &put->room, put->length + n, 1);
        if (!grown) {
            put->failed = true;
            return lacking(put, err);
        }
        put->bytes = grown;
        memcpy(put->bytes + put->length, from, n);
        put->length += n;
        from += n;
        length -= n;
        /* The last part is sent at commit: it may be all there is. */
        if (length > 0) {
            const stk_status status = send_part(put, err);
            put->failed |= status != STK_OK;
            STK_TRY(status);
        }
    }
    return STK_OK;
}

static void end(s3_put *put)
{
    stk_context *ctx = put->store->base.context;

    if (put->upload[0])
        abort_upload(put);
    stk__free(ctx, put->bytes);
    stk__free(ctx, put->parts);
    stk__free(ctx, put);
}

static void put_abandon(stk_put *base)
{
    end((s3_put *)base);
}

static stk_status put_whole(s3_put *put, stk_error *err)
{
    char checksum[CHECKSUM];
    stk__s3_request request = {.exchange = {.method = "PUT",
                                            .look = true,
                                            .body = put->length ? put->bytes : "",
                                            .body_length = put->length,
                                            .if_none_match = put->call->no_replace},
                               .checksum = put->store->google ? NULL : checksum};

    sum(put->bytes, put->length, checksum);
    const stk_status status = send(put, &request, "", put->call, err);
    stk__http_exchange_release(put->store->client, &request.exchange);
    return status == STK_EEXIST && request.exchange.tries > 1 && is_sent(put) ? STK_OK : status;
}

static stk_status put_commit(stk_put *base, stk_error *err)
{
    s3_put *put = (s3_put *)base;
    stk_status status = STK_OK;

    if (put->failed)
        status = stk__fail_at(err, STK_EIO, STK_STAGE_STORE, put->key, STK_NO_OFFSET,
                              "'%.200s' is not complete: a part was not sent", put->key);
    else if (put->count == 0)
        status = put_whole(put, err);
    else {
        status = put->length > 0 ? send_part(put, err) : STK_OK;
        if (status == STK_OK)
            status = complete(put, err);
        if (status == STK_OK)
            put->upload[0] = 0;
    }
    /* Where it failed something else may be there, too. */
    stk__http_pins_set(&put->store->pins, put->key, 0, "", true);
    end(put);
    return status;
}

static const stk_put_ops put_ops = {.struct_size = sizeof(stk_put_ops),
                                    .write = put_write,
                                    .commit = put_commit,
                                    .abandon = put_abandon};

stk_status stk__s3_put_begin(stk__s3_store *store, const char *key, const stk_store_call *call,
                             stk_put **out, stk_error *err)
{
    s3_put *put = stk__calloc(store->base.context, 1, sizeof *put + strlen(key) + 1);

    if (!put)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "no memory to write '%.200s'", key);
    put->base.ops = &put_ops;
    put->store = store;
    put->call = call;
    memcpy(put->key, key, strlen(key) + 1);
    *out = &put->base;
    return STK_OK;
}
