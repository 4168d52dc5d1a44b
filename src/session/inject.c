#include "session/inject.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/installed.h"
#include "base/notice.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"
#include "base/words.h"

#define COLLECTOR_NAME "libinferprof-collector.so"

static const struct {
    unsigned bit;
    const char *word;
} what_words[] = {
    { INJECT_KERNELS, "kernels" },
    { INJECT_COPIES, "copies" },
    { INJECT_LAUNCHES, "launches" },
    { INJECT_SYNCS, "syncs" },
    { INJECT_NVTX, "nvtx" },
    { INJECT_GEMMS, "gemms" },
    { INJECT_ALLOCATIONS, "allocations" },
    { INJECT_WHOLE_GRAPHS, "whole-graphs" },
};

struct strings {
    char **v;
    size_t n, cap;
};

/* Receives the reasons of processes in which the collector cannot start a thread. Opened once and kept
 * until the program ends. */
static struct {
    int fd;
    char name[NOTICE_NAME_BYTES];
} notices = { .fd = -1 };

static bool open_notices(void) {
    if (notices.fd < 0) notices.fd = notice_open(notices.name);
    return notices.fd >= 0;
}

char *inject_find_collector(struct err *err) {
    const char *from_env = getenv("INFERPROF_COLLECTOR");
    if (from_env && *from_env) {
        char *full = realpath(from_env, NULL);
        if (!full) err_set(err, "INFERPROF_COLLECTOR=%s: %s", from_env, strerror(errno));
        return full;
    }
    struct err why;
    char *found = installed_find(COLLECTOR_NAME, &why);
    if (!found) err_set(err, "%s; or set INFERPROF_COLLECTOR to its path", why.msg);
    return found;
}

static void set_variable(struct strings *out, const char *name, const char *value) {
    vec_push(out, xasprintf("%s=%s", name, value));
}

/* Sets the variable. If the user has set it to another value, does not override it, stores the name and
 * value in *kept and returns true. */
static bool put_injection(struct strings *out, const char *name, const char *collector, char **kept) {
    const char *now = getenv(name);
    if (now && *now && strcmp(now, collector) != 0) {
        *kept = xasprintf("%s=%s", name, now);
        return true;
    }
    set_variable(out, name, collector);
    return false;
}

/* Returns at least 1 for values above 0, because 0 means that the option was not given. */
static uint64_t to_whole(double v) {
    return v <= 0 ? 0 : v < 1 ? 1 : v > 1e17 ? (uint64_t)1e17 : (uint64_t)(v + 0.5);
}

static void set_collector_settings(struct strings *out, const struct inject_options *o) {
    char text[64];
    struct strbuf what = STRBUF_INIT;
    for (size_t i = 0; i < COUNTOF(what_words); i++)
        if (o->what & what_words[i].bit) strbuf_addf(&what, "%s%s", what.len ? "," : "", what_words[i].word);
    set_variable(out, "INFERPROF_COLLECT_WHAT", what.len ? what.buf : "none");
    strbuf_free(&what);
    /* whole numbers, because the program's locale may use a decimal comma */
    const struct {
        const char *name;
        uint64_t v;
    } numbers[] = { { "INFERPROF_COLLECT_DELAY_US", to_whole(o->delay_s * 1e6) },
                    { "INFERPROF_COLLECT_DURATION_US", to_whole(o->duration_s * 1e6) },
                    { "INFERPROF_COLLECT_BUDGET_PPM", to_whole(o->budget_pct * 1e4) },
                    { "INFERPROF_COLLECT_REPLAYS", o->graph_replays },
                    { "INFERPROF_COLLECT_MAX_SIZE", o->max_file_bytes },
                    { "INFERPROF_COLLECT_MEMORY", o->memory_bytes } };
    for (size_t i = 0; i < COUNTOF(numbers); i++) {
        if (!numbers[i].v) continue;
        snprintf(text, sizeof text, "%llu", (unsigned long long)numbers[i].v);
        set_variable(out, numbers[i].name, text);
    }
    if (o->delay_s > 0 || o->duration_s > 0) { /* all processes of the run use the same start time */
        snprintf(text, sizeof text, "%llu", (unsigned long long)clock_mono_ns());
        set_variable(out, "INFERPROF_COLLECT_START", text);
    }
    if (o->range) set_variable(out, "INFERPROF_COLLECT_RANGE", o->range);
    if (open_notices()) set_variable(out, "INFERPROF_COLLECT_NOTICE", notices.name);
}

int inject_env_make(struct inject_env *env, const struct inject_options *o, struct err *err) {
    struct strings out = { 0 };
    *env = (struct inject_env){ 0 };
    char *collector = o->collector ? realpath(o->collector, NULL) : inject_find_collector(err);
    if (!collector && o->collector) err_set(err, "%s: %s", o->collector, strerror(errno));
    if (!collector) return -1;
    char *dir = realpath(o->trace_dir, NULL);
    if (!dir) {
        err_set(err, "%s: %s", o->trace_dir, strerror(errno));
        free(collector);
        return -1;
    }
    env->cuda_kept = put_injection(&out, "CUDA_INJECTION64_PATH", collector, &env->kept[0]);
    env->nvtx_kept = put_injection(&out, "NVTX_INJECTION64_PATH", collector, &env->kept[1]);
    env->nccl_kept = put_injection(&out, "NCCL_PROFILER_PLUGIN", collector, &env->kept[2]);
    set_variable(&out, "INFERPROF_COLLECT_DIR", dir);
    set_collector_settings(&out, o);
    vec_push(&out, NULL);
    env->set = out.v;
    free(dir);
    free(collector);
    return 0;
}

void inject_env_free(struct inject_env *env) {
    for (char **p = env->set; p && *p; p++) free(*p);
    free(env->set);
    for (size_t i = 0; i < COUNTOF(env->kept); i++) free(env->kept[i]);
    *env = (struct inject_env){ 0 };
}

long inject_trace_pid(const char *file_name) {
    const char *dash = strrchr(file_name, '-');
    char *end = NULL;
    long pid = dash && words_end_with(file_name, strlen(file_name), ".ipt") ? strtol(dash + 1, &end, 10) : 0;
    return pid > 0 && *end == '.' ? pid : 0;
}

bool inject_trace_is_local(const char *file_name, const struct launcher *l, uint32_t rank) {
    char prefix[96], host[65] = "";
    if (rank != LAUNCHER_UNKNOWN)
        snprintf(prefix, sizeof prefix, "%s-rank%u-", l->node, rank);
    else
        snprintf(prefix, sizeof prefix, "%s-rank", l->node);
    if (strncmp(file_name, prefix, strlen(prefix)) == 0) return true;
    if (rank != LAUNCHER_UNKNOWN || gethostname(host, sizeof host - 1) != 0) return false;
    host[strcspn(host, ". /")] = '\0';
    snprintf(prefix, sizeof prefix, "%s-", host);
    return strncmp(file_name, prefix, strlen(prefix)) == 0;
}

static int is_problem_file(const struct dirent *e) {
    return words_end_with(e->d_name, strlen(e->d_name), ".problem");
}

/* Adds the reason, unless it was already added for another process. */
static void add_reason(const char *process, size_t len, const char *reason, struct strlist *seen,
                       struct strlist *warnings) {
    size_t i = 0;
    while (i < seen->n && strcmp(seen->v[i], reason) != 0) i++;
    strlist_add(seen, "%s", reason);
    if (i == seen->n - 1)
        strlist_add(warnings, "process %.*s was not recorded: %s", (int)len, process, reason);
}

static void add_problem_file(const char *trace_dir, const char *name, struct strlist *seen,
                             struct strlist *warnings) {
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    char *path = file_join(trace_dir, name);
    if (file_read(path, 4096, &text, &ignored) == 0 && text.len) {
        text.buf[strcspn(text.buf, "\n")] = '\0';
        add_reason(name, strlen(name) - strlen(".problem"), text.buf, seen, warnings);
    }
    strbuf_free(&text);
    free(path);
}

/* A notice is "<host>-<pid>: <reason>". */
static void add_notices(struct strlist *seen, struct strlist *warnings) {
    char text[NOTICE_TEXT_BYTES];
    while (notices.fd >= 0 && notice_receive(notices.fd, text)) {
        const char *reason = strstr(text, ": ");
        if (reason) add_reason(text, (size_t)(reason - text), reason + 2, seen, warnings);
    }
}

void inject_add_warnings(const char *trace_dir, struct strlist *warnings) {
    struct dirent **files = NULL;
    struct strlist seen = { 0 };
    size_t before = warnings->n;
    int n = scandir(trace_dir, &files, is_problem_file, alphasort);
    for (int i = 0; i < n; i++) {
        add_problem_file(trace_dir, files[i]->d_name, &seen, warnings);
        free(files[i]);
    }
    add_notices(&seen, warnings);
    size_t more = seen.n - (warnings->n - before);
    if (more) strlist_add(warnings, "not recorded for the same reason: %zu more", more);
    free(files);
    strlist_free(&seen);
}
