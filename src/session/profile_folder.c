#include "session/profile_folder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/units.h"
#include "conf/yaml.h"
#include "session/run_dir.h"
#include "session/synthetic_page.h"

#define SYNTHETIC_WIDTH 1240 /* A4 at 150 dots per inch */
#define SYNTHETIC_HEIGHT 1754

int profile_folder_open(struct profile_folder *f, struct profile_plan *p, struct err *err) {
    const struct settings *s = &p->s;
    *f = (struct profile_folder){ .started_wall_ns = clock_wall_ns() };
    char *id =
        s->output.run_id ? xstrdup(s->output.run_id) : run_dir_default_id(f->started_wall_ns, p->model_name);
    f->dir = run_dir_create(s->output.dir, id, err);
    free(id);
    if (!f->dir) return -1;
    f->run_id = xstrdup(file_basename(f->dir));
    f->trace_dir = file_join(f->dir, "trace");
    char *log = file_join(f->dir, "inferprof.log");
    int rc = log_open_file(log, err);
    free(log);
    if (rc == 0) rc = file_mkdirs(f->trace_dir, err);
    if (rc == 0) rc = dataset_extract(&p->dataset, f->dir, err);
    if (rc == 0) rc = dataset_hash(&p->dataset, err);
    if (rc == 0 && s->profiling.warmup_synthetic) {
        f->synthetic_page = file_join(f->dir, "warmup.png");
        rc = synthetic_page_write(f->synthetic_page, SYNTHETIC_WIDTH, SYNTHETIC_HEIGHT, err);
    }
    return rc;
}

void profile_folder_free(struct profile_folder *f) {
    free(f->dir);
    free(f->run_id);
    free(f->trace_dir);
    free(f->synthetic_page);
}

static void add_model(const struct profile_plan *p, struct env *env) {
    const struct llm_model *m = p->model;
    char total[32], active[32], bytes[32];
    env_add(env, "Model", "model", "%s", p->model_name);
    if (!m) return;
    env_add(env, "Model", "model family", "%s%s", m->family ? m->family : m->model_type,
            m->assumed ? " (assumed)" : "");
    env_add(env, "Model", "architecture", "%s", m->architecture ? m->architecture : "");
    env_add(env, "Model", "parameters", "%s, %s active per token",
            units_count((double)m->params.total, total, sizeof total),
            units_count((double)(m->decodes ? m->params.active : m->params.total), active, sizeof active));
    env_add(env, "Model", "weights", "%s as %s%s%s", units_bytes(llm_weight_bytes(m), bytes, sizeof bytes),
            llm_dtype_name(m->dtype), m->quantization ? ", quantised: " : "",
            m->quantization ? m->quantization : "");
    if (!m->decodes) return;
    env_add(env, "Model", "layers", "%u", m->text.layers);
    env_add(env, "Model", "hidden size", "%" PRIu64, m->text.hidden);
    env_add(env, "Model", "attention heads", "%" PRIu64 ", %" PRIu64 " for keys and values", m->text.heads,
            m->text.kv_heads);
    if (m->text.experts)
        env_add(env, "Model", "experts", "%" PRIu64 ", %" PRIu64 " per token", m->text.experts,
                m->text.experts_per_token);
    if (m->text.max_positions)
        env_add(env, "Model", "context window", "%" PRIu64 " tokens", m->text.max_positions);
}

static int write_env(const struct profile_folder *f, const struct env *env, struct err *err) {
    struct strbuf json = STRBUF_INIT;
    env_json(env, &json);
    int rc = run_dir_write(f->dir, "env.json", json.buf, json.len, err);
    strbuf_free(&json);
    return rc;
}

int profile_folder_write_inputs(const struct profile_folder *f, const struct profile_plan *p,
                                const char *config_yaml, struct env *env, struct err *err) {
    struct strbuf inputs = STRBUF_INIT;
    env_add(env, "Run", "device", "%s (%s)", p->device.label, p->device.name);
    add_model(p, env);
    dataset_yaml(&p->dataset, &inputs);
    int rc = run_dir_write(f->dir, "config.yaml", config_yaml, strlen(config_yaml), err);
    if (rc == 0) rc = write_env(f, env, err);
    if (rc == 0) rc = run_dir_write(f->dir, "inputs.yaml", inputs.buf, inputs.len, err);
    strbuf_free(&inputs);
    return rc;
}

/* Records the options of engine.load, because they may be the only difference between two runs of a model.
 * Secrets are masked. */
static void add_engine_options(const struct conf_node *load, struct env *env) {
    struct strbuf text = STRBUF_INIT;
    bool is_switch;
    for (size_t i = 0; load && i < load->n; i++) {
        const struct conf_node *o = load->v[i];
        bool secret =
            o->kind == CONF_SCALAR && secret_is_name(o->key, strlen(o->key)) && !conf_as_bool(o, &is_switch);
        strbuf_addf(&text, "%s%s=%s", text.len ? ", " : "", o->key,
                    o->kind != CONF_SCALAR ? "..."
                    : secret               ? SECRET_MASK
                                           : o->text);
    }
    if (text.len) env_add(env, "Engine", "engine options", "%s", text.buf);
    strbuf_free(&text);
}

int profile_folder_add_engine(const struct profile_folder *f, const struct profile_plan *p,
                              const struct session_result *result, struct env *env, struct err *err) {
    const struct engine_info *i = &result->info;
    if (result->loaded) {
        env_add(env, "Engine", "engine", "%s %s", i->name ? i->name : "?", i->version ? i->version : "");
        env_add(env, "Engine", "engine device", "%s%s%s", i->device ? i->device : "?", i->isa ? ", " : "",
                i->isa ? i->isa : "");
        if (i->threads > 0) env_add(env, "Engine", "engine threads", "%.0f", i->threads);
        env_add(env, "Engine", "weights", "%s", i->weights ? i->weights : "");
        add_engine_options(p->s.engine.load, env);
    }
    return write_env(f, env, err);
}

void profile_folder_compare_inputs(const char *old_run, const struct dataset *d) {
    char *path = file_join(old_run, "inputs.yaml");
    struct strbuf text = STRBUF_INIT;
    struct err err;
    struct conf_node *old =
        file_read(path, 64u << 20, &text, &err) == 0 ? conf_yaml_parse(text.buf, text.len, path, &err) : NULL;
    const struct conf_node *list = old ? conf_get(old, "inputs") : NULL;
    if (!list) log_warn("cannot compare the inputs with those of %s", old_run);
    for (size_t i = 0; list && i < d->n; i++)
        for (size_t k = 0; d->v[i].used && k < list->n; k++) {
            const struct conf_node *name = conf_get(list->v[k], "name"),
                                   *sum = conf_get(list->v[k], "sha256");
            if (name && sum && name->text && sum->text && strcmp(name->text, d->v[i].name) == 0 &&
                strcmp(sum->text, d->v[i].sha256) != 0)
                log_warn("%s has changed since %s", d->v[i].name, old_run);
        }
    conf_node_free(old);
    strbuf_free(&text);
    free(path);
}
