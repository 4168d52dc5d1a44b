#include "base/secret.h"

#include <string.h>

#include "base/secret_parts.h"
#include "base/util.h"

/* Maximum number of masked values per word. Then the rest of the word is masked, so that the time stays
 * linear. */
#define MAX_MASKS 64
#define MIN_USER_TOKEN 20 /* TOKEN in https://TOKEN@host; shorter: user */
#define ENV "engine.env"

/* ---- a command-line word */

/* Kind of the next word. USER: name:password. COLON: the name was quoted, and a colon may follow. */
enum pending { NOTHING, VALUE, HEADER, USER, COLON };
/* What a word leaves for the next one. in_env: it ended inside the map of engine.env. */
struct carry {
    enum pending next;
    bool in_env;
};

static bool is_name_char(char c) {
    return is_letter_or_digit((unsigned char)c) || c == '_' || c == '.' || c == '-';
}
static bool is_quote(char c) { return c == '"' || c == '\''; }

static char *skip_blanks(char *p, const char *end) {
    while (p < end && is_blank(*p)) p++;
    return p;
}

/* Replaces n bytes at `at` by SECRET_MASK. Returns the new end of the word. */
static char *mask_value(char *at, size_t n, char *end) {
    size_t stars = MIN(n, strlen(SECRET_MASK));
    memcpy(at, SECRET_MASK, stars);
    memmove(at + stars, at + n, (size_t)(end - at) - n);
    return end - (n - stars);
}

static bool is_kept_value(const char *value, size_t n) {
    return secret_is_switch(value, n) || (n >= 2 && strncmp(value, "${", 2) == 0);
}

static void mask_unless_kept(char *value, size_t n, char **end) {
    if (!is_kept_value(value, n)) *end = mask_value(value, n, *end);
}

static bool is_scheme(const char *word, size_t n) {
    static const char *const schemes[] = { "bearer", "basic", "digest", "token" };
    return secret_one_of(word, n, schemes, COUNTOF(schemes));
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

/* In a URL query, a map or a list, a value ends before its separator (value_end()). in_env: the names in
 * braces are those of variables of the engine. */
struct word_state {
    bool in_query, in_braces, in_list, in_env;
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

/* Masks the value inside quotes, which may be escaped, as in JSON within JSON. */
static char *mask_quoted(char *value, char **end) {
    bool escaped = *value == '\\';
    char quote = value[escaped], *first = value + escaped + 1, *close = first;
    while (close < *end && *close != quote &&
           !(escaped && *close == '\\' && close + 1 < *end && close[1] == quote))
        close += !escaped && close[0] == '\\' && close + 1 < *end ? 2 : 1;
    mask_unless_kept(first, (size_t)(close - first), end);
    return first;
}
static bool starts_quoted(const char *value, const char *end) {
    return value < end && (is_quote(*value) || (*value == '\\' && value + 1 < end && is_quote(value[1])));
}

/* Masks the value after a name and a separator. If the word ends before the value, sets carry->next: the next
 * word is the value. Returns where to continue. */
static char *mask_after_name(char *value, char **end, const struct word_state *s, bool is_header,
                             struct carry *carry) {
    if (starts_quoted(value, *end)) return mask_quoted(value, end);
    if (value >= *end) {
        carry->next = is_header ? HEADER : VALUE;
        return value;
    }
    char *blank = memchr(value, ' ', (size_t)(*end - value));
    if (is_header && blank && is_scheme(value, (size_t)(blank - value))) value = blank + 1;
    char *stop = value_end(value, *end, s);
    if (is_header && stop == *end && is_scheme(value, (size_t)(stop - value))) {
        carry->next = HEADER;
        return stop;
    }
    mask_unless_kept(value, (size_t)(stop - value), end);
    return value;
}

/* The end of a word of a script that is one argument: sh -c "serve --token V; more". */
static char *script_word_end(char *p, const char *end) {
    while (p < end && !is_blank(*p) && !strchr("'\"`;|&()<>", *p)) p++;
    return p;
}

/* Masks V in user:V, unless it is a number: a port, or the group in 1000:1000. */
static char *mask_user(char *user, char *stop, char *end) {
    char *colon = memchr(user, ':', (size_t)(stop - user));
    if (!colon || colon == user || colon + 1 == stop || memchr(user, '/', (size_t)(stop - user))) return end;
    for (char *p = colon + 1; p < stop; p++)
        if (!is_digit((unsigned char)*p)) return mask_value(colon + 1, (size_t)(stop - colon - 1), end);
    return end;
}
static bool is_user_option(const char *name, size_t n) {
    static const char *const names[] = { "-u", "--user", "--proxy-user" };
    return secret_one_of(name, n, names, COUNTOF(names));
}

/* True for messages, such as "unexpected token: x" or "/etc/secret: no such file". False for settings, such
 * as "HF_TOKEN: x". */
static bool is_prose(const char *word, const char *name, size_t n) {
    static const char *const nouns[] = { "token", "auth", "secret", "secrets", "credential", "credentials" };
    return secret_one_of(name, n, nouns, COUNTOF(nouns)) || (name > word && name[-1] == '/');
}

/* URLs that are signed, such as those of object stores, grant access to what they name. In a query, "key" and
 * the like are credentials of the caller. */
static bool is_query_secret(const char *name, size_t n) {
    static const char *const names[] = {
        "sig", "signature", "x-amz-signature", "x-goog-signature", "key", "pwd", "pass", "pw"
    };
    return secret_one_of(name, n, names, COUNTOF(names));
}

/* A name in a command-line word. */
struct name {
    char *at, *after; /* [at, after) */
    char *sep;        /* the character behind it and its quote; may be the end of the word */
    bool quoted, secret;
};

static struct name name_at(char *p, char *after, const char *end, const struct word_state *s) {
    struct name v = { .at = p, .after = after, .sep = after };
    size_t n = (size_t)(after - p);
    v.quoted = starts_quoted(after, end);
    if (v.quoted) v.sep += *after == '\\' ? 2 : 1;
    if (v.quoted && v.sep < end && *v.sep == ']') v.sep++; /* environ["TOKEN"]= */
    v.secret = secret_is_name(p, n) || (s->in_query && is_query_secret(p, n));
    return v;
}

/* True for the key of a map: { or , is before it, or the word before (carry). */
static bool is_map_key(const char *name, const char *word) {
    while (name > word && (is_quote(name[-1]) || name[-1] == '\\')) name--;
    while (name > word && is_blank(name[-1])) name--;
    return name == word || name[-1] == '{' || name[-1] == ',';
}

/* True for `engine.env={`, and for `env: {` inside of `engine={`. */
static bool begins_env(const struct name *v, const char *end, const struct word_state *s) {
    size_t n = (size_t)(v->after - v->at);
    bool whole = n == strlen(ENV) && memcmp(v->at, ENV, n) == 0,
         part = s->in_braces && n == 3 && memcmp(v->at, "env", 3) == 0;
    if ((!whole && !part) || v->sep >= end || (*v->sep != '=' && *v->sep != ':')) return false;
    char *value = skip_blanks(v->sep + 1, end);
    return value < end && *value == '{';
}

/* True if the name is that of a variable of the engine whose value must not be stored. */
static bool is_env_value(const struct name *v, const char *word, char *end, const struct word_state *s) {
    size_t n = (size_t)(v->after - v->at), skip = strlen(ENV ".");
    if (v->sep >= end) return false;
    if (*v->sep == '=' && n > skip && memcmp(v->at, ENV ".", skip) == 0)
        return secret_is_env_part(v->at + skip, n - skip, v->sep + 1, (size_t)(end - v->sep) - 1);
    if (!s->in_env || (*v->sep != ':' && *v->sep != '=') || !is_map_key(v->at, word)) return false;
    char *value = skip_blanks(v->sep + 1, end);
    if (value == end) return secret_is_env_part(v->at, n, "?", 1); /* it is the next word */
    return secret_is_env_part(v->at, n, value, (size_t)(value_end(value, end, s) - value));
}

/* The value follows after a blank: in the next word, or in this one if it is a script or JSON. */
static char *mask_separated(const struct name *v, const char *word, char **end, const struct word_state *s,
                            struct carry *carry) {
    bool user = is_user_option(v->at, (size_t)(v->after - v->at)), option = *v->at == '-' && !v->quoted;
    char *value = skip_blanks(v->sep, *end);
    if (v->sep == *end) {
        if (v->quoted && v->secret) carry->next = COLON;
        if (option && v->at == word && (v->secret || user)) carry->next = user ? USER : VALUE;
        return v->after;
    }
    if (value == *end) return v->after;
    if (option && user) {
        *end = mask_user(value, script_word_end(value, *end), *end);
        return value;
    }
    if (option && v->secret && *value != '-') {
        if (starts_quoted(value, *end)) return mask_quoted(value, end);
        mask_unless_kept(value, (size_t)(script_word_end(value, *end) - value), end);
        return value;
    }
    if (!v->secret || (*value != '=' && !(v->quoted && *value == ':'))) return v->after;
    char *quote = skip_blanks(value + 1, *end); /* token = "V", "token" : "V" */
    return starts_quoted(quote, *end) ? mask_after_name(quote, end, s, false, carry) : v->after;
}

/* Masks the value after the name if the name is secret, or if it is that of a secret variable of the engine.
 * Returns where to continue. */
static char *mask_named(char *word, const struct name *v, char **end, struct word_state *s,
                        struct carry *carry) {
    size_t n = (size_t)(v->after - v->at);
    if (begins_env(v, *end, s)) {
        s->in_env = true;
        return v->after;
    }
    bool secret = v->secret || is_env_value(v, word, *end, s);
    if (v->sep == *end || is_blank(*v->sep)) return mask_separated(v, word, end, s, carry);
    if (!secret) return v->after;
    if (*v->sep == '=') return mask_after_name(v->sep + 1, end, s, false, carry);
    /* for example engine.command=[serve, --token, V] */
    if (*v->sep == ',' && s->in_list && *v->at == '-') {
        char *value = skip_blanks(v->sep + 1, *end);
        return value < *end && *value == '-' ? v->after : mask_after_name(value, end, s, false, carry);
    }
    if (*v->sep != ':' || !(v->quoted || s->in_braces || !is_prose(word, v->at, n))) return v->after;
    return mask_after_name(skip_blanks(v->sep + 1, *end), end, s, !v->quoted, carry);
}

/* Masks a word that the word before announced. Returns false if it is an ordinary word. */
static bool mask_announced(enum pending now, char *word, char **end, struct carry *carry) {
    struct word_state s = { .in_braces = carry->in_env };
    if (now == HEADER && is_scheme(word, (size_t)(*end - word))) {
        carry->next = HEADER;
        return true;
    }
    if (now == USER) {
        char *before = *end;
        *end = mask_user(word, *end, *end);
        return *end != before;
    }
    if (now == COLON) {
        if (*word != ':') return false;
        mask_after_name(word + 1, end, &s, false, carry);
        return true;
    }
    if (now == NOTHING || (now == VALUE && *word == '-')) return false;
    mask_after_name(word, end, &s, false, carry);
    return true;
}

/* Returns the new end of the word. */
static char *mask_word(char *word, char *end, struct carry *carry) {
    enum pending now = carry->next;
    carry->next = NOTHING;
    if (word == end) return end;
    if (mask_announced(now, word, &end, carry)) {
        carry->in_env &= !memchr(word, '}', (size_t)(end - word));
        return end;
    }
    struct word_state s = { .in_env = carry->in_env, .in_braces = carry->in_env };
    unsigned masks = 0;
    end = mask_url(word, end);
    for (char *p = word; p < end;) {
        char *end_before = end;
        if (masks > MAX_MASKS) return mask_value(p, (size_t)(end - p), end);
        s.in_query |= *p == '?';
        s.in_braces |= *p == '{';
        s.in_list |= *p == '[';
        s.in_env &= *p != '}';
        if (!is_name_char(*p)) {
            p++;
            continue;
        }
        char *after = p;
        while (after < end && is_name_char(*after)) after++;
        size_t n = (size_t)(after - p), shape = secret_shape(p, n);
        if (shape) {
            end = mask_value(p + shape, n - shape, end);
            p += shape;
            while (p < end && *p == '*') p++;
        } else {
            struct name name = name_at(p, after, end, &s);
            p = mask_named(word, &name, &end, &s, carry);
        }
        masks += end != end_before;
    }
    carry->in_env = s.in_env;
    return end;
}

/* ---- texts */

/* End of a shell word, which may contain blanks inside quotes. An unclosed quote is an ordinary character. */
static char *word_end(char *p) {
    while (*p && !is_blank(*p)) {
        char *close = is_quote(*p) ? strchr(p + 1, *p) : NULL;
        if (*p == '\\' && p[1]) close = p + 1;
        p = close ? close + 1 : p + 1;
    }
    return p;
}

void secret_mask(char *text) {
    struct carry carry = { 0 };
    char *out = text;
    for (char *in = text; *in;) {
        if (is_blank(*in)) {
            if (*in == '\n') {
                carry.in_env = false;
                if (carry.next != HEADER) carry.next = NOTHING;
            }
            *out++ = *in++;
            continue;
        }
        char *end = word_end(in);
        size_t n = (size_t)(end - in);
        bool quoted = n > 2 && is_quote(in[0]) && end[-1] == in[0];
        char *masked = mask_word(in + quoted, end - quoted, &carry);
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
    struct carry carry = { 0 };
    char *out = args, *limit = args + n;
    for (char *in = args; in < limit;) {
        char *end = memchr(in, '\0', (size_t)(limit - in));
        bool last = !end;
        if (last) end = limit;
        size_t kept = (size_t)(mask_word(in, end, &carry) - in);
        memmove(out, in, kept);
        out += kept;
        if (!last) *out++ = '\0';
        in = end + !last;
    }
    return (size_t)(out - args);
}
