/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the NetCDF-4 target share: what of arrays and groups becomes what in NetCDF. */
#ifndef STK_SRC_CONVERT_NETCDF4_H
#define STK_SRC_CONVERT_NETCDF4_H

#include "array/libhdf5/libhdf5.h"
#include "convert/array_target.h"

#include "base/json.h"

#define STK__NETCDF4_RANK STK__WIRE_RANK /* with that of the characters of a text */

/* The target that is one NetCDF-4 file. */
extern const stk__array_target_ops stk__array_target_netcdf4;

/* A dimension: a name and a length that arrays of a group, and of groups below, share. */
typedef struct stk__netcdf4_dimension {
    char *path; /* of the dataset that it is: the group and its name */
    int64_t size;
    bool unlimited; /* an axis without elements */
    uint32_t number;
    size_t variable; /* the array that is its coordinate; SIZE_MAX: none */
} stk__netcdf4_dimension;

/* An array as a variable. */
typedef struct stk__netcdf4_variable {
    size_t node;
    char *path;
    uint32_t rank; /* of the file: one more than the array's where its texts are characters */
    int64_t shape[STK__NETCDF4_RANK];
    int64_t chunk_shape[STK__NETCDF4_RANK];
    size_t dimensions[STK__NETCDF4_RANK]; /* indices */
    size_t scale;      /* the dimension whose coordinate it is; SIZE_MAX: of none */
    uint32_t type;     /* as stk__libhdf5_variable has it */
    uint64_t itemsize; /* of the file's elements as they are put */
} stk__netcdf4_variable;

typedef struct stk__netcdf4_plan {
    stk_context *ctx;
    const stk__target_node *nodes;
    size_t num_nodes;
    const char *alone; /* what an array is called that is all of the source */
    stk__netcdf4_dimension *dimensions;
    size_t num_dimensions, room_dimensions;
    stk__netcdf4_variable *variables; /* in the order of nodes */
    size_t num_variables;
} stk__netcdf4_plan;

/*
 * What becomes what (netcdf4_plan.c). Pure. Refuses by name what NetCDF-4 does not hold: types, one
 * name with two lengths in a group. Released also on failure.
 */
stk_status stk__netcdf4_plan_make(stk_context *ctx, const stk__target_node *nodes, size_t num_nodes,
                                  const char *alone, stk__netcdf4_plan *plan, stk_error *err);
/* Dimensions of a name, in any group, can grow. False: there is none. */
bool stk__netcdf4_plan_unlimited(stk__netcdf4_plan *plan, const char *name, size_t length);
void stk__netcdf4_plan_release(stk__netcdf4_plan *plan);

/* Put the attributes of a node to what was put last (netcdf4_attributes.c). */
stk_status stk__netcdf4_attributes(stk__libhdf5 *child, stk_context *ctx,
                                   const stk__target_node *node, uint32_t type,
                                   const stk_store_call *call, stk_error *err);

/* What encodes the chunks of a variable as HDF5 has them (netcdf4_encode.c), for all threads; *out
 * NULL: they are left to libhdf5. */
stk_status stk__netcdf4_writer(stk_context *ctx, const stk__target_node *node,
                               const stk__libhdf5_variable *v, const int64_t *chunk_shape,
                               stk_array_writer **out, stk_error *err);

#endif
