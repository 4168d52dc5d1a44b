/* Convolution as a matrix product over unfolded patches. */
#include "engine/cpu/internal.h"

struct unfold_job {
    const struct conv *c;
    const float *x;
    float *out;
    int h, w, out_w;
};

/* Unfolds one row of output pixels: out[pixel][c_in][side][side], zeros outside of the image. */
static void unfold_task(void *job, int oy, int worker) {
    const struct unfold_job *j = job;
    const struct conv *c = j->c;
    (void)worker;
    int cells = c->side * c->side;
    float *out = j->out + (size_t)oy * (size_t)j->out_w * (size_t)(c->c_in * cells);
    for (int ox = 0; ox < j->out_w; ox++, out += c->c_in * cells)
        for (int cell = 0; cell < cells; cell++) {
            int y = oy * c->stride - c->pad + cell / c->side, x = ox * c->stride - c->pad + cell % c->side;
            bool inside = y >= 0 && y < j->h && x >= 0 && x < j->w;
            const float *in = inside ? j->x + ((size_t)y * (size_t)j->w + (size_t)x) * (size_t)c->c_in : NULL;
            for (int ch = 0; ch < c->c_in; ch++) out[ch * cells + cell] = in ? in[ch] : 0.0f;
        }
}

const char *cpu_conv(void *context, const struct conv *c, struct view x, int views, int h, int w,
                     struct view y) {
    struct cpu *cpu = context;
    const char *kernel = NULL;
    struct linear l = { c->w, c->bias };
    int oh = (h + 2 * c->pad - c->side) / c->stride + 1, ow = (w + 2 * c->pad - c->side) / c->stride + 1;
    if (c->side == 1 && c->stride == 1 && c->pad == 0)
        return cpu_linear(cpu, &l, x, c->c_in, views * h * w, y, c->w.rows, OPS_SET);
    for (int i = 0; i < views; i++) {
        struct view in = view_at(x, (size_t)i * (size_t)h * (size_t)w * (size_t)c->c_in);
        struct unfold_job j = { .c = c, .x = view_floats(in), .h = h, .w = w, .out_w = ow };
        j.out = cpu_unfolded(cpu, (size_t)oh * (size_t)ow * (size_t)c->w.cols);
        threads_run(cpu->threads, unfold_task, &j, oh);
        struct tensor unfolded = { j.out, false };
        struct view out = view_at(y, (size_t)i * (size_t)oh * (size_t)ow * (size_t)c->w.rows);
        kernel = cpu_linear(cpu, &l, view_of(&unfolded), c->w.cols, oh * ow, out, c->w.rows, OPS_SET);
    }
    return kernel;
}
