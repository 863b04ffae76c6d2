/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plug-in: a shared object whose one symbol lists drivers. One that was taken is never unloaded,
 * so that nothing which its code has made, and no call that is still in it, can outlive the code.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/config.h"
#include "base/context.h"
#include "base/options.h"
#include "base/registry.h"

#define ENTRY "stk_plugin_entry"
/* Before the first version of the interface there was none. */
#define LEAST sizeof(stk_plugin)

static stk_status refuse(const char *path, stk_status status, const char *what, stk_error *err)
{
    return stk__fail_at(err, status, STK_STAGE_NONE, path, STK_NO_OFFSET,
                        "the plug-in '%.200s' %.380s", path, what);
}

/* The whole path of a file, so that dlopen() looks nowhere else, and no folder or pipe. */
static stk_status find_file(const char *path, char whole[PATH_MAX], stk_error *err)
{
    struct stat st;

    if (!path || !*path)
        return stk__fail(err, STK_EINVAL, STK_STAGE_NONE, "no file of a plug-in given");
    if (!realpath(path, whole) || stat(whole, &st) != 0) {
        char text[128 + STK__PATH_MEANT], meant[STK__PATH_MEANT];
        const int error = errno;
        snprintf(text, sizeof text, "cannot be opened: %s%s", strerror(error),
                 stk__nearest_path_said(path, meant));
        return refuse(path,
                      error == ENOENT || error == ENOTDIR ? STK_ENOENT
                      : error == EACCES                   ? STK_EACCES
                                                          : STK_EINVAL,
                      text, err);
    }
    if (!S_ISREG(st.st_mode))
        return refuse(path, STK_EINVAL, "is no file", err);
    return STK_OK;
}

static stk_status fail_load(const char *path, const char *whole, const char *said, stk_error *err)
{
    const size_t length = strlen(whole);
    char text[380];

    if (strncmp(said, whole, length) == 0 && said[length] == ':')
        said += length + 1 + strspn(said + length + 1, " ");
    snprintf(text, sizeof text, "cannot be loaded: %.240s%s", said,
             strstr(said, "undefined symbol: stk_")
                 ? "; a program that is linked with libstoker.a exports nothing to plug-ins: link "
                   "it with the shared library"
                 : "");
    return refuse(path, STK_EINVAL, text, err);
}

/* Whether this version can do with what the plug-in says of itself. Nothing of it is called. */
static stk_status check(const char *path, const stk_plugin *plugin, stk_error *err)
{
    char text[320];
    Dl_info info;

    if (plugin->struct_size < LEAST || plugin->struct_size > STK__PLUGIN_MOST) {
        snprintf(text, sizeof text,
                 "is damaged: its stk_plugin has struct_size %u, expected %zu to %d; it is made by "
                 "STK_PLUGIN()",
                 plugin->struct_size, LEAST, STK__PLUGIN_MOST);
        return refuse(path, STK_EINVAL, text, err);
    }
    if (plugin->interface_version != STK_PLUGIN_INTERFACE) {
        snprintf(text, sizeof text,
                 "was built for version %u of the interface of plug-ins, and stoker %s has %d: "
                 "build it with the headers of this one",
                 plugin->interface_version, stk_version(), STK_PLUGIN_INTERFACE);
        return refuse(path, STK_EINVAL, text, err);
    }
    if (plugin->library != stk_version) {
        void *address;
        memcpy(&address, &plugin->library, sizeof address);
        snprintf(text, sizeof text,
                 "calls another copy of libstoker (%.200s) than the one that loads it: link it "
                 "without -lstoker",
                 address && dladdr(address, &info) && info.dli_fname ? info.dli_fname : "none");
        return refuse(path, STK_EINVAL, text, err);
    }
    if (!plugin->name || !*plugin->name || !plugin->drivers || !plugin->num_drivers)
        return refuse(path, STK_EINVAL, "has no name, or brings no driver", err);
    return STK_OK;
}

stk_status stk_plugin_load(stk_context *context, const char *path, stk_error *err)
{
    char whole[PATH_MAX];

    stk_error_init(err);
    if (!context)
        return stk__fail(err, STK_EINVAL, STK_STAGE_NONE, "no context to load a plug-in into");
    STK_TRY(stk__context_check(context, err));
    STK_TRY(find_file(path, whole, err));
    void *handle = dlopen(whole, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return fail_load(path, whole, dlerror(), err);
    const stk_plugin *plugin = dlsym(handle, ENTRY);
    stk_status status =
        plugin ? check(path, plugin, err)
               : refuse(path, STK_EINVAL,
                        "is none of Stoker's: it has no symbol " ENTRY ", as STK_PLUGIN() makes it",
                        err);
    if (status == STK_OK) {
        status = stk__drivers_add(context, plugin, plugin->drivers, plugin->num_drivers, err);
        if (status != STK_OK && err) {
            char text[STK_ERROR_TEXT];
            snprintf(text, sizeof text, "is refused: %.360s", err->text);
            status = refuse(path, status, text, err);
        }
    }
    if (status != STK_OK)
        dlclose(handle);
    return status;
}

/* One of the list; relative ones are of the folder of the file that names them. */
static stk_status load_value(stk_context *ctx, const stk__config_value *value, bool allowed,
                             stk_error *err)
{
    const char *slash = value->place.source ? strrchr(value->place.source, '/') : NULL;
    const size_t folder = slash ? (size_t)(slash - value->place.source) + 1 : 0;
    char where[224], path[PATH_MAX];

    stk__place_format(&value->place, where, sizeof where);
    if (!allowed)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, STK__CONFIG_PLUGINS, STK_NO_OFFSET,
                            "%splugins: '%.200s' is code, which would run with your rights: set "
                            "allow_plugins if you trust the file, or name it with plugin",
                            where, value->text);
    int length = value->text[0] == '/' ? snprintf(path, sizeof path, "%s", value->text)
                                       : snprintf(path, sizeof path, "%.*s%s", (int)folder,
                                                  slash ? value->place.source : "", value->text);
    if (length < 0 || (size_t)length >= sizeof path)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, STK__CONFIG_PLUGINS, STK_NO_OFFSET,
                            "%splugins: a path is longer than PATH_MAX, %d bytes", where,
                            PATH_MAX - 1);
    return stk_plugin_load(ctx, path, err);
}

stk_status stk_plugin_load_listed(stk_context *context, stk_config *config, bool allowed,
                                  stk_error *err)
{
    stk_error_init(err);
    if (!context || !config)
        return stk__fail(err, STK_EINVAL, STK_STAGE_NONE, "no context or no configuration");
    STK_TRY(stk__context_check(context, err));
    stk__entry *entry = stk__config_find(config, STK__CONFIG_PLUGINS);
    if (!entry)
        return STK_OK;
    entry->used = true;
    for (size_t i = 0; i < entry->count; i++)
        STK_TRY(load_value(context, &entry->values[i], allowed, err));
    return STK_OK;
}
