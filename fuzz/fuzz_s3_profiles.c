/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of profiles, and commands in them. Input: a file. What must hold: a value lies within the
 * text, has no line end and no blanks at its ends; the words of a command are no longer than it.
 */
#include "fuzz_support.h"

#include "store/s3/credentials/ini.h"
#include "store/s3/credentials/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_words(stk__ini_span value)
{
    char *words[STK__PROCESS_WORDS + 1], *command = malloc(value.length + 1);
    size_t total = 0;

    FUZZ_CHECK(command);
    memcpy(command, value.text, value.length);
    command[value.length] = 0;
    if (!memchr(value.text, 0, value.length) && stk__process_words(command, words)) {
        FUZZ_CHECK(words[0]);
        for (size_t i = 0; words[i]; i++)
            total += strlen(words[i]) + 1;
        FUZZ_CHECK(total <= value.length + 1);
    }
    free(command);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const kinds[] = {"", "profile"}, *const names[] = {"default", "a"},
                             *const keys[] = {"region", "credential_process"};
    char *text = malloc(size ? size : 1);

    FUZZ_CHECK(text);
    memcpy(text, data, size);
    for (size_t i = 0; i < 8; i++) {
        stk__ini_span value;
        const char *kind = kinds[i & 1], *name = names[i >> 1 & 1], *key = keys[i >> 2];
        if (!stk__ini_find(text, size, kind, name, key, &value))
            continue;
        FUZZ_CHECK(stk__ini_has(text, size, kind, name));
        FUZZ_CHECK(value.text >= text && value.text + value.length <= text + size);
        FUZZ_CHECK(value.length > 0 && !memchr(value.text, '\n', value.length));
        FUZZ_CHECK(value.text[0] != ' ' && value.text[value.length - 1] != ' ');
        check_words(value);
    }
    free(text);
    return 0;
}
