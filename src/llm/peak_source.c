#include "llm/peak_source.h"

#include <math.h>
#include <string.h>

#include "llm/gpus.h"

#define FLOPS "peak FLOP/s"
#define BANDWIDTH "bandwidth"

void peak_source_of_gpu(const struct llm_gpu *g, enum llm_dtype type, const struct llm_pack *pack,
                        struct strbuf *out) {
    strbuf_addf(out, "datasheet of %s, dense %s", g->name, llm_dtype_name(type));
    if (!pack->type) return;
    struct llm_gpu_peak peak = llm_gpu_peak(g, pack->type, pack->activations);
    if (!isnan(peak.flop_per_s))
        strbuf_addf(out, "; %s weights: dense %s, %s", llm_dtype_name(pack->type), llm_dtype_name(peak.type),
                    peak.reason);
}

/* Adds the source of the FLOP/s. A combined text already names it before the bandwidth. */
static void add_flops(const char *source, struct strbuf *out) {
    const char *end = strstr(source, BANDWIDTH);
    if (!end)
        strbuf_addf(out, FLOPS ": %s; ", source);
    else
        strbuf_addf(out, "%.*s", (int)(end - source), source);
}

static void add_bandwidth(const char *source, struct strbuf *out) {
    const char *start = strstr(source, BANDWIDTH);
    if (start)
        strbuf_addf(out, "; %s", start);
    else if (strncmp(source, FLOPS, strlen(FLOPS)) != 0) /* else the bandwidth is unknown */
        strbuf_addf(out, "; " BANDWIDTH ": %s", source);
}

void peak_source_add(const char *source, const char *flops_by, const char *bytes_by, struct strbuf *out) {
    const char *known = source && *source ? source : NULL;
    if (flops_by && bytes_by && strcmp(flops_by, bytes_by) == 0) {
        strbuf_addf(out, "given by %s", flops_by);
        return;
    }
    if (flops_by)
        strbuf_addf(out, FLOPS " given by %s%s", flops_by, bytes_by ? "; " : "");
    else if (known && bytes_by)
        add_flops(known, out);
    if (bytes_by)
        strbuf_addf(out, BANDWIDTH " given by %s", bytes_by);
    else if (known && flops_by)
        add_bandwidth(known, out);
    else if (known)
        strbuf_addstr(out, known);
}

bool peak_source_is_datasheet(const char *source) {
    return source && strstr(source, "datasheet") && !strstr(source, FLOPS " given");
}
