#include "counters/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* Metrics in order of priority. A row lists the names of one metric on different chips; the first one that
 * works is used. */
static const char *const candidates[][3] = {
    { "sm__cycles_active.avg.pct_of_peak_sustained_elapsed" },
    { "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
      "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed" },
    { "dram__read_throughput.avg.pct_of_peak_sustained_elapsed",
      "dram__read_bytes.sum.pct_of_peak_sustained_elapsed" },
    { "dram__write_throughput.avg.pct_of_peak_sustained_elapsed",
      "dram__write_bytes.sum.pct_of_peak_sustained_elapsed" },
    { "tpc__warps_active_shader_cs_realtime.avg.pct_of_peak_sustained_elapsed",
      "sm__warps_active.avg.pct_of_peak_sustained_elapsed" },
    { "gpc__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second" },
    { "gr__cycles_active.avg.pct_of_peak_sustained_elapsed" },
    { "sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed",
      "sm__inst_executed.avg.pct_of_peak_sustained_elapsed" },
    { "pcie__read_bytes.sum.per_second" },
    { "pcie__write_bytes.sum.per_second" },
};

int metrics_host(const struct pm_api *api, const char *chip, const uint8_t *availability,
                 const struct metrics *m, void **host, struct err *err) {
    struct pm_host_open open = PM_SIZED(struct pm_host_open);
    open.type = PM_TYPE_SAMPLING;
    open.chip = chip;
    open.availability = availability;
    int rc = api->host_open(&open);
    if (rc != PM_OK) return pm_api_error(api, rc, "preparing metrics", err);
    struct pm_add_metrics add = PM_SIZED(struct pm_add_metrics);
    add.host = open.host;
    add.names = (const char **)(void *)(uintptr_t)m->names;
    add.n = m->n;
    rc = api->add_metrics(&add);
    *host = open.host;
    return rc == PM_OK ? 0 : pm_api_error(api, rc, "adding metrics", err);
}

static void host_close(const struct pm_api *api, void *host) {
    struct pm_host close = PM_SIZED(struct pm_host);
    close.host = host;
    if (host) api->host_close(&close);
}

static int read_config(const struct pm_api *api, void *host, uint8_t **image, size_t *bytes,
                       struct err *err) {
    struct pm_image_size size = PM_SIZED(struct pm_image_size);
    size.host = host;
    int rc = api->image_size(&size);
    if (rc != PM_OK) return pm_api_error(api, rc, "sizing the configuration", err);
    struct pm_image get = PM_SIZED(struct pm_image);
    get.host = host;
    get.bytes = size.bytes;
    get.image = malloc(size.bytes ? size.bytes : 1);
    if (!get.image) return err_set(err, "out of memory");
    rc = api->image(&get);
    *image = get.image;
    *bytes = size.bytes;
    return rc == PM_OK ? 0 : pm_api_error(api, rc, "building the configuration", err);
}

/* Returns 0 if these metrics fit into one pass; *m then contains their configuration. */
static int try_metrics(const struct pm_api *api, const char *chip, const uint8_t *availability,
                       struct metrics *m, struct err *err) {
    void *host = NULL;
    uint8_t *image = NULL;
    size_t bytes = 0;
    int rc = metrics_host(api, chip, availability, m, &host, err);
    if (rc == 0) rc = read_config(api, host, &image, &bytes, err);
    if (rc == 0) {
        struct pm_passes passes = PM_SIZED(struct pm_passes);
        passes.bytes = bytes;
        passes.image = image;
        int code = api->passes(&passes);
        if (code != PM_OK)
            rc = pm_api_error(api, code, "counting passes", err);
        else if (passes.passes != 1)
            rc = err_set(err, "%s needs %zu passes", m->names[m->n - 1], passes.passes);
    }
    host_close(api, host);
    if (rc < 0) {
        free(image);
        return -1;
    }
    free(m->config);
    m->config = image;
    m->config_bytes = bytes;
    return 0;
}

static char *join_names(const struct metrics *m) {
    size_t total = 1;
    for (size_t i = 0; i < m->n; i++) total += strlen(m->names[i]) + 1;
    char *text = calloc(1, total);
    for (size_t i = 0; text && i < m->n; i++) {
        if (i) strcat(text, ";");
        strcat(text, m->names[i]);
    }
    return text;
}

int metrics_choose(const struct pm_api *api, const char *chip, const uint8_t *availability,
                   size_t max_metrics, struct metrics *m, struct err *err) {
    *m = (struct metrics){ 0 };
    for (size_t i = 0; i < COUNTOF(candidates) && m->n < max_metrics; i++)
        for (size_t k = 0; k < COUNTOF(candidates[i]) && candidates[i][k]; k++) {
            m->names[m->n++] = candidates[i][k];
            if (try_metrics(api, chip, availability, m, err) == 0) break;
            m->n--;
        }
    if (m->n == 0) return -1; /* err contains the last reason */
    m->listed = join_names(m);
    return m->listed ? 0 : err_set(err, "out of memory");
}

void metrics_free(struct metrics *m) {
    free(m->listed);
    free(m->config);
    *m = (struct metrics){ 0 };
}
