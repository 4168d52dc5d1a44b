#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "conf/compose.h"
#include "conf/yaml.h"
#include "unit/test.h"

#define FILE_OF(path, text) \
    { path, text, sizeof(text) - 1 }

static const struct conf_builtin files[] = {
    FILE_OF("config.yaml", "defaults:\n  - _self_\n  - model: a\n  - profiling: default\nrepeats: "
                           "10\nprompt: ${model.prompt}\n"),
    FILE_OF("model/a.yaml", "name: a\nprompt: \"one\\ntwo\"\npreprocess: {mode: base, max_tiles: 9}\n"),
    FILE_OF("model/b.yaml", "defaults:\n  - a\n  - _self_\nname: b\n"),
    FILE_OF("model/loop.yaml", "defaults:\n  - loop\n"),
    FILE_OF("profiling/default.yaml", "preset: default\n"),
    FILE_OF("extra/quick.yaml", "# @package _global_\nrepeats: 2\n"),
};

static struct conf *compose(const char *const *words, size_t n, struct err *err) {
    struct conf_request req = { .store = { .builtin = files, .nbuiltin = COUNTOF(files) },
                                .words = words,
                                .nwords = n,
                                .now_wall_ns = 0 };
    return conf_compose(&req, err);
}

/* The value of a key after composing with the given overrides, or the error message. Caller frees. */
static char *value_of(const char *key, const char *const *words, size_t n) {
    struct err err;
    struct conf *c = compose(words, n, &err);
    if (!c) return strdup(err.msg);
    const struct conf_node *node = conf_get(conf_root(c), key);
    char *text = strdup(!node ? "(none)" : node->kind == CONF_SCALAR ? node->text : "(tree)");
    conf_close(c);
    return text;
}

#define CHECK_VALUE(key, want, ...)                                  \
    do {                                                             \
        const char *const words_[] = { __VA_ARGS__ };                \
        char *got_ = value_of(key, words_ + 1, COUNTOF(words_) - 1); \
        CHECK_STR(got_, want);                                       \
        free(got_);                                                  \
    } while (0)

TEST(groups_are_merged_under_their_name_and_interpolated) {
    CHECK_VALUE("repeats", "10", "");
    CHECK_VALUE("model.name", "a", "");
    CHECK_VALUE("prompt", "one\ntwo", "");
}

TEST(command_line_overrides_choices_and_values) {
    CHECK_VALUE("model.name", "b", "", "model=b");
    CHECK_VALUE("model.prompt", "one\ntwo", "", "model=b"); /* inherited through b's own defaults */
    CHECK_VALUE("repeats", "3", "", "repeats=3");
    CHECK_VALUE("model.preprocess.mode", "tiny", "", "model.preprocess.mode=tiny");
    CHECK_VALUE("model.preprocess.max_tiles", "9", "", "model.preprocess.mode=tiny");
    CHECK_VALUE("prompt", "changed", "", "model.prompt=changed"); /* interpolation is the last step */
    CHECK_VALUE("repeats", "2", "", "+extra=quick");              /* @package _global_ */
    CHECK_VALUE("model", "(none)", "", "~model", "prompt=x");
}

TEST(plus_adds_new_keys_and_tilde_removes_keys) {
    CHECK_VALUE("engine.load.x", "1", "", "+engine.load.x=1");
    CHECK_VALUE("repeats", "+repeats=4: repeats already exists; write repeats=4", "", "+repeats=4");
    CHECK_VALUE("repeats", "4", "", "++repeats=4");
    CHECK_VALUE("repeats", "(none)", "", "~repeats");
    CHECK_VALUE("repeats", "~nothing: cannot remove nothing: no such key", "", "~nothing");
    CHECK_VALUE("repeats", "~repeats=3: repeats has a different value", "", "~repeats=3");
}

TEST(command_line_values_are_parsed_by_type) {
    CHECK_VALUE("prompt", "a: b # c", "", "prompt=a: b # c");
    CHECK_VALUE("prompt", "[not a list", "", "prompt=[not a list"); /* the key holds text */
    CHECK_VALUE("prompt", "x\ny", "", "prompt=\"x\\ny\"");
    CHECK_VALUE("prompt", "a=b", "", "prompt=a=b");
    CHECK_VALUE("engine.command", "(tree)", "", "engine.command=[sh, -c]");
    CHECK_VALUE("x", "'repeats': expected repeats=VALUE (options start with --)", "", "repeats");
    CHECK_VALUE("x", "'=3': expected key=value, +key=value or ~key", "", "=3");
    CHECK_VALUE("x", "an argument is not valid UTF-8", "", "prompt=\xff");
}

TEST(unknown_choice_lists_the_choices) {
    CHECK_VALUE("x", "command line: model=c: no such choice; choices: a, b, loop", "", "model=c");
    CHECK_VALUE("x",
                "command line: model=/m/dir: no such choice; choices: a, b, loop. To give a folder, use "
                "model.path=DIR or dataset.root=DIR",
                "", "model=/m/dir");
}

TEST(circular_references_are_errors) {
    CHECK_VALUE("x", "built-in conf/model/loop.yaml: circular defaults", "", "model=loop");
    CHECK_VALUE("x", "command line: ${prompt} refers to itself", "", "model.prompt=${prompt}");
    CHECK_VALUE("x", "command line: ${no.such}: no such key", "", "prompt=${no.such}");
    CHECK_VALUE("x", "command line: ${ is not closed with }", "", "prompt=${a");
    CHECK_VALUE("x",
                "command line: ${upper:...}: unknown resolver; available: now, oc.env, hydra:runtime.cwd", "",
                "prompt=${upper:x}");
}

TEST(interpolation_of_time_and_environment) {
    setenv("TZ", "UTC", 1);
    setenv("INFERPROF_TEST_VALUE", "from outside", 1);
    CHECK_VALUE("prompt", "at 1970-01-01", "", "prompt=at ${now:%Y-%m-%d}");
    CHECK_VALUE("prompt", "from outside", "", "prompt=${oc.env:INFERPROF_TEST_VALUE}");
    CHECK_VALUE("prompt", "otherwise", "", "prompt=${oc.env:INFERPROF_TEST_NO_SUCH,otherwise}");
    CHECK_VALUE("x", "command line: the environment variable INFERPROF_TEST_NO_SUCH is not set", "",
                "prompt=${oc.env:INFERPROF_TEST_NO_SUCH}");
    CHECK_VALUE("prompt", "${kept}", "", "prompt=\\${kept}");
    CHECK_VALUE("prompt", "a", "", "prompt=${model.${profiling.preset}}", "profiling.preset=name");
}

TEST(exponential_interpolation_is_limited) {
    const char *words[40];
    char text[40][100];
    for (int i = 0; i < 38; i++) {
        snprintf(text[i], sizeof text[i], "+engine.load.k%d=${engine.load.k%d}${engine.load.k%d}", i + 1, i,
                 i);
        words[i] = text[i];
    }
    words[38] = "+engine.load.k0=0123456789";
    struct err err;
    CHECK(!compose(words, 39, &err));
    CHECK(strstr(err.msg, "is too large") || strstr(err.msg, "too many references"));
}

TEST(every_value_has_its_origin) {
    struct err err;
    struct strbuf out = STRBUF_INIT;
    struct conf *c = compose((const char *const[]){ "repeats=3" }, 1, &err);
    conf_yaml_write(conf_root(c), CONF_YAML_ORIGINS, &out);
    CHECK(strstr(out.buf, "repeats: 3                                  # command line\n"));
    CHECK(strstr(out.buf, "  name: a                                   # built-in conf/model/a.yaml:1\n"));
    CHECK(strstr(
        out.buf,
        "prompt: \"one\\ntwo\"                          # built-in conf/config.yaml:6 as ${model.prompt}\n"));
    strbuf_reset(&out);
    conf_choices_text(c, &out);
    CHECK_STR(out.buf, "model=a profiling=default");
    strbuf_free(&out);
    conf_close(c);
}

TEST(user_folder_overrides_built_in_files) {
    char *dir = test_tmpdir(), cmd[512];
    snprintf(cmd, sizeof cmd,
             "mkdir %s/model && printf 'name: mine\\nprompt: p\\n' > %s/model/a.yaml && "
             "printf 'defaults: [{model: a}]\\nrepeats: 7\\n' > %s/file.yaml",
             dir, dir, dir);
    CHECK_INT(system(cmd), 0);
    char file[300];
    snprintf(file, sizeof file, "%s/file.yaml", dir);
    const char *dirs[] = { dir }, *words[] = { "profiling.preset=x" };
    struct conf_request req = {
        .store = { dirs, 1, files, COUNTOF(files) }, .file = file, .words = words, .nwords = 1
    };
    struct err err;
    struct conf *c = conf_compose(&req, &err);
    CHECK(c);
    CHECK_STR(conf_get(conf_root(c), "model.name")->text, "mine");
    CHECK_STR(conf_get(conf_root(c), "repeats")->text, "7"); /* overrides config.yaml */
    CHECK_STR(conf_get(conf_root(c), "profiling.preset")->text, "x");
    conf_close(c);
    free(dir);
}
