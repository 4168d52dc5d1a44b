/* The tables of the database of runs, and their migrations. */
#ifndef HISTORY_SCHEMA_H
#define HISTORY_SCHEMA_H

#include "history/database.h"

/* Creates the tables, or runs the migrations that an older database lacks. Fails if the database was
 * written by a newer version of inferprof. Several processes may call it at once. */
int schema_prepare(struct database *db, struct err *err);

#endif
