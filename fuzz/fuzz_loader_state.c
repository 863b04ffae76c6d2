/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a loader's state, once as it is and once with its check made right, as whoever writes
 * a state can. What must hold whatever it says: it is taken whole or refused with a reason, and
 * what was taken is written and taken again as the same.
 */
#include "fuzz_support.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

#define CHECK " check="

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const char *text)
{
    stk_loader_state state, again;
    char written[1024];
    stk_error err;

    stk_error_init(&err);
    stk_status status = stk_loader_state_parse(text, &state, &err);
    if (status != STK_OK) {
        FUZZ_CHECK(err.status == status && err.text[0] && status != STK_EINTERNAL);
        return;
    }
    FUZZ_CHECK(state.shuffle <= STK_SHUFFLE_BLOCK && state.drop_last <= 1);
    int length = stk_loader_state_format(&state, written, sizeof written);
    FUZZ_CHECK(length > 0 && (size_t)length < sizeof written);
    FUZZ_CHECK(stk_loader_state_parse(written, &again, &err) == STK_OK);
    FUZZ_CHECK(memcmp(&state, &again, sizeof state) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1), *checked = calloc(1, size + sizeof CHECK + 16);

    FUZZ_CHECK(text && checked);
    memcpy(text, data, size);
    parse(text);
    char *end = strstr(text, CHECK);
    if (end)
        *end = 0;
    snprintf(checked, size + sizeof CHECK + 16, "%s" CHECK "%016" PRIx64, text,
             (uint64_t)XXH3_64bits(text, strlen(text)));
    parse(checked);
    free(checked);
    free(text);
    return 0;
}
