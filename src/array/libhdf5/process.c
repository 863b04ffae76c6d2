/* SPDX-License-Identifier: Apache-2.0 */
/* The process of stoker-hdf5: where its program is, how it starts and ends. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array/libhdf5/child.h"
#include "base/files.h"

#define PROGRAM  "stoker-hdf5"
#define FILE_AS  4 /* descriptors before they get their numbers: above all of these */
#define ENDS_NS  UINT64_C(10000000000)
#define LOOKS_NS UINT64_C(1000000)

/* ---- Where it is ---- */

static stk_status no_program(stk_error *err)
{
#ifdef STK_WITH_HDF5
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_ARRAY,
                     "the program " PROGRAM
                     " is not where it was installed, beside Stoker: install "
                     "Stoker again");
#else
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_ARRAY,
                     "Stoker was built without libhdf5: install the package libhdf5-dev and build "
                     "it again");
#endif
}

/* ---- Start ---- */

/* Descriptors of the child: its end of the socket, no output, the file, and nothing else. */
static bool set_descriptors(posix_spawn_file_actions_t *actions, int socket, int file)
{
    return posix_spawn_file_actions_adddup2(actions, socket, STK__WIRE_SOCKET) == 0 &&
           posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_RDWR, 0) == 0 &&
           posix_spawn_file_actions_adddup2(actions, 1, 2) == 0 &&
           posix_spawn_file_actions_adddup2(actions, file >= 0 ? file : 1, STK__WIRE_FILE) == 0 &&
           posix_spawn_file_actions_addclosefrom_np(actions, STK__WIRE_FILE + 1) == 0;
}

/* Signals are as they are in a new program, whatever the caller has blocked or ignores. */
static bool set_signals(posix_spawnattr_t *attributes)
{
    sigset_t all, none;

    sigfillset(&all);
    sigemptyset(&none);
    return posix_spawnattr_setsigdefault(attributes, &all) == 0 &&
           posix_spawnattr_setsigmask(attributes, &none) == 0 &&
           posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK) ==
               0;
}

static int spawn(stk__libhdf5 *h, const char *path, int socket, int file)
{
    char version[16], memory[24], seconds[24];
    char *const arguments[] = {(char *)PROGRAM, version, memory, seconds, NULL};
    char *const environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;

    snprintf(version, sizeof version, "%d", STK__WIRE_VERSION);
    snprintf(memory, sizeof memory, "%" PRIu64, h->limits.memory);
    snprintf(seconds, sizeof seconds, "%" PRIu64, h->limits.seconds);
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = set_descriptors(&actions, socket, file) && set_signals(&attributes) ? 0 : ENOMEM;
        if (error == 0)
            error = posix_spawn(&h->pid, path, &actions, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        h->pid = 0;
    return error;
}

/* A copy of a descriptor that is above those the child gets; -1: errno. */
static int raise_descriptor(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, FILE_AS);
}

stk_status stk__libhdf5_spawn(stk__libhdf5 *h, int file, stk_error *err)
{
    char path[PATH_MAX];
    int ends[2];

    if (!stk__find_beside(PROGRAM, X_OK, path))
        return no_program(err);
    /* A socket and no pipe: a write to one whose other end is gone raises no signal. */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return stk__fail(err, stk__status_of_errno(errno), STK_STAGE_ARRAY,
                         "could not make a socket for " PROGRAM ": %s", strerror(errno));
    h->socket = ends[0];
    const int theirs = raise_descriptor(ends[1]);
    const int raised = file >= 0 ? raise_descriptor(file) : -1;
    int error = theirs < 0 || (file >= 0 && raised < 0) ? errno : 0;
    if (error == 0)
        error = spawn(h, path, theirs, raised);
    close(ends[1]);
    if (theirs >= 0)
        close(theirs);
    if (raised >= 0)
        close(raised);
    if (error)
        return stk__fail(err, stk__status_of_errno(error), STK_STAGE_ARRAY,
                         "could not start '%.300s': %s", path, strerror(error));
    return STK_OK;
}

/* ---- End ---- */

static void say_how(const stk__libhdf5 *h, const siginfo_t *info, char *text, size_t size)
{
    if (info->si_code == CLD_EXITED)
        snprintf(text, size, "ended with exit code %d", info->si_status);
    else if (info->si_status == SIGXCPU)
        snprintf(text, size, "needed more than %" PRIu64 " s of processor time", h->limits.seconds);
    else if (info->si_status == SIGXFSZ)
        snprintf(text, size, "met the limit of the size of files, 'ulimit -f'");
    else
        snprintf(text, size, "ended by SIG%s", sigabbrev_np(info->si_status));
}

int stk__libhdf5_reap(stk__libhdf5 *h, bool by_force, char *text, size_t size)
{
    siginfo_t info = {0};
    int by = 0;

    snprintf(text, size, "ended");
    if (!h->pid)
        return 0;
    if (by_force)
        kill(h->pid, SIGKILL);
    /* One that is held in the kernel is left behind. */
    for (const uint64_t begin = stk__now_ns(); stk__now_ns() - begin < ENDS_NS;) {
        const int waited = waitid(P_PID, (id_t)h->pid, &info, WEXITED | WNOHANG);
        if (waited < 0 && errno != EINTR)
            break; /* the caller's process has waited for it */
        if (waited == 0 && info.si_pid == h->pid) {
            say_how(h, &info, text, size);
            by = info.si_code == CLD_EXITED ? 0 : info.si_status;
            break;
        }
        stk__sleep_until(stk__now_ns() + LOOKS_NS, NULL);
    }
    h->pid = 0;
    return by;
}
