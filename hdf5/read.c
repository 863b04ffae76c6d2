/* SPDX-License-Identifier: Apache-2.0 */
/* The file that is read: what is in it, and the way to an object. */
#include <stdlib.h>

#include "program.h"

hid_t file_read = -1;

bool read_file(stk__wire_in *in)
{
    const uint64_t size = stk__wire_u64(in);

    if (!stk__wire_end(in) || file_read >= 0)
        frame_nonsense();
    const hid_t access = driver_access(size, false);
    if (access < 0)
        return false;
    file_read = H5Fopen("file", H5F_ACC_RDONLY, access);
    if (file_read < 0)
        (void)fail_hdf5("open", "the file");
    H5Pclose(access);
    frame_end_idle();
    return file_read >= 0;
}

/* ---- The way to an object ---- */

/* Whether a link stays in the file. */
static bool link_stays(const char *path)
{
    H5L_info_t info;

    if (H5Lexists(file_read, path, H5P_DEFAULT) == 0)
        return fail(STK_ENOENT, "there is no '%.200s' in the file", path);
    if (H5Lget_info(file_read, path, &info, H5P_DEFAULT) < 0)
        return fail_hdf5("find", path);
    if (info.type == H5L_TYPE_HARD || info.type == H5L_TYPE_SOFT)
        return true;
    return fail(STK_EACCES,
                "'%.200s' is a link to another file: what lies outside of the file is not read",
                path);
}

/* Each part of a path is looked at before what it leads to is opened. */
static bool path_stays(const char *path)
{
    char *parts = strdup(path);
    bool stays = parts != NULL;

    if (!parts)
        return no_memory();
    for (char *end = parts; stays && end;) {
        end = strchr(end + 1, '/');
        if (end)
            *end = 0;
        stays = !*parts || strcmp(parts, "/") == 0 || link_stays(parts);
        if (end)
            *end = '/';
    }
    free(parts);
    return stays;
}

hid_t open_object(const char *path)
{
    if (file_read < 0)
        frame_nonsense();
    if (*path && strcmp(path, "/") != 0 && !path_stays(path))
        return -1;
    const hid_t object = H5Oopen(file_read, *path ? path : "/", H5P_DEFAULT);
    if (object < 0)
        (void)fail_hdf5("open", path);
    return object;
}

bool is_inside(hid_t dataset, const char *path)
{
    const hid_t creation = H5Dget_create_plist(dataset);
    const H5D_layout_t layout = H5Pget_layout(creation);
    const bool external = layout == H5D_CONTIGUOUS && H5Pget_external_count(creation) != 0;

    H5Pclose(creation);
    if (external)
        return fail(STK_EACCES,
                    "the values of '%.200s' lie in other files (external storage), which are not "
                    "read",
                    path);
    if (layout == H5D_VIRTUAL)
        return fail(STK_EACCES,
                    "'%.200s' is a virtual dataset, which is made of others, of other files too: "
                    "it is not read",
                    path);
    if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED)
        return fail(STK_EKIND, "'%.200s' has a layout that is not known", path);
    return true;
}

/* ---- All that is in it ---- */

typedef struct walk {
    haddr_t *seen; /* groups that were entered: links may go round */
    size_t count, room;
    uint64_t nodes;
    char *path;
    size_t length, path_room;
    unsigned depth;
} walk;

static bool was_seen(const walk *w, haddr_t address)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->seen[i] == address)
            return true;
    return false;
}

static bool note(walk *w, haddr_t address)
{
    if (w->count == w->room) {
        const size_t room = w->room ? 2 * w->room : 64;
        haddr_t *seen = realloc(w->seen, room * sizeof *seen);
        if (!seen)
            return no_memory();
        w->seen = seen;
        w->room = room;
    }
    w->seen[w->count++] = address;
    return true;
}

/* Go on to `name` below the path; what has to be taken back is its length before. */
static bool descend(walk *w, const char *name)
{
    const size_t needed = w->length + strlen(name) + 2;

    if (needed > w->path_room) {
        char *path = realloc(w->path, 2 * needed);
        if (!path)
            return no_memory();
        w->path = path;
        w->path_room = 2 * needed;
    }
    if (w->length)
        w->path[w->length++] = '/';
    strcpy(w->path + w->length, name);
    w->length += strlen(name);
    return true;
}

static bool send_node(walk *w, bool is_array)
{
    stk__wire_out *out = frame_begin();

    if (++w->nodes > STK__WIRE_NODES)
        return fail(STK_ELIMIT, "the file holds more than %u groups and datasets", STK__WIRE_NODES);
    stk__wire_put_u8(out, is_array);
    stk__wire_put_text(out, w->path);
    frame_put(STK__WIRE_NODE, out);
    return true;
}

/* A dimension of NetCDF that has no variable of its own is written as a dataset. */
static bool is_bare_dimension(hid_t dataset)
{
    static const char begin[] = "This is a netCDF dimension but not a netCDF variable";
    char text[sizeof begin] = "";

    return H5DSis_scale(dataset) > 0 && H5DSget_scale_name(dataset, text, sizeof text) > 0 &&
           strcmp(text, begin) == 0;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *link, void *user);

/* In order of creation where the file has it. */
static bool walk_group(walk *w, hid_t group)
{
    const hid_t creation = H5Gget_create_plist(group);
    unsigned order = 0;

    H5Pget_link_creation_order(creation, &order);
    H5Pclose(creation);
    const bool indexed = (order & H5P_CRT_ORDER_INDEXED) != 0;
    if (H5Literate(group, indexed ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME, H5_ITER_INC, NULL, visit,
                   w) >= 0)
        return true;
    return fail_hdf5("list", w->length ? w->path : "/");
}

static bool enter(walk *w, hid_t group)
{
    H5O_info_t info;

    if (H5Oget_info(group, &info) < 0)
        return fail_hdf5("look at", w->length ? w->path : "/");
    if (was_seen(w, info.addr))
        return true;
    if (w->depth == MOST_DEPTH)
        return fail(STK_ELIMIT, "groups of the file lie more than %d deep", MOST_DEPTH);
    if (!note(w, info.addr) || (w->length && !send_node(w, false)))
        return false;
    w->depth++;
    const bool done = walk_group(w, group);
    w->depth--;
    return done;
}

/* Soft links are names of what is listed elsewhere; others lead out of the file. */
static herr_t visit(hid_t group, const char *name, const H5L_info_t *link, void *user)
{
    walk *w = user;
    const size_t before = w->length;
    bool done = true;

    if (link->type != H5L_TYPE_HARD || strchr(name, '/'))
        return 0;
    const hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (!descend(w, name))
        done = false;
    else if (object < 0)
        done = fail_hdf5("open", w->path);
    else if (H5Iget_type(object) == H5I_GROUP)
        done = enter(w, object);
    else if (H5Iget_type(object) == H5I_DATASET && !is_bare_dimension(object))
        done = send_node(w, true);
    if (object >= 0)
        H5Oclose(object);
    w->length = before;
    if (w->path)
        w->path[before] = 0;
    return done ? 0 : -1;
}

bool read_list(stk__wire_in *in)
{
    walk w = {0};

    if (!stk__wire_end(in) || file_read < 0)
        frame_nonsense();
    const hid_t root = H5Gopen2(file_read, "/", H5P_DEFAULT);
    const bool done = root >= 0 ? enter(&w, root) : fail_hdf5("open", "/");
    if (root >= 0)
        H5Gclose(root);
    free(w.seen);
    free(w.path);
    return done;
}
