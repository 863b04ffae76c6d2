/* SPDX-License-Identifier: Apache-2.0 */
/* What could not be done, as FAIL tells it: one failure for each command, the first. */
#include <stdarg.h>
#include <stdio.h>

#include "program.h"

static int status;
static char text[512];

void failure_clear(void)
{
    status = 0;
    *text = 0;
    H5Eclear2(H5E_DEFAULT);
}

bool fail(int code, const char *format, ...)
{
    va_list arguments;

    if (status)
        return false;
    status = code;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return false;
}

bool no_memory(void)
{
    return fail(STK_ENOMEM, "there is no memory left within the limit of stoker-hdf5");
}

typedef struct reason {
    char text[200]; /* of the innermost call that says something */
    bool memory;
} reason;

static herr_t look(unsigned n, const H5E_error2_t *entry, void *user)
{
    reason *why = user;
    char minor[64] = "";

    (void)n;
    if (H5Eget_msg(entry->min_num, NULL, minor, sizeof minor) < 0)
        *minor = 0;
    if (strstr(minor, "No space") || strstr(minor, "allocat"))
        why->memory = true;
    if (!*why->text)
        snprintf(why->text, sizeof why->text, "%s",
                 entry->desc && *entry->desc ? entry->desc : minor);
    return 0;
}

bool fail_hdf5(const char *what, const char *path)
{
    reason why = {0};

    if (status)
        return false;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, look, &why);
    if (why.memory)
        return no_memory();
    return fail(STK_EFORMAT, "libhdf5 could not %s '%.200s': %s", what, path,
                *why.text ? why.text : "it does not say why");
}

void failure_send(void)
{
    stk__wire_out *out = frame_begin();

    stk__wire_put_u32(out, (uint32_t)(status ? status : STK_EINTERNAL));
    stk__wire_put_text(out, text);
    frame_put(STK__WIRE_FAIL, out);
}
