/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"
#include "store/s3/credentials/rs256.h"

#define BEGIN "-----BEGIN PRIVATE KEY-----"
#define END   "-----END PRIVATE KEY-----"

/* Tags of DER [X.690]. */
enum { INTEGER = 0x02, OCTETS = 0x04, SEQUENCE = 0x30 };

typedef struct span {
    uint8_t *at, *end;
} span;

/* Take what has the tag off the front. False: something else stands there. */
static bool take(span *from, uint8_t tag, span *out)
{
    if (from->end - from->at < 2 || from->at[0] != tag)
        return false;
    size_t length = from->at[1];
    from->at += 2;
    if (length & 0x80) {
        const size_t digits = length & 0x7f;
        if (digits < 1 || digits > 2 || (size_t)(from->end - from->at) < digits)
            return false;
        length = (size_t)stk__big_endian(from->at, (unsigned)digits);
        from->at += digits;
    }
    if ((size_t)(from->end - from->at) < length)
        return false;
    *out = (span){from->at, from->at + length};
    from->at += length;
    return true;
}

/* A number that is not negative. */
static bool take_number(span *from, stk__rsa_number *out)
{
    span number;

    if (!take(from, INTEGER, &number) || number.at == number.end || *number.at & 0x80)
        return false;
    while (number.at < number.end - 1 && *number.at == 0)
        number.at++;
    *out = (stk__rsa_number){number.at, (size_t)(number.end - number.at)};
    return true;
}

/* The version of a sequence, which is 0: of a key of two primes. */
static bool take_version(span *from)
{
    stk__rsa_number version;

    return take_number(from, &version) && version.length == 1 && version.bytes[0] == 0;
}

/* PKCS #8 with the key of PKCS #1 within. */
static bool read_der(span der, stk__rsa_key *out)
{
    /* rsaEncryption and no parameters. */
    static const uint8_t rsa[] = {0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7,
                                  0x0d, 0x01, 0x01, 0x01, 0x05, 0x00};
    span outer, kind, octets, inner;

    if (!take(&der, SEQUENCE, &outer) || !take_version(&outer) || !take(&outer, SEQUENCE, &kind) ||
        (size_t)(kind.end - kind.at) != sizeof rsa || memcmp(kind.at, rsa, sizeof rsa) != 0 ||
        !take(&outer, OCTETS, &octets) || !take(&octets, SEQUENCE, &inner) || !take_version(&inner))
        return false;
    for (size_t i = 0; i < STK_COUNT(out->numbers); i++)
        if (!take_number(&inner, &out->numbers[i]))
            return false;
    return out->numbers[0].length <= STK__RS256_ROOM;
}

bool stk__rsa_key_read(char *text, stk__rsa_key *out)
{
    char *from = strstr(text, BEGIN), *to = text;
    const char *end = from ? strstr(from, END) : NULL;

    if (!end)
        return false;
    for (from += strlen(BEGIN); from < end; from++)
        if (*from != '\n' && *from != '\r' && *from != ' ')
            *to++ = *from;
    *to = 0;
    const size_t bytes = stk__base64_bytes(text);
    uint8_t *der = (uint8_t *)text;
    return bytes <= UINT32_MAX && stk__base64_parse(text, (uint32_t)bytes, der) &&
           read_der((span){der, der + bytes}, out);
}
