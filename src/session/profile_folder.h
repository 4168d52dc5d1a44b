/* The run folder of `inferprof profile` up to the start of the engine, and what is added to it afterwards:
 * config.yaml, env.json, inputs.yaml, trace/ and the log. */
#ifndef SESSION_PROFILE_FOLDER_H
#define SESSION_PROFILE_FOLDER_H

#include "session/env.h"
#include "session/profile_plan.h"
#include "session/session.h"

struct profile_folder {
    char *dir, *run_id, *trace_dir;
    char *synthetic_page; /* image for the warm-up; NULL: none */
    uint64_t started_wall_ns;
};

/* Makes the folder, opens the log in it, and extracts and hashes the inputs. Free it also after an error. */
int profile_folder_open(struct profile_folder *f, struct profile_plan *p, struct err *err);
void profile_folder_free(struct profile_folder *f);

/* Where and how the run takes place. Written before it starts, so that a killed run has it. Adds the device
 * to the environment. */
int profile_folder_write_inputs(const struct profile_folder *f, const struct profile_plan *p,
                                const char *config_yaml, struct env *env, struct err *err);
/* env.json again, with what is known only after the engine has run. */
int profile_folder_add_engine(const struct profile_folder *f, const struct profile_plan *p,
                              const struct session_result *result, struct env *env, struct err *err);

/* Warns about inputs whose content differs from that of the older run. */
void profile_folder_compare_inputs(const char *old_run, const struct dataset *d);

#endif
