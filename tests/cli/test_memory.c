/* SPDX-License-Identifier: Apache-2.0 */
/* What the command says where a C++ runtime in its process throws for want of memory. */
#include "support/support.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void handler_fn(void);

static handler_fn *handler;

/* std::set_terminate(), as if there were a C++ runtime. */
static handler_fn *set_terminate(handler_fn *to)
{
    handler = to;
    return NULL;
}

static void *find_symbol(void *where, const char *name)
{
    handler_fn *(*found)(handler_fn *) = set_terminate;
    void *symbol = NULL;

    (void)where;
    if (strcmp(name, "_ZSt13set_terminatePFvvE") == 0)
        memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}

#define dlsym find_symbol
#include "../../cli/memory.c"
#undef dlsym

void cli_warning(const char *format, ...)
{
    (void)format;
}

static void ends_in_words(void **state)
{
    char said[512] = "";
    int ends[2], status;

    (void)state;
    cli_memory_name();
    assert_true(handler != NULL);
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        handler();
        _exit(0);
    }
    close(ends[1]);
    assert_true(read(ends[0], said, sizeof said - 1) > 0);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == CLI_FAILED);
    assert_non_null(strstr(said, "stoker: error: no memory"));
    assert_non_null(strstr(said, "--ckpt-path last"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends_in_words)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
