/* metadata of a group -> its nodes */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_GROUP_H
#define STK_SRC_ARRAY_GROUP_H

#include "array/room.h"

#define STK__GROUP_MAX_NODES   (1u << 20)
#define STK__GROUP_MAX_LEVELS  32
#define STK__GROUP_MAX_ENTRIES (1u << 20) /* that a listing of folders looks at */
#define STK__GROUP_PART        8          /* of memory_limit: what the list of nodes may take */

/* A node as it was found: public part first. */
typedef struct stk__group_node {
    stk_node base;
    char *path;
    stk__json metadata;   /* zarr.json or .zarray; none of v2 groups */
    stk__json attributes; /* of v2; may be none */
} stk__group_node;

struct stk_group {
    stk_context *context;
    stk__shared_store *shared;
    int version; /* 2 or 3; 0: it is in a file of another format */
    /* Of a file (group_file.c): */
    const stk_array_format_ops *ops;
    char *url, *key, *rest; /* as of stk_array_opening */
    void *kept;             /* what list() of the format has left for open() */
    uint64_t kept_of;       /* identity of the object that it was read from */
    stk__own_options *own;
    struct stk__group_joined *joined; /* the others of several files; NULL: it is of one */
    bool consolidated;
    bool implicit;      /* folders without metadata are looked into as well */
    stk__json document; /* that holds the metadata of all nodes, or that of the group alone */
    json_t *attributes; /* or NULL */
    char *attributes_text;
    stk__group_node *nodes; /* by path */
    size_t num_nodes, room_nodes;
};

/* Add a node; takes over the JSON values, also on failure. */
stk_status stk__group_add(stk_group *g, const char *path, bool is_array, stk__json metadata,
                          stk__json attributes, stk_error *err);
void stk__group_sort(stk_group *g);
/* Find the nodes by listing the store, several folders at a time. (group_list.c) */
stk_status stk__group_list(stk_group *g, stk_error *err);
/* The path of a node names something below the group. `key`: of what says so. */
stk_status stk__group_check_path(const char *path, const char *key, stk_error *err);
/* Take over the reference to attributes, or none. */
stk_status stk__group_attributes(stk_group *g, json_t *attributes, const char *key, stk_error *err);
/* Read the nodes of a group in the object `key` of the group's store. (group_file.c) */
stk_status stk__group_open_file(stk_group *g, const char *url, const char *key, const char *rest,
                                const stk_array_format_ops *named, stk_error *err);
void stk__group_close_file(stk_group *g);
/* The way of a node's path on from the file; a new text, or NULL. */
char *stk__group_rest(const stk_group *g, const char *path);
/* Open an array of such a group; `a` has context, store and options. */
stk_status stk__group_open_in_file(stk_group *g, const char *path, stk_array *a, stk_error *err);

/* Several files as one group: its nodes are those of the first one. (group_joined.c) */
typedef struct stk__group_joined stk__group_joined;

/* The files of a URL, to be joined along a dimension; *store is the caller's, `key` and `rest` name
 * the group in the first. */
stk_status stk__group_joined_find(stk_context *ctx, const char *url, const char *along,
                                  stk__group_joined **out, stk_store **store, const char **key,
                                  const char **rest, stk_error *err);
/* Whether any of the group's arrays has the dimension. */
stk_status stk__group_joined_check(stk_group *g, stk_error *err);
/* *array, opened of the first file, becomes that of all; where it lacks the dimension it is held
 * against the others. On failure *array is still to be closed. */
stk_status stk__group_joined_array(const stk_group *g, const char *path, stk_array **array,
                                   stk_error *err);
void stk__group_joined_free(stk__group_joined **joined);

/* Open without looking for nodes: consolidated metadata counts only if `consolidated`. */
stk_status stk__group_open(stk_context *ctx, const char *url, bool consolidated, stk_group **out,
                           stk_error *err);

#endif
