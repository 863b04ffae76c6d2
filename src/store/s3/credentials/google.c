/* SPDX-License-Identifier: Apache-2.0 */
/* [Google Cloud, Application Default Credentials; AIP-4110 and AIP-4112] */
#include <stdio.h>

#include "base/base64.h"
#include "base/json_scan.h"
#include "store/s3/credentials/look.h"
#include "store/s3/credentials/rs256.h"
#include "store/s3/endpoint.h"

#define MEMBERS   32
#define TOKEN_URI "https://oauth2.googleapis.com/token"
#define SCOPE     "https://www.googleapis.com/auth/devstorage.read_write"
#define LASTS     3600 /* seconds, of what is signed: as long as Google allows */

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct account {
    stk__s3_look *look;
    const char *path;
    stk__json_member members[MEMBERS];
    size_t n;
    char uri[1024]; /* where tokens come from */
} account;

static const stk__json_member *find(const account *a, const char *key)
{
    for (size_t i = 0; i < STK_MIN(a->n, MEMBERS); i++)
        if (stk__json_member_key_is(&a->members[i], key))
            return &a->members[i];
    return NULL;
}

/* A text of the file; STK_EFORMAT: it is missing, or longer. */
static stk_status take(const account *a, const char *key, char *out, size_t size, stk_error *err)
{
    const stk__json_member *m = find(a, key);

    if (!m || m->kind != STK__JSON_STRING || m->length == 0 || m->length >= size)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_STORE, a->path, STK_NO_OFFSET,
                            "'%.200s' has no %s, or one that is none", a->path, key);
    stk__json_member_text(m, out, size);
    return STK_OK;
}

/* Ask for a token with the body that was put together. */
static stk_status ask_token(account *a, stk__s3_keys *out, stk_error *err)
{
    static const char from[] = "the token service of Google";
    stk__s3_look *look = a->look;
    char endpoint[256];

    if (!stk__s3_look_word(a->uri, strlen(a->uri)) ||
        !stk__s3_look_part(look, a->uri, endpoint, sizeof endpoint) ||
        (strncmp(endpoint, "https://", 8) != 0 && !stk__s3_loopback(endpoint)))
        return stk__fail_at(err, STK_EACCES, STK_STAGE_STORE, a->path, STK_NO_OFFSET,
                            "'%.200s': token_uri is no address of https", a->path);
    const stk__s3_ask request = {.method = "POST",
                                 .endpoint = endpoint,
                                 .target = look->target,
                                 .body = look->body,
                                 .plain = stk__s3_loopback(endpoint)};
    STK_TRY(stk__s3_look_ask(look, from, &request, err));
    return stk__s3_keys_read_oauth(look->answer, look->length, from, look->now, out, err);
}

static stk_status too_long(const account *a, stk_error *err)
{
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_STORE, a->path, STK_NO_OFFSET,
                        "'%.200s' has texts that are too long", a->path);
}

/* The head and the claims of a token, each a JSON object as base64. */
static stk_status add_claims(const account *a, stk__text *body, stk_error *err)
{
    char id[256] = "", email[512];
    stk__text json = {.bytes = a->look->target, .room = sizeof a->look->target};

    if (find(a, "private_key_id"))
        STK_TRY(take(a, "private_key_id", id, sizeof id, err));
    STK_TRY(take(a, "client_email", email, sizeof email, err));
    stk__text_add(&json, "{\"alg\":\"RS256\",\"typ\":\"JWT\"");
    if (id[0]) {
        stk__text_add(&json, ",\"kid\":");
        stk__text_add_json(&json, id);
    }
    stk__text_add(&json, "}");
    stk__text_add_base64url(body, json.bytes, json.length);
    json.length = 0;
    stk__text_add(&json, "{\"iss\":");
    stk__text_add_json(&json, email);
    stk__text_add(&json, ",\"scope\":\"" SCOPE "\",\"aud\":");
    stk__text_add_json(&json, a->uri);
    stk__text_add(&json, ",\"iat\":%lld,\"exp\":%lld}", (long long)a->look->now,
                  (long long)(a->look->now + LASTS));
    stk__text_add(body, ".");
    stk__text_add_base64url(body, json.bytes, json.length);
    return json.length < json.room && body->length < body->room ? STK_OK : too_long(a, err);
}

/* A signature of what was put together. */
static stk_status sign(const account *a, const char *text, size_t length,
                       uint8_t signature[STK__RS256_ROOM], size_t *out, stk_error *err)
{
#ifdef STK_WITH_OPENSSL
    return stk__rs256_sign(a->path, a->look->token.text, text, length, signature, out, err);
#else
    (void)text, (void)length, (void)signature, (void)out;
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_STORE, a->path, STK_NO_OFFSET,
                        "'%.200s' is of a service account, and this build has no OpenSSL to sign "
                        "with: give HMAC keys, or build with libssl-dev",
                        a->path);
#endif
}

/* [RFC 7523, section 2.1; Google, Using OAuth 2.0 for server to server applications] */
static stk_status from_service_account(account *a, stk__s3_keys *out, stk_error *err)
{
    stk__s3_look *look = a->look;
    stk__text body = {.bytes = look->body, .room = sizeof look->body};
    uint8_t signature[STK__RS256_ROOM];
    size_t length = 0;

    stk__text_add(&body, "grant_type=urn%%3Aietf%%3Aparams%%3Aoauth%%3Agrant-type%%3Ajwt-bearer"
                         "&assertion=");
    const size_t begin = body.length;
    STK_TRY(add_claims(a, &body, err));
    STK_TRY(take(a, "private_key", look->token.text, sizeof look->token.text, err));
    const stk_status status =
        sign(a, body.bytes + begin, body.length - begin, signature, &length, err);
    explicit_bzero(&look->token, sizeof look->token);
    if (status != STK_OK)
        return status;
    stk__text_add(&body, ".");
    stk__text_add_base64url(&body, signature, length);
    explicit_bzero(signature, sizeof signature);
    return body.length < body.room ? ask_token(a, out, err) : too_long(a, err);
}

/* What `gcloud auth application-default login` leaves [RFC 6749, section 6]. */
static stk_status from_user(account *a, stk__s3_keys *out, stk_error *err)
{
    static const char *const keys[] = {"client_id", "client_secret", "refresh_token"};
    stk__s3_look *look = a->look;
    stk__text body = {.bytes = look->body, .room = sizeof look->body};
    char *value = look->token.text;

    stk__text_add(&body, "grant_type=refresh_token");
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        STK_TRY(take(a, keys[i], value, sizeof look->token.text, err));
        stk__text_add(&body, "&%s=", keys[i]);
        stk__text_add_percent(&body, value, strlen(value), false);
    }
    return body.length < body.room ? ask_token(a, out, err) : too_long(a, err);
}

stk_status stk__s3_from_google_file(stk__s3_look *look, stk__s3_keys *out, stk_error *err)
{
    account a = {.look = look, .path = look->sources->credentials_file, .uri = TOKEN_URI};
    char type[64];
    const char *stop;

    if (!stk__s3_is_given(a.path))
        return STK_ENOENT;
    STK_TRY(stk__s3_look_file(a.path, look->credentials, sizeof look->credentials,
                              &look->credentials_length, err));
    if (look->credentials_length == 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, a.path, STK_NO_OFFSET,
                            "credentials_file: '%.200s' is not there, or empty", a.path);
    if (stk__json_scan(look->credentials, look->credentials + look->credentials_length, a.members,
                       MEMBERS, &a.n, &stop) != STK__JSON_DONE)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_STORE, a.path, STK_NO_OFFSET,
                            "'%.200s' is no object of JSON", a.path);
    STK_TRY(take(&a, "type", type, sizeof type, err));
    if (find(&a, "token_uri"))
        STK_TRY(take(&a, "token_uri", a.uri, sizeof a.uri, err));
    if (strcmp(type, "service_account") == 0)
        return from_service_account(&a, out, err);
    if (strcmp(type, "authorized_user") == 0)
        return from_user(&a, out, err);
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_STORE, a.path, STK_NO_OFFSET,
                        "'%.200s' is neither of a service account nor of a user's login: make a "
                        "key of a service account, or run `gcloud auth application-default login`",
                        a.path);
}

/* ---- The metadata server --------------------------------------------------------------------- */

/* [Google Cloud, Authenticating to APIs with an access token from the metadata server] */
stk_status stk__s3_from_google(stk__s3_look *look, stk__s3_keys *out, stk_error *err)
{
    static const char from[] = "the metadata server of this machine";
    const stk__s3_ask request = {
        .method = "GET",
        .endpoint = look->sources->metadata_endpoint,
        .target = "/computeMetadata/v1/instance/service-accounts/default/token",
        .headers = {{"Metadata-Flavor", "Google"}},
        .plain = true,
    };

    if (!stk__s3_is_given(look->sources->metadata_endpoint) ||
        stk__s3_look_ask(look, from, &request, NULL) != STK_OK)
        return STK_ENOENT;
    return stk__s3_keys_read_oauth(look->answer, look->length, from, look->now, out, err);
}
