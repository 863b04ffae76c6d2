/* SPDX-License-Identifier: Apache-2.0 */
/* What the library hears from a process of stoker-hdf5 that was taken over: frames that lie. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "array/libhdf5/child.h"
#include "unit/array/frames.h"

/* ---- Frames that are put together ---- */

static void say_hello(uint32_t version)
{
    unsigned char bytes[2048];
    stk__wire_out out = fresh(bytes, sizeof bytes);

    stk__wire_put_u32(&out, version);
    say(STK__WIRE_HELLO, &out);
}

static int hears = -1; /* the other end of the last conversation */

/* A child that has said all of the script, and then ends. */
static stk_status attach(stk_context *ctx, stk__libhdf5 **child, stk_error *err)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(write(ends[1], frames, script.length), script.length);
    /* What is asked is heard, and nothing more comes. */
    assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    if (hears >= 0)
        close(hears);
    hears = ends[1];
    return stk__libhdf5_attach(ctx, ends[0], child, err);
}

/* ---- The library against a child that lies ---- */

static void test_hello(void **state)
{
    stk__libhdf5 *child = NULL;
    stk_error err;

    begin_script();
    assert_fails(attach(*state, &child, &err), STK_ESYSTEM, &err, "ended");
    say_hello(STK__WIRE_VERSION + 1);
    assert_fails(attach(*state, &child, &err), STK_ENOTSUP, &err, "another version");
    begin_script();
    say(STK__WIRE_DONE, NULL);
    assert_fails(attach(*state, &child, &err), STK_EFORMAT, &err, "makes no sense");
    begin_script();
    stk__wire_put_u32(&script, STK__WIRE_HELLO);
    stk__wire_put_u32(&script, STK__WIRE_MOST + 1);
    assert_fails(attach(*state, &child, &err), STK_EFORMAT, &err, "makes no sense");
    assert_null(child);
    begin_script();
    say_hello(STK__WIRE_VERSION);
    assert_ok(attach(*state, &child, &err), &err);
    stk__libhdf5_stop(&child);
}

static stk_status note(void *user, const char *path, bool is_array, stk_error *err)
{
    char *all = user;

    (void)err;
    strcat(all, path);
    strcat(all, is_array ? ";" : "/;");
    return STK_OK;
}

static stk_status list(stk_context *ctx, char *all, stk_error *err)
{
    stk__libhdf5 *child = NULL;

    *all = 0;
    assert_ok(attach(ctx, &child, err), err);
    const stk_status status = stk__libhdf5_list(child, NULL, note, all, err);
    assert_int_equal(status != STK_OK, stk__libhdf5_is_lost(child));
    stk__libhdf5_stop(&child);
    return status;
}

static void say_node(uint32_t is_array, const char *path)
{
    unsigned char bytes[2048];
    stk__wire_out out = fresh(bytes, sizeof bytes);

    stk__wire_put_u8(&out, is_array);
    stk__wire_put_text(&out, path);
    say(STK__WIRE_NODE, &out);
}

static void test_list(void **state)
{
    char all[256];
    stk_error err;

    begin_script();
    say_hello(STK__WIRE_VERSION);
    say_node(0, "a");
    say_node(1, "a/b");
    /* Names that would lead elsewhere are none. */
    say_node(1, "../b");
    say_node(1, "a//b");
    say_node(1, "a/./b");
    say_node(1, "");
    say_node(1, "a\nb");
    say(STK__WIRE_DONE, NULL);
    assert_ok(list(*state, all, &err), &err);
    assert_string_equal(all, "a/;a/b;");
    script.length -= 8; /* without DONE */
    assert_fails(list(*state, all, &err), STK_ESYSTEM, &err, "ended");
    say(STK__WIRE_LAYOUT, NULL);
    assert_fails(list(*state, all, &err), STK_EFORMAT, &err, "makes no sense");
    begin_script();
    say_hello(STK__WIRE_VERSION);
    say_node(1, "abc");
    frames[script.length - 3] = 0; /* a zero within a text */
    assert_fails(list(*state, all, &err), STK_EFORMAT, &err, "makes no sense");
}

/* What LAYOUT says, and one thing of it changed. */
typedef struct layout {
    uint32_t type;
    uint64_t itemsize;
    uint32_t rank;
    uint64_t side, chunk;
    uint32_t more; /* bytes behind it */
} layout;

static const layout sound = {STK_INT16, 2, 2, 4, 3, 0};

static void say_layout(const layout *l)
{
    unsigned char bytes[2048];
    const int16_t fill = -1;
    stk__wire_out out = fresh(bytes, sizeof bytes);

    stk__wire_put_u32(&out, l->type);
    stk__wire_put_u64(&out, l->itemsize);
    stk__wire_put_u32(&out, l->rank);
    for (uint32_t d = 0; d < l->rank; d++)
        stk__wire_put_u64(&out, l->side);
    stk__wire_put_u8(&out, 1);
    for (uint32_t d = 0; d < l->rank; d++)
        stk__wire_put_u64(&out, l->chunk);
    stk__wire_put_u8(&out, 1);
    stk__wire_put(&out, &fill, sizeof fill);
    for (uint32_t d = 0; d < l->rank; d++)
        stk__wire_put_text(&out, d ? "" : "y");
    stk__wire_put_text(&out, "deflate");
    for (uint32_t i = 0; i < l->more; i++)
        stk__wire_put_u8(&out, 0);
    say(STK__WIRE_LAYOUT, &out);
}

static stk_status describe(stk_context *ctx, stk__libhdf5_object *object, stk_error *err)
{
    stk__libhdf5 *child = NULL;

    assert_ok(attach(ctx, &child, err), err);
    const stk_status status = stk__libhdf5_describe(child, "x", NULL, object, err);
    stk__libhdf5_stop(&child);
    return status;
}

static void test_layout(void **state)
{
    layout wrong[] = {sound, sound, sound, sound, sound, sound, sound, sound};
    stk__libhdf5_object object;
    stk_error err;

    begin_script();
    say_hello(STK__WIRE_VERSION);
    say_layout(&sound);
    say(STK__WIRE_DONE, NULL);
    assert_ok(describe(*state, &object, &err), &err);
    assert_string_equal(object.type_name, "int16");
    assert_int_equal(object.shape[1], 4);
    assert_string_equal(object.dimensions[0], "y");
    assert_null(object.dimensions[1]);
    assert_string_equal(object.attributes, "{}");
    stk__libhdf5_object_release(&object);
    wrong[0].type = STK_DTYPE_COUNT;
    wrong[1].itemsize = 4;
    wrong[2].rank = STK_ARRAY_MAX_RANK + 1;
    wrong[3].side = UINT64_MAX;
    wrong[4].chunk = 0;
    wrong[5].more = 1;
    wrong[6].itemsize = UINT64_MAX;
    wrong[7].type = STK__WIRE_UNICODE; /* of two bytes each */
    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        begin_script();
        say_hello(STK__WIRE_VERSION);
        say_layout(&wrong[i]);
        say(STK__WIRE_DONE, NULL);
        assert_fails(describe(*state, &object, &err), STK_EFORMAT, &err, "makes no sense");
    }
    begin_script();
    say_hello(STK__WIRE_VERSION);
    say_layout(&sound);
    say_layout(&sound); /* it can be one thing only */
    assert_fails(describe(*state, &object, &err), STK_EFORMAT, &err, "makes no sense");
}

static void say_attribute(const char *name, uint32_t type, uint64_t count, uint32_t scalar,
                          const void *values, size_t bytes)
{
    unsigned char room[2048];
    stk__wire_out out = fresh(room, sizeof room);

    stk__wire_put_text(&out, name);
    stk__wire_put_u32(&out, type);
    stk__wire_put_u64(&out, count);
    stk__wire_put_u8(&out, scalar);
    stk__wire_put(&out, values, bytes);
    say(STK__WIRE_ATTRIBUTE, &out);
}

static void test_attributes(void **state)
{
    const double reals[] = {1, 0.1};
    const uint64_t huge = UINT64_MAX;
    const int8_t small[] = {-3};
    stk__libhdf5_object object;
    stk_error err;

    begin_script();
    say_hello(STK__WIRE_VERSION);
    say_attribute("a\"b", STK_FLOAT64, 2, 0, reals, sizeof reals);
    say_attribute("u", STK_UINT64, 1, 1, &huge, sizeof huge);
    say_attribute("s", STK_INT8, 1, 0, small, 1);
    say_attribute("t", STK__WIRE_TEXT, 2, 0, "\2\0\0\0ab\0\0\0\0\0", 12);
    say_attribute("none", STK__WIRE_TEXT, 0, 0, NULL, 0);
    say_attribute("left out", STK__WIRE_OTHER, 0, 1, NULL, 0);
    say(STK__WIRE_DONE, NULL);
    assert_ok(describe(*state, &object, &err), &err);
    assert_string_equal(object.attributes, "{\"a\\\"b\": [1.0, 0.1], \"u\": 18446744073709551615, "
                                           "\"s\": -3, \"t\": [\"ab\", \"\"], \"none\": []}");
    assert_false(object.is_array);
    stk__libhdf5_object_release(&object);
    for (int i = 0; i < 5; i++) {
        begin_script();
        say_hello(STK__WIRE_VERSION);
        say_attribute(i == 0 ? "" : "a", i == 1 ? STK_COMPLEX64 : STK_INT8,
                      i == 2   ? UINT64_MAX
                      : i == 3 ? 0
                               : 1,
                      i == 3, small, i == 4 ? 0 : 1);
        assert_fails(describe(*state, &object, &err), STK_EFORMAT, &err, "makes no sense");
    }
}

static void test_failure_that_is_told(void **state)
{
    unsigned char bytes[2048];
    stk__libhdf5_object object;
    stk_error err;

    for (int i = 0; i < 2; i++) {
        stk__wire_out out = fresh(bytes, sizeof bytes);
        begin_script();
        say_hello(STK__WIRE_VERSION);
        stk__wire_put_u32(&out, (uint32_t)(i ? STK_EOS : STK_EKIND));
        stk__wire_put_text(&out, "of a kind");
        say(STK__WIRE_FAIL, &out);
        assert_fails(describe(*state, &object, &err), i ? STK_EFORMAT : STK_EKIND, &err,
                     i ? "makes no sense" : "of a kind");
    }
}

/* Values are as many as were asked for. */
static stk_status read_eight(stk_context *ctx, unsigned char out[8], stk_error *err)
{
    const int64_t start[1] = {0}, shape[1] = {8};
    stk__libhdf5_object object = {.ctx = ctx, .itemsize = 1, .rank = 1};
    stk__libhdf5 *child = NULL;

    assert_ok(attach(ctx, &child, err), err);
    const stk_status status =
        stk__libhdf5_read(child, "x", &object, start, shape, NULL, out, 8, err);
    stk__libhdf5_stop(&child);
    return status;
}

static void say_data(const char *data, size_t n)
{
    const stk__wire_out out = {.bytes = (unsigned char *)data, .length = n};

    say(STK__WIRE_DATA, &out);
}

static void test_values(void **state)
{
    unsigned char out[9] = {[8] = 77};
    stk_error err;

    begin_script();
    say_hello(STK__WIRE_VERSION);
    const size_t begin = script.length;
    say_data("abc", 3);
    say_data("defgh", 5);
    say(STK__WIRE_DONE, NULL);
    assert_ok(read_eight(*state, out, &err), &err);
    assert_memory_equal(out, "abcdefgh", 8);
    for (int i = 0; i < 4; i++) {
        script.length = begin;
        say_data("abc", i == 0 ? 0 : 3);
        if (i == 1)
            say_data("defghi", 6);
        if (i == 2)
            say(STK__WIRE_DONE, NULL);
        if (i == 3)
            say_node(1, "x");
        assert_fails(read_eight(*state, out, &err), STK_EFORMAT, &err, "makes no sense");
    }
    assert_int_equal(out[8], 77);
}

/* Bytes that it asks for lie in the file, and there has to be one. */
static void test_wants(void **state)
{
    const uint64_t wrong[][2] = {
        {0, 0}, {0, 11}, {11, 1}, {UINT64_MAX, 2}, {0, STK__WIRE_PIECE + 1}};
    stk_store *store = NULL;
    stk__libhdf5 *child = NULL;
    char key[64];
    stk_error err;

    assert_ok(stk_store_open(*state, "mem://wants", &store, key, sizeof key, &err), &err);
    assert_ok(stk_store_put(store, "x", "0123456789", 10, NULL, &err), &err);
    for (size_t i = 0; i <= STK_COUNT(wrong); i++) {
        const uint64_t asked[2] = {i < STK_COUNT(wrong) ? wrong[i][0] : 3,
                                   i < STK_COUNT(wrong) ? wrong[i][1] : 4};
        const stk__wire_out out = {.bytes = (unsigned char *)asked, .length = sizeof asked};
        begin_script();
        say_hello(STK__WIRE_VERSION);
        say(STK__WIRE_WANT, &out);
        say(STK__WIRE_DONE, NULL);
        assert_ok(attach(*state, &child, &err), &err);
        const stk_status status = stk__libhdf5_open(child, store, "x", NULL, &err);
        assert_int_equal(status, i < STK_COUNT(wrong) ? STK_EFORMAT : STK_OK);
        stk__libhdf5_stop(&child);
    }
    script.length -= 8;
    assert_ok(attach(*state, &child, &err), &err);
    char all[64] = "";
    assert_fails(stk__libhdf5_list(child, NULL, note, all, &err), STK_EFORMAT, &err,
                 "makes no sense");
    stk__libhdf5_stop(&child);
    stk_store_close(&store);
}

/* What no frame holds is refused before it is sent. */
static void test_too_long(void **state)
{
    char *values = calloc(1, STK__WIRE_MOST + 1);
    const char *const text = values;
    stk__libhdf5 *child = NULL;
    stk_error err;

    assert_non_null(values);
    begin_script();
    say_hello(STK__WIRE_VERSION);
    assert_ok(attach(*state, &child, &err), &err);
    assert_fails(
        stk__libhdf5_put_attribute(child, "x", STK_INT8, STK__WIRE_MOST, false, values, NULL, &err),
        STK_ELIMIT, &err, "16777216 bytes");
    memset(values, 'a', STK__WIRE_MOST);
    assert_fails(stk__libhdf5_put_attribute(child, "x", STK__WIRE_TEXT, 1, true, &text, NULL, &err),
                 STK_ELIMIT, &err, "16777216 bytes");
    assert_false(stk__libhdf5_is_lost(child));
    stk__libhdf5_stop(&child);
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_failure_that_is_told),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_wants),
        cmocka_unit_test(test_too_long),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
