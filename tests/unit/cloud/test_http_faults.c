/* SPDX-License-Identifier: Apache-2.0 */
/* The web server of the tests: whom faults strike, how answers end or wait, connections. */
#include <time.h>

#include "unit/cloud/http_fixture.h"

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Which requests ---- */

static int status_of(http_server *server, const char *method, const char *target)
{
    http_got got;

    http_once(server, method, target, NULL, &got);
    return got.status;
}

static void faults_strike_what_they_name(void **state)
{
    http_server *server = *state;

    const int first = http_server_fault(
        server, &(http_fault){.path = "/x", .method = "GET", .skip = 1, .count = 2, .status = 503});
    const int second =
        http_server_fault(server, &(http_fault){.query = "list=", .count = 1, .status = 429});
    assert_int_equal(status_of(server, "GET", "/x"), 200);
    assert_int_equal(status_of(server, "HEAD", "/x"), 200);
    assert_int_equal(status_of(server, "GET", "/other"), 200);
    assert_int_equal(status_of(server, "GET", "/x?list=1"),
                     503); /* the first of those that match */
    assert_int_equal(status_of(server, "GET", "/x"), 503);
    assert_int_equal(status_of(server, "GET", "/x"), 200);
    assert_int_equal(status_of(server, "GET", "/x?a=b&list=1"), 429);
    assert_int_equal(status_of(server, "GET", "/x?a=b&list=1"), 200);
    assert_int_equal(http_server_struck(server, first), 2);
    assert_int_equal(http_server_struck(server, second), 1);
    assert_int_equal(http_server_struck(server, second + 1), 0);
    assert_int_equal(http_server_counters(server).struck, 3);
    http_server_mend(server);
    assert_int_equal(http_server_struck(server, first), 2);
}

static void chances_come_from_the_seed(void **state)
{
    char seen[3][65] = {{0}};
    int struck = 0;

    for (int run = 0; run < 3; run++) {
        http_server *server = start(&(http_server_options){.seed = run < 2 ? 5 : 6});
        const int fd = http_connect(server);
        http_got got;

        http_server_fault(server, &(http_fault){.chance = 0.5, .status = 500});
        for (int i = 0; i < 64; i++) {
            http_ask(fd, "HEAD", "/x", NULL, &got);
            seen[run][i] = got.status == 500 ? '1' : '0';
            struck += got.status == 500;
        }
        close(fd);
        http_server_stop(&server);
    }
    assert_string_equal(seen[0], seen[1]);
    assert_string_not_equal(seen[0], seen[2]);
    assert_in_range(struck, 48, 144);
}

static void storms_end(void **state)
{
    http_server *server = *state;
    const uint64_t start = now_ns();

    http_server_fault(server, &(http_fault){.for_ms = 50, .status = 503});
    while (status_of(server, "GET", "/x") == 503)
        assert_true(now_ns() - start < UINT64_C(60000000000));
    assert_true(now_ns() - start >= 50000000);
}

static void words_say_the_same(void **state)
{
    http_server *server = *state;
    http_got got;

    assert_true(http_server_fault_text(
        server, "path=/x,skip=1,count=1,status=503,retry-after=7,code=SlowDown"));
    assert_int_equal(status_of(server, "GET", "/x"), 200);
    http_once(server, "GET", "/x", NULL, &got);
    assert_int_equal(got.status, 503);
    assert_line(&got, "Retry-After", "7");
    assert_true(http_server_fault_text(server, "cut=close,at=within-head"));
    http_once(server, "GET", "/x", NULL, &got);
    assert_int_equal(got.status, 0);
    assert_true(strlen(got.head) > 10);
    assert_int_equal(http_server_fault_text(server, "colour=red"), 0);
    assert_int_equal(http_server_fault_text(server, "status=many"), 0);
    assert_int_equal(http_server_fault_text(server, "cut=slowly"), 0);
}

/* ---- Ends ---- */

static void cuts_are_where_they_should_be(void **state)
{
    http_server *server = *state;
    static const http_cut cuts[] = {HTTP_CLOSE, HTTP_RESET};
    static const int64_t places[] = {HTTP_BEFORE_HEAD, HTTP_WITHIN_HEAD, 0, 1, 4097, SIZE};
    http_got got;

    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < sizeof places / sizeof *places; j++) {
            under(server, (http_fault){.cut = cuts[i], .at = places[j]}, NULL, &got);
            assert_int_equal(strlen(got.head) > 0, places[j] != HTTP_BEFORE_HEAD);
            assert_int_equal(got.status, places[j] >= 0 ? 200 : 0);
            assert_int_equal(got.length, places[j] >= 0 ? places[j] : 0);
            assert_memory_equal(got.body, pattern, got.length);
            if (places[j] != SIZE)
                assert_int_equal(got.ending, i == 0 ? HTTP_ENDED : HTTP_WAS_RESET);
        }
}

static void a_stalled_answer_waits_for_its_client(void **state)
{
    http_server *server = *state;
    static const int64_t places[] = {HTTP_BEFORE_HEAD, 0, 100};
    http_got got;

    for (size_t j = 0; j < 3; j++) {
        http_server_mend(server);
        http_server_fault(server, &(http_fault){.cut = HTTP_STALL, .at = places[j], .count = 1});
        const int fd = http_connect(server), other = http_connect(server);
        static const char get[] = "GET /x HTTP/1.1\r\n\r\n";
        http_send(fd, get, sizeof get - 1);
        if (places[j] >= 0) {
            http_take(fd, &got, (size_t)places[j]);
            assert_int_equal(got.status, 200);
            assert_int_equal(got.length, places[j]);
        }
        assert_true(http_silent(fd));
        assert_int_equal(http_server_counters(server).active, 1);
        http_ask(other, "GET", "/x", NULL, &got); /* others are served */
        assert_int_equal(got.length, SIZE);
        http_server_drop(server);
        assert_int_equal(http_ends(fd), HTTP_WAS_RESET);
        assert_int_equal(http_ends(other), HTTP_WAS_RESET);
        close(fd);
        close(other);
    }
}

static void uploads_are_cut_and_not_done(void **state)
{
    http_server *server = *state;
    static const char head[] = "PUT /new HTTP/1.1\r\nContent-Length: 1000\r\n\r\n";
    http_ending ending;
    size_t length;
    char byte;

    http_server_fault(
        server, &(http_fault){
                    .method = "PUT", .cut = HTTP_RESET, .at = 500, .in_upload = true, .count = 1});
    const int fd = http_connect(server);
    http_send(fd, head, sizeof head - 1);
    http_send(fd, pattern, 499);
    assert_true(http_silent(fd));
    http_send(fd, pattern, 1);
    assert_false(http_byte(fd, &byte, &ending));
    assert_int_equal(ending, HTTP_WAS_RESET);
    assert_null(http_server_get(server, "/new", &length));
    close(fd);
}

/* ---- Time ---- */

static void answers_wait_and_go_slowly(void **state)
{
    http_server *server = *state;
    http_got got;

    uint64_t start = now_ns();
    under(server, (http_fault){.latency_ms = 40}, NULL, &got);
    assert_int_equal(got.length, SIZE);
    assert_true(now_ns() - start >= 40000000);

    start = now_ns();
    under(server, (http_fault){.bandwidth = 200000}, NULL, &got);
    assert_int_equal(got.length, SIZE);
    assert_true(now_ns() - start >= 90000000);

    /* Three share what one has. */
    http_server_mend(server);
    http_server_shape(server, 10, 0, 600000);
    static const char get[] = "GET /x HTTP/1.1\r\n\r\n";
    int fds[3];
    start = now_ns();
    for (int i = 0; i < 3; i++) {
        fds[i] = http_connect(server);
        http_send(fds[i], get, sizeof get - 1);
    }
    for (int i = 0; i < 3; i++) {
        http_take(fds[i], &got, SIZE_MAX);
        assert_memory_equal(got.body, pattern, SIZE);
        close(fds[i]);
    }
    assert_true(now_ns() - start >= 90000000);
    http_server_shape(server, 0, 0, 0);
}

static void a_few_bytes_a_second_are_slow(void **state)
{
    http_server *server = *state;
    static const char get[] = "GET /x HTTP/1.1\r\n\r\n";
    http_got got;

    http_server_fault(server, &(http_fault){.bandwidth = 20});
    const int fd = http_connect(server);
    const uint64_t start = now_ns();
    http_send(fd, get, sizeof get - 1);
    http_take(fd, &got, 4);
    assert_int_equal(got.length, 4);
    assert_true(now_ns() - start >= 140000000);
    close(fd);
}

static void uploads_are_taken_slowly(void **state)
{
    http_server *server = *state;
    static const char head[] = "PUT /new HTTP/1.1\r\nContent-Length: 20000\r\n\r\n";
    http_got got;
    size_t length;

    http_server_fault(server, &(http_fault){.in_upload = true, .bandwidth = 200000});
    const int fd = http_connect(server);
    const uint64_t start = now_ns();
    http_send(fd, head, sizeof head - 1);
    http_send(fd, pattern, SIZE);
    http_take(fd, &got, SIZE_MAX);
    assert_int_equal(got.status, 200);
    assert_true(now_ns() - start >= 75000000); /* some came with the head */
    char *data = http_server_get(server, "/new", &length);
    assert_int_equal(length, SIZE);
    assert_memory_equal(data, pattern, SIZE);
    free(data);
    close(fd);
}

/* ---- Connections ---- */

static void connections_are_refused(void **state)
{
    http_server *server = *state;
    http_got got;

    const int fd = http_connect(server);
    http_ask(fd, "GET", "/other", NULL, &got);
    assert_true(http_server_listen(server, false));
    assert_int_equal(http_try_connect(server), -1);
    http_ask(fd, "GET", "/other", NULL, &got);
    assert_int_equal(got.status, 200);
    close(fd);
    assert_true(http_server_listen(server, true));
    assert_int_equal(status_of(server, "GET", "/x"), 200);
}

static void connections_end_at_their_beginning(void **state)
{
    http_server *server = *state;
    static const http_cut cuts[] = {HTTP_CLOSE, HTTP_RESET, HTTP_STALL};
    static const char get[] = "GET /x HTTP/1.1\r\n\r\n";

    for (int at = 0; at < 2; at++)
        for (size_t i = 0; i < 3; i++) {
            http_server_mend(server);
            http_server_fault(
                server, &(http_fault){.at_accept = true, .cut = cuts[i], .at = at, .count = 1});
            const int fd = http_connect(server);
            if (at) {
                assert_true(http_silent(fd));
                http_send(fd, get, sizeof get - 1);
            }
            if (cuts[i] == HTTP_STALL)
                assert_true(http_silent(fd));
            else
                assert_int_not_equal(http_ends(fd), HTTP_OPEN);
            close(fd);
            assert_int_equal(status_of(server, "GET", "/x"), 200);
        }
}

/* ---- The test's own word ---- */

typedef struct seen {
    char method[8], target[64], range[64], text[16];
    int n;
} seen;

static void see(void *user, const http_request *request, http_fault *fault)
{
    seen *s = user;
    char value[64];

    s->n++;
    snprintf(s->method, sizeof s->method, "%s", request->method);
    snprintf(s->target, sizeof s->target, "%s", request->target);
    if (http_header(request, "RANGE", value, sizeof value))
        snprintf(s->range, sizeof s->range, "%s", value);
    snprintf(s->text, sizeof s->text, "number %d", (int)request->number);
    if (strcmp(request->path, "/asked") == 0)
        fault->body = s->text;
}

static void a_test_sees_each_request_and_answers(void **state)
{
    seen s = {0};
    http_server *server = start(&(http_server_options){.seen = see, .user = &s});
    const int fd = http_connect(server);
    http_got got;

    http_ask(fd, "GET", "/x?q=%20", "range:  bytes=1-2 \r\n", &got);
    assert_int_equal(got.length, 2);
    assert_string_equal(s.method, "GET");
    assert_string_equal(s.target, "/x?q=%20");
    assert_string_equal(s.range, "bytes=1-2");
    http_ask(fd, "GET", "/asked", NULL, &got);
    assert_string_equal(got.body, "number 1");
    assert_int_equal(s.n, 2);
    close(fd);
    http_server_stop(&server);
}

static void a_token_is_asked_for(void **state)
{
    http_server *server = start(&(http_server_options){.token = "right"});
    http_got got;

    http_once(server, "GET", "/x", NULL, &got);
    assert_int_equal(got.status, 401);
    http_once(server, "GET", "/x", "Authorization: Bearer wrong\r\n", &got);
    assert_int_equal(got.status, 401);
    http_once(server, "GET", "/x", "Authorization: Bearer right\r\n", &got);
    assert_int_equal(got.status, 200);
    http_server_token(server, "next");
    http_once(server, "GET", "/x", "Authorization: Bearer right\r\n", &got);
    assert_int_equal(got.status, 401);
    http_server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVER(faults_strike_what_they_name),
        cmocka_unit_test(chances_come_from_the_seed),
        WITH_SERVER(storms_end),
        WITH_SERVER(words_say_the_same),
        WITH_SERVER(cuts_are_where_they_should_be),
        WITH_SERVER(a_stalled_answer_waits_for_its_client),
        WITH_SERVER(uploads_are_cut_and_not_done),
        WITH_SERVER(answers_wait_and_go_slowly),
        WITH_SERVER(a_few_bytes_a_second_are_slow),
        WITH_SERVER(uploads_are_taken_slowly),
        WITH_SERVER(connections_are_refused),
        WITH_SERVER(connections_end_at_their_beginning),
        cmocka_unit_test(a_test_sees_each_request_and_answers),
        cmocka_unit_test(a_token_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
