/* SPDX-License-Identifier: Apache-2.0 */
/* tf.train.Example and SequenceExample: what Protocol Buffers read of them, and what is refused. */
#include "taken.h"

static const int64_t integers[] = {0, 1, -1, 127, 128, 300, INT64_MAX, INT64_MIN};
static const float floats[] = {0, -1.5f, 3.25f, 1e30f};

static proto_bytes example(bool packed)
{
    proto_bytes f = {NULL, 0}, map = {NULL, 0};

    put_integers(&f, integers, 8, packed);
    put_entry(&map, "i", &f);
    put_floats(&f, floats, 4, packed);
    put_entry(&map, "f", &f);
    put_value(&f, "some bytes", 10);
    put_entry(&map, "b", &f);
    put_value(&f, "", 0);
    put_entry(&map, "e", &f);
    return example_of(&map);
}

/* Each kind of list, packed and not, in place of fixed and of ragged shape. */
static void test_values(void **state)
{
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        proto_bytes e = example(packed);
        taken t;
        take("f:float[2,2],i:int64[8],e:bytes,b:bytes,g=f:float32[],j=i:int64[]", &e, &t);
        assert_memory_equal(t.room[0], floats, sizeof floats);
        assert_int_equal(t.values[0].size, sizeof floats);
        assert_memory_equal(t.room[1], integers, sizeof integers);
        assert_int_equal(t.values[2].size, 0);
        assert_non_null(t.values[2].data);
        assert_int_equal(t.values[3].size, 10);
        assert_memory_equal(t.room[3], "some bytes", 10);
        assert_int_equal(t.values[4].size, sizeof floats);
        assert_memory_equal(t.room[4], floats, sizeof floats);
        assert_int_equal(t.values[5].size, sizeof integers);
        assert_memory_equal(t.room[5], integers, sizeof integers);
    }
}

/* Maps: the later entry counts, also of a second message of features; names may begin alike. */
static void test_later_entry(void **state)
{
    proto_bytes map = {NULL, 0}, e = {NULL, 0};
    taken t;

    (void)state;
    put_one(&map, "x", 1);
    put_one(&map, "y", 2);
    put_one(&map, "xx", 3);
    put_one(&map, "", 4);
    put_one(&map, "x", 5);
    put_one(&map, "xy", 7);
    put_message(&e, 1, &map);
    put_one(&map, "y", 6);
    put_message(&e, 1, &map);
    take("x:int64,y:int64,xx:int64", &e, &t);
    assert_int_equal(t.room[0][0], 5);
    assert_int_equal(t.room[1][0], 6);
    assert_int_equal(t.room[2][0], 3);
}

/* Lists that come in parts are joined; the last kind counts. */
static void test_joined_lists(void **state)
{
    proto_bytes f = {NULL, 0}, map = {NULL, 0};
    taken t;

    (void)state;
    put_integers(&f, integers, 3, true);
    put_floats(&f, floats, 4, true);
    put_integers(&f, integers + 3, 2, false);
    put_integers(&f, integers + 5, 2, true);
    put_entry(&map, "i", &f);
    proto_bytes e = example_of(&map);
    take("i:int64[]", &e, &t);
    assert_int_equal(t.values[0].size, 4 * 8);
    assert_memory_equal(t.room[0], integers + 3, 4 * 8);
}

/* What nobody asked for, at each level, of each type of field. */
static void put_unknown(proto_bytes *to)
{
    put_key(to, 9, 0);
    put_varint(to, UINT64_MAX);
    put_key(to, 10, 1);
    put_bytes(to, "12345678", 8);
    put_text(to, 11, "text", 4);
    put_key(to, 12, 5);
    put_bytes(to, "1234", 4);
    put_key(to, 536870911, 3); /* the highest number: a group with one within */
    put_key(to, 7, 3);
    put_text(to, 1, "x", 1);
    put_key(to, 7, 4);
    put_key(to, 536870911, 4);
    /* Of a number that is known, and another type. */
    put_key(to, 1, 1);
    put_bytes(to, "12345678", 8);
}

static void test_unknown_fields(void **state)
{
    proto_bytes list = {NULL, 0}, f = {NULL, 0}, entry = {NULL, 0}, map = {NULL, 0}, e = {NULL, 0};
    taken t;

    (void)state;
    put_unknown(&list);
    put_key(&list, 1, 0);
    put_varint(&list, 42);
    put_unknown(&list);
    put_unknown(&f);
    put_message(&f, 3, &list);
    put_unknown(&f);
    put_unknown(&entry);
    put_message(&entry, 2, &f); /* the value in front of the key */
    put_text(&entry, 1, "x", 1);
    put_unknown(&map);
    put_message(&map, 1, &entry);
    put_unknown(&e);
    put_message(&e, 1, &map);
    put_unknown(&e);
    take("x:int64", &e, &t);
    assert_int_equal(t.room[0][0], 42);
}

/* The steps of a list are put one behind the other. */
static void test_sequences(void **state)
{
    proto_bytes f = {NULL, 0}, list = {NULL, 0}, lists = {NULL, 0}, map = {NULL, 0}, e = {NULL, 0};
    taken t;

    (void)state;
    put_one(&map, "label", 7);
    put_message(&e, 1, &map);
    for (int i = 0; i < 3; i++) {
        put_integers(&f, integers + 2 * i, 2, i % 2);
        put_message(&list, 1, &f);
    }
    put_message(&list, 1, &f); /* a step without values */
    put_entry(&lists, "tokens", &list);
    put_message(&e, 2, &lists);
    take("label:int64,tokens:int64[],same=tokens:int64[3,2]", &e, &t);
    assert_int_equal(t.room[0][0], 7);
    assert_int_equal(t.values[1].size, 6 * 8);
    assert_memory_equal(t.room[1], integers, 6 * 8);
    assert_memory_equal(t.room[2], integers, 6 * 8);
}

static proto_bytes one(int64_t value)
{
    proto_bytes map = {NULL, 0};

    put_one(&map, "x", value);
    return example_of(&map);
}

/* Shorter types hold what they hold. */
static void test_types(void **state)
{
    static const struct {
        const char *type;
        int64_t least, most;
        size_t size;
    } types[] = {{"int8", INT8_MIN, INT8_MAX, 1},    {"int16", INT16_MIN, INT16_MAX, 2},
                 {"int32", INT32_MIN, INT32_MAX, 4}, {"uint8", 0, UINT8_MAX, 1},
                 {"uint16", 0, UINT16_MAX, 2},       {"uint32", 0, UINT32_MAX, 4}};
    char schema[40], reason[80];
    taken t;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(types); i++) {
        snprintf(schema, sizeof schema, "x:%s", types[i].type);
        snprintf(reason, sizeof reason, "'x' of the record has a value that %s does not hold",
                 types[i].type);
        for (int high = 0; high < 2; high++) {
            const int64_t value = high ? types[i].most : types[i].least;
            proto_bytes e = one(value);
            take(schema, &e, &t);
            assert_memory_equal(t.room[0], &value, types[i].size); /* the low bytes come first */
            assert_int_equal(((uint8_t *)t.room[0])[types[i].size], 0xee);
            e = one(high ? value + 1 : value - 1);
            refuse(schema, &e, STK_EFORMAT, reason);
        }
    }
}

/* Numbers that lie in bytes. */
static void test_raw(void **state)
{
    proto_bytes f = {NULL, 0}, map = {NULL, 0};
    taken t;

    (void)state;
    put_value(&f, floats, sizeof floats);
    put_entry(&map, "x", &f);
    proto_bytes e = example_of(&map), again = {NULL, 0};
    put_bytes(&again, e.data, e.size);
    take("x:raw_float32[2,2],y=x:raw_uint8[],z=x:raw_uint16[..8]", &e, &t);
    assert_memory_equal(t.room[0], floats, sizeof floats);
    assert_int_equal(t.values[1].size, sizeof floats);
    put_bytes(&e, again.data, again.size);
    refuse("x:raw_float32[5]", &e, STK_EFORMAT, "fewer values than the 5 of its field");
    put_bytes(&e, again.data, again.size);
    refuse("x:raw_float32[3]", &e, STK_EFORMAT, "more values than the 3 of its field");
    put_bytes(&e, again.data, again.size);
    refuse("x:raw_uint16[..7]", &e, STK_EFORMAT, "more values than the 7 of its field");
    free_bytes(&again);
    map = (proto_bytes){NULL, 0};
    put_value(&f, "abc", 3);
    put_entry(&map, "x", &f);
    e = example_of(&map);
    refuse("x:raw_uint16[]", &e, STK_EFORMAT, "fewer");
}

/* Too few and too many values, other kinds, none. */
static void test_counts(void **state)
{
    proto_bytes e = example(true);
    taken t;

    (void)state;
    refuse("i:int64[9]", &e, STK_EFORMAT, "'i' of the record has fewer values than the 9");
    e = example(true);
    refuse("i:int64[7]", &e, STK_EFORMAT, "'i' of the record has more values than the 7");
    e = example(false);
    refuse("i:int64[..7]", &e, STK_EFORMAT, "more values than the 7");
    e = example(true);
    refuse("f:float[3]", &e, STK_EFORMAT, "more values");
    e = example(true);
    refuse("f:int64[4]", &e, STK_EFORMAT, "'f' of the record is no int64_list");
    e = example(true);
    refuse("i:float[8]", &e, STK_EFORMAT, "is no float_list");
    e = example(true);
    refuse("i:image", &e, STK_EFORMAT, "is no bytes_list");
    e = example(true);
    refuse("z:int64", &e, STK_EFORMAT, "no feature 'z'");
    e = example(true);
    refuse("z:bytes", &e, STK_EFORMAT, "no feature 'z'");
    e = example(true);
    take("z:int64[],i:int64[..8]", &e, &t);
    assert_int_equal(t.values[0].size, 0);
    assert_int_equal(t.values[1].size, sizeof integers);
    /* A feature without a list has no values. */
    proto_bytes f = {NULL, 0}, map = {NULL, 0};
    put_entry(&map, "n", &f);
    e = example_of(&map);
    refuse("n:bytes", &e, STK_EFORMAT, "has no value");
    proto_bytes list = {NULL, 0};
    put_text(&list, 1, "a", 1);
    put_text(&list, 1, "b", 1);
    put_message(&f, 1, &list);
    put_entry(&map, "n", &f);
    e = example_of(&map);
    refuse("n:bytes", &e, STK_EFORMAT, "has several values");
}

static void test_padding(void **state)
{
    proto_bytes e = example(true);
    const float padded[] = {0, -1.5f, 3.25f, 1e30f, -1, -1};
    taken t;

    (void)state;
    take_with("f:float[6],z:int64[2],i:int64[],r=q:raw_int16[3],y:int32[1]", "-1", &e, &t);
    assert_int_equal(t.sample.status, STK_OK);
    assert_memory_equal(t.room[0], padded, sizeof padded);
    assert_int_equal(t.room[1][0], -1);
    assert_int_equal(t.room[1][1], -1);
    assert_int_equal(t.values[2].size, sizeof integers);
    assert_memory_equal(t.room[3], "\xff\xff\xff\xff\xff\xff\xee", 7);
    assert_memory_equal(t.room[4], "\xff\xff\xff\xff\xee", 5);
    e = example(true);
    take_with("i:int64[7]", "0", &e, &t);
    assert_int_equal(t.sample.status, STK_EFORMAT);
}

/* ---- Hostile --------------------------------------------------------------------------------- */

static void put_raw(proto_bytes *to, const char *bytes, size_t size)
{
    put_bytes(to, bytes, size);
}

#define DAMAGED(bytes)                                                                             \
    do {                                                                                           \
        proto_bytes damaged = {NULL, 0};                                                           \
        put_raw(&damaged, bytes, sizeof(bytes) - 1);                                               \
        refuse("x:int64[]", &damaged, STK_EFORMAT, "no tf.train.Example");                         \
    } while (0)

static void test_damaged(void **state)
{
    (void)state;
    DAMAGED("\x0a");                                              /* a key and no length */
    DAMAGED("\x0a\x01");                                          /* a length and no bytes */
    DAMAGED("\x0a\xff\xff\xff\xff\x07");                          /* 2^31 - 1 of them */
    DAMAGED("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");      /* 2^64 - 1 */
    DAMAGED("\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00");  /* 11 bytes */
    DAMAGED("\x02\x00");                                          /* field 0 */
    DAMAGED("\x0e");                                              /* type 6 */
    DAMAGED("\x0f");                                              /* type 7 */
    DAMAGED("\x0c");                                              /* the end of no group */
    DAMAGED("\x0b\x14");                                          /* of another group */
    DAMAGED("\x0b");                                              /* a group without an end */
    DAMAGED("\x80\x80\x80\x80\x80\x01\x00");                      /* a number of 36 bits */
    DAMAGED("\x4d\x01\x02\x03");                                  /* 3 of 4 bytes */
    DAMAGED("\x49\x01\x02\x03\x04\x05\x06\x07");                  /* 7 of 8 */
    DAMAGED("\x0a\x05\x0a\x04\x0a\x01x\x12");                     /* an entry that is cut */
    DAMAGED("\x0a\x0b\x0a\x09\x0a\x01x\x12\x00\x12\x00\x12\x00"); /* a value that comes again */
}

/* What has more than 64 bits is cut. */
static void test_long_varints(void **state)
{
    proto_bytes f = {NULL, 0}, list = {NULL, 0}, map = {NULL, 0};
    taken t;

    (void)state;
    put_text(&list, 1,
             "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x82\x80\x80\x80\x80\x80\x80\x80\x80\x7e",
             20);
    put_message(&f, 3, &list);
    put_entry(&map, "x", &f);
    proto_bytes e = example_of(&map);
    take("x:int64[2]", &e, &t);
    assert_int_equal(t.room[0][0], -1);
    assert_int_equal(t.room[0][1], 2);
}

static void test_damaged_feature(void **state)
{
    static const char *const lists[] = {"\x0a\x03\x80\x80\x80", "\x0a\x04\x00", "\x08"};
    static const size_t sizes[] = {5, 3, 1};
    proto_bytes f = {NULL, 0}, list = {NULL, 0}, map = {NULL, 0};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(lists); i++) {
        put_bytes(&list, lists[i], sizes[i]);
        put_message(&f, 3, &list);
        put_entry(&map, "x", &f);
        proto_bytes e = example_of(&map);
        refuse("x:int64[]", &e, STK_EFORMAT, "'x' of the record is damaged");
    }
    put_text(&list, 1, "123", 3);
    put_message(&f, 2, &list);
    put_entry(&map, "x", &f);
    proto_bytes e = example_of(&map);
    refuse("x:float[]", &e, STK_EFORMAT, "'x' of the record is damaged");
}

/* Groups within groups, and features without number, have an end. */
static void test_bombs(void **state)
{
    proto_bytes e = {NULL, 0}, map = {NULL, 0}, f = {NULL, 0};
    taken t;

    (void)state;
    for (int deep = 0; deep < 2; deep++) {
        for (int i = 0; i < STK__PROTO_DEPTH + deep; i++)
            put_key(&e, 5, 3);
        for (int i = 0; i < STK__PROTO_DEPTH + deep; i++)
            put_key(&e, 5, 4);
        if (deep)
            refuse("x:int64[]", &e, STK_EFORMAT, "no tf.train.Example");
        else
            take("x:int64[]", &e, &t);
    }
    e.size = 100000;
    assert_non_null(e.data = malloc(e.size));
    memset(e.data, 5 << 3 | 3, e.size);
    refuse("x:int64[]", &e, STK_EFORMAT, "no tf.train.Example");
    for (int more = 0; more < 2; more++) {
        map.data = malloc((STK__EXAMPLE_MAX_ENTRIES + 1) * 2);
        assert_non_null(map.data);
        map.size = (STK__EXAMPLE_MAX_ENTRIES + (size_t)more) * 2;
        for (size_t i = 0; i < map.size; i++)
            map.data[i] = i % 2 ? 0 : 0x0a;
        e = example_of(&map);
        if (more)
            refuse("x:int64[]", &e, STK_ELIMIT, "65536 features");
        else
            take("x:int64[]", &e, &t);
    }
    free_bytes(&f);
}

/* Cut anywhere it is refused, or it is whole without what was cut. */
static void test_cut(void **state)
{
    proto_bytes whole = example(false);
    taken t;

    (void)state;
    for (size_t length = 0; length < whole.size; length++) {
        proto_bytes e = {NULL, 0};
        put_bytes(&e, whole.data, length);
        take_with("i:int64[8],f:float[4],b:bytes,e:bytes", NULL, &e, &t);
        assert_int_equal(t.sample.status, STK_EFORMAT);
    }
    free_bytes(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),       cmocka_unit_test(test_later_entry),
        cmocka_unit_test(test_joined_lists), cmocka_unit_test(test_unknown_fields),
        cmocka_unit_test(test_sequences),    cmocka_unit_test(test_types),
        cmocka_unit_test(test_raw),          cmocka_unit_test(test_counts),
        cmocka_unit_test(test_padding),      cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_long_varints), cmocka_unit_test(test_damaged_feature),
        cmocka_unit_test(test_bombs),        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, open_context, close_context);
}
