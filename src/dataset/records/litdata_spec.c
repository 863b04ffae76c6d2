/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a sample, as torch.utils._pytree.treespec_dumps() writes it, protocol 1:
 * [1, {"type": ..., "context": ..., "children_spec": [...]}]. A leaf has type null. The context of
 * a dictionary is the text of a list of its keys.
 */
#include "dataset/records/litdata.h"

#include <stdio.h>

#define WHO      "litdata"
#define PROTOCOL 1

typedef struct walk {
    stk_context *ctx;
    const char *key;
    stk__litdata_leaf_fn *leaf;
    void *user;
    stk_error *err;
    char name[STK__TABLED_MAX_NAME + 2]; /* of where it is: one byte more than may be */
} walk;

static stk_status visit(walk *w, const json_t *node, size_t length, bool nameless, int depth);

static stk_status wrong(const walk *w, const char *what)
{
    return stk__tabled_wrong(WHO, w->key, w->err, "has a data_spec that is no tree of a sample: %s",
                             what);
}

/* The key of child `i`; false: the node is no dictionary, and a number stands for it. */
static bool key_of(const json_t *keys, size_t i, char *out, size_t size)
{
    const json_t *key = json_array_get(keys, i);

    if (json_is_string(key))
        snprintf(out, size, "%s", json_string_value(key));
    else if (json_is_integer(key))
        snprintf(out, size, "%lld", (long long)json_integer_value(key));
    else
        snprintf(out, size, "%zu", i);
    return json_is_string(key);
}

static stk_status visit_children(walk *w, const json_t *children, const json_t *keys, size_t length,
                                 int depth)
{
    const size_t n = json_array_size(children), room = sizeof w->name - length;
    char name[STK__TABLED_MAX_NAME + 2];

    if (json_is_array(keys) && json_array_size(keys) != n)
        return wrong(w, "a dictionary has another number of keys than of values");
    for (size_t i = 0; i < n; i++) {
        const bool named = key_of(keys, i, name, sizeof name);
        const int more = snprintf(w->name + length, room, "%s%s", length ? "." : "", name);
        if (more < 0 || (size_t)more >= room)
            return wrong(w, "a name is too long");
        STK_TRY(visit(w, json_array_get(children, i), length + (size_t)more, !named, depth + 1));
    }
    return STK_OK;
}

/* The keys of a dictionary, whose text lies in the text of the index. */
static stk_status visit_dictionary(walk *w, const json_t *children, const char *context,
                                   size_t length, int depth)
{
    stk__json keys = {0};

    STK_TRY(stk__json_parse(w->ctx, context, strlen(context), w->key, &keys, w->err));
    const stk_status status = visit_children(w, children, keys.value, length, depth);
    stk__json_drop(w->ctx, &keys);
    return status;
}

static stk_status visit(walk *w, const json_t *node, size_t length, bool nameless, int depth)
{
    const json_t *type = json_object_get(node, "type");
    const json_t *children = json_object_get(node, "children_spec");
    const char *context = json_string_value(json_object_get(node, "context"));

    if (depth > STK__LITDATA_MAX_DEPTH)
        return wrong(w, "it is too deep");
    if (!type || !json_is_array(children))
        return wrong(w, "an entry has no type and children_spec");
    if (json_is_null(type)) {
        if (!length)
            snprintf(w->name, sizeof w->name, "value");
        else
            w->name[length] = 0;
        return w->leaf(w->user, w->name, nameless || !length, w->err);
    }
    const char *name = json_string_value(type);
    if (context && name && strstr(name, "ict")) /* dict, OrderedDict */
        return visit_dictionary(w, children, context, length, depth);
    return visit_children(w, children, NULL, length, depth);
}

stk_status stk__litdata_leaves(stk_context *ctx, const char *spec, const char *key,
                               stk__litdata_leaf_fn *leaf, void *user, stk_error *err)
{
    walk w = {.ctx = ctx, .key = key, .leaf = leaf, .user = user, .err = err};
    stk__json json = {0};

    STK_TRY(stk__json_parse(ctx, spec, strlen(spec), key, &json, err));
    const json_t *protocol = json_array_get(json.value, 0);
    const stk_status status = json_is_integer(protocol) && json_integer_value(protocol) == PROTOCOL
                                  ? visit(&w, json_array_get(json.value, 1), 0, true, 0)
                                  : wrong(&w, "it is of another protocol than 1");
    stk__json_drop(ctx, &json);
    return status;
}
