/* dataset -> rows, bytes -> hash: what the parts of `stoker cat` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_CAT_H
#define STK_CLI_CAT_H

#include <stdint.h>
#include <stdio.h>

#include <stoker/dataset.h>

struct cli;

/* Samples first, first + step, ... of a dataset that are shown. */
struct cat_part {
    uint64_t first, count, step;
    uint64_t total;  /* of the dataset */
    bool first_rows; /* none were asked for: these are the first ones */
};

#define CAT_FIRST_ROWS 10 /* of a table */

/* Write samples of a dataset, which becomes one of these alone. Exit code. (cat_rows.c) */
int cat_rows(struct cli *cli, stk_dataset **dataset, const struct cat_part *part);

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char rest[64];
};

void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t length);
/* End it: 64 digits. */
void sha256_text(struct sha256 *hash, char text[65]);

#endif
