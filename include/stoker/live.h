/* SPDX-License-Identifier: Apache-2.0 */
/* Looking on at a run, from within its process and from others of the same user. */
#ifndef STOKER_LIVE_H
#define STOKER_LIVE_H

#include <stoker/base.h>
#include <stoker/measure.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A process that opens a live sheet keeps the state of what it runs in memory that has no name in
 * any file system (memfd_create(2), "stoker-live"), written twice a second. Others of the same user
 * find it through the process's descriptors in /proc and read it; nothing has to be started or
 * known before, and nothing is left behind however the process ends.
 */
typedef struct stk_live stk_live;

#define STK_LIVE_WORKERS 64
#define STK_LIVE_METRICS 16
#define STK_LIVE_LOADERS 8

typedef struct stk_live_worker {
    uint64_t samples; /**< prepared so far */
    uint64_t index;   /**< of the sample that it began its last task with */
    double busy;      /**< share of the last seconds */
    double idle;      /**< seconds since its last task ended */
} stk_live_worker;

typedef struct stk_live_metric {
    char name[48];
    double value;
} stk_live_metric;

/** A loader of the context. Counts are its own, since it was made. */
typedef struct stk_live_loader {
    uint64_t samples, batch_size; /**< of its data; of a batch */
    uint64_t batches;             /**< handed out */
    double batches_per_s;
    double wait_share; /**< of the time, that its consumer waited for a batch */
    uint64_t workers, io_depth;
    uint64_t ready, depth; /**< finished batches that wait, of so many */
    uint64_t memory_bytes, memory_budget;
    bool first; /**< the one that gave a batch last, of which the state tells more */
} stk_live_loader;

/** What is known of a run at one moment. Counts are since the sheet was opened; what is a rate or a
 * share is of the last `window` seconds. Plain memory without pointers. Texts end within their
 * room; what they hold may come from files. */
typedef struct stk_live_state {
    uint32_t struct_size;
    char stoker[32];   /**< version that wrote it */
    char command[16];  /**< "bench", "train", "tune", "convert" */
    char label[128];   /**< what of it: a dataset, a setting */
    char machine[256]; /**< stk_machine_summary() */
    int64_t pid;       /**< as the process itself sees it */
    double started;    /**< Unix time */
    double age;        /**< seconds from then to this state */
    uint64_t at_ns;    /**< of this state, CLOCK_MONOTONIC */
    double window;     /**< seconds; 0: it has just begun */

    char what[64];                    /**< is counted in the next two; empty: nothing is */
    uint64_t done, total;             /**< total 0: unknown */
    double eta;                       /**< seconds; below 0: unknown */
    uint64_t epoch;                   /**< from 0, of the last batch */
    int64_t epochs;                   /**< of a training; -1: without end, or there is none */
    uint64_t batch, batches_of_epoch; /**< of a training; 0: there is none */

    uint64_t samples, batches, bad_samples; /**< prepared, handed out, bad */
    double samples_per_s, batches_per_s;
    uint64_t reads, read_bytes, read_failures, retries;
    double reads_per_s, read_bytes_per_s;
    double read_latency; /**< seconds, mean of those that ended; 0: none did */

    bool loader; /**< there is one; the next are of the one that gave a batch last */
    uint64_t workers, io_depth;
    uint64_t ready, depth; /**< finished batches that wait, of so many */
    uint64_t memory_bytes, memory_budget;
    double wait_share;                 /**< of the time, that the step waited for a batch, */
    double wait_shares[STK_WAIT_ROOM]; /**< by cause, by stk_wait */
    char limit[32];                    /**< what limits it: stk_limit_name(); empty: unknown */
    char verdict[1024];                /**< in words */

    uint32_t usable_cores;
    double process_cores, machine_cores; /**< in use, of this process and of all */
    uint64_t process_bytes;              /**< anonymous and shared memory */

    uint32_t num_workers; /**< of `worker`: those that did something and are there */
    stk_live_worker worker[STK_LIVE_WORKERS];
    uint32_t num_metrics;
    stk_live_metric metric[STK_LIVE_METRICS]; /**< of a training, those of its progress bar */
    uint32_t num_loaders; /**< of `loaders`: all that are at work, up to so many */
    stk_live_loader loaders[STK_LIVE_LOADERS]; /**< in the order in which they were made */
} stk_live_state;

/**
 * Open a sheet of what happens in `context`: its loaders, trainers, progress and reads.
 *
 * `command` and `label` name the run. Ownership: *out is the caller's, ended with stk_live_close()
 * before the context is destroyed. Thread: any. Errors: STK_EBUSY with too many listeners of the
 * context; STK_ENOMEM, STK_ETHREAD, STK_ESYSTEM, STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_live_open(stk_context *context, const char *command,
                                               const char *label, stk_live **out, stk_error *err);
/** The state as it was written last. Any thread; zeros in a child of fork(). */
STK_API void stk_live_get(const stk_live *live, stk_live_state *out);
/** End it and set *live to NULL. Accepts NULL. */
STK_API void stk_live_close(stk_live **live);

/**
 * Read the state of process `pid`, or of the only run among those that it has started. Nothing of
 * it is mapped, and what it holds is checked: it is another program's.
 *
 * Errors: STK_ENOENT (no such process, or nothing that Stoker runs in it), STK_EACCES (another
 * user's), STK_EMISMATCH (of another version), STK_EAGAIN (it was being written all the time),
 * STK_EINVAL (it has started several).
 */
STK_API STK_NODISCARD stk_status stk_live_read(int64_t pid, stk_live_state *out, stk_error *err);
/** The same of one of several sheets of that process, as each loader of Python has its own: number
 * `i` in the order of their descriptors. STK_EOS: there is none any more. */
STK_API STK_NODISCARD stk_status stk_live_read_at(int64_t pid, size_t i, stk_live_state *out,
                                                  stk_error *err);
/** Processes of this user that can be read, in rising order: their number, of which `room` at most
 * are written. */
STK_API size_t stk_live_list(int64_t *pids, size_t room);

/** As one JSON object, and in the text format of Prometheus (version 0.0.4). Return the length, as
 * snprintf(). */
STK_API int stk_live_format(const stk_live_state *state, char *text, size_t size);
STK_API int stk_live_metrics(const stk_live_state *state, char *text, size_t size);

/** What stk_live_format() wrote, of any version: members that are not known, or are of another
 * type, are passed over. Errors: STK_EFORMAT. */
STK_API STK_NODISCARD stk_status stk_live_parse(const char *text, size_t length,
                                                stk_live_state *out, stk_error *err);
/**
 * Ask the page that a run serves (stk_live_serve()) for its state. `url` is the one that it
 * printed: "http://HOST:PORT/", with "?token=..." where it has one. Blocks: 10 s at most, once the
 * name of the host is known. Any thread.
 *
 * Errors: STK_EINVAL (no such URL, or no such host), STK_ENOENT (nothing listens there), STK_EACCES
 * (the token), STK_EIO, STK_ETIMEDOUT, STK_EFORMAT (something else answers).
 */
STK_API STK_NODISCARD stk_status stk_live_fetch(const char *url, stk_live_state *out,
                                                stk_error *err);

/* ---- The page -------------------------------------------------------------------------------- */

/** Where a page is shown: a socket that listens, from stk_live_bind(). Plain memory; a child of
 * fork() may use it, and connections wait until somebody serves them. */
typedef struct stk_live_address {
    uint32_t struct_size;
    int socket; /**< -1: none */
    uint16_t port;
    bool local;     /**< of this machine alone: no token is asked for */
    char token[33]; /**< that each request has to give: ?token=, or Authorization: Bearer */
    char url[256];  /**< what a browser opens, with the token */
} stk_live_address;

/**
 * Listen at "PORT", ":PORT" or "ADDRESS:PORT" ("[::1]:8080"); without an address that of this
 * machine alone (127.0.0.1); port 0: one that is free.
 *
 * Ownership: out->socket is the caller's, closed with stk_live_unbind(). Errors: STK_EINVAL, and
 * those of the socket: STK_EBUSY (the port is taken), STK_EACCES, STK_ESYSTEM.
 */
STK_API STK_NODISCARD stk_status stk_live_bind(const char *text, stk_live_address *out,
                                               stk_error *err);
/** Close its socket, where it has one. */
STK_API void stk_live_unbind(stk_live_address *address);

typedef struct stk_live_server stk_live_server;

/**
 * Serve a sheet by HTTP in threads of its own: /, a page that shows it; /events, its states as
 * server-sent events, two a second; /status, the state as JSON; /metrics, for Prometheus. Of a
 * local address requests are refused that name another host, as a page of elsewhere makes a browser
 * do; of any other those that lack the token.
 *
 * Ownership: *out is the caller's, ended with stk_live_stop() before the sheet and the address are.
 * Errors: STK_ENOTSUP (built without libmicrohttpd), STK_ENOMEM, STK_ETHREAD, STK_EFORK.
 */
STK_API STK_NODISCARD stk_status stk_live_serve(stk_live *live, const stk_live_address *address,
                                                stk_live_server **out, stk_error *err);
/** End it, with the connections that there are, and set *server to NULL. Accepts NULL. */
STK_API void stk_live_stop(stk_live_server **server);

#ifdef __cplusplus
}
#endif
#endif
