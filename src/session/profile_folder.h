/* The run folder of `inferprof profile`: config.yaml, env.json, inputs.yaml, trace/, the log, and images that
 * are extracted or generated. Created before the engine starts; env.json is completed afterwards. */
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

/* Creates the folder, opens the log in it, extracts and hashes the inputs, and writes the synthetic page if
 * the settings ask for one. profile_folder_free() is required even after an error. */
int profile_folder_open(struct profile_folder *f, struct profile_plan *p, struct err *err);
void profile_folder_free(struct profile_folder *f);

/* Writes config.yaml, env.json and inputs.yaml. Called before the run starts, so that the files exist even if
 * the run is killed. Adds the device and the model to the environment. */
int profile_folder_write_inputs(const struct profile_folder *f, const struct profile_plan *p,
                                const char *config_yaml, struct env *env, struct err *err);
/* Rewrites env.json with information that is known only after the engine has run. */
int profile_folder_add_engine(const struct profile_folder *f, const struct profile_plan *p,
                              const struct session_result *result, struct env *env, struct err *err);

/* Warns about inputs whose content differs from the older run, or if the older run's inputs.yaml has no
 * list. */
void profile_folder_compare_inputs(const char *old_run, const struct dataset *d);

#endif
