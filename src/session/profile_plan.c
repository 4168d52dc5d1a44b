#include "session/profile_plan.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/installed.h"
#include "base/program.h"
#include "base/secret.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/util.h"
#include "base/vec.h"
#include "conf/schema.h"
#include "llm/gguf.h"
#include "llm/safetensors.h"
#include "session/python.h"
#include "session/run_dir.h"

#define EMBEDDED_CONFIG "samples/deepseek-ocr-small/config.json"
#define INSTALLED_PREFIX "inferprof:" /* prefix in engine.command for a file installed with this program */

/* ---- the engine's command */

static void plan_command(struct profile_plan *p, struct strlist *errors) {
    const struct conf_node *command = p->s.engine.command;
    struct err why;
    p->argv = xcalloc(command->n + 1, sizeof *p->argv);
    if (!command->n) strlist_add(errors, "engine.command is empty");
    for (size_t i = 0; i < command->n; i++) {
        const char *word = command->v[i]->text;
        if (i == 0 && strcmp(word, "inferprof") == 0 && (p->argv[i] = file_self())) continue;
        if (strncmp(word, INSTALLED_PREFIX, strlen(INSTALLED_PREFIX)) == 0)
            p->argv[i] = installed_find(word + strlen(INSTALLED_PREFIX), &why);
        else
            p->argv[i] = xstrdup(word);
        if (!p->argv[i]) {
            strlist_add(errors, "engine.command: %s", why.msg);
            p->argv[i] = xstrdup(word);
        }
    }
    char *program = command->n ? program_find(p->argv[0]) : NULL;
    if (command->n && !program)
        strlist_add(errors, "engine %s: %s: no such program (engine.command)", p->s.engine.name, p->argv[0]);
    free(program);
}

/* ---- the model */

#define FALLBACK_FAMILY "llama"

/* Without model.assume, a model that cannot be loaded (unknown family) is loaded as FALLBACK_FAMILY; the
 * report contains this assumption. */
static struct llm_model *load_model(struct profile_plan *p, const char *path, struct llm_load *how) {
    struct err ignored;
    how->assume = p->s.model.assume;
    struct llm_model *m = llm_model_load(path, how, &p->model_note);
    if (m || how->assume) return m;
    how->assume = FALLBACK_FAMILY;
    return llm_model_load(path, how, &ignored);
}

static void plan_model(struct profile_plan *p, struct strlist *errors) {
    char *found = gguf_in_folder(p->s.model.path);
    const char *path = found;
    struct llm_load how = { .dtype = strcmp(p->s.model.dtype, "auto") == 0
                                         ? LLM_DTYPE_UNKNOWN
                                         : llm_dtype_parse(p->s.model.dtype) };
    bool embedded = strcmp(path, "embedded") == 0;
    const struct embed_file *own = embed_find(EMBEDDED_CONFIG);
    p->model_name = xstrdup(p->s.model.name ? p->s.model.name : file_basename(p->s.model.path));
    if (embedded && own) {
        p->model = llm_model_parse((const char *)own->data, embed_bytes(own), "embedded model", &how,
                                   &p->model_note);
    } else if (embedded) {
        err_set(&p->model_note, "the embedded model's config.json was not built in");
    } else if (file_has_ending(path, ".gguf") && file_exists(path)) {
        p->model = llm_model_load(path, &how, &p->model_note);
    } else if (!file_is_dir(path)) {
        strlist_add(
            errors,
            "model.path=%s: no such folder; give model.path=DIR with a config.json, model.path=FILE.gguf "
            "or model=embedded",
            path);
    } else {
        char *config = file_join(path, "config.json");
        if (!file_exists(config))
            strlist_add(errors, "model.path=%s: contains no config.json, and not exactly one .gguf model",
                        path);
        else
            p->model = load_model(p, path, &how);
        free(config);
    }
    free(found);
}

/* The native engine runs a model of an unknown family only if the user says which family it resembles. Other
 * engines run the model's own code. */
static void check_family(const struct profile_plan *p, struct strlist *errors) {
    if (strcmp(p->s.engine.name, "native") != 0 || p->s.model.assume || !p->model || !p->model->assumed)
        return;
    strlist_add(errors,
                "model.path=%s: the native engine does not know the architecture %s; model.assume=%s runs it "
                "as that family, and engine=hf runs the model's own code",
                p->s.model.path, p->model->architecture ? p->model->architecture : "of its config",
                p->model->assumed);
}

static bool has_ending(const char *dir, const char *ending) {
    DIR *d = opendir(dir);
    const struct dirent *e;
    bool found = false;
    while (d && !found && (e = readdir(d))) {
        size_t n = strlen(e->d_name), m = strlen(ending);
        found = n > m && strcmp(e->d_name + n - m, ending) == 0;
    }
    if (d) closedir(d);
    return found;
}

/* Checks for the engines native and hf that the model's folder has weights, and that the headers of
 * safetensors files are valid. Other engines may have their own formats. */
static void check_weights(const struct profile_plan *p, struct strlist *errors) {
    const char *path = p->s.model.path, *engine = p->s.engine.name;
    bool hf = strcmp(engine, "hf") == 0;
    struct err why;
    if ((!hf && strcmp(engine, "native") != 0) || strcmp(p->s.model.weights, "auto") != 0) return;
    if (strcmp(path, "embedded") == 0 || !file_is_dir(path)) return;
    if (hf && (has_ending(path, ".bin") || has_ending(path, ".pt"))) return;
    if (!hf && has_ending(path, ".gguf")) return; /* plan_model() reads the GGUF file if it is the only one */
    if (!has_ending(path, ".safetensors")) {
        strlist_add(errors,
                    "model.path=%s: contains no weights (*.safetensors); download them, or use "
                    "model.weights=synthetic:0 to measure speed without them",
                    path);
        return;
    }
    struct safetensors *st = safetensors_open(path, &why);
    if (!st) strlist_add(errors, "weights: %s; download the file again", why.msg);
    safetensors_close(st);
}

static bool is_text_model(const struct llm_model *m) { return m && m->decodes && !m->vision.family; }

static void check_input_kind(const struct profile_plan *p, struct strlist *errors) {
    bool images = false;
    for (size_t i = 0; i < p->dataset.n; i++) images |= p->dataset.v[i].path || p->dataset.v[i].embedded;
    if (images && is_text_model(p->model))
        strlist_add(errors,
                    "model %s reads text only, but the inputs are images (%s): use dataset=prompts "
                    "dataset.prompts=FILE.jsonl, or dataset=samples",
                    p->model_name, p->dataset.source ? p->dataset.source : "dataset");
}

#define IMPORT_LIMIT_S 120

void profile_plan_check_engine(const struct profile_plan *p, struct strlist *errors) {
    char *python =
        p->s.engine.python && strcmp(p->s.engine.name, "hf") == 0 ? program_find(p->s.engine.python) : NULL;
    if (!python) return;
    static const char script[] = "import torch, transformers; print(torch.__version__)";
    struct strbuf version = STRBUF_INIT;
    struct err why;
    if (python_ask(python, script, IMPORT_LIMIT_S, &version, &why) < 0)
        strlist_add(
            errors,
            "engine hf: %s cannot import torch and transformers: %s; install them for this Python, or set "
            "another with engine.python=/path/to/python3",
            python, why.msg);
    strbuf_free(&version);
    free(python);
}

/* ---- the rest */

/* Engines receive paths in JSON, which must be valid UTF-8. */
static void check_utf8(const char *what, const char *path, struct strlist *errors) {
    struct strbuf name = STRBUF_INIT;
    if (utf8_valid(path, strlen(path))) return;
    strbuf_add_printable(&name, path, strlen(path));
    strlist_add(errors, "%s: %s: the name is not valid UTF-8; rename it, or choose another", what, name.buf);
    strbuf_free(&name);
}

static void check_settings(struct profile_plan *p, struct strlist *errors) {
    const struct settings *s = &p->s;
    check_utf8("output.dir", s->output.dir, errors);
    check_utf8("model.path", s->model.path, errors);
    if (strcmp(s->infer.context_len_mode, "fixed") == 0 && s->infer.context_len_fixed < 1)
        strlist_add(errors, "infer.context_len_mode=fixed needs infer.context_len_fixed=N");
    if (s->output.run_id && (strchr(s->output.run_id, '/') || s->output.run_id[0] == '.'))
        strlist_add(errors, "output.run_id=%s: must be a plain folder name", s->output.run_id);
    if (strncmp(s->model.weights, "synthetic:", 10) != 0 && strcmp(s->model.weights, "auto") != 0)
        strlist_add(errors, "model.weights=%s: expected auto or synthetic:SEED", s->model.weights);
    for (size_t i = 0; i < p->dataset.n; i++) {
        const char *path = p->dataset.v[i].path;
        if (!path) continue;
        check_utf8("dataset", path, errors);
        if (access(path, R_OK) < 0) strlist_add(errors, "%s: %s", path, strerror(errno));
    }
}

/* A list in dataset.root takes precedence over one in the current folder. The path is also made absolute
 * in the tree, because config.yaml must be usable from another folder. */
static void find_filelist(struct profile_plan *p) {
    struct conf_node *n = conf_get(conf_root(p->conf), "dataset.subset_filelist");
    if (!p->s.dataset.subset_filelist || !n) return;
    char *path = p->s.dataset.root ? file_join(p->s.dataset.root, n->text) : NULL;
    if (!path || n->text[0] == '/' || !file_exists(path)) {
        free(path);
        path = schema_absolute_path(n->text);
    }
    free(n->text);
    p->s.dataset.subset_filelist = n->text = path;
}

void profile_plan_open(struct profile_plan *p, struct conf *conf, struct strlist *errors) {
    struct err why;
    size_t before = errors->n;
    *p = (struct profile_plan){ .conf = conf };
    schema_apply(conf_root(conf), &p->s, errors);
    p->settings_ok = errors->n == before;
    if (!p->settings_ok) return; /* the rest requires valid settings */
    p->has_nvml = nvml_inventory(&p->inventory, &why) == 0;
    device_choose(&p->s, p->has_nvml ? &p->inventory : NULL, why.msg, &p->device, errors);
    plan_command(p, errors);
    plan_model(p, errors);
    find_filelist(p);
    dataset_open(&p->dataset, &p->s, errors);
    if (is_text_model(p->model) && p->dataset.n && p->dataset.v[0].embedded)
        dataset_use_sample_prompts(&p->dataset, &p->s, errors);
    check_family(p, errors);
    check_weights(p, errors);
    check_input_kind(p, errors);
    dataset_order(&p->dataset, &p->s, (size_t)p->s.repeats);
    run_dir_check(p->s.output.dir, (uint64_t)p->s.output.min_free_mb * 1000000u, errors);
    check_settings(p, errors);
}

void profile_plan_close(struct profile_plan *p) {
    for (char **a = p->argv; a && *a; a++) free(*a);
    free(p->argv);
    free(p->model_name);
    llm_model_free(p->model);
    dataset_free(&p->dataset);
}

static void add_command(char *const *argv, struct strbuf *out) {
    struct strbuf words = STRBUF_INIT;
    size_t n = 0;
    while (argv[n]) n++;
    strbuf_add_shell_words(&words, argv, n);
    secret_mask(words.buf);
    strbuf_addstr(out, words.buf);
    strbuf_free(&words);
}

static void add_model(const struct profile_plan *p, struct strbuf *out) {
    char n[32], bytes[32];
    strbuf_addf(out, "model     %s (%s", p->model_name, p->s.model.path);
    if (p->model)
        strbuf_addf(out, ", %s parameters, %s of weights as %s",
                    units_count((double)p->model->params.total, n, sizeof n),
                    units_bytes(llm_weight_bytes(p->model), bytes, sizeof bytes),
                    p->model->quantization ? p->model->quantization : llm_dtype_name(p->model->dtype));
    strbuf_addstr(out, ")\n");
    if (!p->model) strbuf_addf(out, "          costs are unknown: %s\n", p->model_note.msg);
}

void profile_plan_engine_text(const struct profile_plan *p, struct strbuf *out) {
    const struct settings *s = &p->s;
    add_model(p, out);
    strbuf_addf(out, "engine    %s: ", s->engine.name);
    add_command(p->argv, out);
    strbuf_addf(out, "\ndevice    %s (%s)%s%s\n", p->device.label, p->device.name,
                p->device.note[0] ? "; " : "", p->device.note);
}

void profile_plan_text(const struct profile_plan *p, struct strbuf *out) {
    const struct settings *s = &p->s;
    size_t used = 0;
    for (size_t i = 0; i < p->dataset.n; i++) used += p->dataset.v[i].used;
    profile_plan_engine_text(p, out);
    strbuf_addf(out, "inputs    %s: %zu, of which %zu are used\n", p->dataset.source, p->dataset.n, used);
    strbuf_addf(out, "phase 1   %" PRId64 " warm-up rounds%s, then one run with detail %s (profiling=%s)\n",
                s->profiling.warmup_rounds, s->profiling.warmup_synthetic ? " on a synthetic page" : "",
                s->profiling.detail, s->profiling.preset);
    strbuf_addf(out, "phase 2   %" PRId64 " timed repeats, up to %" PRId64 " new tokens each", s->repeats,
                s->infer.max_new_tokens);
    if (s->processes > 1) strbuf_addf(out, ", in each of %" PRId64 " processes", s->processes);
    strbuf_addch(out, '\n');
    strbuf_addf(out, "output    %s/%s\n", s->output.dir,
                s->output.run_id ? s->output.run_id : "<time>-<model>");
}
