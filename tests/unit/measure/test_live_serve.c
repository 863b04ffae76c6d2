/* SPDX-License-Identifier: Apache-2.0 */
/* The live page: where it may lie, who may ask, and what is answered, on loopback and a port that
 * is free. */
#include "support/support.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure/live.h"

#define ANSWER 262144

static stk_live_address bound(const char *text)
{
    stk_live_address address = {.struct_size = sizeof address};
    stk_error err;

    assert_ok(stk_live_bind(text, &address, &err), &err);
    return address;
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {"",       ":",     "x",    "65536", "1.2.3.4",
                                      "name:1", "[::1]", "1:2x", "-1",    "[1.2.3.4:5"};
    stk_live_address address = {.struct_size = sizeof address};
    char text[64], url[64];
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(bad); i++)
        assert_fails(stk_live_bind(bad[i], &address, &err), STK_EINVAL, &err, "'");
    address = bound(":0");
    assert_true(address.local && address.port && !*address.token);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", address.port);
    assert_string_equal(address.url, url);
    snprintf(text, sizeof text, "localhost:%u", address.port);
    stk_live_address other = {.struct_size = sizeof other};
    assert_fails(stk_live_bind(text, &other, &err), STK_EBUSY, &err, "another port");
    stk_live_unbind(&address);
    assert_int_equal(address.socket, -1);
    stk_live_unbind(&address);
    address = bound("0.0.0.0:0");
    assert_true(!address.local && strlen(address.token) == 32);
    assert_non_null(strstr(address.url, address.token));
    other = bound("0.0.0.0:0");
    assert_string_not_equal(other.token, address.token);
    stk_live_unbind(&address);
    stk_live_unbind(&other);
}

struct world {
    stk_context *context;
    stk_live *live;
    stk_live_address address;
    stk_live_server *server;
};

static void begin(struct world *w, const char *where)
{
    stk_error err;

    w->context = test_context();
    w->address = bound(where);
    assert_ok(stk_live_open(w->context, "test", "<b>\"x\"</b>", &w->live, &err), &err);
    assert_ok(stk_live_serve(w->live, &w->address, &w->server, &err), &err);
}

static void end(struct world *w)
{
    stk_live_stop(&w->server);
    assert_null(w->server);
    stk_live_unbind(&w->address);
    stk_live_close(&w->live);
    stk_context_destroy(&w->context);
}

static int ask(const struct world *w, const char *request)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(w->address.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
    return fd;
}

/* The answer to "METHOD PATH", a connection for itself; `heads` end with a line end each. */
static char *get(const struct world *w, const char *what, const char *heads)
{
    char request[1024], *answer = calloc(1, ANSWER);
    size_t n = 0;
    ssize_t got;

    assert_non_null(answer);
    snprintf(request, sizeof request, "%s HTTP/1.1\r\n%sConnection: close\r\n\r\n", what, heads);
    const int fd = ask(w, request);
    while (n < ANSWER - 1 && (got = recv(fd, answer + n, ANSWER - 1 - n, 0)) > 0)
        n += (size_t)got;
    close(fd);
    return answer;
}

static void check(const struct world *w, const char *what, const char *heads, const char *status,
                  const char *part)
{
    char *answer = get(w, what, heads);
    char line[64];

    snprintf(line, sizeof line, "HTTP/1.1 %s", status);
    if (strncmp(answer, line, strlen(line)) != 0 || !strstr(answer, part))
        fail_msg("%s: not '%s' with '%s', but: %.400s", what, line, part, answer);
    free(answer);
}

#define HERE "Host: localhost:1\r\n"

static void test_answers(void **state)
{
    struct world w;

    begin(&w, "0");
    check(&w, "GET /metrics", HERE, "200", "\nstoker_samples_total 0\n");
    check(&w, "GET /metrics", HERE, "200", "Content-Type: text/plain; version=0.0.4");
    check(&w, "GET /status", HERE, "200", "Content-Type: application/json");
    check(&w, "GET /", HERE, "200",
          "Content-Security-Policy: default-src 'none'; img-src data:; connect-src 'self'");
    check(&w, "GET /", HERE, "200", "new EventSource(");
    check(&w, "GET /nothing", HERE, "404", "/status");
    check(&w, "POST /status", HERE "Content-Length: 0\r\n", "405", "GET");
    check(&w, "HEAD /status", HERE, "200", "nosniff");
    char *answer = get(&w, "GET /status", HERE);
    json_t *json = json_loads(strstr(answer, "\r\n\r\n") + 4, 0, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "label")), "<b>\"x\"</b>");
    assert_int_equal(json_integer_value(json_object_get(json, "pid")), getpid());
    json_decref(json);
    free(answer);
    /* Nothing of a run is in the page itself. */
    answer = get(&w, "GET /", HERE);
    assert_null(strstr(answer, "@S"));
    assert_null(strstr(answer, "http://"));
    free(answer);
    end(&w);
}

/* Another page, whose name was made to lead here, is refused: it has its own name in Host. */
static void test_other_names(void **state)
{
    struct world w;

    begin(&w, "127.0.0.1:0");
    check(&w, "GET /status", "Host: evil.example\r\n", "403", "own name");
    check(&w, "GET /status", "Host: 127.0.0.1.evil.example:80\r\n", "403", "own name");
    check(&w, "GET /status", "Host: localhost.evil\r\n", "403", "own name");
    check(&w, "GET /events", "Host: 1\r\n", "403", "own name");
    check(&w, "GET /status", "Host: 127.0.0.1\r\n", "200", "{");
    check(&w, "GET /status", "Host: [::1]:99\r\n", "200", "{");
    end(&w);
}

static void test_token(void **state)
{
    char what[128], heads[128];
    struct world w;

    begin(&w, "0.0.0.0:0");
    check(&w, "GET /status", HERE, "401", "token");
    check(&w, "GET /", HERE, "401", "token");
    check(&w, "GET /status?token=", HERE, "401", "token");
    snprintf(what, sizeof what, "GET /status?token=%.31s", w.address.token);
    check(&w, what, HERE, "401", "token");
    snprintf(what, sizeof what, "GET /status?token=%s", w.address.token);
    check(&w, what, "Host: any.example\r\n", "200", "{");
    snprintf(heads, sizeof heads, HERE "Authorization: Bearer %s\r\n", w.address.token);
    check(&w, "GET /metrics", heads, "200", "stoker_epoch 0\n");
    end(&w);
}

/* States come one after the other; the end of the server ends the stream. */
static void test_events(void **state)
{
    char text[65536];
    struct world w;
    size_t n = 0;
    int events = 0;

    begin(&w, "0");
    const int fd = ask(&w, "GET /events HTTP/1.1\r\n" HERE "\r\n");
    while (events < 2) {
        const ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        assert_true(got > 0);
        n += (size_t)got;
        text[n] = 0;
        events = 0;
        for (const char *p = text; (p = strstr(p, "data: {\"stoker\"")); p++)
            events++;
    }
    assert_non_null(strstr(text, "Content-Type: text/event-stream"));
    end(&w);
    while (recv(fd, text, sizeof text, 0) > 0)
        continue;
    close(fd);
}

/* Built without libmicrohttpd it says so. */
static void test_without(void **state)
{
    stk_live_address address = bound("0");
    stk_context *context = test_context();
    stk_live_server *server;
    stk_live *live;
    stk_error err;

    assert_ok(stk_live_open(context, "test", "", &live, &err), &err);
    assert_fails(stk_live_serve(live, &address, &server, &err), STK_ENOTSUP, &err, "stoker top");
    stk_live_stop(&server);
    stk_live_close(&live);
    stk_live_unbind(&address);
    stk_context_destroy(&context);
}

static bool is_built_in(void)
{
    struct world w = {.context = test_context(), .address = bound("0")};
    stk_error err;

    assert_ok(stk_live_open(w.context, "test", "", &w.live, &err), &err);
    const bool is = stk_live_serve(w.live, &w.address, &w.server, &err) != STK_ENOTSUP;
    end(&w);
    return is;
}

/* A server that answers one connection with a text and ends. */
static void answer_once(int listener, const char *text)
{
    char request[2048];
    const int fd = accept(listener, NULL, NULL);

    if (fd < 0 || recv(fd, request, sizeof request, 0) <= 0 ||
        send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        _exit(1);
    shutdown(fd, SHUT_WR);
    while (recv(fd, request, sizeof request, 0) > 0)
        continue;
    _exit(0);
}

static void test_fetched(void **state)
{
    stk_live_state s = {.struct_size = sizeof s};
    char url[400];
    struct world w;
    stk_error err;

    begin(&w, "0");
    assert_ok(stk_live_fetch(w.address.url, &s, &err), &err);
    assert_string_equal(s.label, "<b>\"x\"</b>");
    assert_int_equal(s.pid, getpid());
    snprintf(url, sizeof url, "http://localhost:%u", w.address.port);
    assert_ok(stk_live_fetch(url, &s, &err), &err);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/metrics?x=1#y", w.address.port);
    assert_ok(stk_live_fetch(url, &s, &err), &err);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/below/", w.address.port);
    assert_fails(stk_live_fetch(url, &s, &err), STK_EIO, &err, "404");
    end(&w);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", w.address.port);
    assert_fails(stk_live_fetch(url, &s, &err), STK_ENOENT, &err, "--dashboard");

    begin(&w, "0.0.0.0:0");
    snprintf(url, sizeof url, "http://127.0.0.1:%u/?a=b&token=%s", w.address.port, w.address.token);
    assert_ok(stk_live_fetch(url, &s, &err), &err);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", w.address.port);
    assert_fails(stk_live_fetch(url, &s, &err), STK_EACCES, &err, "token");
    end(&w);
}

static void test_fetched_of_others(void **state)
{
    static const char *const bad[] = {"",
                                      "127.0.0.1:80",
                                      "https://127.0.0.1/",
                                      "http://",
                                      "http://:80",
                                      "http://[::1]x:80/",
                                      "http://127.0.0.1:99999999/",
                                      "http://a b/",
                                      "http://h/?token=a\r\nX: y",
                                      "http://127.0.0.1:http-not-a-port/"};
    static const char *const answers[] = {"SSH-2.0-OpenSSH\r\n", "HTTP/1.1 200 OK\r\n\r\n",
                                          "HTTP/1.0 200 OK\r\n\r\n[1]", ""};
    stk_live_address address = bound("0");
    stk_live_state s = {.struct_size = sizeof s};
    stk_error err;
    int code;

    for (size_t i = 0; i < STK_COUNT(bad); i++)
        assert_int_equal(stk_live_fetch(bad[i], &s, &err), STK_EINVAL);
    for (size_t i = 0; i < STK_COUNT(answers); i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            answer_once(address.socket, answers[i]);
        assert_int_equal(stk_live_fetch(address.url, &s, &err), STK_EFORMAT);
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_int_equal(code, 0);
    }
    stk_live_unbind(&address);
}

int main(void)
{
    const struct CMUnitTest with[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_other_names),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_fetched),
        cmocka_unit_test(test_fetched_of_others),
    };
    const struct CMUnitTest without[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_without),
    };

    return is_built_in() ? cmocka_run_group_tests(with, NULL, NULL)
                         : cmocka_run_group_tests(without, NULL, NULL);
}
