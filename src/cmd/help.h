/* Help texts, generated from the command and option tables. All return an exit status. */
#ifndef CMD_HELP_H
#define CMD_HELP_H

#include <stdio.h>

#include "cmd/command.h"

int help_all(FILE *to, const struct opt *global, size_t nglobal);
int help_family(FILE *to, const char *word); /* lists the commands of the family `word` */
int help_command(const struct command *c, const struct opt *global, size_t nglobal);
int help_version(void);

#endif
