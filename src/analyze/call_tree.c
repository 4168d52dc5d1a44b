/* Call paths: ranges as they nest on their threads, the Python frames of operators, and the kernels that were
 * launched. The path of an operator with recorded frames is its stage, then the frames, then the operator.
 * The frames replace the ranges between stage and operator. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "analyze/range_tree.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* maximum number of nodes; the time of paths without a node is added to the parent */
#define MAX_NODES (1u << 20)
#define MAX_DEPTH 200

/* The key of a node is its parent and a text number. One of these bits is set for a frame or a kernel, none
 * for a range. */
#define KEY_FRAME 0x80000000u
#define KEY_KERNEL 0x40000000u

struct tree_builder {
    struct context *c;
    struct intern *node_ids, *names, *stack_ids;
    struct {
        struct analysis_call *v;
        size_t n, cap;
    } nodes;
    struct {
        uint32_t *v; /* node of the innermost frame, per (parent, stack) */
        size_t n, cap;
    } stacks;
    uint64_t *inside_ns;   /* [ranges.n]: time of each range in which a range inside it is open */
    uint32_t *range_node;  /* [ranges.n] */
    uint32_t *stage_node;  /* [ranges.n]: node of the innermost stage around or at the range; 0: none */
    uint32_t *kernel_name; /* [nkernels]: id in `names` */
    bool frames;
    uint64_t folded; /* ranges and kernels without a node of their own */
};

/* Returns the parent if the tree has its maximum depth, or if a new node would exceed MAX_NODES. */
static uint32_t child_of(struct tree_builder *b, uint32_t parent, uint32_t key_text, const char *name) {
    if (b->nodes.v[parent].depth >= MAX_DEPTH) return parent;
    uint32_t key[2] = { parent, key_text };
    if (b->nodes.n >= MAX_NODES && intern_find(b->node_ids, (const char *)key, sizeof key) == INTERN_NONE)
        return parent;
    uint32_t id = intern_id(b->node_ids, (const char *)key, sizeof key) + 1; /* node 0 is the root */
    if (id == b->nodes.n)
        vec_push(&b->nodes, ((struct analysis_call){
                                .parent = parent, .name = name, .depth = b->nodes.v[parent].depth + 1 }));
    return id;
}

/* Adds the frames of a stack: "run.py:main:3;model.py:forward:71", outermost first. Returns the node of the
 * innermost frame. */
static uint32_t add_frames(struct tree_builder *b, uint32_t parent, uint32_t stack) {
    uint32_t key[2] = { parent, stack }, id = intern_id(b->stack_ids, (const char *)key, sizeof key);
    if (id < b->stacks.n) return b->stacks.v[id];
    uint32_t node = parent;
    for (const char *p = timeline_text(b->c->tl, stack); *p;) {
        size_t len = strcspn(p, ";");
        uint32_t name = intern_id(b->names, p, len);
        if (len)
            node = child_of(b, node, KEY_FRAME | name,
                            analysis_text(b->c, "%.*s", (int)MIN(len, (size_t)500), p));
        p += len + (p[len] == ';');
    }
    vec_push(&b->stacks, node);
    b->frames = true;
    return node;
}

/* A range that can end on another thread is not a call. */
static bool is_call(const void *ranges, size_t i) {
    return !(((const struct timeline_ranges *)ranges)->flags[i] & (TRACE_RANGE_MARK | TRACE_RANGE_FREE));
}

static void add_range(struct tree_builder *b, size_t i) {
    const struct timeline_ranges *r = &b->c->tl->ranges;
    bool inside = r->parent[i] != TIMELINE_NONE, stage = r->category[i] == TRACE_CATEGORY_STAGE;
    uint32_t parent = inside ? b->range_node[r->parent[i]] : 0;
    b->stage_node[i] = stage ? parent : inside ? b->stage_node[r->parent[i]] : 0;
    b->range_node[i] = parent;
    if (!is_call(r, i)) return;
    if (r->stack[i]) parent = add_frames(b, inside ? b->stage_node[r->parent[i]] : 0, r->stack[i]);
    uint32_t node = child_of(b, parent, r->name[i], timeline_text(b->c->tl, r->name[i]));
    b->range_node[i] = node;
    if (stage) b->stage_node[i] = node;
    b->nodes.v[node].calls += node != parent;
    b->folded += node == parent;
    b->nodes.v[node].host_ns += (double)(r->end_ns[i] - r->start_ns[i] - b->inside_ns[i]);
}

static void add_kernel(struct tree_builder *b, size_t i) {
    const struct timeline_kernels *k = &b->c->tl->kernels;
    uint32_t row = b->c->a->shape_kernel[k->shape[i]];
    uint32_t parent = k->range[i] == TIMELINE_NONE ? 0 : b->range_node[k->range[i]];
    uint32_t node = child_of(b, parent, KEY_KERNEL | b->kernel_name[row], b->c->a->kernels[row].short_name);
    if (node != parent) { /* equal: no new node, and only the time is added to the range */
        b->nodes.v[node].calls++;
        b->nodes.v[node].kernel = true;
    } else {
        b->folded++;
    }
    b->nodes.v[node].device_ns += (double)(k->end_ns[i] - k->start_ns[i]);
}

/* Adds the children's times to their parents. Parents have lower indices. */
static void sum_up(struct tree_builder *b) {
    for (size_t i = 0; i < b->nodes.n; i++) {
        struct analysis_call *node = &b->nodes.v[i];
        node->host_total_ns = node->host_ns;
        node->device_total_ns = node->device_ns;
    }
    for (size_t i = b->nodes.n; i-- > 1;) {
        struct analysis_call *parent = &b->nodes.v[b->nodes.v[i].parent];
        parent->host_total_ns += b->nodes.v[i].host_total_ns;
        parent->device_total_ns += b->nodes.v[i].device_total_ns;
    }
}

void analyze_call_tree(struct context *c) {
    const struct timeline *tl = c->tl;
    struct tree_builder b = {
        .c = c, .node_ids = intern_open(), .names = intern_open(), .stack_ids = intern_open()
    };
    vec_push(&b.nodes, ((struct analysis_call){ .name = "all" }));
    b.range_node = xcalloc(tl->ranges.n + 1, sizeof *b.range_node);
    b.stage_node = xcalloc(tl->ranges.n + 1, sizeof *b.stage_node);
    b.kernel_name = xcalloc(c->a->nkernels + 1, sizeof *b.kernel_name);
    for (size_t i = 0; i < c->a->nkernels; i++)
        b.kernel_name[i] = intern_str(b.names, c->a->kernels[i].short_name);
    uint32_t *nearest = range_tree_nearest(&tl->ranges, is_call, &tl->ranges);
    b.inside_ns = range_tree_inside_ns(&tl->ranges, nearest);
    free(nearest);
    for (size_t i = 0; i < tl->ranges.n; i++) add_range(&b, i);
    for (size_t i = 0; i < tl->kernels.n; i++) add_kernel(&b, i);
    sum_up(&b);
    c->a->calls = analysis_keep(c, b.nodes.v);
    c->a->ncalls = b.nodes.n;
    c->a->calls_have_frames = b.frames;
    if (b.folded)
        analysis_note(c, ANALYSIS_INFO,
                      "call tree: the time of %s ranges and kernels was added to their callers (limit: %s "
                      "paths, %d levels)",
                      analysis_count(c, b.folded), analysis_count(c, MAX_NODES), MAX_DEPTH);
    free(b.inside_ns);
    free(b.range_node);
    free(b.stage_node);
    free(b.kernel_name);
    free(b.stacks.v);
    intern_close(b.node_ids);
    intern_close(b.names);
    intern_close(b.stack_ids);
}
