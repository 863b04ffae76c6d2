/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/types.h>

#include "support/http_parts.h"

void *http_tls_create(const char *certificate, const char *key)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());

    if (!tls)
        return NULL;
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (SSL_CTX_use_certificate_chain_file(tls, certificate) == 1 &&
        SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) == 1)
        return tls;
    SSL_CTX_free(tls);
    errno = EINVAL;
    return NULL;
}

void http_tls_destroy(void *tls)
{
    SSL_CTX_free(tls);
}

void *http_tls_open(void *tls, int fd)
{
    SSL *session = SSL_new(tls);

    if (session && SSL_set_fd(session, fd) == 1) {
        SSL_set_accept_state(session);
        return session;
    }
    SSL_free(session);
    return NULL;
}

static ssize_t result(SSL *session, int n)
{
    if (n > 0)
        return n;
    switch (SSL_get_error(session, n)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        errno = EPROTO;
        return -1;
    }
}

ssize_t http_tls_read(void *session, void *to, size_t length)
{
    ERR_clear_error();
    return result(session, SSL_read(session, to, length < INT_MAX ? (int)length : INT_MAX));
}

ssize_t http_tls_write(void *session, const void *from, size_t length)
{
    ERR_clear_error();
    return result(session, SSL_write(session, from, length < INT_MAX ? (int)length : INT_MAX));
}

void http_tls_close(void *session, bool orderly)
{
    if (session && orderly)
        SSL_shutdown(session);
    SSL_free(session);
}
