/* `.nsys-rep` is a proprietary format. NVIDIA's nsys converts it to SQLite. */
#include <math.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "base/tool.h"
#include "import/nsys.h"

int nsys_export_report(const char *path, const char *database, const char *log, int *interrupted,
                       struct err *err) {
    *interrupted = 0;
    char *nsys = tool_find("nsys");
    if (!nsys)
        return err_set(
            err,
            "%s: needs nsys, which was not found in PATH, /usr/local/cuda or /opt/nvidia; install Nsight "
            "Systems, or run `nsys export --type sqlite` on another machine and import the result",
            path);
    const char *argv[] = { nsys,   "export",   "--type", "sqlite", "--force-overwrite",
                           "true", "--output", database, path,     NULL };
    struct tool_run run = { .argv = (char *const *)argv, .log = log, .limit_s = INFINITY };
    interrupt_watch();
    int rc = tool_run(&run, err);
    *interrupted = interrupt_signal();
    interrupt_unwatch();
    free(nsys);
    return rc < 0 ? err_wrap(err, "%s: nsys export failed", path) : 0;
}
