#include "analyze/kernel_rules.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"
#include "timeline/communication.h"

#define ANY (-1)

/* Rules in order of priority. The first matching row with a library determines the library; the first
 * matching row with a category determines the category. A pattern matches anywhere in the qualified name of
 * the function, ignoring case. '*' matches any text and '^' the beginning. A pattern with the prefix '=' is
 * searched only in the last part of the name, a pattern with the prefix '~' also in the template
 * arguments. */
static const struct rule {
    const char *pattern;
    int library, category;
} rules[] = {
#define L(id) KERNEL_LIBRARY_##id
#define C(id) KERNEL_CATEGORY_##id
/* communication */
#define X(word, library) { word, L(library), C(COMMUNICATION) },
    COLLECTIVE_KERNELS(X)
#undef X
        { "cross_device_reduce", L(VLLM), C(COMMUNICATION) },
    { "allreduce", ANY, C(COMMUNICATION) },
    { "all_gather", ANY, C(COMMUNICATION) },
    { "allgather", ANY, C(COMMUNICATION) },
    { "reduce_scatter", ANY, C(COMMUNICATION) },
    { "reducescatter", ANY, C(COMMUNICATION) },
    { "all_to_all", ANY, C(COMMUNICATION) },
    { "multimem_all_reduce", L(ATEN), C(COMMUNICATION) },
    { "all_reduce", ANY, C(COMMUNICATION) },
    { "nvshmem", L(NCCL), C(COMMUNICATION) },
    { "userbuffers", ANY, C(COMMUNICATION) },
    /* expert parallelism: sends tokens to the GPUs of their experts and back */
    { "deep_ep::", L(DEEPEP), C(COMMUNICATION) },
    { "dpsk::ep::", L(DEEPEP), C(COMMUNICATION) },
    { "EpDispatch", ANY, C(COMMUNICATION) },
    { "EpCombine", ANY, C(COMMUNICATION) },
    { "moeA2A", L(TENSORRT), C(COMMUNICATION) },
    { "moe_comm::", L(TENSORRT), C(COMMUNICATION) },

    { "spin_kernel", ANY, C(WAIT) },

    /* the native engine (src/engine/cuda) */
    { "^decode_rows_", ANY, C(GEMV) },
    { "^decode_up_", ANY, C(GEMV) },
    { "^decode_out_", ANY, C(GEMV) },
    { "^decode_down_", ANY, C(GEMV) },
    { "^decode_head_", ANY, C(GEMV) },
    { "^persistent_qkv_barrier_", ANY, C(WAIT) },
    { "^persistent_parts_barrier_", ANY, C(WAIT) },
    { "^persistent_out_barrier_", ANY, C(WAIT) },
    { "^persistent_up_barrier_", ANY, C(WAIT) },
    { "^persistent_down_barrier_", ANY, C(WAIT) },
    { "^persistent_head_barrier_", ANY, C(WAIT) },
    { "^persistent_qkv_", ANY, C(GEMV) },
    { "^persistent_out_", ANY, C(GEMV) },
    { "^persistent_up_", ANY, C(GEMV) },
    { "^persistent_down_", ANY, C(GEMV) },
    { "^persistent_head_", ANY, C(GEMV) },
    { "^latent_begin_", ANY, C(GEMV) },
    { "^latent_end_", ANY, C(GEMV) },
    { "^latent_attend", ANY, C(ATTENTION) },
    { "^few_rows_", ANY, C(GEMM) },
    { "^cublaslt_", L(CUBLAS), C(GEMM) },
    { "^experts_grouped_", ANY, C(GEMM) },
    { "^wgmma_swiglu_", ANY, C(GEMM) },
    { "^mma_swiglu_", ANY, C(GEMM) },
    { "^swiglu_gemv_", ANY, C(GEMV) },
    { "^persistent_choice_", ANY, C(MOE) },
    { "^batch_pick_", ANY, C(SAMPLING) },
    { "^wgmma_bf16_", ANY, C(GEMM) },
    { "^wgmma_f16_", ANY, C(GEMM) },
    { "=skinny_norm", ANY, C(NORM) },
    { "^skinny_", ANY, C(GEMM) },
    { "^one_row_", ANY, C(GEMV) },
    { "^experts_up_", ANY, C(GEMV) },
    { "^experts_down_", ANY, C(GEMV) },
    { "^latent_query_", ANY, C(GEMV) },
    { "^latent_value_", ANY, C(GEMV) },
    { "=flash_64", ANY, C(ATTENTION) },
    { "=flash_128", ANY, C(ATTENTION) },
    { "^cache_store_", ANY, C(KV_CACHE) },
    { "^cache_load_", ANY, C(KV_CACHE) },
    { "=rope", ANY, C(ROPE) },
    { "=place_heads", ANY, C(ROPE) }, /* also writes the cache */
    { "=route", ANY, C(MOE) },
    { "=group_choices", ANY, C(MOE) },

    /* attention and its cache */
    { "~ck_tile*fmha", L(ROCM), C(ATTENTION) },
    { "create_flashinfer_kv_indices", L(SGLANG), C(KV_CACHE) },
    { "flash_attn_ext", L(GGML), C(ATTENTION) },
    { "flash_attn_vec", L(GGML), C(ATTENTION) },
    { "flash_attn_tile", L(GGML), C(ATTENTION) },
    { "flash_attn_combine", L(GGML), C(ATTENTION) },
    { "flash_attn_stream_k", L(GGML), C(ATTENTION) },
    { "flash_fwd", L(FLASH_ATTENTION), C(ATTENTION) },
    { "^sage_fwd", L(TRITON), C(ATTENTION) }, /* SageAttention */
    { "flash_bwd", L(FLASH_ATTENTION), C(ATTENTION) },
    { "~FlashAttnFwd", L(FLASH_ATTENTION), C(ATTENTION) },
    { "~FlashAttnBwd", L(FLASH_ATTENTION), C(ATTENTION) },
    { "flash::", L(FLASH_ATTENTION), C(ATTENTION) },
    { "fmhaSm", L(TENSORRT), C(ATTENTION) },
    { "fmha_v2_", L(TENSORRT), C(ATTENTION) },
    { "^kernel_mha", L(TENSORRT), C(ATTENTION) },
    { "^attn_fwd", L(TRITON), C(ATTENTION) },
    { "^_attn_fwd", L(TRITON), C(ATTENTION) },
    { "^_fwd_kernel", L(TRITON), C(ATTENTION) },
    { "^reduce_segments", L(TRITON), C(ATTENTION) }, /* second kernel of kernel_unified_attention_3d */
    { "gated_delta_rule", ANY, C(ATTENTION) },
    { "mqa_logits", ANY, C(ATTENTION) }, /* scores of DeepSeek's sparse attention */
    /* state-space models (Mamba): they have the place of attention in the layer */
    { "selective_scan", ANY, C(ATTENTION) },
    { "selective_state_update", ANY, C(ATTENTION) },
    { "chunk_scan", ANY, C(ATTENTION) },
    { "chunk_state", ANY, C(ATTENTION) },
    { "chunk_cumsum", ANY, C(ATTENTION) },
    { "state_passing", ANY, C(ATTENTION) },
    { "~flashinfer::", L(FLASHINFER), ANY },
    { "BatchDecodeWithPagedKVCache", L(FLASHINFER), C(ATTENTION) },
    { "BatchPrefillWith", L(FLASHINFER), C(ATTENTION) },
    { "SinglePrefillWith", L(FLASHINFER), C(ATTENTION) },
    { "SingleDecodeWith", L(FLASHINFER), C(ATTENTION) },
    { "PersistentVariableLengthMergeStates", L(FLASHINFER), C(ATTENTION) },
    { "MergeStates", L(FLASHINFER), C(ATTENTION) },
    { "paged_attention_ll4mi", L(ROCM), C(ATTENTION) },
    { "paged_attention", L(VLLM), C(ATTENTION) },
    { "kernel_unified_attention", L(TRITON), C(ATTENTION) },
    { "_fwd_grouped_kernel_stage1", L(TRITON), C(ATTENTION) },
    { "_fwd_kernel_stage", L(TRITON), C(ATTENTION) },
    { "fmha_cutlass", L(CUTLASS), C(ATTENTION) },
    { "fmha", ANY, C(ATTENTION) },
    { "sdpa", ANY, C(ATTENTION) },
    { "flash_mla", ANY, C(ATTENTION) },
    { "concat_and_cache", L(VLLM), C(KV_CACHE) }, /* before "mla_": they store the latent of MLA */
    { "kv_buffer", ANY, C(KV_CACHE) },
    { "mla_", ANY, C(ATTENTION) },
    { "attention", ANY, C(ATTENTION) },
    { "attn", ANY, C(ATTENTION) },
    { "reshape_and_cache", L(VLLM), C(KV_CACHE) },
    { "store_kvcache", L(SGLANG), C(KV_CACHE) },
    { "kv_cache", ANY, C(KV_CACHE) },
    { "kvcache", ANY, C(KV_CACHE) },
    { "kv_indices", ANY, C(KV_CACHE) },
    { "req_to_token", L(SGLANG), C(KV_CACHE) },
    { "slot_mapping", ANY, C(KV_CACHE) },
    { "gather_cache", ANY, C(KV_CACHE) },
    { "dequant_cache", ANY, C(KV_CACHE) },
    { "swap_blocks", L(VLLM), C(KV_CACHE) },

    /* mixture of experts: matrix products are GEMMs, the rest is routing */
    { "fused_moe_kernel", L(TRITON), C(GEMM) },
    { "fused_moe_lora", L(TRITON), C(GEMM) },
    { "moe_gemm", ANY, C(GEMM) },
    { "MoeGemm", ANY, C(GEMM) },
    { "fmoe_", L(ROCM), C(GEMM) },
    { "^_finalize_matmul", L(TRITON), C(MOE) }, /* adds up the experts' results */
    { "^_combined_routing", L(TRITON), C(MOE) },
    { "^_routing_", L(TRITON), C(MOE) },
    { "^_expt_data", L(TRITON), C(MOE) },
    { "bitmatrix", L(TRITON), C(MOE) },
    { "^_topk_forward", L(TRITON), C(MOE) },
    { "moe::dev::", L(TENSORRT), C(MOE) },
    { "expandInputRows", L(TENSORRT), C(MOE) },
    { "shuffleInputRows", ANY, C(MOE) },
    { "get_fused_mapping", ANY, C(MOE) },
    { "expand_to_fused", ANY, C(MOE) },
    { "reduce_fused_impl", ANY, C(MOE) },
    { "topk_sum_and_topk_idx", ANY, C(MOE) },
    { "unique_group_indices", ANY, C(MOE) },
    { "aux_fi_impl", ANY, C(MOE) },
    { "moe*marlin", L(VLLM), C(GEMM) },
    { "topkGatingSoftmax", L(VLLM), C(MOE) },
    { "topk_softmax", ANY, C(MOE) },
    { "grouped_topk", ANY, C(MOE) },
    { "moe_align", ANY, C(MOE) },
    { "moe", ANY, C(MOE) },
    { "expert", ANY, C(MOE) },

    { "convert_unary", L(GGML), C(COPY) },
    { "convert", ANY, C(COPY) },

    /* convolution; these rows must come before the GEMM rows */
    { "~xmma_fprop", L(CUDNN), C(CONV) },
    { "~xmma_dgrad", L(CUDNN), C(CONV) },
    { "~xmma_wgrad", L(CUDNN), C(CONV) },
    { "scudnn", L(CUDNN), C(CONV) },
    { "~cutlass*cudnn*ReduceSplitK", L(CUDNN), C(CONV) },
    { "~cutlass*fprop", L(CUDNN), C(CONV) },
    { "~cutlass*dgrad", L(CUDNN), C(CONV) },
    { "~cutlass*wgrad", L(CUDNN), C(CONV) },
    { "~ImplicitGemmConvolution", L(CUDNN), C(CONV) },
    { "cask_cudnn", L(CUDNN), C(CONV) },
    { "^cask_", L(CUDNN), C(CONV) },
    { "convolve", L(CUDNN), C(CONV) },
    { "winograd", L(CUDNN), C(CONV) },
    { "cudnn::cnn", L(CUDNN), C(CONV) },
    { "dgrad", L(CUDNN), C(CONV) },
    { "wgrad", L(CUDNN), C(CONV) },
    { "^fft", L(CUDNN), C(CONV) },
    { "flip_filter", L(CUDNN), C(CONV) },
    { "pointwise_mult_and_sum_complex", L(CUDNN), C(CONV) },
    { "gcgemm", L(CUDNN), C(CONV) },
    { "^igemm_", L(ROCM), C(CONV) },
    { "grouped_conv", L(ROCM), C(CONV) },
    { "bwd_weight", L(ROCM), C(CONV) },
    { "im2col", ANY, C(CONV) },
    { "Im2d2Col", L(ROCM), C(CONV) },
    { "vol2col", ANY, C(CONV) },
    { "conv2d", ANY, C(CONV) },
    { "conv_depthwise", ANY, C(CONV) },
    { "conv", ANY, C(CONV) },

    /* norms; before the rows for quantisation, because some norm kernels include it */
    { "~NormTwoOps", L(ATEN), C(REDUCTION) },
    { "sampling::", ANY, C(SAMPLING) }, /* before "norm": TopPRenormProbKernel */
    { "rmsnorm", ANY, C(NORM) },
    { "rms_norm", ANY, C(NORM) },
    { "layernorm", ANY, C(NORM) },
    { "layer_norm", ANY, C(NORM) },
    { "RowwiseMoments", L(ATEN), C(NORM) },
    { "GammaBeta", L(ATEN), C(NORM) },
    { "ComputeInternalGradients", L(ATEN), C(NORM) },
    { "FusedParamsCUDAKernel", L(ATEN), C(NORM) },
    { "batch_norm", ANY, C(NORM) },
    { "batchnorm", ANY, C(NORM) },
    { "bn_fw", L(CUDNN), C(NORM) },
    { "bn_bw", L(CUDNN), C(NORM) },
    { "group_norm", ANY, C(NORM) },
    { "groupnorm", ANY, C(NORM) },
    { "rope_norm", L(GGML), C(ROPE) },
    { "~batch_norm_", L(ATEN), C(NORM) },
    { "~GroupNorm*KernelImpl", L(ATEN), C(NORM) },
    { "norm_f32", L(GGML), C(NORM) },
    { "norm", ANY, C(NORM) },
    { "^rotary_embedding_kernel", L(VLLM), C(ROPE) },
    { "^rotary_kernel", L(TRITON), C(ROPE) },
    { "rotary", ANY, C(ROPE) },
    { "rope_", ANY, C(ROPE) },
    { "_rope", ANY, C(ROPE) },
    { "rope_neox", L(GGML), C(ROPE) },
    { "softmax", ANY, C(SOFTMAX) },
    { "soft_max", L(GGML), C(SOFTMAX) },

    { "upsample", ANY, C(ELEMENTWISE) },
    { "downsample", ANY, C(ELEMENTWISE) },
    { "grid_sampler", ANY, C(ELEMENTWISE) },
    /* before the GEMM rows, because the name of one of these kernels contains GEMM */
    { "silu*quant", ANY, C(ELEMENTWISE) },

    /* products */
    { "^bmm_*_t*x*x*", L(TENSORRT), C(GEMM) }, /* trtllm-gen; may include an activation */
    { "^gemm_*_t*x*_cga", L(TENSORRT), C(GEMM) },
    { "^_matmul_ogs", L(TRITON), C(GEMM) },
    { "^_lora_", L(TRITON), C(GEMM) },
    { "scaled_mm", ANY, C(GEMM) },
    { "machete", L(VLLM), C(GEMM) },
    { "magma_*gemm", L(CUBLAS), C(GEMM) },
    { "fill_tensormaps", ANY, C(GEMM) }, /* writes the descriptors of a grouped GEMM */
    { "gemmk1", L(CUBLAS), C(GEMM) },
    { "gemvx", L(CUBLAS), C(GEMV) },
    { "gemv2", L(CUBLAS), C(GEMV) },
    { "gemvNSP", L(CUBLAS), C(GEMV) },
    { "~cublasGemvParams", L(CUBLAS), C(GEMV) },
    { "mul_mat_vec", L(GGML), C(GEMV) },
    { "dequantize_mul_mat", L(GGML), C(GEMV) },
    { "wvSplitK", L(VLLM), C(GEMV) },
    { "gemv", ANY, C(GEMV) },
    { "nvjet", L(CUBLAS), C(GEMM) },
    { "splitKreduce", L(CUBLAS), C(GEMM) },
    { "~xmma_gemm", L(CUBLAS), C(GEMM) },
    { "epilogue::impl::globalKernel", L(CUBLAS), C(GEMM) },
    { "cublasLt::", L(CUBLAS), ANY },
    { "scal_kernel", L(CUBLAS), C(ELEMENTWISE) },
    { "~cublasTransposeParams", L(CUBLAS), C(COPY) },
    { "Cijk_", L(ROCM), C(GEMM) },
    { "mul_mat", L(GGML), C(GEMM) },
    { "marlin", L(VLLM), C(GEMM) },
    { "deep_gemm::", L(DEEPGEMM), C(GEMM) },
    { "~cutlass*gemm", L(CUTLASS), C(GEMM) },
    { "~cutlass::Kernel", L(CUTLASS), C(GEMM) },
    { "~cutlass::device_kernel", L(CUTLASS), C(GEMM) },
    { "triton_tem_*mm", L(TRITON), C(GEMM) },
    { "~GridwiseGemm", L(ROCM), C(GEMM) },
    { "^ampere_", L(CUBLAS), ANY },
    { "^volta_", L(CUBLAS), ANY },
    { "^turing_", L(CUBLAS), ANY },
    { "^maxwell_", L(CUBLAS), ANY },
    { "^sm*gemm", L(CUBLAS), C(GEMM) },
    { "sgemm_largek", L(CUBLAS), C(GEMM) },
    { "=gemm", ANY, C(GEMM) },
    { "bgmv", ANY, C(GEMM) },
    { "sgmv", ANY, C(GEMM) },
    { "matmul", ANY, C(GEMM) },
    { "bmm_kernel", ANY, C(GEMM) },

    /* sampling, sorting */
    { "~ArgMaxOps", L(ATEN), C(SAMPLING) },
    { "~ArgMinOps", L(ATEN), C(SAMPLING) },
    { "argmax", ANY, C(SAMPLING) },
    { "sampling", ANY, C(SAMPLING) },
    { "sample", ANY, C(SAMPLING) },
    { "multinomial", ANY, C(SAMPLING) },
    { "penalties", L(VLLM), C(SAMPLING) },
    { "gumbel", ANY, C(SAMPLING) },
    { "top_p", ANY, C(SAMPLING) },
    { "~exponential_kernel", L(ATEN), C(SAMPLING) },
    { "future_token_ids", L(SGLANG), C(SAMPLING) },
    { "topk", ANY, C(SORT) },
    { "sort", ANY, C(SORT) },
    { "build_tree", L(SGLANG), C(SAMPLING) },
    { "verify_tree", L(SGLANG), C(SAMPLING) },
    { "fill_reverse_indices", L(ATEN), C(SORT) },
    { "bucketize", ANY, C(SORT) },

    /* embedding, quantisation */
    { "split_embedding", L(FBGEMM), C(EMBEDDING) },
    { "permute_pooled_embs", L(FBGEMM), C(EMBEDDING) },
    { "embed", ANY, C(EMBEDDING) },
    { "indexSelect", L(ATEN), C(EMBEDDING) },
    { "vectorized_gather_kernel", L(ATEN), C(EMBEDDING) },
    { "get_rows", L(GGML), C(EMBEDDING) },
    { "linearize_index", L(FBGEMM), C(EMBEDDING) },
    { "linear", ANY, C(GEMM) },
    { "bounds_check_indices", L(FBGEMM), C(EMBEDDING) },
    /* activations; some kernels include quantisation */
    { "act_and_mul", ANY, C(ELEMENTWISE) },
    { "doActivation", L(TENSORRT), C(ELEMENTWISE) },
    { "swiglu", ANY, C(ELEMENTWISE) },
    { "silu", ANY, C(ELEMENTWISE) },
    { "gelu", ANY, C(ELEMENTWISE) },
    { "quantize_mmq", L(GGML), C(QUANT) },
    { "cvt_*_to_fp4", ANY, C(QUANT) },
    { "per_token_cast", ANY, C(QUANT) },
    { "per_channel_cast", ANY, C(QUANT) },
    { "cast_back", ANY, C(QUANT) },
    { "quantize_q8", L(GGML), C(QUANT) },
    { "quant", ANY, C(QUANT) },
    { "~hfp8", ANY, C(QUANT) },
    { "fp8", ANY, C(QUANT) },

    /* data movement */
    { "CatArray", L(ATEN), C(COPY) },
    { "~copy_kernel", ANY, C(COPY) },
    { "~_copy_kernel_cuda", L(ATEN), C(COPY) },
    { "~direct_copy", L(ATEN), C(COPY) },
    { "~copy_device_to_device", L(ATEN), C(COPY) },
    { "~multi_tensor_apply*Copy", ANY, C(COPY) },
    { "SubTensorOpWithCast", L(ROCM), C(COPY) },
    { "indexFunc", L(ATEN), C(COPY) },
    { "^compute_cuda_kernel", L(ATEN), C(COPY) }, /* repeat_interleave */
    { "to_dense_representation", ANY, C(COPY) },
    { "k_set_rows", L(GGML), C(COPY) },
    { "AddPadding", L(CUDNN), C(COPY) },
    { "_pad", L(ATEN), C(COPY) },
    { "__amd_rocclr", L(DRIVER), C(COPY) },
    { "~index_put", ANY, C(COPY) },
    { "~gpu_index_kernel", ANY, C(COPY) },
    { "index_elementwise_kernel", L(ATEN), C(COPY) },
    { "scatter_gather", ANY, C(COPY) },
    { "masked_scatter", ANY, C(COPY) },
    { "~masked_scatter", ANY, C(COPY) },
    { "~flip_kernel", ANY, C(COPY) },
    { "~roll_cuda", ANY, C(COPY) },
    { "ToNhwc", L(CUDNN), C(COPY) },
    { "ToNchw", L(CUDNN), C(COPY) },
    { "transpose_readWrite_alignment", L(CUBLAS), C(COPY) },
    { "transpose_NCHW2CNHW", L(ROCM), C(COPY) },
    { "transpose_CNHW2NCHW", L(ROCM), C(COPY) },
    { "transpose", ANY, C(COPY) },
    { "permute", ANY, C(COPY) },
    { "cpy_", L(GGML), C(COPY) },
    { "concat_", ANY, C(COPY) },
    { "cupy_copy", ANY, C(COPY) },
    { "copy", ANY, C(COPY) },
    { "gather", ANY, C(COPY) },
    { "scatter", ANY, C(COPY) },
    { "memset", L(DRIVER), C(COPY) },
    { "memcpy", L(DRIVER), C(COPY) },

    /* reductions and scans */
    { "~DeviceReduce", L(CUB), C(REDUCTION) },
    { "DeviceScan", L(CUB), C(REDUCTION) },
    { "DeviceCompactInit", L(CUB), C(REDUCTION) },
    { "DeviceSelect", L(CUB), C(REDUCTION) },
    { "~partition_config_selector", L(ROCM), C(REDUCTION) },
    { "~scan_config", ANY, C(REDUCTION) },
    { "reduce_kernel", ANY, C(REDUCTION) },
    { "reduce", ANY, C(REDUCTION) },
    { "reduction", ANY, C(REDUCTION) },
    { "scan", ANY, C(REDUCTION) },
    { "cumsum", ANY, C(REDUCTION) },
    { "pool", ANY, C(REDUCTION) },
    { "dot_kernel", L(CUBLAS), C(REDUCTION) },
    { "NLLCriterion", L(ATEN), C(REDUCTION) },
    { "nll_loss", L(ATEN), C(REDUCTION) },
    { "cross_entropy", ANY, C(REDUCTION) },

    /* element-wise */
    { "elementwise", ANY, C(ELEMENTWISE) },
    { "dropout", ANY, C(ELEMENTWISE) },
    { "multi_tensor_apply", ANY, C(ELEMENTWISE) },
    { "~transform_config_selector", L(ROCM), C(ELEMENTWISE) },
    { "triu_tril", L(ATEN), C(ELEMENTWISE) },
    { "_offsets_range", L(FBGEMM), C(ELEMENTWISE) },
    { "^compute_position", L(SGLANG), C(ELEMENTWISE) },
    { "^add_f32", ANY, C(ELEMENTWISE) },
    { "k_bin_bcast", L(GGML), C(ELEMENTWISE) },
    { "unary_op", L(GGML), C(ELEMENTWISE) },
    { "unary_gated_op", L(GGML), C(ELEMENTWISE) },
    { "scale_f32", L(GGML), C(ELEMENTWISE) },
    { "scalePackedTensor", L(CUDNN), C(ELEMENTWISE) },
    { "TensorOp", L(ROCM), C(ELEMENTWISE) },
    { "cupy_", ANY, C(ELEMENTWISE) },
    { "^fused__autocast_to__", L(ATEN), C(COPY) }, /* a number follows the prefix: the kernel only casts */
    { "^fused_", L(ATEN), C(ELEMENTWISE) },
    { "clamp", ANY, C(ELEMENTWISE) },
    { "saxpy", ANY, C(ELEMENTWISE) },
    { "pointwise", ANY, C(ELEMENTWISE) },

    /* fallbacks that determine the library */
    { "^nvfuser", L(ATEN), C(ELEMENTWISE) },
    { "at_cuda_detail::cub", L(CUB), ANY },
    { "cub::", L(CUB), ANY },
    { "thrust::", L(CUB), ANY },
    { "fbgemm_gpu::", L(FBGEMM), ANY },
    { "recat_copy", L(FBGEMM), ANY },
    { "vllm::", L(VLLM), ANY },
    { "sgl_", L(SGLANG), ANY },
    { "sglang", L(SGLANG), ANY },
    { "clamp_position", L(SGLANG), ANY },
    { "tensorrt", L(TENSORRT), ANY },
    { "trt_llm", L(TENSORRT), ANY },
    { "^trt_", L(TENSORRT), ANY },
    { "nvinfer", L(TENSORRT), ANY },
    { "genericReformat", L(TENSORRT), C(COPY) },
    { "__myl", L(TENSORRT), ANY },
    { "ggml", L(GGML), ANY },
    { "aiter::", L(ROCM), ANY },
    { "ck_tile::", L(ROCM), ANY },
    { "ck::", L(ROCM), ANY },
    { "rocprim::", L(ROCM), ANY },
    { "miopen", L(ROCM), ANY },
    { "batched_transpose", L(ROCM), ANY },
    { "at::native", L(ATEN), ANY },
    { "at::cuda", L(ATEN), ANY },
    { "vectorized_elementwise_kernel", L(ATEN), ANY },
    { "unrolled_elementwise_kernel", L(ATEN), ANY },
    { "elementwise_kernel", L(ATEN), ANY },
    { "softmax_warp", L(ATEN), ANY },
    { "cunn_", L(ATEN), ANY },
    { "~at::native::", L(ATEN), ANY },
    { "cublas", L(CUBLAS), ANY },
    { "cudnn", L(CUDNN), ANY },
    { "~cublas", L(CUBLAS), ANY },
    { "~cudnn", L(CUDNN), ANY },
    { "~cutlass", L(CUTLASS), ANY },
    { "^triton", L(TRITON), ANY },
    { "_triton", L(TRITON), ANY },
    { "^_", L(TRITON), ANY }, /* names of Python functions; C++ libraries do not use this form */
#undef L
#undef C
};

/* Finds the first `len` bytes of `piece` in the text, ignoring case; NULL: not found. */
static const char *find_piece(const char *text, const char *piece, size_t len) {
    for (; *text; text++)
        if (strncasecmp(text, piece, len) == 0) return text;
    return NULL;
}

static bool matches(const char *pattern, const char *text) {
    bool bound = *pattern == '^';
    pattern += bound;
    for (;;) {
        size_t len = strcspn(pattern, "*");
        const char *at =
            bound ? (strncasecmp(text, pattern, len) == 0 ? text : NULL) : find_piece(text, pattern, len);
        if (!at) return false;
        if (!pattern[len]) return true;
        text = at + len;
        pattern += len + 1;
        bound = false;
    }
}

static bool rule_matches(const struct rule *r, const char *function, const char *whole) {
    if (r->pattern[0] == '~') return matches(r->pattern + 1, whole);
    if (r->pattern[0] != '=') return matches(r->pattern, function);
    const char *last = function;
    for (const char *p = strstr(function, "::"); p; p = strstr(last, "::")) last = p + 2;
    return matches(r->pattern + 1, last);
}

void kernel_rules_apply(const char *function, const char *whole, enum kernel_library *library,
                        enum kernel_category *category) {
    int lib = ANY, cat = ANY;
    for (size_t i = 0; i < COUNTOF(rules) && (lib == ANY || cat == ANY); i++) {
        const struct rule *r = &rules[i];
        if ((lib != ANY || r->library == ANY) && (cat != ANY || r->category == ANY))
            continue; /* the row would change nothing */
        if (!rule_matches(r, function, whole)) continue;
        if (lib == ANY) lib = r->library;
        if (cat == ANY) cat = r->category;
    }
    *library = lib == ANY ? KERNEL_LIBRARY_USER : (enum kernel_library)lib;
    *category = cat == ANY ? KERNEL_CATEGORY_OTHER : (enum kernel_category)cat;
}
