/* Runs the command with something preloaded that fails at its n-th call. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_TORTURE_COMMAND_H
#define STK_TESTS_TORTURE_COMMAND_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

enum {
    COUNTER_FD = 198, /* of the preloaded library */
    EVERY = 500,      /* calls that a whole run tries one by one; then a stride */
    SPREAD = 200,     /* calls tried beyond, */
    FEW = 16,         /* and of all in an ordinary run */
    SECONDS = 60
};

/* A command, run in a folder of its own that `make` (may be empty) has filled before. */
typedef struct command {
    const char *make;
    const char *run;  /* of a shell, with "stoker" in front of it */
    const char *same; /* prints what is the same whenever the command succeeds; NULL: nothing is */
} command;

/* What the preloaded library writes. */
typedef struct counted {
    long calls;
    long refused; /* of them, failed ones that oneDNN made */
    long crashed; /* processes that died inside oneDNN */
} counted;

static const char *command_binary, *command_preload;

static void command_shell(const char *folder, const char *line, char *out, size_t size)
{
    char text[4096];

    snprintf(text, sizeof text, "cd '%s' && PATH='%.*s':\"$PATH\" && { %s; } 2>&1", folder,
             (int)(strrchr(command_binary, '/') - command_binary), command_binary, line);
    FILE *f = popen(text, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, size - 1, f);
    out[n] = 0;
    if (pclose(f) != 0)
        fail_msg("%s: %s", line, out);
}

/* Exit status, or minus the signal. */
static int command_once(const command *c, const char *folder, long at, bool for_ever,
                        const char *how, counted *out)
{
    char shell[4096], number[32];
    int status = 0;

    int fd = memfd_create("calls", 0);
    assert_true(fd >= 0 && ftruncate(fd, sizeof *out) == 0);
    /* The shell itself is spared: env sets the preload where the command begins. */
    snprintf(shell, sizeof shell, "exec env LD_PRELOAD='%s' '%s' %s", command_preload,
             command_binary, c->run);
    snprintf(number, sizeof number, "%ld", at);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        if (chdir(folder) != 0 || dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0666), 1) < 0 ||
            dup2(open("said", O_WRONLY | O_CREAT | O_TRUNC, 0666), 2) < 0 ||
            dup2(fd, COUNTER_FD) < 0)
            _exit(126);
        setenv("FAIL_AT", number, 1);
        setenv("FAIL_HOW", how, 1);
        if (for_ever)
            setenv("FAIL_FOR_EVER", "1", 1);
        alarm(SECONDS);
        execl("/bin/sh", "sh", "-c", shell, NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(pread(fd, out, sizeof *out, 0), sizeof *out);
    close(fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* A whole run (STOKER_TEST_TORTURE=whole, by ./dev torture) tries each of the first EVERY. */
static long command_next(long n, long calls)
{
    const char *wanted = getenv("STOKER_TEST_TORTURE");

    if (!wanted || strcmp(wanted, "whole") != 0)
        return n + calls / FEW + 1;
    return n < EVERY ? n + 1 : n + (calls - EVERY) / SPREAD + 1;
}

/* Every call fails in turn, once and for ever. The command succeeds, with the same result, or
 * reports an error; it never dies by a signal or hangs, but inside oneDNN where that uses an
 * allocation of its own unchecked. `must` says that it has to succeed. */
static void command_torture(const command *c, const char *how, bool must)
{
    static char expected[65536], got[65536], said[2000];
    char folder[256];
    counted seen;
    long calls = 0;

    for (long n = 0, next = 1;; n = next) {
        test_folder(folder);
        command_shell(folder, c->make, got, sizeof got);
        int status = command_once(c, folder, n, false, how, &seen);
        if (n == 0)
            calls = seen.calls;
        for (int for_ever = 0;; for_ever++) {
            command_shell(folder, "cat said", said, sizeof said);
            /* What oneDNN throws is not excepted. */
            const bool excepted = seen.refused && seen.crashed && status == -SIGSEGV;
            if (((status < 0 || status > 2) && !excepted) || ((must || n == 0) && status != 0))
                fail_msg("stoker %s: %s %ld of %ld%s: %s %d: %s", c->run, how, n, calls,
                         for_ever ? " and all after" : "", status < 0 ? "signal" : "exit status",
                         abs(status), said);
            if (status == 0 && c->same) {
                command_shell(folder, c->same, n ? got : expected, sizeof got);
                if (n && strcmp(got, expected) != 0)
                    fail_msg("stoker %s: %s %ld of %ld%s: succeeds with another result: %s", c->run,
                             how, n, calls, for_ever ? " and all after" : "", got);
            }
            test_folder_remove(folder);
            if (for_ever || n == 0 || must)
                break;
            test_folder(folder);
            command_shell(folder, c->make, got, sizeof got);
            status = command_once(c, folder, n, true, how, &seen);
        }
        if (n == 0)
            assert_true(calls > 0);
        else
            next = command_next(n, calls);
        if (next > calls)
            break;
    }
}

/* False: there is nothing to run or to preload here. */
static bool command_ready(const char *library)
{
    command_binary = test_binary();
    command_preload = getenv(library);
    if (!command_binary)
        return false;
    if (!command_preload || access(command_preload, R_OK) != 0) {
        test_skipped();
        print_message("skipped: nothing to preload (sanitizers bring their own)\n");
        return false;
    }
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    return true;
}

#define COMMAND_DIGITS "stoker convert 'digits:?size=20' d -q"
#define COMMAND_ARRAY                                                                              \
    "mkdir -p a.zarr/c/0; printf '" COMMAND_ZARR "' > a.zarr/zarr.json; "                          \
    "printf '\\001\\000\\002\\000\\004\\000\\005\\000' > a.zarr/c/0/0"
#define COMMAND_ZARR                                                                               \
    "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[2,4],\"data_type\":\"int16\","          \
    "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2,2]}},"             \
    "\"chunk_key_encoding\":{\"name\":\"default\"},\"fill_value\":-1,\"codecs\":"                  \
    "[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}]}"
#define COMMAND_PICTURES                                                                           \
    "mkdir -p p/a p/b; cp '" TESTS_DIR "/golden/images/base_420.jpg' p/a/1.jpg; "                  \
    "cp '" TESTS_DIR "/golden/images/base_444.jpg' p/b/2.jpg"
#define COMMAND_TRAIN                                                                              \
    "printf 'data: {dataset: \"digits:?size=64\"}\\nloader: {batch_size: 16, num_workers: 1, "     \
    "transforms: normalize(mnist)}\\n"                                                             \
    "model: {layers: [\"flatten, linear(4), relu\", linear(10)]}\\n"                               \
    "trainer: {max_epochs: 2, seed_everything: 1}\\n' > m.yaml"

#define COMMAND_CONVOLUTION                                                                        \
    "printf 'data: {dataset: \"digits:?size=64\"}\\nloader: {batch_size: 16, num_workers: 1, "     \
    "transforms: normalize(mnist)}\\n"                                                             \
    "model: {layers: [\"conv2d(4, 3), relu, flatten\", linear(10)]}\\n"                            \
    "trainer: {max_epochs: 1, seed_everything: 1}\\n' > m.yaml"

#endif
