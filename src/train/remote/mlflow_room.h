/* what the files that speak with MLflow share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_REMOTE_MLFLOW_ROOM_H
#define STK_SRC_TRAIN_REMOTE_MLFLOW_ROOM_H

#include "train/remote/mlflow.h"

#define STK__MLFLOW_ANSWER (UINT64_C(1) << 20)

struct stk__mlflow {
    stk_context *ctx;
    stk__http_service *service;
    stk__mlflow_place place; /* its texts are copies, in `texts` */
    char *texts[8];
    char id[STK__RUN_JOURNAL_ID]; /* of the journal; "": not read yet */
    double started;
    stk__run_journal_mark mark;
    stk__run_journal_reader reader;
    uint64_t singly; /* lines before this offset go one by one; 0: none */
    bool said_unsent;
    stk__mlflow_sent sent;
};

/* Have a run to send to: that of the mark, or one that the server knows by the journal's id, or a
 * new one. */
stk_status stk__mlflow_begin(stk__mlflow *mlflow, const stk_store_call *call, stk_error *err);
/* One request in JSON, whose body is released; `answer` (NULL: not looked at) is to be dropped.
 * *code: of the answer, 0: there was none. */
stk_status stk__mlflow_ask(stk__mlflow *mlflow, const char *method, const char *target,
                           stk__text *body, const stk_store_call *call, stk__json *answer,
                           int *code, stk_error *err);

#endif
