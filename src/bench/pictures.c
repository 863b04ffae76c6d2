/* SPDX-License-Identifier: Apache-2.0 */
/* What pictures are, as a loader and its dataset tell. */
#include "bench/bench.h"

#include <stoker/convert.h>

#define ENTROPY_PICTURES 48 /* enough for a share to within some percent */

void stk__bench_picture_side(const stk_loader *loader, stk_figures *f)
{
    uint32_t n;
    const stk_field *fields = stk_loader_fields(loader, &n);

    for (uint32_t i = 0; i < n; i++) {
        const stk_field *field = stk_field_at(fields, i);

        for (uint32_t d = 0; d < field->rank && strcmp(field->name, "image") == 0; d++)
            if (field->shape[d] > (int64_t)f->picture_side)
                f->picture_side = (uint64_t)field->shape[d];
    }
}

void stk__bench_estimate_entropy(stk_dataset *dataset, stk_figures *f)
{
    stk_survey_options options;
    stk_survey found = {.struct_size = sizeof found};

    if (!f->pictures)
        return;
    stk_survey_options_init(&options);
    options.limit = ENTROPY_PICTURES;
    options.entropy_every = 1;
    if (stk_survey_run(dataset, &options, NULL, NULL, NULL, &found, NULL) == STK_OK &&
        found.entropy_share > 0)
        f->entropy_share = found.entropy_share;
    f->waits[STK_WAIT_DECODE_ENTROPY] = f->entropy_share * f->waits[STK_WAIT_DECODE];
    f->waits[STK_WAIT_DECODE] -= f->waits[STK_WAIT_DECODE_ENTROPY];
}
