/* SPDX-License-Identifier: Apache-2.0 */
/* Requests below "/-/": what a test that is no program of ours asks the server as a program. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/http_mlflow.h"

static void say_counters(http_server *server, http_text *out)
{
    const http_counters c = http_server_counters(server);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"requests", c.requests},
        {"ranges", c.ranges},
        {"heads", c.heads},
        {"changes", c.changes},
        {"lists", c.lists},
        {"failed", c.failed},
        {"struck", c.struck},
        {"bytes-sent", c.bytes_sent},
        {"bytes-taken", c.bytes_taken},
        {"connections", c.connections},
        {"open", c.open},
        {"most-connections", c.most_connections},
        {"active", c.active},
        {"most-requests", c.most_requests},
        {"rounds", c.rounds},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        http_text_add(out, "%s %" PRIu64 "\n", rows[i].name, rows[i].value);
}

static uint64_t word(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* What a body says: false, there is no such request or body. */
static bool obey(http_server *server, const char *what, const char *body, http_answer *a)
{
    if (strcmp(what, "fault") == 0) {
        const int number = http_server_fault_text(server, body);

        http_text_add(&a->text, "%d\n", number);
        return number > 0;
    }
    if (strcmp(what, "struck") == 0)
        http_text_add(&a->text, "%" PRIu64 "\n",
                      http_server_struck(server, (int)strtol(body, NULL, 10)));
    else if (strcmp(what, "shape") == 0)
        http_server_shape(server, (uint32_t)word(body, "latency-ms="), word(body, "bandwidth="),
                          word(body, "bandwidth-all="));
    else if (strcmp(what, "token") == 0)
        http_server_token(server, *body ? body : NULL);
    else if (strcmp(what, "mend") == 0)
        http_server_mend(server);
    else if (strcmp(what, "reset") == 0)
        http_server_reset_counters(server);
    else
        return false;
    return true;
}

bool http_control(const http_server *server, const http_request *request)
{
    return server->options.control && strncmp(request->path, "/-/", 3) == 0;
}

void http_control_answer(http_server *server, const http_request *request, http_answer *a)
{
    const char *what = request->path + 3;
    char *body = http_body_text(request);

    a->status = 200;
    if (strcmp(request->method, "GET") == 0 && strcmp(what, "counters") == 0)
        say_counters(server, &a->text);
    else if (strcmp(request->method, "GET") == 0 && strcmp(what, "mlflow") == 0 && server->mlflow)
        http_mlflow_dump(server->mlflow, &a->text);
    else if (!body || strcmp(request->method, "POST") != 0 || !obey(server, what, body, a))
        http_answer_error(a, request, 400, NULL);
    free(body);
}
