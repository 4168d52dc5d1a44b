/* A line of cuBLASLt's log. The text before a tab is the function name. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "collect/gemm_log.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct trace_gemm g = { 0 };
    struct gemm_text t;
    char *text = malloc(n + 1);
    if (!text) return 0;
    memcpy(text, data, n);
    text[n] = '\0';
    char *tab = strchr(text, '\t');
    if (tab) *tab = '\0';
    gemm_parse(tab ? text : "cublasLtMatmul", tab ? tab + 1 : text, &g, &t);
    free(text);
    return 0;
}
