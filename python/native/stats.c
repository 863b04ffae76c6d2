/* SPDX-License-Identifier: Apache-2.0 */
/* stk_loader_stats -> a dict: counts as they are, times in seconds. */
#include <stddef.h>

#include "native.h"

/* Put into a dict, which takes the reference. Whether that failed. */
static bool put(PyObject *to, const char *name, PyObject *value)
{
    const bool failed = !value || PyDict_SetItemString(to, name, value);

    Py_XDECREF(value);
    return failed;
}

static PyObject *seconds_of(uint64_t ns)
{
    return PyFloat_FromDouble((double)ns * 1e-9);
}

/* {"storage_latency": seconds, ...} */
static PyObject *waits_of(const stk_waits *waits)
{
    static const char *const names[] = {
#define NAME_OF_WAIT(NAME, name, text) #name,
        STK_WAIT_LIST(NAME_OF_WAIT)
#undef NAME_OF_WAIT
    };
    PyObject *all = PyDict_New();

    for (int i = 0; all && i < STK_WAIT_PARTS; i++)
        if (put(all, names[i], seconds_of(waits->parts_ns[i])))
            Py_CLEAR(all);
    return all;
}

static PyObject *stage_of(const stk_stage_stats *s)
{
    return Py_BuildValue("{sKsKsKsNsNsN}", "items", (unsigned long long)s->items, "bytes",
                         (unsigned long long)s->bytes, "failures", (unsigned long long)s->failures,
                         "busy_s", seconds_of(s->busy_ns), "wait_in_s", seconds_of(s->wait_in_ns),
                         "wait_out_s", seconds_of(s->wait_out_ns));
}

static PyObject *stages_of(const stk_loader_stats *s)
{
    PyObject *all = PyDict_New();

    for (int i = 0; all && i < STK_LOADER_STAGES; i++)
        if (put(all, s->stages[i].name, stage_of(&s->stages[i])))
            Py_CLEAR(all);
    return all;
}

PyObject *stk_py_stats(const stk_loader_stats *stats)
{
#define AT(member) offsetof(stk_loader_stats, member)
    static const struct {
        const char *name;
        size_t at;
        bool time; /* in ns */
    } counters[] = {
        {"batches", AT(waits.batches), false},
        {"wait_s", AT(waits.total_ns), true},
        {"workers", AT(workers), false},
        {"depth", AT(depth), false},
        {"ready", AT(ready), false},
        {"io_depth", AT(io_depth), false},
        {"memory_budget", AT(memory_budget), false},
        {"memory_bytes", AT(memory_bytes), false},
        {"memory_peak", AT(memory_peak), false},
        {"slab_bytes", AT(slab_bytes), false},
        {"requests", AT(requests), false},
        {"request_bytes", AT(request_bytes), false},
        {"needed_bytes", AT(needed_bytes), false},
        {"cache_hits", AT(cache_hits), false},
        {"cache_misses", AT(cache_misses), false},
        {"cache_bytes", AT(cache_bytes), false},
        {"cache_hit_bytes", AT(tiers.of[STK_TIER_MEMORY].bytes), false},
        {"disk_reads", AT(tiers.of[STK_TIER_DISK].reads), false},
        {"disk_read_bytes", AT(tiers.of[STK_TIER_DISK].bytes), false},
        {"disk_read_s", AT(tiers.of[STK_TIER_DISK].ns), true},
        {"remote_reads", AT(tiers.of[STK_TIER_REMOTE].reads), false},
        {"remote_read_bytes", AT(tiers.of[STK_TIER_REMOTE].bytes), false},
        {"remote_read_s", AT(tiers.of[STK_TIER_REMOTE].ns), true},
        {"bad_samples", AT(bad_samples), false},
        {"pictures", AT(pictures), false},
        {"decode_s", AT(decode_ns), true},
        {"resize_s", AT(resize_ns), true},
        {"chunks_needed", AT(chunks_needed), false},
        {"chunks_decoded", AT(chunks_decoded), false},
        {"chunk_decode_s", AT(chunk_decode_ns), true},
    };
#undef AT
    PyObject *all = PyDict_New();
    bool failed = !all;

    for (size_t i = 0; !failed && i < sizeof counters / sizeof *counters; i++) {
        uint64_t value;
        memcpy(&value, (const char *)stats + counters[i].at, sizeof value);
        failed = put(all, counters[i].name,
                     counters[i].time ? seconds_of(value) : PyLong_FromUnsignedLongLong(value));
    }
    if (failed || put(all, "waits_s", waits_of(&stats->waits)) ||
        put(all, "stages", stages_of(stats)))
        Py_CLEAR(all);
    return all;
}
