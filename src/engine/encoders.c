#include "engine/encoders.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "engine/ocr/encoder.h"
#include "engine/vision/llava.h"
#include "engine/vision/qwen_vl.h"

static const struct vision_encoder *const encoders[] = { &dsocr_encoder, &qwen_vl_encoder, &llava_encoder };

static const struct vision_encoder *encoder_of(const struct llm_model *m) {
    for (size_t i = 0; i < COUNTOF(encoders); i++)
        if (strcmp(encoders[i]->family, m->family) == 0) return encoders[i];
    return NULL;
}

int vision_check(const struct llm_model *m, const struct ops *o, struct err *err) {
    const struct vision_encoder *encoder = encoder_of(m);
    struct strbuf known = STRBUF_INIT;
    int rc = 0;
    for (size_t i = 0; i < COUNTOF(encoders); i++)
        strbuf_addf(&known, "%s%s", i ? ", " : "", encoders[i]->family);
    if (!encoder)
        rc =
            err_set(err, "the native engine supports images of %s models, not of '%s'", known.buf, m->family);
    else if (!encoder->any_device && !(o->backend->extras & OPS_EXTRA_TOWERS))
        rc = err_set(err, "the device %s does not support the image tower of '%s' models: use device=cpu",
                     ops_name(o), m->family);
    strbuf_free(&known);
    return rc;
}

struct vision *vision_open(const struct llm_model *m, int hidden, struct weights *w, struct err *err) {
    const struct vision_encoder *encoder = encoder_of(m);
    void *state = encoder->open(m, hidden, w, err);
    if (!state) return NULL;
    struct vision *v = xcalloc(1, sizeof *v);
    *v = (struct vision){ encoder, m, state };
    return v;
}

void vision_close(struct vision *v) {
    if (!v) return;
    v->encoder->close(v->state);
    free(v);
}

size_t vision_stages(const struct vision *v, const char *out[VISION_STAGES_MAX]) {
    size_t n = 0;
    for (; v && n < VISION_STAGES_MAX && v->encoder->stages[n]; n++) out[n] = v->encoder->stages[n];
    return n;
}
