#include "collect/gemm.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/abi.h"
#include "collect/gemm_log.h"
#include "collect/host.h"
#include "collect/modules.h"
#include "collect/output.h"
#include "collect/thread.h"

#define MASK_TRACE 2 /* one line per product only */

static atomic_bool attached, paused;   /* paused: outside of windows */
static _Atomic(int (*)(int)) set_mask; /* NULL: callback not installed */

static void put_line(const char *function, const char *message) {
    struct trace_gemm g = { 0 };
    struct gemm_text t;
    if (!gemm_parse(function, message, &g, &t)) return;
    struct trace_writer *w = output_take();
    if (!w) return;
    g.start_ns = clock_wall_ns();
    g.thread = thread_id();
    g.types = trace_writer_str(w, t.types);
    g.layout = trace_writer_str(w, t.layout);
    g.algorithm = trace_writer_str(w, t.algorithm);
    trace_writer_gemm(w, &g, 1);
    output_give();
}

static void on_log_line(int level, const char *function, const char *message) {
    int saved_errno;
    (void)level;
    if (!function || !message || !host_enter(&saved_errno)) return;
    put_line(function, message);
    host_leave(saved_errno);
}

/* Returns true if the user has configured the logger. It must not be changed then. */
static bool logger_in_use(void) {
    static const char *const names[] = { "CUBLASLT_LOG_LEVEL", "CUBLASLT_LOG_MASK", "CUBLASLT_LOG_FILE" };
    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (!getenv(names[i])) continue;
        report_problem("no GEMM shapes: %s is set, and cuBLASLt has only one logger; unset it", names[i]);
        return true;
    }
    return false;
}

static int apply_mask(void) {
    int (*mask)(int) = atomic_load(&set_mask);
    return mask ? mask(atomic_load(&paused) ? 0 : MASK_TRACE) : 0;
}

void gemm_capture(bool on) {
    atomic_store(&paused, !on || !settings.gemms);
    apply_mask();
}

/* The logger also writes to the program's standard output by default. Therefore its file is set to
 * /dev/null. */
static int attach_logger(void *library) {
    int (*open_file)(const char *), (*set_callback)(cublaslt_logger), (*mask)(int);
    void *f[] = { dlsym(library, "cublasLtLoggerOpenFile"), dlsym(library, "cublasLtLoggerSetCallback"),
                  dlsym(library, "cublasLtLoggerSetMask") };
    if (!f[0] || !f[1] || !f[2]) return -1;
    memcpy(&open_file, &f[0], sizeof f[0]);
    memcpy(&set_callback, &f[1], sizeof f[1]);
    memcpy(&mask, &f[2], sizeof f[2]);
    int rc = open_file("/dev/null");
    if (rc == 0) rc = set_callback(on_log_line);
    if (rc != 0) return rc;
    atomic_store(&set_mask, mask);
    return apply_mask();
}

void gemm_tick(void) {
    if (!settings.gemms || atomic_load(&attached)) return;
    void *library = modules_find("libcublasLt.so");
    if (!library) return;
    atomic_store(&attached, true);
    int rc = logger_in_use() ? 0 : attach_logger(library);
    if (rc < 0) report_problem("no GEMM shapes: this cuBLASLt has no logger; use CUDA 11.4 or newer");
    if (rc > 0) report_problem("no GEMM shapes: setting up cuBLASLt's logger failed (status %d)", rc);
}

/* The logger stays installed in the child. */
void gemm_after_fork(void) { atomic_store(&paused, !settings.gemms); }
