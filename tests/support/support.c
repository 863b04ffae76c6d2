/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <ftw.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXIT_SKIPPED 77 /* SKIP_RETURN_CODE of tests/CMakeLists.txt */

static bool skipped;

void test_skipped(void)
{
    skipped = true;
}

int test_run(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
             CMFixtureFunction teardown)
{
    int failed = _cmocka_run_group_tests(name, tests, n, setup, teardown);

    return failed ? 1 : skipped ? EXIT_SKIPPED : 0;
}

static void fail_at(const char *file, int line, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vprint_error(format, arguments);
    va_end(arguments);
    print_error("\n");
    _fail(file, line);
}

static void show(void *user, stk_message_level level, const char *message)
{
    (void)user;
    fprintf(stderr, "[%d] %s\n", (int)level, message);
}

stk_context *test_context(void)
{
    stk_context_options options;
    stk_context *context = NULL;
    stk_error err;

    stk_context_options_init(&options);
    if (getenv("STOKER_TEST_VERBOSE"))
        options.on_message = show;
    assert_ok(stk_context_create(&options, &context, &err), &err);
    return context;
}

int test_context_open(void **state)
{
    *state = test_context();
    return 0;
}

int test_context_close(void **state)
{
    stk_context *context = *state;

    stk_context_destroy(&context);
    return 0;
}

void test_assert_ok(stk_status status, const stk_error *err, const char *what, const char *file,
                    int line)
{
    if (status != STK_OK)
        fail_at(file, line, "%s: %s: %s", what, stk_status_name(status), err ? err->text : "");
}

void test_assert_fails(stk_status status, stk_status expected, const stk_error *err,
                       const char *part, const char *what, const char *file, int line)
{
    if (status != expected)
        fail_at(file, line, "%s: %s instead of %s: %s", what, stk_status_name(status),
                stk_status_name(expected), err && status < 0 ? err->text : "");
    if (err && part && !strstr(err->text, part))
        fail_at(file, line, "%s: no \"%s\" in the message: %s", what, part, err->text);
}

const char *test_folder(char path[256])
{
    const char *base = getenv("TMPDIR");

    snprintf(path, 256, "%s/stoker-test-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

void test_folder_remove(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void test_write(const char *folder, const char *name, const void *data, size_t length)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *p = path + strlen(folder) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

void test_flip_bit(const char *path, long from_end)
{
    FILE *f = fopen(path, "r+b");

    assert_non_null(f);
    assert_int_equal(fseek(f, -from_end, SEEK_END), 0);
    const int byte = fgetc(f);
    assert_int_not_equal(byte, EOF);
    assert_int_equal(fseek(f, -from_end, SEEK_END), 0);
    assert_int_equal(fputc(byte ^ 1, f), byte ^ 1);
    assert_int_equal(fclose(f), 0);
}

bool test_has_data(const char *name, char path[256])
{
    const char *base = getenv("STOKER_TEST_DATA");
    struct stat st;

    if (base)
        snprintf(path, 256, "%s/%s", base, name);
    else
        snprintf(path, 256, "%s/../../shared/data/%s", TESTS_DIR, name);
    return stat(path, &st) == 0;
}

const char *test_data(const char *name, char path[256])
{
    if (test_has_data(name, path))
        return path;
    test_skipped();
    print_message("skipped: no %s (set STOKER_TEST_DATA to the folder of test data)\n", path);
    return NULL;
}

const char *test_binary(void)
{
    const char *binary = getenv("STOKER_TEST_BINARY");

    if (binary && access(binary, X_OK) == 0)
        return binary;
    test_skipped();
    print_message("skipped: no command (STOKER_TEST_BINARY)\n");
    return NULL;
}

const char *test_python(const char *modules)
{
    const char *given = getenv("STOKER_TEST_PYTHON");
    const char *python = given && *given ? given : "python3";
    char command[1024];

    snprintf(command, sizeof command, "'%s' -c 'import %s' >/dev/null 2>&1", python, modules);
    if (system(command) == 0)
        return python;
    test_skipped();
    print_message("skipped: %s cannot import %s (tests/parity/requirements.txt)\n", python,
                  modules);
    return NULL;
}

void test_bind_by_permissions(bool bound)
{
    const uint32_t powers = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    if (bound)
        data[0].effective &= ~powers;
    else
        data[0].effective |= data[0].permitted & powers;
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

uint64_t test_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

bool test_deny_call(long number, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}
