/* Help texts. All functions return an exit status. */
#ifndef CMD_HELP_H
#define CMD_HELP_H

#include <stdio.h>

#include "cmd/command.h"

int help_all(FILE *to, const struct opt *global, size_t nglobal);
int help_family(FILE *to, const char *word); /* commands of a family */
int help_command(const struct command *c, const struct opt *global, size_t nglobal);
int help_version(void);

#endif
