/* Log lines of cuBLASLt 13.0, recorded on an H200 (tests/gpu/gemm_log.py). */
#include "collect/gemm_log.c"
#include "unit/test.h"

TEST(gemm_log_reads_a_cublas_product) {
    struct trace_gemm g = { 0 };
    struct gemm_text t;
    CHECK(gemm_parse(
        "cublasLtTSTMatmul",
        "A=0X7FB34CC00000 Adesc=[type=R_16BF rows=4096 cols=1024 ld=4096] B=0X7FB347E80000 "
        "Bdesc=[type=R_16BF rows=4096 "
        "cols=16 ld=4096] C=0X7FB347EA0000 Cdesc=[type=R_16BF rows=1024 cols=16 ld=1024] D=0X7FB347EA0000 "
        "Ddesc=[type=R_16BF rows=1024 cols=16 ld=1024] computeDesc=[computeType=COMPUTE_32F scaleType=R_32F "
        "transa=OP_T "
        "smCountTarget=132] algo=[algoId=66 tile=MATMUL_TILE_64x16 stages=MATMUL_STAGES_64xAUTO "
        "numSplitsK=3] "
        "workSpace=0X7FB328000000 beta=0 outOfPlace=0 stream=0X0",
        &g, &t));
    CHECK_INT(g.m, 1024);
    CHECK_INT(g.n, 16);
    CHECK_INT(g.k, 4096);
    CHECK_INT(g.batch, 1);
    CHECK_STR(t.types, "bf16,bf16->bf16 compute f32");
    CHECK_STR(t.layout, "TN");
    CHECK_STR(t.algorithm, "algoId=66 tile=MATMUL_TILE_64x16 stages=MATMUL_STAGES_64xAUTO numSplitsK=3");
}

TEST(gemm_log_reads_batches) {
    struct trace_gemm g = { 0 };
    struct gemm_text t;
    CHECK(gemm_parse(
        "cublasLtSSSMatmul",
        "A=0X7 Adesc=[type=R_32F rows=48 cols=32 ld=48 batchCount=4 stridedBatchOffset=1536] B=0X8 "
        "Bdesc=[type=R_32F rows=32 cols=64 ld=32 batchCount=4 stridedBatchOffset=2048] C=0X9 "
        "Cdesc=[type=R_32F rows=48 cols=64 ld=48 batchCount=4 stridedBatchOffset=3072] "
        "computeDesc=[computeType=COMPUTE_32F scaleType=R_32F smCountTarget=132]",
        &g, &t));
    CHECK_INT(g.m, 48);
    CHECK_INT(g.n, 64);
    CHECK_INT(g.k, 32);
    CHECK_INT(g.batch, 4);
    CHECK_STR(t.layout, "NN");
    CHECK_STR(t.algorithm, "");
}

TEST(gemm_log_ignores_other_lines) {
    struct trace_gemm g = { 0 };
    struct gemm_text t;
    CHECK(!gemm_parse("cublasLtTSTMatmulAlgoGetHeuristic", "Adesc=[type=R_16BF rows=4096 cols=1024 ld=4096]",
                      &g, &t));
    CHECK(!gemm_parse("cublasLtMatmul",
                      "A=0X7FB34CC00000 Adesc=0X1CFEF690 B=0X7 Bdesc=0X1CFEF6E0 computeDesc=0X1C", &g, &t));
    CHECK(
        !gemm_parse("cublasLtMatmulDescCreate", "matmulDesc=0X7FFF527BC2F0 computeType=COMPUTE_32F", &g, &t));
    CHECK(
        !gemm_parse("cublasLtMatmul", "Adesc=[type=R_16BF rows=4096 Bdesc=[ Cdesc=[ computeDesc=[", &g, &t));
    CHECK(!gemm_parse("", "", &g, &t));
}
