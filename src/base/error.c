/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

const char *stk_version(void)
{
    return STRING(STK_VERSION_MAJOR) "." STRING(STK_VERSION_MINOR) "." STRING(STK_VERSION_PATCH);
}

const char *stk_status_name(stk_status status)
{
    switch (status) {
#define CASE(name, value, fault, text)                                                             \
    case name:                                                                                     \
        return #name;
        STK_STATUS_LIST(CASE)
#undef CASE
    }
    return "STK_UNKNOWN";
}

const char *stk_status_text(stk_status status)
{
    switch (status) {
#define CASE(name, value, fault, text)                                                             \
    case name:                                                                                     \
        return text;
        STK_STATUS_LIST(CASE)
#undef CASE
    }
    return "unknown status";
}

stk_fault stk_status_fault(stk_status status)
{
    switch (status) {
#define CASE(name, value, fault, text)                                                             \
    case name:                                                                                     \
        return STK_FAULT_##fault;
        STK_STATUS_LIST(CASE)
#undef CASE
    }
    return status > STK_OK ? STK_FAULT_NONE : STK_FAULT_CALLER;
}

const char *stk__stage_name(stk_stage stage)
{
    static const char *const names[] = {"",       "options", "store",     "codec",
                                        "array",  "dataset", "transform", "loader",
                                        "device", "train",   "convert",   "measure"};

    return (size_t)stage < STK_COUNT(names) ? names[stage] : "";
}

void stk_error_init(stk_error *err)
{
    if (!err)
        return;
    memset(err, 0, sizeof *err);
    err->sample = STK_NO_SAMPLE;
    err->offset = STK_NO_OFFSET;
}

void stk__copy_tail(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);

    if (length < size) {
        memcpy(to, from, length + 1);
        return;
    }
    memcpy(to, "...", 3);
    memcpy(to + 3, from + length - (size - 4), size - 3);
}

/* Where the process may have so much memory only, say so: nothing else tells that there is plenty.
 */
static void name_limit(char text[STK_ERROR_TEXT])
{
    static const struct {
        int resource;
        const char *what, *command;
    } limits[] = {{RLIMIT_AS, "address space", "ulimit -v"}, {RLIMIT_DATA, "data", "ulimit -d"}};
    size_t used = strlen(text);
    struct rlimit limit;

    for (size_t i = 0; i < STK_COUNT(limits) && !strstr(text, "ulimit -v"); i++)
        if (getrlimit((__rlimit_resource_t)limits[i].resource, &limit) == 0 &&
            limit.rlim_cur != RLIM_INFINITY) {
            snprintf(text + used, STK_ERROR_TEXT - used,
                     "; the %s of the process is limited to %.1f MiB: raise that with '%s'",
                     limits[i].what, (double)limit.rlim_cur / 1048576, limits[i].command);
            return;
        }
}

static stk_status fail(stk_error *err, stk_status status, stk_stage stage, const char *format,
                       va_list arguments)
{
    if (!err)
        return status;
    stk_error_init(err);
    err->status = status;
    err->stage = stage;
    vsnprintf(err->text, sizeof err->text, format, arguments);
    if (status == STK_ENOMEM || status == STK_ETHREAD)
        name_limit(err->text);
    return status;
}

stk_status stk__fail(stk_error *err, stk_status status, stk_stage stage, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fail(err, status, stage, format, arguments);
    va_end(arguments);
    return status;
}

stk_status stk__fail_at(stk_error *err, stk_status status, stk_stage stage, const char *key,
                        uint64_t offset, const char *format, ...)
{
    char kept[STK_ERROR_KEY];
    va_list arguments;

    /* The key may be a part of `err` itself, which fail() empties. */
    stk__copy_tail(kept, sizeof kept, key ? key : "");
    va_start(arguments, format);
    fail(err, status, stage, format, arguments);
    va_end(arguments);
    if (err) {
        memcpy(err->key, kept, sizeof kept);
        err->offset = offset;
    }
    return status;
}

const char *stk__remedy_of_errno(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "; free some space or write to another folder";
    case EFBIG:
        return "; raise the limit of the size of files with 'ulimit -f'";
    case EROFS:
    case EACCES:
    case EPERM:
        return "; write to a folder where that is allowed";
    case ENOTDIR:
        return "; a part of the path is a file";
    case EMFILE:
        return "; raise the limit of open files with 'ulimit -n'";
    case ENFILE:
        return "; the system has too many open files: end some programs";
    default:
        return "";
    }
}

stk_status stk__status_of_errno(int error)
{
    switch (error) {
    case 0:
        return STK_OK;
    case ENOENT:
    case ENOTDIR:
        return STK_ENOENT;
    case EXDEV: /* of stk__open_beneath() */
    case EACCES:
    case EPERM:
        return STK_EACCES;
    case ENOMEM:
        return STK_ENOMEM;
    case ENOSPC:
    case EDQUOT:
        return STK_ENOSPC;
    case ETIMEDOUT:
        return STK_ETIMEDOUT;
    case ECANCELED:
        return STK_ECANCELED;
    case EEXIST:
        return STK_EEXIST;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR:
        return STK_EINVAL;
    case ENOSYS:
    case EOPNOTSUPP:
        return STK_ENOTSUP;
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return STK_ESYSTEM;
    default:
        return STK_EIO;
    }
}
