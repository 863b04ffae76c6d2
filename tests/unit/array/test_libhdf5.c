/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversation with stoker-hdf5, each end against one that lies: what the library hears from a
 * process that was taken over, and what the program does with a library's frames that make no sense.
 * And its limits, and its death.
 */
#include "support/support.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array/libhdf5/child.h"

#define KINDS TESTS_DIR "/golden/array/libhdf5/kinds.h5"

/* ---- Frames that are put together ---- */

static unsigned char frames[1 << 16];
static stk__wire_out script; /* all frames that the other end says */

static bool no_growth(stk__wire_out *out, size_t more)
{
    (void)out, (void)more;
    return false;
}

/* The compiler does not see which, and that what does not fit is not put. */
static bool (*volatile growth)(stk__wire_out *, size_t) = no_growth;

static stk__wire_out fresh(unsigned char *bytes, size_t room)
{
    return (stk__wire_out){.bytes = bytes, .room = room, .grow = growth};
}

static void say(uint32_t kind, const stk__wire_out *payload)
{
    stk__wire_put_u32(&script, kind);
    stk__wire_put_u32(&script, payload ? (uint32_t)payload->length : 0);
    if (payload)
        stk__wire_put(&script, payload->bytes, payload->length);
}

static void say_hello(uint32_t version)
{
    unsigned char bytes[2048];
    stk__wire_out out = fresh(bytes, sizeof bytes);

    stk__wire_put_u32(&out, version);
    stk__wire_put_text(&out, "1.10.8");
    say(STK__WIRE_HELLO, &out);
}

static void begin_script(void)
{
    script = fresh(frames, sizeof frames);
}

static int hears = -1; /* the other end of the last conversation */

/* A child that has said all of the script, and then ends. */
static stk_status attach(stk_context *ctx, stk__hdf5 **child, stk_error *err)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(write(ends[1], frames, script.length), script.length);
    /* What is asked is heard, and nothing more comes. */
    assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    if (hears >= 0)
        close(hears);
    hears = ends[1];
    return stk__hdf5_attach(ctx, ends[0], child, err);
}

/* ---- The library against a child that lies ---- */

static void test_hello(void **state)
{
    stk__hdf5 *child = NULL;
    stk_error err;

    begin_script();
    assert_fails(attach(*state, &child, &err), STK_EFORMAT, &err, "ended");
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
    assert_string_equal(stk__hdf5_version(child), "1.10.8");
    stk__hdf5_stop(&child);
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
    stk__hdf5 *child = NULL;

    *all = 0;
    assert_ok(attach(ctx, &child, err), err);
    const stk_status status = stk__hdf5_list(child, NULL, note, all, err);
    assert_int_equal(status != STK_OK, stk__hdf5_is_lost(child));
    stk__hdf5_stop(&child);
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
    assert_fails(list(*state, all, &err), STK_EFORMAT, &err, "ended");
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

static stk_status describe(stk_context *ctx, stk__hdf5_object *object, stk_error *err)
{
    stk__hdf5 *child = NULL;

    assert_ok(attach(ctx, &child, err), err);
    const stk_status status = stk__hdf5_describe(child, "x", NULL, object, err);
    stk__hdf5_stop(&child);
    return status;
}

static void test_layout(void **state)
{
    layout wrong[] = {sound, sound, sound, sound, sound, sound, sound, sound};
    stk__hdf5_object object;
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
    stk__hdf5_object_release(&object);
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
    stk__hdf5_object object;
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
    stk__hdf5_object_release(&object);
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
    stk__hdf5_object object;
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
    stk__hdf5_object object = {.ctx = ctx, .itemsize = 1, .rank = 1};
    stk__hdf5 *child = NULL;

    assert_ok(attach(ctx, &child, err), err);
    const stk_status status =
        stk__hdf5_read(child, "x", &object, start, shape, NULL, out, 8, err);
    stk__hdf5_stop(&child);
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
    const uint64_t wrong[][2] = {{0, 0}, {0, 11}, {11, 1}, {UINT64_MAX, 2}, {0, STK__WIRE_PIECE + 1}};
    stk_store *store = NULL;
    stk__hdf5 *child = NULL;
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
        const stk_status status = stk__hdf5_open(child, store, "x", NULL, &err);
        assert_int_equal(status, i < STK_COUNT(wrong) ? STK_EFORMAT : STK_OK);
        stk__hdf5_stop(&child);
    }
    script.length -= 8;
    assert_ok(attach(*state, &child, &err), &err);
    char all[64] = "";
    assert_fails(stk__hdf5_list(child, NULL, note, all, &err), STK_EFORMAT, &err, "makes no sense");
    stk__hdf5_stop(&child);
    stk_store_close(&store);
}

/* ---- The program against a library that lies ---- */

/* Where the program is, as the library finds it. */
static void program_path(char path[256])
{
    const ssize_t n = readlink("/proc/self/exe", path, 200);

    assert_true(n > 0);
    path[n] = 0;
    strcpy(strrchr(path, '/'), "/../stoker-hdf5");
}

/* Say bytes to the program; how it ended. */
static int end_of(const void *bytes, size_t length)
{
    char path[256], dropped[256];
    char *const arguments[] = {(char *)"stoker-hdf5", (char *)"1", (char *)"1000000000",
                               (char *)"5", NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], how = 0;
    pid_t pid;

    program_path(path);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    posix_spawn_file_actions_addopen(&actions, 3, "/dev/null", O_RDWR, 0);
    assert_int_equal(posix_spawn(&pid, path, &actions, NULL, arguments, NULL), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    (void)!send(ends[0], bytes, length, MSG_NOSIGNAL);
    shutdown(ends[0], SHUT_WR);
    while (recv(ends[0], dropped, sizeof dropped, 0) > 0)
        ;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return how;
}

static void test_program_hears_nonsense(void **state)
{
    static const uint32_t kinds[] = {0,
                                     STK__WIRE_LIST,
                                     STK__WIRE_DESCRIBE,
                                     STK__WIRE_READ,
                                     STK__WIRE_BYTES,
                                     STK__WIRE_GROUP,
                                     STK__WIRE_VARIABLE,
                                     STK__WIRE_PUT_ATTRIBUTE,
                                     STK__WIRE_BOX,
                                     STK__WIRE_FINISH,
                                     STK__WIRE_DONE,
                                     UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        begin_script();
        say(kinds[i], NULL);
        assert_true(WIFEXITED(end_of(frames, script.length)));
    }
    begin_script();
    stk__wire_put_u32(&script, STK__WIRE_DESCRIBE);
    stk__wire_put_u32(&script, UINT32_MAX);
    const int how = end_of(frames, script.length);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 3);
}

/* Put the beginning of a sound file, from which a drawn byte is changed. */
static void say_file(void)
{
    unsigned char bytes[512];
    const uint32_t kinds[] = {STK__WIRE_WRITE_FILE, STK__WIRE_GROUP, STK__WIRE_DIMENSION,
                              STK__WIRE_VARIABLE,   STK__WIRE_PUT_ATTRIBUTE, STK__WIRE_DEFINED,
                              STK__WIRE_BOX,        STK__WIRE_DATA,          STK__WIRE_CHUNK,
                              STK__WIRE_DATA,       STK__WIRE_FINISH};

    begin_script();
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        stk__wire_out out = fresh(bytes, sizeof bytes);
        if (kinds[i] == STK__WIRE_WRITE_FILE)
            stk__wire_put_text(&out, "version=2");
        if (kinds[i] == STK__WIRE_GROUP)
            stk__wire_put_text(&out, "g");
        if (kinds[i] == STK__WIRE_DIMENSION) {
            stk__wire_put_u32(&out, 0);
            stk__wire_put_text(&out, "g/x");
            stk__wire_put_u64(&out, 4);
            stk__wire_put_u8(&out, 0);
        }
        if (kinds[i] == STK__WIRE_VARIABLE) {
            stk__wire_put_u32(&out, 0);
            stk__wire_put_text(&out, "g/v");
            stk__wire_put_u32(&out, STK_INT16);
            stk__wire_put_u64(&out, 2);
            stk__wire_put_u32(&out, 1);
            stk__wire_put_u64(&out, 4);
            stk__wire_put_u64(&out, 2);
            stk__wire_put_u8(&out, 0);
            stk__wire_put_u32(&out, 0);
            stk__wire_put(&out, "\1\4\1\1\1\7\0", 7); /* chunked ... fill value */
            stk__wire_put_u32(&out, STK__WIRE_NONE);
        }
        if (kinds[i] == STK__WIRE_PUT_ATTRIBUTE) {
            stk__wire_put_text(&out, "a");
            stk__wire_put_u32(&out, STK__WIRE_TEXT);
            stk__wire_put_u64(&out, 1);
            stk__wire_put_u8(&out, 1);
            stk__wire_put_text(&out, "text");
        }
        if (kinds[i] == STK__WIRE_BOX) {
            stk__wire_put_u32(&out, 0);
            stk__wire_put_u64(&out, 2);
            stk__wire_put_u64(&out, 2);
            stk__wire_put_u8(&out, 1);
        }
        if (kinds[i] == STK__WIRE_CHUNK) {
            stk__wire_put_u32(&out, 0);
            stk__wire_put_u64(&out, 0);
            stk__wire_put_u64(&out, 4);
            stk__wire_put_u8(&out, 1);
        }
        if (kinds[i] == STK__WIRE_DATA)
            stk__wire_put(&out, "abcd", 4);
        say(kinds[i], &out);
    }
    assert_false(script.bad);
}

static void test_program_hears_changed_bytes(void **state)
{
    uint64_t draw = 5;

    (void)state;
    say_file();
    const int whole = end_of(frames, script.length);
    assert_true(WIFEXITED(whole) && WEXITSTATUS(whole) == 0);
    for (int i = 0; i < 60; i++) {
        say_file();
        frames[test_random(&draw) % script.length] ^= (unsigned char)(1u << test_random(&draw) % 8);
        const int how = end_of(frames, script.length);
        assert_true(WIFEXITED(how));
    }
}

/* Without the library it says what it is for. */
static void test_program_alone(void **state)
{
    char path[256], command[300];

    (void)state;
    program_path(path);
    snprintf(command, sizeof command, "'%s' 2>&1 | grep -q 'started by the library'", path);
    assert_int_equal(system(command), 0);
}

/* ---- Limits, and an end in the middle ---- */

static stk__hdf5 *start_with(stk_context *ctx, uint64_t memory, int file)
{
    const stk__hdf5_limits limits = {memory, 60};
    stk__hdf5 *child = NULL;
    stk_error err;

    assert_ok(stk__hdf5_start(ctx, &limits, file, &child, &err), &err);
    return child;
}

/* A file with one variable of so many bytes, of which none is written. */
static void make_large(stk_context *ctx, const char *path, uint64_t bytes)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    stk__hdf5 *child = start_with(ctx, STK__HDF5_MEMORY, fd);
    stk__hdf5_variable v = {.path = "x",
                            .type = STK_INT8,
                            .itemsize = 1,
                            .rank = 1,
                            .shape = {bytes},
                            .chunk_shape = {bytes},
                            .is_chunked = true,
                            .scale = STK__WIRE_NONE};
    stk_error err;

    assert_ok(stk__hdf5_begin(child, NULL, &err), &err);
    assert_ok(stk__hdf5_put_dimension(child, 0, "d", bytes, false, NULL, &err), &err);
    assert_ok(stk__hdf5_put_variable(child, &v, NULL, &err), &err);
    assert_ok(stk__hdf5_put_defined(child, NULL, &err), &err);
    assert_ok(stk__hdf5_finish(child, NULL, &err), &err);
    stk__hdf5_stop(&child);
    close(fd);
}

static void test_memory_is_limited(void **state)
{
    const uint64_t bytes = UINT64_C(400) << 20;
    char folder[256], url[400];
    static char out[4096];
    stk_array *array = NULL;
    const int64_t start[1] = {0}, shape[1] = {4096};
    const stk_array_box box = {start, shape, NULL};
    stk_error err;

    if (TEST_SANITIZED) /* whose own address space is larger than any limit */
        skip();
    snprintf(url, sizeof url, "%s/x.nc", test_folder(folder));
    make_large(*state, url, bytes);
    snprintf(url, sizeof url, "%s/x.nc/x?format=libhdf5&child_memory=256MiB", folder);
    assert_ok(stk_array_open(*state, url, NULL, &array, &err), &err);
    assert_int_equal(stk_array_read(array, &box, out, sizeof out, NULL, -1, &err), STK_ENOMEM);
    stk_array_close(&array);
    test_folder_remove(folder);
}

static void test_killed(void **state)
{
    const int64_t start[1] = {0}, shape[1] = {4};
    stk__hdf5_object object;
    stk_store *store = NULL;
    stk_array *array = NULL;
    char key[300], out[4];
    stk_error err;

    stk__hdf5 *child = start_with(*state, STK__HDF5_MEMORY, -1);
    assert_ok(stk_store_open(*state, KINDS, &store, key, sizeof key, &err), &err);
    assert_ok(stk__hdf5_open(child, store, key, NULL, &err), &err);
    assert_ok(stk__hdf5_describe(child, "bool", NULL, &object, &err), &err);
    assert_int_equal(kill(child->pid, SIGKILL), 0);
    assert_fails(stk__hdf5_read(child, "bool", &object, start, shape, NULL, out, 4, &err),
                 STK_EFORMAT, &err, "ended by SIGKILL");
    assert_true(stk__hdf5_is_lost(child));
    assert_fails(stk__hdf5_read(child, "bool", &object, start, shape, NULL, out, 4, &err),
                 STK_EFORMAT, &err, "ended");
    stk__hdf5_object_release(&object);
    stk__hdf5_stop(&child);
    stk_store_close(&store);
    stk_array_close(&array);
}

static bool at_once(void *user)
{
    (void)user;
    return true;
}

/* A caller that does not wait ends the process, and the next read starts another. */
static void test_canceled(void **state)
{
    const stk_store_call call = {.struct_size = sizeof call, .canceled = at_once};
    char all[4096] = "", key[300];
    stk_store *store = NULL;
    stk_error err;

    stk__hdf5 *child = start_with(*state, STK__HDF5_MEMORY, -1);
    assert_ok(stk_store_open(*state, KINDS, &store, key, sizeof key, &err), &err);
    assert_ok(stk__hdf5_open(child, store, key, NULL, &err), &err);
    /* It is stopped, so that there is something to wait for. */
    assert_int_equal(kill(child->pid, SIGSTOP), 0);
    assert_int_equal(stk__hdf5_list(child, &call, note, all, &err), STK_ECANCELED);
    assert_true(stk__hdf5_is_lost(child));
    stk__hdf5_stop(&child);
    stk_store_close(&store);
}

/* Nothing of the caller's is open in it, and nothing of its environment is known there. */
static void test_what_it_inherits(void **state)
{
    char path[64], what[300];
    const int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    const int open_here = fcntl(zero, F_DUPFD, 20); /* not closed on exec */

    setenv("HDF5_PLUGIN_PATH", "/tmp", 1);
    stk__hdf5 *child = start_with(*state, STK__HDF5_MEMORY, -1);
    unsetenv("HDF5_PLUGIN_PATH");
    assert_true(open_here >= 20);
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)child->pid, fd);
        const ssize_t n = readlink(path, what, sizeof what - 1);
        if (n < 0)
            continue;
        what[n] = 0;
        assert_true(fd <= STK__WIRE_FILE);
        assert_true(fd == 0 ? strncmp(what, "socket:", 7) == 0 : strcmp(what, "/dev/null") == 0);
    }
    snprintf(path, sizeof path, "/proc/%d/environ", (int)child->pid);
    FILE *file = fopen(path, "r");
    if (file) { /* it may not be looked at by every user */
        assert_int_equal(fread(what, 1, sizeof what, file), 0);
        fclose(file);
    }
    snprintf(path, sizeof path, "/proc/%d/limits", (int)child->pid);
    file = fopen(path, "r");
    assert_non_null(file);
    bool found = false;
    while (fgets(what, sizeof what, file))
        found = found || strncmp(what, "Max open files            0                    0 ", 49) == 0;
    assert_true(found);
    fclose(file);
    close(open_here);
    close(zero);
    stk__hdf5_stop(&child);
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
        cmocka_unit_test(test_program_hears_nonsense),
        cmocka_unit_test(test_program_hears_changed_bytes),
        cmocka_unit_test(test_program_alone),
        cmocka_unit_test(test_memory_is_limited),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_canceled),
        cmocka_unit_test(test_what_it_inherits),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
