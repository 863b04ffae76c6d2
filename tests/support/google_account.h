/* A service account of the test's own: its file, and the check of what it signs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_GOOGLE_ACCOUNT_H
#define STK_TESTS_SUPPORT_GOOGLE_ACCOUNT_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "support/support.h"

/* A new key, and its text for JSON: line ends as "\n". The caller frees both. */
static inline EVP_PKEY *google_key(unsigned bits, char **text)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)bits);
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem;

    assert_non_null(key);
    assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
    const long length = BIO_get_mem_data(bio, &pem);
    char *to = *text = malloc(2 * (size_t)length + 1);
    assert_non_null(to);
    for (long i = 0; i < length; i++)
        if (pem[i] == '\n') {
            *to++ = '\\';
            *to++ = 'n';
        } else {
            *to++ = pem[i];
        }
    *to = 0;
    BIO_free(bio);
    return key;
}

/* Write the file of an account with it. */
static inline void google_account(const char *folder, const char *name, const char *key,
                                  const char *token_uri)
{
    char *text = malloc(strlen(key) + 1024);

    assert_non_null(text);
    sprintf(text,
            "{\"type\": \"service_account\", \"project_id\": \"p\", \"private_key_id\": \"k1\",\n"
            "\"private_key\": \"%s\", \"client_email\": \"reader@p.iam.gserviceaccount.com\",\n"
            "\"client_id\": \"1\", \"token_uri\": \"%s\"}\n",
            key, token_uri);
    test_write(folder, name, text, strlen(text));
    free(text);
}

/* A part of base64url as bytes; how many. */
static inline size_t google_part(const char *at, size_t length, char out[2048])
{
    char text[2048];

    if (length >= sizeof text)
        return 0;
    memcpy(text, at, length);
    text[length] = 0;
    for (size_t i = 0; i < length; i++)
        text[i] = (char)(text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i]);
    const size_t bytes = stk__base64_bytes(text);
    if (!stk__base64_parse(text, (uint32_t)bytes, (unsigned char *)out))
        return 0;
    out[bytes] = 0;
    return bytes;
}

/* Whether a body is a grant that the key signed, as a token service checks it [RFC 7523, section
 * 3]; `claims` of 2048 bytes are what it says, `head` likewise. */
static inline bool google_grant(const char *body, size_t length, EVP_PKEY *key, char *head,
                                char *claims)
{
    static const char grant[] =
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
    char signature[2048];

    if (length <= sizeof grant || memcmp(body, grant, sizeof grant - 1) != 0)
        return false;
    const char *begin = body + sizeof grant - 1, *end = body + length;
    const char *first = memchr(begin, '.', (size_t)(end - begin));
    const char *second = first ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;
    if (!second)
        return false;
    google_part(begin, (size_t)(first - begin), head);
    google_part(first + 1, (size_t)(second - first - 1), claims);
    const size_t n = google_part(second + 1, (size_t)(end - second - 1), signature);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    const bool good = hash && EVP_DigestVerifyInit(hash, NULL, EVP_sha256(), NULL, key) == 1 &&
                      EVP_DigestVerify(hash, (const unsigned char *)signature, n,
                                       (const unsigned char *)begin, (size_t)(second - begin)) == 1;
    EVP_MD_CTX_free(hash);
    return good;
}

#endif
