/* Names of the JSON documents, "inferprof.DOCUMENT/VERSION", in their member `schema`. The version increases
 * when a member is removed or changes its meaning. schemas/DOCUMENT.schema.json describes each document. */
#pragma once

#define SCHEMA_BATCHES "inferprof.batches/1"
#define SCHEMA_CALIBRATE "inferprof.calibrate/1"
#define SCHEMA_COMPARE "inferprof.compare/2"
#define SCHEMA_DIGEST "inferprof.digest/1"
#define SCHEMA_DOCTOR "inferprof.doctor/1"
#define SCHEMA_ENV "inferprof.env/1"
#define SCHEMA_FINDINGS "inferprof.findings/2"
#define SCHEMA_GPUS "inferprof.gpus/1"
#define SCHEMA_LINKS "inferprof.links/1"
#define SCHEMA_RANKS "inferprof.ranks/1"
#define SCHEMA_METRICS "inferprof.metrics/2"
#define SCHEMA_NCU "inferprof.ncu/1"
#define SCHEMA_RANK "inferprof.rank/1"
#define SCHEMA_RUN "inferprof.run/1"
#define SCHEMA_RUNS "inferprof.runs/1"
#define SCHEMA_STATIC "inferprof.static/1"
#define SCHEMA_STATIC_COMPUTE "inferprof.static_compute/1"
#define SCHEMA_STATIC_GPUS "inferprof.static_gpus/1"
#define SCHEMA_STATS "inferprof.stats/1"
#define SCHEMA_TRACE_INFO "inferprof.trace_info/1"

/* Returns the version in `text`, or 0 if `text` is not a name of the document `schema`. */
unsigned schema_version(const char *text, const char *schema);
