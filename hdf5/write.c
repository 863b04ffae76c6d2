/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that is written, as NetCDF-C lays out NetCDF-4 in HDF5: dimensions are scales, attached
 * to the variables along them, and the order of creation is kept.
 * [NetCDF file format specifications, "NetCDF-4 format"; HDF5 dimension scale specification]
 */
#include <stdio.h>
#include <stdlib.h>

#include "program.h"

#define ORDER     (H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED)
#define MOST_OPEN 65536u /* dimensions, and variables */

typedef struct variable {
    hid_t dataset, memory; /* memory: of elements as the library gives them */
    bool varies, is_scale;
    uint32_t rank;
    uint64_t itemsize;
    hsize_t shape[STK__WIRE_RANK];
    uint32_t dimensions[STK__WIRE_RANK];
} variable;

static struct {
    hid_t file, object; /* -1: none; what attributes are put to */
    hid_t *scales;      /* by dimension */
    uint32_t num_scales;
    variable *variables;
    uint32_t num_variables;
} out = {.file = -1, .object = -1};

/* ---- The file and its groups ---- */

static hid_t with_order(hid_t class)
{
    const hid_t creation = H5Pcreate(class);

    if (class != H5P_DATASET_CREATE)
        H5Pset_link_creation_order(creation, ORDER);
    H5Pset_attr_creation_order(creation, ORDER);
    H5Pset_obj_track_times(creation, false);
    return creation;
}

/* Which software made the file, as NetCDF-C notes it. */
static bool put_properties(const char *properties)
{
    unsigned major = 0, minor = 0, release = 0;
    char text[256];

    H5get_libversion(&major, &minor, &release);
    snprintf(text, sizeof text, "%s,hdf5=%u.%u.%u", properties, major, minor, release);
    const hid_t type = text_type(strlen(text));
    H5Tset_cset(type, H5T_CSET_ASCII);
    return attribute_write(out.file, "_NCProperties", type, H5Screate(H5S_SCALAR), text);
}

bool write_file(stk__wire_in *in)
{
    const char *properties = stk__wire_text(in);

    if (!stk__wire_end(in) || out.file >= 0)
        frame_nonsense();
    const hid_t creation = with_order(H5P_FILE_CREATE), access = driver_access(0, true);
    if (access < 0)
        return false;
    /* Of version 1.8 of the format: every library that reads NetCDF-4 reads it. */
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);
    out.file = H5Fcreate("file", H5F_ACC_TRUNC, creation, access);
    H5Pclose(creation);
    H5Pclose(access);
    return out.file >= 0 ? put_properties(properties) : fail_hdf5("begin", "the file");
}

static void leave_object(void)
{
    if (out.object >= 0 && H5Iget_type(out.object) == H5I_GROUP)
        H5Gclose(out.object);
    out.object = -1;
}

bool write_group(stk__wire_in *in)
{
    const char *path = stk__wire_text(in);

    if (!stk__wire_end(in) || out.file < 0)
        frame_nonsense();
    leave_object();
    if (*path) {
        const hid_t creation = with_order(H5P_GROUP_CREATE);
        out.object = H5Gcreate2(out.file, path, H5P_DEFAULT, creation, H5P_DEFAULT);
        H5Pclose(creation);
    } else {
        out.object = H5Gopen2(out.file, "/", H5P_DEFAULT);
    }
    return out.object >= 0 || fail_hdf5("make the group", path);
}

/* ---- Dimensions ---- */

static bool put_numbers(hid_t object, const char *name, const int *values, uint32_t n, bool scalar)
{
    const hsize_t count = n;

    return attribute_write(object, name, H5Tcopy(H5T_NATIVE_INT),
                           scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, NULL),
                           values);
}

/* Dimensions come in the order of their numbers. */
static bool add_scale(uint32_t id, hid_t dataset, const char *name)
{
    const int number = (int)id;

    if (id != out.num_scales || id == MOST_OPEN)
        frame_nonsense();
    hid_t *scales = realloc(out.scales, (id + 1) * sizeof *scales);
    if (!scales)
        return no_memory();
    out.scales = scales;
    out.scales[out.num_scales++] = dataset;
    if (H5DSset_scale(dataset, name) < 0)
        return fail_hdf5("make a dimension of", name);
    return put_numbers(dataset, "_Netcdf4Dimid", &number, 1, true);
}

bool write_dimension(stk__wire_in *in)
{
    const uint32_t id = stk__wire_u32(in);
    const char *path = stk__wire_text(in);
    const hsize_t size = stk__wire_u64(in), most = H5S_UNLIMITED, one = 1;
    const bool unlimited = stk__wire_u8(in) != 0;
    char name[80];

    if (!stk__wire_end(in) || out.file < 0)
        frame_nonsense();
    const hid_t space = H5Screate_simple(1, &size, unlimited ? &most : NULL);
    const hid_t creation = with_order(H5P_DATASET_CREATE);
    if (unlimited)
        H5Pset_chunk(creation, 1, &one);
    const hid_t dataset =
        H5Dcreate2(out.file, path, H5T_IEEE_F32BE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pclose(creation);
    H5Sclose(space);
    if (dataset < 0)
        return fail_hdf5("make the dimension", path);
    snprintf(name, sizeof name, "This is a netCDF dimension but not a netCDF variable.%10d",
             (int)size);
    return add_scale(id, dataset, name);
}

/* ---- Variables ---- */

/* What VARIABLE says of one. */
typedef struct description {
    uint32_t id, type, level, scale;
    const char *path;
    hsize_t most[STK__WIRE_RANK], chunks[STK__WIRE_RANK];
    bool chunked, shuffle, fletcher32;
    const void *fill; /* NULL: none */
} description;

static void take_variable(stk__wire_in *in, description *d, variable *v)
{
    d->id = stk__wire_u32(in);
    d->path = stk__wire_text(in);
    d->type = stk__wire_u32(in);
    v->itemsize = stk__wire_u64(in);
    v->rank = stk__wire_u32(in);
    if (in->bad || v->rank > STK__WIRE_RANK)
        frame_nonsense();
    for (uint32_t i = 0; i < v->rank; i++) {
        v->shape[i] = stk__wire_u64(in);
        d->chunks[i] = stk__wire_u64(in);
        d->most[i] = stk__wire_u8(in) ? H5S_UNLIMITED : v->shape[i];
        v->dimensions[i] = stk__wire_u32(in);
    }
    d->chunked = stk__wire_u8(in) != 0;
    d->level = stk__wire_u8(in);
    d->shuffle = stk__wire_u8(in) != 0;
    d->fletcher32 = stk__wire_u8(in) != 0;
    d->fill = stk__wire_u8(in) ? stk__wire_take(in, v->itemsize) : NULL;
    d->scale = stk__wire_u32(in);
    if (!stk__wire_end(in))
        frame_nonsense();
}

/* Types of the file and of memory are the same, but for texts without a length. */
static bool type_variable(const description *d, variable *v)
{
    v->varies = d->type == STK__WIRE_UNICODE;
    if (d->type == STK__WIRE_TEXT && v->itemsize == 1) {
        v->memory = text_type(1);
        H5Tset_cset(v->memory, H5T_CSET_ASCII);
    } else if (v->varies && v->itemsize && v->itemsize % 4 == 0) {
        v->memory = text_type(H5T_VARIABLE);
    } else {
        v->memory = number_type(d->type);
        if (v->memory < 0 || H5Tget_size(v->memory) != v->itemsize)
            frame_nonsense();
    }
    return v->memory >= 0 || fail_hdf5("make the type of", d->path);
}

static hid_t creation_of(const description *d, const variable *v)
{
    const hid_t creation = with_order(H5P_DATASET_CREATE);
    bool done = true;

    if (d->chunked)
        done = H5Pset_chunk(creation, (int)v->rank, d->chunks) >= 0;
    if (done && d->shuffle)
        done = H5Pset_shuffle(creation) >= 0;
    if (done && d->level)
        done = H5Pset_deflate(creation, d->level) >= 0;
    if (done && d->fletcher32)
        done = H5Pset_fletcher32(creation) >= 0;
    if (done && d->fill && !v->varies)
        done = H5Pset_fill_value(creation, v->memory, d->fill) >= 0;
    if (done)
        return creation;
    H5Pclose(creation);
    return -1;
}

static bool create_variable(const description *d, variable *v)
{
    const hid_t space =
        v->rank ? H5Screate_simple((int)v->rank, v->shape, d->most) : H5Screate(H5S_SCALAR);
    const hid_t creation = creation_of(d, v), access = H5Pcreate(H5P_DATASET_ACCESS);

    /* Chunks come whole and once: nothing is gained by keeping them. */
    if (d->chunked)
        H5Pset_chunk_cache(access, 1, 0, 1);
    v->dataset = space < 0 || creation < 0 ? -1
                                           : H5Dcreate2(out.file, d->path, v->memory, space,
                                                        H5P_DEFAULT, creation, access);
    if (space >= 0)
        H5Sclose(space);
    if (creation >= 0)
        H5Pclose(creation);
    H5Pclose(access);
    return v->dataset >= 0 || fail_hdf5("make the variable", d->path);
}

static bool make_scale(const description *d, const variable *v)
{
    int numbers[STK__WIRE_RANK];
    const char *slash = strrchr(d->path, '/');

    if (!add_scale(d->scale, v->dataset, slash ? slash + 1 : d->path))
        return false;
    for (uint32_t i = 0; i < v->rank; i++)
        numbers[i] = (int)v->dimensions[i];
    return v->rank < 2 || put_numbers(v->dataset, "_Netcdf4Coordinates", numbers, v->rank, false);
}

bool write_variable(stk__wire_in *in)
{
    variable v = {.dataset = -1, .memory = -1};
    description d = {0};

    take_variable(in, &d, &v);
    if (out.file < 0 || d.id != out.num_variables || d.id == MOST_OPEN)
        frame_nonsense();
    variable *variables = realloc(out.variables, (d.id + 1) * sizeof *variables);
    if (!variables)
        return no_memory();
    out.variables = variables;
    leave_object();
    if (!type_variable(&d, &v) || !create_variable(&d, &v))
        return false;
    v.is_scale = d.scale != STK__WIRE_NONE;
    out.variables[out.num_variables++] = v;
    out.object = v.dataset;
    return !v.is_scale || make_scale(&d, &v);
}

bool write_attribute(stk__wire_in *in)
{
    if (out.object < 0)
        frame_nonsense();
    return attribute_put(out.object, in);
}

/* A scale has none attached to itself: its numbers say which dimensions are its own. */
bool write_defined(stk__wire_in *in)
{
    if (!stk__wire_end(in) || out.file < 0)
        frame_nonsense();
    leave_object();
    for (uint32_t i = 0; i < out.num_variables; i++) {
        const variable *v = &out.variables[i];
        for (uint32_t d = 0; !v->is_scale && d < v->rank; d++) {
            if (v->dimensions[d] >= out.num_scales)
                frame_nonsense();
            if (H5DSattach_scale(v->dataset, out.scales[v->dimensions[d]], d) < 0)
                return fail_hdf5("attach a dimension to", "a variable");
        }
    }
    return true;
}

/* ---- Values ---- */

/* UTF-32 padded with zeros -> UTF-8; returns what comes behind its end. */
static char *encode(const uint32_t *from, uint64_t n, char *to)
{
    for (uint64_t i = 0; i < n && from[i]; i++) {
        const uint32_t c = from[i] > 0x10ffff ? 0xfffd : from[i];
        if (c < 0x80) {
            *to++ = (char)c;
        } else if (c < 0x800) {
            *to++ = (char)(0xc0 | c >> 6);
            *to++ = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
            *to++ = (char)(0x80 | (c >> 6 & 0x3f));
            *to++ = (char)(0x80 | (c & 0x3f));
        } else {
            *to++ = (char)(0xf0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 0x3f));
            *to++ = (char)(0x80 | (c >> 6 & 0x3f));
            *to++ = (char)(0x80 | (c & 0x3f));
        }
    }
    *to++ = 0;
    return to;
}

/* Texts of any length of elements of one, in one block behind the pointers; NULL: no memory. */
static char **lay_out(const char *values, uint64_t n, uint64_t itemsize)
{
    char **texts = calloc(1, n * sizeof *texts + n * (itemsize + 1));
    char *at = (char *)(texts + n);

    for (uint64_t i = 0; texts && i < n; i++) {
        texts[i] = at;
        at = encode((const uint32_t *)(const void *)(values + i * itemsize), itemsize / 4, at);
    }
    return texts;
}

static bool not_what_was_written(void)
{
    return fail(STK_EIO,
                "what was read back is not what was written: the disk, its cable or memory "
                "may be faulty");
}

/* Whether what was written reads as what it was made of. */
static bool compare(const variable *v, hid_t memory, hid_t space, const void *values, uint64_t n)
{
    const size_t size = H5Tget_size(v->memory);
    char *back = calloc(n, size);
    bool same = true;

    if (!back)
        return no_memory();
    if (H5Dread(v->dataset, v->memory, memory, space, H5P_DEFAULT, back) < 0)
        same = fail_hdf5("read back", "what was written");
    else if (!v->varies)
        same = memcmp(back, values, n * size) == 0;
    for (uint64_t i = 0; same && v->varies && i < n; i++) {
        const char *read = ((char **)(void *)back)[i];
        same = strcmp(read ? read : "", ((char *const *)values)[i]) == 0;
    }
    if (v->varies)
        H5Dvlen_reclaim(v->memory, memory, H5P_DEFAULT, back);
    free(back);
    return same || not_what_was_written();
}

static bool write_values(const variable *v, hid_t memory, hid_t space, uint64_t n,
                         const char *values, bool verify)
{
    char **texts = v->varies ? lay_out(values, n, v->itemsize) : NULL;
    const void *from = v->varies ? (const void *)texts : values;

    if (!from)
        return no_memory();
    bool done = H5Dwrite(v->dataset, v->memory, memory, space, H5P_DEFAULT, from) >= 0;
    if (!done)
        (void)fail_hdf5("write", "a box of a variable");
    done = done && (!verify || compare(v, memory, space, from, n));
    free(texts);
    return done;
}

static bool write_selected(const variable *v, const hsize_t *start, const hsize_t *shape,
                           uint64_t n, const char *values, bool verify)
{
    const hid_t space = H5Dget_space(v->dataset);
    const hid_t memory =
        v->rank ? H5Screate_simple((int)v->rank, shape, NULL) : H5Screate(H5S_SCALAR);

    if (v->rank)
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, shape, NULL);
    const bool done = write_values(v, memory, space, n, values, verify);
    H5Sclose(memory);
    H5Sclose(space);
    return done;
}

bool write_box(stk__wire_in *in)
{
    const uint32_t id = stk__wire_u32(in);
    hsize_t start[STK__WIRE_RANK], shape[STK__WIRE_RANK];
    uint64_t n = 1, bytes = 0;

    if (in->bad || id >= out.num_variables)
        frame_nonsense();
    const variable *v = &out.variables[id];
    for (uint32_t d = 0; d < v->rank; d++)
        start[d] = stk__wire_u64(in);
    for (uint32_t d = 0; d < v->rank; d++) {
        shape[d] = stk__wire_u64(in);
        if (in->bad || shape[d] == 0 || start[d] > v->shape[d] ||
            shape[d] > v->shape[d] - start[d] || __builtin_mul_overflow(n, shape[d], &n))
            frame_nonsense();
    }
    const bool verify = stk__wire_u8(in) != 0;
    if (!stk__wire_end(in) || __builtin_mul_overflow(n, v->itemsize, &bytes) || bytes > INT64_MAX)
        frame_nonsense();
    char *values = malloc(bytes);
    frame_take_data(values, bytes);
    const bool done = values ? write_selected(v, start, shape, n, values, verify) : no_memory();
    free(values);
    return done;
}

/* The bytes of a chunk as they lie in the file, and as they were sent. */
static bool compare_chunk(const variable *v, const hsize_t *start, const void *bytes, size_t length)
{
    hsize_t stored = 0;
    uint32_t skipped = 0;
    bool same = H5Dget_chunk_storage_size(v->dataset, start, &stored) >= 0 && stored == length;
    void *back = malloc(length);

    if (!back)
        return no_memory();
    same = same && H5Dread_chunk(v->dataset, H5P_DEFAULT, start, &skipped, back) >= 0 &&
           skipped == 0 && memcmp(back, bytes, length) == 0;
    free(back);
    return same || not_what_was_written();
}

bool write_chunk(stk__wire_in *in)
{
    const uint32_t id = stk__wire_u32(in);
    hsize_t start[STK__WIRE_RANK];

    if (in->bad || id >= out.num_variables)
        frame_nonsense();
    const variable *v = &out.variables[id];
    for (uint32_t d = 0; d < v->rank; d++)
        start[d] = stk__wire_u64(in);
    const uint64_t length = stk__wire_u64(in);
    const bool verify = stk__wire_u8(in) != 0;
    if (!stk__wire_end(in) || length == 0 || length > INT64_MAX)
        frame_nonsense();
    void *bytes = malloc(length);
    frame_take_data(bytes, length);
    bool done = bytes ? true : no_memory();
    if (done && H5Dwrite_chunk(v->dataset, H5P_DEFAULT, 0, start, length, bytes) < 0)
        done = fail_hdf5("write", "a chunk of a variable");
    done = done && (!verify || compare_chunk(v, start, bytes, length));
    free(bytes);
    return done;
}

bool write_finish(stk__wire_in *in)
{
    if (!stk__wire_end(in) || out.file < 0)
        frame_nonsense();
    leave_object();
    const bool done = H5Fflush(out.file, H5F_SCOPE_GLOBAL) >= 0 && H5Fclose(out.file) >= 0;
    out.file = -1;
    out.num_variables = out.num_scales = 0; /* closed with the file */
    return done || fail_hdf5("finish", "the file");
}
