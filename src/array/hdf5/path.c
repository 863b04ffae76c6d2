/* SPDX-License-Identifier: Apache-2.0 */
/* A path below the root -> the object it leads to; soft links are followed within the file. */
#include "array/hdf5/heap.h"

#define MOST_SOFT 32u /* links that one path may lead through */

typedef struct search {
    const char *name;
    size_t length;
    bool found;
    stk__hdf5_link_kind kind;
    uint64_t address;
    char path[STK_MAX_OBJECT_KEY]; /* of a soft link */
} search;

static stk_status match(stk__hdf5 *f, const stk__hdf5_link *link, void *user)
{
    search *s = user;

    (void)f;
    if (strlen(link->name) != s->length || memcmp(link->name, s->name, s->length) != 0)
        return STK_OK;
    s->found = true;
    s->kind = link->kind;
    s->address = link->address;
    if (link->kind == STK__HDF5_SOFT) {
        if (strlen(link->path) >= sizeof s->path)
            return stk__hdf5_refuse(f, 0, "a soft link longer than a key may be is not read");
        memcpy(s->path, link->path, strlen(link->path) + 1);
    }
    return STK_EOS;
}

static stk_status not_found(const stk__hdf5 *f, const char *path, const char *name, size_t length)
{
    return stk__fail_at(f->err, STK_ENOENT, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                        "%.200s has no '%.*s' on the way to '%.200s'; stoker info shows what is "
                        "in it",
                        f->key, (int)STK_MIN(length, 200), name, path);
}

static stk_status look_up(stk__hdf5 *f, uint64_t group, search *s)
{
    stk__hdf5_object o;

    stk_status status = stk__hdf5_object_begin(f, group, &o);
    if (status == STK_OK)
        status = stk__hdf5_links(f, &o, match, s);
    stk__hdf5_object_end(f, &o);
    return status;
}

/* Put the path of a soft link in front of what is left of the way. */
static stk_status splice(const stk__hdf5 *f, char *left, const char *rest, const char *link)
{
    const size_t of_link = strlen(link), of_rest = strlen(rest);

    if (of_link + 1 + of_rest >= STK_MAX_OBJECT_KEY)
        return stk__hdf5_refuse(f, 0, "a way longer than a key may be is not read");
    memmove(left + of_link + 1, rest, of_rest + 1);
    memcpy(left, link, of_link);
    left[of_link] = '/';
    return STK_OK;
}

stk_status stk__hdf5_find(stk__hdf5 *f, const char *path, stk__hdf5_way *out)
{
    char left[STK_MAX_OBJECT_KEY];
    uint32_t soft = 0;
    search s;

    *out = (stk__hdf5_way){.address = f->root};
    if (strlen(path) >= sizeof left)
        return stk__hdf5_refuse(f, 0, "a way longer than a key may be is not read");
    memcpy(left, path, strlen(path) + 1);
    for (char *at = left;;) {
        at += strspn(at, "/");
        const size_t length = strcspn(at, "/");
        if (length == 0)
            return STK_OK;
        if (length == 1 && at[0] == '.') {
            at += length;
            continue;
        }
        if (out->num_groups == STK__HDF5_MAX_LEVELS)
            return stk__hdf5_refuse(f, out->address,
                                    "groups in groups of so many levels are not "
                                    "read");
        s = (search){.name = at, .length = length};
        STK_TRY(look_up(f, out->address, &s));
        if (!s.found)
            return not_found(f, path, at, length);
        if (s.kind == STK__HDF5_FOREIGN)
            return stk__hdf5_refuse(f, out->address,
                                    "an external link, which leads to another file, is not read");
        if (s.kind == STK__HDF5_HARD) {
            out->groups[out->num_groups++] = out->address;
            out->address = s.address;
            at += length;
            continue;
        }
        if (soft++ == MOST_SOFT)
            return stk__hdf5_damaged(f, out->address, "soft links lead in a circle");
        STK_TRY(splice(f, left, at + length, s.path));
        at = left;
        if (s.path[0] == '/')
            *out = (stk__hdf5_way){.address = f->root};
    }
}
