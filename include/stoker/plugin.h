/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers: the stores, datasets, transforms, callbacks, ... of a context, by kind and name; and
 * plug-ins, which are shared objects that bring more. */
#ifndef STOKER_PLUGIN_H
#define STOKER_PLUGIN_H

#include <stoker/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a driver is. Its table is a struct that begins with struct_size and name. */
typedef enum stk_driver_kind {
    STK_DRIVER_STORE = 0, /**< stk_store_ops */
    STK_DRIVER_DATASET,   /**< stk_dataset_ops */
    STK_DRIVER_ARRAY,     /**< stk_array_format_ops */
    STK_DRIVER_TRANSFORM, /**< stk_transform_ops */
    STK_DRIVER_LAYER,     /**< stk_layer_ops; of built-in ones name, doc and options alone */
    STK_DRIVER_DEVICE,    /**< stk_device_ops */
    STK_DRIVER_CALLBACK,  /**< stk_callback_ops */
    STK_DRIVER_LOGGER,    /**< stk_logger_ops */
    STK_DRIVER_CONVERTER, /**< stk_converter_ops */
    STK_DRIVER_KINDS
} stk_driver_kind;

/** How each table begins. */
typedef struct stk_driver_head {
    uint32_t struct_size;
    const char *name;
    const char *doc;                 /**< one line for `stoker info`; NULL: none */
    const stk_option_table *options; /**< what may be said of it by name; NULL: nothing */
} stk_driver_head;

/**
 * Add a driver of the caller's own to a context: from then on it is found by its name as a built-in
 * one is. The table is not copied: it stays as it is, and where it is, for the life of the context.
 *
 * Errors: STK_EINVAL (the table lacks something, named; its name is taken, or no name),
 * STK_ELIMIT, STK_EFORK. Thread: any; add it before what uses it is opened.
 */
STK_API STK_NODISCARD stk_status stk_driver_add(stk_context *context, stk_driver_kind kind,
                                                const void *table, stk_error *err);

/** Driver `i` of a kind, the built-in ones first, then those added, in their order; NULL past the
 * end, and in a child of fork(). `context` NULL: the built-in ones alone. Any thread. */
STK_API const stk_driver_head *stk_driver_at(const stk_context *context, stk_driver_kind kind,
                                             size_t i);

/**
 * The driver of a name; '-' and '_', and letters of any case, are alike. `context` NULL: of the
 * built-in ones. Errors: STK_EINVAL naming the nearest that there is, or all; STK_EFORK. Any
 * thread.
 */
STK_API STK_NODISCARD stk_status stk_driver_find(const stk_context *context, stk_driver_kind kind,
                                                 const char *name, const stk_driver_head **out,
                                                 stk_error *err);

/* ---- Plug-ins ---- */

/** Changes when what is there means something else; members that are added at the end of a table
 * change it not. */
#define STK_PLUGIN_INTERFACE 1

/** One driver that a plug-in brings. */
typedef struct stk_plugin_driver {
    stk_driver_kind kind;
    const void *table;
} stk_plugin_driver;

/** What a plug-in says of itself: the object `stk_plugin_entry` of its file, made by STK_PLUGIN().
 * Nothing of a plug-in is called before all of it has been checked, but its constructors. */
typedef struct stk_plugin {
    uint32_t struct_size;
    uint32_t interface_version;   /**< STK_PLUGIN_INTERFACE of the headers it was built with */
    const char *(*library)(void); /**< stk_version: the libstoker that it calls, which has to be the
                                     one that loads it */
    const char *name;             /**< "acme" */
    const char *doc;              /**< one line */
    const stk_plugin_driver *drivers;
    size_t num_drivers;
} stk_plugin;

#ifdef __cplusplus
#define STK_PLUGIN_LINKAGE extern "C"
#else
#define STK_PLUGIN_LINKAGE
#endif

/**
 * Define the entry of a plug-in, once, outside of functions; `list` is an array:
 *
 *     static const stk_plugin_driver drivers[] = {{STK_DRIVER_DATASET, &my_dataset}};
 *     STK_PLUGIN("acme", "What ACME reads", drivers);
 *
 * Built with: cc -shared -fPIC plugin.c $(pkg-config --cflags stoker) -o plugin.so
 */
#define STK_PLUGIN(plugin_name, plugin_doc, list)                                                  \
    STK_PLUGIN_LINKAGE STK_API const stk_plugin stk_plugin_entry;                                  \
    STK_PLUGIN_LINKAGE STK_API const stk_plugin stk_plugin_entry = {sizeof(stk_plugin),            \
                                                                    STK_PLUGIN_INTERFACE,          \
                                                                    stk_version,                   \
                                                                    plugin_name,                   \
                                                                    plugin_doc,                    \
                                                                    list,                          \
                                                                    sizeof(list) / sizeof *(list)}

/**
 * Load a plug-in and add its drivers to the context: all of them, or on failure none. Loading the
 * same file again into a context does nothing.
 *
 * A plug-in is code: it runs with the rights of the process from this call on. `path` is a file; no
 * search path is looked at. The code stays in memory until the process ends, so whatever it made
 * may outlive the context.
 *
 * Errors: STK_ENOENT, STK_EACCES; STK_EINVAL (no plug-in, built for another version, bound to
 * another copy of libstoker, a driver that is refused: as stk_driver_add()); STK_ELIMIT, STK_EFORK.
 * Thread: any; before what uses its drivers is opened. Blocks.
 */
STK_API STK_NODISCARD stk_status stk_plugin_load(stk_context *context, const char *path,
                                                 stk_error *err);

/** Plug-in `i` of a context, in the order of loading; NULL past the end, and in a child of fork().
 * Its `drivers` are the tables that stk_driver_at() gives. Any thread. */
STK_API const stk_plugin *stk_plugin_at(const stk_context *context, size_t i);

/**
 * Load the plug-ins that a configuration lists under its key `plugins`; paths in a file are
 * relative to that file. None listed: STK_OK. A file from elsewhere that lists plug-ins runs code,
 * so `allowed` says whether the user wants that; without it a listed one is STK_EINVAL, which names
 * it and its place. A configuration whose list was not loaded is refused by stk_config_finish().
 *
 * Errors, thread: as stk_plugin_load().
 */
STK_API STK_NODISCARD stk_status stk_plugin_load_listed(stk_context *context, stk_config *config,
                                                        bool allowed, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
