#include "conf/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/opt.h"
#include "base/suggest.h"
#include "base/util.h"

#define AT(field) offsetof(struct settings, field)
#define MAX_EXACT_INT 1e15

static const struct schema_row rows[] = {
    { "repeats", SCHEMA_INT, false, AT(repeats), 1, 1e6, NULL, "timed requests, cycling over the inputs" },
    { "processes", SCHEMA_INT, false, AT(processes), 1, 1000, NULL,
      "engine processes, each with `repeats` repeats; `compare` requires 5" },
    { "device", SCHEMA_TEXT, false, AT(device), 0, 0, NULL,
      "`auto`, `cpu`, `cuda:N`, a GPU UUID or a MIG id" },
    { "prompt", SCHEMA_TEXT, true, AT(prompt), 0, 0, NULL,
      "text for every input; null: the default of the engine" },

    { "model.name", SCHEMA_TEXT, true, AT(model.name), 0, 0, NULL,
      "name in reports; null: name of the model folder" },
    { "model.path", SCHEMA_PATH, false, AT(model.path), 0, 0, "embedded",
      "folder with `config.json`, or `embedded`" },
    { "model.dtype", SCHEMA_CHOICE, false, AT(model.dtype), 0, 0, "auto|bf16|f16|f32",
      "compute and weight type" },
    { "model.weights", SCHEMA_TEXT, false, AT(model.weights), 0, 0, NULL,
      "`auto`, or `synthetic:SEED` for random weights" },
    { "model.assume", SCHEMA_TEXT, true, AT(model.assume), 0, 0, NULL,
      "family whose formulas to use for FLOPs and bytes, and as which the native engine runs the model; "
      "null: that of the config, or, for formulas, `llama` if it is unknown" },
    { "model.prompt", SCHEMA_TEXT, true, AT(model.prompt), 0, 0, NULL, "default prompt of the model" },
    { "model.no_repeat_ngram_size", SCHEMA_INT, false, AT(model.no_repeat_ngram_size), 0, 4096, NULL,
      "value used by the model's own code; 0: off" },
    { "model.ngram_window", SCHEMA_INT, false, AT(model.ngram_window), 0, 1e6, NULL,
      "number of previous tokens for the n-gram check; 0: the whole sequence" },
    { "model.ocr", SCHEMA_BOOL, false, AT(model.ocr), 0, 0, NULL, "answers contain Markdown and page boxes" },
    { "model.stages", SCHEMA_MAP, true, AT(model.stages), 0, 0, NULL,
      "parts of prefill timed by engine hf, and their modules: `{vision: model.visual}`; `{}`: none" },
    { "model.preprocess.mode", SCHEMA_CHOICE, true, AT(model.preprocess.mode), 0, 0,
      "tiny|small|base|large|gundam", "page views (tiles and sizes); null: the default of the model" },
    { "model.preprocess.max_tiles", SCHEMA_INT, true, AT(model.preprocess.max_tiles), 1, 64, NULL,
      "maximum number of tiles in `gundam` mode" },
    { "model.preprocess.base_size", SCHEMA_INT, true, AT(model.preprocess.base_size), 64, 4096, NULL,
      "side of the view of the whole page if it is cropped, a multiple of 64; null: that of the mode" },
    { "model.preprocess.image_size", SCHEMA_INT, true, AT(model.preprocess.image_size), 64, 4096, NULL,
      "side of a tile, or of the only view, a multiple of 64; null: that of the mode" },
    { "model.preprocess.crop_mode", SCHEMA_CHOICE, true, AT(model.preprocess.crop_mode), 0, 0, "true|false",
      "cut the page into tiles; null: as in the mode" },

    { "infer.max_new_tokens", SCHEMA_INT, false, AT(infer.max_new_tokens), 1, 1e6, NULL,
      "tokens to generate" },
    { "infer.temperature", SCHEMA_NUM, false, AT(infer.temperature), 0, 100, NULL,
      "sampling temperature; only with `infer.do_sample`" },
    { "infer.top_p", SCHEMA_NUM, false, AT(infer.top_p), 0, 1, NULL,
      "nucleus sampling; only with `infer.do_sample`" },
    { "infer.top_k", SCHEMA_INT, false, AT(infer.top_k), 0, 1e6, NULL,
      "sample from the k most likely tokens; only with `infer.do_sample`; 0: all" },
    { "infer.do_sample", SCHEMA_BOOL, false, AT(infer.do_sample), 0, 0, NULL,
      "false: greedy decoding, deterministic" },
    { "infer.no_repeat_ngram_size", SCHEMA_INT, false, AT(infer.no_repeat_ngram_size), 0, 4096, NULL,
      "never generate an n-gram of this size twice; 0: off" },
    { "infer.ngram_window", SCHEMA_INT, false, AT(infer.ngram_window), 0, 1e6, NULL,
      "number of previous tokens for the n-gram check; 0: the whole sequence" },
    { "infer.ignore_eos", SCHEMA_BOOL, false, AT(infer.ignore_eos), 0, 0, NULL,
      "continue past the end token, so that all repeats do the same work" },
    { "infer.context_len_mode", SCHEMA_CHOICE, false, AT(infer.context_len_mode), 0, 0, "auto|max|fixed",
      "context length for decode FLOPs and MFU: the actual one, the maximum of the model, or "
      "`infer.context_len_fixed`" },
    { "infer.context_len_fixed", SCHEMA_INT, true, AT(infer.context_len_fixed), 1, 1e8, NULL,
      "context length in tokens, with `infer.context_len_mode=fixed`" },
    { "infer.seed", SCHEMA_INT, false, AT(infer.seed), 0, MAX_EXACT_INT, NULL, "random seed for sampling" },

    { "dataset.name", SCHEMA_TEXT, true, AT(dataset.name), 0, 0, NULL, "name in reports" },
    { "dataset.kind", SCHEMA_CHOICE, false, AT(dataset.kind), 0, 0, "images|prompts", "type of the inputs" },
    { "dataset.root", SCHEMA_PATH, true, AT(dataset.root), 0, 0, "samples",
      "folder of inputs; `samples`: built-in pages" },
    { "dataset.subset_filelist", SCHEMA_TEXT, true, AT(dataset.subset_filelist), 0, 0, NULL,
      "file with one path per line, relative to `dataset.root`; the file is searched in `dataset.root` and "
      "in the current folder" },
    { "dataset.fallback_patterns", SCHEMA_LIST, true, AT(dataset.fallback_patterns), 0, 0, NULL,
      "globs under `dataset.root`, used if there is no file list; all matches are used" },
    { "dataset.prompts", SCHEMA_PATH, true, AT(dataset.prompts), 0, 0, NULL,
      "JSON Lines file with `prompt` or `prompt_ids` (and optionally `id`, `image`, `max_new_tokens`)" },
    { "dataset.sampling.num_epochs", SCHEMA_INT, false, AT(dataset.sampling.num_epochs), 1, 1e6, NULL,
      "number of passes over the inputs when building the order" },
    { "dataset.sampling.num_samples_per_epoch", SCHEMA_INT, true, AT(dataset.sampling.num_samples_per_epoch),
      1, 1e9, NULL, "inputs per pass; null: all" },
    { "dataset.sampling.randomize", SCHEMA_BOOL, false, AT(dataset.sampling.randomize), 0, 0, NULL,
      "shuffle each pass, using the seed" },
    { "dataset.sampling.seed", SCHEMA_INT, false, AT(dataset.sampling.seed), 0, MAX_EXACT_INT, NULL,
      "random seed for shuffling" },

    { "engine.name", SCHEMA_TEXT, false, AT(engine.name), 0, 0, NULL, "name in reports" },
    { "engine.python", SCHEMA_TEXT, true, AT(engine.python), 0, 0, NULL, "Python interpreter for engine hf" },
    { "engine.command", SCHEMA_LIST, false, AT(engine.command), 0, 0, NULL,
      "program and arguments; `inferprof` means this program, `inferprof:FILE` a file shipped with it" },
    { "engine.devices", SCHEMA_LIST, false, AT(engine.devices), 0, 0, "cpu|cuda", "supported device types" },
    { "engine.env", SCHEMA_MAP, true, AT(engine.env), 0, 0, NULL, "environment variables to set" },
    { "engine.load", SCHEMA_MAP, true, AT(engine.load), 0, 0, NULL,
      "additional fields for the `load` request" },
    { "engine.infer", SCHEMA_MAP, true, AT(engine.infer), 0, 0, NULL,
      "additional fields for `infer` and `warmup` requests" },
    { "engine.threads", SCHEMA_INT, false, AT(engine.threads), 0, 4096, NULL,
      "CPU threads; 0: one per usable core" },
    { "engine.max_context", SCHEMA_INT, false, AT(engine.max_context), 0, 1 << 24, NULL,
      "limit of the KV cache in tokens of one sequence; 0: chosen by the engine" },
    { "engine.exact", SCHEMA_BOOL, true, AT(engine.exact), 0, 0, NULL,
      "native engine: float arithmetic also for quantised weights, and a float cache" },
    { "engine.decode", SCHEMA_CHOICE, true, AT(engine.decode), 0, 0, "auto|graph|persistent",
      "native engine on a GPU: decoding steps as CUDA graphs, or in one kernel (DeepSeek-OCR)" },
    { "engine.start_timeout_s", SCHEMA_NUM, false, AT(engine.start_timeout_s), 0.01, 1e6, NULL,
      "time limit for `hello`, in seconds" },
    { "engine.load_timeout_s", SCHEMA_NUM, false, AT(engine.load_timeout_s), 0.01, 1e6, NULL,
      "time limit for `load`, in seconds" },
    { "engine.request_timeout_s", SCHEMA_NUM, false, AT(engine.request_timeout_s), 0.01, 1e6, NULL,
      "time limit for one request, in seconds; after it the engine is stopped" },

    { "profiling.preset", SCHEMA_TEXT, false, AT(profiling.preset), 0, 0, NULL, "name in reports" },
    { "profiling.warmup_rounds", SCHEMA_INT, false, AT(profiling.warmup_rounds), 0, 10000, NULL,
      "requests before the timed ones; 0: none" },
    { "profiling.warmup_synthetic", SCHEMA_BOOL, false, AT(profiling.warmup_synthetic), 0, 0, NULL,
      "warm up with a generated page instead of the first input" },
    { "profiling.rep_max_new_tokens", SCHEMA_INT, true, AT(profiling.rep_max_new_tokens), 1, 1e6, NULL,
      "maximum tokens to generate in the representative run; null: `infer.max_new_tokens`" },
    { "profiling.detail", SCHEMA_CHOICE, false, AT(profiling.detail), 0, 0, "stages|modules|operators",
      "ranges the engine records in the representative run" },
    { "profiling.activities", SCHEMA_LIST, false, AT(profiling.activities), 0, 0, "cpu|cuda|memcpy|sync",
      "activities recorded in the representative run; without `cpu`: no modules and operators" },
    { "profiling.record_shapes", SCHEMA_BOOL, false, AT(profiling.record_shapes), 0, 0, NULL,
      "record operator shapes; off: all calls of an operator share one row" },
    { "profiling.profile_memory", SCHEMA_BOOL, false, AT(profiling.profile_memory), 0, 0, NULL,
      "record the memory of the representative run over time" },
    { "profiling.with_stack", SCHEMA_BOOL, false, AT(profiling.with_stack), 0, 0, NULL,
      "record the Python call paths of operators (engine hf)" },
    { "profiling.counters", SCHEMA_BOOL, false, AT(profiling.counters), 0, 0, NULL,
      "sample GPU hardware counters" },
    { "profiling.counter_interval_us", SCHEMA_INT, false, AT(profiling.counter_interval_us), 1, 1e7, NULL,
      "counter sampling interval in us" },
    { "profiling.gemm_shapes", SCHEMA_BOOL, false, AT(profiling.gemm_shapes), 0, 0, NULL,
      "record shapes of matrix products" },
    { "profiling.top_k", SCHEMA_INT, false, AT(profiling.top_k), 1, 10000, NULL,
      "maximum rows of operator and kernel tables" },

    { "hardware.gpu", SCHEMA_TEXT, true, AT(hardware.gpu), 0, 0, NULL,
      "GPU table row to take peaks from; null: the row of the device" },
    { "hardware.power", SCHEMA_BOOL, false, AT(hardware.power), 0, 0, NULL,
      "sample power, clocks and temperature" },
    { "hardware.power_interval_ms", SCHEMA_INT, false, AT(hardware.power_interval_ms), 1, 60000, NULL,
      "power sampling interval in ms" },
    { "hardware.calibrate", SCHEMA_BOOL, false, AT(hardware.calibrate), 0, 0, NULL,
      "measure the CPU peaks if none are known" },

    { "output.dir", SCHEMA_PATH, false, AT(output.dir), 0, 0, NULL, "parent folder of run folders" },
    { "output.run_id", SCHEMA_TEXT, true, AT(output.run_id), 0, 0, NULL,
      "name of the run folder; null: time and model" },
    { "output.predictions", SCHEMA_BOOL, false, AT(output.predictions), 0, 0, NULL, "save the answers" },
    { "output.viz", SCHEMA_BOOL, false, AT(output.viz), 0, 0, NULL, "draw boxes and crops for OCR answers" },
    { "output.min_free_mb", SCHEMA_INT, false, AT(output.min_free_mb), 0, 1e9, NULL,
      "minimum free disk space in MB" },

    { "peak.tflops", SCHEMA_NUM, true, AT(peak.tflops), 1e-9, 1e9, NULL,
      "peak dense TFLOP/s for MFU; null: from the GPU table or measured" },
    { "peak.gbps", SCHEMA_NUM, true, AT(peak.gbps), 1e-9, 1e9, NULL,
      "peak memory bandwidth in GB/s for MBU; null: from the GPU table or measured" },
};

const struct schema_row *schema_rows(size_t *n) {
    *n = COUNTOF(rows);
    return rows;
}

/* Returns NULL for an unknown key. For a key inside a map, returns the row of the map. */
static const struct schema_row *schema_find(const char *key) {
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        size_t n = strlen(rows[i].key);
        if (strcmp(rows[i].key, key) == 0) return &rows[i];
        if (rows[i].type == SCHEMA_MAP && strncmp(rows[i].key, key, n) == 0 && key[n] == '.') return &rows[i];
    }
    return NULL;
}

bool schema_is_text(const char *key) {
    const struct schema_row *r = schema_find(key);
    return r && (r->type == SCHEMA_TEXT || r->type == SCHEMA_PATH) && strcmp(r->key, key) == 0;
}

/* ---- Unknown keys */

static bool is_prefix(const char *key) {
    size_t n = strlen(key);
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (strncmp(rows[i].key, key, n) == 0 && rows[i].key[n] == '.') return true;
    return false;
}

static const char *last_word(const char *key) {
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

/* Compares the whole path, then only its last part: max_new_token suggests infer.max_new_tokens. */
static const char *nearest(const char *key) {
    struct suggest whole, last;
    suggest_start(&whole, key);
    for (size_t i = 0; i < COUNTOF(rows); i++) suggest_try(&whole, rows[i].key);
    /* with a larger limit, keys that only share the group would match */
    if (whole.best && whole.best_distance <= MAX(strlen(last_word(key)) / 3, 1)) return whole.best;
    whole.best = NULL;
    suggest_start(&last, last_word(key));
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        const char *word = last_word(rows[i].key);
        suggest_try(&last, word);
        if (last.best == word) whole.best = rows[i].key;
    }
    return whole.best;
}

static void report_unknown_key(const struct conf_node *n, const char *key, struct strlist *errors) {
    struct strbuf where = STRBUF_INIT;
    conf_origin(n, &where);
    const char *near = nearest(key);
    if (near)
        strlist_add(errors, "%s: unknown key '%s'; did you mean '%s'?", where.buf, key, near);
    else
        strlist_add(errors, "%s: unknown key '%s'; --show-config lists all keys", where.buf, key);
    strbuf_free(&where);
}

static void check_keys(const struct conf_node *n, const char *path, struct strlist *errors) {
    for (size_t i = 0; i < n->n; i++) {
        const struct conf_node *child = n->v[i];
        char *key = *path ? xasprintf("%s.%s", path, child->key) : xstrdup(child->key);
        if (child->kind == CONF_MAP && !schema_find(key) && (child->n || is_prefix(key)))
            check_keys(child, key, errors);
        else if (!schema_find(key) && !(is_prefix(key) && conf_is_null(child)))
            report_unknown_key(child, key, errors);
        free(key);
    }
}

/* ---- Types */

static void expectation(const struct schema_row *r, struct strbuf *out) {
    static const char *const names[] = {
        [SCHEMA_TEXT] = "text",
        [SCHEMA_PATH] = "a path",
        [SCHEMA_CHOICE] = "one of ",
        [SCHEMA_INT] = "a whole number",
        [SCHEMA_NUM] = "a number",
        [SCHEMA_BOOL] = "true or false",
        [SCHEMA_LIST] = "a list of texts, as [a, b]",
        [SCHEMA_MAP] = "keys and values, as {a: 1}",
    };
    strbuf_addstr(out, names[r->type]);
    if (r->type == SCHEMA_CHOICE) strbuf_addstr(out, r->choices);
    if (r->type == SCHEMA_LIST && r->choices) strbuf_addf(out, " out of %s", r->choices);
    if (r->min != 0 || r->max != 0) strbuf_addf(out, " from %.15g to %.15g", r->min, r->max);
    if (r->optional) strbuf_addstr(out, ", or null");
}

static void report_wrong_type(const struct schema_row *r, const struct conf_node *n, struct strlist *errors) {
    struct strbuf where = STRBUF_INIT, want = STRBUF_INIT, got = STRBUF_INIT;
    conf_origin(n, &where);
    expectation(r, &want);
    if (n->kind == CONF_SCALAR)
        strbuf_addf(&got, "'%s'", n->text);
    else
        strbuf_addstr(&got, n->kind == CONF_MAP ? "a group of keys" : "a list");
    strlist_add(errors, "%s: %s is %s, expected %s", where.buf, r->key, got.buf, want.buf);
    strbuf_free(&where);
    strbuf_free(&want);
    strbuf_free(&got);
}

static bool in_bounds(const struct schema_row *r, double v) {
    return (r->min == 0 && r->max == 0) || (v >= r->min && v <= r->max);
}

char *schema_absolute_path(const char *path) {
    char here[4096];
    const char *home = getenv("HOME");
    if (strncmp(path, "~/", 2) == 0 && home) return file_join(home, path + 2);
    if (path[0] == '/' || !getcwd(here, sizeof here)) return xstrdup(path);
    return file_join(here, strncmp(path, "./", 2) == 0 ? path + 2 : path);
}

static void make_absolute(const struct schema_row *r, struct conf_node *n) {
    if (r->choices && opt_is_choice(r->choices, n->text)) return;
    char *path = schema_absolute_path(n->text);
    free(n->text);
    n->text = path;
}

static bool is_text_list(const struct schema_row *r, const struct conf_node *n) {
    if (n->kind != CONF_LIST) return false;
    for (size_t i = 0; i < n->n; i++) {
        if (n->v[i]->kind != CONF_SCALAR || conf_is_null(n->v[i])) return false;
        if (r->choices && !opt_is_choice(r->choices, n->v[i]->text)) return false;
    }
    return true;
}

/* Returns false if the node does not have the type of the row or is out of its bounds. */
static bool store_value(const struct schema_row *r, struct conf_node *n, void *field) {
    int64_t i;
    switch (r->type) {
    case SCHEMA_TEXT:
    case SCHEMA_PATH:
        if (n->kind != CONF_SCALAR || !n->text[0]) return false;
        if (r->type == SCHEMA_PATH) make_absolute(r, n);
        *(const char **)field = n->text;
        return true;
    case SCHEMA_CHOICE:
        *(const char **)field = n->text;
        return n->kind == CONF_SCALAR && n->text[0] && opt_is_choice(r->choices, n->text);
    case SCHEMA_INT:
        if (!conf_as_int(n, &i)) return false;
        *(int64_t *)field = i;
        return in_bounds(r, (double)i);
    case SCHEMA_NUM: return conf_as_num(n, field) && in_bounds(r, *(double *)field);
    case SCHEMA_BOOL: return conf_as_bool(n, field);
    case SCHEMA_LIST: *(const struct conf_node **)field = n; return is_text_list(r, n);
    case SCHEMA_MAP: *(const struct conf_node **)field = n; return n->kind == CONF_MAP;
    }
    return false;
}

static void store_null(const struct schema_row *r, void *field) {
    if (r->type == SCHEMA_INT)
        *(int64_t *)field = -1;
    else if (r->type == SCHEMA_NUM)
        *(double *)field = NAN;
    else if (r->type != SCHEMA_BOOL)
        *(const void **)field = NULL;
}

void schema_apply(struct conf_node *root, struct settings *out, struct strlist *errors) {
    memset(out, 0, sizeof *out);
    check_keys(root, "", errors);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        const struct schema_row *r = &rows[i];
        struct conf_node *n = conf_get(root, r->key);
        void *field = (char *)out + r->offset;
        bool nothing = !n || conf_is_null(n);
        if (nothing) store_null(r, field);
        if (nothing && r->optional) continue;
        if (!n)
            strlist_add(errors, "%s is missing; give %s=VALUE", r->key, r->key);
        else if (!store_value(r, n, field))
            report_wrong_type(r, n, errors);
    }
}
