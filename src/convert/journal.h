/* What is finished of a target, kept in a file of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_JOURNAL_H
#define STK_SRC_CONVERT_JOURNAL_H

#include "base/bytes.h"
#include "convert/target.h"

/*
 * The journal is text: a head that says what is converted and how, then a line for each finished
 * file, appended when the file has its name, durably, and before anybody relies on it. Every line
 * ends in a checksum. A torn last line is what a kill leaves: reading ends there, and the file is
 * done again. In another store than a local folder it is a mirror, put at its beginning, at most
 * every 30 s, and at its end: what is in no line that was put is done again.
 *
 *     stoker-convert 1
 *     source images /data/train
 *     option max_side 512
 *     done KIND RENAMED SOURCE_SIZE SOURCE_MTIME SIZE SSE SAMPLES KEY SUM
 *     old SIZE NAME SUM
 *
 * The journal of arrays has numbers in the place of names, and a line that says of what:
 *
 *     plan FINGERPRINT
 *     object NODE NUMBER SIZE SUM
 *     end SUM
 *
 * That of shards has the same lines, with the samples up to a shard's end in the place of NODE, and
 * of old shards the last, which stands for all of them.
 *
 * "old" are files of an earlier conversion that may have no place in this one: at its end they are
 * removed where nothing of their name was written and they still have that size. Bytes that would
 * end a word are %XX. A whole line that is no such line is damage: it is refused.
 */

typedef enum stk__done_kind {
    STK__DONE_NOT = 0,
    STK__DONE_COPIED,
    STK__DONE_KEPT_PNG,
    STK__DONE_REWRITTEN,
    STK__DONE_ENCODED,
    /* Below: never in the journal. */
    STK__DONE_REPEATED,
    STK__DONE_SKIPPED
} stk__done_kind;

/* One finished file. */
typedef struct stk__done {
    uint64_t source_size, size;
    int64_t mtime_ns;
    uint64_t sse, samples; /* sum of squared errors over so many values; samples 0: not compared */
    uint8_t kind;          /* stk__done_kind */
    bool renamed;          /* its name has another ending than the source's */
    bool earlier;          /* it is from an earlier run */
} stk__done;

/* The head of a journal. */
typedef struct stk__journal_head {
    const char *kind; /* of what is converted: "images" */
    const char *source;
    const stk_option_table *table; /* options that decide what is written */
    const void *options;
    const char *const *skips; /* names of options that do not, NULL-ended; NULL: all do */
    uint64_t plan;            /* a fingerprint of what is written; 0: no line */
    const char *other;        /* what one of other options or another plan is of; NULL: the option
                                 is named, and another plan is of `plan_of` */
    const char *plan_of;      /* NULL: of other arrays */
} stk__journal_head;

/* What reading a journal gives, line by line. A status ends it. */
typedef struct stk__journal_lines {
    stk_status (*done)(void *user, const char *key, const stk__done *done, stk_error *err);
    stk_status (*old)(void *user, const char *name, uint64_t size, stk_error *err);
    /* Of arrays; NULL: such a line is refused. */
    stk_status (*object)(void *user, uint64_t node, uint64_t number, uint64_t size, stk_error *err);
    void (*end)(void *user); /* all that this journal is about is done */
    void *user;
} stk__journal_lines;

/* The journal of a target. */
typedef struct stk__journal {
    stk_mirror *mirror; /* NULL: closed */
    int fd;             /* lines are appended; -1: it was not begun */
    stk__bytes lines;   /* not written yet */
} stk__journal;

/* Of the target of a job, of this name; it need not be there. stk__journal_close() after a failure
 * as well. */
stk_status stk__journal_open(const stk_conversion_job *job, const char *name, stk__journal *journal,
                             stk_error *err);
/*
 * Read what is there. A head that differs is STK_EMISMATCH, naming what differs, unless the job has
 * overwrite; then *fresh is set: what is done there is not done in this conversion.
 */
stk_status stk__journal_read(const stk_conversion_job *job, const stk__journal *journal,
                             const stk__journal_head *head, const stk__journal_lines *lines,
                             bool *fresh, stk_error *err);
/* Begin anew: stk__journal_commit() puts the lines since in the place of what is there, durably,
 * and later ones are appended. */
stk_status stk__journal_begin(stk__journal *journal, const stk__journal_head *head, stk_error *err);
stk_status stk__journal_done(stk__journal *journal, const char *key, const stk__done *done,
                             stk_error *err);
stk_status stk__journal_old(stk__journal *journal, const char *name, uint64_t size, stk_error *err);
stk_status stk__journal_object(stk__journal *journal, uint64_t node, uint64_t number, uint64_t size,
                               stk_error *err);
stk_status stk__journal_end(stk__journal *journal, stk_error *err);
stk_status stk__journal_commit(stk__journal *journal, stk_error *err);
/* Append the lines added since, and make them safe. */
stk_status stk__journal_sync(stk__journal *journal, stk_error *err);
void stk__journal_close(stk__journal *journal);

/* A name as one word: bytes that part or end lines, and '%', become %XX. `out` has room for 3 bytes
 * each and an end. */
void stk__journal_word(const char *name, char *out);

#endif
