/* SPDX-License-Identifier: Apache-2.0 */
/* What training windows read of a variable of an HDF5 or NetCDF-4 file, whose chunks were mostly
 * made for storage, for `stoker info`. */
#include <string.h>

#include <stoker/chunks.h>

#include "info.h"

void info_window_line(stk_array *array, struct lines *lines)
{
    const stk_array_info *info = stk_array_get_info(array);
    int64_t window[STK_MAX_RANK];
    char text[256], read[32], needed[32];
    stk_chunks_question question = {.struct_size = sizeof question};
    stk_chunks_counts counts;

    if (strcmp(info->format, "hdf5") != 0 && strncmp(info->format, "netcdf", 6) != 0)
        return;
    if (info->num_chunks < 2 || info->rank > STK_MAX_RANK)
        return;
    /* One step of the first dimension, all others whole: the window of `array:` where none is said.
     */
    for (uint32_t d = 0; d < info->rank; d++)
        window[d] = d ? info->shape[d] : 1;
    if (stk_chunks_question_of(array, window, NULL, NULL, &question, NULL) != STK_OK ||
        stk_chunks_count(&question, info->chunk_shape, &counts, NULL) != STK_OK)
        return;
    stk_size_text(counts.expected_bytes, read);
    stk_size_text((double)counts.window_bytes, needed);
    snprintf(text, sizeof text,
             "%.3g chunks, %s as stored, for the %s of one step of the first dimension; stoker "
             "chunks tells of other windows",
             counts.expected_chunks, read, needed);
    lines_add(lines, "a window reads", text);
}
