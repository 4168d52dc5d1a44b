/* Sentences that several documents share. */
#ifndef REPORT_STORY_H
#define REPORT_STORY_H

#include "report/view.h"

struct story_form {
    void (*text)(struct strbuf *out, const char *foreign); /* appends the text, escaped */
    const char *strong, *end_strong;
};
extern const struct story_form story_html, story_markdown, story_plain;

/* Writes one sentence about the four longest top-level stages: duration, ratio to the roofline time, and how
 * busy the GPU is. If the machine was busy, a warning comes first. */
void story_answer(const struct view *v, const struct story_form *form, struct strbuf *out);
/* story_answer() already reports this warning. */
bool story_has_warning(const struct view *v, const char *warning);
/* Writes "No idle-time analysis for decode: ...". Writes nothing if the idle time is known, and nothing for
 * sub-stages and stages on the CPU. */
void story_refusal(const struct analysis_stage *s, const struct story_form *form, struct strbuf *out);
/* Writes the reason for a ratio beyond its limit, such as "decode: MBU 203%: ...", if there is one, and the
 * reason for a distance that is not the ratio of the times beside it. */
void story_over(const struct analysis_stage *s, const struct story_form *form, struct strbuf *out);
/* Writes the peaks of the device and their source, and the peak of MFU of each stage whose products have
 * another type. */
void story_peaks(const struct view *v, const struct story_form *form, struct strbuf *out);
/* Writes the memory level of each stage. Without levels, writes the read bandwidth measured by
 * `calibrate`. */
void story_bandwidth(const struct view *v, const struct story_form *form, struct strbuf *out);

/* Writes the numbers of a stage's bar: "decode: 12.3 ms, GPU busy 8.1 ms, roofline time 4.2 ms". */
void story_stage_bar(const struct view *v, const struct analysis_stage *s, struct strbuf *out);

const char *story_no_finding(const struct view *v);
/* Returns which figures are from timed repeats, and which are from the recorded run. */
const char *story_two_runs(const struct view *v);
/* the error, the answer, or a note */
const char *story_reply(const struct run_answer *a);
extern const char story_incomplete[], story_unstable[];

#endif
