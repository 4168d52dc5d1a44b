/* Tables and migrations. */
#ifndef HISTORY_SCHEMA_H
#define HISTORY_SCHEMA_H

#include "history/database.h"

/* Creates or migrates the tables. Fails if a newer version of inferprof wrote the database. Several processes
 * may call it at once. */
int schema_prepare(struct database *db, struct err *err);

#endif
