#include <string.h>

#include "base/secret.h"
#include "base/secret_parts.h"
#include "base/util.h"
#include "base/words.h"

#define MAX_NAME_WORDS 12
#define MAX_WORD 24
/* Minimum length of a token after "hf_", "sk-" and so on. Shorter words are ordinary names. */
#define MIN_PREFIXED_TOKEN 20
#define ACCESS_KEY_ID 16 /* characters after AKIA */
#define MAX_NUMBER 16    /* longer numbers may be keys */

bool secret_one_of(const char *word, size_t n, const char *const *words, size_t nwords) {
    for (size_t i = 0; i < nwords; i++) {
        size_t k = 0;
        while (k < n && words[i][k] && to_lower((unsigned char)word[k]) == (unsigned char)words[i][k]) k++;
        if (k == n && !words[i][k]) return true;
    }
    return false;
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

/* `token` after another word, as in hf_token or hftoken. After some words it is a piece of text. */
static bool is_token_of(const char *owner, size_t n) {
    static const char *const text[] = { "pad",  "eos",   "bos", "unk",   "sep",     "cls", "mask",
                                        "stop", "start", "end", "image", "special", "per", "first",
                                        "next", "last",  "max", "min",   "num",     "new", "sub" };
    return !secret_one_of(owner, n, text, COUNTOF(text));
}
static bool is_joined_token(const char *word) { /* githubtoken */
    size_t n = strlen(word);
    return n > 5 && words_end_with(word, n, "token") && is_token_of(word, n - 5);
}

static bool has_secret_word(const struct name_words *w) {
    static const char *const anywhere[] = {
        "secret",        "secrets", "cred",    "creds",     "jwt",    "credential",  "credentials", "auth",
        "authorization", "bearer",  "hftoken", "authtoken", "cookie", "accesstoken", "apitoken"
    };
    static const char *const endings[] = { "password", "passwords", "passwd",    "passphrase", "apikey",
                                           "apikeys",  "accesskey", "secretkey", "privatekey" };
    static const char *const key_owners[] = { "api", "access", "private" };
    for (size_t i = 0; i < w->n; i++) {
        const char *word = w->v[i];
        bool key = strcmp(word, "key") == 0 || strcmp(word, "keys") == 0;
        if (words_has(anywhere, COUNTOF(anywhere), word)) return true;
        if (ends_with_one_of(word, endings, COUNTOF(endings))) return true;
        if (i && key && words_has(key_owners, COUNTOF(key_owners), w->v[i - 1])) return true;
    }
    return false;
}

bool secret_is_name(const char *name, size_t len) {
    static const char *const pass_owners[] = { "db", "user", "smtp", "redis", "mysql", "admin" };
    struct name_words w;
    split_name(name, len, &w);
    if (!w.n) return false;
    if (has_secret_word(&w) || is_option_name(name, &w)) return true;
    const char *last = w.v[w.n - 1], *before = w.n > 1 ? w.v[w.n - 2] : "";
    if (is_joined_token(last)) return true;
    if (strcmp(last, "token") == 0) return is_token_of(before, strlen(before));
    if (strcmp(last, "key") == 0 || strcmp(last, "pwd") == 0) return w.n > 1;
    return strcmp(last, "pass") == 0 && words_has(pass_owners, COUNTOF(pass_owners), before);
}

/* ---- variables */

bool secret_is_switch(const char *value, size_t n) {
    static const char *const words[] = { "true", "false", "null", "none", "yes", "no", "on", "off", "" };
    return secret_one_of(value, n, words, COUNTOF(words));
}

static bool is_number(const char *value, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!is_digit((unsigned char)value[i]) && !memchr(".,:-", value[i], 4)) return false;
    return n <= MAX_NUMBER;
}

/* Settings of libraries and of this program are not secret. Here, NAME_ is the start of other names. */
static bool is_setting(const char *name, size_t n) {
    static const char *const names[] = { "INFERPROF_",
                                         "OMP_",
                                         "MKL_",
                                         "CUDA_",
                                         "CUBLAS_",
                                         "CUBLASLT_",
                                         "NCCL_",
                                         "NVIDIA_",
                                         "TORCH_",
                                         "TORCHINDUCTOR_",
                                         "TORCHDYNAMO_",
                                         "PYTORCH_",
                                         "TOKENIZERS_",
                                         "TRANSFORMERS_",
                                         "HF_HOME",
                                         "HF_HUB_",
                                         "LD_",
                                         "LC_",
                                         "PYTHONPATH",
                                         "PYTHONHOME",
                                         "PATH",
                                         "LANG",
                                         "PYTHONUNBUFFERED",
                                         "PYTHONHASHSEED",
                                         "PYTHONWARNINGS",
                                         "PYTHONNOUSERSITE" };
    for (size_t i = 0; i < COUNTOF(names); i++) {
        size_t k = strlen(names[i]);
        bool start = names[i][k - 1] == '_';
        if ((start ? n >= k : n == k) && memcmp(name, names[i], k) == 0) return true;
    }
    return false;
}

bool secret_is_env_part(const char *name, size_t name_len, const char *value, size_t n) {
    if (secret_is_switch(value, n)) return false;
    return secret_is_name(name, name_len) || !(is_number(value, n) || is_setting(name, name_len));
}

bool secret_is_env(const char *name, const char *value) {
    return secret_is_env_part(name, strlen(name), value, strlen(value));
}

/* ---- shapes */

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

static bool is_access_key_id(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!is_digit((unsigned char)p[i]) && !is_upper((unsigned char)p[i])) return false;
    return n == ACCESS_KEY_ID;
}

size_t secret_shape(const char *run, size_t n) {
    /* eyJ: {" in base64, the start of a JSON web token */
    static const char *const starts[] = { "hf_",         "sk-",    "ghp_",   "gho_",  "ghs_",
                                          "github_pat_", "glpat-", "nvapi-", "xoxb-", "xoxp-",
                                          "gsk_",        "npm_",   "pypi-",  "AIza",  "eyJ" };
    if (n > 4 && (memcmp(run, "AKIA", 4) == 0 || memcmp(run, "ASIA", 4) == 0) &&
        is_access_key_id(run + 4, n - 4))
        return 4;
    for (size_t i = 0; i < COUNTOF(starts); i++) {
        size_t k = strlen(starts[i]);
        if (n >= k + MIN_PREFIXED_TOKEN && memcmp(run, starts[i], k) == 0 && looks_random(run + k, n - k))
            return k;
    }
    return 0;
}
