/* The model's answers: predictions.jsonl (every recorded or timed request), predictions.md (a gallery, one
 * entry per input, with thumbs/) and viz/<stem>/ for OCR models. */
#ifndef RUN_PREDICTIONS_H
#define RUN_PREDICTIONS_H

#include "base/err.h"
#include "run/profiled.h"

int predictions_write(const struct profiled_session *session, struct err *err);

#endif
