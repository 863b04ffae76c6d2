/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life: what a rank does is seen by who watches, in this process and from others. */
#include <stoker/heartbeat.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/probe.h"
#include "support/support.h"

struct fixture {
    stk_context *ctx;
    stk_heartbeat *watcher;
    char path[64];
};

static int setup(void **state)
{
    static struct fixture f;
    stk_error err;

    f = (struct fixture){0};
    assert_ok(stk_context_create(NULL, &f.ctx, &err), &err);
    assert_ok(stk_heartbeat_create(f.ctx, 3, &f.watcher, &err), &err);
    stk_heartbeat_path(f.watcher, f.path, sizeof f.path);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    stk_heartbeat_close(&f->watcher);
    stk_context_destroy(&f->ctx);
    return 0;
}

static stk_heartbeat_row row_of(const struct fixture *f, uint64_t rank)
{
    stk_heartbeat_row row = {.struct_size = sizeof row};

    stk_heartbeat_read(f->watcher, rank, &row);
    return row;
}

static void emit(struct fixture *f, stk__event_kind kind)
{
    stk__emit(f->ctx, &(stk__event){.kind = kind});
}

/* Events of the context are beats; what workers do in a collective does not end it. */
static void test_events(void **state)
{
    struct fixture *f = *state;
    stk_heartbeat *rank;
    stk_error err;

    assert_int_equal(row_of(f, 1).beats, 0);
    assert_ok(stk_heartbeat_open(f->ctx, f->path, 1, &rank, &err), &err);
    assert_int_equal(row_of(f, 1).beats, 1);
    assert_int_equal(row_of(f, 1).pid, getpid());
    assert_int_equal(row_of(f, 1).doing, STK_DOING_NOTHING);
    emit(f, STK__EVENT_DELIVER);
    assert_int_equal(row_of(f, 1).steps, 1);
    assert_int_equal(row_of(f, 1).doing, STK_DOING_DATA);
    emit(f, STK__EVENT_MEET);
    emit(f, STK__EVENT_SAMPLE);
    assert_int_equal(row_of(f, 1).doing, STK_DOING_COLLECTIVE);
    assert_int_equal(row_of(f, 1).beats, 4);
    emit(f, STK__EVENT_MET);
    assert_int_equal(row_of(f, 1).doing, STK_DOING_DATA);
    const uint64_t before = row_of(f, 1).at_ns;
    stk_heartbeat_beat(rank, STK_DOING_DATA);
    assert_true(row_of(f, 1).at_ns >= before && before > 0);
    assert_int_equal(row_of(f, 0).beats, 0);
    assert_int_equal(row_of(f, 2).beats, 0);
    assert_int_equal(row_of(f, 3).beats, 0); /* there is none */
    stk_heartbeat_close(&rank);
    assert_null(rank);
    assert_int_equal(row_of(f, 1).doing, STK_DOING_END);
    emit(f, STK__EVENT_DELIVER);
    assert_int_equal(row_of(f, 1).steps, 1);
    stk_heartbeat_clear(f->watcher);
    assert_int_equal(row_of(f, 1).beats, 0);
    stk_heartbeat_beat(NULL, STK_DOING_DATA);
    stk_heartbeat_close(NULL);
}

/* ---- Other machines -------------------------------------------------------------------------- */

/* The way for ranks of other machines, as if the sheet were not here. */
static void remote_path(struct fixture *f, char path[512])
{
    char whole[512];
    stk_error err;

    assert_ok(stk_heartbeat_listen(f->watcher, "127.0.0.1", &err), &err);
    const int length = stk_heartbeat_path(f->watcher, whole, sizeof whole);
    assert_int_equal(length, strlen(whole));
    const char *comma = strchr(whole, ',');
    assert_non_null(comma);
    snprintf(path, 512, "/nowhere%s", comma);
}

/* Until what the rank does is known, which takes a few of its datagrams. */
static stk_heartbeat_row hear(struct fixture *f, uint64_t rank, stk_doing doing)
{
    stk_heartbeat_row row;

    do {
        stk_heartbeat_receive(f->watcher);
        row = row_of(f, rank);
    } while (!row.beats || row.doing != doing);
    return row;
}

static void test_remote(void **state)
{
    struct fixture *f = *state;
    char path[512], host[STK_HEARTBEAT_HOST];
    stk_heartbeat *rank;
    stk_error err;

    remote_path(f, path);
    assert_ok(stk_heartbeat_open(f->ctx, path, 1, &rank, &err), &err);
    stk_heartbeat_row row = hear(f, 1, STK_DOING_NOTHING);
    assert_int_equal(row.pid, getpid());
    assert_true(row.heard_ns >= row.at_ns && row.at_ns > 0);
    gethostname(host, sizeof host);
    assert_string_equal(row.host, host);
    emit(f, STK__EVENT_DELIVER);
    emit(f, STK__EVENT_MEET);
    row = hear(f, 1, STK_DOING_COLLECTIVE);
    assert_int_equal(row.steps, 1);
    /* It is heard while nothing happens, which it says. */
    const uint64_t heard = row.heard_ns;
    while (row.heard_ns == heard)
        row = hear(f, 1, STK_DOING_COLLECTIVE);
    assert_true(row.heard_ns - row.at_ns > 100000000);
    assert_int_equal(row_of(f, 0).heard_ns, 0);
    stk_heartbeat_close(&rank);
    hear(f, 1, STK_DOING_END);
    /* What comes from before counts no more. */
    assert_ok(stk_heartbeat_open(f->ctx, path, 2, &rank, &err), &err);
    hear(f, 2, STK_DOING_NOTHING);
    stk_heartbeat_clear(f->watcher);
    stk_heartbeat_close(&rank);
    for (int i = 0; i < 100; i++)
        stk_heartbeat_receive(f->watcher);
    assert_int_equal(row_of(f, 2).beats, 0);
    assert_int_equal(row_of(f, 2).heard_ns, 0);
}

/* The sheet itself is taken where it is there, address or not. */
static void test_local_beside_remote(void **state)
{
    struct fixture *f = *state;
    char path[512];
    stk_heartbeat *rank;
    stk_error err;

    assert_ok(stk_heartbeat_listen(f->watcher, "fe80::1", &err), &err);
    stk_heartbeat_path(f->watcher, path, sizeof path);
    assert_non_null(strstr(path, ",udp://[fe80::1]:"));
    assert_ok(stk_heartbeat_open(f->ctx, path, 1, &rank, &err), &err);
    assert_int_equal(row_of(f, 1).beats, 1);
    assert_int_equal(row_of(f, 1).heard_ns, 0);
    stk_heartbeat_close(&rank);
    assert_int_equal(stk_heartbeat_open(f->ctx, path, 3, &rank, &err), STK_EINVAL);
}

/* Datagrams that are none of a rank's are as if they had not come. */
static void test_foreign_datagrams(void **state)
{
    struct fixture *f = *state;
    char path[512], bytes[512];
    stk_error err;

    remote_path(f, path);
    const char *port = strrchr(path, ':') + 1;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    for (size_t n = 0; n < sizeof bytes; n++) {
        memset(bytes, (int)n, sizeof bytes);
        memcpy(bytes, "STKLIFE", 8);
        memcpy(bytes + 8, &(uint32_t){1}, 4);
        assert_int_equal(send(fd, bytes, n, 0), n);
        stk_heartbeat_receive(f->watcher);
    }
    close(fd);
    for (uint64_t r = 0; r < 3; r++)
        assert_int_equal(row_of(f, r).beats, 0);
    assert_int_equal(stk_heartbeat_listen(f->watcher, "127.0.0.1", &err), STK_EINVAL);
}

static void test_remote_refused(void **state)
{
    static const char *const none[] = {
        "/nowhere,udp://",
        "/nowhere,udp://127.0.0.1/00112233445566778899aabbccddeeff",
        "/nowhere,udp://127.0.0.1:70000000/00112233445566778899aabbccddeeff",
        "/nowhere,udp://:7/00112233445566778899aabbccddeeff",
        "/nowhere,udp://127.0.0.1:7/0011",
        "/nowhere,udp://127.0.0.1:7/00112233445566778899aabbccddeefg",
    };
    static const char *const hosts[] = {"", "a,b", "a/b", "[::1]", "a b"};
    struct fixture *f = *state;
    stk_heartbeat *rank;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(none); i++) {
        assert_int_equal(stk_heartbeat_open(f->ctx, none[i], 0, &rank, &err), STK_EINVAL);
        assert_null(rank);
    }
    for (size_t i = 0; i < STK_COUNT(hosts); i++)
        assert_int_equal(stk_heartbeat_listen(f->watcher, hosts[i], &err), STK_EINVAL);
    assert_int_equal(stk_heartbeat_open(f->ctx, "/nowhere", 0, &rank, &err), STK_ENOENT);
    assert_int_equal(stk_heartbeat_open(f->ctx,
                                        "/nowhere,udp://no.such.host.invalid:7/"
                                        "00112233445566778899aabbccddeeff",
                                        0, &rank, &err),
                     STK_EIO);
    assert_non_null(strstr(err.text, "--heartbeat-host"));
}

/* From another process; a child of a rank does not speak for it. */
static void test_process(void **state)
{
    struct fixture *f = *state;
    int how;

    const pid_t pid = fork();
    if (pid == 0) {
        stk_context *own;
        stk_heartbeat *rank;
        stk_error err;
        if (stk_context_create(NULL, &own, &err) != STK_OK ||
            stk_heartbeat_open(own, f->path, 2, &rank, &err) != STK_OK)
            _exit(1);
        const pid_t child = fork();
        if (child == 0) {
            stk_heartbeat_close(&rank);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        _exit(0); /* without a word */
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    assert_int_equal(row_of(f, 2).pid, pid);
    assert_int_equal(row_of(f, 2).doing, STK_DOING_NOTHING);
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    stk_heartbeat *rank = (stk_heartbeat *)f;
    char path[64];
    stk_error err;

    assert_int_equal(stk_heartbeat_open(f->ctx, f->path, 3, &rank, &err), STK_EINVAL);
    assert_null(rank);
    assert_int_equal(stk_heartbeat_open(f->ctx, "/proc/self/fd/999", 0, &rank, &err), STK_ENOENT);
    assert_int_equal(stk_heartbeat_open(f->ctx, "/dev/null", 0, &rank, &err), STK_EFORMAT);
    assert_int_equal(stk_heartbeat_create(f->ctx, 0, &rank, &err), STK_EINVAL);
    /* Memory that its owner may make smaller is not taken, whatever stands in it. */
    const int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const int own = open(f->path, O_RDONLY | O_CLOEXEC);
    char bytes[4096];
    const ssize_t n = read(own, bytes, sizeof bytes);
    assert_true(n > 0);
    assert_int_equal(write(fd, bytes, (size_t)n), n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_int_equal(stk_heartbeat_open(f->ctx, path, 0, &rank, &err), STK_EFORMAT);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_ok(stk_heartbeat_open(f->ctx, path, 0, &rank, &err), &err);
    stk_heartbeat_close(&rank);
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    assert_int_equal(stk_heartbeat_open(f->ctx, path, 0, &rank, &err), STK_EFORMAT);
    close(fd);
    close(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_remote, setup, teardown),
        cmocka_unit_test_setup_teardown(test_local_beside_remote, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_datagrams, setup, teardown),
        cmocka_unit_test_setup_teardown(test_remote_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_process, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
