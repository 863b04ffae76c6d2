/* SPDX-License-Identifier: Apache-2.0 */
/* A dataset whole: its messages together, checked against each other. */
#include "array/hdf5/dataset.h"

static stk_status lacks(const stk__hdf5 *f, uint64_t address)
{
    return stk__hdf5_damaged(f, address, "a dataset lacks its type, its shape or its layout");
}

/* Where NetCDF keeps a variable whose name a dimension has that is none of its own. */
static stk_status find_renamed(stk__hdf5 *f, const char *path, stk__hdf5_way *way)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    stk_error *err = f->err;

    char *other = stk__format(f->ctx, "%.*s_nc4_non_coord_%s", (int)(name - path), path, name);
    if (!other)
        return stk__hdf5_no_memory(f);
    f->err = NULL; /* what is told is that there is none of the name asked for */
    const stk_status status = stk__hdf5_find(f, other, way);
    f->err = err;
    stk__free(f->ctx, other);
    return status;
}

static stk_status find_object(stk__hdf5 *f, const char *path, stk__hdf5_way *way,
                              stk__hdf5_object *o, stk__netcdf_marks *marks)
{
    *o = (stk__hdf5_object){0};
    stk_status status = stk__hdf5_find(f, path, way);
    if (status == STK_ENOENT && find_renamed(f, path, way) == STK_OK)
        status = STK_OK;
    STK_TRY(status);
    STK_TRY(stk__hdf5_object_begin(f, way->address, o));
    STK_TRY(stk__netcdf_marks_read(f, o, marks));
    if (!marks->bare)
        return STK_OK;
    status = find_renamed(f, path, way);
    if (status != STK_OK)
        return stk__fail_at(f->err, status, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                            "'%.200s' is a dimension of %.200s without a variable: it has no "
                            "values",
                            path, f->key);
    stk__hdf5_object_end(f, o);
    STK_TRY(stk__hdf5_object_begin(f, way->address, o));
    return stk__netcdf_marks_read(f, o, marks);
}

static stk_status check_kind(const stk__hdf5 *f, const char *path, const stk__hdf5_object *o)
{
    if (stk__hdf5_has(o, STK__HDF5_EXTERNAL))
        return stk__hdf5_refuse(f, o->address,
                                "a dataset whose values lie in other files is not read");
    if (stk__hdf5_has(o, STK__HDF5_LAYOUT))
        return STK_OK;
    if (stk__hdf5_is_group(o))
        return stk__fail_at(f->err, STK_EMISMATCH, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                            *path
                                ? "'%.200s' is a group of %.200s: name one of its arrays behind it"
                                : "%.0s%.200s is a file of several arrays: name one behind it, as "
                                  "in FILE/NAME",
                            path, f->key);
    return stk__fail_at(f->err, STK_EKIND, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                        "'%.200s' of %.200s is a type and no array", path, f->key);
}

static stk_status check_type(const stk__hdf5 *f, const char *path, const stk__hdf5_dataset *d)
{
    if (d->type.other)
        return stk__fail_at(f->err, STK_EKIND, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                            "'%.200s' of %.200s holds %s; of HDF5's types numbers and texts of a "
                            "fixed length are read",
                            path, f->key, d->type.other);
    if (d->space.null)
        return stk__fail_at(f->err, STK_EKIND, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                            "'%.200s' of %.200s holds nothing: it has no shape", path, f->key);
    return STK_OK;
}

/* Elements of a layout are those of the type, and all of one run are there. */
static stk_status check_layout(const stk__hdf5 *f, const stk__hdf5_dataset *d, uint64_t address)
{
    const stk__hdf5_layout *l = &d->layout;
    uint64_t count, bytes;

    if (l->storage == STK__HDF5_CHUNKED)
        return l->itemsize == d->type.size
                   ? STK_OK
                   : stk__hdf5_damaged(f, address,
                                       "elements of chunks are of another size than "
                                       "their type");
    if (!stk__hdf5_space_count(&d->space, &count) || !stk__mul_size(count, d->type.size, &bytes) ||
        bytes > l->bytes)
        return stk__hdf5_damaged(f, address, "a dataset has fewer bytes than its shape asks for");
    if (count && l->address != STK__HDF5_NONE && !stk__hdf5_inside(f, l->address, bytes))
        return stk__hdf5_damaged(f, address, "values lie outside the file");
    return STK_OK;
}

/* As the array room has it: the least significant byte first. */
static stk_status read_fill(stk__hdf5 *f, stk__hdf5_object *o, stk__hdf5_dataset *d)
{
    const bool text = d->type.class_ == STK__HDF5_STRING;
    uint8_t value[8] = {0};
    void *memory = NULL;

    if (text) {
        STK_TRY(stk__hdf5_take(f, d->type.size, &memory));
        d->fill_text = memory;
        return stk__hdf5_fill_read(f, o, d->type.size, d->fill_text, &d->fill_defined);
    }
    STK_TRY(stk__hdf5_fill_read(f, o, d->type.size, value, &d->fill_defined));
    const uint64_t bits = stk__hdf5_bits(&d->type, value);
    memcpy(d->fill, &bits, sizeof bits);
    return STK_OK;
}

static stk_status read_messages(stk__hdf5 *f, const char *path, stk__hdf5_object *o,
                                stk__hdf5_dataset *d)
{
    const stk__hdf5_message *type, *space, *layout, *filters;
    void *memory = NULL;

    STK_TRY(stk__hdf5_message_find(f, o, STK__HDF5_DATATYPE, &type));
    STK_TRY(stk__hdf5_message_find(f, o, STK__HDF5_DATASPACE, &space));
    STK_TRY(stk__hdf5_message_find(f, o, STK__HDF5_LAYOUT, &layout));
    STK_TRY(stk__hdf5_message_find(f, o, STK__HDF5_FILTERS, &filters));
    if (!type || !space || !layout)
        return lacks(f, o->address);
    STK_TRY(stk__hdf5_type_read(f, type, &d->type));
    STK_TRY(stk__hdf5_space_read(f, space, &d->space));
    STK_TRY(check_type(f, path, d));
    STK_TRY(stk__hdf5_layout_read(f, layout, &d->space, &d->layout));
    STK_TRY(check_layout(f, d, o->address));
    STK_TRY(stk__hdf5_take(f, sizeof *d->filters, &memory));
    d->filters = memory;
    STK_TRY(stk__hdf5_filters_read(f, filters, d->filters));
    return read_fill(f, o, d);
}

static stk_status read_whole(stk__hdf5 *f, const char *path, stk__hdf5_object *o,
                             stk__hdf5_dataset *d)
{
    const char *slash = strrchr(path, '/');
    stk__netcdf_marks marks;
    stk__hdf5_space seen;

    STK_TRY(find_object(f, path, &d->way, o, &marks));
    STK_TRY(check_kind(f, path, o));
    STK_TRY(read_messages(f, path, o, d));
    d->netcdf = marks.any;
    if (!d->netcdf)
        STK_TRY(stk__netcdf_wrote(f, &d->netcdf));
    seen = d->space;
    if (d->layout.storage == STK__HDF5_CHUNKED)
        STK_TRY(stk__netcdf_lengths(f, d->way.address, &marks, &seen));
    memcpy(d->shape, seen.shape, sizeof d->shape);
    STK_TRY(stk__netcdf_dimensions(f, &d->way, slash ? slash + 1 : path, &marks, d->space.rank,
                                   &d->names));
    return stk__hdf5_attributes_json(f, o, &d->attributes);
}

stk_status stk__hdf5_dataset_read(stk__hdf5 *f, const char *path, stk__hdf5_dataset *out)
{
    stk__hdf5_object o;

    *out = (stk__hdf5_dataset){.attributes.ctx = f->ctx};
    const stk_status status = read_whole(f, path, &o, out);
    stk__hdf5_object_end(f, &o);
    return status;
}

void stk__hdf5_dataset_end(stk__hdf5 *f, stk__hdf5_dataset *d)
{
    stk__netcdf_names_drop(f, &d->names);
    stk__text_release(&d->attributes);
    stk__hdf5_give(f, d->filters, d->filters ? sizeof *d->filters : 0);
    stk__hdf5_give(f, d->fill_text, d->fill_text ? d->type.size : 0);
}
