/* Sentences that more than one document says: the same words, marked up as the document wants them. */
#ifndef REPORT_STORY_H
#define REPORT_STORY_H

#include "report/view.h"

struct story_form {
    void (*text)(struct strbuf *out, const char *foreign); /* escapes */
    const char *strong, *end_strong;
};
extern const struct story_form story_html, story_markdown, story_plain;

/* The question of a report in one sentence, the longest stage first: how long does it take, does the GPU
 * work or wait, and how far is it from what the hardware allows? Nothing where no stage has a time. */
void story_answer(const struct view *v, const struct story_form *form, struct strbuf *out);
/* "No idle verdict for decode: ..."; nothing where there is one. */
void story_refusal(const struct analysis_stage *s, const struct story_form *form, struct strbuf *out);

const char *story_no_finding(const struct view *v);
const char *story_reply(const struct run_answer *a); /* what the model or the error said, never empty */
extern const char story_incomplete[], story_unstable[];

#endif
