/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a run as its page tells it: whatever is read is written as JSON, and read as the
 * same. */
#include "fuzz_support.h"

#include <stdlib.h>
#include <string.h>

#include <stoker/live.h>

#define TEXT 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_live_state state = {.struct_size = sizeof state}, back = {.struct_size = sizeof back};
    char *text = malloc(TEXT), *again = malloc(TEXT);
    stk_error err;

    FUZZ_CHECK(text && again);
    const stk_status status = stk_live_parse((const char *)data, size, &state, &err);
    FUZZ_CHECK(status == STK_OK || status == STK_EFORMAT);
    if (status == STK_OK) {
        const int length = stk_live_format(&state, text, TEXT);
        FUZZ_CHECK(length < TEXT);
        FUZZ_CHECK(stk_live_parse(text, (size_t)length, &back, &err) == STK_OK);
        FUZZ_CHECK(stk_live_format(&back, again, TEXT) == length);
        FUZZ_CHECK(strcmp(text, again) == 0);
    }
    free(again);
    free(text);
    return 0;
}
