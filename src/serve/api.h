/* Handlers of the API, /api/v1 (web/openapi.json). */
#ifndef SERVE_API_H
#define SERVE_API_H

#include "history/query.h"
#include "serve/http.h"

/* api_runs.c */
void api_list_runs(struct request *q);
void api_get_run(struct request *q);
void api_delete_run(struct request *q);
void api_tag_run(struct request *q);
void api_get_figures(struct request *q);
void api_get_findings(struct request *q);
/* Reads the filters of a list. If an argument is not valid, answers with 400 and returns false. */
bool api_read_filter(struct request *q, struct history_filter *f);
/* On failure, answers with 404 (no such run) or 503 (database) and returns false. */
bool api_find_run(struct request *q, struct history *h, const char *name, struct history_run *run);
/* Calls `answer` with the run that the URL names. On failure, answers with 404 or 503 instead. */
typedef void run_answer(struct request *q, const struct history *h, const struct history_run *run,
                        const struct run_record *r, const void *data);
void api_answer_run(struct request *q, run_answer *answer, const void *data);
/* Reads an optional argument: a whole number from `least` to `most`. Without it, *out is not changed. If it
 * is not valid, answers with 400 and returns false. */
bool api_read_count(struct request *q, const char *name, size_t least, size_t most, size_t *out);

/* api_artifacts.c */
void api_list_artifacts(struct request *q);
void api_get_artifact(struct request *q);
void api_get_report(struct request *q);
void api_get_ranks(struct request *q); /* the report of a job of several ranks */
/* Opens a file of a run folder for reading; -1: no such file. The path comes from a client: it must be a safe
 * relative path. Symbolic links are not followed. */
int api_open_artifact(const struct history *h, const struct history_run *run, const char *path);
/* Answers with the files of a folder. Without such a folder, the list is empty. */
void api_answer_artifacts(struct request *q, const char *run, const char *dir);

/* api_upload.c */
void api_begin_upload(struct request *q);
void api_begin_post(struct request *q);
void api_receive_upload(struct request *q, const char *data, size_t n);
void api_end_upload(struct request *q);
void api_get_upload(struct request *q);

/* api_series.c */
void api_compare(struct request *q);
void api_list_series(struct request *q);
void api_get_trend(struct request *q);
void api_list_findings(struct request *q);
void api_list_machines(struct request *q);
void api_health(struct request *q);
void api_metrics(struct request *q);
void api_openapi(struct request *q);

struct comparison;
struct compare_inputs;
/* Compares the runs of the arguments `a` and `b`. NULL: an error was sent. */
struct compare_inputs *api_open_compare(struct request *q, struct comparison *c);
void api_close_compare(struct request *q, struct compare_inputs *inputs, struct comparison *c);

#define BASELINE_RUNS 10 /* default number of runs of a baseline */
/* Reads series, stage and metric. If one is not valid, answers with 400 (404 for an unknown metric of a
 * stage) and returns false. */
bool api_read_trend(struct request *q, struct history_trend *t);

#endif
