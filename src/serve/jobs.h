/* Profiling jobs: a queue in the database, one process per device at a time. */
#ifndef SERVE_JOBS_H
#define SERVE_JOBS_H

#include "serve/http.h"

struct server;
struct jobs;

/* Starts the thread that runs the jobs. Jobs that were running when the server stopped are restarted once. */
struct jobs *jobs_start(struct server *s, struct err *err);
void jobs_stop(struct jobs *jobs); /* accepts NULL; kills running jobs */

/* Handlers. */
void api_post_profile(struct request *q);
void api_list_profiles(struct request *q);
void api_get_profile(struct request *q);
void api_cancel_profile(struct request *q);
void api_profile_artifacts(struct request *q); /* the run folder may not exist yet */
void api_profile_events(struct request *q);
void api_get_report_summary(struct request *q); /* GET /api/v1/reports/{run_id} */

#endif
