/* ptx_run KERNEL THREADS N: runs a kernel of $INFERPROF_PTX on zeros[N], with 1 kB of shared memory, and
 * prints the numbers. For tests of the interpreter of PTX (tests/ptx). */
#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "driver/cuda.h"

static void require(int rc, const char *what) {
    if (rc != CU_OK) die("%s: error %d", what, rc);
}

static int run_kernel(const struct driver *d, char **argv) {
    unsigned threads = (unsigned)atoi(argv[2]), n = (unsigned)atoi(argv[3]);
    float *numbers = xcalloc(n, sizeof *numbers);
    cu_module module;
    cu_function f;
    cu_ptr p;
    require(d->module_load(&module, "image"), "loading");
    require(d->module_function(&f, module, argv[1]), argv[1]);
    require(d->mem_alloc(&p, n * sizeof *numbers), "allocating");
    require(d->copy_in(p, numbers, n * sizeof *numbers, NULL), "copying");
    require(d->launch_plain(f, 1, 1, 1, threads, 1, 1, 1024, NULL, (void *[]){ &p, &n }, NULL), "launching");
    require(d->copy_out(numbers, p, n * sizeof *numbers, NULL), "copying back");
    for (unsigned i = 0; i < n; i++) printf("%g%s", (double)numbers[i], i + 1 < n ? " " : "\n");
    free(numbers);
    require(d->mem_free(p), "freeing");
    return 0;
}

int main(int argc, char **argv) {
    struct err err;
    const struct driver *d = driver_load(&err);
    if (argc != 4) die("usage: ptx_run KERNEL THREADS N");
    if (d) return run_kernel(d, argv);
    die("%s", err.msg);
}
