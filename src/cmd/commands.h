/* The rows of all commands. */
#ifndef CMD_COMMANDS_H
#define CMD_COMMANDS_H

#include "cmd/command.h"

extern const struct command cmd_calibrate;
extern const struct command cmd_compare;
extern const struct command cmd_completion;
extern const struct command cmd_digest;
extern const struct command cmd_doctor;
extern const struct command cmd_engine;
extern const struct command cmd_export;
extern const struct command cmd_import;
extern const struct command cmd_man;
extern const struct command cmd_merge;
extern const struct command cmd_profile;
extern const struct command cmd_push;
extern const struct command cmd_report;
extern const struct command cmd_run;
extern const struct command cmd_runs;
extern const struct command cmd_runs_delete;
extern const struct command cmd_runs_show;
extern const struct command cmd_runs_tag;
extern const struct command cmd_serve;
extern const struct command cmd_serve_token;
extern const struct command cmd_static;
extern const struct command cmd_stats;
extern const struct command cmd_trace_cut;
extern const struct command cmd_trace_dump;
extern const struct command cmd_trace_info;

#endif
