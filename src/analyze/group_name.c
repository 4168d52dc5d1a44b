#include "analyze/group_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"

const char *group_kind_name(enum group_kind kind) {
    static const char *const names[] = { "tp", "pp", "ep", "dp", "cp" };
    return kind < GROUP_KINDS ? names[kind] : "other";
}

/* Whole words in the name of a group, as written by Megatron ("TENSOR_MODEL_PARALLEL_GROUP"), torch's
 * DeviceMesh ("mesh_tp") and inference servers. The first matching row is used. */
static const struct {
    const char *word;
    enum group_kind kind;
} words[] = {
    { "tensor", GROUP_TENSOR }, { "tp", GROUP_TENSOR },       { "pipeline", GROUP_PIPELINE },
    { "pp", GROUP_PIPELINE },   { "ep", GROUP_EXPERT },       { "data", GROUP_DATA },
    { "dp", GROUP_DATA },       { "replicate", GROUP_DATA },  { "shard", GROUP_DATA },
    { "fsdp", GROUP_DATA },     { "context", GROUP_CONTEXT }, { "cp", GROUP_CONTEXT },
};

static bool has_word(const char *name, const char *word) {
    size_t n = strlen(word);
    for (const char *p = name; *p; p++) {
        bool starts = p == name || !isalnum((unsigned char)p[-1]);
        if (starts && strncasecmp(p, word, n) == 0 && !isalnum((unsigned char)p[n])) return true;
    }
    return false;
}

enum group_kind group_kind_of(const char *name) {
    if (has_word(name, "and")) return GROUP_KINDS;
    if (has_word(name, "expert"))
        return has_word(name, "tensor") || has_word(name, "data") ? GROUP_KINDS : GROUP_EXPERT;
    for (size_t i = 0; i < COUNTOF(words); i++)
        if (has_word(name, words[i].word)) return words[i].kind;
    return GROUP_KINDS;
}
