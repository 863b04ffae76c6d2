/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of Google's credentials, and keys in them. Input: a file; the same as PEM. What must hold:
 * what is asked goes to https or this machine, and is one line; numbers of a key lie within it.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_support.h"
#include "store/s3/credentials/credentials.h"
#include "store/s3/credentials/rs256.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static stk_status answer(void *user, const stk__s3_ask *ask, int32_t *code, char *text,
                         size_t *length, stk_error *err)
{
    static const char token[] = "{\"access_token\":\"t\",\"expires_in\":60}";

    (void)user, (void)err;
    FUZZ_CHECK(strncmp(ask->endpoint, "https://", 8) == 0 || ask->plain);
    for (const char *p = ask->target; *p; p++)
        FUZZ_CHECK(*p > ' ' && *p <= '~');
    FUZZ_CHECK(ask->target[0] == '/' && !strpbrk(ask->body, "\r\n \""));
    *code = 200;
    *length = sizeof token - 1;
    memcpy(text, token, sizeof token);
    return STK_OK;
}

static void check_key(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    stk__rsa_key key;

    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    if (stk__rsa_key_read(text, &key))
        for (size_t i = 0; i < STK_COUNT(key.numbers); i++) {
            const stk__rsa_number *n = &key.numbers[i];
            FUZZ_CHECK(n->length > 0 && (char *)n->bytes >= text &&
                       (char *)n->bytes + n->length <= text + size);
        }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stk__s3_keys keys;
    const int fd = memfd_create("account", MFD_CLOEXEC);
    char path[64];
    const stk__s3_sources sources = {.google = true, .credentials_file = path};
    stk_error err;

    check_key(data, size);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (stk__s3_chain(&sources, answer, NULL, 1700000000, &keys, &err) == STK_OK)
        FUZZ_CHECK(strcmp(keys.token.text, "t") == 0 && keys.expires == 1700000060);
    close(fd);
    return 0;
}
