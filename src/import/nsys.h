/* Reads an Nsight Systems SQLite export into a sink. Tables and columns differ by version and capture:
 * each is looked up, and what is missing is unknown. */
#ifndef IMPORT_NSYS_H
#define IMPORT_NSYS_H

#include "base/err.h"
#include "import/sink.h"

struct sqlite3;

/* name: what messages call the file. */
int nsys_import(const char *path, const char *name, struct sink *sink, struct err *err);
int nsys_import_db(struct sqlite3 *db, const char *name, struct sink *sink, struct err *err);
/* Runs `nsys export` on a .nsys-rep; its talk goes to the log. -1: err says why, most likely that nsys is
 * not installed. *interrupted: the signal that came meanwhile and has ended nsys; 0: none. */
int nsys_export_report(const char *path, const char *database, const char *log, int *interrupted,
                       struct err *err);

#endif
