/* Reads an Nsight Systems SQLite export into a sink. Tables and columns differ by version and capture;
 * missing values are unknown. */
#ifndef IMPORT_NSYS_H
#define IMPORT_NSYS_H

#include "base/err.h"
#include "import/format.h"
#include "import/sink.h"

struct sqlite3;
extern const struct import_format nsys_sqlite_format, nsys_report_format; /* nsys_formats.c */

/* `name`: file name for messages */
int nsys_import(const char *path, const char *name, struct sink *sink, struct err *err);
int nsys_import_db(struct sqlite3 *db, const char *name, struct sink *sink, struct err *err);
/* Runs `nsys export` on a .nsys-rep, with its output in `log`. *interrupted: the signal that stopped nsys; 0:
 * none. */
int nsys_export_report(const char *path, const char *database, const char *log, int *interrupted,
                       struct err *err);

#endif
