/* SPDX-License-Identifier: Apache-2.0 */
/* [AWS SDKs and Tools Reference Guide, Standardized credential providers] */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json_scan.h"
#include "store/s3/credentials/ini.h"
#include "store/s3/credentials/look.h"
#include "store/s3/credentials/process.h"
#include "store/s3/endpoint.h"
#include "store/s3/errors.h"
#include "store/s3/sigv4.h"

#define ECS      "http://169.254.170.2"
#define PATIENCE UINT64_C(60000000000) /* of a process, ns */

/* ---- Files ----------------------------------------------------------------------------------- */

stk_status stk__s3_look_file(const char *path, char *text, size_t size, size_t *length,
                             stk_error *err)
{
    *length = 0;
    text[0] = 0;
    if (!path)
        return STK_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return STK_OK;
    stk_status status = fd < 0 ? stk__status_of_errno(errno) : STK_OK;
    ssize_t n = 1;
    while (status == STK_OK && n > 0 && *length < size) {
        n = read(fd, text + *length, size - *length);
        if (n < 0 && errno != EINTR)
            status = stk__status_of_errno(errno);
        else
            *length += n > 0 ? (size_t)n : 0;
        n = n < 0 ? 1 : n;
    }
    if (fd >= 0)
        close(fd);
    if (status == STK_OK && *length == size)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_STORE, path, STK_NO_OFFSET,
                            "'%.200s' is larger than a file of credentials (%zu bytes)", path,
                            size - 1);
    if (status != STK_OK)
        return stk__fail_at(err, status, STK_STAGE_STORE, path, STK_NO_OFFSET,
                            "'%.200s', a file of credentials, cannot be read", path);
    text[*length] = 0;
    return STK_OK;
}

/* A value of a section of the file `config`: "[default]" and "[profile default]" are one. */
static bool config_value(const stk__s3_look *c, const char *kind, const char *name, const char *key,
                         stk__ini_span *out)
{
    return stk__ini_find(c->config, c->config_length, kind, name, key, out) ||
           (strcmp(name, "default") == 0 && strcmp(kind, "profile") == 0 &&
            stk__ini_find(c->config, c->config_length, "", name, key, out));
}

const char *stk__s3_profile_name(const stk__s3_sources *sources)
{
    return sources->profile && *sources->profile ? sources->profile : "default";
}

bool stk__s3_look_profile(const stk__s3_look *c, const char *key, stk__ini_span *out)
{
    const char *profile = stk__s3_profile_name(c->sources);

    return stk__ini_find(c->credentials, c->credentials_length, "", profile, key, out) ||
           config_value(c, "profile", profile, key, out);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* {"error": "invalid_grant", ...} [RFC 6749, section 5.2] */
static void read_json_error(const stk__s3_look *c, char *code, size_t size)
{
    stk__json_member members[8];
    const char *stop;
    size_t n;

    if (stk__json_scan(c->answer, c->answer + c->length, members, STK_COUNT(members), &n, &stop) !=
        STK__JSON_DONE)
        return;
    for (size_t i = 0; i < STK_MIN(n, STK_COUNT(members)); i++)
        if (stk__json_member_key_is(&members[i], "error") && members[i].kind == STK__JSON_STRING &&
            members[i].length < size && stk__s3_look_word(members[i].text, members[i].length))
            stk__json_member_text(&members[i], code, size);
}

stk_status stk__s3_look_ask(stk__s3_look *c, const char *from, const stk__s3_ask *ask,
                            stk_error *err)
{
    stk__s3_error error;
    int32_t code = 0;

    const stk_status status = c->fetch(c->user, ask, &code, c->answer, &c->length, err);
    if (status != STK_OK)
        return status == STK_ENOENT ? STK_EIO : status;
    if (code >= 200 && code < 300)
        return STK_OK;
    /* Its words say nothing of the request; those of others than STS are not repeated. */
    if (!stk__s3_error_read(c->answer, c->length, &error))
        read_json_error(c, error.code, sizeof error.code);
    return stk__fail(err, code >= 500 || code == 429 ? STK_EIO : STK_EACCES, STK_STAGE_STORE,
                     "%s gave no credentials: HTTP %d%s%s%s%s", from, (int)code,
                     error.code[0] ? ", " : "", error.code, error.message[0] ? ": " : "",
                     error.message);
}

/* ---- Options --------------------------------------------------------------------------------- */

static stk_status from_options(stk__s3_look *c, stk__s3_keys *out, stk_error *err)
{
    const stk__s3_sources *s = c->sources;

    if (!stk__s3_is_given(s->access_key_id) && !stk__s3_is_given(s->secret_access_key))
        return STK_ENOENT;
    if (!stk__s3_is_given(s->access_key_id) || !stk__s3_is_given(s->secret_access_key))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "access_key_id and secret_access_key go together, and one is missing");
    if (!stk__secret_set(&out->id, s->access_key_id, strlen(s->access_key_id)) ||
        !stk__secret_set(&out->secret, s->secret_access_key, strlen(s->secret_access_key)) ||
        (s->session_token &&
         !stk__secret_set(&out->token, s->session_token, strlen(s->session_token))))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_OPTIONS, "a key of %d bytes or more",
                         STK__SECRET_ROOM);
    out->expires = INT64_MAX;
    return STK_OK;
}

/* ---- Web identity ---------------------------------------------------------------------------- */

static stk_status assume(stk__s3_look *c, const char *role, const char *session, const char *file,
                         stk__s3_keys *out, stk_error *err)
{
    char endpoint[128];
    size_t length;
    stk__text body = {.bytes = c->body, .room = sizeof c->body};

    if (!c->sources->region || !stk__s3_region_valid(c->sources->region))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "web identity: no region to ask; say region=us-east-1 or another");
    STK_TRY(stk__s3_look_file(file, c->token.text, sizeof c->token.text, &length, err));
    while (length > 0 && (c->token.text[length - 1] == '\n' || c->token.text[length - 1] == ' '))
        c->token.text[--length] = 0;
    if (length == 0)
        return stk__fail_at(err, STK_EACCES, STK_STAGE_STORE, file, STK_NO_OFFSET,
                            "web identity: '%.200s' holds no token", file);
    snprintf(endpoint, sizeof endpoint, "https://sts.%s.amazonaws.com%s", c->sources->region,
             stk__s3_host_end(c->sources->region));
    stk__text_add(&body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
    stk__text_add_percent(&body, role, strlen(role), false);
    stk__text_add(&body, "&RoleSessionName=");
    stk__text_add_percent(&body, session, strlen(session), false);
    stk__text_add(&body, "&WebIdentityToken=");
    stk__text_add_percent(&body, c->token.text, length, false);
    if (body.length >= body.room)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_STORE, "web identity: the token is too long");
    const stk__s3_ask request = {
        .method = "POST", .endpoint = endpoint, .target = "/", .body = c->body};
    STK_TRY(stk__s3_look_ask(c, "STS", &request, err));
    return stk__s3_keys_read_sts(c->answer, c->length, "STS", out, err);
}

static stk_status from_web_identity(stk__s3_look *c, stk__s3_keys *out, stk_error *err)
{
    const stk__s3_sources *s = c->sources;

    if (!stk__s3_is_given(s->role_arn) || !stk__s3_is_given(s->web_identity_token_file))
        return STK_ENOENT;
    return assume(c, s->role_arn,
                  stk__s3_is_given(s->role_session_name) ? s->role_session_name : "stoker",
                  s->web_identity_token_file, out, err);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

static stk_status keys_of_profile(const stk__s3_look *c, stk__ini_span id, stk__s3_keys *out,
                                  stk_error *err)
{
    stk__ini_span secret, token = {"", 0};

    if (!stk__s3_look_profile(c, "aws_secret_access_key", &secret))
        return stk__fail(err, STK_EACCES, STK_STAGE_STORE,
                         "the profile '%.60s' has aws_access_key_id and no aws_secret_access_key",
                         stk__s3_profile_name(c->sources));
    (void)stk__s3_look_profile(c, "aws_session_token", &token);
    if (!stk__secret_set(&out->id, id.text, id.length) ||
        !stk__secret_set(&out->secret, secret.text, secret.length) ||
        !stk__secret_set(&out->token, token.text, token.length))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_STORE, "a key of %d bytes or more in '%.60s'",
                         STK__SECRET_ROOM, stk__s3_profile_name(c->sources));
    out->expires = INT64_MAX;
    return STK_OK;
}

static stk_status from_process(stk__s3_look *c, stk__ini_span command, stk__s3_keys *out,
                               stk_error *err)
{
    if (!stk__ini_copy(command, c->target, sizeof c->target))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_STORE, "credential_process is too long");
    STK_TRY(stk__process_read(c->target, c->answer, sizeof c->answer, &c->length, PATIENCE, err));
    return stk__s3_keys_read_json(c->answer, c->length, "credential_process", out, err);
}

static stk_status from_profile(stk__s3_look *c, stk__s3_keys *out, stk_error *err)
{
    const stk__s3_sources *s = c->sources;
    const char *profile = stk__s3_profile_name(s);
    stk__ini_span value, file;
    char role[2048], path[4096], session[128] = "stoker";

    STK_TRY(stk__s3_look_file(s->credentials_file, c->credentials, sizeof c->credentials,
                              &c->credentials_length, err));
    STK_TRY(stk__s3_look_file(s->config_file, c->config, sizeof c->config, &c->config_length, err));
    if (stk__s3_is_given(s->profile) &&
        !stk__ini_has(c->credentials, c->credentials_length, "", profile) &&
        !stk__ini_has(c->config, c->config_length, "profile", profile) &&
        !(strcmp(profile, "default") == 0 &&
          stk__ini_has(c->config, c->config_length, "", profile)))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "profile: there is none of the name '%.60s' in '%.200s' and '%.200s'",
                         profile,
                         stk__s3_is_given(s->credentials_file) ? s->credentials_file : "(no file)",
                         stk__s3_is_given(s->config_file) ? s->config_file : "(no file)");
    if (stk__s3_look_profile(c, "aws_access_key_id", &value))
        return keys_of_profile(c, value, out, err);
    if (stk__s3_look_profile(c, "role_arn", &value) &&
        stk__s3_look_profile(c, "web_identity_token_file", &file)) {
        const bool fits =
            stk__ini_copy(value, role, sizeof role) && stk__ini_copy(file, path, sizeof path);
        if (stk__s3_look_profile(c, "role_session_name", &value) &&
            !stk__ini_copy(value, session, sizeof session))
            snprintf(session, sizeof session, "stoker");
        return fits ? assume(c, role, session, path, out, err)
                    : stk__fail(err, STK_ELIMIT, STK_STAGE_STORE, "role_arn is too long");
    }
    if (stk__s3_look_profile(c, "credential_process", &value))
        return from_process(c, value, out, err);
    if (stk__s3_look_profile(c, "sso_session", &value) ||
        stk__s3_look_profile(c, "sso_start_url", &value))
        return stk__s3_from_sso(c, out, err);
    if (stk__s3_look_profile(c, "source_profile", &value))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_STORE,
                         "the profile '%.60s' takes the role of another, which the AWS command "
                         "does: use a profile of its own with credential_process = aws configure "
                         "export-credentials --profile %.60s --format process",
                         profile, profile);
    return STK_ENOENT;
}

/* ---- Containers and machines ----------------------------------------------------------------- */

bool stk__s3_look_part(stk__s3_look *c, const char *uri, char *endpoint, size_t size)
{
    const char *host = strstr(uri, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    return path && snprintf(endpoint, size, "%.*s", (int)(path - uri), uri) < (int)size &&
           snprintf(c->target, sizeof c->target, "%s", path) < (int)sizeof c->target;
}

/* Those that may be asked over plain http [Container credential provider]. */
static bool host_allowed(const char *endpoint)
{
    return strncmp(endpoint, "https://", 8) == 0 || stk__s3_loopback(endpoint) ||
           strcmp(endpoint, ECS) == 0 || strcmp(endpoint, "http://169.254.170.23") == 0 ||
           strcmp(endpoint, "http://[fd00:ec2::23]") == 0;
}

static stk_status from_container(stk__s3_look *c, stk__s3_keys *out, stk_error *err)
{
    const stk__s3_sources *s = c->sources;
    char endpoint[256], uri[STK__S3_TARGET];
    size_t length = 0;

    if (!stk__s3_is_given(s->container_uri))
        return STK_ENOENT;
    /* A path is of ECS. */
    if (snprintf(uri, sizeof uri, "%s%s", *s->container_uri == '/' ? ECS : "", s->container_uri) >=
            (int)sizeof uri ||
        !stk__s3_look_part(c, uri, endpoint, sizeof endpoint) || !host_allowed(endpoint))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "container_uri: credentials are asked for by https, or of this machine");
    if (stk__s3_is_given(s->container_token_file))
        STK_TRY(stk__s3_look_file(s->container_token_file, c->token.text, sizeof c->token.text,
                                  &length, err));
    else if (stk__s3_is_given(s->container_token))
        (void)stk__secret_set(&c->token, s->container_token, strlen(s->container_token));
    length = strcspn(c->token.text, "\r\n");
    c->token.text[length] = 0;
    const stk__s3_ask request = {
        .method = "GET",
        .endpoint = endpoint,
        .target = c->target,
        .headers = {{length > 0 ? "Authorization" : NULL, c->token.text}},
        .plain = true,
    };
    STK_TRY(stk__s3_look_ask(c, "the container's service", &request, err));
    return stk__s3_keys_read_json(c->answer, c->length, "the container's service", out, err);
}

bool stk__s3_look_word(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return length > 0;
}

/* [EC2 User Guide, Instance metadata service version 2]: a token first, which no open proxy or
 * forged request can ask for. */
static stk_status from_metadata(stk__s3_look *c, stk__s3_keys *out, stk_error *err)
{
    static const char from[] = "the metadata service of this machine";
    static const char path[] = "/latest/meta-data/iam/security-credentials/";
    const char *endpoint = c->sources->metadata_endpoint;

    if (!stk__s3_is_given(endpoint))
        return STK_ENOENT;
    const stk__s3_ask first = {
        .method = "PUT",
        .endpoint = endpoint,
        .target = "/latest/api/token",
        .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}},
        .plain = true,
    };
    /* Nobody answers: this is no machine of Amazon's. */
    if (stk__s3_look_ask(c, from, &first, NULL) != STK_OK)
        return STK_ENOENT;
    if (!stk__s3_look_word(c->answer, c->length) ||
        !stk__secret_set(&c->token, c->answer, c->length))
        return stk__fail(err, STK_EFORMAT, STK_STAGE_STORE, "%s gave no token", from);
    stk__s3_ask request = {
        .method = "GET",
        .endpoint = endpoint,
        .target = path,
        .headers = {{"X-aws-ec2-metadata-token", c->token.text}},
        .plain = true,
    };
    if (stk__s3_look_ask(c, from, &request, NULL) != STK_OK)
        return STK_ENOENT;
    const size_t length = strcspn(c->answer, "\r\n");
    if (!stk__s3_look_word(c->answer, length) || length > 256)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_STORE, "%s gave no name of a role", from);
    stk__text target = {.bytes = c->target, .room = sizeof c->target};
    stk__text_add(&target, "%s", path);
    stk__text_add_percent(&target, c->answer, length, false);
    request.target = c->target;
    STK_TRY(stk__s3_look_ask(c, from, &request, err));
    return stk__s3_keys_read_json(c->answer, c->length, from, out, err);
}

/* ---- The chain ------------------------------------------------------------------------------- */

static stk_status walk(stk__s3_look *c, stk__s3_keys *out, stk_error *err)
{
    static stk__s3_source *const amazon[] = {from_options,   from_web_identity, from_profile,
                                             from_container, from_metadata,     NULL};
    static stk__s3_source *const google[] = {from_options, stk__s3_from_google_file,
                                             stk__s3_from_google, NULL};

    for (stk__s3_source *const *from = c->sources->google ? google : amazon; *from; from++) {
        explicit_bzero(out, sizeof *out);
        const stk_status status = (*from)(c, out, err);
        if (status != STK_ENOENT)
            return status;
    }
    if (c->sources->google)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_STORE,
            "no credentials for gs: neither HMAC keys, nor a file, nor a metadata server; "
            "set GOOGLE_APPLICATION_CREDENTIALS, run `gcloud auth application-default "
            "login`, or say anonymous=true for a public bucket");
    return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                     "no credentials for s3: none in options, the profile '%.60s', a container or "
                     "instance metadata; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, run "
                     "`aws configure`, or say anonymous=true for a public bucket",
                     stk__s3_profile_name(c->sources));
}

stk_status stk__s3_chain(const stk__s3_sources *sources, stk__s3_fetch_fn *fetch, void *user,
                         int64_t now, stk__s3_keys *out, stk_error *err)
{
    stk__s3_look *c = stk__secrets_alloc(sizeof *c);

    if (!c)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for credentials");
    c->sources = sources;
    c->fetch = fetch;
    c->user = user;
    c->now = now;
    const stk_status status = walk(c, out, err);
    stk__secrets_free(c, sizeof *c);
    return status;
}

bool stk__s3_profile_region(const stk__s3_sources *sources, char *region, size_t size)
{
    stk__ini_span value;
    bool found = false;
    stk__s3_look *c = stk__secrets_alloc(sizeof *c);

    if (!c)
        return false;
    c->sources = sources;
    if (stk__s3_look_file(sources->config_file, c->config, sizeof c->config, &c->config_length,
                          NULL) == STK_OK &&
        config_value(c, "profile", stk__s3_profile_name(sources), "region", &value))
        found = stk__ini_copy(value, region, size) && stk__s3_region_valid(region);
    stk__secrets_free(c, sizeof *c);
    return found;
}
