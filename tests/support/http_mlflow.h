/* What the tests' web server has of MLflow's tracking server. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_HTTP_MLFLOW_H
#define STK_TESTS_SUPPORT_HTTP_MLFLOW_H

#include "support/http_parts.h"

http_mlflow *http_mlflow_create(void);
void http_mlflow_destroy(http_mlflow *mlflow);
/* False: it is no request of its REST API, as those of artifacts, which are plain objects. */
bool http_mlflow_answer(http_server *server, const http_request *request, http_answer *answer);
/* All that it holds, as JSON. */
void http_mlflow_dump(http_mlflow *mlflow, http_text *out);

#endif
