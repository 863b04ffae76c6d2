/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live sheet of another process: behind the head of this version, which names sizes and so
 * changes with the struct, the bytes of a state. What must hold whatever they are: its texts end,
 * its counts fit, and it is JSON; and a page with any other head is refused.
 */
#include "fuzz_support.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure/live.h"

#define TEXT 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_page(const void *page, size_t size, stk_live_state *out)
{
    stk_error err;
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);

    FUZZ_CHECK(fd >= 0 && write(fd, page, size) == (ssize_t)size);
    const stk_status status = stk__live_read_page(fd, out, &err);
    close(fd);
    FUZZ_CHECK(status == STK_OK || status == STK_EMISMATCH || status == STK_EAGAIN);
    return status == STK_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__live_page *page = calloc(1, sizeof *page);
    char *text = malloc(TEXT);
    stk_live_state state;

    FUZZ_CHECK(page && text);
    read_page(data, size, &state);
    memcpy(page->magic, STK__LIVE_MAGIC, sizeof STK__LIVE_MAGIC);
    page->version = STK__LIVE_VERSION;
    page->bytes = sizeof *page;
    page->sequence = 2; /* something was written */
    if (size)
        memcpy(&page->state, data, STK_MIN(size, sizeof page->state));
    /* What is behind a short input is the same again, so that all members are reached. */
    for (size_t at = size; size && at < sizeof page->state; at += size)
        memcpy((char *)&page->state + at, data, STK_MIN(size, sizeof page->state - at));
    FUZZ_CHECK(read_page(page, sizeof *page, &state));
    FUZZ_CHECK(state.num_workers <= STK_LIVE_WORKERS && state.num_metrics <= STK_LIVE_METRICS);
    FUZZ_CHECK(stk_live_format(&state, text, TEXT) < TEXT);
    json_t *json = json_loads(text, 0, NULL);
    FUZZ_CHECK(json);
    json_decref(json);
    FUZZ_CHECK(stk_live_metrics(&state, text, TEXT) < TEXT);
    free(text);
    free(page);
    return 0;
}
