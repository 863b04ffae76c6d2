/* What every test program needs: cmocka, a context, a folder that goes away, the real data. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_H
#define STK_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <stoker/stoker.h>

/* Whether a sanitizer brings memory of its own: sizes of the process say nothing then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

/* A test that skips, or asks in vain for data or a program, makes its program exit with 77, the
 * code of a skip: what was not looked at has not passed. */
void test_skipped(void);
int test_run(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
             CMFixtureFunction teardown);
#undef skip
#define skip() (test_skipped(), _skip(__FILE__, __LINE__))
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    test_run(name, tests, sizeof(tests) / sizeof *(tests), setup, teardown)

/* A context whose messages go to standard error when STOKER_TEST_VERBOSE is set. Fails the test
 * when it cannot. */
stk_context *test_context(void);
/* Setup and teardown of tests whose *state is a context. */
int test_context_open(void **state);
int test_context_close(void **state);
/* Assert STK_OK and show the error otherwise. */
#define assert_ok(expression, err)                                                                 \
    test_assert_ok((expression), (err), #expression, __FILE__, __LINE__)
void test_assert_ok(stk_status status, const stk_error *err, const char *what, const char *file,
                    int line);
/* Assert this failure, and that its message contains `part`. */
#define assert_fails(expression, expected, err, part)                                              \
    test_assert_fails((expression), (expected), (err), (part), #expression, __FILE__, __LINE__)
void test_assert_fails(stk_status status, stk_status expected, const stk_error *err,
                       const char *part, const char *what, const char *file, int line);

/* A new empty folder, removed with all in it by test_folder_remove(). */
const char *test_folder(char path[256]);
void test_folder_remove(const char *path);
/* Write a file below a folder; path parts are made. */
void test_write(const char *folder, const char *name, const void *data, size_t length);
/* Change one bit of a file; `from_end`: 1 is its last byte. */
void test_flip_bit(const char *path, long from_end);
/* Whether there is a folder of real data, for tests that make such data where there is not. */
bool test_has_data(const char *name, char path[256]);
/* The folder of real data, or NULL after saying that the test is skipped. */
const char *test_data(const char *name, char path[256]);

/* The command (STOKER_TEST_BINARY), or NULL after saying that the test is skipped. */
const char *test_binary(void);

/* The Python of the tests (STOKER_TEST_PYTHON, or python3) where it has the modules "a, b"; else
 * NULL after saying that the test is skipped. `./dev test` makes one from
 * tests/parity/requirements.txt. */
const char *test_python(const char *modules);

/* Permissions of files bind this thread, and those that it starts, also where it is root's; until
 * they are lifted again. */
void test_bind_by_permissions(bool bound);

/* Have a system call fail with `error` from now on, on every thread of this process: for children,
 * as it is for good. False: this system has no such filters. */
bool test_deny_call(long number, int error);

/* A small fast generator for tests (xorshift64*), seeded by the caller. */
uint64_t test_random(uint64_t *state);

#endif
