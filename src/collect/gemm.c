#include "collect/gemm.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/abi.h"
#include "collect/gemm_log.h"
#include "collect/output.h"
#include "collect/thread.h"

#define LEVEL_TRACE 5

static atomic_bool attached;

static void on_log(int level, const char *function, const char *message) {
    struct trace_gemm g = { 0 };
    struct gemm_text t;
    (void)level;
    if (!function || !message || !gemm_parse(function, message, &g, &t)) return;
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

void gemm_tick(void) {
    static const char *const sonames[] = { "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11" };
    void *library = NULL, *set_callback, *set_level;
    int (*callback_f)(cublaslt_logger), (*level_f)(int);
    if (!settings.gemms || atomic_load(&attached)) return;
    for (size_t i = 0; !library && i < COUNTOF(sonames); i++)
        library = dlopen(sonames[i], RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;
    atomic_store(&attached, true);
    set_callback = dlsym(library, "cublasLtLoggerSetCallback");
    set_level = dlsym(library, "cublasLtLoggerSetLevel");
    if (!set_callback || !set_level) {
        problem("no GEMM shapes: this cuBLASLt has no logger; use CUDA 11.4 or newer");
        return;
    }
    memcpy(&callback_f, &set_callback, sizeof callback_f);
    memcpy(&level_f, &set_level, sizeof level_f);
    int rc = callback_f(on_log);
    if (rc == 0) rc = level_f(LEVEL_TRACE);
    if (rc != 0) problem("no GEMM shapes: cuBLASLt's logger refuses (status %d)", rc);
}
