/* The table of collectives: one representation for records of NCCL, of PyTorch, and for kernels alone. */
#include <math.h>
#include <string.h>

#include "timeline/timeline.h"
#include "unit/test.h"

#define NCCL_KERNEL "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

static void add_launch(struct timeline_builder *b, uint32_t thread, uint64_t start, uint64_t correlation) {
    struct trace_launch l = { .start_ns = start,
                              .end_ns = start + 2,
                              .thread = thread,
                              .correlation = correlation,
                              .api = timeline_builder_text(b, "cuLaunchKernelEx") };
    timeline_builder_launch(b, &l, 1);
}

static void add_kernel(struct timeline_builder *b, const char *name, uint64_t start, uint64_t end,
                       uint64_t correlation) {
    struct trace_kernel k = { .start_ns = start,
                              .end_ns = end,
                              .correlation = correlation,
                              .stream = 7,
                              .name = timeline_builder_text(b, name) };
    timeline_builder_kernel(b, &k, 1);
}

static struct trace_collective call(uint64_t start, uint64_t end, uint64_t sequence) {
    struct trace_collective c = trace_collective_unknown(start);
    c.end_ns = end;
    c.sequence = sequence;
    c.communicator = 77;
    c.thread = 1;
    c.op = TRACE_OP_ALL_REDUCE;
    return c;
}

TEST(collective_of_a_call_gets_the_kernel_that_the_call_launched) {
    struct timeline_builder *b = timeline_builder_open();
    struct trace_collective c[2] = { call(10, 20, 4), call(30, 40, 5) };
    timeline_builder_collective(b, c, 2);
    add_launch(b, 2, 15, 1); /* another thread */
    add_launch(b, 1, 16, 2);
    add_launch(b, 1, 35, 3);
    add_kernel(b, "gemm", 90, 100, 1);
    add_kernel(b, NCCL_KERNEL, 100, 150, 2);
    add_kernel(b, NCCL_KERNEL, 160, 190, 3);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->collectives.n, 2);
    CHECK_INT(tl->collectives.kernel[0], 1);
    CHECK_INT(tl->collectives.kernel[1], 2);
    CHECK_INT(tl->collectives.v[1].kernel_start_ns, 160);
    CHECK_INT(tl->collectives.v[1].kernel_end_ns, 190);
    CHECK_INT(tl->collectives.v[1].sequence, 5);
    CHECK(!(tl->collectives.v[1].flags & TRACE_COLLECTIVE_COUNTED));
    timeline_close(tl);
}

TEST(collectives_of_a_group_share_one_kernel) {
    struct timeline_builder *b = timeline_builder_open();
    struct trace_collective c[2] = { call(10, 20, 0), call(11, 20, 1) };
    timeline_builder_collective(b, c, 2);
    add_launch(b, 1, 16, 2);
    add_kernel(b, NCCL_KERNEL, 100, 150, 2);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->collectives.n, 2);
    CHECK_INT(tl->collectives.kernel[0], 0);
    CHECK_INT(tl->collectives.kernel[1], 0);
    timeline_close(tl);
}

TEST(collective_read_from_a_kernel_is_dropped_if_a_call_describes_the_kernel) {
    struct timeline_builder *b = timeline_builder_open();
    struct trace_collective c = call(10, 20, 0), k = trace_collective_unknown(100), alone = k;
    k.end_ns = 150;
    k.correlation = 2;
    k.flags = TRACE_COLLECTIVE_FROM_KERNEL;
    alone.start_ns = 200;
    alone.end_ns = 250;
    alone.correlation = 3;
    alone.flags = TRACE_COLLECTIVE_FROM_KERNEL;
    timeline_builder_collective(b, &c, 1);
    timeline_builder_collective(b, &k, 1);
    timeline_builder_collective(b, &alone, 1);
    add_launch(b, 1, 16, 2);
    add_launch(b, 1, 26, 3);
    add_kernel(b, NCCL_KERNEL, 100, 150, 2);
    add_kernel(b, NCCL_KERNEL, 200, 250, 3);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->collectives.n, 2);
    CHECK_INT(tl->collectives.start_ns[0], 10);
    CHECK_INT(tl->collectives.start_ns[1], 200);
    CHECK_INT(tl->collectives.kernel[1], 1);
    CHECK_INT(tl->threads[tl->collectives.thread[1]].tid, 1);
    timeline_close(tl);
}

TEST(kernels_of_nccl_without_a_record_become_collectives_with_the_size_of_their_range) {
    struct timeline_builder *b = timeline_builder_open();
    struct trace_range r = { .start_ns = 10,
                             .end_ns = 20,
                             .thread = 1,
                             .name = timeline_builder_text(b, "nccl:all_reduce"),
                             .detail = timeline_builder_text(b, "[16,4]bf16"),
                             .flops = NAN,
                             .bytes = NAN,
                             .payload = NAN };
    timeline_builder_range(b, &r, 1);
    add_launch(b, 1, 15, 1);
    add_launch(b, 1, 25, 2);
    add_kernel(b, NCCL_KERNEL, 100, 150, 1);
    add_kernel(b, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 160, 170, 2);
    struct timeline *tl = timeline_builder_finish(b);
    const struct timeline_collectives *c = &tl->collectives;
    CHECK_INT(c->n, 2);
    CHECK_INT(c->v[0].op, TRACE_OP_ALL_REDUCE);
    CHECK_INT(c->v[0].count, 64);
    CHECK_INT(c->v[0].bytes, 128);
    CHECK_STR(timeline_text(tl, c->v[0].data_type), "bf16");
    CHECK_STR(timeline_text(tl, c->v[0].protocol), ""); /* the kernel's name does not show it */
    CHECK_INT(c->v[1].op, TRACE_OP_SEND_RECV);
    CHECK(c->v[1].bytes == TRACE_UNKNOWN_U64);
    CHECK_INT(c->v[1].sequence, 1);
    CHECK(c->v[1].flags & TRACE_COLLECTIVE_COUNTED);
    timeline_cut(tl, 120, 200); /* drops the first kernel and its row */
    CHECK_INT(tl->collectives.n, 1);
    CHECK_INT(tl->collectives.kernel[0], 0);
    timeline_close(tl);
}

TEST(sends_and_receives_are_counted_per_peer) {
    struct timeline_builder *b = timeline_builder_open();
    for (uint32_t i = 0; i < 6; i++) {
        struct trace_collective c = call(10 * i, 10 * i + 5, TRACE_UNKNOWN_U64);
        c.op = i % 2 ? TRACE_OP_RECV : TRACE_OP_SEND;
        c.peer = i < 2 ? 3 : 4;
        timeline_builder_collective(b, &c, 1);
    }
    struct timeline *tl = timeline_builder_finish(b);
    const uint64_t want[] = { 0, 0, 0, 0, 1, 1 };
    for (size_t i = 0; i < 6; i++) CHECK_INT(tl->collectives.v[i].sequence, want[i]);
    timeline_close(tl);
}

TEST(processes_have_rank_node_and_launcher) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "a.ipt");
    timeline_builder_meta(b, "rank", "9");
    timeline_builder_meta(b, "local_rank", "1");
    timeline_builder_meta(b, "node", "n2");
    timeline_builder_meta(b, "launcher", "slurm");
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->processes[0].rank, 9);
    CHECK_INT(tl->processes[0].local_rank, 1);
    CHECK_INT(tl->processes[0].node_rank, TIMELINE_NONE);
    CHECK_STR(timeline_text(tl, tl->processes[0].node), "n2");
    CHECK_STR(timeline_text(tl, tl->processes[0].launcher), "slurm");
    timeline_close(tl);
}

TEST(names_of_collectives_of_nccl_and_pytorch_give_the_operation) {
    const struct {
        const char *name;
        enum trace_collective_op op;
    } rows[] = {
        { "AllReduce", TRACE_OP_ALL_REDUCE },
        { "_allgather_base", TRACE_OP_ALL_GATHER },
        { "nccl:_reduce_scatter_base", TRACE_OP_REDUCE_SCATTER },
        { "allreduce_coalesced", TRACE_OP_ALL_REDUCE },
        { "all_to_allv", TRACE_OP_ALL_TO_ALL },
        { "nccl:reduce", TRACE_OP_REDUCE },
        { "Send", TRACE_OP_SEND },
        { "nccl:recv 0<-1", TRACE_OP_RECV },
        { "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
          TRACE_OP_BROADCAST },
        { "ncclDevKernel_Generic_4(reduce)", TRACE_OP_UNKNOWN },
        { "wait", TRACE_OP_UNKNOWN },
        { "", TRACE_OP_UNKNOWN },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_INT(trace_collective_op_of(rows[i].name, strlen(rows[i].name)), rows[i].op);
}

TEST(names_of_element_types_give_their_size) {
    uint32_t bytes;
    CHECK_STR(trace_collective_type_of("ncclBfloat16", 12, &bytes), "bf16");
    CHECK_INT(bytes, 2);
    CHECK_STR(trace_collective_type_of("Float", 5, &bytes), "f32");
    CHECK_INT(bytes, 4);
    CHECK_STR(trace_collective_type_of("Float8_e4m3fn", 13, &bytes), "f8e4m3");
    CHECK_INT(bytes, 1);
    CHECK(trace_collective_type_of("quaternion", 10, &bytes) == NULL);
    CHECK_INT(bytes, 0);
}
