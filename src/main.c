/* The table of subcommands. */
#include "base/util.h"
#include "cmd/commands.h"

const struct command *const commands[] = {
    &cmd_profile,   &cmd_run,        &cmd_report,      &cmd_compare,    &cmd_runs,
    &cmd_runs_show, &cmd_runs_tag,   &cmd_runs_delete, &cmd_serve,      &cmd_serve_token,
    &cmd_push,      &cmd_export,     &cmd_static,      &cmd_import,     &cmd_engine,
    &cmd_stats,     &cmd_trace_info, &cmd_trace_dump,  &cmd_trace_cut,  &cmd_doctor,
    &cmd_calibrate, &cmd_digest,     &cmd_merge,       &cmd_completion, &cmd_man,
};
const size_t commands_n = COUNTOF(commands);

int main(int argc, char **argv) { return command_main(argc, argv); }
