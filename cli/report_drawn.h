/* figures of runs -> drawings: what the files of `stoker report --figures` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_REPORT_DRAWN_H
#define STK_CLI_REPORT_DRAWN_H

#include "report.h"
#include "report_svg.h"

#define DRAWN_FILES 1000
#define DRAWN_NAME  80
#define DRAWN_RUNS  16
#define DRAWN_ABOUT 320

/* The charts that are being drawn. */
struct drawn {
    const struct report_view *view;
    const char *folder;
    int64_t run; /* whose charts they are; -1: the only one, or of all */
    int code;    /* of the first that failed */
    struct cli file;
    struct svg svg;
    size_t files, left_out;
    char names[DRAWN_FILES][DRAWN_NAME];
    char path[4096];
};

/* ---- report_drawings.c ---- */
/* A chart of a name, in a file of the name; false: not drawn, as there are too many or it failed.
 */
bool drawn_begin(struct drawn *d, const char *name, const char *about, double height, double left);
void drawn_end(struct drawn *d);

/* ---- report_drawn_curves.c ---- */
/* Every metric of some runs, by their numbers; of several each has a colour. */
void drawn_curves(struct drawn *d, const uint64_t *runs, size_t n);
/* The first whole character of a text from byte `from` on. */
size_t drawn_character(const char *text, size_t from);

/* ---- report_drawn_run.c ---- */
/* All other charts of run `i`. */
void drawn_run(struct drawn *d, uint64_t i);

#endif
