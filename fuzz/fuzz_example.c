/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Examples of records and their schemas. Input: two bytes of length, a schema as text, a record.
 * The record is read by that schema, by one that asks for much, and by the one that is learnt of
 * it.
 */
#include "dataset/records/example_schema.h"
#include "fuzz_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Values lie in rooms of just their size, or in the record. */
static void check_value(const stk__schema_field *f, const stk_value *v, const uint8_t *record,
                        size_t size)
{
    const uint8_t *at = v->data;

    FUZZ_CHECK(v->size % stk_dtype_size(f->dtype) == 0);
    if (at == v->out) {
        FUZZ_CHECK(v->size <= v->capacity);
    } else {
        FUZZ_CHECK(at >= record && v->size <= size && at <= record + (size - v->size));
        FUZZ_CHECK(f->form == STK__SCHEMA_BYTES || f->form == STK__SCHEMA_RAW);
    }
    if (!f->ragged && f->form != STK__SCHEMA_BYTES)
        FUZZ_CHECK(v->size == f->count * stk_dtype_size(f->dtype));
    (void)fuzz_sum(v->data, v->size);
}

static void take(stk_context *ctx, const char *text, const char *pad, const uint8_t *record,
                 size_t size)
{
    static stk__schema schema;
    static stk_field fields[STK__SCHEMA_MAX_FIELDS];
    static stk_value values[STK__SCHEMA_MAX_FIELDS];
    stk_sample s = {.struct_size = sizeof s, .value_size = sizeof *values, .values = values};
    stk__text printed = {.ctx = ctx};
    bool fits = true;

    if (stk__schema_parse(ctx, text, pad, &schema, NULL) == STK_OK) {
        stk__schema_print(&schema, &printed);
        stk__schema_describe(&schema, fields);
        for (uint32_t i = 0; i < schema.count; i++) {
            const uint64_t fixed = stk_field_bytes(&fields[i]);
            const uint64_t room = fixed ? fixed : stk__schema_bound(&schema.fields[i], size);
            values[i] = (stk_value){room < FUZZ_MEMORY / 16 ? malloc(room ? room : 1) : NULL, room,
                                    NULL, fixed};
            fits = fits && values[i].out;
        }
        if (fits)
            stk__schema_take(&schema, record, size, &s);
        if (s.status != STK_OK)
            FUZZ_CHECK(s.reason && stk_status_fault(s.status) == STK_FAULT_SAMPLE);
        for (uint32_t i = 0; i < schema.count; i++) {
            if (fits && s.status == STK_OK)
                check_value(&schema.fields[i], &values[i], record, size);
            free(values[i].out);
        }
    }
    stk__schema_release(&schema);
    /* What is printed is read again as the same. */
    if (printed.length) {
        stk__text again = {.ctx = ctx};
        FUZZ_CHECK(stk__schema_parse(ctx, printed.bytes, NULL, &schema, NULL) == STK_OK);
        stk__schema_print(&schema, &again);
        FUZZ_CHECK(strcmp(printed.bytes, again.bytes) == 0);
        stk__text_release(&again);
        stk__schema_release(&schema);
    }
    stk__text_release(&printed);
}

static void learn(stk_context *ctx, const uint8_t *record, size_t size)
{
    stk__schema_learner *l = stk__schema_learn_begin(ctx);
    stk__text schema = {.ctx = ctx}, left = {.ctx = ctx};

    FUZZ_CHECK(l != NULL);
    if (stk__schema_learn_offer(l, record, size, NULL) == STK_OK &&
        stk__schema_learn_finish(l, &schema, &left, NULL) == STK_OK) {
        static stk__schema parsed;
        FUZZ_CHECK(stk__schema_parse(ctx, schema.bytes, NULL, &parsed, NULL) == STK_OK);
        stk__schema_release(&parsed);
        take(ctx, schema.bytes, NULL, record, size);
    }
    stk__schema_learn_end(&l);
    stk__text_release(&schema);
    stk__text_release(&left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[512] = "";
    size_t length = 0;

    stk_context *ctx = fuzz_context();
    const uint64_t held = fuzz_held(ctx);
    const uint8_t *schema = fuzz_take(&data, &size, &length);
    memcpy(text, schema, length < sizeof text ? length : sizeof text - 1);
    uint8_t *record = malloc(size ? size : 1); /* of just its size */
    FUZZ_CHECK(record != NULL);
    if (size)
        memcpy(record, data, size);
    take(ctx, text, NULL, record, size);
    take(ctx, text, "0", record, size);
    take(ctx,
         "a:int64[],b:int64[3],c=a:uint8[..4],d:float[],e:float[2,2],f:bytes,g=f:raw_uint16[],h=f:"
         "raw_float32[2]",
         "1", record, size);
    learn(ctx, record, size);
    free(record);
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    return 0;
}
