/* CUPTI's PM sampling without a GPU. MOCK_PM selects its behaviour; if it is not set, the GPU has no PM
 * sampling. A comma-separated list:
 *     on            delivers one sample per interval since the start
 *     fail=CODE     acquiring the counters fails with this error
 *     ask=CODE      querying the available counters fails, as while another tool samples
 *     first=CODE    querying the available counters of the first GPU fails
 *     second=CODE   acquiring the counters of the second GPU fails
 *     die=CODE      the third decode fails with this error
 *     clock         no trigger by time, as on GA100
 *     narrow        a pass holds only three metrics
 *     gap           every tenth sample is not delivered
 *     disorder      neighbouring samples of an image are swapped
 *     full          the hardware buffer overflowed
 *     choke         the second decode fails because there is too much data
 *     stuck         the second decode never returns
 * Values: SM 50%, tensor 25%, DRAM read 30% and write 10%, warps 40%, clock 1.5 GHz. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "counters/api.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL(name, block)      \
    EXPORT int name(block *p); \
    int name(block *p)

static struct gpu { uint64_t interval_ns, started_ns, stopped_ns, delivered, decodes; } gpus[8];

/* Content of the caller's image. */
struct image {
    size_t n;
    struct span {
        uint64_t start_ns, end_ns;
    } v[];
};

static const char *behaviour(const char *word) {
    const char *all = getenv("MOCK_PM"), *at = all ? strstr(all, word) : NULL;
    return at ? at + strlen(word) : NULL;
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

CALL(cuptiProfilerInitialize, struct pm_no_args) { return p ? PM_OK : 1; }
CALL(cuptiDeviceGetChipName, struct pm_chip_name) {
    p->name = "GH100";
    return behaviour("on") || behaviour("fail=") ? PM_OK : PM_NOT_SUPPORTED;
}
CALL(cuptiPmSamplingGetCounterAvailability, struct pm_availability) {
    const char *code = behaviour("ask="), *first = behaviour("first=");
    if (first && p->device == 0) return atoi(first);
    if (p->image) memset(p->image, 0, p->bytes);
    p->bytes = 8;
    return code ? atoi(code) : PM_OK;
}
CALL(cuptiProfilerHostInitialize, struct pm_host_open) {
    p->host = calloc(1, sizeof(size_t)); /* the number of its metrics */
    return p->host ? PM_OK : PM_OUT_OF_MEMORY;
}
CALL(cuptiProfilerHostDeinitialize, struct pm_host) {
    free(p->host);
    return PM_OK;
}
CALL(cuptiProfilerHostConfigAddMetrics, struct pm_add_metrics) {
    *(size_t *)p->host = p->n;
    return PM_OK;
}
CALL(cuptiProfilerHostGetConfigImageSize, struct pm_image_size) {
    p->bytes = sizeof(size_t);
    return PM_OK;
}
CALL(cuptiProfilerHostGetConfigImage, struct pm_image) {
    memcpy(p->image, p->host, sizeof(size_t));
    return PM_OK;
}
CALL(cuptiProfilerHostGetNumOfPasses, struct pm_passes) {
    size_t n;
    memcpy(&n, p->image, sizeof n);
    p->passes = behaviour("narrow") && n > 3 ? 2 : 1;
    return PM_OK;
}

static double value_of(const char *name) {
    static const struct {
        const char *start;
        double value;
    } values[] = { { "sm__cycles_active", 50 }, { "sm__pipe_tensor", 25 }, { "dram__read", 30 },
                   { "dram__write", 10 },       { "tpc__warps", 40 },      { "gpc__cycles", 1.5e9 } };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (strncmp(name, values[i].start, strlen(values[i].start)) == 0) return values[i].value;
    return 1;
}

CALL(cuptiProfilerHostEvaluateToGpuValues, struct pm_evaluate) {
    for (size_t i = 0; i < p->n; i++) p->values[i] = value_of(p->names[i]);
    return PM_OK;
}
CALL(cuptiPmSamplingEnable, struct pm_enable) {
    const char *code = behaviour("fail="), *second = behaviour("second=");
    p->sampling = &gpus[p->device];
    if (code) return atoi(code);
    return second && p->device == 1 ? atoi(second) : PM_OK;
}
CALL(cuptiPmSamplingDisable, struct pm_sampling) { return p ? PM_OK : 1; }
CALL(cuptiPmSamplingSetConfig, struct pm_configure) {
    if (p->trigger == PM_TRIGGER_TIME && behaviour("clock")) return PM_NOT_SUPPORTED;
    ((struct gpu *)p->sampling)->interval_ns = p->interval;
    return PM_OK;
}
CALL(cuptiPmSamplingStart, struct pm_sampling) {
    struct gpu *g = p->sampling;
    g->started_ns = now_ns();
    g->stopped_ns = g->delivered = 0;
    return PM_OK;
}
CALL(cuptiPmSamplingStop, struct pm_sampling) {
    ((struct gpu *)p->sampling)->stopped_ns = now_ns();
    return PM_OK;
}
CALL(cuptiPmSamplingGetCounterDataSize, struct pm_data_size) {
    p->bytes = sizeof(struct image) + p->max_samples * sizeof(struct span);
    return PM_OK;
}
CALL(cuptiPmSamplingCounterDataImageInitialize, struct pm_data_init) {
    ((struct image *)(void *)p->data)->n = 0;
    return PM_OK;
}

static void swap_pairs(struct image *image) {
    for (size_t i = 1; i < image->n; i += 2) {
        struct span t = image->v[i];
        image->v[i] = image->v[i - 1];
        image->v[i - 1] = t;
    }
}

CALL(cuptiPmSamplingDecodeData, struct pm_decode) {
    struct gpu *g = p->sampling;
    struct image *image = (void *)p->data;
    size_t capacity = (p->bytes - sizeof *image) / sizeof image->v[0];
    uint64_t until_ns = g->stopped_ns ? g->stopped_ns : now_ns(),
             there = (until_ns - g->started_ns) / g->interval_ns;
    bool second = ++g->decodes == 2;
    if (behaviour("choke") && second) return PM_OUT_OF_MEMORY;
    if (behaviour("die=") && g->decodes == 3) return atoi(behaviour("die="));
    if (behaviour("stuck") && second)
        for (;;) sleep(1);
    for (; g->delivered < there && image->n < capacity; g->delivered++) {
        if (behaviour("gap") && g->delivered % 10 == 9) continue;
        image->v[image->n].start_ns = g->started_ns + g->delivered * g->interval_ns;
        image->v[image->n++].end_ns = g->started_ns + (g->delivered + 1) * g->interval_ns;
    }
    if (behaviour("disorder")) swap_pairs(image);
    p->overflow = behaviour("full") != NULL;
    p->stop_reason = g->delivered < there ? PM_STOP_DATA_FULL : 0;
    return PM_OK;
}
CALL(cuptiPmSamplingGetCounterDataInfo, struct pm_data_info) {
    p->completed = p->populated = ((const struct image *)(const void *)p->data)->n;
    return PM_OK;
}
CALL(cuptiPmSamplingCounterDataGetSampleInfo, struct pm_sample_info) {
    const struct image *image = (const void *)p->data;
    p->start_ns = image->v[p->sample].start_ns;
    p->end_ns = image->v[p->sample].end_ns;
    return PM_OK;
}
