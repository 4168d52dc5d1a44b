#include "session/env.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/jsonw.h"
#include "base/schema.h"
#include "base/secret.h"
#include "base/units.h"
#include "base/vec.h"
#include "session/cpu_peak.h"

void env_add(struct env *e, const char *group, const char *key, const char *fmt, ...) {
    struct strbuf s = STRBUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&s, fmt, ap);
    va_end(ap);
    if (!s.len) {
        strbuf_free(&s);
        return;
    }
    char *value = strbuf_detach(&s);
    secret_mask(value);
    vec_push(e, ((struct env_row){ group, xstrdup(key), value }));
}

void env_free(struct env *e) {
    for (size_t i = 0; i < e->n; i++) {
        free(e->v[i].key);
        free(e->v[i].value);
    }
    free(e->v);
    *e = (struct env){ 0 };
}

/* Finds the first line that starts with `key` and copies the rest of the line, without leading blanks and
 * quotes, up to the next quote. Returns false if there is no such line or file. */
static bool line_value(const char *path, const char *key, char *out, size_t cap) {
    struct strbuf text = STRBUF_INIT;
    struct err err;
    bool found = false;
    out[0] = '\0';
    if (file_read(path, 1u << 20, &text, &err) == 0) {
        char *rest = text.buf, *line;
        while (!found && (line = strsep(&rest, "\n"))) {
            if (strncmp(line, key, strlen(key)) != 0) continue;
            line += strlen(key);
            line += strspn(line, " \t\"'");
            snprintf(out, cap, "%.*s", (int)strcspn(line, "\"'\r"), line);
            found = true;
        }
    }
    strbuf_free(&text);
    return found;
}

static void add_file(struct env *e, const char *group, const char *key, const char *path) {
    char value[256];
    if (line_value(path, "", value, sizeof value)) env_add(e, group, key, "%s", value);
}

static void add_system(struct env *e) {
    struct utsname u;
    char text[256];
    if (line_value("/etc/os-release", "PRETTY_NAME=", text, sizeof text))
        env_add(e, "System", "OS", "%s", text);
    if (uname(&u) == 0) {
        env_add(e, "System", "kernel", "%s %s %s", u.sysname, u.release, u.machine);
        env_add(e, "System", "host", "%s", u.nodename);
    }
    env_add(e, "System", "container", "%s",
            file_exists("/.dockerenv") || file_exists("/run/.containerenv") ? "yes" : "not detected");
    add_file(e, "System", "load average", "/proc/loadavg");
}

static void add_memory(struct env *e, const char *key, const char *field) {
    char text[64], shown[32];
    if (!line_value("/proc/meminfo", field, text, sizeof text)) return;
    env_add(e, "Memory", key, "%s", units_bytes(strtod(text, NULL) * 1024, shown, sizeof shown));
}

static void add_cpu(struct env *e) {
    char name[128];
    cpu_name(name, sizeof name);
    env_add(e, "CPU", "CPU", "%s", name);
    env_add(e, "CPU", "CPU cores usable", "%u", cpu_usable());
    env_add(e, "CPU", "CPU cores", "%ld", sysconf(_SC_NPROCESSORS_CONF));
    add_file(e, "CPU", "CPU governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    add_file(e, "CPU", "CPU maximum kHz", "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    add_file(e, "CPU", "CPU boost", "/sys/devices/system/cpu/cpufreq/boost");
    add_memory(e, "memory total", "MemTotal:");
    add_memory(e, "memory available", "MemAvailable:");
}

static void add_gpus(struct env *e, const struct nvml_inventory *inv) {
    if (!inv) {
        env_add(e, "GPU", "GPUs", "none (no NVML)");
        return;
    }
    env_add(e, "GPU", "NVIDIA driver", "%s", inv->driver);
    if (inv->cuda_version)
        env_add(e, "GPU", "CUDA of the driver", "%d.%d", inv->cuda_version / 1000,
                inv->cuda_version % 1000 / 10);
    for (size_t i = 0; i < inv->ngpus; i++) {
        const struct nvml_gpu *g = &inv->gpus[i];
        char key[48], memory[32] = "";
        snprintf(key, sizeof key, "cuda:%zu", i);
        if (g->memory_bytes) units_bytes((double)g->memory_bytes, memory, sizeof memory);
        env_add(e, "GPU", key, "%s, %s, %s%s", g->name, g->uuid, memory,
                g->mig == NVML_MIG_ON ? ", MIG on" : "");
        snprintf(key, sizeof key, "cuda:%zu limits", i);
        if (g->sm_max_mhz || g->power_limit_mw)
            env_add(e, "GPU", key, "SM %u MHz, %.0f W", g->sm_max_mhz, g->power_limit_mw / 1000.0);
    }
    if (!inv->ngpus) env_add(e, "GPU", "GPUs", "none");
}

void env_capture(struct env *e, const struct nvml_inventory *inventory) {
    char when[64];
    env_add(e, "Run", "started (UTC)", "%s",
            clock_format(clock_wall_ns(), "%Y-%m-%d %H:%M:%S", 1, when, sizeof when));
    add_system(e);
    add_cpu(e);
    add_gpus(e, inventory);
    add_file(e, "GPU", "NVIDIA kernel module", "/proc/driver/nvidia/version");
}

void env_json(const struct env *e, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_ENV);
    for (size_t i = 0; i < e->n; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++) seen |= strcmp(e->v[k].group, e->v[i].group) == 0;
        if (seen) continue;
        jsonw_kobject(&j, e->v[i].group);
        for (size_t k = i; k < e->n; k++)
            if (strcmp(e->v[k].group, e->v[i].group) == 0) jsonw_kstr(&j, e->v[k].key, e->v[k].value);
        jsonw_end(&j);
    }
    jsonw_end(&j);
    jsonw_finish(&j);
}
