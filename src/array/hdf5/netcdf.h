/* what NetCDF-4 writes on top of HDF5 -> names of dimensions, and what is hidden. Inside src/array
 * only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_HDF5_NETCDF_H
#define STK_SRC_ARRAY_HDF5_NETCDF_H

#include "array/hdf5/heap.h"

/* [netcdf-c docs/file_format_specifications.md] */

/* Whether an attribute is NetCDF's own, not the user's. */
bool stk__netcdf_keeps(const char *name);

/* What attributes say of a dataset's part in NetCDF. */
typedef struct stk__netcdf_marks {
    bool scale; /* it is a dimension scale */
    bool bare;  /* one that is a dimension without a variable: no array */
    bool any;   /* a mark that NetCDF or the scales of HDF5 leave */
    int64_t id; /* _Netcdf4Dimid; -1: none */
    uint32_t num_scales;
    uint64_t scales[STK_ARRAY_MAX_RANK]; /* headers of the scales of its dimensions, or NONE */
    uint32_t num_ids;
    int64_t ids[STK_ARRAY_MAX_RANK]; /* _Netcdf4Coordinates */
} stk__netcdf_marks;

stk_status stk__netcdf_marks_read(stk__hdf5 *f, stk__hdf5_object *o, stk__netcdf_marks *out);
/* Whether the root group says that NetCDF-4 wrote the file. */
stk_status stk__netcdf_wrote(stk__hdf5 *f, bool *out);

/* The name of a variable: without what NetCDF puts in front where a dimension has the name. */
const char *stk__netcdf_name(const char *name);

typedef struct stk__netcdf_names {
    char *name[STK_ARRAY_MAX_RANK]; /* NULL: not known */
    bool any;
} stk__netcdf_names;

/* The names of a dataset's dimensions, from the scales in its groups. Ended by
 * stk__netcdf_names_drop(), also on failure. */
stk_status stk__netcdf_dimensions(stk__hdf5 *f, const stk__hdf5_way *way, const char *own_name,
                                  const stk__netcdf_marks *marks, uint32_t rank,
                                  stk__netcdf_names *out);
void stk__netcdf_names_drop(stk__hdf5 *f, stk__netcdf_names *names);

/* ---- Going through a file (tree.c) ---- */

typedef struct stk__hdf5_node {
    const char *path; /* below where the walk began, with an end */
    uint64_t address;
    stk__hdf5_object *object;
    bool is_array;
} stk__hdf5_node;

typedef stk_status stk__hdf5_node_fn(stk__hdf5 *f, const stk__hdf5_node *node, void *user);
/* All groups and datasets below a group, each once, parents before what is in them; committed types
 * are passed over, and links that lead out of the file or nowhere. */
stk_status stk__hdf5_walk(stk__hdf5 *f, uint64_t group, stk__hdf5_node_fn *each, void *user);

/* NetCDF: datasets along one unlimited dimension may differ in extent; its length is the largest.
 * Makes `space` of the dataset as long as that. */
stk_status stk__netcdf_lengths(stk__hdf5 *f, uint64_t address, const stk__netcdf_marks *marks,
                               stk__hdf5_space *space);

#endif
