/* Checks the CUDA backend against the CPU backend on a machine with a GPU, and times it (cuda.sh runs it).
 *     cuda_check ops                          every operator on random and extreme numbers
 *     cuda_check tokens NAME...               64 greedy tokens of the fixtures tests/data/engine/NAME.json
 *     cuda_check few NAME TOKENS [SIDE]       some tokens on the GPU, bf16 weights, for slow tools; SIDE:
 *                                             a page is one view of that many pixels
 *     cuda_check logits CONFIG LAYERS PROMPT [IMAGE]   logits after a prompt, with the first LAYERS layers
 *     cuda_check speed CONFIG PROMPT NEW [IMAGE]     decoding after a prompt of PROMPT ids, synthetic weights
 *     cuda_check products                     speed of products and attention of the models
 *     cuda_check long CONFIG PROMPT NEW       the same tokens twice, up to the end of the context
 *     cuda_check many NAME REQUESTS           requests to a fixture's model: memory must not grow
 *     cuda_check persistent CONFIG LAYERS PROMPT NEW [VOCABULARY]   the persistent kernel against the graph
 *     cuda_check batch CONFIG LAYERS N PROMPT NEW    graphs of N sequences against operators
 *     cuda_check skinny [few]                 products of batches against the CPU; without `few`, their speed
 *     cuda_check memory CONFIG LAYERS         a model that is too large is refused before it is loaded
 * With CUDA_CHECK_FP8=1, the weights of few, logits, speed, long and batch are fp8 instead of bf16.
 * Run from the root of the source tree. Exit status 1: something differs. */
#include <jansson.h>
#include <math.h>
#include "gpu/cuda/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "engine/compute/threads.h"
#include "engine/cpu/cpu.h"
#include "engine/cuda/cuda.h"

int main(int argc, char **argv) {
    struct err err;
    if (argc < 2)
        die("usage: cuda_check ops | products | skinny [few] | tokens NAME... | few NAME TOKENS [SIDE] | "
            "logits CONFIG LAYERS PROMPT [IMAGE] | speed CONFIG PROMPT NEW [IMAGE] | "
            "persistent CONFIG LAYERS PROMPT NEW [VOCABULARY] | long CONFIG PROMPT NEW | "
            "many NAME REQUESTS | batch CONFIG LAYERS N PROMPT NEW | memory CONFIG LAYERS");
    if (strcmp(argv[1], "ops") == 0 || strcmp(argv[1], "products") == 0 || strcmp(argv[1], "skinny") == 0) {
        struct threads *threads = threads_open(0);
        both[0] = cpu_open(threads, NULL);
        ops_set_exact(both[0], true);
        both[1] = cuda_open(threads, 0, &err);
        if (!both[1]) die("%s", err.msg);
        printf("%s (%s)\n", ops_name(both[1]), ops_device(both[1]));
        if (strcmp(argv[1], "ops") == 0)
            check_operators();
        else if (strcmp(argv[1], "skinny") == 0)
            check_and_time_skinny(argc > 2 && strcmp(argv[2], "few") == 0);
        else
            time_operators();
        ops_close(both[0]);
        ops_close(both[1]);
        threads_close(threads);
    } else if (strcmp(argv[1], "tokens") == 0) {
        for (int i = 2; i < argc; i++) check_tokens(argv[i]);
    } else if (strcmp(argv[1], "few") == 0 && argc >= 4) {
        check_few(argv[2], atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 0);
    } else if (strcmp(argv[1], "logits") == 0 && argc >= 5) {
        check_logits(argv[2], atoi(argv[3]), atoi(argv[4]), argc > 5 ? argv[5] : NULL);
    } else if (strcmp(argv[1], "long") == 0 && argc == 5) {
        check_long(argv[2], atoi(argv[3]), atoi(argv[4]));
    } else if (strcmp(argv[1], "many") == 0 && argc == 4) {
        check_many(argv[2], atoi(argv[3]));
    } else if (strcmp(argv[1], "memory") == 0 && argc == 4) {
        check_memory(argv[2], atoi(argv[3]));
    } else if (strcmp(argv[1], "persistent") == 0 && argc >= 6) {
        check_persistent(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]),
                         argc > 6 ? atoi(argv[6]) : 129280);
    } else if (strcmp(argv[1], "batch") == 0 && argc == 7) {
        check_batch(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), atoi(argv[6]));
    } else if (strcmp(argv[1], "speed") == 0 && argc >= 5) {
        decode_path = getenv("CUDA_CHECK_DECODE");
        speed(argv[2], atoi(argv[3]), atoi(argv[4]), argc > 5 ? argv[5] : NULL);
    }
    printf("%d failures\n", failures);
    return failures > 0;
}
