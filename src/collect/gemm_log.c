#include "collect/gemm_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

struct part {
    const char *p;
    size_t n;
};

/* Finds the text between the brackets of NAME=[...]. Brackets may nest. */
static bool find_group(const char *text, const char *name, struct part *out) {
    size_t len = strlen(name);
    for (const char *p = text; (p = strstr(p, name)); p += len) {
        if ((p != text && p[-1] != ' ') || strncmp(p + len, "=[", 2) != 0) continue;
        const char *from = p + len + 2, *q = from;
        for (int depth = 1; *q && depth; q++) depth += (*q == '[') - (*q == ']');
        *out = (struct part){ from, (size_t)(q - from) - (q > from && q[-1] == ']') };
        return true;
    }
    return false;
}

/* Finds VALUE of KEY=VALUE in a group. The value ends at a space. */
static bool find_value(struct part group, const char *key, char *out, size_t cap) {
    size_t len = strlen(key);
    for (size_t i = 0; i + len + 1 < group.n; i++) {
        if ((i > 0 && group.p[i - 1] != ' ') || strncmp(group.p + i, key, len) != 0 ||
            group.p[i + len] != '=')
            continue;
        size_t from = i + len + 1, n = 0;
        while (from + n < group.n && group.p[from + n] != ' ') n++;
        snprintf(out, cap, "%.*s", (int)MIN(n, cap - 1), group.p + from);
        return true;
    }
    return false;
}

static uint64_t find_number(struct part group, const char *key, uint64_t fallback) {
    char text[32];
    return find_value(group, key, text, sizeof text) ? strtoull(text, NULL, 10) : fallback;
}

/* R_16BF -> bf16, COMPUTE_32F -> f32, R_8F_E4M3 -> f8_e4m3. Other names are kept. Missing key: "?". */
static void short_type(struct part group, const char *key, char *out, size_t cap) {
    static const char *const names[][2] = {
        { "R_16BF", "bf16" },       { "R_16F", "f16" },
        { "R_32F", "f32" },         { "R_64F", "f64" },
        { "R_8I", "i8" },           { "R_32I", "i32" },
        { "R_8F_E4M3", "f8_e4m3" }, { "R_8F_E5M2", "f8_e5m2" },
        { "R_4F_E2M1", "f4_e2m1" }, { "COMPUTE_32F", "f32" },
        { "COMPUTE_16F", "f16" },   { "COMPUTE_32I", "i32" },
        { "COMPUTE_64F", "f64" },   { "COMPUTE_32F_FAST_TF32", "tf32" },
    };
    char text[48] = "?";
    find_value(group, key, text, sizeof text);
    const char *shown = text;
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (strcmp(text, names[i][0]) == 0) shown = names[i][1];
    snprintf(out, cap, "%s", shown);
}

static bool is_transposed(struct part compute, const char *key) {
    char text[16] = "";
    return find_value(compute, key, text, sizeof text) && strcmp(text, "OP_N") != 0;
}

bool gemm_parse(const char *function, const char *message, struct trace_gemm *g, struct gemm_text *t) {
    struct part a, b, d, compute, algorithm;
    char ta[24], tb[24], td[24], tc[48];
    if (!strstr(function, "Matmul") || strstr(function, "Heuristic") || strstr(function, "Init"))
        return false;
    if (!find_group(message, "Adesc", &a) || !find_group(message, "Bdesc", &b)) return false;
    if (!find_group(message, "Ddesc", &d) && !find_group(message, "Cdesc", &d)) return false;
    if (!find_group(message, "computeDesc", &compute)) return false;
    bool at = is_transposed(compute, "transa"), bt = is_transposed(compute, "transb");
    g->m = find_number(d, "rows", 0);
    g->n = find_number(d, "cols", 0);
    g->k = find_number(a, at ? "rows" : "cols", 0);
    g->batch = find_number(d, "batchCount", find_number(a, "batchCount", 1));
    if (!g->m || !g->n || !g->k) return false;
    short_type(a, "type", ta, sizeof ta);
    short_type(b, "type", tb, sizeof tb);
    short_type(d, "type", td, sizeof td);
    short_type(compute, "computeType", tc, sizeof tc);
    snprintf(t->types, sizeof t->types, "%s,%s->%s compute %s", ta, tb, td, tc);
    snprintf(t->layout, sizeof t->layout, "%c%c", at ? 'T' : 'N', bt ? 'T' : 'N');
    t->algorithm[0] = '\0';
    if (find_group(message, "algo", &algorithm))
        snprintf(t->algorithm, sizeof t->algorithm, "%.*s", (int)MIN(algorithm.n, sizeof t->algorithm - 1),
                 algorithm.p);
    return true;
}
