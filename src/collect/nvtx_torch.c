#include "collect/nvtx_torch.h"

#include <string.h>

/* Limit for the search for the end of the name. All operator names are shorter. */
#define MAX_NAME 256

static bool skip(const char **at, const char *prefix) {
    size_t n = strlen(prefix);
    if (strncmp(*at, prefix, n) != 0) return false;
    *at += n;
    return true;
}

/* Skips a text such as ", op_id = 1014". */
static bool skip_number(const char **at, const char *prefix) {
    const char *p = *at;
    if (!skip(&p, prefix)) return false;
    size_t digits = strspn(p, "0123456789");
    if (digits == 0) return false;
    *at = p + digits;
    return true;
}

/* Skips a text such as ", sizes = [[2, 3]bf16, []]": balanced brackets, numbers, and type names after a
 * bracket. */
static bool skip_list(const char **at, const char *prefix) {
    const char *p = *at;
    unsigned depth = 0;
    if (!skip(&p, prefix) || *p != '[') return false;
    for (; *p && strchr("0123456789-, ()[]", *p); p++) {
        if (*p == '[') depth++;
        if (*p != ']') continue;
        if (--depth == 0) {
            *at = p + 1;
            return true;
        }
        p += strspn(p + 1, "abcdefghijklmnopqrstuvwxyz0123456789");
    }
    return false;
}

bool torch_name_split(const char *text, struct torch_name *out) {
    size_t name = 0;
    while (name < MAX_NAME && text[name] && text[name] != ',') name++;
    const char *at = text + name;
    if (name == 0 || *at != ',') return false;
    bool seq = skip_number(&at, ", seq = "), id = skip_number(&at, ", op_id = ");
    if (!seq && !id) return false;
    *out = (struct torch_name){ .name_len = name };
    const char *sizes = at;
    if (skip_list(&at, ", sizes = ")) {
        out->detail = sizes + 2;
        out->detail_len = (size_t)(at - out->detail);
    }
    skip_list(&at, ", input_op_ids = ");
    if (skip(&at, ", stack = ")) {
        out->stack = at;
        return true;
    }
    return *at == '\0';
}
