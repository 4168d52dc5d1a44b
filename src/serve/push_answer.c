#include "serve/push_answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/jsonr.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define NAME_BYTES 255 /* of a folder */

static char *printable_name(const char *name) {
    struct strbuf out = STRBUF_INIT;
    size_t n = name ? strlen(name) : 0;
    if (n == 0) return NULL;
    strbuf_add_printable(&out, name, n > NAME_BYTES ? utf8_cut(name, NAME_BYTES) : n);
    return strbuf_detach(&out);
}

struct push_answer push_answer_parse(const char *text, size_t n) {
    struct err ignored;
    json_t *root = jsonr_load_text(text, n, "answer", &ignored);
    const char *detail = jsonr_text(root, "detail");
    struct push_answer a = { .run = printable_name(jsonr_text(root, "run")),
                             .detail = detail ? xstrdup(detail) : NULL,
                             .received = jsonr_number(root, "received") };
    json_decref(root);
    return a;
}

void push_answer_free(struct push_answer *a) {
    free(a->run);
    free(a->detail);
    *a = (struct push_answer){ 0 };
}
