#include "analyze/kernel_name.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/kernel_rules.h"
#include "base/die.h"
#include "base/strbuf.h"
#include "base/util.h"

#define DEMANGLED_MAX 32768 /* a few bytes of mangled name can stand for gigabytes */
#define MANGLED_MAX 16384
#define SHORT_MAX 60

/* libstdc++'s demangler, the form that hands out the text piece by piece and allocates nothing. */
int __gcclibcxx_demangle_callback(const char *mangled, void (*piece)(const char *, size_t, void *),
                                  void *opaque);

struct demangling {
    struct strbuf out;
    jmp_buf too_long;
};

static void take_piece(const char *text, size_t n, void *opaque) {
    struct demangling *d = opaque;
    if (d->out.len + n > DEMANGLED_MAX) longjmp(d->too_long, 1);
    strbuf_add(&d->out, text, n);
}

/* Apart from its caller, so that no local of either changes between setjmp and longjmp. */
static bool run_demangler(struct demangling *d, const char *name) {
    if (setjmp(d->too_long)) return false;
    return __gcclibcxx_demangle_callback(name, take_piece, d) == 0 && d->out.len;
}

/* NULL: not a mangled name, or one that is not worth its length. */
static char *demangle(const char *name) {
    if (strncmp(name, "_Z", 2) != 0 || strlen(name) > MANGLED_MAX) return NULL;
    struct demangling *d = xcalloc(1, sizeof *d);
    d->out = (struct strbuf)STRBUF_INIT;
    char *text = run_demangler(d, name) ? strbuf_detach(&d->out) : NULL;
    strbuf_free(&d->out);
    free(d);
    return text;
}

/* Names that this demangler is too old for (bf16 is younger than it): their words are in plain sight, each
 * behind its length. "_ZN5aiter4normIDF16b3fooE" becomes "aiter::norm<foo>". */
static size_t mangled_word(const char *p, const char **word) {
    char *end;
    if (!isdigit((unsigned char)*p)) return 0;
    unsigned long n = strtoul(p, &end, 10);
    if (!n || n > strlen(end)) return 0;
    *word = end;
    return n;
}

static char *rough_demangle(const char *mangled) {
    struct strbuf s = STRBUF_INIT;
    const char *p = mangled + 2 + (mangled[2] == 'N'), *word;
    bool in_arguments = false;
    while (*p) {
        size_t n = mangled_word(p, &word);
        if (!n && *p == 'I' && !in_arguments && s.len) {
            in_arguments = true;
            strbuf_addch(&s, '<');
        }
        if (!n) {
            p++;
            continue;
        }
        p = word + n;
        if (n > 9 && strncmp(word, "_GLOBAL__N", 10) == 0) continue;
        if (s.len && s.buf[s.len - 1] != '<') strbuf_addstr(&s, in_arguments ? ", " : "::");
        strbuf_add(&s, word, n);
    }
    if (in_arguments) strbuf_addch(&s, '>');
    if (s.len) return strbuf_detach(&s);
    return xstrdup(mangled);
}

/* ---- taking a C++ name apart */

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Drops "(anonymous namespace)::" and "<unnamed>::", whose brackets mean nothing. One tool drops the first
 * bracket of them: what then looks like "f<unnamed>::T" is f<T. */
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

/* Cuts the parameter list and the return type: "void f<int>(float*)" becomes "f<int>". Brackets are
 * counted, so what stands between template arguments does not matter. */
static void cut_signature(char *name) {
    int depth = 0;
    char *begin = name, *p = name;
    for (; *p; p++) {
        if (*p == '<')
            depth++;
        else if (*p == '>' && depth)
            depth--;
        else if (!depth && (*p == '(' || *p == '['))
            break;
        else if (!depth && *p == ' ' && strncmp(p + 1, "const", 5) != 0)
            begin = p + 1;
    }
    *p = '\0';
    if (*begin) memmove(name, begin, strlen(begin) + 1);
}

/* The same without template arguments: "a::b<c::d>::e<int>" becomes "a::b::e". */
static char *without_templates(const char *whole) {
    struct strbuf s = STRBUF_INIT;
    int depth = 0;
    for (const char *p = whole; *p; p++) {
        if (*p == '<') depth++;
        if (!depth) strbuf_addch(&s, *p);
        if (*p == '>' && depth) depth--;
    }
    return strbuf_detach(&s);
}

static const char *last_part(const char *function) {
    const char *part = function;
    for (const char *p = strstr(function, "::"); p; p = strstr(part, "::")) part = p + 2;
    return part;
}

/* ---- the short name */

static bool ends_with(const char *s, size_t n, const char *end) {
    size_t len = strlen(end);
    return n > len && strncmp(s + n - len, end, len) == 0;
}

/* "silu_kernel" -> silu, "MulFunctor" -> mul, "CUDAFunctor_add" -> add, "MeanOps" -> mean; false: no such
 * word. */
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
    size_t begin = 0;
    for (size_t i = 0; i < COUNTOF(skip); i++)
        if (memmem(word, n, skip[i], strlen(skip[i]))) return false;
    const char *add = memmem(word, n, "CUDAFunctor", 11);
    if (add) {
        for (begin = n; begin && word[begin - 1] != '_'; begin--) {}
        strbuf_add(out, word + begin, n - begin);
        return true;
    }
    for (size_t i = 0; i < COUNTOF(ends); i++) {
        if (!ends_with(word, n, ends[i])) continue;
        n -= strlen(ends[i]);
        for (size_t k = 0; k < n; k++) strbuf_addch(out, (char)tolower((unsigned char)word[k]));
        return true;
    }
    return false;
}

/* What a generic wrapper (elementwise_kernel, reduce_kernel) was made for: the first operation in its
 * arguments. */
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

/* "Kernel2<cutlass_80_tensorop_...>": the argument is the name. */
static bool is_shell(const char *part) {
    static const char *const names[] = { "Kernel",        "Kernel2", "kernel",
                                         "device_kernel", "kentry",  "trampoline_kernel" };
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (strcmp(part, names[i]) == 0) return true;
    return false;
}

static void add_shell(struct strbuf *out, const char *function, const char *arguments) {
    const char *word = arguments;
    while (*word && (!is_word(*word) || isdigit((unsigned char)*word))) word++;
    size_t n = 0;
    while (is_word(word[n]) || (word[n] == ':' && word[n + 1] == ':') ||
           (word[n] == ':' && n && word[n - 1] == ':'))
        n++;
    char *first = xstrndup(word, n);
    const char *name = last_part(first);
    if (strstr(function, "gemvx") || strstr(arguments, "cublasGemvParams")) {
        strbuf_addstr(out, "gemvx"); /* its arguments are plain types */
    } else if (strlen(name) > 6) {
        strbuf_addstr(out, name);
    } else {
        strbuf_addstr(out, function);
    }
    free(first);
}

/* Cuts at a character, not inside one. */
static void cut_to(struct strbuf *s, size_t max) {
    if (s->len <= max) return;
    size_t n = max;
    while (n > max - 4 && ((unsigned char)s->buf[n] & 0xc0) == 0x80) n--; /* no character is longer */
    s->len = n;
    s->buf[n] = '\0';
}

static char *short_name(const char *function, const char *whole) {
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
        add_shell(&s, function, arguments);
    } else {
        strbuf_addstr(&s, *part ? part : whole);
    }
    strbuf_free(&op);
    if (type && s.len + 1 + strlen(type) <= SHORT_MAX && !strstr(s.buf, type)) strbuf_addf(&s, " %s", type);
    if (!s.len) strbuf_addstr(&s, "(unnamed)");
    cut_to(&s, SHORT_MAX);
    return strbuf_detach(&s);
}

void kernel_name_parse(struct kernel_name *kn, const char *name) {
    char *demangled = demangle(name);
    char *readable = demangled                     ? xstrdup(demangled)
                     : strncmp(name, "_Z", 2) == 0 ? rough_demangle(name)
                                                   : xstrdup(name);
    if (!demangled) demangled = xstrdup(name);
    char *whole = without_anonymous(readable);
    free(readable);
    cut_signature(whole);
    char *function = without_templates(whole);
    kn->demangled = demangled;
    kernel_rules_apply(function, whole, &kn->library, &kn->category);
    kn->short_name = short_name(function, whole);
    free(function);
    free(whole);
}

/* "(int)4", "(at::Kind)3": the length of the cast before a number; 0: there is none at p. */
static size_t cast_length(const char *p) {
    if (*p != '(') return 0;
    size_t n = 1 + strspn(p + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_: ");
    return p[n] == ')' && (isdigit((unsigned char)p[n + 1]) || p[n + 1] == '-') ? n + 1 : 0;
}

static void add_look_word(struct strbuf *out, const char *word, size_t n) {
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
            add_look_word(&out, p, n);
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
