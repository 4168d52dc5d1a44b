#include "analyze/stage_rules.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyze/operator_attention.h"
#include "base/util.h"

bool stage_rules_glob(const char *glob, const char *text) {
    const char *star = NULL, *retry = NULL;
    while (*text) {
        if (*glob == '*') {
            star = ++glob;
            retry = text;
        } else if (*glob && (*glob == '?' || *glob == *text)) {
            glob++;
            text++;
        } else if (star) {
            glob = star;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*glob == '*') glob++;
    return !*glob;
}

static void set(struct stage_match *m, const char *stage, double tokens_in, double tokens_out) {
    size_t len = strnlen(stage, sizeof m->stage - 1);
    memcpy(m->stage, stage, len);
    m->stage[len] = '\0';
    m->nested_only = m->guessed = false;
    m->tokens_in = tokens_in;
    m->tokens_out = tokens_out;
    m->keys = NAN;
}

/* Returns the number after `key`; NaN: none. label_number("step[DECODE bs=64 ...]", "bs=") is 64. */
static double label_number(const char *label, const char *key) {
    const char *at = label ? strstr(label, key) : NULL;
    char *end;
    if (!at) return NAN;
    at += strlen(key);
    double v = strtod(at, &end);
    return end == at || !isfinite(v) || v < 0 ? NAN : v;
}

/* Parsed from "context_2(1030)" or "context_2(sq1030sk1800...)": 2 requests, 1030 tokens, and 1800 keys that
 * the tokens attend to (NaN in the first form). */
struct vllm_part {
    double requests, tokens, keys;
};
static struct vllm_part vllm_part(const char *label, const char *key) {
    struct vllm_part p = { label_number(label, key), NAN, NAN };
    const char *open = strstr(label, key);
    open = open ? strchr(open, '(') : NULL;
    bool has_keys = open && strncmp(open, "(sq", 3) == 0;
    if (open) p.tokens = label_number(open, has_keys ? "(sq" : "(");
    if (has_keys) p.keys = label_number(open, "sk");
    return p;
}

/* Matches the labels of vLLM: execute_context_R(T)_generation_R(T), or
 * execute_N_context_R(sq..sk..)_generation_R(sq..). Each request counts for one generated token, also if it
 * reads several speculative tokens. */
static bool match_vllm(const char *name, struct stage_match *m) {
    if (strncmp(name, "execute_", 8) != 0 || !strstr(name, "context_") || !strstr(name, "generation_"))
        return false;
    struct vllm_part context = vllm_part(name, "context_"), generation = vllm_part(name, "generation_");
    if (isnan(context.requests) || isnan(generation.requests)) return false;
    if (generation.requests == 0)
        set(m, "prefill", context.tokens, context.requests);
    else if (context.requests == 0)
        set(m, "decode", generation.tokens, generation.requests);
    else
        set(m, "mixed", context.tokens + generation.tokens, context.requests + generation.requests);
    m->keys = generation.requests == 0 ? context.keys : context.requests == 0 ? generation.keys : NAN;
    return true;
}

/* Matches the labels of SGLang, such as step[DECODE bs=64 g_sq=64 ...] and step[EXTEND bs=1 toks=1025
 * ...]. */
static bool match_sglang(const char *name, struct stage_match *m) {
    static const struct {
        const char *mode, *stage;
        bool makes_tokens;
    } modes[] = {
        { "DECODE", "decode", true },       { "EXTEND", "prefill", true },
        { "MIXED", "mixed", true },         { "TARGET_VERIFY", "verify", false },
        { "DRAFT_EXTEND", "draft", false }, { "SPLIT_PREFILL", "prefill", true },
        { "IDLE", "idle", false },
    };
    if (strncmp(name, "step[", 5) != 0) return false;
    for (size_t i = 0; i < COUNTOF(modes); i++) {
        size_t len = strlen(modes[i].mode);
        if (strncmp(name + 5, modes[i].mode, len) != 0 || (name[5 + len] != ' ' && name[5 + len] != ']'))
            continue;
        double batch = label_number(name, " bs="), tokens = label_number(name, " toks=");
        if (isnan(tokens)) {
            double c = label_number(name, " c_sq="), g = label_number(name, " g_sq=");
            tokens = isnan(c) ? g : isnan(g) ? c : c + g;
        }
        if (isnan(tokens) && strcmp(modes[i].stage, "decode") == 0) tokens = batch;
        set(m, modes[i].stage, tokens, modes[i].makes_tokens ? batch : NAN);
        double c = label_number(name, " c_sk="), g = label_number(name, " g_sk=");
        m->keys = isnan(c) ? g : isnan(g) ? c : c + g;
        return true;
    }
    return false;
}

/* Adds the sums of sequences with sq query tokens and sk keys each. With a causal mask, a sequence has
 * sq sk - sq (sq - 1) / 2 pairs. Returns false if a sum is unknown. */
static bool add_sums(double sq, double sk, double sqsq, double sqsk, struct attention_step *out) {
    out->queries += sq;
    out->keys += sk;
    out->pairs += sqsk - (sqsq - sq) / 2;
    return !isnan(out->queries + out->keys + out->pairs);
}

static bool vllm_sums(const char *label, const char *key, struct attention_step *out) {
    const char *open = strstr(label, key);
    open = open ? strchr(open, '(') : NULL;
    return open && add_sums(label_number(open, "(sq"), label_number(open, "sk"), label_number(open, "sqsq"),
                            label_number(open, "sqsk"), out);
}

/* A label without these sums has no context, or no generation. */
static bool sglang_sums(const char *label, const char *const keys[4], struct attention_step *out) {
    if (!strstr(label, keys[0])) return true;
    return add_sums(label_number(label, keys[0]), label_number(label, keys[1]), label_number(label, keys[2]),
                    label_number(label, keys[3]), out);
}

bool stage_rules_attention(const char *label, struct attention_step *out) {
    static const char *const context[] = { " c_sq=", " c_sk=", " c_sqsq=", " c_sqsk=" },
                             *const generation[] = { " g_sq=", " g_sk=", " g_sqsq=", " g_sqsk=" };
    *out = (struct attention_step){ 0 };
    bool known = false;
    if (strncmp(label, "execute_", 8) == 0)
        known = vllm_sums(label, "context_", out) && vllm_sums(label, "generation_", out);
    else if (strncmp(label, "step[", 5) == 0)
        known = sglang_sums(label, context, out) && sglang_sums(label, generation, out);
    return known && out->queries > 0 && out->pairs >= 0;
}

/* Returns the length of the word that the text begins with. */
static size_t word_length(const char *text) {
    size_t n = 1;
    if (!isalpha((unsigned char)*text)) return 0;
    while (islower((unsigned char)text[n])) n++;
    return n;
}

/* Returns true for "decode", "decode 3", "decode_3", "decode[bs=4]", "decode_step" and "DecodeStep", but not
 * for names that only begin with the word: "decoder", "decode_jpeg". */
static bool is_phase(const char *name, const char *word) {
    static const char *const parts[] = { "step",   "steps", "forward", "loop", "phase", "stage", "pass",
                                         "iter",   "batch", "bs",      "b",    "seq",   "chunk", "iteration",
                                         "extend", "only",  "one",     "n",    "graph", "greedy" };
    size_t n = strlen(word);
    if (strncmp(name, word, n) != 0) return false;
    name += n;
    if (*name && strchr("_-./", *name)) name++;
    size_t length = word_length(name);
    for (size_t i = 0; i < COUNTOF(parts); i++)
        if (length == strlen(parts[i]) && strncasecmp(name, parts[i], length) == 0) return true;
    return *name != '_' && !length;
}

static bool match_phase(const char *name, struct stage_match *m) {
    static const char *const rows[][2] = {
        { "prefill", "prefill" }, { "decode", "decode" }, { "Prefill", "prefill" }, { "Decode", "decode" }
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        if (!is_phase(name, rows[i][0])) continue;
        set(m, rows[i][1], NAN, NAN);
        m->guessed = true;
        return true;
    }
    return false;
}

/* Matches common stage names. Ambiguous names are stages only inside another stage. */
static bool match_common(const char *name, struct stage_match *m) {
    static const struct {
        const char *glob, *stage;
        bool nested_only;
    } rows[] = {
        { "ProfilerStep#*", "step", false },
        { "encode_image*", "vision", true },
        { "vision*", "vision", true },
        { "visual", "vision", true },
        { "sam", "sam", true },
        { "clip", "clip", true },
        { "projector", "projector", true },
        { "lm_head", "lm_head", true },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        if (!stage_rules_glob(rows[i].glob, name)) continue;
        set(m, rows[i].stage, NAN, NAN);
        m->nested_only = rows[i].nested_only;
        m->guessed = true;
        return true;
    }
    return false;
}

bool stage_rules_match(const struct analyze_input *input, const char *name,
                       enum trace_range_category category, struct stage_match *out) {
    for (size_t i = 0; input && i < input->nrules; i++) {
        if (!stage_rules_glob(input->rules[i].glob, name)) continue;
        set(out, input->rules[i].stage, NAN, NAN);
        return true;
    }
    if (category == TRACE_CATEGORY_STAGE) {
        set(out, name, NAN, NAN);
        return name[0] != '\0';
    }
    if (input && input->no_presets) return false;
    if (match_vllm(name, out) || match_sglang(name, out)) return true;
    return category == TRACE_CATEGORY_USER && (match_phase(name, out) || match_common(name, out));
}
