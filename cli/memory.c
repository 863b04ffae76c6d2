/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory is short: libraries end the process then, in words of their own or none. */
#include <dlfcn.h>
#include <execinfo.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli.h"

#define LEAST_LEFT (UINT64_C(512) << 20) /* of the address space: stacks of threads, libraries */

void cli_memory_warn(void)
{
    struct rlimit limit;
    unsigned long long pages = 0;
    static bool said;

    if (said || getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    FILE *f = fopen("/proc/self/statm", "re");
    bool known = f && fscanf(f, "%llu", &pages) == 1;
    if (f)
        fclose(f);
    const uint64_t used = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t left = limit.rlim_cur > used ? limit.rlim_cur - used : 0;
    said = true;
    if (known && left < LEAST_LEFT)
        cli_warning(
            "the address space of the process is limited to %.1f MiB, of which %.1f MiB are "
            "left; what does not fit fails or ends the process: raise it with 'ulimit -v'",
            (double)limit.rlim_cur / 1048576, (double)left / 1048576);
}

/* Nothing here may ask for memory. */
static void end_in_words(void)
{
    static const char words[] =
        "stoker: error: no memory: oneDNN was refused some and cannot go on; give the process more "
        "('ulimit -v', 'ulimit -d', other programs), or take a smaller batch_size or model; "
        "a training goes on from its last checkpoint with --ckpt-path last\n";

    /* Where no message can be written either, the exit code says it. */
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
        _exit(CLI_FAILED);
    _exit(CLI_FAILED);
}

/* std::set_terminate(), where a C++ runtime is in the process: oneDNN is the only such library, and
 * it throws where it has no memory for its code, through C that cannot catch. */
void cli_memory_name(void)
{
    void (*(*set)(void (*)(void)))(void);
    void *symbol = dlsym(RTLD_DEFAULT, "_ZSt13set_terminatePFvvE");

    if (!symbol)
        return;
    memcpy(&set, &symbol, sizeof set);
    set(end_in_words);
    /* The C library loads the unwinder when it first needs it, and aborts where it cannot. */
    backtrace(&symbol, 1);
}
