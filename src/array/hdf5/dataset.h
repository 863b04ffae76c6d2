/* a path of an HDF5 file -> all that is known of the dataset there. Inside src/array only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_HDF5_DATASET_H
#define STK_SRC_ARRAY_HDF5_DATASET_H

#include "array/hdf5/netcdf.h"

#include "base/text.h"

/* A dataset, read. */
typedef struct stk__hdf5_dataset {
    stk__hdf5_way way;
    bool netcdf;
    stk__hdf5_type type;
    stk__hdf5_space space;             /* of the dataset itself */
    int64_t shape[STK_ARRAY_MAX_RANK]; /* as it is read: NetCDF may make it longer */
    stk__hdf5_layout layout;
    stk__hdf5_filters *filters;
    uint8_t fill[8]; /* of numbers, least significant byte first; `fill_text` of texts */
    uint8_t *fill_text;
    bool fill_defined;
    stk__netcdf_names names;
    stk__text attributes; /* JSON */
} stk__hdf5_dataset;

/* Find and read the dataset of a path. Refused by name: groups, types that no array has, storage in
 * other files. Ended by stk__hdf5_dataset_end(), also on failure. */
stk_status stk__hdf5_dataset_read(stk__hdf5 *f, const char *path, stk__hdf5_dataset *out);
void stk__hdf5_dataset_end(stk__hdf5 *f, stk__hdf5_dataset *d);

#endif
