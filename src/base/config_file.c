/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration's file -> its text, which config_yaml.c reads. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/config.h"
#include "base/options.h"

/* Read all of `fd`, at most `capacity` bytes. False with errno on failure. */
static bool read_all(int fd, char *data, size_t capacity, size_t *length)
{
    for (*length = 0; *length < capacity;) {
        ssize_t got = read(fd, data + *length, capacity - *length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (got == 0)
            break;
        *length += (size_t)got;
    }
    return true;
}

static stk_status fail_file(const char *path, int error, stk_error *err)
{
    char text[128], meant[STK__PATH_MEANT] = "";

    return stk__fail_at(err, stk__status_of_errno(error), STK_STAGE_OPTIONS, path, STK_NO_OFFSET,
                        "cannot read the configuration %.200s: %s%s", path,
                        strerror_r(error, text, sizeof text),
                        error == ENOENT ? stk__nearest_path_said(path, meant) : "");
}

stk_status stk_config_load(stk_config *config, const char *path, stk_error *err)
{
    const size_t capacity = (size_t)STK_CONFIG_MAX_FILE + 1;
    char *data = NULL;
    size_t length;

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_file(path, errno, err);
    stk_status status = STK_ENOMEM;
    data = stk__alloc(config->context, capacity);
    if (!data)
        status = stk__fail_at(err, STK_ENOMEM, STK_STAGE_OPTIONS, path, STK_NO_OFFSET,
                              "no memory for the configuration %.200s", path);
    else if (!read_all(fd, data, capacity, &length))
        status = fail_file(path, errno, err);
    else
        status = stk_config_load_text(config, path, data, length, err);
    stk__free(config->context, data);
    close(fd);
    return status;
}
