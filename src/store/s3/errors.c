/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/errors.h"

#include <stdio.h>

#include "base/options.h"
#include "store/s3/list.h"
#include "store/s3/xml.h"

#define KEYS                                                                                       \
    "; check the keys, and that they may do this: stoker info --stores 's3(profile=NAME)' URL"
#define BUCKET "; check the bucket's name, and the endpoint where it is not Amazon's"

/* [S3 API Reference, Error responses; STS, Common errors]. Credentials that are wrong or have
 * expired are no sample's fault: STK_EACCES is what may not be read with good ones. */
static const struct {
    const char *code;
    stk_status status;
    stk__s3_cure cure;
    const char *remedy;
} known[] = {
    {"AccessDenied", STK_EACCES, STK__S3_FINAL, KEYS},
    {"AccountProblem", STK_EACCES, STK__S3_FINAL, ""},
    {"AllAccessDisabled", STK_EACCES, STK__S3_FINAL, ""},
    {"AuthorizationHeaderMalformed", STK_EINVAL, STK__S3_REGION, ""},
    {"BadDigest", STK_EIO, STK__S3_AGAIN, ""},
    {"BadRequest", STK_EINVAL, STK__S3_REGION, ""},
    {"ConditionalRequestConflict", STK_EIO, STK__S3_AGAIN, ""},
    {"EntityTooLarge", STK_ELIMIT, STK__S3_FINAL, ""},
    {"EntityTooSmall", STK_EINVAL, STK__S3_FINAL, ""},
    {"ExpiredToken", STK_EIO, STK__S3_KEYS, "; the credentials have expired: log in again"},
    {"ExpiredTokenException", STK_EIO, STK__S3_KEYS,
     "; the credentials have expired: log in again"},
    {"IllegalLocationConstraintException", STK_EINVAL, STK__S3_REGION, ""},
    {"IncompleteBody", STK_EIO, STK__S3_AGAIN, ""},
    {"InternalError", STK_EIO, STK__S3_AGAIN, ""},
    {"InvalidAccessKeyId", STK_EINVAL, STK__S3_FINAL, KEYS},
    {"InvalidBucketName", STK_EINVAL, STK__S3_FINAL, BUCKET},
    {"InvalidObjectState", STK_EACCES, STK__S3_FINAL, "; the object is archived: restore it first"},
    {"InvalidPart", STK_EIO, STK__S3_FINAL, ""},
    {"InvalidRange", STK_ETRUNCATED, STK__S3_FINAL, ""},
    {"InvalidToken", STK_EINVAL, STK__S3_KEYS, KEYS},
    {"MethodNotAllowed", STK_ENOTSUP, STK__S3_FINAL, ""},
    {"NoSuchBucket", STK_ENOENT, STK__S3_FINAL, BUCKET},
    {"NoSuchKey", STK_ENOENT, STK__S3_FINAL, ""},
    {"NoSuchUpload", STK_EIO, STK__S3_FINAL, "; the upload was aborted: write it again"},
    {"NoSuchVersion", STK_ENOENT, STK__S3_FINAL, ""},
    {"NotImplemented", STK_ENOTSUP, STK__S3_FINAL, ""},
    {"OperationAborted", STK_EIO, STK__S3_AGAIN, ""},
    {"PermanentRedirect", STK_EINVAL, STK__S3_REGION, BUCKET},
    {"PreconditionFailed", STK_ECHANGED, STK__S3_FINAL, ""},
    {"QuotaExceeded", STK_ENOSPC, STK__S3_FINAL, ""},
    {"Redirect", STK_EINVAL, STK__S3_REGION, BUCKET},
    {"RequestExpired", STK_EIO, STK__S3_CLOCK, "; set the clock of this machine"},
    {"RequestLimitExceeded", STK_EIO, STK__S3_AGAIN, ""},
    {"RequestTimeTooSkewed", STK_EIO, STK__S3_CLOCK, "; set the clock of this machine"},
    {"RequestTimeout", STK_EIO, STK__S3_AGAIN, ""},
    {"ServiceUnavailable", STK_EIO, STK__S3_AGAIN, ""},
    {"SignatureDoesNotMatch", STK_EINVAL, STK__S3_FINAL,
     "; check the secret key, and the region of an endpoint of your own"},
    {"SlowDown", STK_EIO, STK__S3_AGAIN, ""},
    {"TemporaryRedirect", STK_EIO, STK__S3_REGION, BUCKET},
    {"Throttling", STK_EIO, STK__S3_AGAIN, ""},
    {"ThrottlingException", STK_EIO, STK__S3_AGAIN, ""},
    {"TokenRefreshRequired", STK_EIO, STK__S3_KEYS, ""},
    {"UnauthorizedAccess", STK_EACCES, STK__S3_FINAL, KEYS},
    {"XAmzContentSHA256Mismatch", STK_EIO, STK__S3_AGAIN, ""},
};

bool stk__s3_region_valid(const char *region)
{
    const size_t length = strlen(region);

    if (length == 0 || length > 31 || region[0] == '-' || region[length - 1] == '-')
        return false;
    for (size_t i = 0; i < length; i++) {
        const char c = region[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-')
            return false;
    }
    return true;
}

/* A text that a message may show. */
static void show(const stk__xml *xml, char *to, size_t size)
{
    char text[1024];

    if (!stk__xml_text(xml, text, sizeof text))
        return;
    snprintf(to, size, "%.*s", (int)size - 1, text);
    for (char *p = to; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
            *p = '?';
}

bool stk__s3_error_read(const char *body, size_t length, stk__s3_error *out)
{
    bool error = false;
    stk__xml_event event;
    char when[64];
    int64_t ns;
    stk__xml xml;

    *out = (stk__s3_error){.status = STK_EIO, .remedy = ""};
    stk__xml_init(&xml, body, length);
    /* <Error>, or STS's <ErrorResponse><Error>. */
    while ((event = stk__xml_next(&xml)) < STK__XML_DONE) {
        if (event == STK__XML_BEGIN) {
            if (xml.depth == 1 && !stk__xml_is(&xml, "Error") &&
                !stk__xml_is(&xml, "ErrorResponse"))
                return false;
            error |= xml.depth <= 2 && stk__xml_is(&xml, "Error");
        } else if (error && xml.leaf && stk__xml_is(&xml, "Code")) {
            show(&xml, out->code, sizeof out->code);
        } else if (error && xml.leaf && stk__xml_is(&xml, "Message")) {
            show(&xml, out->message, sizeof out->message);
        } else if (error && xml.leaf && stk__xml_is(&xml, "ServerTime")) {
            out->server_seconds = stk__xml_text(&xml, when, sizeof when) && stk__s3_time(when, &ns)
                                      ? ns / 1000000000
                                      : 0;
        } else if (error && xml.leaf && stk__xml_is(&xml, "Region") &&
                   (!stk__xml_text(&xml, out->region, sizeof out->region) ||
                    !stk__s3_region_valid(out->region))) {
            out->region[0] = 0;
        }
    }
    return event == STK__XML_DONE && error && out->code[0];
}

/* Of an answer that says no more. */
static void judge_http(int32_t http, stk__s3_error *error)
{
    static const struct {
        int32_t http;
        stk_status status;
        stk__s3_cure cure;
    } codes[] = {
        {301, STK_EINVAL, STK__S3_REGION},  {307, STK_EIO, STK__S3_REGION},
        {400, STK_EINVAL, STK__S3_REGION},  {401, STK_EINVAL, STK__S3_KEYS},
        {403, STK_EACCES, STK__S3_FINAL},   {404, STK_ENOENT, STK__S3_FINAL},
        {405, STK_ENOTSUP, STK__S3_FINAL},  {409, STK_EIO, STK__S3_AGAIN},
        {412, STK_ECHANGED, STK__S3_FINAL}, {416, STK_ETRUNCATED, STK__S3_FINAL},
        {501, STK_ENOTSUP, STK__S3_FINAL},
    };

    error->status = STK_EIO;
    error->cure = http >= 500 || http == 408 || http == 429 ? STK__S3_AGAIN : STK__S3_FINAL;
    for (size_t i = 0; i < STK_COUNT(codes); i++)
        if (codes[i].http == http) {
            error->status = codes[i].status;
            error->cure = codes[i].cure;
        }
    error->remedy = error->status == STK_EACCES ? KEYS : "";
}

void stk__s3_error_judge(int32_t http, stk__s3_error *error)
{
    judge_http(http, error);
    for (size_t i = 0; i < STK_COUNT(known); i++)
        if (strcmp(known[i].code, error->code) == 0) {
            error->status = known[i].status;
            error->cure = known[i].cure;
            error->remedy = known[i].remedy;
        }
    /* Without a region there is nowhere to go. */
    if (error->cure == STK__S3_REGION && !error->region[0])
        error->cure = STK__S3_FINAL;
}
