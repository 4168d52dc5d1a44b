/* The plan of `inferprof profile`. It is checked before any work is done, and all errors are reported
 * together. */
#ifndef SESSION_PROFILE_PLAN_H
#define SESSION_PROFILE_PLAN_H

#include "base/strlist.h"
#include "base/strbuf.h"
#include "conf/compose.h"
#include "conf/settings.h"
#include "llm/model.h"
#include "session/dataset.h"
#include "session/device.h"
#include "session/nvml.h"

struct profile_plan {
    struct conf *conf; /* borrowed */
    bool settings_ok;  /* every key is known and has a valid value; otherwise nothing below is valid */
    struct settings s;
    struct nvml_inventory inventory;
    bool has_nvml;
    struct device_choice device;
    struct dataset dataset;
    struct llm_model *model; /* NULL: the costs of the model are unknown; model_note contains the reason */
    struct err model_note;
    char *model_name; /* for titles and folders */
    char **argv;      /* of the engine, NULL-terminated */
};

void profile_plan_open(struct profile_plan *p, struct conf *conf, struct strlist *errors);
/* Runs the checks that take seconds, for --dry-run: imports the Python packages that engine hf needs. */
void profile_plan_check_engine(const struct profile_plan *p, struct strlist *errors);
void profile_plan_close(struct profile_plan *p);
/* writes model, engine and device, the first lines of profile_plan_text() */
void profile_plan_engine_text(const struct profile_plan *p, struct strbuf *out);
void profile_plan_text(const struct profile_plan *p, struct strbuf *out); /* for --dry-run */

#endif
