#include "analyze/kernel_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/demangle.h"
#include "analyze/inductor_name.h"
#include "analyze/kernel_rules.h"
#include "base/die.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "base/util.h"
#include "base/words.h"

#define SHORT_MAX 60

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* ---- parsing C++ names */

/* Removes "(anonymous namespace)::" and "<unnamed>::", whose brackets are not template arguments. One tool
 * prints "f<unnamed>::T" for f<<unnamed>::T; this becomes "f<T". */
static char *without_anonymous(const char *name) {
    static const char *const noise[] = { "(anonymous namespace)::", "<unnamed>::", "unnamed>::" };
    struct strbuf s = STRBUF_INIT;
    while (*name) {
        size_t skip = 0, i = 0;
        for (; i < COUNTOF(noise) && !skip; i++)
            if (strncmp(name, noise[i], strlen(noise[i])) == 0) skip = strlen(noise[i]);
        if (skip && *name == '<' && s.len && is_word(s.buf[s.len - 1])) strbuf_addch(&s, '<');
        if (skip)
            name += skip;
        else
            strbuf_addch(&s, *name++);
    }
    return strbuf_detach(&s);
}

/* Tracks the brackets of template arguments. A '<' or '>' inside parentheses, as in enable_if<((8)>(0))>,
 * is an operator or is balanced, and is ignored. */
struct brackets {
    int angle, round;
};

static void brackets_follow(struct brackets *b, char c) {
    if (c == '(' && b->angle) b->round++;
    if (c == ')' && b->round) b->round--;
    if (b->round) return;
    if (c == '<') b->angle++;
    if (c == '>' && b->angle) b->angle--;
}

/* Removes the parameter list and the return type: "void f<int>(float*)" becomes "f<int>". */
static void cut_signature(char *name) {
    struct brackets b = { 0 };
    char *begin = name, *p = name;
    for (; *p; p++) {
        brackets_follow(&b, *p);
        if (b.angle) continue;
        if (*p == '(' || *p == '[') break;
        if (*p == ' ' && strncmp(p + 1, "const", 5) != 0) begin = p + 1;
    }
    *p = '\0';
    if (*begin) memmove(name, begin, strlen(begin) + 1);
}

/* Removes template arguments: "a::b<c::d>::e<int>" becomes "a::b::e". */
static char *without_templates(const char *whole) {
    struct strbuf s = STRBUF_INIT;
    struct brackets b = { 0 };
    for (const char *p = whole; *p; p++) {
        bool inside = b.angle;
        brackets_follow(&b, *p);
        if (!inside && !b.angle) strbuf_addch(&s, *p);
    }
    return strbuf_detach(&s);
}

static const char *last_part(const char *function) {
    const char *part = function;
    for (const char *p = strstr(function, "::"); p; p = strstr(part, "::")) part = p + 2;
    return part;
}

/* ---- the short name */

/* Maps a word to an operation: "silu_kernel" -> silu, "MulFunctor" -> mul, "CUDAFunctor_add" -> add,
 * "MeanOps" -> mean. Returns false if the word does not name an operation. */
static bool operation(const char *word, size_t n, struct strbuf *out) {
    static const char *const ends[] = { "_kernel_cuda",   "_kernel_impl", "_scalar_kernel_impl",
                                        "CUDAKernelImpl", "_functor",     "_kernel",
                                        "Functor",        "KernelImpl",   "Ops",
                                        "_cuda_out" };
    static const char *const skip[] = { "gpu_kernel_impl",  "elementwise_kernel",
                                        "gpu_index_kernel", "BinaryFunctor",
                                        "AUnaryFunctor",    "BUnaryFunctor",
                                        "legacy",           "opmath_",
                                        "func_wrapper" };
    static const char *const whole_words[][2] = { { "launch_clamp_scalar", "clamp" },
                                                  { "copy_device_to_device", "copy" } };
    size_t begin = 0;
    for (size_t i = 0; i < COUNTOF(whole_words); i++) {
        if (strlen(whole_words[i][0]) != n || strncmp(word, whole_words[i][0], n) != 0) continue;
        strbuf_addstr(out, whole_words[i][1]);
        return true;
    }
    for (size_t i = 0; i < COUNTOF(skip); i++)
        if (memmem(word, n, skip[i], strlen(skip[i]))) return false;
    const char *add = memmem(word, n, "CUDAFunctor", 11);
    if (add) {
        for (begin = n; begin && word[begin - 1] != '_'; begin--) {}
        strbuf_add(out, word + begin, n - begin);
        return true;
    }
    for (size_t i = 0; i < COUNTOF(ends); i++) {
        if (n == strlen(ends[i]) || !words_end_with(word, n, ends[i])) continue;
        n -= strlen(ends[i]);
        for (size_t k = 0; k < n; k++) strbuf_addch(out, (char)tolower((unsigned char)word[k]));
        return true;
    }
    return false;
}

/* Writes the operation of a generic wrapper (elementwise_kernel, reduce_kernel) to `out`: the first operation
 * among its template arguments. Returns false if there is none. */
static bool wrapped_operation(const char *arguments, struct strbuf *out) {
    for (const char *p = arguments; *p;) {
        if (!is_word(*p)) {
            p++;
            continue;
        }
        size_t n = 0;
        while (is_word(p[n])) n++;
        if (operation(p, n, out)) return true;
        p += n;
    }
    return false;
}

static const char *element_type(const char *whole) {
    static const struct {
        const char *text, *name;
    } types[] = { { "bfloat16", "bf16" }, { "bf16", NULL },       { "BFloat16", "bf16" },
                  { "__half", "f16" },    { "c10::Half", "f16" }, { "half_t", "f16" },
                  { "e4m3", "fp8" },      { "double", "f64" },    { "float", "f32" } };
    for (size_t i = 0; i < COUNTOF(types); i++)
        if (strstr(whole, types[i].text)) return types[i].name;
    return NULL;
}

static bool is_wrapper(const char *part) {
    return strstr(part, "elementwise_kernel") || strcmp(part, "reduce_kernel") == 0 ||
           strstr(part, "multi_tensor_apply") || strstr(part, "_with_index");
}

/* Returns true for kernels that only call their template argument, such as
 * "Kernel2<cutlass_80_tensorop_...>". */
static bool is_shell(const char *part) {
    static const char *const names[] = { "Kernel",        "Kernel2", "kernel",
                                         "device_kernel", "kentry",  "trampoline_kernel" };
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (strcmp(part, names[i]) == 0) return true;
    return false;
}

/* Returns the first template argument that is a name: "ck_tile::Rmsnorm2dFwd" for "ck_tile::kentry<1,
 * ck_tile::Rmsnorm2dFwd<...>>". Returns NULL if the function is not a shell, or if that argument is a plain
 * type. */
static char *shell_argument(const char *function, const char *whole) {
    const char *p = strchr(whole, '<');
    if (!p || !is_shell(last_part(function))) return NULL;
    while (*p) {
        while (*p && (!is_word(*p) || isdigit((unsigned char)*p))) p++;
        size_t n = 0;
        while (is_word(p[n]) || (p[n] == ':' && n && (p[n + 1] == ':' || p[n - 1] == ':'))) n++;
        char *name = xstrndup(p, n);
        const char *part = last_part(name);
        /* rocPRIM's first argument is a configuration; the second is the algorithm */
        if (strcmp(part, "default_config") != 0) {
            if (strlen(part) > 6) return name; /* plain types are shorter */
            free(name);
            return NULL;
        }
        free(name);
        p += n;
    }
    return NULL;
}

static void add_shell(struct strbuf *out, const char *function, const char *arguments, const char *argument) {
    if (strstr(function, "gemvx") || strstr(arguments, "cublasGemvParams"))
        strbuf_addstr(out, "gemvx"); /* its template arguments name only types */
    else
        strbuf_addstr(out, argument ? last_part(argument) : function);
}

/* Truncates to at most `max` bytes, at a UTF-8 character boundary. */
static void cut_to(struct strbuf *s, size_t max) {
    if (s->len <= max) return;
    s->len = utf8_cut(s->buf, max);
    s->buf[s->len] = '\0';
}

static char *short_name(const char *function, const char *whole, const char *argument) {
    struct strbuf s = STRBUF_INIT;
    const char *part = last_part(function), *arguments = strchr(whole, '<');
    const char *type = arguments ? element_type(arguments) : NULL;
    struct strbuf op = STRBUF_INIT;
    if (arguments && is_wrapper(part) && wrapped_operation(arguments, &op)) {
        const char *kind = strstr(part, "reduce")         ? "reduce"
                           : strstr(part, "multi_tensor") ? "foreach"
                                                          : "elementwise";
        strbuf_addf(&s, "%s %s", kind, op.buf);
    } else if (arguments && is_shell(part)) {
        add_shell(&s, function, arguments, argument);
    } else {
        strbuf_addstr(&s, *part ? part : whole);
    }
    strbuf_free(&op);
    if (type && s.len + 1 + strlen(type) <= SHORT_MAX && !strstr(s.buf, type)) strbuf_addf(&s, " %s", type);
    if (!s.len) strbuf_addstr(&s, "(unnamed)");
    cut_to(&s, SHORT_MAX);
    return strbuf_detach(&s);
}

/* Sets library and category. The rules match the qualified name. For a shell, the name of the function that
 * it calls is appended. Kernels of torch.compile have their own rules. */
static void classify(struct kernel_name *kn, const char *function, const char *whole, const char *argument) {
    struct strbuf name = STRBUF_INIT;
    strbuf_addstr(&name, function);
    if (argument) strbuf_addf(&name, "::%s", argument);
    kernel_rules_apply(name.buf, whole, &kn->library, &kn->category);
    strbuf_free(&name);
    enum kernel_category generated = inductor_category(function);
    if (generated == KERNEL_CATEGORY_OTHER) return;
    kn->category = generated;
    kn->library = KERNEL_LIBRARY_TRITON;
}

void kernel_name_parse(struct kernel_name *kn, const char *name) {
    char *demangled = demangle(name);
    char *readable = demangled                     ? xstrdup(demangled)
                     : strncmp(name, "_Z", 2) == 0 ? demangle_roughly(name)
                                                   : xstrdup(name);
    if (!demangled) demangled = xstrdup(name);
    char *whole = without_anonymous(readable);
    free(readable);
    cut_signature(whole);
    char *function = without_templates(whole), *argument = shell_argument(function, whole);
    kn->demangled = demangled;
    classify(kn, function, whole, argument);
    kn->short_name = short_name(function, whole, argument);
    free(argument);
    free(function);
    free(whole);
}

/* Returns the length of the cast before a number, as in "(int)4" or "(at::Kind)3"; 0 if there is no cast at
 * p. */
static size_t cast_length(const char *p) {
    if (*p != '(') return 0;
    size_t n = 1 + strspn(p + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_: ");
    return p[n] == ')' && (isdigit((unsigned char)p[n + 1]) || p[n + 1] == '-') ? n + 1 : 0;
}

static void add_normalized_word(struct strbuf *out, const char *word, size_t n) {
    if (isdigit((unsigned char)*word))
        while (n > 1 && strchr("uUlL", word[n - 1])) n--;
    if (n == 4 && memcmp(word, "true", n) == 0)
        strbuf_addch(out, '1');
    else if (n == 5 && memcmp(word, "false", n) == 0)
        strbuf_addch(out, '0');
    else
        strbuf_add(out, word, n);
}

char *kernel_name_normalize(const char *name) {
    char *plain = demangle(name), *whole = without_anonymous(plain ? plain : name);
    struct strbuf out = STRBUF_INIT;
    cut_signature(whole);
    for (const char *p = whole; *p;) {
        size_t n = 0, cast = cast_length(p);
        while (is_word(p[n])) n++;
        if (n && p[n] == ':' && p[n + 1] == ':')
            p += n + 2;
        else if (n) {
            add_normalized_word(&out, p, n);
            p += n;
        } else if (cast)
            p += cast;
        else if (*p == ' ' || *p == ':')
            p++;
        else
            strbuf_addch(&out, *p++);
    }
    free(plain);
    free(whole);
    return strbuf_detach(&out);
}

void kernel_name_free(struct kernel_name *kn) {
    free(kn->demangled);
    free(kn->short_name);
    *kn = (struct kernel_name){ 0 };
}

bool kernel_name_of_experts(const struct kernel_name *kn) {
    static const char *const products[] = { "moe",        "expert",       "m_grouped",        "grouped_gemm",
                                            "group_gemm", "grouped_gemv", "GroupProblemShape" };
    if (kn->category == KERNEL_CATEGORY_MOE) return true;
    if (kn->category != KERNEL_CATEGORY_GEMM && kn->category != KERNEL_CATEGORY_GEMV) return false;
    for (size_t i = 0; i < COUNTOF(products); i++)
        if (strcasestr(kn->demangled, products[i])) return true;
    return false;
}

const char *kernel_library_name(enum kernel_library library) {
#define X(id, name) name,
    static const char *const names[] = { KERNEL_LIBRARIES(X) };
#undef X
    return (unsigned)library < KERNEL_LIBRARY_END ? names[library] : "";
}

const char *kernel_category_name(enum kernel_category category) {
#define X(id, name) name,
    static const char *const names[] = { KERNEL_CATEGORIES(X) };
#undef X
    return (unsigned)category < KERNEL_CATEGORY_END ? names[category] : "";
}
