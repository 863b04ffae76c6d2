/* SPDX-License-Identifier: Apache-2.0 */
/* The event log: each event of the context as one line or two, in the published order of fields. */
#include "measure/measure.h"

#include <unistd.h>

#include "base/pace.h"
#include "base/probe.h"
#include "base/sized.h"
#include "base/text.h"
#include "measure/machine.h"

#define EVENTS_PER_SECOND 10000
#define LINE_BYTES        512  /* one line of a built-in event */
#define BLOCK_BYTES       8192 /* lines of one event put together before they go to the writer */
#define SECOND_NS         UINT64_C(1000000000)

/* What is thinned, each for itself. */
enum { THIN_SAMPLE, THIN_READ, THIN_BATCH, THIN_COUNT };
static const char *const thin_names[THIN_COUNT] = {"get-batch", "read", "batch ready"};

struct stk_event_log {
    stk_context *ctx;
    stk__writer *writer;
    stk__probe probe;
    uint64_t wall_base_us; /* wall clock at ... */
    uint64_t mono_base_ns; /* ... this monotonic time: no later step of the wall clock shows in the
                              log */
    char pid[STK__NUMBER];
    stk__thinner thinners[THIN_COUNT];
    atomic_uint_fast64_t thinned_at_ns; /* when the counts of dropped events were last written */
    atomic_bool in_run;                 /* between "run start" and "run end" */
    atomic_bool summary;                /* no events of samples, reads, batches and the machine */
    stk__system system;                 /* the writer's thread's */
};

/* ---- Pieces of a line. Callers make sure of the room: LINE_BYTES holds any built-in event. */

static char *put(char *at, const char *text)
{
    return stpcpy(at, text);
}

static char *put_key(char *at, const char *key)
{
    at = put(at, ", \"");
    at = put(at, key);
    return put(at, "\": ");
}

static char *put_member(char *at, const char *key, uint64_t value)
{
    return stk__put_uint(put_key(at, key), value);
}

static char *begin(char *at, const char *name)
{
    at = put(at, "{\"event\": \"");
    at = put(at, name);
    return put(at, "\"");
}

static char *put_time(const stk_event_log *log, char *at, uint64_t when_ns)
{
    int64_t since_us = ((int64_t)(when_ns - log->mono_base_ns)) / 1000;

    return stk__put_wall(put_key(at, "time"), log->wall_base_us + (uint64_t)since_us);
}

static char *put_duration(char *at, uint64_t ns)
{
    return stk__put_seconds(put_key(at, "duration"), ns);
}

static char *put_status(char *at, stk_status status)
{
    at = put_key(at, "status");
    *at++ = '"';
    at = put(at, stk_status_name(status));
    *at++ = '"';
    return at;
}

static char *end(char *at)
{
    return put(at, "}\n");
}

/* ---- Events */

static void write_thinned(stk_event_log *log, uint64_t now_ns)
{
    char line[LINE_BYTES];

    for (int i = 0; i < THIN_COUNT; i++) {
        uint64_t dropped = stk__thinner_take(&log->thinners[i]);
        if (!dropped)
            continue;
        char *at = put_time(log, begin(line, "thinned"), now_ns);
        at = put_key(at, "of");
        *at++ = '"';
        at = put(at, thin_names[i]);
        *at++ = '"';
        at = put_member(at, "dropped", dropped);
        at = end(put_member(at, "time_ns", now_ns));
        stk__writer_put(log->writer, line, (size_t)(at - line));
    }
}

/* How many of `n` may be written; about once a second the count of the others is. */
static uint64_t pass(stk_event_log *log, int kind, uint64_t n, uint64_t now_ns)
{
    uint64_t passed = stk__thinner_pass(&log->thinners[kind], n, now_ns);
    uint64_t last = atomic_load_explicit(&log->thinned_at_ns, memory_order_relaxed);

    if (passed < n && now_ns > last && now_ns - last >= SECOND_NS &&
        atomic_compare_exchange_strong(&log->thinned_at_ns, &last, now_ns))
        write_thinned(log, now_ns);
    return passed;
}

/* What both lines of a sample end with. */
static char *put_sample_rest(char *at, const stk__event *event, uint64_t when_ns)
{
    at = put_member(at, "time_ns", when_ns);
    at = put_key(at, "worker");
    at = event->worker == UINT32_MAX ? put(at, "-1") : stk__put_uint(at, event->worker);
    at = put_member(at, "epoch", event->epoch);
    if (event->count > 1)
        at = put_member(at, "task", event->count);
    return end(at);
}

static void write_samples(stk_event_log *log, const stk__event *event)
{
    char block[BLOCK_BYTES];
    char *at = block;
    uint64_t passed = pass(log, THIN_SAMPLE, event->count, event->end_ns);

    for (uint64_t k = 0; k < passed; k++) {
        /* Spread over the task, so that thinning favours no place in it. */
        uint64_t i = passed == event->count ? k : k * event->count / passed;
        uint64_t index = event->indices ? event->indices[i] : event->index;
        if (at + 2 * LINE_BYTES > block + BLOCK_BYTES) {
            stk__writer_put(log->writer, block, (size_t)(at - block));
            at = block;
        }
        at = put_time(log, begin(at, "get-batch start"), event->start_ns);
        at = put(put_key(put_member(at, "idx", index), "pid"), log->pid);
        at = put_sample_rest(at, event, event->start_ns);
        at = put_time(log, begin(at, "get-batch end"), event->end_ns);
        at = put(put_key(put_member(at, "idx", index), "pid"), log->pid);
        at = put_duration(at, event->end_ns - event->start_ns);
        at = put_sample_rest(at, event, event->end_ns);
    }
    if (at > block)
        stk__writer_put(log->writer, block, (size_t)(at - block));
}

/* All that a policy was told and said, so that it can be asked again. */
static void write_pace(stk_event_log *log, const stk__event *event)
{
    const stk__pace_note *n = event->pace;
    char text[2 * LINE_BYTES];
    stk__text out = {.bytes = text, .room = sizeof text};

    stk__text_add(&out,
                  "\"limits\": [%u, %u, %u, %u], \"steps\": %u, \"workers\": %u, \"depth\": %u",
                  n->limits.workers_least, n->limits.workers_most, n->limits.depth_least,
                  n->limits.depth_most, n->seen.steps, n->seen.workers, n->seen.depth);
    const struct {
        const char *name;
        double value;
    } seconds[] = {{"step", n->seen.step},
                   {"wait", n->seen.wait},
                   {"wait_reads", n->seen.wait_reads},
                   {"wait_transfer", n->seen.wait_transfer},
                   {"wait_work", n->seen.wait_work}};
    for (size_t i = 0; i < STK_COUNT(seconds); i++) {
        stk__text_add(&out, ", \"%s\": ", seconds[i].name);
        stk__text_add_real(&out, seconds[i].value);
    }
    stk__text_add(&out, ", \"num_workers\": %u, \"io_depth\": %u, \"why\": ", n->want.workers,
                  n->want.depth);
    stk__text_add_json(&out, n->want.why ? n->want.why : "");
    stk_event_log_write(log, "pace", NULL, event->end_ns, STK_NO_DURATION, text);
}

static void write_other(stk_event_log *log, const stk__event *event)
{
    char line[LINE_BYTES];
    char *at;

    switch (event->kind) {
    case STK__EVENT_READ:
        if (!pass(log, THIN_READ, 1, event->end_ns))
            return;
        at = put_duration(put_time(log, begin(line, "read"), event->end_ns),
                          event->end_ns - event->start_ns);
        at = put_member(at, "bytes", event->bytes);
        at = put_status(put_member(at, "samples", event->count), event->status);
        break;
    case STK__EVENT_BATCH:
        if (!pass(log, THIN_BATCH, 1, event->end_ns))
            return;
        at = put_member(begin(line, "batch ready"), "epoch", event->epoch);
        at = put_time(log, put_member(at, "batch", event->step), event->end_ns);
        at = put_duration(at, event->end_ns - event->start_ns);
        at = put_member(at, "samples", event->count);
        break;
    case STK__EVENT_BAD_SAMPLE:
        at = put_time(log, begin(line, "bad sample"), event->end_ns);
        at = put_member(put_member(at, "idx", event->index), "epoch", event->epoch);
        at = put_status(put_member(at, "position", event->position), event->status);
        break;
    case STK__EVENT_PACE:
        write_pace(log, event);
        return;
    default:
        return;
    }
    at = end(put_member(at, "time_ns", event->end_ns));
    stk__writer_put(log->writer, line, (size_t)(at - line));
}

static void on_event(void *user, const stk__event *event)
{
    const stk_event_log *log = user;

    if (event->kind != STK__EVENT_BAD_SAMPLE && atomic_load(&log->summary))
        return;
    if (event->kind == STK__EVENT_SAMPLE)
        write_samples(user, event);
    else
        write_other(user, event);
}

void stk_event_log_sample(stk_event_log *log, uint64_t epoch, uint64_t index, int64_t worker,
                          uint64_t start_ns, uint64_t end_ns)
{
    const stk__event event = {.kind = STK__EVENT_SAMPLE,
                              .worker = worker < 0 ? UINT32_MAX : (uint32_t)worker,
                              .start_ns = start_ns,
                              .end_ns = end_ns,
                              .epoch = epoch,
                              .index = index,
                              .count = 1};

    if (log && !stk__context_forked(log->ctx))
        write_samples(log, &event);
}

/* How loaded the machine is, while a run goes on. */
static void write_system(void *user)
{
    char members[STK__SYSTEM_MEMBERS];
    stk_event_log *log = user;
    uint64_t now = stk__now_ns();

    stk__system_members(&log->system, now, members, sizeof members);
    if (atomic_load(&log->in_run) && !atomic_load(&log->summary))
        stk_event_log_write(log, "system", NULL, now, STK_NO_DURATION, members);
}

/* What a run is of stands on top of it: its machine, with the disk of the working directory. */
static void put_machine(const stk_event_log *log, char members[STK__MACHINE_JSON])
{
    stk_machine machine = {.struct_size = sizeof machine};

    stk_machine_get(log->ctx, NULL, &machine);
    if (stk_machine_format(&machine, members, STK__MACHINE_JSON) >= STK__MACHINE_JSON)
        members[0] = 0;
}

void stk_event_log_write(stk_event_log *log, const char *name, const char *first, uint64_t when_ns,
                         uint64_t duration_ns, const char *more)
{
    char small[LINE_BYTES];

    if (!log)
        return;
    if (stk__context_forked(log->ctx))
        return;
    if (when_ns == 0)
        when_ns = stk__now_ns();
    /* A run's start and end are before and behind all of its lines: readers take their origin
     * from the first. */
    bool fence = strncmp(name, "run ", 4) == 0;
    if (fence) {
        atomic_store(&log->in_run, false);
        write_thinned(log, when_ns);
        stk__writer_flush(log->writer);
    }
    const bool start = strcmp(name, "run start") == 0;
    char machine[STK__MACHINE_JSON] = "";
    if (start)
        put_machine(log, machine);
    size_t size = strlen(name) + (first ? strlen(first) : 0) + (more ? strlen(more) : 0) +
                  strlen(machine) + LINE_BYTES / 2;
    char *line = size <= sizeof small ? small : stk__alloc(log->ctx, size);
    if (!line) {
        stk__message(log->ctx, STK_MESSAGE_WARNING,
                     "no memory for the event \"%s\": it is not in the log", name);
        return;
    }
    char *at = begin(line, name);
    if (first && *first)
        at = put(put(at, ", "), first);
    at = put_time(log, at, when_ns);
    if (duration_ns != STK_NO_DURATION)
        at = put_duration(at, duration_ns);
    if (more && *more)
        at = put(put(at, ", "), more);
    if (*machine)
        at = put(put(put(put_key(at, "machine"), "{"), machine), "}");
    /* The process tells apart what several ranks write into one file. */
    at = put(put_key(put_member(at, "time_ns", when_ns), "pid"), log->pid);
    at = end(at);
    stk__writer_put(log->writer, line, (size_t)(at - line));
    if (fence)
        stk__writer_flush(log->writer);
    if (start)
        atomic_store(&log->in_run, true);
    if (line != small)
        stk__free(log->ctx, line);
}

#define VERDICT_LINE 8192 /* bytes of the members of one event */

void stk__event_log_verdict(stk_event_log *log, const stk_figures *figures)
{
    stk_verdict verdict = {.struct_size = sizeof verdict};
    stk_figures f = {0};
    char line[VERDICT_LINE];

    stk__sized_copy(&f, sizeof f, figures);
    if (!log || f.steps == 0)
        return;
    stk__figures_format(&f, line, sizeof line);
    stk_event_log_write(log, "figures", NULL, 0, STK_NO_DURATION, line);
    stk_judge(&f, &verdict);
    stk_verdict_format(&verdict, line, sizeof line);
    stk_event_log_write(log, "verdict", NULL, 0, STK_NO_DURATION, line);
}

stk_status stk_event_log_open(stk_context *context, const char *path, stk_event_log **out,
                              stk_error *err)
{
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk_event_log *log = stk__calloc(context, 1, sizeof *log);
    if (!log)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the log");
    log->ctx = context;
    log->mono_base_ns = stk__now_ns();
    log->wall_base_us = (uint64_t)(stk__wall_seconds() * 1e6);
    atomic_init(&log->thinned_at_ns, log->mono_base_ns);
    atomic_init(&log->in_run, false);
    atomic_init(&log->summary, false);
    stk__system_open(&log->system, "", log->mono_base_ns);
    stk__put_uint(log->pid, (uint64_t)getpid());
    for (int i = 0; i < THIN_COUNT; i++)
        stk__thinner_init(&log->thinners[i], EVENTS_PER_SECOND);
    stk_status status = stk__writer_open(context, path, false, &log->writer, err);
    if (status != STK_OK) {
        stk__free(context, log);
        return status;
    }
    log->probe = (stk__probe){.event = on_event, .user = log};
    status = stk__probe_add(context, &log->probe);
    if (status != STK_OK) {
        stk__writer_close(&log->writer, NULL);
        stk__free(context, log);
        return stk__fail(
            err, status, STK_STAGE_MEASURE,
            "the context has too many listeners for a log: close another log or counter first");
    }
    stk__writer_tick(log->writer, write_system, log);
    stk__context_ref(context);
    *out = log;
    return STK_OK;
}

void stk__event_log_summarize(stk_event_log *log)
{
    if (log)
        atomic_store(&log->summary, true);
}

stk_status stk_event_log_close(stk_event_log **log_in_out, stk_error *err)
{
    if (!log_in_out || !*log_in_out)
        return STK_OK;
    stk_event_log *log = *log_in_out;
    stk_context *ctx = log->ctx;

    *log_in_out = NULL;
    /* After a fork the locks may be held by threads that are not here. */
    if (!stk__context_forked(ctx)) {
        stk__probe_remove(ctx, &log->probe);
        write_thinned(log, stk__now_ns());
    }
    stk_status status = stk__writer_close(&log->writer, err);
    stk__free(ctx, log);
    stk__context_unref(ctx);
    return status;
}
