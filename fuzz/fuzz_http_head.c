/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of HTTP. Input: lines as a server sends them. What must hold: a range that was understood
 * is one within its object, texts have an end and are whole, waits and identities are within
 * bounds.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "store/http/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const stk__http_head *head)
{
    if (head->has_range) {
        FUZZ_CHECK(!head->wrong_range);
        FUZZ_CHECK((head->first == STK__HTTP_UNSAID) == (head->last == STK__HTTP_UNSAID));
        FUZZ_CHECK(head->first != STK__HTTP_UNSAID || head->total != STK__HTTP_UNSAID);
        if (head->first != STK__HTTP_UNSAID)
            FUZZ_CHECK(head->first <= head->last && head->last < head->total);
    } else {
        FUZZ_CHECK(head->first == STK__HTTP_UNSAID && head->total == STK__HTTP_UNSAID);
    }
    FUZZ_CHECK(head->code >= 0 && head->code <= 999);
    FUZZ_CHECK(strlen(head->etag) < sizeof head->etag);
    FUZZ_CHECK(strlen(head->region) < sizeof head->region);
    FUZZ_CHECK(strlen(head->content_type) < sizeof head->content_type);
    FUZZ_CHECK(strlen(head->location) < sizeof head->location);
    FUZZ_CHECK(!strpbrk(head->etag, "\r\n") && !strpbrk(head->location, "\r\n"));
    FUZZ_CHECK(stk__http_retry_after(head, 0) <= UINT64_C(3600000000000));
    FUZZ_CHECK(stk__http_retry_after(head, INT64_MAX / 2) <= UINT64_C(3600000000000));
    FUZZ_CHECK(stk__http_identity(head->etag, head->total, head->mtime_ns) ||
               (!head->etag[0] && head->total == STK__HTTP_UNSAID) ||
               (strncmp(head->etag, "W/", 2) == 0 && !head->etag[2]));
    if (stk__http_etag_strong(head->etag))
        FUZZ_CHECK(head->etag[0] == '"' && head->etag[strlen(head->etag) - 1] == '"');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__http_head head;

    stk__http_head_init(&head);
    while (size) {
        const uint8_t *end = memchr(data, '\n', size);
        const size_t length = end ? (size_t)(end - data) + 1 : size;
        /* A block of its own, so that a byte beyond it is seen. */
        char *line = malloc(length);
        FUZZ_CHECK(line);
        memcpy(line, data, length);
        stk__http_head_line(&head, line, length);
        free(line);
        check(&head);
        data += length;
        size -= length;
    }
    return 0;
}
