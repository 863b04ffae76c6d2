/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/credentials/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

static stk_status failed(const char *what, int error, stk_error *err)
{
    return stk__fail(err, STK_ESYSTEM, STK_STAGE_STORE, "credential_process: %s: %s", what,
                     strerror(error));
}

/* A child in a group of its own, whose output is *out. */
static stk_status start(char **words, pid_t *pid, int *out, stk_error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return failed("no pipe", errno, err);
    sigfillset(&all);
    sigemptyset(&none);
    int error = posix_spawn_file_actions_init(&actions);
    if (error == 0) {
        error = posix_spawnattr_init(&attributes);
        if (error == 0) {
            (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
            (void)posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
            (void)posix_spawnattr_setsigdefault(&attributes, &all);
            (void)posix_spawnattr_setsigmask(&attributes, &none);
            (void)posix_spawnattr_setpgroup(&attributes, 0);
            (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF |
                                                            POSIX_SPAWN_SETSIGMASK |
                                                            POSIX_SPAWN_SETPGROUP);
            error = posix_spawnp(pid, words[0], &actions, &attributes, words, environ);
            posix_spawnattr_destroy(&attributes);
        }
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    *out = ends[0];
    if (error == 0)
        return STK_OK;
    close(ends[0]);
    return stk__fail(err, STK_ESYSTEM, STK_STAGE_STORE,
                     "credential_process: '%.200s' does not start: %s", words[0], strerror(error));
}

/* All that it prints, up to its end. */
static stk_status read_all(int fd, char *text, size_t size, size_t *length, uint64_t until_ns,
                           stk_error *err)
{
    for (*length = 0;;) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        const uint64_t now = stk__now_ns();
        if (now >= until_ns)
            return stk__fail(err, STK_ETIMEDOUT, STK_STAGE_STORE,
                             "credential_process did not end in time");
        const int ready = poll(&one, 1, (int)((until_ns - now) / 1000000 + 1));
        if (ready <= 0)
            continue;
        const ssize_t n = read(fd, text + *length, size - *length);
        if (n < 0 && errno != EINTR)
            return failed("its output cannot be read", errno, err);
        if (n == 0) {
            text[*length] = 0;
            return STK_OK;
        }
        *length += n > 0 ? (size_t)n : 0;
        if (*length == size)
            return stk__fail(err, STK_ELIMIT, STK_STAGE_STORE,
                             "credential_process printed more than %zu bytes", size - 1);
    }
}

stk_status stk__process_read(char *command, char *text, size_t size, size_t *length,
                             uint64_t patience_ns, stk_error *err)
{
    char *words[STK__PROCESS_WORDS + 1];
    int out = -1, code = 0;
    pid_t pid;

    if (!stk__process_words(command, words))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "credential_process is no command: a program and at most %d words, and "
                         "quotes that end",
                         STK__PROCESS_WORDS - 1);
    STK_TRY(start(words, &pid, &out, err));
    const stk_status status = read_all(out, text, size, length, stk__now_ns() + patience_ns, err);
    close(out);
    if (status != STK_OK)
        kill(-pid, SIGKILL);
    while (waitpid(pid, &code, 0) < 0 && errno == EINTR)
        ;
    if (status == STK_OK && (!WIFEXITED(code) || WEXITSTATUS(code) != 0))
        return stk__fail(err, STK_EACCES, STK_STAGE_STORE,
                         "credential_process: '%.200s' failed; run it by hand to see why",
                         words[0]);
    return status;
}
