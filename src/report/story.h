/* Sentences that several documents share, each with its own markup. */
#ifndef REPORT_STORY_H
#define REPORT_STORY_H

#include "report/view.h"

struct story_form {
    void (*text)(struct strbuf *out, const char *foreign); /* appends the text, escaped */
    const char *strong, *end_strong;
};
extern const struct story_form story_html, story_markdown, story_plain;

/* Writes the result in one sentence about the four longest top-level stages, the longest first: duration,
 * ratio to the roofline time, and how busy the GPU is. If the machine was busy, a warning comes first. */
void story_answer(const struct view *v, const struct story_form *form, struct strbuf *out);
/* Returns true if story_answer() reports this problem of the run. */
bool story_has_problem(const struct view *v, const char *problem);
/* Adds "No idle-time analysis for decode: ..."; nothing if the idle time is known, and nothing for sub-stages
 * and stages on the CPU. */
void story_refusal(const struct analysis_stage *s, const struct story_form *form, struct strbuf *out);
/* Adds the reason of a ratio beyond its limit, such as "decode: MBU 203%: ..."; nothing if there is none. */
void story_over(const struct analysis_stage *s, const struct story_form *form, struct strbuf *out);
/* Adds the memory level that each stage is compared with. Without levels, adds the read bandwidth that
 * `calibrate` measured, if it is known. */
void story_bandwidth(const struct view *v, const struct story_form *form, struct strbuf *out);

const char *story_no_finding(const struct view *v);
/* Returns a sentence about which figures come from the timed repeats, and which from the recorded run. */
const char *story_two_runs(const struct view *v);
/* returns the error message, else the answer, else a note that the text is missing */
const char *story_reply(const struct run_answer *a);
extern const char story_incomplete[], story_unstable[];

#endif
