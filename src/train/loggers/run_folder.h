/* options of a logger -> the folder of its run, and what every logger writes there */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_LOGGERS_RUN_FOLDER_H
#define STK_SRC_TRAIN_LOGGERS_RUN_FOLDER_H

#include <stoker/store.h>
#include <stoker/trainer.h>

#include "base/base.h"

/* The options that loggers of files share; each has a table of its own over this struct. */
typedef struct stk__logger_options {
    uint32_t struct_size;
    const char *save_dir, *name, *prefix;
    int64_t version;
} stk__logger_options;

/* Their rows, with which the tables of loggers that have more begin. */
#define STK__LOGGER_OPTIONS                                                                        \
    {"save_dir",                                                                                   \
     STK_OPTION_STRING,                                                                            \
     offsetof(stk__logger_options, save_dir),                                                      \
     NULL,                                                                                         \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     "DIR",                                                                                        \
     "Where the logs of all runs lie; the default is the trainer's default_root_dir."},            \
        {"name",                                                                                   \
         STK_OPTION_STRING,                                                                        \
         offsetof(stk__logger_options, name),                                                      \
         "lightning_logs",                                                                         \
         0,                                                                                        \
         0,                                                                                        \
         NULL,                                                                                     \
         "NAME",                                                                                   \
         "Folder in save_dir; empty: none."},                                                      \
        {"version",                                                                                \
         STK_OPTION_INT,                                                                           \
         offsetof(stk__logger_options, version),                                                   \
         "auto",                                                                                   \
         0,                                                                                        \
         1e9,                                                                                      \
         "auto",                                                                                   \
         "N",                                                                                      \
         "Number of the run, whose folder is version_N; auto: the first that is free. A number "   \
         "that is there already is continued."},                                                   \
        {"prefix",                                                                                 \
         STK_OPTION_STRING,                                                                        \
         offsetof(stk__logger_options, prefix),                                                    \
         NULL,                                                                                     \
         0,                                                                                        \
         0,                                                                                        \
         NULL,                                                                                     \
         "TEXT",                                                                                   \
         "Put in front of every name, with a '-' between."},

#define STK__LOGGER_OPTION_COUNT 4
extern const stk_option stk__logger_option_list[STK__LOGGER_OPTION_COUNT];

/* Where a run is kept: <save_dir>/<name>/version_<n>. */
typedef struct stk__run_folder {
    char *save_dir, *name, *log_dir;
    char *prefix; /* of every metric, with the '-' behind it; "": none */
    int64_t version;
} stk__run_folder;

/* The folder that a run would have now, a new one where no version is asked for; nothing is made.
 */
stk_status stk__run_folder_name(stk_context *ctx, const stk__logger_options *options,
                                const char *root, stk__run_folder *out, stk_error *err);
/* Make the folder of a run, a new one where no version is asked for: no two processes get the same.
 * `options` NULL: the defaults. Fills the members of `logger` too. */
stk_status stk__run_folder_open(stk_context *ctx, const stk__logger_options *options,
                                const char *root, stk__run_folder *out, stk_logger *logger,
                                stk_error *err);
/* The folder in which the folders of runs are made, <save_dir>/<name>; nothing is made. *out is the
 * caller's. */
stk_status stk__run_folder_runs(stk_context *ctx, const stk__logger_options *options,
                                const char *root, char **out, stk_error *err);
void stk__run_folder_release(stk_context *ctx, stk__run_folder *run);

/* Write hparams.yaml into the folder of a run, durably. */
stk_status stk__hparams_write(stk_context *ctx, const char *log_dir, const stk_hparam *params,
                              size_t n, stk_error *err);
/* The end of a task: put a log where it belongs. A store that cannot be reached fails none: it is
 * said, and the log is put when it is closed, or stays. */
void stk__log_put(stk_context *ctx, stk_mirror *mirror);

#endif
