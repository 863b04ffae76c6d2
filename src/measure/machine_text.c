/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of the machine in words and in JSON. */
#include <inttypes.h>

#include "base/sized.h"
#include "base/text.h"
#include "measure/machine.h"

static void take(stk_machine *out, const stk_machine *theirs)
{
    *out = (stk_machine){.struct_size = sizeof *out};
    stk__sized_copy(out, sizeof *out, theirs);
}

static uint32_t kept(uint32_t count)
{
    return STK_MIN(count, (uint32_t)STK_MACHINE_LIST);
}

/* "23.5 GiB", "512 KiB" */
static void add_bytes(stk__text *text, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < STK_COUNT(units)) {
        value /= 1024;
        unit++;
    }
    if (value < 100 && value != (double)(uint64_t)value)
        stk__text_add_fixed(text, value, 1);
    else
        stk__text_add(text, "%.0f", value);
    stk__text_add(text, " %s", units[unit]);
}

static void add_cores(stk__text *text, const stk_machine *m)
{
    stk__text_add(text, "%u of %u threads", m->usable, m->threads);
    if (m->quota > 0) {
        stk__text_add(text, " (a quota of ");
        stk__text_add_fixed(text, m->quota, 2);
        stk__text_add(text, ")");
    }
}

static void add_disk(stk__text *text, const stk_machine_disk *d)
{
    stk__text_add(text, "%s", d->filesystem);
    if (*d->kind)
        stk__text_add(text, strcmp(d->kind, "memory") == 0 ? " in %s" : " on %s", d->kind);
    if (*d->device && strcmp(d->device, d->filesystem) != 0 && strcmp(d->kind, "memory") != 0)
        stk__text_add(text, " %s", d->device);
}

int stk_machine_summary(const stk_machine *machine, char *bytes, size_t size)
{
    stk__text text = {.bytes = bytes, .room = size};
    stk_machine m;

    take(&m, machine);
    stk__text_add(&text, "%s, ", *m.cpu ? m.cpu : m.architecture);
    add_cores(&text, &m);
    stk__text_add(&text, ", ");
    add_bytes(&text, STK_MIN(m.memory_bytes, m.memory_limit_bytes));
    for (uint32_t i = 0; i < kept(m.num_accelerators); i++) {
        uint32_t same = 1;
        while (i + same < kept(m.num_accelerators) &&
               strcmp(m.accelerators[i].model, m.accelerators[i + same].model) == 0)
            same++;
        stk__text_add(&text, ", %u x %s", same, m.accelerators[i].model);
        i += same - 1;
    }
    if (*m.disk.filesystem) {
        stk__text_add(&text, ", ");
        add_disk(&text, &m.disk);
    }
    if (*m.container)
        stk__text_add(&text, ", in %s", m.container);
    if (*m.kernel)
        stk__text_add(&text, ", %s", m.kernel);
    stk__text_add(&text, ", stoker %s", m.stoker);
    return (int)text.length;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A member that is not the first; a text that is not known is null. */
static void member(stk__text *text, const char *name, const char *value)
{
    stk__text_add(text, ", \"%s\": ", name);
    if (*value)
        stk__text_add_json(text, value);
    else
        stk__text_add(text, "null");
}

static void number(stk__text *text, const char *name, uint64_t value)
{
    if (value)
        stk__text_add(text, ", \"%s\": %" PRIu64, name, value);
    else
        stk__text_add(text, ", \"%s\": null", name);
}

/* Words between blanks as a list of strings. */
static void words(stk__text *text, const char *name, const char *value)
{
    stk__text_add(text, ", \"%s\": [", name);
    for (bool first = true; *value; first = false) {
        const size_t n = strcspn(value, " ");
        stk__text_add(text, first ? "\"%.*s\"" : ", \"%.*s\"", (int)n, value);
        value += n + (value[n] == ' ');
    }
    stk__text_add(text, "]");
}

static void format_cpu(stk__text *text, const stk_machine *m)
{
    stk__text_add(text, ", \"cpu\": {\"architecture\": ");
    stk__text_add_json(text, m->architecture);
    member(text, "model", m->cpu);
    number(text, "sockets", m->sockets);
    number(text, "cores", m->cores);
    number(text, "threads", m->threads);
    number(text, "memory_nodes", m->nodes);
    words(text, "instruction_sets", m->instructions);
    stk__text_add(text, ", \"caches\": [");
    for (uint32_t i = 0; i < kept(m->num_caches); i++) {
        const stk_machine_cache *c = &m->caches[i];
        stk__text_add(text, "%s{\"level\": %u", i ? ", " : "", c->level);
        member(text, "type", c->type);
        number(text, "bytes", c->bytes);
        number(text, "count", c->count);
        stk__text_add(text, "}");
    }
    stk__text_add(text, "]");
    member(text, "governor", m->governor);
    stk__text_add(text, ", \"virtual_machine\": %s}", m->virtual_machine ? "true" : "false");
}

static void format_use(stk__text *text, const stk_machine *m)
{
    stk__text_add(text, ", \"process\": {\"usable_cores\": %u", m->usable);
    number(text, "affinity", m->affinity);
    stk__text_add(text, ", \"quota\": ");
    if (m->quota > 0)
        stk__text_add_real(text, m->quota);
    else
        stk__text_add(text, "null");
    number(text, "cgroup_version", m->cgroup);
    stk__text_add(text, ", \"compute_cores\": %u, \"preparation_cores\": %u", m->compute,
                  m->preparation);
    member(text, "container", m->container);
    member(text, "nodes", m->own_nodes);
    stk__text_add(text, ", \"bound\": %s}, \"memory\": {\"limit_bytes\": %" PRIu64,
                  m->bound ? "true" : "false", m->memory_limit_bytes);
    number(text, "bytes", m->memory_bytes);
    number(text, "free_bytes", m->memory_free_bytes);
    stk__text_add(text, ", \"swap_bytes\": %" PRIu64 ", \"nodes\": [", m->swap_bytes);
    for (uint32_t i = 0; m->nodes > 1 && i < kept(m->nodes); i++) {
        const stk_machine_node *n = &m->memory_nodes[i];
        stk__text_add(text, "%s{\"node\": %u, \"threads\": %u, \"bytes\": %" PRIu64 "}",
                      i ? ", " : "", n->node, n->threads, n->memory_bytes);
    }
    stk__text_add(text, "]}");
}

static void format_disk(stk__text *text, const stk_machine_disk *d)
{
    stk__text_add(text, ", \"disk\": {\"path\": ");
    stk__text_add_json(text, d->path);
    member(text, "mount", d->mount);
    member(text, "filesystem", d->filesystem);
    member(text, "kind", d->kind);
    member(text, "device", d->device);
    member(text, "model", d->model);
    stk__text_add(text, "}");
}

static void format_devices(stk__text *text, const stk_machine *m)
{
    stk__text_add(text, ", \"networks\": [");
    for (uint32_t i = 0; i < kept(m->num_networks); i++) {
        const stk_machine_network *n = &m->networks[i];
        stk__text_add(text, "%s{\"name\": ", i ? ", " : "");
        stk__text_add_json(text, n->name);
        member(text, "kind", n->kind);
        stk__text_add(text, ", \"up\": %s", n->up ? "true" : "false");
        number(text, "bits_per_s", (uint64_t)n->bits_per_s);
        stk__text_add(text, "}");
    }
    stk__text_add(text, "], \"accelerators\": [");
    for (uint32_t i = 0; i < kept(m->num_accelerators); i++) {
        const stk_machine_accelerator *a = &m->accelerators[i];
        stk__text_add(text, "%s{\"model\": ", i ? ", " : "");
        stk__text_add_json(text, a->model);
        member(text, "driver", a->driver);
        number(text, "memory_bytes", a->memory_bytes);
        if (m->accelerator_nodes[i] >= 0)
            stk__text_add(text, ", \"node\": %d", m->accelerator_nodes[i]);
        stk__text_add(text, "}");
    }
    stk__text_add(text, "]");
}

int stk_machine_format(const stk_machine *machine, char *bytes, size_t size)
{
    stk__text text = {.bytes = bytes, .room = size};
    char summary[1024];
    stk_machine m;

    take(&m, machine);
    stk_machine_summary(&m, summary, sizeof summary);
    stk__text_add(&text, "\"summary\": ");
    stk__text_add_json(&text, summary);
    format_cpu(&text, &m);
    format_use(&text, &m);
    format_disk(&text, &m.disk);
    format_devices(&text, &m);
    stk__text_add(&text, ", \"versions\": {\"stoker\": ");
    stk__text_add_json(&text, m.stoker);
    member(&text, "kernel", m.kernel);
    member(&text, "libc", m.libc);
    member(&text, "libraries", m.libraries);
    stk__text_add(&text, "}");
    return (int)text.length;
}

/* ---- Words ----------------------------------------------------------------------------------- */

struct teller {
    void (*each)(void *user, const char *name, const char *value);
    void *user;
    char bytes[1024];
    stk__text text;
};

static stk__text *begin(struct teller *t)
{
    t->text = (stk__text){.bytes = t->bytes, .room = sizeof t->bytes};
    t->bytes[0] = 0;
    return &t->text;
}

static void tell(struct teller *t, const char *name)
{
    if (t->bytes[0])
        t->each(t->user, name, t->bytes);
}

static void count(stk__text *text, uint32_t n, const char *what, const char *more)
{
    if (n)
        stk__text_add(text, "%s%u %s%s", text->length ? ", " : "", n, what, n == 1 ? "" : more);
}

static void tell_cpu(struct teller *t, const stk_machine *m)
{
    stk__text *text = begin(t);

    stk__text_add(text, "%s (%s)%s", *m->cpu ? m->cpu : "of unknown name", m->architecture,
                  m->virtual_machine ? ", in a virtual machine" : "");
    tell(t, "processor");
    text = begin(t);
    count(text, m->sockets, "socket", "s");
    count(text, m->cores, "core", "s");
    count(text, m->threads, "thread", "s");
    count(text, m->nodes, "memory node", "s");
    tell(t, "of it");
    text = begin(t);
    for (uint32_t i = 0; m->nodes > 1 && i < kept(m->nodes); i++) {
        const stk_machine_node *n = &m->memory_nodes[i];
        stk__text_add(text, "%s%u: %u thread%s, ", i ? "; " : "", n->node, n->threads,
                      n->threads == 1 ? "" : "s");
        add_bytes(text, n->memory_bytes);
    }
    if (m->nodes > STK_MACHINE_LIST)
        stk__text_add(text, "; and %u more", m->nodes - STK_MACHINE_LIST);
    tell(t, "memory nodes");
    stk__text_add(begin(t), "%s", m->instructions);
    tell(t, "instruction sets");
    text = begin(t);
    for (uint32_t i = 0; i < kept(m->num_caches); i++) {
        const stk_machine_cache *c = &m->caches[i];
        stk__text_add(text, "%sL%u%s %u x ", i ? ", " : "", c->level,
                      *c->type == 'D'   ? "d"
                      : *c->type == 'I' ? "i"
                                        : "",
                      c->count);
        add_bytes(text, c->bytes);
    }
    tell(t, "caches");
    stk__text_add(begin(t), "%s", m->governor);
    tell(t, "frequency governor");
}

static void tell_use(struct teller *t, const stk_machine *m)
{
    stk__text *text = begin(t);

    add_cores(text, m);
    if (m->affinity < m->threads)
        stk__text_add(text, ", %u by affinity", m->affinity);
    if (m->cgroup)
        stk__text_add(text, ", by cgroups of version %u", m->cgroup);
    if (*m->own_nodes)
        stk__text_add(text, ", of memory node%s %s", strpbrk(m->own_nodes, ",-") ? "s" : "",
                      m->own_nodes);
    stk__text_add(text, "; %u kept for the step, %u for workers", m->compute, m->preparation);
    tell(t, "usable");
    stk__text_add(begin(t), "%s", m->container);
    tell(t, "container");
    text = begin(t);
    add_bytes(text, m->memory_bytes);
    if (m->memory_limit_bytes < m->memory_bytes) {
        stk__text_add(text, ", of which this process may use ");
        add_bytes(text, m->memory_limit_bytes);
    }
    stk__text_add(text, "; free ");
    add_bytes(text, m->memory_free_bytes);
    if (m->swap_bytes) {
        stk__text_add(text, ", swap ");
        add_bytes(text, m->swap_bytes);
    }
    tell(t, "memory");
}

static void tell_devices(struct teller *t, const stk_machine *m)
{
    stk__text *text = begin(t);

    if (*m->disk.filesystem) {
        stk__text_add(text, "%s: ", m->disk.path);
        add_disk(text, &m->disk);
        if (*m->disk.model)
            stk__text_add(text, " (%s)", m->disk.model);
        if (strcmp(m->disk.mount, "/") != 0)
            stk__text_add(text, ", mounted at %s", m->disk.mount);
    }
    tell(t, "disk");
    for (uint32_t i = 0; i < kept(m->num_networks); i++) {
        const stk_machine_network *n = &m->networks[i];
        text = begin(t);
        stk__text_add(text, "%s, %s, %s", n->name, n->kind, n->up ? "up" : "down");
        if (n->bits_per_s > 0)
            stk__text_add(text, ", %.0f Mbit/s", n->bits_per_s / 1e6);
        tell(t, "network");
    }
    for (uint32_t i = 0; i < kept(m->num_accelerators); i++) {
        const stk_machine_accelerator *a = &m->accelerators[i];
        text = begin(t);
        stk__text_add(text, "%s", a->model);
        if (a->memory_bytes) {
            stk__text_add(text, ", ");
            add_bytes(text, a->memory_bytes);
        }
        stk__text_add(text, " (%s)", a->driver);
        if (m->nodes > 1 && m->accelerator_nodes[i] >= 0)
            stk__text_add(text, ", at memory node %d", m->accelerator_nodes[i]);
        tell(t, "accelerator");
    }
}

void stk_machine_describe(const stk_machine *machine,
                          void (*each)(void *user, const char *name, const char *value), void *user)
{
    struct teller t = {.each = each, .user = user};
    stk_machine m;

    take(&m, machine);
    tell_cpu(&t, &m);
    tell_use(&t, &m);
    tell_devices(&t, &m);
    stk__text_add(begin(&t), "%s", m.kernel);
    tell(&t, "kernel");
    stk__text_add(begin(&t), "stoker %s, %s", m.stoker, m.libc);
    tell(&t, "versions");
    stk__text_add(begin(&t), "%s", m.libraries);
    tell(&t, "built with");
}
