/* metrics -> a journal in the run's folder -> a server */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_REMOTE_REMOTE_H
#define STK_SRC_TRAIN_REMOTE_REMOTE_H

#include "train/loggers/run_folder.h"
#include "train/remote/journal.h"

extern const stk_logger_ops stk__logger_mlflow, stk__logger_wandb;

/* Which checkpoints in the run's folder become lines of the journal, to be sent. */
enum { STK__LOG_MODEL_FALSE, STK__LOG_MODEL_TRUE, STK__LOG_MODEL_ALL };
#define STK__LOG_MODEL_WORDS "false|true|all"

/* Their journals in the folder of a run, and how far that is sent. */
#define STK__MLFLOW_JOURNAL "mlflow.jsonl"
#define STK__MLFLOW_MARK    "mlflow.sent"
#define STK__WANDB_JOURNAL  "wandb.jsonl"

/* ---- journal_writer.c: a journal that is written ---- */

typedef struct stk__run_journal_writer {
    stk_context *ctx;
    stk__run_folder run;
    stk_mirror *mirror; /* of the file, which another store may be to have */
    const char *path;   /* the mirror's */
    int fd;             /* locked while it is open */
    uint64_t size;      /* of the file: whole lines, but one that was torn before */
    stk__bytes lines;
    int32_t log_model;
    char *listed;   /* names and times of the files that are lines already, each with a '\n' */
    bool ended;     /* finalize() was called, and nothing logged since */
    stk_status how; /* the last task ended */
} stk__run_journal_writer;

/* A text of a run that its first line keeps, for those who send it. */
typedef struct stk__run_journal_option {
    const char *name, *value; /* NULL or "": not said */
} stk__run_journal_option;

/*
 * Open the folder of a run and the journal `name` in it, whose first line is written where it is
 * new; `tags` are "name=value, ..." of that line. Errors: those of stk__run_folder_open();
 * STK_EBUSY where another process writes it.
 */
stk_status stk__run_journal_writer_open(stk_logger *logger, const char *name,
                                        const stk__logger_options *folder, const char *root,
                                        const stk__run_journal_option *options, size_t n,
                                        const char *tags, stk__run_journal_writer *out,
                                        stk_error *err);
/* Releases all; what was not flushed is lost. */
void stk__run_journal_writer_close(stk__run_journal_writer *writer);

/* What both loggers begin with, and functions of stk_logger_ops that need no more. */
typedef struct stk__remote_logger {
    stk_logger base;
    stk__run_journal_writer journal;
} stk__remote_logger;

stk_status stk__remote_metrics(stk_logger *logger, const stk_metric *metrics, size_t n,
                               int64_t step, double time, stk_error *err);
stk_status stk__remote_params(stk_logger *logger, const stk_hparam *params, size_t n,
                              stk_error *err);
/* Lines reach the disk; finalize(): also the other store, if it is one. */
stk_status stk__remote_flush(stk_logger *logger, stk_error *err);
stk_status stk__remote_finalize(stk_logger *logger, stk_error *err);
void stk__remote_ended(stk_logger *logger, stk_status how);
/* The last line, of how it ended. False: it could not be written, which is said. */
bool stk__remote_end(stk__remote_logger *logger);
/* Say where the journal is, and what sends it. */
void stk__remote_say_kept(const stk__remote_logger *logger);

/* Lock an open journal against other processes. STK_EBUSY. */
stk_status stk__run_journal_lock(int fd, const char *path, stk_error *err);

#endif
