/* settings of a loader -> the wait over workers and reads, as tables */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_SURFACE_H
#define STK_CLI_SURFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "table.h"

/* What is known of a setting. Values below 0 are "auto". */
struct surface_cell {
    int64_t workers, depth, ahead;
    double wait_share, samples_per_s;
    bool moves;   /* the number of workers is what auto came to */
    bool run;     /* else it is predicted */
    bool allowed; /* within the limits, and no other setting comes to the same */
    bool best;
};

/* Values of one option that a table has, in their order; at most SURFACE_MOST. */
#define SURFACE_MOST 256
size_t surface_workers(const struct surface_cell *cells, size_t n, int64_t out[SURFACE_MOST]);
size_t surface_depths(const struct surface_cell *cells, size_t n, int64_t out[SURFACE_MOST]);

/* The one with these values; a fixed number of workers before one that moves, what was run before
 * what is predicted. NULL: none. */
const struct surface_cell *surface_find(const struct surface_cell *cells, size_t n, int64_t workers,
                                        int64_t depth, int64_t ahead);
/* What is shown of a grid, in words, behind "of". */
extern const char surface_grid_words[];
/* A table for each number of batches ahead: of a page, and on a terminal, where "(...)" was not run
 * and "x" is not allowed. */
void surface_put(const struct surface_cell *cells, size_t n, FILE *out);
void surface_print(const struct surface_cell *cells, size_t n, size_t width, FILE *out);

#endif
