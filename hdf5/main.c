/* SPDX-License-Identifier: Apache-2.0 */
/* The process: its limits, and one command of the library after the other. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "program.h"

#if defined(__SANITIZE_ADDRESS__)
#define LIMITS_MEMORY 0 /* the sanitizer's own address space is larger than any limit */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LIMITS_MEMORY 0
#endif
#endif
#ifndef LIMITS_MEMORY
#define LIMITS_MEMORY 1
#endif

static uint64_t seconds; /* of processor time that one command may take */

/* A limit that the caller has set already is not raised. */
static bool limit(int what, rlim_t soft, rlim_t hard)
{
    struct rlimit limits;

    if (getrlimit((__rlimit_resource_t)what, &limits) != 0)
        return false;
    limits.rlim_max = hard < limits.rlim_max ? hard : limits.rlim_max;
    limits.rlim_cur = soft < limits.rlim_max ? soft : limits.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &limits) == 0;
}

/* What is read can neither open a file, start a program nor leave one behind. */
static bool confine(uint64_t memory)
{
    signal(SIGPIPE, SIG_IGN); /* the library is gone: write() says so */
    signal(SIGINT, SIG_IGN);  /* of the terminal: the library ends this process when it ends */
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0 &&
           limit(RLIMIT_CORE, 0, 0) && limit(RLIMIT_NOFILE, 0, 0) &&
           (!LIMITS_MEMORY || limit(RLIMIT_AS, memory, memory));
}

/* The soft limit moves on with each command; passing it ends the process by SIGXCPU. */
static void limit_time(void)
{
    struct rusage usage;
    struct rlimit limits;

    if (getrusage(RUSAGE_SELF, &usage) != 0 || getrlimit(RLIMIT_CPU, &limits) != 0)
        return;
    const rlim_t used = (rlim_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + 2;
    if (seconds < limits.rlim_max - used)
        limit(RLIMIT_CPU, used + seconds, limits.rlim_max);
}

static void say_hello(void)
{
    stk__wire_out *out = frame_begin();

    stk__wire_put_u32(out, STK__WIRE_VERSION);
    frame_put(STK__WIRE_HELLO, out);
}

typedef bool command(stk__wire_in *in);

/* Nothing that is read may be written to a file. */
static bool begin_reading(stk__wire_in *in)
{
    return limit(RLIMIT_FSIZE, 0, 0) ? read_file(in)
                                     : fail(STK_ESYSTEM, "the size of files could not be limited");
}

static command *const commands[] = {
    [STK__WIRE_READ_FILE] = begin_reading,
    [STK__WIRE_LIST] = read_list,
    [STK__WIRE_DESCRIBE] = read_describe,
    [STK__WIRE_READ] = read_box,
    [STK__WIRE_WRITE_FILE] = write_file,
    [STK__WIRE_GROUP] = write_group,
    [STK__WIRE_DIMENSION] = write_dimension,
    [STK__WIRE_VARIABLE] = write_variable,
    [STK__WIRE_PUT_ATTRIBUTE] = write_attribute,
    [STK__WIRE_DEFINED] = write_defined,
    [STK__WIRE_BOX] = write_box,
    [STK__WIRE_CHUNK] = write_chunk,
    [STK__WIRE_FINISH] = write_finish,
};

int main(int argc, char **argv)
{
    stk__wire_in in;

    if (argc != 4 || strtoul(argv[1], NULL, 10) != STK__WIRE_VERSION) {
        fputs("stoker-hdf5 is started by the library of the same version of Stoker, for files that "
              "it reads and writes by libhdf5\n",
              stderr);
        return 2;
    }
    seconds = strtoull(argv[3], NULL, 10);
    if (!confine(strtoull(argv[2], NULL, 10)))
        return 2;
    limit_time();
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    /* No code of a file's choice, and no way to another file. */
    if (H5open() < 0 || H5PLset_loading_state(0) < 0 || H5Lunregister(H5L_TYPE_EXTERNAL) < 0)
        return 2;
    say_hello();
    for (;;) {
        const uint32_t kind = frame_take(&in);
        if (kind >= sizeof commands / sizeof *commands || !commands[kind])
            frame_nonsense();
        limit_time();
        failure_clear();
        if (commands[kind](&in))
            frame_send(STK__WIRE_DONE, NULL, 0);
        else
            failure_send();
    }
}
