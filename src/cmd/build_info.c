#include "cmd/build_info.h"

#include <jansson.h>
#include <zstd.h>

#include "gen/version.h" /* written by the Makefile: INFERPROF_VERSION, INFERPROF_COMMIT, INFERPROF_CUDA */

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

const char *build_version(void) { return INFERPROF_VERSION; }
const char *build_commit(void) { return INFERPROF_COMMIT; }

void build_info_text(struct strbuf *out) {
    strbuf_addf(out, "inferprof %s (commit %s)\n", INFERPROF_VERSION, INFERPROF_COMMIT);
    strbuf_addf(out, "compiler: %s\n", COMPILER);
    strbuf_addf(out, "libraries: zstd %s, jansson %s\n", ZSTD_versionString(), JANSSON_VERSION);
    if (INFERPROF_CUDA[0])
        strbuf_addf(out, "GPU collection: built in (CUDA headers %s)\n", INFERPROF_CUDA);
    else
        strbuf_addstr(out, "GPU collection: left out (no CUDA toolkit headers when this was built; "
                           "install the toolkit or set CUDA_HOME and run make again)\n");
}
