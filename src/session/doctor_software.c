#include <stdlib.h>

#include "base/die.h"
#include "base/program.h"
#include "base/tool.h"
#include "session/doctor_internal.h"
#include "session/python.h"

#define PYTHON_LIMIT_S 20.0

static void check_tool(struct doctor *d, const char *name, const char *remedy) {
    char *path = tool_find(name);
    if (path)
        doctor_add(d, name, DOCTOR_OK, NULL, "%s", path);
    else
        doctor_add(d, name, DOCTOR_MISSING, remedy, "not in PATH, /usr/local/cuda or /opt/nvidia");
    free(path);
}

static bool ask_python(const char *python, const char *script, struct strbuf *answer) {
    struct err why;
    return python && python_ask(python, script, PYTHON_LIMIT_S, answer, &why) == 0;
}

/* Reads versions from package metadata: importing torch would take seconds and use the GPU. */
static void check_package(struct doctor *d, const char *python, const char *package) {
    struct strbuf version = STRBUF_INIT;
    char *script = xasprintf("import importlib.metadata as m; print(m.version('%s'))", package);
    if (ask_python(python, script, &version))
        doctor_add(d, package, DOCTOR_OK, NULL, "%s", version.buf);
    else
        doctor_add(d, package, DOCTOR_MISSING,
                   "only needed by the engine 'hf': install it in the Python that runs your model",
                   "not installed for python3");
    free(script);
    strbuf_free(&version);
}

static void check_python(struct doctor *d) {
    struct strbuf line = STRBUF_INIT;
    char *python = program_find("python3");
    if (ask_python(python, "print(sys.version.split()[0], sys.executable)", &line)) {
        doctor_add(d, "Python", DOCTOR_OK, NULL, "%s", line.buf);
        check_package(d, python, "torch");
        check_package(d, python, "transformers");
    } else {
        doctor_add(d, "Python", DOCTOR_MISSING,
                   "only the engine 'hf' needs Python, with torch and transformers",
                   python ? "%s does not run" : "no python3 in PATH", python);
    }
    free(python);
    strbuf_free(&line);
}

void doctor_software(struct doctor *d) {
    check_tool(d, "ncu", "only needed for --ncu of 'run' and 'profile' (Nsight Compute for the top kernels)");
    check_tool(d, "nsys",
               "only needed for --nsys of 'run' and 'profile'; importing its exports works without it");
    check_python(d);
}
