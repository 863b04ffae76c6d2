/* SPDX-License-Identifier: Apache-2.0 */
/* NUMA nodes divided among the ranks of a machine: what the kernel tells of them, and the rule. */
#include "base/numa.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/context.h"
#include "base/text.h"

#define NODE       "/sys/devices/system/node"
#define LIST_TEXT  16384 /* bytes of a list of cores; a longer one is not taken for whole */
#define MOST_NODES 64    /* with cores: of machines with more no rank is bound */

/* ---- Sets ------------------------------------------------------------------------------------ */

static bool has(const unsigned long *bits, uint64_t i)
{
    return bits[i / STK__LONG_BITS] >> i % STK__LONG_BITS & 1;
}

static void put(unsigned long *bits, uint64_t i)
{
    bits[i / STK__LONG_BITS] |= 1ul << i % STK__LONG_BITS;
}

static uint32_t count(const stk__cpus *set)
{
    uint32_t n = 0;

    for (size_t i = 0; i < STK_COUNT(set->bits); i++)
        n += (uint32_t)__builtin_popcountl(set->bits[i]);
    return n;
}

static void intersect(stk__cpus *set, const stk__cpus *other)
{
    for (size_t i = 0; i < STK_COUNT(set->bits); i++)
        set->bits[i] &= other->bits[i];
}

static void unite(stk__cpus *set, const stk__cpus *other)
{
    for (size_t i = 0; i < STK_COUNT(set->bits); i++)
        set->bits[i] |= other->bits[i];
}

static bool same(const stk__cpus *a, const stk__cpus *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

bool stk__list_next(const char **text, uint64_t *from, uint64_t *to)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    *from = strtoull(*text, &end, 10);
    *to = *end == '-' ? strtoull(end + 1, &end, 10) : *from;
    *text = end + (*end == ',');
    return *to >= *from;
}

void stk__list_write(const unsigned long *bits, uint32_t most, char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};

    *text = 0;
    for (uint32_t i = 0; i < most; i++) {
        const uint32_t first = i;
        if (!has(bits, i))
            continue;
        while (i + 1 < most && has(bits, i + 1))
            i++;
        stk__text_add(&out, first == i ? "%s%u" : "%s%u-%u", out.length ? "," : "", first, i);
    }
}

/* A list that is whole and within its bounds. */
static bool parse(const char *text, unsigned long *bits, uint64_t most)
{
    uint64_t from, to;

    while (stk__list_next(&text, &from, &to)) {
        if (to >= most)
            return false;
        for (; from <= to; from++)
            put(bits, from);
    }
    return *text == 0 || *text == '\n';
}

static bool read_path(const char *path, unsigned long *bits, uint64_t most)
{
    char text[LIST_TEXT];

    return stk__read_small(path, text, sizeof text) && strlen(text) < sizeof text - 1 &&
           parse(text, bits, most);
}

static bool read_list(const char *root, const char *name, unsigned long *bits, uint64_t most)
{
    char path[512];
    const int n = snprintf(path, sizeof path, "%s%s", root, name);

    return n > 0 && (size_t)n < sizeof path && read_path(path, bits, most);
}

/* ---- What there is --------------------------------------------------------------------------- */

struct topology {
    uint32_t cores, num; /* of all nodes that have any */
    struct {
        uint32_t node, cores;
    } nodes[MOST_NODES]; /* by their numbers */
};

/* The cores of this process's control group: its mask, unless somebody has narrowed that. */
static void find_all(const char *root, const stk__cpus *affinity, stk__cpus *all)
{
    char path[512];

    *all = (stk__cpus){{0}};
    stk__cgroup_file(root, "cpuset", "cpuset.cpus.effective", "cpuset.effective_cpus", path,
                     sizeof path);
    if (*path && read_path(path, all->bits, STK__CPUS) && count(all) > 0)
        return;
    *all = (stk__cpus){{0}};
    if (!read_list(root, "/sys/devices/system/cpu/online", all->bits, STK__CPUS))
        *all = *affinity;
}

static bool node_cpus(const char *root, uint32_t node, stk__cpus *out)
{
    char name[64];

    *out = (stk__cpus){{0}};
    snprintf(name, sizeof name, NODE "/node%u/cpulist", node);
    return read_list(root, name, out->bits, STK__CPUS);
}

/* Nodes that have some of the cores. False: the system does not tell of all of them. */
static bool read_nodes(const char *root, const stk__cpus *all, struct topology *t)
{
    stk__nodes online = {{0}};
    stk__cpus cpus;

    if (!read_list(root, NODE "/online", online.bits, STK__NODES))
        return false;
    for (uint32_t node = 0; node < STK__NODES; node++) {
        if (!has(online.bits, node))
            continue;
        if (!node_cpus(root, node, &cpus))
            return false;
        intersect(&cpus, all);
        const uint32_t cores = count(&cpus);
        if (cores == 0)
            continue;
        if (t->num == MOST_NODES)
            return false;
        t->nodes[t->num].node = node;
        t->nodes[t->num++].cores = cores;
        t->cores += cores;
    }
    return t->num > 0 && t->cores == count(all);
}

/* ---- The rule -------------------------------------------------------------------------------- */

/* Nodes that a rank has, and how many ranks have them. */
struct part {
    uint32_t first, num;
    uint64_t ranks;
};

/* Cores of a part against an equal one: whether they are nine tenths of it. */
static bool is_enough(const struct topology *t, uint64_t ranks, uint64_t cores, uint64_t sharing)
{
    return 10 * cores * ranks >= 9 * t->cores * sharing;
}

/* At least as many nodes as ranks: each node is of the rank in whose part of the cores its middle
 * lies. */
static bool divide_nodes(const struct topology *t, uint64_t ranks, uint64_t rank, struct part *out)
{
    uint64_t before = 0, cores[MOST_NODES] = {0};

    *out = (struct part){.ranks = 1};
    for (uint32_t k = 0; k < t->num; k++) {
        const uint64_t of = (2 * before + t->nodes[k].cores) * ranks / (2 * (uint64_t)t->cores);
        cores[of] += t->nodes[k].cores;
        if (of == rank && out->num++ == 0)
            out->first = k;
        before += t->nodes[k].cores;
    }
    for (uint64_t r = 0; r < ranks; r++)
        if (!is_enough(t, ranks, cores[r], 1))
            return false;
    return true;
}

/* More ranks than nodes: each is on the node in which the middle of its part of the cores lies. */
static bool divide_ranks(const struct topology *t, uint64_t ranks, uint64_t rank, struct part *out)
{
    uint64_t on[MOST_NODES] = {0}, end = t->nodes[0].cores;
    uint32_t k = 0;

    for (uint64_t r = 0; r < ranks; r++) {
        while ((2 * r + 1) * t->cores >= 2 * ranks * end)
            end += t->nodes[++k].cores;
        on[k]++;
        if (r == rank)
            *out = (struct part){.first = k, .num = 1};
    }
    for (k = 0; k < t->num; k++)
        if (on[k] > 0 && !is_enough(t, ranks, t->nodes[k].cores, on[k]))
            return false;
    out->ranks = on[out->first];
    return true;
}

static bool divide(const struct topology *t, const stk__place_wish *wish, struct part *out)
{
    if (t->num < 2 || wish->ranks < 2 || wish->ranks > STK__CPUS || wish->number == 0 ||
        wish->number > wish->ranks)
        return false;
    return wish->ranks <= t->num ? divide_nodes(t, wish->ranks, wish->number - 1, out)
                                 : divide_ranks(t, wish->ranks, wish->number - 1, out);
}

/* ---- The place ------------------------------------------------------------------------------- */

/* Whether the process runs on cores of a node. */
static bool is_own(const char *root, uint32_t node, const stk__cpus *cpus)
{
    stk__cpus of;

    if (!node_cpus(root, node, &of))
        return false;
    intersect(&of, cpus);
    return count(&of) > 0;
}

/* Nodes whose memory this process may have. What is not told is taken as allowed. */
static void find_memory(const char *root, stk__nodes *out)
{
    stk__nodes with = {{0}}, allowed = {{0}};
    char path[512], text[8192];

    memset(out, 0xff, sizeof *out);
    if (read_list(root, NODE "/has_memory", with.bits, STK__NODES))
        *out = with;
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    const char *line =
        stk__read_small(path, text, sizeof text) ? strstr(text, "\nMems_allowed_list:") : NULL;
    if (!line)
        return;
    line = strchr(line, ':') + 1;
    line += strspn(line, " \t");
    if (parse(line, allowed.bits, STK__NODES))
        for (size_t i = 0; i < STK_COUNT(allowed.bits); i++)
            out->bits[i] &= allowed.bits[i];
}

/* The nodes of `out->cpus`, and their memory where other nodes have some, too. */
static void take_nodes(const char *root, const struct topology *t, stk__place *out)
{
    stk__nodes own = {{0}}, memory;

    for (uint32_t k = 0; k < t->num; k++)
        if (is_own(root, t->nodes[k].node, &out->cpus)) {
            put(own.bits, t->nodes[k].node);
            out->own++;
        }
    if (out->own == 0 || out->own == t->num)
        return;
    stk__list_write(own.bits, STK__NODES, out->list, sizeof out->list);
    find_memory(root, &memory);
    for (uint32_t i = 0; i < STK__NODES; i++)
        if (has(own.bits, i) && has(memory.bits, i)) {
            put(out->memory.bits, i);
            out->prefers = true;
        }
}

/* Of ranks that their launcher has bound some may be on the same cores, as those of a socket are:
 * as many as there are for so large a part of the machine. */
static void share(const stk__place_wish *wish, stk__place *out)
{
    if (wish->ranks == 1 && wish->machine_ranks > 1 && out->cores < out->all)
        out->ranks = (uint32_t)stk__divide_up(wish->machine_ranks * out->cores, out->all);
}

void stk__numa_place(const char *root, const stk__cpus *affinity, const stk__place_wish *wish,
                     stk__place *out)
{
    struct topology t = {0};
    struct part part = {0};
    stk__cpus all, cpus = {{0}}, node;

    *out = (stk__place){.cpus = *affinity, .ranks = (uint32_t)wish->ranks};
    find_all(root, affinity, &all);
    out->all = count(&all);
    out->cores = count(affinity);
    share(wish, out);
    if (wish->anywhere || !read_nodes(root, &all, &t))
        return;
    out->nodes = t.num;
    if (divide(&t, wish, &part)) {
        for (uint32_t k = part.first; k < part.first + part.num; k++)
            if (node_cpus(root, t.nodes[k].node, &node))
                unite(&cpus, &node);
        intersect(&cpus, &all);
        /* A process that a rank has started is where that is. */
        out->bound = same(affinity, &all) || same(affinity, &cpus);
    }
    if (out->bound) {
        out->cpus = cpus;
        out->cores = count(&cpus);
        out->ranks = (uint32_t)part.ranks;
    }
    take_nodes(root, &t, out);
}
