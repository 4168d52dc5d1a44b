#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/tool.h"
#include "session/doctor_internal.h"

/* First line a command prints; false: it cannot be run, fails or says nothing. */
static bool first_line(const char *command, char *out, size_t cap) {
    FILE *p = popen(command, "re");
    char rest[512];
    bool ok = p && fgets(out, (int)cap, p);
    while (p && fgets(rest, sizeof rest, p)) {}
    if (p && pclose(p) != 0) ok = false;
    if (ok) out[strcspn(out, "\n")] = '\0';
    return ok;
}

static void check_tool(struct doctor *d, const char *name, const char *remedy) {
    char *path = tool_find(name);
    if (path)
        doctor_add(d, name, DOCTOR_OK, NULL, "%s", path);
    else
        doctor_add(d, name, DOCTOR_MISSING, remedy, "not in PATH, /usr/local/cuda or /opt/nvidia");
    free(path);
}

/* Versions by the packages' metadata: importing torch would take seconds and touch the GPU. */
static void check_python(struct doctor *d) {
    char line[512];
    if (!first_line("python3 -c 'import sys; print(sys.version.split()[0], sys.executable)' 2>/dev/null",
                    line, sizeof line)) {
        doctor_add(d, "Python", DOCTOR_MISSING,
                   "the engine 'hf' needs Python with torch and transformers; nothing else does",
                   "no python3 in PATH");
        return;
    }
    doctor_add(d, "Python", DOCTOR_OK, NULL, "%s", line);
    static const char *const packages[] = { "torch", "transformers" };
    for (size_t i = 0; i < 2; i++) {
        char *command = xasprintf(
            "python3 -c 'import importlib.metadata as m; print(m.version(\"%s\"))' 2>/dev/null", packages[i]);
        if (first_line(command, line, sizeof line))
            doctor_add(d, packages[i], DOCTOR_OK, NULL, "%s", line);
        else
            doctor_add(d, packages[i], DOCTOR_MISSING,
                       "only the engine 'hf' needs it: install it in the Python that runs your model",
                       "not installed for python3");
        free(command);
    }
}

void doctor_software(struct doctor *d) {
    check_tool(d, "ncu", "only --ncu of 'run' and 'profile' uses Nsight Compute, for the top kernels");
    check_tool(d, "nsys", "only --nsys of 'run' and 'profile' uses it; its exports can be imported");
    check_python(d);
}
