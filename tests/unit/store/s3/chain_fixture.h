/* Services of credentials as a script, and files of them. Every secret has CANARY in it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_STORE_S3_CHAIN_FIXTURE_H
#define STK_TESTS_UNIT_STORE_S3_CHAIN_FIXTURE_H

#include "store/s3/credentials/credentials.h"
#include "support/support.h"

#define CANARY "C4nary"

static void assert_quiet(const stk_error *err)
{
    assert_null(strstr(err->text, CANARY));
    assert_null(strstr(err->key, CANARY));
}

static stk__s3_keys keys;

/* What services answer, by what is asked; and what was asked. */
typedef struct script {
    struct {
        const char *ask; /* "METHOD endpoint target" */
        int32_t code;
        const char *answer; /* NULL: nobody is there */
    } answers[6];
    char asked[4096], headers[4096], body[4096];
} script;

static stk_status answer(void *user, const stk__s3_ask *ask, int32_t *code, char *text,
                         size_t *length, stk_error *err)
{
    script *s = user;
    char line[512];

    snprintf(line, sizeof line, "%s %s%s", ask->method, ask->endpoint, ask->target);
    sprintf(s->asked + strlen(s->asked), "%s;", line);
    for (size_t i = 0; i < STK_COUNT(ask->headers); i++)
        if (ask->headers[i].name)
            sprintf(s->headers + strlen(s->headers), "%s: %s;", ask->headers[i].name,
                    ask->headers[i].value);
    if (ask->body)
        strcpy(s->body, ask->body);
    for (size_t i = 0; i < STK_COUNT(s->answers); i++)
        if (s->answers[i].ask && strcmp(s->answers[i].ask, line) == 0 && s->answers[i].answer) {
            *code = s->answers[i].code;
            *length = strlen(s->answers[i].answer);
            memcpy(text, s->answers[i].answer, *length + 1);
            return STK_OK;
        }
    return stk__fail(err, STK_ETIMEDOUT, STK_STAGE_STORE, "nobody answers");
}

#define JSON                                                                                       \
    "{\"AccessKeyId\":\"from-json\",\"SecretAccessKey\":\"" CANARY "\",\"Token\":\"t" CANARY "\"," \
    "\"Expiration\":\"2100-01-01T00:00:00Z\"}"

static char folder[256];

static const char *path(const char *name)
{
    static char paths[4][320];
    static unsigned next;
    char *out = paths[next++ % 4];

    snprintf(out, sizeof paths[0], "%s/%s", folder, name);
    return out;
}

static void write_file(const char *name, const char *text)
{
    test_write(folder, name, text, strlen(text));
}

static int open_folder(void **state)
{
    test_folder(folder);
    return 0;
}

static int remove_folder(void **state)
{
    test_folder_remove(folder);
    return 0;
}

#endif
