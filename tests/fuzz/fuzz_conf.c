/* The input is a group file, a --config file and, after a NUL, command-line overrides. */
#include <stdint.h>
#include <string.h>

#include "conf/compose.h"
#include "conf/schema.h"
#include "conf/yaml.h"
#include "fuzz/fuzz.h"

static const char primary[] = "defaults:\n  - _self_\n  - model: fuzz\nrepeats: 1\nprompt: ${model.prompt}\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096) return 0;
    char text[4098];
    memcpy(text, data, size);
    memset(text + size, 0, 2);
    const struct conf_builtin files[] = { { "config.yaml", primary, sizeof primary - 1 },
                                          { "model/fuzz.yaml", text, strlen(text) } };
    const char *words[8];
    struct conf_request req = { .store = { .builtin = files, .nbuiltin = 2 }, .words = words };
    for (const char *p = text + strlen(text) + 1; p < text + size && req.nwords < 8; p += strlen(p) + 1)
        words[req.nwords++] = p;
    struct err err;
    struct conf *c = conf_compose(&req, &err);
    if (!c) return 0;
    struct settings s;
    struct strlist errors = { 0 };
    struct strbuf out = STRBUF_INIT;
    schema_apply(conf_root(c), &s, &errors);
    conf_yaml_write(conf_root(c), CONF_YAML_ORIGINS, &out);
    struct conf_node *again = conf_yaml_parse(out.buf, out.len, "again", &err);
    if (!again && !strstr(err.msg, "nested too deeply") && !strstr(err.msg, "too many values"))
        __builtin_trap(); /* a written configuration must be readable, within the parser's limits */
    conf_node_free(again);
    strbuf_free(&out);
    strlist_free(&errors);
    conf_close(c);
    return 0;
}
