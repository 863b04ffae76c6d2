/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/credentials/rs256.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>

/* The key as numbers of OpenSSL: its readers of PEM and DER leave copies in memory that they do not
 * wipe; numbers it does. */
static EVP_PKEY *make(const stk__rsa_key *key)
{
    static const char *const names[] = {
        OSSL_PKEY_PARAM_RSA_N,         OSSL_PKEY_PARAM_RSA_E,
        OSSL_PKEY_PARAM_RSA_D,         OSSL_PKEY_PARAM_RSA_FACTOR1,
        OSSL_PKEY_PARAM_RSA_FACTOR2,   OSSL_PKEY_PARAM_RSA_EXPONENT1,
        OSSL_PKEY_PARAM_RSA_EXPONENT2, OSSL_PKEY_PARAM_RSA_COEFFICIENT1,
    };
    OSSL_PARAM params[STK_COUNT(key->numbers) + 1];
    EVP_PKEY *made = NULL;

    for (size_t i = 0; i < STK_COUNT(key->numbers); i++) {
        const stk__rsa_number *n = &key->numbers[i];
        /* OpenSSL takes the order of the machine: the least significant byte first. */
        for (size_t k = 0; k < n->length / 2; k++) {
            const uint8_t byte = n->bytes[k];
            n->bytes[k] = n->bytes[n->length - 1 - k];
            n->bytes[n->length - 1 - k] = byte;
        }
        params[i] = OSSL_PARAM_construct_BN(names[i], n->bytes, n->length);
    }
    params[STK_COUNT(key->numbers)] = OSSL_PARAM_construct_end();
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    if (ctx && EVP_PKEY_fromdata_init(ctx) == 1)
        (void)EVP_PKEY_fromdata(ctx, &made, EVP_PKEY_KEYPAIR, params);
    EVP_PKEY_CTX_free(ctx);
    return made;
}

stk_status stk__rs256_sign(const char *path, char *pem, const void *data, size_t length,
                           uint8_t signature[STK__RS256_ROOM], size_t *out, stk_error *err)
{
    stk__rsa_key key;
    bool done = false;

    if (!stk__rsa_key_read(pem, &key))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_STORE, path, STK_NO_OFFSET,
                            "'%.200s': private_key is no key of RSA in PEM", path);
    ERR_set_mark();
    EVP_PKEY *made = make(&key);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    *out = STK__RS256_ROOM;
    if (made && hash && EVP_DigestSignInit(hash, NULL, EVP_sha256(), NULL, made) == 1)
        done = EVP_DigestSign(hash, signature, out, data, length) == 1;
    EVP_MD_CTX_free(hash);
    EVP_PKEY_free(made);
    ERR_pop_to_mark();
    return done ? STK_OK
                : stk__fail_at(err, STK_EFORMAT, STK_STAGE_STORE, path, STK_NO_OFFSET,
                               "'%.200s': nothing can be signed with private_key", path);
}
