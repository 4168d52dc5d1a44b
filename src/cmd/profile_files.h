/* The files of a run folder that `profile` writes itself; the rest is report/'s. */
#ifndef CMD_PROFILE_FILES_H
#define CMD_PROFILE_FILES_H

#include "base/err.h"
#include "cmd/profile_results.h"

int profile_write_assumptions(const struct profile_run *run, const struct profile_results *r,
                              struct err *err);
int profile_write_static(const struct profile_run *run, const struct profile_results *r, struct err *err);
/* predictions.jsonl, predictions.md with thumbs/, and viz/<stem>/ for OCR models. */
int profile_write_predictions(const struct profile_run *run, struct err *err);

#endif
