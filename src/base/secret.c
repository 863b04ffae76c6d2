/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials: what is one, and that none is part of a URL, which is printed and logged. */
#include "base/digits.h"
#include "base/options.h"

#define NAME_ROOM 64 /* bytes of the end of a name that is looked at, with its end */

bool stk__secret_named(const char *text)
{
    const size_t from = strlen(STK__SECRET_FROM);

    return strncmp(text, STK__SECRET_FROM, from) == 0 && text[from] != 0;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || stk__is_digit(c);
}

bool stk__secret_name(const char *name, size_t length)
{
    static const char *const words[] = {
        "password",    "passwd", "secret",    "token",     "signature",  "sig",        "credential",
        "credentials", "apikey", "accesskey", "secretkey", "privatekey", "accesskeyid"};
    char plain[NAME_ROOM];
    size_t at = sizeof plain - 1;

    plain[at] = 0;
    while (length > 0 && at > 0) {
        const char c = name[--length];
        const char small = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        if (is_word(small))
            plain[--at] = small;
    }
    const size_t used = sizeof plain - 1 - at;
    for (size_t i = 0; i < STK_COUNT(words); i++) {
        const size_t n = strlen(words[i]);
        if (used >= n && strcmp(plain + sizeof plain - 1 - n, words[i]) == 0)
            return true;
    }
    return false;
}

#define REMEDY                                                                                     \
    "a URL is printed and logged; give it as an option of the store, whose value is the name "     \
    "of an environment variable: --stores 'SCHEME://HOST(OPTION=env:NAME)'"

/* Whether "user@host", or a password behind ':' that has a '/', is what follows "scheme://". A URL
 * may be part of a list. */
static bool has_user(const char *authority)
{
    const size_t length = strcspn(authority, "/?#(), \"'");
    const char *colon = memchr(authority, ':', length);

    if (memchr(authority, '@', length))
        return true;
    if (!colon || *authority == '[')
        return false;
    for (const char *p = colon + 1; p < authority + length; p++)
        if (!stk__is_digit(*p)) /* the next parameter of a query that a URL is one of */
            return *p != '&' || strchr(p, '@');
    return false;
}

/* Whether what stands before "://" ends as a scheme does. */
static bool ends_scheme(const char *text, const char *at)
{
    const char c = at > text ? at[-1] : 0;

    return is_word(c) || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.';
}

stk_status stk__secret_refuse(const char *text, stk_error *err)
{
    for (const char *p = text; (p = strstr(p, "://")); p += 3)
        if (ends_scheme(text, p) && has_user(p + 3))
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "a URL with a user or a password in front of its host: " REMEDY);
    const char *p = strchr(text, '?');
    while (p) {
        const size_t length = strcspn(++p, "=&?");
        if (p[length] == '=' && stk__secret_name(p, length))
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "'%.*s' in the query of a URL is a secret: " REMEDY,
                             (int)STK_MIN(length, 60u), p);
        p = strpbrk(p + length, "&?");
    }
    return STK_OK;
}
