#include "cmd/build_info.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <stdio.h> /* jpeglib.h needs it */
#include <string.h>

#include <jansson.h>
#include <jpeglib.h>
#include <pcre2.h>
#include <png.h>
#include <sqlite3.h>
#include <utf8proc.h>
#include <yaml.h>
#include <zlib.h>
#include <zstd.h>

#include "engine/cuda/cuda.h"
#include "gen/version.h" /* written by the Makefile */

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

const char *build_version(void) { return INFERPROF_VERSION; }
const char *build_commit(void) { return INFERPROF_COMMIT; }

#define AS_TEXT(x) #x
#define VERSION_TEXT(x) AS_TEXT(x)
#ifdef LIBJPEG_TURBO_VERSION
#define JPEG_NAME "libjpeg-turbo " VERSION_TEXT(LIBJPEG_TURBO_VERSION)
#else
#define JPEG_NAME "libjpeg " VERSION_TEXT(JPEG_LIB_VERSION)
#endif

/* Versions of the loaded libraries. libjpeg does not report one, so its version at build time is used. */
static void add_libraries(struct strbuf *out) {
    char pcre2[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    pcre2[strcspn(pcre2, " ")] = 0; /* "10.42 2022-12-11" */
    strbuf_addf(out,
                "zstd %s, zlib %s, SQLite %s, jansson %s, libyaml %s, libpng %s, %s, PCRE2 %s, utf8proc %s",
                ZSTD_versionString(), zlibVersion(), sqlite3_libversion(), jansson_version_str(),
                yaml_get_version_string(), png_get_libpng_ver(NULL), JPEG_NAME, pcre2, utf8proc_version());
}

static void add_gpu(struct strbuf *out) {
    strbuf_addstr(out, "built in; CUDA libraries are loaded at run time");
    if (INFERPROF_CUDA[0])
        strbuf_addf(out, " (declarations checked against the headers of CUDA %s)", INFERPROF_CUDA);
}

static const char *kernels_text(void) {
    return cuda_built() ? "CPU, and NVIDIA GPUs of compute capability 8.0 and newer"
                        : "CPU (built without nvcc: no GPU kernels)";
}

void build_info_text(struct strbuf *out) {
    strbuf_addf(out, "inferprof %s (commit %s)\ncompiler: %s\nlibraries: ", INFERPROF_VERSION,
                INFERPROF_COMMIT, COMPILER);
    add_libraries(out);
    strbuf_addstr(out, "\nGPU collection: ");
    add_gpu(out);
    strbuf_addf(out, "\nnative engine: %s\n", kernels_text());
}

void build_info_env(struct env *e) {
    struct strbuf libraries = STRBUF_INIT, gpu = STRBUF_INIT;
    add_libraries(&libraries);
    add_gpu(&gpu);
    env_add(e, "Software", "compiler", "%s", COMPILER);
    env_add(e, "Software", "libraries", "%s", libraries.buf);
    env_add(e, "Software", "GPU collection", "%s", gpu.buf);
    env_add(e, "Software", "native engine", "%s", kernels_text());
    env_add(e, "Software", "inferprof", "%s (commit %s)", INFERPROF_VERSION, INFERPROF_COMMIT);
    strbuf_free(&libraries);
    strbuf_free(&gpu);
}
