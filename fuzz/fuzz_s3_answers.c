/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What object stores and services of credentials answer. The first byte says what the rest is
 * taken for: a list, an error, keys as XML or JSON, a bearer token. What must hold: a list that is
 * refused has given nothing, the region of an error can be part of a host's name, keys that are
 * taken are whole, and no message repeats more than the name it was given.
 */
#include "fuzz_support.h"

#include <stdio.h>

#include "store/s3/credentials/credentials.h"
#include "store/s3/errors.h"
#include "store/s3/list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static stk_status count(void *user, const stk__s3_entry *entry, stk_error *err)
{
    (void)err;
    FUZZ_CHECK(entry->key[0] && entry->size <= INT64_MAX);
    FUZZ_CHECK(!entry->is_folder || entry->size == 0);
    ++*(size_t *)user;
    return STK_OK;
}

static void fuzz_list(const char *text, size_t length)
{
    char next[STK__S3_TOKEN];
    size_t n = 0;
    stk_error err;

    const stk_status status = stk__s3_list_read(text, length, "it", count, &n, next, &err);
    FUZZ_CHECK(status == STK_OK || (status == STK_EFORMAT && n == 0));
    FUZZ_CHECK(strlen(next) < sizeof next);
}

static void fuzz_error(const char *text, size_t length)
{
    stk__s3_error error;

    (void)stk__s3_error_read(text, length, &error);
    FUZZ_CHECK(!error.region[0] || stk__s3_region_valid(error.region));
    for (const char *p = error.message; *p; p++)
        FUZZ_CHECK(*p >= ' ' && *p <= '~');
    stk__s3_error_judge(400, &error);
    FUZZ_CHECK(error.status < 0);
}

static void check_keys(stk_status status, const stk__s3_keys *keys, bool pair)
{
    FUZZ_CHECK(status == STK_OK || status == STK_EFORMAT);
    if (status != STK_OK)
        return;
    FUZZ_CHECK(!pair || (stk__secret_has(&keys->id) && stk__secret_has(&keys->secret)));
    FUZZ_CHECK(pair || stk__secret_has(&keys->token));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stk__s3_keys keys;
    stk_error err;

    if (size == 0)
        return 0;
    /* In memory of its own, so that a byte beyond it is seen. */
    char *text = malloc(size);
    FUZZ_CHECK(text);
    memcpy(text, data + 1, size - 1);
    const size_t length = size - 1;
    switch (data[0] % 5) {
    case 0:
        fuzz_list(text, length);
        break;
    case 1:
        fuzz_error(text, length);
        break;
    case 2:
        check_keys(stk__s3_keys_read_sts(text, length, "it", &keys, &err), &keys, true);
        break;
    case 3:
        check_keys(stk__s3_keys_read_json(text, length, "it", &keys, &err), &keys, true);
        break;
    default:
        check_keys(stk__s3_keys_read_oauth(text, length, "it", 0, &keys, &err), &keys, false);
    }
    free(text);
    return 0;
}
