/* dataset -> lines of "name: value": what the parts of `stoker info` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_INFO_H
#define STK_CLI_INFO_H

#include "cli.h"

/* Lines, kept until all are there, so that they can be aligned. */
struct lines {
    struct line {
        char *name, *value;
    } * line;
    size_t count, capacity;
    bool failed; /* no memory */
};

void lines_add(void *lines, const char *name, const char *value);
void lines_print(const struct lines *lines, enum cli_format format, FILE *out);
void lines_free(struct lines *lines);

/* Lines as members of an object that has begun; of several of one name the last. */
void info_lines_json(const struct lines *lines, FILE *out);

/* ---- Arrays and groups (info_array.c) ---- */

/* Whether a spec is an array or a group: "array:URL", or a folder that holds Zarr's metadata; with
 * options of windows it is a dataset. A store that does not answer is a failure: STK_EIO,
 * STK_ETIMEDOUT. */
stk_status info_is_array(stk_context *context, const char *spec, bool *is, stk_error *err);
/* Describe it. Exit code. */
int info_array(struct cli *cli, stk_context *context, const char *spec);
/* What --stats asks of arrays: to compute statistics, to show kept ones. CLI_GO_ON, or the exit
 * code. (info_survey.c) */
int info_array_stats(struct cli *cli, bool *make, bool *show);

/* What a window reads of a variable of an HDF5 or NetCDF file; nothing of other arrays.
 * (info_window.c) */
void info_window_line(stk_array *array, struct lines *lines);

/* ---- Statistics of arrays (info_stats.c) ---- */

/* NaN and missing elements among all; NaN where there are no elements. */
double info_left_out(const stk_array_stats *stats);
void info_stats_lines(const stk_array_stats *stats, struct lines *lines);
/* The member "stats" behind what is there. */
void info_stats_json(const stk_array_stats *stats, FILE *out);

/* ---- Pictures (info_survey.c) ---- */

/* The option table of --stats. */
const stk_option_table *info_survey_table(void);
/* CLI_USAGE for a limit of pictures where none are decoded. */
int info_refuse_limits(struct cli *cli, const char *what);

/* What is known of the pictures of a dataset. */
struct info_survey {
    bool there;
    bool kept; /* by an earlier survey */
    stk_survey found;
    uint64_t *class_counts;
    struct lines broken; /* keys and reasons of the first ones */
    struct lines unread; /* and of those that want memory or permission: they are not kept */
};

/*
 * Survey the pictures of a dataset as --stats says, or take what an earlier survey of the same data
 * has kept. Nothing is done for a dataset without pictures. CLI_GO_ON, or the exit code.
 */
int info_survey(struct cli *cli, stk_dataset *dataset, const stk_dataset_info *about,
                struct info_survey *out);
void info_survey_release(struct info_survey *survey);
/* Say it in lines, and as members of a JSON object behind what is there. */
void info_survey_lines(const struct info_survey *survey, const stk_dataset_info *about,
                       struct lines *lines);
void info_survey_json(const struct info_survey *survey, const stk_dataset_info *about, FILE *out);

/* ---- The text that a survey is kept as (info_kept.c) ----------------------------------------- */

#define INFO_KEPT_BROKEN 1000 /* broken files, of which there may be more */

void info_kept_write(FILE *file, uint32_t num_classes, const struct info_survey *survey);
/* Into `found`, `class_counts`, which has room for `num_classes`, and `broken`. False: it is not
 * what info_kept_write() writes, and they may hold parts of it. */
bool info_kept_read(FILE *file, uint32_t num_classes, struct info_survey *survey);

/* ---- A store (info_store.c) ------------------------------------------------------------------ */

struct info_store_options {
    uint32_t struct_size;
    bool store;
};

/* Lines of what a store says of what lies at a URL: a container, or within one; false: none does.
 */
bool info_contained(stk_context *context, const char *url, struct lines *lines);

const stk_option_table *info_store_table(void);
/* Measure the store of a URL. CLI_GOOD, or the exit code after printing the error. */
int info_store(struct cli *cli, stk_context *context, const char *url, struct lines *lines);

/* ---- The machine (info_machine.c) ------------------------------------------------------------ */

struct info_machine_options {
    uint32_t struct_size;
    bool machine;
};

const stk_option_table *info_machine_table(void);
/* Describe it, with the disk of a path (NULL: of the working directory), whose store is measured
 * where `measure`. Exit code. */
int info_machine(struct cli *cli, stk_context *context, const char *path, bool measure);

#endif
