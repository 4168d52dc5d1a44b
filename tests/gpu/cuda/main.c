/* Checks the CUDA backend against the CPU backend on a machine with a GPU, and times it (cuda.sh runs it).
 *     cuda_check ops                          every operator on random and extreme numbers
 *     cuda_check tokens NAME...               64 greedy tokens of the fixtures tests/data/engine/NAME.json
 *     cuda_check few NAME TOKENS [SIDE]       some tokens on the GPU, for slow tools; SIDE: a page is one
 *                                             view of that many pixels
 *     cuda_check logits CONFIG LAYERS PROMPT [IMAGE]   logits after a prompt, with the first LAYERS layers
 *     cuda_check steps CONFIG LAYERS PROMPT NEW [WINDOW]   logits of the last of NEW tokens after PROMPT ids:
 *                                             of the graph and of operators; WINDOW: as a Mistral model, with
 *                                             attention to that many positions
 *     cuda_check speed CONFIG PROMPT NEW [IMAGE]     decoding after a prompt of PROMPT ids, synthetic weights
 *     cuda_check recording CONFIG PROMPT NEW ROUNDS [IMAGE|N]   what recording costs, of a page or of N
 *                                             sequences; CUDA_CHECK_TRACE: a file for the last trace
 *     cuda_check products                     speed of products and attention of the models
 *     cuda_check long CONFIG PROMPT NEW [LAYERS]     the same tokens twice, up to the end of the context
 *     cuda_check many NAME REQUESTS           requests to a fixture's model: memory must not grow
 *     cuda_check persistent CONFIG LAYERS PROMPT NEW [VOCABULARY]   the persistent kernel against the graph
 *     cuda_check batch CONFIG LAYERS N PROMPT NEW [CONTEXT]   graphs of N sequences against operators;
 *                                             with CONTEXT = PROMPT, the longest prompt fills the context
 *     cuda_check skinny [few]                 products of batches against the CPU; without `few`, their speed
 *     cuda_check memory CONFIG LAYERS         a model that is too large is refused before it is loaded
 *     cuda_check recovery CONFIG LAYERS       a batch that does not fit is an error, and the next requests
 *                                             are served
 * CUDA_CHECK_WEIGHTS=bf16|f16|f32|fp8|fp8-rows|fp8-matrices: the weights of few, logits, steps, speed,
 * recording, long and batch; the default is bf16.
 * For devices that are slow (tests/ptx): CUDA_CHECK_TOKENS=N, the tokens of `tokens` instead of 64;
 * CUDA_CHECK_VOCABULARY=N, the vocabulary of every CONFIG.
 * CUDA_CHECK_SELF=1: the second device is the CPU too, with its usual rounding. This checks the program
 * itself on a machine without a GPU: a job that reads or compares wrong numbers fails there. It checks no
 * kernel.
 * Run from the root of the source tree. Exit status 1: something differs. */
#include "gpu/cuda/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/compute/threads.h"
#include "engine/cpu/cpu.h"
#include "engine/cuda/cuda.h"

/* Argument i, or `otherwise` if there are not so many. */
static int number(int argc, char **argv, int i, int otherwise) {
    return i < argc ? atoi(argv[i]) : otherwise;
}
static const char *text(int argc, char **argv, int i) { return i < argc ? argv[i] : NULL; }

/* ---- jobs on single operators */
static void with_devices(void (*job)(void)) {
    struct err err;
    struct threads *threads = threads_open(0);
    both[CPU] = cpu_open(threads, NULL);
    ops_set_exact(both[CPU], true);
    both[GPU] = self_check() ? cpu_open(threads, NULL) : cuda_open(threads, 0, &err);
    if (!both[GPU]) die("%s", err.msg);
    printf("%s (%s)\n", ops_name(both[GPU]), ops_device(both[GPU]));
    job();
    ops_close(both[CPU]);
    ops_close(both[GPU]);
    threads_close(threads);
}
static void run_ops(int argc, char **argv) {
    (void)argc;
    (void)argv;
    with_devices(check_operators);
}
static void run_products(int argc, char **argv) {
    (void)argc;
    (void)argv;
    with_devices(time_operators);
}
static void run_skinny(int argc, char **argv) {
    with_devices(argc > 0 && strcmp(argv[0], "few") == 0 ? check_skinny_only : check_and_time_skinny);
}

/* ---- jobs on models */
static void run_tokens(int argc, char **argv) {
    for (int i = 0; i < argc; i++) check_tokens(argv[i]);
}
static void run_few(int argc, char **argv) { check_few(argv[0], atoi(argv[1]), number(argc, argv, 2, 0)); }
static void run_logits(int argc, char **argv) {
    check_logits(argv[0], atoi(argv[1]), atoi(argv[2]), text(argc, argv, 3));
}
static void run_steps(int argc, char **argv) {
    check_steps(argv[0], atoi(argv[1]), atoi(argv[2]), atoi(argv[3]), number(argc, argv, 4, 0));
}
static void run_speed(int argc, char **argv) {
    decode_path = getenv("CUDA_CHECK_DECODE");
    speed(argv[0], atoi(argv[1]), atoi(argv[2]), text(argc, argv, 3));
}
static void run_recording(int argc, char **argv) {
    const char *last = text(argc, argv, 4);
    int n = last ? atoi(last) : 1;
    decode_path = getenv("CUDA_CHECK_DECODE");
    check_recording(argv[0], atoi(argv[1]), atoi(argv[2]), atoi(argv[3]), last && !n ? last : NULL,
                    MAX(n, 1));
}
static void run_long(int argc, char **argv) {
    check_long(argv[0], atoi(argv[1]), atoi(argv[2]), number(argc, argv, 3, 0));
}
static void run_many(int argc, char **argv) {
    (void)argc;
    check_many(argv[0], atoi(argv[1]));
}
static void run_persistent(int argc, char **argv) {
    check_persistent(argv[0], atoi(argv[1]), atoi(argv[2]), atoi(argv[3]), number(argc, argv, 4, 129280));
}
static void run_batch(int argc, char **argv) {
    check_batch(argv[0], atoi(argv[1]), atoi(argv[2]), atoi(argv[3]), atoi(argv[4]),
                number(argc, argv, 5, 0));
}
static void run_memory(int argc, char **argv) {
    (void)argc;
    check_memory(argv[0], atoi(argv[1]));
}

static void run_recovery(int argc, char **argv) {
    (void)argc;
    check_recovery(argv[0], atoi(argv[1]));
}

static const struct job {
    const char *name, *arguments;
    int least, most;                    /* number of arguments */
    void (*run)(int argc, char **argv); /* argv: the arguments after the name */
    bool needs_gpu;                     /* no self-check */
} jobs[] = {
    { "ops", "", 0, 0, run_ops, false },
    { "tokens", "NAME...", 1, 1000, run_tokens, false },
    { "few", "NAME TOKENS [SIDE]", 2, 3, run_few, false },
    { "logits", "CONFIG LAYERS PROMPT [IMAGE]", 3, 4, run_logits, false },
    { "steps", "CONFIG LAYERS PROMPT NEW [WINDOW]", 4, 5, run_steps, false },
    { "speed", "CONFIG PROMPT NEW [IMAGE]", 3, 4, run_speed, false },
    { "recording", "CONFIG PROMPT NEW ROUNDS [IMAGE|N]", 4, 5, run_recording, false },
    { "products", "", 0, 0, run_products, true },
    { "long", "CONFIG PROMPT NEW [LAYERS]", 3, 4, run_long, false },
    { "many", "NAME REQUESTS", 2, 2, run_many, true },
    { "persistent", "CONFIG LAYERS PROMPT NEW [VOCABULARY]", 4, 5, run_persistent, true },
    { "batch", "CONFIG LAYERS N PROMPT NEW [CONTEXT]", 5, 6, run_batch, false },
    { "skinny", "[few]", 0, 1, run_skinny, true },
    { "memory", "CONFIG LAYERS", 2, 2, run_memory, true },
    { "recovery", "CONFIG LAYERS", 2, 2, run_recovery, true },
};

static int print_usage(void) {
    fprintf(stderr, "usage:\n");
    for (size_t i = 0; i < COUNTOF(jobs); i++)
        fprintf(stderr, "    cuda_check %s %s\n", jobs[i].name, jobs[i].arguments);
    return 2;
}

int main(int argc, char **argv) {
    const struct job *j = NULL;
    for (size_t i = 0; argc > 1 && i < COUNTOF(jobs); i++)
        if (strcmp(argv[1], jobs[i].name) == 0) j = &jobs[i];
    if (!j || argc - 2 < j->least || argc - 2 > j->most) return print_usage();
    if (self_check() && j->needs_gpu) die("%s: this job needs a GPU", j->name);
    j->run(argc - 2, argv + 2);
    printf("%d failures\n", failures);
    return failures > 0;
}
