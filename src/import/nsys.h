/* Reads an Nsight Systems SQLite export into a sink. Tables and columns differ by version and capture: each is looked
 * up, and what is missing is unknown. */
#ifndef IMPORT_NSYS_H
#define IMPORT_NSYS_H

#include "base/err.h"
#include "import/sink.h"

struct sqlite3;

int nsys_import(const char *path, struct sink *sink, struct err *err);
int nsys_import_db(struct sqlite3 *db, const char *name, struct sink *sink, struct err *err);
/* Runs `nsys export` on a .nsys-rep; the path of the SQLite file, which the caller unlinks and frees. NULL: err says
 * why, most likely that nsys is not installed. */
char *nsys_export_report(const char *path, struct err *err);

#endif
