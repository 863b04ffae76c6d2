/* index -> the values of one sample */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_SURVEY_SAMPLE_H
#define STK_SRC_CONVERT_SURVEY_SAMPLE_H

#include "convert/share.h"
#include "dataset/dataset.h"

#define STK__SURVEY_NEEDS 64 /* of one sample */

/* Takes samples one by one, of any layout. Of one thread. */
typedef struct stk__survey_sample {
    stk_dataset *dataset;
    stk__share *memory; /* for `bytes` */
    stk_need needs[STK__SURVEY_NEEDS];
    uint32_t num_needs;
    stk_slice slices[STK__SURVEY_NEEDS];
    uint8_t *bytes; /* of all needs */
    uint64_t room;  /* how many, taken of `memory` */
    uint64_t most;  /* bytes that are read of each need; 0: all */
    char *fixed;    /* room of the FIXED fields */
    stk_value *values;
    char key[STK_ERROR_KEY]; /* of the first object that it needs */
    char reason[STK__SHARE_REASON];
} stk__survey_sample;

stk_status stk__survey_sample_init(stk__survey_sample *sample, stk_dataset *dataset,
                                   stk__share *memory);
void stk__survey_sample_release(stk__survey_sample *sample);
/* Read and prepare sample `index`, whose values are there until drop(). Blocks. A failure has a
 * text in *reason, or (NULL) in *err. */
stk_status stk__survey_sample_take(stk__survey_sample *sample, uint64_t index, const char **reason,
                                   stk_error *err);
void stk__survey_sample_drop(stk__survey_sample *sample);

#endif
