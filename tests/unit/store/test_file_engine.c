/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a folder over I/O engines and system calls that fail. */
#include "support/support.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"

/* Exit code 0: all as it should be. */
static int child_without_uring(const char *folder, stk_io_engine engine, int error)
{
    stk_context_options options;
    stk_context *context = NULL;
    stk_store *store = NULL;
    stk_error err;
    char byte;

    if (!test_deny_call(SYS_io_uring_setup, error))
        return 77;
    stk_context_options_init(&options);
    options.io_engine = engine;
    if (stk_context_create(&options, &context, &err) != STK_OK)
        return 1;
    stk_status status = stk_store_open(context, folder, &store, NULL, 0, &err);
    if (engine == STK_IO_URING)
        return status != STK_ENOTSUP || store || !strstr(err.text, "io_engine `uring`") ||
                       !strstr(err.text, "`auto` or `threads`")
                   ? 2
                   : 0;
    if (status != STK_OK)
        return 3;
    const stk_status got = stk_store_read(store, "big", 0, 1, &byte, &err);
    stk_store_close(&store);
    return got == STK_OK ? 0 : 4;
}

/* An engine that was asked for by name and is refused fails where the store is opened, and is no
 * failure of what is read. */
static void test_refused_engine(void **state)
{
    char folder[256];
    const struct {
        stk_io_engine engine;
        int error;
    } cases[] = {{STK_IO_URING, EPERM},  {STK_IO_URING, ENOSYS}, {STK_IO_URING, ENOMEM},
                 {STK_IO_URING, EMFILE}, {STK_IO_AUTO, EPERM},   {STK_IO_THREADS, ENOSYS}};

    (void)state;
    test_folder(folder);
    test_write(folder, "big", "bytes", 5);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        int status = 0;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(child_without_uring(folder, cases[i].engine, cases[i].error));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
            print_message("skipped: no seccomp filters here\n");
            skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_engine),
    };

    return cmocka_run_group_tests_name("file_engine", tests, NULL, NULL);
}
