/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of a run whose steps meet over an MPI: its mpirun starts them, as this command with the
 * same arguments, and each measures the run that a sheet of memory says. They open the sheet by its
 * path in /proc, write there what came of it, and leave nothing behind however they end.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

#define VARIABLE "STOKER_BENCH_RUN" /* path of the sheet */
#define MAGIC    "STKRUN1"
#define GRACE_NS UINT64_C(10000000000) /* for ranks to end after an interrupt, */
#define LOST_NS  UINT64_C(1000000000)  /* and after their mpirun, without which they cannot go on */
#define WORDS    16                    /* of mpirun */

/* Of one rank. */
struct place {
    atomic_int pid;
    atomic_bool done;
    int hashes; /* descriptor of the parent; -1: none are asked for */
    struct bench_result result;
};

struct sheet {
    char magic[8];
    pid_t parent;
    size_t setting; /* of the plan */
    uint64_t repeat, ranks;
    char log[BENCH_PATH];
    struct bench_meeting meeting;
    struct place places[];
};

static size_t bytes_of(uint64_t ranks)
{
    return sizeof(struct sheet) + (size_t)ranks * sizeof(struct place);
}

/* ---- A rank ---------------------------------------------------------------------------------- */

bool bench_mpi_is_rank(void)
{
    const char *path = getenv(VARIABLE);

    return path && *path;
}

/* NULL: it is none, and that was said. */
static struct sheet *open_sheet(const char *path)
{
    struct sheet *sheet = MAP_FAILED;
    struct stat st;

    const int fd = open(path, O_RDWR | O_CLOEXEC);
    const int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 &&
        (size_t)st.st_size >= sizeof *sheet)
        sheet = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (sheet != MAP_FAILED && memcmp(sheet->magic, MAGIC, sizeof MAGIC) == 0 &&
        sheet->ranks <= STK_BENCH_MAX_RANKS && bytes_of(sheet->ranks) == (size_t)st.st_size)
        return sheet;
    cli_error("%s: '%.200s' is no run of this version: unset it, it is of 'stoker bench "
              "--all-reduce' alone",
              VARIABLE, path);
    return NULL;
}

static FILE *open_hashes(const struct sheet *sheet, const struct place *place)
{
    char path[64];

    if (place->hashes < 0)
        return NULL;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)sheet->parent, place->hashes);
    return fopen(path, "w+");
}

int bench_mpi_rank(struct cli *cli, const struct bench_plan *plan)
{
    const uint64_t rank = cli->ranks.rank;
    struct sheet *sheet = open_sheet(getenv(VARIABLE));

    if (!sheet)
        return CLI_FAILED;
    struct bench_task task = {.cli = cli, .plan = plan, .meeting = &sheet->meeting};
    if (sheet->setting < stk_bench_plan_count(plan->settings))
        task.setting = bench_setting(plan, sheet->setting);
    if (!task.setting.bench || task.setting.bench->ranks != sheet->ranks ||
        cli->ranks.world_size != sheet->ranks) {
        cli_error("%s: mpirun has started this as rank %" PRIu64 " of %" PRIu64 ", of %" PRIu64
                  " that were asked for",
                  VARIABLE, rank, cli->ranks.world_size, sheet->ranks);
        return CLI_FAILED;
    }
    struct place *place = &sheet->places[rank];
    atomic_store(&place->pid, (int)getpid());
    task.setting.rank = rank;
    task.setting.repeat = sheet->repeat;
    task.setting.log = *sheet->log ? sheet->log : NULL;
    task.setting.log_summary = !cli->log;
    task.hashes = open_hashes(sheet, place);
    bench_run(&task, &place->result);
    if (task.hashes)
        fclose(task.hashes);
    if (place->result.run.status != STK_OK)
        atomic_store(&sheet->meeting.broken, true);
    atomic_store(&place->done, true);
    /* One that never joined the others is waited for by their MPI until it has failed. */
    return task.joined ? CLI_GOOD : CLI_FAILED;
}

/* ---- Who has them started -------------------------------------------------------------------- */

/* For the signal handler. */
static struct sheet *volatile running;
static volatile pid_t starter;

/* Ranks have what they measured when they are asked to end; an mpirun kills them. */
static void tell_ranks(void *user)
{
    struct sheet *sheet = running;
    pid_t ranks[STK_BENCH_MAX_RANKS];
    bool told = false;

    (void)user;
    launch_find_ranks(starter, ranks, sheet ? sheet->ranks : 0);
    for (uint64_t r = 0; sheet && r < sheet->ranks; r++) {
        const int pid = atomic_load(&sheet->places[r].pid);
        if (pid > 1)
            ranks[r] = atomic_load(&sheet->places[r].done) ? 0 : (pid_t)pid;
        told |= ranks[r] && kill(ranks[r], SIGTERM) == 0;
    }
    if (!told && starter > 0)
        kill(starter, SIGTERM);
}

/* *fd: its memory, whose path is that of the ranks. NULL: there is none. */
static struct sheet *make_sheet(const struct bench_task *task, int *fd)
{
    const stk_bench_setting *setting = &task->setting;
    const uint64_t ranks = setting->bench->ranks;
    struct sheet *sheet = MAP_FAILED;

    *fd = memfd_create("stoker-bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd >= 0 && ftruncate(*fd, (off_t)bytes_of(ranks)) == 0 &&
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        sheet = mmap(NULL, bytes_of(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (sheet == MAP_FAILED)
        return NULL;
    memcpy(sheet->magic, MAGIC, sizeof MAGIC);
    sheet->parent = getpid();
    sheet->setting = (size_t)setting->number - 1;
    sheet->repeat = setting->repeat;
    sheet->ranks = ranks;
    snprintf(sheet->log, sizeof sheet->log, "%s", setting->log ? setting->log : "");
    for (uint64_t r = 0; r < ranks; r++)
        sheet->places[r].hashes = -1;
    return sheet;
}

/* In the child: become mpirun. Returns its errno. */
static int become(const struct bench_task *task, int fd)
{
    static char self[BENCH_PATH], path[64];
    const char *front[WORDS];
    size_t given = 0;

    while (task->cli->all[given])
        given++;
    const size_t words = launch_mpirun_words(task->setting.bench->ranks, false, NULL, front, WORDS);
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char **argv = calloc(words + given + 1, sizeof *argv);
    if (!argv || length <= 0)
        return argv ? errno : ENOMEM;
    for (size_t i = 0; i < words; i++)
        argv[i] = (char *)front[i];
    memcpy(argv + words, task->cli->all, given * sizeof *argv);
    argv[words] = self;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)task->parent, fd);
    setenv(VARIABLE, path, 1);
    setenv("NO_COLOR", "1", 0);
    unsetenv("STOKER_HEARTBEAT"); /* this rank's, not theirs */
    /* A terminal's Ctrl-C comes by the parent; whatever ends that ends them. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != task->parent)
        return ECANCELED;
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    execvp(argv[0], argv);
    return errno;
}

/* Wait for mpirun; its status of waitpid(). */
static int wait_starter(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    uint64_t kill_at = 0;
    pid_t ended;
    int how = 0;

    while ((ended = waitpid(pid, &how, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        nanosleep(&pause, NULL);
        if (cli_interrupted() && !kill_at)
            kill_at = cli_now_ns() + GRACE_NS;
        if (kill_at && cli_now_ns() > kill_at) {
            kill(-pid, SIGKILL);
            kill_at = UINT64_MAX;
        }
    }
    return how;
}

static void say_end(const struct sheet *sheet, int how, struct bench_result *results)
{
    char text[160];

    for (uint64_t r = 0; r < sheet->ranks; r++) {
        if (atomic_load(&sheet->places[r].done)) {
            results[r] = sheet->places[r].result;
            continue;
        }
        if (cli_interrupted())
            snprintf(text, sizeof text, "interrupted; rank %" PRIu64 " did not end by itself", r);
        else if (WIFSIGNALED(how))
            snprintf(text, sizeof text,
                     "mpirun ended by signal %d (%s), and rank %" PRIu64 " has no figures",
                     WTERMSIG(how), strsignal(WTERMSIG(how)), r);
        else
            snprintf(text, sizeof text,
                     "mpirun ended with exit code %d, and rank %" PRIu64
                     " has no figures: the messages above say why",
                     WEXITSTATUS(how), r);
        bench_fail(&results[r], STK_EINTERNAL, text);
        results[r].run.interrupted = cli_interrupted() != 0;
    }
}

static void start_and_wait(struct bench_task *task, int fd, struct bench_result *results)
{
    struct sheet *sheet = running;

    task->parent = getpid();
    fflush(NULL);
    cli_on_interrupt(tell_ranks, NULL);
    /* Ranks of an mpirun that is killed are children of this process then. */
    launch_adopt(true);
    const pid_t pid = fork();
    if (pid == 0) {
        cli_on_interrupt(NULL, NULL);
        const int error = become(task, fd);
        cli_error("mpirun could not be started: %s", strerror(error));
        _exit(127);
    }
    if (pid < 0) {
        for (uint64_t r = 0; r < sheet->ranks; r++)
            bench_fail(&results[r], STK_ESYSTEM,
                       "no process for mpirun: a higher limit of "
                       "processes (ulimit -u) may help");
    } else {
        starter = pid;
        const int how = wait_starter(pid);
        starter = 0;
        launch_end_left(cli_now_ns() + LOST_NS, NULL, NULL);
        say_end(sheet, how, results);
    }
    launch_adopt(false);
    cli_on_interrupt(NULL, NULL);
}

void bench_mpi(struct bench_task *task, FILE *hash, struct bench_result *results)
{
    const uint64_t ranks = task->setting.bench->ranks;
    FILE **hashes = calloc(ranks, sizeof(FILE *));
    bool fine = launch_mpirun_find() && hashes;
    int fd = -1;

    struct sheet *sheet = fine ? make_sheet(task, &fd) : NULL;
    fine = sheet != NULL;
    for (uint64_t r = 0; r < ranks && fine && hash; r++) {
        hashes[r] = tmpfile();
        fine = hashes[r] != NULL;
        if (fine)
            sheet->places[r].hashes = fileno(hashes[r]);
    }
    running = sheet;
    if (fine)
        start_and_wait(task, fd, results);
    running = NULL;
    for (uint64_t r = 0; r < ranks && !fine; r++)
        bench_fail(&results[r], STK_ESYSTEM,
                   "bench.all_reduce: its ranks are started by mpirun, which is not in the PATH or "
                   "has no memory (packages openmpi-bin, mpich)");
    if (fine && hash && bench_hash_merge(hashes, ranks, hash) != 0)
        cli_warning("the hashes are not complete: writing failed");
    for (uint64_t r = 0; hashes && r < ranks; r++)
        if (hashes[r])
            fclose(hashes[r]);
    free(hashes);
    if (sheet)
        munmap(sheet, bytes_of(ranks));
    if (fd >= 0)
        close(fd);
}
