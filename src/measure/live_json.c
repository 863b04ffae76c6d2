/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a run as JSON, and back: both go by the same tables. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "base/json_scan.h"
#include "base/sized.h"
#include "base/text.h"
#include "measure/live.h"

typedef enum kind {
    TEXT,
    COUNT,    /* uint64_t */
    COUNT32,  /* uint32_t */
    SIGNED,   /* int64_t */
    REAL,     /* double; null where it is none */
    POSITIVE, /* double; null where it is not above 0 */
    ETA,      /* double; null below 0 */
    GROUP,    /* an object of other members of the state */
    LOADER,   /* likewise; null: there is none */
    WAITS,
    WORKERS,
    METRICS,
    LOADERS,
    BOOL,
} kind;

typedef struct row {
    const char *name;
    kind kind;
    size_t at, size; /* in the state; size: of a text */
    const struct row *group;
} row;

#define AT(kind, name, member)                                                                     \
    {                                                                                              \
        name, kind, offsetof(stk_live_state, member), 0, NULL                                      \
    }
#define WORDS(member)                                                                              \
    {                                                                                              \
#member, TEXT, offsetof(stk_live_state, member), sizeof((stk_live_state *)0)->member, NULL \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, TEXT, 0, 0, NULL                                                                     \
    }

static const row progress_rows[] = {
    WORDS(what),
    AT(COUNT, "done", done),
    AT(COUNT, "total", total),
    AT(ETA, "eta_s", eta),
    AT(COUNT, "epoch", epoch),
    AT(SIGNED, "epochs", epochs),
    AT(COUNT, "batch", batch),
    AT(COUNT, "batches_of_epoch", batches_of_epoch),
    END,
};

static const row loader_rows[] = {
    AT(COUNT, "num_workers", workers),
    AT(COUNT, "io_depth", io_depth),
    AT(COUNT, "ready_batches", ready),
    AT(COUNT, "depth_batches", depth),
    AT(COUNT, "memory_bytes", memory_bytes),
    AT(COUNT, "memory_budget_bytes", memory_budget),
    AT(REAL, "wait_share", wait_share),
    AT(WAITS, "wait_shares", wait_shares),
    WORDS(limit),
    WORDS(verdict),
    END,
};

static const row state_rows[] = {
    WORDS(stoker),
    WORDS(command),
    WORDS(label),
    AT(SIGNED, "pid", pid),
    AT(REAL, "started", started),
    AT(REAL, "age_s", age),
    AT(REAL, "window_s", window),
    {"progress", GROUP, 0, 0, progress_rows},
    AT(COUNT, "samples", samples),
    AT(COUNT, "batches", batches),
    AT(COUNT, "bad_samples", bad_samples),
    AT(REAL, "samples_per_s", samples_per_s),
    AT(REAL, "batches_per_s", batches_per_s),
    AT(COUNT, "reads", reads),
    AT(COUNT, "read_bytes", read_bytes),
    AT(COUNT, "read_failures", read_failures),
    AT(COUNT, "retries", retries),
    AT(REAL, "reads_per_s", reads_per_s),
    AT(REAL, "read_bytes_per_s", read_bytes_per_s),
    AT(POSITIVE, "read_latency_s", read_latency),
    {"loader", LOADER, offsetof(stk_live_state, loader), 0, loader_rows},
    AT(COUNT32, "usable_cores", usable_cores),
    AT(REAL, "process_cores", process_cores),
    AT(REAL, "machine_cores", machine_cores),
    AT(COUNT, "process_bytes", process_bytes),
    AT(WORKERS, "workers", worker),
    AT(METRICS, "metrics", metric),
    AT(LOADERS, "loaders", loaders),
    WORDS(machine),
    END,
};

/* Of a worker, not of the state. */
#define WORKER(kind, name, member)                                                                 \
    {                                                                                              \
        name, kind, offsetof(stk_live_worker, member), 0, NULL                                     \
    }
static const row worker_rows[] = {
    WORKER(COUNT, "samples", samples),
    WORKER(COUNT, "index", index),
    WORKER(REAL, "busy_share", busy),
    WORKER(REAL, "idle_s", idle),
    END,
};

#define OF_LOADER(kind, name, member)                                                              \
    {                                                                                              \
        name, kind, offsetof(stk_live_loader, member), 0, NULL                                     \
    }
static const row one_loader_rows[] = {
    OF_LOADER(COUNT, "samples", samples),
    OF_LOADER(COUNT, "batch_size", batch_size),
    OF_LOADER(COUNT, "batches", batches),
    OF_LOADER(REAL, "batches_per_s", batches_per_s),
    OF_LOADER(REAL, "wait_share", wait_share),
    OF_LOADER(COUNT, "num_workers", workers),
    OF_LOADER(COUNT, "io_depth", io_depth),
    OF_LOADER(COUNT, "ready_batches", ready),
    OF_LOADER(COUNT, "depth_batches", depth),
    OF_LOADER(COUNT, "memory_bytes", memory_bytes),
    OF_LOADER(COUNT, "memory_budget_bytes", memory_budget),
    OF_LOADER(BOOL, "first", first),
    END,
};

void stk__live_take(stk_live_state *out, const stk_live_state *theirs)
{
    *out = (stk_live_state){.struct_size = sizeof *out};
    stk__sized_copy(out, sizeof *out, theirs);
    stk__live_tame(out);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* JSON has no NaN. */
static void put_real(stk__text *text, double value)
{
    char number[32];

    stk_number_format(value, number);
    stk__text_add(text, "%s", number);
}

/* Readers of JSON have signed integers. */
static void put_count(stk__text *text, uint64_t value)
{
    stk__text_add(text, "%" PRIu64, STK_MIN(value, (uint64_t)INT64_MAX));
}

static void put_rows(stk__text *text, const row *rows, const void *from);

static void put_waits(stk__text *text, const double *shares)
{
    for (int i = 0; i < STK_WAIT_PARTS; i++) {
        stk__text_add(text, "%s\"%s\": ", i ? ", " : "{", stk__wait_name((stk_wait)i));
        put_real(text, shares[i]);
    }
    stk__text_add(text, "}");
}

static void put_workers(stk__text *text, const stk_live_state *s)
{
    stk__text_add(text, "[");
    for (uint32_t i = 0; i < s->num_workers; i++) {
        stk__text_add(text, i ? ", " : "");
        put_rows(text, worker_rows, &s->worker[i]);
    }
    stk__text_add(text, "]");
}

static void put_loaders(stk__text *text, const stk_live_state *s)
{
    stk__text_add(text, "[");
    for (uint32_t i = 0; i < s->num_loaders; i++) {
        stk__text_add(text, i ? ", " : "");
        put_rows(text, one_loader_rows, &s->loaders[i]);
    }
    stk__text_add(text, "]");
}

static void put_metrics(stk__text *text, const stk_live_state *s)
{
    stk__text_add(text, "{");
    for (uint32_t i = 0; i < s->num_metrics; i++) {
        stk__text_add(text, i ? ", " : "");
        stk__text_add_json(text, s->metric[i].name);
        stk__text_add(text, ": ");
        put_real(text, s->metric[i].value);
    }
    stk__text_add(text, "}");
}

static void put_value(stk__text *text, const row *r, const void *from)
{
    const void *at = (const char *)from + r->at;

    switch (r->kind) {
    case TEXT:
        stk__text_add_json(text, at);
        break;
    case COUNT:
        put_count(text, *(const uint64_t *)at);
        break;
    case COUNT32:
        put_count(text, *(const uint32_t *)at);
        break;
    case SIGNED:
        stk__text_add(text, "%" PRId64, *(const int64_t *)at);
        break;
    case REAL:
        put_real(text, *(const double *)at);
        break;
    case POSITIVE:
        put_real(text, *(const double *)at > 0 ? *(const double *)at : NAN);
        break;
    case ETA:
        put_real(text, *(const double *)at >= 0 ? *(const double *)at : NAN);
        break;
    case GROUP:
        put_rows(text, r->group, from);
        break;
    case LOADER:
        if (*(const bool *)at)
            put_rows(text, r->group, from);
        else
            stk__text_add(text, "null");
        break;
    case WAITS:
        put_waits(text, at);
        break;
    case WORKERS:
        put_workers(text, from);
        break;
    case METRICS:
        put_metrics(text, from);
        break;
    case LOADERS:
        put_loaders(text, from);
        break;
    case BOOL:
        stk__text_add(text, *(const bool *)at ? "true" : "false");
    }
}

static void put_rows(stk__text *text, const row *rows, const void *from)
{
    for (const row *r = rows; r->name; r++) {
        stk__text_add(text, "%s\"%s\": ", r == rows ? "{" : ", ", r->name);
        put_value(text, r, from);
    }
    stk__text_add(text, "}");
}

int stk_live_format(const stk_live_state *state, char *bytes, size_t size)
{
    stk__text text = {.bytes = bytes, .room = size};
    stk_live_state s;

    stk__live_take(&s, state);
    put_rows(&text, state_rows, &s);
    stk__text_add(&text, "\n");
    return (int)text.length;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Members of another version, and those of another kind than here, are left as they are. */
typedef void take_fn(const stk__json_member *member, const row *rows, void *to);

static bool each_member(const stk__json_member *group, take_fn *take, const row *rows, void *to)
{
    stk__json_cursor cursor = {group->text + 1, group->text + group->length, false};
    stk__json_member member = {0};
    bool closed = false;

    for (bool first = true; !closed; first = false) {
        if (!stk__json_next(&cursor, group->kind == STK__JSON_OBJECT, first, &member, &closed))
            return false;
        if (!closed)
            take(&member, rows, to);
    }
    return true;
}

static void take_count(const stk__json_member *member, uint64_t most, uint64_t *out)
{
    int64_t value;

    if (stk__json_member_whole(member, (int64_t)STK_MIN(most, (uint64_t)INT64_MAX), &value))
        *out = (uint64_t)value;
}

static void take_real(const stk__json_member *member, double *out)
{
    stk__json_member_real(member, (stk__json_range){-DBL_MAX, DBL_MAX}, out);
}

static void take_wait(const stk__json_member *member, const row *rows, void *to)
{
    double *shares = to;

    (void)rows;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        if (stk__json_member_key_is(member, stk__wait_name((stk_wait)i)))
            take_real(member, &shares[i]);
}

static void take_metric(const stk__json_member *member, const row *rows, void *to)
{
    const stk__json_member name = {
        .text = member->key, .length = member->key_length, .kind = STK__JSON_STRING};
    stk_live_state *s = to;

    (void)rows;
    if (s->num_metrics == STK_LIVE_METRICS)
        return;
    stk_live_metric *m = &s->metric[s->num_metrics++];
    stk__json_member_text(&name, m->name, sizeof m->name);
    m->value = NAN;
    take_real(member, &m->value);
}

static void take_member(const stk__json_member *member, const row *rows, void *to);

static void take_worker(const stk__json_member *member, const row *rows, void *to)
{
    stk_live_state *s = to;

    if (s->num_workers < STK_LIVE_WORKERS && member->kind == STK__JSON_OBJECT)
        each_member(member, take_member, rows, &s->worker[s->num_workers++]);
}

static void take_loader(const stk__json_member *member, const row *rows, void *to)
{
    stk_live_state *s = to;

    if (s->num_loaders < STK_LIVE_LOADERS && member->kind == STK__JSON_OBJECT)
        each_member(member, take_member, rows, &s->loaders[s->num_loaders++]);
}

static void take_signed(const stk__json_member *member, int64_t *out)
{
    double value = 0;

    /* A number of a process, or -1. */
    if (stk__json_member_real(member, (stk__json_range){-1, (double)(INT64_C(1) << 52)}, &value))
        *out = (int64_t)value;
}

static void take_group(const stk__json_member *member, const row *r, void *to)
{
    stk_live_state *s = to;

    if (r->kind == WORKERS && member->kind == STK__JSON_ARRAY)
        each_member(member, take_worker, worker_rows, to);
    if (r->kind == LOADERS && member->kind == STK__JSON_ARRAY)
        each_member(member, take_loader, one_loader_rows, to);
    if (member->kind != STK__JSON_OBJECT)
        return;
    if (r->kind == LOADER)
        s->loader = true;
    if (r->kind == WAITS)
        each_member(member, take_wait, NULL, s->wait_shares);
    else if (r->kind == METRICS)
        each_member(member, take_metric, NULL, to);
    else if (r->kind != WORKERS && r->kind != LOADERS)
        each_member(member, take_member, r->group, to);
}

static void take_value(const stk__json_member *member, const row *r, void *to)
{
    void *at = (char *)to + r->at;
    uint64_t whole;

    switch (r->kind) {
    case TEXT:
        if (member->kind == STK__JSON_STRING)
            stk__json_member_text(member, at, r->size);
        break;
    case COUNT:
        take_count(member, UINT64_MAX, at);
        break;
    case COUNT32:
        whole = *(uint32_t *)at;
        take_count(member, UINT32_MAX, &whole);
        *(uint32_t *)at = (uint32_t)whole;
        break;
    case SIGNED:
        take_signed(member, at);
        break;
    case REAL:
    case POSITIVE:
    case ETA:
        take_real(member, at);
        break;
    case GROUP:
    case LOADER:
    case WAITS:
    case WORKERS:
    case METRICS:
    case LOADERS:
        take_group(member, r, to);
        break;
    case BOOL:
        if (member->kind == STK__JSON_TRUE || member->kind == STK__JSON_FALSE)
            *(bool *)at = member->kind == STK__JSON_TRUE;
    }
}

static void take_member(const stk__json_member *member, const row *rows, void *to)
{
    for (const row *r = rows; r->name; r++)
        if (stk__json_member_key_is(member, r->name))
            take_value(member, r, to);
}

stk_status stk_live_parse(const char *text, size_t length, stk_live_state *out, stk_error *err)
{
    const stk__json_member whole = {.text = text, .length = length, .kind = STK__JSON_OBJECT};
    stk_live_state s = {.struct_size = sizeof s, .eta = -1, .epochs = -1};
    const char *stop;
    size_t n;

    STK_TRY(stk__sized_check(out, "stk_live_state", STK_STAGE_MEASURE, err));
    if (stk__json_scan(text, text + length, NULL, 0, &n, &stop) != STK__JSON_DONE ||
        !each_member(&whole, take_member, state_rows, &s) || !*s.stoker)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_MEASURE,
                         "this is no state of a run, as 'stoker top --format json' writes it");
    stk__live_tame(&s);
    stk__sized_write(out, &s);
    return STK_OK;
}
