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
    strbuf_addstr(out, "GPU collection: built in; CUDA's libraries are found at run time");
    if (INFERPROF_CUDA[0])
        strbuf_addf(out, " (declarations checked against the headers of CUDA %s)", INFERPROF_CUDA);
    strbuf_addch(out, '\n');
}
