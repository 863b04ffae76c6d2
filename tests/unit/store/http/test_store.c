/* SPDX-License-Identifier: Apache-2.0 */
/* http: as a store: objects and what looks like folders, versions, second requests, TLS, ends. */
#include "world.h"

#include <arpa/inet.h>
#include <unistd.h>

#include "store/http/room.h"
#include "support/certificates.h"
#include "support/matrix.h"

static void note(void *user, const http_request *request, http_fault *fault)
{
    fixture *f = user;

    if (!http_header(request, "If-Match", f->if_match, sizeof f->if_match))
        f->if_match[0] = 0;
    snprintf(f->target, sizeof f->target, "%s", request->target);
    if (http_header(request, "Authorization", (char[64]){0}, 64))
        fault->status = 500;
}

static int set_up(void **state)
{
    return world_open(state, note);
}

static void test_urls(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *path, *key;
    } good[] = {{"/d/x", "x"}, {"/d/", ""},        {"/d", ""},         {"", ""},
                {"/", ""},     {"/none.zarr", ""}, {"/d/a%20b", "a b"}};
    stk_store *store = NULL;
    char url[300], key[300];
    stk_error err;

    assert_true(http_server_put(f->server, "/d/a b", "ab", 2));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(url, sizeof url, "%s%s", http_server_url(f->server), good[i].path);
        assert_ok(stk_store_open(f->context, url, &store, key, sizeof key, &err), &err);
        assert_string_equal(key, good[i].key);
        stk_store_close(&store);
    }
    /* What lies below an object is nothing. */
    assert_true(http_server_put(f->server, "/d/y.h5", "y", 1));
    snprintf(url, sizeof url, "%s/d/y.h5/group", http_server_url(f->server));
    assert_fails(stk_store_open(f->context, url, &store, key, sizeof key, &err), STK_ENOENT, &err,
                 "group");
    assert_fails(stk_store_open(f->context, "http:///x", &store, key, sizeof key, &err), STK_EINVAL,
                 &err, "names no server");
    assert_fails(stk_store_open(f->context, "http://127.0.0.1/?nope=1", &store, NULL, 0, &err),
                 STK_EINVAL, &err, "nope");
}

static void test_objects(void **state)
{
    fixture *f = *state;
    const stk_store_call no_replace = {.struct_size = sizeof no_replace, .no_replace = true};
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = open_store(f, "/d/");
    size_t length;
    stk_error err;

    assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
    assert_int_equal(info.size, SIZE);
    assert_true(info.identity != 0 && !info.is_folder);
    assert_ok(stk_store_read(store, "x", 7, SIZE - 7, f->got, &err), &err);
    assert_memory_equal(f->got, f->bytes + 7, SIZE - 7);
    assert_fails(stk_store_read(store, "x", SIZE - 5, 6, f->got, &err), STK_ETRUNCATED, &err, "x");
    assert_fails(stk_store_read(store, "x", SIZE + 5, 6, f->got, &err), STK_ETRUNCATED, &err, "x");
    assert_fails(stk_store_stat(store, "z", NULL, &info, &err), STK_ENOENT, &err, "/d/z");
    assert_fails(stk_store_read(store, "z", 0, 1, f->got, &err), STK_ENOENT, &err, "404");

    assert_ok(stk_store_put(store, "new/a+b", f->bytes, 999, NULL, &err), &err);
    char *kept = http_server_get(f->server, "/d/new/a+b", &length);
    assert_int_equal(length, 999);
    assert_memory_equal(kept, f->bytes, 999);
    free(kept);
    assert_fails(stk_store_put(store, "new/a+b", "q", 1, &no_replace, &err), STK_EEXIST, &err,
                 "exists");
    assert_ok(stk_store_put(store, "empty", NULL, 0, &no_replace, &err), &err);
    assert_ok(stk_store_stat(store, "empty", NULL, &info, &err), &err);
    assert_int_equal(info.size, 0);
    const stk_store_call call = {.struct_size = sizeof call};
    assert_ok(store->ops->remove(store, "new/a+b", &call, &err), &err);
    assert_null(http_server_get(f->server, "/d/new/a+b", &length));
    assert_fails(stk_store_list(store, "", NULL, (stk_list_fn *)1, NULL, &err), STK_ENOTSUP, &err,
                 "name the objects");
    stk_store_close(&store);
}

/* Reads of an object that was looked at, or read, are of that version. */
static void test_changed_object(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = open_store(f, "/d/");
    stk_error err;

    assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
    assert_ok(stk_store_read(store, "x", 0, 10, f->got, &err), &err);
    assert_int_equal(f->if_match[0], '"');
    assert_true(http_server_put(f->server, "/d/x", f->bytes + 1, SIZE - 1));
    assert_fails(stk_store_read(store, "x", 0, 10, f->got, &err), STK_ECHANGED, &err, "x");
    /* Who looks again wants what there is now. */
    assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
    assert_ok(stk_store_read(store, "x", 0, 10, f->got, &err), &err);
    assert_memory_equal(f->got, f->bytes + 1, 10);
    /* What was written here is known. */
    assert_ok(stk_store_put(store, "x", f->bytes + 2, 1000, NULL, &err), &err);
    assert_ok(stk_store_read(store, "x", 0, 10, f->got, &err), &err);
    assert_memory_equal(f->got, f->bytes + 2, 10);
    /* A server that knows no If-Match is held to the ETag. */
    http_server_fault(f->server, &(http_fault){.etag = "\"another\""});
    assert_fails(stk_store_read(store, "x", 0, 10, f->got, &err), STK_ECHANGED, &err, "x");
    stk_store_close(&store);
}

static void test_refused_head(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = open_store(f, "/d/");
    stk_error err;

    http_server_fault(f->server, &(http_fault){.method = "HEAD", .status = 405});
    assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
    assert_int_equal(info.size, SIZE);
    stk_store_close(&store);
}

/* One request of many is never answered: it is asked a second time, and only that one. */
static void test_late_request_is_asked_twice(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/d/?first_byte_timeout=1h");
    stk_error err;

    for (int i = 0; i < 40; i++)
        assert_ok(stk_store_read(store, "x", 0, 100, f->got, &err), &err);
    const int stall = http_server_fault(
        f->server, &(http_fault){.count = 1, .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD});
    http_server_reset_counters(f->server);
    assert_ok(stk_store_read(store, "x", 50, 100, f->got, &err), &err);
    assert_memory_equal(f->got, f->bytes + 50, 100);
    assert_int_equal(http_server_struck(f->server, stall), 1);
    assert_int_equal(http_server_counters(f->server).requests, 2);
    stk_store_close(&store);
}

static void *read_one(void *store)
{
    char data[16];
    stk_error err;

    assert_ok(stk_store_read(store, "x", 0, sizeof data, data, &err), &err);
    return NULL;
}

/* How late is late is known only while it is under way already. */
static void test_late_among_the_first(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/d/?first_byte_timeout=1h&stall_timeout=1h");
    pthread_t threads[30];

    http_server_shape(f->server, 200, 0, 0);
    const int stall = http_server_fault(
        f->server, &(http_fault){.count = 1, .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD});
    for (size_t i = 0; i < STK_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_one, store), 0);
    for (size_t i = 0; i < STK_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(http_server_struck(f->server, stall), 1);
    stk_store_close(&store);
}

/* A failure that may pass, and no time left for another try: it is the time that was too short. */
static void test_no_time_for_another_try(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/d/");
    const stk_store_call call = {.struct_size = sizeof call,
                                 .deadline_ns = stk__now_ns() + UINT64_C(20000000000)};
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    http_server_fault(f->server, &(http_fault){.path = "/d/y", .status = 503, .retry_after = 60});
    assert_fails(stk_store_stat(store, "y", &call, &info, &err), STK_ETIMEDOUT, &err,
                 "the server answered 503");
    stk_store_close(&store);
}

static void test_redirects(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = open_store(f, "/d/");
    stk_error err;

    http_server_fault(f->server, &(http_fault){.path = "/d/moved", .location = "../d/x"});
    assert_ok(stk_store_stat(store, "moved", NULL, &info, &err), &err);
    assert_int_equal(info.size, SIZE);
    assert_ok(stk_store_read(store, "moved", 10, 100, f->got, &err), &err);
    assert_memory_equal(f->got, f->bytes + 10, 100);
    http_server_fault(f->server, &(http_fault){.path = "/d/sub", .location = "/d/sub/"});
    assert_ok(stk_store_stat(store, "sub", NULL, &info, &err), &err);
    assert_true(info.is_folder);
    stk_store_close(&store);
    /* What the server calls a folder is one, whatever lies above it. */
    assert_true(http_server_put(f->server, "/x.zip", "x", 1));
    http_server_fault(f->server, &(http_fault){.path = "/x.zip/d", .location = "/x.zip/d/"});
    store = open_store(f, "/x.zip/d");
    stk_store_close(&store);
}

static void test_private_addresses(void **state)
{
    static const char *const private[] = {"127.0.0.1",   "10.1.2.3",
                                          "172.16.0.1",  "172.31.9.9",
                                          "192.168.1.1", "169.254.169.254",
                                          "100.64.0.1",  "0.0.0.0",
                                          "::1",         "fe80::1",
                                          "fd00::1",     "::ffff:10.0.0.1",
                                          "::",          "::ffff:169.254.169.254"};
    static const char *const public[] = {"8.8.8.8",     "172.32.0.1",    "172.15.0.1",
                                         "192.169.0.1", "100.128.0.1",   "11.0.0.1",
                                         "2001:db8::1", "::ffff:8.8.8.8"};
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;

    for (size_t i = 0; i < STK_COUNT(private) + STK_COUNT(public); i++) {
        const bool is = i < STK_COUNT(private);
        const char *text = is ? private[i] : public[i - STK_COUNT(private)];
        v4 = (struct sockaddr_in){.sin_family = AF_INET};
        v6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
        const bool four = inet_pton(AF_INET, text, &v4.sin_addr) == 1;
        assert_true(four || inet_pton(AF_INET6, text, &v6.sin6_addr) == 1);
        if (stk__http_address_private(four ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6) != is)
            print_error("%s\n", text);
        assert_int_equal(
            stk__http_address_private(four ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6), is);
    }
}

/* A PUT with If-None-Match is done, and its answer is lost: the next try finds its own object. */
static void test_lost_answer(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/new/");
    const stk_store_call keep = {.struct_size = sizeof keep, .no_replace = true};
    stk_error err;

    const int lost = http_server_fault(
        f->server,
        &(http_fault){.method = "PUT", .count = 2, .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD});
    assert_ok(stk_store_put(store, "mine", "hello", 5, &keep, &err), &err);
    assert_ok(stk_store_put(store, "none", NULL, 0, &keep, &err), &err);
    assert_int_equal(http_server_struck(f->server, lost), 2);
    http_server_mend(f->server);
    /* Another's, that came between two tries. */
    http_server_fault(f->server, &(http_fault){.method = "PUT", .count = 1, .status = 503});
    assert_fails(stk_store_put(store, "mine", "hellO", 5, &keep, &err), STK_EEXIST, &err, "mine");
    http_server_mend(f->server);
    http_server_fault(f->server, &(http_fault){.method = "PUT", .count = 1, .status = 503});
    assert_fails(stk_store_put(store, "mine", "hello!", 6, &keep, &err), STK_EEXIST, &err, "mine");
    /* At the first try it is there: that is no lost answer, whatever it holds. */
    assert_fails(stk_store_put(store, "mine", "hello", 5, &keep, &err), STK_EEXIST, &err, "mine");
    stk_store_close(&store);
}

/* What is asked of a server that there is not goes to the proxy, with the server's name. */
static void test_proxy(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    char url[400];
    stk_error err;

    snprintf(url, sizeof url, "http://nowhere.invalid/d/?proxy=%s", http_server_url(f->server));
    assert_ok(stk_store_open(f->context, url, &store, NULL, 0, &err), &err);
    assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
    assert_int_equal(info.size, SIZE);
    assert_ok(stk_store_read(store, "x", 10, 100, f->got, &err), &err);
    assert_memory_equal(f->got, f->bytes + 10, 100);
    stk_store_close(&store);
    assert_true(strncmp(f->target, "http://nowhere.invalid/", 23) == 0);
}

typedef struct reading {
    stk_read read;
    atomic_int *ended;
    stk_status status;
} reading;

static void note_read(stk_read *read, stk_status status)
{
    reading *r = (reading *)read;

    r->status = status;
    atomic_fetch_add(r->ended, 1);
}

/* Reads that are never answered end when they are canceled, and when the store is closed. */
static void test_ends(void **state)
{
    fixture *f = *state;
    reading reads[100];
    atomic_int ended = 0;
    stk_store *store = open_store(f, "/d/?first_byte_timeout=1h&connections=8");

    http_server_fault(f->server, &(http_fault){.cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD});
    for (int i = 0; i < 100; i++) {
        reads[i] = (reading){.ended = &ended,
                             .read = {.struct_size = sizeof(stk_read),
                                      .key = "x",
                                      .length = 10,
                                      .data = f->got + 10 * i,
                                      .done = note_read}};
        assert_int_equal(store->ops->submit(store, &reads[i].read), STK_OK);
    }
    for (int i = 0; i < 50; i++)
        store->ops->cancel(store, &reads[i].read);
    while (atomic_load(&ended) < 50)
        stk__sleep_until(stk__now_ns() + 1000000, NULL);
    for (int i = 0; i < 50; i++)
        assert_int_equal(reads[i].status, STK_ECANCELED);
    stk_store_close(&store);
    assert_int_equal(atomic_load(&ended), 100);
    for (int i = 50; i < 100; i++)
        assert_int_equal(reads[i].status, STK_ECANCELED);
    assert_true(http_server_counters(f->server).most_requests <= 8);
}

static bool always(void *user)
{
    return *(bool *)user;
}

static void test_calls_end_early(void **state)
{
    fixture *f = *state;
    bool now = false;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store_call call = {.struct_size = sizeof call, .canceled = always, .user = &now};
    stk_store *store = open_store(f, "/d/?first_byte_timeout=1h");
    stk_error err;

    http_server_fault(f->server, &(http_fault){.cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD});
    call.deadline_ns = stk__now_ns() + 100000000;
    assert_fails(stk_store_stat(store, "x", &call, &info, &err), STK_ETIMEDOUT, &err, "deadline");
    call.deadline_ns = 0;
    now = true;
    assert_int_equal(store->ops->stat(store, "x", &call, &info, &err), STK_ECANCELED);
    stk_store_close(&store);
}

/* In a child there is no thread that could answer. */
static void test_after_fork(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/d/");
    int status = 0;

    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stk_object_info info = {.struct_size = sizeof info};
        bool good = stk_store_stat(store, "x", NULL, &info, NULL) == STK_EFORK &&
                    stk_store_read(store, "x", 0, 1, f->got, NULL) == STK_EFORK &&
                    stk_store_put(store, "y", "y", 1, NULL, NULL) == STK_EFORK;
        stk_store_close(&store);
        _exit(good && !store ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    stk_store_close(&store);
}

static void test_tls(void **state)
{
    fixture *f = *state;
    char folder[256], ca[300], certificate[300], key[300], url[700];
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    stk_error err;

    test_folder(folder);
    if (!test_certificates(folder)) {
        test_folder_remove(folder);
        return;
    }
    static const struct {
        const char *name;
        bool good;
    } servers[] = {{"server", true}, {"expired", false}, {"other", false}, {"self", false}};
    for (size_t i = 0; i < STK_COUNT(servers); i++) {
        for (int with = 0; with < 2; with++) {
            snprintf(ca, sizeof ca, "%s/ca.pem", folder);
            snprintf(certificate, sizeof certificate, "%s/%s.pem", folder, servers[i].name);
            snprintf(key, sizeof key, "%s/%s.key", folder, servers[i].name);
            http_server *server =
                http_server_start(&(http_server_options){.certificate = certificate, .key = key});
            assert_non_null(server);
            assert_true(http_server_put(server, "/x", "abc", 3));
            snprintf(url, sizeof url, "%s/?%s%s", http_server_url(server), with ? "ca_file=" : "",
                     with ? ca : "");
            assert_ok(stk_store_open(f->context, url, &store, NULL, 0, &err), &err);
            if (servers[i].good && with)
                assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
            else
                assert_fails(stk_store_stat(store, "x", NULL, &info, &err), STK_EINVAL, &err,
                             "ca_file");
            stk_store_close(&store);
            http_server_stop(&server);
        }
    }
    test_folder_remove(folder);
}

/* What was seen while something is opened says its version as an answer does. */
static void test_remembered_version(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/d/");
    stk_object_info info = {.struct_size = sizeof info};
    uint64_t identity = 0;
    stk_error err;

    stk__opening_begin(f->context);
    assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
    matrix_read r = {.read = {.key = "x", .length = 1000, .data = f->got, .identity = &identity}};
    http_server_reset_counters(f->server);
    assert_ok(matrix_read_now(store, &r, &err), &err);
    assert_int_equal(http_server_counters(f->server).requests, 0);
    assert_int_equal(identity, info.identity);
    stk__opening_end(f->context);
    stk_store_close(&store);
}

/* With the answer that makes known how late is late, what went out before is looked at at once. */
static void test_late_is_known_at_once(void **state)
{
    stk__http_loop loop = {.nearest_ns = UINT64_MAX};
    stk__http_host *host = calloc(1, sizeof *host + 1);
    stk__http_client client = {.loop = &loop, .host = host, .stall_ns = UINT64_C(3600000000000)};
    stk__http_exchange x = {.method = "GET"};
    stk__http_job job = {.exchange = &x};
    char line[] = "HTTP/1.1 200 OK\r\n";

    (void)state;
    assert_non_null(host);
    for (int i = 0; i < 20; i++) {
        stk__http_try t = {.client = &client, .job = &job, .sent_ns = stk__now_ns() - 1000000};
        loop.nearest_ns = UINT64_MAX;
        stk__http_head_init(&t.head);
        assert_int_equal(stk__http_on_line(line, 1, sizeof line - 1, &t), sizeof line - 1);
        assert_int_equal(loop.nearest_ns <= t.first_ns, i == 19);
    }
    free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_urls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_objects, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed_object, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_head, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_request_is_asked_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_among_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_time_for_another_try, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_redirects, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_proxy, set_up, tear_down),
        cmocka_unit_test(test_private_addresses),
        cmocka_unit_test(test_late_is_known_at_once),
        cmocka_unit_test_setup_teardown(test_remembered_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_calls_end_early, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_after_fork, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
