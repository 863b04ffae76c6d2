/* SPDX-License-Identifier: Apache-2.0 */
/* Conventions of NetCDF-4: dimension scales, their names, and what is hidden from users. */
#include "array/hdf5/netcdf.h"

#define NOT_COORDINATE "_nc4_non_coord_"
#define BARE_SCALE     "This is a netCDF dimension but not a netCDF variable"

bool stk__netcdf_keeps(const char *name)
{
    static const char *const own[] = {"CLASS",          "NAME",          "DIMENSION_LIST",
                                      "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates",
                                      "_NCProperties",  "_nc3_strict",   "DIMENSION_LABELS"};

    for (size_t i = 0; i < STK_COUNT(own); i++)
        if (!strcmp(name, own[i]))
            return true;
    return false;
}

const char *stk__netcdf_name(const char *name)
{
    const size_t length = strlen(NOT_COORDINATE);

    return strncmp(name, NOT_COORDINATE, length) == 0 && name[length] ? name + length : name;
}

/* ---- Marks ---- */

typedef struct marking {
    stk__netcdf_marks *marks;
    stk__hdf5_collections kept;
} marking;

static bool begins(const stk__hdf5_attribute *a, const char *text)
{
    const size_t length = strlen(text);

    return a->type.class_ == STK__HDF5_STRING && a->count == 1 && a->type.size >= length &&
           memcmp(a->data, text, length) == 0;
}

static int64_t integer_at(const stk__hdf5_attribute *a, uint64_t i)
{
    if (a->type.class_ != STK__HDF5_INTEGER || a->type.other || a->type.size != 4)
        return -1;
    return (int64_t)stk__hdf5_bits(&a->type, a->data + i * a->type.size);
}

/* The first reference of each dimension's list. */
static stk_status take_list(stk__hdf5 *f, const stk__hdf5_attribute *a, marking *m)
{
    const uint8_t *data;
    uint64_t bytes;
    uint32_t count;

    if (a->type.class_ != STK__HDF5_VLEN || a->type.base != STK__HDF5_REFERENCE ||
        a->count > STK_ARRAY_MAX_RANK)
        return STK_OK;
    m->marks->num_scales = (uint32_t)a->count;
    for (uint32_t d = 0; d < m->marks->num_scales; d++) {
        STK_TRY(stk__hdf5_vlen(f, &m->kept, a->data + d * (uint64_t)a->type.size, &data, &bytes,
                               &count));
        stk__hdf5_fields at = stk__hdf5_fields_of(data, bytes);
        const uint64_t address = stk__hdf5_address(f, &at);
        m->marks->scales[d] = at.failed ? STK__HDF5_NONE : address;
    }
    return STK_OK;
}

static stk_status mark(stk__hdf5 *f, const stk__hdf5_attribute *a, void *user)
{
    marking *m = user;
    stk__netcdf_marks *marks = m->marks;

    if (!strcmp(a->name, "CLASS") && begins(a, "DIMENSION_SCALE")) {
        marks->scale = marks->any = true;
    } else if (!strcmp(a->name, "NAME") && begins(a, BARE_SCALE)) {
        marks->bare = true;
    } else if (!strcmp(a->name, "DIMENSION_LIST")) {
        marks->any = true;
        return take_list(f, a, m);
    } else if (!strcmp(a->name, "_Netcdf4Dimid") && a->count == 1) {
        marks->any = true;
        marks->id = integer_at(a, 0);
    } else if (!strcmp(a->name, "_Netcdf4Coordinates") && a->count <= STK_ARRAY_MAX_RANK) {
        marks->any = true;
        marks->num_ids = (uint32_t)a->count;
        for (uint32_t d = 0; d < marks->num_ids; d++)
            marks->ids[d] = integer_at(a, d);
    }
    return STK_OK;
}

stk_status stk__netcdf_marks_read(stk__hdf5 *f, stk__hdf5_object *o, stk__netcdf_marks *out)
{
    marking m = {.marks = out};

    *out = (stk__netcdf_marks){.id = -1};
    const stk_status status = stk__hdf5_attributes(f, o, mark, &m);
    stk__hdf5_collections_drop(f, &m.kept);
    out->bare = out->bare && out->scale;
    return status;
}

static stk_status is_properties(stk__hdf5 *f, const stk__hdf5_attribute *a, void *user)
{
    (void)f;
    if (strcmp(a->name, "_NCProperties") != 0 && strcmp(a->name, "_nc3_strict") != 0)
        return STK_OK;
    *(bool *)user = true;
    return STK_EOS;
}

stk_status stk__netcdf_wrote(stk__hdf5 *f, bool *out)
{
    stk__hdf5_object root;

    *out = false;
    stk_status status = stk__hdf5_object_begin(f, f->root, &root);
    if (status == STK_OK)
        status = stk__hdf5_attributes(f, &root, is_properties, out);
    stk__hdf5_object_end(f, &root);
    return status;
}

/* ---- Names ---- */

typedef struct naming {
    const stk__netcdf_marks *marks;
    uint32_t rank, left; /* dimensions without a name */
    stk__netcdf_names *names;
} naming;

static stk_status set_name(stk__hdf5 *f, naming *n, uint32_t d, const char *name)
{
    if (!(n->names->name[d] = stk__strdup(f->ctx, name)))
        return stk__hdf5_no_memory(f);
    n->names->any = true;
    n->left--;
    return STK_OK;
}

static stk_status match_scale(stk__hdf5 *f, const stk__hdf5_link *link, void *user)
{
    naming *n = user;

    if (link->kind != STK__HDF5_HARD)
        return STK_OK;
    for (uint32_t d = 0; d < n->rank; d++)
        if (!n->names->name[d] && d < n->marks->num_scales && n->marks->scales[d] == link->address)
            STK_TRY(set_name(f, n, d, link->name));
    return n->left ? STK_OK : STK_EOS;
}

/* A coordinate of several dimensions has no list of scales, but numbers of dimensions. */
static stk_status match_id(stk__hdf5 *f, const stk__hdf5_link *link, void *user)
{
    naming *n = user;
    stk__netcdf_marks marks;
    stk__hdf5_object o;

    if (link->kind != STK__HDF5_HARD)
        return STK_OK;
    stk_status status = stk__hdf5_object_begin(f, link->address, &o);
    if (status == STK_OK)
        status = stk__netcdf_marks_read(f, &o, &marks);
    stk__hdf5_object_end(f, &o);
    STK_TRY(status);
    for (uint32_t d = 0; marks.scale && marks.id >= 0 && d < n->rank; d++)
        if (!n->names->name[d] && n->marks->ids[d] == marks.id)
            STK_TRY(set_name(f, n, d, link->name));
    return n->left ? STK_OK : STK_EOS;
}

stk_status stk__netcdf_dimensions(stk__hdf5 *f, const stk__hdf5_way *way, const char *own_name,
                                  const stk__netcdf_marks *marks, uint32_t rank,
                                  stk__netcdf_names *out)
{
    naming n = {.marks = marks, .rank = rank, .left = rank, .names = out};
    const bool by_id = !marks->num_scales && rank > 0 && marks->num_ids == rank;

    *out = (stk__netcdf_names){0};
    if (marks->scale && rank == 1)
        return set_name(f, &n, 0, own_name);
    if (!marks->num_scales && !by_id)
        return STK_OK;
    for (uint32_t i = way->num_groups; n.left && i-- > 0;) {
        stk__hdf5_object o;
        stk_status status = stk__hdf5_object_begin(f, way->groups[i], &o);
        if (status == STK_OK)
            status = stk__hdf5_links(f, &o, by_id ? match_id : match_scale, &n);
        stk__hdf5_object_end(f, &o);
        STK_TRY(status);
    }
    return STK_OK;
}

void stk__netcdf_names_drop(stk__hdf5 *f, stk__netcdf_names *names)
{
    for (uint32_t d = 0; d < STK_ARRAY_MAX_RANK; d++)
        stk__free(f->ctx, names->name[d]);
    *names = (stk__netcdf_names){0};
}
