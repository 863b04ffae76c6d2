/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event files of TensorBoard: records of { uint64 length, masked crc32c of it, data, masked crc32c
 * of the data }, where the data is a protobuf message Event [tensorflow/core/util/event.proto,
 * framework/summary.proto]. Written by hand: there are six messages.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <stoker/store.h>

#include "base/bytes.h"
#include "base/durable.h"
#include "base/files.h"
#include "base/url.h"
#include "train/loggers/event_file.h"
#include "train/loggers/loggers.h"
#include "train/loggers/run_folder.h"

#define WRITE_BYTES (64 * 1024) /* records are kept up to here */
#define NAME_TRIES  1000

typedef struct board_logger {
    stk_logger base;
    stk__run_folder run;
    stk_mirror *mirror; /* of the file, which another store may be to have */
    const char *path;   /* the mirror's */
    int fd;
    uint64_t size; /* of the file: whole records */
    stk__bytes records, message, name;
} board_logger;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for an event file");
}

/* Write the records that are kept; no part of one stays when that fails. */
static stk_status write_records(board_logger *board, stk_error *err)
{
    size_t length = board->records.length;

    if (length == 0)
        return STK_OK;
    if (stk__bytes_write(&board->records, board->fd) < 0) {
        int error = errno;
        if (ftruncate(board->fd, (off_t)board->size) < 0)
            stk__message(board->base.context, STK_MESSAGE_WARNING, "'%s' ends within a record",
                         board->path);
        return stk__durable_fail(err, "write", board->path, error);
    }
    board->size += length;
    return STK_OK;
}

/* Keep the message as a record. */
static stk_status put_record(board_logger *board, stk_error *err)
{
    size_t before = board->records.length;

    if (!stk__event_record(&board->records, board->message.data, board->message.length)) {
        board->records.length = before;
        return no_memory(err);
    }
    return board->records.length >= WRITE_BYTES ? write_records(board, err) : STK_OK;
}

static void board_free(board_logger *board)
{
    stk_context *ctx = board->base.context;
    stk_error err;

    if (board->fd >= 0)
        close(board->fd);
    if (stk_mirror_close(&board->mirror, &err) != STK_OK)
        stk__message(ctx, STK_MESSAGE_ERROR, "%s", err.text);
    stk__bytes_release(&board->records);
    stk__bytes_release(&board->message);
    stk__bytes_release(&board->name);
    stk__run_folder_release(ctx, &board->run);
    stk__free(ctx, board);
}

/* A new file: events.out.tfevents.<time>.<host>.<pid>.<n>. */
static stk_status create_file(board_logger *board, stk_error *err)
{
    static atomic_uint serial;
    stk_context *ctx = board->base.context;
    char host[256], name[400];

    if (gethostname(host, sizeof host - 1) < 0 || !host[0] || strchr(host, '/'))
        memcpy(host, "localhost", 10);
    host[sizeof host - 1] = 0;
    for (int i = 0; board->fd < 0; i++) {
        snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%d.%u",
                 (long long)stk__wall_seconds(), host, (int)getpid(), atomic_fetch_add(&serial, 1));
        STK_TRY(stk_mirror_close(&board->mirror, err));
        char *url = stk__url_below(ctx, board->run.log_dir, name);
        stk_status status = url ? stk_mirror_open(ctx, url, &board->mirror, err) : no_memory(err);
        stk__free(ctx, url);
        STK_TRY(status);
        board->path = stk_mirror_path(board->mirror);
        board->fd = open(board->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (board->fd < 0 && (errno != EEXIST || i == NAME_TRIES))
            return stk__durable_fail(err, "write", board->path, errno);
    }
    if (!stk__url_elsewhere(ctx, board->run.log_dir))
        STK_TRY(stk__durable_sync_path(board->run.log_dir, err));
    board->message.length = 0;
    if (!stk__event_begin(&board->message, stk__wall_seconds(), 0) ||
        !stk__proto_text(&board->message, STK__EVENT_FILE_VERSION, "brain.Event:2"))
        return no_memory(err);
    return put_record(board, err);
}

static stk_status board_open(stk_context *ctx, const void *options, const char *root,
                             stk_logger **out, stk_error *err)
{
    *out = NULL;
    board_logger *board = stk__calloc(ctx, 1, sizeof *board);
    if (!board)
        return no_memory(err);
    board->base.ops = &stk__logger_tensorboard;
    board->base.context = ctx;
    board->records.ctx = board->message.ctx = board->name.ctx = ctx;
    board->fd = -1;
    stk_status status = stk__run_folder_open(ctx, options, root, &board->run, &board->base, err);
    if (status == STK_OK)
        status = create_file(board, err);
    if (status == STK_OK)
        status = write_records(board, err);
    if (status != STK_OK) {
        board_free(board);
        return status;
    }
    *out = &board->base;
    return STK_OK;
}

static stk_status board_flush(stk_logger *logger, stk_error *err)
{
    board_logger *board = (board_logger *)logger;

    STK_TRY(write_records(board, err));
    STK_TRY(stk_mirror_flush(board->mirror, false, err));
    /* Some disks say only now that they are full. */
    return stk__sync(board->fd) == 0 ? STK_OK
                                     : stk__durable_fail(err, "make durable", board->path, errno);
}

static stk_status board_finalize(stk_logger *logger, stk_error *err)
{
    STK_TRY(board_flush(logger, err));
    stk__log_put(logger->context, ((board_logger *)logger)->mirror);
    return STK_OK;
}

static void board_close(stk_logger *logger)
{
    board_logger *board = (board_logger *)logger;
    stk_error err;

    if (write_records(board, &err) != STK_OK)
        stk__message(logger->context, STK_MESSAGE_ERROR, "%s", err.text);
    board_free(board);
}

static stk_status board_log_metrics(stk_logger *logger, const stk_metric *metrics, size_t n,
                                    int64_t step, double wall_time, stk_error *err)
{
    board_logger *board = (board_logger *)logger;
    stk__bytes *m = &board->message;

    m->length = 0;
    bool good = stk__event_begin(m, wall_time, step);
    size_t summary = good ? stk__proto_begin(m, STK__EVENT_SUMMARY) : 0;
    for (size_t i = 0; i < n && good; i++) {
        board->name.length = 0;
        good = stk__bytes_text(&board->name, board->run.prefix) &&
               stk__bytes_put(&board->name, metrics[i].name, strlen(metrics[i].name) + 1) &&
               stk__event_scalar(m, board->name.data, metrics[i].value);
    }
    if (!good || !stk__proto_end(m, summary))
        return no_memory(err);
    return put_record(board, err);
}

static stk_status board_log_hyperparams(stk_logger *logger, const stk_hparam *params, size_t n,
                                        stk_error *err)
{
    board_logger *board = (board_logger *)logger;
    stk__bytes *m = &board->message;
    double now = stk__wall_seconds();

    STK_TRY(stk__hparams_write(logger->context, logger->log_dir, params, n, err));
    m->length = 0;
    if (!stk__event_begin(m, now, 0) || !stk__event_hparams_table(m, params, n))
        return no_memory(err);
    STK_TRY(put_record(board, err));
    m->length = 0;
    if (!stk__event_begin(m, now, 0) || !stk__event_hparams_session(m, params, n, now))
        return no_memory(err);
    return put_record(board, err);
}

static const stk_option_table table = {
    .name = "tensorboard",
    .doc = "Metrics as event files of TensorBoard.",
    .struct_size = sizeof(stk__logger_options),
    .options = stk__logger_option_list,
    .count = STK__LOGGER_OPTION_COUNT,
};

const stk_logger_ops stk__logger_tensorboard = {
    .struct_size = sizeof(stk_logger_ops),
    .name = "tensorboard",
    .doc = "Metrics as event files of TensorBoard.",
    .options = &table,
    .open = board_open,
    .close = board_close,
    .log_metrics = board_log_metrics,
    .log_hyperparams = board_log_hyperparams,
    .flush = board_flush,
    .finalize = board_finalize,
};
