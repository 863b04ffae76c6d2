/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and libraries of Stoker that are found when they are wanted. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/files.h"

/* Beside the library or the command, as in a build's folder, and where it is installed. */
static const char *const places[] = {"", "../", "../libexec/stoker/", "../../libexec/stoker/"};

static bool find_by(const char *of, const char *name, int mode, char *path)
{
    const char *slash = strrchr(of, '/');

    for (size_t i = 0; slash && i < STK_COUNT(places); i++)
        if (snprintf(path, PATH_MAX, "%.*s/%s%s", (int)(slash - of), of, places[i], name) <
                PATH_MAX &&
            access(path, mode) == 0)
            return true;
    return false;
}

bool stk__find_beside(const char *name, int mode, char *path)
{
    char program[PATH_MAX];
    Dl_info info;

    /* Of a program that is linked statically this is what it was called by. */
    if (dladdr((const void *)&stk__find_beside, &info) && info.dli_fname &&
        *info.dli_fname == '/' && find_by(info.dli_fname, name, mode, path))
        return true;
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0)
        return false;
    program[n] = 0;
    return find_by(program, name, mode, path);
}
