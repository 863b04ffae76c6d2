/* what is logged -> lines of a file, and back */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_REMOTE_JOURNAL_H
#define STK_SRC_TRAIN_REMOTE_JOURNAL_H

#include <stoker/module.h>

#include "base/bytes.h"
#include "base/json.h"

/*
 * The journal of a run: one JSON object a line, appended and never changed. A line is one of
 *
 *   {"journal": 1, "id": "0123...", "time": S, "options": {"experiment_name": "..."}}
 *   {"params": [["lr", "0.1"]]}          100 pairs at most
 *   {"tags": [["team", "a"]]}            likewise
 *   {"metrics": [["loss", 0.5]], "step": N, "time": S}    500 pairs at most
 *   {"file": "checkpoints/a.ckpt"}       a file of the run's folder, whole
 *   {"end": "FINISHED", "time": S}         or "FAILED", or "KILLED" where it was interrupted
 *
 * where S are seconds since 1970. The first line is of the first kind, alone. A line that is none
 * of these is passed over: the last one of a process that was killed may be torn.
 */

#define STK__RUN_JOURNAL_ID      33        /* bytes of an id, with its end */
#define STK__RUN_JOURNAL_METRICS 500       /* of a line */
#define STK__RUN_JOURNAL_PAIRS   100       /* params or tags of a line */
#define STK__RUN_JOURNAL_BYTES   (1 << 16) /* beyond so many a line takes no further pair */

/* ---- Writing: each appends whole lines; false: no memory, and nothing was appended ---- */

bool stk__run_journal_add_params(stk__bytes *to, const char *kind, const stk_hparam *params,
                                 size_t n);
/* Names with `prefix` in front. */
bool stk__run_journal_add_metrics(stk__bytes *to, const char *prefix, const stk_metric *metrics,
                                  size_t n, int64_t step, double time);
bool stk__run_journal_add_file(stk__bytes *to, const char *name);
bool stk__run_journal_add_end(stk__bytes *to, const char *how, double time);

/* ---- Reading ---- */

typedef enum stk__run_journal_kind {
    STK__RUN_JOURNAL_NOTHING, /* a line that says nothing: torn, damaged, or of a later version */
    STK__RUN_JOURNAL_START,
    STK__RUN_JOURNAL_PARAMS,
    STK__RUN_JOURNAL_TAGS,
    STK__RUN_JOURNAL_MEASURED,
    STK__RUN_JOURNAL_FILE,
    STK__RUN_JOURNAL_END
} stk__run_journal_kind;

/* A line. Texts and pairs are of `json`. */
typedef struct stk__run_journal_line {
    stk__run_journal_kind kind;
    stk__json json;
    const json_t *pairs;   /* PARAMS, TAGS, MEASURED: a list of [text, text] or [text, number] */
    int64_t step;          /* MEASURED */
    double time;           /* START, MEASURED, END */
    const char *text;      /* START: id; FILE: name; END: how */
    const json_t *options; /* START: an object of texts */
} stk__run_journal_line;

/* Take the line at `text`, of `length` bytes without its '\n'. STK_ENOMEM alone is a failure. */
stk_status stk__run_journal_take(stk_context *ctx, const char *text, size_t length,
                                 stk__run_journal_line *out, stk_error *err);
void stk__run_journal_line_release(stk_context *ctx, stk__run_journal_line *line);
/* Pair `i` of a line: name, and text or value, of which the other is NULL or NaN. */
const char *stk__run_journal_pair(const stk__run_journal_line *line, size_t i, const char **text,
                                  double *value);

/* A journal that is read from an offset on, while it may grow. */
typedef struct stk__run_journal_reader {
    stk_context *ctx;
    const char *path; /* the caller's */
    int fd;
    uint64_t offset; /* of the next line */
    stk__bytes text; /* read from `from` on */
    uint64_t from;
} stk__run_journal_reader;

stk_status stk__run_journal_open(stk_context *ctx, const char *path, uint64_t offset,
                                 stk__run_journal_reader *out, stk_error *err);
void stk__run_journal_close(stk__run_journal_reader *reader);
/* Go on at an offset, that of a line. */
void stk__run_journal_seek(stk__run_journal_reader *reader, uint64_t offset);
/* The next line that ends before `end` bytes; its text is valid until the next call. STK_EOS: there
 * is none. */
stk_status stk__run_journal_next(stk__run_journal_reader *reader, uint64_t end, const char **line,
                                 size_t *length, stk_error *err);

/* ---- What was sent ---- */

/* How far the journal with that id is sent, to which run of which server. */
typedef struct stk__run_journal_mark {
    char id[STK__RUN_JOURNAL_ID]; /* "": nothing was */
    uint64_t offset;
    char uri[512], run[128], experiment[128], artifacts[512];
} stk__run_journal_mark;

/* `path` is a path or URL; one that is not there, or damaged, is a mark of nothing. */
stk_status stk__run_journal_mark_read(stk_context *ctx, const char *path,
                                      stk__run_journal_mark *out, stk_error *err);
/* Replaces what was there, durably. */
stk_status stk__run_journal_mark_write(stk_context *ctx, const char *path,
                                       const stk__run_journal_mark *mark, stk_error *err);

#endif
