/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes -> the table of an index of record shards, once as they are and once with the checksum made
 * right, as whoever writes an index can. Whatever they hold: no crash, no leak, and every table
 * that comes out is one that scanning could have given, whose bytes are those it came from.
 */
#include "dataset/records/records.h"
#include "fuzz_support.h"

#include <xxhash.h>

#define SUM_AT   16 /* the checksum in an index */
#define SUM_FROM 24 /* what it covers */
#define OF       7  /* what the seeds say that they are of */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_record(const stk__records_table *t, uint64_t record, uint64_t size)
{
    const uint32_t first = t->starts[record], end = t->starts[record + 1];

    FUZZ_CHECK(first < end && end <= t->num_parts);
    for (uint32_t i = first; i < end; i++) {
        const stk__record_part *p = &t->parts[i];
        FUZZ_CHECK(p->kind < t->num_kinds && p->length <= size && p->offset <= size - p->length);
    }
}

static void check_table(const stk__records_table *t)
{
    uint64_t records = 0, parts = 0;

    for (size_t i = 0; i < t->num_shards; i++) {
        const stk__records_shard *s = &t->shards[i];
        FUZZ_CHECK(s->first_record == records && s->first_part == parts);
        FUZZ_CHECK(t->text[s->key] && strlen(t->text + s->key) < STK_MAX_OBJECT_KEY);
        for (uint64_t r = 0; r < s->records; r++)
            check_record(t, records + r, s->size);
        records += s->records;
        parts += s->parts;
        FUZZ_CHECK(t->starts[records] == parts);
    }
    FUZZ_CHECK(records == t->num_records && parts == t->num_parts);
}

static void parse(stk_context *ctx, const uint8_t *data, size_t size)
{
    stk__records_table t;
    uint64_t length = 0;
    void *again = NULL;

    if (stk__records_index_parse(ctx, data, size, OF, &t) != STK_OK) {
        FUZZ_CHECK(!t.text && !t.shards && !t.parts && !t.starts);
        return;
    }
    check_table(&t);
    FUZZ_CHECK(stk__records_index_make(&t, OF, &again, &length) == STK_OK);
    FUZZ_CHECK(length == size && memcmp(again, data, size) == 0);
    stk__free(ctx, again);
    stk__records_table_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_context *ctx = fuzz_context();
    uint64_t held = fuzz_held(ctx);

    parse(ctx, data, size);
    if (size >= SUM_FROM) {
        uint8_t *copy = malloc(size);
        FUZZ_CHECK(copy != NULL);
        memcpy(copy, data, size);
        uint64_t sum = XXH3_64bits(data + SUM_FROM, size - SUM_FROM);
        memcpy(copy + SUM_AT, &sum, sizeof sum);
        parse(ctx, copy, size);
        free(copy);
    }
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    return 0;
}
