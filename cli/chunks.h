/* options -> question; figures -> table, page: the parts of `stoker chunks` */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_CHUNKS_H
#define STK_CLI_CHUNKS_H

#include <stoker/bench.h>
#include <stoker/chunks.h>

#include "cli.h"

#define CHUNKS_MAX_SHAPES   64 /* of --chunks */
#define CHUNKS_SHAPE_TEXT   (STK_MAX_RANK * 22)
#define CHUNKS_MAX_MEASURED 16

struct chunks_options {
    uint32_t struct_size;
    int32_t access;
    const char *window, *chunks, *extent, *stride, *dtype;
    const char *store, *latency, *bandwidth;
    uint64_t itemsize;
    double ratio;
    uint64_t shuffle_buffer, memory_budget;
    double decode_rate, request_cost;
    uint64_t io_depth, top;
    const char *html;
    bool measure;
    uint64_t sample;
};

/* What is asked: the question, the shapes to look at, and whether a recommendation is wanted. */
struct chunks_task {
    stk_chunks_question question;
    int64_t shapes[CHUNKS_MAX_SHAPES][STK_MAX_RANK];
    size_t num_shapes;
    bool own;    /* the first shape is that of an array that exists */
    bool listed; /* the shapes are the caller's, by --chunks or an array's own */
    bool advise;
    size_t top;
    const char *html;
    bool measure;
    uint64_t sample;  /* bytes of the array that are written again to be measured */
    char element[32]; /* "uint8", "1 byte" */
};

/* What one shape took on a sample of the array. */
struct chunks_measured {
    int64_t chunk[STK_MAX_RANK];
    char place[16]; /* "present", "given", or the place of the recommendation */
    double model;   /* seconds that the model predicts for a window */
    stk_chunks_measured figures;
};

/* All figures. `costs` of the shapes are whole only where `advise`. */
struct chunks_result {
    stk_chunks_counts counts[CHUNKS_MAX_SHAPES];
    stk_chunks_cost costs[CHUNKS_MAX_SHAPES];
    stk_chunks_answer answer;
    struct chunks_measured measured[CHUNKS_MAX_MEASURED];
    size_t num_measured;
    stk_chunks_sample sample; /* what was written again */
};

const stk_option_table *chunks_option_table(void);
/* Read the options, and an array or NULL, into a task. CLI_GO_ON, or the exit code after the error
 * was printed. */
int chunks_read(struct cli *cli, stk_array *array, struct chunks_task *task);
/* "64x64" or "64×64" -> sides; `any`: '*' is 0. Prints the error. */
int chunks_parse_shape(const char *option, const char *text, size_t length, bool any,
                       int64_t *sides, uint32_t *rank);
/* "8x8", or with × between the sides. */
void chunks_shape_text(char text[CHUNKS_SHAPE_TEXT], const int64_t *sides, uint32_t rank,
                       const char *times);
/* "4.5 KiB", "1.2 ms". */
void chunks_seconds_text(char text[32], double seconds);
/* "4 096": groups of three digits. */
void chunks_grouped(char text[32], double value);

/* Time the present chunks, those given and those recommended on a sample of the array. CLI_GO_ON,
 * or the exit code after the error was printed. */
int chunks_measure(struct cli *cli, stk_array *array, const struct chunks_task *task,
                   struct chunks_result *result);

/* Print the result in the format that was asked for. */
void chunks_print(struct cli *cli, const struct chunks_task *task,
                  const struct chunks_result *result);
/* Write the page of --html. Exit code. */
int chunks_write_page(const struct cli *cli, const struct chunks_task *task,
                      const struct chunks_result *result);

#endif
