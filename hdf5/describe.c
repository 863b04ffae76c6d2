/* SPDX-License-Identifier: Apache-2.0 */
/* A dataset -> what the library is told of it: type, shape, chunks, filters, names of dimensions.
 */
#include <stdio.h>
#include <stdlib.h>

#include "program.h"

#define MOST_FILTERS 32
#define NAME_BYTES   1024

/* ---- Names of dimensions ---- */

/* The last part of an object's path. */
static bool last_name(hid_t object, char *name, size_t size)
{
    char path[NAME_BYTES];
    const ssize_t length = H5Iget_name(object, path, sizeof path);

    if (length <= 0 || (size_t)length >= sizeof path)
        return false;
    const char *slash = strrchr(path, '/');
    return snprintf(name, size, "%s", slash ? slash + 1 : path) < (int)size;
}

/* The first scale that is attached; 1 ends the iteration. */
static herr_t take_scale(hid_t dataset, unsigned dimension, hid_t scale, void *name)
{
    (void)dataset, (void)dimension;
    return last_name(scale, name, NAME_BYTES) ? 1 : 0;
}

typedef struct by_number {
    int wanted;
    char *name;
} by_number;

static bool number_of(hid_t object, const char *attribute, int *values, size_t most, size_t *count)
{
    if (H5Aexists(object, attribute) <= 0)
        return false;
    const hid_t a = H5Aopen(object, attribute, H5P_DEFAULT), space = a < 0 ? -1 : H5Aget_space(a);
    const hssize_t n = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    const bool done = n >= 1 && (size_t)n <= most && H5Aread(a, H5T_NATIVE_INT, values) >= 0;

    *count = done ? (size_t)n : 0;
    if (space >= 0)
        H5Sclose(space);
    if (a >= 0)
        H5Aclose(a);
    return done;
}

static herr_t find_number(hid_t group, const char *name, const H5L_info_t *link, void *user)
{
    by_number *find = user;
    size_t count = 0;
    int number = -1;

    if (link->type != H5L_TYPE_HARD)
        return 0;
    const hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    const bool found = object >= 0 && H5Iget_type(object) == H5I_DATASET &&
                       number_of(object, "_Netcdf4Dimid", &number, 1, &count) &&
                       number == find->wanted && last_name(object, find->name, NAME_BYTES);
    if (object >= 0)
        H5Oclose(object);
    return found ? 1 : 0;
}

/* Coordinates of more than one dimension tell theirs by number. */
static bool name_by_number(const char *path, int number, char *name)
{
    by_number find = {number, name};
    char *group = strdup(path);
    bool found = false;

    for (char *slash = group; group && !found && *group;) {
        slash = strrchr(group, '/');
        group[slash ? slash - group : 0] = 0;
        found = H5Literate_by_name(file_read, *group ? group : "/", H5_INDEX_NAME, H5_ITER_INC,
                                   NULL, find_number, &find, H5P_DEFAULT) > 0;
    }
    free(group);
    return found;
}

static void put_names(hid_t dataset, const char *path, unsigned rank, stk__wire_out *out)
{
    const bool is_scale = H5DSis_scale(dataset) > 0;
    int numbers[STK__WIRE_RANK];
    char name[NAME_BYTES];
    size_t count = 0;

    const bool numbered =
        is_scale && rank > 1 &&
        number_of(dataset, "_Netcdf4Coordinates", numbers, STK__WIRE_RANK, &count) && count == rank;
    for (unsigned d = 0; d < rank; d++) {
        *name = 0;
        if (is_scale && d == 0)
            (void)last_name(dataset, name, sizeof name);
        else if (numbered)
            (void)name_by_number(path, numbers[d], name);
        else if (!is_scale && H5DSiterate_scales(dataset, d, NULL, take_scale, name) <= 0 &&
                 H5DSget_label(dataset, d, name, sizeof name) < 0)
            *name = 0;
        stk__wire_put_text(out, name);
    }
}

/* ---- Filters ---- */

/* "shuffle, deflate", as what is decoded here; false: one that libhdf5 does not have by itself. */
static bool put_filters(hid_t creation, const char *path, stk__wire_out *out)
{
    char all[MOST_FILTERS * 64] = "", name[48];
    const int n = H5Pget_nfilters(creation);
    size_t at = 0, values = 0;
    unsigned flags, config;

    for (int i = 0; i < n && i < MOST_FILTERS; i++) {
        *name = 0;
        values = 0;
        const H5Z_filter_t id = H5Pget_filter2(creation, (unsigned)i, &flags, &values, NULL,
                                               sizeof name, name, &config);
        if (id < 0)
            return fail_hdf5("read the filters of", path);
        if (H5Zfilter_avail(id) <= 0)
            return fail(STK_ENOTSUP,
                        "'%.200s' is encoded by the filter %d (%.40s), which is a plug-in of "
                        "libhdf5: those are not loaded",
                        path, (int)id, *name ? name : "without a name");
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", at ? ", " : "",
                               *name ? name : "filter");
    }
    stk__wire_put_text(out, all);
    return true;
}

/* ---- The layout ---- */

static void put_shape(const hsize_t *shape, unsigned rank, stk__wire_out *out)
{
    for (unsigned d = 0; d < rank; d++)
        stk__wire_put_u64(out, shape[d]);
}

static bool put_chunks(hid_t creation, unsigned rank, stk__wire_out *out)
{
    hsize_t chunks[STK__WIRE_RANK];
    const bool chunked = rank && H5Pget_layout(creation) == H5D_CHUNKED;

    if (chunked && H5Pget_chunk(creation, STK__WIRE_RANK, chunks) != (int)rank)
        return false;
    stk__wire_put_u8(out, chunked);
    if (chunked)
        put_shape(chunks, rank, out);
    return true;
}

static bool put_fill(hid_t creation, const element *e, stk__wire_out *out)
{
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;

    if (e->varies || e->itemsize == 0 || H5Pfill_value_defined(creation, &defined) < 0 ||
        defined == H5D_FILL_VALUE_UNDEFINED) {
        stk__wire_put_u8(out, 0);
        return true;
    }
    void *fill = calloc(1, e->itemsize);
    const bool done = fill && H5Pget_fill_value(creation, e->memory, fill) >= 0;
    stk__wire_put_u8(out, done);
    if (done)
        stk__wire_put(out, fill, e->itemsize);
    free(fill);
    return true;
}

/* Texts without a length have that of the longest. */
static bool settle_width(hid_t dataset, const char *path, element *e)
{
    uint64_t width = 0;

    if (!e->varies)
        return true;
    if (!texts_width(dataset, path, e->utf8, &width))
        return false;
    e->itemsize = (width ? width : 1) * (e->utf8 ? 4 : 1);
    return true;
}

static bool send_layout(hid_t dataset, const char *path, element *e, int rank, const hsize_t *shape)
{
    const hid_t creation = H5Dget_create_plist(dataset);
    stk__wire_out *out = frame_begin();

    bool done = settle_width(dataset, path, e);
    stk__wire_put_u32(out, e->type);
    stk__wire_put_u64(out, e->itemsize);
    stk__wire_put_u32(out, (uint32_t)rank);
    put_shape(shape, (unsigned)rank, out);
    done = done && put_chunks(creation, (unsigned)rank, out) && put_fill(creation, e, out);
    if (done) {
        put_names(dataset, path, (unsigned)rank, out);
        done = put_filters(creation, path, out);
    }
    H5Pclose(creation);
    if (done)
        frame_put(STK__WIRE_LAYOUT, out);
    return done || fail_hdf5("read the layout of", path);
}

static bool describe_dataset(hid_t dataset, const char *path)
{
    const hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    hsize_t shape[STK__WIRE_RANK] = {0};
    element e = {.memory = -1};
    bool done = type >= 0 && space >= 0;

    if (!done)
        (void)fail_hdf5("read the header of", path);
    else if (H5Sget_simple_extent_type(space) == H5S_NULL)
        done = fail(STK_EKIND, "'%.200s' holds nothing: its dataspace is null", path);
    else
        done = element_of(type, path, &e) && is_inside(dataset, path);
    if (done)
        done = send_layout(dataset, path, &e, H5Sget_simple_extent_dims(space, shape, NULL), shape);
    if (e.memory >= 0)
        H5Tclose(e.memory);
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    return done;
}

bool read_describe(stk__wire_in *in)
{
    char *path = strdup(stk__wire_text(in));

    if (!stk__wire_end(in))
        frame_nonsense();
    if (!path)
        return no_memory();
    const hid_t object = open_object(path);
    bool done = object >= 0;
    if (done && H5Iget_type(object) != H5I_GROUP && H5Iget_type(object) != H5I_DATASET)
        done = fail(STK_EKIND, "'%.200s' is neither a group nor a dataset", path);
    done = done && attributes_send(object);
    if (done && H5Iget_type(object) == H5I_DATASET)
        done = describe_dataset(object, path);
    if (object >= 0)
        H5Oclose(object);
    free(path);
    return done;
}
