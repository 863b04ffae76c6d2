/* SPDX-License-Identifier: Apache-2.0 */
/* What services answer with. Nothing of it is copied but into secrets. */
#include "base/json_scan.h"
#include "store/s3/credentials/credentials.h"
#include "store/s3/list.h"
#include "store/s3/xml.h"

#define MEMBERS 32

static stk_status damaged(const char *from, const char *what, stk_error *err)
{
    return stk__fail(err, STK_EFORMAT, STK_STAGE_STORE, "what %s answered holds no credentials: %s",
                     from, what);
}

/* Secrets go into headers: one with a control character within is none. */
static bool take_text(const stk__json_member *member, stk__secret *out)
{
    if (member->kind != STK__JSON_STRING || member->length >= sizeof out->text)
        return false;
    explicit_bzero(out, sizeof *out);
    const size_t length = stk__json_member_text(member, out->text, sizeof out->text);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)out->text[i] < ' ')
            return false;
    return true;
}

/* A text as ISO 8601, or of SSO a number of milliseconds. */
static bool take_expiry(const stk__json_member *member, int64_t *out)
{
    char text[64];
    int64_t ns;

    if (member->kind == STK__JSON_NUMBER) {
        if (!stk__json_member_whole(member, INT64_MAX, out))
            return false;
        *out /= 1000;
        return true;
    }
    if (member->kind != STK__JSON_STRING ||
        stk__json_member_text(member, text, sizeof text) + 1 >= sizeof text)
        return false;
    /* Some write the offset of UTC out. */
    const size_t length = strlen(text);
    if (stk__ends_with(text, length, "+00:00"))
        memcpy(text + length - 6, "Z", 2);
    if (!stk__s3_time(text, &ns))
        return false;
    *out = ns / 1000000000;
    return true;
}

/* "AccessKeyId", and SSO's "accessKeyId". */
static bool is(const stk__json_member *member, const char *name)
{
    return member->key_length == strlen(name) && (member->key[0] | 32) == (name[0] | 32) &&
           memcmp(member->key + 1, name + 1, member->key_length - 1) == 0;
}

static bool take_member(const stk__json_member *member, stk__s3_keys *out)
{
    if (member->kind == STK__JSON_NULL)
        return true;
    if (is(member, "AccessKeyId"))
        return take_text(member, &out->id);
    if (is(member, "SecretAccessKey"))
        return take_text(member, &out->secret);
    if (is(member, "SessionToken") || is(member, "Token"))
        return take_text(member, &out->token);
    if (is(member, "Expiration"))
        return take_expiry(member, &out->expires);
    return true;
}

static bool scan(const char *text, size_t length, stk__json_member *members, size_t *n)
{
    const char *stop;

    return stk__json_scan(text, text + length, members, MEMBERS, n, &stop) == STK__JSON_DONE &&
           *n <= MEMBERS;
}

stk_status stk__s3_keys_read_json(const char *text, size_t length, const char *from,
                                  stk__s3_keys *out, stk_error *err)
{
    stk__json_member members[MEMBERS];
    size_t n;

    explicit_bzero(out, sizeof *out);
    out->expires = INT64_MAX;
    if (!scan(text, length, members, &n))
        return damaged(from, "it is no object of JSON", err);
    for (size_t i = 0; i < n; i++)
        if (stk__json_member_key_is(&members[i], "roleCredentials") &&
            members[i].kind == STK__JSON_OBJECT) {
            if (!scan(members[i].text, members[i].length, members, &n))
                return damaged(from, "roleCredentials is no object", err);
            break;
        }
    for (size_t i = 0; i < n; i++)
        if (!take_member(&members[i], out))
            return damaged(from, "a member is of another kind, or too long", err);
    if (!stk__secret_has(&out->id) || !stk__secret_has(&out->secret))
        return damaged(from, "AccessKeyId or SecretAccessKey is missing", err);
    return STK_OK;
}

stk_status stk__s3_keys_read_oauth(const char *text, size_t length, const char *from, int64_t now,
                                   stk__s3_keys *out, stk_error *err)
{
    stk__json_member members[MEMBERS];
    int64_t seconds = 0;
    size_t n;

    explicit_bzero(out, sizeof *out);
    if (!scan(text, length, members, &n))
        return damaged(from, "it is no object of JSON", err);
    for (size_t i = 0; i < n; i++)
        if ((stk__json_member_key_is(&members[i], "access_token") &&
             !take_text(&members[i], &out->token)) ||
            (stk__json_member_key_is(&members[i], "expires_in") &&
             !stk__json_member_whole(&members[i], INT64_C(1) << 40, &seconds)))
            return damaged(from, "a member is of another kind, or too long", err);
    if (!stk__secret_has(&out->token) || seconds == 0)
        return damaged(from, "access_token or expires_in is missing", err);
    out->expires = now + seconds;
    return STK_OK;
}

stk_status stk__s3_keys_read_sts(const char *text, size_t length, const char *from,
                                 stk__s3_keys *out, stk_error *err)
{
    stk__xml_event event;
    bool good = true;
    char when[64];
    int64_t ns;
    stk__xml xml;

    explicit_bzero(out, sizeof *out);
    out->expires = INT64_MAX;
    stk__xml_init(&xml, text, length);
    while ((event = stk__xml_next(&xml)) < STK__XML_DONE) {
        /* <AssumeRole...Response><AssumeRole...Result><Credentials>. */
        if (event == STK__XML_BEGIN || xml.depth != 4 || !xml.leaf)
            continue;
        if (stk__xml_is(&xml, "AccessKeyId"))
            good &= stk__xml_text(&xml, out->id.text, sizeof out->id.text);
        else if (stk__xml_is(&xml, "SecretAccessKey"))
            good &= stk__xml_text(&xml, out->secret.text, sizeof out->secret.text);
        else if (stk__xml_is(&xml, "SessionToken"))
            good &= stk__xml_text(&xml, out->token.text, sizeof out->token.text);
        else if (stk__xml_is(&xml, "Expiration")) {
            good &= stk__xml_text(&xml, when, sizeof when) && stk__s3_time(when, &ns);
            out->expires = good ? ns / 1000000000 : 0;
        }
    }
    if (event == STK__XML_BAD || !good)
        return damaged(from, event == STK__XML_BAD ? xml.why : "a value is broken", err);
    if (!stk__secret_has(&out->id) || !stk__secret_has(&out->secret) ||
        !stk__secret_has(&out->token))
        return damaged(from, "a key is missing", err);
    return STK_OK;
}
