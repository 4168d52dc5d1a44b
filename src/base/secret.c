#include "base/secret.h"

#include <string.h>

#include "base/util.h"
#include "base/words.h"

#define MAX_NAME_WORDS 12
#define MAX_WORD 24
/* Minimum length of a token after "hf_", "sk-" and so on. Shorter words are ordinary names. */
#define MIN_PREFIXED_TOKEN 20
#define MAX_NUMBER 16 /* longer numbers may be keys */
/* Maximum number of masked values per word. Then the rest of the word is masked, so that the time stays
 * linear. */
#define MAX_MASKS 64
#define MIN_USER_TOKEN 20 /* TOKEN in https://TOKEN@host; shorter: user */

/* ---- ASCII only, for every locale */

static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }
static bool is_upper(unsigned char c) { return c >= 'A' && c <= 'Z'; }
static bool is_lower(unsigned char c) { return c >= 'a' && c <= 'z'; }
static bool is_letter_or_digit(unsigned char c) { return is_digit(c) || is_upper(c) || is_lower(c); }
static unsigned char to_lower(unsigned char c) { return is_upper(c) ? c | 0x20 : c; }

static bool same_word(const char *a, const char *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (to_lower((unsigned char)a[i]) != to_lower((unsigned char)b[i])) return false;
    return true;
}

/* ---- names */

struct name_words {
    char v[MAX_NAME_WORDS][MAX_WORD]; /* lower case, without trailing digits */
    size_t n;
};

static void end_word(struct name_words *w, size_t *len) {
    char *word = w->v[w->n];
    while (*len && is_digit((unsigned char)word[*len - 1])) --*len;
    word[*len] = '\0';
    if (*len && w->n + 1 < MAX_NAME_WORDS) w->n++;
    *len = 0;
}

/* Splits a name into words. If there are too many, keeps the last ones, because they name the value. */
static void split_name(const char *name, size_t n, struct name_words *w) {
    size_t len = 0;
    w->n = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)name[i];
        bool capital_after_small = i && is_upper(c) && is_lower((unsigned char)name[i - 1]);
        if (!is_letter_or_digit(c) || capital_after_small) end_word(w, &len);
        if (w->n + 1 == MAX_NAME_WORDS) {
            memmove(w->v[0], w->v[1], sizeof w->v - sizeof w->v[0]);
            w->n--;
        }
        if (is_letter_or_digit(c) && len + 1 < MAX_WORD) w->v[w->n][len++] = (char)to_lower(c);
    }
    end_word(w, &len);
}

static bool ends_with_one_of(const char *word, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (words_end_with(word, strlen(word), list[i])) return true;
    return false;
}

/* In the name of an option these words are enough: --key V. In other names they are not: key=V, PWD=/home. */
static bool is_option_name(const char *name, const struct name_words *w) {
    static const char *const words[] = { "key", "pwd", "pw", "pass" };
    return *name == '-' && w->n == 1 && words_has(words, COUNTOF(words), w->v[0]);
}

bool secret_is_name(const char *name, size_t len) {
    static const char *const anywhere[] = {
        "secret",        "secrets", "cred",    "creds",     "jwt",    "credential",  "credentials", "auth",
        "authorization", "bearer",  "hftoken", "authtoken", "cookie", "accesstoken", "apitoken"
    };
    static const char *const endings[] = { "password", "passwd", "passphrase", "apikey" };
    static const char *const key_owners[] = { "api", "access" };
    static const char *const pass_owners[] = { "db", "user", "smtp", "redis", "mysql", "admin" };
    /* before "token": not a credential */
    static const char *const text_tokens[] = { "pad",  "eos",   "bos",   "unk", "sep",   "cls",
                                               "mask", "stop",  "start", "end", "image", "special",
                                               "per",  "first", "next",  "last" };
    struct name_words w;
    split_name(name, len, &w);
    for (size_t i = 0; i < w.n; i++) {
        if (words_has(anywhere, COUNTOF(anywhere), w.v[i])) return true;
        if (ends_with_one_of(w.v[i], endings, COUNTOF(endings))) return true;
        if (i && strcmp(w.v[i], "key") == 0 && words_has(key_owners, COUNTOF(key_owners), w.v[i - 1]))
            return true;
    }
    if (!w.n) return false;
    if (is_option_name(name, &w)) return true;
    const char *last = w.v[w.n - 1], *before = w.n > 1 ? w.v[w.n - 2] : "";
    if (strcmp(last, "token") == 0) return !words_has(text_tokens, COUNTOF(text_tokens), before);
    if (strcmp(last, "key") == 0 || strcmp(last, "pwd") == 0) return w.n > 1;
    return strcmp(last, "pass") == 0 && words_has(pass_owners, COUNTOF(pass_owners), before);
}

static bool is_switch(const char *value, size_t n) {
    static const char *const words[] = { "true", "false", "null", "none", "yes", "no", "on", "off", "" };
    for (size_t i = 0; i < COUNTOF(words); i++)
        if (strlen(words[i]) == n && same_word(value, words[i], n)) return true;
    return false;
}

static bool is_number(const char *value, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!is_digit((unsigned char)value[i]) && !memchr(".,:-", value[i], 4)) return false;
    return n <= MAX_NUMBER;
}

/* Settings of libraries and of this program are not secret. */
static bool is_setting(const char *name, size_t n) {
    static const char *const prefixes[] = { "INFERPROF_",  "OMP_",          "MKL_",    "CUDA_",    "CUBLAS",
                                            "NCCL_",       "NVIDIA_",       "TORCH",   "PYTORCH_", "PYTHON",
                                            "TOKENIZERS_", "TRANSFORMERS_", "HF_HOME", "HF_HUB_",  "LD_",
                                            "PATH",        "LANG",          "LC_" };
    for (size_t i = 0; i < COUNTOF(prefixes); i++)
        if (n >= strlen(prefixes[i]) && memcmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

static bool is_env_secret(const char *name, size_t name_len, const char *value, size_t n) {
    if (is_switch(value, n)) return false;
    return secret_is_name(name, name_len) || !(is_number(value, n) || is_setting(name, name_len));
}

bool secret_is_env(const char *name, const char *value) {
    return is_env_secret(name, strlen(name), value, strlen(value));
}

/* ---- a command-line word */

enum pending { NOTHING, VALUE, HEADER }; /* kind of the next word */

static bool is_name_char(char c) {
    return is_letter_or_digit((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

/* Replaces n bytes at `at` by SECRET_MASK. Returns the new end of the word. */
static char *mask_value(char *at, size_t n, char *end) {
    size_t stars = MIN(n, strlen(SECRET_MASK));
    memcpy(at, SECRET_MASK, stars);
    memmove(at + stars, at + n, (size_t)(end - at) - n);
    return end - (n - stars);
}

static bool is_kept_value(const char *value, size_t n) {
    return is_switch(value, n) || (n >= 2 && strncmp(value, "${", 2) == 0);
}

static bool is_scheme(const char *word, size_t n) {
    static const char *const schemes[] = { "bearer", "basic", "digest", "token" };
    for (size_t i = 0; i < COUNTOF(schemes); i++)
        if (strlen(schemes[i]) == n && same_word(word, schemes[i], n)) return true;
    return false;
}

/* Masks V in scheme://user:V@host, and TOKEN in scheme://TOKEN@host. */
static char *mask_url(char *word, char *end) {
    unsigned masks = 0;
    for (char *p = word; p + 3 < end && masks < MAX_MASKS; p++) {
        if (memcmp(p, "://", 3) != 0) continue;
        char *user = p + 3, *at = NULL, *colon = NULL;
        for (char *q = user; q < end && !strchr("/?#'\" ", *q); q++) {
            if (*q == '@') at = q;
            if (*q == ':' && !colon) colon = q;
        }
        masks += at != NULL;
        if (at && colon && colon < at)
            end = mask_value(colon + 1, (size_t)(at - colon - 1), end);
        else if (at && at - user >= MIN_USER_TOKEN)
            end = mask_value(user, (size_t)(at - user), end);
    }
    return end;
}

static size_t prefix_length(const char *run, size_t n) {
    static const char *const prefixes[] = { "hf_",         "sk-",    "ghp_",   "gho_",  "ghs_",
                                            "github_pat_", "glpat-", "nvapi-", "xoxb-", "xoxp-" };
    for (size_t i = 0; i < COUNTOF(prefixes); i++) {
        size_t len = strlen(prefixes[i]);
        if (n >= len + MIN_PREFIXED_TOKEN && memcmp(run, prefixes[i], len) == 0) return len;
    }
    return 0;
}

/* True if there are digits, capitals and small letters, as in a random token. */
static bool looks_random(const char *p, size_t n) {
    bool digit = false, upper = false, lower = false;
    for (size_t i = 0; i < n; i++) {
        digit |= is_digit((unsigned char)p[i]);
        upper |= is_upper((unsigned char)p[i]);
        lower |= is_lower((unsigned char)p[i]);
    }
    return digit && upper && lower;
}

/* In a URL query, a map or a list, a value ends before its separator (value_end()). */
struct word_state {
    bool in_query, in_braces, in_list;
};

static char *value_end(char *value, char *end, const struct word_state *s) {
    char *p = value;
    for (; p < end; p++) {
        if (s->in_query && (*p == '&' || *p == '#')) break;
        if (s->in_braces && (*p == ',' || *p == '}')) break;
        if (s->in_list && (*p == ',' || *p == ']')) break;
    }
    return p;
}

/* Masks the value after a name and a separator. If the word ends before the value, sets *next: the next word
 * is the value. Returns where to continue. */
static char *mask_after_name(char *value, char **end, const struct word_state *s, bool is_header,
                             enum pending *next) {
    if (value < *end && (*value == '"' || *value == '\'')) {
        char *close = value + 1;
        while (close < *end && *close != *value) close += close[0] == '\\' && close + 1 < *end ? 2 : 1;
        if (!is_kept_value(value + 1, (size_t)(close - value - 1)))
            *end = mask_value(value + 1, (size_t)(close - value - 1), *end);
        return value + 1;
    }
    if (value >= *end) {
        *next = is_header ? HEADER : VALUE;
        return value;
    }
    char *blank = memchr(value, ' ', (size_t)(*end - value));
    if (is_header && blank && is_scheme(value, (size_t)(blank - value))) value = blank + 1;
    char *stop = value_end(value, *end, s);
    if (is_header && stop == *end && is_scheme(value, (size_t)(stop - value))) {
        *next = HEADER;
        return stop;
    }
    if (!is_kept_value(value, (size_t)(stop - value))) *end = mask_value(value, (size_t)(stop - value), *end);
    return value;
}

/* True for messages, such as "unexpected token: x" or "/etc/secret: no such file". False for settings, such
 * as "HF_TOKEN: x". */
static bool is_prose(const char *word, const char *name, size_t n) {
    static const char *const nouns[] = { "token", "auth", "secret", "secrets", "credential", "credentials" };
    for (size_t i = 0; i < COUNTOF(nouns); i++)
        if (n == strlen(nouns[i]) && same_word(name, nouns[i], n)) return true;
    return name > word && name[-1] == '/';
}

/* URLs that are signed, such as those of object stores, grant access to what they name. */
static bool is_signature(const char *name, size_t n) {
    static const char *const names[] = { "sig", "signature", "x-amz-signature", "x-goog-signature" };
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (n == strlen(names[i]) && same_word(name, names[i], n)) return true;
    return false;
}

/* Masks the value after the name [name, after) if the name is secret, or if it is that of a secret variable
 * of the engine ("engine.env."). Returns where to continue. */
static char *mask_named(char *word, char *name, char *after, char **end, const struct word_state *s,
                        enum pending *next) {
    size_t n = (size_t)(after - name);
    bool in_env = n > 11 && memcmp(name, "engine.env.", 11) == 0;
    bool secret = secret_is_name(name, n) || (s->in_query && is_signature(name, n));
    bool quoted = after < *end && (*after == '"' || *after == '\'');
    char *sep = after + quoted;
    if (!secret && !in_env) return after;
    if (sep == *end) {
        if (!quoted && name == word && *name == '-') *next = VALUE;
        return after;
    }
    if (*sep == '=') {
        secret = secret || is_env_secret(name + 11, n - 11, sep + 1, (size_t)(*end - sep) - 1);
        return secret ? mask_after_name(sep + 1, end, s, false, next) : sep;
    }
    /* for example engine.command=[serve, --token, V] */
    if (*sep == ',' && s->in_list && *name == '-' && secret) {
        char *value = sep + 1;
        while (value < *end && *value == ' ') value++;
        return value < *end && *value == '-' ? after : mask_after_name(value, end, s, false, next);
    }
    if (*sep != ':' || !secret || !(quoted || s->in_braces || !is_prose(word, name, n))) return after;
    char *value = sep + 1;
    while (value < *end && *value == ' ') value++;
    return mask_after_name(value, end, s, !quoted, next);
}

/* Returns the new end of the word. *next: state from the previous word, and for the next one. */
static char *mask_word(char *word, char *end, enum pending *next) {
    enum pending now = *next;
    *next = NOTHING;
    if (word == end) return end;
    if (now == HEADER && is_scheme(word, (size_t)(end - word))) {
        *next = HEADER;
        return end;
    }
    struct word_state s = { 0 };
    if (now != NOTHING && !(now == VALUE && *word == '-')) {
        mask_after_name(word, &end, &s, false, next);
        return end;
    }
    unsigned masks = 0;
    end = mask_url(word, end);
    for (char *p = word; p < end;) {
        char *end_before = end;
        if (masks > MAX_MASKS) return mask_value(p, (size_t)(end - p), end);
        s.in_query |= *p == '?';
        s.in_braces |= *p == '{';
        s.in_list |= *p == '[';
        if (!is_name_char(*p)) {
            p++;
            continue;
        }
        char *after = p;
        while (after < end && is_name_char(*after)) after++;
        size_t n = (size_t)(after - p), prefix = prefix_length(p, n);
        if (prefix && looks_random(p + prefix, n - prefix)) {
            end = mask_value(p + prefix, n - prefix, end);
            p += prefix;
            while (p < end && *p == '*') p++;
        } else {
            p = mask_named(word, p, after, &end, &s, next);
        }
        masks += end != end_before;
    }
    return end;
}

/* ---- texts */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* End of a shell word, which may contain blanks inside quotes. An unclosed quote is an ordinary character. */
static char *word_end(char *p) {
    while (*p && !is_blank(*p)) {
        char *close = *p == '\'' || *p == '"' ? strchr(p + 1, *p) : NULL;
        if (*p == '\\' && p[1]) close = p + 1;
        p = close ? close + 1 : p + 1;
    }
    return p;
}

void secret_mask(char *text) {
    enum pending next = NOTHING;
    char *out = text;
    for (char *in = text; *in;) {
        if (is_blank(*in)) {
            if (*in == '\n' && next == VALUE) next = NOTHING;
            *out++ = *in++;
            continue;
        }
        char *end = word_end(in);
        size_t n = (size_t)(end - in);
        bool quoted = n > 2 && (in[0] == '\'' || in[0] == '"') && end[-1] == in[0];
        char *masked = mask_word(in + quoted, end - quoted, &next);
        size_t kept = (size_t)(masked - in);
        char quote = *in;
        memmove(out, in, kept);
        out += kept;
        if (quoted) *out++ = quote;
        in = end;
    }
    *out = '\0';
}

size_t secret_mask_args(char *args, size_t n) {
    enum pending next = NOTHING;
    char *out = args, *limit = args + n;
    for (char *in = args; in < limit;) {
        char *end = memchr(in, '\0', (size_t)(limit - in));
        bool last = !end;
        if (last) end = limit;
        size_t kept = (size_t)(mask_word(in, end, &next) - in);
        memmove(out, in, kept);
        out += kept;
        if (!last) *out++ = '\0';
        in = end + !last;
    }
    return (size_t)(out - args);
}
