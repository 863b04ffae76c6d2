/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that the library removes is removed here, so that no text from outside can say what: a plain
 * name in a folder that the caller has opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/files.h"

bool stk__is_plain_name(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int remove_in(int folder, const char *name, int flags)
{
    if (stk__is_plain_name(name))
        return unlinkat(folder, name, flags);
    errno = EINVAL;
    return -1;
}

int stk__remove_file(int folder, const char *name)
{
    return remove_in(folder, name, 0);
}

int stk__remove_folder(int folder, const char *name)
{
    return remove_in(folder, name, AT_REMOVEDIR);
}

/* Open the folder of a path; *name is the rest of it. -1: errno. */
static int open_parent(const char *path, char copy[PATH_MAX], const char **name)
{
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(copy, path, length);
    copy[length] = 0;
    char *slash = strrchr(copy, '/');
    *name = slash ? slash + 1 : copy;
    if (slash)
        *slash = 0;
    return open(!slash ? "." : slash == copy ? "/" : copy, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int remove_path(const char *path, int flags)
{
    char copy[PATH_MAX];
    const char *name;

    int folder = open_parent(path, copy, &name);
    if (folder < 0)
        return -1;
    int result = remove_in(folder, name, flags), error = errno;
    close(folder);
    errno = error;
    return result;
}

int stk__remove_path(const char *path)
{
    return remove_path(path, 0);
}

int stk__remove_folder_path(const char *path)
{
    return remove_path(path, AT_REMOVEDIR);
}
