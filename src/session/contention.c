#include "session/contention.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/err.h"
#include "base/file.h"
#include "base/strbuf.h"

/* The machine was busy if the threads waited for a core for more than this share of the time in which they
 * could run. On idle machines the share is below 2%. */
#define WAIT_SHARE 0.1
/* The machine was busy if an engine on a CPU got less CPU time than this share of the wall time. Such an
 * engine computes all the time. */
#define CPU_SHARE 0.5

static const char *proc_dir(void) {
    const char *dir = getenv("INFERPROF_PROC");
    return dir && *dir ? dir : "/proc";
}

static bool read_small(const char *path, struct strbuf *out) {
    struct err ignored;
    strbuf_reset(out);
    return file_read(path, 4096, out, &ignored) == 0;
}

void contention_start(struct contention *c) {
    struct strbuf text = STRBUF_INIT;
    char *path = file_join(proc_dir(), "loadavg");
    *c = (struct contention){ .load = NAN, .cores = sysconf(_SC_NPROCESSORS_ONLN) };
    if (read_small(path, &text) && sscanf(text.buf, "%lf", &c->load) != 1) c->load = NAN;
    strbuf_free(&text);
    free(path);
}

/* Sums /proc/PID/task/TID/schedstat over the threads. The fields of the file are: time on a CPU, time
 * runnable without a CPU, number of time slices. */
struct contention_times contention_times(pid_t pid) {
    struct contention_times out = { 0 };
    struct strbuf text = STRBUF_INIT;
    char *dir = xasprintf("%s/%d/task", proc_dir(), (int)pid);
    DIR *tasks = opendir(dir);
    for (const struct dirent *e; tasks && (e = readdir(tasks));) {
        unsigned long long run, wait;
        if (*e->d_name == '.') continue;
        char *path = xasprintf("%s/%s/schedstat", dir, e->d_name);
        if (read_small(path, &text) && sscanf(text.buf, "%llu %llu", &run, &wait) == 2) {
            out.known = true;
            out.run_ns += run;
            out.wait_ns += wait;
        }
        free(path);
    }
    if (tasks) closedir(tasks);
    strbuf_free(&text);
    free(dir);
    return out;
}

/* If a thread ended since the reading `before`, the sums can be smaller. Such an interval is not counted. */
void contention_add(struct contention *c, pid_t pid, const struct contention_times *before,
                    uint64_t wall_ns) {
    struct contention_times after = contention_times(pid);
    if (!before->known || !after.known || after.run_ns < before->run_ns || after.wait_ns < before->wait_ns)
        return;
    c->run_ns += after.run_ns - before->run_ns;
    c->wait_ns += after.wait_ns - before->wait_ns;
    c->wall_ns += wall_ns;
}

char *contention_reason(const struct contention *c, bool on_cpu) {
    double ready = (double)c->run_ns + (double)c->wait_ns;
    double waited = ready > 0 ? (double)c->wait_ns / ready : 0;
    double used = c->wall_ns ? (double)c->run_ns / (double)c->wall_ns : 1;
    bool loaded = c->load > (double)c->cores, waits = waited > WAIT_SHARE,
         starved = on_cpu && c->run_ns && used < CPU_SHARE;
    struct strbuf s = STRBUF_INIT;
    if (!loaded && !waits && !starved) return NULL;
    if (loaded) strbuf_addf(&s, "the load average was %.1f on %ld cores", c->load, c->cores);
    if (waits)
        strbuf_addf(&s, "%sthe engine's threads waited %.0f%% of their time for a core", s.len ? ", " : "",
                    100 * waited);
    if (starved) strbuf_addf(&s, "%sthe engine used %.2f s of CPU time per second", s.len ? ", " : "", used);
    char *text = xstrdup(s.buf);
    strbuf_free(&s);
    return text;
}
