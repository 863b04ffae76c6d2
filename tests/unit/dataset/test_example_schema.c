/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of records: as text, and learnt. */
#include "taken.h"

static const int64_t integers[] = {0, 1, -1, 127, 128, 300, INT64_MAX, INT64_MIN};
static const float floats[] = {0, -1.5f, 3.25f, 1e30f};

static void test_schema(void **state)
{
    static const char text[] = "image/encoded:image,l=image/class/label:int64,b:raw_uint8[4,5,3],"
                               "a/b:float32[..7],c:int32[],d:bytes";
    static stk__schema s;
    stk__text printed = {.ctx = context};
    stk_field f[6];
    stk_error err;

    (void)state;
    assert_ok(stk__schema_parse(context,
                                " image/encoded:image , l=image/class/label:int64,"
                                "b:raw_uint8[4x5x3],a/b:float[..7],c:int32[], d:bytes",
                                NULL, &s, &err),
              &err);
    stk__schema_print(&s, &printed);
    assert_string_equal(printed.bytes, text);
    stk__schema_describe(&s, f);
    assert_string_equal(f[0].name, "image");
    assert_string_equal(f[0].codec, "image");
    /* What transforms of pictures take, wherever it is among the fields. */
    assert_true(f[0].picture && f[0].layout == STK_BYTES && f[0].rank == 3 && f[0].shape[2] == 3);
    assert_int_equal(f[0].layout, STK_BYTES);
    assert_string_equal(f[1].name, "l");
    assert_int_equal(f[1].rank, 0);
    assert_int_equal(f[1].dtype, STK_INT64);
    assert_true(f[2].picture);
    assert_int_equal(stk_field_bytes(&f[2]), 60);
    assert_string_equal(f[3].name, "a/b");
    assert_int_equal(f[3].layout, STK_RAGGED);
    assert_string_equal(f[5].codec, "");
    assert_int_equal(stk__schema_bound(&s.fields[3], 1000), 28);
    assert_int_equal(stk__schema_bound(&s.fields[3], 9), 8);
    assert_int_equal(stk__schema_bound(&s.fields[4], 1000), 4000);
    assert_int_equal(stk__schema_bound(&s.fields[5], 1000), 1000);
    stk__text_release(&printed);
    stk__schema_release(&s);
}

static void refuse_schema(const char *text, const char *pad, const char *part)
{
    static stk__schema s;
    stk_error err;

    stk_error_init(&err);
    assert_fails(stk__schema_parse(context, text, pad, &s, &err), STK_EINVAL, &err, part);
    stk__schema_release(&s);
}

static void test_wrong_schemas(void **state)
{
    char many[129 * 12] = "";

    (void)state;
    refuse_schema("", NULL, "has no type");
    refuse_schema("x", NULL, "'x' has no type");
    refuse_schema(":int64", NULL, "has no name");
    refuse_schema("=x:int64", NULL, "has no name");
    refuse_schema("x:", NULL, "has no type that is read");
    refuse_schema("x:string", NULL, "has no type that is read");
    refuse_schema("x:uint64", NULL, "has no type that is read");
    refuse_schema("x:float64", NULL, "has no type that is read");
    refuse_schema("x:raw_complex64", NULL, "has no type that is read");
    refuse_schema("x:raw_", NULL, "has no type that is read");
    refuse_schema("x:bytes[3]", NULL, "gives a shape to bytes");
    refuse_schema("x:int64[0]", NULL, "no shape");
    refuse_schema("x:int64[-1]", NULL, "no shape");
    refuse_schema("x:int64[3", NULL, "bracket");
    refuse_schema("x:int64[3]4", NULL, "no shape");
    refuse_schema("x:int64[..]", NULL, "no shape");
    refuse_schema("x:int64[3,]", NULL, "no shape");
    refuse_schema("x:int64[1,1,1,1,1,1,1,1,1]", NULL, "no shape");
    refuse_schema("x:int64[99999999999999999999]", NULL, "no shape");
    refuse_schema("x:int64[65536,65536]", NULL, "no shape");
    refuse_schema("x:int64,x:bytes", NULL, "name of another field");
    refuse_schema("x:int64,,y:bytes", NULL, "has no type");
    refuse_schema("x:int64", "a", "no number");
    refuse_schema("x:int64", "0.5", "no value of the field 'x', which is of int64");
    refuse_schema("x:uint8[3]", "256", "no value of the field 'x'");
    refuse_schema("x:int8[3]", "-129", "no value of the field 'x'");
    for (int i = 0; i < 129; i++)
        snprintf(many + strlen(many), 12, "%sx%d:bytes", i ? "," : "", i);
    refuse_schema(many, NULL, "one field too many");
}

/* What is learnt of records, and read by it. */
static void test_learning(void **state)
{
    stk__schema_learner *l = stk__schema_learn_begin(context);
    stk__text schema = {.ctx = context}, left = {.ctx = context};
    stk_error err;

    (void)state;
    assert_non_null(l);
    for (int64_t i = 0; i < 3; i++) {
        proto_bytes f = {NULL, 0}, map = {NULL, 0}, list = {NULL, 0};
        put_value(&f, "\xff\xd8\xff\xe0rest of a JPEG", 18);
        put_entry(&map, "image/encoded", &f);
        put_one(&map, "label", i);
        put_one(&map, "image/class/label", i);
        put_integers(&f, integers, (size_t)i, true);
        put_entry(&map, "tokens", &f);
        put_floats(&f, floats, 3, true);
        put_entry(&map, "fixed", &f);
        put_integers(&f, integers, (size_t)i + 1, true);
        put_entry(&map, "varying", &f);
        if (i != 1) {
            put_floats(&f, floats, 1, true);
            put_entry(&map, "some", &f);
            put_value(&f, "x", 1);
            put_entry(&map, "text", &f);
        }
        put_text(&list, 1, "a", 1);
        put_text(&list, 1, "b", 1);
        put_message(&f, 1, &list);
        put_entry(&map, "two", &f);
        put_one(&map, "a,b", 1);
        put_value(&f, i ? "\xff\xd8\xff\xe0JPEG" : "text", i ? 8 : 4);
        put_entry(&map, "bytes", &f);
        proto_bytes e = example_of(&map);
        assert_ok(stk__schema_learn_offer(l, e.data, e.size, &err), &err);
        free_bytes(&e);
    }
    assert_ok(stk__schema_learn_offer(l, "\x0a", 1, &err), &err); /* damaged: says nothing */
    assert_ok(stk__schema_learn_finish(l, &schema, &left, &err), &err);
    assert_string_equal(schema.bytes,
                        "bytes:bytes,fixed:float32[3],"
                        "image/class/label=image/class/label:int64,image/encoded:image,"
                        "label:int64,some:float32[],tokens:int64[],varying:int64[]");
    assert_string_equal(left.bytes, "text is bytes that some records do not have, "
                                    "two has several values of bytes, "
                                    "features whose names are no plain text");
    stk__text_release(&schema);
    stk__text_release(&left);
    stk__schema_learn_end(&l);
}

static void test_learning_nothing(void **state)
{
    stk__schema_learner *l = stk__schema_learn_begin(context);
    stk__text schema = {.ctx = context}, left = {.ctx = context};
    proto_bytes map = {NULL, 0};
    stk_error err;

    (void)state;
    assert_fails(stk__schema_learn_finish(l, &schema, &left, &err), STK_EFORMAT, &err,
                 "no feature that can be a field");
    for (int i = 0; i < 257; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        put_one(&map, name, i);
    }
    proto_bytes e = example_of(&map);
    assert_fails(stk__schema_learn_offer(l, e.data, e.size, &err), STK_ELIMIT, &err,
                 "more than 256 features");
    free_bytes(&e);
    stk__text_release(&schema);
    stk__text_release(&left);
    stk__schema_learn_end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_wrong_schemas),
        cmocka_unit_test(test_learning),
        cmocka_unit_test(test_learning_nothing),
    };

    return cmocka_run_group_tests(tests, open_context, close_context);
}
