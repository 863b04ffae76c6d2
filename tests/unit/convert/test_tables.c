/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables written as Parquet, Arrow, CSV, TSV and JSON lines have the rows that they were made of:
 * types, nulls and their shares, options of the writers. Other programs read them in
 * parity/convert/tables and interop/test_tables_writer.py.
 */
#include "convert/convert.h"
#include "unit/dataset/table_rows.h"

#define ROWS 230

static const char types[] =
    "b:bool,i1:int8,i2:int16,i4:int32,i8:int64,u1:uint8,u2:uint16,u4:uint32,"
    "u8:uint64,f4:float32,f8:float64,t:text";
static const char list_types[] = ",li:int16,lf:float32";

static stk_status convert(stk_context *ctx, const char *source, const char *target, stk_error *err)
{
    stk_conversion *conversion = NULL;
    stk_convert_options options;

    stk_convert_options_init(&options);
    options.overwrite = true;
    stk_error_init(err);
    stk_status status = stk_conversion_create(ctx, source, target, &conversion, err);
    if (status == STK_OK)
        status = stk_conversion_run(conversion, &options, NULL, NULL, err);
    stk_conversion_destroy(&conversion);
    return status;
}

/* ---- Sources --------------------------------------------------------------------------------- */

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A list in JSON of up to five values. */
static void put_list(stk__text *to, const char *name, uint32_t *seed)
{
    const uint32_t n = draw(seed) % 6;

    stk__text_add(to, ", \"%s\": [", name);
    for (uint32_t k = 0; k < n; k++)
        stk__text_add(to, "%s%d", k ? "," : "", (int)(draw(seed) % 60000) - 30000);
    stk__text_add(to, "]");
}

static const char *const texts[] = {"",
                                    "plain",
                                    "a,b\\tc",
                                    "she said \\\"no\\\"",
                                    "line\\nanother\\r\\nthird",
                                    "\\u00e9\\ud83d\\ude00",
                                    "\\u001b[31mred\\u0007",
                                    "12",
                                    "null",
                                    " padded "};

/* Rows of which `share` in 256 values are null. */
static void make_source(test_room *r, uint32_t share, bool lists)
{
    static const struct {
        const char *name;
        int64_t least, most;
    } whole[] = {{"i1", INT8_MIN, INT8_MAX},   {"i2", INT16_MIN, INT16_MAX},
                 {"i4", INT32_MIN, INT32_MAX}, {"i8", INT64_MIN, INT64_MAX},
                 {"u1", 0, UINT8_MAX},         {"u2", 0, UINT16_MAX},
                 {"u4", 0, UINT32_MAX}};
    stk__text to = {.ctx = r->ctx};
    uint32_t seed = share + lists;

    for (int i = 0; i < ROWS; i++) {
        stk__text_add(&to, "{\"row\": %d", i);
        for (size_t k = 0; k < STK_COUNT(whole); k++)
            if (draw(&seed) % 256 >= share)
                stk__text_add(&to, ", \"%s\": %lld", whole[k].name,
                              (long long)(i % 7 == 0   ? whole[k].least
                                          : i % 7 == 1 ? whole[k].most
                                                       : (int)(draw(&seed) % 100)));
        if (draw(&seed) % 256 >= share)
            stk__text_add(&to, ", \"u8\": %llu", i % 5 ? 7ull : 18446744073709551615ull);
        if (draw(&seed) % 256 >= share)
            stk__text_add(&to, ", \"b\": %s", draw(&seed) % 2 ? "true" : "false");
        if (draw(&seed) % 256 >= share)
            stk__text_add(&to, ", \"f4\": %s", i % 9 ? "0.1" : "-1.5e-42");
        if (draw(&seed) % 256 >= share)
            stk__text_add(&to, ", \"f8\": %s",
                          i % 11 == 0   ? "NaN"
                          : i % 11 == 1 ? "-Infinity"
                          : i % 11 == 2 ? "5e-324"
                                        : "0.30000000000000004");
        if (draw(&seed) % 256 >= share)
            stk__text_add(&to, ", \"t\": \"%s\"", texts[draw(&seed) % STK_COUNT(texts)]);
        if (lists && draw(&seed) % 256 >= share)
            put_list(&to, "li", &seed);
        if (lists && draw(&seed) % 256 >= share)
            put_list(&to, "lf", &seed);
        stk__text_add(&to, "}\n");
    }
    assert_false(to.failed);
    test_put(r->store, "source.jsonl", to.bytes, to.length);
    stk__text_release(&to);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static stk_dataset *open_nulls(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_dataset_open_with_nulls(ctx, spec, &d, &err), &err);
    return d;
}

/* Values that are not null, byte for byte; so masks say the same. */
static void compare_rows(const row *a, const row *b, const char *spec)
{
    const stk_dataset *d = a->dataset;

    if (a->sample.status != STK_OK || b->sample.status != STK_OK)
        fail_msg("%s, row %d: %s", spec, (int)a->sample.index,
                 a->sample.reason ? a->sample.reason : b->sample.reason);
    for (uint32_t f = 0; f < d->num_fields; f++) {
        const int64_t mask = stk_dataset_null_mask(d, f);
        if (mask >= 0 && !*(const uint8_t *)a->values[mask].data)
            continue;
        if (a->values[f].size != b->values[f].size ||
            memcmp(a->values[f].data, b->values[f].data, a->values[f].size) != 0)
            fail_msg("%s, row %d: the field %s differs", spec, (int)a->sample.index,
                     d->fields[f].name);
    }
}

static void compare(stk_context *ctx, const char *source, const char *found)
{
    stk_dataset *a = open_nulls(ctx, source), *b = open_nulls(ctx, found);

    assert_int_equal(a->size, b->size);
    assert_int_equal(a->num_fields, b->num_fields);
    for (uint32_t f = 0; f < a->num_fields; f++) {
        assert_string_equal(a->fields[f].name, b->fields[f].name);
        assert_int_equal(a->fields[f].dtype, b->fields[f].dtype);
        assert_int_equal(a->fields[f].layout, b->fields[f].layout);
        assert_int_equal(a->fields[f].text, b->fields[f].text);
        assert_int_equal(stk_dataset_null_mask(a, f), stk_dataset_null_mask(b, f));
    }
    for (uint64_t i = 0; i < a->size; i++) {
        row *x = row_take(a, i), *y = row_take(b, i);
        compare_rows(x, y, found);
        row_free(x);
        row_free(y);
    }
    stk_dataset_close(&a);
    stk_dataset_close(&b);
}

/* ---- Round trips ----------------------------------------------------------------------------- */

static const struct {
    const char *target, *spec;
    bool lists; /* it has them */
    bool typed; /* it says its types */
} forms[] = {
    {"mem://j/x.parquet", "parquet:mem://j/x.parquet", true, true},
    {"parquet:mem://j/y.parquet?page_size=100&row_group_rows=41&codec=none",
     "parquet:mem://j/y.parquet", true, true},
    {"mem://j/x.arrow", "arrow:mem://j/x.arrow", true, true},
    {"arrow:mem://j/x.feather?codec=zstd&batch_size=700", "arrow:mem://j/x.feather", true, true},
    {"arrow:mem://j/x.ipc?codec=none&batch_rows=3", "arrow:mem://j/x.ipc", true, true},
    {"arrow:mem://j/folder?shard_size=3KiB&batch_rows=10", "arrow:mem://j/folder", true, true},
    {"mem://j/x.jsonl", "jsonl:mem://j/x.jsonl", true, false},
    {"jsonl:mem://j/lines?shard_size=2KiB", "jsonl:mem://j/lines", true, false},
    {"mem://j/x.csv", "csv:mem://j/x.csv?header=true", false, false},
    {"mem://j/x.tsv", "tsv:mem://j/x.tsv?header=true", false, false},
    {"csv:mem://j/cells?shard_size=2KiB", "csv:mem://j/cells", false, false},
};

static void test_round_trips(void **state)
{
    static const uint32_t shares[] = {0, 70, 250};
    char source[400], spec[600];
    stk_error err;

    (void)state;
    for (size_t s = 0; s < STK_COUNT(shares); s++)
        for (size_t k = 0; k < STK_COUNT(forms); k++) {
            test_room r = test_room_open("mem://j");
            make_source(&r, shares[s], forms[k].lists);
            const char *more = forms[k].lists ? list_types : "";
            snprintf(source, sizeof source, "jsonl:mem://j/source.jsonl?types=%s%s", types, more);
            assert_ok(convert(r.ctx, source, forms[k].target, &err), &err);
            snprintf(spec, sizeof spec, "%s", forms[k].spec);
            if (!forms[k].typed)
                snprintf(spec, sizeof spec, "%s%ctypes=%s%s", forms[k].spec,
                         strchr(forms[k].spec, '?') ? '&' : '?', types, more);
            compare(r.ctx, source, spec);
            test_room_close(&r);
        }
}

/* From a form to another, and so on, without what is between them telling. */
static void test_chain(void **state)
{
    static const char *const chain[] = {"mem://j/1.arrow", "mem://j/2.parquet", "mem://j/3.feather",
                                        "mem://j/4.parquet"};
    char source[400];
    test_room r = test_room_open("mem://j");
    stk_error err;

    (void)state;
    make_source(&r, 60, true);
    snprintf(source, sizeof source, "jsonl:mem://j/source.jsonl?types=%s%s", types, list_types);
    assert_ok(convert(r.ctx, source, chain[0], &err), &err);
    for (size_t i = 1; i < STK_COUNT(chain); i++)
        assert_ok(convert(r.ctx, chain[i - 1], chain[i], &err), &err);
    compare(r.ctx, source, chain[STK_COUNT(chain) - 1]);
    test_room_close(&r);
}

/* Tensors keep their values in every form that has lists. */
static void test_tensors(void **state)
{
    test_room r = test_room_open("mem://j");
    stk_error err;

    (void)state;
    assert_ok(convert(r.ctx, "digits:?size=40", "mem://j/x.arrow", &err), &err);
    assert_ok(convert(r.ctx, "digits:?size=40", "mem://j/x.jsonl", &err), &err);
    stk_dataset *digits = open_nulls(r.ctx, "digits:?size=40"),
                *arrow = open_nulls(r.ctx, "arrow:mem://j/x.arrow");
    for (uint64_t i = 0; i < 40; i++) {
        stk_value values[2] = {{0}};
        uint8_t pixels[784];
        int64_t label;
        values[0] = (stk_value){pixels, sizeof pixels, pixels, sizeof pixels};
        values[1] = (stk_value){&label, sizeof label, &label, sizeof label};
        stk_sample sample = {.struct_size = sizeof sample,
                             .value_size = sizeof *values,
                             .index = i,
                             .values = values};
        digits->ops->prepare(digits, &sample, 1);
        row *b = row_take(arrow, i);
        assert_int_equal(arrow->fields[0].rank, digits->fields[0].rank);
        assert_memory_equal(arrow->fields[0].shape, digits->fields[0].shape,
                            sizeof digits->fields[0].shape);
        row_is(b, "image", values[0].data, sizeof pixels);
        row_is(b, "label", values[1].data, sizeof label);
        row_free(b);
    }
    stk_dataset_close(&digits);
    stk_dataset_close(&arrow);
    test_room_close(&r);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refuses(stk_context *ctx, const char *source, const char *target, stk_status status,
                    const char *says)
{
    stk_error err;

    assert_fails(convert(ctx, source, target, &err), status, &err, says);
}

static void test_refusals(void **state)
{
    static const char nulls[] = "{\"a\": \"x\"}\n{\"a\": null}\n";
    test_room r = test_room_open("mem://j");

    (void)state;
    refuses(
        r.ctx, "digits:?size=4", "mem://j/x.csv", STK_ENOTSUP,
        "the field 'image' has tensors, for which a cell of CSV has no place; leave it out with "
        "drop=image, or write JSON lines");
    test_put(r.store, "n.jsonl", nulls, sizeof nulls - 1);
    refuses(r.ctx, "jsonl:mem://j/n.jsonl", "mem://j/x.csv", STK_ENOTSUP,
            "sample 1: the only column 'a' is null, for which CSV has no line");
    test_put(r.store, "b.csv", "a,b\n\xff\xfe,2\n", 9);
    refuses(r.ctx, "csv:mem://j/b.csv?text=bytes&types=a:bytes", "mem://j/x.jsonl", STK_EFORMAT,
            "sample 0: the field 'a' is no UTF-8, and JSON has no other bytes; name the wanted "
            "columns of a table by columns=COLUMN,..., or write Arrow");
    refuses(r.ctx, "csv:mem://j/b.csv?text=bytes&types=a:bytes", "mem://j/x.csv", STK_EFORMAT,
            "CSV has no other bytes");
    test_room_close(&r);
}

/* A source that says what becomes of nulls is taken at its word. */
static void test_nulls_as_said(void **state)
{
    static const char text[] = "a,b\n1,x\n,y\n";
    test_room r = test_room_open("mem://j");
    stk_error err;

    (void)state;
    test_put(r.store, "n.csv", text, sizeof text - 1);
    refuses(r.ctx, "csv:mem://j/n.csv?nulls=fail", "mem://j/x.arrow", STK_EFORMAT,
            "its column 'a' has no value");
    assert_ok(convert(r.ctx, "csv:mem://j/n.csv?nulls=zero", "mem://j/x.csv", &err), &err);
    stk_dataset *d = open_nulls(r.ctx, "csv:mem://j/x.csv");
    row *b = row_take(d, 1);
    row_is_integer(b, "a", 0);
    row_is(b, "a_mask", "\1", 1);
    row_free(b);
    stk_dataset_close(&d);
    test_room_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),   cmocka_unit_test(test_chain),
        cmocka_unit_test(test_tensors),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nulls_as_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
