/* SPDX-License-Identifier: Apache-2.0 */
/* [AWS SDKs and Tools Reference Guide, IAM Identity Center credential provider]: the token that
 * `aws sso login` left is exchanged for keys of a role. */
#include <stdio.h>

#include "base/json_scan.h"
#include "base/sha1.h"
#include "store/s3/credentials/look.h"
#include "store/s3/endpoint.h"
#include "store/s3/errors.h"
#include "store/s3/list.h"

#define MEMBERS 32

/* What the profile says. */
typedef struct login {
    char name[1024]; /* of the session, or the address of the portal: the file of the token */
    char region[32], account[64], role[256];
} login;

static bool take(const stk__s3_look *look, const char *key, char *to, size_t size)
{
    stk__ini_span value;

    return stk__s3_look_profile(look, key, &value) && stk__ini_copy(value, to, size);
}

static bool take_of_session(const stk__s3_look *look, const char *session, const char *key,
                            char *to, size_t size)
{
    stk__ini_span value;

    return stk__ini_find(look->config, look->config_length, "sso-session", session, key, &value) &&
           stk__ini_copy(value, to, size);
}

static stk_status read_profile(const stk__s3_look *look, const char *profile, login *l,
                               stk_error *err)
{
    const bool session = take(look, "sso_session", l->name, sizeof l->name);

    if ((!session && !take(look, "sso_start_url", l->name, sizeof l->name)) ||
        (!(session && take_of_session(look, l->name, "sso_region", l->region, sizeof l->region)) &&
         !take(look, "sso_region", l->region, sizeof l->region)) ||
        !take(look, "sso_account_id", l->account, sizeof l->account) ||
        !take(look, "sso_role_name", l->role, sizeof l->role))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "the profile '%.60s' logs in by SSO, and one of sso_session or "
                         "sso_start_url, sso_region, sso_account_id, sso_role_name is missing: run "
                         "`aws configure sso --profile %.60s`",
                         profile, profile);
    if (!stk__s3_region_valid(l->region))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "the profile '%.60s': sso_region is no region", profile);
    return STK_OK;
}

/* "2019-11-14T04:05:45Z", and "...UTC" as older ones write it. */
static bool read_time(const stk__json_member *member, int64_t *seconds)
{
    char text[64];
    int64_t ns;
    const size_t length =
        member->kind == STK__JSON_STRING ? stk__json_member_text(member, text, sizeof text) : 0;

    if (length == 0 || length + 1 >= sizeof text)
        return false;
    if (stk__ends_with(text, length, "UTC"))
        memcpy(text + length - 3, "Z", 2);
    if (!stk__s3_time(text, &ns))
        return false;
    *seconds = ns / 1000000000;
    return true;
}

/* Into `token` of the look. False: there is none that is valid. */
static bool read_token(stk__s3_look *look, size_t length)
{
    stk__json_member members[MEMBERS];
    int64_t expires = 0;
    const char *stop;
    size_t n;

    explicit_bzero(&look->token, sizeof look->token);
    if (stk__json_scan(look->answer, look->answer + length, members, MEMBERS, &n, &stop) !=
        STK__JSON_DONE)
        return false;
    for (size_t i = 0; i < STK_MIN(n, MEMBERS); i++) {
        if (stk__json_member_key_is(&members[i], "accessToken") &&
            members[i].kind == STK__JSON_STRING && members[i].length < sizeof look->token.text)
            stk__json_member_text(&members[i], look->token.text, sizeof look->token.text);
        else if (stk__json_member_key_is(&members[i], "expiresAt") &&
                 !read_time(&members[i], &expires))
            return false;
    }
    return expires > look->now && stk__s3_look_word(look->token.text, strlen(look->token.text));
}

static stk_status find_token(stk__s3_look *look, const char *profile, const login *l,
                             stk_error *err)
{
    const char *folder = look->sources->sso_folder;
    char path[4096], name[STK__SHA1_TEXT];
    stk__sha1 hash;
    size_t length = 0;

    stk__sha1_init(&hash);
    stk__sha1_add(&hash, l->name, strlen(l->name));
    stk__sha1_text(&hash, name);
    if (!stk__s3_is_given(folder))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the profile '%.60s' logs in by SSO: say where its tokens lie, as "
                         "sso_folder=~/.aws/sso/cache",
                         profile);
    if (snprintf(path, sizeof path, "%s/%s.json", folder, name) >= (int)sizeof path)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_OPTIONS, "sso_folder is too long");
    STK_TRY(stk__s3_look_file(path, look->answer, sizeof look->answer, &length, err));
    if (length > 0 && read_token(look, length))
        return STK_OK;
    return stk__fail_at(err, STK_EACCES, STK_STAGE_STORE, path, STK_NO_OFFSET,
                        "the profile '%.60s' %s: run `aws sso login --profile %.60s`", profile,
                        length > 0 ? "has a login that has expired" : "has not logged in by SSO",
                        profile);
}

stk_status stk__s3_from_sso(stk__s3_look *look, stk__s3_keys *out, stk_error *err)
{
    static const char from[] = "the SSO portal of Amazon";
    const char *profile = stk__s3_profile_name(look->sources);
    stk__text target = {.bytes = look->target, .room = sizeof look->target};
    char endpoint[128];
    login l;

    STK_TRY(read_profile(look, profile, &l, err));
    STK_TRY(find_token(look, profile, &l, err));
    snprintf(endpoint, sizeof endpoint, "https://portal.sso.%s.amazonaws.com%s", l.region,
             stk__s3_host_end(l.region));
    stk__text_add(&target, "/federation/credentials?account_id=");
    stk__text_add_percent(&target, l.account, strlen(l.account), false);
    stk__text_add(&target, "&role_name=");
    stk__text_add_percent(&target, l.role, strlen(l.role), false);
    const stk__s3_ask request = {
        .method = "GET",
        .endpoint = endpoint,
        .target = look->target,
        .headers = {{"x-amz-sso_bearer_token", look->token.text}},
    };
    const stk_status status = stk__s3_look_ask(look, from, &request, err);
    if (status == STK_EACCES)
        return stk__fail(err, status, STK_STAGE_STORE,
                         "%s gave no credentials of the role '%.60s' in the account '%.20s': run "
                         "`aws sso login --profile %.60s`, or have the role assigned to you",
                         from, l.role, l.account, profile);
    STK_TRY(status);
    return stk__s3_keys_read_json(look->answer, look->length, from, out, err);
}
