/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program stoker-hdf5: what it does with frames that make no sense, what it inherits, its
 * limits and its death.
 */
#include "support/support.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array/libhdf5/child.h"
#include "unit/array/frames.h"

#define KINDS TESTS_DIR "/golden/array/libhdf5/kinds.h5"

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
    const uint32_t kinds[] = {STK__WIRE_WRITE_FILE, STK__WIRE_GROUP,         STK__WIRE_DIMENSION,
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

static stk_status note(void *user, const char *path, bool is_array, stk_error *err)
{
    char *all = user;

    (void)err;
    strcat(all, path);
    strcat(all, is_array ? ";" : "/;");
    return STK_OK;
}

/* ---- Limits, and an end in the middle ---- */

static stk__libhdf5 *start_with(stk_context *ctx, uint64_t memory, int file)
{
    const stk__libhdf5_limits limits = {memory, 60};
    stk__libhdf5 *child = NULL;
    stk_error err;

    assert_ok(stk__libhdf5_start(ctx, &limits, file, &child, &err), &err);
    return child;
}

/* A file with one variable of so many bytes, of which none is written. */
static void make_large(stk_context *ctx, const char *path, uint64_t bytes)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    stk__libhdf5 *child = start_with(ctx, STK__LIBHDF5_MEMORY, fd);
    stk__libhdf5_variable v = {.path = "x",
                               .type = STK_INT8,
                               .itemsize = 1,
                               .rank = 1,
                               .shape = {bytes},
                               .chunk_shape = {bytes},
                               .is_chunked = true,
                               .scale = STK__WIRE_NONE};
    stk_error err;

    assert_ok(stk__libhdf5_begin(child, NULL, &err), &err);
    assert_ok(stk__libhdf5_put_dimension(child, 0, "d", bytes, false, NULL, &err), &err);
    assert_ok(stk__libhdf5_put_variable(child, &v, NULL, &err), &err);
    assert_ok(stk__libhdf5_put_defined(child, NULL, &err), &err);
    assert_ok(stk__libhdf5_finish(child, NULL, &err), &err);
    stk__libhdf5_stop(&child);
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
    static const struct {
        int signal;
        stk_status status;
        const char *why;
    } ends[] = {{SIGKILL, STK_ESYSTEM, "ended by SIGKILL: the kernel does so"},
                {SIGSYS, STK_EFORMAT, "ended by SIGSYS while it was at work on 'kinds.h5'"},
                {SIGXCPU, STK_EFORMAT, "needed more than 60 s of processor time"},
                {SIGXFSZ, STK_EFORMAT, "met the limit of the size of files, 'ulimit -f'"}};
    const int64_t start[1] = {0}, shape[1] = {3};
    stk__libhdf5_object object;
    stk_store *store = NULL;
    char key[300], out[3];
    stk_error err;

    assert_ok(stk_store_open(*state, KINDS, &store, key, sizeof key, &err), &err);
    for (size_t i = 0; i < STK_COUNT(ends); i++) {
        stk__libhdf5 *child = start_with(*state, STK__LIBHDF5_MEMORY, -1);
        assert_ok(stk__libhdf5_open(child, store, key, NULL, &err), &err);
        assert_ok(stk__libhdf5_describe(child, "bool", NULL, &object, &err), &err);
        assert_int_equal(kill(child->pid, ends[i].signal), 0);
        assert_fails(stk__libhdf5_read(child, "bool", &object, start, shape, NULL, out, 3, &err),
                     ends[i].status, &err, ends[i].why);
        assert_true(stk__libhdf5_is_lost(child));
        assert_int_not_equal(
            stk__libhdf5_read(child, "bool", &object, start, shape, NULL, out, 3, &err), STK_OK);
        stk__libhdf5_object_release(&object);
        stk__libhdf5_stop(&child);
    }
    stk_store_close(&store);
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

    /* Of one second: what does not ask the caller gives up soon all the same. */
    const stk__libhdf5_limits limits = {STK__LIBHDF5_MEMORY, 1};
    stk__libhdf5 *child = NULL;
    assert_ok(stk__libhdf5_start(*state, &limits, -1, &child, &err), &err);
    assert_ok(stk_store_open(*state, KINDS, &store, key, sizeof key, &err), &err);
    assert_ok(stk__libhdf5_open(child, store, key, NULL, &err), &err);
    /* It is stopped, so that there is something to wait for. */
    assert_int_equal(kill(child->pid, SIGSTOP), 0);
    assert_int_equal(stk__libhdf5_list(child, &call, note, all, &err), STK_ECANCELED);
    assert_true(stk__libhdf5_is_lost(child));
    stk__libhdf5_stop(&child);
    stk_store_close(&store);
}

/* Nothing of the caller's is open in it, and nothing of its environment is known there. */
static void test_what_it_inherits(void **state)
{
    char path[64], what[300];
    const int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    const int open_here = fcntl(zero, F_DUPFD, 20); /* not closed on exec */

    setenv("HDF5_PLUGIN_PATH", "/tmp", 1);
    stk__libhdf5 *child = start_with(*state, STK__LIBHDF5_MEMORY, -1);
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
        found =
            found || strncmp(what, "Max open files            0                    0 ", 49) == 0;
    assert_true(found);
    fclose(file);
    close(open_here);
    close(zero);
    stk__libhdf5_stop(&child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
