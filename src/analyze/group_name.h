/* Finds the purpose of a process group in its name. */
#ifndef ANALYZE_GROUP_NAME_H
#define ANALYZE_GROUP_NAME_H

enum group_kind { GROUP_TENSOR, GROUP_PIPELINE, GROUP_EXPERT, GROUP_DATA, GROUP_CONTEXT, GROUP_KINDS };

const char *group_kind_name(enum group_kind kind); /* "tp" */
/* Returns GROUP_KINDS if the name does not show how the model is shared, as for the default group or a union
 * of two groups. */
enum group_kind group_kind_of(const char *name);

#endif
